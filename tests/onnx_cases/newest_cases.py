# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of opsets 22 to 28: an earlier case again where an operator only took more element types, bfloat16 where it
did so at 22, and the new operators, written from ONNX's text."""
from case_writer import F32, I64, RANDOM, again, case, floats, ints, np, one
from numpy_data import depth_to_space, space_to_depth
from numpy_nn import sigmoid
from numpy_window import roi_align
from onnx_writer import Brain, Graph, Narrow, node

INFINITY = np.float32(np.inf)


def brain(op, inputs, wanted, opset, **attributes):
    """In bfloat16, of arrays in f32; `wanted` of them as rounded."""
    inputs = [Brain(x) for x in inputs]
    one(f"{op.lower()}_bfloat16_{opset}", op, inputs, [Brain(wanted(*(x.array for x in inputs)))], opset, **attributes)


def more_types():
    for op in ("AveragePool", "DeformConv", "Dropout", "Elu", "GRU", "GlobalLpPool", "GridSample", "HardSigmoid",
               "InstanceNormalization", "LSTM", "LpPool", "MaxPool", "MaxRoiPool", "MaxUnpool", "Mish",
               "NegativeLogLikelihoodLoss", "RNN", "Selu", "ThresholdedRelu"):
        again(op, 22)
    for op in ("CastLike", "ConstantOfShape", "Flatten", "Identity", "If", "Loop", "Pad", "Reshape", "Scan", "Shape",
               "Size", "Squeeze", "Transpose", "Unsqueeze", "Constant"):
        again(op, 23, 24, 25)
    for op in ("Cast", "DequantizeLinear", "QuantizeLinear"):
        again(op, 23, 24, 25, 28)
    for op in ("SplitToSequence", "TopK"):
        again(op, 24)
    for op in ("Compress", "DepthToSpace", "OneHot", "OptionalGetElement", "OptionalHasElement", "ReduceLogSum",
               "ReduceLogSumExp", "Unique"):
        again(op, 28)
    x = floats(3, 4)
    small, large = np.clip(x, -0.9, 0.9), np.abs(x) + 1
    for op, f, y in (("Acos", np.arccos, small), ("Acosh", np.arccosh, large), ("Asin", np.arcsin, small),
                     ("Asinh", np.arcsinh, x), ("Atan", np.arctan, x), ("Atanh", np.arctanh, small), ("Cos", np.cos, x),
                     ("Cosh", np.cosh, x), ("Sin", np.sin, x), ("Sinh", np.sinh, x), ("Tan", np.tan, small),
                     ("HardSwish", lambda v: v * np.clip(v / 6 + 0.5, 0, 1), x * 4),
                     ("Softplus", lambda v: np.log1p(np.exp(v)), x), ("Softsign", lambda v: v / (1 + np.abs(v)), x)):
        one(f"{op.lower()}_22", op, [y], [f(y.astype(np.float64)).astype(F32)], 22)
    one("celu_28", "Celu", [x], [np.where(x > 0, x, 2 * np.expm1(x / 2)).astype(F32)], 28, alpha=2.0)
    one("celu_float16_28", "Celu", [np.array([-65504, 3], np.float16)], [np.array([-1, 3], np.float16)], 28)
    brain("Round", [x * 4], np.rint, 22)
    brain("ThresholdedRelu", [x], lambda v: np.where(v > 1, v, 0), 22)
    brain("GlobalMaxPool", [floats(2, 3, 4)], lambda v: v.max(2, keepdims=True), 22)
    brain("GlobalAveragePool", [RANDOM.integers(-8, 8, (2, 3, 4))], lambda v: v.mean(2, keepdims=True), 22)
    brain("Det", [np.array([[[2, 1], [3, 4]], [[1, 2], [-3, 8]]])], lambda v: np.array([5, 14]), 22)
    whole = RANDOM.integers(-3, 4, (1, 2, 5)).astype(F32)
    taps = RANDOM.integers(-2, 3, (2, 2, 3)).astype(F32)
    seen = np.lib.stride_tricks.sliding_window_view(whole, 3, 2)
    brain("Conv", [whole, taps], lambda v, w: np.einsum("nclk,ock->nol", seen, w), 22)
    spread = np.zeros((1, 2, 7), F32)
    for k in range(3):
        spread[:, :, k:k + 5] += np.einsum("ncl,co->nol", whole, taps[:, :, k])
    brain("ConvTranspose", [whole, taps], lambda v, w: spread, 22)
    brain("Einsum", [whole[0], taps[:, 0]], lambda a, b: np.einsum("ij,ik->jk", a, b), 28, equation="ij,ik->jk")
    image, boxes, batch = floats(1, 2, 6, 5), np.array([[0, 0, 3, 4], [1, 1.5, 4, 5]], F32), ints(0, 0)
    wanted = roi_align(image, boxes, batch, (2, 2, 2, 2), [2, 2], coordinates="half_pixel", sampling_ratio=2)
    one("roi_align_22", "RoiAlign", [image, boxes, batch], [wanted.astype(F32)], 22, output_height=2, output_width=2,
        sampling_ratio=2)
    lengths = ints(1, 3, 2, 2)
    turned = x.copy()
    for column, n in enumerate(lengths):
        turned[:n, column] = x[:n, column][::-1]
    one("reversesequence_28", "ReverseSequence", [x, lengths], [turned], 28, time_axis=0, batch_axis=1)
    case("optional_28", [node("OptionalHasElement", ["x"], ["y"])], {"x": x}, {"y": np.array(True)}, 28)
    case("optional_made_28", [node("Optional", ["x"], ["o"]), node("OptionalGetElement", ["o"], ["y"])], {"x": x},
         {"y": x}, 28)


def drawn():
    """What is certain although it is drawn."""
    ends = np.array([[0, 1], [1, 0]], F32)
    one("bernoulli_certain_22", "Bernoulli", [ends], [ends], 22)
    one("multinomial_certain_22", "Multinomial", [np.array([[-1000, 0, -1000], [0, -1000, -1000]], F32)],
        [np.array([[1, 1, 1], [0, 0, 0]], np.int32)], 22, sample_size=3)
    two = np.full((2, 3), 2, F32)
    one("random_normal_certain_22", "RandomNormal", [], [two], 22, mean=2.0, scale=0.0, shape=[2, 3])
    one("random_normal_like_certain_22", "RandomNormalLike", [two * 5], [two], 22, mean=2.0, scale=0.0)
    one("random_uniform_certain_22", "RandomUniform", [], [two], 22, low=2.0, high=2.0, shape=[2, 3])
    one("random_uniform_like_certain_22", "RandomUniformLike", [two * 5], [two], 22, low=2.0, high=2.0)


def changed():
    """Operators whose meaning grew."""
    x = floats(2, 3, 4)
    x[0, 1] = 0
    size = np.abs(x).sum(2, keepdims=True)
    one("lp_normalization_zero_22", "LpNormalization", [x], [x / np.where(size == 0, 1, size)], 22, p=1)
    size = np.sqrt((x * x).sum(1, keepdims=True))
    one("lp_normalization_22", "LpNormalization", [x], [x / np.where(size == 0, 1, size)], 22, axis=1)
    one("lp_normalization_zero_1", "LpNormalization", [np.zeros((1, 2), F32)], [np.full((1, 2), np.nan, F32)], 1)
    one("eye_like_22", "EyeLike", [floats(2, 3)], [np.eye(2, 3, 1, np.float16)], 22, k=1, dtype=10)
    one("range_float16_27", "Range", [np.array(v, np.float16) for v in (0.1, 30, 0.3)],
        [(F32(np.float16(0.1)) + np.arange(100) * F32(np.float16(0.3))).astype(np.float16)[:100]], 27, stash_type=1)
    one("range_bfloat16_27", "Range", [Brain(np.array(v)) for v in (250, 262, 2)],
        [Brain(np.array([250, 252, 254, 256, 258, 260]))], 27)
    a, b = np.array([-7, 7, -7, 5], np.int32), np.array([3, -3, -3, 5], np.int32)
    one("mod_28", "Mod", [a, b], [a % b], 28)
    one("mod_fmod_28", "Mod", [a, b], [np.fmod(a, b)], 28, fmod=1)
    c, d = np.array([-5.5, 5.5, 0], F32), np.array([3, -3, -3], F32)
    one("mod_float_28", "Mod", [c, d], [np.mod(c, d)], 28)
    z = floats(1, 2, 4, 6)
    for mode in ("DCR", "CRD"):
        wide = space_to_depth(z, 2, mode.lower())
        one(f"space_to_depth_{mode.lower()}_28", "SpaceToDepth", [z], [wide], 28, blocksize=2, mode=mode)
        one(f"depth_to_space_{mode.lower()}_28", "DepthToSpace", [wide], [depth_to_space(wide, 2, mode.lower())], 28,
            blocksize=2, mode=mode)
    shifted = np.array([-128, -3, 77, -128, -3, 77], np.int8)
    amounts = np.array([1, 1, 2, 8, -1, 100], np.int8)
    one("bit_shift_right_signed_28", "BitShift", [shifted, amounts], [np.array([-64, -2, 19, -1, -1, 0], np.int8)], 28,
        direction="RIGHT")
    one("bit_shift_right_constant_28", "BitShift", [shifted, np.array(-1, np.int8)],
        [np.array([-1, -1, 0, -1, -1, 0], np.int8)], 28, [1], direction="RIGHT")
    one("bit_shift_left_signed_28", "BitShift", [shifted, amounts], [np.array([0, -6, 52, 0, 0, 0], np.int8)], 28,
        direction="LEFT")
    wide = np.array([-9, -8, 7, 8, 15.4, 16], F32)
    for opset in (23, 28):
        one(f"cast_float_int4_low_bits_{opset}", "Cast", [wide], [Narrow(np.array([7, -8, 7, -8, -1, 0]), "int4")],
            opset, to=22)
        one(f"cast_like_uint4_low_bits_{opset}", "CastLike", [wide, Narrow(np.array([1]), "uint4")],
            [Narrow(np.array([7, 8, 7, 8, 15, 0]), "uint4")], opset)
    for opset in (25, 28):
        one(f"cast_float_int2_low_bits_{opset}", "Cast", [wide], [Narrow(np.array([-1, 0, -1, 0, -1, 0]), "int2")],
            opset, to=26)
        one(f"cast_float_uint2_low_bits_{opset}", "Cast", [wide], [Narrow(np.array([3, 0, 3, 0, 3, 0]), "uint2")],
            opset, to=25)
    q, scale = np.array([[-128, 5], [127, 0]], np.int8), np.array(0.75, np.float16)
    one("dequantize_output_dtype_23", "DequantizeLinear", [q, scale], [(q * F32(0.75)).astype(F32)], 23, output_dtype=1)
    one("dequantize_output_half_23", "DequantizeLinear", [q, scale.astype(F32)], [(q * F32(0.75)).astype(np.float16)],
        23, output_dtype=10)
    one("dequantize_no_output_dtype_23", "DequantizeLinear", [q, scale], [(q * F32(0.75)).astype(np.float16)], 23,
        output_dtype=0)
    y = np.array([1.0004883, 100.3, -7.26, 0.5], F32)
    one("quantize_precision_23", "QuantizeLinear", [y, np.array(0.01, F32)],
        [np.clip(np.rint(y.astype(np.float16) / np.float16(0.01)).astype(int), 0, 255).astype(np.uint8)], 23,
        precision=10)


def new_elementwise():
    x, y = floats(3, 4), floats(3, 4)
    for alpha in (1.0, 1.7):
        wanted = x * sigmoid(alpha * x.astype(np.float64))
        one(f"swish_{alpha:g}_24", "Swish", [x], [wanted.astype(F32)], 24, alpha=alpha)
        one(f"swiglu_{alpha:g}_28", "SwiGLU", [x, y], [(wanted * y).astype(F32)], 28, alpha=alpha)
    one("cum_prod_26", "CumProd", [x, np.array(-1, np.int32)], [np.cumprod(x, 1)], 26)
    backwards = np.cumprod(x[::-1], 0)[::-1]
    one("cum_prod_reverse_26", "CumProd", [x, np.array(0, I64)],
        [np.concatenate((backwards[1:], np.ones((1, 4), F32)))], 26, reverse=1, exclusive=1)
    one("bit_cast_int_26", "BitCast", [x], [x.view(np.int32)], 26, to=6)
    one("bit_cast_float_26", "BitCast", [x.view(np.uint32)], [x], 26, to=1)
    one("bit_cast_unsigned_26", "BitCast", [np.array([-1, 5, -128], np.int8)], [np.array([255, 5, 128], np.uint8)], 26,
        to=2)
    one("bit_cast_half_26", "BitCast", [x.astype(np.float16)], [x.astype(np.float16).view(np.uint16)], 26, to=4)
    one("bit_cast_wide_26", "BitCast", [x.astype(np.float64)], [x.astype(np.float64).view(np.int64)], 26, to=7)
    case("bit_cast_between_26", [node("Add", ["x", "y"], ["s"]), node("BitCast", ["s"], ["b"], to=6),
                                 node("BitwiseAnd", ["b", "m"], ["c"]), node("BitCast", ["c"], ["z"], to=1)],
         {"x": x, "y": y}, {"z": np.abs(x + y)}, 26, {"m": np.array(0x7FFFFFFF, np.int32)})
    z = floats(2, 3, 4)
    for name, axis, dims in (("last", -1, (4,)), ("two", 1, (3, 4)), ("broadcast", -2, (4,)), ("wider", -1, (3, 4))):
        scale = floats(*dims)
        axes = tuple(range(axis % 3, 3))
        wide = z.astype(np.float64)
        size = np.sqrt((wide * wide).mean(axes, keepdims=True) + 1e-3)
        one(f"rms_normalization_{name}_23", "RMSNormalization", [z, scale], [(wide / size * scale).astype(F32)], 23,
            axis=axis, epsilon=1e-3)
    half = (np.arange(-6, 6).reshape(3, 4) * 100).astype(np.float16)
    wide = half.astype(F32)
    size = np.sqrt((wide * wide).mean(1, keepdims=True) + F32(1e-5))
    one("rms_normalization_half_23", "RMSNormalization", [half, np.full(4, 2, np.float16)],
        [(wide / size).astype(np.float16) * np.float16(2)], 23)  # squares that f16 has not


# ---- decoders of text ----

def attend(q, k, v, seen=None, bias=None, scale=None, cap=0):
    """Four axes; `seen` and `bias` broadcast to the scores. The steps of the scores, and the result."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    steps = [np.einsum("bhid,bhjd->bhij", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)]
    steps.append(np.tanh(steps[0] / cap) * cap if cap else steps[0])
    scores = steps[1] + (0 if bias is None else bias)
    scores = np.where(True if seen is None else seen, scores, -np.inf)
    steps.append(scores)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = e.sum(-1, keepdims=True)
    steps.append(e / np.where(total == 0, 1, total))
    return [s.astype(F32) for s in steps], np.einsum("bhij,bhjd->bhid", steps[3], v).astype(F32)


def rows_and_keys(rows, keys, offset=0):
    return np.arange(rows)[:, None] + offset, np.arange(keys)[None, :]


def flat(x):
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)


def attention():
    q, k, v = floats(2, 4, 5, 8), floats(2, 4, 6, 8), floats(2, 4, 6, 3)
    for opset in (23, 24, 25):
        one(f"attention_{opset}", "Attention", [q, k, v], [attend(q, k, v)[1]], opset)
    i, j = rows_and_keys(5, 6)
    one("attention_causal_23", "Attention", [q, k, v], [attend(q, k, v, j <= i, scale=0.25)[1]], 23, is_causal=1,
        scale=0.25)
    one("attention_flat_23", "Attention", [flat(q), flat(k), flat(v)], [flat(attend(q, k, v)[1])], 23, q_num_heads=4,
        kv_num_heads=4)
    shared_k, shared_v = k[:, :2], v[:, :2]
    flags = RANDOM.integers(0, 2, (2, 1, 5, 6)) > 0
    flags[1, 0, 2] = False  # a row that sees nothing
    bias = floats(4, 5, 6)
    by_head = np.repeat(flags[0], 4, 0)
    masks = (("flags", flags, flags, None), ("flags_by_head", by_head, by_head, None),
             ("bias", bias, None, bias), ("short", bias[0, :, :4], j < 4, np.pad(bias[0, :, :4], ((0, 0), (0, 2)))),
             ("row", flags[0, 0, 0], flags[0, 0, 0], None))
    for name, mask, seen, added in masks:
        one(f"attention_{name}_23", "Attention", [q, k, v, mask], [attend(q, k, v, seen, added)[1]], 23)
        one(f"attention_shared_{name}_24", "Attention", [q, shared_k, shared_v, mask],
            [attend(q, shared_k, shared_v, seen, added)[1]], 24)
        one(f"attention_shared_constant_{name}_24", "Attention", [q, shared_k, shared_v, mask],
            [attend(q, shared_k, shared_v, seen, added)[1]], 24, [3])
    hidden = np.where(flags, 0, -INFINITY).astype(F32)
    one("attention_blind_bias_23", "Attention", [q, k, v, hidden], [attend(q, k, v, flags)[1]], 23)
    one("attention_flags_causal_cap_23", "Attention", [q, shared_k, shared_v, flags],
        [attend(q, shared_k, shared_v, flags & (j <= i), cap=2)[1]], 23, is_causal=1, softcap=2.0)
    for mode in range(4):
        steps, y = attend(q, shared_k, shared_v, j <= i, bias, 0.5, 1.5)
        one(f"attention_scores_{mode}_23", "Attention", [q, shared_k, shared_v, bias],
            [y, shared_k, shared_v, steps[mode]], 23, is_causal=1, softcap=1.5, scale=0.5, qk_matmul_output_mode=mode)
    one("attention_scores_blind_24", "Attention", [q, k, v, flags],
        [attend(q, k, v, flags)[1], k, v, attend(q, k, v, flags)[0][3]], 24, qk_matmul_output_mode=3)
    one("attention_softmax_double_23", "Attention", [q, k, v], [attend(q, k, v)[1]], 23, softmax_precision=11)
    caches()
    windows()


def flexible():
    """FlexAttention of ai.onnx.preview: graphs that change scores and shares."""
    q, k, v = floats(2, 4, 3, 8), floats(2, 2, 5, 8), floats(2, 2, 5, 6)
    blank = np.zeros((2, 4, 3, 5), F32)
    more = floats(3, 5)
    lower = Graph([node("Add", ["s", "more"], ["t"])], {"s": blank}, {"t": blank})
    halve = Graph([node("Mul", ["p", "half"], ["h"])], {"p": blank}, {"h": blank})
    for name, graphs, bias, factor in (("plain", {}, None, 1), ("scores", {"score_mod": lower}, more, 1),
                                       ("shares", {"prob_mod": halve}, None, 0.5),
                                       ("both", {"score_mod": lower, "prob_mod": halve}, more, 0.5)):
        case(f"flex_attention_{name}_26", [node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview",
                                                scale=0.3, **graphs)],
             {"q": q, "k": k, "v": v, "more": more, "half": np.array(0.5, F32)},
             {"y": attend(q, k, v, bias=bias, scale=0.3)[1] * F32(factor)}, 26)


def caches():
    q, k, v = floats(2, 4, 3, 8), floats(2, 2, 3, 8), floats(2, 2, 3, 6)
    past_k, past_v = floats(2, 2, 5, 8), floats(2, 2, 5, 6)
    all_k, all_v = np.concatenate((past_k, k), 2), np.concatenate((past_v, v), 2)
    i, j = rows_and_keys(3, 8, 5)
    y = attend(q, all_k, all_v, j <= i)[1]
    for opset in (23, 24, 25):
        one(f"attention_past_{opset}", "Attention", [q, k, v, None, past_k, past_v], [y, all_k, all_v], opset,
            is_causal=1)
    one("attention_past_flat_24", "Attention", [flat(q), flat(k), flat(v), None, past_k, past_v],
        [flat(y), all_k, all_v], 24, is_causal=1, q_num_heads=4, kv_num_heads=2)
    one("attention_past_step_24", "Attention", [q[:, :, :1], k[:, :, :1], v[:, :, :1], None, past_k, past_v],
        [attend(q[:, :, :1], all_k[:, :, :6], all_v[:, :, :6])[1], all_k[:, :, :6], all_v[:, :, :6]], 24, is_causal=1)
    lengths = ints(2, 7)  # the first sample's rows outnumber its keys: one sees nothing
    first = (lengths - 3)[:, None, None, None]
    seen = (np.arange(8) < lengths[:, None, None, None]) & (np.arange(8) <= np.arange(3)[:, None] + first)
    padding = [q, all_k, all_v, None, None, None, lengths]
    one("attention_lengths_24", "Attention", padding,
        [attend(q, all_k, all_v, np.arange(8) < lengths[:, None, None, None])[1]], 24)
    one("attention_lengths_causal_24", "Attention", padding, [attend(q, all_k, all_v, seen)[1]], 24, is_causal=1)


def windows():
    q, k, v = floats(1, 2, 4, 8), floats(1, 2, 6, 8), floats(1, 2, 6, 8)
    i, j = rows_and_keys(4, 6)
    one("attention_window_25", "Attention", [q, k, v], [attend(q, k, v, (i - 2 <= j) & (j <= i + 1))[1]], 25,
        left_window_size=2, right_window_size=1)
    one("attention_window_causal_25", "Attention", [q, k, v], [attend(q, k, v, (i - 1 <= j) & (j <= i))[1]], 25,
        left_window_size=1, is_causal=1)
    one("attention_window_behind_25", "Attention", [q, k[:, :, :2], v[:, :, :2]],
        [attend(q, k[:, :, :2], v[:, :, :2], (i - 1 <= j)[:, :2])[1]], 25, left_window_size=1)  # row 3 sees nothing
    lengths = ints(5)
    seen = (j < 5) & (j <= i + 1) & (i + 1 - 1 <= j)
    one("attention_window_lengths_25", "Attention", [q, k, v, None, None, None, lengths], [attend(q, k, v, seen)[1]],
        25, left_window_size=1, is_causal=1)


def rotate(x, cosine, sine, neighbours=False):
    """[.., rows, size] with [rows, size / 2]"""
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if neighbours else (x[..., :half], x[..., half:])
    parts = a * cosine - b * sine, a * sine + b * cosine
    return np.stack(parts, -1).reshape(x.shape) if neighbours else np.concatenate(parts, -1)


def positions():
    x, angle = floats(2, 3, 5, 8), floats(10, 4)
    cosine, sine = np.cos(angle), np.sin(angle)
    places = RANDOM.integers(0, 10, (2, 5))
    for neighbours in (0, 1):
        wanted = rotate(x, cosine[places][:, None], sine[places][:, None], neighbours)
        one(f"rotary_{neighbours}_23", "RotaryEmbedding", [x, cosine, sine, places], [wanted], 23,
            interleaved=neighbours)
        one(f"rotary_flat_{neighbours}_23", "RotaryEmbedding", [flat(x), cosine[places], sine[places]], [flat(wanted)],
            23, interleaved=neighbours, num_heads=3)
        part = np.concatenate((rotate(x[..., :4], cosine[places][:, None, :, :2], sine[places][:, None, :, :2],
                                      neighbours), x[..., 4:]), -1)
        one(f"rotary_part_{neighbours}_23", "RotaryEmbedding", [x, cosine[:, :2].copy(), sine[:, :2].copy(), places],
            [part], 23, interleaved=neighbours, rotary_embedding_dim=4)


def scattered_caches():
    cache, update = floats(2, 3, 6, 4), floats(2, 3, 2, 4)
    wanted = cache.copy()
    wanted[:, :, :2] = update
    one("tensor_scatter_24", "TensorScatter", [cache, update], [wanted], 24)
    for mode, first in (("linear", ints(1, 4)), ("circular", ints(5, 10))):
        wanted = cache.copy()
        for sample, place in np.ndindex(2, 2):
            wanted[sample, :, (first[sample] + place) % 6] = update[sample, :, place]
        one(f"tensor_scatter_{mode}_24", "TensorScatter", [cache, update, first], [wanted], 24, mode=mode)
    rows = RANDOM.integers(0, 9, (2, 5)).astype(np.int16)
    wanted = rows.copy()
    wanted[0, 3:], wanted[1, :2] = 7, 8
    one("tensor_scatter_axis_24", "TensorScatter", [rows, np.array([[7, 7], [8, 8]], np.int16), ints(3, 0)], [wanted],
        24, axis=1)


def causal_convolutions():
    x, weight, bias, past = floats(2, 3, 6), floats(3, 1, 4), floats(3), floats(2, 3, 3)
    for name, inputs, length in (("", [x, weight], 6), ("_bias", [x, weight, bias], 6),
                                 ("_past", [x, weight, None, past], 6), ("_step", [x, weight, bias, past], 1)):
        before = np.zeros_like(past) if len(inputs) < 4 else past
        inputs = [x[:, :, :length]] + inputs[1:]
        whole = np.concatenate((before, inputs[0]), 2)
        y = np.einsum("nclk,ck->ncl", np.lib.stride_tricks.sliding_window_view(whole, 4, 2), weight[:, 0])
        y = y + bias[:, None] if len(inputs) > 2 and inputs[2] is not None else y
        one(f"causal_conv{name}_27", "CausalConvWithState", inputs, [y.astype(F32), whole[:, :, -3:]], 27)
        one(f"causal_conv_silu{name}_27", "CausalConvWithState", inputs,
            [(y * sigmoid(y.astype(np.float64))).astype(F32), whole[:, :, -3:]], 27, activation="silu")


def go_along(q, k, v, state, decay, rate, scale):
    """[batch, rows, heads, size]; the recurrence as ONNX writes it, token by token."""
    out = np.zeros(q.shape[:3] + v.shape[3:])
    for t in range(q.shape[1]):
        for b, h in np.ndindex(k.shape[0], k.shape[2]):
            s = state[b, h] * (np.exp(decay[b, t, h])[:, None] if decay is not None else 1)
            more = v[b, t, h]
            if rate is not None:
                more = rate[b, t, h % rate.shape[2]] * (more - s.T @ k[b, t, h])
            state[b, h] = s + np.outer(k[b, t, h], more)
            for g in range(q.shape[2] // k.shape[2]):
                at = h * (q.shape[2] // k.shape[2]) + g
                out[b, t, at] = scale * (q[b, t, at] @ state[b, h])
    return out


def linear_attention():
    batch, rows, heads, shared, size, width = 2, 5, 4, 2, 3, 6
    q, k = floats(batch, rows, heads, size), floats(batch, rows, shared, size) / 2
    v = floats(batch, rows, shared, width)
    decay, rate = -np.abs(floats(batch, rows, shared, size)), np.abs(floats(batch, rows, shared, 1)) / 2
    state = floats(batch, shared, size, width)
    forms = (("linear", None, None, state), ("gated", decay, None, None), ("delta", None, rate, state),
             ("gated_delta", decay[..., :1], rate[:, :, :1], None), ("gated_delta", decay, rate, state))
    for i, (rule, d, r, past) in enumerate(forms):
        after = np.zeros_like(state, np.float64) if past is None else past.astype(np.float64)
        y = go_along(q, k, v, after, d, r, size ** -0.5 if i else 0.3)
        inputs = [x if x is None or x.ndim == 4 and x is past else x.reshape(batch, rows, -1)
                  for x in (q, k, v, past, d, r)]
        while inputs[-1] is None:
            inputs.pop()
        more = {} if i else {"scale": 0.3}
        one(f"linear_attention_{rule}_{i}_27", "LinearAttention", inputs,
            [y.reshape(batch, rows, -1).astype(F32), after.astype(F32)], 27, update_rule=rule, q_num_heads=heads,
            kv_num_heads=shared, **more)


def make():
    for part in (more_types, drawn, changed, new_elementwise, attention, flexible, positions, scattered_caches,
                 causal_convolutions, linear_attention):
        part()
