"""Things for the trained models to recognise: rendered text, and a signal that sounds like speech."""

from __future__ import annotations

from typing import Any

import numpy as np

RATE = 16000
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))
"""Formants of five vowels, Hz."""


def text_image(text: str, height: int = 48, width: int = 320) -> Any:
    """A line of text, dark on light, uint8 (height, width, 3), in matplotlib's own font."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 100, height / 100), dpi=100, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    figure.text(0.03, 0.5, text, va="center", fontsize=height * 0.42, family="DejaVu Sans")
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:height, :width, :3].copy()


def for_ocr(image: Any) -> Any:
    """An image as the OCR networks take it: BGR, -1 to 1, float32 (1, 3, height, width)."""
    scaled = (image[:, :, ::-1].astype(np.float32) / 255 - 0.5) / 0.5
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None])


def speech(seconds: float = 2.0) -> Any:
    """Half a second of silence, syllables of gliding vowels, half a second of silence; float32 at 16 kHz."""
    random = np.random.default_rng(0)
    parts = [np.zeros(RATE // 2)]
    for syllable in range(int(seconds / 0.2)):
        count = int(RATE * 0.18)
        at = np.arange(count) / RATE
        pitch = 120 + 25 * np.sin(2 * np.pi * 2 * (at + syllable * 0.2)) + random.uniform(-10, 10)
        phase = np.cumsum(pitch) / RATE
        sound = np.diff(np.floor(phase), prepend=0).clip(0, 1) + 0.01 * random.standard_normal(count)
        here, there = VOWELS[syllable % 5], VOWELS[(syllable + 1) % 5]
        for start, end, width in zip(here, there, (80, 90, 120), strict=True):
            sound = _resonance(sound, np.linspace(start, end, count), width)
        sound *= np.hanning(count)
        parts.append(sound / np.abs(sound).max() * 0.4)
        parts.append(0.02 * random.standard_normal(int(RATE * 0.03)) if syllable % 2 else np.zeros(int(RATE * 0.02)))
    parts.append(np.zeros(RATE // 2))
    return np.concatenate(parts).astype(np.float32)


def _resonance(sound: Any, frequency: Any, width: float) -> Any:
    radius = np.exp(-np.pi * width / RATE)
    result = np.zeros(len(sound))
    last = before = 0.0
    for at, turn in enumerate(2 * radius * np.cos(2 * np.pi * frequency / RATE)):
        result[at] = sound[at] * (1 - radius) + turn * last - radius * radius * before
        before, last = last, result[at]
    return result


def frames(signal: Any, context: int = 64, size: int = 512) -> list[Any]:
    """Frames of a signal with the end of the one before, float32 (1, context + size)."""
    found = []
    before = np.zeros(context, np.float32)
    for at in range(0, len(signal) - size, size):
        found.append(np.concatenate([before, signal[at : at + size]])[None])
        before = signal[at + size - context : at + size]
    return found
