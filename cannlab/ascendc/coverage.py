"""Which names of pyasc 1.1.1 are emulated: ``python -m cannlab.ascendc.coverage`` writes docs/asc-coverage.md."""

from __future__ import annotations

import json
import sys
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from cannlab.ascendc.lib.placeholders import NotEmulated, api

PARTLY = {
    "asc.data_copy": "enhanced_params with their defaults only; not from global memory to global memory",
    "asc.set_deq_scale": "without the table form, which pyasc's cast_deq never reads",
    "asc.load_data": "2D, 3D V2 and V2Pro (pyasc's chips have no other)",
    "asc.set_aipp_functions": "of the settings the type, which is all that reaches the device in 1.1.1",
    "asc.get_program_counter": "four times the line",
    "asc.set_load_data_boundary": "0 only",
    "asc.fixpipe": "without the shift of the quantisation word; no bfloat16, which pyasc lacks",
    "asc.adv.register_matmul": "operands in global memory and the UB, iterate, iterate_all, iterate_batch, "
    "get_tensor_c, quantisation; not iterate_n_batch, get_batch_tensor_c, async_get_tensor_c, get_offset_c, batch "
    "layouts other than NORMAL, partial sums, half bias, sparse",
    "asc.adv.softmax": "not data_format_nz",
    "asc.print_time_stamp": "prints the number, no time",
}
"""Emulated operations of which a form is missing, and which."""
REASONS = {
    "asc.language.adv.matmul": "`get_matmul_api_tiling`: its shapes come from `get_mm_config`, which drops its "
    "arguments in 1.1.1, so no kernel can give it one",
    "asc.language.basic.list_tensor": "in 1.1.1 every use after the first call of a method is refused while code is "
    "generated (the method leaves no handle), and no host program can make such a list: it holds device addresses",
    "asc.language.fwk.tpipe": "`TBufHandle`, `TPipeManager`: inside of the front end, made by no kernel",
    **dict.fromkeys(
        (
            "asc.language.adv.math",
            "asc.language.basic.vec_gather_mask",
            "asc.language.basic.vec_reduce",
            "asc.language.core.ir_value",
            "asc.language.core.utils",
        ),
        "inside of the front end: they build MLIR, which there is none of here",
    ),
    **dict.fromkeys(
        ("asc.lib.host.loader", "asc.lib.host.wrappers", "asc.lib.runtime.build_utils", "asc.lib.utils"),
        "they build and load C++ wrappers of the toolkit with its compiler",
    ),
    "asc.lib.runtime.interface": "what the launcher does with binaries and addresses; a launch takes arrays (the whole "
    "runtime is `acl`)",
    "asc.lib.runtime.support": "structures in which the driver gets binaries and profiling commands",
    **dict.fromkeys(
        ("asc.lib.runtime.print_utils", "asc.lib.runtime.state"), "they hold the loaded driver library and its handles"
    ),
    **dict.fromkeys(
        (
            "asc.runtime.cache",
            "asc.runtime.compiler",
            "asc.runtime.launcher",
            "asc.runtime.memory_handle",
            "asc.runtime.utils",
        ),
        "the compiler's files, and how the launcher hands memory to the driver: nothing is compiled or cached here",
    ),
}
"""Modules of which names are left out, and why; those of ``asc`` itself are names of these."""
_HEAD = """# What of pyasc 1.1.1 is emulated

Made by `python -m cannlab.ascendc.coverage`; do not edit. A name that is not emulated exists and says so when it is
used (`NotImplementedError` naming it). A form that an emulated operation lacks says so too.
"""


def operations() -> dict[str, str]:
    """The device operations of pyasc and the pipe of each."""
    text = (resources.files("cannlab.ascendc") / "data" / "operations.json").read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)
    return found


def look_up(name: str) -> Any:
    """What a dotted public name stands for."""
    value: Any = import_module("cannlab.ascendc")
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def emulated(value: Any) -> bool:
    """Does the emulation have it?"""
    return not isinstance(value, NotEmulated)


def names() -> dict[str, dict[str, bool]]:
    """Every public name by its module, and whether it is emulated."""
    found: dict[str, dict[str, bool]] = {}
    for module, kinds in api().items():
        path = module.removesuffix(".__init__").removeprefix("asc").removeprefix(".")
        home = import_module("cannlab.ascendc" + ("." + path if path else ""))
        found[module] = {name: emulated(getattr(home, name)) for each in kinds.values() for name in each}
    return found


def table() -> str:
    """The text of docs/asc-coverage.md."""
    rows = {name: emulated(look_up(name)) for name in operations()}
    lines = [
        _HEAD,
        f"## Operations: {sum(rows.values())} of {len(rows)}\n",
        "| operation | pipe | emulated |",
        "|---|---|---|",
    ]
    for name, pipe in operations().items():
        said = "yes" if rows[name] else "no"
        if rows[name] and name in PARTLY:
            said = f"yes, {PARTLY[name]}"
        lines.append(f"| `{name}` | {pipe} | {said} |")
    every = names()
    have = sum(sum(each.values()) for each in every.values())
    lines += [
        f"\n## All public names: {have} of {sum(len(each) for each in every.values())}\n",
        "| module | emulated | not emulated |",
        "|---|---|---|",
    ]
    for module, each in every.items():
        missing = ", ".join(f"`{name}`" for name, there in each.items() if not there)
        lines.append(f"| `{module.removesuffix('.__init__')}` | {sum(each.values())} of {len(each)} | {missing} |")
    lines += ["\n## Why names are left out\n", "| module | reason |", "|---|---|"]
    lines += [f"| `{module}` | {reason} |" for module, reason in REASONS.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the table."""
    target = Path(__file__).parents[2] / "docs" / "asc-coverage.md"
    text = table()
    fresh = target.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
