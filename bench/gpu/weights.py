# SPDX-License-Identifier: MIT OR Apache-2.0
"""One row by weights of 8 and 4 bits on a GPU through the package `kiln`, beside the same weights in f32 and PyTorch's
product of f32 on the same GPU, in turns, as products.py measures. A call has many products, each with weights of its
own, so that no cache holds them and the host is no part of one. They are of the same row, and may share launches as Q,
K and V of a layer do, or of each other's results (a chain), and cannot."""
import argparse
import json

import numpy as np
import torch

import kiln
from products import medians

K = N = 4096
SETS = 24


def ours(tensor):
    return kiln.asarray(tensor.cpu().numpy())


def theirs(array):
    return torch.from_numpy(np.array(array)).cuda()


def products_of(product, its, is_chain):
    """What a call computes: all products of one row, or the last of a chain."""
    def apart(v):
        return [product(v, w) for w in its]

    def chain(v):
        for w in its:
            v = product(v, w)
        return [v]

    return chain if is_chain else apart


def weights(block):
    x = torch.rand(1, K, device="cuda")
    matrices = [torch.randn(N, K, device="cuda") / K ** 0.5 for _ in range(SETS)]
    mine, whole = ours(x), [ours(w) for w in matrices]
    kept = []

    def timed(product, its, is_chain):
        multiply = kiln.compile(products_of(product, its, is_chain))
        theirs_of = products_of(lambda v, w: v @ w.T, matrices, is_chain)

        def run():
            kept[:] = [multiply(mine)]

        run()
        exact = x.double()
        for w in its if is_chain else its[:1]:
            of = w if w.dtype == kiln.float32 else kiln.ops.dequantize(w, kiln.float32)
            exact = exact @ theirs(of).double().T
        result = theirs(kept[0][0])
        times = medians([run, lambda: theirs_of(x)], [kiln.device().sync, torch.cuda.synchronize])
        return times / SETS, float((result - exact).abs().max() / exact.abs().mean())

    for is_chain in (False, True):
        said = ", a chain" if is_chain else ""
        f32, error = timed(lambda v, w: v @ kiln.matrix_transpose(w), whole, is_chain)
        yield {"case": f"one row by f32 {N}x{K}{said}", "ms": round(f32[0], 4), "GB/s": round(4e-6 * N * K / f32[0]),
               "against": f"torch {torch.__version__}", "ratio": round(f32[1] / f32[0], 3), "error": error}
        for bits, dtype in ((8, kiln.q8f), (4, kiln.q4f)):
            packed = [kiln.ops.quantize_dynamic(w, dtype, blocks=(1, block)) for w in whole]
            times, error = timed(lambda v, w: kiln.ops.matmul_quantized(v, w, kiln.float32, transpose_b=True), packed,
                                 is_chain)
            yield {"case": f"one row by {bits} bits {N}x{K}, blocks of {block}{said}", "ms": round(times[0], 4),
                   "GB/s": round(bits / 8e6 * N * K / times[0]), "to Kiln's f32": round(f32[0] / times[0], 3),
                   "against": f"torch {torch.__version__} f32", "ratio": round(times[1] / times[0], 3), "error": error}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--block", type=int, default=32, help="values that share a scale")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    for row in weights(options.block):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
