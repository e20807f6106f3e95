"""Why functions of pyACL are not emulated."""

from __future__ import annotations

_KERNELS = (
    "it handles the machine code of kernels, which only the chip can run; launch an asc kernel with kernel[cores](...)"
)
_COMPILED = "it takes compiled kernels for operators, which only the chip can run; use cannlab's custom operators"
_FEATURES = "it searches features with a library of the 310 whose arithmetic is not published"
_MEDIA = "it is the second interface to the media units; use acl.media"
_REASONS = {
    "acl.rt.binary_": _KERNELS,
    "acl.rt.create_binary": _KERNELS,
    "acl.rt.destroy_binary": _KERNELS,
    "acl.rt.get_function_": _KERNELS,
    "acl.rt.register_cpu_func": _KERNELS,
    "acl.rt.launch_kernel": _KERNELS,
    "acl.rt.kernel_args_": _KERNELS,
    "acl.op.register_compile_func": _COMPILED,
    "acl.op.unregister_compile_func": _COMPILED,
    "acl.op.create_kernel": _COMPILED,
    "acl.op.set_kernel_": _COMPILED,
    "acl.op.update_params": _COMPILED,
    "acl.fv.": _FEATURES,
    "acl.himpi.": _MEDIA,
}
"""By the beginning of the full names."""


def reason(name: str) -> str:
    """Why the function of that full name is not emulated; "" where there is no more to say than that it is missing."""
    return next((text for start, text in _REASONS.items() if name.startswith(start)), "")
