# SPDX-License-Identifier: MIT OR Apache-2.0
"""Devices without a compiler: PoCL under a layer that refuses to compile (tests/support/no_compiler_layer.c). What runs
there was prepared by a process before, or came with the plugin as a binary; everything else declines and says why."""
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

KILN, ROOT, BUILD = sys.argv[1:4]
sys.path.insert(0, os.path.join(ROOT, "tests/onnx_cases"))
import numpy as np  # noqa: E402
import onnx_writer as onnx  # noqa: E402

LAYER = os.path.join(BUILD, "tests/bin/no_compiler_layer.so")
MAKE_BINARY = os.path.join(BUILD, "tests/bin/make_binary")
PLUGINS = os.path.join(BUILD, "lib/kiln/test_plugins")
DIGITS = os.path.join(ROOT, "examples/digits/digits.onnx")
THREE = ("--input", os.path.join(ROOT, "examples/digits/three.npy"))
NO_CONTEST = ("--tune", "off")  # what is measured may differ from run to run, and bits with it
EXACT = (*THREE, *NO_CONTEST)
FOLDER = tempfile.TemporaryDirectory()
CASES = []


def case(function):
    CASES.append(function)
    return function


def file_of(name):
    return os.path.join(FOLDER.name, name)


def kiln(cache, *arguments, layer=None, code=0, **environment):
    """`layer`: None without one, else its words; the cache is a folder of its own for each case."""
    env = {**os.environ, "KILN_CACHE_DIR": file_of(cache), **environment}
    if layer is not None:
        env.update(OPENCL_LAYERS=LAYER, KILN_TEST_LAYER=layer)
    run = subprocess.run([KILN, *arguments], capture_output=True, text=True, check=False, timeout=300, env=env)
    assert run.returncode == code, f"{arguments}: rc {run.returncode}: {run.stdout[-400:]}{run.stderr[-400:]}"
    return run.stdout + run.stderr


def result(cache, model, *arguments, **how):
    """What a model gives, and what `kiln run` said of it."""
    path = file_of("result.npy")
    said = kiln(cache, "run", model, *arguments, "--repeat", "1", "--output", path, **how)
    return np.load(path), said


def blocks_of(cache, model, *arguments, **how):
    path = file_of("explain.json")
    said = kiln(cache, "explain", model, *arguments, **how)
    kiln(cache, "explain", model, f"--json={path}", *arguments, **how)
    with open(path, encoding="utf-8") as file:
        return json.load(file)["blocks"], said


def kernels_of(cache, model, *arguments, **how):
    """Those of forms_fuser.c that a trace shows."""
    path = file_of("trace.json")
    kiln(cache, "run", model, *arguments, "--repeat", "1", "--trace", path, **how)
    with open(path, encoding="utf-8") as file:
        return set(re.findall(r"\badd_relu\w*", file.read()))


def same_bits(a, b):
    assert a.shape == b.shape and a.tobytes() == b.tobytes(), f"{a} is not {b}"


# ---- a model ----

@case
def nothing_runs_that_was_not_prepared():
    said = kiln("empty", "run", DIGITS, *THREE, layer="", code=1)
    assert "is stored" in said and "has no compiler" in said and "kiln cache prepare" in said, said
    said = kiln("empty", "run", DIGITS, *THREE, "--set", "compiler=off", code=1)
    assert "kiln cache prepare" in said, said
    said = kiln("empty", "cache", "prepare", DIGITS, layer="", code=1)
    assert "prepare where one is" in said, said
    said = kiln("empty", "run", DIGITS, *THREE, "--set", "compiler=maybe", code=1)
    assert "on, off, prepare and record" in said, said


@case
def digits_run_from_what_a_process_before_wrote():
    said = kiln("digits", "cache", "prepare", DIGITS)
    assert "starts         0 " in kiln("digits", "cache", "stat"), "others do not begin with these programs"
    assert not said.startswith("0 programs"), said
    shutil.copytree(file_of("digits"), file_of("prepared"))
    expected, _ = result("digits", DIGITS, *EXACT)
    fused, said = result("digits", DIGITS, *EXACT, "--set", "compiler=prepare")
    assert "in 0 fused blocks" not in said, said
    alone, _ = result("digits", DIGITS, *EXACT, "--no-fusion", "--set", "compiler=prepare")
    for layer, cache in (("", "digits"), ("", "prepared"), ("claims", "prepared"), ("claims", "prepared")):
        here, said = result(cache, DIGITS, *EXACT, layer=layer)
        same_bits(here, fused)
        assert "in 0 fused blocks" not in said and "BLAS calls 0" in said and "unfused" not in said, said
        assert ("refuses to compile" in said) == (layer == "claims"), said
        here, said = result(cache, DIGITS, *EXACT, "--no-fusion", layer=layer)
        same_bits(here, alone)
        assert "in 0 fused blocks" in said, said
    off, _ = result("digits", DIGITS, *EXACT, "--set", "compiler=off")
    same_bits(off, fused)
    for one in (fused, alone):
        assert np.abs(one - expected).max() <= 1e-4 * np.abs(expected).max()


def blas_model():
    """A product between others: too small for a fuser to want it, so that the library is asked."""
    a, b = np.linspace(-1, 1, 35, dtype=np.float32).reshape(5, 7), np.full((7, 3), 0.5, np.float32)
    model = file_of("product.onnx")
    with open(model, "wb") as file:
        file.write(onnx.model(onnx.Graph([onnx.node("MatMul", ["a", "b"], ["c"]), onnx.node("Relu", ["c"], ["y"])],
                                         {"a": a, "b": b}, {"y": a @ b}), 17))
    np.save(file_of("pa.npy"), a)
    np.save(file_of("pb.npy"), b)
    return model, ["--input", f"a={file_of('pa.npy')}", "--input", f"b={file_of('pb.npy')}"]


@case
def what_was_planned_for_a_compiler_is_planned_again():
    model, files = blas_model()
    for plan in (DIGITS, THREE), (model, files):
        shutil.rmtree(file_of("both"), ignore_errors=True)
        expected, _ = result("both", plan[0], *plan[1], *NO_CONTEST)  # plans, winners and binaries of a device that compiles
        kiln("both", "cache", "prepare", plan[0], *plan[1], *NO_CONTEST)
        fused, _ = result("both", plan[0], *plan[1], *NO_CONTEST, "--set", "compiler=prepare")
        for run in range(3):
            here, said = result("both", plan[0], *plan[1], *NO_CONTEST, layer="claims")
            assert "BLAS calls 0" in said and "unfused" not in said, said
            # Whoever needs no compiler does not learn that there is none; who did, plans as one without.
            if "refuses to compile" in said:
                same_bits(here, fused)
            else:
                same_bits(here, expected)
                assert run == 0 or "refuses" not in said, said
        again, _ = result("both", plan[0], *plan[1], *NO_CONTEST)  # the note of the refusal does not bind who compiles
        same_bits(again, expected)


@case
def a_plan_made_without_a_binary_is_searched_again():
    kiln("again", "cache", "prepare", DIGITS, "--no-fusion")
    blocks, said = blocks_of("again", DIGITS, layer="")
    assert not blocks and "no binary of kiln_elementwise is stored" in " ".join(said.split()), said
    kiln("again", "cache", "prepare", DIGITS)
    blocks, _ = blocks_of("again", DIGITS, layer="")
    assert blocks, "nothing fused after all was prepared"


@case
def a_damaged_binary_is_no_binary():
    kiln("damaged", "cache", "prepare", DIGITS)
    database = next(n for n in os.listdir(file_of("damaged")) if n.endswith((".db", ".sqlite")))
    store = sqlite3.connect(os.path.join(file_of("damaged"), database))
    changed = store.execute("UPDATE entry SET value = zeroblob(length(value))").rowcount
    store.commit()
    store.close()
    assert changed > 5, changed
    kiln("damaged", "run", DIGITS, *THREE, layer="", code=1)


# ---- forms of a fuser's program ----

def add_relu():
    a = np.linspace(-3, 3, 4096, dtype=np.float32).reshape(64, 64)
    b = np.full((64, 64), 0.25, np.float32)
    b[0, 0], b[0, 1], b[0, 2] = np.nan, np.inf, -np.inf
    model, files = file_of("add_relu.onnx"), []
    with open(model, "wb") as file:
        file.write(onnx.model(onnx.Graph([onnx.node("Add", ["a", "b"], ["s"]), onnx.node("Relu", ["s"], ["y"])],
                                         {"a": a, "b": b}, {"y": a}), 17))
    for name, value in (("a", a), ("b", b)):
        np.save(file_of(name + ".npy"), value)
        files += ["--input", f"{name}={file_of(name + '.npy')}"]
    total = a + b
    return model, files, np.where(total < 0, np.float32(0), total)


def form(name):
    return ("--plugin", os.path.join(PLUGINS, f"forms_{name}.so"), "--set", f"plugins=test.forms-{name}")


def own_binary():
    """What an offline compiler gives for the plugin's kernels: the text is that of forms_fuser.c."""
    with open(os.path.join(ROOT, "tests/plugins/forms_fuser.c"), encoding="utf-8") as file:
        lines = file.read().split("// BEGIN\n")[1].split("// END")[0].splitlines()
    quoted = [line.strip().rstrip(";") for line in lines if line.strip().startswith('"')]
    with open(file_of("forms.cl"), "w", encoding="utf-8") as file:
        file.write("#pragma OPENCL FP_CONTRACT OFF\n" + "".join(json.loads(text) for text in quoted))
    run = subprocess.run([MAKE_BINARY, file_of("forms.cl"), file_of("forms.bin")], capture_output=True, text=True,
                         check=False, timeout=120)
    assert run.returncode == 0 and os.path.getsize(file_of("forms.bin")) > 100, run.stderr
    return {"FORMS_BINARY": file_of("forms.bin"), "FORMS_DEVICE": run.stdout.splitlines()[0]}


def check_fused(cache, name, layer, source_format, environment=None):
    model, files, expected = add_relu()
    environment = environment or {}
    blocks, said = blocks_of(cache, model, *files, *form(name), layer=layer, **environment)
    assert len(blocks) == 1 and blocks[0]["fuser"] == f"test.forms-{name}/forms", said
    assert [s["format"] for s in blocks[0]["sources"]] == [source_format], blocks[0]["sources"]
    value, said = result(cache, model, *files, *form(name), layer=layer, **environment)
    np.testing.assert_array_equal(value, expected)
    assert "2 in 1 fused block\n" in said and "unfused" not in said, said


def check_alone(cache, name, layer, reason, environment=None):
    model, files, expected = add_relu()
    environment = environment or {}
    blocks, said = blocks_of(cache, model, *files, *form(name), layer=layer, **environment)
    assert not blocks and reason in " ".join(said.split()), said
    value, said = result(cache, model, *files, *form(name), layer=layer, **environment)
    np.testing.assert_array_equal(value, expected)
    assert "in 0 fused blocks" in said, said


@case
def a_binary_beside_the_source_runs_without_a_compiler():
    check_fused("binary", "binary", None, "OpenCL C", own_binary())
    shutil.rmtree(file_of("binary"))
    check_fused("binary", "binary", "", "binary", own_binary())


@case
def a_source_with_binaries_only_runs_where_they_fit():
    model, files, _ = add_relu()
    for cache in ("only", "other"):  # a plan of the one would hold the plugin's binary
        kiln(cache, "cache", "prepare", model, *files, "--no-fusion")
    check_fused("only", "only_binary", "", "binary", own_binary())
    check_fused("only", "only_binary", None, "binary", own_binary())
    reason = "source 0 has binaries only, and none for device"
    other = {**own_binary(), "FORMS_DEVICE": "another"}
    check_alone("other", "only_binary", "", reason, other)
    check_alone("other", "only_binary", None, reason, other)
    for _ in range(4):  # declining is no strike
        said = kiln("other", "explain", model, *files, *form("only_binary"), layer="", **other)
    assert reason in " ".join(said.split()), said


@case
def a_source_alone_declines_until_it_was_prepared():
    model, files, _ = add_relu()
    kiln("source", "cache", "prepare", model, *files, "--no-fusion")
    check_alone("source", "source", "", "no binary of add_relu is stored")
    kiln("source", "cache", "prepare", model, *files, *form("source"))
    check_fused("source", "source", "", "OpenCL C")


@case
def a_single_work_item_runs_where_the_device_wants_it():
    model, files, _ = add_relu()
    check_fused("single", "single", None, "OpenCL C")
    check_fused("single", "single", "compiles,accelerator", "OpenCL C")
    assert kernels_of("single", model, *files, *form("single")) == {"add_relu"}
    names = kernels_of("single", model, *files, *form("single"), layer="compiles,accelerator")
    assert names == {"add_relu_task"}, names
    kiln("single", "cache", "prepare", model, *files, *form("single"), layer="compiles,accelerator")
    check_fused("single", "single", "accelerator", "OpenCL C")
    names = kernels_of("single", model, *files, *form("single"), layer="accelerator")
    assert names == {"add_relu_task"}, names


@case
def options_and_subgroups_follow_the_facts_of_the_device():
    """A vendor's options reach the compiler and are told; a kernel asks for a subgroup's size where it may."""
    model, files, _ = add_relu()
    words = [*files, *form("options")]
    for layer, cache in ((None, "options"), ("compiles,subgroups", "asks")):
        check_fused(cache, "options", layer, "OpenCL C")
        source = blocks_of(cache, model, *words, layer=layer)[0][0]["sources"][0]
        assert source["options"] == "-cl-opt-disable", source
        assert source["defines"] == (["SUBGROUP=16"] if layer else []), source
        said = kiln(cache, "plugin", "dump", model, "--no-source", *form("options"), layer=layer)
        assert " -cl-opt-disable" in said and (" -DSUBGROUP=16 " in said) == bool(layer), said
        facts = kiln(cache, "bundle", "facts", layer=layer)
        assert f'"subgroup_sizes": {8 | 16 | 32 if layer else 0}' in facts, facts
        assert f'"subgroup_size": {32 if layer else 0}' in facts, facts
    kiln("kept", "cache", "prepare", model, *words)
    check_fused("kept", "options", "", "OpenCL C")  # found under the same options


def main():
    wanted, failed = sys.argv[4:], 0
    for function in CASES:
        if wanted and not any(w in function.__name__ for w in wanted):
            continue
        try:
            function()
            print(f"PASS no_compiler {function.__name__}")
        except Exception as problem:  # pylint: disable=broad-except
            failed += 1
            print(f"FAIL no_compiler {function.__name__}: {type(problem).__name__} {problem}")
            import traceback
            traceback.print_exc(file=sys.stdout)
    FOLDER.cleanup()
    sys.exit(1 if failed else 0)


main()
