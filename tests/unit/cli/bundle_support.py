# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests of bundles share: the command, models of their own, and the checks of a bundle that runs under the layer
that refuses to compile (tests/support/no_compiler_layer.c)."""
import ctypes
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

KILN, ROOT, BUILD = sys.argv[1:4]
RUNNER = os.environ.get("KILN_TEST_RUNNER", KILN)  # the command below the layer: this one, or a minimal library's
sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))
import numpy as np  # noqa: E402
import onnx_writer as onnx  # noqa: E402

LAYER = os.path.join(BUILD, "tests/bin/no_compiler_layer.so")
DIGITS = os.path.join(ROOT, "examples/digits/digits.onnx")
THREE = ("--input", os.path.join(ROOT, "examples/digits/three.npy"))
LONG = os.environ.get("KILN_TEST_LONG", "") not in ("", "0")
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
    run = subprocess.run([KILN if layer is None else RUNNER, *arguments], capture_output=True, text=True, check=False, timeout=900, env=env)
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


def chain_model():
    """Convolutions that are short: a processor computes several in one launch."""
    weights, nodes = {}, []
    for i in range(8):
        weights.update({f"w{i}": numbers(32, 32, 1, 1, seed=i), f"b{i}": numbers(32, seed=i + 8)})
        nodes += [onnx.node("Conv", [f"x{i}" if i > 0 else "x", f"w{i}", f"b{i}"], [f"c{i}"]),
                  onnx.node("Relu", [f"c{i}"], [f"x{i + 1}"])]
    return write_model("chain", nodes, {"x": numbers(1, 32, 16, 16)}, weights, {"x8": numbers(1, 32, 16, 16)})


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


def is_one_work_item(folder):
    steps = [step for shapes in manifest_of(folder)["shapes"] for step in shapes["steps"] if "program" in step]
    return len(steps) > 0 and all(step["global"] == [1] and step["local"] == [1] for step in steps)


def single_bundle_of(name, model, *arguments):
    """One program of loops. `kiln bundle` has run it, on two inputs, and compared the bits with the model's."""
    folder = bundle_of(name, model, *arguments, "--single-work-item", "--merge", says="0 programs are no loops")
    program, = manifest_of(folder)["programs"]
    assert is_one_work_item(folder) and all("__task__p" in kernel["name"] for kernel in program["kernels"]), program
    has_names_of_its_own(folder)
    return folder


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


def runs_merged(name, model, *arguments):
    folder = bundle_of(name, model, *arguments, "--merge")
    assert len(manifest_of(folder)["programs"]) == 1 and os.listdir(os.path.join(folder, "src")) == ["p000_merged.cl"]
    names = [kernel["name"] for kernel in manifest_of(folder)["programs"][0]["kernels"]]
    assert len(set(names)) == len(names) > 4, names
    has_names_of_its_own(folder)
    kiln("bundle", "compile", folder)
    here, said = result(folder, *arguments, layer="", cache=None)
    same_bits(here, of_model(model, *arguments))
    assert "programs: 1, of them 1 from binaries" in said and "changes the program 0 times" in said, said


def without_attributes(text):
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)", " ", text)


def typedefs_of(text):
    """Names of the types that a text without directives and comments declares outside of braces."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/|^\s*#(?:[^\n\\]|\\.|\\\n)*", " ", text, flags=re.M | re.S)
    text, last = without_attributes(text), None
    while text != last:
        text, last = re.sub(r"\{[^{}]*\}", " ", text), text
    return [name for names in re.findall(r"\btypedef\b([^;]*);", text) for name in re.findall(r"(\w+)\s*(?:,|$)", names.strip())]


def has_names_of_its_own(folder):
    """Each part of a merged program names its types anew."""
    path, = [os.path.join(folder, program["source"]) for program in manifest_of(folder)["programs"]]
    with open(path, encoding="utf-8") as file:
        parts = file.read().split("\n// ---- src/")
    names = 0
    for part in parts:
        for name in typedefs_of(part):
            names += 1
            assert re.search(rf"(?m)^#define {name} {name}__p\d+$", part), f"{name} is of all parts of {path}: {part[:200]}"
    return names


def says_nothing_while_it_compiles(folder, *arguments):
    """Neither Kiln nor the driver's compiler, where no cache has what they would compile."""
    copy, cache = copy_of(folder), file_of("empty_pocl_cache")
    shutil.rmtree(os.path.join(copy, "bin"), ignore_errors=True)
    for command in (("run", copy, *arguments, "--runs", "0"), ("compile", copy)):
        shutil.rmtree(cache, ignore_errors=True)
        os.makedirs(cache)
        said = kiln("bundle", *command, cache=None, POCL_CACHE_DIR=cache)
        assert "warning" not in said and "error" not in said, said


def turns_of(folder, model, arguments, count=9):
    """From the start of a process to its end, one run each, in turns: of the bundle under the layer, by the medians, in
    times of the model. Each has run before."""
    turns = {"bundle": lambda: kiln("run", folder, *arguments, "--runs", "0", layer="", cache=None),
             "model": lambda: kiln("run", model, *arguments, "--runs", "0")}
    times = {"bundle": [], "model": []}
    for number in range(count + 1):
        for what, run in turns.items():
            start = time.monotonic()
            run()
            if number > 0:
                times[what].append(time.monotonic() - start)
    return statistics.median(times["bundle"]) / statistics.median(times["model"])


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


def main(suite):
    wanted, failed = sys.argv[4:], 0
    for function in CASES:
        if wanted and not any(w in function.__name__ for w in wanted):
            continue
        try:
            function()
            print(f"PASS {suite} {function.__name__}")
        except Exception as problem:  # pylint: disable=broad-except
            failed += 1
            print(f"FAIL {suite} {function.__name__}: {type(problem).__name__} {problem}")
            import traceback
            traceback.print_exc(file=sys.stdout)
    FOLDER.cleanup()
    sys.exit(1 if failed else 0)
