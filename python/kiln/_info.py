# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the array API says of dtypes and devices: constants, limits, kinds, inspection."""
import math as _math
from types import SimpleNamespace as _Record

from . import _kiln
from ._kiln import Array, device as _device, dtype as _dtype

__all__ = ["__array_api_version__", "__array_namespace_info__", "can_cast", "e", "finfo", "iinfo", "inf", "isdtype",
           "nan", "newaxis", "pi"]

__array_api_version__ = "2024.12"
e, inf, nan, pi, newaxis = _math.e, _math.inf, _math.nan, _math.pi, None

_NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64")
_KINDS = {"bool": ("bool",), "signed integer": ("signed integer",), "unsigned integer": ("unsigned integer",),
          "integral": ("signed integer", "unsigned integer"), "real floating": ("real floating",),
          "complex floating": (), "numeric": ("signed integer", "unsigned integer", "real floating")}
# bits of the exponent and of the fraction
_FLOATS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


def finfo(type, /):
    """Limits of a float dtype."""
    kept = _dtype(type.dtype if isinstance(type, Array) else type)
    if kept.name not in _FLOATS:
        raise TypeError(f"{kept} is no float dtype")
    exponent, fraction = _FLOATS[kept.name]
    bias = 2 ** (exponent - 1) - 1
    largest = (2 - 2.0 ** -fraction) * 2.0 ** bias
    return _Record(bits=kept.itemsize * 8, eps=2.0 ** -fraction, max=largest, min=-largest,
                   smallest_normal=2.0 ** (1 - bias), dtype=kept)


def iinfo(type, /):
    """Limits of an integer dtype."""
    kept = _dtype(type.dtype if isinstance(type, Array) else type)
    if not isdtype(kept, "integral"):
        raise TypeError(f"{kept} is no integer dtype")
    bits = kept.itemsize * 8
    signed = kept.kind == "signed integer"
    return _Record(bits=bits, max=2 ** (bits - signed) - 1, min=-2 ** (bits - 1) if signed else 0, dtype=kept)


def isdtype(dtype, kind):
    """Whether a dtype is of a kind: a name such as "integral", a dtype, or a tuple of them."""
    dtype = _dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str) and kind in _KINDS and kind != "bool":
        return dtype.kind in _KINDS[kind]
    if isinstance(kind, str) and kind not in _NAMES:
        raise ValueError(f"{kind!r} is no kind of dtypes; {', '.join(_KINDS)} are")
    return dtype == _dtype(kind)


def can_cast(from_, to, /):
    """Whether promotion casts a dtype, or an array's, to another."""
    kept = from_.dtype if isinstance(from_, Array) else _dtype(from_)
    if (kept.kind == "bool") != (_dtype(to).kind == "bool"):
        return False
    if isdtype(kept, "integral") and _dtype(to).kind == "real floating":
        return False
    try:
        return _kiln._promote(kept, _dtype(to)) == _dtype(to)
    except TypeError:
        return False


class __array_namespace_info__:
    """What there is: the array API's inspection."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        return _device()

    def default_dtypes(self, *, device=None):
        device = _device(device)
        return {"real floating": device._default_dtype(True), "complex floating": None,
                "integral": device._default_dtype(False), "indexing": _kiln.int64}

    def devices(self):
        from ._creation import devices
        return [_device(address) for address in devices()]

    def dtypes(self, *, device=None, kind=None):
        device = _device(device)
        kinds = None if kind is None else kind if isinstance(kind, tuple) else (kind,)
        made = [_dtype(name) for name in _NAMES if name != "bfloat16" and device.supports(name)]
        return {d.name: d for d in made if kinds is None or any(d.kind in _KINDS[k] for k in kinds)}
