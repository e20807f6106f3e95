"""Checks of 23_project."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cannlab.course.checks.c03_model_to_om import om_bytes, scores_of
from cannlab.course.spec import (
    CaseRun,
    Check,
    File,
    Misconception,
    all_codes_zero,
    allclose,
    call,
    called,
    calls,
    change,
    everything_destroyed,
    everything_freed,
    gives,
    got,
    how_many_right,
    raises,
    read,
    require,
    sign,
    text,
    unmet,
)

if TYPE_CHECKING:
    from numpy.random import Generator

LESSON = "23_project"
Array = NDArray[Any]
Crop = tuple[str, int, int]

# -- 1 which test crops leak -------------------------------------------------------------------------


def draw_leak(rng: Generator, size: int) -> dict[str, Any]:
    """Training crops far from each other, and test crops at every sort of distance from one of them."""
    names = [str(name) for name in rng.permutation(["roof", "garden", "street"])]
    far = 6 * size
    corners = [
        (far * int(i), far * int(j)) for i, j in zip(rng.permutation(9) + 1, rng.permutation(9) + 1, strict=True)
    ]
    train: list[Crop] = [(names[k % 2], x + k, y + 2 * k) for k, (x, y) in enumerate(corners)]
    half = size // 2
    steps = [
        (0, 0),
        (size, 0),
        (0, -size),
        (size - 1, 1),
        (1 - size, 1 - size),
        (half + 1, -half - 2),
        (2, 3),
        (0, 2 * size),
        (-2 * size, 0),
    ]
    test: list[Crop] = []
    for (photo, x, y), (right, down) in zip(train, steps, strict=True):
        test.append((photo, x + right, y + down))
        test.append((photo, x - right, y - down))
    # A second training crop over the first: some test crops leak twice, and count once.
    train.append((train[0][0], train[0][1] + 2, train[0][2] - 1))
    test.append((names[2], train[0][1], train[0][2]))
    return {"train": train, "test": [test[int(k)] for k in rng.permutation(len(test))], "size": size}


def leaking(
    train: list[Crop],
    test: list[Crop],
    size: int,
    near: Callable[[int, int, int], bool] = lambda right, down, size: abs(right) < size and abs(down) < size,
    photo: bool = True,
) -> list[int]:
    return [
        k
        for k, (name, x, y) in enumerate(test)
        if any((name == other or not photo) and near(x - left, y - top, size) for other, left, top in train)
    ]


def _near(name: str, code: str, near: Callable[[int, int, int], bool], what: str, why: str, do: str) -> Misconception:
    """The misconception of who compares two corners so."""
    return Misconception(
        name,
        change("abs(a[1] - b[1]) < size and abs(a[2] - b[2]) < size", code),
        gives(lambda train, test, size: leaking(train, test, size, near)),
        what=what,
        why=why,
        do=do,
    )


LEAK = Check(
    f"{LESSON}.leak",
    run=call("leaks"),
    draw=draw_leak,
    sizes=(8, 32, 33),
    reference=leaking,
    misconceptions=(
        _near(
            "same_corner",
            "a == b",
            lambda right, down, size: right == down == 0,
            "only crops that are exactly the same are found.",
            "A crop that is moved by one pixel shares nearly all its pixels with the other.",
            "Compare the distance of the corners with size.",
        ),
        _near(
            "touching",
            "abs(a[1] - b[1]) <= size and abs(a[2] - b[2]) <= size",
            lambda right, down, size: abs(right) <= size and abs(down) <= size,
            "crops that only touch are counted.",
            "A crop ends at column x + size - 1; one that begins at x + size shares no pixel with it.",
            "Write < size.",
        ),
        _near(
            "or_for_and",
            "(abs(a[1] - b[1]) < size or abs(a[2] - b[2]) < size)",
            lambda right, down, size: abs(right) < size or abs(down) < size,
            "crops in the same rows, or in the same columns, are counted.",
            "Two squares overlap only if they do so in x and in y.",
            "Join the two conditions with and.",
        ),
        Misconception(
            "and_before_or",
            change(
                "abs(a[1] - b[1]) < size and abs(a[2] - b[2]) < size",
                "abs(a[1] - b[1]) < size or abs(a[2] - b[2]) < size",
            ),
            gives(
                lambda train, test, size: [
                    k
                    for k, (name, x, y) in enumerate(test)
                    if any(
                        (name == other and abs(x - left) < size) or abs(y - top) < size for other, left, top in train
                    )
                ]
            ),
            what="every crop in the same rows is counted, even of another photograph.",
            why="Two squares overlap only if they do so in x and in y; and `a and b or c` means `(a and b) or c`.",
            do="Join all three conditions with and.",
        ),
        Misconception(
            "counted_twice",
            change(
                "[k for k, crop in enumerate(test) if any(share(crop, other) for other in train)]",
                "[k for k, crop in enumerate(test) for other in train if share(crop, other)]",
            ),
            gives(
                lambda train, test, size: [
                    k for k, crop in enumerate(test) for other in train for _ in leaking([other], [crop], size)
                ]
            ),
            what="a test crop that meets two training crops is named twice.",
            why="The positions say which crops to remove; each one is removed once.",
            do="Ask with any(...) over train, or leave the inner loop with break.",
        ),
        _near(
            "x_only",
            "abs(a[1] - b[1]) < size",
            lambda right, down, size: abs(right) < size,
            "only x is compared.",
            "A crop far below has the same x and shares nothing.",
            "Compare y as well.",
        ),
        _near(
            "one_side",
            "0 <= a[1] - b[1] < size and 0 <= a[2] - b[2] < size",
            lambda right, down, size: 0 <= right < size and 0 <= down < size,
            "test crops left of or above a training crop are missed.",
            "The distance of two corners may be negative.",
            "Take abs() of the distances.",
        ),
        _near(
            "half_size",
            "abs(a[1] - b[1]) < size // 2 and abs(a[2] - b[2]) < size // 2",
            lambda right, down, size: abs(right) < size // 2 and abs(down) < size // 2,
            "crops that overlap by less than half are missed.",
            "x and y are corners, not centres, and one common pixel is enough.",
            "Compare the distance with size.",
        ),
        _near(
            "round_distance",
            "(a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2 < size**2",
            lambda right, down, size: right**2 + down**2 < size**2,
            "crops that meet at a corner are missed.",
            "Crops are squares: what counts is the larger of the two distances, not the straight line.",
            "Compare x and y one by one.",
        ),
        Misconception(
            "photo_forgotten",
            change("a[0] == b[0] and ", ""),
            gives(lambda train, test, size: leaking(train, test, size, photo=False)),
            what="crops of different photographs are counted.",
            why="The same place in another photograph has other pixels.",
            do="Compare the names of the photographs first.",
        ),
        Misconception(
            "crops_returned",
            change("[k for k, crop", "[crop for k, crop"),
            gives(lambda train, test, size: [test[k] for k in leaking(train, test, size)]),
            what="the crops come back, not their positions.",
            why="Positions let you remove the crop and its class from two arrays.",
            do="Use enumerate(test) and collect the numbers.",
        ),
        Misconception(
            "the_clean_ones",
            change("if any(", "if not any("),
            gives(lambda train, test, size: sorted({*range(len(test))} - {*leaking(train, test, size)})),
            what="the crops that do not leak come back.",
            why="The function is asked for those that share a pixel.",
            do="Turn the condition round.",
        ),
    ),
)

# -- 2 read the curves -------------------------------------------------------------------------------

SORTS = ("dead", "slower", "overfits", "longer", "done")
Curve = dict[str, list[float]]


def draw_curve(rng: Generator, sort: str) -> Curve:
    """A curve of this sort, far from every limit."""
    epochs = int(rng.integers(9, 13))
    steps = np.arange(epochs)
    noise, more_noise = rng.uniform(0.985, 1.015, (2, epochs))
    start, floor = rng.uniform(1.2, 1.5), rng.uniform(0.12, 0.3)
    train = (floor + (start - floor) * np.exp(-0.7 * steps)) * noise
    val = (1.3 * floor + (start - floor) * np.exp(-0.8 * steps)) * more_noise
    val[-3:] = val[-3] * np.array([1.0, 1.01, 1.0])
    if sort == "dead":
        train = 1.61 + rng.uniform(-0.03, 0.03, epochs)
        train[0] = rng.uniform(3, 6)
        val = 1.61 + rng.uniform(-0.03, 0.03, epochs)
    elif sort == "slower":
        for at in rng.choice(np.arange(3, epochs - 1, 2), 2, replace=False):
            train[at] = train[at - 1] * rng.uniform(2.8, 3.6)
            val[at] = val[at - 1] * rng.uniform(2.2, 3)
        val[-3:] = val[-4:-3].max() * np.array([1.0, 1.02, 1.01])
    elif sort == "overfits":
        train = start * np.exp(-0.35 * steps) * noise
        turn = int(rng.integers(3, 5))
        lowest = start * 0.5
        rise = rng.uniform(0.07, 0.1)
        val = np.where(
            steps < turn, lowest + (start - lowest) * (1 - steps / turn), lowest * (1 + rise * (steps - turn))
        )
    elif sort == "longer":
        train = start * np.exp(-0.16 * steps) * noise
        val = 1.1 * start * np.exp(-0.14 * steps)
    return {"train": [round(float(v), 3) for v in train], "val": [round(float(v), 3) for v in val]}


def draw_watch(rng: Generator, size: None) -> dict[str, Any]:
    sorts = [*SORTS, str(rng.choice(SORTS))]
    names = [f"run {letter}" for letter in "ABCDEF"]
    return {"curves": {name: draw_curve(rng, sorts[k]) for name, k in zip(names, rng.permutation(6), strict=True)}}


def sort_of(curve: Curve) -> str:
    train, val = curve["train"], curve["val"]
    if all(abs(loss - 1.61) < 0.1 for loss in train[1:]):
        return "dead"
    if any(after > 2 * before for before, after in pairwise(train)):
        return "slower"
    if val[-1] > 1.2 * min(val):
        return "overfits"
    return "longer" if val[-1] < 0.95 * val[-2] else "done"


def watched(curves: dict[str, Curve]) -> dict[str, str]:
    return {name: sort_of(curve) for name, curve in curves.items()}


def _read_as(name: str, sort: str, word: str, what: str, why: str, do: str) -> Misconception:
    """The misconception of who takes a curve of this sort for another one."""

    def seen(result: Any, curves: dict[str, Curve]) -> bool:
        asked = [name for name, curve in curves.items() if sort_of(curve) == sort]
        return any(str(result.get(name, "")).strip() == word for name in asked)

    return Misconception(
        name,
        _relabelled({sort: word}),
        got(seen),
        what=what,
        why=why,
        do=do,
    )


def _relabelled(words: dict[str, str]) -> str:
    return (
        f"# exercise: {LESSON}.watch\n"
        "def sort_of(train, val):\n"
        "    if all(abs(loss - 1.61) < 0.1 for loss in train[1:]):\n        return 'dead'\n"
        "    if any(b > 2 * a for a, b in zip(train, train[1:])):\n        return 'slower'\n"
        "    if val[-1] > 1.2 * min(val):\n        return 'overfits'\n"
        "    return 'longer' if val[-1] < 0.95 * val[-2] else 'done'\n"
        f"words = {words!r}\n"
        "answer = {}\n"
        "for name, curve in curves.items():\n"
        "    word = sort_of(curve['train'], curve['val'])\n"
        "    answer[name] = words.get(word, word)\n"
    )


WATCH = Check(
    f"{LESSON}.watch",
    run=read("answer"),
    draw=draw_watch,
    reference=watched,
    compare=text(),
    must=(how_many_right("runs are"),),
    misconceptions=(
        Misconception(
            "other_word",
            _relabelled({"overfits": "overfit"}),
            got(lambda result, curves: any(str(result.get(name, "")).strip() not in SORTS for name in curves)),
            what="a run has no word of the table.",
            why="There are five words: dead, slower, overfits, longer, done.",
            do="Write one of them for each run, under the run's name and spelled as in the table.",
        ),
        _read_as(
            "training_only",
            "overfits",
            "longer",
            "a run whose validation rises is to be trained longer.",
            "Its training loss still falls, but what it learns now are the training crops themselves.",
            "Look where the validation curve ends, and where it was lowest.",
        ),
        _read_as(
            "fine_to_the_end",
            "overfits",
            "done",
            "a run whose validation rises is called done.",
            "It was done at the lowest point of validation; since then it got worse.",
            "Compare the last value with the lowest.",
        ),
        _read_as(
            "flat_is_done",
            "dead",
            "done",
            "a flat curve at 1.61 is called done.",
            "1.61 is ln 5, the loss of guessing among five classes: nothing was learnt.",
            "Look at how high the flat part lies.",
        ),
        _read_as(
            "patience",
            "dead",
            "longer",
            "a flat curve at 1.61 is to be trained longer.",
            "It has not moved since the second epoch, and nothing will move it.",
            "Ask whether anything falls at the end.",
        ),
        _read_as(
            "first_fall_is_a_jump",
            "dead",
            "slower",
            "a flat curve at 1.61 gets only a smaller learning rate.",
            "The steps were too large once, in the first epoch; what is dead stays so with smaller steps.",
            "Take the first row of the table that fits: a curve that stays at 1.61 is dead.",
        ),
        _read_as(
            "jumps_overfit",
            "slower",
            "overfits",
            "a run whose training loss jumps up is said to overfit.",
            "A network that overfits gets better on the training data all the time; here training itself fails.",
            "Look whether the training curve doubles somewhere.",
        ),
        _read_as(
            "jumps_ignored",
            "slower",
            "done",
            "a run whose training loss jumps up is called done.",
            "The jumps say that the steps are too large; the next one may end in the wrong place.",
            "Look whether the training curve doubles somewhere.",
        ),
        _read_as(
            "stopped_early",
            "longer",
            "done",
            "a run that is still getting better is called done.",
            "Its validation fell by more than 5 % in the last epoch.",
            "Compare the last two values of validation.",
        ),
        _read_as(
            "never_done",
            "done",
            "longer",
            "a run that is flat at the end is to be trained longer.",
            "Its validation did not fall in the last epochs: more time buys nothing.",
            "Compare the last two values of validation.",
        ),
        _read_as(
            "gap_is_overfitting",
            "done",
            "overfits",
            "a run is said to overfit because validation lies above training.",
            "Some distance is normal. Overfitting is validation that gets worse again.",
            "Compare the last value of validation with its own lowest.",
        ),
    ),
)

# -- 3 as in training --------------------------------------------------------------------------------


def draw_prepare(rng: Generator, kind: str) -> dict[str, Any]:
    from PIL import Image

    size = int(rng.choice([6, 8, 10]))
    rows, columns = (2, 3) if kind == "turned" else (3, 2) if kind == "tall" else (2, 4)
    height, width = rows * size + int(rng.integers(1, size - 1)), columns * size + int(rng.integers(1, size - 1))
    channels = {"grey": (), "alpha": (4,)}.get(kind, (3,))
    photo = Image.fromarray(rng.integers(0, 256, (height, width, *channels), dtype=np.uint8))
    exif = Image.Exif()
    if kind == "turned":
        exif[0x0112] = int(rng.choice([6, 8]))
    data = io.BytesIO()
    photo.save(data, "PNG", exif=exif)
    return {"file": File(f"photo{rng.integers(10, 99)}.png", data.getvalue()), "size": size}


def tiles(
    file: File,
    size: int,
    *,
    turn: bool = True,
    mode: str = "RGB",
    scale: float = 255,
    order: tuple[int, ...] = (0, 2, 4, 1, 3),
    fit: bool = False,
    cut: Callable[[Array, int], Array] | None = None,
) -> Array:
    from PIL import Image, ImageOps

    opened: Image.Image = Image.open(io.BytesIO(file.data))
    photo = (ImageOps.exif_transpose(opened) if turn else opened).convert("RGB")
    rows, columns = photo.height // size, photo.width // size
    if fit:
        photo = photo.resize((columns * size, rows * size))
    pixels = np.asarray(photo, np.float32)[: rows * size, : columns * size] / np.float32(scale)
    if mode == "BGR":
        pixels = pixels[..., ::-1]
    if cut:
        return cut(pixels, size)
    return pixels.reshape(rows, size, columns, size, 3).transpose(order).reshape(rows * columns, 3, size, size)


def _tiles_so(name: str, edit: tuple[str, ...], what: str, why: str, do: str, **wrong: Any) -> Misconception:
    """
    The misconception of who cuts some photograph so.

    Others may still fail in another way: the learner repairs one thing after the other. So what is cut wrong is
    told whether or not the numbers are scaled already.
    """
    scales = (wrong.pop("scale"),) if "scale" in wrong else (255, 1)

    def seen(result: Any, file: File, size: int) -> bool:
        found = np.asarray(result)
        made = [tiles(file, size, scale=scale, **wrong) for scale in scales]
        return any(found.shape == one.shape and np.allclose(found, one, rtol=1e-5) for one in made)

    return Misconception(
        name,
        change(*edit),
        got(seen),
        what=what,
        why=why,
        do=do,
    )


_AXES = "tiles.transpose(0, 2, 4, 1, 3)"

PREPARE = Check(
    f"{LESSON}.prepare",
    run=call("prepare"),
    draw=draw_prepare,
    sizes=("wide", "tall", "grey", "alpha", "turned"),
    reference=tiles,
    compare=allclose(rtol=1e-6),
    misconceptions=(
        Misconception(
            "no_rgb",
            change('.convert("RGB")', ""),
            raises("ValueError", "reshape"),
            what="a photograph that is not RGB breaks the reshape.",
            why="A grey photograph has no axis of colours, one with transparency has four entries in it.",
            do='Convert what you open: photo.convert("RGB").',
        ),
        _tiles_so(
            "numbers_read_in_line",
            ("pixels.reshape(rows, size, columns, size, 3)", "pixels", _AXES + ".reshape", "tiles.reshape"),
            "the pixels are reshaped without a transpose, so every tile is a mix of places and colours.",
            "reshape reads the numbers in line: red, green, blue of one pixel after another, along whole rows.",
            "Reshape to (rows, size, columns, size, 3), transpose, then reshape to the tiles.",
            cut=lambda pixels, size: pixels.reshape(-1, 3, size, size),
        ),
        _tiles_so(
            "rows_cut_in_pieces",
            (
                "pixels.reshape(rows, size, columns, size, 3)",
                "pixels.reshape(rows * columns, size, size, 3)",
                _AXES,
                "tiles.transpose(0, 3, 1, 2)",
            ),
            "a tile is pieces of one row of pixels laid under each other, not a square of the photograph.",
            "reshape reads whole rows: behind the first size pixels come those of the next tile.",
            "Keep the axes apart first: reshape to (rows, size, columns, size, 3), then transpose.",
            cut=lambda pixels, size: pixels.reshape(-1, size, size, 3).transpose(0, 3, 1, 2),
        ),
        _tiles_so(
            "colours_last",
            (_AXES, "tiles.transpose(0, 2, 1, 3, 4)"),
            "the colours still stand last in memory when the array is called (n, 3, size, size).",
            "The shape fits, since reshape counts only numbers; red, green and blue are mixed.",
            "Move the axis of colours in front of y and x in the transpose: 0, 2, 4, 1, 3.",
            order=(0, 2, 1, 3, 4),
        ),
        _tiles_so(
            "x_before_y",
            (_AXES, "tiles.transpose(0, 2, 4, 3, 1)"),
            "rows and columns inside each tile are exchanged.",
            "The layout is n, channel, row, column: y stands before x.",
            "Transpose with 0, 2, 4, 1, 3.",
            order=(0, 2, 4, 3, 1),
        ),
        _tiles_so(
            "column_by_column",
            (_AXES, "tiles.transpose(2, 0, 4, 1, 3)"),
            "the tiles follow each other column by column.",
            "They are asked for as one reads a page, and the page draws them so.",
            "The axis of the rows of tiles comes first: 0, 2, 4, 1, 3.",
            order=(2, 0, 4, 1, 3),
        ),
        _tiles_so(
            "not_scaled",
            (" / 255", ""),
            "the numbers run from 0 to 255.",
            "The network was trained on 0 to 1, and a first layer of 255 times the input gives other classes.",
            "Divide by 255.",
            scale=1,
        ),
        _tiles_so(
            "by_256",
            (" / 255", " / 256"),
            "the numbers are divided by 256.",
            "White is 255, and was 1 in training.",
            "Divide by 255.",
            scale=256,
        ),
        _tiles_so(
            "bgr",
            ("/ 255\n", "/ 255\n    pixels = pixels[..., ::-1]\n"),
            "red and blue are exchanged.",
            "OpenCV reads BGR; Pillow reads RGB, and so did training.",
            "Leave the colours as Pillow gives them.",
            mode="BGR",
        ),
        _tiles_so(
            "not_turned",
            ("ImageOps.exif_transpose(Image.open(file))", "Image.open(file)"),
            "a photograph with a note in EXIF is read lying on its side.",
            "Cameras store the pixels as the sensor sees them, and write into EXIF how to turn them.",
            "Call ImageOps.exif_transpose on what you open.",
            turn=False,
        ),
        _tiles_so(
            "resized",
            (
                "    pixels = np.asarray(photo",
                "    photo = photo.resize((columns * size, rows * size))\n    pixels = np.asarray(photo",
            ),
            "the photograph is squeezed until the tiles fit.",
            "Squeezing changes every pixel; the exercise drops what is left over.",
            "Cut rows * size and columns * size pixels out.",
            fit=True,
        ),
    ),
)


# -- 4 a thread for every request --------------------------------------------------------------------

_DIMS, _CLASSES = (4, 2, 6, 8), 5


def draw_threads(rng: Generator, counts: tuple[int, ...]) -> dict[str, Any]:
    requests = [rng.standard_normal((count, *_DIMS[1:])).astype(np.float32) for count in counts]
    return {"om_path": File("net.om", om_bytes(_DIMS, _CLASSES)), "requests": requests}


def served(om_path: File, requests: list[Array]) -> list[Array]:
    return [scores_of(om_path, images) for images in requests]


def _threads_that(case: CaseRun, name: str) -> list[int]:
    assert case.record is not None
    strings = case.record.strings
    return [row["thread"] for row in case.record.calls.rows() if strings[row["name"]] == name]


def _all_the_last(result: Any, om_path: File, requests: list[Array]) -> bool:
    rows = min(len(scores) for scores in result)
    return len(result) > 1 and all(np.array_equal(scores[:rows], result[-1][:rows]) for scores in result)


THREADS = Check(
    f"{LESSON}.threads",
    run=call("serve"),
    draw=draw_threads,
    sizes=((4,), (4, 4), (3, 1, 4)),
    reference=served,
    compare=allclose(rtol=0.01, atol=0.01),
    must=(
        everything_freed(),
        everything_destroyed(),
        all_codes_zero(),
        called("acl.mdl.load_from_file", at_most=1),
        require(
            "own_threads",
            lambda case: (
                len(set(_threads_that(case, "acl.mdl.execute"))) == len(case.inputs["requests"])
                and not set(_threads_that(case, "acl.mdl.execute")) & set(_threads_that(case, "acl.init"))
            ),
            holds="each request ran in a thread of its own",
            fails="the model did not run in a new thread for each request",
            do="Leave in_thread(classify, images) for each request.",
        ),
    ),
    misconceptions=(
        Misconception(
            "context_of_the_main_thread",
            change(
                '            ok("acl.rt.set_context", acl.rt.set_context(context))\n',
                "",
                "        context, ret = acl.rt.get_context()\n",
                "        context, ret = acl.rt.get_context()\n"
                '        ok("acl.rt.set_context", acl.rt.set_context(context))\n',
            ),
            raises("AclError", "107002") & calls("acl.rt.set_context"),
            what="the context is set, but in the main thread.",
            why="A context is current in the thread that sets it, and in no other.",
            do="Call acl.rt.set_context(context) in the function that the new thread runs.",
        ),
        Misconception(
            "no_context",
            change('            ok("acl.rt.set_context", acl.rt.set_context(context))\n', ""),
            raises("AclError", "107002"),
            what="the new thread has no context.",
            why="set_device made one current in the main thread only; 107002 says that this thread has none.",
            do="Get the context in the main thread, and set it in each new one.",
        ),
        Misconception(
            "context_asked_too_late",
            change("acl.rt.set_context(context)", "acl.rt.set_context(acl.rt.get_context()[0])"),
            raises("AclError", "set_context") & calls("acl.rt.get_context"),
            what="the new thread asks for its own context, and it has none.",
            why="get_context gives the current context of the thread that calls it.",
            do="Call acl.rt.get_context in the main thread, and keep what it gives.",
        ),
        Misconception(
            "new_context",
            change(
                'ok("acl.rt.set_context", acl.rt.set_context(context))',
                'ok("acl.rt.create_context", acl.rt.create_context(0)[1])',
            ),
            calls("acl.rt.create_context") & (raises("AclError", "107004") | unmet("everything_destroyed")),
            what="each request makes a context of its own.",
            why="The model lives in the context of the main thread, and runs in no other: 107004.",
            do="Set the context that exists: acl.rt.set_context(context).",
        ),
        Misconception(
            "loaded_for_each",
            change(
                "            full = np.zeros(dims, np.float32)\n",
                '            again, ret = acl.mdl.load_from_file(om_path)\n            ok("load", ret)\n'
                "            undo.callback(acl.mdl.unload, again)\n"
                "            full = np.zeros(dims, np.float32)\n",
            ),
            unmet("acl.mdl.load_from_file"),
            what="the model is loaded again for each request.",
            why="Loading reads and copies all weights; it takes far longer than a run.",
            do="Load once in the main thread, with session.",
        ),
        Misconception(
            "main_thread",
            change("in_thread(classify, images)", "classify(images)"),
            unmet("own_threads") & ~calls("in_thread"),
            what="the requests run in the main thread.",
            why="There the context is set, so nothing fails; a server's requests come in threads of their own.",
            do="Leave in_thread, and give the thread its context.",
        ),
        Misconception(
            "shared_result",
            change(
                "data, result = full.tobytes(), bytearray(out_size)",
                "data = full.tobytes()",
                "        def classify(images):",
                "        result = bytearray(out_size)\n\n        def classify(images):",
            ),
            got(_all_the_last),
            what="all requests get the scores of the last one.",
            why="np.frombuffer makes a view of result, and the next request overwrites what it shows.",
            do="Make a new result for each request, or copy the scores.",
        ),
        Misconception(
            "padding_returned",
            change("host.reshape(dims[0], -1)[: len(images)]", "host.reshape(dims[0], -1)"),
            got(
                lambda result, om_path, requests: any(
                    len(scores) > len(images) for scores, images in zip(result, requests, strict=True)
                )
            ),
            what="a small request gets scores for images that it does not have.",
            why="The om always computes a whole batch; the rows behind the request are those of zeros.",
            do="Return only the first len(images) rows.",
        ),
        Misconception(
            "one_row",
            change("host.reshape(dims[0], -1)[: len(images)]", "host.reshape(dims[0], -1)[:1]"),
            got(
                lambda result, om_path, requests: (
                    all(len(scores) == 1 for scores in result) and any(len(images) > 1 for images in requests)
                )
            ),
            what="every request gets one row of scores.",
            why="A request may hold several images.",
            do="Return the first len(images) rows.",
        ),
    ),
)

# -- 5 wait for company ------------------------------------------------------------------------------


def draw_batches(rng: Generator, kind: str) -> dict[str, Any]:
    batch, wait, cost = int(rng.integers(3, 6)), int(rng.integers(40, 60)), int(rng.integers(70, 100))
    if kind == "nobody":
        return {"arrivals": [], "batch": batch, "wait": wait, "cost": cost}
    if kind == "one":
        return {"arrivals": [int(rng.integers(5, 90))], "batch": batch, "wait": wait, "cost": cost}
    if kind == "alone":
        # Each comes when the last one is done: nobody ever has company.
        gaps = rng.integers(wait + cost + 5, wait + cost + 60, 6)
    elif kind == "crowd":
        gaps = rng.integers(1, 7, 4 * batch + 2)
    elif kind == "in time":
        # The second comes in the very us in which the first has waited enough.
        gaps = np.array([7, wait, 1, cost + wait + 30, wait, 3])
    else:
        gaps = rng.choice([2, 5, 11, 23, 47, 90], 17)
    return {"arrivals": [int(time) for time in np.cumsum(gaps)], "batch": batch, "wait": wait, "cost": cost}


def finished(
    arrivals: list[int],
    batch: int,
    wait: int,
    cost: int,
    *,
    fills: bool = True,
    waits: bool = True,
    queues: bool = True,
    late: bool = True,
    limit: bool = True,
    tie: bool = True,
    each: bool = False,
    clock_at_free: bool = False,
    knows_the_end: bool = False,
) -> list[int]:
    done: list[int] = []
    free = first = 0
    while first < len(arrivals):
        oldest = arrivals[first]
        full = arrivals[first + batch - 1] if first + batch <= len(arrivals) and fills else float("inf")
        if knows_the_end:
            full = min(full, arrivals[-1])
        deadline = (max(oldest, free) if clock_at_free else oldest) + (wait if waits else 0)
        due = int(min(full, deadline))
        start = max(free, due) if queues else due
        seats = arrivals[first : first + batch] if limit else arrivals[first:]
        close = start if late else due
        count = max(1, sum(time <= close if tie else time < close for time in seats))
        end = start + cost * (count if each else 1)
        done += [end] * count
        free, first = end, first + count
    return done


def in_groups(arrivals: list[int], batch: int, wait: int, cost: int, *, knows_the_end: bool) -> list[int]:
    """Always so many in a run, one after the other, whoever is there."""
    done: list[int] = []
    free = 0
    for first in range(0, len(arrivals), batch):
        seats = arrivals[first : first + batch]
        full = len(seats) == batch or knows_the_end
        free = max(free, min(seats[-1], seats[0] + wait) if full else seats[0] + wait) + cost
        done += [free] * len(seats)
    return done


def _planned(name: str, edit: tuple[str, ...], what: str, why: str, do: str, **wrong: bool) -> Misconception:
    """The misconception of who plans so."""
    return Misconception(
        name,
        change(*edit),
        gives(lambda arrivals, batch, wait, cost: finished(arrivals, batch, wait, cost, **wrong)),
        what=what,
        why=why,
        do=do,
    )


BATCHES = Check(
    f"{LESSON}.batches",
    run=call("finished"),
    draw=draw_batches,
    sizes=("nobody", "one", "alone", "in time", "crowd", "mixed", "mixed"),
    reference=finished,
    misconceptions=(
        _planned(
            "always_waits",
            ("min(full, seats[0] + wait)", "seats[0] + wait"),
            "a full batch waits until the time is over.",
            "Nobody else fits in; waiting on buys nothing.",
            "Start when the last seat is taken, if that is earlier.",
            fills=False,
        ),
        _planned(
            "never_waits",
            ("seats[0] + wait", "seats[0]"),
            "the oldest request does not wait for company.",
            "When the NPU is free, each request then takes a whole run for itself.",
            "The run may start at arrivals[first] + wait, or when the batch is full.",
            waits=False,
        ),
        _planned(
            "many_npus",
            ("max(free, min(full, seats[0] + wait))", "min(full, seats[0] + wait)"),
            "a run starts while another one is still computing.",
            "There is one NPU: a run starts when it is free.",
            "Keep the end of the last run, and start no earlier.",
            queues=False,
        ),
        _planned(
            "doors_closed",
            ("time <= start for", "time <= min(full, seats[0] + wait) for"),
            "who comes while the NPU is busy with others is not taken into the next run.",
            "The run takes all who are there when it starts, up to batch.",
            "Count the arrivals up to start, not up to the deadline.",
            late=False,
        ),
        _planned(
            "no_limit",
            ("time <= start for time in seats", "time <= start for time in arrivals[first:]"),
            "a run takes more requests than the batch has seats.",
            "The om's batch is fixed.",
            "Count among arrivals[first : first + batch] only.",
            limit=False,
        ),
        _planned(
            "just_missed",
            ("count = sum(time <= start for time in seats)", "count = max(1, sum(time < start for time in seats))"),
            "who arrives in the very us of the start is left behind.",
            "The exercise takes them in; otherwise a full batch starts without its last request.",
            "Compare with <=.",
            tie=False,
        ),
        _planned(
            "cost_for_each",
            (
                "start + cost] * count",
                "start + cost * count] * count",
                "free, first = start + cost,",
                "free, first = start + cost * count,",
            ),
            "a run takes cost for every request in it.",
            "The batch is computed at once; that is the reason to wait for company.",
            "Add cost once for each run.",
            each=True,
        ),
        _planned(
            "clock_started_late",
            ("seats[0] + wait", "max(free, seats[0]) + wait"),
            "the waiting time is counted from when the NPU is free.",
            "A request waits from its arrival on; what it waited during the last run counts.",
            "The deadline is arrivals[first] + wait.",
            clock_at_free=True,
        ),
        _planned(
            "knows_the_end",
            (' if len(seats) == batch else float("inf")', ""),
            "the last run starts with the last request, before the batch is full or the time is over.",
            "A service does not know that nobody else will come.",
            "The last seat counts only if len(seats) == batch.",
            knows_the_end=True,
        ),
        Misconception(
            "fixed_groups",
            change("count = sum(time <= start for time in seats)", "count = len(seats)"),
            gives(lambda **plan: in_groups(**plan, knows_the_end=False))
            | gives(lambda **plan: in_groups(**plan, knows_the_end=True)),
            what="each run takes the next batch requests, also those who come after its start.",
            why="Who is not there yet cannot be in the run; it starts without them when the oldest has waited enough.",
            do="Take those of arrivals[first : first + batch] that are <= start.",
        ),
        Misconception(
            "starts_returned",
            change("[start + cost] * count", "[start] * count"),
            gives(lambda arrivals, batch, wait, cost: [time - cost for time in finished(arrivals, batch, wait, cost)]),
            what="the times of the starts come back.",
            why="The answer is ready when the run ends.",
            do="Return start + cost for each request of the run.",
        ),
        Misconception(
            "one_for_each_run",
            change("[start + cost] * count", "[start + cost]"),
            sign(
                lambda attempt: (
                    any(case.size == "crowd" for case in attempt.failed)
                    and all(list(case.got) == sorted(set(finished(**case.inputs))) for case in attempt.cases)
                )
            ),
            what="each run gives one time, however many requests are in it.",
            why="Every request wants to know when its answer is ready.",
            do="Repeat the time for each request of the run.",
        ),
    ),
)

CHECKS = [LEAK, WATCH, PREPARE, THREADS, BATCHES]
