# SPDX-License-Identifier: MIT OR Apache-2.0
"""Indexing as NumPy has it: ints, slices, ..., None, arrays of integers and of bools. A result is a value, never a
view: writing to x[0] changes x alone. Values of an index array are clamped to the axis, not checked."""
import math
import operator

from . import ops
from ._kiln import Array

_FULL = slice(None)


def _is_sequence(part):
    return isinstance(part, list) or (not isinstance(part, (Array, tuple, str, bytes)) and
                                      (hasattr(part, "__array__") or hasattr(part, "__dlpack__")) and
                                      getattr(part, "ndim", 0) > 0)


def _prepare(x, key):
    """The key as a list without Ellipsis, with an entry for each axis, and arrays of bools as arrays of integers."""
    from ._creation import asarray
    parts = []
    for part in key if isinstance(key, tuple) else (key,):
        if _is_sequence(part):
            part = asarray(part, device=x.device, dtype="int64" if isinstance(part, list) and not part else None)
        if isinstance(part, bool) or _is_truth(part):
            raise IndexError("a bool is an index only by itself")
        if isinstance(part, Array) and part.dtype == "bool":
            parts.append((part, part.ndim))
        elif part is None:
            parts.append((part, 0))
        else:
            parts.append((part, None if part is Ellipsis else 1))
    taken = sum(n or 0 for _, n in parts)
    if taken > x.ndim:
        raise IndexError(f"{taken} indices for an array of {x.ndim} axes")
    if sum(part is Ellipsis for part, _ in parts) > 1:
        raise IndexError("an index has one '...' at most")
    if not any(part is Ellipsis for part, _ in parts):
        parts.append((Ellipsis, None))
    out, axis = [], 0
    for part, n in parts:
        if part is Ellipsis:
            out += [_FULL] * (x.ndim - taken)
            axis += x.ndim - taken
        elif isinstance(part, Array) and part.dtype == "bool":
            if part.shape != x.shape[axis:axis + n]:
                raise IndexError(f"a mask of shape {part.shape} for axes of lengths {x.shape[axis:axis + n]}")
            found = part._nonzero()
            out += [ops.reshape(ops.slice(found, [0, i], [found.shape[0], i + 1]), [found.shape[0]])
                    for i in range(n)]
            axis += n
        else:
            out.append(part)
            axis += n
    return out


class _Plan:
    """What a key does: a slice of every axis, a reshape, then the arrays."""

    def __init__(self, x, key):
        self.starts, self.ends, self.steps, self.cut = [], [], [], []
        self.shape = []  # after ints are gone and new axes are in
        self.arrays = []  # (axis of self.shape, index)
        self.places = []  # of arrays and ints in the key, for where NumPy puts the result's axes
        axis = 0
        for place, part in enumerate(_prepare(x, key)):
            if part is None:
                self.shape.append(1)
                continue
            length = x.shape[axis]
            axis += 1
            if isinstance(part, slice):
                self._slice(part, length)
            elif isinstance(part, Array) and part.ndim > 0:
                if part.dtype.kind not in ("signed integer", "unsigned integer"):
                    raise IndexError(f"an array of {part.dtype} is no index")
                self._slice(_FULL, length)
                self.arrays.append((len(self.shape) - 1, part))
                self.places.append(place)
            else:
                self._int(part, length, axis - 1)
                self.places.append(place)

    def _slice(self, part, length):
        start, stop, step = part.indices(length)
        count = len(range(start, stop, step))
        if count == 0:  # going down, a start before the first would be the last
            start, stop, step = 0, 0, 1
        self.starts.append(start)
        self.ends.append(stop if stop >= 0 else -length - 1)  # before the first, going down
        self.steps.append(step)
        self.cut.append(count)
        self.shape.append(count)

    def _int(self, part, length, axis):
        try:
            i = operator.index(part)
        except TypeError:
            raise IndexError(f"{part!r} is no index: ints, slices, ..., None and arrays of integers or bools "
                             "are") from None
        if not -length <= i < length:
            raise IndexError(f"index {i} is outside axis {axis} of length {length}")
        self.starts.append(i % length)
        self.ends.append(i % length + 1)
        self.steps.append(1)
        self.cut.append(1)

    def basic(self, x):
        """x sliced and reshaped, arrays not applied."""
        if self.cut != list(x.shape) or any(step != 1 for step in self.steps):
            x = ops.slice(x, self.starts, self.ends, self.steps)
        return x if list(x.shape) == self.shape else ops.reshape(x, self.shape)


def _broadcast(arrays):
    from ._standard import broadcast_arrays
    return broadcast_arrays(*arrays)


def _advanced(plan, x):
    axes = [axis for axis, _ in plan.arrays]
    indices = _broadcast([index for _, index in plan.arrays])
    shape = list(indices[0].shape)
    together = plan.places[-1] - plan.places[0] == len(plan.places) - 1
    first = axes[0] if together else 0
    if len(axes) == 1:
        flat = ops.select(x, ops.reshape(indices[0], [-1]), axes[0])
        rest = list(x.shape[:axes[0]]) + list(x.shape[axes[0] + 1:])
        made = ops.reshape(flat, list(x.shape[:axes[0]]) + shape + list(x.shape[axes[0] + 1:]))
        return made if first == axes[0] else _move(made, axes[0], len(shape), 0, len(rest))
    others = [i for i in range(x.ndim) if i not in axes]
    rest = [x.shape[i] for i in others]
    place = None
    for axis, index in zip(axes, indices):
        index = ops.cast(index, "int64")
        index = ops.where(index + x.shape[axis], index, index < 0)
        place = index if place is None else place * x.shape[axis] + index
    front = ops.reshape(ops.permute(x, axes + others), [math.prod(x.shape[a] for a in axes)] + rest)
    made = ops.reshape(ops.select(front, ops.reshape(place, [-1]), 0), shape + rest)
    return _move(made, 0, len(shape), first, len(rest))


def _move(x, start, count, to, n_rest):
    """Puts `count` axes from `start` on before axis `to` of the others."""
    if start == to or count == 0:
        return x
    moved = list(range(start, start + count))
    rest = [i for i in range(count + n_rest) if i not in moved]
    return ops.permute(x, rest[:to] + moved + rest[to:])


def _truth(key):
    """Of a bool as the whole index, NumPy's and an array's too, which is a mask of rank 0; else None."""
    if isinstance(key, tuple) and len(key) == 1:
        key, = key
    return bool(key) if isinstance(key, bool) or _is_truth(key) else None


def _is_truth(part):
    return getattr(part, "ndim", None) == 0 and str(getattr(part, "dtype", None)) == "bool"


def getitem(x, key):
    truth = _truth(key)
    if truth is not None:
        return ops.reshape(x, [1, *x.shape]) if truth else ops.slice(
            ops.reshape(x, [1, *x.shape]), [0] * (x.ndim + 1), [0, *x.shape])
    plan = _Plan(x, key)
    made = plan.basic(x)
    return _advanced(plan, made) if plan.arrays else made


def setitem(x, key, value):
    """Puts a new value behind x: other arrays, x[0] of before among them, keep theirs."""
    from ._creation import asarray
    is_python = isinstance(value, (bool, int, float, list, tuple))  # whose numbers have no dtype to go through
    value = ops.cast(asarray(value, dtype=x.dtype if is_python else None, device=x.device), x.dtype)
    truth = _truth(key)
    if truth is not None:
        if not truth:
            return
        key = ...
    if isinstance(key, Array) and key.dtype == "bool" and key.ndim > 0 and value.size == 1:
        if key.shape != x.shape[:key.ndim]:
            raise IndexError(f"a mask of shape {key.shape} for axes of lengths {x.shape[:key.ndim]}")
        mask = ops.reshape(key, list(key.shape) + [1] * (x.ndim - key.ndim))
        x._replace(ops.where(ops.reshape(value, []), x, mask))
        return
    plan = _Plan(x, key)
    if plan.arrays:
        places = ops.reshape(ops.arange(x.size, "int64", device=x.device), x.shape)
        places = _advanced(plan, plan.basic(places))
        if places.size > 0:
            value = ops.reshape(ops.expand(value, places.shape), [-1])
            flat = ops.select_assign(ops.reshape(x, [-1]), value, ops.reshape(places, [-1]), 0)
            x._replace(ops.reshape(flat, x.shape))
        return
    if math.prod(plan.cut) == 0:
        return
    while value.ndim > len(plan.shape) and value.shape[0] == 1:  # as NumPy: leading ones are dropped
        value = ops.reshape(value, value.shape[1:])
    value = ops.reshape(ops.expand(value, plan.shape), plan.cut)
    x._replace(ops.slice_assign(x, value, plan.starts, plan.ends, plan.steps) if x.ndim else value)
