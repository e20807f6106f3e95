"""What a program made through pyACL and did not destroy: a diagnosis for each line that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cannlab.acl.checks import DESTROYERS, KIND_NAMES
from cannlab.errors import Diagnosis, diagnose

if TYPE_CHECKING:
    from cannlab.machine import Machine
    from cannlab.machine.models import LoadedModel
    from cannlab.machine.spots import Spot


def handle_leaks(m: Machine) -> list[Diagnosis]:
    """Streams, events, contexts, datasets, buffers, descriptions that are left, by kind and line (``runtime.leak``)."""
    groups: dict[tuple[type, int, int], list[Spot]] = {}
    for item, made in m.handles.left():
        groups.setdefault((type(item), made.file, made.line), []).append(made)
    return [
        diagnose(
            "runtime.leak",
            where=made[0].place,
            count=len(made),
            kind=KIND_NAMES.get(kind, kind.__name__),
            function=DESTROYERS.get(kind, "its destroy function"),
        )
        for (kind, _, _), made in groups.items()
    ]


def model_leaks(m: Machine, models: dict[int, LoadedModel]) -> list[Diagnosis]:
    """Models that were not unloaded (``model.not_unloaded``); their memory is given back."""
    found = []
    for model in models.values():
        found.append(diagnose("model.not_unloaded", where=model.made.place, name=model.om.name))
        model.unload()
    models.clear()
    return found
