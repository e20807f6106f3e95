"""The models of these tests are found whatever is run with them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
