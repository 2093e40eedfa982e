#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trains the digits example and writes the files of this folder.

    /usr/bin/python3 train.py [FOLDER]

Needs Debian's python3-torch, python3-sklearn and python3-onnx. Writes digits.onnx, one sample for each
digit from the held-out set (zero.npy to nine.npy), labels.json, and expected.npy: what PyTorch gave for the
ten samples, in that order. Seeds are fixed and one thread is used, so a second run gives the same files.

The graph is written with onnx.helper, because it is the example's point that it holds chains of primitive
operators (hard swish, a residual with a scale, Mish) and not one large operator for each of them.
"""

import json
import pathlib
import sys

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
CHANNELS = 24
HIDDEN = 48
RESIDUAL_SCALE = 0.5
OPSET = 14


class Digits(nn.Module):
    """conv-relu-pool, conv-batchnorm-hardswish, residual, pool, linear-mish, linear, log-softmax."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, CHANNELS, 3, padding=1)
        self.conv2 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.linear1 = nn.Linear(CHANNELS * 2 * 2, HIDDEN)
        self.linear2 = nn.Linear(HIDDEN, 10)

    def forward(self, image):
        x = image * (1.0 / 16.0) - 0.5
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        y = self.norm(self.conv2(x))
        y = y * torch.clamp(y + 3.0, 0.0, 6.0) / 6.0
        x = F.max_pool2d(F.relu(x + y * RESIDUAL_SCALE), 2)
        x = self.linear1(torch.flatten(x, 1))
        x = x * torch.tanh(F.softplus(x))
        return F.log_softmax(self.linear2(x), dim=1)


def train(model, images, labels):
    """Forty passes of Adam over mini-batches of 64; returns the last mean loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    generator = torch.Generator().manual_seed(7)
    model.train()
    loss = torch.zeros(())
    for _ in range(40):
        for batch in torch.randperm(len(images), generator=generator).split(64):
            optimizer.zero_grad()
            loss = F.nll_loss(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
    model.eval()
    return float(loss)


class GraphWriter:
    """Collects nodes and initialisers; `op` adds a node and returns its output's name."""

    def __init__(self):
        self.nodes = []
        self.initializers = []

    def const(self, name, value):
        array = value.detach().numpy() if isinstance(value, torch.Tensor) else value
        self.initializers.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def ints(self, name, values):
        self.initializers.append(numpy_helper.from_array(np.asarray(values, np.int64), name))
        return name

    def op(self, kind, *inputs, output=None, **attributes):
        output = output or f"{kind.lower()}_{len(self.nodes)}"
        node = helper.make_node(kind, list(inputs), [output], name=f"n_{output}", **attributes)
        self.nodes.append(node)
        return output


def flatten_by_shape(graph, x):
    """x as [batch, -1], with the batch length taken from x's shape as exporters write it."""
    shape = graph.op("Shape", x)
    batch = graph.op("Gather", shape, graph.ints("batch_axis", 0), axis=0)
    batch = graph.op("Unsqueeze", batch, graph.ints("axis_0", [0]))
    target = graph.op("Concat", batch, graph.ints("rest", [-1]), axis=0)
    return graph.op("Reshape", x, target)


def build_graph(model):
    g = GraphWriter()
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    x = g.op("Mul", "image", g.const("pixel_scale", 1.0 / 16.0))
    x = g.op("Sub", x, g.const("pixel_centre", 0.5))
    x = g.op("Conv", x, g.const("conv1.weight", model.conv1.weight),
             g.const("conv1.bias", model.conv1.bias), **conv)
    x = g.op("MaxPool", g.op("Relu", x), **pool)
    y = g.op("Conv", x, g.const("conv2.weight", model.conv2.weight), **conv)
    norm = model.norm
    y = g.op("BatchNormalization", y, g.const("norm.scale", norm.weight),
             g.const("norm.bias", norm.bias), g.const("norm.mean", norm.running_mean),
             g.const("norm.var", norm.running_var), epsilon=norm.eps)
    gate = g.op("Add", y, g.const("three", 3.0))
    gate = g.op("Clip", gate, g.const("clip_low", 0.0), g.const("clip_high", 6.0))
    y = g.op("Div", g.op("Mul", y, gate), g.const("six", 6.0))
    y = g.op("Mul", y, g.const("residual_scale", RESIDUAL_SCALE))
    x = g.op("MaxPool", g.op("Relu", g.op("Add", x, y)), **pool)
    x = flatten_by_shape(g, x)
    x = g.op("Gemm", x, g.const("linear1.weight", model.linear1.weight),
             g.const("linear1.bias", model.linear1.bias), transB=1)
    x = g.op("Mul", x, g.op("Tanh", g.op("Softplus", x)))
    x = g.op("Gemm", x, g.const("linear2.weight", model.linear2.weight),
             g.const("linear2.bias", model.linear2.bias), transB=1)
    g.op("LogSoftmax", x, axis=1, output="log_probability")
    return g


def write_model(model, path):
    g = build_graph(model)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])
    result = helper.make_tensor_value_info("log_probability", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(g.nodes, "digits", [image], [result], g.initializers)
    proto = helper.make_model(graph, producer_name="kiln-examples", ir_version=8,
                              opset_imports=[helper.make_opsetid("", OPSET)])
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(proto, strict_mode=True))
    onnx.save(proto, str(path))


def pick_samples(model, images, labels):
    """The first held-out image of each digit, right or wrong: the model is not flattered."""
    rows = [int(torch.nonzero(labels == digit)[0]) for digit in range(10)]
    samples = images[rows]
    with torch.no_grad():
        expected = torch.cat([model(samples[i:i + 1]) for i in range(10)])
    return samples, labels[rows], expected


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).reshape(-1, 1, 8, 8)
    labels = torch.tensor(digits.target, dtype=torch.int64)
    chosen = train_test_split(np.arange(len(labels)), test_size=0.25, random_state=0,
                              stratify=digits.target)
    train_rows, test_rows = (torch.tensor(rows) for rows in chosen)

    model = Digits()
    loss = train(model, images[train_rows], labels[train_rows])
    with torch.no_grad():
        hits = model(images[test_rows]).argmax(dim=1) == labels[test_rows]
    print(f"loss {loss:.4f}, held-out accuracy {float(hits.float().mean()):.4f}")

    write_model(model, folder / "digits.onnx")
    samples, truth, expected = pick_samples(model, images[test_rows], labels[test_rows])
    for name, sample in zip(NAMES, samples):
        np.save(folder / f"{name}.npy", sample.unsqueeze(0).numpy())
    np.save(folder / "expected.npy", expected.numpy())
    table = {f"{name}.npy": int(label) for name, label in zip(NAMES, truth)}
    (folder / "labels.json").write_text(json.dumps(table, indent=4) + "\n")
    predicted = expected.argmax(dim=1)
    print(f"samples: {int((predicted == truth).sum())} of 10 right, {predicted.tolist()}")


if __name__ == "__main__":
    main()
