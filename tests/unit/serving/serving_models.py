# SPDX-License-Identifier: MIT OR Apache-2.0
"""Folders of small models for the tests of `kiln serve --models`."""
import os

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"FP32": TensorProto.FLOAT, "FP16": TensorProto.FLOAT16, "FP64": TensorProto.DOUBLE,
         "INT64": TensorProto.INT64, "INT32": TensorProto.INT32, "UINT8": TensorProto.UINT8,
         "INT8": TensorProto.INT8, "UINT16": TensorProto.UINT16}


def put(folder, name, data, version=1, config=None):
    """A model's bytes as a version, and its configuration."""
    inside = os.path.join(folder, name, str(version))
    os.makedirs(inside, exist_ok=True)
    with open(os.path.join(inside, "model.onnx"), "wb") as file:
        file.write(data)
    if config is not None:
        with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="utf-8") as file:
            file.write(config)


def model(nodes, inputs, outputs, constants=()):
    """Inputs and outputs are (name, type, dims)."""
    values = [[helper.make_tensor_value_info(*each) for each in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *values, [numpy_helper.from_array(each, name) for name, each in constants])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made.SerializeToString()


def scale(factor, first="batch", width=4):
    """y = factor x, for any number of rows."""
    dims = [first, width]
    return model([helper.make_node("Mul", ["x", "a"], ["y"])], [("x", TensorProto.FLOAT, dims)],
                 [("y", TensorProto.FLOAT, dims)], [("a", numpy.float32([factor]))])


def twice(kind):
    """y = x + x in one element type."""
    dims = ["n", 2]
    return model([helper.make_node("Add", ["x", "x"], ["y"])], [("x", TYPES[kind], dims)], [("y", TYPES[kind], dims)])


def negation():
    """y = not x, of three."""
    return model([helper.make_node("Not", ["x"], ["y"])], [("x", TensorProto.BOOL, [3])], [("y", TensorProto.BOOL, [3])])


def sum_of_rows():
    """A result without the batch dimension that its shape promises."""
    return model([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=1)], [("x", TensorProto.FLOAT, ["n", 2])],
                 [("y", TensorProto.FLOAT, ["n", 1])])


def adder():
    """total' = total + x; y = total' twice. It keeps total'."""
    nodes = [helper.make_node("Add", ["total", "x"], ["next"]), helper.make_node("Add", ["next", "next"], ["y"])]
    kept, given = [TensorProto.FLOAT, [2]], [TensorProto.FLOAT, ["n"]]
    return model(nodes, [("x", *given), ("total", *kept)], [("next", *kept), ("y", *given)])


def unknown():
    """An operator that nobody brings."""
    return model([helper.make_node("Mystery", ["x"], ["y"], domain="acme")], [("x", TensorProto.FLOAT, [3])],
                 [("y", TensorProto.FLOAT, [3])])


BATCHED = """
name: "scale"  # as its folder
platform: "onnxruntime_onnx"
max_batch_size: 16
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y", data_type: TYPE_FP32, dims: [ 4 ] } ]
dynamic_batching { preferred_batch_size: [ 8, 16 ] max_queue_delay_microseconds: 20000 }
version_policy: { all { } }
instance_group [ { count: 1 kind: KIND_CPU } ]
"""


ADDER = """
max_batch_size: 0
sequence_batching {
  max_sequence_idle_microseconds: 600000000
  state [ { input_name: "total" output_name: "next" data_type: TYPE_FP32 dims: [ 2 ] } ]
}
"""


def usual(folder):
    """What most cases use."""
    put(folder, "scale", scale(2), 1, BATCHED)
    put(folder, "scale", scale(3), 2)
    put(folder, "negation", negation())
    for kind in TYPES:
        put(folder, "twice_" + kind.lower(), twice(kind))
    put(folder, "open", twice("FP32"), 1, "max_batch_size: 0\n")
    put(folder, "broken", b"this is no model")
    put(folder, "unknown", unknown())
    put(folder, "adder", adder(), 1, ADDER)
    put(folder, "other", scale(1), 1, 'name: "another"\n')
    put(folder, "fixed", scale(5, first=1), 1, "max_batch_size: 0\n")
    assert onnx.load(os.path.join(folder, "scale/1/model.onnx"))
    return folder
