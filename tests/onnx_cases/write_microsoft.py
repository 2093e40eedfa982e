#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes microsoft_expected.npz: what ONNX Runtime gives for the cases of microsoft_cases.py.

usage: write_microsoft.py [--check]. With --check it compares with the file, and the inputs and attributes of
onnx_contrib.def with ONNX Runtime's schemas. Exit status 77: there is no onnxruntime.
"""
import os
import re
import sys

if "" in sys.path:
    sys.path.remove("")

try:
    import numpy as np
    import onnxruntime
except ImportError as why:
    print(f"SKIP {why}: pip install onnxruntime")
    sys.exit(77)

import microsoft_cases  # noqa: E402  after the check
from onnx_writer import Graph, Narrow, model  # noqa: E402


def run(name, nodes, inputs, initializers, outputs):
    """In ONNX Runtime, without its optimiser."""
    scores = {"y3": np.float32} if "MultiHeadAttention" in str(nodes) else {}  # a type that the schema leaves open
    graph = Graph(nodes, inputs, {n: scores.get(n) for n in outputs}, initializers)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(model(graph, 21), options, ["CPUExecutionProvider"])
        return dict(zip(outputs, session.run(outputs, {n: v for n, v in inputs.items() if not isinstance(v, Narrow)})))
    except Exception as why:  # of many classes
        print(f"FAIL {name}: {str(why)[:300]}")
        return None


def short(value):
    """Floats without what no comparison sees: they pack to half of the bytes."""
    if value.dtype != np.float32:
        return value
    bits = np.ascontiguousarray(value).view(np.uint32).astype(np.uint64)
    return ((bits + 0x80) & 0xFFFFFF00).astype(np.uint32).view(np.float32)


def other_schemas():
    """Rows of the table that are not as ONNX Runtime has them."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
    schemas = {s.name: s for s in get_all_operator_schema() if s.domain == microsoft_cases.DOMAIN}
    with open(os.path.join(microsoft_cases.HERE, "..", "..", "onnx", "ops", "onnx_contrib.def"),
              encoding="utf-8") as file:
        rows = re.findall(r'^KILN_ONNX_MICROSOFT\((\w+),\s*(\d+), +(\w+),\s*\w+, "([^"]*)"\)', file.read(), re.M)
    for name, least, most, attributes in rows:
        schema = schemas.get(name)
        if schema is None or set(schema.attributes) != set(attributes.split()) or schema.min_input != int(least) or (
                most != "MANY" and schema.max_input != int(most)):
            yield f"{name}: inputs or attributes are not those of ONNX Runtime"


def main():
    expected, failed = {}, 0
    for name, nodes, inputs, initializers, outputs, like in microsoft_cases.declare():
        found = run(name, *like, outputs)
        failed += found is None
        for output, value in (found or {}).items():
            expected[f"{name}.{output}"] = short(value)
    if "--check" not in sys.argv:
        np.savez_compressed(microsoft_cases.FILE, **expected)
        print(f"onnxruntime {onnxruntime.__version__}: {len(expected)} values")
        return failed != 0
    held = np.load(microsoft_cases.FILE)
    for name in sorted(set(held.files) | set(expected)):
        if name not in expected or name not in held.files:
            failed += 1
            print(f"FAIL {name} is on one side only: write_microsoft.py writes the file anew")
        elif not np.allclose(expected[name], held[name], 1e-4, 1e-5):
            failed += 1
            print(f"FAIL {name}: {expected[name].ravel()[:4]} where the file has {held[name].ravel()[:4]}")
    for line in other_schemas():
        failed += 1
        print("FAIL", line)
    print(f"kiln-test: {int(not failed)} passed, {int(failed > 0)} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
