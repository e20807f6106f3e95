"""The demo's network: a small CNN on scikit-learn's handwritten digits, trained the same way every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

HELD_OUT = 360
BATCH = 8
EPOCHS = 8


@dataclass(frozen=True)
class Digits:
    """The trained network and its held-out images (float32, (360, 1, 8, 8), 0..1) and labels (int64)."""

    network: Any
    images: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]

    def accuracy(self) -> float:
        """Share of held-out images that PyTorch classifies right."""
        with torch.no_grad():
            guesses = self.network(torch.from_numpy(self.images)).argmax(1).numpy()
        return float((guesses == self.labels).mean())

    def export(self, path: Path) -> None:
        """Write the network as ONNX (opset 13, input ``image`` of one batch)."""
        example = torch.zeros(BATCH, *self.images.shape[1:])
        torch.onnx.export(
            self.network,
            (example,),
            str(path),
            dynamo=False,
            opset_version=13,
            input_names=["image"],
            output_names=["score"],
        )


def network() -> Any:
    """Three convolutions and a classifier."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def train(tell: Callable[[str], None]) -> Digits:
    """Train with fixed seeds on one thread; ``tell`` hears of every epoch."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images / 16).astype(np.float32)[:, None]
    labels = data.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(images))
    held, rest = order[:HELD_OUT], order[HELD_OUT:]

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    x, y = torch.from_numpy(images[rest]), torch.from_numpy(labels[rest])
    for epoch in range(EPOCHS):
        shuffled = torch.randperm(len(x))
        for first in range(0, len(x), 64):
            some = shuffled[first : first + 64]
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(x[some]), y[some])
            loss.backward()
            optimiser.step()
        tell(f"epoch {epoch + 1} of {EPOCHS}, loss {loss.item():.3f}")
    model.eval()
    return Digits(model, images[held], labels[held])
