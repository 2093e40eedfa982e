# SPDX-License-Identifier: MIT OR Apache-2.0
"""What PyTorch's core ATen operators become: one table, read by kiln.torch.

Operators whose name and operands are those of Kiln's own table come from there; the others are written here, in terms
of kiln and kiln.ops. A row is called with the dtype of its (first) result and the node's arguments, tensors as arrays.
"""
import builtins
import math
import operator

import torch

from . import _kiln, _standard as xp, ops

aten = torch.ops.aten
CASTS = "operands are cast to the result's dtype"
MEETS = "operands are cast to their common dtype"
PLAIN = "operands stay"

_OTHER_NAMES = {"reciprocal": "recip", "isnan": "is_nan", "isinf": "is_inf", "remainder": "rem", "eq": "equal",
                "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
                "sgn": "sign", "hardswish": "hard_swish", "bitwise_left_shift": "shift_left",
                "bitwise_right_shift": "shift_right"}
_TRUTH = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_nan", "is_inf", "logical_and",
          "logical_or", "logical_xor", "logical_not"}


def _agreeing():
    """The rows of Kiln's table that have ATen's name and one or two tensors as operands."""
    table = {}
    names = {name: name for name in _kiln.operators} | _OTHER_NAMES
    for theirs, ours in names.items():
        function = _kiln.operators[ours]
        operands = (getattr(function, "__text_signature__", None) or "").strip("()").split(", ")
        if operands not in (["x"], ["a", "b"]) or not hasattr(aten, theirs) or theirs in ("dequantize", "contiguous"):
            continue
        function = getattr(xp, ours, function) if operands == ["a", "b"] else function  # which take numbers
        way = MEETS if ours in _TRUTH else CASTS
        table[theirs] = (way, lambda out, *given, _function=function: _function(*given))
    return table


TABLE = _agreeing()


def _row(*names, way=PLAIN):
    def add(function):
        for name in names:
            TABLE[name] = (way, function)
        return function
    return add


def _axes(x, axes):
    axes = range(x.ndim) if axes is None or axes == [] else [axes] if isinstance(axes, int) else axes
    return tuple(a % builtins.max(x.ndim, 1) for a in axes)


def _pair(values, count):
    values = [values] if isinstance(values, int) else list(values)
    return values * count if len(values) == 1 else values


# ---- elementwise ----

@_row("add", way=CASTS)
def _add(out, a, b, alpha=1):
    return a + (b if alpha == 1 else b * alpha)


@_row("sub", way=CASTS)
def _sub(out, a, b, alpha=1):
    return a - (b if alpha == 1 else b * alpha)


@_row("rsub", way=CASTS)
def _rsub(out, a, b, alpha=1):
    return b - (a if alpha == 1 else a * alpha)


@_row("mul", way=CASTS)
def _mul(out, a, b):
    return a * b


@_row("pow", way=CASTS)
def _pow(out, a, b):
    if b == 2 and isinstance(b, (int, float)):
        return a * a
    return a ** b


@_row("div", way=CASTS)
def _div(out, a, b, rounding_mode=None):
    if rounding_mode == "floor":
        return a // b
    return ops.trunc(a / b) if rounding_mode == "trunc" else a / b


@_row("eq", "ne", "lt", "le", "gt", "ge", way=MEETS)
def _never(*_):
    raise NotImplementedError


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    TABLE[_name] = (MEETS, lambda out, a, b, _compare=getattr(operator, _name): _compare(a, b))
for _name in ("and", "or", "xor"):
    TABLE["bitwise_" + _name] = (CASTS, lambda out, a, b, _apply=getattr(operator, _name + "_" * (_name != "xor")):
                                 _apply(a, b))


@_row("bitwise_not")
def _bitwise_not(out, x):
    return xp.bitwise_invert(x)


@_row("log2", way=CASTS)
def _log2(out, x):
    return xp.log2(x)


@_row("log10", way=CASTS)
def _log10(out, x):
    return xp.log10(x)


@_row("square", way=CASTS)
def _square(out, x):
    return x * x


@_row("clamp", "hardtanh", way=CASTS)
def _clamp(out, x, low=None, high=None):
    x = x if low is None else xp.clip(x, low, None)
    return x if high is None else xp.clip(x, None, high)


@_row("clamp_min", way=CASTS)
def _clamp_min(out, x, low):
    return xp.clip(x, low, None)


@_row("clamp_max", way=CASTS)
def _clamp_max(out, x, high):
    return xp.clip(x, None, high)


@_row("gelu")
def _gelu(out, x, approximate="none"):
    return ops.gelu(x, approximate=approximate == "tanh")


@_row("leaky_relu")
def _leaky_relu(out, x, slope=0.01):
    return ops.leaky_relu(x, slope)


@_row("silu")
def _silu(out, x):
    return ops.silu(x)


@_row("where")
def _where(out, mask, a, b):
    return xp.where(mask, *[v if not isinstance(v, _kiln.Array) else v.astype(out) for v in (a, b)])


@_row("masked_fill")
def _masked_fill(out, x, mask, value):
    return xp.where(mask, value, x)


@_row("_to_copy", "clone", "alias", "detach", "lift_fresh_copy", "contiguous")
def _same(out, x, *_, **__):
    return x.astype(out)


# ---- shapes ----

@_row("view", "_unsafe_view", "reshape")
def _view(out, x, shape):
    return xp.reshape(x, tuple(shape))


@_row("expand")
def _expand(out, x, shape, implicit=False):
    ahead = len(shape) - x.ndim
    return xp.broadcast_to(x, tuple(x.shape[i - ahead] if n == -1 else n for i, n in enumerate(shape)))


@_row("permute")
def _permute(out, x, axes):
    return xp.permute_dims(x, tuple(a % x.ndim for a in axes))


@_row("t")
def _t(out, x):
    return x.T if x.ndim == 2 else x


@_row("transpose")
def _transpose(out, x, a, b):
    axes = list(range(x.ndim))
    axes[a], axes[b] = axes[b], axes[a]
    return xp.permute_dims(x, tuple(axes))


@_row("unsqueeze")
def _unsqueeze(out, x, axis):
    return xp.expand_dims(x, axis=axis)


@_row("squeeze")
def _squeeze(out, x, axes=None):
    axes = [a for a in _axes(x, axes) if x.shape[a] == 1]
    return xp.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


@_row("slice")
def _slice(out, x, axis=0, start=None, end=None, step=1):
    key = [slice(None)] * x.ndim
    key[axis] = slice(start, end, step)
    return x[tuple(key)]


@_row("select")
def _select(out, x, axis, index):
    key = [slice(None)] * x.ndim
    key[axis] = index
    return x[tuple(key)]


@_row("cat")
def _cat(out, arrays, axis=0):
    return xp.concat([a.astype(out) for a in arrays if a.shape != (0,)], axis=axis)


@_row("stack")
def _stack(out, arrays, axis=0):
    return xp.stack([a.astype(out) for a in arrays], axis=axis)


@_row("split_with_sizes")
def _split_with_sizes(out, x, sizes, axis=0):
    parts, at = [], 0
    for size in sizes:
        parts.append(_slice(out, x, axis, at, at + size))
        at += size
    return tuple(parts)


@_row("split")
def _split(out, x, size, axis=0):
    length = x.shape[axis]
    return _split_with_sizes(out, x, [builtins.min(size, length - at) for at in range(0, length, size)], axis)


@_row("unbind")
def _unbind(out, x, axis=0):
    return tuple(_select(out, x, axis, i) for i in range(x.shape[axis]))


@_row("flip")
def _flip(out, x, axes):
    return xp.flip(x, axis=tuple(axes))


@_row("repeat")
def _repeat(out, x, counts):
    return xp.tile(x, tuple(counts))


@_row("constant_pad_nd")
def _pad(out, x, padding, value=0):
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(padding) // 2):
        before[-1 - i], after[-1 - i] = padding[2 * i], padding[2 * i + 1]
    return ops.pad(x, before + after, "constant", float(value))


@_row("tril")
def _tril(out, x, diagonal=0):
    return ops.tril(x, diagonal)


@_row("triu")
def _triu(out, x, diagonal=0):
    return ops.triu(x, diagonal)


# ---- made ----

@_row("full")
def _full(out, shape, value, **_):
    return ops.full(tuple(shape), out, value=value)


@_row("full_like")
def _full_like(out, x, value, **_):
    return ops.full(x.shape, out, value=value)


@_row("scalar_tensor")
def _scalar_tensor(out, value, **_):
    return ops.full((), out, value=value)


@_row("arange")
def _arange(out, start=0, end=None, step=1, **_):
    start, end = (0, start) if end is None else (start, end)
    return ops.arange(builtins.max(0, math.ceil((end - start) / step)), out, start, step)


# ---- indices ----

@_row("embedding")
def _embedding(out, weights, indices, *_):
    return ops.embedding(weights, indices)


@_row("index_select")
def _index_select(out, x, axis, indices):
    return ops.select(x, indices, axis)


@_row("gather")
def _gather(out, x, axis, indices, sparse_grad=False):
    return ops.gather(x, indices, axis)


@_row("index")
def _index(out, x, indices):
    key = tuple(slice(None) if i is None else i for i in indices)
    if any(i is not None and i.dtype == _kiln.bool for i in indices):
        raise NotImplementedError("a mask's count is not known while it is recorded")
    return x[key]


@_row("index_put", "_unsafe_index_put")
def _index_put(out, x, indices, values, accumulate=False):
    if len(indices) != 1 or indices[0] is None or indices[0].dtype == _kiln.bool:
        raise NotImplementedError("more than indices of the first axis")
    places = indices[0]
    if not accumulate:
        raise NotImplementedError("values that replace others")
    values = xp.broadcast_to(values, (*places.shape, *x.shape[1:]))
    return ops.scatter_nd(x, values, ops.reshape(places, (*places.shape, 1)), mode="add")


@_row("scatter")
def _scatter(out, x, axis, indices, values, reduce=None):
    if reduce is not None:
        raise NotImplementedError("values that are combined")
    if not isinstance(values, _kiln.Array):
        values = ops.full(indices.shape, x.dtype, value=values)
    return ops.scatter(x, values, indices, axis)


@_row("scatter_add")
def _scatter_add(out, x, axis, indices, values):
    return ops.scatter(x, values, indices, axis, mode="add")


@_row("slice_scatter")
def _slice_scatter(out, x, part, axis=0, start=None, end=None, step=1):
    if step != 1:
        raise NotImplementedError("every other element")
    begin, end, _ = slice(start, end).indices(x.shape[axis])
    before, after = [_part_of(x, axis, *ends) for ends in ((0, begin), (end, x.shape[axis]))]
    return xp.concat([before, part, after], axis=axis)


@_row("select_scatter")
def _select_scatter(out, x, part, axis, index):
    return _slice_scatter(out, x, xp.expand_dims(part, axis=axis % x.ndim), axis, index % x.shape[axis],
                          index % x.shape[axis] + 1)


def _part_of(x, axis, begin, end):
    return x[(slice(None),) * (axis % x.ndim) + (slice(begin, end),)]


# ---- reductions ----

@_row("sum", way=CASTS)
def _sum(out, x, axes=None, keepdims=False, **_):
    return ops.sum(x, _axes(x, axes), keepdims) if x.ndim else x


@_row("mean", way=CASTS)
def _mean(out, x, axes=None, keepdims=False, **_):
    return ops.mean(x, _axes(x, axes), keepdims) if x.ndim else x


@_row("amax")
def _amax(out, x, axes=None, keepdims=False):
    return ops.max(x, _axes(x, axes), keepdims)


@_row("amin")
def _amin(out, x, axes=None, keepdims=False):
    return ops.min(x, _axes(x, axes), keepdims)


@_row("any")
def _any(out, x, axes=None, keepdims=False):
    return ops.any(x.astype(_kiln.bool), _axes(x, axes), keepdims)


@_row("var")
def _var(out, x, axes=None, correction=1, keepdims=False):
    return xp.var(x, axis=_axes(x, axes), correction=float(1 if correction is None else correction), keepdims=keepdims)


@_row("argmax")
def _argmax(out, x, axis=None, keepdims=False):
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@_row("argmin")
def _argmin(out, x, axis=None, keepdims=False):
    return xp.argmin(x, axis=axis, keepdims=keepdims)


@_row("cumsum")
def _cumsum(out, x, axis, dtype=None):
    return ops.cum_sum(x.astype(out), axis)


@_row("_softmax")
def _softmax(out, x, axis, half_to_float):
    return ops.softmax(x.astype(out), axis)


@_row("_log_softmax")
def _log_softmax(out, x, axis, half_to_float):
    return ops.log_softmax(x.astype(out), axis)


# ---- products ----

@_row("mm", "bmm", "matmul")
def _mm(out, a, b):
    return ops.matmul(a, b)


@_row("addmm", "baddbmm")
def _addmm(out, c, a, b, beta=1, alpha=1):
    product = ops.matmul(a, b)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (c if beta == 1 else c * beta)


@_row("linear")
def _linear(out, x, weight, bias=None):
    product = ops.matmul(x, weight, transpose_b=True)
    return product if bias is None else product + bias


@_row("convolution")
def _convolution(out, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    count = x.ndim - 2
    if transposed:
        raise NotImplementedError("a transposed convolution")
    padding = _pair(padding, count)
    return ops.conv(x, weight, bias, _pair(stride, count), padding + padding, _pair(dilation, count), groups)


@_row("convolution_backward")
def _convolution_backward(out, grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
                          wanted):
    count = x.ndim - 2
    if transposed:
        raise NotImplementedError("a transposed convolution")
    padding = _pair(padding, count)
    rest = (_pair(stride, count), padding + padding, _pair(dilation, count), groups)
    return (ops.conv_x_backward(grad, weight, x.shape, *rest) if wanted[0] else None,
            ops.conv_weight_backward(x, grad, weight.shape, *rest) if wanted[1] else None,
            ops.sum(grad, [0, *range(2, grad.ndim)]) if wanted[2] else None)


@_row("_scaled_dot_product_flash_attention_for_cpu")
def _attention(out, query, key, value, dropout=0.0, causal=False, attn_mask=None, scale=None, **_):
    if dropout != 0:
        raise NotImplementedError("dropout")
    given = [] if attn_mask is None else [ops.full((), _kiln.bool, value=0), attn_mask]
    return ops.attention(query, key, value, *given, scale=scale or 0.0, causal=causal), None


# ---- layers ----

@_row("_native_batch_norm_legit_no_training")
def _batch_norm(out, x, weight, bias, mean, variance, momentum, epsilon):
    weight = ops.full(mean.shape, mean.dtype, value=1) if weight is None else weight
    bias = ops.full(mean.shape, mean.dtype, value=0) if bias is None else bias
    return ops.batch_norm(x, weight, bias, mean, variance, epsilon), None, None


def _moments(x, axes, epsilon):
    """Mean and one over the deviation, which training reads; what nobody reads is never computed."""
    return ops.mean(x, axes, True), ops.rsqrt(xp.var(x, axis=tuple(axes), keepdims=True) + epsilon)


@_row("native_layer_norm")
def _layer_norm(out, x, shape, weight, bias, epsilon):
    made = ops.layer_norm(x, weight, bias, axis=-len(shape), epsilon=epsilon)
    return (made, *_moments(x, list(range(x.ndim - len(shape), x.ndim)), epsilon))


@_row("native_group_norm")
def _group_norm(out, x, weight, bias, n, c, size, groups, epsilon):
    made = ops.group_norm(x, weight, bias, groups=groups, epsilon=epsilon)
    rows = x.reshape(n, groups, -1)
    return (made, *[ops.reshape(m, (n, groups)) for m in _moments(rows, [2], epsilon)])


@_row("max_pool2d_with_indices")
def _max_pool(out, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    kernel, padding = _pair(kernel, 2), _pair(padding, 2)
    rest = (kernel, _pair(stride, 2) if stride else kernel, padding + padding, _pair(dilation, 2), ceil_mode)
    return ops.max_pool(x, *rest), ops.max_pool_with_indices(x, *rest)[1]  # where only one is read, only it is computed


@_row("max_pool2d_with_indices_backward")
def _max_pool_backward(out, grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    kernel, padding = _pair(kernel, 2), _pair(padding, 2)
    return ops.max_pool_backward(grad, indices, x.shape, kernel, _pair(stride, 2) if stride else kernel,
                                 padding + padding, _pair(dilation, 2), ceil_mode)


@_row("avg_pool2d")
def _avg_pool(out, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor=None):
    if divisor is not None or ceil_mode:
        raise NotImplementedError("a divisor, or windows beyond the end")
    kernel, padding = _pair(kernel, 2), _pair(padding, 2)
    return ops.avg_pool(x, kernel, _pair(stride, 2) if stride else kernel, padding + padding,
                        include_pad=count_include_pad)


@_row("avg_pool2d_backward")
def _avg_pool_backward(out, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
    if divisor is not None or ceil_mode:
        raise NotImplementedError("a divisor, or windows beyond the end")
    kernel, padding = _pair(kernel, 2), _pair(padding, 2)
    return ops.avg_pool_backward(grad, x.shape, kernel, _pair(stride, 2) if stride else kernel, padding + padding,
                                 include_pad=count_include_pad)


def find(target):
    """How operands meet, and the row of an ATen operator; None where there is none."""
    if isinstance(target, torch._ops.OpOverload) and target.namespace == "aten":
        name = target._schema.name.split("::")[1]
        if name.endswith("_") and not name.endswith("__"):
            return None  # in place
        return TABLE.get(name)
    return None


def of_lengths(target):
    """Whether a function computes lengths from lengths, in Python."""
    return getattr(target, "__module__", None) in ("_operator", "math", "builtins", "torch", "torch.fx.experimental.sym_node")
