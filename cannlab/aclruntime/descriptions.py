"""Options, descriptions and results, with the names and attributes of the extension. Source: pyacl-and-atc 2.3."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum


class dtype(IntEnum):
    """Element types, by aclDataType."""

    float32 = 0
    float16 = 1
    int8 = 2
    int32 = 3
    uint8 = 4
    int16 = 6
    uint16 = 7
    uint32 = 8
    int64 = 9
    uint64 = 10
    double64 = 11
    double = 11
    bool = 12


class session_options:
    """loop: executions of one run. log_level, acl_json_path: kept."""

    def __init__(self) -> None:
        self.loop = 1
        self.log_level = 1
        self.acl_json_path = ""


class infer_options:
    """Options of run_pipeline.

    output_dir: where outputs are written ("" writes none). out_format: BIN, NPY or TXT. auto_dym_shape, auto_dym_dims:
    take the shapes of ranges, of gears from the files. pure_infer_mode: the names stand for made-up data.
    """

    def __init__(self) -> None:
        self.output_dir = ""
        self.auto_dym_shape = False
        self.auto_dym_dims = False
        self.out_format = ""
        self.pure_infer_mode = False


class tensor_desc:
    """An input or output: shape in elements, -1 where a gear or a range decides; size and realsize in bytes."""

    def __init__(self) -> None:
        self.name = ""
        self.datatype = dtype.float32
        self.format = 0
        self.shape: list[int] = []
        self.realsize = 0
        self.size = 0

    def __repr__(self) -> str:
        return f"tensor_desc(name={self.name!r}, datatype={self.datatype.name}, shape={self.shape}, size={self.size})"


class BaseTensor:
    """Host memory by address: ``buf`` and ``size`` in bytes. Whoever owns it keeps it alive."""

    def __init__(self, buf: int, size: int) -> None:
        self.buf = int(buf)
        self.size = int(size)


class ExecTime(float):
    """The time of one execution, ms, simulated: a number (as older releases give it) that is also start and end."""

    start: float
    end: float

    def __new__(cls, start: float, end: float) -> ExecTime:
        made = super().__new__(cls, end - start)
        made.start, made.end = start, end
        return made

    def __iter__(self) -> Iterator[float]:
        return iter((self.start, self.end))


class sumary:
    """exec_time_list: the time of each execution, in order."""

    def __init__(self) -> None:
        self.exec_time_list: list[ExecTime] = []
