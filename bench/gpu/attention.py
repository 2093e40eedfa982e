# SPDX-License-Identifier: MIT OR Apache-2.0
"""Attention on a GPU through the package `kiln`, beside `scaled_dot_product_attention` of PyTorch on the same GPU, in
turns, as products.py measures. One row of a query (a decoder) stands beside the time in which a copy of the GPU would
have read keys and values; a call has it with several of these, one after the other, so that no cache holds them and
the host is no part of it. An error is the root of the
mean square of the differences from attention in f64, of 64 rows, over that of the results."""
import argparse
import json

import numpy as np
import torch

import kiln
from products import DTYPES, medians

# batch, heads, heads of the keys, rows, keys, head, what is seen
SIZES = [(1, 16, 16, 4096, 4096, 128, "causal"), (1, 16, 16, 4096, 4096, 128, "all"),
         (1, 16, 16, 4096, 4096, 64, "causal"), (1, 16, 16, 4096, 4096, 64, "all"),
         (1, 32, 8, 2048, 2048, 128, "causal"), (1, 16, 16, 2048, 2048, 128, "bias"),
         (32, 12, 12, 128, 128, 64, "all"), (1, 12, 12, 197, 197, 64, "all"), (1, 16, 16, 1, 4096, 128, "all"),
         (1, 32, 8, 1, 4096, 128, "all")]
DECODES = 6  # sets of keys and values


def copy_bytes_per_ms():
    """What a copy reads and writes."""
    x, y = (torch.empty(1 << 28, dtype=torch.uint8, device="cuda") for _ in range(2))
    return 2 * x.numel() / medians([lambda: y.copy_(x)], [torch.cuda.synchronize])[0]


def in_f64(x, y, z, seen, bias, rows):
    groups = x.shape[1] // y.shape[1]
    y, z = (v.double().repeat_interleave(groups, 1) for v in (y, z))
    first = x.shape[2] - rows
    scores = x[:, :, first:].double() @ y.transpose(2, 3) / x.shape[3] ** 0.5
    if bias is not None:
        scores += bias[first:].double()
    if seen == "causal":
        places = torch.arange(x.shape[2], device="cuda")
        scores = scores.masked_fill(places[first:, None] < places[: y.shape[2]], -float("inf"))
    return scores.softmax(-1) @ z


def measure(size, name):
    batch, heads, shared, rows, keys, head, seen = size
    of_kiln, of_torch = DTYPES[name]
    random = np.random.default_rng(0)
    sets = DECODES if rows == 1 else 1
    query = random.standard_normal((batch, heads, rows, head), np.float32)
    others = [random.standard_normal((batch, shared, keys, head), np.float32) for _ in range(2 * sets)]
    x, *rest = (torch.from_numpy(v).cuda().to(of_torch) for v in (query, *others))
    five = (batch, shared, heads // shared, rows, head)
    a = kiln.astype(kiln.asarray(query.reshape(five)), of_kiln)
    b = [kiln.astype(kiln.asarray(v[:, :, None]), of_kiln) for v in others]
    added = random.standard_normal((rows, keys), np.float32)
    its_bias = torch.from_numpy(added).cuda().to(of_torch) if seen == "bias" else None
    bias = (kiln.astype(kiln.asarray(added), of_kiln),) if seen == "bias" else ()
    kiln.device().sync()
    all_heads = (*five[:3], keys, head)

    def attention(q, *others):
        wide = [kiln.broadcast_to(t, all_heads) for t in others[:2 * sets]]
        return [kiln.ops.attention(q, wide[i], wide[i + 1], None, *others[2 * sets:], causal=seen == "causal")
                for i in range(0, 2 * sets, 2)]

    attend = kiln.compile(attention)
    kept = []

    def run():
        kept[:] = [attend(a, *b, *bias)]

    def its():
        return [torch.nn.functional.scaled_dot_product_attention(x, y, z, its_bias, is_causal=seen == "causal",
                                                                 enable_gqa=heads != shared)
                for y, z in zip(rest[::2], rest[1::2])]

    of = min(rows, 64)
    exact = in_f64(x, *rest[:2], seen, its_bias, of)

    def error(result):
        return float(((result[:, :, rows - of:].double() - exact).square().mean() / exact.square().mean()).sqrt())

    ours = np.array(kiln.astype(attend(a, *b, *bias)[0], kiln.float32)).reshape(batch, heads, rows, head)
    times = medians([run, its], [kiln.device().sync, torch.cuda.synchronize]) / sets
    flops = 4 * batch * heads * rows * keys * head / (2 if seen == "causal" else 1)
    found = {"case": f"{name} {batch}x{heads}" + (f"/{shared}" if heads != shared else "") + f" {rows}x{keys}x{head}" +
             ("" if seen == "all" else " " + seen), "ms": round(times[0], 4), "TFLOP/s": round(1e-9 * flops / times[0], 1),
             "against": f"torch {torch.__version__}", "ratio": round(times[1] / times[0], 3),
             "error": error(torch.from_numpy(ours).cuda()), "its error": error(its()[0])}
    if rows == 1:
        bytes_read = 2 * batch * shared * keys * head * x.element_size()
        found["to a copy"] = round(bytes_read / copy_bytes_per_ms() / times[0], 3)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", nargs="*", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--cases", nargs="*", type=int, default=range(len(SIZES)), help="their numbers")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    for name in options.dtypes:
        for i in options.cases:
            print(json.dumps(measure(SIZES[i], name)), flush=True)


if __name__ == "__main__":
    main()
