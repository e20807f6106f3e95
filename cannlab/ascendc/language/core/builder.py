"""The launch that device calls go to, and what belongs to the running block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

    from cannlab.ascendc.codegen.alike import Loop
    from cannlab.ascendc.codegen.probe import ProbeLaunch
    from cannlab.ascendc.language.core.moving import Watch
    from cannlab.machine.core import Launch


class BlockState:
    """Registers and allocators of the block that runs.

    Attributes:
        launch: where instructions go.
        counter: counter mode of the vector mask.
        mask: the vector mask register: (low, high), or the length in counter mode.
        atomic: how writes to global memory combine (0 replace, 1 add, 2 max, 3 min).
        pad_value: set_pad_value's register; None when it was not set.
        pre_quant: set_fix_pipe_pre_quant_flag's register.
        hf32: set_hf32_mode and set_hf32_trans_mode.
        addresses: byte addresses that get_phy_addr gave out, and the element type there.
        pipe: the TPipe, once it exists.
        events: hard event -> ids handed out by alloc_event_id.
        nested: nested jit function's name -> what it was first called with.
        printed: bytes printed so far.
        automatic: a LocalTensorAuto was made.
        autos: place in the code -> (byte, bytes) of the automatic tensor made there.
        auto_floor: lowest byte of the UB that automatic tensors take; None without any.
        workspace: set_sys_workspace's address.
        contexts: set_hccl_context's addresses.
        matmul, matmul_scratch: a Matmul object was registered; it has operands in the UB.
        matmul_memory: the argument that these go through; None without any.
        aipp: set_aipp_functions: (image, colours or None, format, settings); None when it was not called.
        load_repeat: set_load_data_repeat's registers as the device has them: (stride, repeats, mode).
        load_padding: the register with the padding value of a load of an image as columns.
        feature_map: the registers with the image of the last one: (padding, height, width); None before any.
        watches: check_local_memory_ia: register -> what it watches.
        spaces: position -> where it lies on the chip, and its number, as far as it was asked.
        entry: the frame that called the kernel. loops: those that run, the innermost last.
        watch: the loop whose turns are watched (see alike). blocks: the watch of the launch's blocks.
    """

    def __init__(self, launch: Launch | ProbeLaunch) -> None:
        self.launch: Any = launch
        self.counter = False
        self.mask: tuple[int, int] = ((1 << 64) - 1, (1 << 64) - 1)
        self.length = 0
        self.atomic = 0
        self.pad_value: float | None = None
        self.pre_quant = 0
        self.hf32 = (False, False)
        self.addresses: dict[int, Any] = {}
        self.store_config: tuple[int, int] = (0, 0)
        self.pipe: Any = None
        self.events: dict[int, set[int]] = {}
        self.printed = 0
        self.automatic = False
        self.autos: dict[tuple[int, int], tuple[int, int]] = {}
        self.auto_floor: int | None = None
        self.workspace: Any = None
        self.contexts: dict[int, Any] = {}
        self.aipp: Any = None
        self.load_repeat = (0, 1, 0)
        self.load_padding = 0.0
        self.feature_map: tuple[tuple[int, ...], int, int] | None = None
        self.watches: dict[int, Any] = {}
        self.spaces: dict[int, tuple[int, int]] = {}
        self.entry: FrameType | None = None
        self.loops: list[Loop] = []
        self.watch: Watch | None = None
        self.blocks: Watch | None = None
        self.matmul = False
        self.matmul_scratch = False
        self.matmul_memory: int | None = None


class GlobalBuilder:
    """Holds the running block; outside a kernel there is none."""

    state: BlockState | None = None
    calls: dict[str, Any] = {}  # noqa: RUF012 - one kernel at a time; reset at each launch

    @classmethod
    def get(cls, name: str) -> BlockState:
        """The running block. RuntimeError outside a kernel, as in pyasc."""
        if cls.state is None:
            raise RuntimeError(f"'{name}' cannot be called without initialization of global builder")
        return cls.state
