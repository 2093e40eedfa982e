# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small models as PyTorch's exporter writes them, with random weights: a BERT, a GPT-2 and a convolutional net. ONNX
Runtime's tools find in them what they find in the large ones. Needs onnx."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

HEADS, SIZE, WIDE, WORDS, ROWS, LAYERS = 4, 16, 128, 99, 12, 2
HIDDEN = HEADS * SIZE
I64 = np.int64


class Writer:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.count = [], [], 0

    def name(self, what):
        self.count += 1
        return f"{what}_{self.count}"

    def held(self, array, what="c"):
        name = self.name(what)
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *values):
        return self.held(np.array(values, I64))

    def number(self, value):
        return self.held(np.array(value, np.float32))

    def weight(self, *shape, scale=None):
        scale = 1 / np.sqrt(shape[0]) if scale is None else scale
        return self.held((self.random.standard_normal(shape) * scale).astype(np.float32), "w")

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [self.name(kind.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=self.name(kind), **attributes))
        return names[0] if outputs == 1 else names

    def norm(self, x):
        scale = self.held((1 + self.random.standard_normal(HIDDEN) / 9).astype(np.float32), "scale")
        return self.op("LayerNormalization", x, scale, self.weight(HIDDEN, scale=0.1), axis=-1, epsilon=1e-5)

    def linear(self, x, columns, rows=HIDDEN):
        return self.op("Add", self.weight(columns, scale=0.1), self.op("MatMul", x, self.weight(rows, columns)))

    def heads(self, x, perm):
        return self.op("Transpose", self.op("Reshape", x, self.ints(0, 0, HEADS, SIZE)), perm=perm)

    def side_by_side(self, x):
        return self.op("Reshape", self.op("Transpose", x, perm=[0, 2, 1, 3]), self.ints(0, 0, HIDDEN))

    def model(self, name, inputs, output, opset=17):
        graph = helper.make_graph(self.nodes, name, inputs, [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def tensor(name, kind, dims):
    return helper.make_tensor_value_info(name, kind, dims)


def bert():
    w = Writer(1)
    words = w.op("Gather", w.weight(WORDS, HIDDEN, scale=1), "input_ids")
    words = w.op("Add", words, w.op("Gather", w.weight(2, HIDDEN, scale=1), "token_type_ids"))
    length = w.op("Gather", w.op("Shape", "input_ids"), w.held(np.array(1, I64)), axis=0)
    places = w.op("Slice", w.held(np.arange(ROWS)[None]), w.ints(0), w.op("Unsqueeze", length, w.ints(0)), w.ints(1),
                  w.ints(1))
    x = w.norm(w.op("Add", words, w.op("Gather", w.weight(ROWS, HIDDEN, scale=1), places)))
    mask = w.op("Unsqueeze", w.op("Unsqueeze", "attention_mask", w.ints(1)), w.ints(2))
    mask = w.op("Sub", w.number(1), w.op("Cast", mask, to=TensorProto.FLOAT))
    mask = w.op("Mul", mask, w.number(-10000))
    for _ in range(LAYERS):
        query = w.heads(w.linear(x, HIDDEN), [0, 2, 1, 3])
        key = w.heads(w.linear(x, HIDDEN), [0, 2, 3, 1])
        value = w.heads(w.linear(x, HIDDEN), [0, 2, 1, 3])
        scores = w.op("Div", w.op("MatMul", query, key), w.number(np.sqrt(SIZE)))
        shares = w.op("Softmax", w.op("Add", scores, mask), axis=3)
        attended = w.linear(w.side_by_side(w.op("MatMul", shares, value)), HIDDEN)
        x = w.norm(w.op("Add", attended, x))
        y = w.linear(x, WIDE)
        gate = w.op("Add", w.op("Erf", w.op("Div", y, w.number(np.sqrt(2)))), w.number(1))
        y = w.op("Mul", w.op("Mul", y, gate), w.number(0.5))
        x = w.norm(w.op("Add", w.linear(y, HIDDEN, WIDE), x))
    w.nodes[-1].output[0] = "y"
    names = ("input_ids", "attention_mask", "token_type_ids")
    return w.model("bert", [tensor(n, TensorProto.INT64, ["batch", ROWS]) for n in names],
                   tensor("y", TensorProto.FLOAT, ["batch", ROWS, HIDDEN]))


def last_length(w, x, at):
    """The length of an axis counted from the end, as the exporter of old wrote it."""
    length = w.op("Slice", w.op("Shape", x), w.ints(at), w.ints(at + 1 if at + 1 else 2**62), w.ints(0))
    return w.op("Squeeze", length, w.ints(0))


def affine_rows(w, x, columns, rows):
    """GPT-2's Conv1D: Gemm over all rows."""
    flat = w.op("Gemm", w.op("Reshape", x, w.ints(-1, rows)), w.weight(rows, columns),
                w.weight(columns, scale=0.1))
    return w.op("Reshape", flat, w.ints(-1, ROWS, columns))


def gpt2():
    w = Writer(2)
    x = w.op("Add", w.op("Gather", w.weight(WORDS, HIDDEN, scale=1), "input_ids"),
             w.op("Gather", w.weight(ROWS, HIDDEN, scale=1), w.held(np.arange(ROWS)[None])))
    seen = w.held(np.tril(np.ones((1, 1, ROWS, ROWS), bool)))
    for _ in range(LAYERS):
        qkv = affine_rows(w, w.norm(x), 3 * HIDDEN, HIDDEN)
        query, key, value = w.op("Split", qkv, w.ints(HIDDEN, HIDDEN, HIDDEN), outputs=3, axis=2)
        scores = w.op("MatMul", w.heads(query, [0, 2, 1, 3]), w.heads(key, [0, 2, 3, 1]))
        scores = w.op("Div", scores, w.number(np.sqrt(SIZE)))
        first = w.op("Sub", last_length(w, scores, -1), last_length(w, scores, -2))
        rows = w.op("Slice", seen, w.op("Unsqueeze", first, w.ints(0)),
                    w.op("Unsqueeze", last_length(w, scores, -1), w.ints(0)), w.ints(2), w.ints(1))
        rows = w.op("Slice", rows, w.ints(0), w.op("Unsqueeze", last_length(w, scores, -1), w.ints(0)), w.ints(3),
                    w.ints(1))
        shares = w.op("Softmax", w.op("Where", rows, scores, w.number(-10000)), axis=3)
        attended = w.side_by_side(w.op("MatMul", shares, w.heads(value, [0, 2, 1, 3])))
        x = w.op("Add", affine_rows(w, attended, HIDDEN, HIDDEN), x)
        y = affine_rows(w, w.norm(x), WIDE, HIDDEN)
        cube = w.op("Mul", w.op("Pow", y, w.number(3)), w.number(0.044715))
        inner = w.op("Mul", w.op("Add", y, cube), w.number(np.sqrt(2 / np.pi)))
        gate = w.op("Add", w.op("Tanh", inner), w.number(1))
        y = w.op("Mul", w.op("Mul", y, w.number(0.5)), gate)
        x = w.op("Add", x, affine_rows(w, y, HIDDEN, WIDE))
    w.op("MatMul", w.norm(x), w.weight(HIDDEN, WORDS))
    w.nodes[-1].output[0] = "y"
    return w.model("gpt2", [tensor("input_ids", TensorProto.INT64, ["batch", ROWS])],
                   tensor("y", TensorProto.FLOAT, ["batch", ROWS, WORDS]))


def convolutions():
    w = Writer(3)

    def conv(x, columns, rows, size=3, **more):
        weight = w.weight(columns, rows, size, size, scale=1 / np.sqrt(rows * size * size))
        return w.op("Conv", x, weight, w.weight(columns, scale=0.1), pads=[size // 2] * 4, **more)

    x = w.op("Relu", conv("x", 16, 3))
    y = w.op("LeakyRelu", conv(x, 16, 16), alpha=0.2)
    x = w.op("Add", x, y)
    x = w.op("Mul", x, w.op("Sigmoid", conv(x, 16, 16, size=1)))
    x = w.op("Concat", x, w.op("Clip", conv(x, 8, 16), w.number(0), w.number(6)), axis=1)
    x = w.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = w.op("Relu", conv(x, 24, 24, strides=[2, 2]))
    x = w.op("Flatten", w.op("GlobalAveragePool", x))
    x = w.op("Gemm", x, w.weight(24, 10), w.weight(10, scale=0.1))
    w.op("Softmax", x, axis=1)
    w.nodes[-1].output[0] = "y"
    return w.model("convolutions", [tensor("x", TensorProto.FLOAT, ["batch", 3, 16, 16])],
                   tensor("y", TensorProto.FLOAT, ["batch", 10]))


def inputs_of(name, seed):
    random = np.random.default_rng(seed)
    if name == "convolutions":
        return {"x": random.standard_normal((2, 3, 16, 16)).astype(np.float32)}
    inputs = {"input_ids": random.integers(0, WORDS, (2, ROWS))}
    if name == "bert":
        inputs["attention_mask"] = np.array([[1] * ROWS, [1] * (ROWS - 4) + [0] * 4], I64)
        inputs["token_type_ids"] = np.array([[0] * 5 + [1] * (ROWS - 5)] * 2, I64)
    return inputs
