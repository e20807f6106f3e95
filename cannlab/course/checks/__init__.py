"""One file of checks per workbook, ``cLESSON.py``: declarations only (docs/authoring.md)."""
