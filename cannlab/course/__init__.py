"""Floor 4: the course engine: manifest, workbooks, checks, judging, progress."""

from cannlab.course.notebook import check, given, hint

__all__ = ["check", "given", "hint"]
