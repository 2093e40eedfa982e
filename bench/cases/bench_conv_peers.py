#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The peer of `kiln bench conv`: oneDNN through PyTorch, with as many threads as its argument says.

Says "PyTorch VERSION", then to "INPUTS OUTPUTS LENGTH WINDOW STRIDE GROUPS SECONDS" the median and the least
milliseconds of a convolution and the sum of the result's squares. Without the library it says nothing.
"""
import sys
import time

sys.dont_write_bytecode = True  # it lies beside sources

try:
    import numpy as np
    import torch
except ImportError:
    sys.exit(0)


def numbers(shape, state):
    """Those of bench_conv.c, a linear congruential sequence that begins after `state`."""
    powers = np.cumprod(np.full(np.prod(shape), 1664525, np.uint32), dtype=np.uint32)
    sums = np.cumsum(np.concatenate((np.ones(1, np.uint32), powers[:-1])), dtype=np.uint32)
    states = powers * np.uint32(state) + sums * np.uint32(1013904223)
    return torch.from_numpy(((states >> 8).astype(np.float32) / 16777216 - 0.5).reshape(shape))


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.set_grad_enabled(False)
    print("PyTorch", torch.__version__, flush=True)
    known = None
    for line in sys.stdin:
        *sizes, seconds = line.split()
        inputs, outputs, length, window, stride, groups = sizes = [int(size) for size in sizes]
        if sizes != known:
            known = sizes
            image = numbers((1, inputs, length, length), 1)
            weights = numbers((outputs, inputs // groups, window, window), 2)

        def run():
            return torch.nn.functional.conv2d(image, weights, None, stride, window // 2, 1, groups)

        result, times = run(), []
        while not times or sum(times) < float(seconds):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        squares = (result.double() ** 2).sum().item()
        print(f"{1e3 * np.median(times):.6f} {1e3 * min(times):.6f} {squares:.9g}", flush=True)


main()
