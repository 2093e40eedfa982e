# SPDX-License-Identifier: MIT OR Apache-2.0
"""`kiln benchmark`, `kiln compare` and `kiln doctor`."""
import json
import os
import stat
import subprocess
import sys
import tempfile

from command import FAST, INPUT, MODEL, case, expect, expect_error, kiln, main


@case
def benchmark_measures():
    run = kiln("benchmark", MODEL, "--runs", "40", "--warmup", "0", *FAST)
    expect(run, 0, "device: reference", "measured: 40 runs", "results read by the host", "latency: least ", "p99 ",
           "runs a second")
    run = kiln("benchmark", MODEL, "--runs", "40", "--warmup", "0", "--json", "--no-transfers", *FAST)
    expect(run, 0)
    told = json.loads(run.stdout)
    latency = told["latency_ns"]
    order = [latency[name] for name in ("least", "median", "p90", "p95", "p99", "most")]
    assert order == sorted(order) and order[0] > 0 and latency["least"] <= latency["mean"] <= latency["most"], told
    assert told["runs"] == 40 and told["transfers"] is False and len(told["streams"]) == 1, told
    assert abs(told["runs"] / told["seconds"] - told["runs_per_second"]) < 1e-6 * told["runs_per_second"], told
    run = kiln("benchmark", MODEL, "--seconds", "0.3", "--warmup", "0", "--json", *FAST)
    expect(run, 0)
    assert 0.25 < json.loads(run.stdout)["seconds"] < 5, run.stdout


@case
def benchmark_runs_streams_side_by_side():
    """Each stream has a part of the device where it has parts; all runs are counted once."""
    run = kiln("benchmark", MODEL, "--streams", "2", "--runs", "50", "--json", KILN_DEVICE="opencl:0")
    expect(run, 0)
    told = json.loads(run.stdout)
    assert told["runs"] == 50 and len(told["streams"]) == 2, told
    assert all(address.startswith("opencl:0") for address in told["streams"]), told
    run = kiln("benchmark", MODEL, "--streams", "3", "--runs", "30", "--json", *FAST)
    expect(run, 0)
    assert json.loads(run.stdout)["runs"] == 30, run.stdout
    for wrong in (["--streams", "0"], ["--streams", "17"], ["--seconds", "-1"], ["--runs", "x"]):
        assert kiln("benchmark", MODEL, *wrong).returncode == 2, wrong
    expect_error(kiln("benchmark", MODEL, "--device", "opencl:99", "--json=/nowhere/x"), "/nowhere/x")
    expect_error(kiln("benchmark", "/nowhere.onnx"), "/nowhere.onnx")


@case
def bench_writes_a_line_of_json_for_each_figure():
    """On standard output in place of the table, or in a file beside it."""
    lines = kiln("bench", "overhead", "--runs", "1", "--json").stdout.splitlines()
    figures = [json.loads(line) for line in lines]
    assert len(figures) > 5 and all(one["value"] > 0 and one["unit"] == "ns" for one in figures), lines
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        expect(kiln("bench", "overhead", "--runs", "1", f"--json={path}"), 0, "against", figures[0]["case"])
        with open(path, encoding="utf-8") as file:
            assert [json.loads(line)["case"] for line in file] == [one["case"] for one in figures]
    expect(kiln("bench", "overhead", "--runs", "1", "--json=/dev/full"), 1, "/dev/full", stream="stderr")


@case
def compare_agrees_with_the_reference():
    run = kiln("compare", MODEL, "--input", INPUT, KILN_DEVICE="opencl:0")
    expect(run, 0, "values compared with reference, 0 differ", "Conv", "same")
    told = kiln("compare", MODEL, "--json", KILN_DEVICE="opencl:0")
    expect(told, 0)
    data = json.loads(told.stdout)
    assert data["first"] is None and data["differ"] == 0 and data["alone"] == 0, data
    assert len(data["values"]) > 15 and all(v["same"] for v in data["values"]), data
    all_lines = kiln("compare", MODEL, "--verbose", KILN_DEVICE="opencl:0").stdout.splitlines()
    assert len([line for line in all_lines if "  same  " in line]) == len(data["values"]), all_lines


@case
def compare_shows_what_a_narrow_type_loses():
    data = json.loads(kiln("compare", MODEL, "--input", INPUT, "--model-dtype", "bf16", "--json", *FAST).stdout)
    assert data["differ"] == 0 and data["tolerance"] == 0.04 and data["alone"] == 0, data
    assert max(v["worst"] / v["largest"] for v in data["values"] if v["largest"]) > 1e-3, data
    expect(kiln("compare", MODEL, "--model-dtype", "f16", *FAST), 0, "f16[1,24,4,4]", "0.005 of the largest")
    expect_error(kiln("run", MODEL, "--input", INPUT, "--model-dtype", "i8", *FAST), "model-dtype")


@case
def compare_names_the_first_that_differs():
    run = kiln("compare", MODEL, "--tolerance", "0", KILN_DEVICE="opencl:0")
    expect(run, 1, "DIFFERS", "first that differs: node ")
    assert "values differ from reference" in run.stderr, run.stderr
    data = json.loads(kiln("compare", MODEL, "--tolerance", "0", "--json", KILN_DEVICE="opencl:0").stdout)
    wrong = [v["node"] for v in data["values"] if not v["same"]]
    assert data["first"] == min(wrong) and data["differ"] == len(wrong), data
    assert kiln("compare", MODEL, "--tolerance", "-1").returncode == 2
    assert kiln("compare", MODEL, "--against", "reference", "--python", "python3").returncode == 2


def python_that(folder, body):
    """An interpreter that is none: what it is given and what it must leave is all that counts."""
    path = os.path.join(folder, "python")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/usr/bin/python3\nimport sys\nmodel, folder = sys.argv[3:]\n{body}\n")
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


@case
def compare_runs_onnxruntime():
    """With an interpreter that answers as the script would; with ONNX Runtime itself where there is one."""
    with tempfile.TemporaryDirectory() as folder:
        answer = ("import numpy as np\n"
                  "names = open(folder + '/inputs.txt').read().split('\\n')[:-1]\n"
                  "x = np.load(folder + '/0.npy')\n"
                  "assert names == ['image'] and x.shape == (1, 1, 8, 8), (names, x.shape)\n"
                  "np.savez(folder + '/outputs.npz', **{'0': (x * np.float32(0.0625)).astype(np.float32) + %s})\n"
                  "open(folder + '/outputs.txt', 'w').write('Mul mul_0\\n')\n")
        run = kiln("compare", MODEL, "--python", python_that(folder, answer % "np.float32(0)"), "--json", *FAST)
        expect(run, 0)
        data = json.loads(run.stdout)
        assert [v["value"] for v in data["values"]] == ["mul_0"] and data["against"] == "ONNX Runtime", data
        run = kiln("compare", MODEL, "--python", python_that(folder, answer % "np.float32(0.1)"), *FAST)
        expect(run, 1, "first that differs: node 0, Mul")
        expect_error(kiln("compare", MODEL, "--python", python_that(folder, "sys.exit('no onnxruntime here')"), *FAST),
                     "no onnxruntime here")
        expect_error(kiln("compare", MODEL, "--python", "/nowhere/python", *FAST), "/nowhere/python")
    peer = os.environ.get("KILN_TEST_ONNXRUNTIME", "/usr/bin/python3")
    if subprocess.run([peer, "-c", "import onnx, onnxruntime"], capture_output=True, check=False).returncode != 0:
        print(f"skipped: {peer} has no onnxruntime (KILN_TEST_ONNXRUNTIME names another)")
        return
    expect(kiln("compare", MODEL, "--python", peer, *FAST), 0, "values compared with ONNX Runtime, 0 differ")


@case
def doctor_looks_at_everything():
    with tempfile.TemporaryDirectory() as folder:
        run = kiln("doctor", KILN_CACHE_DIR=folder, KILN_DEVICE="opencl:0")
        expect(run, 0, "driver ", "device       opencl:0: ", "opencl:0 computes", " taken", folder, "0 broken")
        rows = json.loads(kiln("doctor", "--json", KILN_CACHE_DIR=folder).stdout)
        assert {"kiln", "machine", "driver", "cache", "plugin", "device"} <= {row["what"] for row in rows}, rows
        assert all((row["verdict"] == "good") == (row["mend"] is None) for row in rows), rows
        run = kiln("doctor", KILN_CACHE_DIR=folder, KILN_DEVCE="opencl:0")
        expect(run, 0, 'KILN_DEVCE is no option', 'did you mean "KILN_DEVICE"')
        expect(kiln("doctor", KILN_CACHE_DIR="off"), 0, "compiles again", "mend: set KILN_CACHE_DIR")
        os.mkdir(os.path.join(folder, "vendors"))
        run = kiln("doctor", KILN_CACHE_DIR=folder, OCL_ICD_VENDORS=os.path.join(folder, "vendors"), KILN_DEVICE="")
        expect(run, 1, "names no OpenCL driver", "there is no OpenCL device", "mend: install")
        run = kiln("devices", OCL_ICD_VENDORS=os.path.join(folder, "vendors"), KILN_DEVICE="")
        assert (run.returncode, run.stdout) == (0, "") and "kiln doctor" in run.stderr, run
        with open(os.path.join(folder, "vendors", "gone.icd"), "w", encoding="ascii") as file:
            file.write("libthere_is_no_such_driver.so.1\n")
        run = kiln("doctor", KILN_CACHE_DIR=folder, OCL_ICD_VENDORS=os.path.join(folder, "vendors"), KILN_DEVICE="")
        expect(run, 1, "gone.icd: libthere_is_no_such_driver.so.1: cannot open")
        run = kiln("doctor", KILN_CACHE_DIR=folder, KILN_TUNE="sometimes")
        expect(run, 1, "broken", "tune is sometimes")


if __name__ == "__main__":
    sys.exit(main("tools"))
