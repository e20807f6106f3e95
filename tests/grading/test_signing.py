"""Keys, signatures, and what verification finds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from graded_class import Graded

from cannlab.course.grading import signing
from cannlab.errors import CannlabError

pytest.importorskip("cryptography", reason="signing needs the package cryptography")


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair of keys; gives the secret one's path."""
    path = tmp_path_factory.mktemp("keys") / "key"
    signing.new_key(path)
    return path


@pytest.fixture
def signed(graded: Graded, key: Path, tmp_path: Path) -> Path:
    """A signed copy of the graded class."""
    shutil.copytree(graded.out, tmp_path / "out")
    signing.sign(tmp_path / "out", signing.load_key(key))
    return tmp_path / "out"


def _public(key: Path) -> Path:
    return key.with_name("key.pub")


def test_what_was_signed_verifies_and_signs_always_the_same(signed: Path, key: Path) -> None:
    assert signing.verify(signed, _public(key)) == []
    before = (signed / "grading.sig").read_bytes()
    signing.sign(signed, signing.load_key(key))
    assert (signed / "grading.sig").read_bytes() == before


def test_changed_missing_and_added_files_are_named(signed: Path, key: Path) -> None:
    report = signed / "learners" / "wrong.json"
    report.write_text(report.read_text().replace('"points": 1', '"points": 3', 1))
    (signed / "moodle.csv").unlink()
    (signed / "learners" / "friend.html").write_text("100 %")
    assert signing.verify(signed, _public(key)) == [
        "learners/wrong.json was changed.",
        "moodle.csv is missing.",
        "learners/friend.html was added.",
    ]


def test_a_changed_list_does_not_verify(signed: Path, key: Path) -> None:
    book = signed / "grading.json"
    book.write_text(book.read_text().replace('"seed": "secret"', '"seed": "other"'))
    assert signing.verify(signed, _public(key)) == ["grading.json was changed after it was signed."]


def test_another_key_and_no_signature(signed: Path, key: Path, tmp_path: Path) -> None:
    other = signing.new_key(tmp_path / "other")
    (found,) = signing.verify(signed, other)
    assert "another key" in found
    (signed / "grading.sig").write_text("{}")
    assert signing.verify(signed, _public(key)) == ["grading.sig cannot be read."]
    (signed / "grading.sig").unlink()
    (found,) = signing.verify(signed, _public(key))
    assert "not signed" in found


def test_keys_are_kept_safe_and_never_overwritten(key: Path, tmp_path: Path) -> None:
    assert os.stat(key).st_mode & 0o777 == 0o600
    before = key.read_bytes()
    with pytest.raises(CannlabError, match="never overwritten"):
        signing.new_key(key)
    assert key.read_bytes() == before
    (tmp_path / "half.pub").write_text("x")
    with pytest.raises(CannlabError):
        signing.new_key(tmp_path / "half")
    assert not (tmp_path / "half").exists()


def test_what_is_no_key_is_said(key: Path, tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    for wrong in (tmp_path / "junk", tmp_path / "none", _public(key)):
        with pytest.raises(CannlabError) as error:
            signing.load_key(wrong)
        assert error.value.diagnosis.rule == "grading.key"
    for wrong in (tmp_path / "junk", tmp_path / "none", key):
        with pytest.raises(CannlabError) as error:
            signing.load_public(wrong)
        assert error.value.diagnosis.rule == "grading.key"
