"""Names of pyasc's module of this name."""

from cannlab.ascendc.lib.placeholders import names_of

__getattr__ = names_of(__name__)
