"""What goes wrong with an om file, as one exception."""

from __future__ import annotations

from typing import Any

from cannlab.errors import CannlabError, diagnose


class OmError(CannlabError):
    """An om that cannot be loaded. ``diagnosis`` says why; ``code`` is what loading returns."""

    @property
    def code(self) -> int:
        """The aclError number that loading gives."""
        return int(self.diagnosis.code)


def om_error(rule: str, **facts: Any) -> OmError:
    """The error of the broken rule ``om.<rule>``."""
    return OmError(diagnose(f"om.{rule}", **facts))
