"""Commands in answers: what a shell would do with the line."""

from __future__ import annotations

import pytest

from cannlab.course import mutations
from cannlab.course.stand_in import StandIn


@pytest.mark.parametrize(
    "line", ["atc --input_shape=a:1;b:2", "atc --help > log", "atc --help | head", "atc --help && x"]
)
def test_what_ends_a_command_in_a_shell_is_refused_outside_quotes(line: str) -> None:
    with pytest.raises(PermissionError, match="outside quotes"):
        StandIn({}).system(line)


def test_a_semicolon_in_quotes_is_part_of_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    StandIn(names).system(
        'atc --model=missing.onnx --framework=5 --output=x --soc_version=910B1 --input_shape="a:1;b:2"'
    )
    assert names["_exit_code"] == 255
    assert "[910B1] of --soc_version" in capsys.readouterr().out


def test_words_of_a_command_behind_an_exclamation_mark_are_mutated() -> None:
    source = '!atc --model=a.onnx --out_nodes="pool:0"\nx = 1'
    plain = mutations.plain(source)
    assert plain.splitlines()[0] == """get_ipython().system('atc --model=a.onnx --out_nodes="pool:0"')"""
    words = [mutant.after for mutant in mutations.mutants(plain) if mutant.kind == "command word"]
    assert "get_ipython().system('atc --model=a.onnx')" in words
