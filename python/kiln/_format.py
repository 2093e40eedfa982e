# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays as text."""
import math

_EDGE, _WHOLE = 3, 1000


def _element(value):
    if isinstance(value, float) and math.isfinite(value):
        text = format(value, ".5g")
        return text if any(c in text for c in ".e") else text + "."
    return str(value)


def _shorten(x):
    """The outer elements of long axes, and which axes were cut."""
    if x.size <= _WHOLE:
        return x, [False] * x.ndim
    from . import ops
    cut = [length > 2 * _EDGE for length in x.shape]
    for axis, is_cut in enumerate(cut):
        if is_cut:
            count = x.shape[axis]
            bounds = [(0, _EDGE), (count - _EDGE, count)]
            parts = []
            for first, last in bounds:
                starts, ends = [0] * x.ndim, list(x.shape)
                starts[axis], ends[axis] = first, last
                parts.append(ops.slice(x, starts, ends))
            x = ops.concat(parts, axis)
    return x, cut


def _rows(data, cut, width, indent):
    if not cut:
        return data.rjust(width)
    parts = [_rows(part, cut[1:], width, indent + 1) for part in data]
    if cut[0]:
        parts.insert(_EDGE, "...")
    comma = ", " if len(cut) == 1 else "," + "\n" * (len(cut) - 1) + " " * (indent + 1)
    return "[" + comma.join(parts) + "]"


def _texts(data):
    return [_texts(part) for part in data] if isinstance(data, list) else _element(data)


def _width(texts):
    return max((_width(part) for part in texts), default=0) if isinstance(texts, list) else len(texts)


def values(x, indent=0):
    """The values of an array, in rows."""
    short, cut = _shorten(x)
    texts = _texts(short.tolist())
    return _rows(texts, cut, _width(texts) if x.ndim else 0, indent)


def represent(x):
    """What the prompt shows of an array."""
    facts = f"dtype={x.dtype}, device='{x.device}'"
    if x.dtype.kind == "quantised":
        return f"kiln.Array(<quantised>, shape={x.shape}, {facts})"
    try:
        return f"kiln.Array({values(x, len('kiln.Array('))}, {facts})"
    except RuntimeError as error:  # within kiln.compile, or after a failure
        return f"kiln.Array(<no values: {error}>, shape={x.shape}, {facts})"
