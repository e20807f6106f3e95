"""Networks of `transformers`, built from their configurations with random weights: nothing is downloaded.

Each entry is a small network of its family and a batch of its inputs. Weights come from a seed, so that every run
converts the same file. transformers' own initial weights fade to nothing in deep convolutional networks: convolutions
get Kaiming weights, and every batch normalisation the statistics of what it sees, as training would give it. Their
offset is 1, so that most activations work in their linear part: with 0 a random network makes the smallest difference
some hundred times as large on its way through, and no tolerance would mean anything.

The package is looked for in CANNLAB_TEST_MODELS, then among the installed ones::

    pip install --no-deps --target DIR transformers==5.24.0 huggingface_hub tokenizers safetensors regex hf-xet \\
        httpx2 httpcore2 truststore click tqdm typer
    CANNLAB_TEST_MODELS=DIR pytest tests/conformance/test_architectures.py
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

SETTLING = 4
"""Inputs from which batch normalisations take their statistics: one image would leave some channels without any."""

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Architecture:
    """How to build a network (of the module ``transformers``) and what to give it.

    Attributes:
        convolutional: draw the convolutions' weights again and settle the batch normalisations.
        slow: takes more than some seconds.
    """

    name: str
    build: Callable[[Any], Any]
    inputs: Shapes
    convolutional: bool = False
    slow: bool = True


def image(height: int, width: int | None = None) -> Shapes:
    return (("pixel_values", (1, 3, height, width or height)),)


TEXT: Shapes = (("input_ids", (1, 32)), ("attention_mask", (1, 32)))
TINY = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
SMALL = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}

ARCHITECTURES = (
    Architecture(
        "resnet50", lambda t: t.ResNetForImageClassification(t.ResNetConfig()), image(112), convolutional=True
    ),
    Architecture(
        "mobilenet_v1",
        lambda t: t.MobileNetV1ForImageClassification(t.MobileNetV1Config(image_size=96)),
        image(96),
        convolutional=True,
    ),
    Architecture(
        "mobilenet_v2",
        lambda t: t.MobileNetV2ForImageClassification(t.MobileNetV2Config(image_size=96)),
        image(96),
        convolutional=True,
    ),
    Architecture(
        "efficientnet",
        lambda t: t.EfficientNetForImageClassification(
            t.EfficientNetConfig(width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280)
        ),
        image(96),
        convolutional=True,
    ),
    Architecture("regnet", lambda t: t.RegNetForImageClassification(t.RegNetConfig()), image(64), convolutional=True),
    Architecture("convnext", lambda t: t.ConvNextForImageClassification(t.ConvNextConfig()), image(64)),
    Architecture(
        "mobilevit",
        lambda t: t.MobileViTForImageClassification(
            t.MobileViTConfig(
                hidden_sizes=[64, 80, 96], neck_hidden_sizes=[16, 16, 24, 48, 64, 80, 320], expand_ratio=2.0
            )
        ),
        image(64),
        convolutional=True,
    ),
    Architecture(
        "vit", lambda t: t.ViTForImageClassification(t.ViTConfig(image_size=64, **TINY)), image(64), slow=False
    ),
    Architecture("deit", lambda t: t.DeiTForImageClassification(t.DeiTConfig(image_size=64, **TINY)), image(64)),
    Architecture("swin", lambda t: t.SwinForImageClassification(t.SwinConfig(depths=[2, 2, 2, 2])), image(224)),
    Architecture(
        "bert",
        lambda t: t.BertModel(
            t.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536)
        ),
        TEXT,
    ),
    Architecture(
        "distilbert",
        lambda t: t.DistilBertModel(t.DistilBertConfig(dim=384, n_layers=3, n_heads=6, hidden_dim=1536)),
        TEXT,
    ),
    Architecture(
        "segformer",
        lambda t: t.SegformerForSemanticSegmentation(t.SegformerConfig()),
        image(64),
        convolutional=True,
    ),
    Architecture(
        "yolos",
        lambda t: t.YolosForObjectDetection(
            t.YolosConfig(num_hidden_layers=4, image_size=[64, 96], num_detection_tokens=20, **TINY)
        ),
        image(64, 96),
    ),
    Architecture(
        "detr",
        lambda t: t.DetrForObjectDetection(
            t.DetrConfig(
                use_timm_backbone=False,
                use_pretrained_backbone=False,
                backbone=None,
                backbone_config=t.ResNetConfig(out_features=["stage4"]),
                encoder_layers=2,
                decoder_layers=2,
            )
        ),
        image(64),
        convolutional=True,
    ),
    Architecture(
        "gpt2",
        lambda t: t.GPT2LMHeadModel(t.GPT2Config(n_layer=2, n_embd=128, n_head=4)),
        TEXT,
    ),
    Architecture(
        "whisper",
        lambda t: t.WhisperForAudioClassification(
            t.WhisperConfig(
                d_model=128,
                encoder_layers=2,
                encoder_attention_heads=4,
                encoder_ffn_dim=512,
                max_source_positions=100,
            )
        ),
        (("input_features", (1, 80, 200)),),
        slow=False,
    ),
    Architecture(
        "clip",
        lambda t: t.CLIPVisionModel(t.CLIPVisionConfig(image_size=64, patch_size=16, **SMALL)),
        image(64),
        slow=False,
    ),
)


def load() -> Any:
    """The module ``transformers``; the test is skipped where there is none."""
    folder = os.environ.get("CANNLAB_TEST_MODELS")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            module = importlib.import_module("transformers")
    except ImportError:
        pytest.skip("no transformers: pip install transformers==5.24.0, or set CANNLAB_TEST_MODELS to a folder with it")
    module.logging.set_verbosity_error()
    return module


def export(architecture: Architecture, opset: int, path: Path, *, dynamo: bool = False) -> dict[str, Any]:
    """Write the network as an ONNX file, by TorchScript or by ``torch.export``; its inputs by name."""
    transformers = load()
    with quiet():
        model, inputs = made(architecture, transformers)
        write(_Plain(model, tuple(inputs)), inputs, opset, path, dynamo=dynamo)
    return {name: tensor.numpy() for name, tensor in inputs.items()}


def write(model: Any, inputs: dict[str, torch.Tensor], opset: int, path: Path, *, dynamo: bool = False) -> None:
    """Write a network that takes its inputs in this order."""
    names, values = list(inputs), tuple(inputs.values())
    # The weights go into the file; TorchScript does that by itself.
    options: dict[str, Any] = {"external_data": False, "verbose": False} if dynamo else {}
    torch.onnx.export(model, values, str(path), opset_version=opset, input_names=names, dynamo=dynamo, **options)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The export's warnings and prints tell nothing about atc."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


class _Plain(torch.nn.Module):
    """The network with positional inputs and a tuple of tensors as its result."""

    def __init__(self, model: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = self.model(**dict(zip(self.names, values, strict=True))).to_tuple()
        return tuple(result for result in results if isinstance(result, torch.Tensor))


def made(architecture: Architecture, transformers: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """The network in evaluation mode and its inputs, the same on every run."""
    torch.manual_seed(11)
    model = architecture.build(transformers)
    model.config.use_cache = False
    model.set_attn_implementation("eager")
    model.eval()
    inputs = {name: _drawn(name, shape) for name, shape in architecture.inputs}
    if architecture.convolutional:
        for part in model.modules():
            if isinstance(part, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(part.weight)
        settle(model, {name: torch.randn(SETTLING, *shape[1:]) for name, shape in architecture.inputs})
    return model, inputs


def _drawn(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    if name == "input_ids":
        return torch.randint(5, 1000, shape)
    if name == "attention_mask":
        return (torch.arange(shape[1]) < shape[1] - 7).long().expand(shape)
    return torch.randn(shape)


def settle(model: Any, inputs: dict[str, torch.Tensor]) -> None:
    """Give each batch normalisation (frozen ones too) the statistics of what reaches it, one after the other, and an
    offset of 1."""

    def take(norm: Any, given: tuple[torch.Tensor, ...]) -> None:
        norm.running_mean.copy_(given[0].mean(dim=(0, 2, 3)))
        norm.running_var.copy_(given[0].var(dim=(0, 2, 3)))
        norm.weight.fill_(1.0)
        norm.bias.fill_(1.0)

    norms = [part for part in model.modules() if hasattr(part, "running_var")]
    hooks = [norm.register_forward_pre_hook(take) for norm in norms]
    with torch.no_grad():
        model(**inputs)
    for hook in hooks:
        hook.remove()
