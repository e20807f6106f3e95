"""The progress panel in a notebook: ``from cannlab import panel; panel()``."""

from cannlab.course.panel.show import panel

__all__ = ["panel"]
