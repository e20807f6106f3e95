"""``cannlab env``: prints the code that ``eval "$(cannlab env)"`` evaluates."""

from __future__ import annotations

import os
import shlex
import sys

from cannlab import activation, soc
from cannlab.env.installation import find_installation
from cannlab.env.shell import SHELLS, shell_code
from cannlab.env.system import this_machine
from cannlab.env.toolkit import emulated_toolkit
from cannlab.errors import diagnose


def run(soc_name: str | None, devices: int | None, shell: str) -> int:
    """Print the shell code.

    Args:
        soc_name: SoC that the shell emulates; CANNLAB_SOC or the default if None.
        devices: number of devices; CANNLAB_DEVICES or the default if None.
        shell: one of ``SHELLS``.

    Returns:
        0, or 2 for an unknown shell.

    Raises:
        CannlabError: ``soc.unknown``, ``soc.device_count``, or what choosing the backend raises.
    """
    if shell not in SHELLS:
        print(diagnose("cli.shell_unknown", shell=shell, known=", ".join(SHELLS)).text(), file=sys.stderr)
        return 2
    wanted = dict(os.environ)
    if soc_name is not None:
        wanted["CANNLAB_SOC"] = soc_name
    if devices is not None:
        wanted["CANNLAB_DEVICES"] = str(devices)
    settings = {
        "CANNLAB_SOC": soc.current(wanted).name,
        "CANNLAB_DEVICES": str(soc.device_count(wanted)),
        "CANNLAB_BACKEND": "emulated",
    }
    if os.environ.get("CANNLAB_CANN"):
        settings["CANNLAB_CANN"] = os.environ["CANNLAB_CANN"]
    if activation.chosen_backend() == "real":
        toolkits = find_installation(this_machine()).toolkits
        print("cannlab: a real device answers here; nothing is emulated", file=sys.stderr)
        if toolkits:
            print(f"source {shlex.quote(toolkits[0].set_env)}")
        return 0
    print(shell_code(emulated_toolkit(activation.emulated_names()), settings), end="")
    return 0
