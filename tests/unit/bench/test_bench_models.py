#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole models: test_bench_models.py KILN ROOT. The script that writes them is held against ONNX's checker and, by
`kiln run`, against NumPy; `kiln run --turns` against its protocol; `kiln bench models` with a peer of ours."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

KILN, ROOT = os.path.abspath(sys.argv[1]), sys.argv[2]
sys.path.insert(0, os.path.join(ROOT, "bench", "models"))
sys.dont_write_bytecode = True
import write_models as models  # noqa: E402

SCRIPT = os.path.join(ROOT, "bench", "models", "write_models.py")
NULL = ["--device", "null"]
cases = []


def case(function):
    cases.append(function)
    return function


def run(*arguments, text="", **environment):
    return subprocess.run(arguments, input=text, capture_output=True, text=True, timeout=600,
                          env={**os.environ, **environment})


def write(folder, *names):
    done = run(sys.executable, SCRIPT, folder, *names)
    assert done.returncode == 0, done.stderr
    return [os.path.join(folder, name) for name in names]


def turns(folder, *options, text=""):
    inputs = [f"--input={name[:-4]}={folder}/{name}" for name in os.listdir(folder) if name.endswith(".npy")]
    return run(KILN, "run", "--turns", *options, *inputs, f"{folder}/model.onnx", text=text)


def gru_in_numpy(w):
    """Two layers by the formulas of ONNX's GRU with linear_before_reset."""
    weights = [onnx.numpy_helper.to_array(each).astype(np.float64)[0] for each in w.weights if each.dims[0] == 1]
    weights = [each for each in weights if each.size > models.HIDDEN]  # not the start, which is 0
    x = w.inputs[0][1].astype(np.float64)
    for layer in range(2):
        inner, recurrent, bias = weights[3 * layer:3 * layer + 3]
        bias_in, bias_state = np.split(bias, 2)
        hidden = np.zeros(x.shape[1:])
        rows = []
        for row in x:
            z, r, h = np.split(row @ inner.T + bias_in, 3, axis=1)
            z_state, r_state, h_state = np.split(hidden @ recurrent.T + bias_state, 3, axis=1)
            z, r = (1 / (1 + np.exp(-gate)) for gate in (z + z_state, r + r_state))
            hidden = (1 - z) * np.tanh(h + r * h_state) + z * hidden
            rows.append(hidden)
        x = np.stack(rows)
    return x


@case
def models_are_valid():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("resnet18_qdq", "mobilenet_v2_bn_b2", "efficientnet_b0", "lstm_b3", "gru"):
            path = write(folder, name)[0]
            model = onnx.load(path + "/model.onnx")
            onnx.checker.check_model(model)
            batches = {value.type.tensor_type.shape.dim[name[:4] in ("lstm", "gru")].dim_value
                       for value in model.graph.input}
            assert batches == {models.parse(name)[2]}, (name, batches)
            kinds = {node.op_type for node in model.graph.node}
            assert ("BatchNormalization" in kinds) == ("_bn" in name), (name, kinds)


@case
def the_same_seed_gives_the_same_file():
    with tempfile.TemporaryDirectory() as folder:
        first, second = (open(write(f"{folder}/{i}", "gru")[0] + "/model.onnx", "rb").read() for i in range(2))
        assert first == second
        before = os.stat(f"{folder}/0/gru/model.onnx").st_mtime_ns
        write(f"{folder}/0", "gru")
        assert os.stat(f"{folder}/0/gru/model.onnx").st_mtime_ns == before


@case
def wrong_names_are_refused():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("resnet", "lstm_bn", "gru_b0", "gru_b2_bn"):
            done = run(sys.executable, SCRIPT, folder, name)
            assert done.returncode != 0 and f"no model {name}; there are resnet18 " in done.stderr, done.stderr
        assert os.listdir(folder) == []


@case
def turns_follow_lines():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "gru")[0]
        done = turns(path, *NULL, text=f"run 0\nrun 0.01\nwrite {folder}/y.npy\n")
        assert done.returncode == 0, done.stderr
        ready, once, more, wrote = done.stdout.splitlines()
        assert ready.startswith("ready ") and float(ready.split()[1]) > 0, ready
        assert once.split()[2] == "1" and int(more.split()[2]) >= 1, (once, more)
        assert wrote == f"wrote {folder}/y.npy" and np.load(f"{folder}/y.npy").shape == (40, 1, 128)
        done = turns(path, *NULL, text="jump\n")
        assert done.returncode == 1 and 'takes "run SECONDS" and "write FILE"' in done.stderr, done.stderr


@case
def results_are_those_of_numpy():
    made = {"gru": models.gru(1, 1 + models.zlib.crc32(b"gru"), False)}
    wanted = {"gru": (gru_in_numpy(made["gru"]), 1e-5)}
    for name, apart in (("mobilenet_v3_large", 1e-3), ("resnet18_qdq", 0.1)):
        model, keep, batch = models.parse(name)
        wanted[name] = (model(batch, 1 + models.zlib.crc32(name.encode()), keep).result, apart)
    with tempfile.TemporaryDirectory() as folder:
        for name, (expected, apart) in wanted.items():
            done = turns(write(folder, name)[0], "--tune=off", text=f"write {folder}/y.npy\n")
            assert done.returncode == 0, done.stderr
            result = np.load(f"{folder}/y.npy").reshape(expected.shape)
            distance = np.abs(result - expected).max() / np.abs(expected).max()
            assert distance < apart, (name, distance)
            assert 0.01 < result.std() < 10, (name, result.std())


@case
def profiles_show_the_launches_of_a_block():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "mobilenet_v3_large")[0]
        done = run(KILN, "run", path + "/model.onnx", "--input", path + "/image.npy", "--profile", "--tune=off",
                   "--repeat=3")
        assert done.returncode == 0, done.stderr
        rows = [line.split() for line in done.stdout.split(" what\n")[1].splitlines()]
        blocks = {}
        for i, row in enumerate(rows):
            if row[4] != "step" and len(row) > 7 and row[7].isdigit() and int(row[4]) > 1:
                last = next((k for k in range(i + 1, len(rows)) if rows[k][4] != "step"), len(rows))
                blocks[row[7]] = float(row[0]), [float(each[0]) for each in rows[i + 1:last]]
        assert any(steps for _, steps in blocks.values()), done.stdout
        for share, steps in blocks.values():
            assert all(step >= 0.9 for step in steps) and sum(steps) < share + 0.1 * len(steps) + 0.1, done.stdout


PEER = """
import os, time
import numpy as np
__version__ = "of the test"
def set_default_logger_severity(level): pass
class SessionOptions: pass
class InferenceSession:
    def __init__(self, path, options, providers):
        assert options.intra_op_num_threads >= 1
    def run(self, names, inputs):
        assert [array.shape for array in inputs.values()] == [(40, 1, 128)]
        time.sleep(0.02)
        return [np.load(os.environ["KILN_TEST_RESULT"])]
"""


@case
def peers_take_turns():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "gru")[0]
        done = turns(path, text=f"write {folder}/right.npy\n")
        assert done.returncode == 0, done.stderr
        np.save(f"{folder}/wrong.npy", np.load(f"{folder}/right.npy") + np.float32(0.1))
        os.mkdir(f"{folder}/modules")
        with open(f"{folder}/modules/onnxruntime.py", "w", encoding="utf-8") as file:
            file.write(PEER)
        command = [KILN, "bench", "models", "gru", "--samples=2", "--json", "--folder", folder,
                   "--python", sys.executable]
        settings = {"PYTHONPATH": f"{folder}/modules", "PYTHONDONTWRITEBYTECODE": "1"}
        done = run(*command, **settings, KILN_TEST_RESULT=f"{folder}/right.npy")
        assert done.returncode == 0, done.stderr
        rows = {(row["case"], row["against"]): row for row in map(json.loads, done.stdout.splitlines())}
        row = rows["gru", "ONNX Runtime"]
        assert row["value"] > 0 and row["ratio"] >= 19 / row["value"] and row["samples"] == 2, row
        assert row["peer_version"] == "of the test" and row["bar"] == 0.7, row
        for what in ("least", "first", "memory"):
            assert rows["gru " + what, "ONNX Runtime"]["ratio"] > 0, rows
        assert rows["gru launches", "operations"]["value"] > 0, rows
        assert rows["gru first, first life", "its second life"]["value"] > 0, rows
        np.save(f"{folder}/short.npy", np.load(f"{folder}/right.npy")[:-1])
        for result in ("wrong", "short"):
            done = run(*command, **settings, KILN_TEST_RESULT=f"{folder}/{result}.npy")
            assert done.returncode == 1 and "gru: the result differs from ONNX Runtime's by " in done.stderr, done.stderr


@case
def interpreters_without_onnx_are_named():
    with tempfile.TemporaryDirectory() as folder:
        done = run(KILN, "bench", "models", "lstm", "--folder", folder, "--python", "/bin/true")
        assert done.returncode == 1 and "/bin/true cannot write lstm: it needs NumPy and onnx" in done.stderr, done.stderr


def main():
    failed = 0
    for function in cases:
        try:
            function()
        except (AssertionError, ValueError, KeyError, OSError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"FAIL unit/bench/models {function.__name__}\n    {str(error)[:2000]}", flush=True)
    print(f"kiln-test: {len(cases) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
