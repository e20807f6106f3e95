"""Floor 4: the command ``cannlab``."""
