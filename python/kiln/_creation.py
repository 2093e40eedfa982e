# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays from numbers, lists, buffers and other libraries' arrays."""
import array as _array
import math as _math
import operator as _operator
import struct as _struct

from . import _kiln, ops
from ._kiln import Array, device as _device, dtype as _dtype

__all__ = ["arange", "array", "asarray", "devices", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
           "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like"]

_CODES = {"bool": "?", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "int8": "b", "int16": "h",
          "int32": "i", "int64": "q", "float16": "e", "float32": "f", "float64": "d"}
_SMALL = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")


class _DeviceLine(str):
    """An address, which prints with what is known of the device."""

    def __new__(cls, address, description):
        self = super().__new__(cls, address)
        self.description = description
        return self

    def __repr__(self):
        return f"<{str(self)}: {self.description}>"


def devices() -> list[str]:
    """The addresses of this machine's devices, each a text with an attribute `description`.

    `kiln.device(address)` opens one.
    """
    return [_DeviceLine(*row) for row in _kiln._devices()]


# ---- lists ----

def _shape_of(data):
    shape = []
    while isinstance(data, (list, tuple)):
        shape.append(len(data))
        if not data:
            break
        if len(shape) > 64:  # one that is in itself, perhaps
            raise ValueError("the lists are nested too deeply")
        data = data[0]
    return tuple(shape)


def _flatten(data, shape, out):
    """Appends the numbers of nested lists to `out`; True when there are arrays among them."""
    if not shape:
        if isinstance(data, (bool, int, float)):
            out.append(data)
            return False
        if isinstance(data, (list, tuple)):
            raise ValueError("the lists are not all of one length")
        if isinstance(data, complex):
            raise TypeError("Kiln has no complex dtypes")
        if isinstance(data, Array) or getattr(data, "ndim", 0):
            return True
        if hasattr(data, "item"):  # a scalar of NumPy
            out.append(data.item())
            return False
        raise TypeError(f"{data!r} is no number")
    if not isinstance(data, (list, tuple)) or len(data) != shape[0]:
        raise ValueError("the lists are not all of one length")
    return any([_flatten(part, shape[1:], out) for part in data])


def _dtype_of_numbers(numbers, device):
    if any(isinstance(n, float) for n in numbers) or not numbers:
        return device._default_dtype(True)
    if all(isinstance(n, bool) for n in numbers):
        return _kiln.bool
    return device._default_dtype(False)


def _pack(numbers, dtype):
    code = _CODES[dtype.name]
    if code == "e":  # struct refuses what is too large, where a cast gives infinity
        numbers = [_math.copysign(_math.inf, n) if abs(n) >= 65520 else n for n in numbers]
    if code in "fd":
        return _array.array(code, numbers).tobytes()
    if code in "?":
        return bytes(n != 0 for n in numbers)
    if code != "e":
        numbers = [int(n) for n in numbers]
    try:
        return _struct.pack(f"{len(numbers)}{code}", *numbers)
    except _struct.error as error:
        raise OverflowError(f"a number of the list does not fit {dtype}: {error}") from None


def _of_lists(data, dtype, device):
    shape, numbers = _shape_of(data), []
    if _flatten(data, shape, numbers):
        from ._standard import stack
        return asarray(stack([asarray(part, dtype=dtype, device=device) for part in data]))
    dtype = dtype or _dtype_of_numbers(numbers, device)
    packed = dtype if dtype.name in _CODES else _kiln.float32
    made = _kiln._from_bytes(_pack(numbers, packed), packed, shape, device)
    return made if packed == dtype else ops.cast(made, dtype)


# ---- any object ----

def asarray(obj, /, *, dtype=None, device=None, copy=None) -> Array:
    """An array of nested lists, numbers, buffers (NumPy's arrays are some), or what has `__dlpack__`.

    What is no array yet is copied, for arrays are computed late and must not see later changes. With copy=False
    the memory itself is used, or ValueError raised where that cannot be: it must not change as long as anything
    recorded from it may still run.
    """
    dtype = None if dtype is None else _dtype(dtype)
    if isinstance(obj, Array):
        if device is not None and _device(device) != obj.device:
            obj = obj.to_device(device)
        if dtype is not None and dtype != obj.dtype:
            if copy is False:
                raise ValueError("another dtype needs a copy")
            return ops.cast(obj, dtype)
        return obj.to_device(obj.device) if copy else obj
    device = _device(device)
    if isinstance(obj, range):
        obj = list(obj)
    if isinstance(obj, (bool, int, float, list, tuple)) and not hasattr(obj, "dtype"):  # numpy.float64 is a float
        if copy is False:
            raise ValueError("an array of Python's numbers is always a copy")
        return _of_lists(obj, dtype, device)
    made = _of_memory(obj, device, copy)
    if dtype is None or made.dtype == dtype:
        return made
    if copy is False:
        raise ValueError("another dtype needs a copy")
    return ops.cast(made, dtype)


def _of_memory(obj, device, copy):
    if getattr(getattr(obj, "dtype", None), "name", None) in _SMALL and hasattr(obj, "view"):  # ml_dtypes
        return _kiln._from_buffer(obj.view("uint8"), device, copy is False).bits_as(obj.dtype.name)
    try:
        memoryview(obj).release()
        is_buffer = True
    except (TypeError, BufferError, ValueError):
        is_buffer = False
    if is_buffer:
        return _kiln._from_buffer(obj, device, copy is False)
    if hasattr(obj, "__dlpack__"):
        return from_dlpack(obj, device=device, copy=copy is not False)
    if hasattr(obj, "__array__"):
        return _kiln._from_buffer(obj.__array__(), device, copy is False)
    if isinstance(obj, complex):
        raise TypeError("Kiln has no complex dtypes")
    raise TypeError(f"there is no array of a {type(obj).__name__}")


array = asarray


def from_dlpack(x, /, *, device=None, copy=None) -> Array:
    """An array of another library's, by DLPack. Its memory is shared where it is dense and aligned and the device
    shares the host's memory; it must not change as long as anything recorded from it may still run."""
    if isinstance(x, Array):
        return asarray(x, device=device, copy=copy)
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = x.__dlpack__()
    return _kiln._from_capsule(capsule, device, 1 if copy is None else 0 if copy else 2)


# ---- filled ----

def _ints(value, what):
    """An integer or several, NumPy's too, as a list."""
    try:
        return [_operator.index(value)]
    except TypeError:
        pass
    try:
        return [_operator.index(one) for one in value]
    except TypeError:
        raise TypeError(f"{what} is an int or a sequence of ints, not {value!r}") from None


def full(shape, fill_value, *, dtype=None, device=None) -> Array:
    """An array whose elements are all `fill_value`."""
    if isinstance(fill_value, Array):
        fill_value = fill_value.item()
    if dtype is None:
        device = _device(device)
        dtype = _dtype_of_numbers([fill_value], device)
    shape = _ints(shape, "a shape")
    if isinstance(fill_value, int) and fill_value >= 1 << 63:  # an attribute is an int64
        return ops.expand(asarray(fill_value, dtype=dtype, device=device), shape)
    return ops.full(shape, dtype, value=fill_value, device=device)


def zeros(shape, *, dtype=None, device=None) -> Array:
    """An array of zeros."""
    return full(shape, 0 if dtype is not None else 0.0, dtype=dtype, device=device)


def ones(shape, *, dtype=None, device=None) -> Array:
    """An array of ones."""
    return full(shape, 1 if dtype is not None else 1.0, dtype=dtype, device=device)


empty = zeros


def full_like(x, /, fill_value, *, dtype=None, device=None) -> Array:
    """An array of `fill_value`, shaped like x."""
    x = x if isinstance(x, Array) else asarray(x)
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x, /, *, dtype=None, device=None) -> Array:
    """An array of zeros, shaped like x."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None) -> Array:
    """An array of ones, shaped like x."""
    return full_like(x, 1, dtype=dtype, device=device)


empty_like = zeros_like


def arange(start, /, stop=None, step=1, *, dtype=None, device=None) -> Array:
    """start, start + step, .. before stop; arange(n): 0 to n - 1."""
    if stop is None:
        start, stop = 0, start
    count = max(0, -int((start - stop) // step))
    if dtype is None:
        device = _device(device)
        dtype = _dtype_of_numbers([start + 0, stop + 0, step + 0], device)
    elif _dtype(dtype).kind == "bool":
        raise TypeError("there is no range of bools")
    return ops.arange(count, dtype, start, step, device=device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True) -> Array:
    """`num` numbers at equal distances from start to stop, which is the last one unless endpoint=False."""
    steps = num - 1 if endpoint else num
    step = (stop - start) / steps if steps > 0 else 0.0
    device = _device(device)
    kept = device._default_dtype(True) if dtype is None else _dtype(dtype)
    wide = kept if kept.kind == "real floating" else device._default_dtype(True)
    made = ops.arange(num, wide, float(start), float(step), device=device)
    if endpoint and num > 1:
        last = full((1,), float(stop), dtype=wide, device=device)
        made = ops.concat([ops.slice(made, 0, num - 1), last])
    return made if kept == wide else ops.cast(made, kept)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None) -> Array:
    """A matrix with ones on diagonal k."""
    n_cols = n_rows if n_cols is None else n_cols
    dtype = dtype or _device(device)._default_dtype(True)
    if abs(k) >= 1 << 31:
        return zeros((n_rows, n_cols), dtype=dtype, device=device)
    return ops.eye([n_rows, n_cols], dtype, k, device=device)


def tril(x, /, *, k=0) -> Array:
    """x with zeros above diagonal k of its last two axes."""
    return ops.tril(x, k)


def triu(x, /, *, k=0) -> Array:
    """x with zeros below diagonal k of its last two axes."""
    return ops.triu(x, k)


def meshgrid(*arrays, indexing="xy") -> list[Array]:
    """Coordinates of a grid: for each array one of the whole grid's shape."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    n = len(arrays)
    axes = list(range(n))
    if indexing == "xy" and n > 1:
        axes[:2] = 1, 0
    shape = [1] * n
    for one, axis in zip(arrays, axes):
        shape[axis] = one.size
    return [ops.expand(ops.reshape(one, [one.size if i == axis else 1 for i in range(n)]), shape)
            for one, axis in zip(arrays, axes)]


_kiln._set_convert(asarray)
