"""Floor 1: the codes of the real stack and the diagnoses that go with them."""

from cannlab.errors.diagnosis import CannlabError, Diagnosis, diagnose
from cannlab.errors.explain import Explanation, explain
from cannlab.errors.places import Place, caller

__all__ = ["CannlabError", "Diagnosis", "Explanation", "Place", "caller", "diagnose", "explain"]
