# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole models on a GPU: an ONNX file of bench/models/write_models.py through the package `kiln`, beside the same
architecture in PyTorch, eager and compiled, on the same GPU; TF32 is off there. Inputs stay on the device, 20 runs are
queued and awaited together, the median of 5 such rounds counts. With --dtype both sides keep weights and intermediates
in that type."""
import argparse
import json
import time

import numpy as np
import torch

import kiln

CALLS, ROUNDS = 20, 5


def bert(batch):
    from transformers import BertConfig, BertModel
    inputs = (torch.randint(0, 30000, (batch, 128)), torch.ones(batch, 128, dtype=torch.int64))
    return BertModel(BertConfig()), inputs


def of_torchvision(name):
    def make(batch):
        import torchvision
        return getattr(torchvision.models, name)(), (torch.randn(batch, 3, 224, 224),)
    return make


MODELS = {"resnet50": of_torchvision("resnet50"), "mobilenet_v2": of_torchvision("mobilenet_v2"), "bert_base": bert,
          "vit_b_16": of_torchvision("vit_b_16")}


def median_ms(function, wait):
    for _ in range(4):
        function()
    wait()
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            function()
        wait()
        rounds.append((time.perf_counter() - begin) / CALLS * 1e3)
    return float(np.median(rounds))


def ours(folder, name, dtype):
    session = kiln.onnx.load(f"{folder}/{name}/model.onnx", dtype=None if dtype == "float32" else getattr(kiln, dtype))
    feed = {i.name: kiln.asarray(np.load(f"{folder}/{name}/{i.name}.npy")) for i in session.get_inputs()}
    kept = []

    def run():
        kept[:] = session.run(None, feed)

    return median_ms(run, kiln.device().sync)


def theirs(name, batch, dtype, compiled):
    model, inputs = MODELS[name](batch)
    model = model.eval().cuda().to(dtype)
    inputs = [x.cuda().to(dtype) if x.is_floating_point() else x.cuda() for x in inputs]
    run = torch.compile(model) if compiled else model
    with torch.no_grad():
        return median_ms(lambda: run(*inputs), torch.cuda.synchronize)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="with the models, as write_models.py wrote them")
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as resnet50, bert_base_b32")
    parser.add_argument("--no-compile", action="store_true", help="PyTorch eager alone")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for full in options.names:
        stem, _, batch = full.rpartition("_b")
        name, batch = (full, 1) if full in MODELS else (stem, int(batch))
        mine = ours(options.folder, full, options.dtype)
        for compiled in (False,) if options.no_compile else (False, True):
            ms = theirs(name, batch, getattr(torch, options.dtype), compiled)
            print(json.dumps({"case": full, "dtype": options.dtype, "ms": round(mine, 3),
                              "against": "torch.compile" if compiled else "torch", "its ms": round(ms, 3),
                              "ratio": round(ms / mine, 3)}), flush=True)


if __name__ == "__main__":
    main()
