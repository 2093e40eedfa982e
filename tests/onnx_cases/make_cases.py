#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Test cases in ONNX's own layout for what libonnx-testdata (ONNX 1.12, opset 17) has not: operators and
revisions of opsets 18 to 28, attributes of old opsets, control flow, sequences, functions, sparse constants.

usage: make_cases.py FOLDER. Expected values are NumPy's; nothing here is derived from Kiln's code.
"""
import math

from case_writer import F32, I64, RANDOM, case, floats, ints, np, one
from numpy_nn import recurrent
from onnx_writer import Graph, Ref, Sparse, function, node
import microsoft_cases
import ml_cases
import newer_cases
import newest_cases
import older_cases
import small_cases


# ---- elementwise of opsets 18 to 21 ----

def elementwise():
    a = RANDOM.integers(0, 255, (3, 4)).astype(np.uint8)
    b = RANDOM.integers(0, 255, 4).astype(np.uint8)
    for name, f in (("And", np.bitwise_and), ("Or", np.bitwise_or), ("Xor", np.bitwise_xor)):
        one(f"bitwise_{name.lower()}_uint8_18", "Bitwise" + name, [a, b], [f(a, b)], 18)
        one(f"bitwise_{name.lower()}_int32_18", "Bitwise" + name, [a.astype(np.int32) - 99] * 2,
            [f(a.astype(np.int32) - 99, a.astype(np.int32) - 99)], 18)
    one("bitwise_not_int16_18", "BitwiseNot", [a.astype(np.int16) - 7], [~(a.astype(np.int16) - 7)], 18)
    x = floats(3, 5) * 3
    erf = np.vectorize(math.erf)
    one("mish_18", "Mish", [x], [(x * np.tanh(np.log1p(np.exp(x)))).astype(F32)], 18)
    x = x / 3
    tanh = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    one("gelu_20", "Gelu", [x], [(x / 2 * (1 + erf(x / math.sqrt(2)))).astype(F32)], 20)
    one("gelu_tanh_20", "Gelu", [x], [(x / 2 * (1 + tanh)).astype(F32)], 20, approximate="tanh")
    special = np.array([1, np.nan, np.inf, -np.inf, 0], np.float16)
    one("isinf_float16_20", "IsInf", [special], [np.isinf(special)], 20)
    one("isinf_negative_20", "IsInf", [special.astype(F32)], [special == -np.inf], 20, detect_positive=0)
    one("isnan_float16_20", "IsNaN", [special], [np.isnan(special)], 20)
    one("cast_saturating_19", "Cast", [np.array([1.9, -1.9, 300], F32)],
        [np.array([1, -1, 300], np.int32)], 19, to=6)
    one("equal_19", "Equal", [a, b], [a == b], 19)
    one("prelu_16", "PRelu", [x, np.array([[0.5]], F32)], [np.where(x < 0, x * F32(0.5), x)], 16)
    one("thresholded_relu_10", "ThresholdedRelu", [x], [np.where(x > 2, x, 0).astype(F32)], 10, alpha=2.0)


# ---- shapes and layout of opsets 18 to 21 ----

def shapes():
    x = floats(2, 3, 4)
    one("pad_axes_18", "Pad", [x, ints(1, 2, 0, 1), None, ints(0, -1)],
        [np.pad(x, ((1, 0), (0, 0), (2, 1)))], 18)
    one("pad_axes_value_19", "Pad", [x, ints(1, -1), np.array(7, F32), ints(1)],
        [np.pad(x, ((0, 0), (1, 0), (0, 0)), constant_values=7)[:, :-1]], 19)
    one("pad_wrap_19", "Pad", [x, ints(0, 1, 2, 0, 2, 3)],
        [np.pad(x, ((0, 0), (1, 2), (2, 3)), mode="wrap")], 19, mode="wrap")
    one("pad_wrap_far_19", "Pad", [x, ints(0, 7, 0, 0, 4, 0)],
        [np.pad(x, ((0, 0), (7, 4), (0, 0)), mode="wrap")], 19, mode="wrap")
    one("split_num_outputs_18", "Split", [np.arange(7, dtype=F32)],
        [np.arange(3, dtype=F32), np.arange(3, 6, dtype=F32), np.arange(6, 7, dtype=F32)], 18, num_outputs=3)
    one("split_lengths_18", "Split", [x, ints(1, 0, 2)], [x[:, :1], x[:, 1:1], x[:, 1:]], 18, axis=1)
    one("reshape_allow_zero_21", "Reshape", [np.zeros((0, 3), F32), ints(3, 0)], [np.zeros((3, 0), F32)], 21,
        allowzero=1)
    one("reshape_keep_zero_19", "Reshape", [x, ints(0, -1)], [x.reshape(2, 12)], 19)
    one("flatten_21", "Flatten", [x], [x.reshape(6, 4)], 21, axis=-1)
    one("shape_slice_19", "Shape", [x], [ints(3)], 19, start=-2, end=2)
    one("size_21", "Size", [x], [np.array(24, I64)], 21)
    one("transpose_21", "Transpose", [x], [x.transpose(2, 0, 1)], 21, perm=[2, 0, 1])
    one("squeeze_21", "Squeeze", [x[:1], ints(0)], [x[0]], 21)
    one("unsqueeze_21", "Unsqueeze", [x, ints(-1, 0)], [x.reshape(1, 2, 3, 4, 1)], 21)
    one("identity_21", "Identity", [x], [x], 21)
    one("constant_of_shape_20", "ConstantOfShape", [ints(2, 2)], [np.full((2, 2), 3, np.int8)], 20,
        value=np.array([3], np.int8))
    one("expand_13", "Expand", [x[:, :1], ints(3, 1)], [np.repeat(x[:, :1], 3, 1)], 13)
    crops = (("center_crop_pad_18", (2, 3, 4), (4, 2, 3), None), ("center_crop_pad_axes_18", (5, 4, 3), (8, 1), [1, 2]),
             ("center_crop_pad_negative_18", (5, 4, 3), (2, 6), [-3, -1]))
    for name, dims, target, axes in crops:
        y = floats(*dims)
        wanted = y
        for axis, length in zip(range(3) if axes is None else axes, target):
            more = length - wanted.shape[axis]
            if more > 0:
                ends = [(0, 0)] * 3
                ends[axis] = (more // 2, more - more // 2)
                wanted = np.pad(wanted, ends)
            else:
                wanted = np.take(wanted, np.arange(length) + (-more) // 2, axis)
        one(name, "CenterCropPad", [y, ints(*target)], [wanted], 18, **({"axes": axes} if axes else {}))


# ---- reductions of opset 18 and later: axes are an input ----

def reductions():
    x = floats(2, 3, 4)
    how = {"ReduceL1": lambda v, a, k: np.abs(v).sum(a, keepdims=k),
           "ReduceL2": lambda v, a, k: np.sqrt((v * v).sum(a, keepdims=k)),
           "ReduceLogSum": lambda v, a, k: np.log(v.sum(a, keepdims=k)),
           "ReduceLogSumExp": lambda v, a, k: np.log(np.exp(v).sum(a, keepdims=k)),
           "ReduceMax": lambda v, a, k: v.max(a, keepdims=k),
           "ReduceMean": lambda v, a, k: v.mean(a, keepdims=k),
           "ReduceMin": lambda v, a, k: v.min(a, keepdims=k),
           "ReduceProd": lambda v, a, k: v.prod(a, keepdims=k),
           "ReduceSumSquare": lambda v, a, k: (v * v).sum(a, keepdims=k)}
    for op, f in how.items():
        v = np.abs(x) + 1 if op == "ReduceLogSum" else x
        name = op[6:].lower()
        one(f"reduce_{name}_axes_18", op, [v, ints(0, -1)], [f(v, (0, 2), True)], 18)
        one(f"reduce_{name}_constant_axes_18", op, [v, ints(1)], [f(v, 1, False)], 18, [1], keepdims=0)
        one(f"reduce_{name}_all_18", op, [v], [f(v, None, False)], 18, keepdims=0)
        one(f"reduce_{name}_noop_18", op, [v, ints()], [v if op not in (
            "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare") else f(v[None], 0, False)], 18,
            noop_with_empty_axes=1)
    flags = x > 0
    one("reduce_max_bool_20", "ReduceMax", [flags, ints(1)], [flags.any(1, keepdims=True)], 20)
    one("reduce_min_bool_20", "ReduceMin", [flags, ints(1)], [flags.all(1, keepdims=True)], 20)
    one("reduce_max_empty_20", "ReduceMax", [np.zeros((2, 0, 3), F32), ints(1)],
        [np.full((2, 1, 3), -np.inf, F32)], 20)


# ---- attributes of old opsets ----

def old_opsets():
    x, b = floats(2, 3, 4), floats(3)
    for op, f in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)):
        one(f"{op.lower()}_axis_6", op, [x, b], [f(x, b[:, None])], 6, broadcast=1, axis=1)
        one(f"{op.lower()}_suffix_1", op, [x, x[0, 0]], [f(x, x[0, 0])], 1, broadcast=1)
        one(f"{op.lower()}_constant_6", op, [x, b], [f(x, b[:, None])], 6, [1], broadcast=1, axis=1)
    one("pow_axis_1", "Pow", [np.abs(x), b], [np.abs(x) ** b[:, None]], 1, broadcast=1, axis=1)
    flags = x > 0
    one("and_axis_1", "And", [flags, flags[0, :, 0]], [flags & flags[0, :, :1]], 1, broadcast=1, axis=1)
    one("or_axis_1", "Or", [flags, flags[0, :, 0]], [flags | flags[0, :, :1]], 1, broadcast=1, axis=1)
    one("xor_axis_1", "Xor", [flags, flags[0, :, 0]], [flags ^ flags[0, :, :1]], 1, broadcast=1, axis=1)
    one("less_axis_1", "Less", [x, b], [x < b[:, None]], 1, broadcast=1, axis=1)
    one("greater_axis_1", "Greater", [x, b], [x > b[:, None]], 1, broadcast=1, axis=1)
    one("equal_axis_1", "Equal", [flags, flags[0, :, 0]], [flags == flags[0, :, :1]], 1, broadcast=1, axis=1)
    one("prelu_channel_6", "PRelu", [x, b], [np.where(x < 0, x * b[:, None], x)], 6)
    one("prelu_one_1", "PRelu", [x, b[:1]], [np.where(x < 0, x * b[0], x)], 1)
    one("reshape_1", "Reshape", [x], [x.reshape(2, 12)], 1, shape=[0, -1])
    one("pad_1", "Pad", [x], [np.pad(x, ((0, 1), (2, 0), (0, 0)), constant_values=1.5)], 1,
        paddings=[0, 2, 0, 1, 0, 0], value=1.5)
    one("pad_2", "Pad", [x], [np.pad(x, ((0, 0), (0, 0), (1, 1)), mode="edge")], 2, pads=[0, 0, 1, 0, 0, 1],
        mode="edge")
    one("tile_1", "Tile", [x, np.array(3, F32), np.array(1, F32)], [np.tile(x, (1, 3, 1))], 1, [1, 2])
    one("slice_1", "Slice", [x], [x[:, 1:3, -3:]], 1, starts=[1, -3], ends=[3, 99], axes=[1, 2])
    one("slice_all_1", "Slice", [x], [x[1:2, 0:2]], 1, starts=[1, 0], ends=[2, 2])
    one("split_1", "Split", [x], [x[:, :1], x[:, 1:]], 1, axis=1, split=[1, 2])
    one("split_input_1", "Split", [x, np.array([1, 2], F32)], [x[:, :1], x[:, 1:]], 1, [1], axis=1)
    one("concat_1", "Concat", [x, x], [np.concatenate((x, x), 1)], 1)
    one("concat_4", "Concat", [x, x], [np.concatenate((x, x), 2)], 4, axis=2)
    one("squeeze_1", "Squeeze", [x[:1]], [x[0]], 1, axes=[0])
    one("unsqueeze_1", "Unsqueeze", [x], [x[:, None]], 1, axes=[1])
    one("cast_name_1", "Cast", [x], [x.astype(np.int32)], 1, to="INT32")
    one("dropout_1", "Dropout", [x], [x], 1, is_test=1, ratio=0.5)
    one("dropout_7", "Dropout", [x], [x], 7, ratio=0.5)
    one("clip_1", "Clip", [x], [np.clip(x, -0.5, 0.25)], 1, min=-0.5, max=0.25)
    one("clip_6", "Clip", [x], [np.maximum(x, 0)], 6, min=0.0)
    one("max_1", "Max", [x, -x, x * 2], [np.maximum(np.maximum(x, -x), x * 2)], 1)
    one("sum_1", "Sum", [x, x], [x + x], 1)
    one("mean_1", "Mean", [x, x * 3], [x * 2], 1)
    one("softmax_default_axis_1", "Softmax", [x], [softmax(x.reshape(2, 12), 1).reshape(x.shape)], 1)
    one("reduce_sum_1", "ReduceSum", [x], [x.sum((0, 2))], 1, axes=[0, 2], keepdims=0)
    one("argmax_1", "ArgMax", [x], [x.argmax(1)[:, None].astype(I64)], 1, axis=1)
    one("lp_normalization_1", "LpNormalization", [x], [x / np.abs(x).sum(1, keepdims=True)], 1, axis=1, p=1)
    one("upsample_1", "Upsample", [x[None]], [x[None].repeat(2, 2).repeat(3, 3)], 1, height_scale=2.0,
        width_scale=3.0, mode="nearest")
    one("upsample_7", "Upsample", [x[None]], [x[None].repeat(2, 2).repeat(3, 3)], 7, scales=[1.0, 1.0, 2.0, 3.0],
        mode="nearest")
    matrix, weight, bias = floats(2, 3), floats(4, 3), floats(4)
    one("gemm_1", "Gemm", [matrix, weight, bias], [matrix @ weight.T * 2 + bias], 1, alpha=2.0, transB=1,
        broadcast=1)
    parts = [floats(3) for _ in range(3)] + [np.abs(floats(3)) + 1]
    scale, shift, mean, variance = [p[:, None] for p in parts]
    one("batch_normalization_1", "BatchNormalization", [x] + parts,
        [(x - mean) / np.sqrt(variance + 1e-3) * scale + shift], 1, epsilon=1e-3, is_test=1)
    one("batch_normalization_7", "BatchNormalization", [x] + parts,
        [(x - mean) / np.sqrt(variance + 1e-3) * scale + shift], 7, epsilon=1e-3)
    one("global_lp_pool_1", "GlobalLpPool", [x], [np.sqrt((x * x).sum(2, keepdims=True))], 1, p=2.0)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return (e / e.sum(axis, keepdims=True)).astype(F32)


# ---- windows and grids ----

def windows_and_grids():
    x = floats(1, 2, 7, 6)
    one("global_lp_pool_2", "GlobalLpPool", [x], [(np.abs(x) ** 3).sum((2, 3), keepdims=True) ** F32(1 / 3)], 2, p=3)
    padded = np.pad(np.abs(x), ((0, 0), (0, 0), (1, 1), (0, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (2, 3))
    one("lp_pool_pads_11", "LpPool", [x], [np.sqrt((seen ** 2).sum((4, 5)))[:, :, ::2]], 11, kernel_shape=[3, 2],
        pads=[1, 0, 1, 1], strides=[2, 1])
    one("lp_pool_p1_18", "LpPool", [x], [seen.sum((4, 5))[:, :, ::2]], 18, kernel_shape=[3, 2],
        pads=[1, 0, 1, 1], strides=[2, 1], p=1)
    wide = np.lib.stride_tricks.sliding_window_view(np.abs(x), (5, 3), (2, 3))[..., ::2, ::2]
    one("lp_pool_dilations_18", "LpPool", [x], [((wide ** 3).sum((4, 5)) ** F32(1 / 3))], 18, kernel_shape=[3, 2],
        dilations=[2, 2], p=3)
    one("lp_pool_same_11", "LpPool", [x], [np.sqrt((np.lib.stride_tricks.sliding_window_view(
        np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1))), (2, 2), (2, 3)) ** 2).sum((4, 5)))], 11, kernel_shape=[2, 2],
        auto_pad="SAME_UPPER")
    for align in (0, 1):
        for dims in ((2, 3), (2, 3, 4)):
            theta = floats(2, len(dims), len(dims) + 1)
            ramps = [np.linspace(-1, 1, n) if align else (2 * np.arange(n) + 1) / n - 1 for n in dims]
            mesh = np.stack(np.meshgrid(*ramps, indexing="ij")[::-1] + [np.ones(dims)], -1)
            grid = np.einsum("...k,nik->n...i", mesh, theta.astype(np.float64)).astype(F32)
            one(f"affine_grid_{len(dims)}d_align_{align}_20", "AffineGrid", [theta, ints(2, 1, *dims)], [grid], 20,
                align_corners=align)
    image = floats(2, 3, 8, 9)
    rois = np.array([[0, 0, 0, 3, 3], [1, 2, 1, 8, 6], [0, 5, 5, 20, 20], [1, 4, 4, 4, 4]], F32)
    one("max_roi_pool_1", "MaxRoiPool", [image, rois], [roi_pool(image, rois, (2, 3), 1.0)], 1, pooled_shape=[2, 3])
    twice = rois * np.array([1, 2, 2, 2, 2], F32)
    one("max_roi_pool_scale_1", "MaxRoiPool", [image, twice], [roi_pool(image, twice, (3, 2), 0.5)], 1,
        pooled_shape=[3, 2], spatial_scale=0.5)


def roi_pool(image, rois, pooled, scale):
    """Girshick, "Fast R-CNN", section 2.1, as Caffe computes it; a bin without an element is 0."""
    out = np.zeros((len(rois), image.shape[1]) + pooled, F32)
    for r, roi in enumerate(rois):
        x1, y1, x2, y2 = [int(math.floor(v * scale + 0.5)) for v in roi[1:]]
        height, width = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for i, j in np.ndindex(*pooled):
            rows = [min(max(v + y1, 0), image.shape[2]) for v in (
                math.floor(i * height / pooled[0]), math.ceil((i + 1) * height / pooled[0]))]
            columns = [min(max(v + x1, 0), image.shape[3]) for v in (
                math.floor(j * width / pooled[1]), math.ceil((j + 1) * width / pooled[1]))]
            part = image[int(roi[0]), :, rows[0]:rows[1], columns[0]:columns[1]]
            out[r, :, i, j] = part.max((1, 2)) if part.size else 0
    return out


# ---- what depends on contents ----

def searches():
    x = np.array([[0, 3, 0], [0, 0, 4]], F32)
    for dtype in (np.int8, np.uint16, np.float64, np.bool_):
        y = x.astype(dtype)
        one(f"nonzero_{np.dtype(dtype).name}_13", "NonZero", [y], [np.array(np.nonzero(y), I64)], 13)
    one("nonzero_none_13", "NonZero", [x * 0], [np.zeros((2, 0), I64)], 13)
    y = floats(3, 4)
    one("compress_short_11", "Compress", [y, np.array([False, True])], [y[:, 1:2]], 11, axis=-1)
    one("compress_nothing_9", "Compress", [y, np.zeros(12, bool)], [np.zeros(0, F32)], 9)
    for name, values in (("float", np.array([2, 1, 1, 3, 4, 3], F32)), ("int8", np.array([[5, -1], [5, 7]], np.int8)),
                         ("uint64", np.array([2**63, 1, 2**63], np.uint64)), ("empty", np.zeros(0, F32))):
        unique, first, inverse, counts = np.unique(values, True, True, True)
        one(f"unique_{name}_11", "Unique", [values], [unique, first.astype(I64), inverse.astype(I64),
                                                      counts.astype(I64)], 11)
        order = np.argsort(first)
        place = np.argsort(order)
        one(f"unique_{name}_unsorted_11", "Unique", [values],
            [unique[order], first[order].astype(I64), place[inverse].astype(I64), counts[order].astype(I64)], 11,
            sorted=0)
    table = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4], [1, 0, -1]], F32)
    for axis in (0, 1):
        unique, first, inverse, counts = np.unique(table, True, True, True, axis)
        one(f"unique_axis_{axis}_11", "Unique", [table], [unique, first.astype(I64), inverse.astype(I64),
                                                          counts.astype(I64)], 11, axis=axis)
    row = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int64)
    pool = {"pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7], "ngram_counts": [0, 4],
            "ngram_indexes": [0, 1, 2, 3, 4, 5, 6], "min_gram_length": 1, "max_gram_length": 2}
    weights = [0.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    w = np.array(weights, F32)
    one("tfidf_tf_9", "TfIdfVectorizer", [row], [tf_counts(row, 0)], 9, max_skip_count=0, mode="TF", **pool)
    one("tfidf_skips_9", "TfIdfVectorizer", [row], [tf_counts(row, 3) * w], 9, max_skip_count=3, mode="TFIDF",
        weights=weights, **pool)
    one("tfidf_idf_9", "TfIdfVectorizer", [row.astype(np.int32)], [(tf_counts(row, 3) > 0) * w], 9, max_skip_count=3,
        mode="IDF", weights=weights, **pool)
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [1, 1.1, 0, 0.1]]], F32)
    scores = np.array([[[0.5, 0.9, 0.9, 0.2]]], F32)
    one("nms_ties_10", "NonMaxSuppression", [boxes, scores, ints(9), np.array([0.5], F32)],
        [np.array([[0, 0, 1], [0, 0, 2]], I64)], 10)
    one("nms_none_11", "NonMaxSuppression", [boxes, scores], [np.zeros((0, 3), I64)], 11)


def tf_counts(rows, skips):
    grams = [(2,), (3,), (5,), (4,), (5, 6), (7, 8), (6, 7)]
    out = np.zeros((len(rows), len(grams)), F32)
    for r, row in enumerate(rows.tolist()):
        for g, gram in enumerate(grams):
            for apart in range(1, 2 if len(gram) == 1 else skips + 2):
                out[r, g] += sum(tuple(row[i:i + (len(gram) - 1) * apart + 1:apart]) == gram
                                 for i in range(len(row) - (len(gram) - 1) * apart))
    return out


# ---- control flow ----

def loops():
    x = floats(3)
    body = Graph([node("Identity", ["c"], ["c2"]), node("Mul", ["v", "k"], ["w"]), node("Identity", ["w"], ["s"])],
                 {"i": np.array(0, I64), "c": np.array(True), "v": x}, {"c2": np.array(True), "w": x, "s": x})
    k = np.array([2, 3, 0.5], F32)
    wanted = [x * k ** n for n in range(1, 5)]
    case("loop_outer_value_13", [node("Loop", ["n", "", "x"], ["y", "all"], body=body)],
         {"n": np.array(4, I64), "x": x, "k": k}, {"y": wanted[-1], "all": np.stack(wanted)}, 13)
    case("loop_no_rounds_13", [node("Loop", ["n", "", "x"], ["y", "all"], body=body)],
         {"n": np.array(0, I64), "x": x, "k": k}, {"y": x, "all": np.zeros((0, 3), F32)}, 13)
    case("loop_condition_false_16", [node("Loop", ["n", "c", "x"], ["y", "all"], body=body)],
         {"n": np.array(4, I64), "c": np.array(False), "x": x, "k": k}, {"y": x, "all": np.zeros((0, 3), F32)}, 16)
    # doubles until the sum reaches a bound, which only the device knows
    grow = Graph([node("Add", ["v", "v"], ["w"]), node("ReduceSum", ["w"], ["t"], keepdims=0),
                  node("Less", ["t", "bound"], ["c2"])],
                 {"i": np.array(0, I64), "c": np.array(True), "v": x}, {"c2": np.array(True), "w": x})
    start, rounds = np.array([1, 2], F32), 6
    case("loop_until_11", [node("Loop", ["", "c", "x"], ["y"], body=grow)],
         {"c": np.array(True), "x": start, "bound": np.array(100, F32)}, {"y": start * 2**rounds}, 11)
    inner = Graph([node("Identity", ["c"], ["c3"]), node("Add", ["u", "step"], ["u2"])],
                  {"j": np.array(0, I64), "c": np.array(True), "u": x}, {"c3": np.array(True), "u2": x})
    outer = Graph([node("Cast", ["i"], ["step"], to=1), node("Loop", ["n", "", "v"], ["w"], body=inner),
                   node("Identity", ["c"], ["c2"])],
                  {"i": np.array(0, I64), "c": np.array(True), "v": x}, {"c2": np.array(True), "w": x})
    case("loop_nested_16", [node("Loop", ["n", "", "x"], ["y"], body=outer)], {"n": np.array(3, I64), "x": x},
         {"y": x + 3 * (0 + 1 + 2)}, 16)
    then = Graph([node("Loop", ["n", "", "x"], ["r", "unused"], body=body)], {}, {"r": x})
    other = Graph([node("Neg", ["x"], ["r"])], {}, {"r": x})
    for flag in (True, False):
        case(f"if_loop_{str(flag).lower()}_19", [node("If", ["f"], ["y"], then_branch=then, else_branch=other)],
             {"f": np.array(flag), "n": np.array(2, I64), "x": x, "k": k}, {"y": x * k * k if flag else -x}, 19)
    # carried values that change their shape
    longer = Graph([node("Identity", ["c"], ["c2"]), node("Concat", ["v", "x"], ["w"], axis=0)],
                   {"i": np.array(0, I64), "c": np.array(True), "v": None}, {"c2": np.array(True), "w": None})
    case("loop_growing_16", [node("Loop", ["n", "", "x"], ["y"], body=longer)], {"n": np.array(70, I64), "x": x},
         {"y": np.tile(x, 71)}, 16)
    case("loop_scan_many_16", [node("Loop", ["n", "", "x"], ["y", "all"], body=Graph(
        [node("Identity", ["c"], ["c2"]), node("Cast", ["i"], ["s"], to=1), node("Identity", ["v"], ["w"])],
        {"i": np.array(0, I64), "c": np.array(True), "v": x}, {"c2": np.array(True), "w": x, "s": np.array(0, F32)}))],
         {"n": np.array(130, I64), "x": x}, {"y": x, "all": np.arange(130, dtype=F32)}, 16)


def scans():
    x = floats(4, 3)
    body = Graph([node("Add", ["s", "v"], ["s2"]), node("Identity", ["s2"], ["o"])], {"s": x[0], "v": x[0]},
                 {"s2": x[0], "o": x[0]})
    zero = np.zeros(3, F32)
    case("scan_forward_16", [node("Scan", ["z", "x"], ["y", "all"], body=body, num_scan_inputs=1)],
         {"z": zero, "x": x}, {"y": x.sum(0), "all": np.cumsum(x, 0)}, 16)
    case("scan_reverse_19", [node("Scan", ["z", "x"], ["y", "all"], body=body, num_scan_inputs=1,
                                  scan_input_directions=[1], scan_output_directions=[1])],
         {"z": zero, "x": x}, {"y": x.sum(0), "all": np.cumsum(x[::-1], 0)[::-1]}, 19)
    case("scan_axes_11", [node("Scan", ["z", "x"], ["y", "all"], body=body, num_scan_inputs=1, scan_input_axes=[-1],
                               scan_output_axes=[1])],
         {"z": zero, "x": np.ascontiguousarray(x.T)}, {"y": x.sum(0), "all": np.cumsum(x, 0).T}, 11)
    case("scan_none_9", [node("Scan", ["z", "x"], ["y", "all"], body=body, num_scan_inputs=1)],
         {"z": zero, "x": x[:0]}, {"y": zero, "all": np.zeros((0, 3), F32)}, 9)
    batch = floats(2, 4, 3)
    lengths = ints(4, 2)
    sums = np.cumsum(batch, 1)
    sums[1, 2:] = 0
    case("scan_lengths_8", [node("Scan", ["n", "z", "x"], ["y", "all"], body=body, num_scan_inputs=1)],
         {"n": lengths, "z": np.zeros((2, 3), F32), "x": batch},
         {"y": np.stack((batch[0].sum(0), batch[1, :2].sum(0))), "all": sums}, 8)
    case("scan_reverse_8", [node("Scan", ["", "z", "x"], ["y", "all"], body=body, num_scan_inputs=1, directions=[1])],
         {"z": np.zeros((2, 3), F32), "x": batch}, {"y": batch.sum(1), "all": np.cumsum(batch[:, ::-1], 1)}, 8)


def sequences():
    x, items = floats(6, 2), [floats(2), floats(3), floats(1)]
    case("split_to_sequence_number_11", [node("SplitToSequence", ["x", "n"], ["y"])],
         {"x": x, "n": np.array(4, I64)}, {"y": [x[:4], x[4:]]}, 11)
    case("split_to_sequence_lengths_11", [node("SplitToSequence", ["x", "n"], ["y"])],
         {"x": x, "n": ints(1, 3, 2)}, {"y": [x[:1], x[1:4], x[4:]]}, 11)
    case("split_to_sequence_keep_11", [node("SplitToSequence", ["x"], ["y"], axis=1)], {"x": x},
         {"y": [x[:, :1], x[:, 1:]]}, 11)
    case("split_to_sequence_drop_11", [node("SplitToSequence", ["x"], ["y"], axis=1, keepdims=0)], {"x": x},
         {"y": [x[:, 0], x[:, 1]]}, 11)
    case("sequence_erase_11", [node("SequenceErase", ["s", "i"], ["y"])], {"s": items, "i": np.array(-2, I64)},
         {"y": [items[0], items[2]]}, 11)
    case("sequence_erase_last_11", [node("SequenceErase", ["s"], ["y"])], {"s": items}, {"y": items[:2]}, 11)
    case("sequence_insert_end_11", [node("SequenceInsert", ["s", "x", "i"], ["y"])],
         {"s": items, "x": items[0], "i": np.array(3, I64)}, {"y": items + items[:1]}, 11)
    case("sequence_at_11", [node("SequenceAt", ["s", "i"], ["y"])], {"s": items, "i": np.array(-1, I64)},
         {"y": items[2]}, 11)
    case("sequence_length_11", [node("SequenceLength", ["s"], ["y"])], {"s": items}, {"y": np.array(3, I64)}, 11)
    case("concat_from_sequence_11", [node("ConcatFromSequence", ["s"], ["y"], axis=-1)], {"s": items},
         {"y": np.concatenate(items)}, 11)
    same = [floats(2, 3) for _ in range(3)]
    case("concat_from_sequence_new_11", [node("ConcatFromSequence", ["s"], ["y"], axis=-1, new_axis=1)], {"s": same},
         {"y": np.stack(same, -1)}, 11)
    body = Graph([node("Add", ["a", "b"], ["p"]), node("Mul", ["a", "k"], ["q"])], {"a": None, "b": None},
                 {"p": None, "q": None})
    case("sequence_map_two_17", [node("SequenceMap", ["s", "t"], ["y", "z"], body=body)],
         {"s": same, "t": same[0], "k": np.array(3, F32)}, {"y": [v + same[0] for v in same], "z": [v * 3 for v in same]},
         17)
    case("optional_none_18", [node("OptionalHasElement", [], ["y"])], {}, {"y": np.array(False)}, 18)
    case("optional_tensor_18", [node("OptionalHasElement", ["x"], ["y"]), node("OptionalGetElement", ["x"], ["z"])],
         {"x": x}, {"y": np.array(True), "z": x}, 18)


# ---- functions and constants ----

def functions():
    x = floats(4)
    scale = function("Scale", ["a"], ["r"], [node("Constant", [], ["k"], value_float=Ref("factor", 1)),
                                             node("Mul", ["a", "k"], ["r"])], 18, defaults={"factor": 2.0})
    twice = function("Twice", ["a"], ["r"], [node("Scale", ["a"], ["t"], domain="local", factor=Ref("by", 1)),
                                             node("Scale", ["t"], ["r"], domain="local")], 18, attributes=["by"])
    case("function_default_18", [node("Scale", ["x"], ["y"], domain="local")], {"x": x}, {"y": x * 2}, 18,
         functions=[scale])
    case("function_nested_18", [node("Twice", ["x"], ["y"], domain="local", by=5.0)], {"x": x}, {"y": x * 10}, 18,
         functions=[twice, scale])
    down = function("Scale", ["a"], ["r"], [node("Neg", ["a"], ["r"])], 18, overload="down")
    case("function_overload_19", [node("Scale", ["x"], ["t"], domain="local"),
                                  node("Scale", ["t"], ["y"], domain="local", overload="down")], {"x": x},
         {"y": x * -2}, 19, functions=[scale, down])
    body = Graph([node("Identity", ["c"], ["c2"]), node("Scale", ["v"], ["w"], domain="local", factor=3.0)],
                 {"i": np.array(0, I64), "c": np.array(True), "v": x}, {"c2": np.array(True), "w": x})
    case("function_in_loop_18", [node("Loop", ["n", "", "x"], ["y"], body=body)], {"n": np.array(2, I64), "x": x},
         {"y": x * 9}, 18, functions=[scale])
    table = floats(3, 4)
    # another opset inside the function than outside: axes are attributes there, inputs here
    old = function("Old", ["a"], ["r"], [node("ReduceMax", ["a"], ["r"], axes=[0], keepdims=0)], 13)
    case("function_own_opset_18", [node("Old", ["x"], ["m"], domain="local"), node("ReduceMax", ["m", "e"], ["y"],
                                                                                 keepdims=0)],
         {"x": table, "e": ints(0)}, {"y": table.max()}, 18, functions=[old])
    sparse = Sparse(np.array([5, 7], F32), ints(4, 2), [2, 3], "k")
    dense = np.array([[0, 0, 7], [0, 5, 0]], F32)
    y = floats(2, 3)
    case("sparse_initializer_17", [node("Add", ["x", "k"], ["y"])], {"x": y}, {"y": y + dense}, 17, {"k": sparse})
    pairs = Sparse(np.array([5, 7], F32), np.array([[1, 1], [0, 2]], I64), [2, 3])
    case("sparse_constant_13", [node("Constant", [], ["k"], sparse_value=pairs), node("Add", ["x", "k"], ["y"])],
         {"x": y}, {"y": y + dense}, 13)
    case("constant_lists_13", [node("Constant", [], ["a"], value_floats=[1.0, 2.0, 3.0]),
                               node("Constant", [], ["b"], value_ints=[4, 5]), node("Add", ["x", "a"], ["y"]),
                               node("Identity", ["b"], ["z"])], {"x": y},
         {"y": y + np.array([1, 2, 3], F32), "z": ints(4, 5)}, 13)


# ---- normalisations, recurrent layers, transforms ----

def group_norm(x, groups, scale, bias, epsilon):
    rows = x.reshape(x.shape[0], groups, -1)
    rows = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + epsilon)
    scale, bias = (np.repeat(v, x.shape[1] // len(v)).reshape(1, -1, 1, 1) for v in (scale, bias))
    return (rows.reshape(x.shape) * scale + bias).astype(F32)


def complex_pair(z, dtype=F32):
    return np.stack((z.real, z.imag), -1).astype(dtype)


def layers():
    x = floats(2, 6, 3, 4)
    s, b = floats(3), floats(3)
    one("group_normalization_18", "GroupNormalization", [x, s, b], [group_norm(x, 3, s, b, 1e-5)], 18, num_groups=3)
    s, b = floats(6), floats(6)
    one("group_normalization_21", "GroupNormalization", [x, s, b], [group_norm(x, 3, s, b, 0.01)], 21, num_groups=3,
        epsilon=0.01)
    x, s, b, m, v = floats(2, 3, 4), floats(3, 4), floats(3, 4), floats(3, 4), floats(3, 4)**2
    one("batch_normalization_by_element_7", "BatchNormalization", [x, s, b, m, v],
        [((x - m) / np.sqrt(v + 1e-5) * s + b).astype(F32)], 7, spatial=0)
    z = floats(2, 12, 3, 2)
    whole = z[..., 0] + 1j * z[..., 1]
    one("dft_20", "DFT", [z, None, np.array(1, I64)], [complex_pair(np.fft.fft(whole, axis=1))], 20)
    one("dft_inverse_20", "DFT", [z, None, np.array(-2, I64)], [complex_pair(np.fft.ifft(whole, axis=2))], 20,
        inverse=1)
    real = floats(2, 9, 1).astype(np.float64)
    one("dft_onesided_length_20", "DFT", [real, np.array(16, I64)],
        [complex_pair(np.fft.rfft(real[..., 0], 16, axis=1), np.float64)], 20, onesided=1)
    x, h, c = floats(4, 3, 2), floats(2, 3, 5), floats(2, 3, 5)
    lengths = np.array([4, 2, 0], np.int32)
    for op, gates, more in (("LSTM", 4, [c, floats(2, 15)]), ("GRU", 3, []), ("RNN", 1, [])):
        w, r, b = floats(2, gates * 5, 2), floats(2, gates * 5, 5), floats(2, gates * 10)
        inputs = [v.astype(np.float64) for v in [x, w, r, b, h] + more] + [lengths]
        flags = {"linear_before_reset": 1} if op == "GRU" else {}
        wanted = recurrent(op.lower(), inputs, "bidirectional", clip=0.75, flag=bool(flags))
        wanted = wanted if op == "LSTM" else wanted[:2]
        one(f"{op.lower()}_bidirectional_14", op, [x, w, r, b, lengths, h] + more, [v.astype(F32) for v in wanted], 14,
            direction="bidirectional", clip=0.75, hidden_size=5, **flags)


for make in (elementwise, shapes, reductions, old_opsets, windows_and_grids, searches, loops, scans, sequences,
             functions, layers, newer_cases.make, older_cases.make, newest_cases.make, ml_cases.make, microsoft_cases.make,
             small_cases.make):
    make()
