"""Run the suite and write the table of outcomes.

python tests/conformance/run_suite.py --write            everything; writes outcomes.csv
python tests/conformance/run_suite.py --only=relu --show
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import pool
import suite
import trial

TABLE = Path(__file__).with_name("outcomes.csv")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        case: name of the case.
        opset: of the case as it is.
        as_is: result with the model as it is, and its code.
        again: opset that it was made again at ("" if its own is known, "none" if there is none).
        result: result at that opset ("" if none), and its code.
        in_table: "yes" if every operator is in the table of parsers.
        detail: of the last result.
    """

    case: str
    opset: str
    as_is: str
    as_is_code: str
    again: str
    result: str
    code: str
    in_table: str
    detail: str


def row(case: suite.Case) -> Row:
    """Try a case as it is and, if that does not give right numbers, made again as its user would."""
    inputs, _ = case.data()
    first = trial.attempt(case, case.model, inputs)
    known = "yes" if suite.in_table(case.model) else "no"
    again, best = "", first
    if known == "yes" and first.result != "right":
        outside = not suite.LOWEST <= case.opset <= suite.HIGHEST or first.result == "refused_opset"
        for opset, model, left in suite.again(case):
            second = trial.attempt(case, model, left)
            if again == "" or second.result == "right":
                again, best = opset, second
            if second.result == "right":
                break
        if again == "" and outside:
            again, best = "none", trial.Outcome("", "", "no opset of ATC has it: a newer type or attribute")
    return Row(
        case=case.name,
        opset=str(case.opset),
        as_is=first.result,
        as_is_code=first.code,
        again=again,
        result=best.result,
        code=best.code,
        in_table=known,
        detail=best.detail,
    )


def lost(text: str) -> trial.Outcome:
    return trial.Outcome(text.partition(":")[0], "", text)


def rows(cases: list[suite.Case], workers: int, seconds: float = 120) -> list[Row]:
    """All rows, in order of the cases."""

    def gone(text: str) -> Row:
        return Row("", "", text.partition(":")[0], "", "", text.partition(":")[0], "", "", text[:300])

    found = pool.run(lambda at: row(cases[at]), len(cases), gone, workers=workers, seconds=seconds)
    return [
        item if item.case else Row(case.name, *list(asdict(item).values())[1:])
        for case, item in zip(cases, found, strict=True)
    ]


def write(found: list[Row]) -> None:
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row.__dataclass_fields__)
        writer.writerows(asdict(item).values() for item in found)


def read() -> list[Row]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return [Row(**item) for item in csv.DictReader(file)]


def counts(found: list[Row]) -> Counter[str]:
    return Counter(item.result or "no such opset" for item in found)


def share(found: list[Row]) -> tuple[int, int]:
    """Right ones, and all, of the cases whose operators are all in the table at an opset that they exist at."""
    counted = [item for item in found if item.in_table == "yes" and item.again != "none" and item.result]
    return sum(item.result == "right" for item in counted), len(counted)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--kinds", default=",".join(suite.KINDS), help="parts of the suite")
    parser.add_argument("--every", type=int, default=1, help="each n-th case only")
    parser.add_argument("--workers", type=int, default=2, help="child processes at a time")
    parser.add_argument("--show", action="store_true", help="print the rows")
    parser.add_argument("--write", action="store_true", help="write outcomes.csv")
    chosen = parser.parse_args(words)
    cases = [case for case in suite.load(tuple(chosen.kinds.split(","))) if chosen.only in case.name]
    found = rows(pool.spread(cases, chosen.every), chosen.workers)
    if chosen.show:
        for item in found:
            print(",".join(asdict(item).values()))
    if chosen.write:
        write(found)
    print("as is:", dict(Counter(item.as_is for item in found)))
    print("at its best opset:", dict(counts(found)))
    right, everything = share(found)
    print(f"operators all in the table: {right} of {everything} right ({right / max(1, everything):.1%})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
