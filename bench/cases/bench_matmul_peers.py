#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""One case of `kiln bench matmul` in NumPy: THREADS M K N GELU.

Prints `version NUMPY/BLAS`, then `seconds S`, the best of a few; nothing without NumPy. NumPy has no erf, so
its GELU is the one with tanh.
"""
import os
import sys
import time

threads, m, k, n, gelu = (int(word) for word in sys.argv[1:6])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(threads)

try:
    import numpy as np
except ImportError:
    sys.exit(0)


def library():
    """The BLAS that is loaded, by its file."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        names = {os.path.basename(line.split()[-1]) for line in maps if "blas" in line}
    return "+".join(sorted(names)) or "unknown"


random = np.random.default_rng(1)
a = random.random((m, k), np.float32) - np.float32(0.5)
b = random.random((k, n), np.float32) - np.float32(0.5)
bias = b[0].copy()


def run():
    y = a @ b
    if gelu:
        y += bias
        y *= np.float32(0.5) * (1 + np.tanh(np.float32(0.7978845608) *
                                            (y + np.float32(0.044715) * y * y * y)))
    return y


run()
best = float("inf")
for _ in range(5):
    start = time.perf_counter()
    run()
    best = min(best, time.perf_counter() - start)
print("version", np.__version__ + "/" + library())
print("seconds", f"{best:.9f}")
