#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole models of f32 kept in f16 and bf16: the digits, a BERT, a GPT-2 and a convolutional net are as near to f32 as
docs/devices/narrow-models.md says, twice over; the device holds about half; and no launch only casts between two narrow
operators. Needs Debian's python3-onnx; skipped without it.

usage: kept_models.py KILN TREE DEVICE: on reference every model in both types, elsewhere two of them in bf16
"""
import os
import re
import subprocess
import sys
import tempfile

KILN, TREE, DEVICE = sys.argv[1:4]
sys.path.append(os.path.join(TREE, "tests", "onnx_cases"))
try:
    import numpy as np
    import onnx
    import tool_models
except ImportError as missing:
    print(f"SKIP {missing}: apt install python3-onnx")
    print("kiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)

# Largest difference from f32 over the largest output.
ERRORS = {"digits": {"bf16": 8.4e-3, "f16": 1e-3}, "bert": {"bf16": 2.4e-2, "f16": 2.6e-3},
          "gpt2": {"bf16": 1.8e-2, "f16": 2.2e-3}, "convolutions": {"bf16": 6e-3, "f16": 6e-4}}
TRIALS = [(name, dtype) for name in ERRORS for dtype in ERRORS[name]]
if not DEVICE.startswith("reference"):
    TRIALS = [("digits", "bf16"), ("bert", "bf16")]
MOST_CASTS = 2  # launches that only cast: the mask of a BERT once, and the output


def kiln(*words):
    run = subprocess.run([KILN, *words, "--device", DEVICE], capture_output=True, text=True, check=False, timeout=600,
                         env={**os.environ, "KILN_DETERMINISTIC": "1"})
    assert run.returncode == 0, run.stderr
    return run.stdout


def write(folder, name):
    """The words that name a model's file and its inputs."""
    if name == "digits":
        digits = os.path.join(TREE, "examples", "digits")
        return [os.path.join(digits, "digits.onnx"), "--input", os.path.join(digits, "three.npy")]
    path = os.path.join(folder, name + ".onnx")
    onnx.save(getattr(tool_models, name)(), path)
    words = [path]
    for key, array in tool_models.inputs_of(name, 5).items():
        np.save(os.path.join(folder, f"{name}_{key}.npy"), array)
        words += ["--input", f"{key}={folder}/{name}_{key}.npy"]
    return words


def result(folder, words, dtype):
    """The output, and the KiB that the device held at most."""
    path = os.path.join(folder, "y.npy")
    text = kiln("run", *words, "--model-dtype", dtype, "--runs", "1", "--output", path)
    size, unit = re.search(r"peak of device memory: ([0-9.]+) (\w+)", text).groups()
    return np.load(path), float(size) * {"KiB": 1, "MiB": 1024}[unit]


def lone_casts(words, dtype):
    """Operations that run unfused and only cast."""
    text = kiln("explain", *words, "--model-dtype", dtype)
    return re.findall(r"^unfused: .*\n +\[\d+\] .*= cast\(.*$", text, re.M)


def trial(folder, name, dtype):
    words = write(folder, name)
    wanted, whole = result(folder, words, "f32")
    found, half = result(folder, words, dtype)
    assert found.dtype == wanted.dtype == np.float32, found.dtype
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert 0 < error < ERRORS[name][dtype], f"differs by {error:.2g} of the largest"
    if DEVICE.startswith("reference"):  # elsewhere fusers pack, and kernels hold what they need
        assert half < 0.56 * whole, f"{half} KiB, {whole} in f32"
    else:
        casts = lone_casts(words, dtype)
        assert len(casts) <= MOST_CASTS, casts


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, dtype in TRIALS:
            try:
                trial(folder, name, dtype)
            except AssertionError as error:
                failed += 1
                print(f"FAIL unit/onnx/kept_models {name} {dtype} {DEVICE}: {error}")
    print(f"kiln-test: {len(TRIALS) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
