# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of older revisions of operators, whose newest form libonnx-testdata or make_cases.py has: with these every
operator has a case at each of its versions."""
import math

from case_writer import F32, I64, RANDOM, case, floats, ints, np, one
from numpy_data import scatter, scatter_nd
from numpy_nn import recurrent
from numpy_window import pool, roi_align
from onnx_writer import Graph, node


def each(op, versions, inputs, outputs, initializers=(), **attributes):
    for version in versions:
        one(f"{op.lower()}_of_{version}", op, inputs, outputs, version, initializers, **attributes)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return (e / e.sum(axis, keepdims=True)).astype(F32)


def elementwise():
    x = floats(2, 3)
    positive = np.abs(x) + F32(0.5)
    each("Abs", [1], [x], [np.abs(x)])
    each("Ceil", [1], [x], [np.ceil(x)])
    each("Elu", [1], [x], [np.where(x < 0, 2 * np.expm1(x), x).astype(F32)], alpha=2.0)
    each("Erf", [9], [x], [np.vectorize(math.erf)(x).astype(F32)])
    each("Exp", [1], [x], [np.exp(x)])
    each("Floor", [1, 6], [x], [np.floor(x)])
    each("HardSigmoid", [1], [x], [np.clip(x * F32(0.5) + F32(0.25), 0, 1)], alpha=0.5, beta=0.25)
    each("Identity", [14], [x], [x])
    each("IsNaN", [9], [np.array([1, np.nan], F32)], [np.array([False, True])])
    each("LeakyRelu", [1], [x], [np.where(x < 0, x * F32(0.25), x)], alpha=0.25)
    each("Log", [1, 6], [positive], [np.log(positive)])
    each("Neg", [1], [x], [-x])
    each("Reciprocal", [1, 6], [positive], [1 / positive])
    each("Relu", [1, 13], [x], [np.maximum(x, 0)])
    each("Selu", [1], [x], [(2 * np.where(x > 0, x, 0.5 * np.expm1(x))).astype(F32)], alpha=0.5, gamma=2.0)
    each("Sigmoid", [1], [x], [1 / (1 + np.exp(-x))])
    each("Sqrt", [1], [positive], [np.sqrt(positive)])
    each("Tanh", [1], [x], [np.tanh(x)])
    each("Cast", [6], [x * 9], [(x * 9).astype(np.int32)], to=6)
    each("Clip", [12], [x, np.array(-0.5, F32)], [np.maximum(x, F32(-0.5))])
    y = x[0]
    for op, versions, f in (("Equal", [7, 11], np.equal), ("Greater", [7, 9], np.greater), ("Less", [7], np.less),
                            ("GreaterOrEqual", [12], np.greater_equal), ("LessOrEqual", [12], np.less_equal)):
        a, b = ((x * 2).astype(np.int32), (y * 2).astype(np.int32)) if op == "Equal" else (x, y)
        each(op, versions, [a, b], [f(a, b)])
    each("Pow", [7], [positive, y], [positive ** y])
    each("Mod", [10], [ints(-7, 7, 5), ints(3, -3, 5)], [ints(2, -2, 0)])
    each("PRelu", [7, 9], [x, y], [np.where(x < 0, x * y, x)])
    each("Max", [12], [x, y], [np.maximum(x, y)])
    each("Min", [1], [x, -x], [np.minimum(x, -x)])
    each("Min", [12], [x, y], [np.minimum(x, y)])
    each("Mean", [6], [x, x * 3], [x * 2])
    each("Mean", [8], [x, y], [(x + y) / 2])
    each("Sum", [8], [x, y, x], [x + y + x])
    each("BatchNormalization", [9], [x[..., None], y, y, y, np.abs(y)],
         [((x - y) / np.sqrt(np.abs(y) + F32(1e-5)) * y + y)[..., None]])


def shapes():
    x = floats(2, 3, 4)
    each("Concat", [11], [x, x], [np.concatenate((x, x), -1)], axis=-1)
    each("Constant", [9], [], [x], value=x)
    each("Flatten", [9, 11], [x], [x.reshape(6, 4)], axis=2)
    each("Shape", [1], [x], [ints(2, 3, 4)])
    each("Size", [1], [x], [np.array(24, I64)])
    each("Squeeze", [11], [x[:1]], [x[0]], axes=[-3])
    each("Split", [11], [x], [x[:, :2], x[:, 2:]], axis=-2, split=[2, 1])
    each("Slice", [10], [x, ints(-2, 3), ints(9, -9), ints(1, 2), ints(1, -2)], [x[:, -2:, 3::-2]])
    each("Pad", [11], [x, ints(0, 1, 0, 0, 0, 2), np.array(3, F32)],
         [np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=3)])
    z = floats(1, 8, 2, 3)
    blocks = z.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)
    each("DepthToSpace", [1], [z], [blocks], blocksize=2)
    each("SpaceToDepth", [1], [blocks], [z], blocksize=2)
    each("Resize", [10], [z, np.array([1, 1, 2, 3], F32)], [z.repeat(2, 2).repeat(3, 3)])
    case("if_of_1", [node("If", ["f"], ["y"], then_branch=Graph([node("Neg", ["x"], ["r"])], {}, {"r": x}),
                          else_branch=Graph([node("Abs", ["x"], ["r"])], {}, {"r": x}))],
         {"f": np.array([True]), "x": x}, {"y": -x}, 1)
    body = Graph([node("Identity", ["c"], ["c2"]), node("Add", ["v", "x"], ["w"])],
                 {"i": np.array(0, I64), "c": np.array(True), "v": x}, {"c2": np.array(True), "w": x})
    case("loop_of_1", [node("Loop", ["n", "", "x"], ["y"], body=body)], {"n": np.array(3, I64), "x": x}, {"y": x * 4},
         1)


def indices():
    x = floats(4, 3)
    each("Gather", [11], [x, ints(-1, 0)], [x[[-1, 0]]])
    rows = np.array([[0, -1, 2], [3, 1, 1]], I64)
    each("GatherElements", [11], [x, rows], [np.take_along_axis(x, rows % 4, 0)])
    pairs = np.array([[0, -1], [3, 1]], I64)
    each("GatherND", [11, 12], [x, pairs], [x[[0, 3], [-1, 1]]])
    updates = floats(2, 3)
    each("ScatterElements", [11, 13], [x, rows, updates], [scatter(x, updates, rows, 0).astype(F32)])
    each("ScatterND", [11, 13], [x, pairs, updates[:, 0]], [scatter_nd(x, updates[:, 0], pairs).astype(F32)])
    order = np.argsort(-x, 1)[:, :2].astype(I64)
    each("TopK", [1], [x], [np.take_along_axis(x, order, 1), order], k=2, axis=1)
    each("TopK", [10], [x, ints(2)], [np.take_along_axis(x, order, 1), order])
    each("ArgMax", [11, 12], [x], [x.argmax(0).astype(I64)], axis=-2, keepdims=0)
    for version in (1, 11, 12):
        each("ArgMin", [version], [x], [x.argmin(0).astype(I64)], axis=0 if version == 1 else -2, keepdims=0)
    each("CumSum", [11], [x, np.array(1, np.int32)], [np.cumsum(x[:, ::-1], 1)[:, ::-1]],
         reverse=1)
    each("NonZero", [9], [x > 0], [np.array(np.nonzero(x > 0), I64)])
    each("OneHot", [9], [ints(1, 0, 2), np.array(3, I64), np.array([-1, 5], F32)],
         [np.where(np.eye(3)[[1, 0, 2]] > 0, 5, -1).astype(F32)])


def reductions():
    x = floats(2, 3, 4)
    how = {"ReduceL1": ([1, 11], lambda v: np.abs(v).sum((0, 2))), "ReduceL2": ([1, 11], lambda v: np.sqrt((v * v).sum((0, 2)))),
           "ReduceLogSum": ([11], lambda v: np.log(v.sum((0, 2)))),
           "ReduceLogSumExp": ([1, 11], lambda v: np.log(np.exp(v).sum((0, 2)))),
           "ReduceMax": ([1, 12], lambda v: v.max((0, 2))), "ReduceMean": ([11], lambda v: v.mean((0, 2))),
           "ReduceMin": ([1, 12], lambda v: v.min((0, 2))), "ReduceProd": ([1, 11], lambda v: v.prod((0, 2))),
           "ReduceSumSquare": ([1, 11], lambda v: (v * v).sum((0, 2)))}
    for op, (versions, f) in how.items():
        v = np.abs(x) if op == "ReduceLogSum" else x
        for version in versions:
            each(op, [version], [v], [f(v)], axes=[0, 2] if version == 1 else [0, -1], keepdims=0)
    flat = x.reshape(2, 12)
    each("Softmax", [11], [x], [softmax(flat, 1).reshape(x.shape)])
    each("LogSoftmax", [11], [x], [np.log(softmax(flat, 1)).reshape(x.shape)])
    each("Hardmax", [1, 11], [x], [np.eye(12, dtype=F32)[flat.argmax(1)].reshape(x.shape)])


def contractions():
    a, b, c = floats(2, 3), floats(3, 4), floats(4)
    each("Gemm", [7, 9, 11], [a, b, c], [a @ b * F32(0.5) + c * 2], alpha=0.5, beta=2.0)
    whole = RANDOM.integers(-9, 9, (2, 3)).astype(np.int32)
    each("MatMul", [9], [whole, whole.T], [whole @ whole.T])
    x = floats(1, 2, 6, 5)
    each("AveragePool", [7], [x], [pool("avg_pool", x, (1, 2, 6, 4), [3, 2], 1, padding=[1, 0, 1, 0]).astype(F32)],
         kernel_shape=[3, 2], pads=[1, 0, 1, 0], count_include_pad=1)
    each("AveragePool", [10], [x], [pool("avg_pool", x, (1, 2, 3, 2), [2, 3], strides=[2, 2]).astype(F32)],
         kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1)
    each("LpPool", [1], [x], [pool("lp_pool", x, (1, 2, 5, 4), [2, 2], p=3.0).astype(F32)], kernel_shape=[2, 2], p=3.0)
    each("LpPool", [2], [x], [pool("lp_pool", x, (1, 2, 5, 4), [2, 2], p=3.0).astype(F32)], kernel_shape=[2, 2], p=3)
    best, places = pool("max_pool_with_indices", x, (1, 2, 3, 2), [2, 2], strides=[2, 2])
    places = places + np.array([0, 30]).reshape(1, 2, 1, 1)
    each("MaxPool", [8, 11], [x], [best, places.astype(I64)], kernel_shape=[2, 2], strides=[2, 2])
    each("MaxPool", [10], [x], [pool("max_pool", x, (1, 2, 4, 3), [2, 2], dilations=[2, 2])], kernel_shape=[2, 2],
         dilations=[2, 2])
    spread = np.zeros((1, 2, 6, 4), F32)
    square = x[..., :4]
    best, places = pool("max_pool_with_indices", square, (1, 2, 3, 2), [2, 2], strides=[2, 2])
    for plane in range(2):
        spread[0, plane].flat[places[0, plane].ravel()] = best[0, plane].ravel()
    each("MaxUnpool", [9], [best, (places + np.array([0, 24]).reshape(1, 2, 1, 1)).astype(I64)], [spread],
         kernel_shape=[2, 2], strides=[2, 2])
    boxes, batch = np.array([[0, 0, 3, 4], [1, 1.5, 4, 5]], F32), ints(0, 0)
    wanted = roi_align(x, boxes, batch, (2, 2, 2, 2), [2, 2], coordinates="output_half_pixel", sampling_ratio=2)
    each("RoiAlign", [10], [x, boxes, batch], [wanted.astype(F32)], output_height=2, output_width=2, sampling_ratio=2)


def normalisations():
    x = floats(2, 3, 4, 5)
    s, b = floats(3), floats(3)
    parts = [v.reshape(1, 3, 1, 1) for v in (s, b)]
    mean, variance = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    each("InstanceNormalization", [1], [x, s, b],
         [((x - mean) / np.sqrt(variance + F32(1e-5)) * parts[0] + parts[1]).astype(F32)])
    sums = np.zeros_like(x)
    for channel in range(3):
        sums[:, channel] = (x[:, max(channel - 1, 0):channel + 2] ** 2).sum(1)
    each("LRN", [1], [x], [(x / (1 + 0.1 / 3 * sums) ** 0.75).astype(F32)], size=3, alpha=0.1)
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    each("MeanVarianceNormalization", [9], [x], [((x - mean) / np.sqrt(variance)).astype(F32)])
    old_mean, old_variance = floats(3), np.abs(floats(3))
    y = ((x - mean) / np.sqrt(variance + F32(1e-5)) * parts[0] + parts[1]).astype(F32)
    now = [mean.ravel(), variance.ravel()]
    blended = [o * F32(0.75) + n * F32(0.25) for o, n in zip((old_mean, old_variance), now)]
    inputs = [x, s, b, old_mean, old_variance]
    each("BatchNormalization", [14], inputs, [y] + blended, momentum=0.75, training_mode=1)
    for version in (1, 6, 7, 9):
        one(f"batch_normalization_training_{version}", "BatchNormalization", inputs, [y] + blended + now, version,
            momentum=0.75)
    each("Dropout", [6], [x], [x, np.ones_like(x)], is_test=1)
    one("dropout_mask_7", "Dropout", [x], [x, np.ones_like(x)], 7)
    one("dropout_mask_10", "Dropout", [x], [x, np.ones(x.shape, bool)], 10)
    each("Dropout", [12], [x], [x, np.ones(x.shape, bool)])


def recurrent_layers():
    x, h = floats(4, 3, 2), floats(1, 3, 5)
    lengths = np.array([4, 2, 3], np.int32)
    for op, gates, versions in (("LSTM", 4, [1, 7]), ("GRU", 3, [1, 3, 7]), ("RNN", 1, [1, 7])):
        w, r, b = floats(1, gates * 5, 2), floats(1, gates * 5, 5), floats(1, gates * 10)
        c = [h * 2] if op == "LSTM" else []
        peep = [None] if op == "LSTM" else []
        wanted = recurrent(op.lower(), [x, w, r, b, h] + c + peep + [lengths], "reverse")
        for version in versions:
            old = {"output_sequence": 1} if version == 1 or op == "GRU" and version == 3 else {}
            each(op, [version], [x, w, r, b, lengths, h] + c,
                 [v.astype(F32) for v in wanted[:3 if op == "LSTM" else 2]], direction="reverse", hidden_size=5, **old)


def losses_and_scales():
    scores, target = floats(3, 4), ints(1, 0, 3)
    logs = np.log(softmax(scores, 1))
    loss = -logs[np.arange(3), target]
    each("NegativeLogLikelihoodLoss", [12], [logs, target], [loss.mean(dtype=F32)])
    each("SoftmaxCrossEntropyLoss", [12], [scores, target], [loss.mean(dtype=F32), logs])
    q = RANDOM.integers(0, 256, (2, 3)).astype(np.uint8)
    each("DequantizeLinear", [10], [q, np.array(0.5, F32), np.array(100, np.uint8)],
         [((q.astype(int) - 100) * 0.5).astype(F32)])


def make():
    for part in (elementwise, shapes, indices, reductions, contractions, normalisations, recurrent_layers,
                 losses_and_scales):
        part()
