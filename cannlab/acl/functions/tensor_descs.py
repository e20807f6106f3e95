"""Tensor descriptions. Source: pyacl-semantics 8.4."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take
from cannlab.machine import Machine

UNKNOWN_RANK = (1 << 64) - 2
"""ACL_UNKNOWN_RANK."""
UNDEFINED = -1
_SIZES = {0: 4, 1: 2, 2: 1, 3: 4, 4: 1, 6: 2, 7: 2, 8: 4, 9: 8, 10: 8, 11: 8, 12: 1}
_SIZES |= {-1: 0, 13: 0, 16: 8, 17: 16, 27: 2, 29: 1, 30: 1, 33: 4, 34: 1, 35: 1, 36: 1, 37: 1}
_OTHER_SIZE = 8
_MOST_DIMS = 128


@dataclass
class TensorDesc:
    """Type, shape and format of a tensor (aclTensorDesc); ``following`` are the others of an array that begins here."""

    dtype: int
    dims: list[int]
    format: int
    name: str = ""
    storage_dims: list[int] = field(default_factory=list)
    storage_format: int = UNDEFINED
    origin_dims: list[int] = field(default_factory=list)
    origin_format: int = UNDEFINED
    ranges: list[tuple[int, int]] = field(default_factory=list)
    value_ranges: list[tuple[int, int]] = field(default_factory=list)
    placement: int = 0
    constant: bytes | None = None
    dynamic_input: str = ""
    address: int = 0
    following: list[int] = field(default_factory=list)

    @property
    def elements(self) -> int:
        """How many elements; 1 without dims, 0 with an unknown one."""
        count = 1
        for dim in self.dims:
            if dim < 0:
                return 0
            count *= dim
        return count


name_kind(TensorDesc, "tensor description", "acl.destroy_tensor_desc")


def element_size(dtype: int) -> int:
    """Bytes of one element; 8 for a number that is no data type, as in the real library."""
    return _SIZES.get(dtype, _OTHER_SIZE)


def _dims(m: Machine, dims: Any) -> list[int]:
    """A list of ints as the wrapper takes it: TypeError for anything else, ValueError beyond 64 bits."""
    if not isinstance(dims, list) or not all(isinstance(dim, int) for dim in dims):
        raise TypeError(f"{m.thread.function} args parse failed")
    if any(not -(1 << 63) <= dim < 1 << 63 for dim in dims):
        raise ValueError("a dimension does not fit into 64 bits")
    if len(dims) > _MOST_DIMS:
        raise refuse(m, "runtime.bad_parameter", argument="number of dims", value=len(dims), allowed="0 to 128")
    return list(dims)


def _ranges(m: Machine, ranges: Any) -> list[tuple[int, int]]:
    if not isinstance(ranges, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in ranges):
        raise TypeError(f"{m.thread.function} args parse failed")
    return [(int(low), int(high)) for low, high in (_dims(m, pair) for pair in ranges)]


@api("acl.data_type_size")
def data_type_size(m: Machine, data_type: int) -> int:
    """data_type_size(data_type) -> bytes of an element."""
    return element_size(data_type)


@api("acl.create_tensor_desc")
def create_tensor_desc(m: Machine, data_type: int, dims: Any, format: int) -> int:
    """create_tensor_desc(data_type, dims, format) -> desc; dims must be a list."""
    return opened(m, TensorDesc(data_type, _dims(m, dims), format))


@api("acl.destroy_tensor_desc")
def destroy_tensor_desc(m: Machine, desc: int) -> None:
    """destroy_tensor_desc(desc): accepts 0."""
    if desc:
        for part in take(m, desc, TensorDesc).following:
            m.handles.close(part, m.here())
        m.handles.close(desc, m.here())


@api("acl.get_tensor_desc_type")
def get_tensor_desc_type(m: Machine, desc: int) -> int:
    """get_tensor_desc_type(desc) -> data type; -1 for 0."""
    return take(m, desc, TensorDesc).dtype if desc else UNDEFINED


@api("acl.get_tensor_desc_format")
def get_tensor_desc_format(m: Machine, desc: int) -> int:
    """get_tensor_desc_format(desc) -> format; -1 for 0."""
    return take(m, desc, TensorDesc).format if desc else UNDEFINED


@api("acl.get_tensor_desc_size")
def get_tensor_desc_size(m: Machine, desc: int) -> int:
    """get_tensor_desc_size(desc) -> bytes."""
    if not desc:
        return 0
    entry = take(m, desc, TensorDesc)
    return entry.elements * element_size(entry.dtype)


@api("acl.get_tensor_desc_element_count")
def get_tensor_desc_element_count(m: Machine, desc: int) -> int:
    """get_tensor_desc_element_count(desc) -> elements; 1 without dims, 0 with a negative one."""
    return take(m, desc, TensorDesc).elements if desc else 0


@api("acl.get_tensor_desc_num_dims")
def get_tensor_desc_num_dims(m: Machine, desc: int) -> int:
    """get_tensor_desc_num_dims(desc) -> number of dims; 2**64 - 2 for an unknown rank (first dim -2)."""
    if not desc:
        return 0
    dims = take(m, desc, TensorDesc).dims
    return UNKNOWN_RANK if dims[:1] == [-2] else len(dims)


@api("acl.get_tensor_desc_dim")
def get_tensor_desc_dim(m: Machine, desc: int, index: int) -> int:
    """get_tensor_desc_dim(desc, index) -> dim; -1 for a bad index."""
    dims = take(m, desc, TensorDesc).dims if desc else []
    return dims[index] if index < len(dims) else -1


@api("acl.get_tensor_desc_dim_v2")
def get_tensor_desc_dim_v2(m: Machine, desc: int, index: int) -> tuple[int, int]:
    """get_tensor_desc_dim_v2(desc, index) -> (dim, ret)."""
    dims = take(m, desc, TensorDesc).dims
    if index >= len(dims):
        raise refuse(m, "runtime.bad_parameter", argument="index", value=index, allowed=f"0 to {len(dims) - 1}")
    return dims[index], 0


@api("acl.get_tensor_desc_dim_range")
def get_tensor_desc_dim_range(m: Machine, desc: int, index: int, count: int) -> tuple[list[int] | None, int]:
    """get_tensor_desc_dim_range(desc, index, count) -> ([least, most], ret); count is 2."""
    if count > 4096:
        return None, 100000
    entry = take(m, desc, TensorDesc)
    if index >= len(entry.ranges) or count < 2:
        raise refuse(
            m, "runtime.bad_parameter", argument="index", value=index, allowed=f"below {len(entry.ranges)}, count 2"
        )
    return [*entry.ranges[index], *[0] * (count - 2)], 0


@api("acl.get_tensor_desc_name")
def get_tensor_desc_name(m: Machine, desc: int) -> str:
    """get_tensor_desc_name(desc) -> name."""
    return take(m, desc, TensorDesc).name if desc else ""


@api("acl.set_tensor_desc_name")
def set_tensor_desc_name(m: Machine, desc: int, name: str) -> None:
    """set_tensor_desc_name(desc, name)."""
    if desc:
        take(m, desc, TensorDesc).name = name


@api("acl.get_tensor_desc_address")
def get_tensor_desc_address(m: Machine, desc: int) -> int:
    """get_tensor_desc_address(desc) -> address."""
    return take(m, desc, TensorDesc).address if desc else 0


@api("acl.set_tensor_format")
def set_tensor_format(m: Machine, desc: int, format: int) -> int:
    """set_tensor_format(desc, format) -> ret: the format in storage."""
    take(m, desc, TensorDesc).storage_format = format
    return 0


@api("acl.set_tensor_storage_format")
def set_tensor_storage_format(m: Machine, desc: int, format: int) -> int:
    """set_tensor_storage_format(desc, format) -> ret."""
    take(m, desc, TensorDesc).storage_format = format
    return 0


@api("acl.set_tensor_origin_format")
def set_tensor_origin_format(m: Machine, desc: int, format: int) -> int:
    """set_tensor_origin_format(desc, format) -> ret."""
    take(m, desc, TensorDesc).origin_format = format
    return 0


@api("acl.set_tensor_shape")
def set_tensor_shape(m: Machine, desc: int, dims: Any) -> int:
    """set_tensor_shape(desc, dims) -> ret: the shape in storage."""
    take(m, desc, TensorDesc).storage_dims = _dims(m, dims)
    return 0


@api("acl.set_tensor_storage_shape")
def set_tensor_storage_shape(m: Machine, desc: int, dims: Any) -> int:
    """set_tensor_storage_shape(desc, dims) -> ret."""
    take(m, desc, TensorDesc).storage_dims = _dims(m, dims)
    return 0


@api("acl.set_tensor_origin_shape")
def set_tensor_origin_shape(m: Machine, desc: int, dims: Any) -> int:
    """set_tensor_origin_shape(desc, dims) -> ret."""
    take(m, desc, TensorDesc).origin_dims = _dims(m, dims)
    return 0


@api("acl.set_tensor_shape_range")
def set_tensor_shape_range(m: Machine, desc: int, ranges: Any) -> int:
    """set_tensor_shape_range(desc, [[least, most], ...]) -> ret."""
    take(m, desc, TensorDesc).ranges = _ranges(m, ranges)
    return 0


@api("acl.set_tensor_place_ment")
def set_tensor_place_ment(m: Machine, desc: int, mem_type: int) -> int:
    """set_tensor_place_ment(desc, mem_type) -> ret: 0 device, 1 host."""
    take(m, desc, TensorDesc).placement = mem_type
    return 0


@api("acl.set_tensor_dynamic_input")
def set_tensor_dynamic_input(m: Machine, desc: int, name: str) -> int:
    """set_tensor_dynamic_input(desc, name) -> ret."""
    take(m, desc, TensorDesc).dynamic_input = name
    return 0


@api("acl.set_tensor_const")
def set_tensor_const(m: Machine, desc: int, data: int, size: int) -> int:
    """set_tensor_const(desc, data, size) -> ret: a constant input; the host memory is copied at once."""
    entry = take(m, desc, TensorDesc)
    if data == 0 or size == 0:
        raise refuse(m, "runtime.bad_parameter", argument="data or size", value=0, allowed="host memory")
    entry.constant = bytes(m.memory.view(data, size, "host", write=False))
    return 0


@api("acl.set_tensor_value_range")
def set_tensor_value_range(m: Machine, desc: int, ranges: Any) -> int:
    """set_tensor_value_range(desc, [[least, most], ...]) -> ret: kept; no operator here has a range of values."""
    take(m, desc, TensorDesc).value_ranges = _ranges(m, ranges)
    return 0


@api("acl.get_tensor_desc_by_index")
def get_tensor_desc_by_index(m: Machine, desc: int, index: int) -> int:
    """get_tensor_desc_by_index(desc, index) -> desc: of an array that acl.mdl.create_and_get_op_desc gave; 0 behind its
    end (the real function counts on)."""
    entry = take(m, desc, TensorDesc)
    known = [desc, *entry.following]
    if index >= len(known):
        raise refuse(m, "runtime.bad_parameter", argument="index", value=index, allowed=f"0 to {len(known) - 1}")
    return known[index]


_NCHW, _NHWC, _ND, _NC1HWC0, _FRACTAL_Z, _HWCN, _FRACTAL_NZ = 0, 1, 2, 3, 4, 16, 29
_PLAIN = {_NCHW: "NCHW", _NHWC: "NHWC", _HWCN: "HWCN"}
_BLOCK = 16


def _laid_out(dims: list[int], source: int, target: int, inner: int) -> list[int] | None:
    """The dims of a tensor in another format; None if there is none. ``inner``: C0."""
    if source == target:
        return list(dims)
    if source in _PLAIN and len(dims) == len("NCHW"):
        sizes = dict(zip(_PLAIN[source], dims, strict=True))
        blocks = -(-sizes["C"] // inner)
        if target in _PLAIN:
            return [sizes[axis] for axis in _PLAIN[target]]
        if target == _NC1HWC0:
            return [sizes["N"], blocks, sizes["H"], sizes["W"], inner]
        if target == _FRACTAL_Z:
            return [blocks * sizes["H"] * sizes["W"], -(-sizes["N"] // _BLOCK), _BLOCK, inner]
    if target == _FRACTAL_NZ and len(dims) >= len("HW"):
        *batch, rows, columns = dims
        return [*batch, -(-columns // inner), -(-rows // _BLOCK), _BLOCK, inner]
    return None


@api("acl.trans_tensor_desc_format")
def trans_tensor_desc_format(m: Machine, desc: int, target: int) -> tuple[int, int]:
    """trans_tensor_desc_format(desc, format) -> (new desc, ret): the same tensor in another format; 500002 if that does
    not exist."""
    entry = take(m, desc, TensorDesc)
    dims = _laid_out(entry.dims, entry.format, target, 2 * _BLOCK if element_size(entry.dtype) == 1 else _BLOCK)
    if dims is None or any(dim < 0 for dim in entry.dims):
        raise refuse(m, "runtime.no_such_layout", dims=entry.dims, source=entry.format, target=target)
    return opened(m, TensorDesc(entry.dtype, dims, target, name=entry.name)), 0
