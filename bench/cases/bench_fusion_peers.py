#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The cases of `kiln bench fusion` in PyTorch eager, with as many threads as are asked for; a word leaves out
those whose names do not contain it.

Prints `version TORCH`, then for each case `CASE SECONDS`, the best of a few; nothing without PyTorch.
"""
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(0)

torch.set_num_threads(int(sys.argv[1]))
only = sys.argv[2] if len(sys.argv) > 2 else ""
torch.set_grad_enabled(False)


def norm(x, weight):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, weight)


def adam(steps):
    """In place, as torch.optim.Adam does one tensor after the other."""
    for p, m, v, g in steps:
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)


def interleaved(x, small):
    for _ in range(3):
        x, small = torch.relu(x * 1.5), -(small + 0.5)


def cases():
    x, y = torch.rand(4096, 4096) + 0.001, torch.rand(4096, 4096)
    mask, weight, narrow = x > 0.8, torch.rand(4096), torch.rand(4096, 1024)
    small = torch.rand(16384)
    yield "gelu", lambda: torch.nn.functional.gelu(x)
    yield "softmax", lambda: torch.softmax(x, 1)
    yield "layer_norm", lambda: norm(narrow, weight[:1024])
    yield "rms_norm", lambda: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * weight
    yield "log_sum_exp", lambda: torch.logsumexp(x, 1)
    yield "moments", lambda: torch.var_mean(x, 1, unbiased=False)
    yield "moments_columns", lambda: torch.var_mean(x, 0, unbiased=False)
    yield "dropout_norm", lambda: norm(x.masked_fill(mask, 0) * (1 / 0.9) + y, weight)
    yield "interleaved", lambda: interleaved(x, small)
    steps = [[torch.rand(16384) + 0.001 for _ in range(4)] for _ in range(200)]
    yield "adam", lambda: adam(steps)


print("version", torch.__version__)
for name, function in cases():
    if only not in name:
        continue
    function()
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    print(name, f"{best:.9f}")
