#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""How many kernels a layer of a transformer's encoder launches, as an exporter writes it: query, key and value as one
product, attention with the heads where they lie, two more products and their projection with bias, activation and
residual behind them, two norms. That is what two layers launch above one, at two batches. Needs Debian's python3-onnx;
skipped without it.

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
write_models.WIDTH, write_models.HEADS, write_models.HEAD, write_models.TOKENS = 64, 4, 16, 16


def kiln(*words):
    run = subprocess.run([KILN, *words], capture_output=True, text=True, check=False, timeout=600,
                         env={**os.environ, "KILN_DEVICE": DEVICE, "KILN_DETERMINISTIC": "1"})
    assert run.returncode == 0, run.stderr
    return run.stdout


def launches(folder, layers, name):
    write_models.LAYERS = layers
    write_models.write(os.path.join(folder, str(layers)), name, 1)
    text = kiln("run", os.path.join(folder, str(layers), name, "model.onnx"), "--random", "--runs", "2")
    hopper = re.search(r"^device: .*\bH[12]00\b", text, re.M)
    count = int(re.search(r"^kernels launched: (\d+) a run, BLAS calls 0$", text, re.M)[1])
    return count, MOST_HOPPER if hopper else MOST


def check_turned(folder):
    """Rows by a constant that is turned first, as PyTorch's newer exporter writes a linear layer."""
    helper, kind = write_models.helper, write_models.TensorProto.FLOAT
    weights = helper.make_tensor("w", kind, [96, 32], [i % 7 - 3.0 for i in range(96 * 32)])
    nodes = [helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    graph = helper.make_graph(nodes, "turned", [helper.make_tensor_value_info("x", kind, [16, 32])],
                              [helper.make_tensor_value_info("y", kind, [16, 96])], [weights])
    path = os.path.join(folder, "turned.onnx")
    write_models.onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    text = kiln("explain", path, "--random")
    assert re.search(r"matmul\(%\d+: f32\[16,32\], %\d+: f32\[96,32\], .*\n?.*transpose_b=true", text), text
    kiln("compare", path, "--random")


def check_layer(folder, name):
    (two, most), (one, _most) = launches(folder, 2, name), launches(folder, 1, name)
    assert 0 < two - one <= most, f"{two - one} launches of a layer, at most {most}"


def main():
    failed, names = 0, ("encoder", "encoder_b4", "turned")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            try:
                if name == "turned":
                    check_turned(folder)
                else:
                    check_layer(folder, name)
            except AssertionError as error:
                failed += 1
                print(f"FAIL unit/onnx/encoder_launches {name} {DEVICE}: {error}")
    print(f"kiln-test: {len(names) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
