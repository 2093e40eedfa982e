#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Errors of whole models against the same model in f64, Kiln's beside ONNX Runtime's.

Every f32 tensor of a model becomes f64 and Kiln runs that unfused; both f32 runs are compared with it. The figures are
root mean squares over all outputs, in units of the output's own root mean square. Needs numpy, onnx and onnxruntime.

usage: model_errors.py KILN MODEL.onnx...
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper


def to_double(model):
    """The model with f64 in place of f32, in its tensors, its casts and its constants."""
    def graph(one):
        for tensor in one.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
        for value in list(one.input) + list(one.output) + list(one.value_info):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
        for node in one.node:
            for attribute in node.attribute:
                if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
                    attribute.i = TensorProto.DOUBLE
                if attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT:
                    attribute.t.CopyFrom(numpy_helper.from_array(
                        numpy_helper.to_array(attribute.t).astype(np.float64), attribute.t.name))
                if attribute.HasField("g"):
                    graph(attribute.g)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph(made.graph)
    return made


def inputs_of(model, folder):
    """Inputs from a seed: name to array. Integers are below 8, which every vocabulary has."""
    random = np.random.default_rng(7)
    made = {}
    constant = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constant:
            continue
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [max(d.dim_value, 1) for d in value.type.tensor_type.shape.dim]
        stored = os.path.join(folder, value.name + ".npy")
        if os.path.exists(stored):
            made[value.name] = np.load(stored)
        elif kind == np.float32:
            made[value.name] = random.standard_normal(shape).astype(np.float32)
        else:
            made[value.name] = random.integers(0, 2 if kind == np.bool_ else 8, shape).astype(kind)
    return made


def run_kiln(kiln, path, inputs, names, *flags):
    with tempfile.TemporaryDirectory() as folder:
        command = [kiln, "run", path, "--repeat", "1", *flags]
        for name, array in inputs.items():
            file = os.path.join(folder, f"in{len(command)}.npy")
            np.save(file, array)
            command += ["--input", f"{name}={file}"]
        files = [os.path.join(folder, f"out{i}.npy") for i in range(len(names))]
        for name, file in zip(names, files):
            command += ["--output", f"{name}={file}"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise RuntimeError(ran.stderr.strip()[-400:])
        return [np.load(file) for file in files]


def error(given, wanted):
    """Root mean square of the difference, over all outputs, to that of the output."""
    pairs = [(g.astype(np.float64).ravel(), w.ravel()) for g, w in zip(given, wanted) if w.dtype == np.float64]
    worst = 0.0
    for one, exact in pairs:
        size = np.sqrt(np.mean(exact ** 2))
        worst = max(worst, float(np.sqrt(np.mean((one - exact) ** 2)) / (size if size > 0 else 1)))
    return worst


def measure(kiln, path):
    model = onnx.load(path)
    names = [value.name for value in model.graph.output]
    inputs = inputs_of(model, os.path.dirname(path))
    with tempfile.TemporaryDirectory() as folder:
        exact = os.path.join(folder, "f64.onnx")
        onnx.save(to_double(model), exact)
        doubles = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in inputs.items()}
        wanted = run_kiln(kiln, exact, doubles, names, "--no-fusion")
    ours = error(run_kiln(kiln, path, inputs, names), wanted)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    theirs = error(session.run(names, inputs), wanted)
    return ours, theirs


def main():
    kiln, paths = sys.argv[1], sys.argv[2:]
    print(f"{'model':24} {'kiln':>10} {'onnxruntime':>12} {'ratio':>7}")
    for path in paths:
        name = os.path.basename(os.path.dirname(os.path.abspath(path)))
        ours, theirs = measure(kiln, path)
        print(f"{name:24} {ours:10.2e} {theirs:12.2e} {ours / theirs if theirs > 0 else float('nan'):7.2f}", flush=True)


if __name__ == "__main__":
    main()
