#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""make_decoder.py FORM FILE [--layers N ..]: a Llama-like decoder with random weights and a cache of keys and values.

FORM is how an exporter writes it: `plain`, with Concat of what is there and what is new, the mask computed from
lengths and rotary tables from places; `attention`, with the operators of set 23; or `grouped`, with those of
com.microsoft, as onnxruntime-genai does."""
import argparse

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


class Graph:
    """Nodes with names made up; a function for each operator."""

    def __init__(self, rng):
        self.nodes, self.constants, self.rng, self.count = [], [], rng, 0

    def op(self, kind, *inputs, outputs=None, **attributes):
        self.count += 1
        outputs = outputs or [f"{kind}_{self.count}"]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=f"{kind}_{self.count}", **attributes))
        return outputs[0]

    def constant(self, array, name=None):
        self.count += 1
        name = name or f"constant_{self.count}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def number(self, value):
        return self.constant(np.array(value, np.float32))

    def weight(self, *shape):
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def linear(self, x, rows, columns):
        return self.op("MatMul", x, self.weight(rows, columns))

    def length(self, x, axis):
        return self.op("Gather", self.op("Shape", x), self.constant(np.int64(axis)), axis=0)

    def lengths(self, *parts):
        """A shape of numbers and of scalars that nodes give."""
        one = [self.ints(p) if isinstance(p, int) else self.op("Unsqueeze", p, self.ints(0)) for p in parts]
        return self.op("Concat", *one, axis=0)

    def reshape(self, x, *parts):
        return self.op("Reshape", x, self.lengths(*parts))

    def slice(self, x, axis, start, end):
        return self.op("Slice", x, self.ints(start), self.ints(end), self.ints(axis))


class Plain:
    opset = 17

    def __init__(self, g, a):
        self.g, self.a = g, a

    def norm(self, x):
        g = self.g
        mean = g.op("ReduceMean", g.op("Pow", x, g.number(2)), axes=[-1])
        scaled = g.op("Div", x, g.op("Sqrt", g.op("Add", mean, g.number(1e-5))))
        return g.op("Mul", scaled, g.constant(1 + 0.1 * g.rng.standard_normal(self.a.hidden).astype(np.float32)))

    def begin(self):
        """Rotary tables, and what rows see, from places and lengths."""
        g, a = self.g, self.a
        places = g.op("Cast", g.op("Unsqueeze", "position_ids", g.ints(2)), to=TensorProto.FLOAT)
        rates = 1 / 10000 ** (np.arange(0, a.size, 2, dtype=np.float32) / a.size)
        angles = g.op("MatMul", places, g.constant(rates.reshape(1, 1, -1)))
        angles = g.op("Unsqueeze", g.op("Concat", angles, angles, axis=-1), g.ints(1))
        self.cos, self.sin = g.op("Cos", angles), g.op("Sin", angles)
        self.batch, self.rows = g.length("input_ids", 0), g.length("input_ids", 1)
        past = g.length("past_key_values.0.key", 2)
        self.total = g.op("Add", past, self.rows)
        zero, one = g.constant(np.int64(0)), g.constant(np.int64(1))
        keys = g.op("Unsqueeze", g.op("Range", zero, self.total, one), g.ints(0))
        rows = g.op("Unsqueeze", g.op("Range", past, self.total, one), g.ints(1))
        causal = g.op("Unsqueeze", g.op("LessOrEqual", keys, rows), g.ints(0, 1))
        given = g.op("Cast", g.op("Unsqueeze", "attention_mask", g.ints(1, 2)), to=TensorProto.BOOL)
        self.mask = g.op("Where", g.op("And", causal, given), g.number(0), g.number(np.finfo(np.float32).min))

    def heads(self, x, count):
        g = self.g
        return g.op("Transpose", g.reshape(x, self.batch, self.rows, count, self.a.size), perm=[0, 2, 1, 3])

    def turn(self, x):
        g, half = self.g, self.a.size // 2
        turned = g.op("Concat", g.op("Neg", g.slice(x, 3, half, self.a.size)), g.slice(x, 3, 0, half), axis=-1)
        return g.op("Add", g.op("Mul", x, self.cos), g.op("Mul", turned, self.sin))

    def repeated(self, x):
        g, a = self.g, self.a
        groups = a.heads // a.key_heads
        if groups == 1:
            return x
        shape = g.lengths(self.batch, a.key_heads, groups, self.total, a.size)
        wide = g.op("Expand", g.op("Unsqueeze", x, g.ints(2)), shape)
        return g.reshape(wide, self.batch, a.heads, self.total, a.size)

    def attention(self, q, k, v, layer):
        g, a = self.g, self.a
        q, k, v = self.heads(q, a.heads), self.heads(k, a.key_heads), self.heads(v, a.key_heads)
        k = g.op("Concat", f"past_key_values.{layer}.key", self.turn(k), outputs=[f"present.{layer}.key"], axis=2)
        v = g.op("Concat", f"past_key_values.{layer}.value", v, outputs=[f"present.{layer}.value"], axis=2)
        scores = g.op("MatMul", self.turn(q), g.op("Transpose", self.repeated(k), perm=[0, 1, 3, 2]))
        scores = g.op("Add", g.op("Mul", scores, g.number(a.size ** -0.5)), self.mask)
        y = g.op("MatMul", g.op("Softmax", scores, axis=-1), self.repeated(v))
        return g.reshape(g.op("Transpose", y, perm=[0, 2, 1, 3]), self.batch, self.rows, a.heads * a.size)

    def swish(self, x):
        return self.g.op("Mul", x, self.g.op("Sigmoid", x))


class Attention(Plain):
    opset = 23

    def norm(self, x):
        g = self.g
        weight = g.constant(1 + 0.1 * g.rng.standard_normal(self.a.hidden).astype(np.float32))
        return g.op("RMSNormalization", x, weight, epsilon=1e-5)

    def begin(self):
        g, a = self.g, self.a
        rates = 1 / 10000 ** (np.arange(0, a.size, 2, dtype=np.float32) / a.size)
        angles = np.arange(1024, dtype=np.float32)[:, None] * rates[None]
        self.cos, self.sin = g.constant(np.cos(angles)), g.constant(np.sin(angles))

    def turned(self, x, heads):
        return self.g.op("RotaryEmbedding", x, self.cos, self.sin, "position_ids", num_heads=heads)

    def attention(self, q, k, v, layer):
        g, a = self.g, self.a
        past = [f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"]
        present = [f"present.{layer}.key", f"present.{layer}.value"]
        return g.op("Attention", self.turned(q, a.heads), self.turned(k, a.key_heads), v, "", *past, is_causal=1,
                    q_num_heads=a.heads, kv_num_heads=a.key_heads, outputs=[f"mixed_{layer}", *present])


class Grouped(Attention):
    opset = 17

    def norm(self, x):
        g = self.g
        weight = g.constant(1 + 0.1 * g.rng.standard_normal(self.a.hidden).astype(np.float32))
        return g.op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=1e-5, stash_type=1)

    def begin(self):
        super().begin()
        g = self.g
        seen = g.op("ReduceSum", "attention_mask", g.ints(1), keepdims=0)
        self.last = g.op("Cast", g.op("Sub", seen, g.ints(1)), to=TensorProto.INT32)
        self.total = g.op("Cast", g.length("attention_mask", 1), to=TensorProto.INT32)

    def attention(self, q, k, v, layer):
        g, a = self.g, self.a
        past = [f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"]
        present = [f"present.{layer}.key", f"present.{layer}.value"]
        return g.op("GroupQueryAttention", q, k, v, *past, self.last, self.total, self.cos, self.sin,
                    domain="com.microsoft", num_heads=a.heads, kv_num_heads=a.key_heads, do_rotary=1,
                    outputs=[f"mixed_{layer}", *present])


FORMS = {"plain": Plain, "attention": Attention, "grouped": Grouped}


def make(a):
    g = Graph(np.random.default_rng(a.seed))
    form = FORMS[a.form](g, a)
    x = g.op("Gather", g.constant(g.rng.standard_normal((a.vocabulary, a.hidden)).astype(np.float32)), "input_ids")
    form.begin()
    for layer in range(a.layers):
        y = form.norm(x)
        q = g.linear(y, a.hidden, a.heads * a.size)
        k, v = (g.linear(y, a.hidden, a.key_heads * a.size) for _ in range(2))
        x = g.op("Add", x, g.linear(form.attention(q, k, v, layer), a.heads * a.size, a.hidden))
        y = form.norm(x)
        wide = g.op("Mul", form.swish(g.linear(y, a.hidden, a.inner)), g.linear(y, a.hidden, a.inner))
        x = g.op("Add", x, g.linear(wide, a.inner, a.hidden))
    g.op("MatMul", form.norm(x), g.weight(a.hidden, a.vocabulary), outputs=["logits"])
    f32, i64 = TensorProto.FLOAT, TensorProto.INT64
    inputs = [helper.make_tensor_value_info("input_ids", i64, ["batch", "rows"])]
    if a.form != "attention":
        inputs.append(helper.make_tensor_value_info("attention_mask", i64, ["batch", "total"]))
    if a.form != "grouped":
        inputs.append(helper.make_tensor_value_info("position_ids", i64, ["batch", "rows"]))
    outputs = [helper.make_tensor_value_info("logits", f32, ["batch", "rows", a.vocabulary])]
    for layer in range(a.layers):
        for part in ("key", "value"):
            for place, name, length in ((inputs, "past_key_values", "past"), (outputs, "present", "total")):
                place.append(helper.make_tensor_value_info(f"{name}.{layer}.{part}", f32,
                                                           ["batch", a.key_heads, length, a.size]))
    graph = helper.make_graph(g.nodes, "decoder", inputs, outputs, g.constants)
    sets = [helper.make_opsetid("", form.opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets[:1 + (a.form == "grouped")])
    model.ir_version = 10 if a.form == "attention" else 8
    save(model, a.file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("form", choices=FORMS)
    parser.add_argument("file")
    for name, value in (("layers", 4), ("hidden", 64), ("heads", 4), ("key-heads", 2), ("size", 16), ("inner", 96),
                        ("vocabulary", 97), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    make(parser.parse_args())


if __name__ == "__main__":
    main()
