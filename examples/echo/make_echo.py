#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""make_echo.py [FILE]: writes a language model of bytes whose weights are made by hand.

It goes on as the text went on before, after the same three bytes. Its first layer has three heads, which look 1, 2 and
3 places back and bring the bytes from there; its second layer looks for the place that has behind it what the last
place is and has behind it, and brings the byte from there. Names and form are those of exported decoders."""
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

BYTES, CODE, WAVES, BACK = 256, 64, 32, 3
rng = np.random.default_rng(7)
nodes, constants = [], []


def op(kind, *inputs, outputs=None, **attributes):
    outputs = outputs or [f"{kind}_{len(nodes)}"]
    nodes.append(helper.make_node(kind, list(inputs), outputs, name=f"{kind}_{len(nodes)}", **attributes))
    return outputs[0]


def constant(array, dtype=np.float32):
    name = f"constant_{len(constants)}"
    constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
    return name


def whole(*values):
    return constant(values, np.int64)


def length(x, axis):
    return op("Gather", op("Shape", x), constant(axis, np.int64), axis=0)


def attention(layer, query, key, value, mask, sharpness):
    """Heads over all that is kept, [batch, heads, rows, size]."""
    key = op("Concat", f"past_key_values.{layer}.key", key, outputs=[f"present.{layer}.key"], axis=2)
    value = op("Concat", f"past_key_values.{layer}.value", value, outputs=[f"present.{layer}.value"], axis=2)
    scores = op("Mul", op("MatMul", query, op("Transpose", key, perm=[0, 1, 3, 2])), constant(sharpness))
    return op("MatMul", op("Softmax", op("Add", scores, mask), axis=-1), value)


def make(path):
    # A code for each byte: numbers of both signs, so that those of different bytes have little in common.
    codes = rng.choice([-1.0, 1.0], (BYTES, CODE)) / np.sqrt(CODE)
    here = op("Unsqueeze", op("Gather", constant(codes), "input_ids"), whole(1))  # [batch, 1, rows, CODE]

    # What rows see: themselves and what was before, where the mask has ones.
    rows, past = length("input_ids", 1), length("past_key_values.0.key", 2)
    total = op("Add", rows, past)
    zero, one = constant(0, np.int64), constant(1, np.int64)
    keys = op("Unsqueeze", op("Range", zero, total, one), whole(0))
    causal = op("LessOrEqual", keys, op("Unsqueeze", op("Range", past, total, one), whole(1)))
    given = op("Cast", op("Unsqueeze", "attention_mask", whole(1, 2)), to=TensorProto.BOOL)
    mask = op("Where", op("And", op("Unsqueeze", causal, whole(0, 1)), given), constant(0), constant(-1e9))

    # A place as waves: those of two places agree where the places do.
    rates = constant(rng.uniform(0.05, np.pi, WAVES).reshape(1, 1, 1, -1))
    place = op("Unsqueeze", op("Cast", "position_ids", to=TensorProto.FLOAT), whole(1, 3))

    def waves(x):
        angles = op("Mul", x, rates)
        return op("Concat", op("Cos", angles), op("Sin", angles), axis=-1)

    back = constant(np.arange(1, BACK + 1).reshape(1, BACK, 1, 1))
    shape = whole(1, BACK, 1, 1)
    found = attention(0, waves(op("Sub", place, back)), op("Expand", waves(place), shape), op("Expand", here, shape),
                      mask, 2)

    # The last bytes beside each other, the nearest counting most.
    weights = constant(np.repeat([1.0, 0.8, 0.6], CODE).reshape(1, 1, 1, -1))
    batch = op("Shape", "input_ids", start=0, end=1)

    def flat(x, count):
        dims = op("Concat", batch, whole(1, -1, count * CODE), axis=0)
        return op("Reshape", op("Transpose", x, perm=[0, 2, 1, 3]), dims)

    before = flat(found, BACK)
    last = flat(op("Concat", here, op("Slice", found, whole(0), whole(BACK - 1), whole(1)), axis=1), BACK)
    gone_on = attention(1, op("Mul", last, weights), before, here, mask, 25)
    logits = op("MatMul", op("Squeeze", gone_on, whole(1)), constant(codes.T * 10))
    op("Identity", logits, outputs=["logits"])

    i64, f32 = TensorProto.INT64, TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("input_ids", i64, ["batch", "rows"]),
              helper.make_tensor_value_info("attention_mask", i64, ["batch", "total"]),
              helper.make_tensor_value_info("position_ids", i64, ["batch", "rows"])]
    outputs = [helper.make_tensor_value_info("logits", f32, ["batch", "rows", BYTES])]
    for layer, heads, sizes in ((0, BACK, (2 * WAVES, CODE)), (1, 1, (BACK * CODE, CODE))):
        for part, size in zip(("key", "value"), sizes):
            inputs.append(helper.make_tensor_value_info(f"past_key_values.{layer}.{part}", f32,
                                                        ["batch", heads, "past", size]))
            outputs.append(helper.make_tensor_value_info(f"present.{layer}.{part}", f32,
                                                         ["batch", heads, "total", size]))
    graph = helper.make_graph(nodes, "echo", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="make_echo.py")
    model.ir_version = 8
    save(model, path)


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else "echo.onnx")
