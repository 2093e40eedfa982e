# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the files of cases share: random inputs, and one case from arrays. The folder is the program's argument."""
import os
import sys

try:
    import numpy as np
except ImportError:
    print("SKIP python3-numpy is not installed")
    sys.exit(77)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
from onnx_writer import Graph, node, write_case  # noqa: E402  after the path

FOLDER = sys.argv[1]
F32, I64 = np.float32, np.int64
RANDOM = np.random.default_rng(20)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(F32)


def ints(*values):
    return np.array(values, I64)


CASES = {}  # operator -> (opset, graph) of its newest case


def case(name, nodes, inputs, outputs, opset, initializers=(), functions=()):
    graph = Graph(nodes, inputs, outputs, initializers)
    write_case(FOLDER, name, graph, opset, functions)
    for op in {n.operators[0] for n in nodes if n.operators} if not functions else ():
        if opset >= CASES.get(op, (0,))[0]:
            CASES[op] = (opset, graph)


def again(op, *versions):
    """The operator's newest case at newer versions that mean the same."""
    _, graph = CASES[op]
    for version in versions:
        write_case(FOLDER, f"{op.lower()}_again_{version}", graph, version)


def one(name, op, inputs, outputs, opset, initializers=(), **attributes):
    """One node; None among the inputs: left out; `initializers`: positions of inputs that are constants."""
    names = ["" if v is None else f"x{i}" for i, v in enumerate(inputs)]
    given = {n: v for n, v in zip(names, inputs) if n}
    results = {f"y{i}": v for i, v in enumerate(outputs)}
    constants = {names[i]: given.pop(names[i]) for i in initializers}
    case(name, [node(op, names, list(results), **attributes)], given, results, opset, constants)
