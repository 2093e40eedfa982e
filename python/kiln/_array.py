# SPDX-License-Identifier: MIT OR Apache-2.0
"""The methods of Array that need no C."""
from . import _format, _index, _standard, ops
from ._kiln import Array


def _method(function, name=None):
    setattr(Array, name or function.__name__, function)
    return function


@_method
def __array_namespace__(self, /, *, api_version=None):
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"there is no version {api_version!r} of the array API here; 2024.12 is the newest")
    import kiln
    return kiln


@_method
def __dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None):
    if dl_device is not None and tuple(dl_device) not in ((1, 0), (4, 0)):
        raise BufferError(f"arrays are exported to the CPU, (1, 0), and OpenCL, (4, 0), not {tuple(dl_device)}")
    opencl = dl_device is not None and tuple(dl_device) == (4, 0)
    versioned = max_version is not None and max_version[0] >= 1
    # Before 1.0 a consumer cannot be told that it must not write: it gets memory of its own, unless it insists.
    if opencl and copy:
        raise BufferError("OpenCL's memory object is the array's own; there is no copy of it")
    return self._dlpack(versioned, not versioned if copy is None else copy, opencl)


@_method
def __dlpack_device__(self, /):
    return (1, 0)


@_method
def __array__(self, dtype=None, copy=None):
    import numpy
    if self.dtype.kind == "small floating":
        made = _small_numpy(self)
    else:
        made = numpy.asarray(memoryview(ops.cast(self, "float32") if self.dtype == "bfloat16" else self))
    if dtype is not None and made.dtype != dtype:
        if copy is False:
            raise ValueError(f"{made.dtype} as {numpy.dtype(dtype)} needs a copy")
        return made.astype(dtype)
    return made.copy() if copy else made


def _small_numpy(x):
    """The bits as an array of ml_dtypes; where that is not installed, the numbers as float32."""
    import numpy
    try:
        import ml_dtypes
    except ImportError:
        return numpy.asarray(memoryview(ops.cast(x, "float32")))
    return numpy.asarray(memoryview(x.bits_as("uint8"))).view(getattr(ml_dtypes, x.dtype.name))


Array.__array_priority__ = 1000  # ndarray + Array is Array's


@_method
def numpy(self, /):
    """The values as a NumPy array, read-only and without a copy where the device shares the host's memory."""
    return self.__array__()


@_method
def tolist(self, /):
    """The values as nested lists."""
    if self.ndim == 0:
        return self.item()
    wide = self.dtype.name in ("bfloat16", "float16") or self.dtype.kind == "small floating"
    x = ops.cast(self, "float32") if wide else self
    return memoryview(x).tolist() if x.size else _empty_lists(x.shape)


def _empty_lists(shape):
    return [_empty_lists(shape[1:]) for _ in range(shape[0])] if shape else None


@_method
def __repr__(self, /):
    return _format.represent(self)


@_method
def __str__(self, /):
    return _format.values(self) if self.dtype.kind != "quantised" else repr(self)


@_method
def __format__(self, spec, /):
    return format(self.item(), spec) if self.ndim == 0 else format(str(self), spec)


@_method
def __getitem__(self, key, /):
    return _index.getitem(self, key)


@_method
def __setitem__(self, key, value, /):
    _index.setitem(self, key, value)


@_method
def __iter__(self, /):
    if self.ndim == 0:
        raise TypeError("an array of rank 0 has no elements to go through")
    return iter(_standard.unstack(self))


@_method
def __floordiv__(self, other, /):
    return _standard.floor_divide(self, other)


@_method
def __rfloordiv__(self, other, /):
    return _standard.floor_divide(other, self)


@_method
def __divmod__(self, other, /):
    return self // other, self % other


@_method
def __complex__(self, /):
    return complex(self.item())


@_method
def __reduce__(self, /):
    from ._creation import asarray
    if self.dtype.kind == "small floating":
        return _rebuild, (bytes(memoryview(self.bits_as("uint8"))), self.dtype.name, self.shape, self.dtype.name)
    if self.dtype == "bfloat16":
        return _rebuild, (bytes(memoryview(ops.cast(self, "float32"))), "float32", self.shape, "bfloat16")
    return _rebuild, (bytes(memoryview(self)), self.dtype.name, self.shape, self.dtype.name)


def _rebuild(data, packed, shape, dtype):
    from . import _kiln
    made = _kiln._from_bytes(data, packed, shape, None)
    return made if packed == dtype else ops.cast(made, dtype)


@_method
def reshape(self, /, *shape):
    """The same elements with other lengths; one may be -1. x.reshape(2, 3) and x.reshape((2, 3)) are the same."""
    return ops.reshape(self, shape[0] if len(shape) == 1 else shape)


for _name in ("astype", "sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin", "std", "var"):
    _method(getattr(_standard, _name).__wrapped__, _name)  # self is an array
Array.T = property(lambda self: _standard.transpose(self), doc="the matrix with its axes exchanged")
Array.mT = property(lambda self: _standard.matrix_transpose(self), doc="the last two axes exchanged")
