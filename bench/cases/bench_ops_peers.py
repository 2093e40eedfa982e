#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The cases of `kiln bench ops` on NumPy and PyTorch, with as many threads as are asked for.

Prints a line `versions NUMPY TORCH`, then for each case `CASE SECONDS_NUMPY SECONDS_TORCH`; a peer that is
not there is -, and so is the time of a case that it has no function for.
"""
import os
import sys
import time

threads, rounds = sys.argv[1], int(sys.argv[2])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = threads

import numpy as np  # noqa: E402  after the environment

try:
    import torch
    torch.set_num_threads(int(threads))
    torch.set_grad_enabled(False)
except ImportError:
    torch = None

N = 4096


def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def layer_norm(x):
    mean = x.mean(1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(1, keepdims=True) + np.float32(1e-5)) * x[0] + x[0]


def log_softmax(x):
    shifted = x - x.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def layer_norm_short(x):
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(1, keepdims=True) + np.float32(1e-5))


def scatter_add(x, index, rows):
    out = np.zeros_like(x)
    np.add.at(out, index, rows)
    return out


def cases(x, rows, elements):
    """case -> (of NumPy, of PyTorch); `rows` and `elements` are indices."""
    line, table, image = x.reshape(-1), x.reshape(-1, 128), x.reshape(16, 64, 128, 128)
    yield "transpose", lambda: np.ascontiguousarray(x.T)
    yield "nchw_nhwc", lambda: np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    yield "select_rows", lambda: np.take(table, rows, 0)
    yield "gather", lambda: np.take_along_axis(x, elements, 1)
    yield "cum_sum_line", lambda: np.cumsum(line)
    yield "cum_sum_rows", lambda: np.cumsum(x, 1)
    yield "cum_sum_columns", lambda: np.cumsum(x, 0)
    yield "sort_line", lambda: np.sort(line)
    yield "sort_rows", lambda: np.sort(x, 1)
    yield "argsort_rows", lambda: np.argsort(x, 1, kind="stable")
    yield "top_k_line", lambda: np.partition(line, line.size - 8)[-8:]
    yield "top_k_rows", lambda: np.partition(x, N - 8, 1)[:, -8:]
    yield "sum", lambda: x.sum()
    yield "sum_rows", lambda: x.sum(1)
    yield "sum_columns", lambda: x.sum(0)
    yield "argmax_rows", lambda: x.argmax(1)
    yield "argmax_columns", lambda: x.argmax(0)
    yield "softmax_rows", lambda: softmax(x, 1)
    yield "softmax_columns", lambda: softmax(x, 0)
    yield "layer_norm", lambda: layer_norm(x)
    yield "layer_norm_short", lambda: layer_norm_short(table)
    yield "rms_norm", lambda: x / np.sqrt((x * x).mean(1, keepdims=True) + np.float32(1e-5)) * x[0]
    yield "log_softmax_rows", lambda: log_softmax(x)
    yield "softmax_backward", lambda: x * (x - (x * x).sum(1, keepdims=True))
    yield "rfft_rows", lambda: np.fft.rfft(x, axis=1)
    yield "scatter_add_rows", lambda: scatter_add(table, rows, table)


def torch_cases(x, rows, elements):
    line, table, image = x.reshape(-1), x.reshape(-1, 128), x.reshape(16, 64, 128, 128)
    yield "transpose", lambda: x.t().contiguous()
    yield "nchw_nhwc", lambda: image.permute(0, 2, 3, 1).contiguous()
    yield "select_rows", lambda: table.index_select(0, rows)
    yield "gather", lambda: x.gather(1, elements)
    yield "cum_sum_line", lambda: line.cumsum(0)
    yield "cum_sum_rows", lambda: x.cumsum(1)
    yield "cum_sum_columns", lambda: x.cumsum(0)
    yield "sort_line", lambda: line.sort()
    yield "sort_rows", lambda: x.sort(1)
    yield "argsort_rows", lambda: x.argsort(1)
    yield "top_k_line", lambda: line.topk(8)
    yield "top_k_rows", lambda: x.topk(8, 1)
    yield "sum", x.sum
    yield "sum_rows", lambda: x.sum(1)
    yield "sum_columns", lambda: x.sum(0)
    yield "argmax_rows", lambda: x.argmax(1)
    yield "argmax_columns", lambda: x.argmax(0)
    yield "softmax_rows", lambda: x.softmax(1)
    yield "softmax_columns", lambda: x.softmax(0)
    yield "layer_norm", lambda: torch.nn.functional.layer_norm(x, (N,), x[0], x[0])
    yield "layer_norm_short", lambda: torch.nn.functional.layer_norm(table, (128,))
    yield "rms_norm", lambda: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * x[0]
    yield "log_softmax_rows", lambda: x.log_softmax(1)
    yield "softmax_backward", lambda: torch._softmax_backward_data(x, x, 1, x.dtype)
    yield "rfft_rows", lambda: torch.fft.rfft(x, dim=1)
    yield "scatter_add_rows", lambda: torch.zeros_like(table).index_add_(0, rows, table)


def median_time(run):
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times[1:])[rounds // 2]


def main():
    random = np.random.default_rng(1)
    x = (random.random((N, N), np.float32) * 2 - 1)
    rows = random.integers(0, x.size // 128, x.size // 128)
    elements = random.integers(0, N, (N, N))
    wanted = sys.argv[3:]
    print("versions", np.__version__, torch.__version__ if torch else "-")
    with_torch = {}
    if torch:
        with_torch = dict(torch_cases(*(torch.from_numpy(a) for a in (x, rows, elements))))
    for name, run in cases(x, rows, elements):
        if wanted and name not in wanted:
            continue
        by_torch = f"{median_time(with_torch[name]):.9f}" if name in with_torch else "-"
        print(name, f"{median_time(run):.9f}", by_torch, flush=True)


main()
