# SPDX-License-Identifier: MIT OR Apache-2.0
"""The functions of the array API standard, where they are more than an operator of the table by another name."""
import functools
import math
import operator

from . import _kiln, ops
from ._creation import _ints, arange, asarray, full, zeros
from ._kiln import Array, DType, dtype as _dtype

__all__ = [
    "UniqueAll", "UniqueCounts", "UniqueInverse", "abs", "acos", "acosh", "add", "all", "any", "argmax",
    "argmin", "argsort", "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast_arrays",
    "broadcast_shapes", "broadcast_to", "ceil", "clip", "concat", "conj", "copysign", "cos", "cosh", "count_nonzero",
    "cumulative_prod", "cumulative_sum", "diff", "divide", "einsum", "equal", "exp", "expand_dims", "expm1",
    "flip", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan", "less",
    "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "matmul", "matrix_transpose", "max", "maximum", "mean", "min", "minimum", "moveaxis",
    "multiply", "negative", "nonzero", "not_equal", "permute_dims", "positive", "pow", "prod", "real", "reciprocal",
    "remainder", "repeat", "reshape", "result_type", "roll", "round", "searchsorted", "sign", "signbit", "sin",
    "sinh", "sort", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "take", "take_along_axis",
    "tan", "tanh", "tensordot", "tile", "trunc", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "var", "vecdot", "where"]

_bool, _abs, _sum, _max, _min, _any, _all, _round = bool, abs, sum, max, min, any, all, round

# Operators that the standard has by another name.
acos, acosh, add, asin, asinh = ops.acos, ops.acosh, ops.add, ops.asin, ops.asinh
atan, atan2, atanh, cos, cosh = ops.atan, ops.atan2, ops.atanh, ops.cos, ops.cosh
equal, exp, expm1, greater, greater_equal = ops.equal, ops.exp, ops.expm1, ops.greater, ops.greater_equal
abs, hypot, isinf, isnan, less, less_equal = ops.abs, ops.hypot, ops.is_inf, ops.is_nan, ops.less, ops.less_equal
log, log1p, logical_and, logical_not = ops.log, ops.log1p, ops.logical_and, ops.logical_not
logical_or, logical_xor, maximum, minimum = ops.logical_or, ops.logical_xor, ops.maximum, ops.minimum
multiply, negative, not_equal, pow = ops.mul, ops.neg, ops.not_equal, ops.pow
reciprocal, remainder, sin, sinh, sqrt = ops.recip, ops.rem, ops.sin, ops.sinh, ops.sqrt
subtract, tan, tanh = ops.sub, ops.tan, ops.tanh
bitwise_left_shift, bitwise_right_shift = ops.shift_left, ops.shift_right

_INTEGERS = ("signed integer", "unsigned integer")


def _arrays(*values):
    """Values as arrays on the device of the first array, whose dtype Python's numbers do not widen."""
    device = next((v.device for v in values if isinstance(v, Array)), None)
    values = [v if isinstance(v, (Array, int, float)) else asarray(v, device=device) for v in values]
    first = next((v for v in values if isinstance(v, Array)), None)
    if first is None:
        return [asarray(v) for v in values]
    return [v if isinstance(v, Array) else asarray(v, device=first.device, dtype=result_type(first, v)) for v in values]


def _of_array(function):
    """The function with whatever asarray takes as its first argument."""
    @functools.wraps(function)
    def taking(x, /, *args, **keywords):
        return function(x if isinstance(x, Array) else asarray(x), *args, **keywords)
    return taking


def _is_float(x):
    return x.dtype.kind == "real floating"


def _floating(x):
    """x, or an array of integers as floats."""
    return x if _is_float(x) else ops.cast(x, x.device._default_dtype(True))


def _axes(x, axis):
    """None or an axis or several as a list of axes from 0."""
    if axis is None:
        return list(range(x.ndim))
    return [_axis(x.ndim, a) for a in _ints(axis, "an axis")]


def _axis(ndim, axis):
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise IndexError(f"axis {axis} of an array of {ndim} axes")
    return axis % ndim


# ---- elementwise ----

def divide(x1, x2, /) -> Array:
    """x1 / x2; integers become floats."""
    x1, x2 = (v if isinstance(v, (int, float)) else _arrays(v)[0] for v in (x1, x2))
    return x1 / x2 if isinstance(x1, Array) or isinstance(x2, Array) else asarray(x1 / x2)


def floor_divide(x1, x2, /) -> Array:
    """The largest integer not above x1 / x2; of integers x // 0 is 0."""
    x1, x2 = _arrays(x1, x2)
    rest, quotient = ops.rem(x1, x2), ops.div(x1, x2)
    if not _is_float(quotient):  # truncated
        return quotient - ops.cast(ops.not_equal(rest, 0) & ((x1 < 0) ^ (x2 < 0)), quotient.dtype)
    exact = ops.div(ops.sub(x1, rest), x2)
    whole = ops.where(quotient * 0.0, ops.round(exact), ops.equal(exact, 0.0))  # a 0 has the quotient's sign
    return ops.where(whole, ops.floor(quotient), isfinite(exact))


def _two(x1, x2):
    """Operands of Python's operators: one is an array."""
    return (x1, x2) if isinstance(x1, Array) or isinstance(x2, Array) else _arrays(x1, x2)


def bitwise_and(x1, x2, /) -> Array:
    """Bits set in both; of bools: whether both are true."""
    return operator.and_(*_two(x1, x2))


def bitwise_or(x1, x2, /) -> Array:
    """Bits set in any; of bools: whether any is true."""
    return operator.or_(*_two(x1, x2))


def bitwise_xor(x1, x2, /) -> Array:
    """Bits set in one; of bools: whether one is true."""
    return operator.xor(*_two(x1, x2))


def bitwise_invert(x, /) -> Array:
    """All bits inverted; of bools: not x."""
    return ~x


def positive(x, /) -> Array:
    """x."""
    return +x


def conj(x, /) -> Array:
    """x: there are no complex dtypes."""
    return +x


def real(x, /) -> Array:
    """x: there are no complex dtypes."""
    return +x


def imag(x, /) -> Array:
    """Zeros: there are no complex dtypes."""
    return full(x.shape, 0, dtype=x.dtype, device=x.device)


def sign(x, /) -> Array:
    """-1, 0 or 1; NaN stays NaN."""
    made = ops.sign(x)
    return made + 0.0 if _is_float(made) else made  # of -0: 0


def square(x, /) -> Array:
    """x * x."""
    return x * x


def isfinite(x, /) -> Array:
    """Whether x is neither an infinity nor NaN."""
    return ops.equal(x - x, 0) if _is_float(x) else ops.equal(x, x)


def signbit(x, /) -> Array:
    """Whether x is below 0 or -0; the sign of a NaN is not seen."""
    return (x < 0) | ((x == 0) & (ops.recip(x) < 0))


def copysign(x1, x2, /) -> Array:
    """x1 with the sign of x2."""
    x1, x2 = _arrays(x1, x2)
    size = ops.abs(_floating(ops.cast(x1, result_type(x1, x2))))
    return ops.where(-size, size, signbit(x2))


def log2(x, /) -> Array:
    """Logarithm to base 2."""
    return ops.log(x) * (1 / math.log(2))


def log10(x, /) -> Array:
    """Logarithm to base 10."""
    return ops.log(x) * (1 / math.log(10))


def logaddexp(x1, x2, /) -> Array:
    """log(exp(x1) + exp(x2)) without overflow."""
    x1, x2 = _arrays(x1, x2)
    larger, gap = ops.maximum(x1, x2), ops.sub(x1, x2)
    return ops.where(larger + math.log(2), larger + ops.log1p(ops.exp(-ops.abs(gap))), ops.equal(x1, x2))


def _whole(op, doc):
    def function(x, /):
        return x if not _is_float(x) else op(x)
    function.__doc__, function.__name__, function.__qualname__ = doc, op.__name__, op.__name__
    return function


ceil = _whole(ops.ceil, "Smallest integer not below x.")
floor = _whole(ops.floor, "Largest integer not above x.")
round = _whole(ops.round, "Nearest integer, halves to even.")
trunc = _whole(ops.trunc, "Integer part of x.")


def clip(x, /, min=None, max=None) -> Array:
    """min(max(x, min), max), in the dtype of x."""
    out = x
    if min is not None:
        out = ops.maximum(out, min)
    if max is not None:
        out = ops.minimum(out, max)
    return +out if out.dtype == x.dtype else ops.cast(out, x.dtype)


def where(condition, x1, x2, /) -> Array:
    """x1 where the condition is true, else x2."""
    return ops.where(x1, x2, condition)


# ---- dtypes ----

def astype(x, dtype, /, *, copy=True, device=None) -> Array:
    """x in another dtype; floats become integers by truncation."""
    if device is not None:
        x = x.to_device(device)
    dtype = _dtype(dtype)
    return ops.cast(x, dtype) if dtype != x.dtype else asarray(x, copy=copy or None)


def result_type(*arrays_and_dtypes) -> DType:
    """The dtype that arrays, dtypes and Python numbers become together. Of an integer and a float: the float."""
    dtypes = [v.dtype if isinstance(v, Array) else v for v in arrays_and_dtypes
              if not isinstance(v, (_bool, int, float))]
    numbers = [v for v in arrays_and_dtypes if isinstance(v, (_bool, int, float))]
    if not dtypes:
        raise ValueError("result_type needs an array or a dtype")
    made = _dtype(dtypes[0])
    for other in dtypes[1:]:
        made = _kiln._promote(made, _dtype(other))
    if _any(isinstance(n, float) for n in numbers) and made.kind != "real floating":
        return _kiln.float32
    if _any(not isinstance(n, _bool) for n in numbers) and made.kind == "bool":
        return _kiln.int64
    return made


# ---- reductions ----

def _reduced(op, x, axis, keepdims):
    if axis is not None and not _ints(axis, "an axis"):
        return x  # no axis, not all
    if x.ndim == 0:
        _axes(x, axis)
        return x
    return op(x, [] if axis is None else _axes(x, axis), keepdims)


def _summand(x, dtype):
    if dtype is not None:
        return ops.cast(x, dtype)
    if x.dtype.kind == "unsigned integer":
        return ops.cast(x, "uint64")
    return x if _is_float(x) else ops.cast(x, "int64")


def sum(x, /, axis=None, *, dtype=None, keepdims=False) -> Array:
    """Sum over axes; of integers in 64 bits."""
    return _reduced(ops.sum, _summand(x, dtype), axis, keepdims)


def prod(x, /, axis=None, *, dtype=None, keepdims=False) -> Array:
    """Product over axes; of integers in 64 bits."""
    return _reduced(ops.prod, _summand(x, dtype), axis, keepdims)


def mean(x, /, axis=None, *, keepdims=False) -> Array:
    """Arithmetic mean over axes."""
    return _reduced(ops.mean, _floating(x), axis, keepdims)


def max(x, /, axis=None, *, keepdims=False) -> Array:
    """Largest over axes; NaN if any is NaN."""
    return any(x, axis, keepdims=keepdims) if x.dtype == "bool" else _reduced(ops.max, x, axis, keepdims)


def min(x, /, axis=None, *, keepdims=False) -> Array:
    """Smallest over axes; NaN if any is NaN."""
    return all(x, axis, keepdims=keepdims) if x.dtype == "bool" else _reduced(ops.min, x, axis, keepdims)


def any(x, /, axis=None, *, keepdims=False) -> Array:
    """Whether any is not 0."""
    return _reduced(ops.any, ops.cast(x, "bool"), axis, keepdims)


def all(x, /, axis=None, *, keepdims=False) -> Array:
    """Whether all are not 0."""
    return _reduced(ops.all, ops.cast(x, "bool"), axis, keepdims)


def var(x, /, axis=None, *, correction=0.0, keepdims=False) -> Array:
    """Variance over axes; the sum is divided by their length less `correction`."""
    x = _floating(x)
    away = x - mean(x, axis, keepdims=True)
    count = math.prod(x.shape[a] for a in _axes(x, axis)) - correction
    total = sum(away * away, axis, keepdims=keepdims)
    return total / count if count > 0 else total * math.nan


def std(x, /, axis=None, *, correction=0.0, keepdims=False) -> Array:
    """Standard deviation over axes, as var."""
    return ops.sqrt(var(x, axis, correction=correction, keepdims=keepdims))


def _found(op, x, axis, keepdims):
    if x.dtype == "bool":
        x = ops.cast(x, "uint8")
    if axis is None:
        flat = op(ops.reshape(x, [-1]), 0)
        return ops.reshape(flat, [1] * x.ndim) if keepdims else flat
    return op(x, axis, keepdims)


def argmax(x, /, axis=None, *, keepdims=False) -> Array:
    """Index of the first largest element."""
    return _found(ops.argmax, x, axis, keepdims)


def argmin(x, /, axis=None, *, keepdims=False) -> Array:
    """Index of the first smallest element."""
    return _found(ops.argmin, x, axis, keepdims)


def count_nonzero(x, /, axis=None, *, keepdims=False) -> Array:
    """How many are not 0."""
    return sum(ops.cast(ops.cast(x, "bool"), "int64"), axis, keepdims=keepdims)


def _cumulative(op, start, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim > 1:
            raise ValueError("an array of several axes needs an axis")
        axis = 0
    axis = _axis(x.ndim, axis)
    made = op(_summand(x, dtype), axis)
    if include_initial:
        shape = list(x.shape)
        shape[axis] = 1
        made = ops.concat([full(shape, start, dtype=made.dtype, device=x.device), made], axis)
    return made


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False) -> Array:
    """Sum of the elements up to each one."""
    return _cumulative(ops.cum_sum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False) -> Array:
    """Product of the elements up to each one."""
    return _cumulative(ops.cum_prod, 1, x, axis, dtype, include_initial)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None) -> Array:
    """Differences of neighbours, n times."""
    axis = _axis(x.ndim, axis)
    parts = [part for part in (prepend, x, append) if part is not None]
    x = ops.concat(parts, axis) if len(parts) > 1 else x
    for _ in range(n):
        length = x.shape[axis]
        later, earlier = ([slice(None)] * x.ndim for _ in range(2))
        later[axis], earlier[axis] = slice(1, None), slice(0, _max(length - 1, 0))
        minus = ops.not_equal if x.dtype == "bool" else ops.sub
        x = minus(x[tuple(later)], x[tuple(earlier)])
    return x


# ---- products ----

def matmul(x1, x2, /) -> Array:
    """Matrix product over the last two axes, the others broadcast."""
    return ops.matmul(x1, x2)


def matrix_transpose(x, /) -> Array:
    """The last two axes exchanged."""
    if x.ndim < 2:
        raise ValueError("a matrix has two axes at least")
    return ops.permute(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def transpose(x, /):
    """The matrix with its axes exchanged."""
    if x.ndim != 2:
        raise ValueError(f"T is of a matrix, not of {x.ndim} axes; see mT and permute_dims")
    return ops.permute(x, [1, 0])


def vecdot(x1, x2, /, *, axis=-1) -> Array:
    """Sums of products along an axis."""
    x1, x2 = _arrays(x1, x2)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vectors of lengths {x1.shape[axis]} and {x2.shape[axis]}")
    product = ops.mul(x1, x2)
    return ops.sum(product, [axis])


def tensordot(x1, x2, /, *, axes=2) -> Array:
    """Sums of products over the last `axes` axes of x1 and the first of x2, or over two lists of axes."""
    x1, x2 = _arrays(x1, x2)
    if hasattr(axes, "__index__"):
        axes = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    over1, over2 = [_axis(x1.ndim, a) for a in axes[0]], [_axis(x2.ndim, a) for a in axes[1]]
    rest1 = [a for a in range(x1.ndim) if a not in over1]
    rest2 = [a for a in range(x2.ndim) if a not in over2]
    if [x1.shape[a] for a in over1] != [x2.shape[a] for a in over2]:
        raise ValueError(f"axes of lengths {[x1.shape[a] for a in over1]} and {[x2.shape[a] for a in over2]}")
    inner = math.prod(x1.shape[a] for a in over1)
    left, right = [x1.shape[a] for a in rest1], [x2.shape[a] for a in rest2]
    a = ops.reshape(ops.permute(x1, rest1 + over1) if x1.ndim else x1, [math.prod(left), inner])
    b = ops.reshape(ops.permute(x2, over2 + rest2) if x2.ndim else x2, [inner, math.prod(right)])
    return ops.reshape(ops.matmul(a, b), left + right)


def einsum(equation, *arrays) -> Array:
    """Sum of products over all letters that the result has not, as NumPy's."""
    if "->" not in equation:
        letters = equation.replace(",", "").replace(" ", "")
        equation += "->" + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return ops.einsum(arrays, equation)


# ---- shapes ----

def reshape(x, /, shape, *, copy=None) -> Array:
    """The same elements in row-major order with other lengths; one may be -1."""
    return ops.reshape(x, shape)


def permute_dims(x, /, axes) -> Array:
    """Axis i of the result is axis axes[i] of x."""
    if sorted(_axes(x, tuple(axes))) != list(range(x.ndim)):
        raise ValueError(f"{tuple(axes)} does not name each of {x.ndim} axes once")
    return ops.permute(x, _axes(x, tuple(axes))) if x.ndim else x


def moveaxis(x, source, destination, /) -> Array:
    """Axes moved to other places; the others keep their order."""
    source, destination = _axes(x, source), _axes(x, destination)
    order = [a for a in range(x.ndim) if a not in source]
    for to, a in sorted(zip(destination, source)):
        order.insert(to, a)
    return permute_dims(x, order)


def expand_dims(x, /, axis=0) -> Array:
    """A new axis of length 1 before `axis`."""
    place = _axis(x.ndim + 1, axis)
    return ops.reshape(x, [*x.shape[:place], 1, *x.shape[place:]])


def squeeze(x, /, axis=None) -> Array:
    """Without axes of length 1."""
    axes = [a for a in range(x.ndim) if x.shape[a] == 1] if axis is None else _axes(x, axis)
    if _any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"an axis of shape {x.shape} that is to go is longer than 1")
    return ops.reshape(x, [length for a, length in enumerate(x.shape) if a not in axes])


def flip(x, /, *, axis=None) -> Array:
    """Reversed along axes, along all by default."""
    axes = _axes(x, axis)
    return ops.flip(x, axes) if axes else x


def roll(x, /, shift, *, axis=None) -> Array:
    """Moved by `shift` places; what leaves at the end comes in at the beginning."""
    if axis is None:
        return ops.reshape(ops.roll(ops.reshape(x, [-1]), shift, 0), x.shape)
    axes = _axes(x, axis)
    shifts = _ints(shift, "a shift")
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(axes) == 1 and len(shifts) > 1:
        axes *= len(shifts)
    for one, a in zip(shifts, axes):  # one at a time: an axis may be named twice
        x = ops.roll(x, one, a)
    return x


def broadcast_to(x, /, shape) -> Array:
    """x repeated along axes of length 1, and new ones before, up to shape."""
    if _any(length < 0 for length in shape):
        raise ValueError(f"a shape of {tuple(shape)}")
    return ops.expand(x, shape)


def broadcast_shapes(*shapes) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""
    rank = _max((len(s) for s in shapes), default=0)
    out = []
    for i in range(rank):
        lengths = {s[i - rank + len(s)] for s in shapes if i - rank + len(s) >= 0} - {1}
        if len(lengths) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        out.append(lengths.pop() if lengths else 1)
    return tuple(out)


def broadcast_arrays(*arrays) -> list[Array]:
    """All arrays in their common shape."""
    arrays = _arrays(*arrays)
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [x if x.shape == shape else ops.expand(x, shape) for x in arrays]


def concat(arrays, /, *, axis=0) -> Array:
    """Arrays one after the other along an axis; with axis=None all elements."""
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [ops.reshape(x, [-1]) for x in arrays], 0
    while len(arrays) > 64:  # what one operator takes
        arrays = [ops.concat(arrays[i:i + 64], axis) for i in range(0, len(arrays), 64)]
    return ops.concat(arrays, axis)


def stack(arrays, /, *, axis=0) -> Array:
    """Arrays beside each other along a new axis."""
    arrays = _arrays(*arrays)
    if not arrays:
        raise ValueError("stack needs an array at least")
    if _any(x.shape != arrays[0].shape for x in arrays):
        raise ValueError(f"arrays of shapes {', '.join(str(x.shape) for x in arrays)} are not stacked")
    place = _axis(arrays[0].ndim + 1, axis)
    return concat([expand_dims(x, place) for x in arrays], axis=place)


def unstack(x, /, *, axis=0) -> tuple[Array, ...]:
    """A tuple of the parts of x along an axis."""
    place = _axis(x.ndim, axis)
    before = (slice(None),) * place
    return tuple(x[before + (i,)] for i in range(x.shape[place]))


def tile(x, repetitions, /) -> Array:
    """x beside itself."""
    times = _ints(repetitions, "repetitions")
    times = [1] * (x.ndim - len(times)) + times
    x = ops.reshape(x, [1] * (len(times) - x.ndim) + list(x.shape))
    return ops.repeat(x, times) if times else x


def repeat(x, repeats, /, *, axis=None) -> Array:
    """Each element several times; with an array of counts, which is read, each its own."""
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    axis = _axis(x.ndim, axis)
    if isinstance(repeats, Array) and repeats.size == 1:
        repeats = int(ops.reshape(repeats, []))
    if hasattr(repeats, "__index__") and getattr(repeats, "ndim", 0) == 0:
        repeats = operator.index(repeats)
        if repeats < 0:
            raise ValueError(f"an element is not repeated {repeats} times")
        shape = list(x.shape)
        spread = shape[:axis + 1] + [repeats] + shape[axis + 1:]
        shape[axis] *= repeats
        return ops.reshape(ops.expand(expand_dims(x, axis + 1), spread), shape)
    counts = repeats.tolist() if isinstance(repeats, Array) else list(repeats)
    if len(counts) != x.shape[axis]:
        raise ValueError(f"{len(counts)} counts for an axis of length {x.shape[axis]}")
    if _any(n < 0 for n in counts):
        raise ValueError(f"an element is not repeated {_min(counts)} times")
    return take(x, asarray([i for i, n in enumerate(counts) for _ in range(n)], dtype="int64", device=x.device),
                axis=axis)


# ---- indexed, in order ----

def take(x, indices, /, *, axis=None) -> Array:
    """x at indices along an axis. An index outside is clamped."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("an array of several axes needs an axis")
        axis = 0
    axis = _axis(x.ndim, axis)
    indices, = _arrays(indices)
    made = ops.select(x, ops.reshape(indices, [-1]), axis)
    return ops.reshape(made, [*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]])


def take_along_axis(x, indices, /, *, axis=-1) -> Array:
    """x at as many indices along an axis as there are, for each place of the other axes."""
    axis = _axis(x.ndim, axis)
    indices, = _arrays(indices)
    shape = [a if i != axis else 1 for i, a in enumerate(x.shape)]
    others = [a if i != axis else 1 for i, a in enumerate(indices.shape)]
    common = list(broadcast_shapes(tuple(shape), tuple(others)))
    common[axis] = x.shape[axis]
    x = ops.expand(x, common)
    common[axis] = indices.shape[axis]
    return ops.gather(x, ops.expand(indices, common), axis)


def sort(x, /, *, axis=-1, descending=False, stable=True) -> Array:
    """In order along an axis."""
    if x.dtype == "bool":
        return ops.cast(sort(ops.cast(x, "uint8"), axis=axis, descending=descending), "bool")
    return ops.sort(x, axis, descending) if x.ndim else x


def argsort(x, /, *, axis=-1, descending=False, stable=True) -> Array:
    """Indices that put x in order; equals keep their order."""
    return ops.argsort(x, axis, descending) if x.ndim else zeros((), dtype="int64", device=x.device)


def nonzero(x, /) -> tuple[Array, ...]:
    """Indices of the elements that are not 0, an array for each axis. Waits for their number."""
    if x.ndim == 0:
        raise ValueError("an array of rank 0 has no axes to give indices of")
    found = x._nonzero()
    return tuple(found[:, i] for i in range(x.ndim))


def searchsorted(x1, x2, /, *, side="left", sorter=None) -> Array:
    """Where x2 would have to stand in the ordered x1; by comparing with all of it."""
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right', not {side!r}")
    x1, x2 = _arrays(x1, x2)
    x1 = take(x1, sorter) if sorter is not None else x1
    compare = ops.less if side == "left" else ops.less_equal
    before = compare(x1, expand_dims(x2, -1))
    return ops.sum(ops.cast(before, "int64"), [-1])


def _unique(x):
    """Flat: values in order, which are new, the order."""
    flat = ops.reshape(x, [-1])
    order = argsort(flat)
    ordered = take(flat, order)
    first = full((_min(1, flat.size),), True, device=x.device)
    new = ops.concat([first, ops.not_equal(ordered[1:], ordered[:-1])]) if flat.size > 1 else first
    return ordered, new, order


def unique_values(x, /) -> Array:
    """Each value once, in order. Waits for their number."""
    ordered, new, _ = _unique(x)
    return ordered[new]


def unique_counts(x, /) -> "UniqueCounts":
    """Each value once, and how often it is there."""
    everything = unique_all(x)
    return UniqueCounts(everything.values, everything.counts)


def unique_inverse(x, /) -> "UniqueInverse":
    """Each value once, and for each element of x the place of its value."""
    everything = unique_all(x)
    return UniqueInverse(everything.values, everything.inverse_indices)


def unique_all(x, /) -> "UniqueAll":
    """Each value once, where it is first, where each element's value is, and how often it is there."""
    ordered, new, order = _unique(x)
    starts = nonzero(new)[0]
    counts = ops.concat([starts[1:], full((_min(1, x.size),), x.size, dtype="int64", device=x.device)]) - starts
    numbers = ops.cum_sum(ops.cast(new, "int64")) - 1
    inverse = ops.select_assign(arange(x.size, dtype="int64", device=x.device), numbers, order, 0)
    return UniqueAll(ordered[new], take(order, starts), ops.reshape(inverse, x.shape), counts)


def _results(name, fields):
    from collections import namedtuple
    return namedtuple(name, fields)


UniqueAll = _results("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = _results("UniqueCounts", "values counts")
UniqueInverse = _results("UniqueInverse", "values inverse_indices")

for _name in (
        "all", "any", "argmax", "argmin", "argsort", "astype", "bitwise_invert", "ceil", "clip", "conj", "count_nonzero",
        "cumulative_prod", "cumulative_sum", "diff", "expand_dims", "flip", "floor", "imag", "isfinite", "log10", "log2",
        "matrix_transpose", "max", "mean", "min", "moveaxis", "nonzero", "permute_dims", "positive", "prod", "real",
        "repeat", "roll", "round", "sign", "signbit", "sort", "square", "squeeze", "std", "sum", "take",
        "take_along_axis", "tile", "trunc", "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack",
        "var"):
    globals()[_name] = _of_array(globals()[_name])
