"""The tests of atc share ``onnx_models``."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
