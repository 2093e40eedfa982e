#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models after ONNX Runtime's tools: quantised (dynamically, as QDQ, as QOperator, to few bits) and optimised for
transformers, alone and together. Each runs in Kiln, and is as near to the floats' results as ONNX Runtime is with the
same file. KILN_TEST_PYTHON names a Python that has onnxruntime and onnx; skipped where there is none.

usage: check_tools.py KILN DEVICE [few]: with `few` only the trials that have most operators of com.microsoft
"""
import os
import subprocess
import sys
import tempfile

PYTHON = os.environ.get("KILN_TEST_PYTHON")
if PYTHON and os.environ.get("KILN_TEST_PYTHON_USED") is None:
    os.execve(PYTHON, [PYTHON, "-B", "-W", "ignore"] + sys.argv, dict(os.environ, KILN_TEST_PYTHON_USED="1"))

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "onnx_cases"))
try:
    import logging
    import numpy as np
    import onnx
    import onnxruntime
    import tool_models
    from onnxruntime import quantization
    from onnxruntime.transformers import float16, optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions
except ImportError as missing:
    print(f"SKIP {missing}: pip install onnx onnxruntime")
    print("kiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)

try:
    from onnxruntime.quantization import matmul_nbits_quantizer
except ImportError as missing:
    print(f"SKIP weights of few bits: {missing}: pip install onnx_ir")
    matmul_nbits_quantizer = None

KILN, DEVICE = sys.argv[1:3]
MODELS = {"bert": tool_models.bert, "gpt2": tool_models.gpt2, "convolutions": tool_models.convolutions}


class Samples(quantization.CalibrationDataReader):
    def __init__(self, name):
        self.rest = [tool_models.inputs_of(name, seed) for seed in range(20, 28)]

    def get_next(self):
        return self.rest.pop() if self.rest else None


def dynamic(source, target, name, **more):
    quantization.quantize_dynamic(source, target, weight_type=quantization.QuantType.QInt8,
                                  extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT}, **more)


def by_columns(source, target, name):
    dynamic(source, target, name, per_channel=True, reduce_range=True)


def static(source, target, name, form, **more):
    quantization.quantize_static(source, target, Samples(name), quant_format=form,
                                 activation_type=quantization.QuantType.QUInt8,
                                 weight_type=quantization.QuantType.QInt8, reduce_range=True, **more)


def products(name):
    """Of transformers: a scale for scores with -10000 among them leaves nothing of the others."""
    return {} if name == "convolutions" else {"op_types_to_quantize": ["MatMul", "Gemm"]}


def qdq(source, target, name):
    static(source, target, name, quantization.QuantFormat.QDQ, **products(name))


def qdq_16(source, target, name):
    quantization.quantize_static(source, target, Samples(name), activation_type=quantization.QuantType.QUInt16,
                                 weight_type=quantization.QuantType.QInt8,
                                 extra_options={"UseQDQContribOps": True})


def qoperator(source, target, name):
    static(source, target, name, quantization.QuantFormat.QOperator, **products(name))


def qoperator_all(source, target, name):
    static(source, target, name, quantization.QuantFormat.QOperator)


def few_bits(source, target, name, bits=4, symmetric=True):
    made = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load(source), bits=bits, block_size=32,
                                                       is_symmetric=symmetric)
    made.process()
    made.model.save_model_to_file(target)


def few_bits_with_zeros(source, target, name):
    few_bits(source, target, name, symmetric=False)


def eight_bits(source, target, name):
    few_bits(source, target, name, bits=8, symmetric=False)


def by_words_too(source, target, name):
    """Tables of words as well as matrices."""
    settings = matmul_nbits_quantizer.DefaultWeightOnlyQuantConfig(
        block_size=32, is_symmetric=False, bits=4, op_types_to_quantize=("MatMul", "Gather"),
        quant_axes=(("MatMul", 0), ("Gather", 1)))
    settled(source, target, settings)


def four_bits_as_qdq(source, target, name):
    settled(source, target, matmul_nbits_quantizer.DefaultWeightOnlyQuantConfig(
        block_size=32, is_symmetric=False, bits=4, quant_format=quantization.QuantFormat.QDQ))


def two_bits(source, target, name):
    few_bits(source, target, name, bits=2, symmetric=False)


def settled(source, target, settings):
    made = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load(source), algo_config=settings)
    made.process()
    made.model.save_model_to_file(target)


def halves(source, target, name):
    """Its casts stand behind the nodes that read them."""
    onnx.save(float16.convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def optimised(source, target, name, attention=None):
    options = FusionOptions(name)
    if attention == "MultiHeadAttention":
        options.use_multi_head_attention = True
    model = optimizer.optimize_model(source, model_type=name, num_heads=tool_models.HEADS,
                                     hidden_size=tool_models.HIDDEN, optimization_options=options, opt_level=0)
    model.save_model_to_file(target)


def with_heads(source, target, name):
    optimised(source, target, name, "MultiHeadAttention")


def joined_by_session(source, target, name):
    """What a session of ONNX Runtime saves of its own optimisation."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = target
    options.log_severity_level = 3
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


FEW_BITS = (few_bits, few_bits_with_zeros, eight_bits, by_words_too, four_bits_as_qdq, two_bits)
HALF = 2e-3  # a part of the results: ONNX Runtime computes halves in f32, Kiln rounds each operation's results
TRIALS = (  # model, tools in their order, operators of com.microsoft that must be in the result
    ("bert", (dynamic,), ()),
    ("bert", (by_columns,), ()),
    ("bert", (qdq,), ()),
    ("bert", (qdq_16,), ("DequantizeLinear", "QuantizeLinear")),
    ("bert", (qoperator,), ()),
    ("bert", (qoperator_all,), ("QLinearAdd", "QLinearMul", "QLinearSoftmax")),
    ("bert", (few_bits,), ("MatMulNBits",)),
    ("bert", (few_bits_with_zeros,), ("MatMulNBits",)),
    ("bert", (eight_bits,), ("MatMulNBits",)),
    ("bert", (two_bits,), ("MatMulNBits",)),
    ("bert", (by_words_too,), ("MatMulNBits", "GatherBlockQuantized")),
    ("bert", (four_bits_as_qdq,), ()),
    ("bert", (halves,), ()),
    ("bert", (optimised,), ("Attention", "BiasGelu", "EmbedLayerNormalization", "SkipLayerNormalization")),
    ("bert", (with_heads,), ("MultiHeadAttention",)),
    ("bert", (optimised, dynamic), ("QAttention", "QEmbedLayerNormalization")),
    ("bert", (optimised, few_bits), ("MatMulNBits", "Attention")),
    ("bert", (joined_by_session,), ()),
    ("bert", (dynamic, joined_by_session), ("DynamicQuantizeMatMul",)),
    ("bert", (qoperator, joined_by_session), ()),
    ("gpt2", (dynamic,), ()),
    ("gpt2", (qdq,), ()),
    ("gpt2", (qoperator,), ("QGemm",)),
    ("gpt2", (few_bits,), ("MatMulNBits",)),
    ("gpt2", (by_words_too,), ("MatMulNBits", "GatherBlockQuantized")),
    ("gpt2", (four_bits_as_qdq,), ()),
    ("gpt2", (halves, optimised), ("Attention",)),
    ("gpt2", (optimised,), ("Attention", "FastGelu", "SkipLayerNormalization")),
    ("gpt2", (optimised, dynamic), ("QAttention",)),
    ("gpt2", (joined_by_session,), ()),
    ("convolutions", (qdq,), ()),
    ("convolutions", (qoperator,), ("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearConcat",
                                    "QLinearLeakyRelu", "QLinearGlobalAveragePool", "QLinearAveragePool",
                                    "QLinearSoftmax", "QGemm")),
    ("convolutions", (halves,), ()),
    ("convolutions", (joined_by_session,), ("FusedConv",)),
    ("convolutions", (qdq, joined_by_session), ("QLinearAdd",)),
)


def by_onnxruntime(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(["y"], inputs)[0]


def by_kiln(path, inputs, folder):
    command = [KILN, "run", path, "--device", DEVICE, "--repeat", "1", "--output", os.path.join(folder, "y.npy")]
    for name, value in inputs.items():
        np.save(os.path.join(folder, name + ".npy"), value)
        command += ["--input", f"{name}={os.path.join(folder, name)}.npy"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return np.load(os.path.join(folder, "y.npy")) if run.returncode == 0 else run.stderr.strip()


def off(found, wanted):
    """Mean square, so that one rounding more or less decides nothing."""
    return float(np.sqrt(np.mean((found.astype(np.float64) - wanted) ** 2)))


def attempt(name, tools, operators, folder):
    """What is wrong, or None."""
    path = os.path.join(folder, "floats.onnx")
    onnx.save(MODELS[name](), path)
    floats, inputs = path, tool_models.inputs_of(name, 5)
    for i, tool in enumerate(tools):
        source, path = path, os.path.join(folder, f"{i}.onnx")
        tool(source, path, name)
    there = {node.op_type for node in onnx.load(path).graph.node if node.domain == "com.microsoft"}
    if not set(operators) <= there:
        return f"the tools wrote no {sorted(set(operators) - there)}, only {sorted(there)}"
    wanted, theirs, ours = by_onnxruntime(floats, inputs), by_onnxruntime(path, inputs), by_kiln(path, inputs, folder)
    if isinstance(ours, str):
        return ours
    size, bound = off(wanted, 0), off(theirs, wanted)
    found = off(ours, wanted)
    print(f"{found / size:.2e} of ours, {bound / size:.2e} of theirs: {name} " + ", ".join(t.__name__ for t in tools) +
          f" ({', '.join(sorted(there))})")
    least = (HALF if halves in tools else 1e-5) * size
    return None if found <= 1.1 * bound + least else f"{found} off, ONNX Runtime {bound}"


def main():
    logging.disable(logging.WARNING)
    failed = skipped = 0
    trials = [t for t in TRIALS if len(t[2]) > 1 or t[0] == "convolutions"] if sys.argv[3:] == ["few"] else TRIALS
    for name, tools, operators in trials:
        if matmul_nbits_quantizer is None and set(tools) & set(FEW_BITS):
            skipped += 1
            continue
        with tempfile.TemporaryDirectory() as folder:
            why = attempt(name, tools, operators, folder)
        if why is not None:
            failed += 1
            print(f"FAIL {name} after {', '.join(t.__name__ for t in tools)}: {why}")
    print(f"kiln-test: {len(trials) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
