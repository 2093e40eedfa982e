# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of what opsets 18 to 21 brought beyond make_cases.py: quantisation in blocks, types of four bits, windows,
grids, resizing and scattering with their new attributes."""
from case_writer import F32, I64, RANDOM, case, floats, ints, np, one
from numpy_data import scatter, scatter_nd
from numpy_window import col2im, deform_conv, grid_sample, interpolate, pool
from onnx_writer import Graph, Narrow, node

RANGES = {"int4": (-8, 7), "uint4": (0, 15)}


def bounds(kind):
    return RANGES[kind] if kind in RANGES else (np.iinfo(kind).min, np.iinfo(kind).max)


def held(values, kind):
    """Integers as the file has them."""
    dtype = {"int4": np.int8, "uint4": np.uint8}.get(kind, kind)
    return Narrow(values.astype(dtype), kind) if kind in RANGES else values.astype(dtype)


def quantised(x, scale, zero, kind):
    low, high = bounds(kind)
    return np.clip(np.rint(x / scale) + zero, low, high)


def blocked(values, axis, size, length):
    return np.take(np.repeat(values, size, axis), np.arange(length), axis)


def in_bytes(values, bits):
    """Along the last axis, of 4 bits the first in the lower half; rows of an odd length end in a half."""
    values = values.astype(np.uint8)
    if bits == 4:
        values = np.concatenate((values, np.zeros(values.shape[:-1] + (values.shape[-1] % 2,), np.uint8)), -1)
        values = values[..., ::2] | values[..., 1::2] << 4
    return values


def weights_of_few_bits():
    """com.microsoft's MatMulNBits: a @ ((values - zeros) * scales).T, blocks along the sum."""
    for name, shape, n, size, bits, with_zeros, dtype in (
            ("one_row", (1, 256), 37, 32, 4, False, F32), ("zeros", (2, 3, 256), 5, 16, 4, True, F32),
            ("padded", (2, 40), 6, 32, 4, True, F32), ("bytes", (3, 192), 9, 64, 8, True, F32),
            ("many_rows", (33, 128), 20, 128, 8, False, F32), ("half", (2, 128), 7, 32, 4, True, np.float16)):
        k = shape[-1]
        blocks = -(-k // size)
        a, bias = floats(*shape).astype(dtype), (floats(n) + 64).astype(dtype)  # no sum is near 0
        values = RANDOM.integers(0, 2**bits, (n, blocks, size))
        scales = (np.abs(floats(n, blocks)) / 2**bits + 2.0**-bits).astype(dtype)
        zeros = RANDOM.integers(0, 2**bits, (n, blocks)) if with_zeros else np.full((n, blocks), 2**(bits - 1))
        weight = ((values - zeros[..., None]) * scales[..., None].astype(np.float64)).reshape(n, -1)[:, :k]
        inputs = [a, in_bytes(values, bits), scales.ravel()]
        inputs += [in_bytes(zeros, bits).ravel() if with_zeros else None, None, bias]
        constants = [1, 2] + [3] * with_zeros + [5]
        one(f"matmul_nbits_{name}", "MatMulNBits", inputs, [(a.astype(np.float64) @ weight.T + bias).astype(dtype)],
            21, constants, domain="com.microsoft", K=k, N=n, bits=bits, block_size=size)


def dequantised_weights():
    """Few rows by a constant matrix of integers: scales for all, for each column, for blocks of rows."""
    for kind, size, low, high, with_zeros in (("uint4", 32, 0, 15, True), ("int4", 16, -8, 7, False),
                                              ("int8", 0, -128, 127, False), ("uint8", 1, 0, 255, True),
                                              ("uint8", 0, 0, 255, True)):
        k, n = 128, 40
        shape = {0: (n,), 1: ()}.get(size, (k // max(size, 1), n))
        values = RANDOM.integers(low, high + 1, (k, n))
        values[0, :2] = low, high
        scale = np.asarray(np.abs(floats(*shape)) / high + 1.0 / high, F32)
        zero = RANDOM.integers(low, high + 1, shape) if with_zeros and size != 1 else np.full(shape, 128 * with_zeros)
        wide = [np.repeat(v, size, 0) if size > 1 else v for v in (scale, zero)]
        weight = (values - wide[1]) * wide[0].astype(np.float64)
        inputs = ["q", "s", "z"][:2 + with_zeros]
        constants = {"q": held(values, kind), "s": scale, "b": floats(n) + 64}
        if with_zeros:
            constants["z"] = held(zero, kind)
        attributes = {"axis": 0, "block_size": size} if size > 1 else {"axis": 1}
        nodes = [node("DequantizeLinear", inputs, ["w"], **attributes), node("MatMul", ["a", "w"], ["p"]),
                 node("Add", ["p", "b"], ["y"])]
        a = floats(3, k)
        y = (a.astype(np.float64) @ weight + constants["b"]).astype(F32)
        case(f"few_rows_by_{kind}_{size}_21", nodes, {"a": a}, {"y": y}, 21, constants)
    share_values()


def share_values():
    """Two matrices of the same values and scales that differ in their zero points."""
    k, n = 128, 40
    values, scale = RANDOM.integers(0, 100, (k, n)), np.asarray(np.abs(floats(n)) / 64 + 1.0 / 64, F32)
    constants = {"q": held(values, "uint8"), "s": scale}
    nodes, outputs, a = [], {}, floats(2, k)
    for i, zero in enumerate((50, 90)):
        constants[f"z{i}"] = np.full(n, zero, np.uint8)
        nodes += [node("DequantizeLinear", ["q", "s", f"z{i}"], [f"w{i}"], axis=1),
                  node("MatMul", ["a", f"w{i}"], [f"y{i}"])]
        outputs[f"y{i}"] = (a.astype(np.float64) @ ((values - zero) * scale.astype(np.float64))).astype(F32)
    case("few_rows_by_shared_values_21", nodes, {"a": a}, outputs, 21, constants)


def quantisation():
    x = floats(3, 7, 4) * 8
    for opset in (19, 21):
        for kind in ("int8", "uint8") + (("int16", "uint16", "int4", "uint4") if opset == 21 else ()):
            low, high = bounds(kind)
            scale, zero = np.array(0.25, F32), np.array((low + high + 1) // 2 + 2)
            q = quantised(x, scale, zero, kind)
            one(f"quantize_{kind}_{opset}", "QuantizeLinear", [x, scale, held(zero, kind)], [held(q, kind)], opset)
            one(f"dequantize_{kind}_{opset}", "DequantizeLinear", [held(q, kind), scale, held(zero, kind)],
                [((q - zero) * scale).astype(F32)], opset)
        each, zeros = np.abs(floats(7)) + F32(0.1), RANDOM.integers(-20, 20, 7)
        along = (slice(None), None)
        q = quantised(x, each[along], zeros[along], "int8")
        one(f"quantize_axis_{opset}", "QuantizeLinear", [x, each, held(zeros, "int8")], [held(q, "int8")], opset,
            [1, 2], axis=-2)
        one(f"dequantize_axis_{opset}", "DequantizeLinear", [held(q, "int8"), each, held(zeros, "int8")],
            [((q - zeros[along]) * each[along]).astype(F32)], opset, axis=1)
    for kind, axis, size in (("int8", 1, 3), ("uint4", 2, 2), ("int4", 0, 3), ("int16", -2, 2), ("uint8", 1, 100)):
        low, high = bounds(kind)
        shape = list(x.shape)
        shape[axis] = -(-shape[axis] // size)
        scale = (np.abs(floats(*shape)) + 0.25).astype(F32)
        zero = RANDOM.integers(low // 4, high // 4 + 1, shape)
        wide_scale, wide_zero = (blocked(v, axis, size, x.shape[axis]) for v in (scale, zero))
        q = quantised(x, wide_scale, wide_zero, kind)
        one(f"quantize_blocks_{kind}_21", "QuantizeLinear", [x, scale, held(zero, kind)], [held(q, kind)], 21,
            axis=axis, block_size=size)
        one(f"dequantize_blocks_{kind}_21", "DequantizeLinear", [held(q, kind), scale, held(zero, kind)],
            [((q - wide_zero) * wide_scale).astype(F32)], 21, [1, 2], axis=axis, block_size=size)
    scale = np.array(0.5, F32)
    for kind, number in (("int8", 3), ("uint16", 4), ("int4", 22)):
        one(f"quantize_output_{kind}_21", "QuantizeLinear", [x, scale], [held(quantised(x, scale, 0, kind), kind)], 21,
            output_dtype=number)
    one("quantize_empty_blocks_21", "QuantizeLinear", [x[:, :0], np.ones((3, 0, 4), F32)],
        [np.zeros((3, 0, 4), np.uint8)], 21, axis=1, block_size=2)
    wide = np.array([-40000, -1, 0, 2**20], np.int32)
    one("dequantize_int32_21", "DequantizeLinear", [wide, scale], [(wide * scale).astype(F32)], 21)
    half = np.array(0.5, np.float16)
    one("dequantize_uint16_float16_21", "DequantizeLinear", [np.array([65535, 60000], np.uint16), half,
                                                             np.array(65000, np.uint16)],
        [np.array([267.5, -2500], np.float16)], 21)
    a, b = (RANDOM.integers(0, 256, n).astype(np.uint8) for n in ((2, 3), (3, 4)))
    zeros = [np.array(v, np.uint8) for v in (120, 130, 110)]
    sums = (a.astype(int) - 120) @ (b.astype(int) - 130)
    for kind in (np.float32, np.float16):
        scales = [np.array(v, kind) for v in (0.5, 0.25, 16)]
        y = np.clip(np.rint(sums * (0.125 / 16)) + 110, 0, 255).astype(np.uint8)
        one(f"qlinear_matmul_{np.dtype(kind).name}_21", "QLinearMatMul",
            [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]], [y], 21)


def narrow_types():
    x = np.array([[-9.6, -8, -0.5, 0.5, 1.5], [2.5, 6.6, 7.4, 15.5, np.nan]], F32)
    for kind, number in (("int4", 22), ("uint4", 21)):
        low, high = bounds(kind)
        one(f"cast_float_{kind}_21", "Cast", [x], [held(np.nan_to_num(np.clip(np.rint(x), low, high)), kind)], 21,
            to=number)
        values = held(RANDOM.integers(low, high + 1, (3, 5)), kind)
        plain = values.array
        one(f"cast_{kind}_float_21", "Cast", [values], [plain.astype(F32)], 21, to=1)
        one(f"cast_{kind}_int8_21", "Cast", [values], [plain.astype(np.int8)], 21, to=3)
        wide = np.array([-129, -9, -1, 0, 7, 8, 200, 70000], np.int32)
        low_bits = ((wide & 15) ^ 8) - 8 if kind == "int4" else wide & 15
        one(f"cast_int32_{kind}_21", "Cast", [wide], [held(low_bits, kind)], 21, to=number)
        one(f"cast_like_{kind}_21", "CastLike", [wide, values], [held(low_bits, kind)], 21)
        # the type goes along with what only moves
        case(f"moved_{kind}_21", [node("Transpose", ["x"], ["t"]), node("Reshape", ["t", "n"], ["r"]),
                                  node("CastLike", ["w", "r"], ["y"])],
             {"x": values, "w": wide}, {"y": held(low_bits, kind)}, 21, {"n": ints(-1)})
        case(f"constant_{kind}_21", [node("Constant", [], ["c"], value=values), node("Cast", ["c"], ["f"], to=1),
                                     node("Add", ["x", "f"], ["y"])],
             {"x": x[0]}, {"y": x[0] + plain}, 21)
        one(f"constant_of_shape_{kind}_21", "ConstantOfShape", [ints(2, 3)], [held(np.full((2, 3), 5), kind)], 21,
            value=held(np.array([5]), kind))
    one("cast_like_float16_19", "CastLike", [x, np.zeros(1, np.float16)], [x.astype(np.float16)], 19)
    case("constant_19", [node("Constant", [], ["c"], value=x[0]), node("Add", ["x", "c"], ["y"])], {"x": x[0]},
         {"y": x[0] * 2}, 19)


def shapes():
    x = floats(2, 3, 4)
    one("shape_21", "Shape", [x], [ints(3, 4)], 21, start=1)
    one("size_19", "Size", [x], [np.array(24, I64)], 19)
    one("pad_21", "Pad", [x, ints(1, 2), None, ints(-1)], [np.pad(x, ((0, 0), (0, 0), (1, 2)), mode="reflect")], 21,
        mode="reflect")


def windows():
    x = floats(1, 2, 9, 8)
    for name, out, attributes in (
            ("dilations", (3, 4), {"dilations": [2, 1], "strides": [2, 2]}),
            ("ceil", (4, 4), {"strides": [2, 2], "ceil_mode": 1}),
            ("ceil_pads", (5, 4), {"strides": [2, 2], "ceil_mode": 1, "pads": [1, 0, 1, 1], "count_include_pad": 1})):
        wanted = pool("avg_pool", x, (1, 2) + out, [3, 2], attributes.get("count_include_pad", 0),
                      strides=attributes["strides"], padding=attributes.get("pads"),
                      dilations=attributes.get("dilations"))
        one(f"average_pool_{name}_19", "AveragePool", [x], [wanted.astype(F32)], 19, kernel_shape=[3, 2], **attributes)
    # a window beyond the padding counts what is inside it, padding included
    one("average_pool_overhang_19", "AveragePool", [np.arange(1, 6, dtype=F32).reshape(1, 1, 5)],
        [np.array([[[1.5, 3.5, 5]]], F32)], 19, kernel_shape=[2], strides=[2], ceil_mode=1, count_include_pad=1)
    columns = floats(2, 2 * 6, 12)
    one("col2im_18", "Col2Im", [columns, ints(4, 5), ints(2, 3)],
        [col2im(columns, (2, 2, 4, 5), [4, 5], [2, 3], padding=[1, 0, 0, 0]).astype(F32)], 18, pads=[1, 0, 0, 0])
    image, weight, bias = floats(2, 4, 6, 6), floats(4, 2, 3, 2), floats(4)
    offset, mask = floats(2, 2 * 2 * 6, 4, 5), np.abs(floats(2, 2 * 6, 4, 5))
    for name, inputs in (("", [image, weight, offset]), ("_bias_mask", [image, weight, offset, bias, mask])):
        wanted = deform_conv(image, offset, weight, *([mask, bias] if name else []), groups=2, offset_groups=2)
        one(f"deform_conv{name}_19", "DeformConv", inputs, [wanted.astype(F32)], 19, group=2, offset_group=2)


def grids():
    x, grid = floats(1, 2, 5, 4), np.clip(floats(1, 3, 3, 2), -1.5, 1.5)
    modes = {"linear": "linear", "nearest": "nearest", "cubic": "cubic"}
    for mode, ours in modes.items():
        for padding in ("zeros", "border", "reflection"):
            one(f"grid_sample_{mode}_{padding}_20", "GridSample", [x, grid],
                [grid_sample(x, grid, (1, 2, 3, 3), ours, padding).astype(F32)], 20, mode=mode, padding_mode=padding)
    x, grid = floats(1, 2, 3, 4, 5), np.clip(floats(1, 2, 2, 3, 3), -1.2, 1.2)
    for mode in ("linear", "nearest"):
        one(f"grid_sample_5d_{mode}_20", "GridSample", [x, grid],
            [grid_sample(x, grid, (1, 2, 2, 2, 3), mode, "zeros", 1).astype(F32)], 20, mode=mode, align_corners=1)


def resizing():
    x = floats(1, 2, 6, 8)

    def resized(out, **a):
        y = np.stack([interpolate(plane, x.shape[2:], out, False, **a) for plane in x.reshape(2, 6, 8)])
        return y.reshape((1, 2) + tuple(out)).astype(F32)
    for opset in (18, 19):
        for mode in ("linear", "cubic"):
            one(f"resize_antialias_{mode}_{opset}", "Resize", [x, None, None, ints(1, 2, 3, 5)],
                [resized((3, 5), mode=mode, antialias=1)], opset, mode=mode, antialias=1)
        one(f"resize_axes_{opset}", "Resize", [x, None, np.array([1.5, 0.5], F32)],
            [resized((9, 4), scales=[1.5, 0.5])], opset, mode="linear", axes=[2, 3])
        one(f"resize_axes_turned_{opset}", "Resize", [x, None, None, ints(4, 9)],
            [resized((9, 4))], opset, mode="linear", axes=[3, 2])
        for policy, out in (("not_larger", (3, 4)), ("not_smaller", (4, 5))):
            factor = min(4 / 6, 4 / 8) if policy == "not_larger" else max(4 / 6, 4 / 8)
            one(f"resize_{policy}_{opset}", "Resize", [x, None, None, ints(4, 4)],
                [resized(out, scales=[factor, factor])], opset, mode="linear", axes=[2, 3],
                keep_aspect_ratio_policy=policy)
    one("resize_half_pixel_symmetric_19", "Resize", [x, None, np.array([1, 1, 0.6, 1.3], F32)],
        [resized((3, 10), coordinates="half_pixel_symmetric", scales=[F32(0.6), F32(1.3)])], 19, mode="linear",
        coordinate_transformation_mode="half_pixel_symmetric")


def scattering():
    x, updates = floats(4, 5), floats(3, 5)
    rows = RANDOM.integers(0, 4, (3, 5)).astype(I64)
    pairs = np.array([[1, 2], [3, 0], [1, 2]], I64)
    for mode in ("add", "mul", "max", "min"):
        one(f"scatter_elements_{mode}_18", "ScatterElements", [x, rows - 4 * (rows > 2), updates],
            [scatter(x, updates, rows, 0, mode).astype(F32)], 18, reduction=mode)
        one(f"scatter_nd_{mode}_18", "ScatterND", [x, pairs, updates[:, 0]],
            [scatter_nd(x, updates[:, 0], pairs, mode).astype(F32)], 18, reduction=mode)


def control():
    x = floats(3)
    then, other = (Graph([node(op, ["x"], ["r"])], {}, {"r": x}) for op in ("Neg", "Abs"))
    for flag in (True, False):
        case(f"if_{str(flag).lower()}_21", [node("If", ["f"], ["y"], then_branch=then, else_branch=other)],
             {"f": np.array(flag), "x": x}, {"y": -x if flag else np.abs(x)}, 21)
    body = Graph([node("Identity", ["c"], ["c2"]), node("Add", ["v", "x"], ["w"])],
                 {"i": np.array(0, I64), "c": np.array(True), "v": x}, {"c2": np.array(True), "w": x})
    case("loop_21", [node("Loop", ["n", "", "x"], ["y"], body=body)], {"n": np.array(3, I64), "x": x}, {"y": x * 4}, 21)
    rows = floats(4, 3)
    step = Graph([node("Add", ["s", "v"], ["s2"]), node("Identity", ["s2"], ["o"])], {"s": x, "v": x},
                 {"s2": x, "o": x})
    case("scan_21", [node("Scan", ["z", "x"], ["y", "all"], body=step, num_scan_inputs=1)],
         {"z": x, "x": rows}, {"y": x + rows.sum(0), "all": x + np.cumsum(rows, 0)}, 21)


def make():
    for part in (quantisation, narrow_types, shapes, windows, grids, resizing, scattering, control,
                 weights_of_few_bits, dequantised_weights):
        part()
