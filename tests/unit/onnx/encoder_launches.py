#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""How many kernels a layer of a transformer's encoder launches, as an exporter writes it: query, key and value as one
product, attention with the heads where they lie, two more products and their projection with bias, activation and
residual behind them, two norms. That is what two layers launch above one, at two batches. The same of BERT with its
mask, and of attention among casts, as planned for an H200 by its facts (h200.json) on the device that runs nothing.
A product by a constant behind a Transpose reads the constant itself. Needs Debian's python3-onnx; skipped without it.

usage: encoder_launches.py KILN TREE DEVICE
"""
import os
import re
import subprocess
import sys
import tempfile

KILN, TREE, DEVICE = sys.argv[1:4]
sys.path.append(os.path.join(TREE, "bench", "models"))
try:
    import write_models
except ImportError as missing:
    print(f"SKIP {missing}: apt install python3-onnx")
    print("kiln-test: 0 passed, 0 failed, 1 skipped")
    sys.exit(0)

# Of a layer: where tensor cores read operands as they lie, and elsewhere, where attention's result is copied to rows and
# each of four products may pack its input first.
MOST_HOPPER, MOST = 7, 12
# Of BERT beside its layers: the mask, the norm of what was looked up, and the first token's product.
MOST_BESIDE = 3
FACTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "h200.json")
write_models.WIDTH, write_models.HEADS, write_models.HEAD, write_models.TOKENS = 64, 4, 16, 16


def kiln(*words, **environment):
    run = subprocess.run([KILN, *words], capture_output=True, text=True, check=False, timeout=600,
                         env={**os.environ, "KILN_DEVICE": DEVICE, "KILN_DETERMINISTIC": "1", **environment})
    assert run.returncode == 0, run.stderr
    return run.stdout


def planned(model, *words):
    """Launches of fused blocks in a run on an H200."""
    text = kiln("run", model, "--random", "--runs", "2", "--tune", "off", *words, "--device", "null", "--device-facts", FACTS,
                KILN_DETERMINISTIC="0", KILN_CACHE_DIR="off")
    count = re.search(r"^kernels launched: (\d+) a run", text, re.M)
    assert "null (NVIDIA H200)" in text and count, text
    return int(count[1])


def bert_on_h200(folder, *words):
    counts = []
    for layers in (1, 2):
        write_models.LAYERS = layers
        models = os.path.join(folder, f"bert{layers}")
        if not os.path.exists(models):
            write_models.write(models, "bert_base_b2", 1)
        counts.append(planned(os.path.join(models, "bert_base_b2", "model.onnx"), *words))
    one, two = counts
    assert 0 < two - one <= MOST_HOPPER and one <= MOST_HOPPER + MOST_BESIDE, counts


def encoder_on_h200(folder):
    """Many rows of f32, whose products fill large tiles: none packs them first."""
    small = write_models.WIDTH, write_models.HEADS, write_models.HEAD, write_models.TOKENS
    write_models.WIDTH, write_models.HEADS, write_models.HEAD, write_models.TOKENS = 512, 8, 64, 128
    counts = []
    for layers in (1, 2):
        write_models.LAYERS = layers
        models = os.path.join(folder, f"many{layers}")
        write_models.write(models, "encoder_b32", 1)
        counts.append(planned(os.path.join(models, "encoder_b32", "model.onnx")))
    write_models.WIDTH, write_models.HEADS, write_models.HEAD, write_models.TOKENS = small
    assert 0 < counts[1] - counts[0] <= MOST_HOPPER, counts


def attention_among_casts(folder):
    """The operator of f16 with a causal mask, between casts from f32 and back, which are no part of the launch."""
    node, sizes = write_models.helper.make_node, [1, 4, 128, 64]
    names = ("query", "key", "values")
    value = write_models.helper.make_tensor_value_info
    nodes = [node("Cast", [name], [name + "_16"], to=write_models.TensorProto.FLOAT16) for name in names]
    nodes += [node("Attention", [name + "_16" for name in names], ["y_16"], is_causal=1),
              node("Cast", ["y_16"], ["y"], to=write_models.TensorProto.FLOAT)]
    graph = write_models.helper.make_graph(nodes, "casts", [value(name, write_models.TensorProto.FLOAT, sizes) for name in names],
                                           [value("y", write_models.TensorProto.FLOAT, sizes)])
    model = write_models.helper.make_model(graph, opset_imports=[write_models.helper.make_opsetid("", 23)])
    model.ir_version = 10
    path = os.path.join(folder, "casts.onnx")
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    assert planned(path) == 1, "attention among casts is not one launch"


def encoder(folder, name):
    (two, most), (one, _most) = launches(folder, 2, name), launches(folder, 1, name)
    assert 0 < two - one <= most, f"{two - one} launches, at most {most}"


def launches(folder, layers, name):
    write_models.LAYERS = layers
    write_models.write(os.path.join(folder, str(layers)), name, 1)
    text = kiln("run", os.path.join(folder, str(layers), name, "model.onnx"), "--random", "--runs", "2")
    hopper = re.search(r"^device: .*\bH[12]00\b", text, re.M)
    count = int(re.search(r"^kernels launched: (\d+) a run, BLAS calls 0$", text, re.M)[1])
    return count, MOST_HOPPER if hopper else MOST


def turned(folder):
    """Rows by a constant that is turned first, as PyTorch's newer exporter writes a linear layer."""
    helper, kind = write_models.helper, write_models.TensorProto.FLOAT
    weights = helper.make_tensor("w", kind, [96, 64], [i % 7 - 3.0 for i in range(96 * 64)])
    nodes = [helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    graph = helper.make_graph(nodes, "turned", [helper.make_tensor_value_info("x", kind, [16, 64])],
                              [helper.make_tensor_value_info("y", kind, [16, 96])], [weights])
    path = os.path.join(folder, "turned.onnx")
    write_models.onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    text = kiln("explain", path, "--random")
    assert re.search(r"matmul\(%\d+: f32\[16,64\], %\d+: f32\[96,64\], .*\n?.*transpose_b=true", text), text
    kiln("compare", path, "--random")


def turned_over_devices(folder):
    """Each Transpose a layer ahead of its product, so that the border of two devices lies between them."""
    helper, kind, layers = write_models.helper, write_models.TensorProto.FLOAT, range(4)
    weights = [helper.make_tensor(f"w{i}", kind, [256, 256], [0.01] * (256 * 256)) for i in layers]
    turns = [helper.make_node("Transpose", [f"w{i}"], [f"t{i}"], perm=[1, 0]) for i in layers]
    products = [helper.make_node("MatMul", [f"y{i}", f"t{i}"], [f"y{i + 1}"]) for i in layers]
    nodes = [turns[0], turns[1], products[0], turns[2], products[1], turns[3], products[2], products[3]]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "turned", [value("y0", kind, [16, 256])], [value("y4", kind, [16, 256])], weights)
    path = os.path.join(folder, "two.onnx")
    write_models.onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    words = ("-d", "reference:0", "-d", "null", "-s", "memory-budget=1200K", "--tune", "off", "--runs", "2")
    assert "null" in kiln("run", path, "--random", *words)


CASES = {
    "encoder": lambda folder: encoder(folder, "encoder"),
    "encoder_b4": lambda folder: encoder(folder, "encoder_b4"),
    "bert_on_h200": bert_on_h200,
    "bert_on_h200_bf16": lambda folder: bert_on_h200(folder, "--model-dtype", "bf16"),
    "bert_on_h200_f16": lambda folder: bert_on_h200(folder, "--model-dtype", "f16"),
    "encoder_on_h200": encoder_on_h200,
    "attention_among_casts": attention_among_casts,
    "turned": turned,
    "turned_over_devices": turned_over_devices,
}


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            try:
                case(folder)
            except AssertionError as error:
                failed += 1
                print(f"FAIL unit/onnx/encoder_launches {name} {DEVICE}: {error}")
    print(f"kiln-test: {len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
