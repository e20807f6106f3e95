"""Shell code for ``eval "$(cannlab env)"``: the counterpart of ``source set_env.sh``."""

from __future__ import annotations

import shlex

from cannlab.env.toolkit import Toolkit

SHELLS = ("bash", "zsh", "sh")
"""The shells whose syntax is printed; it is the same for all of them."""


def shell_code(toolkit: Toolkit, settings: dict[str, str]) -> str:
    """Code that a POSIX shell evaluates: exports the toolkit's variables and ``settings``.

    A search path is changed only if the toolkit's folders are not yet in front of it, so evaluating the
    code twice changes nothing.
    """
    lines = [f"export {name}={shlex.quote(value)}" for name, value in (toolkit.variables() | settings).items()]
    for name, folders in toolkit.search_paths().items():
        front = shlex.quote(":".join(folders))
        lines.append(f'case "${{{name}-}}:" in')
        lines.append(f"  {front}:*) ;;")
        lines.append(f'  *) export {name}={front}"${{{name}:+:${{{name}}}}}" ;;')
        lines.append("esac")
    return "\n".join(lines) + "\n"
