# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole models on a GPU: an ONNX file of bench/models/write_models.py through the package `kiln`, beside the same
architecture in PyTorch, eager and compiled, on the same GPU, in turns, as products.py measures; TF32 is off there.
Inputs stay on the device. With --dtype both sides keep weights and intermediates in that type."""
import argparse
import json

import numpy as np
import torch

import kiln
from products import medians


def bert(batch):
    from transformers import BertConfig, BertModel
    inputs = (torch.randint(0, 30000, (batch, 128)), torch.ones(batch, 128, dtype=torch.int64))
    return BertModel(BertConfig()), inputs


def encoder(batch):
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
    return torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), (torch.randn(batch, 128, 768),)


def of_torchvision(name):
    def make(batch):
        import torchvision
        return getattr(torchvision.models, name)(), (torch.randn(batch, 3, 224, 224),)
    return make


MODELS = {"resnet50": of_torchvision("resnet50"), "mobilenet_v2": of_torchvision("mobilenet_v2"), "bert_base": bert,
          "encoder": encoder, "vit_b_16": of_torchvision("vit_b_16")}


def ours(folder, name, dtype):
    session = kiln.onnx.load(f"{folder}/{name}/model.onnx", dtype=None if dtype == "float32" else getattr(kiln, dtype))
    feed = {i.name: kiln.asarray(np.load(f"{folder}/{name}/{i.name}.npy")) for i in session.get_inputs()}
    kept = []

    def run():
        kept[:] = session.run(None, feed)

    return run


def theirs(name, batch, dtype, compile_too):
    """PyTorch's runs: eager, and compiled."""
    model, inputs = MODELS[name](batch)
    model = model.eval().cuda().to(dtype)
    inputs = [x.cuda().to(dtype) if x.is_floating_point() else x.cuda() for x in inputs]

    def run(model):
        with torch.no_grad():
            model(*inputs)

    return [lambda m=m: run(m) for m in [model] + [torch.compile(model)] * compile_too]


def launches(run):
    before = kiln.device().stats["kernels_launched"]
    run()
    kiln.device().sync()
    return kiln.device().stats["kernels_launched"] - before


def measure(folder, full, dtype, compile_too):
    stem, _, batch = full.rpartition("_b")
    name, batch = (full, 1) if full in MODELS else (stem, int(batch))
    runs = [ours(folder, full, dtype), *theirs(name, batch, getattr(torch, dtype), compile_too)]
    times = medians(runs, [kiln.device().sync] + [torch.cuda.synchronize] * (len(runs) - 1))
    for against, ms in zip(("torch", "torch.compile"), times[1:]):
        yield {"case": full, "dtype": dtype, "ms": round(times[0], 3), "launches": launches(runs[0]),
               "against": f"{against} {torch.__version__}", "its ms": round(ms, 3), "ratio": round(ms / times[0], 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="with the models, as write_models.py wrote them")
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as resnet50, bert_base_b32")
    parser.add_argument("--no-compile", action="store_true", help="PyTorch eager alone")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for full in options.names:
        for row in measure(options.folder, full, options.dtype, not options.no_compile):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
