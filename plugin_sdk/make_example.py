#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes template/example.onnx, a model for a new fuser to win: the running sum of a * b along rows."""
import os
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))

import onnx_writer as w

x = np.zeros((256, 1024), np.float32)
graph = w.Graph([w.node("Mul", ["a", "b"], ["product"]), w.node("CumSum", ["product", "axis"], ["y"])],
                {"a": x, "b": x}, {"y": x}, {"axis": np.array(-1, np.int64)})
data = w.model(graph, 14)
with open(os.path.join(ROOT, "plugin_sdk/template/example.onnx"), "wb") as file:
    file.write(data)
