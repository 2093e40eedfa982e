#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes models with random weights as ONNX files, for `kiln bench models` and for trying things.

    /usr/bin/python3 write_models.py FOLDER [NAME...]

Each model becomes a folder: NAME/model.onnx, and NAME/INPUT.npy for each input. What is there already is left. A name
may end in _bn, then a network of convolutions keeps BatchNormalization as nodes instead of folding it, as exporters
do; and in _b8 for a batch of 8, or any other number: resnet50_bn_b8. The same name and --seed give the same file.

The architectures are torchvision's and those of the papers, the graphs as exporters write them (operator set 17).
Networks of convolutions are normalised by what flows through them: their weights and statistics are such that
every channel has mean 0 and variance 1, as in a trained network. Needs Debian's python3-onnx, or the one of PyPI.
"""

import argparse
import os
import re
import sys
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


class Writer:
    """The nodes, weights and inputs of one model; `op` adds a node and gives the name of its result."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes = []
        self.weights = []
        self.inputs = []
        self.outputs = []
        self.known = {}

    def const(self, array, name=None):
        """An initialiser; small ones of the same contents are one."""
        array = np.asarray(array, order="C")
        key = name or (array.dtype.str, array.shape, array.tobytes() if array.size <= 16 else len(self.weights))
        if key not in self.known:
            self.known[key] = name or f"constant_{len(self.weights)}"
            self.weights.append(numpy_helper.from_array(array, self.known[key]))
        return self.known[key]

    def number(self, value):
        return self.const(np.array(value, np.float32))

    def ints(self, *values):
        return self.const(np.array(values, np.int64))

    def op(self, kind, *inputs, results=1, **attributes):
        names = [f"{kind}_{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(results)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names[0] if results == 1 else names

    def normal(self, *shape):
        return self.random.standard_normal(shape, np.float32)

    def input(self, name, array):
        self.inputs.append((name, array))
        return name

    def output(self, value, name, shape, dtype=TensorProto.FLOAT):
        self.nodes.append(helper.make_node("Identity", [value], [name], name=name))
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    # What every exporter writes in the same way.

    def linear(self, x, n_in, n_out, gain=1.0):
        """A product with a matrix and a bias behind it, as of an input with more than two axes."""
        product = self.op("MatMul", x, self.const(self.normal(n_in, n_out) * np.float32(gain / n_in**0.5)))
        return self.op("Add", self.const(self.normal(n_out) * np.float32(0.1)), product)

    def gemm(self, x, n_in, n_out, gain=1.0):
        """The same of a matrix, with the weights transposed as PyTorch keeps them."""
        return self.op("Gemm", x, self.const(self.normal(n_out, n_in) * np.float32(gain / n_in**0.5)),
                       self.const(self.normal(n_out) * np.float32(0.1)), transB=1)

    def layer_norm(self, x, width, epsilon):
        return self.op("LayerNormalization", x, self.const(1 + self.normal(width) * np.float32(0.1)),
                       self.const(self.normal(width) * np.float32(0.1)), axis=-1, epsilon=epsilon)

    def gelu(self, x):
        y = self.op("Erf", self.op("Div", x, self.number(2**0.5)))
        y = self.op("Mul", x, self.op("Add", y, self.number(1)))
        return self.op("Mul", y, self.number(0.5))

    def gelu_tanh(self, x):
        y = self.op("Mul", self.op("Pow", x, self.number(3)), self.number(0.044715))
        y = self.op("Mul", self.op("Add", x, y), self.number((2 / np.pi) ** 0.5))
        y = self.op("Add", self.op("Tanh", y), self.number(1))
        return self.op("Mul", self.op("Mul", x, self.number(0.5)), y)

    def split_heads(self, x, batch, tokens, heads, width):
        x = self.op("Reshape", x, self.ints(batch, tokens, heads, width))
        return self.op("Transpose", x, perm=[0, 2, 1, 3])

    def join_heads(self, x, batch, tokens, width):
        return self.op("Reshape", self.op("Transpose", x, perm=[0, 2, 1, 3]), self.ints(batch, tokens, width))


# ---- networks of convolutions ----

ACTIVATIONS = {
    "": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}


def convolve(x, weights, stride, groups):
    """One image, [channels, height, width], by [out, in / groups, k, k] with half of k around it."""
    k = weights.shape[2]
    pad = k // 2
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    height, width = ((length - k) // stride + 1 for length in x.shape[1:])
    y = np.zeros((groups, weights.shape[0] // groups, height * width), np.float32)
    of_group = weights.reshape(groups, -1, *weights.shape[1:])
    for i in range(k):
        for j in range(k):
            tap = x[:, i:i + stride * height:stride, j:j + stride * width:stride].reshape(groups, -1, height * width)
            y += of_group[:, :, 0, i, j, None] * tap if tap.shape[1] == 1 else of_group[..., i, j] @ tap
    return y.reshape(-1, height, width)


class Images(Writer):
    """Nodes beside the first image as it flows through them. A value is (name, array)."""

    def __init__(self, seed, batch, keep_norms=False):
        super().__init__(seed)
        self.keep_norms = keep_norms
        images = self.normal(batch, 3, 224, 224)
        self.image = (self.input("image", images), images[0])

    def finish(self, name, value):
        return (name, value)

    def conv_node(self, x, weights, bias, stride, groups):
        """A convolution; x and the result are names with arrays."""
        k = weights.shape[2]
        inputs = [x[0], self.const(weights)] + ([] if bias is None else [self.const(bias)])
        name = self.op("Conv", *inputs, dilations=[1, 1], group=groups, kernel_shape=[k, k],
                       pads=[k // 2] * 4, strides=[stride, stride])
        value = convolve(x[1], weights, stride, groups)
        return name, value if bias is None else value + bias[:, None, None]

    def act(self, x, kind):
        name, value = x
        if kind in ("relu", "sigmoid"):
            name = self.op(kind.capitalize(), name)
        elif kind == "relu6":
            name = self.op("Clip", name, self.number(0), self.number(6))
        elif kind == "silu":
            name = self.op("Mul", name, self.op("Sigmoid", name))
        elif kind == "hard_sigmoid":
            name = self.op("HardSigmoid", name, alpha=1 / 6, beta=0.5)
        elif kind == "hard_swish":
            name = self.op("HardSwish", name)
        return name, ACTIVATIONS[kind](value)

    def conv(self, x, n_out, k=1, stride=1, groups=1, act="", gain=1.0):
        """Convolution, normalisation by what it gives here, activation."""
        n_in = x[1].shape[0] // groups
        weights = self.normal(n_out, n_in, k, k) * np.float32((n_in * k * k) ** -0.5)
        value = convolve(x[1], weights, stride, groups)
        mean, variance = value.mean((1, 2)), value.var((1, 2)) + np.float32(1e-3)
        scale = np.float32(gain) * (1 + np.float32(0.1) * self.normal(n_out))
        shift = np.float32(0.1) * self.normal(n_out)
        factor = scale / np.sqrt(variance + np.float32(1e-5))
        if self.keep_norms:
            y = self.conv_node(x, weights, None, stride, groups)
            name = self.op("BatchNormalization", y[0], *(self.const(part) for part in (scale, shift, mean, variance)),
                           epsilon=1e-5)
            y = name, (value - mean[:, None, None]) * factor[:, None, None] + shift[:, None, None]
        else:
            y = self.conv_node(x, weights * factor[:, None, None, None], shift - mean * factor, stride, groups)
        return self.finish(*self.act(y, act))

    def add(self, x, y, act=""):
        return self.finish(*self.act((self.op("Add", x[0], y[0]), x[1] + y[1]), act))

    def squeeze_excite(self, x, n_squeezed, act, gate):
        y = self.mean(x)
        y = self.act(self.point(y, n_squeezed), act)
        y = self.act(self.point(y, x[1].shape[0]), gate)
        return self.op("Mul", y[0], x[0]), x[1] * y[1]

    def point(self, x, n_out):
        """A convolution of one point with a bias, without a norm."""
        n_in = x[1].shape[0]
        weights = self.normal(n_out, n_in, 1, 1) * np.float32(n_in**-0.5)
        return self.conv_node(x, weights, np.float32(0.1) * self.normal(n_out), 1, 1)

    def mean(self, x):
        return self.op("GlobalAveragePool", x[0]), x[1].mean((1, 2), keepdims=True)

    def max_pool(self, x):
        name = self.op("MaxPool", x[0], ceil_mode=0, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
        padded = np.pad(x[1], ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::2, ::2]
        return self.finish(name, windows.max((3, 4)))

    def dense(self, x, n_out, act=""):
        weights = self.normal(n_out, x[1].size) * np.float32(x[1].size**-0.5)
        bias = np.float32(0.1) * self.normal(n_out)
        value = weights @ x[1].ravel()
        spread = np.float32(1 / (value.std() + 1e-3))
        name = self.op("Gemm", x[0], self.const(weights * spread), self.const(bias), transB=1)
        return self.act((name, value * spread + bias), act)

    def flatten(self, x):
        return self.op("Flatten", x[0], axis=1), x[1].ravel()

    def scores(self, x, batch):
        """Ends the network; `result` keeps what the first image gives."""
        self.output(x[0], "scores", [batch, 1000])
        self.result = x[1]
        return self


def resnet(images, layers, bottleneck, groups=1, group_width=64):
    """"Deep Residual Learning for Image Recognition", He and others, 2015, in its later form (stride in the 3x3)."""
    x = images.max_pool(images.conv(images.image, 64, 7, 2, act="relu"))
    for stage, count in enumerate(layers):
        width = groups * group_width << stage
        n_out = 256 << stage if bottleneck else width
        for i in range(count):
            stride = 2 if stage > 0 and i == 0 else 1
            y = images.conv(x, width, act="relu") if bottleneck else x
            y = images.conv(y, width, 3, stride, groups, act="relu")
            y = images.conv(y, n_out, 1 if bottleneck else 3, gain=0.5)
            if x[1].shape[0] != n_out:
                x = images.conv(x, n_out, 1, stride)
            x = images.add(y, x, "relu")
    return images.dense(images.flatten(images.mean(x)), 1000)


def resnet18(batch, seed, keep_norms):
    images = Images(seed, batch, keep_norms)
    return images.scores(resnet(images, (2, 2, 2, 2), False), batch)


def resnet50(batch, seed, keep_norms):
    images = Images(seed, batch, keep_norms)
    return images.scores(resnet(images, (3, 4, 6, 3), True), batch)


def resnext50(batch, seed, keep_norms):
    """"Aggregated Residual Transformations", Xie and others, 2016: 32 groups of 4 channels and more."""
    images = Images(seed, batch, keep_norms)
    return images.scores(resnet(images, (3, 4, 6, 3), True, groups=32, group_width=4), batch)


def inverted(images, x, n_wide, n_out, k, stride, act, squeeze=None):
    """Widen, depthwise, squeeze and excite, narrow; with a residual where the shapes are the same."""
    y = images.conv(x, n_wide, act=act) if n_wide != x[1].shape[0] else x
    y = images.conv(y, n_wide, k, stride, groups=n_wide, act=act)
    y = images.squeeze_excite(y, *squeeze) if squeeze else y
    y = images.conv(y, n_out)
    return images.add(x, y) if stride == 1 and x[1].shape[0] == n_out else y


def mobilenet_v2(batch, seed, keep_norms):
    """Sandler and others, 2018."""
    images = Images(seed, batch, keep_norms)
    x = images.conv(images.image, 32, 3, 2, act="relu6")
    for widen, n_out, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                        (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            x = inverted(images, x, widen * x[1].shape[0], n_out, 3, stride if i == 0 else 1, "relu6")
    x = images.flatten(images.mean(images.conv(x, 1280, act="relu6")))
    return images.scores(images.dense(x, 1000), batch)


def mobilenet_v3_large(batch, seed, keep_norms):
    """"Searching for MobileNetV3", Howard and others, 2019."""
    images = Images(seed, batch, keep_norms)
    x = images.conv(images.image, 16, 3, 2, act="hard_swish")
    for k, n_wide, n_out, squeezes, act, stride in (
            (3, 16, 16, 0, "relu", 1), (3, 64, 24, 0, "relu", 2), (3, 72, 24, 0, "relu", 1), (5, 72, 40, 1, "relu", 2),
            (5, 120, 40, 1, "relu", 1), (5, 120, 40, 1, "relu", 1), (3, 240, 80, 0, "hard_swish", 2),
            (3, 200, 80, 0, "hard_swish", 1), (3, 184, 80, 0, "hard_swish", 1), (3, 184, 80, 0, "hard_swish", 1),
            (3, 480, 112, 1, "hard_swish", 1), (3, 672, 112, 1, "hard_swish", 1), (5, 672, 160, 1, "hard_swish", 2),
            (5, 960, 160, 1, "hard_swish", 1), (5, 960, 160, 1, "hard_swish", 1)):
        eighths = (n_wide // 4 + 4) // 8 * 8
        n_squeezed = eighths + 8 if eighths < 0.9 * (n_wide // 4) else max(eighths, 8)
        x = inverted(images, x, n_wide, n_out, k, stride, act,
                     (n_squeezed, "relu", "hard_sigmoid") if squeezes else None)
    x = images.flatten(images.mean(images.conv(x, 960, act="hard_swish")))
    return images.scores(images.dense(images.dense(x, 1280, "hard_swish"), 1000), batch)


def efficientnet_b0(batch, seed, keep_norms):
    """Tan and Le, 2019."""
    images = Images(seed, batch, keep_norms)
    x = images.conv(images.image, 32, 3, 2, act="silu")
    for widen, k, stride, n_out, count in ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
                                           (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)):
        for i in range(count):
            n_in = x[1].shape[0]
            x = inverted(images, x, widen * n_in, n_out, k, stride if i == 0 else 1, "silu",
                         (n_in // 4, "silu", "sigmoid"))
    x = images.flatten(images.mean(images.conv(x, 1280, act="silu")))
    return images.scores(images.dense(x, 1000), batch)


class QuantizedImages(Images):
    """Convolutions between QuantizeLinear and DequantizeLinear: u8 activations, i8 weights for each channel."""

    def __init__(self, seed, batch):
        super().__init__(seed, batch)
        self.scales = {}
        self.image = self.finish(*self.image)

    def finish(self, name, value):
        """The value by way of its 8 bits; its range is that of the first image, with some room."""
        low, high = min(float(value.min()), 0) * 1.05, max(float(value.max()), 0) * 1.05
        scale = np.float32((high - low) / 255 or 1)
        zero = np.uint8(round(-low / scale))
        step = (self.const(scale), self.const(zero))
        name = self.op("DequantizeLinear", self.op("QuantizeLinear", name, *step), *step)
        value = (np.clip(np.rint(value / scale) + zero, 0, 255) - zero) * scale
        self.scales[name] = scale
        return name, value.astype(np.float32)

    def quantized(self, weights, bias, scale):
        """The names of both, and the weights as they are in 8 bits."""
        steps = (np.abs(weights).reshape(len(weights), -1).max(1) / 127).astype(np.float32)
        across = steps.reshape(-1, *[1] * (weights.ndim - 1))
        whole = np.clip(np.rint(weights / across), -127, 127).astype(np.int8)
        kept = self.op("DequantizeLinear", self.const(whole), self.const(steps),
                       self.const(np.zeros(len(steps), np.int8)), axis=0)
        added = self.op("DequantizeLinear", self.const(np.rint(bias / (scale * steps)).astype(np.int32)),
                        self.const(scale * steps), self.const(np.zeros(len(steps), np.int32)), axis=0)
        return kept, added, whole * across

    def conv_node(self, x, weights, bias, stride, groups):
        k = weights.shape[2]
        kept, added, weights = self.quantized(weights, bias, self.scales[x[0]])
        name = self.op("Conv", x[0], kept, added, dilations=[1, 1], group=groups, kernel_shape=[k, k],
                       pads=[k // 2] * 4, strides=[stride, stride])
        return name, convolve(x[1], weights, stride, groups) + bias[:, None, None]

    def mean(self, x):
        return self.finish(*super().mean(x))

    def flatten(self, x):
        return self.finish(*super().flatten(x))

    def dense(self, x, n_out, act=""):
        weights = self.normal(n_out, x[1].size) * np.float32(x[1].size**-0.5)
        weights /= np.float32((weights @ x[1]).std() + 1e-3)
        bias = np.float32(0.1) * self.normal(n_out)
        kept, added, weights = self.quantized(weights, bias, self.scales[x[0]])
        return self.finish(self.op("Gemm", x[0], kept, added, transB=1), weights @ x[1] + bias)


def resnet18_qdq(batch, seed, _):
    images = QuantizedImages(seed, batch)
    return images.scores(resnet(images, (2, 2, 2, 2), False), batch)


# ---- transformers ----

WIDTH, HEADS, LAYERS, TOKENS = 768, 12, 12, 128
HEAD = WIDTH // HEADS


def encoder_layer(w, x, batch, mask=None):
    """Attention and two products, each with a residual and a norm behind it."""
    queries, keys, values = (w.linear(x, WIDTH, WIDTH) for _i in range(3))
    keys = w.op("Reshape", keys, w.ints(batch, TOKENS, HEADS, HEAD))
    keys = w.op("Transpose", keys, perm=[0, 2, 3, 1])
    values = w.split_heads(values, batch, TOKENS, HEADS, HEAD)
    queries = w.split_heads(queries, batch, TOKENS, HEADS, HEAD)
    y = w.op("Div", w.op("MatMul", queries, keys), w.number(HEAD**0.5))
    y = w.op("Softmax", y if mask is None else w.op("Add", y, mask), axis=-1)
    y = w.join_heads(w.op("MatMul", y, values), batch, TOKENS, WIDTH)
    x = w.layer_norm(w.op("Add", w.linear(y, WIDTH, WIDTH), x), WIDTH, 1e-12)
    y = w.linear(w.gelu(w.linear(x, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH, 1.5)
    return w.layer_norm(w.op("Add", y, x), WIDTH, 1e-12)


def bert_base(batch, seed, _):
    """Devlin and others, 2018; 128 tokens, the last 8 of them masked."""
    w = Writer(seed)
    words = w.input("input_ids", w.random.integers(0, 30522, (batch, TOKENS)))
    mask = np.ones((batch, TOKENS), np.int64)
    mask[:, -8:] = 0
    mask = w.input("attention_mask", mask)
    kinds = w.input("token_type_ids", np.zeros((batch, TOKENS), np.int64))
    mask = w.op("Unsqueeze", w.op("Unsqueeze", mask, w.ints(1)), w.ints(2))
    mask = w.op("Sub", w.number(1), w.op("Cast", mask, to=TensorProto.FLOAT))
    mask = w.op("Mul", mask, w.number(np.finfo(np.float32).min))
    x = w.op("Gather", w.const(w.normal(30522, WIDTH), "words"), words)
    x = w.op("Add", x, w.op("Gather", w.const(w.normal(2, WIDTH), "kinds"), kinds))
    x = w.op("Add", x, w.const(w.normal(1, TOKENS, WIDTH), "places"))
    x = w.layer_norm(x, WIDTH, 1e-12)
    for _layer in range(LAYERS):
        x = encoder_layer(w, x, batch, mask)
    w.output(x, "last_hidden_state", [batch, TOKENS, WIDTH])
    first = w.op("Gather", x, w.const(np.array(0, np.int64)), axis=1)
    w.output(w.op("Tanh", w.gemm(first, WIDTH, WIDTH)), "pooler_output", [batch, WIDTH])
    return w


def encoder(batch, seed, _):
    """The layers of BERT-base alone: what torch.nn.TransformerEncoder is, without a mask."""
    w = Writer(seed)
    x = w.input("x", w.normal(batch, TOKENS, WIDTH))
    for _layer in range(LAYERS):
        x = encoder_layer(w, x, batch)
    w.output(x, "y", [batch, TOKENS, WIDTH])
    return w


def gpt2(batch, seed, past):
    """Radford and others, 2019: 128 tokens without a past, or one with `past` before it."""
    w = Writer(seed)
    tokens = 1 if past else TOKENS
    length = past + tokens
    words = w.const(w.normal(50257, WIDTH) * np.float32(WIDTH**-0.5), "words")
    places = w.const(w.normal(1024, WIDTH) * np.float32(0.1), "places")
    ids = w.input("input_ids", w.random.integers(0, 50257, (batch, tokens)))
    at = w.input("position_ids", np.broadcast_to(np.arange(past, length), (batch, tokens)).astype(np.int64))
    seen = np.tril(np.ones((length, length), bool))[None, None, past:]
    seen, unseen = w.const(seen), w.number(np.finfo(np.float32).min)
    x = w.op("Add", w.op("Gather", words, ids), w.op("Gather", places, at))

    def conv1d(x, n_in, n_out, gain=1.0):
        x = w.op("Gemm", w.op("Reshape", x, w.ints(-1, n_in)),
                 w.const(w.normal(n_in, n_out) * np.float32(gain / n_in**0.5)),
                 w.const(w.normal(n_out) * np.float32(0.1)))
        return w.op("Reshape", x, w.ints(batch, tokens, n_out))

    present = []
    for layer in range(LAYERS):
        y = conv1d(w.layer_norm(x, WIDTH, 1e-5), WIDTH, 3 * WIDTH)
        parts = w.op("Split", y, w.ints(WIDTH, WIDTH, WIDTH), results=3, axis=2)
        queries, keys, values = (w.split_heads(part, batch, tokens, HEADS, HEAD) for part in parts)
        if past:
            before = [w.input(f"past_key_values.{layer}.{kind}", w.normal(batch, HEADS, past, HEAD))
                      for kind in ("key", "value")]
            keys = w.op("Concat", before[0], keys, axis=-2)
            values = w.op("Concat", before[1], values, axis=-2)
        present += [(f"present.{layer}.key", keys), (f"present.{layer}.value", values)]
        y = w.op("MatMul", queries, w.op("Transpose", keys, perm=[0, 1, 3, 2]))
        y = w.op("Where", seen, w.op("Div", y, w.number(HEAD**0.5)), unseen)
        y = w.op("MatMul", w.op("Softmax", y, axis=-1), values)
        y = w.join_heads(y, batch, tokens, WIDTH)
        x = w.op("Add", conv1d(y, WIDTH, WIDTH), x)
        y = conv1d(w.layer_norm(x, WIDTH, 1e-5), WIDTH, 4 * WIDTH)
        x = w.op("Add", x, conv1d(w.gelu_tanh(y), 4 * WIDTH, WIDTH, 1.5))
    x = w.layer_norm(x, WIDTH, 1e-5)
    w.output(w.op("MatMul", x, w.op("Transpose", words, perm=[1, 0])), "logits", [batch, tokens, 50257])
    for name, value in present:
        w.output(value, name, [batch, HEADS, length, HEAD])
    return w


def gpt2_prefill(batch, seed, _):
    return gpt2(batch, seed, 0)


def gpt2_decode(batch, seed, _):
    return gpt2(batch, seed, 128)


def vit_b_16(batch, seed, _):
    """"An Image is Worth 16x16 Words", Dosovitskiy and others, 2020."""
    w = Writer(seed)
    tokens = 1 + 14 * 14
    image = w.input("image", w.normal(batch, 3, 224, 224))
    x = w.op("Conv", image, w.const(w.normal(WIDTH, 3, 16, 16) * np.float32(WIDTH**-0.5)),
             w.const(w.normal(WIDTH) * np.float32(0.1)), kernel_shape=[16, 16], strides=[16, 16])
    x = w.op("Transpose", w.op("Reshape", x, w.ints(batch, WIDTH, tokens - 1)), perm=[0, 2, 1])
    token = w.op("Expand", w.const(w.normal(1, 1, WIDTH)), w.ints(batch, 1, WIDTH))
    x = w.op("Add", w.op("Concat", token, x, axis=1), w.const(w.normal(1, tokens, WIDTH) * np.float32(0.1)))
    for _layer in range(LAYERS):
        y = w.linear(w.layer_norm(x, WIDTH, 1e-6), WIDTH, 3 * WIDTH)
        parts = w.op("Split", y, w.ints(WIDTH, WIDTH, WIDTH), results=3, axis=2)
        queries, keys, values = (w.split_heads(part, batch, tokens, HEADS, HEAD) for part in parts)
        queries = w.op("Mul", queries, w.number(HEAD**-0.5))
        y = w.op("MatMul", queries, w.op("Transpose", keys, perm=[0, 1, 3, 2]))
        y = w.join_heads(w.op("MatMul", w.op("Softmax", y, axis=-1), values), batch, tokens, WIDTH)
        x = w.op("Add", w.linear(y, WIDTH, WIDTH), x)
        y = w.linear(w.layer_norm(x, WIDTH, 1e-6), WIDTH, 4 * WIDTH)
        x = w.op("Add", x, w.linear(w.gelu(y), 4 * WIDTH, WIDTH, 1.5))
    first = w.op("Gather", w.layer_norm(x, WIDTH, 1e-6), w.const(np.array(0, np.int64)), axis=1)
    w.output(w.gemm(first, WIDTH, 1000), "scores", [batch, 1000])
    return w


# ---- recurrent layers ----

STEPS, HIDDEN = 40, 128


def recurrent(kind, gates, batch, seed, **attributes):
    """Two layers as torch.nn writes them: the second takes what the first gave, step by step."""
    w = Writer(seed)
    x = w.input("x", w.normal(STEPS, batch, HIDDEN))
    start = w.const(np.zeros((1, batch, HIDDEN), np.float32), "start")
    for _layer in range(2):
        parts = [w.const(w.normal(1, gates * HIDDEN, HIDDEN) * np.float32(HIDDEN**-0.5)) for _i in range(2)]
        bias = w.const(w.normal(1, 2 * gates * HIDDEN) * np.float32(0.1))
        states = [start, start] if kind == "LSTM" else [start]
        results = w.op(kind, x, *parts, bias, "", *states, results=1 + len(states), hidden_size=HIDDEN, **attributes)
        x = w.op("Squeeze", results[0], w.ints(1))
    w.output(x, "y", [STEPS, batch, HIDDEN])
    w.output(results[1], "hidden", [1, batch, HIDDEN])
    return w


def lstm(batch, seed, _):
    return recurrent("LSTM", 4, batch, seed)


def gru(batch, seed, _):
    return recurrent("GRU", 3, batch, seed, linear_before_reset=1)


# ---- files ----

IMAGE_MODELS = (resnet18, resnet50, resnext50, mobilenet_v2, mobilenet_v3_large, efficientnet_b0)
MODELS = {model.__name__: model for model in IMAGE_MODELS + (resnet18_qdq, bert_base, encoder, gpt2_prefill,
                                                             gpt2_decode, vit_b_16, lstm, gru)}


def parse(name):
    """The function of a name, whether norms stay, and the batch; None for a name that is none."""
    match = re.fullmatch(r"(\w+?)(_bn)?(?:_b([1-9]\d*))?", name)
    model = MODELS.get(match[1]) if match else None
    if model is None or (match[2] and model not in IMAGE_MODELS):
        return None
    return model, bool(match[2]), int(match[3] or 1)


def write(folder, name, seed):
    model, keep_norms, batch = parse(name)
    w = model(batch, seed + zlib.crc32(model.__name__.encode()), keep_norms)
    inputs = [helper.make_tensor_value_info(known, helper.np_dtype_to_tensor_dtype(array.dtype)
                                            if hasattr(helper, "np_dtype_to_tensor_dtype")
                                            else onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype], array.shape)
              for known, array in w.inputs]
    graph = helper.make_graph(w.nodes, name, inputs, w.outputs, w.weights)
    made = helper.make_model(graph, producer_name="kiln", opset_imports=[helper.make_opsetid("", OPSET)])
    made.ir_version = IR_VERSION
    partial = f"{folder}/{name}.partial"
    os.makedirs(partial, exist_ok=True)
    onnx.save(made, f"{partial}/model.onnx")
    for known, array in w.inputs:
        np.save(f"{partial}/{known}.npy", np.asarray(array, order="C"))
    os.rename(partial, f"{folder}/{name}")


def main():
    parser = argparse.ArgumentParser(description="Writes models with random weights as ONNX files.")
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong = [name for name in options.names if parse(name) is None]
    if wrong:
        sys.exit(f"write_models.py: no model {wrong[0]}; there are {' '.join(MODELS)}")
    for name in options.names or MODELS:
        if not os.path.exists(f"{options.folder}/{name}/model.onnx"):
            write(options.folder, name, options.seed)
        print("written", name, flush=True)


if __name__ == "__main__":
    main()
