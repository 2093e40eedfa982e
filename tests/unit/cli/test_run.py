# SPDX-License-Identifier: MIT OR Apache-2.0
"""`kiln run`: inputs of every kind, classes with names, figures; and --json of every command that prints a table."""
import base64
import json
import os
import struct
import sys
import tempfile
import zipfile
import zlib

from command import FAST, INPUT, MODEL, ROOT, case, expect, expect_error, kiln, main

RUN = ["run", MODEL, *FAST, "--runs", "0"]
# 16 by 8 pixels, the left half black, the right half white.
HALF_JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAIBAQEBAQIBAQECAgICAgQDAgICAgUEBAMEBgUGBgYFBgYGBwkIBgcJBwYGCAsICQoKCgoKBggLDAsK"
    "DAkKCgr/2wBDAQICAgICAgUDAwUKBwYHCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgr/wAARCAAIABAD"
    "ASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAr/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFAEBAAAAAAAAAAAAAAAAAAAAAP/EABQRAQAA"
    "AAAAAAAAAAAAAAAAAAD/2gAMAwEAAhEDEQA/AJ/1/gA//9k=")


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def png(rows, channels=1):
    """Rows of bytes; 1 channel grey, 3 RGB."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    width = len(rows[0]) // channels
    head = struct.pack(">IIBBBBB", width, len(rows), 8, 0 if channels == 1 else 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def npy(shape, values, descr="<f4"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values)


def identity(folder, dims):
    """A model that gives back what it gets: what an input became is what it prints."""
    sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))
    import numpy as np
    import onnx_writer as onnx
    x = np.zeros(dims, np.float32)
    return write(folder, f"identity{len(dims)}_{dims[-1]}.onnx",
                 onnx.model(onnx.Graph([onnx.node("Identity", ["x"], ["y"])], {"x": x}, {"y": x}), 17))


def values_of(*arguments):
    run = kiln("run", *arguments, *FAST, "--runs", "0", "--json")
    expect(run, 0)
    return json.loads(run.stdout)["outputs"][0]["values"]


def near(got, wanted, apart=1e-5):
    assert len(got) == len(wanted), (len(got), len(wanted))
    worst = max(abs(a - b) for a, b in zip(got, wanted))
    assert worst <= apart, (worst, got[:12], wanted[:12])


@case
def archives_of_arrays():
    with open(INPUT, "rb") as file:
        data = file.read()
    plain = kiln(*RUN, "--input", INPUT).stdout.splitlines()[0]
    for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "inputs.npz")
            with zipfile.ZipFile(path, "w", how) as archive:
                archive.writestr("image.npy", data)
            for given in (path, f"image={path}"):
                run = kiln(*RUN, "--input", given)
                expect(run, 0, plain)
            with zipfile.ZipFile(path, "w", how) as archive:
                archive.writestr("picture.npy", data)
            expect_error(kiln(*RUN, "--input", path), 'no input "picture"; its inputs are image')
            with open(path, "rb") as file:
                whole = file.read()
            for cut in (10, len(whole) // 2, len(whole) - 4):
                expect_error(kiln(*RUN, "--input", write(folder, "cut.npz", whole[:cut])), "cut.npz")
            for at in range(0, len(whole), 7):  # damage of any byte is an error or does no harm
                spoiled = whole[:at] + bytes([whole[at] ^ 0x5a]) + whole[at + 1:]
                run = kiln(*RUN, "--input", write(folder, "bad.npz", spoiled))
                assert run.returncode in (0, 1), (at, run)


@case
def pictures_become_inputs():
    with tempfile.TemporaryDirectory() as folder:
        grey = identity(folder, (1, 1, 2, 2))
        path = write(folder, "grey.png", png([[0, 51], [102, 255]]))
        near(values_of(grey, "--input", path), [0, .2, .4, 1])
        near(values_of(grey, "--input", path, "--mean", "51", "--scale", "2"), [-25.5, 0, 25.5, 102])
        colours = identity(folder, (1, 3, 1, 2))
        path = write(folder, "rgb.png", png([[255, 0, 51, 0, 255, 102]], 3))
        near(values_of(colours, "--input", path), [1, 0, 0, 1, .2, .4])
        near(values_of(colours, "--input", path, "--bgr"), [.2, .4, 0, 1, 1, 0])
        near(values_of(colours, "--input", path, "--mean", "255,0,0", "--scale", "1,255,51"), [0, -255, 0, 1, 1, 2])
        last = identity(folder, (1, 1, 2, 3))
        near(values_of(last, "--input", path, "--layout", "nhwc"), [1, 0, .2, 0, 1, .4])
        small = identity(folder, (1, 1, 1, 2))
        wide = write(folder, "half.jpg", HALF_JPEG)
        near(values_of(small, "--input", wide), [0, 1], .2)
        square = identity(folder, (1, 1, 8, 8))
        middle = values_of(square, "--input", wide, "--resize", "crop")
        near(middle[:3] + middle[5:8], [0, 0, 0, 1, 1, 1], .02)
        padded = values_of(square, "--input", wide, "--resize", "pad")
        near(padded[:16] + padded[48:], [0] * 32)
        near(padded[16:19] + padded[21:24], [0, 0, 0, 1, 1, 1], .05)
        near(values_of(square, "--input", wide)[:3], [0, 0, 0], .02)


@case
def pictures_that_are_none():
    with tempfile.TemporaryDirectory() as folder:
        good = png([[0, 51], [102, 255]])
        for name, data in (("cut.png", good[:40]), ("empty.png", b""), ("text.jpg", b"no picture"),
                           ("cut.jpg", HALF_JPEG[:60])):
            expect_error(kiln(*RUN, "--input", write(folder, name, data)), name)
        expect_error(kiln(*RUN, "--input", "/nowhere.png"), "/nowhere.png")
        flat = identity(folder, (4,))
        expect_error(kiln("run", flat, *FAST, "--input", write(folder, "good.png", good)), "rank 1 holds no picture")
        five = identity(folder, (1, 5, 2, 2))
        expect_error(kiln("run", five, *FAST, "--input", os.path.join(folder, "good.png")), "5 channels", "--layout=nhwc")
    for wrong in (["--layout", "nwhc"], ["--resize", "zoom"], ["--mean", "a"], ["--scale", "1,"], ["--batch", "0"]):
        assert kiln(*RUN, "--random", *wrong).returncode == 2, wrong


@case
def numbers_are_invented():
    first = kiln(*RUN, "--random").stdout.splitlines()[0]
    assert first == kiln(*RUN, "--random").stdout.splitlines()[0]
    assert first != kiln(*RUN, "--random=7").stdout.splitlines()[0]
    expect_error(kiln(*RUN, "--random", "--shape", "1x1x9x9"), "axis 2", "always 8")
    expect_error(kiln(*RUN, "--random", "--shape", "image:1x1"), "write 4 lengths")
    assert kiln(*RUN, "--random=x").returncode == 2


@case
def classes_have_names():
    with tempfile.TemporaryDirectory() as folder:
        labels = write(folder, "labels.txt", "\n".join(f"digit {i}" for i in range(10)).encode())
        run = kiln(*RUN, "--input", INPUT, "--top", "3", "--labels", labels)
        expect(run, 0, "predicted class: 3 (digit 3)", "best 3 of log_probability:")
        lines = run.stdout.splitlines()
        at = lines.index("best 3 of log_probability:")
        rows = [line.split(None, 2) for line in lines[at + 1:at + 4]]
        assert rows[0][0] == "3" and rows[0][2] == "digit 3", rows
        scores = [float(row[1]) for row in rows]
        assert scores == sorted(scores, reverse=True), scores
        expect_error(kiln(*RUN, "--input", INPUT, "--labels", "/nowhere"), "/nowhere")


@case
def what_is_wrong_is_told_before_a_device_opens():
    """With a device that cannot be opened, its error would come first."""
    for wrong in (["--input", "/nowhere.npy"], ["--input", "/nowhere.png"], ["--input", INPUT, "--output", "/nowhere/x"],
                  ["--input", INPUT, "--expected", "/nowhere"], ["--input", INPUT, "--trace", "/nowhere/x"],
                  ["--input", INPUT, "--json=/nowhere/x"], ["--input", INPUT, "--labels", "/nowhere"]):
        run = kiln("run", MODEL, "--device", "opencl:99", *wrong)
        expect_error(run, "/nowhere")
    for wrong in (["explain", MODEL, "--html", "/nowhere/x"], ["explain", MODEL, "--json=/nowhere/x"],
                  ["tune", MODEL, "--json=/nowhere/x"], ["benchmark", MODEL, "--json=/nowhere/x"],
                  ["compare", MODEL, "--json=/nowhere/x"], ["bench", "elementwise", "--json=/nowhere/x"],
                  ["tune", "blas", "--export", "/nowhere/x"], ["tune", "blas", "--import", "/nowhere/x"],
                  ["bundle", "facts", "-o", "/nowhere/x"], ["bundle", MODEL, "--random", "-o", "/nowhere/x"],
                  ["bundle", "/nowhere.onnx", "-o", "x"], ["check-onnx", "/nowhere"],
                  ["check-onnx", ROOT, "--counts", "/nowhere"], ["check-onnx", ROOT, "--write-counts", "/nowhere/x"]):
        expect_error(kiln(*wrong, KILN_DEVICE="opencl:99"), "/nowhere")
    expect_error(kiln("bundle", MODEL, "--random", "-o", ROOT, KILN_DEVICE="opencl:99"), "is not empty")
    expect_error(kiln("ops", "--json=/nowhere/x"), "/nowhere/x")


@case
def several_devices_divide_a_model():
    """By their memory; the results are those of one. Other commands take one device."""
    two = ["--device", "reference:0", "--device", "reference:0", "--set"]
    whole = kiln("run", MODEL, "--input", INPUT, *FAST, "--json")
    divided = kiln("run", MODEL, "--input", INPUT, *two, "memory-budget=60000", "--runs", "4", "--json")
    expect(whole, 0)
    expect(divided, 0)
    whole, divided = json.loads(whole.stdout), json.loads(divided.stdout)
    near(divided["outputs"][0]["values"], whole["outputs"][0]["values"])
    first, second = divided["parts"]
    assert first["first_node"] == 0 and second["first_node"] == first["nodes"], divided["parts"]
    assert (first["values_moved"], second["values_moved"]) == (0, 1), divided["parts"]
    assert 10000 < first["constant_bytes"] < 60000 and len(whole["parts"]) == 1, divided["parts"]
    expect(kiln("run", MODEL, "--input", INPUT, *two, "memory-budget=60000"), 0, "part 1: reference:0, nodes 0 to ",
           "part 2: reference:0, nodes ")
    timed = kiln("benchmark", MODEL, *two, "memory-budget=60000", "--runs", "3", "--warmup", "0", "--json")
    expect(timed, 0)
    assert len(json.loads(timed.stdout)["parts"]) == 2, timed.stdout
    expect_error(kiln("run", MODEL, "--input", INPUT, *two, "memory-budget=1000"), "the model's constants have ",
                 "reference:0 may hold 1000 (0 MiB), reference:0 may hold 1000 (0 MiB): take devices with more memory")
    expect(kiln("explain", MODEL, *two, "tune=off"), 2, "run, benchmark and generate take several", stream="stderr")


@case
def json_everywhere():
    def told(*arguments, **environment):
        run = kiln(*arguments, "--json", **environment)
        expect(run, 0)
        return json.loads(run.stdout)
    ops = told("ops")
    assert len(ops) == len(kiln("ops").stdout.splitlines()) and {"name", "number", "inputs"} <= set(ops[0])
    assert told("ops", "conv")["name"] == "conv"
    assert {option["name"] for option in told("config")} >= {"device", "tune"}
    assert told("config", "--set", "tune=off") != told("config")
    with tempfile.TemporaryDirectory() as folder:
        assert {"programs", "folder", "bytes"} <= set(told("cache", "stat", KILN_CACHE_DIR=folder))
    assert "all_reduce" in {row["collective"] for row in told("coll", "list")}
    plugins = told("plugin", "list")
    assert len(plugins) == len(kiln("plugin", "list").stdout.splitlines())
    assert len(told("plugin", "list", "--why")) >= len(plugins)
    checked = told("check-onnx", "--verbose", "/usr/share/libonnx-testdata/data/node/test_abs", *FAST) \
        if os.path.isdir("/usr/share/libonnx-testdata/data/node/test_abs") else {"passed": 1, "cases": [{"verdict": "pass"}]}
    assert checked["passed"] == 1 and checked["cases"][0]["verdict"] == "pass", checked
    abi = told("plugin", "abi")
    assert len(abi["structs"]) + sum(len(s["fields"]) for s in abi["structs"]) + 1 == \
        len(kiln("plugin", "abi").stdout.splitlines())
    reference = told("devices", "reference")
    assert reference[0]["address"].startswith("reference") and "f32" in reference[0]["stores"]
    assert [d["address"] for d in told("devices")] == [line.split()[0] for line in kiln("devices").stdout.splitlines()
                                                       if not line.startswith(" ")]
    run = told("run", MODEL, "--input", INPUT, *FAST, "--runs", "2")
    assert run["top"][0][0]["class"] == 3 and run["runs"] == 2 and len(run["outputs"][0]["values"]) == 10, run
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.json")
        run = kiln("ops", f"--json={path}")
        expect(run, 0)
        assert run.stdout == ""
        with open(path, encoding="utf-8") as file:
            assert json.load(file) == ops
        path = write(folder, "a.replay", REPLAY)
        assert told("replay", path, "--compare", *FAST)["outputs"][0]["as_reference"] is True


REPLAY = b"""kiln replay 1
input %1: f32[4]
%2: f32[4] = relu(%1: f32[4])
drop(%1: f32[4])
output %2
end
"""


@case
def a_profile_says_how_near_the_peak_it_is():
    run = kiln("run", MODEL, "--input", INPUT, "--profile", "--json", KILN_DEVICE="opencl:0")
    expect(run, 0)
    rows = json.loads(run.stdout)["profile"]
    assert rows and abs(sum(row["share"] for row in rows) - 1) < 1e-6, rows
    assert any(row["of_peak"] for row in rows) and all(row["steps"] for row in rows), rows
    text = kiln("run", MODEL, "--input", INPUT, "--profile", KILN_DEVICE="opencl:0")
    expect(text, 0, " as measured in a product", "of peak", "GFLOP/s", "GB/s")


if __name__ == "__main__":
    sys.exit(main("run"))
