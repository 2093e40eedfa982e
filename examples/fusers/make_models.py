#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the models that the example fusers win."""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/onnx_cases"))

import onnx_writer as w


def attention(heads, length, size):
    """Attention of some heads with an additive mask."""
    rows, mask = np.zeros((heads, length, size), np.float32), np.zeros((length, length), np.float32)
    nodes = [w.node("Transpose", ["k"], ["turned"], perm=[0, 2, 1]), w.node("MatMul", ["q", "turned"], ["product"]),
             w.node("Mul", ["product", "factor"], ["scaled"]), w.node("Add", ["scaled", "mask"], ["scores"]),
             w.node("Softmax", ["scores"], ["weights"], axis=-1), w.node("MatMul", ["weights", "v"], ["y"])]
    return w.Graph(nodes, {"q": rows, "k": rows, "v": rows, "mask": mask}, {"y": rows},
                   {"factor": np.array(size ** -0.5, np.float32)})


def layer(rows, inner, columns):
    """A dense layer with a long inner axis: relu(x * weights + bias)."""
    i, j = np.arange(inner).reshape(inner, 1), np.arange(columns)
    weights = ((i * 7 + j * 3) % 17 - 8).astype(np.float32) / 64
    nodes = [w.node("MatMul", ["x", "weights"], ["product"]), w.node("Add", ["product", "bias"], ["sum"]),
             w.node("Relu", ["sum"], ["y"])]
    return w.Graph(nodes, {"x": np.zeros((rows, inner), np.float32)}, {"y": np.zeros((rows, columns), np.float32)},
                   {"weights": weights, "bias": j.astype(np.float32) / 8})


def scan(shape, axis):
    """What is left of a quantity that decays step by step: weight * cumsum(exp(a) * b)."""
    x = np.zeros(shape, np.float32)
    nodes = [w.node("Exp", ["a"], ["grown"]), w.node("Mul", ["grown", "b"], ["part"]),
             w.node("CumSum", ["part", "axis"], ["sum"]), w.node("Mul", ["sum", "weight"], ["y"])]
    return w.Graph(nodes, {"a": x, "b": x, "weight": x}, {"y": x}, {"axis": np.array(axis, np.int64)})


def walk(length):
    """A random walk and what is computed from it: tanh(log(1 + exp(cumsum(a))))."""
    x = np.zeros((length,), np.float32)
    nodes = [w.node("CumSum", ["a", "axis"], ["sum"]), w.node("Exp", ["sum"], ["grown"]),
             w.node("Add", ["grown", "one"], ["more"]), w.node("Log", ["more"], ["soft"]),
             w.node("Tanh", ["soft"], ["y"])]
    return w.Graph(nodes, {"a": x}, {"y": x}, {"axis": np.array(0, np.int64), "one": np.array(1, np.float32)})


MODELS = {
    "attention/example.onnx": attention(8, 512, 64),
    "matmul/example.onnx": layer(64, 1024, 64),
    "scan/rows.onnx": scan((512, 4096), -1),
    "scan/columns.onnx": scan((8, 1024, 256), 1),
    "scan/long.onnx": walk(1 << 21),
}

for name, graph in MODELS.items():
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(w.model(graph, 14))
