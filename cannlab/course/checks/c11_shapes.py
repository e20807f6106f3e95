"""Checks of 11_shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cannlab.course.spec import (
    CaseRun,
    Check,
    File,
    Misconception,
    Sign,
    all_codes_zero,
    allclose,
    call,
    called,
    change,
    command,
    converted,
    ends,
    everything_freed,
    exit_status,
    fault,
    file_made,
    gives,
    got,
    how_many_right,
    model_bytes,
    om_for_chip,
    option,
    raises,
    read,
    require,
    sign,
    source,
    unmet,
)
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from numpy.random import Generator

    from cannlab.course.spec.requirements import Requirement
    from cannlab.om import OmModel

Array = NDArray[Any]
SOC = "Ascend310B4"

# -- models ------------------------------------------------------------------------------------------


def network(
    name: str, channels: int, nodes: list[Any], weights: Mapping[str, Array], output: tuple[str, list[int | str]]
) -> bytes:
    """A model with one input (n, channels, h, w), all but the channels open."""
    return model_bytes(nodes, {name: ["n", channels, "h", "w"]}, dict([output]), weights)


@cache
def classifier(name: str, channels: int, classes: int) -> bytes:
    """Convolution, Relu, mean over the picture, linear layer: any batch, any size."""
    from onnx import helper

    rng = np.random.default_rng(channels * 100 + classes)
    nodes = [
        helper.make_node("Conv", [name, "w", "b"], ["a"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "v", "c"], ["scores"], "fc"),
    ]
    weights = {
        "w": rng.standard_normal((32, channels, 3, 3)) / 2,
        "b": rng.standard_normal(32),
        "v": rng.standard_normal((32, classes)),
        "c": rng.standard_normal(classes),
    }
    return network(name, channels, nodes, weights, ("scores", ["n", classes]))


@cache
def edge_marker() -> bytes:
    """One convolution with two filters, and Relu."""
    from onnx import helper

    rng = np.random.default_rng(5)
    nodes = [
        helper.make_node("Conv", ["picture", "w"], ["a"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["marked"], "relu"),
    ]
    return network("picture", 1, nodes, {"w": rng.standard_normal((2, 1, 3, 3))}, ("marked", ["n", 2, "h", "w"]))


@cache
def om_bytes(model: bytes, *options: str) -> bytes:
    """The om that atc makes of a model for the lesson's chip."""
    with converted(model, SOC, "--export_compile_stat=0", *options) as folder:
        return folder.joinpath("net.om").read_bytes()


@cache
def read_om(data: bytes) -> OmModel:
    from cannlab import om

    return om.read(data)


def gears_of(file: File) -> list[tuple[int, ...]]:
    """The gears of an om, in its order."""
    return [variant.values for variant in read_om(file.data).variants]


def run_at(file: File, gear: tuple[int, ...], array: Array) -> Array:
    """The first output of an om at a gear."""
    from cannlab.machine.executor import Model

    gears = gears_of(file)
    result: Array = Model(read_om(file.data)).run([array, np.array(gear, np.int32)], gear=gears.index(gear))[0][0]
    return result


def model_ns(case: CaseRun) -> int:
    """How long the model was busy in this case."""
    if case.record is None:
        return 0
    rows = [row for row in case.record.tasks.rows() if row["kind"] == TaskKind.MODEL]
    return sum(row["end"] - row["start"] for row in rows)


def ns_at(file: File, gears: Sequence[tuple[int, ...]]) -> int:
    """How long the om takes for runs at these gears."""
    from cannlab import soc
    from cannlab.machine import cost

    om, every = read_om(file.data), gears_of(file)
    return sum(cost.model_ns(om.at(every.index(gear)), soc.get(SOC)) for gear in gears)


def right_gears(plan: Callable[..., Sequence[tuple[int, ...]]], do: str) -> Requirement:
    """The model was busy as long as it is at the gears that ``plan`` names from the inputs, give or take 1 %."""
    return require(
        "gears",
        lambda case: model_ns(case) <= 1.01 * ns_at(case.inputs["om_path"], plan(**case.inputs)),
        holds="the model was busy no longer than the right gears take",
        fails="the model was busy longer than the right gears take",
        do=do,
    )


# -- 1 a command with gears --------------------------------------------------------------------------


def draw_command(rng: Generator, soc: str) -> dict[str, Any]:
    name = str(rng.choice(["image", "frames", "x.1", "net_in"]))
    channels, batch = (int(n) for n in rng.permutation([1, 3, 4, 2])[:2])
    sides = rng.permutation(np.arange(2, 12) * 16)
    sizes = [(int(sides[2 * n]), int(sides[2 * n + 1])) for n in range(int(rng.integers(3, 5)))]
    model = classifier(name, channels, 4)
    return {
        "model": File(f"detector{rng.integers(10, 99)}.onnx", model),
        "input_name": name,
        "channels": channels,
        "batch": batch,
        "sizes": sizes,
        "soc": soc,
    }


def made_om(case: CaseRun) -> OmModel:
    return read_om(case.files["pictures.om"])


def has(name: str) -> Sign:
    return option(name, lambda value: True)


def ran() -> Sign:
    """There was a command."""
    return sign(lambda attempt: any(case.arguments for case in attempt.cases))


def first_shape(value: str) -> list[str]:
    """The dims behind the name, as text."""
    return value.rpartition(":")[2].split(",")


COMMAND = Check(
    "11_shapes.command",
    run=command("command", program="atc", files=("pictures.om",)),
    draw=draw_command,
    sizes=("Ascend310B4", "Ascend910B1", "Ascend310P3"),
    must=(
        exit_status(0),
        file_made("pictures.om"),
        om_for_chip("pictures.om"),
        require(
            "batch",
            lambda case: list(made_om(case).inputs[0].dims[:2]) == [case.inputs["batch"], case.inputs["channels"]],
            holds="batch and channels are the numbers that were asked for",
            fails="batch or channels differ, or there is no om",
            do="Write batch and channels as numbers in --input_shape.",
        ),
        require(
            "gears",
            lambda case: sorted(v.values for v in made_om(case).variants) == sorted(map(tuple, case.inputs["sizes"])),
            holds="there is one gear for each size",
            fails="the gears are not the sizes that were asked for",
            do="Give --dynamic_image_size a pair height,width for each size.",
        ),
    ),
    misconceptions=(
        Misconception(
            "open_batch",
            change("{batch},{channels},-1,-1", "-1,{channels},-1,-1"),
            option("input_shape", lambda value: first_shape(value)[:1] == ["-1"]),
            what="the batch is open in --input_shape.",
            why="Size gears give height and width only; nobody would say how large the batch is.",
            do="Write the number batch in the first place.",
        ),
        Misconception(
            "no_open_dims",
            change("{batch},{channels},-1,-1", "{batch},{channels},{sizes[0][0]},{sizes[0][1]}"),
            option("input_shape", lambda value: "-1" not in value),
            what="--input_shape leaves nothing open.",
            why="A gear gives a number to a -1; without one there is nothing to choose.",
            do="Write -1 for height and -1 for width.",
        ),
        Misconception(
            "list_as_printed",
            change('";".join(f"{h},{w}" for h, w in sizes)', 'str(sizes).replace(" ", "")'),
            option("dynamic_image_size", lambda value: "(" in value or "[" in value),
            what="the option holds the list as Python prints it.",
            why="atc knows no brackets: it wants h,w;h,w.",
            do='Write ";".join(f"{h},{w}" for h, w in sizes).',
        ),
        Misconception(
            "no_quotes",
            change('="{gears}"', "={gears}"),
            option("dynamic_image_size", lambda value: ";" not in value) & source(r"';'"),
            what="the list of gears stands without quotes.",
            why="Outside quotes a ; ends the command in a shell, so atc sees the first gear only.",
            do='Put double quotes around the value: --dynamic_image_size="{gears}".',
        ),
        Misconception(
            "comma_everywhere",
            change('";".join(f"{h},{w}"', '",".join(f"{h},{w}"'),
            option("dynamic_image_size", lambda value: ";" not in value),
            what="the sizes are separated by commas, so atc reads one gear with many numbers.",
            why="A comma stands between height and width, a semicolon between two gears.",
            do='Join the pairs with ";".',
        ),
        Misconception(
            "with_an_x",
            change('f"{h},{w}"', 'f"{h}x{w}"'),
            option("dynamic_image_size", lambda value: "x" in value or "*" in value),
            what="a size is written like 64x96.",
            why="atc reads numbers with a comma between them.",
            do='Write f"{h},{w}".',
        ),
        Misconception(
            "width_first",
            change('f"{h},{w}"', 'f"{w},{h}"'),
            unmet("gears") & ~unmet("file_made") & has("dynamic_image_size") & ~has("dynamic_dims"),
            what="the gears are not the sizes; each pair is turned round, or a size is missing.",
            why="The order is that of the tensor: n,c,h,w, so height first, and every size needs its gear.",
            do='Write f"{h},{w}" for every (h, w) in sizes.',
        ),
        Misconception(
            "dims_without_format",
            change("--dynamic_image_size", "--dynamic_dims"),
            has("dynamic_dims") & ~option("input_format", lambda value: value == "ND"),
            what="--dynamic_dims stands without --input_format=ND.",
            why="Gears of any dimensions know nothing of a layout, and atc insists that you say so.",
            do="Take --dynamic_image_size, which is made for height and width.",
        ),
        Misconception(
            "batch_gears",
            change('--dynamic_image_size="{gears}"', '--dynamic_batch_size="1,2,4"'),
            has("dynamic_batch_size"),
            what="the gears are batches.",
            why="The batch is always the same here; height and width change.",
            do="Take --dynamic_image_size.",
        ),
        Misconception(
            "no_gears",
            change(' --dynamic_image_size="{gears}"', ""),
            ran() & ~has("dynamic_image_size") & ~has("dynamic_dims"),
            what="no gears are given, so the -1 asks for kernels that learn the shape when they run.",
            why="The 310B has none (E10055), and elsewhere you get a range: slower, and another program around it.",
            do="Add --dynamic_image_size with the list of sizes.",
        ),
    ),
)

# -- 2 which gear runs -------------------------------------------------------------------------------


def draw_predict(rng: Generator, size: None) -> dict[str, Any]:
    while True:
        gears = [int(n) for n in rng.permutation(rng.choice([1, 2, 3, 4, 6, 8, 12, 16], 4, replace=False))]
        low, middle, high, _ = sorted(gears)
        one, other = (int(n) for n in rng.permutation([low, middle, high])[:2])
        # Rounding the missing size up gives neither the gear that was on nor the largest.
        missing = [n for n in range(low + 1, high) if n not in gears and next_larger(one, n, gears) != one]
        if missing:
            break
    steps = ["run", f"set {one}", "run", "run", f"set {rng.choice(missing)}", "run"]
    late = [f"set {other} at index 0", "set 0"]
    steps += [late[int(rng.integers(2))], f"set {other}", "run"]
    return {"gears": gears, "steps": steps}


def walk(
    gears: list[int],
    steps: list[str],
    *,
    default: Callable[[list[int]], Any] = max,
    missing: int = 145013,
    zero: int = 100000,
    index: int = 100000,
    after_failure: Callable[[int, int, list[int]], int] = lambda now, asked, gears: now,
    forget: bool = False,
) -> list[Any]:
    """What the steps answer; the keywords are ways to be wrong."""
    answers: list[Any] = []
    now = default(gears)
    for step in steps:
        words = step.split()
        if words[0] == "run":
            answers.append(now)
            now = default(gears) if forget else now
            continue
        asked = int(words[1])
        if "index" in words:
            answers.append(index)
        elif asked == 0:
            answers.append(zero)
        elif asked not in gears:
            answers.append(missing)
            now = after_failure(now, asked, gears)
        else:
            answers.append(0)
            now = asked
    return answers


def first_of(answers: Any) -> int:
    """The answer to the first step; -1 if it is no number."""
    first = answers[0] if isinstance(answers, list) and answers else None
    return first if isinstance(first, int) else -1


def next_larger(now: int, asked: int, gears: list[int]) -> int:
    return min(gear for gear in gears if gear > asked)


def takes_missing(result: Any, gears: list[int], steps: list[str]) -> bool:
    """A set of a size that is no gear is said to work."""
    asked = [[int(word) for word in step.split()[1:2]] for step in steps]
    return any(
        size and size[0] not in {0, *gears} and answer == 0 for size, answer in zip(asked, result or [], strict=False)
    )


PREDICT = Check(
    "11_shapes.predict",
    run=read("answers"),
    draw=draw_predict,
    reference=walk,
    must=(how_many_right("answers are"),),
    misconceptions=(
        Misconception(
            "first_run_fails",
            change("max(gears)", "145013"),
            got(lambda result, gears, steps: first_of(result) > max(gears)),
            what="you expect an error of a run before any set.",
            why="Nothing is checked: the buffer of the added input holds no gear, and the largest one runs.",
            do="Begin with the largest gear.",
        ),
        Misconception(
            "smallest_first",
            change("max(gears)", "min(gears)"),
            got(lambda result, gears, steps: first_of(result) in gears and first_of(result) != max(gears)),
            what="you let another gear than the largest run before any set.",
            why="Where the buffer names no gear, the largest one runs, wherever it stands in the list.",
            do="Begin with max(gears).",
        ),
        Misconception(
            "rounds_up",
            change("answers.append(145013)", "now = min(g for g in gears if g > int(words[1])); answers.append(0)"),
            got(takes_missing),
            what="you let pyACL take the next larger gear by itself.",
            why="A size that is no gear is refused; taking the next larger one, with padding, is the program's work.",
            do="Answer 145013, and keep the gear that was on.",
        ),
        Misconception(
            "refused_but_rounded",
            change(
                "answers.append(145013)", "answers.append(145013); now = min(g for g in gears if g > int(words[1]))"
            ),
            gives(lambda gears, steps: walk(gears, steps, after_failure=next_larger)),
            what="after a refused set you let the next larger gear run.",
            why="A call that fails writes nothing.",
            do="Keep the gear of the last successful set.",
        ),
        Misconception(
            "failure_resets",
            change("answers.append(145013)", "answers.append(145013); now = max(gears)"),
            gives(lambda gears, steps: walk(gears, steps, after_failure=lambda now, asked, g: max(g))),
            what="after a refused set you go back to the largest gear.",
            why="A call that fails writes nothing; the buffer still names the gear of before.",
            do="Keep the gear of the last successful set.",
        ),
        Misconception(
            "each_run_resets",
            change("answers.append(now)", "answers.append(now); now = max(gears)"),
            gives(lambda gears, steps: walk(gears, steps, forget=True)),
            what="you let every run forget its gear.",
            why="The gear lies in the dataset's buffer, and a run does not change its inputs.",
            do="Keep the gear until the next successful set.",
        ),
        Misconception(
            "one_code_for_all",
            change("answers.append(100000)", "answers.append(145013)"),
            gives(lambda gears, steps: walk(gears, steps, zero=145013, index=145013)),
            what="you give 145013 for the size 0 or for a wrong index.",
            why="Both are bad arguments (100000) and are refused before the list of gears is looked at.",
            do="Answer 100000 for those two.",
        ),
        Misconception(
            "batch_without_code",
            change(
                "now = int(words[1])\n        answers.append(0)", "now = int(words[1])\n        answers.append(now)"
            ),
            got(
                lambda result, gears, steps: any(
                    step.startswith("set") and answer in gears
                    for step, answer in zip(steps, result or [], strict=False)
                )
            ),
            what="for a set you give the size, not the return code.",
            why="set_dynamic_batch_size returns a code, 0 when it worked; the size shows in the next run.",
            do="Answer 0 for a set that works.",
        ),
    ),
)

# -- 3 any number of images --------------------------------------------------------------------------


def draw_serve(rng: Generator, size: tuple[tuple[int, ...], int, int]) -> dict[str, Any]:
    gears, count, classes = size
    dims = (3, 24, 40)
    shape = f"--input_shape=image:-1,{','.join(map(str, dims))}"
    model = om_bytes(classifier("image", 3, classes), shape, f"--dynamic_batch_size={','.join(map(str, gears))}")
    return {
        "om_path": File("net.om", model),
        "images": rng.standard_normal((count, *dims)).astype(np.float32),
    }


def scores_of(om_path: File, images: Array) -> Array:
    """The scores of all images."""
    largest = max(gears_of(om_path))
    rows = []
    for first in range(0, len(images), largest[0]):
        full = np.zeros((*largest, *images.shape[1:]), np.float32)
        full[: len(images) - first] = images[first : first + largest[0]]
        rows.append(run_at(om_path, largest, full))
    return np.concatenate(rows)[: len(images)]


def batches_for(om_path: File, images: Array) -> list[tuple[int, ...]]:
    """The gears of the right runs."""
    gears = gears_of(om_path)
    full, rest = divmod(len(images), max(gears)[0])
    return [max(gears)] * full + ([min(gear for gear in gears if gear[0] >= rest)] if rest else [])


def rows_of(result: Any) -> int:
    """How many rows a table of scores has; -1 if it is none."""
    return len(result) if isinstance(result, np.ndarray) and result.ndim == 2 else -1


SERVE = Check(
    "11_shapes.serve",
    run=call("classify"),
    draw=draw_serve,
    # Exactly a gear; less than every gear; between two; the largest and a rest; twice the largest.
    sizes=(((8, 1, 4), 4, 5), ((4, 8, 2), 1, 3), ((8, 1, 4), 6, 5), ((2, 6, 3), 8, 4), ((8, 2, 4), 16, 6)),
    reference=scores_of,
    compare=allclose(rtol=1e-2, atol=1e-2),
    must=(
        called("acl.mdl.set_dynamic_batch_size"),
        right_gears(batches_for, "Full runs of the largest gear, then the smallest gear that holds the rest."),
        called("acl.finalize"),
        everything_freed(),
        all_codes_zero(),
    ),
    misconceptions=(
        Misconception(
            "index_of_the_image",
            change("index, ret = acl.mdl.get_input_index_by_name(model.desc, GEAR)\n    ok(ret)", "index = 0"),
            fault="model.gear_index",
        ),
        Misconception(
            "the_rest_as_gear",
            change("min([g for g in gears if g >= rest] or [max(gears)])", "min(rest, max(gears))"),
            fault="model.no_gear",
        ),
        Misconception(
            "never_set",
            change("        ok(acl.mdl.set_dynamic_batch_size(model.id, model.inputs, index, gear))\n", ""),
            unmet("acl.mdl.set_dynamic_batch_size"),
            what="no gear was set.",
            why="Then the largest one runs each time: right, and slow.",
            do="Call acl.mdl.set_dynamic_batch_size before every run.",
        ),
        Misconception(
            "set_too_late",
            change(
                "        ok(acl.mdl.set_dynamic_batch_size(model.id, model.inputs, index, gear))\n",
                "",
                "        model.execute()\n",
                "        model.execute()\n"
                "        ok(acl.mdl.set_dynamic_batch_size(model.id, model.inputs, index, gear))\n",
            ),
            sign(lambda attempt: any(late(case) for case in attempt.cases)),
            what="the gear is set after the run that it was meant for.",
            why="The call writes into an input, and the run reads its inputs when it starts.",
            do="Call set_dynamic_batch_size before execute.",
        ),
        Misconception(
            "smallest_always",
            change("min([g for g in gears if g >= rest] or [max(gears)])", "min(gears)"),
            unmet("gears") & sign(lambda attempt: model_runs(attempt.cases[-1]) > 4),
            what="you use a small gear again and again.",
            why="Every run has a fixed cost; one run of a large gear pays it once.",
            do="Use the largest gear while more images are left than it holds.",
        ),
        Misconception(
            "last_is_largest",
            change(
                "min([g for g in gears if g >= rest] or [max(gears)])",
                "gears[-1] if rest >= gears[-1] else min(g for g in gears if g >= rest)",
            ),
            unmet("gears") & source(r"gears\[(-1|0)\]") & ~source(r"sort"),
            what="you take the gear at one end of the list for the largest (or smallest).",
            why="The gears come in no order: the last one may be any of them.",
            do="Use max(gears) and min(...), or sort the list first.",
        ),
        Misconception(
            "largest_that_is_full",
            change(
                "min([g for g in gears if g >= rest] or [max(gears)])",
                "max([g for g in gears if g <= rest] or [min(gears)])",
            ),
            unmet("gears") & sign(lambda attempt: model_runs(attempt.cases[2]) > 1),
            what="you fill the rest with several full gears.",
            why="6 images are one run of gear 8, or three runs of 4, 1 and 1: three times the fixed cost.",
            do="Take the smallest gear that holds the rest, and run once.",
        ),
        Misconception(
            "first_that_holds",
            change(
                "min([g for g in gears if g >= rest] or [max(gears)])",
                "next((g for g in gears if g >= rest), max(gears))",
            ),
            unmet("gears")
            & sign(lambda attempt: model_runs(attempt.cases[2]) == 1 and last_is_shorter(attempt.cases[3])),
            what="you take the first gear of the list that holds the rest.",
            why="The gears come in no order, so the first one may be the largest.",
            do="Take the minimum of those that hold it.",
        ),
        Misconception(
            "largest_always",
            change("min([g for g in gears if g >= rest] or [max(gears)])", "max(gears)"),
            unmet("gears") & sign(lambda attempt: model_runs(attempt.cases[-1]) == 2),
            what="every run uses the largest gear.",
            why="The chip computes the whole gear, also for one image.",
            do="Take the smallest gear that holds the rest.",
        ),
        Misconception(
            "whole_buffer",
            change("[: len(part)]", ""),
            got(lambda result, om_path, images: rows_of(result) > len(images)),
            what="there are more rows than images.",
            why="The buffer is as large as the largest gear; behind your rows lie those of the padding, or old ones.",
            do="Keep the first len(part) rows of each run.",
        ),
        Misconception(
            "float64_padding",
            change(
                "model.put(part)",
                "full = np.zeros((gear, *part.shape[1:]))\n        full[: len(part)] = part\n        model.put(full)",
            ),
            source(r"(zeros|ones|empty|full)\(") & ~source(r"float32|dtype"),
            what="the array with the padding is float64, and the chip reads its bytes as float32.",
            why="np.zeros makes float64 unless you name a type, and put copies the memory as it is.",
            do="Write np.zeros(shape, np.float32), or copy part alone.",
        ),
    ),
)


def calls_in_order(case: CaseRun) -> list[str]:
    if case.record is None:
        return []
    names = case.record.strings
    return [names[row["name"]] for row in sorted(case.record.calls.rows(), key=lambda row: row["start"])]


def model_runs(case: CaseRun) -> int:
    return sum(name.startswith("acl.mdl.execute") for name in calls_in_order(case))


def last_is_shorter(case: CaseRun) -> bool:
    """The last run of the model took less time than the first."""
    assert case.record is not None
    rows = [row for row in case.record.tasks.rows() if row["kind"] == TaskKind.MODEL]
    times = [row["end"] - row["start"] for row in sorted(rows, key=lambda row: row["start"])]
    return times[-1] < times[0]


def late(case: CaseRun) -> bool:
    """A model ran before the first gear was set, and one was set later."""
    short = [name for name in calls_in_order(case) if name.startswith(("acl.mdl.execute", "acl.mdl.set_dynamic"))]
    return len(short) > 1 and short[0].startswith("acl.mdl.execute") and "acl.mdl.set_dynamic_batch_size" in short


# -- 4 pictures of any size --------------------------------------------------------------------------

SIZES = ((32, 160), (160, 32), (64, 96), (96, 64), (128, 192))


def draw_pictures(rng: Generator, size: tuple[int, int]) -> dict[str, Any]:
    gears = ";".join(f"{h},{w}" for h, w in (SIZES[int(n)] for n in rng.permutation(len(SIZES))))
    model = om_bytes(edge_marker(), "--input_shape=picture:1,1,-1,-1", f"--dynamic_image_size={gears}")
    return {"om_path": File("edges.om", model), "picture": rng.standard_normal(size).astype(np.float32)}


def holding(om_path: File, picture: Array) -> tuple[int, ...]:
    """The right gear."""
    height, width = picture.shape
    fits = [gear for gear in gears_of(om_path) if gear[0] >= height and gear[1] >= width]
    return min(fits, key=lambda gear: gear[0] * gear[1])


def marked(om_path: File, picture: Array) -> Array:
    """The map of a picture."""
    return gear_map(om_path, picture)[:, : picture.shape[0], : picture.shape[1]]


def gear_map(om_path: File, picture: Array) -> Array:
    """The map of the whole gear."""
    gear = holding(om_path, picture)
    full = np.zeros((1, 1, *gear), np.float32)
    full[0, 0, : picture.shape[0], : picture.shape[1]] = picture
    return plane(run_at(om_path, gear, full))


def plane(batch: Array) -> Array:
    """The only entry of a batch."""
    return np.asarray(batch[0])


def unpadded(om_path: File, picture: Array) -> Array:
    """The picture's numbers at the front of the gear, without zeros in each row."""
    gear = holding(om_path, picture)
    full = np.zeros(gear[0] * gear[1], np.float32)
    full[: picture.size] = picture.ravel()
    return plane(run_at(om_path, gear, full.reshape(1, 1, *gear)))


def centred(om_path: File, picture: Array) -> Array:
    gear, (height, width) = holding(om_path, picture), picture.shape
    full = np.zeros((1, 1, *gear), np.float32)
    top, left = (gear[0] - height) // 2, (gear[1] - width) // 2
    full[0, 0, top : top + height, left : left + width] = picture
    return plane(run_at(om_path, gear, full))[:, :height, :width]


LOOSE = allclose(rtol=1e-2, atol=1e-2)


def fits_exactly(om_path: File, picture: Array) -> bool:
    return holding(om_path, picture) == picture.shape


PICTURES = Check(
    "11_shapes.pictures",
    run=call("edges"),
    draw=draw_pictures,
    # A gear; pictures that a flat and a square gear hold; one row; one column; more rows than the flat gear;
    # a corner more than a gear; more than a square gear; the largest less one.
    sizes=((64, 96), (20, 90), (90, 20), (1, 149), (151, 3), (36, 80), (65, 50), (97, 161), (127, 191)),
    reference=marked,
    compare=LOOSE,
    must=(
        called("acl.mdl.set_dynamic_hw_size"),
        right_gears(
            lambda om_path, picture: [holding(om_path, picture)],
            "Of the gears that hold it, take the one with the fewest pixels.",
        ),
        called("acl.finalize"),
        everything_freed(),
        all_codes_zero(),
    ),
    misconceptions=(
        Misconception(
            "by_pixels",
            change("g[0] >= height and g[1] >= width", "g[0] * g[1] >= height * width"),
            raises("ValueError", "could not broadcast"),
            what="a gear was chosen that is too short or too narrow for the picture.",
            why="32 x 160 has more pixels than 36 x 80, and does not hold it: both sides must fit.",
            do="Ask g[0] >= height and g[1] >= width.",
        ),
        Misconception(
            "width_first",
            change("where, h, w)", "where, w, h)"),
            fault("model.no_gear") & source(r"where,\s*w\w*,\s*h"),
            what="width and height are exchanged in the call that sets the gear.",
            why="Where the turned pair is a gear too (64 x 96, 96 x 64), the wrong one runs; elsewhere it is 145013.",
            do="Write ok(acl.mdl.set_dynamic_hw_size(model.id, model.inputs, where, h, w)).",
        ),
        Misconception(
            "size_of_the_picture",
            change("where, h, w)", "where, height, width)"),
            fault="model.no_gear",
        ),
        Misconception(
            "not_padded",
            change("model.put(full)", "model.put(picture.astype(np.float32))"),
            gives(
                lambda om_path, picture: unpadded(om_path, picture)[:, : picture.shape[0], : picture.shape[1]], LOOSE
            ),
            what="the picture was copied without zeros at the end of each row.",
            why="The chip reads rows of the gear's width, so your second row begins in its first one.",
            do="Put the picture into the corner of an array of zeros of shape (h, w), and copy that.",
        ),
        Misconception(
            "output_in_its_own_shape",
            change(
                "[: 2 * h * w].reshape(2, h, w)[:, :height, :width]", "[: 2 * height * width].reshape(2, height, width)"
            ),
            gives(
                lambda om_path, picture: (
                    gear_map(om_path, picture).ravel()[: 2 * picture.size].reshape(2, *picture.shape)
                ),
                LOOSE,
            ),
            what="the output was read as if it had the picture's shape.",
            why="Its rows are as long as the gear is wide, and its second map lies behind the whole first one.",
            do="Reshape to (2, h, w), then cut to height and width.",
        ),
        Misconception(
            "not_cut",
            change("[:, :height, :width]", ""),
            sign(
                lambda attempt: all(
                    isinstance(case.got, np.ndarray) and case.got.shape == (2, *holding(**case.inputs))
                    for case in attempt.cases
                )
            ),
            what="the map has the size of the gear.",
            why="The rows and columns of zeros are part of the gear, not of the picture.",
            do="Cut with [:, :height, :width].",
        ),
        Misconception(
            "centred",
            change(
                "full[:height, :width] = picture",
                "full[(h - height) // 2 :, (w - width) // 2 :][:height, :width] = picture",
            ),
            gives(centred, LOOSE),
            what="the picture was put into the middle, and the map was cut from the corner.",
            why="Where the picture lies, its map lies.",
            do="Put it into the upper left corner: full[:height, :width].",
        ),
        Misconception(
            "always_the_largest",
            change("min((g for", "max((g for"),
            unmet("gears") & ~unmet("acl.mdl.set_dynamic_hw_size"),
            what="the maps are right, from a gear that is larger than needed.",
            why="The chip computes every pixel of the gear.",
            do="Take the gear with the fewest pixels among those that hold the picture.",
        ),
        Misconception(
            "gear_not_set",
            change("    ok(acl.mdl.set_dynamic_hw_size(model.id, model.inputs, where, h, w))\n", ""),
            unmet("acl.mdl.set_dynamic_hw_size"),
            what="no gear was set.",
            why="Then the largest one runs, and reads your rows in its own width.",
            do="Call acl.mdl.set_dynamic_hw_size(model.id, model.inputs, where, h, w).",
        ),
    ),
)

# -- 5 choosing gears --------------------------------------------------------------------------------

Requests = dict[int, int]
Times = dict[int, int]


def total(requests: Requests, us: Times, gears: tuple[int, ...] | list[int]) -> int:
    """Time of all requests; a request that no gear holds costs what nobody pays."""
    cost = 0
    for size, count in requests.items():
        fits = [gear for gear in gears if gear >= size]
        cost += count * (us[min(fits)] if fits else 10**9)
    return cost


def best_gears(requests: Requests, us: Times, k: int) -> list[int]:
    """The best k gears, by dynamic programming over the sizes."""
    sizes = sorted(requests)
    # best[j]: least time of the sizes up to sizes[j] with sizes[j] a gear, and the gears
    best: list[tuple[int, tuple[int, ...]]] = [
        (us[top] * sum(requests[size] for size in sizes[: j + 1]), (top,)) for j, top in enumerate(sizes)
    ]
    for _ in range(k - 1):
        following = []
        for j, top in enumerate(sizes):
            options = [
                (best[i][0] + us[top] * sum(requests[size] for size in sizes[i + 1 : j + 1]), (*best[i][1], top))
                for i in range(j)
            ]
            following.append(min(options, default=(10**18, (top,))))
        best = following
    return list(best[-1][1])


def greedy(requests: Requests, us: Times, k: int) -> list[int]:
    """The largest first, then always the one that helps most."""
    chosen = [max(requests)]
    while len(chosen) < k:
        rest = [size for size in requests if size not in chosen]
        chosen.append(min(rest, key=lambda size: total(requests, us, [*chosen, size])))
    return sorted(chosen)


def frequent(requests: Requests, us: Times, k: int) -> list[int]:
    """The largest, and those that come most often."""
    often = sorted((size for size in requests if size != max(requests)), key=lambda size: -requests[size])
    return sorted([*often[: k - 1], max(requests)])


def frequent_once(requests: Requests, us: Times, k: int) -> list[int]:
    """The k - 1 that come most often, and the largest: fewer than k if it is one of them."""
    return sorted({*sorted(requests, key=lambda size: -requests[size])[: k - 1], max(requests)})


def most_frequent(requests: Requests, us: Times, k: int) -> list[int]:
    """Those that come most often, the largest or not."""
    return sorted(sorted(requests, key=lambda size: -requests[size])[:k])


def by_images(requests: Requests, us: Times, k: int) -> list[int]:
    """Weighed with padded images instead of time."""
    return best_gears(requests, {batch: batch for batch in us}, k)


def uncounted(requests: Requests, us: Times, k: int) -> list[int]:
    """Every size weighs the same."""
    return best_gears(dict.fromkeys(requests, 1), us, k)


def even(requests: Requests, us: Times, k: int) -> list[int]:
    """Evenly spread up to the largest."""
    return [round(max(requests) * n / k) for n in range(1, k + 1)]


def halves(requests: Requests, us: Times, k: int) -> list[int]:
    """The largest, its half, its quarter ..."""
    return sorted(max(1, max(requests) // 2**n) for n in range(k))


STRATEGIES = (greedy, frequent, most_frequent, by_images, uncounted, even, halves)
"""Plausible ways to choose; the inputs are such that each of them is wrong."""


def draw_choose(rng: Generator, size: tuple[int, int, int]) -> dict[str, Any]:
    largest, different, k = size
    while True:
        sizes = sorted(int(n) for n in rng.choice(np.arange(1, largest), different - 1, replace=False))
        sizes.append(largest)
        counts = (np.exp(rng.standard_normal(different) * 1.2) * 40).astype(int) + 1
        requests = {size: int(count) for size, count in zip(sizes, counts, strict=True)}
        requests = {size: requests[size] for size in (int(n) for n in rng.permutation(sizes))}
        # A fixed cost, and steps where one more piece of work is begun.
        steps = rng.uniform(2, 10, largest) + 60 * (np.arange(largest) % int(rng.integers(5, 9)) == 0)
        us = {n + 1: int(time) for n, time in enumerate(150 + np.cumsum(steps))}
        right = best_gears(requests, us, k)
        if k == 1 or k == different or all(wrong(requests, us, k) != right for wrong in STRATEGIES):
            return {"requests": requests, "us": us, "k": k}


def strategy(function: Callable[..., list[int]]) -> Sign:
    """Where there is a choice, the results are those of this strategy."""

    def test(attempt: Any) -> bool:
        hard = [case for case in attempt.cases if 1 < case.inputs["k"] < len(case.inputs["requests"])]
        reached = [case for case in hard if isinstance(case.got, list)]
        return bool(reached) and all(case.got == function(**case.inputs) for case in reached)

    return sign(test)


WHOLE = (
    "    *smaller, largest = sorted(requests)\n"
    "    return list(min(((*few, largest) for few in combinations(smaller, k - 1)), key=total))"
)

CHOOSE = Check(
    "11_shapes.choose",
    run=call("choose_gears"),
    draw=draw_choose,
    sizes=((16, 6, 3), (12, 5, 1), (9, 4, 4), (24, 10, 4), (60, 20, 6)),
    reference=best_gears,
    misconceptions=(
        Misconception(
            "all_batches",
            change("combinations(smaller, k - 1)", "combinations(range(1, largest), k - 1)"),
            ends("timeout") | ends("cpu"),
            what="you try every set of batches, and that takes too long.",
            why="60 batches and 6 gears make 5 million sets with the largest one fixed.",
            do="Try only batches that are sizes of requests: a gear between two sizes can always be moved down.",
        ),
        Misconception(
            "most_frequent",
            change(WHOLE, "    return sorted([*sorted(requests, key=requests.get)[-k:]])"),
            strategy(most_frequent),
            what="you take the sizes that come most often, whether the largest one is among them or not.",
            why="A request that is larger than every gear cannot run at all.",
            do="Fix max(requests) as a gear, and compare sets by their total time.",
        ),
        Misconception(
            "without_the_largest",
            change(
                "(*few, largest) for few in combinations(smaller, k - 1)", "few for few in combinations(smaller, k)"
            ),
            raises("ValueError", "empty")
            | got(lambda result, requests, us, k: isinstance(result, list) and max(requests) > max(result, default=0)),
            what="no gear holds the largest request.",
            why="It would have nowhere to run: the largest gear is never a choice.",
            do="Fix max(requests) as a gear, and choose the other k - 1.",
        ),
        Misconception(
            "frequent_and_largest",
            change(
                WHOLE,
                "    *smaller, largest = sorted(requests)\n"
                "    often = sorted(smaller, key=lambda size: -requests[size])\n"
                "    return sorted([*often[: k - 1], largest])",
            ),
            strategy(frequent) | strategy(frequent_once),
            what="you take the sizes that come most often, and the largest.",
            why="Two frequent neighbours can share one gear; a rarer size far below the next gear may waste more.",
            do="Compare the total time of whole sets.",
        ),
        Misconception(
            "greedy",
            change(
                WHOLE,
                "    chosen = [max(requests)]\n"
                "    while len(chosen) < k:\n"
                "        rest = [size for size in requests if size not in chosen]\n"
                "        chosen.append(min(rest, key=lambda size: total([*chosen, size])))\n"
                "    return sorted(chosen)",
            ),
            strategy(greedy),
            what="you add one gear after another, each time the one that helps most.",
            why="The first gear is chosen as if it stayed alone; with the second one another place would be better.",
            do="Compare whole sets of k gears.",
        ),
        Misconception(
            "padded_images",
            change("count * us[min(g for g in gears if g >= size)]", "count * min(g for g in gears if g >= size)"),
            strategy(by_images),
            what="you count computed images, not time.",
            why="A run has a fixed cost and its time grows in steps: an image more may be free, or dear.",
            do="Weigh with us[...].",
        ),
        Misconception(
            "counts_left_out",
            change("count * us[", "us["),
            strategy(uncounted),
            what="you count every size once, however often it comes.",
            why="Padding hurts as often as the request comes.",
            do="Multiply by the count.",
        ),
        Misconception(
            "evenly_spread",
            change(WHOLE, "    return [round(max(requests) * n / k) for n in range(1, k + 1)]"),
            strategy(even),
            what="you spread the gears evenly.",
            why="Requests are not spread evenly, and a gear that lies between two sizes wastes time on the lower one.",
            do="Put gears on sizes that occur, and compare the total time of sets.",
        ),
        Misconception(
            "halves",
            change(WHOLE, "    return sorted(max(1, max(requests) // 2**n) for n in range(k))"),
            strategy(halves) | source(r"2 ?\*\* ?n|// ?2"),
            what="you halve again and again.",
            why="Powers of two are a habit; your users do not ask in powers of two.",
            do="Put gears on sizes that occur, and compare the total time of sets.",
        ),
    ),
)

CHECKS = [COMMAND, PREDICT, SERVE, PICTURES, CHOOSE]
