#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""ONNX's Cast between every element type of few bits and every other, bit for bit what ml_dtypes and the
specification say: all values of the narrow types, of f16 and bf16, and of the wider ones those around each border.
KILN_TEST_PYTHON names a Python that has ml_dtypes; skipped where there is none.

usage: check_casts.py KILN DEVICE [few]: with `few` only between those of few bits and f32 or i32
"""
import os
import subprocess
import sys
import tempfile

PYTHON = os.environ.get("KILN_TEST_PYTHON")
if PYTHON and os.environ.get("KILN_TEST_PYTHON_USED") is None:
    os.execve(PYTHON, [PYTHON, "-B"] + sys.argv, dict(os.environ, KILN_TEST_PYTHON_USED="1"))

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "..", "..", folder) for folder in ("onnx_cases", "conformance")]
try:
    import ml_dtypes
    import numpy as np
except ImportError as missing:
    print(f"SKIP {missing}: pip install ml_dtypes, and name that Python in KILN_TEST_PYTHON")
    print("kiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)
import numpy_small  # noqa: E402  after the path
from onnx_writer import TYPES, Brain, Graph, Narrow, node, write_case  # noqa: E402

SET = 25
FLOATS = {"float8e4m3fn": ("float8_e4m3fn", numpy_small.E4M3FN),
          "float8e4m3fnuz": ("float8_e4m3fnuz", numpy_small.E4M3FNUZ),
          "float8e5m2": ("float8_e5m2", numpy_small.E5M2), "float8e5m2fnuz": ("float8_e5m2fnuz", numpy_small.E5M2FNUZ),
          "float4e2m1": ("float4_e2m1fn", numpy_small.E2M1), "float8e8m0": ("float8_e8m0fnu", numpy_small.E8M0)}
WHOLE = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
WIDE = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
        "uint64", "bool")


def own(name):
    """The type in ml_dtypes, or NumPy's."""
    return getattr(ml_dtypes, FLOATS[name][0] if name in FLOATS else name, None) or np.dtype(name)


def borders():
    """f32: every number of bf16, its neighbours, and the middles between those of the narrow types."""
    high = np.arange(65536, dtype=np.uint32) << 16
    bits = np.concatenate([high, high + 1, high - 1, high + 0x8000])
    return bits.astype(np.uint32).view(np.float32)


def values(name):
    if name in FLOATS:
        return np.arange(16 if name == "float4e2m1" else 256, dtype=np.uint8).view(own(name))
    if name in WHOLE:
        low = -(1 << WHOLE[name] - 1) if name[0] == "i" else 0
        return np.arange(low, low + (1 << WHOLE[name])).astype(own(name))
    if name in ("float16", "bfloat16"):
        return np.arange(65536, dtype=np.uint16).view(own(name))
    if name == "float32":
        return borders()
    if name == "float64":
        wide = borders().astype(np.float64)
        return np.concatenate([wide, np.nextafter(wide, np.inf), np.nextafter(wide, -np.inf)])
    if name == "bool":
        return np.array([False, True])
    facts = np.iinfo(name)
    near = np.arange(max(facts.min, -70000), min(facts.max, 70000) + 1, dtype=np.int64).astype(name)
    return np.concatenate([near, np.array([facts.min, facts.max, facts.max - 1, facts.max // 3], name)])


def to_float(x, target, saturate):
    """ONNX: as ml_dtypes where it fits; beyond it the largest, or what the type has for infinite."""
    y = x.astype(np.float64)
    if saturate:
        largest = float(ml_dtypes.finfo(own(target)).max)
        y = np.clip(y, -largest, largest)
    return to_float_of(x, y, target)


def to_float_of(x, y, target):
    """The nearest by both judges, where x has become y."""
    made = numpy_small.encode(FLOATS[target][1], y)
    if x.dtype not in (np.float64, np.int64, np.uint64):  # ml_dtypes goes through f32, and rounds twice
        theirs = y.astype(np.float32).astype(own(target)).view(np.uint8)
        assert np.array_equal(theirs, made), f"two judges differ on {x.dtype} to {target}"
    return Narrow(made, target)


def to_powers(x, mode, saturate):
    """Powers of two: what is not positive is left undefined, so none is tried."""
    y = x.astype(np.float64)
    if saturate:
        y = np.clip(y, 2.0 ** -127, 2.0 ** 127)
    if mode == "nearest":
        return to_float_of(x, y, "float8e8m0")
    above = np.frexp(y)[1]  # y is below this power, and at least half of it
    return Narrow(above + 126 + (mode == "up") * (y > np.ldexp(0.5, above)), "float8e8m0")


def to_whole(x, target):
    """ONNX: to the nearest, halves to the even one, and of that the low bits."""
    y = np.rint(x.astype(np.float64)) if x.dtype.kind not in "iub" else x
    bits = y.astype(np.int64) & (1 << WHOLE[target]) - 1
    return Narrow(bits, target)


def kept(x, target):
    """The values whose casts are defined."""
    y = x.astype(np.float64)
    if target == "float8e8m0":
        return x[(y > 0) & np.isfinite(y)]
    if target in WHOLE or np.dtype(own(target)).kind in "iu" and x.dtype.kind not in "iu":
        facts = np.iinfo(np.int32 if target in WHOLE else target)
        return x[(np.rint(y) >= facts.min) & (np.rint(y) < facts.max + 1)]
    return x


def stored(x, name):
    """As onnx_writer takes it."""
    if name in FLOATS or name in WHOLE:
        return Narrow(x.view(np.uint8) if name in FLOATS else x.astype(np.int8), name)
    if name == "bfloat16":
        made = Brain(())
        made.bits, made.shape = x.view(np.uint16), x.shape  # with the signs of what is no number
        return made
    return x


def to_wide(x, target):
    if target in ("float16", "bfloat16", "float32", "float64"):
        return stored(x.astype(np.float32).astype(own(target)), target)
    return x.astype(np.float32).astype(target) if x.dtype not in (ml_dtypes.int4, ml_dtypes.int2) else x.astype(target)


def expected(x, target):
    """Attributes and what they give."""
    if target == "float8e8m0":
        for mode in ("up", "down", "nearest"):
            yield {"round_mode": mode}, to_powers(x, mode, True)
        yield {"round_mode": "nearest", "saturate": 0}, to_powers(x, "nearest", False)
    elif target in FLOATS:
        yield {}, to_float(x, target, True)
        if target.startswith("float8"):
            yield {"saturate": 0}, to_float(x, target, False)
    else:
        yield {}, to_whole(x, target) if target in WHOLE else to_wide(x, target)


def pairs(few):
    wide = ("float32", "int32") if few else WIDE
    types = (*FLOATS, *WHOLE, *wide)
    return [(a, b) for a in types for b in types if a != b and (a in wide) + (b in wide) in ((1,) if few else (0, 1))]


def write(folder, few):
    count = 0
    for source, target in pairs(few):
        x = kept(values(source), target)
        for more, y in expected(x, target):
            graph = Graph([node("Cast", ["x"], ["y"], to=TYPES[target], **more)], {"x": stored(x, source)}, {"y": y})
            write_case(folder, "_".join([source, "to", target, *(str(v) for v in more.values())]), graph, SET)
            count += 1
    return count


def main():
    kiln, device = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        count = write(folder, sys.argv[3:] == ["few"])
        done = subprocess.run([kiln, "check-onnx", "--strict", "--device", device, folder], capture_output=True,
                              text=True, check=False)
    print(f"ml_dtypes {ml_dtypes.__version__}, {count} casts")
    print((done.stdout + done.stderr).strip())
    good = done.returncode == 0 and done.stdout.rstrip().splitlines()[-1] == f"{count} passed, 0 failed, 0 skipped"
    print(f"kiln-test: {int(good)} passed, {int(not good)} failed, 0 skipped")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
