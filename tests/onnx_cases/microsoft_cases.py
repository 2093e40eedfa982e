# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of com.microsoft's operators. What they should give is ONNX Runtime's: microsoft_expected.npz, which
write_microsoft.py writes. Where its processor has no kernel of an operator, or takes not all forms, it computed the
standard operators, or the other form, that stand beside the case (`like`)."""
import os
import zlib

import numpy as np

from onnx_writer import Graph, Narrow, node

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "microsoft_expected.npz")
DOMAIN = "com.microsoft"
F32, F16, I32, I64, U8, S8 = np.float32, np.float16, np.int32, np.int64, np.uint8, np.int8
CASES = []  # (name, nodes, inputs, initializers, number of outputs, what computes them)


class Draw:
    """Numbers that depend on the case's name alone."""

    def __init__(self, name):
        self.random = np.random.default_rng(zlib.crc32(name.encode()))

    def floats(self, *shape, dtype=F32):
        return self.random.standard_normal(shape).astype(F32).astype(dtype)

    def ints(self, low, high, *shape, dtype=I64):
        return self.random.integers(low, high, shape).astype(dtype)

    def bytes_of(self, kind, *shape):
        """Of seven bits for weights with a sign: older processors add pairs of products in 16 bits."""
        return self.ints(*((0, 256) if kind == U8 else (-64, 64)), *shape, dtype=kind)


def many(name, nodes, inputs, outputs, initializers=(), like=None):
    """`outputs`: how many; `like`: (nodes, inputs, initializers) that give the same."""
    CASES.append((name, nodes, inputs, dict(initializers), outputs, like or (nodes, inputs, dict(initializers))))


def one(name, op, inputs, outputs=1, constants=(), like=None, domain=DOMAIN, **attributes):
    """One node; None among the inputs: left out; `constants`: positions of those; `outputs`: how many, or for each
    whether it has a name."""
    names = ["" if v is None else f"x{i}" for i, v in enumerate(inputs)]
    given = {n: v for n, v in zip(names, inputs) if n}
    held = {names[i]: given.pop(names[i]) for i in constants if names[i]}
    wanted = [True] * outputs if isinstance(outputs, int) else outputs
    results = [f"y{i}" if w else "" for i, w in enumerate(wanted)]
    many(name, [node(op, names, results, domain=domain, **attributes)], given, [r for r in results if r], held, like)


def standard(nodes, inputs, constants=()):
    """What stands beside a case: inputs by name."""
    return nodes, inputs, dict(constants)


# ---- activations, products, convolutions ----

def fused():
    d = Draw("fused")
    x, bias = d.floats(2, 3, 8), d.floats(8)
    one("gelu", "Gelu", [x])
    one("bias_gelu", "BiasGelu", [x, bias], constants=[1])
    one("fast_gelu", "FastGelu", [x])
    one("fast_gelu_bias", "FastGelu", [x, bias], constants=[1])
    one("quick_gelu", "QuickGelu", [x])
    one("quick_gelu_alpha", "QuickGelu", [x], alpha=1.25)
    one("bias_split_gelu", "BiasSplitGelu", [x, bias], constants=[1], like=standard(
        [node("Add", ["x", "b"], ["s"]), node("Split", ["s"], ["l", "r"], axis=-1, num_outputs=2),
         node("Gelu", ["r"], ["g"]), node("Mul", ["l", "g"], ["y0"])], {"x": x, "b": bias}))
    one("bias_add", "BiasAdd", [x, bias, x * 2], constants=[1], like=standard(
        [node("Sum", ["x", "b", "s"], ["y0"])], {"x": x, "b": bias, "s": x * 2}))
    scores, mask = d.floats(2, 3, 4, 5), d.floats(2, 1, 1, 5)
    for name, axis, inner, m in (("inner", 3, 1, mask), ("outer", 3, 0, d.floats(4, 5)), ("flat", 2, 1, mask)):
        last = [node("Add", ["x", "m"], ["s"]), node("Flatten", ["s"], ["f"], axis=axis),
                node("Softmax", ["f"], ["p"]), node("Shape", ["x"], ["n"]), node("Reshape", ["p", "n"], ["y0"])]
        one(f"bias_softmax_{name}", "BiasSoftmax", [scores, m], axis=axis, is_inner_broadcast=inner,
            like=standard(last, {"x": scores, "m": m}))
    a, b = d.floats(2, 3, 4), d.floats(4, 5)
    one("fused_matmul_alpha", "FusedMatMul", [a, b], alpha=0.25)
    one("fused_matmul_turned", "FusedMatMul", [a.transpose(0, 2, 1).copy(), b.T.copy()], transA=1, transB=1)
    one("fused_matmul_batch_behind", "FusedMatMul", [d.floats(3, 2, 4), d.floats(2, 4, 5)], transBatchA=1, alpha=2.0)
    one("fused_matmul_batches_behind", "FusedMatMul", [d.floats(4, 2, 3, 5), d.floats(6, 2, 3, 5)], transBatchA=1,
        transBatchB=1, transB=1)
    rows, weight, c = d.floats(3, 4), d.floats(5, 4), d.floats(5)
    for activation, numbers in (("Relu", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.125}),
                                ("Sigmoid", {})):
        one(f"fused_gemm_{activation.lower()}", "FusedGemm", [rows, weight, c], constants=[1, 2], transB=1, alpha=0.5,
            activation=activation, **numbers)
    image, taps = d.floats(1, 2, 5, 4), d.floats(3, 2, 3, 3)
    small = d.floats(3)
    for activation, numbers in (("Relu", None), ("Clip", [-0.5, 0.75]), ("LeakyRelu", [0.25]),
                                ("HardSigmoid", [0.25, 0.5]), ("Sigmoid", None), ("Tanh", None)):
        one(f"fused_conv_{activation.lower()}", "FusedConv", [image, taps, small], constants=[1, 2], pads=[1, 1, 1, 1],
            kernel_shape=[3, 3], activation=activation, activation_params=numbers)
    one("fused_conv_sum", "FusedConv", [image, taps, small, d.floats(1, 3, 3, 2)], constants=[1, 2],
        kernel_shape=[3, 3], activation="Relu")
    behind, wide = image.transpose(0, 2, 3, 1).copy(), taps.transpose(0, 2, 3, 1).copy()
    one("nhwc_conv", "NhwcConv", [behind, wide, small], constants=[1, 2], strides=[2, 1], pads=[1, 0, 1, 0],
        kernel_shape=[3, 3], like=standard(
            [node("Conv", ["x", "w", "b"], ["c"], strides=[2, 1], pads=[1, 0, 1, 0]),
             node("Transpose", ["c"], ["y0"], perm=[0, 2, 3, 1])], {"x": image, "w": taps, "b": small}))


# ---- normalisation ----

def norms():
    d = Draw("norms")
    x, skip, gamma, beta, bias = d.floats(2, 3, 8), d.floats(2, 3, 8), d.floats(8), d.floats(8), d.floats(8)
    one("skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta], constants=[2, 3], epsilon=1e-5)
    one("skip_layer_norm_sum", "SkipLayerNormalization", [x, skip, gamma, beta, bias], [True, False, False, True],
        constants=[2, 3, 4])
    one("skip_layer_norm_no_beta", "SkipLayerNormalization", [x, skip, gamma], constants=[2])
    one("skip_layer_norm_shared", "SkipLayerNormalization", [x, skip[:1], gamma, beta], constants=[2, 3])
    one("skip_layer_norm_rows", "SkipLayerNormalization", [x, skip[0], gamma, beta], constants=[2, 3])
    one("skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], [True, False, False, True],
        constants=[2, 3], epsilon=1e-6)
    one("simplified_layer_norm", "SimplifiedLayerNormalization", [x, gamma], constants=[1], domain="", axis=-1,
        epsilon=1e-6, stash_type=1)
    ids, segments = d.ints(0, 9, 2, 4, dtype=I32), d.ints(0, 2, 2, 4, dtype=I32)
    tables = [d.floats(9, 6), d.floats(7, 6), d.floats(2, 6), d.floats(6), d.floats(6)]
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], I32)
    places = np.array([[3, 1, 0, 6]], I32)
    one("embed_layer_norm", "EmbedLayerNormalization", [ids, segments] + tables + [mask], 2, constants=range(2, 7))
    one("embed_layer_norm_sum", "EmbedLayerNormalization", [ids, segments] + tables, 3, constants=range(2, 7),
        epsilon=1e-5)
    one("embed_layer_norm_words", "EmbedLayerNormalization",
        [ids, None] + tables[:2] + [None] + tables[3:] + [None, places], [True, False], constants=[2, 3, 5, 6])
    bytes_ = [d.bytes_of(U8, *t.shape) for t in tables]
    scales = [np.array(s, F32) for s in (0.02, 0.03, 0.01, 0.015, 0.025)]
    zeros = [np.array(z, U8) for z in (128, 120, 130, 10, 99)]
    one("quantised_embed_layer_norm", "QEmbedLayerNormalization",
        [ids, segments] + bytes_ + [mask] + scales + zeros, 2, constants=[*range(2, 7), *range(8, 18)])


# ---- attention ----

def tables_of(rows, half):
    angles = np.arange(rows)[:, None] / 10.0 ** (np.arange(half) / half)
    return np.cos(angles).astype(F32), np.sin(angles).astype(F32)


def attention():
    d = Draw("attention")
    x, weight, bias = d.floats(2, 4, 8), d.floats(8, 24) / 3, d.floats(24)
    plain = [x, weight, bias]
    one("attention", "Attention", plain, constants=[1, 2], num_heads=2)
    one("attention_no_bias", "Attention", [x, weight], constants=[1], num_heads=4, scale=0.5)
    one("attention_causal", "Attention", plain, constants=[1, 2], num_heads=2, unidirectional=1)
    masks = {"keys": np.array([[1, 1, 1, 0], [1, 0, 1, 1]], I32), "ends": np.array([3, 4], I32),
             "starts": np.array([4, 3, 1, 0], I32), "pairs": d.ints(0, 2, 2, 4, 4, dtype=I32)}
    for name, mask in masks.items():
        one(f"attention_mask_{name}", "Attention", plain + [mask], constants=[1, 2], num_heads=2)
    one("attention_mask_filter", "Attention", plain + [masks["keys"]], constants=[1, 2], num_heads=2,
        mask_filter_value=-2.0)
    one("attention_mask_causal", "Attention", plain + [masks["keys"]], constants=[1, 2], num_heads=2, unidirectional=1)
    past = d.floats(2, 2, 2, 3, 4)
    one("attention_past", "Attention", plain + [None, past], 2, constants=[1, 2], num_heads=2, unidirectional=1)
    one("attention_past_one_row", "Attention", [x[:, :1].copy(), weight, bias, np.ones((2, 4), I32), past], 2,
        constants=[1, 2], num_heads=2, unidirectional=1)
    one("attention_present", "Attention", plain, 2, constants=[1, 2], num_heads=2, unidirectional=1)
    one("attention_bias", "Attention", plain + [None, None, d.floats(1, 2, 4, 4)], constants=[1, 2], num_heads=2)
    one("attention_sizes", "Attention", [x, d.floats(8, 20) / 3, d.floats(20)], constants=[1, 2], num_heads=2,
        qkv_hidden_sizes=[8, 8, 4])
    quantised = [d.bytes_of(U8, 2, 4, 8), d.bytes_of(S8, 8, 24), bias, np.array(0.02, F32), np.array(0.01, F32)]
    one("quantised_attention", "QAttention", quantised + [masks["keys"], np.array(120, U8), np.array(0, S8)],
        constants=[1, 2, 3, 4, 6, 7], num_heads=2)
    scales = (np.abs(d.floats(24)) + 1) / 99
    one("quantised_attention_past", "QAttention",
        quantised[:4] + [scales, None, np.array(120, U8), np.zeros(24, S8), past], 2, constants=[1, 2, 3, 4, 6, 7],
        num_heads=2, unidirectional=1)


def multi_head_attention():
    d = Draw("multi_head_attention")
    query, key, value = d.floats(2, 3, 8), d.floats(2, 5, 8), d.floats(2, 5, 12)
    three = [query, key, value]
    op = "MultiHeadAttention"
    one("mha", op, three, num_heads=2)
    one("mha_bias", op, three + [d.floats(28)], constants=[3], num_heads=4, scale=0.4)
    keys = np.array([[1, 1, 1, 1, 0], [0, 1, 1, 0, 1]], I32)
    one("mha_mask", op, three + [None, keys], num_heads=2)
    one("mha_mask_filter", op, three + [None, keys], num_heads=2, mask_filter_value=-1.5)
    one("mha_lengths", op, three + [None, np.array([3, 5], I32)], num_heads=2)
    one("mha_mask_pairs", op, three + [None, d.ints(0, 2, 2, 3, 5, dtype=I32)], num_heads=2)
    one("mha_attention_bias", op, three + [None, None, d.floats(2, 2, 3, 5)], num_heads=2)
    one("mha_attention_bias_shared", op, three + [None, keys, d.floats(1, 1, 3, 5)], num_heads=2)
    heads = [d.floats(2, 2, 5, 4), d.floats(2, 2, 5, 4)]
    one("mha_of_heads", op, [query] + heads, num_heads=2)
    same = [d.floats(2, 3, 8) for _ in range(3)]
    past = [d.floats(2, 2, 4, 4), d.floats(2, 2, 4, 4)]
    one("mha_past", op, same + [None, None, None] + past, 3, num_heads=2)
    one("mha_past_causal", op, same + [None, None, None] + past, 3, num_heads=2, unidirectional=1)
    one("mha_causal", op, same, 3, num_heads=2, unidirectional=1)
    one("mha_scores", op, three, [True, False, False, True], num_heads=2)
    apart = [x.reshape(2, 3, 2, 4) for x in same]
    alike = standard([node(op, ["q", "k", "v"], ["y0"], domain=DOMAIN, num_heads=2)], dict(zip("qkv", same)))
    one("mha_packed", op, [np.stack(apart, 3)], num_heads=2, like=alike)
    one("mha_packed_keys", op, [same[0], np.stack(apart[1:], 3)], num_heads=2, like=alike)


def rotary():
    d = Draw("rotary")
    cosine, sine = tables_of(9, 4)
    x, places = d.floats(2, 3, 16), np.array([[0, 4, 8], [2, 3, 4]], I64)
    one("rotary", "RotaryEmbedding", [x, places, cosine, sine], constants=[2, 3])
    one("rotary_from_place", "RotaryEmbedding", [x, np.array([5], I64), cosine, sine], constants=[2, 3])
    one("rotary_interleaved", "RotaryEmbedding", [x, places, cosine, sine], constants=[2, 3], interleaved=1)
    one("rotary_heads", "RotaryEmbedding", [d.floats(2, 2, 3, 8), places, cosine, sine], constants=[2, 3])
    one("rotary_part", "RotaryEmbedding", [x, places, cosine[:, :2].copy(), sine[:, :2].copy()], constants=[2, 3],
        num_heads=2, rotary_embedding_dim=4)


def grouped(name, batch, rows, heads, key_heads, lengths, total, room=None, size=16, rotary_=False, packed=False,
            more=(), **attributes):
    """Lengths: keys of each sample, the new ones among them."""
    d = Draw(name)
    query, key, value = (d.floats(batch, rows, n * size) for n in (heads, key_heads, key_heads))
    pasts = [None, None] if room is None else [d.floats(batch, key_heads, room, size) for _ in range(2)]
    if room is not None:
        for past in pasts:  # what is behind a sample's keys is nobody's
            for i, length in enumerate(lengths):
                past[i, :, max(length - rows, 0):] = 0
    three = [np.concatenate([query, key, value], 2), None, None] if packed else [query, key, value]
    tables = list(tables_of(32, size // 2)) if rotary_ else [None, None]
    inputs = three + pasts + [np.array(lengths, I32) - 1, np.array(total, I32)] + tables
    more = dict(more(d) if callable(more) else more)
    inputs += [more.get(i) for i in range(9, max(more, default=8) + 1)]
    attributes.update(num_heads=heads, kv_num_heads=key_heads, do_rotary=int(rotary_))
    like = None
    if more.get(14) is not None:
        like = with_norms(inputs[:14], more, heads, key_heads, size, attributes)
    one(name, "GroupQueryAttention", inputs, 3, constants=[7, 8] if rotary_ else [], like=like, **attributes)


def with_norms(inputs, more, heads, key_heads, size, attributes):
    """Rows of heads normed before the operator."""
    given = {f"x{i}": v for i, v in enumerate(inputs) if v is not None}
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    nodes = []
    for i, count in ((0, heads), (1, key_heads)):
        given.update({f"w{i}": more[14 + i], f"n{i}": np.array([0, 0, count, size], I64),
                      f"m{i}": np.array([0, 0, count * size], I64)})
        nodes += [node("Reshape", [f"x{i}", f"n{i}"], [f"a{i}"]),
                  node("SimplifiedLayerNormalization", [f"a{i}", f"w{i}"], [f"b{i}"], axis=-1, epsilon=1e-6),
                  node("Reshape", [f"b{i}", f"m{i}"], [f"c{i}"])]
        names[i] = f"c{i}"
    nodes.append(node("GroupQueryAttention", names, ["y0", "y1", "y2"], domain=DOMAIN, **attributes))
    return standard(nodes, given)


def group_query_attention():
    grouped("gqa_prompt", 1, 4, 4, 2, [4], 4)
    d = Draw("gqa_prompt_padded")  # what rows behind a sample's end are is nobody's
    many("gqa_prompt_padded",
         [node("GroupQueryAttention", ["q", "k", "v", "", "", "s", "t"], ["y", "pk", "pv"], domain=DOMAIN, num_heads=4,
               kv_num_heads=2), node("Slice", ["y", "a", "e", "i"], ["y0"])],
         {"q": d.floats(2, 4, 32), "k": d.floats(2, 4, 16), "v": d.floats(2, 4, 16), "s": np.array([3, 2], I32),
          "t": np.array(4, I32)}, ["y0"], {"a": np.array([0], I64), "e": np.array([3], I64), "i": np.array([1], I64)})
    grouped("gqa_prompt_rotary", 2, 4, 4, 2, [4, 4], 4, rotary_=True)
    grouped("gqa_prompt_room", 1, 3, 4, 2, [3], 3, room=6, rotary_=True)
    grouped("gqa_step", 1, 1, 4, 2, [6], 6, room=5)
    grouped("gqa_step_rotary", 1, 1, 4, 2, [6], 6, room=5, rotary_=True)
    grouped("gqa_step_interleaved", 1, 1, 4, 2, [6], 6, room=5, rotary_=True, rotary_interleaved=1)
    grouped("gqa_step_room", 2, 1, 4, 2, [6, 3], 6, room=8, rotary_=True)
    grouped("gqa_step_grown", 2, 1, 4, 4, [6, 4], 6, room=5)
    grouped("gqa_steps", 1, 3, 4, 2, [7], 7, room=4, rotary_=True)
    grouped("gqa_packed", 1, 1, 4, 2, [6], 6, room=5, rotary_=True, packed=True)
    grouped("gqa_packed_prompt", 2, 3, 4, 2, [3, 3], 3, rotary_=True, packed=True)
    grouped("gqa_window", 1, 6, 4, 2, [6], 6, local_window_size=2)
    grouped("gqa_window_step", 1, 1, 4, 2, [7], 7, room=6, local_window_size=3)
    grouped("gqa_window_room", 2, 1, 4, 2, [7, 4], 7, room=8, local_window_size=3)
    grouped("gqa_capped", 1, 3, 4, 2, [3], 3, softcap=0.5, scale=0.9)
    grouped("gqa_smooth", 1, 3, 4, 2, [3], 3, smooth_softmax=1)
    grouped("gqa_sink", 2, 1, 4, 2, [6, 5], 6, room=6, more=lambda d: {11: d.floats(4)})
    grouped("gqa_bias", 1, 3, 4, 2, [3], 3, more=lambda d: {10: d.floats(1, 4, 3, 3)})
    grouped("gqa_places", 1, 2, 4, 2, [6], 6, room=4, rotary_=True, more={9: np.array([[4, 5]], I64)})
    grouped("gqa_norms", 1, 3, 4, 2, [3], 3, rotary_=True, more=lambda d: {14: d.floats(16), 15: d.floats(16)})
    grouped("gqa_both_ways", 1, 3, 4, 2, [3], 3, causal=0)


# ---- quantised ----

def number(value, dtype=F32):
    return np.array(value, dtype)


def qlinear():
    d = Draw("qlinear")
    for kind, z in ((U8, (120, 100, 131)), (S8, (-3, 5, 7))):
        name = kind.__name__
        a, b = d.bytes_of(kind, 2, 3, 4), d.bytes_of(kind, 3, 1)
        for op in ("Add", "Mul"):
            one(f"qlinear_{op.lower()}_{name}", "QLinear" + op,
                [a, number(0.031), number(z[0], kind), b, number(0.017), number(z[1], kind), number(0.043),
                 number(z[2], kind)], constants=[1, 2, 4, 5, 6, 7])
        units = [number(0.031), number(z[0], kind), number(1 / 130), number(z[2], kind)]
        one(f"qlinear_sigmoid_{name}", "QLinearSigmoid", [a] + units, constants=[1, 2, 3, 4])
        one(f"qlinear_leaky_relu_{name}", "QLinearLeakyRelu", [a, units[0], units[1], number(0.05), units[3]],
            constants=[1, 2, 3, 4], alpha=0.2)
        image = d.bytes_of(kind, 1, 2, 5, 6)
        behind = image.transpose(0, 2, 3, 1).copy()
        pool = [units[0], units[1], number(0.023), units[3]]
        one(f"qlinear_average_pool_{name}", "QLinearAveragePool", [image] + pool, constants=[1, 2, 3, 4],
            kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
        one(f"qlinear_average_pool_padded_{name}", "QLinearAveragePool", [image] + pool, constants=[1, 2, 3, 4],
            kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
        one(f"qlinear_average_pool_last_{name}", "QLinearAveragePool", [behind] + pool, constants=[1, 2, 3, 4],
            kernel_shape=[2, 2], channels_last=1)
        one(f"qlinear_global_pool_{name}", "QLinearGlobalAveragePool", [image] + pool, constants=[1, 2, 3, 4],
            channels_last=0)
        one(f"qlinear_global_pool_last_{name}", "QLinearGlobalAveragePool", [behind] + pool, constants=[1, 2, 3, 4],
            channels_last=1)
        for opset, axis in ((13, 1), (13, -1), (11, 1)):
            one(f"qlinear_softmax_{name}_{opset}_{axis % 3}", "QLinearSoftmax",
                [a, number(0.031), units[1], number(1 / 256), number(0 if kind == U8 else -128, kind)],
                constants=[1, 2, 3, 4], axis=axis, opset=opset)
        one(f"qlinear_concat_{name}", "QLinearConcat",
            [number(0.04), number(z[2], kind), a, number(0.04), number(z[2], kind), a[:, :1].copy(), number(0.017),
             number(z[1], kind)], constants=[0, 1, 3, 4, 6, 7], axis=1)
        one(f"qlinear_where_{name}", "QLinearWhere",
            [a > 0, a, number(0.031), number(z[0], kind), b, number(0.017), number(z[1], kind), number(0.043),
             number(z[2], kind)], constants=[2, 3, 5, 6, 7, 8])
        mean = [node("DequantizeLinear", ["x", "s", "z"], ["f"]), node("ReduceMean", ["f", "a"], ["m"], keepdims=0),
                node("QuantizeLinear", ["m", "t", "w"], ["y0"])]
        one(f"qlinear_reduce_mean_{name}", "QLinearReduceMean", [a] + pool, constants=[1, 2, 3, 4], axes=[1],
            keepdims=0, like=standard(mean, {"x": a}, {"s": pool[0], "z": pool[1], "t": pool[2], "w": pool[3],
                                                       "a": np.array([1], I64)}))
    taps = d.bytes_of(S8, 3, 2, 3, 3)
    one("qlinear_conv_last", "QLinearConv",
        [d.bytes_of(U8, 1, 5, 4, 2), number(0.02), number(128, U8), taps, np.array([0.01, 0.02, 0.015], F32),
         np.zeros(3, S8), number(0.11), number(127, U8), d.ints(-500, 500, 3, dtype=I32)], constants=range(1, 9),
        kernel_shape=[3, 3], pads=[1, 1, 1, 1], channels_last=1)


def integer_products():
    d = Draw("integer_products")
    for kind in (U8, S8):
        name = kind.__name__
        a, b = d.bytes_of(U8, 3, 8), d.bytes_of(kind, 8, 5)
        x, bias = d.floats(2, 3, 8), d.floats(5)
        zero = number(9 if kind == U8 else -2, kind)
        scales = np.abs(d.floats(5)) / 50 + F32(0.01)
        one(f"matmul_integer_to_float_{name}", "MatMulIntegerToFloat",
            [a, b, number(0.02), number(0.03), number(117, U8), zero, bias], constants=[1, 2, 3, 4, 5, 6])
        one(f"matmul_integer_to_float_columns_{name}", "MatMulIntegerToFloat",
            [a, b, number(0.02), scales, number(117, U8), np.full(5, zero)], constants=[1, 2, 3, 4, 5])
        one(f"dynamic_quantize_matmul_{name}", "DynamicQuantizeMatMul", [x, b, number(0.03), zero, bias],
            constants=[1, 2, 3, 4])
        one(f"dynamic_quantize_matmul_columns_{name}", "DynamicQuantizeMatMul", [x, b, scales], constants=[1, 2])
        c = d.ints(-900, 900, 5, dtype=I32)
        units = [number(0.02), number(117, U8)]
        one(f"qgemm_{name}", "QGemm", [a] + units + [b, number(0.03), zero, c, number(0.09), number(121, U8)],
            constants=range(1, 9), alpha=0.5)
        one(f"qgemm_floats_{name}", "QGemm", [a.T.copy()] + units + [b.T.copy(), scales, np.full(5, zero), c],
            constants=range(1, 7), transA=1, transB=1)
    x16 = d.ints(-30000, 30000, 3, 4, dtype=np.int16)
    one("dequantize_linear_int16", "DequantizeLinear", [x16, number(0.01), number(77, np.int16)], constants=[1, 2])
    one("quantize_linear_uint16", "QuantizeLinear", [d.floats(3, 4), number(0.0001), number(32768, np.uint16)],
        constants=[1, 2])
    one("quantize_linear_axis", "QuantizeLinear", [d.floats(3, 4), np.array([0.01, 0.02, 0.03], F32),
                                                   np.array([1, 2, 3], U8)], constants=[1, 2], axis=0)
    weights = [d.bytes_of(S8, 1, 5, 16), d.bytes_of(S8, 1, 4, 16)]
    units = [np.array([0.01], F32), np.zeros(1, S8), np.array([0.02], F32), np.zeros(1, S8)]
    rows, both = np.round(d.floats(6, 2, 5), 2), d.floats(1, 32)
    whole = [(w * s.item()).transpose(0, 2, 1).astype(F32) for w, s in zip(weights, units[::2])]
    one("dynamic_quantize_lstm", "DynamicQuantizeLSTM",
        [rows] + weights + [both, None, None, None, None] + units, 3, constants=[1, 2, 3, 8, 9, 10, 11], hidden_size=4,
        like=standard([node("LSTM", ["x", "w", "r", "b"], ["y0", "y1", "y2"], hidden_size=4)], {"x": rows},
                      {"w": whole[0], "r": whole[1], "b": both}))


# ---- weights of few bits ----

def in_bytes(values, bits):
    """Along the last axis, low bits first."""
    each = 8 // bits
    more = -values.shape[-1] % each
    values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, more)]).reshape(*values.shape[:-1], -1, each)
    return sum(values[..., i] << (bits * i) for i in range(each)).astype(U8)


def few_bits():
    for bits in (2, 4, 8):
        for name, k, size, zeros, with_groups in (("plain", 64, 32, None, False), ("zeros", 40, 16, U8, False),
                                                  ("float_zeros", 64, 16, F32, False), ("odd", 33, 16, U8, False),
                                                  ("groups", 64, 16, U8, True)):
            case = f"matmul_nbits_{bits}_{name}"
            if (bits, name) in ((2, "groups"), (8, "groups")):
                continue
            d = Draw(case)
            n, blocks = 6, -(-k // size)
            values = d.ints(0, 2**bits, n, blocks, size)
            scales = np.abs(d.floats(n, blocks)) / 2**bits + F32(0.1 / 2**bits)
            inputs = [d.floats(3, k), in_bytes(values, bits), scales]
            if zeros == U8:
                inputs += [in_bytes(d.ints(0, 2**bits, n, blocks), bits)]
            elif zeros is not None:
                inputs += [(d.floats(n, blocks) + 2**(bits - 1)).astype(F32)]
            else:
                inputs += [None]
            inputs += [d.random.permutation(np.arange(k) // size).astype(I32) if with_groups else None,
                       d.floats(n) + 64]
            one(case, "MatMulNBits", inputs, constants=range(1, 6), like=dequantised(inputs, bits, size, k),
                K=k, N=n, bits=bits, block_size=size)
    d = Draw("gather_block_quantized")
    indices = np.array([[0, 4, 2], [3, 3, 1]], I64)
    for bits, with_zeros in ((2, True), (4, True), (4, False), (8, True)):
        values, scales = d.ints(0, 2**bits, 5, 40), np.abs(d.floats(5, 3)) + F32(0.5)
        inputs = [in_bytes(values, bits), indices, scales]
        if with_zeros:
            inputs.append(in_bytes(d.ints(0, 2**bits, 5, 3), bits))
        one(f"gather_block_quantized_{bits}" + "_zeros" * with_zeros, "GatherBlockQuantized", inputs,
            constants=[0, *range(2, len(inputs))], bits=bits, block_size=16, quantize_axis=1, gather_axis=0)
    for axis in (0, 1):
        values = Narrow(d.ints(-8, 8, 32, 6), "int4")
        one(f"gather_block_quantized_int4_{axis}", "GatherBlockQuantized",
            [values, np.array([3, 0], I64), np.abs(d.floats(2, 6)) + F32(0.5)], constants=[0, 2], block_size=16,
            quantize_axis=0, gather_axis=axis)


def dequantised(inputs, bits, size, k):
    """ONNX Runtime's processor computes some forms with rounded rows: the floats that all forms mean."""
    a, packed, scales, zeros, groups, bias = inputs
    each = 8 // bits
    blocks = scales.shape[1]
    values = np.stack([packed >> (bits * i) & (2**bits - 1) for i in range(each)], -1).reshape(len(packed), -1)
    if zeros is None:
        zeros = np.full(scales.shape, 2**(bits - 1))
    elif zeros.dtype == U8:
        zeros = np.stack([zeros >> (bits * i) & (2**bits - 1) for i in range(each)], -1).reshape(
            len(zeros), -1)[:, :blocks]
    groups = np.arange(k) // size if groups is None else groups
    weight = (values[:, :k] - zeros.astype(np.float64)[:, groups]) * scales[:, groups]
    return standard([node("MatMul", ["a", "w"], ["p"]), node("Add", ["p", "b"], ["y0"])], {"a": a},
                    {"w": weight.T.astype(F32), "b": bias})


def declare():
    if not CASES:
        for part in (fused, norms, attention, multi_head_attention, rotary, group_query_attention, qlinear,
                     integer_products, few_bits):
            part()
    return CASES


def make():
    """Writes the cases with what is expected of them."""
    from case_writer import FOLDER
    from onnx_writer import write_case
    expected = np.load(FILE)
    for name, nodes, inputs, initializers, outputs, _ in declare():
        values = {n: expected[f"{name}.{n}"] for n in outputs}
        write_case(FOLDER, "microsoft_" + name, Graph(nodes, inputs, values, initializers), 21)
