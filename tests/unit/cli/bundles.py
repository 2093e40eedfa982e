# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bundles: made of a model, compiled, and run under a layer that refuses to compile
(tests/support/no_compiler_layer.c), with the bits of `kiln run`. What is missing or damaged is named."""
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

KILN, ROOT, BUILD = sys.argv[1:4]
RUNNER = os.environ.get("KILN_TEST_RUNNER", KILN)  # the command below the layer: this one, or a minimal library's
sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))
import numpy as np  # noqa: E402
import onnx_writer as onnx  # noqa: E402

LAYER = os.path.join(BUILD, "tests/bin/no_compiler_layer.so")
DIGITS = os.path.join(ROOT, "examples/digits/digits.onnx")
THREE = ("--input", os.path.join(ROOT, "examples/digits/three.npy"))
FOLDER = tempfile.TemporaryDirectory()
CASES = []


def case(function):
    CASES.append(function)
    return function


def file_of(name):
    return os.path.join(FOLDER.name, name)


def kiln(*arguments, layer=None, code=0, cache="cache", **environment):
    """`layer`: None without one, else its words."""
    env = {**os.environ, "KILN_CACHE_DIR": "off" if cache is None else file_of(cache), **environment}
    if layer is not None:
        env.update(OPENCL_LAYERS=LAYER, KILN_TEST_LAYER=layer)
        if RUNNER != KILN and arguments[0] == "run":
            arguments = ("bundle", *arguments)
    run = subprocess.run([KILN if layer is None else RUNNER, *arguments], capture_output=True, text=True, check=False, timeout=300, env=env)
    assert run.returncode == code, f"{arguments}: rc {run.returncode}: {run.stdout[-400:]}{run.stderr[-400:]}"
    return run.stdout + run.stderr


def result(what, *arguments, **how):
    """What a model or a bundle gives, and what `kiln run` said of it."""
    path = file_of("result.npy")
    said = kiln("run", what, *arguments, "--runs", "1", "--output", path, **how)
    return np.load(path), said


def of_model(model, *arguments):
    """Planned as for a device without a compiler, so that the same kernels run."""
    return result(model, *arguments, "--tune", "off", "--set", "compiler=prepare")[0]


def same_bits(a, b):
    assert a.shape == b.shape and a.tobytes() == b.tobytes(), f"{a} is not {b}"


def bundle_of(name, model, *arguments, says="it gives the model's bits"):
    """`arguments` as for `kiln run`, in front of those of other sets of shapes."""
    folder = file_of(name)
    shutil.rmtree(folder, ignore_errors=True)
    said = kiln("bundle", model, "-o", folder, *arguments)
    assert "it gives the model's bits" in said and says in said, said
    return folder


def copy_of(folder):
    shutil.rmtree(file_of("copy"), ignore_errors=True)
    return shutil.copytree(folder, file_of("copy"))


def manifest_of(folder):
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def digits_bundle():
    """Made and compiled once for all cases."""
    folder = file_of("digits")
    if not os.path.exists(folder):
        bundle_of("digits", DIGITS, *THREE)
        kiln("bundle", "compile", folder)
    return folder


def facts_file():
    """Of this device, without its compiler. With it a check opens no device."""
    path = file_of("facts.json")
    if not os.path.exists(path):
        kiln("bundle", "facts", "-o", path, layer="")
    return path


def binaries_of(folder):
    return os.path.join(folder, "bin", os.listdir(os.path.join(folder, "bin"))[0])


# ---- models of our own ----

def write_model(name, nodes, inputs, weights, outputs):
    """Writes NAME.onnx and its inputs; gives the model and the arguments of `kiln run`."""
    path = file_of(name + ".onnx")
    with open(path, "wb") as file:
        file.write(onnx.model(onnx.Graph(nodes, inputs, outputs, weights), 17))
    arguments = []
    for key, value in inputs.items():
        np.save(file_of(f"{name}-{key}.npy"), value)
        arguments += ["--input", f"{key}={file_of(f'{name}-{key}.npy')}"]
    return path, arguments


def numbers(*shape, scale=0.3, seed=1):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def residual_model():
    """Two blocks with a shortcut, as residual networks have them."""
    weights, nodes, last = {}, [], "x"
    for i, (inner, stride) in enumerate(((8, 1), (16, 2))):
        outer = 8 if i == 0 else 16
        weights.update({f"w{i}": numbers(outer, 3 if i == 0 else 8, 3, 3), f"v{i}": numbers(outer, outer, 3, 3, seed=2),
                        f"s{i}": numbers(outer, 3 if i == 0 else 8, 1, 1, seed=3)})
        for norm in ("a", "b"):
            weights.update({f"{norm}{i}s": numbers(outer) + 1, f"{norm}{i}o": numbers(outer, seed=4),
                            f"{norm}{i}m": numbers(outer, seed=5), f"{norm}{i}v": np.abs(numbers(outer, seed=6)) + 1})

        def norm_of(of, name, number):
            return onnx.node("BatchNormalization", [of] + [f"{name}{number}{k}" for k in "somv"], [of + "n"])

        nodes += [onnx.node("Conv", [last, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1], strides=[stride, stride]),
                  norm_of(f"c{i}", "a", i), onnx.node("Relu", [f"c{i}n"], [f"r{i}"]),
                  onnx.node("Conv", [f"r{i}", f"v{i}"], [f"d{i}"], pads=[1, 1, 1, 1]), norm_of(f"d{i}", "b", i),
                  onnx.node("Conv", [last, f"s{i}"], [f"e{i}"], strides=[stride, stride]),
                  onnx.node("Add", [f"d{i}n", f"e{i}"], [f"f{i}"]), onnx.node("Relu", [f"f{i}"], [f"g{i}"])]
        last = f"g{i}"
    weights.update({"fc": numbers(16, 10), "bias": numbers(10, seed=7)})
    nodes += [onnx.node("GlobalAveragePool", [last], ["p"]), onnx.node("Flatten", ["p"], ["q"]),
              onnx.node("Gemm", ["q", "fc", "bias"], ["z"]), onnx.node("Softmax", ["z"], ["y"], axis=-1)]
    return write_model("residual", nodes, {"x": numbers(2, 3, 16, 16, scale=1)}, weights, {"y": numbers(2, 10)})


def transformer_model():
    """A block of attention and a perceptron behind layer norms."""
    width, heads, length = 32, 4, 12
    weights = {name: numbers(width, wide, seed=seed) for seed, (name, wide) in
               enumerate((("wq", width), ("wk", width), ("wv", width), ("wo", width), ("w1", 4 * width)))}
    weights.update({"w2": numbers(4 * width, width), "g": numbers(width) + 1, "b": numbers(width), "half": np.float32(0.5),
                    "one": np.float32(1), "root": np.float32(2 ** -0.5), "scale": np.float32((width // heads) ** -0.5),
                    "split": np.array([1, length, heads, width // heads]), "join": np.array([1, length, width])})
    nodes = [onnx.node("LayerNormalization", ["x", "g", "b"], ["n"], axis=-1)]
    for part, turn in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [onnx.node("MatMul", ["n", f"w{part}"], [f"{part}0"]), onnx.node("Reshape", [f"{part}0", "split"], [f"{part}1"]),
                  onnx.node("Transpose", [f"{part}1"], [part], perm=turn)]
    nodes += [onnx.node("MatMul", ["q", "k"], ["s0"]), onnx.node("Mul", ["s0", "scale"], ["s1"]),
              onnx.node("Softmax", ["s1"], ["s"], axis=-1), onnx.node("MatMul", ["s", "v"], ["o0"]),
              onnx.node("Transpose", ["o0"], ["o1"], perm=[0, 2, 1, 3]), onnx.node("Reshape", ["o1", "join"], ["o2"]),
              onnx.node("MatMul", ["o2", "wo"], ["o3"]), onnx.node("Add", ["x", "o3"], ["h"]),
              onnx.node("LayerNormalization", ["h", "g", "b"], ["m"], axis=-1), onnx.node("MatMul", ["m", "w1"], ["u"]),
              onnx.node("Mul", ["u", "root"], ["u1"]), onnx.node("Erf", ["u1"], ["u2"]), onnx.node("Add", ["u2", "one"], ["u3"]),
              onnx.node("Mul", ["u", "u3"], ["u4"]), onnx.node("Mul", ["u4", "half"], ["u5"]),
              onnx.node("MatMul", ["u5", "w2"], ["d"]), onnx.node("Add", ["h", "d"], ["y"])]
    return write_model("transformer", nodes, {"x": numbers(1, length, width, scale=1)}, weights, {"y": numbers(1, length, width)})


# ---- what runs ----

def runs_without_a_compiler(name, model, *arguments):
    folder = bundle_of(name, model, *arguments)
    expected = of_model(model, *arguments)
    here, said = result(folder, *arguments)
    same_bits(here, expected)
    assert "0 from binaries" in said, said
    kiln("bundle", "compile", folder)
    for layer in ("", "claims"):
        here, said = result(folder, *arguments, layer=layer, cache=None)
        same_bits(here, expected)
        assert ", 0 made from its sources" in said and "refuses" not in said, said
    assert "has all of it" in kiln("bundle", "check", folder, layer="", cache=None)
    for program in manifest_of(folder)["programs"]:
        with open(os.path.join(folder, program["source"]), encoding="utf-8") as file:
            assert "CLBlast" not in file.read()


@case
def digits_run_without_a_compiler():
    runs_without_a_compiler("digits", DIGITS, *THREE)
    runs_without_a_compiler("unfused", DIGITS, *THREE, "--no-fusion")


@case
def a_residual_network_runs_without_a_compiler():
    model, arguments = residual_model()
    runs_without_a_compiler("residual", model, *arguments)


@case
def a_transformer_block_runs_without_a_compiler():
    model, arguments = transformer_model()
    runs_without_a_compiler("transformer", model, *arguments)


def runs_merged(name, model, *arguments):
    folder = bundle_of(name, model, *arguments, "--merge")
    assert len(manifest_of(folder)["programs"]) == 1 and os.listdir(os.path.join(folder, "src")) == ["p000_merged.cl"]
    names = [kernel["name"] for kernel in manifest_of(folder)["programs"][0]["kernels"]]
    assert len(set(names)) == len(names) > 4, names
    kiln("bundle", "compile", folder)
    here, said = result(folder, *arguments, layer="", cache=None)
    same_bits(here, of_model(model, *arguments))
    assert "programs: 1, of them 1 from binaries" in said and "changes the program 0 times" in said, said


@case
def merged_into_one_program_they_give_the_same():
    runs_merged("merged1", DIGITS, *THREE)
    model, arguments = transformer_model()
    runs_merged("merged2", model, *arguments, "--no-fusion")  # Kiln's own kernels, with their definitions as options


def two_shapes_model(*sizes):
    """The model, and the arguments for each of its sets of shapes."""
    weights = {"w": numbers(64, 8)}
    path = file_of("two.onnx")
    graph = onnx.Graph([onnx.node("MatMul", ["x", "w"], ["t"]), onnx.node("Relu", ["t"], ["y"])],
                       {"x": np.float32}, {"y": np.float32}, weights)
    with open(path, "wb") as file:
        file.write(onnx.model(graph, 17))
    files = []
    for rows in sizes:
        np.save(file_of(f"rows{rows}.npy"), numbers(rows, 64))
        files.append(("--input", file_of(f"rows{rows}.npy")))
    return path, files


@case
def two_sets_of_shapes_share_programs_and_constants():
    path, files = two_shapes_model(3, 7)
    folder = file_of("two")
    said = kiln("bundle", path, *files[0], "-o", folder, "--next", *files[1])
    assert "2 sets of shapes" in said and "2.0 KiB of constants" in said, said
    kiln("bundle", "compile", folder)
    for arguments in files:
        same_bits(result(folder, *arguments, layer="", cache=None)[0], of_model(path, *arguments))
    np.save(file_of("rows5.npy"), numbers(5, 64))
    said = kiln("run", folder, "--input", file_of("rows5.npy"), code=1)
    assert "input x is f32 [5,64]; the bundle was made for f32 [3,64] and other sets of shapes" in said, said


@case
def outputs_that_nothing_computes():
    """An input and a constant among the outputs, an input that nobody reads, and an output twice."""
    x, y = numbers(3, 4), numbers(2)
    nodes = [onnx.node("Identity", ["x"], ["same"]), onnx.node("Identity", ["w"], ["fixed"]), onnx.node("Relu", ["x"], ["r"]),
             onnx.node("Identity", ["r"], ["again"]), onnx.node("Transpose", ["r"], ["turned"], perm=[1, 0])]
    model, arguments = write_model("odd", nodes, {"x": x, "unused": y}, {"w": numbers(5)},
                                   {"same": x, "fixed": numbers(5), "r": x, "again": x, "turned": x.T})
    folder = bundle_of("odd", model, *arguments)
    wanted = {"same": x, "fixed": numbers(5), "r": np.maximum(x, 0), "again": np.maximum(x, 0), "turned": np.maximum(x, 0).T}
    outputs = [part for name in wanted for part in ("--output", f"{name}={file_of(name + '.npy')}")]
    kiln("bundle", "run", folder, *arguments, *outputs)
    for name, value in wanted.items():
        same_bits(np.load(file_of(name + ".npy")), np.ascontiguousarray(value))


def is_one_work_item(folder):
    steps = [step for shapes in manifest_of(folder)["shapes"] for step in shapes["steps"] if "program" in step]
    return len(steps) > 0 and all(step["global"] == [1] and step["local"] == [1] for step in steps)


def single_bundle_of(name, model, *arguments):
    """One program of loops. `kiln bundle` has run it, on two inputs, and compared the bits with the model's."""
    folder = bundle_of(name, model, *arguments, "--single-work-item", "--merge", says="0 programs are no loops")
    program, = manifest_of(folder)["programs"]
    assert is_one_work_item(folder) and all("__task__p" in kernel["name"] for kernel in program["kernels"]), program
    return folder


@case
def single_work_item_forms_of_fused_programs():
    folder = single_bundle_of("single1", DIGITS, *THREE)
    kiln("bundle", "compile", folder)
    here, said = result(folder, *THREE, layer="", cache=None)
    same_bits(here, of_model(DIGITS, *THREE))
    assert "programs: 1, of them 1 from binaries" in said, said
    for model, arguments in (residual_model(), transformer_model()):
        single_bundle_of("single2", model, *arguments)


@case
def single_work_item_forms_of_kernels_of_our_own():
    model, arguments = transformer_model()
    single_bundle_of("single3", model, *arguments, "--no-fusion")


@case
def grids_that_differ_are_arguments_of_the_loop():
    path, files = two_shapes_model(3, 2000)
    folder = bundle_of("grids", path, *files[0], "--single-work-item", "--next", *files[1])
    program, = manifest_of(folder)["programs"]
    with open(os.path.join(folder, program["source"]), encoding="utf-8") as file:
        text = file.read()
    assert is_one_work_item(folder) and program["kernels"][0]["name"].endswith("__task"), program
    assert "x < kiln_nx" in text and "y < kiln_ny" in text and "z < kiln_nz" in text, text[-400:]


# ---- what no bundle has ----

@case
def what_a_fixed_list_cannot_say_is_refused_in_words():
    x = numbers(4, 4)
    nonzero, arguments = write_model("nonzero", [onnx.node("NonZero", ["x"], ["i"])], {"x": x}, {}, {"i": np.zeros((2, 1), np.int64)})
    said = kiln("bundle", nonzero, *arguments, "-o", file_of("none"), code=1)
    assert "reads values back while it runs" in said, said
    random, arguments = write_model("random", [onnx.node("RandomNormalLike", ["x"], ["n"]), onnx.node("Add", ["x", "n"], ["y"])],
                                    {"x": x}, {}, {"y": x})
    said = kiln("bundle", random, *arguments, "-o", file_of("none"), code=1)
    assert "differ in an argument" in said and "random numbers" in said, said
    assert not os.path.exists(file_of("none"))
    said = kiln("bundle", DIGITS, *THREE, "-o", digits_bundle(), code=1)
    assert "is not empty" in said, said
    said = kiln("bundle", DIGITS, *THREE, code=2)
    assert "-o FOLDER" in said, said
    said = kiln("bundle", DIGITS, *THREE, "-o", file_of("none"), layer="", code=1)
    assert "prepare where one is" in said, said


# ---- what is missing or damaged ----

@case
def a_flipped_byte_is_named_in_every_file():
    folder = digits_bundle()
    names = [os.path.relpath(os.path.join(place, name), folder) for place, _, files in os.walk(folder) for name in files]
    assert len(names) > 20, names
    facts = facts_file()
    for i, name in enumerate(names):
        for where in (0, 0.5, 1):
            copy = copy_of(folder)
            with open(os.path.join(copy, name), "r+b") as file:
                data = bytearray(file.read())
                data[int(where * (len(data) - 1))] ^= 1
                file.seek(0)
                file.write(data)
            said = kiln("bundle", "check", copy, "--facts", facts, code=1)
            assert f"{name} is damaged" in said, f"{name}: {said}"
        if i % 4 == 0 or not name.startswith(("src", "bin")):
            said = kiln("run", copy, *THREE, "--runs", "0", code=1)
            assert f"{name} is damaged" in said, f"{name}: {said}"


@case
def a_missing_file_is_named_with_its_kernel():
    folder = digits_bundle()
    manifest = manifest_of(folder)
    for program in manifest["programs"][:3]:
        stem = os.path.basename(program["source"])[:-len(".cl")]
        kernel = program["kernels"][0]["name"]
        copy = copy_of(folder)
        os.remove(os.path.join(copy, program["source"]))  # there is a binary
        result(copy, *THREE, layer="", cache=None)
        os.remove(os.path.join(binaries_of(copy), stem + ".bin"))
        for said in (kiln("run", copy, *THREE, code=1), kiln("run", copy, *THREE, layer="", cache=None, code=1)):
            assert kernel in said and program["source"] in said and "missing" in said, said
        said = kiln("bundle", "check", copy, code=1)
        assert f"kernel {kernel} of {program['source']}: no binary, and no source" in said, said
    for name in ("manifest.json", "constants.safetensors", "HASHES"):
        copy = copy_of(folder)
        os.remove(os.path.join(copy, name))
        said = kiln("bundle", "run", copy, *THREE, code=1)
        assert f"{name} is not there" in said, said


@case
def another_driver_or_device_is_named():
    folder = digits_bundle()
    copy = copy_of(folder)
    index = os.path.join(binaries_of(copy), "target.json")
    with open(index, encoding="utf-8") as file:
        target = json.load(file)
    binaries = [os.path.join(binaries_of(folder), entry["file"]) for entry in target["programs"]]
    for name, driver, words in ((target["device"], "9.9", "there is one for driver 9.9"),
                                ("a board", "", "there is one for a board")):
        shutil.rmtree(os.path.join(copy, "bin"))
        kiln("bundle", "add", copy, "--name", name, "--driver", driver, *binaries)
        said = kiln("run", copy, *THREE, layer="", cache=None, code=1)
        assert words in said and "kernel " in said and "src/p000" in said, said
        assert words in kiln("bundle", "check", copy, layer="", code=1)
        said = kiln("run", copy, *THREE, "--no-compile", code=1)
        assert words in said, said
        assert "0 from binaries" in result(copy, *THREE)[1]  # this device compiles
    kiln("bundle", "add", copy, "--name", target["device"], *binaries)  # whatever the driver
    same_bits(result(copy, *THREE, layer="", cache=None)[0], result(folder, *THREE)[0])
    said = kiln("bundle", "add", copy, "--name", "x", THREE[1], code=1)
    assert "has no source three.cl" in said, said


@case
def a_binary_that_the_driver_refuses_is_named():
    copy = copy_of(digits_bundle())
    with open(os.path.join(binaries_of(copy), "target.json"), encoding="utf-8") as file:
        target = json.load(file)
    broken = file_of(target["programs"][0]["file"])
    with open(broken, "wb") as file:
        file.write(b"no binary of PoCL")
    kiln("bundle", "add", copy, "--name", target["device"], "--driver", target["driver"], broken)
    said = kiln("run", copy, *THREE, layer="", cache=None, code=1)
    assert "the driver refuses bin/" in said and target["programs"][0]["file"] in said, said
    here, said = result(copy, *THREE)
    same_bits(here, result(digits_bundle(), *THREE)[0])
    assert "1 made from its sources" in said, said


class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def hash_of(text):
    library = ctypes.CDLL(os.path.join(BUILD, "lib/libkiln.so"))
    library.kiln_hash_bytes.restype, library.kiln_hash_bytes.argtypes = Hash, [ctypes.c_char_p, ctypes.c_size_t]
    made = library.kiln_hash_bytes(text.encode(), len(text.encode()))
    return f"{made.high:016x}{made.low:016x}"


def change_manifest(folder, change):
    """The manifest changed, and HASHES as Kiln would write it: hashes are no signature."""
    manifest, hashes = os.path.join(folder, "manifest.json"), os.path.join(folder, "HASHES")
    with open(manifest, encoding="utf-8") as file:
        text = change(file.read())
    with open(manifest, "w", encoding="utf-8") as file:
        file.write(text)
    with open(hashes, encoding="utf-8") as file:
        lines = file.read().splitlines(True)[:-1]
    listed = "".join(f"{hash_of(text)}  manifest.json\n" if line.endswith("  manifest.json\n") else line for line in lines)
    with open(hashes, "w", encoding="utf-8") as file:
        file.write(f"{listed}{hash_of(listed)}  -\n")


@case
def a_manifest_that_lies_is_refused():
    def number(member, value):
        return lambda text: re.sub(rf'"{member}": \d+', f'"{member}": {value}', text, count=1)

    changes = {number("buffer", 99): "buffer is too large", number("program", 99): "program is too large",
               number("bytes", 8): "does not fit its buffer", number("kiln_bundle", 2): "is of version 2",
               number("args", 2): "contradicts itself", number("offset", 999999999): "does not fit its buffer",
               number("constants_start", 99999999): "a constant is not in its file",
               lambda t: t.replace('"scratch"', '"other"', 1): "no known kind",
               lambda t: t.replace('"steps"', '"step"', 1): "steps is missing",
               lambda t: t.replace("{", "[", 2): "no JSON of a bundle", lambda t: t[:len(t) // 2]: "no JSON of a bundle",
               lambda t: t.replace('"source": "src', '"source": "../src', 1): "is no file of a bundle",
               lambda t: re.sub(r'"global": \[\d+', '"global": [0', t, count=1): "impossible sizes",
               lambda t: re.sub(r'"bytes": "[0-9a-f]+"', '"bytes": "x0"', t, count=1): "no hexadecimal number"}
    for change, words in changes.items():
        copy = copy_of(digits_bundle())
        change_manifest(copy, change)
        shutil.rmtree(os.path.join(copy, "bin"))
        run = ("run", copy, *THREE) if "not in its file" in words or "no file" in words else ("bundle", "check", copy, "--facts", facts_file())
        said = kiln(*run, code=1)
        assert words in said, f"{words}: {said}"
    copy = copy_of(digits_bundle())
    change_manifest(copy, lambda text: text)
    result(copy, *THREE)


@case
def the_example_runs():
    folder = file_of("example")
    run = subprocess.run(["sh", os.path.join(ROOT, "examples/fpga/build.sh"), folder], capture_output=True, text=True, check=False,
                         timeout=300, env={**os.environ, "KILN_CACHE_DIR": file_of("cache"), "KILN": KILN})
    assert run.returncode == 0 and "predicted class: 3" in run.stdout, run.stdout + run.stderr
    same_bits(result(folder, *THREE, layer="", cache=None)[0], of_model(DIGITS, *THREE))


@case
def the_makefile_has_a_rule_for_every_program():
    folder = digits_bundle()
    run = subprocess.run(["make", "-C", folder, "-n", "aoc", "vpp", "spirv"], capture_output=True, text=True, check=True, timeout=60)
    for program in manifest_of(folder)["programs"]:
        assert run.stdout.count(f" {program['source']} -o ") == 3, run.stdout
        for define in re.findall(r"-D\S+", program["options"]):
            assert run.stdout.count(define) >= 3, f"{define}: {run.stdout}"


@case
def facts_of_another_machine_tell_what_it_would_miss():
    folder, facts = digits_bundle(), facts_file()
    assert "has all of it" in kiln("bundle", "check", folder, "--facts", facts)
    with open(facts, encoding="utf-8") as file:
        read = json.load(file)
    assert read["compiler"] is False
    facts = file_of("board.json")
    with open(facts, "w", encoding="utf-8") as file:
        json.dump({**read, "name": "a board", "buffer_bytes": 100}, file)
    said = kiln("bundle", "check", folder, "--facts", facts, code=1)
    assert said.count("missing: kernel ") == len(manifest_of(folder)["programs"]), said
    assert re.search(r"missing: bytes of a buffer: wants \d+, the device has 100", said), said
    kiln("bundle", "compile", folder, layer="", cache=None, code=1)


@case
def results_are_json_too():
    folder = digits_bundle()
    told = json.loads(kiln("run", folder, *THREE, "--runs", "1", "--top", "2", "--json"))
    best = [one["class"] for one in told["top"][0]]
    assert best[0] == 3 and len(best) == 2 and len(told["outputs"][0]["values"]) == 10, told
    assert told["programs"]["from_sources"] == 0 and told["first_run_ns"] > 0 and told["runs"] == 1, told
    path = file_of("run.json")
    assert "log_probability: f32, 10 elements" in kiln("bundle", "run", folder, *THREE, "--runs", "0", f"--json={path}")
    with open(path, encoding="utf-8") as file:
        own = json.load(file)
    assert own["outputs"][0]["dims"] == [1, 10] and own["repeated_run_ns"] is None, own
    assert json.loads(kiln("bundle", "check", folder, "--json"))["missing"] == []
    facts = file_of("other.json")
    with open(facts_file(), encoding="utf-8") as file:
        read = json.load(file)
    with open(facts, "w", encoding="utf-8") as file:
        json.dump({**read, "name": "a board", "compiler": False}, file)
    told = json.loads(kiln("bundle", "check", folder, "--facts", facts, "--json", code=1))
    assert told["device"] == "a board" and len(told["missing"]) == len(manifest_of(folder)["programs"]), told


@case
def files_are_tried_before_a_device_opens():
    folder = digits_bundle()
    for wrong in (["--input", "/nowhere.npy"], [*THREE, "--output", "/nowhere/x.npy"]):
        for word in (["run"], ["bundle", "run"]):
            said = kiln(*word, folder, *wrong, code=1, KILN_DEVICE="opencl:99")
            assert "/nowhere" in said, said


def main():
    wanted, failed = sys.argv[4:], 0
    for function in CASES:
        if wanted and not any(w in function.__name__ for w in wanted):
            continue
        try:
            function()
            print(f"PASS bundles {function.__name__}")
        except Exception as problem:  # pylint: disable=broad-except
            failed += 1
            print(f"FAIL bundles {function.__name__}: {type(problem).__name__} {problem}")
            import traceback
            traceback.print_exc(file=sys.stdout)
    FOLDER.cleanup()
    sys.exit(1 if failed else 0)


main()
