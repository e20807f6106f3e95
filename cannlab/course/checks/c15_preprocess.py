"""Checks of 15_preprocess."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cannlab.course.spec import (
    CaseRun,
    Check,
    Cost,
    Fact,
    File,
    Misconception,
    Sign,
    all_codes_zero,
    allclose,
    call,
    change,
    choice,
    copies,
    device_time,
    everything_destroyed,
    everything_freed,
    exact,
    fault,
    gives,
    got,
    how_many_right,
    raises,
    read,
    require,
    sign,
    slow,
    source,
    unmet,
)
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from numpy.random import Generator

Array = NDArray[Any]


def align(value: int, unit: int) -> int:
    """Rounded up to a multiple."""
    return -(-value // unit) * unit


# -- 1 strides ---------------------------------------------------------------------------------------

OLD, CHIPS = "Ascend310", ("Ascend310P3", "Ascend310B4", "Ascend910B1")


def draw_strides(rng: Generator, size: None) -> dict[str, Any]:
    """Odd sizes, exact multiples of 64 and of 128, sizes just above a multiple of 16."""
    chip = [str(name) for name in rng.permutation(CHIPS)]
    times = [int(n) for n in rng.permutation(np.arange(2, 9))]
    rows = [
        (OLD, 128 * times[0] + int(rng.integers(1, 60)), 16 * int(rng.integers(20, 40)) + int(rng.integers(1, 15))),
        (chip[0], 128 * times[1] + int(rng.integers(1, 60)), 16 * int(rng.integers(20, 40)) + 1),
        (OLD, 128 * times[2] + 64, 16 * int(rng.integers(20, 40))),
        (chip[1], 128 * times[3] + 64, 16 * int(rng.integers(20, 40)) + int(rng.integers(2, 15))),
        (chip[2], 128 * times[4], 16 * int(rng.integers(20, 40))),
    ]
    return {"pictures": rows}


def layouts(
    pictures: list[tuple[str, int, int]],
    *,
    across: Callable[[str], int] = lambda chip: 128 if chip == OLD else 64,
    down: Callable[[str], int] = lambda chip: 16,
    size: Callable[[int, int, int, int], int] = lambda w, h, width, height: w * h * 3 // 2,
    rounded: Callable[[int, int], int] = align,
    rounded_down: Callable[[int, int], int] | None = None,
) -> list[list[int]]:
    """Width stride, height stride, bytes; the keywords are ways to be wrong."""
    found = []
    for chip, width, height in pictures:
        w, h = rounded(width, across(chip)), (rounded_down or rounded)(height, down(chip))
        found.append([w, h, size(w, h, width, height)])
    return found


def next_one(value: int, unit: int) -> int:
    """Always the next multiple, also of a multiple."""
    return (value // unit + 1) * unit


UP_WIDTH, UP_HEIGHT = "-(-width // across) * across", "-(-height // 16) * 16"

STRIDES = Check(
    "15_preprocess.strides",
    run=read("layouts"),
    draw=draw_strides,
    reference=layouts,
    must=(how_many_right("layouts are"),),
    misconceptions=(
        Misconception(
            "no_strides",
            change(UP_WIDTH, "width", UP_HEIGHT, "height"),
            got(lambda result, pictures: [row[:2] for row in result] == [list(row[1:]) for row in pictures]),
            what="the strides are the picture's own width and height.",
            why="The decoder writes rows that begin at multiples of its unit, so a row may be longer than the picture.",
            do="Round both up to the next multiple.",
        ),
        Misconception(
            "one_chip",
            change('128 if chip == "Ascend310" else 64', "128"),
            gives(lambda pictures: layouts(pictures, across=lambda chip: 128)),
            what="every chip has rows of a multiple of 128.",
            why="That is the Ascend310's (and 910A's) decoder. The others round to 64.",
            do="Look at the chip of each row.",
        ),
        Misconception(
            "other_chip",
            change('128 if chip == "Ascend310" else 64', "64"),
            gives(lambda pictures: layouts(pictures, across=lambda chip: 64)),
            what="every chip has rows of a multiple of 64.",
            why="The Ascend310's decoder rounds to 128.",
            do="Look at the chip of each row.",
        ),
        Misconception(
            "sixteen_both_ways",
            change('128 if chip == "Ascend310" else 64', "16"),
            gives(lambda pictures: layouts(pictures, across=lambda chip: 16))
            | gives(lambda pictures: layouts(pictures, across=lambda chip: 16, down=lambda chip: 2)),
            what="width strides are multiples of 16.",
            why="16 x 2 is the alignment of VPC's pictures. The JPEG decoder has its own, 128 x 16 or 64 x 16.",
            do="Round the width to 128 or 64, the height to 16.",
        ),
        Misconception(
            "height_like_width",
            change(UP_HEIGHT, "-(-height // across) * across"),
            gives(lambda pictures: layouts(pictures, down=lambda chip: 128 if chip == OLD else 64)),
            what="the height is rounded like the width.",
            why="Rows are read in long bursts, so the width's unit is large; the height's is a JPEG's block, 16.",
            do="Round the height to a multiple of 16.",
        ),
        Misconception(
            "height_even",
            change(UP_HEIGHT, "-(-height // 2) * 2"),
            gives(lambda pictures: layouts(pictures, down=lambda chip: 2))
            | gives(lambda pictures: layouts(pictures, down=lambda chip: 1)),
            what="the height strides are not multiples of 16.",
            why="The decoder writes blocks of 16 rows, so rows behind the picture are memory as well.",
            do="Round the height up to a multiple of 16.",
        ),
        Misconception(
            "rounded_down",
            change(UP_WIDTH, "width // across * across", UP_HEIGHT, "height // 16 * 16"),
            gives(lambda pictures: layouts(pictures, rounded=lambda value, unit: value // unit * unit)),
            what="the strides are rounded down.",
            why="A stride must hold the row: what is cut off would have no place.",
            do="Round up: -(-n // unit) * unit.",
        ),
        Misconception(
            "one_more",
            change(UP_WIDTH, "(width // across + 1) * across", UP_HEIGHT, "(height // 16 + 1) * 16"),
            gives(lambda pictures: layouts(pictures, rounded=next_one))
            | gives(lambda pictures: layouts(pictures, rounded=next_one, rounded_down=align))
            | gives(lambda pictures: layouts(pictures, rounded_down=next_one)),
            what="a width or height that is a multiple already gets one unit more.",
            why="n // unit + 1 is too large where nothing is left over.",
            do="Use -(-n // unit) * unit.",
        ),
        Misconception(
            "size_of_the_picture",
            change("w * h * 3 // 2", "width * height * 3 // 2"),
            got(lambda result, pictures: [r[2] for r in result] == [w * h * 3 // 2 for _, w, h in pictures]),
            what="the bytes are those of the picture without its strides.",
            why="The padding is memory as well: the decoder writes into it.",
            do="Multiply the two strides, then by 3 / 2.",
        ),
        Misconception(
            "only_luma",
            change("w * h * 3 // 2", "w * h"),
            got(lambda result, pictures: all(row[2] == row[0] * row[1] for row in result)),
            what="the bytes are those of Y alone.",
            why="A second plane with U and V follows, half as large.",
            do="Multiply by 3 / 2.",
        ),
        Misconception(
            "three_bytes",
            change("w * h * 3 // 2", "w * h * 3"),
            got(lambda result, pictures: all(row[2] == 3 * row[0] * row[1] for row in result)),
            what="a pixel takes three bytes.",
            why="That is RGB888. In NV12 four pixels share one U and one V: 1.5 bytes a pixel.",
            do="Multiply by 3 / 2.",
        ),
    ),
)

# -- 2 the file --------------------------------------------------------------------------------------


def draw_config(rng: Generator, order: str) -> dict[str, Any]:
    height, width = (int(n) for n in rng.permutation([40, 52, 60, 76])[:2])
    top, left = (int(n) for n in rng.permutation(np.arange(2, 9))[:2])
    crop = (top, left, height - top - int(rng.integers(2, 9)), width - left - int(rng.integers(2, 9)))
    # Far enough apart that an exchange of channels shows.
    mean = tuple(round(float(m), 3) for m in rng.permutation([0.62, 0.47, 0.31]) + rng.uniform(-0.02, 0.02, 3))
    std = tuple(round(float(s), 3) for s in rng.permutation([0.20, 0.24, 0.29]) + rng.uniform(-0.01, 0.01, 3))
    return {"source": (height, width), "crop": crop, "order": order[:3], "mean": mean, "std": std}


def made_of(text: object, source: tuple[int, int], crop: tuple[int, ...]) -> Array:
    """What AIPP with this file makes of :func:`bytes_of` a source picture. Raises AtcError."""
    from cannlab.atc import aipp_config
    from cannlab.machine import aipp

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "aipp.cfg")
        path.write_text(str(text))
        (op,) = aipp_config.read(str(path))
    parameters = aipp_config.parameters(op, (1, 3, *crop[2:]))
    assert parameters.format is aipp.ImageFormat.RGB888_U8
    assert (parameters.height, parameters.width) == tuple(source)
    made: Array = aipp.apply(bytes_of(source).reshape(-1), 1, 3, parameters)[0].astype(np.float32)
    return made


def bytes_of(source: tuple[int, int]) -> Array:
    """A picture as it arrives."""
    return np.random.default_rng(source[0]).integers(0, 256, (*source, 3), np.uint8)


def reciprocal(s: float) -> float:
    """What var_reci_chn should hold."""
    return 1 / (255 * s)


def recipe(
    source: tuple[int, int],
    crop: tuple[int, ...],
    order: str,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    *,
    swap: Callable[[str], bool] = lambda order: order == "BGR",
    subtracted: Callable[[float], float] = lambda m: 255 * m,
    factor: Callable[[float], float] = reciprocal,
    backwards: Callable[[str], bool] = lambda order: False,
    start: Callable[[int, int], tuple[int, int]] = lambda top, left: (top, left),
) -> Array:
    """What the model should read; the keywords are ways to be wrong."""
    pixels = bytes_of(source).astype(np.float64)
    pixels = pixels[..., ::-1] if swap(order) else pixels
    top, left = start(crop[0], crop[1])
    pixels = pixels[top : top + crop[2], left : left + crop[3]]
    if backwards(order):
        mean, std = mean[::-1], std[::-1]
    numbers = np.array([subtracted(m) for m in mean]), np.array([factor(s) for s in std])
    with np.errstate(over="ignore"):
        result: Array = ((pixels - numbers[0]) * numbers[1]).astype(np.float16).astype(np.float32).transpose(2, 0, 1)
    return result


def close(case: CaseRun, levels: float = 1.0, **ways: Any) -> bool:
    """The file of this case makes the numbers of this recipe, but for so many grey levels of the mean."""
    made = made_of(case.got, case.inputs["source"], case.inputs["crop"])
    wanted = recipe(**case.inputs, **ways)
    factor = max(ways.get("factor", reciprocal)(s) for s in case.inputs["std"])
    return made.shape == wanted.shape and bool(np.allclose(made, wanted, rtol=0.002, atol=levels * factor))


def accepted(case: CaseRun) -> Fact:
    """atc takes the file, and what comes out is as large as the model's input."""
    from cannlab.atc.errors import AtcError

    do = "Write it to a file and convert a model with it: atc names the line or the size."
    try:
        made = made_of(case.got, case.inputs["source"], case.inputs["crop"])
    except AtcError as problem:
        # Without the folder, which is another one in every run.
        reason = problem.diagnosis.what.partition("cannot be read: ")[2] or problem.diagnosis.what
        return Fact("accepted", False, f"atc refuses the file: {reason.rstrip('.')}", do)
    (height, width), wanted = made.shape[1:], tuple(case.inputs["crop"][2:])
    if (height, width) == wanted:
        return Fact("accepted", True, "atc accepts the file, and it makes pictures of the model's size", do)
    text = f"atc accepts the file, but it makes pictures of {height} x {width}"
    return Fact("accepted", False, text, f"The model reads {wanted[0]} x {wanted[1]}.")


def works_as(**ways: Any) -> Sign:
    """Every file makes what this wrong recipe makes, and some file is wrong."""
    return unmet("numbers") & sign(lambda attempt: all(close(case, **ways) for case in attempt.cases))


def refused(text: str) -> Sign:
    """Some file is refused with these words."""
    from cannlab.atc.errors import AtcError

    def ask(attempt: Any) -> bool:
        for case in attempt.cases:
            try:
                made_of(case.got, case.inputs["source"], case.inputs["crop"])
            except AtcError as problem:
                if text in str(problem):
                    return True
        return False

    return sign(ask)


def all_uncropped() -> Sign:
    """The texts ask for no crop."""
    return sign(lambda attempt: all("crop: true" not in str(case.got) for case in attempt.cases))


CHANNEL_MEAN, CHANNEL_STD = "round(255 * mean[channel])", "{1 / (255 * std[channel]):.6f}"

CONFIG = Check(
    "15_preprocess.config",
    run=call("aipp_config"),
    draw=draw_config,
    sizes=("RGB", "BGR", "BGR again"),
    must=(
        accepted,
        require(
            "numbers",
            close,
            holds="the model reads the numbers of the training",
            fails="the model reads other numbers than in training",
            do="Compute one pixel by hand, in both ways.",
        ),
    ),
    misconceptions=(
        Misconception(
            "mean_of_one",
            change(CHANNEL_MEAN, "mean[channel]"),
            refused("takes a whole number"),
            what="mean_chn got a number with a fraction.",
            why="AIPP sees pixels of 0 to 255, and mean_chn is a whole number of that scale.",
            do="Write round(255 * mean[channel]).",
        ),
        Misconception(
            "no_crop",
            change('"crop: true", ', ""),
            unmet("accepted") & all_uncropped(),
            what="the file asks for no crop.",
            why="Start and size of the crop count only with crop: true; without it the whole source picture comes out.",
            do='Add "crop: true".',
        ),
        Misconception(
            "size_exchanged",
            change("crop_size_h: {height}", "crop_size_h: {width}", "crop_size_w: {width}", "crop_size_w: {height}"),
            unmet("accepted") & source(r"crop_size_h: {(width|crop\[3\])}"),
            what="height and width of the crop are exchanged.",
            why="crop is (top, left, height, width), like an array's slices.",
            do="Give crop_size_h the third number and crop_size_w the fourth.",
        ),
        Misconception(
            "start_exchanged",
            change("start_pos_h: {top}", "start_pos_h: {left}", "start_pos_w: {left}", "start_pos_w: {top}"),
            works_as(start=lambda top, left: (left, top)) | refused("outside the source image"),
            what="the crop begins at another place: top and left are exchanged.",
            why="load_start_pos_w counts from the left, load_start_pos_h from the top.",
            do="Give load_start_pos_h the first number of crop.",
        ),
        Misconception(
            "no_start",
            change(', f"load_start_pos_h: {top}", f"load_start_pos_w: {left}"', ""),
            works_as(start=lambda top, left: (0, 0)),
            what="the crop begins in the upper left corner.",
            why="Where nothing is said, load_start_pos_h and _w are 0.",
            do="Write both.",
        ),
        Misconception(
            "never_swapped",
            change('order == "BGR"', "False"),
            works_as(swap=lambda order: False),
            what="pictures of B, G, R are read as R, G, B.",
            why="input_format RGB888_U8 says three bytes a pixel, no more; nobody knows which comes first.",
            do='Add "rbuv_swap_switch: true" if order is "BGR".',
        ),
        Misconception(
            "always_swapped",
            change('order == "BGR"', "True"),
            works_as(swap=lambda order: True),
            what="R and B are exchanged for pictures of R, G, B, too.",
            why="The model reads R, G, B; a picture that comes so must stay so.",
            do='Write the switch only if order is "BGR".',
        ),
        Misconception(
            "swapped_for_rgb",
            change('order == "BGR"', 'order == "RGB"'),
            works_as(swap=lambda order: order == "RGB"),
            what="R and B are exchanged for the wrong order.",
            why="The model reads R, G, B.",
            do='Write the switch if order is "BGR".',
        ),
        Misconception(
            "numbers_backwards",
            change(
                "for channel in range(3):",
                'mean, std = (mean[::-1], std[::-1]) if order == "BGR" else (mean, std)\n    for channel in range(3):',
            ),
            works_as(backwards=lambda order: order == "BGR"),
            what="for B, G, R the mean and deviation were turned round, too.",
            why="The swap comes first: behind it channel 0 is R, whatever came in.",
            do="Leave mean and std in the model's order.",
        ),
        Misconception(
            "deviation_for_factor",
            change(CHANNEL_STD, "{255 * std[channel]:.6f}"),
            works_as(factor=lambda s: 255 * s),
            what="var_reci_chn holds the standard deviation.",
            why="AIPP multiplies by it; the numbers become thousands of times too large.",
            do="Write 1 / (255 * std[channel]).",
        ),
        Misconception(
            "variance",
            change(CHANNEL_STD, "{1 / (255 * std[channel]) ** 2:.6f}"),
            works_as(factor=lambda s: round(1 / (255 * s) ** 2, 6)),
            what="var_reci_chn holds 1 / variance.",
            why="Its name says so, its use does not: AIPP multiplies once, and training divided by the deviation.",
            do="Write 1 / (255 * std[channel]).",
        ),
        Misconception(
            "all_of_one",
            change(CHANNEL_MEAN, "round(mean[channel])", CHANNEL_STD, "{1 / std[channel]:.6f}"),
            works_as(subtracted=round, factor=lambda s: 1 / s),
            what="mean and deviation are those of pixels of 0 to 1, and AIPP's pixels are 0 to 255.",
            why="The rounded mean is 0 or 1: nearly nothing is subtracted, and everything becomes 255 times too large.",
            do="Multiply both by 255: round(255 * mean[channel]) and 1 / (255 * std[channel]).",
        ),
        Misconception(
            "mean_rounded_to_one",
            change(CHANNEL_MEAN, "round(mean[channel])"),
            works_as(levels=0.1, subtracted=round),
            what="the mean of pixels of 0 to 1 was rounded: 0 or 1 is left of it.",
            why="AIPP subtracts it from pixels of 0 to 255.",
            do="Multiply first, then round: round(255 * mean[channel]).",
        ),
        Misconception(
            "std_of_one",
            change(CHANNEL_STD, "{1 / std[channel]:.6f}"),
            works_as(factor=lambda s: 1 / s),
            what="var_reci_chn is 1 / std of the scale 0 to 1, and the pixels are 0 to 255.",
            why="Everything becomes 255 times too large.",
            do="Write 1 / (255 * std[channel]).",
        ),
        Misconception(
            "min_for_mean",
            change('mean_chn_{channel}: {round(255 * mean[channel])}"', 'min_chn_{channel}: {mean[channel]:.3f}"'),
            works_as(levels=0.1, subtracted=lambda m: m),
            what="a mean of the scale 0 to 1 is subtracted from pixels of 0 to 255.",
            why="min_chn takes a fraction, so nobody complains; but it is too small by a factor of 255.",
            do="Multiply the mean by 255.",
        ),
        Misconception(
            "no_mean",
            change('lines.append(f"mean_chn_{channel}: {round(255 * mean[channel])}")', "pass"),
            works_as(subtracted=lambda m: 0.0),
            what="nothing is subtracted.",
            why="Where nothing is said, mean_chn is 0.",
            do="Write mean_chn_0 to mean_chn_2.",
        ),
        Misconception(
            "misspelt",
            change("load_start_pos_h: {top}", "crop_start_h: {top}"),
            refused("has no key"),
            what="the file holds a key that AIPP does not know.",
            why="atc reads the keys of aipp_op letter by letter.",
            do="Compare with the lesson's file.",
        ),
    ),
)

# -- 3 which step ------------------------------------------------------------------------------------

SUSPECT = choice(
    "15_preprocess.suspect",
    right="e",
    options={
        "a": (
            "a mean that is subtracted twice was blamed.",
            "It would darken the grey picture by a whole mean, and its scores are right.",
            "Ask what each step does to R = G = B = 90.",
        ),
        "b": (
            "a deviation where its reciprocal belongs was blamed.",
            "Every number would be thousands of times too large, grey ones as well.",
            "Ask what each step does to R = G = B = 90.",
        ),
        "c": (
            "the crop was blamed.",
            "A crop moves pixels: it would change the picture of two halves, and leave a plain red one alone.",
            "Ask which step can change a picture of one colour.",
        ),
        "d": (
            "the stride was blamed.",
            "A wrong stride skews: the picture of two halves would look like noise, and red would stay red.",
            "Ask which step can change a picture of one colour.",
        ),
        "f": (
            "the range was blamed.",
            "The narrow matrix makes dark darker and bright brighter: the grey picture of 90 would change, and red "
            "would stay red.",
            "Ask which step can turn red into blue.",
        ),
    },
)

# -- 4 planes ----------------------------------------------------------------------------------------


def draw_planes(rng: Generator, size: tuple[int, int, int, int, str]) -> dict[str, Any]:
    """Any bytes, also in the padding and behind the picture: full colours, so that some leave the byte."""
    width, height, width_stride, height_stride, order = size
    behind = 64 if width < width_stride else 0
    data = rng.integers(0, 256, width_stride * height_stride * 3 // 2 + behind, np.uint8)
    return {
        "data": data,
        "width": width,
        "height": height,
        "width_stride": width_stride,
        "height_stride": height_stride,
        "order": order,
    }


def colours(
    data: Array,
    width: int,
    height: int,
    width_stride: int,
    height_stride: int,
    order: str,
    *,
    rows: int | None = None,
    chroma_at: int | None = None,
    repeated: bool = True,
    fixed: str = "",
    clip: bool = True,
    narrow: bool = False,
) -> Array:
    """R, G, B of NV12 or NV21; the keywords are ways to be wrong."""
    stride = rows or width_stride
    first = width_stride * height_stride if chroma_at is None else chroma_at
    order = fixed or order
    y: Array = data[: stride * height].reshape(height, stride)[:, :width].astype(np.float32)
    pairs: Array = data[first : first + height // 2 * stride].reshape(height // 2, stride // 2, 2)[:, : width // 2]
    pairs = pairs.repeat(2, 0).repeat(2, 1) if repeated else np.tile(pairs, (2, 2, 1))
    u, v = ((pairs[..., order.index(name)] - 128.0) * (255 / 224 if narrow else 1) for name in "UV")
    y = (y - 16) * 255 / 219 if narrow else y
    rgb = np.stack([y + 1.402 * v, y - 0.344 * u - 0.714 * v, y + 1.772 * u], -1)
    whole: Array = np.round(np.clip(rgb, 0, 255) if clip else rgb).astype(np.int64).astype(np.uint8)
    return whole


PLANES_COMPARE = allclose(rtol=0, atol=1)


def colours_as(**ways: Any) -> Sign:
    return gives(lambda **inputs: colours(**inputs, **ways), PLANES_COMPARE)


def colours_with(ways: Callable[..., dict[str, Any]]) -> Sign:
    return gives(lambda **inputs: colours(**inputs, **ways(**inputs)), PLANES_COMPARE)


LUMA = "luma = width_stride * height_stride"

PLANES = Check(
    "15_preprocess.planes",
    run=call("to_rgb"),
    draw=draw_planes,
    sizes=(
        (20, 12, 32, 16, "UV"),
        (32, 16, 32, 16, "VU"),
        (34, 20, 48, 20, "VU"),
        (16, 10, 16, 16, "UV"),
        (2, 2, 16, 4, "VU"),
    ),
    reference=colours,
    compare=PLANES_COMPARE,
    misconceptions=(
        Misconception(
            "no_strides",
            change(
                LUMA,
                "luma = width * height",
                "reshape(height_stride, width_stride)[:height, :width]",
                "reshape(height, width)",
                "reshape(height_stride // 2, width_stride // 2, 2)",
                "reshape(height // 2, width // 2, 2)",
            ),
            colours_with(lambda width, height, **rest: {"rows": width, "chroma_at": width * height}),
            what="the rows are read as if they lay one behind the other.",
            why="Each row takes width_stride bytes; the picture comes out skewed.",
            do="Reshape with the strides first, then cut to height and width.",
        ),
        Misconception(
            "chroma_behind_the_picture",
            change("data[luma : luma * 3 // 2]", "np.roll(data, luma - width * height)[luma : luma * 3 // 2]"),
            colours_with(lambda width, height, **rest: {"chroma_at": width * height}),
            what="U and V are read from width * height on.",
            why="The first plane is as large as its strides: width_stride * height_stride.",
            do="Begin at width_stride * height_stride.",
        ),
        Misconception(
            "height_stride_forgotten",
            """# exercise: 15_preprocess.planes
def to_rgb(data, width, height, width_stride, height_stride, order):
    luma = width_stride * height
    y = data[:luma].reshape(height, width_stride)[:, :width].astype(np.float32)
    chroma = data[luma : luma + luma // 2].reshape(height // 2, width_stride // 2, 2)
    chroma = chroma[:, : width // 2].repeat(2, axis=0).repeat(2, axis=1).astype(np.float32) - 128
    u, v = chroma[..., order.index("U")], chroma[..., order.index("V")]
    rgb = np.stack([y + 1.402 * v, y - 0.344 * u - 0.714 * v, y + 1.772 * u], axis=-1)
    return np.round(np.clip(rgb, 0, 255)).astype(np.uint8)
""",
            colours_with(lambda height, width_stride, **rest: {"chroma_at": width_stride * height}),
            what="Y is right, and the colours come from too far up.",
            why="Behind the last row of Y lie height_stride - height rows that belong to nobody.",
            do="Begin U and V at width_stride * height_stride.",
        ),
        Misconception(
            "tiled",
            change(
                "chroma[: height // 2, : width // 2].repeat(2, axis=0).repeat(2, axis=1)",
                "np.tile(chroma[: height // 2, : width // 2], (2, 2, 1))",
            ),
            colours_as(repeated=False),
            what="the colours are there four times, in small.",
            why="np.tile repeats the whole plane; each pair of U and V belongs to a square of 2 x 2 pixels.",
            do="Use .repeat(2, axis=0).repeat(2, axis=1).",
        ),
        Misconception(
            "not_repeated",
            change(".repeat(2, axis=0).repeat(2, axis=1)", ""),
            raises("ValueError", "broadcast"),
            what="Y and the colours have different shapes.",
            why="A pair of U and V belongs to a square of 2 x 2 pixels: there are height / 2 rows of width / 2 pairs.",
            do="Cut Y to height and width, the pairs to half of each, then repeat the pairs twice both ways.",
        ),
        Misconception(
            "always_nv12",
            change('order.index("U")', "0", 'order.index("V")', "1"),
            colours_as(fixed="UV"),
            what="NV21 is read like NV12: red and blue are exchanged there.",
            why='With order "VU" the first byte of a pair is V.',
            do='Use order.index("U") and order.index("V").',
        ),
        Misconception(
            "always_nv21",
            change('order.index("U")', "1", 'order.index("V")', "0"),
            colours_as(fixed="VU"),
            what="NV12 is read like NV21: red and blue are exchanged there.",
            why='With order "UV" the first byte of a pair is U.',
            do='Use order.index("U") and order.index("V").',
        ),
        Misconception(
            "not_clipped",
            change("np.clip(rgb, 0, 255)", "rgb"),
            colours_as(clip=False),
            what="colours above 255 or below 0 wrap round.",
            why="astype(np.uint8) keeps the last eight bits: 260 becomes 4.",
            do="Use np.clip(rgb, 0, 255) first.",
        ),
        Misconception(
            "narrow_range",
            change(
                "    rgb = np.stack",
                "    y, u, v = (y - 16) * 255 / 219, u * 255 / 224, v * 255 / 224\n    rgb = np.stack",
            ),
            colours_as(narrow=True),
            what="the contrast is too high.",
            why="16 to 235 is the range of video; a JPEG's Y goes from 0 to 255.",
            do="Use the formula of the task.",
        ),
        Misconception(
            "bgr",
            change("return np.round(np.clip(rgb, 0, 255))", "return np.round(np.clip(rgb[..., ::-1], 0, 255))"),
            gives(lambda **inputs: colours(**inputs)[..., ::-1], PLANES_COMPARE),
            what="the result is B, G, R.",
            why="OpenCV wants that; this exercise (and Pillow, and matplotlib) wants R, G, B.",
            do="Stack R first.",
        ),
    ),
)

# -- 5 thumbnail -------------------------------------------------------------------------------------

SIDE = 64


def _photograph(name: str) -> Any:
    """A photograph that scikit-learn ships, without importing scikit-learn."""
    from importlib.util import find_spec

    from PIL import Image

    spec = find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    return Image.open(Path(spec.origin).parent / "datasets" / "images" / f"{name}.jpg")


def draw_thumbnail(rng: Generator, size: tuple[str, int, int, bool]) -> dict[str, Any]:
    """A piece of a photograph as a JPEG; the last area ends in its lower right corner."""
    name, width, height, corner = size
    x, y = int(rng.integers(0, 640 - width + 1)), int(rng.integers(0, 427 - height + 1))
    file = io.BytesIO()
    piece = _photograph(name).crop((x, y, x + width, y + height))
    piece.save(file, "JPEG", quality=92, progressive=name == "flower" and width == 256)
    across, down = 2 * int(rng.integers(34, 45)), 2 * int(rng.integers(46, 56))
    left, top = 2 * int(rng.integers(6, 15)), 2 * int(rng.integers(1, 5))
    if corner:
        left, top = width + width % 2 - across, height + height % 2 - down
    path = File(f"photo{rng.integers(10, 99)}.jpg", file.getvalue())
    return {"path": path, "left": left, "top": top, "width": across, "height": down}


def unsupported(path: File) -> bool:
    """The decoder does not take it."""
    from cannlab.machine import jpeg_header

    header = jpeg_header.jpeg(path.data)
    return header is None or bool(header.supported)


def planes_of(data: bytes) -> list[Array]:
    """Y, and U V, of a JPEG whose odd sides became even."""
    from PIL import Image

    from cannlab.machine import pictures

    with Image.open(io.BytesIO(data)) as image:
        image.draft("YCbCr", image.size)
        whole = np.asarray(image.convert("YCbCr"))
    edges = ((0, whole.shape[0] % 2), (0, whole.shape[1] % 2), (0, 0))
    return pictures.gather(np.pad(whole, edges, mode="edge"), "yuv", pictures.FORMATS[pictures.NV12], 0)


def small(path: File, left: int, top: int, width: int, height: int) -> Array | None:
    """The area at 64 x 64 as NV12."""
    from cannlab.machine import pictures

    if unsupported(path):
        return None
    parts = []
    for plane, half in zip(planes_of(path.data), (1, 2), strict=True):
        cut = plane[top // half : (top + height) // half, left // half : (left + width) // half]
        parts.append(pictures.resize(cut, SIDE // half, SIDE // half).reshape(-1, SIDE))
    return np.concatenate(parts)


def whole_small(path: File, **area: int) -> Array | None:
    """The whole picture at 64 x 64."""
    if unsupported(path):
        return None
    height, width = planes_of(path.data)[0].shape[:2]
    return small(path, 0, 0, width, height)


def bytes_back(case: CaseRun) -> int:
    """All that was copied to the host."""
    rows = [] if case.record is None else case.record.tasks.rows()
    return sum(row["bytes"] for row in rows if row["kind"] == TaskKind.COPY_D2H)


def only_unsupported() -> Sign:
    """Exactly the files fail that the decoder does not take."""
    return sign(lambda attempt: all(unsupported(case.inputs["path"]) is not case.passed for case in attempt.cases))


PROBES = ("predict_dec_size", "get_image_info", "get_image_info_v2")

THUMBNAIL = Check(
    "15_preprocess.thumbnail",
    run=call("thumbnail"),
    draw=draw_thumbnail,
    sizes=(
        ("china", 300, 270, False),
        ("flower", 256, 160, False),
        ("flower", 385, 257, True),
        ("china", 128, 144, False),
    ),
    reference=small,
    compare=exact(),
    must=(
        everything_freed(),
        everything_destroyed(),
        all_codes_zero(except_for=tuple(f"acl.media.dvpp_jpeg_{name}" for name in PROBES)),
        copies("h2d", at_most=1),
        copies("d2h", at_most=1),
        require(
            "bytes_back",
            lambda case: bytes_back(case) <= SIDE * SIDE * 3 // 2,
            holds="no more than the thumbnail came back",
            fails="more bytes came back than the thumbnail has",
            do="Crop and resize on DVPP, and copy 6,144 bytes.",
        ),
    ),
    faults=("media.jpeg",),  # the question about a file that the decoder does not take
    cost=Cost(1.03, of=device_time),
    misconceptions=(
        Misconception(
            "exchanged",
            change("left, left + width - 1, top, top + height - 1", "top, top + height - 1, left, left + width - 1"),
            got(
                lambda result, path, left, top, width, height: (
                    result is not None and np.array_equal(result, np.asarray(small(path, top, left, height, width)))
                )
            ),
            what="the area is mirrored at the diagonal.",
            why="dvpp_create_roi_config takes left, right, top, bottom.",
            do="Give it left and right first.",
        ),
        Misconception(
            "area_as_picture",
            change("picture(middle, size)", "picture(middle, size, width=width, height=height)"),
            fault("media.area") & source(r"width=width"),
            what="the decoder's picture was described with the size of the area.",
            why="A JPEG is decoded whole; what is 0 in the description, the decoder fills in from the file.",
            do="Give that description its memory and its size only.",
        ),
        Misconception(
            "last_pixel",
            change("left + width - 1, top, top + height - 1", "left + width, top, top + height"),
            fault="media.area",
        ),
        Misconception(
            "ordinary_memory",
            change("dvpp_memory(len(data))", "acl.rt.malloc(len(data), 0)[0]"),
            fault="media.not_dvpp",
        ),
        Misconception(
            "size_without_strides",
            change(
                "dvpp_memory(size)", "dvpp_memory(300 * 270)", "picture(middle, size)", "picture(middle, 300 * 270)"
            ),
            fault("media.picture") & source(r"dvpp_memory\((300|width|size \*)"),
            what="the decoder's output is smaller than the decoder needs.",
            why="It writes rows of a multiple of 128 bytes and 16 rows at a time, and U and V behind them.",
            do="Take what dvpp_jpeg_predict_dec_size said.",
        ),
        Misconception(
            "no_strides",
            change(", width_stride=SIDE, height_stride=SIDE", ""),
            fault="media.picture",
        ),
        Misconception(
            "progressive_raises",
            change("if ret != UNSUPPORTED:", "if True:"),
            raises("RuntimeError", "148052"),
            what="a file that the decoder does not take ends the program.",
            why="dvpp_jpeg_predict_dec_size gives 148052 for a progressive JPEG: an answer, and no accident.",
            do="Ask for UNSUPPORTED first, return None then, and stop at other codes only.",
        ),
        Misconception(
            "left_open_for_none",
            change(
                "    if ret != UNSUPPORTED:\n",
                "    if ret == UNSUPPORTED:\n        dvpp_memory(64)\n        return None\n    else:\n",
            ),
            unmet("everything_freed") & only_unsupported(),
            what="memory is left when the answer is None.",
            why="A service that meets one bad file an hour leaks one block an hour.",
            do="Allocate after the question, or free before the return.",
        ),
        Misconception(
            "returned_early",
            change(
                "    if ret != UNSUPPORTED:\n",
                "    if ret == UNSUPPORTED:\n        return None\n    else:\n",
            ),
            unmet("everything_destroyed") & only_unsupported(),
            what="channel and stream stay open when the answer is None.",
            why="A return in the middle passes by what stands at the end.",
            do="Let that way end with close_dvpp, too.",
        ),
        Misconception(
            "not_waited",
            change("        ok(acl.rt.synchronize_stream(stream))\n", ""),
            fault("memory.use_after_free")
            | got(lambda result, **inputs: result is not None and not np.asarray(result).any()),
            what="the copy back and the end of the memory came before the work.",
            why="Decode and resize are only queued: nothing has run when their calls return.",
            do="Call acl.rt.synchronize_stream(stream) before the copy back.",
        ),
        Misconception(
            "no_crop",
            change(
                "dvpp_vpc_crop_resize_async(channel, large, small, area, config, stream)",
                "dvpp_vpc_resize_async(channel, large, small, config, stream)",
            ),
            gives(whole_small, exact()),
            what="the whole picture was made small.",
            why="dvpp_vpc_resize_async knows no area.",
            do="Use dvpp_vpc_crop_resize_async with the area.",
        ),
        Misconception(
            "shape",
            change("reshape(SIDE * 3 // 2, SIDE)", "reshape(-1)"),
            got(lambda result, **inputs: np.asarray(result).shape == (SIDE * SIDE * 3 // 2,)),
            what="the bytes are right and in one long row.",
            why="64 rows of Y and 32 rows of U and V make an array of (96, 64).",
            do="Use reshape(96, 64).",
        ),
        Misconception(
            "only_luma",
            change("reshape(SIDE * 3 // 2, SIDE)", "reshape(SIDE * 3 // 2, SIDE)[:SIDE]"),
            got(lambda result, **inputs: np.asarray(result).shape == (SIDE, SIDE)),
            what="U and V are missing.",
            why="NV12 has 1.5 bytes for each pixel: 32 rows with the colours follow.",
            do="Return all 96 rows.",
        ),
        Misconception(
            "on_the_host",
            change(
                "        back = bytes(small_size)\n",
                "        every = bytes(size)\n"
                "        ok(acl.rt.memcpy(acl.util.bytes_to_ptr(every), size, middle, size, TO_HOST))\n"
                "        back = bytes(small_size)\n",
            ),
            unmet("bytes_back"),
            what="the decoded picture came back to the host.",
            why="That is many times the thumbnail, through the slowest link of the machine.",
            do="Leave the large picture on the device.",
        ),
        Misconception(
            "two_calls",
            change(
                "        ok(media.dvpp_vpc_crop_resize_async(channel, large, small, area, config, stream))\n",
                "        w, h = -(-width // 16) * 16, height\n"
                "        part_size = w * h * 3 // 2\n"
                "        part_data = dvpp_memory(part_size)\n"
                "        part = picture(part_data, part_size, width=width, height=h, width_stride=w, height_stride=h)\n"
                "        ok(media.dvpp_vpc_crop_async(channel, large, part, area, stream))\n"
                "        ok(media.dvpp_vpc_resize_async(channel, part, small, config, stream))\n",
                "(source, middle, target)",
                "(source, middle, target, part_data)",
                "(large, small)",
                "(large, small, part)",
            ),
            slow(),
            what="cropping and resizing are two passes.",
            why="Each pays its launch and reads its pixels again.",
            do="Use dvpp_vpc_crop_resize_async.",
        ),
        Misconception(
            "leak",
            change("(source, middle, target):", "(source, target):"),
            unmet("everything_freed"),
            what="DVPP memory was not freed.",
            why="dvpp_malloc has its own end, dvpp_free; destroying a description frees no memory.",
            do="Free all three blocks.",
        ),
        Misconception(
            "description_left",
            change("        ok(media.dvpp_destroy_roi_config(area))\n", ""),
            unmet("everything_destroyed"),
            what="a description was not destroyed.",
            why="Descriptions are objects of the driver; they do not go when Python forgets their number.",
            do="Destroy both picture descriptions, the area and the resize configuration.",
        ),
    ),
)

CHECKS = [STRIDES, CONFIG, SUSPECT, PLANES, THUMBNAIL]
