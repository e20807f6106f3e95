"""Parameters of dynamic AIPP, as the client sets them one by one. Source: pyacl-and-atc 2.3, 3.5.

The lists are the client's: csc [switch, 9 coefficients, 3 output biases, 3 input biases], crop [switch, left, top,
width, height], padding [switch, top, bottom, left, right], four numbers for each kind of channel values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cannlab.machine.aipp import Aipp, BatchAipp, ImageFormat


def _numbers(values: Sequence[Any], count: int, what: str) -> list[Any]:
    found = list(values)
    if len(found) != count:
        raise RuntimeError(f"{what} are {count} numbers, {len(found)} were given")
    return found


class DynamicAipp:
    """What a session knows of the parameters of its image. All images of a batch have the same."""

    def __init__(self) -> None:
        self._images = 1
        self._aipp = Aipp(ImageFormat.YUV420SP_U8, 0, 0)
        self._given: Aipp | None = None

    def _all(self, **changes: Any) -> int:
        self._aipp = replace(self._aipp, **changes)
        return 0

    def _each(self, **changes: Any) -> int:
        return self._all(batch=(replace(self._aipp.batch[0], **changes),))

    def aipp_set_max_batch_size(self, count: int) -> int:
        """For how many images the parameters are: the batch of the model. What was set before is forgotten."""
        if int(count) < 1:
            raise RuntimeError(f"the batch of AIPP is at least 1, not {count}")
        self._images = int(count)
        return self._all(batch=(BatchAipp(),))

    def aipp_set_input_format(self, name: str) -> int:
        """YUV420SP_U8, XRGB8888_U8, RGB888_U8 or YUV400_U8."""
        if name not in ImageFormat.__members__:
            raise RuntimeError(f"{name} is no format of AIPP: use {', '.join(ImageFormat.__members__)}")
        return self._all(format=ImageFormat[name])

    def aipp_set_src_image_size(self, size: Sequence[int]) -> int:
        """[width, height] of the source image."""
        width, height = _numbers(size, 2, "the sizes of the source image")
        if not (2 <= width <= 4096 and 1 <= height <= 4096):
            raise RuntimeError(f"the source image is 2 x 1 to 4096 x 4096, not {width} x {height}")
        return self._all(width=int(width), height=int(height))

    def aipp_set_rbuv_swap_switch(self, on: int) -> int:
        """Exchange R and B, or U and V."""
        return self._all(swap_rb=bool(on))

    def aipp_set_ax_swap_switch(self, on: int) -> int:
        """The first of four channels becomes the last."""
        return self._all(swap_ax=bool(on))

    def aipp_set_csc_params(self, values: Sequence[int]) -> int:
        """[switch, 9 coefficients, 3 output biases, 3 input biases]."""
        on, *rest = (int(value) for value in _numbers(values, 16, "the parameters of the colour conversion"))
        if not on:
            return self._all(csc=False)
        return self._all(csc=True, matrix=tuple(rest[:9]), output_bias=tuple(rest[9:12]), input_bias=tuple(rest[12:]))

    def aipp_set_crop_params(self, values: Sequence[int]) -> int:
        """[switch, left, top, width, height]."""
        on, left, top, width, height = (int(value) for value in _numbers(values, 5, "the parameters of the crop"))
        if not on:
            return self._each(crop=False)
        return self._each(crop=True, crop_w=left, crop_h=top, crop_size_w=width, crop_size_h=height)

    def aipp_set_padding_params(self, values: Sequence[int]) -> int:
        """[switch, top, bottom, left, right]."""
        on, top, bottom, left, right = (int(value) for value in _numbers(values, 5, "the parameters of the padding"))
        if not on:
            return self._each(padding=False)
        return self._each(padding=True, top=top, bottom=bottom, left=left, right=right)

    def aipp_set_dtc_pixel_mean(self, values: Sequence[int]) -> int:
        """The mean of each channel."""
        return self._each(mean=tuple(int(value) for value in _numbers(values, 4, "the means")))

    def aipp_set_dtc_pixel_min(self, values: Sequence[float]) -> int:
        """The minimum of each channel."""
        return self._each(minimum=tuple(float(value) for value in _numbers(values, 4, "the minima")))

    def aipp_set_pixel_var_reci(self, values: Sequence[float]) -> int:
        """What each channel is multiplied with."""
        return self._each(var_reci=tuple(float(value) for value in _numbers(values, 4, "the factors")))

    def _settled(self) -> Aipp:
        """The parameters, for every image of the batch."""
        return replace(self._aipp, batch=self._aipp.batch * self._images)
