#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Judges the reference evaluator by NumPy: reads what sample_dump prints and computes every result again.

One case per operator. Nothing here is derived from Kiln's code: operators are NumPy's functions, windows
are sums over shifted slices, and integer corner cases are Python's integers.
"""
import collections
import math
import re
import subprocess
import sys
import warnings

try:
    import numpy as np
except ImportError:
    print("SKIP conformance/numpy judge: python3-numpy is not installed")
    print("kiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import numpy_bf16
import numpy_nn
import numpy_search
import numpy_small
import numpy_window
import numpy_data

DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16,
          "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32,
          "u64": np.uint64, "bool": np.bool_, "bf16": np.float32}  # the last rounded: numpy_bf16.py
TOLERANCE = {"bf16": 8e-3, "f16": 1e-3, "f32": 3e-7, "f64": 1e-13}
LEAST = {"bf16": 2.0**-133, "f16": 6e-8, "f32": 0, "f64": 0}
# Pairs of operator and dtype that NumPy says nothing of, with the reason. The list may only shrink.
WITHOUT_JUDGE = {}
# Compared with the largest element: errors follow the terms.
SCALED = {"matmul_quantized", "linear_quantized", "sum", "mean", "prod", "matmul", "softmax",
          "log_softmax", "batch_norm", "gelu"}
SCALED |= set(numpy_nn.OPERATORS) | numpy_window.SCALED
SCALED |= numpy_data.SCALED
ERF = np.vectorize(math.erf, otypes=[np.float64])

# Elementwise operators are NumPy's functions of the same name, of another name, or a line here.
NAMES = {
    "neg": "negative", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "round": "rint", "is_nan": "isnan", "is_inf": "isinf",
    "bitwise_not": "invert", "sub": "subtract", "mul": "multiply", "div": "divide",
    "rem": "remainder", "pow": "power", "atan2": "arctan2",
}
UNARY = {
    "erf": ERF, "rsqrt": lambda x: 1 / np.sqrt(x), "recip": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "contiguous": lambda x: x, "all_reduce": lambda x: x, "collective_sync": lambda x: x,
}


def by_name(name):
    return UNARY.get(name) or getattr(np, NAMES.get(name, name))


def towards_zero(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def int_power(a, b):
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)


INT_BINARY = {  # of Python's integers and the width; the result is wrapped
    "div": lambda a, b, width: towards_zero(a, b) if b else 0,
    "rem": lambda a, b, width: a % b if b else 0,
    "fmod": lambda a, b, width: a - b * towards_zero(a, b) if b else 0,
    "pow": lambda a, b, width: int_power(a, b),
    "shift_left": lambda a, b, width: a << b if 0 <= b < width else 0,
    "shift_right": lambda a, b, width: a >> b if 0 <= b < width else 0,
}


def int_binary(function, a, b):
    a, b = np.broadcast_arrays(a, b)
    width = a.dtype.itemsize * 8
    values = [function(p, q, width) % (1 << width) for p, q in zip(a.ravel().tolist(),
                                                                    b.ravel().tolist())]
    return np.array(values, np.uint64).astype(f"u{a.dtype.itemsize}").view(a.dtype).reshape(a.shape)


def wide(x):
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def binary(name, a, b):
    if name in INT_BINARY and a.dtype.kind != "f":
        return int_binary(INT_BINARY[name], a, b)
    return by_name(name)(wide(a), wide(b))


def scalar(x, value):
    if x.dtype.kind == "f" or not math.isinf(value):
        return numpy_bf16.like(x, value)
    return np.iinfo(x.dtype).max if value > 0 else np.iinfo(x.dtype).min


def reduce(name, x, axes=(), keepdims=0):
    how = {"axis": tuple(axes) or tuple(range(x.ndim)), "keepdims": bool(keepdims)}
    low, high = (-np.inf, np.inf) if x.dtype.kind == "f" else (0, 1)
    if x.dtype.kind in "iu":
        low, high = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    x = wide(x)
    if name in ("sum", "prod"):
        return getattr(np, name)(x, dtype=x.dtype, **how)
    if name in ("mean", "any", "all"):
        return getattr(np, name)(x, **how)
    if name == "max_abs":
        return np.max(np.abs(x), initial=0, **how)
    return getattr(np, name)(x, initial=low if name == "max" else high, **how)


def arg_reduce(name, x, axis, keepdims=0, last=0):
    found = getattr(np, name)(np.flip(x, axis) if last else x, axis=axis, keepdims=bool(keepdims))
    return x.shape[axis] - 1 - found if last else found


def softmax(x, axis=-1):
    x = wide(x)
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def log_softmax(x, axis=-1):
    x = wide(x)
    x = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))


def batch_norm(inputs, epsilon=1e-5):
    x, scale, bias, mean, variance = [wide(i) for i in inputs]
    scale, bias, mean, variance = [v.reshape((1, -1) + (1,) * (x.ndim - 2))
                                   for v in (scale, bias, mean, variance)]
    return (x - mean) / np.sqrt(variance + epsilon) * scale + bias


def gather(name, x, indices, axis=0):
    length = x.shape[axis]
    indices = np.clip(np.where(indices < 0, indices + length, indices), 0, max(length - 1, 0))
    if name == "select":
        return np.take(x, indices, axis)
    seen = tuple(slice(None) if i == axis % x.ndim else slice(n)
                 for i, n in enumerate(indices.shape))
    return np.take_along_axis(x[seen], indices, axis) if indices.size else np.empty(indices.shape)


def pad(x, padding, mode="constant", value=0):
    begins, ends = padding[:x.ndim], padding[x.ndim:]
    kept = x[tuple(slice(max(-b, 0), n - max(-e, 0)) for b, e, n in zip(begins, ends, x.shape))]
    widths = [(max(b, 0), max(e, 0)) for b, e in zip(begins, ends)]
    more = {"constant_values": x.dtype.type(value)} if mode == "constant" else {}
    return np.pad(kept, widths, mode=mode, **more) if x.ndim else x


def slices(x, starts, ends, steps=()):
    steps = steps or [1] * x.ndim
    return x[tuple(slice(s, None if e == -2**63 else e, t) for s, e, t in zip(starts, ends, steps))]


def expand(x, shape):
    new = len(shape) - x.ndim
    return np.broadcast_to(x, [x.shape[i - new] if n == -1 else n for i, n in enumerate(shape)])


def number(dtype, value):
    """A scalar operand as an element of a dtype."""
    return np.float32(numpy_bf16.rounded(value)) if dtype == "bf16" else DTYPES[dtype](value)


def cast(x, dtype):
    if dtype == "bf16":
        return numpy_bf16.rounded(x.astype(np.float32))
    kind = np.dtype(DTYPES[dtype]).kind
    if kind == "b":
        return x != 0
    if x.dtype.kind != "f" or kind == "f":
        return x.astype(DTYPES[dtype])
    ends = np.iinfo(DTYPES[dtype])
    values = [0 if math.isnan(v) else ends.max if v >= ends.max else ends.min if v <= ends.min
              else int(v) for v in x.astype(np.float64).ravel().tolist()]
    return np.array(values, DTYPES[dtype]).reshape(x.shape)


def arange(count, dtype, start=0, step=1):
    kind = DTYPES[dtype]
    if np.dtype(kind).kind != "f":
        return (np.arange(count) * step + start).astype(kind)
    steps = np.float32 if dtype == "f16" else kind
    start, step = number(dtype, start), number(dtype, step)
    return (steps(start) + np.arange(count, dtype=steps) * steps(step)).astype(kind)


def philox(count, seed, stream, position):
    """Blocks 0 to count - 1 of Philox4x32-10, as rows of four words."""
    low = np.uint64(0xFFFFFFFF)
    block = np.arange(count, dtype=np.uint64)
    c = [block & low, block >> np.uint64(32) | np.uint64(position >> 32 << 16),
         np.full(count, position & 0xFFFFFFFF, np.uint64), np.full(count, stream, np.uint64)]
    k = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [b >> np.uint64(32) ^ c[1] ^ np.uint64(k[0]), b & low,
             a >> np.uint64(32) ^ c[3] ^ np.uint64(k[1]), a & low]
        k = [(k[0] + 0x9E3779B9) % (1 << 32), (k[1] + 0xBB67AE85) % (1 << 32)]
    return np.stack(c, 1).reshape(-1, 4)


def random_words(shape, per_block, seed=0, stream=0, position=0):
    """Each element's words, as rows of 4 / per_block Python integers."""
    count = math.prod(shape)
    words = philox(-(-count // per_block), seed, stream, position)
    return words.reshape(-1, 4 // per_block)[:count]


def random_uniform(shape, dtype, min, max, **place):
    kind = DTYPES[dtype]
    if dtype == "f64":
        w = random_words(shape, 2, **place)
        u = (w[:, 1] << np.uint64(32) | w[:, 0]) >> np.uint64(11)
        value = kind(min) + u * 2.0**-53 * (kind(max) - kind(min))
    else:
        digits = {"bf16": 8, "f16": 11, "f32": 24}[dtype]
        u = (random_words(shape, 4, **place)[:, 0] >> np.uint64(32 - digits)).astype(np.float32)
        low, high = np.float32(number(dtype, min)), np.float32(number(dtype, max))
        value = (low + u * np.float32(2.0**-digits) * (high - low)).astype(kind)
        value = numpy_bf16.rounded(value) if dtype == "bf16" else value
    return np.where(value >= number(dtype, max), number(dtype, min), value).reshape(shape)


def random_int(shape, dtype, min, max, seed=0, stream=0, position=0):
    place = {"seed": seed, "stream": stream, "position": position}
    limits = np.iinfo(DTYPES[dtype])
    low = limits.min if min == -np.inf else min
    count = (limits.max if max == np.inf else max) - low + 1
    w = random_words(shape, 1 if limits.bits == 64 else 2, **place).tolist()
    if limits.bits == 64:  # 128 random bits, the first word pair above the second
        bits = [(r[1] << 96 | r[0] << 64 | r[3] << 32 | r[2]) * count >> 128 for r in w]
    else:
        bits = [(r[1] << 32 | r[0]) * count >> 64 for r in w]
    return np.array([low + b for b in bits], DTYPES[dtype]).reshape(shape)


def random_normal(shape, dtype, mean=0.0, deviation=1.0, **place):
    count = math.prod(shape)
    w = philox((count + 3) // 2, **place)
    bits = 52 if dtype == "f64" else 26
    if dtype == "f64":
        u = (w[:, 1] << np.uint64(32) | w[:, 0]) >> np.uint64(12)
        turn = (w[:, 3] << np.uint64(32) | w[:, 2]) >> np.uint64(12)
    else:
        w = w.reshape(-1, 2)
        u, turn = w[:, 0] >> np.uint64(9), w[:, 1] >> np.uint64(6)
    u = (u.astype(np.float64) + 0.5) * (2.0**-52 if dtype == "f64" else 2.0**-23)
    eighths = turn.astype(np.int64) >> (bits - 3)  # the rest of the angle is below pi / 4
    angle = ((turn.astype(np.int64) & ((1 << (bits - 3)) - 1)) + 0.5) * 2.0**(1 - bits) * np.pi
    rest = 2 * np.pi / 8 - angle  # of odd eighths, counted from the next one
    near, far = np.where(eighths % 2, rest, angle), (eighths + 1) // 2 % 4
    sign = np.where(eighths % 2, -1.0, 1.0)
    cosine = np.choose(far, (np.cos(near), -sign * np.sin(near), -np.cos(near), sign * np.sin(near)))
    sine = np.choose(far, (sign * np.sin(near), np.cos(near), -sign * np.sin(near), -np.cos(near)))
    z = np.sqrt(-2 * np.log(u))[:, None] * np.stack((cosine, sine), 1)
    return (mean + deviation * z.ravel()[:count]).reshape(shape)


def random_bernoulli(shape, dtype, probability=0.5, **place):
    hit = random_words(shape, 4, **place)[:, 0].astype(np.float64) < probability * 2.0**32
    return hit.astype(DTYPES[dtype]).reshape(shape)


def matmul(a, b, transpose_a=0, transpose_b=0):
    a = np.swapaxes(wide(a), -1, -2) if transpose_a else wide(a)
    b = np.swapaxes(wide(b), -1, -2) if transpose_b else wide(b)
    return np.matmul(a, b)


def matmul_integer(inputs, transpose_a=0, transpose_b=0):
    a, b = (np.swapaxes(x.astype(np.int64), -1, -2) if turned else x.astype(np.int64)
            for x, turned in zip(inputs, (transpose_a, transpose_b)))
    zeros = [zero.astype(np.int64).reshape(-1) for zero in inputs[2:]]
    if zeros:
        a = a - (zeros[0][:, None] if a.ndim > 1 else zeros[0])
    if len(zeros) > 1:
        b = b - zeros[1]
    return np.matmul(a, b).astype(np.int32)


def gelu(x, approximate=0):
    x = wide(x)
    inner = np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)) if approximate else ERF(
        x / np.sqrt(2))
    return x * 0.5 * (1 + inner)


OTHERS = {  # name -> function of inputs, attributes, shape of the result; a tuple of several results
    "leaky_relu": lambda i, a, s: np.where(
        i[0] >= 0, wide(i[0]), wide(i[0]) * float(numpy_bf16.like(i[0], a.get("slope", 0.01)))),
    "gelu": lambda i, a, s: gelu(i[0], **a),
    "clamp": lambda i, a, s: np.minimum(np.maximum(i[0], scalar(i[0], a["min"])),
                                        scalar(i[0], a["max"])),
    "clamp_min": lambda i, a, s: np.maximum(i[0], scalar(i[0], a["value"])),
    "clamp_max": lambda i, a, s: np.minimum(i[0], scalar(i[0], a["value"])),
    "encode_small": lambda i, a, s: numpy_small.encode(int(a["value"]), i[0]),
    "decode_small": lambda i, a, s: numpy_small.decode(int(a["value"]), np.clip(np.nan_to_num(i[0]), 0, 255)),
    "where": lambda i, a, s: np.where(i[2], i[0], i[1]),
    "mask_fill": lambda i, a, s: np.where(i[1], scalar(i[0], a["value"]), i[0]),
    "cast": lambda i, a, s: cast(i[0], **a),
    "reshape": lambda i, a, s: i[0].reshape(a["shape"]),
    "expand": lambda i, a, s: expand(i[0], **a),
    "permute": lambda i, a, s: np.transpose(i[0], a.get("axes") or None),
    "slice": lambda i, a, s: slices(i[0], **a),
    "flip": lambda i, a, s: np.flip(i[0], tuple(a.get("axes", ())) or None),
    "argmax": lambda i, a, s: arg_reduce("argmax", i[0], **a),
    "argmin": lambda i, a, s: arg_reduce("argmin", i[0], **a),
    "matmul": lambda i, a, s: matmul(*i, **a),
    "matmul_integer": lambda i, a, s: matmul_integer(i, **a),
    "softmax": lambda i, a, s: softmax(i[0], **a),
    "log_softmax": lambda i, a, s: log_softmax(i[0], **a),
    "batch_norm": lambda i, a, s: batch_norm(i, **a),
    "gather": lambda i, a, s: gather("gather", *i, **a),
    "select": lambda i, a, s: gather("select", *i, **a),
    "concat": lambda i, a, s: np.concatenate(i, a.get("axis", 0)),
    "pad": lambda i, a, s: pad(i[0], **a),
    "full": lambda i, a, s: np.full(a["shape"], a["value"], DTYPES[a["dtype"]]),
    "arange": lambda i, a, s: arange(**a),
    "dequantize": lambda i, a, s: i[0].floats(DTYPES[a["dtype"]]),
    "quantized_scales": lambda i, a, s: i[0].scales.reshape(s),
    "matmul_quantized": lambda i, a, s: matmul(as_floats(i[0], a["dtype"]), as_floats(
        i[1], a["dtype"]), a.get("transpose_a", 0), a.get("transpose_b", 0)),
    "linear_quantized": lambda i, a, s: wide(i[0]) @ wide(
        i[1].floats(i[0].dtype)) + (wide(i[2]) if len(i) == 3 else 0),
    "random_uniform": lambda i, a, s: random_uniform(**a),
    "random_int": lambda i, a, s: random_int(**a),
    "random_normal": lambda i, a, s: random_normal(**{"seed": 0, "stream": 0, "position": 0, **a}),
    "random_permutation": lambda i, a, s: np.argsort(random_int(
        [a["count"]], "u64", -np.inf, np.inf, a["seed"], a["stream"], a["position"]),
        kind="stable"),
    "random_bernoulli": lambda i, a, s: random_bernoulli(**a),
}
OTHERS.update(numpy_data.operators(DTYPES))
REDUCTIONS = {"sum", "mean", "prod", "max", "min", "max_abs", "any", "all"}


def expected(name, inputs, attributes, shape):
    if name in REDUCTIONS:
        return reduce(name, inputs[0], **attributes)
    if name in numpy_nn.OPERATORS:
        return numpy_nn.expected(name, inputs, attributes, shape)
    if name in numpy_window.OPERATORS:
        return numpy_window.OPERATORS[name](inputs, attributes, shape)
    if name in numpy_search.OPERATORS:
        return numpy_search.OPERATORS[name](inputs, attributes, shape)
    if name in OTHERS:
        return OTHERS[name](inputs, attributes, shape)
    if name.endswith("_scalar"):
        return binary(name[:-7], inputs[0], scalar(inputs[0], attributes["value"]))
    if len(inputs) == 1:
        return by_name(name)(wide(inputs[0]))
    return binary(name, *inputs)


class Quantised:
    """A quantised tensor: integers, scales of the blocks, and what they stand for."""

    def __init__(self, dtype, scheme, shape, data):
        bits, self.shape, self.dtype = int(dtype[1]), shape, dtype
        count, per_word = math.prod(shape), 32 // bits
        words = np.frombuffer(data, np.uint32, -(-count // per_word))
        raw = words[:, None] >> (bits * np.arange(per_word, dtype=np.uint32)) & ((1 << bits) - 1)
        raw = raw.ravel()[:count].astype(np.int64)
        self.values = np.where(raw >> (bits - 1), raw - (1 << bits), raw).reshape(shape)
        sides = [scheme >> (32 + 4 * i) & 15 for i in range(len(shape))]
        sides = [1 << (s - 1) if s else max(n, 1) for s, n in zip(sides, shape)]
        self.grid = tuple(-(-n // side) if scheme >> (32 + 4 * i) & 15 else 1
                          for i, (n, side) in enumerate(zip(shape, sides)))
        number = math.prod(self.grid) if count else 0
        kind = {12: np.float32, 10: np.float16, 11: np.uint16}[scheme & 255]
        self.scales = np.frombuffer(data, kind, number, words.nbytes)
        if scheme & 255 == 11:
            self.scales = (self.scales.astype(np.uint32) << 16).view(np.float32)
        rounded = words.nbytes + -(-number * np.dtype(kind).itemsize // 4) * 4
        self.whole = np.frombuffer(data, np.float32, 1, rounded)[0] if (
            scheme >> 8 & 1 and count) else np.float32(1)
        self.scales = self.scales.reshape(self.grid if count else (0,)).astype(np.float32)
        spread = self.scales
        for axis, (side, n) in enumerate(zip(sides, shape)):
            spread = spread if not count else np.repeat(spread, side, axis).take(range(n), axis)
        self.steps = (spread * self.whole).reshape(shape) if count else np.zeros(shape, np.float32)

    def floats(self, dtype=np.float64):
        wide = np.float64 if dtype == np.float64 else np.float32
        return (self.values.astype(wide) * self.steps.astype(wide)).astype(dtype)


def as_floats(x, dtype):
    return wide(x.floats(DTYPES[dtype]) if isinstance(x, Quantised) else x)


def check_quantised(name, result, inputs, attributes):
    """What is wrong with a quantised result, or None."""
    if inputs[0].size == 0:
        return None
    bits, full = int(result.dtype[1]), result.dtype[2] == "f"
    high = (1 << (bits - 1)) - 1
    x = inputs[0] if inputs[0].dtype == np.float64 else inputs[0].astype(np.float32)
    if name == "quantize":
        want = np.rint(x / result.steps.astype(x.dtype))
        want = np.nan_to_num(np.clip(want, -high - full, high))
        given = inputs[1].astype(np.float32).ravel() if inputs[1] is not None else None
        if given is not None and not np.array_equal(given, result.scales.ravel()):
            return "the scales are others than those given"
        return None if np.array_equal(want, result.values) else "values differ from NumPy's"
    if attributes.get("mode") == "abs_mean":
        return None if np.all(np.abs(result.values) <= high + full) else "values leave the range"
    reach = (np.abs(result.values) + 0.5 + 1e-3) * result.steps
    near = np.abs(result.floats() - x) <= 0.502 * result.steps + (full * result.steps)
    return None if np.all(near) and np.all(reach * 2 >= np.abs(x)) else "values are too far"


def load(text):
    dtype, dims, data = text.split(":")
    if "{" in dtype:
        shape = tuple(int(n) for n in dims.split(",")) if dims else ()
        name, scheme = dtype.rstrip("}").split("{")
        return Quantised(name, int(scheme, 16), shape, bytes.fromhex(data))
    shape = tuple(int(n) for n in dims.split(",")) if dims else ()
    if dtype == "bf16":
        return numpy_bf16.of_bits(bytes.fromhex(data)).reshape(shape)
    return np.frombuffer(bytes.fromhex(data), DTYPES[dtype]).reshape(shape)


def difference(name, actual, wanted):
    """What is wrong with a result, or None."""
    if actual.shape != wanted.shape:
        return f"the shape is {actual.shape}, NumPy's {wanted.shape}"
    if actual.dtype.kind != "f":
        good = actual == wanted.astype(actual.dtype)
    else:
        kind = "bf16" if isinstance(actual, numpy_bf16.Bf16) else f"f{8 * actual.dtype.itemsize}"
        a, w = np.asarray(actual, np.float64), np.asarray(wanted).astype(actual.dtype)
        w = numpy_bf16.rounded(wanted) if kind == "bf16" else w.astype(np.float64)
        scale = np.max(np.abs(w), initial=0, where=np.isfinite(w)) if name in SCALED else 0
        near = TOLERANCE[kind] * np.maximum(np.abs(w), scale) + LEAST[kind]
        good = (a == w) | (np.isnan(a) & np.isnan(w)) | (np.abs(a - w) <= near)
    if np.all(good):
        return None
    where = tuple(np.argwhere(~good)[0])
    return f"element {where} is {actual[where]}, NumPy's {wanted[where]}"


def judge(line, failures):
    """Counts one line into `failures`; the pair of operator and dtype, and whether it had elements."""
    fields = line.rstrip("\n").split("|")
    name, result, dtype = re.split("[#@]", fields[0])
    tensors = [load(text) for text in fields[2:]]
    judged = (name, dtype), math.prod(tensors[-1].shape) > 0
    attributes = eval(f"dict({fields[1]})")  # written by sample_dump, nobody else
    if isinstance(tensors[-1], Quantised):
        wrong = check_quantised(name, tensors[-1], tensors[:-1], attributes)
        if wrong:
            failures[name].append(f"{fields[0]}({fields[1]}): {wrong}")
        return judged
    wanted = expected(name, tensors[:-1], attributes, tensors[-1].shape)
    wanted = np.asarray(wanted[int(result)] if isinstance(wanted, tuple) else wanted)
    wrong = difference(name, tensors[-1], wanted)
    if wrong:
        shapes = " ".join(f"{t.dtype}{list(t.shape)}" for t in tensors[:-1])
        failures[name].append(f"{fields[0]}({shapes} {fields[1]}): {wrong}")
    return judged


def pairs_without_judge(pairs, judged):
    return sorted(pairs - {pair for pair, count in judged.items() if count > 0})


def check_pairs(pairs, judged):
    """Names what nobody judges; the number of pairs that should have been."""
    without = pairs_without_judge(pairs, judged)
    for pair in without:
        print(f"    {' '.join(pair)}: not judged: {WITHOUT_JUDGE.get(pair, 'no reason given')}")
    print(f"    {len(pairs) - len(without)} of {len(pairs)} pairs of operator and dtype judged")
    unknown = [pair for pair in WITHOUT_JUDGE if pair not in without]
    for pair in unknown:
        print(f"    {' '.join(pair)} is judged, or no pair: strike it from WITHOUT_JUDGE")
    return len([pair for pair in without if pair not in WITHOUT_JUDGE]) + len(unknown)


def check_itself():
    """How many wrong results pass: 1 + 1 = 1.0078125 in bf16, 1 + 1 = 3, and a pair without a sample."""
    wrong = ["add#0@bf16||bf16:1:803f|bf16:1:803f|bf16:1:813f",
             "add#0@i32||i32:1:01000000|i32:1:01000000|i32:1:03000000",
             "exp#0@f64||f64:1:000000000000f03f|f64:1:0000000000000040"]
    failures = collections.defaultdict(list)
    for line in wrong:
        judge(line, failures)
    passed = len(wrong) - sum(len(texts) for texts in failures.values())
    return passed + (1 if pairs_without_judge({("add", "u8")}, {("add", "i8"): 1}) == [] else 0)


def main():
    warnings.simplefilter("ignore")  # special values are the point here
    run = subprocess.run(sys.argv[1:2], capture_output=True, text=True, check=True)
    failures = collections.defaultdict(list)
    judged = collections.Counter()
    samples = 0
    pairs = set()
    for line in run.stdout.splitlines():
        if line.startswith("pair|"):
            pairs.add(tuple(line.split("|")[1:]))
            continue
        pair, has_elements = judge(line, failures)
        judged[pair] += has_elements
        samples += 1
    for name, texts in failures.items():
        print(f"FAIL conformance/numpy {name}")
        print("\n".join(f"    {text}" for text in texts[:3]))
    print(f"    {samples} samples judged")
    failed = len(failures) + check_pairs(pairs, judged) + (0 if len(pairs) > 1000 else 1)
    escaped = check_itself()
    if escaped:
        print(f"FAIL conformance/numpy: {escaped} wrong results are not seen")
        failed += 1
    names = {name for name, _ in judged}
    print(f"kiln-test: {len(names) - len(failures)} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
