# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of floats of 8 and 4 bits and integers of 2: weights in blocks as MXFP4, MXFP8 and NVFP4 have them, blocks
quantised, what only moves. Expected values are those of numpy_small.py."""
from case_writer import F32, RANDOM, case, floats, ints, np, one
from numpy_small import E2M1, E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0, decode, encode
from onnx_writer import Narrow, node

NAMES = {E4M3FN: "float8e4m3fn", E4M3FNUZ: "float8e4m3fnuz", E5M2: "float8e5m2", E5M2FNUZ: "float8e5m2fnuz",
         E8M0: "float8e8m0", E2M1: "float4e2m1"}
TYPES = {E4M3FN: 17, E4M3FNUZ: 18, E5M2: 19, E5M2FNUZ: 20, E2M1: 23}


def positive(number, *shape):
    """Bits of numbers above 0, so that no sum of products is small."""
    return RANDOM.integers(1, {E2M1: 8, E5M2: 0x50}.get(number, 0x60), shape).astype(np.uint8)


def product(name, number, block, scale, constant=True, **more):
    """x times a weight of 192 rows, its scales from `scale` by the grid's shape: numbers, and what the file has."""
    w, x = positive(number, 192, 48), np.abs(floats(3, 192))
    numbers, stored = scale((192 // block, 48) if block else (48,))
    wide = decode(number, w) * (np.repeat(numbers, block, 0) if block else numbers)
    files = {"w": Narrow(w, NAMES[number]), "s": stored}
    attributes = {"axis": 0, "block_size": block} if block else {"axis": 1}
    nodes = [node("DequantizeLinear", ["w", "s"], ["wide"], **attributes, **more), node("MatMul", ["x", "wide"], ["y"])]
    case(name, nodes, {"x": x} if constant else {"x": x, **files}, {"y": (x @ wide).astype(F32)}, 25,
         files if constant else ())


def plain_scales(shape):
    made = np.abs(floats(*shape)) + F32(0.5)
    return made, made


def power_scales(shape):
    bits = RANDOM.integers(120, 130, shape).astype(np.uint8)
    return decode(E8M0, bits), Narrow(bits, NAMES[E8M0])


def weights():
    for number in TYPES:
        product(f"weight_{NAMES[number]}_25", number, 0, plain_scales)
    product("weight_mxfp4_25", E2M1, 32, power_scales, output_dtype=1)
    product("weight_mxfp8_25", E4M3FN, 32, power_scales, output_dtype=1)
    product("weight_mxfp4_given_25", E2M1, 32, power_scales, constant=False, output_dtype=1)
    w, x, bits = positive(E2M1, 192, 48), np.abs(floats(3, 192)), positive(E4M3FN, 12, 48)
    wide = decode(E2M1, w) * np.repeat(decode(E4M3FN, bits) * 0.25, 16, 0)
    case("weight_nvfp4_25", [node("DequantizeLinear", ["s", "g"], ["scale"]),
                             node("DequantizeLinear", ["w", "scale"], ["wide"], axis=0, block_size=16),
                             node("MatMul", ["x", "wide"], ["y"])], {"x": x}, {"y": (x @ wide).astype(F32)}, 25,
         {"w": Narrow(w, NAMES[E2M1]), "s": Narrow(bits, NAMES[E4M3FN]), "g": np.array(0.25, F32)})


def quantised():
    x = floats(64, 5) * 300
    scale = np.abs(floats(2, 5)) + F32(0.25)
    for number in TYPES:
        largest = np.nanmax(np.where(np.isinf(decode(number, range(256))), np.nan, decode(number, range(256))))
        for saturate in (0, 1) if number != E2M1 else (1,):
            y = x / np.repeat(scale, 32, 0)
            bits = encode(number, np.clip(y, -largest, largest) if saturate else y)
            one(f"quantize_{NAMES[number]}_{saturate}_25", "QuantizeLinear", [x, scale],
                [Narrow(bits, NAMES[number])], 25, axis=0, block_size=32, output_dtype=TYPES[number],
                saturate=saturate)


def casts():
    x = np.append(floats(40) * 100, [0, np.inf, -np.inf, 1e-9, 1000]).astype(F32)
    bits = encode(E4M3FN, np.clip(x, -448, 448))
    one("cast_small_to_small_25", "Cast", [Narrow(bits, NAMES[E4M3FN])],
        [Narrow(encode(E5M2, decode(E4M3FN, bits)), NAMES[E5M2])], 25, to=TYPES[E5M2])
    one("cast_whole_to_small_25", "Cast", [np.arange(-99, 99, dtype=np.int16)],
        [Narrow(encode(E5M2FNUZ, np.arange(-99, 99)), NAMES[E5M2FNUZ])], 25, to=TYPES[E5M2FNUZ])
    for mode, of in (("up", np.ceil), ("down", np.floor), ("nearest", lambda x: np.floor(x + np.log2(4 / 3)))):
        y = np.abs(floats(50)) + F32(0.01)
        one(f"cast_powers_{mode}_25", "Cast", [y], [Narrow((of(np.log2(y.astype(np.float64))) + 127), NAMES[E8M0])],
            25, to=24, round_mode=mode)
    one("isnan_small_20", "IsNaN", [Narrow(np.array([0x7F, 0x80, 1, 0xFF]), NAMES[E4M3FN])],
        [np.array([True, False, False, True])], 20)
    two = RANDOM.integers(-2, 2, (3, 5))
    one("dequantize_int2_25", "DequantizeLinear", [Narrow(two, "int2"), np.array(0.5, F32)],
        [(two * 0.5).astype(F32)], 25)
    one("quantize_uint2_25", "QuantizeLinear", [np.array([-1, 0.4, 1.6, 9], F32), np.array(1, F32)],
        [Narrow(np.array([0, 0, 2, 3]), "uint2")], 25, output_dtype=25)


def moved():
    bits = RANDOM.integers(0, 256, (3, 4)).astype(np.uint8)
    for name, array in (("float8e5m2", bits), ("float4e2m1", bits & 15), ("uint2", bits & 3)):
        one(f"reshape_{name}_25", "Reshape", [Narrow(array, name), ints(2, -1)],
            [Narrow(array.reshape(2, -1), name)], 25)
        one(f"transpose_{name}_25", "Transpose", [Narrow(array, name)], [Narrow(array.T, name)], 25)
        one(f"identity_{name}_25", "Identity", [Narrow(array, name)], [Narrow(array, name)], 25)


def make():
    for part in (weights, quantised, casts, moved):
        part()
