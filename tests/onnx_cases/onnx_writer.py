# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes ONNX models and tensors as bytes, with NumPy and nothing else: field numbers of the public format."""
import os
import struct

import numpy as np

TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
         "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "float8e4m3fn": 17,
         "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22, "float4e2m1": 23,
         "float8e8m0": 24, "uint2": 25, "int2": 26}

STRING = 8


class Narrow:
    """Integers and floats of 2, 4 or 8 bits; of floats `array` has their bits."""

    def __init__(self, array, name):
        self.array, self.name, self.shape = np.asarray(array), name, np.asarray(array).shape

    def packed(self):
        """Several in a byte, from the low bits up."""
        bits = 8 if self.name.startswith("float8") else int(self.name[-1]) if "int" in self.name else 4
        count = 8 // bits
        values = self.array.ravel().astype(np.int64) & (1 << bits) - 1
        values = np.append(values, np.zeros(-values.size % count, np.int64)).reshape(-1, count)
        return (values << bits * np.arange(count)).sum(1).astype(np.uint8)


class Brain:
    """Floats as bfloat16, rounded to the nearest."""
    name = "bfloat16"

    def __init__(self, array):
        array = np.ascontiguousarray(array, np.float32)
        bits = array.view(np.uint32).astype(np.uint64)
        self.bits = np.where(np.isnan(array), 0x7FC0, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        self.shape = self.bits.shape

    @property
    def array(self):
        """What is left of the numbers, in f32."""
        return (self.bits.astype(np.uint32) << 16).view(np.float32).reshape(self.shape)


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(int(value))


def blob(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def single(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


def many(field, values):
    return b"".join(blob(field, v) for v in values)


def tensor(array, name=""):
    if isinstance(array, (Brain, Narrow)):
        data = array.bits if isinstance(array, Brain) else array.packed()
        return (b"".join(number(1, n) for n in array.shape) + number(2, TYPES[array.name]) +
                (blob(8, name) if name else b"") + blob(9, data.tobytes()))
    array = np.asarray(array)
    dims = b"".join(number(1, n) for n in array.shape)
    if array.dtype.kind == "U":
        return dims + number(2, STRING) + many(6, array.ravel().tolist()) + (blob(8, name) if name else b"")
    return (dims + number(2, TYPES[array.dtype.name]) + (blob(8, name) if name else b"") +
            blob(9, array.astype(array.dtype.newbyteorder("<")).tobytes()))


class Sparse:
    """Values at indices of a tensor of zeros."""

    def __init__(self, values, indices, dims, name=""):
        self.parts = (tensor(values, name), tensor(indices), dims)

    def message(self):
        return blob(1, self.parts[0]) + blob(2, self.parts[1]) + b"".join(
            number(3, n) for n in self.parts[2])


class Ref:
    """Inside a function: the caller's attribute."""

    def __init__(self, name, kind):
        self.name, self.kind = name, kind


class Type(int):
    """An element type where an integer would be read as a number."""


def attribute(name, value):
    out = blob(1, name)
    if isinstance(value, Ref):
        return out + number(20, value.kind) + blob(21, value.name)
    if isinstance(value, Graph):
        return out + blob(6, value.message()) + number(20, 5)
    if isinstance(value, Sparse):
        return out + blob(22, value.message()) + number(20, 11)
    if isinstance(value, (np.ndarray, Brain, Narrow)):
        return out + blob(5, tensor(value)) + number(20, 4)
    if isinstance(value, str):
        return out + blob(4, value) + number(20, 3)
    if isinstance(value, float):
        return out + single(2, value) + number(20, 1)
    if isinstance(value, (bool, int, np.integer)):
        return out + number(3, value) + number(20, 2)
    value = list(value)
    if value and isinstance(value[0], float):
        return out + b"".join(single(7, v) for v in value) + number(20, 6)
    if value and isinstance(value[0], str):
        return out + many(9, value) + number(20, 8)
    return out + b"".join(number(8, v) for v in value) + number(20, 7)


class Node(bytes):
    """A node's message that remembers its operator and the standard ones in it."""
    operators = ()
    domain = ""
    type = ""


def node(op, inputs, outputs, domain="", overload="", **attributes):
    message = Node(many(1, inputs) + many(2, outputs) + blob(4, op) +
            b"".join(blob(5, attribute(k, v)) for k, v in attributes.items() if v is not None) +
            (blob(7, domain) if domain else b"") + (blob(8, overload) if overload else b""))
    message.operators = [] if domain else [op]
    message.domain, message.type = domain, op
    for value in attributes.values():
        if isinstance(value, Graph):
            message.operators += [inner for n in value.nodes for inner in n.operators]
    return message


def value_info(name, value):
    """The type of an array, of a list of arrays (a sequence), of None (no type), or an element type alone."""
    if value is None:
        return blob(1, name)
    if isinstance(value, type):
        return blob(1, name) + blob(2, tensor_type(np.zeros(0, value), False))
    if isinstance(value, list):
        return blob(1, name) + blob(2, blob(4, blob(1, tensor_type(value[0], False))))
    return blob(1, name) + blob(2, tensor_type(value, True))


def tensor_type(array, with_shape):
    array = array if isinstance(array, (Brain, Narrow)) else np.asarray(array)
    kind = array.name if isinstance(array, (Brain, Narrow)) else array.dtype.name
    dims = b"".join(blob(1, number(1, n)) for n in array.shape) if with_shape else b""
    return blob(1, number(1, STRING if kind.startswith("str") else TYPES[kind]) + (blob(2, dims) if with_shape else b""))


class Graph:
    """inputs and outputs: name -> array, list or None; initializers: name -> array or Sparse."""

    def __init__(self, nodes, inputs, outputs, initializers=()):
        self.nodes, self.inputs, self.outputs = nodes, inputs, outputs
        self.initializers = dict(initializers)

    def message(self):
        out = many(1, self.nodes) + blob(2, "graph")
        for name, value in self.initializers.items():
            out += blob(15, value.message()) if isinstance(value, Sparse) else blob(
                5, tensor(value, name))
        out += b"".join(blob(11, value_info(n, v)) for n, v in self.inputs.items())
        return out + b"".join(blob(12, value_info(n, v)) for n, v in self.outputs.items())


def function(name, inputs, outputs, nodes, opset, domain="local", attributes=(), defaults=None, overload=""):
    return (blob(1, name) + many(4, inputs) + many(5, outputs) + many(6, attributes) + many(7, nodes) +
            blob(9, number(2, opset)) + blob(10, domain) +
            b"".join(blob(11, attribute(k, v)) for k, v in (defaults or {}).items()) +
            (blob(13, overload) if overload else b""))


def model(graph, opset, functions=(), ir_version=10):
    sets = [blob(1, "") + number(2, opset)]
    sets += [blob(1, domain) + number(2, 5 if domain == "ai.onnx.ml" else 1) for domain in sorted({n.domain for n in graph.nodes} - {""})]
    if functions and not any(n.domain == "local" for n in graph.nodes):
        sets.append(blob(1, "local") + number(2, 1))
    return number(1, ir_version) + blob(7, graph.message()) + many(8, sets) + many(25, functions)


def value_file(value):
    if isinstance(value, list):
        return number(2, 1) + b"".join(blob(3, tensor(v)) for v in value)
    return tensor(value)


def write_case(folder, name, graph, opset, functions=(), ir_version=10):
    """The graph's inputs and outputs are the data."""
    data = os.path.join(folder, "test_" + name, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    with open(os.path.join(folder, "test_" + name, "model.onnx"), "wb") as file:
        file.write(model(graph, opset, functions, ir_version))
    with open(os.path.join(folder, "operators.txt"), "a", encoding="utf-8") as file:
        file.writelines(f"{op} {opset}\n" for n in graph.nodes for op in n.operators)
    with open(os.path.join(folder, "domains.txt"), "a", encoding="utf-8") as file:
        file.writelines(f"{n.domain}:{n.type}\n" for n in graph.nodes)
    for kind, values in (("input", graph.inputs), ("output", graph.outputs)):
        for i, value in enumerate(v for n, v in values.items() if n not in graph.initializers):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                file.write(value_file(value))
