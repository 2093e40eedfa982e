# SPDX-License-Identifier: MIT OR Apache-2.0
"""Products on a GPU through the package `kiln`, beside PyTorch on the same GPU, in turns; TF32 is off there. Each side
is a captured graph or an eager call; 20 calls are queued and awaited together, the median of 5 such rounds counts. An
error is the largest difference from the product in f64 over the mean of the results' sizes, of 64 rows. The right
operand is constant where the left one is not square. KILN_PRECISION=strict measures multiply-adds of f32 alone."""
import argparse
import contextlib
import fcntl
import json
import os
import time

import numpy as np
import torch

import kiln

SIZES = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (128, 768, 768),
         (128, 768, 3072), (4096, 768, 3072), (1000, 1001, 1003), (1, 4096, 4096)]
DTYPES = {"f32": (kiln.float32, torch.float32), "f16": (kiln.float16, torch.float16),
          "bf16": (kiln.bfloat16, torch.bfloat16)}
CALLS, ROUNDS = 20, 5


@contextlib.contextmanager
def alone():
    """What is within has the GPU for itself among the processes that name the same file in KILN_BENCH_LOCK."""
    path = os.environ.get("KILN_BENCH_LOCK")
    with open(path, "w", encoding="ascii") if path else contextlib.nullcontext() as lock:
        if lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def milliseconds(function, wait):
    begin = time.perf_counter()
    for _ in range(CALLS):
        function()
    wait()
    return (time.perf_counter() - begin) / CALLS * 1e3


def medians(functions, waits):
    for function, wait in zip(functions, waits):
        for _ in range(3):
            function()
        wait()
    with alone():
        rounds = [[milliseconds(f, w) for f, w in zip(functions, waits)] for _ in range(ROUNDS)]
    return np.median(rounds, axis=0)


def measure(m, k, n, name, constant):
    of_kiln, of_torch = DTYPES[name]
    random = np.random.default_rng(0)
    left, right = random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)
    a, b = (kiln.astype(kiln.asarray(x), of_kiln) for x in (left, right))
    x, y = (torch.from_numpy(v).cuda().to(of_torch) for v in (left, right))
    kiln.device().sync()
    product = kiln.compile((lambda p: p @ b) if constant else (lambda p, q: p @ q))
    arguments = (a,) if constant else (a, b)
    exact = x[:64].double() @ y.double()
    scale = exact.abs().mean()

    def error(result):
        return float((result.double() - exact).abs().max() / scale)

    ours = torch.from_numpy(np.array(kiln.astype(product(*arguments)[:64], kiln.float32))).cuda()
    kept = []

    def run():
        kept[:] = [product(*arguments)]

    times = medians([run, lambda: x @ y], [kiln.device().sync, torch.cuda.synchronize])
    return {"case": f"{name} {m}x{k}x{n}" + (" constant" if constant else ""), "ms": round(times[0], 4),
            "TFLOP/s": round(2e-9 * m * n * k / times[0], 1), "against": f"torch {torch.__version__}",
            "ratio": round(times[1] / times[0], 3), "error": error(ours), "its error": error((x @ y)[:64])}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", nargs="*", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--square", nargs="*", type=int, help="of these sides alone")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    for name in options.dtypes:
        for sizes in [(side,) * 3 for side in options.square] if options.square else SIZES:
            print(json.dumps(measure(*sizes, name, constant=sizes[0] != sizes[1])), flush=True)


if __name__ == "__main__":
    main()
