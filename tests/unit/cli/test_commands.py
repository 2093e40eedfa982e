# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command as a user types it: results, exit codes, and one clear line for everything that is wrong."""
import json
import os
import pty
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

from command import BUILD, FAST, INPUT, KILN, MODEL, ROOT, case, expect, expect_error, kiln, main


def commands():
    """The names in the help of `kiln`."""
    return re.findall(r"(?m)^  ([a-z-]+) ", kiln("--help").stdout)


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


@case
def run_prints_the_job():
    run = kiln("run", MODEL, "--input", INPUT)
    expect(run, 0, "predicted class: 3", "first run:", "repeated run:", "operations: ",
           "fused blocks", "kernels launched:", "peak of device memory:")


@case
def an_error_is_written_at_once():
    """Processes under one launcher write to one place: what they say does not mix."""
    for arguments in (["run", "/no/such.onnx"], ["coll", "check", "--device", "nothing:7"], ["rum"], ["run", "--nosuch"]):
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # a message for each write
        with here, there:
            here.setblocking(False)
            subprocess.run([KILN, *arguments], stderr=there.fileno(), stdout=subprocess.DEVNULL, check=False, timeout=300)
            said = here.recv(4096)
            assert said.startswith(b"kiln") and said.endswith(b"\n"), (arguments, said)


@case
def kernels_that_compare_fusers_are_told_apart():
    """A run launches what its plan says, whether candidates are compared beside it or not."""
    def processes(tune):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(3):
                run = kiln("run", MODEL, "--input", INPUT, "--repeat", "12", KILN_TUNE=tune,
                           KILN_TUNE_BUDGET="1000000", KILN_CACHE_DIR=folder, KILN_DEVICE="opencl:0")
                expect(run, 0)
                work = re.search(r"^kernels launched: (\d+) a run, BLAS calls (\d+)$", run.stdout, re.M)
                apart = re.search(r"^kernels launched to compare fusers: (\d+)$", run.stdout, re.M)
                yield int(work[1]) + int(work[2]), int(apart[1]) if apart else 0

    untuned = list(processes("off"))
    assert len(set(untuned)) == 1 and untuned[0][1] == 0, untuned
    tuned = list(processes("lazy"))
    operations = 29  # one by one, each is a kernel at most
    assert all(launched <= operations for launched, _ in tuned), (untuned, tuned)
    assert tuned[0][1] > operations, tuned
    assert tuned[2][1] < tuned[0][1], tuned


@case
def compiling_is_not_loading():
    """What a second process takes from the cache was not compiled by it."""
    with tempfile.TemporaryDirectory() as folder:
        keep = {"KILN_CACHE_DIR": os.path.join(folder, "cache"), "KILN_DEVICE": "opencl:0"}
        run = kiln("run", MODEL, "--input", INPUT, **keep)
        expect(run, 0)
        cold = re.search(r"first run: .*, of it ([\d.]+) (ms|s) compiling (\d+) programs?\n", run.stdout)
        assert cold, run.stdout
        run = kiln("run", MODEL, "--input", INPUT, **keep)
        expect(run, 0, f", {cold.group(3)} programs taken from the cache")
        assert "compiling" not in run.stdout, run.stdout


def seconds(text):
    number, unit = text.split()
    return float(number) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def told_times(output):
    """The line that tells where the time of a run went: all of it, and its parts."""
    line = re.search(r"^all of it: ([^:]+): (.*)$", output, re.M)
    assert line, output
    parts = {name: seconds(time) for name, time in re.findall(r"([a-z ]+) ([\d.]+ [a-z]+)(?:, |$)", line[2])}
    return seconds(line[1]), parts


def at_a_terminal(*arguments, **environment):
    """As `kiln`, with a terminal for standard error."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen([KILN, *arguments], stdout=subprocess.PIPE, stderr=terminal, text=True,
                               env={**os.environ, **environment})
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(screen, 4096):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(screen)
    output = process.communicate(timeout=300)[0]
    return subprocess.CompletedProcess(process.args, process.returncode, output, shown.decode())


@case
def a_first_process_tells_all_of_its_time():
    """With every cache empty: results, no tournaments worth their name, what is waited for, and times that explain
    the wall clock."""
    with tempfile.TemporaryDirectory() as folder:
        empty = {"KILN_CACHE_DIR": os.path.join(folder, "kiln"), "POCL_CACHE_DIR": os.path.join(folder, "pocl"),
                 "HOME": folder, "XDG_CACHE_HOME": folder, "KILN_DEVICE": "opencl:0"}
        for cold in (True, False):
            begin, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            run = (at_a_terminal if cold else kiln)("run", MODEL, "--input", INPUT, **empty)
            took, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
            expect(run, 0, "predicted class: 3")
            assert run.stdout.index("predicted class") < run.stdout.index("all of it"), run.stdout
            told, parts = told_times(run.stdout)
            assert set(parts) == {"opening", "first run", "repeated runs", "tuning", "printing", "closing"}, run.stdout
            assert abs(sum(parts.values()) - told) < 0.02 * told, run.stdout
            assert told <= 1.005 * took, (took, run.stdout)  # three digits are told
            assert took - told < 0.3 + 0.1 * took, (took, run.stdout)
            assert parts["tuning"] <= 0.05 * told + 1, run.stdout
            # Of processor time, for other programs make a machine slow: 9 s and 0.2 s on a Xeon.
            cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
            assert cpu < (60 if cold else 4), (cold, cpu, run.stdout)
            if cold:
                assert "compiling and running for the first time" in run.stderr, run.stderr
                assert re.search(r"compiling (\d+ of at most \d+ kernels|kernel \d+): \d+ s", run.stderr), run.stderr
                assert run.stderr.endswith("\r\x1b[K"), run.stderr  # nothing is left of it
            else:
                assert run.stderr == "", run.stderr


@case
def run_tells_where_its_time_goes():
    for options in ([], ["--no-fusion"]):
        run = kiln("run", MODEL, "--input", INPUT, "--profile", "--repeat", "5", *FAST, *options)
        expect(run, 0, "profile: ", "GFLOP/s of f32 by its clock", "share ")
        assert "trace:" not in run.stdout, run.stdout
        rows = [line.split() for line in run.stdout.split(" what\n")[1].splitlines()]
        shares = [float(row[0]) for row in rows]
        assert shares == sorted(shares, reverse=True) and abs(sum(shares) - 100) < 2, shares
        assert not any("reshape" in row for row in rows), rows
        (conv,) = [row for row in rows if row[10:] == "conv f32[24,1,3,3] -> f32[1,24,8,8]".split()]
        ns = float(conv[2]) * {"ns": 1, "us": 1e3, "ms": 1e6}[conv[3]]
        assert conv[4] == "1" and conv[9] == "-", conv
        for shown, work in ((conv[5], 2 * 9 * 24 * 8 * 8), (conv[6], 4 * (8 * 8 + 24 * 9 + 24 + 24 * 8 * 8))):
            assert abs(float(shown) - work / ns) < 0.0006 + 0.05 * work / ns, conv
    with tempfile.TemporaryDirectory() as folder:
        run = kiln("run", MODEL, "--input", INPUT, "--profile", "--trace", f"{folder}/t.json", *FAST)
        expect(run, 0, "profile: ", "trace: " + folder)
        assert json.load(open(f"{folder}/t.json"))["traceEvents"]


@case
def run_tells_its_memory():
    run = kiln("run", MODEL, "--input", INPUT, "--memory", *FAST)
    expect(run, 0, "memory of a run:", "liveness needs", "assigned with the plan", "in place",
           "operator or kernel", "held by the device at most:", "budget:")


@case
def fused_and_unfused_agree():
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, n) for n in ("fused.npy", "plain.npy")]
        expect(kiln("run", MODEL, "--input", INPUT, "--output", paths[0], "--repeat", "1"), 0)
        expect(kiln("run", MODEL, "--input", INPUT, "--output", paths[1], "--no-fusion",
                    "--expected", paths[0]), 0, "as expected", "of them 0 in 0 fused blocks")


@case
def expected_differs():
    run = kiln("run", MODEL, "--input", INPUT, "--expected",
               os.path.join(ROOT, "examples/digits/expected.npy"), "--row", "4", *FAST)
    expect_error(run, "differs from ", "expected.npy, row 4, most at [0,", "expected -", " of 10 elements by more than ")
    given = ["run", MODEL, "--input", INPUT, "--expected", os.path.join(ROOT, "examples/digits/expected.npy"), *FAST]
    expect(kiln(*given, "--row", "3"), 0, "as expected")
    expect_error(kiln(*given), "has 100 elements, the output 10; --row INDEX compares with one of 10 rows")
    expect_error(kiln(*given, "--row", "10"), "--row 10: ", "expected.npy has 10 rows, counted from 0")
    expect_error(kiln("run", MODEL, "--input", INPUT, "--row", "3"), "--row is one of --expected", code=2)


@case
def differences_are_found_where_they_are():
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))
        import numpy as np
        import onnx_writer as onnx
        inf, nan = float("inf"), float("nan")
        x = np.array([[[1, 2], [3, inf]], [[-inf, nan], [7, 8]]], np.float32)
        graph = onnx.Graph([onnx.node("Identity", ["x"], ["y"])], {"x": x}, {"y": x})
        model = write(folder, "same.onnx", onnx.model(graph, 17))
        paths = [os.path.join(folder, name) for name in ("x.npy", "wanted.npy")]
        np.save(paths[0], x)
        run = lambda: kiln("run", model, "--input", paths[0], "--expected", paths[1], "--repeat", "1", *FAST)
        np.save(paths[1], x)
        expect(run(), 0, "as expected: differs by 0 of at most 0.0008")
        for place, value, said in (((1, 1, 0), 9, "[1,1,0]: 7, expected 9; 1 of 8 elements by more than 0.0009"),
                                   ((0, 1, 1), 5, "[0,1,1]: inf, expected 5; 1 of 8"),
                                   ((0, 1, 0), inf, "[0,1,0]: 3, expected inf; 1 of 8"),
                                   ((1, 0, 0), inf, "[1,0,0]: -inf, expected inf; 1 of 8"),
                                   ((1, 0, 1), 6, "expected 6; 1 of 8"), ((0, 0, 0), nan, "[0,0,0]: 1, expected nan")):
            wanted = x.copy()
            wanted[place] = value
            np.save(paths[1], wanted)
            expect_error(run(), "differs from ", said)


@case
def small_floats_are_bytes_in_files():
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))
        import numpy as np
        import onnx_writer as onnx
        bits = np.array([[0x38, 0xC0], [0x7E, 0x01]], np.uint8)
        x, y = onnx.Narrow(bits, "float8e4m3fn"), onnx.Narrow(bits.T, "float8e4m3fn")
        graph = onnx.Graph([onnx.node("Transpose", ["x"], ["y"])], {"x": x}, {"y": y})
        model = write(folder, "turned.onnx", onnx.model(graph, 25))
        paths = [os.path.join(folder, name) for name in ("x.npy", "y.npy")]
        np.save(paths[0], bits)
        expect(kiln("run", model, "--input", paths[0], "--output", paths[1], *FAST), 0,
               "y: f8e4m3fn[2,2] = 1 448 -2 0.00195312")
        assert np.array_equal(np.load(paths[1]), bits.T)


@case
def named_input_and_output():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.npy")
        expect(kiln("run", MODEL, "--input", f"image={INPUT}", "--output",
                    f"log_probability={path}", *FAST), 0)
        assert os.path.getsize(path) == 128 + 40


@case
def wrong_usage_is_two():
    for arguments in ([], ["nonsense"], ["run"], ["run", MODEL, "--nonsense"], ["cache", "eat"],
                      ["bench", "nonsense"], ["run", MODEL, "--repeat", "-1"], ["plugin"]):
        run = kiln(*arguments)
        assert run.returncode == 2, f"{arguments}: rc {run.returncode}"
        assert run.stderr, f"{arguments}: nothing said"


@case
def benches_name_their_cases():
    known = {"choice": "softmax, ", "fusion": "softmax, ", "kernels": "matmul, ", "matmul": "matmul_512, ",
             "models": "resnet18, ", "ops": "transpose, "}
    for name, listed in known.items():
        run = kiln("bench", name, "--only=nonesuch")
        expect_error(run, f'no case of {name} has "nonesuch" in its name; there are ', listed, code=2)
        assert run.stdout == "" and " more" not in run.stderr, run.stderr
        expect_error(kiln("bench", name, "nonesuch"), f'{name} has no case "nonesuch"; there are ', listed, code=2)
    assert "matmul, matmul," not in kiln("bench", "kernels", "--only=nonesuch").stderr
    for name in ("coll", "elementwise", "overhead", "start", "warm"):
        expect_error(kiln("bench", name, "--only=nonesuch"), f"{name} is measured as a whole, without --only", code=2)
    expect_error(kiln("bench", "coll", "any"), "coll is measured as a whole, without names of cases", code=2)
    run = kiln("bench", "kernels", "--only=relu", "--samples=1", *FAST)
    expect(run, 0, "relu", "reference, one core")
    run = kiln("bench", "kernels", "relu", "abs", "--samples=1", *FAST)
    expect(run, 0, "relu", "abs")
    assert "bench kernels: 2 timed" in run.stderr, run.stderr


@case
def help_everywhere():
    expect(kiln("--help"), 0, "usage: kiln COMMAND")
    assert {"run", "devices", "plugin", "ops", "explain", "tune", "cache", "config", "check-onnx", "bench", "coll",
            "replay"} <= set(commands())
    for command in commands():
        expect(kiln(command, "--help"), 0, "Usage: kiln " + command)
    expect(kiln("--version"), 0, "kiln 0.")


@case
def lost_output_is_told():
    """A full disk behind standard output: the job failed, whatever the command."""
    told = [[name, "--help"] for name in commands()]
    told += [["--help"], ["--version"], ["ops"], ["ops", "matmul"], ["config"], ["devices"], ["plugin", "list"],
             ["plugin", "abi"], ["cache", "stat"], ["coll", "list"], ["run", MODEL, "--input", INPUT, *FAST],
             ["explain", MODEL]]
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "KILN_CACHE_DIR": folder}
        for arguments in told:
            with open("/dev/full", "w", encoding="ascii") as full:
                run = subprocess.run([KILN, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                     timeout=300, env=env)
            assert run.returncode == 1, f"{arguments}: rc {run.returncode}"
            assert run.stderr.count("kiln: standard output cannot be written") == 1, f"{arguments}: {run.stderr!r}"
    with open("/dev/full", "w", encoding="ascii") as full:
        run = subprocess.run([KILN, "run"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    assert run.returncode == 2, "nothing was lost of what was wrong usage"


@case
def missing_files():
    expect_error(kiln("run", "/nowhere.onnx", "--input", INPUT), "/nowhere.onnx")
    expect_error(kiln("run", MODEL, "--input", "/nowhere.npy", *FAST), "/nowhere.npy")
    expect_error(kiln("run", MODEL, *FAST), "--input image=FILE.npy")
    expect_error(kiln("run", MODEL, "--input", f"picture={INPUT}", *FAST), 'no input "picture"; its inputs are image')
    expect_error(kiln("run", MODEL, "--input", INPUT, "--input", INPUT, *FAST), "inputs are image", "one too many")


def renamed_model(folder, count, width):
    """A model of `count` outputs with names of `width` letters."""
    sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))
    import numpy as np
    import onnx_writer as onnx
    x = np.zeros((2,), np.float32)
    names = [f"{i:0{width}}" for i in range(count)]
    nodes = [onnx.node("Neg", ["x"], [name]) for name in names]
    return write(folder, "many.onnx", onnx.model(onnx.Graph(nodes, {"x": x}, {name: x for name in names}), 17))


@case
def unknown_names_list_the_known():
    given = ["run", MODEL, "--input", INPUT, *FAST]
    expect_error(kiln(*given, "--output", "probability=x.npy"),
                 'no output "probability"; its outputs are log_probability')
    expect_error(kiln(*given, "--output", "a.npy", "--output", "b.npy"),
                 "outputs are log_probability; --output b.npy is one too many")
    expect(kiln("run", "--help"), 0, "an unknown name")
    with tempfile.TemporaryDirectory() as folder:
        for count, width, said in ((3, 3, "are 000, 001, 002"), (60, 20, "03 and 56 more"), (2, 300, "2 with long names")):
            run = kiln("run", renamed_model(folder, count, width), "--output", "z=z.npy", *FAST)
            expect_error(run, 'no output "z"; its outputs ', said)


@case
def damaged_models():
    with open(MODEL, "rb") as file:
        good = file.read()
    with tempfile.TemporaryDirectory() as folder:
        for length in (0, 1, 10, 100, 1000, len(good) // 2, len(good) - 1):
            path = write(folder, "cut.onnx", good[:length])
            expect_error(kiln("run", path, "--input", INPUT, *FAST), "kiln run: ")
        path = write(folder, "noise.onnx", bytes(range(256)) * 40)
        expect_error(kiln("run", path, "--input", INPUT, *FAST), "kiln run: ")


@case
def damaged_arrays():
    with open(INPUT, "rb") as file:
        good = file.read()
    floats = bytes(4 * 64)
    bad = {
        "empty.npy": b"",
        "magic.npy": b"NUMPY" + good[5:],
        "cut.npy": good[:-5],
        "header.npy": good[:40],
        "type.npy": npy("<c8", "(1, 1, 8, 8)", floats * 2),
        "big.npy": npy("<f4", "(99999999999, 99999999999, 9)", floats),
        "negative.npy": npy("<f4", "(-1, 8)", floats),
        "long.npy": good + b"\0",
        "rank.npy": npy("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 64)", floats),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, data in bad.items():
            run = kiln("run", MODEL, "--input", write(folder, name, data), *FAST)
            expect_error(run, name)


@case
def unknown_types_of_arrays_are_named():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "big.npy", npy(">f4", "(1, 1, 8, 8)", bytes(256)))
        expect_error(kiln("run", MODEL, "--input", path, *FAST), "element type >f4 is not supported")


@case
def outputs_are_looked_for_first():
    run = kiln("run", MODEL, "--input", "/nowhere.npy", "--output", "nothing=/tmp/x.npy", *FAST)
    expect_error(run, 'no output "nothing"')
    run = kiln("run", MODEL, "--input", INPUT, "--output", "/dev/null", "--output", "more.npy", *FAST)
    expect_error(run, "--output more.npy is one too many")


@case
def null_device_has_no_results():
    run = kiln("run", MODEL, "--input", INPUT, "--device", "null:0", "--repeat", "0")
    expect(run, 0, "no results: this device computes nothing", "operations:")
    assert "predicted" not in run.stdout, run.stdout
    expect_error(kiln("run", MODEL, "--input", INPUT, "--device", "null:0", "--expected", INPUT),
                 "want a device that computes")


@case
def wrong_shape_and_dtype():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "shape.npy", npy("<f4", "(1, 1, 8, 7)", bytes(4 * 56)))
        expect_error(kiln("run", MODEL, "--input", path, *FAST), "kiln run: ", "image")
        path = write(folder, "dtype.npy", npy("<i4", "(1, 1, 8, 8)", bytes(4 * 64)))
        expect_error(kiln("run", MODEL, "--input", path, *FAST), "kiln run: ", "int32", "float32")
        expect_error(kiln("run", MODEL, *FAST), "kiln run: ", "image", "float32 [", "--input image=FILE.npy")
        expect_error(kiln("run", MODEL, "--input", "image=" + path, "--input", "image=" + path, *FAST),
                     "kiln run: ", "given twice")


@case
def device_out_of_range():
    expect_error(kiln("run", MODEL, "--input", INPUT, "--device", "opencl:99"), "99")
    expect_error(kiln("run", MODEL, "--input", INPUT, "--device", "abacus"), "abacus")


@case
def bad_plugins():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "text.so", b"this is no shared object")
        run = kiln("plugin", "list", "--why", KILN_PLUGIN_PATH=folder)
        expect(run, 0, "text.so", "refused", "ELF")
        expect_error(kiln("run", MODEL, "--input", INPUT, "--plugin", path), "text.so")
        run = kiln("plugin", "list", "--why", "--plugin", path)
        expect(run, 1, "refused", "taken    org.kiln.elementwise")
        assert run.stderr.count("plugin ") == 2, run.stderr  # "kiln plugin list: plugin PATH: ..."


@case
def plugin_new():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mine")
        expect(kiln("plugin", "new", "running-sum", "--dir", path), 0, "a fuser in C")
        assert sorted(os.listdir(path)) == ["CMakeLists.txt", "README.md", "abi.c", "abi.h", "example.onnx",
                                            "running_sum.c"], os.listdir(path)
        expect_error(kiln("plugin", "new", "running-sum", "--dir", path), "cannot be made")
        for name in ("Fast", "two words", "-x", "x-", "x--y", "a/b", "", "x" * 41, "9x"):
            expect_error(kiln("plugin", "new", "--dir", path + "2", "--", name), "small letters", code=2)
        for name in ("test", "all", "help", "package-source", "abi"):
            expect_error(kiln("plugin", "new", "--dir", path + "2", name), "cannot have that name", code=2)
        assert not os.path.exists(path + "2")
        full = subprocess.run([KILN, "plugin", "new", "sum", "--dir", path + "2"], capture_output=True, text=True,
                              check=False, restore_signals=False,  # where SIGXFSZ is ignored
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)))
        expect_error(full, "cannot be written")
        assert not os.path.exists(path + "2")
        expect(kiln("plugin", "new", "int", "--lang", "cpp", "--dir", path + "2"), 0, "a fuser in C++")
        with open(os.path.join(path + "2", "int.cpp"), encoding="utf-8") as file:
            text = file.read()
        assert "class int" not in text and '"org.example.int"' in text and "my_fuser" not in text
        expect(kiln("plugin", "new", "sum", "--lang", "rust", "--dir", path + "3"), 0, "a fuser in Rust", "libsum.so")
        with open(os.path.join(path + "3", "Cargo.toml"), encoding="utf-8") as file:
            crates = [line.split('"')[1] for line in file if line.startswith("kiln-fuser =")]
        assert len(crates) == 2 and all(os.path.exists(f"{crate}/src/lib.rs") for crate in crates), crates
        expect_error(kiln("plugin", "new", "build", "--lang", "rust", "--dir", path + "4"), "cannot have that name", code=2)
        run = kiln("plugin", "new", "sum", "--lang", "ada", "--dir", path + "4")
        assert run.returncode == 2 and "write c, cpp or rust" in run.stderr, run
        expect_error(kiln("plugin", "frobnicate"), "frobnicate", code=2)


@case
def plugin_new_operator():
    files = {"c": ["steep_bit_op.c"], "cpp": ["steep_bit_op.cpp"], "rust": ["Cargo.toml", "build.rs", "steep_bit_op.rs"]}
    with tempfile.TemporaryDirectory() as folder:
        for lang, own in files.items():
            path = os.path.join(folder, lang)
            expect(kiln("plugin", "new", "steep-bit", "--operator", "--lang", lang, "--dir", path), 0, "an operator in",
                   "kiln replay example.replay --compare")
            common = ["README.md", "example.replay"] + ([] if lang == "rust" else ["CMakeLists.txt"])
            assert sorted(os.listdir(path)) == sorted(own + common), os.listdir(path)
            texts = {name: open(os.path.join(path, name), encoding="utf-8").read() for name in os.listdir(path)}
            assert not [name for name, text in texts.items() if re.search("my[-_]fuser", text)], lang
            assert '"example::steep_bit"' in texts[own[-1]] and 'name="example::steep_bit"' in texts["example.replay"]


@case
def plugin_abi():
    golden = os.path.join(ROOT, "tests/golden/kf_layout_v1.txt")
    run = kiln("plugin", "abi")
    expect(run, 0, "fuser ABI 1.", "kf_plugin size")
    with open(golden, encoding="utf-8") as file:
        text = file.read()
    assert run.stdout.split("\n", 1)[1] == text, "not the golden list"
    expect(kiln("plugin", "abi", "--diff", golden), 0, "compatible")
    with tempfile.TemporaryDirectory() as folder:
        older = text.replace("kf_host size 88", "kf_host size 80").replace("  extension offset 80 size 8\n", "", 1)
        expect(kiln("plugin", "abi", "--diff", write(folder, "older", older.encode())), 0, "larger here: kf_host")
        for bad in (text.replace("  report offset 48", "  report offset 40"), text + "  newer offset 8 size 8\n",
                    text.replace("kf_plugin size 216", "kf_plugin size 224")):
            assert bad != text
            expect(kiln("plugin", "abi", "--diff", write(folder, "bad", bad.encode())), 1, "not compatible")
        expect_error(kiln("plugin", "abi", "--diff", write(folder, "none", b"nothing")), "is no list")


TWO_OPS = b"""kiln replay 1
input %1: f32[64,64]
input %2: f32[64,64]
%3: f32[64,64] = add(%1: f32[64,64], %2: f32[64,64])
%4: f32[64,64] = relu(%3: f32[64,64])
drop(%3: f32[64,64])
%5: f32[64,64] = mul(%4: f32[64,64], %4: f32[64,64])
output %4
output %5
end
"""


@case
def plugin_words_for_replays():
    with tempfile.TemporaryDirectory() as folder:
        path, small = write(folder, "a.replay", TWO_OPS), os.path.join(folder, "small.replay")
        expect(kiln("plugin", "run", path, "--compare", KILN_CACHE_DIR=folder), 0, "as the reference")
        expect(kiln("plugin", "dump", path, KILN_CACHE_DIR=folder), 0, "block 0", "kiln_elementwise", "__kernel")
        run = kiln("plugin", "bench", path, "--repeat", "3", KILN_CACHE_DIR=folder)
        expect(run, 0, "3 of 3 operations in 1 block\n", "copy limit", "times as fast")
        expect(kiln("plugin", "bench", path, "--no-fusion", "--repeat", "3", KILN_CACHE_DIR=folder), 0, "0 of 3 operations")
        expect_error(kiln("plugin", "reduce", path, "--output", small, KILN_CACHE_DIR=folder), "")
        assert not os.path.exists(small)
        for word in ("run", "dump", "bench", "reduce"):
            expect_error(kiln("plugin", word, os.path.join(folder, "none")), "none")


MATMUL = b"""kiln replay 1
input %1: f32[64,256]
input %2: f32[256,128] const
input %3: f32[128]
%4: f32[64,128] = matmul(%1: f32[64,256], %2: f32[256,128])
%5: f32[64,128] = add(%4: f32[64,128], %3: f32[128])
drop(%4: f32[64,128])
%6: f32[64,128] = relu(%5: f32[64,128])
drop(%5: f32[64,128])
output %6
end
"""


@case
def plugin_dump():
    """Every part of a program: formulas with their values, arguments, temporaries, order, binaries."""
    with tempfile.TemporaryDirectory() as folder:
        path, binaries = write(folder, "a.replay", MATMUL), os.path.join(folder, "binaries")
        run = kiln("plugin", "dump", path, "--binaries", binaries, KILN_CACHE_DIR=folder, KILN_PLUGINS="org.kiln.matmul")
        expect(run, 0, " by org.kiln.matmul/matmul", "options: -cl-std=CL1.2", "__kernel", "work-items", "ceil_div(s3, ",
               "temporary 1: bytes", "filled once by launch", "reads %1: f32[256,128]", "writes %5: f32[64,128]",
               ", after step 0 (temporary 0)", "s1 = 64 s2 = 256 s3 = 128")
        size = os.path.getsize(os.path.join(binaries, "block0-source0.bin"))
        assert size > 1000 and f"binary: {size} bytes" in run.stdout, size
        less = kiln("plugin", "dump", path, "--no-source", KILN_CACHE_DIR=folder, KILN_PLUGINS="org.kiln.matmul")
        assert "__kernel" not in less.stdout and "work-items" in less.stdout
        expect(kiln("plugin", "dump", MODEL, "--no-source", KILN_CACHE_DIR=folder), 0, "block 0", "launch 0")
        expect_error(kiln("plugin", "dump", path, "--binaries", "/proc/none", KILN_CACHE_DIR=folder), "/proc/none")


SPLIT = b"""kiln replay 1
input %1: f32[64,256]
input %2: f32[256,1024]
input %3: f32[1024]
%4: f32[64,1024] = matmul(%1: f32[64,256], %2: f32[256,1024])
%5: f32[64,1024] = cum_sum(%4: f32[64,1024], axis=1, exclusive=false, reverse=false)
drop(%4: f32[64,1024])
%6: f32[64,1024] = add(%5: f32[64,1024], %3: f32[1024])
drop(%5: f32[64,1024])
%7: f32[64,1024] = relu(%6: f32[64,1024])
drop(%6: f32[64,1024])
output %7
end
"""


@case
def plugin_dump_has_one_numbering():
    """A tensor has one number in the text of operations and in arguments of launches; each operation one of its own."""
    plugins = "org.kiln.elementwise"
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "a.replay", SPLIT)
        text = kiln("plugin", "dump", path, "--no-source", KILN_CACHE_DIR=folder, KILN_PLUGINS=plugins).stdout
        said = {}  # what each number stands for
        for number, what in re.findall(r"%(\d+): (\w+\[[\d,]*\])", text):
            assert said.setdefault(number, what) == what, f"%{number} is {said[number]} and {what}: {text}"
        assert len(re.findall(r"argument \d+ +(?:reads|writes)[ a-z]* %\d+", text)) >= 3, text
        ops = {int(number): name for number, name in re.findall(r"^(?:  |unfused: )\[(\d+)\] (?:%\S+ \S+ = )?(\w+)", text, re.M)}
        assert "unfused: [0]" in text and "unfused: [1]" in text and "block 0" in text, text
        assert {i: name for i, name in ops.items() if name != "drop"} == \
            {0: "matmul", 1: "cum_sum", 3: "add", 5: "relu"}, (ops, text)


@case
def plugin_bench():
    """Blocks by class and size: every fuser alone beside the unfused operations."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "a.replay", MATMUL)
        run = kiln("plugin", "bench", path, "--repeat", "3", "--json", KILN_CACHE_DIR=folder)
        expect(run, 0)
        data = json.loads(run.stdout)
        group = data["groups"][0]
        assert data["blocks"] == 1 and group["classes"] == "elementwise + contraction", data
        assert group["size"] == "64 KiB to 1 MiB", group
        by = {c["by"]: c for c in group["contenders"]}
        assert by["unfused operations"]["speedup"] == 1 and "org.kiln.matmul/matmul" in by, by
        for one in by.values():
            assert 0 < one["least_ns"] <= one["median_ns"] <= one["most_ns"], one
            assert abs(one["gb_per_s"] - data["bytes"] / one["median_ns"]) < 1e-6 * one["gb_per_s"], one
        assert by["org.kiln.matmul/matmul"]["predicted_to_measured"] > 0
        assert sum(one["won"] for one in by.values()) == 1
        expect(kiln("plugin", "bench", MODEL, "--repeat", "2", KILN_CACHE_DIR=folder), 0, "unfused operations", "speedup", "GB/s")
        expect_error(kiln("plugin", "bench", path, "--json=/none/x", "--repeat", "1", KILN_CACHE_DIR=folder), "/none/x")
        plugin = os.path.join(BUILD, "lib/kiln/test_plugins/chain.so")
        given = kiln("plugin", "bench", path, "--plugin", plugin, "--repeat", "2", KILN_CACHE_DIR=folder)
        expect(given, 0, "unfused operations", "org.kiln.matmul/matmul")


@case
def plugin_record():
    """A program and a model: what they ran is in files that every other word takes."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = write(folder, "a.replay", MATMUL), os.path.join(folder, "streams")
        run = kiln("plugin", "record", "--output", out, "--", KILN, "replay", path, KILN_CACHE_DIR=folder)
        expect(run, 0, "3 operations, 3 inputs, 1 output")
        run = kiln("plugin", "record", "-o", out, "--", KILN, "run", MODEL, "--input", INPUT, KILN_CACHE_DIR=folder)
        expect(run, 0, "predicted class: 3", "29 operations")
        files = sorted(os.path.join(out, name) for name in os.listdir(out))
        assert len(files) == 2, files
        for file in files:
            expect(kiln("plugin", "run", file, "--compare", KILN_CACHE_DIR=folder), 0, "as the reference")
            expect(kiln("plugin", "dump", file, "--no-source", KILN_CACHE_DIR=folder), 0, "block 0")
        again = kiln("plugin", "record", "-o", out, "--", KILN, "replay", path, KILN_CACHE_DIR=folder)
        assert again.returncode == 0 and len(os.listdir(out)) == 2, again.stdout
        expect_error(kiln("plugin", "record", "-o", os.path.join(folder, "b"), "--", "true"), "ran no operation")
        expect_error(kiln("plugin", "record", "-o", os.path.join(folder, "b"), "--", "/none/x"), "cannot be run")
        expect_error(kiln("plugin", "record", "-o", os.path.join(folder, "b"), "--", "false"), "status 1")
        assert kiln("plugin", "record").returncode == 2


@case
def plugins_off():
    run = kiln("run", MODEL, "--input", INPUT, KILN_PLUGINS="off")
    expect(run, 0, "predicted class: 3", "of them 0 in 0 fused blocks")


@case
def allows_and_signs_plugins():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        plugin = os.path.join(folder, "elementwise.so")
        with open(os.path.join(BUILD, "lib/kiln/plugins/elementwise.so"), "rb") as source:
            write(folder, "elementwise.so", source.read())
        os.chmod(plugin, 0o644)
        options = {"KILN_PLUGIN_PATH": folder, "XDG_CONFIG_HOME": folder, "KILN_PLUGINS": "-/" + BUILD.strip("/")}
        listed = lambda mode: kiln("plugin", "list", "--why", KILN_PLUGIN_MODE=mode, **options)
        expect(listed("allowlist"), 0, "not in the list of plugin-allow; `kiln plugin allow FILE` adds it")
        run = lambda mode: kiln("run", MODEL, "--input", INPUT, **options, KILN_PLUGIN_MODE=mode)
        expect_error(run("allowlist"), "elementwise.so", "`kiln plugin allow FILE` adds it", code=0)
        assert run("off").stderr == ""
        expect(kiln("plugin", "allow", plugin, **options), 0, "is allowed")
        expect(kiln("plugin", "allow", plugin, **options), 0, "was allowed before")
        expect(listed("allowlist"), 0, "taken    org.kiln.elementwise")
        expect(listed("signed"), 0, "plugin-keys has no key")
        key = os.path.join(folder, "key.pem")
        run = kiln("plugin", "sign", "--key", key, "--new", plugin, **options)
        expect(run, 0)
        assert len(run.stdout) == 65, run.stdout
        assert kiln("plugin", "sign", "--key", key, **options).stdout == run.stdout
        write(os.path.join(folder, "kiln"), "plugins.keys", run.stdout.encode())
        os.chmod(os.path.join(folder, "kiln", "plugins.keys"), 0o600)
        expect(listed("signed"), 0, "taken    org.kiln.elementwise")
        expect(listed("off"), 0, "plugin-mode is off")
        expect_error(kiln("plugin", "sign", "--key", key, "--new", **options), "is there: it stays as it is")
        assert kiln("plugin", "sign", plugin, **options).returncode != 0
        assert kiln("plugin", "allow", **options).returncode != 0


@case
def bad_options():
    expect_error(kiln("run", MODEL, "--input", INPUT, "--set", "nonsense=1"), "nonsense")
    expect_error(kiln("config", "--set", "memory-budget=lots"), "memory-budget")
    expect_error(kiln("config", "--set", "memory-budget=-5"), "memory-budget", "-5")
    expect(kiln("config", "--set", "memory-budget=1G"), 0, "flag")
    expect_error(kiln("config", "--set", "tune=of"), "tune is of; off, lazy and full are known")
    expect_error(kiln("config", KILN_CHECK="sometimes"), "KILN_CHECK", "check is sometimes; off, first and always are known")
    run = kiln("run", MODEL, "--input", INPUT, KILN_KERNEL_DIR="/nowhere")
    expect_error(run, "kernel-dir: there is no folder /nowhere")
    run = kiln("run", MODEL, "--input", INPUT, *FAST, KILN_PLUGIN_MODE="devloper", KILN_PLUGIN_PATH="")
    expect_error(run, "plugin-mode is devloper; off, allowlist, signed and developer are known")
    run = kiln("plugin", "list", KILN_PLUGIN_PATH="/nowhere", KILN_PLUGINS="-org.kiln.bogus")
    assert "plugin folder /nowhere cannot be read" in run.stderr, run.stderr
    assert "no plugin has the id org.kiln.bogus" in run.stderr, run.stderr
    expect(kiln("config", KILN_LOG="debug"), 0, "environment")


@case
def explains_blocks():
    run = kiln("explain", MODEL, "--source")
    expect(run, 0, "block 0:", "winner", "org.kiln.elementwise", "__kernel", "unfused:", "declined")


@case
def tunes_a_model():
    with tempfile.TemporaryDirectory() as folder:
        first = kiln("tune", MODEL, KILN_CACHE_DIR=folder)
        expect(first, 0, "blocks measured")
        count = first.stdout.split()[0]
        assert int(count) > 0 and first.stdout.split()[2] == count, first.stdout
        expect(first, 0, f"] {count} of {count} blocks", stream="stderr")
        expect(first, 0, "org.kiln.convolution/convolution", " won ", "`kiln explain ")
        expect(kiln("tune", MODEL, KILN_CACHE_DIR=folder), 0, "nothing left to measure")
        told = json.loads(kiln("tune", MODEL, "--json", KILN_CACHE_DIR=folder).stdout)
        assert (told["measured"], told["open"]) == (0, 0) and sum(w["blocks"] for w in told["winners"]) > 1, told
        expect(kiln("explain", MODEL, KILN_CACHE_DIR=folder), 0, "measured")
    expect_error(kiln("run", MODEL, "--input", INPUT, "--tune", "never"), "off, lazy and full")
    expect_error(kiln("tune", MODEL, "-F"), "--no-fusion leaves no fused block to measure", code=2)
    expect_error(kiln("tune", MODEL, KILN_TUNE="off"), "tune is off", "add --tune full")
    expect_error(kiln("tune", MODEL, KILN_DETERMINISTIC="1"), "deterministic")


@case
def parameters_of_clblast_are_shipped():
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "blas.txt")
        keep = {"KILN_CACHE_DIR": os.path.join(folder, "cache"), "KILN_DEVICE": "opencl:0"}
        expect(kiln("tune", "blas", "--export", file, **keep), 0)  # what ships
        with open(file, encoding="utf-8") as text:
            lines = text.readlines()
        assert any(" | f32 | GemmRoutine | XGEMM_MIN_INDIRECT_SIZE=" in line for line in lines), lines
        keep["KILN_CACHE_DIR"] = os.path.join(folder, "elsewhere")
        expect(kiln("tune", "blas", "--import", file, **keep), 0, f"{len(lines)} of its lines are of this device")
        expect(kiln("tune", "blas", **keep), 0, "nothing to search", "--again")
        told = json.loads(kiln("tune", "blas", "--import", file, "--json", **keep).stdout)
        assert told == {"lines_taken": len(lines), "search": None}, told
        with open(file, "a", encoding="utf-8") as text:
            text.write("nonsense\n")
        expect_error(kiln("tune", "blas", "--import", file, **keep), "blas.txt: line ", "is not: device | dtype")
    expect_error(kiln("tune", "blas", "--import", "/no/such", KILN_CACHE_DIR="off"), "/no/such cannot be read")
    expect(kiln("tune", "blas", "--seconds", "0"), 2, "say --seconds 1 to 86400", stream="stderr")
    expect_error(kiln("tune", "blas", KILN_DEVICE="reference:"), "reference: is no OpenCL device")


def reading_model(folder):
    """NonZero's length is read back, and the branch is chosen by a value: such a model runs as several graphs."""
    sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))
    import numpy as np
    import onnx_writer as onnx
    x, i = np.zeros((64, 64), np.float32), np.zeros((2, 0), np.int64)
    nodes = [onnx.node("Abs", ["x"], ["a"]), onnx.node("Exp", ["a"], ["b"]), onnx.node("Softmax", ["b"], ["c"]),
             onnx.node("NonZero", ["c"], ["i"]), onnx.node("Neg", ["c"], ["d"]), onnx.node("Tanh", ["d"], ["e"]),
             onnx.node("Softmax", ["e"], ["y"])]
    return write(folder, "reading.onnx", onnx.model(onnx.Graph(nodes, {"x": x}, {"y": x, "i": i}), 17)), \
        write(folder, "x.npy", npy("<f4", "(64, 64)", bytes(64 * 64 * 4)))


@case
def several_graphs_are_tuned_and_told():
    with tempfile.TemporaryDirectory() as folder:
        model, x = reading_model(folder)
        first = kiln("tune", model, KILN_CACHE_DIR=folder)
        expect(first, 0, "blocks measured")
        words = first.stdout.split()
        assert int(words[0]) > 1 and words[0] == words[2], first.stdout
        expect(kiln("tune", model, KILN_CACHE_DIR=folder), 0, "nothing left to measure", "each with its winner")
        for repeat in ("0", "5"):
            run = kiln("run", model, "--input", x, "--memory", "--repeat", repeat, KILN_CACHE_DIR=folder)
            expect(run, 0, "graph 1: ", "graph 2: ", "from Abs on", "from Neg on", "graphs: 2; what lies in none")
            assert run.stdout.count("memory of a run:") == 2 and run.stdout.count("operator or kernel") == 2


@case
def lists_things():
    expect(kiln("devices"), 0, "opencl:0")
    expect(kiln("devices", "--verbose"), 0, "stores", "computes", "f32", "defaults      f32 i64 bool")
    expect(kiln("devices", KILN_DEVICE="reference"), 0, "(the option device says it)")
    expect_error(kiln("devices", KILN_DEVICE="abacus"), "abacus")
    expect(kiln("ops"), 0, "matmul", "conv")
    expect(kiln("ops", "conv"), 0, "dilations")
    expect(kiln("ops", "silu"), 0, "recorded as sigmoid, mul, so no fuser ever sees it")
    expect(kiln("ops", "linear"), 0, "where the device has no kernel")
    assert "composite" not in kiln("ops", "add").stdout
    expect_error(kiln("ops", "nonsense"), "nonsense")


@case
def collectives():
    two = ("-d", "reference:0", "-d", "reference:1")
    expect(kiln("coll", "list"), 0, "all_reduce", "hierarchical", "doubling", "tree4", "barrier")
    expect(kiln("coll", "check", *two), 0, "reduce_scatter", "not on 2 ranks", "cases passed")
    expect_error(kiln("coll", "check", "-d", "abacus"), "abacus")
    for arguments in (("coll",), ("coll", "chant"), ("coll", "check", "--deadline", "soon")):
        run = kiln(*arguments)
        assert run.returncode == 2 and run.stderr, f"{arguments}: rc {run.returncode}"


@case
def builtin_kernels_are_compiled_before_they_are_asked_for():
    with tempfile.TemporaryDirectory() as folder:
        keep = {"KILN_CACHE_DIR": os.path.join(folder, "cache"), "KILN_DEVICE": "opencl:0"}
        ops = ("softmax", "max_pool", "concat")
        counts = []
        for process in range(2):  # each with an empty cache of its driver
            run = kiln("cache", "prepare", "--builtin", "--jobs", "2", *ops, **keep,
                       POCL_CACHE_DIR=os.path.join(folder, f"pocl-{process}"))
            expect(run, 0, " programs compiled, ", " 3 operators, by 2 processes, in ")
            counts.append([int(word) for word in run.stdout.split() if word.isdigit()])
        assert counts[0][0] > 2 and counts[0][1] == 0, counts
        assert counts[1][0] == 0 and counts[1][1] == counts[0][0], counts
        expect(kiln("cache", "stat", **keep), 0, f"programs  {counts[0][0]:6}", "starts         0 ")
    expect(kiln("cache", "prepare", "--builtin", "soft"), 2, "there is no operator soft; `kiln ops`", stream="stderr")
    expect(kiln("cache", "prepare", "--builtin", "--jobs", "0"), 2, "say --jobs 1 to 64", stream="stderr")
    expect_error(kiln("cache", "prepare", "--builtin", KILN_DEVICE="reference:"), "reference: is no OpenCL device")


@case
def cache_is_seen_and_cleared():
    with tempfile.TemporaryDirectory() as folder:
        expect(kiln("cache", "stat", KILN_CACHE_DIR=folder), 0, "programs", " 0 ")
        expect(kiln("run", MODEL, "--input", INPUT, KILN_CACHE_DIR=folder), 0)
        run = kiln("cache", "stat", KILN_CACHE_DIR=folder)
        programs = int(run.stdout.split("programs")[1].split()[0])
        assert programs > 0, run.stdout
        expect(kiln("cache", "clear", KILN_CACHE_DIR=folder), 0, "programs       0 ")


@case
def unknown_operator_is_named():
    # A model with one node of an operator that does not exist, written by hand.
    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    value = field(1, b"x") + field(2, field(1, bytes([8, 1]) + field(2, field(1, bytes([8, 2])))))
    node = field(1, b"x") + field(2, b"y") + field(3, b"lonely") + field(4, b"Frobnicate")
    graph = field(1, node) + field(2, b"g") + field(11, value) + field(12, field(1, b"y"))
    model = bytes([8, 8]) + field(7, graph) + field(8, bytes([16, 13]))
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "odd.onnx", model)
        data = write(folder, "x.npy", npy("<f4", "(2,)", bytes(8)))
        run = kiln("run", path, "--input", data, *FAST)
        expect_error(run, "Frobnicate", "lonely")


@case
def nothing_is_drawn_of_no_elements():
    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    def dim(length):
        return field(1, bytes([8, length]))

    shape = dim(0) + dim(8) + dim(8)
    value = field(1, b"x") + field(2, field(1, bytes([8, 1]) + field(2, shape)))
    node = field(1, b"x") + field(2, b"y") + field(4, b"Neg")
    graph = field(1, node) + field(2, b"g") + field(11, value) + field(12, field(1, b"y"))
    model = bytes([8, 8]) + field(7, graph) + field(8, bytes([16, 13]))
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "neg.onnx", model)
        data = write(folder, "x.npy", npy("<f4", "(0, 8, 8)", b""))
        run = kiln("run", path, "--input", data, "--draw", *FAST)
        expect(run, 0, "y: f32[0,8,8] =")
        assert run.stdout.startswith("y:"), f"a picture of nothing: {run.stdout!r}"


STREAM = """kiln replay 1
# softmax by hand
input %1: f32[3,5]
input %2: f32[5] const
%3: f32[3,5] = add(%1: f32[3,5], %2: f32[5])
%4: f32[3,5] = exp(%3: f32[3,5])
drop(%3: f32[3,5])
%5: f32[3,5] = mul_scalar(%4: f32[3,5], value=0.5)
drop(%4: f32[3,5])
output %5
memory %1 offset 2 strides 1,4
end
"""


@case
def replay_runs_and_compares():
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "a.replay", STREAM.encode())
        for more in ([], ["--no-fusion"], FAST):
            run = kiln("replay", path, "--compare", *more)
            expect(run, 0, "softmax by hand", "output %5: f32[3,5] as the reference", "operations: 3")
        expect(kiln("replay", path, "--seed", "5", *FAST), 0, "output %5: f32[3,5]\n")
        wrong = write(folder, "b.replay", STREAM.replace("f32[5] const", "f32[4] const").encode())
        expect_error(kiln("replay", wrong, *FAST), "b.replay", "%2")
        expect_error(kiln("replay", os.path.join(folder, "none"), *FAST), "No such file")
        expect(kiln("replay", *FAST), 2, "say which FILE", stream="stderr")


EVIL = os.path.join(os.path.dirname(KILN), "../lib/kiln/test_plugins")


@case
def plugins_are_scanned_and_reset():
    with tempfile.TemporaryDirectory() as folder:
        good, bad = (os.path.realpath(os.path.join(EVIL, name + ".so"))
                     for name in ("evil_none", "evil_crashes_in_query"))
        keep = {"KILN_CACHE_DIR": os.path.join(folder, "cache")}
        for _ in range(2):
            run = kiln("plugin", "list", "--why", "--plugin", bad, **keep)
            expect(run, 1, "its scan failed: it ended the process", "kiln plugin reset test.hostile")
            expect(kiln("plugin", "list", "--plugin", good, **keep), 0, "test.hostile-kernel")
        expect_error(kiln("plugin", "reset", "nobody", **keep), 'there is no plugin "nobody"',
                     "there are org.kiln.attention, org.kiln.convolution, ")
        expect(kiln("plugin", "reset", "org.kiln.matmul", **keep), 0, "0 records forgotten")
        expect(kiln("plugin", "reset", "test.hostile-kernel", **keep), 0, "2 records forgotten")
        expect(kiln("plugin", "reset", **keep), 2, "say which ID", stream="stderr")


@case
def odd_paths_do_no_harm():
    with tempfile.TemporaryDirectory() as folder:
        odd = os.path.join(os.fsencode(folder), b"\xff<b\n.so")
        shutil.copy(os.path.join(EVIL, "evil_none.so"), odd)
        made = [os.path.join(folder, name) for name in ("c.json", "c.xml")]
        run = subprocess.run([KILN, "plugin", "check", "--only", "note", f"--json={made[0]}", "-u", made[1], odd],
                             capture_output=True, check=False, timeout=300)
        assert run.returncode == 0, run.stdout + run.stderr
        with open(made[0], encoding="utf-8") as file:
            assert json.load(file)["plugin"].endswith("/?<b\n.so")
        assert xml.etree.ElementTree.parse(made[1]).getroot().get("name").endswith("/?<b .so")
        run = subprocess.run([KILN, "plugin", "list", "--why"], capture_output=True, check=False, timeout=300,
                             env={**os.environ, "KILN_PLUGIN_PATH": folder})
        assert run.returncode == 0 and b"\xff<b?.so" in run.stdout, run.stdout
        equal = os.path.join(folder, "image=3.npy")
        shutil.copy(INPUT, equal)
        expect(kiln("run", MODEL, "--input", equal, *FAST), 0, "predicted class: 3")
        expect(kiln("run", MODEL, "--input", "image=" + INPUT, *FAST), 0, "predicted class: 3")


@case
def small_words_of_plugin_tools():
    with tempfile.TemporaryDirectory() as folder:
        path, out = write(folder, "a.replay", TWO_OPS), os.path.join(folder, "b.json")
        plugin = os.path.join(EVIL, "evil_none.so")
        expect_error(kiln("plugin", "run", path + "x"), "kiln plugin run: ")
        expect_error(kiln("replay", path + "x"), "kiln replay: ")
        expect_error(kiln("plugin", "check", "--only", "reslts", plugin), "there are note, exports, ", code=2)
        expect(kiln("plugin", "check", "-n0", plugin), 2, "tries nothing", stream="stderr")
        run = kiln("plugin", "bench", path, "--repeat", "1", f"--json={out}", KILN_CACHE_DIR=folder)
        expect(run, 0, "3 of 3 operations")
        with open(out, encoding="utf-8") as file:
            assert json.load(file)["ops"] == 3
        run = kiln("plugin", "bench", path, "--repeat", "1", "--json", KILN_CACHE_DIR=folder)
        assert json.loads(run.stdout)["ops"] == 3


NEGATED = """kiln replay 1
input %1: f32[70000]
%2: f32[70000] = add_scalar(%1: f32[70000], value=0.25)
%3: f32[70000] = neg(%2: f32[70000])
drop(%2: f32[70000])
%4: f32[70000] = relu(%3: f32[70000])
drop(%3: f32[70000])
output %4
end
"""


@case
def what_is_wrong_is_written_down_and_shown_again():
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, "cache")
        keep = {"KILN_CACHE_DIR": cache, "KILN_PLUGINS": "test.hostile-kernel"}
        evil = ["--plugin", os.path.realpath(os.path.join(EVIL, "evil_wrong.so"))]
        path = write(folder, "a.replay", NEGATED.encode())
        expect(kiln("replay", path, "--compare", "--no-fusion", *evil, **keep), 0, "as the reference")
        run = kiln("replay", path, "--compare", *evil, **keep)
        expect(run, 1, "output %4: f32[70000] element ")
        expect(run, 1, "1 of 1 outputs differ from the reference", stream="stderr")
        counts = ["--set", "plugin-failures=1"]
        run = kiln("replay", path, "--compare", "--check", "first", *counts, *evil, **keep)
        expect(run, 0, "as the reference")
        expect(run, 0, "is wrong: result %", "operations show it: kiln replay --compare --plugin ", stream="stderr")
        written = [name for name in os.listdir(cache) if name.startswith("wrong-")]
        assert len(written) == 1, f"files: {written}"
        small = os.path.join(cache, written[0])
        banned = kiln("replay", path, "--compare", *counts, *evil, **keep)
        expect(banned, 1, "of them 2 in 1 fused block")  # another program of this fuser
        shown = run.stderr[run.stderr.index("show it: kiln ") + len("show it: kiln "):].split("\n")[0].split()
        expect(kiln(*shown, **keep), 1, "element ")
        run = kiln("replay", small, "--compare", *evil, **keep)
        expect(run, 1, "fuser test.hostile-kernel/evil, program ", "element ")
        expect(kiln("replay", small, "--compare", **keep), 0, "as the reference")


@case
def streams_of_many_inputs_are_reduced():
    with tempfile.TemporaryDirectory() as folder:
        keep = {"KILN_CACHE_DIR": os.path.join(folder, "cache"), "KILN_PLUGINS": "test.hostile-kernel"}
        evil = ["--plugin", os.path.realpath(os.path.join(EVIL, "evil_wrong.so"))]
        lines = ["kiln replay 1"] + [f"input %{i}: f32[300]" for i in range(1, 71)]
        for i in range(1, 71):
            lines += [f"%{2 * i + 69}: f32[300] = neg(%{i}: f32[300])",
                      f"%{2 * i + 70}: f32[300] = relu(%{2 * i + 69}: f32[300])", f"drop(%{2 * i + 69}: f32[300])"]
        lines += [f"output %{2 * i + 70}" for i in range(1, 71)] + ["end", ""]
        path, small = write(folder, "many.replay", "\n".join(lines).encode()), os.path.join(folder, "small.replay")
        expect(kiln("plugin", "reduce", path, "--output", small, *evil, **keep), 0, "of 210 operations and drops show it")
        with open(small, "rb") as file:
            assert file.read().count(b"\noutput ") <= 2


@case
def privileged_programs_ignore_the_environment():
    if os.geteuid() != 0:
        print("skipped: only root can make a program of another user's")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = os.path.join(folder, "kiln")
        with open(KILN, "rb") as source:
            write(folder, "kiln", source.read())
        os.chmod(copy, 0o755)
        plain = subprocess.run([copy, "config"], capture_output=True, text=True, check=False,
                               env={**os.environ, "KILN_PLUGIN_PATH": "/somewhere"}, timeout=60)
        expect(plain, 0, "/somewhere")
        os.chown(copy, 65534, 65534)
        os.chmod(copy, 0o4755)
        run = subprocess.run([copy, "config"], capture_output=True, text=True, check=False,
                             env={**os.environ, "KILN_PLUGIN_PATH": "/somewhere"}, timeout=60)
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            print("skipped: programs here run without privileges")
            return
        if "LeakSanitizer has encountered a fatal error" in run.stderr:
            print("skipped: LeakSanitizer cannot look into a program of another user's")
            return
        if "cannot open shared object file" in run.stderr:
            print("skipped: another user may not look into the folder of Kiln's library")
            return
        expect(run, 0, "plugin-path")
        assert "/somewhere" not in run.stdout, f"the environment was read: {run.stdout}"


if __name__ == "__main__":
    sys.exit(main("commands"))
