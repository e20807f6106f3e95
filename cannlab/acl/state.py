"""What the acl face keeps in a machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from cannlab.acl.leaks import handle_leaks, model_leaks
from cannlab.acl.plog import write_diagnosis

if TYPE_CHECKING:
    from cannlab.machine import Machine
    from cannlab.machine.models import LoadedModel


@dataclass
class AclState:
    """How often acl was initialised, with which configuration, and its models.

    ``finalized`` is set once finalize ran: before that, finalize without init succeeds (pyacl-semantics 2).
    """

    inits: int = 0
    finalized: bool = False
    config: Any = None
    models: dict[int, LoadedModel] = field(default_factory=dict)
    next_model: int = 1


def acl_state(m: Machine) -> AclState:
    """The face's state in this machine."""
    state = m.faces.get("acl")
    if state is None:
        state = m.faces["acl"] = AclState()
        m.report_listeners.append(write_diagnosis)
        m.leak_finders += [partial(handle_leaks, m), partial(model_leaks, m, state.models)]
    assert isinstance(state, AclState)
    return state
