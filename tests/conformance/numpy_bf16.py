# SPDX-License-Identifier: MIT OR Apache-2.0
"""bf16 for NumPy, which has none: f32 arrays that say so, and rounding to what bf16 holds."""
import numpy as np


class Bf16(np.ndarray):
    """An array of f32 whose elements are numbers of bf16."""


def of_bits(data):
    return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).view(Bf16)


def rounded(x):
    """Numbers of bf16 as f64: 8 digits, halves to even, gradual below 2^-126, infinite past the last."""
    x = np.asarray(x, np.float64)
    _, exponent = np.frexp(x)
    step = np.ldexp(1.0, np.maximum(exponent, -125) - 8)
    near = np.where(np.isfinite(x), np.rint(x / step) * step, x)
    return np.where(np.abs(near) >= 2.0**128, np.copysign(np.inf, near), near)


def like(x, value):
    """A scalar operand as an element of x's dtype."""
    return np.float32(rounded(value)) if isinstance(x, Bf16) else x.dtype.type(value)
