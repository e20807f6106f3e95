"""Floor 1: the table of chips."""

from cannlab.soc.soc import DEFAULT_DEVICES, DEFAULT_SOC, Soc, current, device_count, get, table

__all__ = ["DEFAULT_DEVICES", "DEFAULT_SOC", "Soc", "current", "device_count", "get", "table"]
