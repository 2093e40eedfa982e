# SPDX-License-Identifier: MIT OR Apache-2.0
"""An ONNX model on pictures of digits, as with onnxruntime. Usage: digits.py [DEVICE], such as opencl:0."""
import pathlib
import sys

import kiln
import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "digits"
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

session = kiln.onnx.load(FOLDER / "digits.onnx", device=sys.argv[1] if len(sys.argv) > 1 else None)
name = session.get_inputs()[0].name
for digit, word in enumerate(NAMES):
    scores, = session.run({name: np.load(FOLDER / f"{word}.npy")})
    print(f"{word}: {int(scores.argmax())}, with probability {float(kiln.exp(scores.max())):.3f}")
    assert int(scores.argmax()) == digit
