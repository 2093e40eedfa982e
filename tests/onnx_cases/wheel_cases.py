#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the node cases that an installed onnx has in its code (from 1.13 on its packages have no files of them).

usage: wheel_cases.py FOLDER [MINIMUM]. Exit status 77: there is no onnx, or none with operator set MINIMUM.
"""
import os
import sys

if "" in sys.path:
    sys.path.remove("")  # Kiln's own folder onnx is no Python module


def messages(values, infos, helper):
    """Each value as the file has it."""
    for value, info in zip(values, infos):
        kind = info.type.WhichOneof("value")
        if kind == "tensor_type":
            yield value if hasattr(value, "SerializeToString") else helper.from_array(value, info.name)
        else:
            make = {"map_type": helper.from_dict, "sequence_type": helper.from_list,
                    "optional_type": helper.from_optional}[kind]
            yield make(value, info.name)


def write(folder, case, helper):
    at = os.path.join(folder, case.name)
    os.makedirs(at)
    with open(os.path.join(at, "model.onnx"), "wb") as file:
        file.write(case.model.SerializeToString())
    graph = case.model.graph
    for i, (inputs, outputs) in enumerate(case.data_sets):
        data = os.path.join(at, f"test_data_set_{i}")
        os.makedirs(data)
        for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for k, message in enumerate(messages(values, infos, helper)):
                with open(os.path.join(data, f"{kind}_{k}.pb"), "wb") as file:
                    file.write(message.SerializeToString())


def main():
    try:
        import onnx
        from onnx import numpy_helper
        from onnx.backend.test.loader import load_model_tests
    except ImportError as why:
        print(f"SKIP {why}: pip install onnx")
        return 77
    minimum = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if onnx.defs.onnx_opset_version() < minimum:
        print(f"SKIP onnx {onnx.__version__} knows operator sets up to {onnx.defs.onnx_opset_version()}, these cases "
              f"are of {minimum}: pip install --upgrade onnx")
        return 77
    cases = {case.name: case for case in load_model_tests(kind="node")}
    for case in cases.values():
        write(sys.argv[1], case, numpy_helper)
    print(f"onnx {onnx.__version__}: {len(cases)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
