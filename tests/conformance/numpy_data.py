# SPDX-License-Identifier: MIT OR Apache-2.0
"""NumPy's meaning of the operators that move, index, order and accumulate: for numpy_judge.py."""
import numpy as np


def wide(x):
    return x.astype(np.float64) if x.dtype.kind == "f" else x


# ---- arranged anew ----

def unfold(x, axis, size, stride=1):
    starts = range(0, x.shape[axis] - size + 1, stride)
    parts = [np.moveaxis(np.take(x, range(s, s + size), axis), axis, -1) for s in starts]
    return np.stack(parts, axis if axis >= 0 else axis + x.ndim)


def diagonal(x, offset=0):
    return np.diagonal(x, int(np.clip(offset, -10**6, 10**6)), -2, -1)


def triangle(function, x, offset=0):
    return function(x, int(np.clip(offset, -10**6, 10**6)))


def roll(x, shifts, axes=()):
    axes = axes or range(x.ndim)
    for shift, axis in zip(shifts, axes):
        x = np.roll(x, shift % max(x.shape[axis], 1), axis)
    return x


def eye(shape, dtype, offset, dtypes):
    return np.eye(*shape, int(np.clip(offset, -10**6, 10**6)), dtype=dtypes[dtype])


def depth_to_space(x, size, mode="dcr"):
    n, c, h, w = x.shape
    if mode == "dcr":
        parts = x.reshape(n, size, size, c // size**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // size**2, size, size, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // size**2, h * size, w * size)


def space_to_depth(x, size, mode="dcr"):
    """Strided parts, one for each place in a block."""
    parts = [x[:, :, i::size, j::size] for i in range(size) for j in range(size)]
    joined = np.stack(parts, 1 if mode == "dcr" else 2)
    return joined.reshape(x.shape[0], -1, x.shape[2] // size, x.shape[3] // size) \
        if x.size else np.empty((x.shape[0], x.shape[1] * size**2, x.shape[2] // size,
                                 x.shape[3] // size))


# ---- by index ----

def place(index, length):
    """An index as a place, clamped, and whether it was inside."""
    at = int(index) + (length if index < 0 else 0)
    return min(max(at, 0), max(length - 1, 0)), 0 <= at < length


def gather_nd(x, indices, batch_dims=0):
    out = np.empty(indices.shape[:-1] + x.shape[batch_dims + indices.shape[-1]:], x.dtype)
    for where in np.ndindex(indices.shape[:-1]):
        part = x[where[:batch_dims]]
        tuple_ = tuple(place(i, n)[0] for i, n in zip(indices[where], part.shape))
        out[where] = part[tuple_]
    return out


COMBINE = {"assign": lambda a, b: b, "add": np.add, "mul": np.multiply, "min": np.minimum,
           "max": np.maximum}


def put(x, pairs, mode):
    """(place in x, value) in order; None for a place is dropped."""
    out = wide(x).copy()
    for where, value in pairs:
        if where is not None:
            out[where] = COMBINE[mode](out[where], wide(value))
            if x.dtype == np.float32:
                out[where] = np.asarray(out[where]).astype(np.float32)
    return out


def scatter(x, values, indices, axis=0, mode="assign"):
    def pairs():
        for at in np.ndindex(indices.shape):
            to, inside = place(indices[at], x.shape[axis])
            where = list(at)
            where[axis] = to
            yield (tuple(where) if inside else None), values[at]
    return put(x, pairs(), mode)


def scatter_nd(x, values, indices, mode="assign"):
    def pairs():
        for at in np.ndindex(indices.shape[:-1]):
            places = [place(i, n) for i, n in zip(indices[at], x.shape)]
            inside = all(p[1] for p in places)
            yield (tuple(p[0] for p in places) if inside else None), values[at]
    return put(x, pairs(), mode)


def select_assign(x, values, indices, axis=0, mode="assign"):
    def pairs():
        for i, index in enumerate(indices):
            to, inside = place(index, x.shape[axis])
            before = (slice(None),) * (axis % x.ndim)
            yield (before + (to,) if inside else None), values[before + (i,)]
    return put(x, pairs(), mode)


def slice_assign(x, value, starts, ends, steps=()):
    out = x.copy()
    out[tuple(slice(s, None if e == -2**63 else e, t)
              for s, e, t in zip(starts, ends, steps or [1] * x.ndim))] = value
    return out


def embedding_backward(grad, indices, count):
    zeros = np.zeros((count, grad.shape[-1]), grad.dtype)
    return select_assign(zeros, grad.reshape(indices.size, grad.shape[-1]), indices.ravel(), 0, "add")


def embedding(weights, indices):
    rows = np.clip(np.where(indices < 0, indices + len(weights), indices), 0, len(weights) - 1)
    return weights[rows] if indices.size else np.empty(indices.shape + weights.shape[1:])


def one_hot(values, indices, count, axis=-1):
    at = np.expand_dims(np.where(indices < 0, indices.astype(np.int64) + count, indices), -1)
    return np.where(np.moveaxis(at == np.arange(count), -1, axis), values[1], values[0])


def reverse_sequence(x, lengths, axis=0, batch_axis=1):
    out = x.copy()
    axis, batch_axis = axis % x.ndim, batch_axis % x.ndim
    for b, length in enumerate(lengths):
        one = [slice(None)] * x.ndim
        one[batch_axis] = b
        along = axis - (1 if batch_axis < axis else 0)
        part = np.moveaxis(out[tuple(one)], along, 0)
        n = min(max(int(length), 0), x.shape[axis])
        part[:n] = part[:n][::-1].copy()
    return out


# ---- in order ----

def cumulative(function, start, x, axis=-1, exclusive=0, reverse=0):
    x = np.flip(x, axis) if reverse else x
    result = function.accumulate(wide(x), axis, dtype=wide(x).dtype)
    if exclusive:
        first = np.full_like(np.take(result, [0] * min(1, x.shape[axis]), axis), start(x.dtype))
        rest = np.take(result, range(max(x.shape[axis] - 1, 0)), axis)
        result = np.concatenate([first, rest], axis)
    return np.flip(result, axis) if reverse else result


def lowest(dtype):
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def highest(dtype):
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def argsort(x, axis=-1, descending=0):
    """Stable. Descending: the ascending order of the reversed line, read backwards."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    found = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(found, axis)


def ordered(x, axis=-1, descending=0):
    found = argsort(x, axis, descending)
    return np.take_along_axis(x, found, axis), found


def top_k(x, count, axis=-1, descending=1):
    return tuple(np.take(part, range(count), axis) for part in ordered(x, axis, descending))


def with_indices(function, x, axis, keepdims=0):
    found = function(x, axis=axis, keepdims=True)
    values = np.take_along_axis(x, found, axis)
    return tuple(part if keepdims else np.squeeze(part, axis) for part in (values, found))


def cross(a, b, axis=-1):
    a, b = np.broadcast_arrays(wide(a), wide(b))
    p, q = [np.moveaxis(v, axis, 0) for v in (a, b)]
    rows = [p[(k + 1) % 3] * q[(k + 2) % 3] - p[(k + 2) % 3] * q[(k + 1) % 3] for k in range(3)]
    return np.stack(rows, axis % a.ndim)


def operators(dtypes):
    """name -> function of inputs, attributes, shape of the result."""
    def zero(_):
        return 0

    def one(_):
        return 1

    return {
        "unfold": lambda i, a, s: unfold(i[0], **a) if s.count(0) == 0 else np.empty(s),
        "diagonal": lambda i, a, s: diagonal(i[0], **a),
        "tril": lambda i, a, s: triangle(np.tril, i[0], **a),
        "triu": lambda i, a, s: triangle(np.triu, i[0], **a),
        "eye": lambda i, a, s: eye(a["shape"], a["dtype"], a.get("offset", 0), dtypes),
        "repeat": lambda i, a, s: np.tile(i[0], a["repeats"]),
        "roll": lambda i, a, s: roll(i[0], **a),
        "depth_to_space": lambda i, a, s: depth_to_space(i[0], **a),
        "space_to_depth": lambda i, a, s: space_to_depth(i[0], **a),
        "gather_nd": lambda i, a, s: gather_nd(*i, **a) if s.count(0) == 0 else np.empty(s),
        "scatter": lambda i, a, s: scatter(*i, **a),
        "scatter_nd": lambda i, a, s: scatter_nd(*i, **a),
        "select_assign": lambda i, a, s: select_assign(*i, **a),
        "slice_assign": lambda i, a, s: slice_assign(*i, **a),
        "embedding": lambda i, a, s: embedding(*i),
        "embedding_backward": lambda i, a, s: embedding_backward(*i, **a),
        "one_hot": lambda i, a, s: one_hot(*i, **a),
        "reverse_sequence": lambda i, a, s: reverse_sequence(*i, **a),
        "cum_sum": lambda i, a, s: cumulative(np.add, zero, i[0], **a),
        "cum_prod": lambda i, a, s: cumulative(np.multiply, one, i[0], **a),
        "cum_max": lambda i, a, s: cumulative(np.maximum, lowest, i[0], **a),
        "cum_min": lambda i, a, s: cumulative(np.minimum, highest, i[0], **a),
        "sort": lambda i, a, s: ordered(i[0], **a)[0],
        "argsort": lambda i, a, s: argsort(i[0], **a),
        "sort_with_indices": lambda i, a, s: ordered(i[0], **a),
        "top_k": lambda i, a, s: top_k(i[0], **a),
        "max_with_indices": lambda i, a, s: with_indices(np.argmax, i[0], **a),
        "min_with_indices": lambda i, a, s: with_indices(np.argmin, i[0], **a),
        "cross": lambda i, a, s: cross(*i, **a),
    }


SCALED = {"cum_sum", "cum_prod", "cross"}
