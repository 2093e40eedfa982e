# SPDX-License-Identifier: MIT OR Apache-2.0
"""One row by weights of 8 and 4 bits on a GPU through the package `kiln`, beside the same weights in f32 and PyTorch's
product of f32 on the same GPU, in turns, as products.py measures. A call has many products, each with weights of its
own, so that no cache holds them and the host is no part of one."""
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


def weights(block):
    x = torch.rand(1, K, device="cuda")
    matrices = [torch.randn(N, K, device="cuda") for _ in range(SETS)]
    mine, whole = ours(x), [ours(w) for w in matrices]
    kept = []

    def timed(product, its):
        multiply = kiln.compile(lambda v: [product(v, w) for w in its])

        def run():
            kept[:] = [multiply(mine)]

        run()
        of = its[0] if its[0].dtype == kiln.float32 else kiln.ops.dequantize(its[0], kiln.float32)
        exact = x.double() @ theirs(of).double().T
        result = theirs(kept[0][0])
        times = medians([run, lambda: [x @ w.T for w in matrices]], [kiln.device().sync, torch.cuda.synchronize])
        return times / SETS, float((result - exact).abs().max() / exact.abs().mean())

    f32, error = timed(lambda v, w: v @ kiln.matrix_transpose(w), whole)
    yield {"case": f"one row by f32 {N}x{K}", "ms": round(f32[0], 4), "GB/s": round(4e-6 * N * K / f32[0]),
           "against": f"torch {torch.__version__}", "ratio": round(f32[1] / f32[0], 3), "error": error}
    for bits, dtype in ((8, kiln.q8f), (4, kiln.q4f)):
        packed = [kiln.ops.quantize_dynamic(w, dtype, blocks=(1, block)) for w in whole]
        times, error = timed(lambda v, w: kiln.ops.matmul_quantized(v, w, kiln.float32, transpose_b=True), packed)
        yield {"case": f"one row by {bits} bits {N}x{K}, blocks of {block}", "ms": round(times[0], 4),
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
