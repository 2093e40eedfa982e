# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bundles for devices that are not here: planned by facts from a file, watched by oclgrind as loops in a single
work-item, and ResNet-50, which takes minutes: with KILN_TEST_LONG=1 only."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bundle_support import *  # noqa: E402,F403


# ---- planned by facts ----

def facts_here():
    path = file_of("here.json")
    if not os.path.exists(path):
        kiln("bundle", "facts", "-o", path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def facts_of(name, **changes):
    """This device's, changed to be another's."""
    path = file_of(name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**facts_here(), "name": "board " + name, "driver": "1.0", **changes}, file)
    return path


SMALL = {"type": "gpu", "work_group": 64, "work_items_x": 64, "local_bytes": 4096, "fp16": False, "fp64": False, "images": False,
         "vector_bytes": 16}


def rows_model(dtype=np.float32):
    """A row operation behind a chain: kernels that would take groups and local memory where there are any."""
    x = numbers(48, 700).astype(dtype)
    nodes = [onnx.node("Mul", ["x", "x"], ["t"]), onnx.node("Relu", ["t"], ["u"]), onnx.node("Softmax", ["u"], ["y"], axis=-1)]
    return write_model(f"rows-{np.dtype(dtype).name}", nodes, {"x": x}, {}, {"y": x})


def texts_of(folder):
    texts = {}
    for program in manifest_of(folder)["programs"]:
        with open(os.path.join(folder, program["source"]), encoding="utf-8") as file:
            texts[program["source"]] = (file.read(), program["options"])
    return texts


def launches_of(folder):
    return [step for shapes in manifest_of(folder)["shapes"] for step in shapes["steps"] if "program" in step]


def group_of(step):
    return int(np.prod(step["local"])) if step["local"] else 1


def compiles_without(folder, *extensions):
    """By clang, for a device without extensions that this one has."""
    if shutil.which("clang-14") is None:
        print("SKIP bundle_boards: clang-14 is not installed, so no text was compiled without extensions")
        return
    for source, (_, options) in texts_of(folder).items():
        run = subprocess.run(["clang-14", "-fsyntax-only", "-x", "cl", "-target", "spir64", "-Xclang", "-finclude-default-header",
                              "-cl-std=CL1.2", "-Xclang", "-cl-ext=" + ",".join("-" + name for name in extensions),
                              *[word for word in options.split() if word.startswith("-D")], os.path.join(folder, source)],
                             capture_output=True, text=True, check=False, timeout=300)
        assert run.returncode == 0, f"{source}: {run.stderr[-800:]}"


@case
def a_plan_is_made_for_the_device_of_the_facts():
    model, arguments = rows_model()
    here = bundle_of("of_here", model, *arguments)
    small = bundle_of("of_small", model, *arguments, "--device-facts", facts_of("small", **SMALL))
    large = bundle_of("of_large", model, *arguments, "--device-facts",
                      facts_of("large", type="gpu", work_group=256, local_bytes=32768, fp64=False, compute_units=40, vector_bytes=16))
    assert all(group_of(step) == 1 for step in launches_of(here)), "a processor's kernels have groups of one"
    assert any(1 < group_of(step) <= 256 for step in launches_of(large)), "no kernel of a GPU's"
    assert all(group_of(step) <= 64 for step in launches_of(small)), launches_of(small)
    for folder, facts in ((small, SMALL), (large, {"work_group": 256, "local_bytes": 32768})):
        wants = manifest_of(folder)["wants"]
        assert wants["work_group"] <= facts["work_group"] and wants["local_bytes"] <= facts["local_bytes"], wants
        compiles_without(folder, "cl_khr_fp64", "cl_khr_fp16", "__opencl_c_fp64", "__opencl_c_images")
    assert 0 < manifest_of(large)["wants"]["local_bytes"], "the large device's kernels use local memory"
    for name, folder in (("small", small), ("large", large)):
        assert f"board {name} has all of it" in kiln("bundle", "check", folder, "--facts", file_of(name + ".json"))
    said = kiln("bundle", "check", large, "--facts", file_of("small.json"), code=1)
    assert re.search(r"missing: work-items of a group: wants \d+, the device has 64", said), said
    result(large, *arguments)


@case
def vectors_are_as_wide_as_the_facts_say():
    model, arguments = rows_model()
    wide = texts_of(bundle_of("wide", model, *arguments, "--device-facts", facts_of("wide", vector_bytes=64)))
    narrow = texts_of(bundle_of("narrow", model, *arguments, "--device-facts", facts_of("narrow", vector_bytes=16)))
    assert set(wide.values()) != set(narrow.values()), "vectors of 16 and of 64 bytes gave the same programs"


@case
def a_bundle_for_an_fpga_is_one_program_of_loops():
    model, arguments = rows_model()
    board = facts_of("fpga", type="accelerator", single_work_item=True, vector_bytes=16)
    folder = bundle_of("fpga", model, *arguments, "--device-facts", board, says="0 programs are no loops")
    assert len(manifest_of(folder)["programs"]) == 1 and is_one_work_item(folder)
    folder = bundle_of("fpga_apart", model, *arguments, "--device-facts", board, "--merge=no", "--single-work-item=no")
    assert not is_one_work_item(folder) and "merged" not in manifest_of(folder)["programs"][0]["source"]
    said = kiln("bundle", model, *arguments, "--merge=maybe", "-o", file_of("none"), code=2)
    assert "--merge=maybe is neither yes nor no" in said, said


@case
def what_the_device_of_the_facts_lacks_is_refused():
    model, arguments = rows_model(np.float64)
    said = kiln("bundle", model, *arguments, "-o", file_of("f64"), "--device-facts", facts_of("small", **SMALL), code=1)
    assert "board small has no double precision" in said, said
    assert not os.path.exists(file_of("f64"))
    kiln("run", model, *arguments, "--runs", "0")  # this device has it
    said = kiln("bundle", model, *arguments, "-o", file_of("f64"), "--device", "reference", "--device-facts", facts_of("small", **SMALL),
                code=1)
    assert "plans for no other device" in said, said


@case
def what_the_programs_use_is_wanted():
    """Of f64 and f32: only the programs of the first use f64, and a device without it misses that."""
    model, arguments = rows_model(np.float64)
    folder = bundle_of("uses_f64", model, *arguments)
    assert manifest_of(folder)["wants"]["features"] == ["fp64"], manifest_of(folder)["wants"]
    without = facts_of("without_f64", fp64=False)
    said = kiln("bundle", "check", folder, "--facts", without, code=1)
    assert "missing: fp64: the programs use f64, which the device has not" in said and said.count("missing") == 1, said
    assert "has all of it" in kiln("bundle", "check", folder, "--facts", facts_of("with_f64"))
    assert "has all of it" in kiln("bundle", "check", folder)
    plain, arguments_of_plain = rows_model()
    assert manifest_of(bundle_of("uses_f32", plain, *arguments_of_plain))["wants"]["features"] == []
    assert "has all of it" in kiln("bundle", "check", file_of("uses_f32"), "--facts", without)

    change_manifest(folder, lambda text: text.replace('"features": ["fp64"]', '"features": ["fp64", "images", "wgmma"]'))
    said = kiln("bundle", "check", folder, "--facts", facts_of("without_all", fp64=False, images=False), code=1)
    assert all(f"missing: {name}: " in said for name in ("fp64", "images", "wgmma")), said
    if not facts_here()["wgmma"]:  # the opened device lacks it: its compiler is not asked
        assert "missing: wgmma" in kiln("bundle", "check", folder, code=1)
        said = kiln("bundle", "run", folder, *arguments, code=1)
        assert "lacks tensor cores of sm_90a: the bundle wants wgmma" in said and "src/p000" in said, said
    change_manifest(folder, lambda text: text.replace('"wgmma"', '"teleport"'))
    assert "it wants a feature of no known name" in kiln("bundle", "check", folder, code=1)
    change_manifest(folder, lambda text: re.sub(r', "features": \[[^\]]*\]', "", text))
    assert "features" not in manifest_of(folder)["wants"]
    assert "has all of it" in kiln("bundle", "check", folder, "--facts", without)  # an older bundle tells nothing
    same_bits(result(folder, *arguments)[0], of_model(model, *arguments))


@case
def malformed_facts_are_refused_in_words():
    model, arguments = rows_model()
    good = facts_here()
    changes = {"vector_bytes is missing": {"vector_bytes": None}, "vector_bytes is less than 16": {"vector_bytes": 8},
               "no power of two": {"vector_bytes": 48}, "vector_bytes is too large": {"vector_bytes": 512},
               "type is none of cpu, gpu and accelerator": {"type": "toaster"}, "fp64 is missing or of another kind": {"fp64": 1},
               "work_group is less than 1": {"work_group": 0}, "facts of version 1": {"kiln_facts": 1},
               "local_bytes is missing or of another kind": {"local_bytes": "all"}, "name is missing": {"name": None},
               "no JSON of a bundle": {"bytes_per_s": 1.5}, "buffer_bytes is too large": {"buffer_bytes": 2 ** 62}}
    path = file_of("wrong.json")
    for words, change in changes.items():
        with open(path, "w", encoding="utf-8") as file:
            json.dump({name: value for name, value in {**good, **change}.items() if value is not None}, file)
        said = kiln("bundle", model, *arguments, "-o", file_of("none"), "--device-facts", path, code=1)
        assert words in said and path in said, f"{words}: {said}"
    for text, words in (("", "no JSON of a bundle"), ("{", "no JSON of a bundle"), ("[]", "kiln_facts is missing")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        said = kiln("bundle", model, *arguments, "-o", file_of("none"), "--device-facts", path, code=1)
        assert words in said and path in said, said
    said = kiln("bundle", model, *arguments, "-o", file_of("none"), "--device-facts", file_of("nowhere.json"), code=1)
    assert "nowhere.json" in said, said
    assert not os.path.exists(file_of("none"))

# ---- loops in a single work-item, watched ----

def watched(folder, arguments, output, *watch):
    """What oclgrind wrote of a run of a bundle, which it compiles itself. A device that prepares measures no speeds: that
    would copy memory that nobody wrote."""
    log = file_of("oclgrind.log")
    if os.path.exists(log):
        os.remove(log)
    run = subprocess.run(["oclgrind", "--log", log, "--max-errors", "20", *watch, RUNNER, "bundle", "run", folder, *arguments, "--runs", "0",
                          "--set", "compiler=prepare", "--output", output], capture_output=True, text=True, check=False, timeout=1500,
                         env={**os.environ, "KILN_CACHE_DIR": "off", "KILN_TEST_OCLGRIND": "1"})
    assert run.returncode == 0, run.stdout[-400:] + run.stderr[-400:]
    assert "Oclgrind" in run.stdout, f"another device ran it: {run.stdout}"
    text = ""
    if os.path.exists(log):
        with open(log, encoding="utf-8", errors="replace") as file:
            text = file.read().strip()
    return text


def runs_watched(name, model, *arguments, make=()):
    """Accesses and races at full speed; values that nobody wrote without optimisation, behind which oclgrind does not see.
    Planned for narrow vectors: of floats in sixteens it takes what was written for never written."""
    board = facts_of("narrow", type="accelerator", vector_bytes=16, single_work_item=True)
    folder = single_bundle_of(name, model, *arguments, *make, "--device-facts", board)
    expected = of_model(model, *arguments, *make)
    for watch in (["--data-races"], ["--uninitialized", "--build-options", "-cl-opt-disable"]):
        said = watched(folder, arguments, file_of("watched.npy"), *watch)
        assert said == "", f"{name} {watch}: {said[:2000]}"
        found = np.load(file_of("watched.npy"))
        assert np.allclose(found, expected, rtol=1e-4, atol=1e-5), f"{name}: {found} is not {expected}"


def small_network():
    """A convolution with what follows it, a pool and a product: a few thousand multiplications, for oclgrind interprets."""
    weights = {"w": numbers(4, 2, 3, 3), "b": numbers(4), "fc": numbers(4 * 9, 5)}
    nodes = [onnx.node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), onnx.node("Relu", ["c"], ["r"]),
             onnx.node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), onnx.node("Flatten", ["p"], ["f"]),
             onnx.node("MatMul", ["f", "fc"], ["z"]), onnx.node("Softmax", ["z"], ["y"], axis=-1)]
    return write_model("network", nodes, {"x": numbers(1, 2, 6, 6, scale=1)}, weights, {"y": numbers(1, 5)})


@case
def loops_in_a_single_work_item_touch_only_what_is_theirs():
    if shutil.which("oclgrind") is None:
        print("SKIP bundle_boards: oclgrind is not installed, so no bundle was watched")
        return
    if "ASAN_OPTIONS" in os.environ:
        print("SKIP bundle_boards: oclgrind and AddressSanitizer do not go into one process, so no bundle was watched")
        return
    model, arguments = small_network()
    runs_watched("watched", model, *arguments)
    if LONG:
        runs_watched("watched_unfused", model, *arguments, make=("--no-fusion",))
        model, arguments = residual_model()
        runs_watched("watched_residual", model, *arguments)
        model, arguments = transformer_model()
        runs_watched("watched_transformer", model, *arguments)
        runs_watched("watched_unfused_transformer", model, *arguments, make=("--no-fusion",))
        runs_watched("watched_digits", DIGITS, *THREE)


@case
def oclgrind_sees_what_is_wrong():
    """The watch itself: a bundle whose kernel reads behind its buffer does not pass."""
    if shutil.which("oclgrind") is None:
        return
    model, arguments = small_network()
    folder = bundle_of("wrong", model, *arguments, "--single-work-item", "--merge")
    shown = {value["buffer"] for shapes in manifest_of(folder)["shapes"] for value in shapes["inputs"] + shapes["outputs"]}

    def shorten(text):
        manifest = json.loads(text)
        for buffers in (shapes["buffers"] for shapes in manifest["shapes"]):
            for number, buffer in enumerate(buffers):
                buffer["bytes"] //= 4 if buffer["kind"] == "scratch" and number not in shown else 1
        return json.dumps(manifest)

    change_manifest(folder, shorten)
    assert "Invalid" in watched(folder, arguments, file_of("watched.npy"), "--data-races")


# ---- memory banks ----

def banks_asked(folder, arguments, platform):
    """What a run asked of a platform of this name, as (bytes, bank), and what it gave."""
    log, output = file_of("banks.log"), file_of("banks.npy")
    with open(log, "w", encoding="utf-8"):
        pass
    env = {**os.environ, "KILN_CACHE_DIR": "off", "KILN_TEST_PLATFORM": platform, "KILN_TEST_BANKS": log,
           "OPENCL_LAYERS": os.path.join(BUILD, "tests/bin/bank_layer.so")}
    run = subprocess.run([RUNNER, "bundle", "run", folder, *arguments, "--runs", "0", "--output", output], capture_output=True, text=True,
                         check=False, timeout=900, env=env)
    assert run.returncode == 0, run.stdout[-400:] + run.stderr[-400:]
    with open(log, encoding="utf-8") as file:
        return sorted(tuple(map(int, line.split())) for line in file), np.load(output)


def placed(folder):
    """(bytes, bank) of all buffers that the bundle makes, each constant once."""
    buffers = manifest_of(folder)["shapes"][0]["buffers"]
    constants = {(b["offset"], b["bytes"]): b["bank"] for b in buffers if b["kind"] == "constant"}
    return sorted([(size, bank) for (_, size), bank in constants.items()] +
                  [(b["bytes"], b["bank"]) for b in buffers if b["kind"] == "scratch"])


def arguments_agree(folder):
    """Every argument of a kernel is in one bank, and its file for v++ says so."""
    manifest, banks = manifest_of(folder), {}
    shapes, = manifest["shapes"]
    for step in launches_of(folder):
        for number, arg in enumerate(step["args"]):
            if arg.get("buffer") is not None:
                key = (step["program"], step["kernel"], number)
                bank = shapes["buffers"][arg["buffer"]]["bank"]
                assert banks.setdefault(key, bank) == bank, f"argument {key} is in banks {banks[key]} and {bank}"
    lines = []
    for program in manifest["programs"]:
        with open(os.path.join(folder, program["source"][:-len("cl")] + "cfg"), encoding="utf-8") as file:
            text = file.read()
        assert "[connectivity]" in text
        lines += re.findall(r"^sp=(\w+)_1\.\w+:DDR\[(\d+)\]$", text, re.M)
    kernels = [(manifest["programs"][program]["kernels"][kernel]["name"], str(bank)) for (program, kernel, _), bank in banks.items()]
    assert sorted(lines) == sorted(kernels), f"{lines} are not {kernels}"


@case
def buffers_lie_in_banks():
    model, arguments = small_network()
    expected = of_model(model, *arguments)
    for name, extra in (("banks", []), ("banks_merged", ["--merge", "--single-work-item"])):
        folder = bundle_of(name, model, *arguments, "--banks", "3", *extra)
        assert manifest_of(folder)["banks"] == 3
        arguments_agree(folder)
        wanted = placed(folder)
        assert len({bank for _, bank in wanted}) > 1, f"all in one bank: {wanted}"
        shapes, = manifest_of(folder)["shapes"]
        assert all(shapes["buffers"][value["buffer"]]["bank"] == 0 for value in shapes["inputs"] + shapes["outputs"])
        for platform in ("Xilinx", "Intel(R) FPGA SDK for OpenCL(TM)"):
            asked, given = banks_asked(folder, arguments, platform)
            assert asked == [(max(size, 1), bank) for size, bank in wanted], f"{platform}: {asked} is not {wanted}"
            same_bits(given, expected)
        asked, given = banks_asked(folder, arguments, "Portable Computing Language")
        assert asked == [], asked
        same_bits(given, expected)
        rules = subprocess.run(["make", "-C", folder, "-n", "aoc", "vpp", "MEMORY=HBM"], capture_output=True, text=True, check=True, timeout=60)
        for words in ("-no-interleaving=default", "--max_memory_ports all", "--config out/p000_", "sed 's/:DDR/:HBM/'"):
            assert words in rules.stdout, f"{words}: {rules.stdout}"


@case
def banks_that_cannot_be_are_refused():
    model, arguments = small_network()
    for number in ("0", "33", "two", "-1"):
        said = kiln("bundle", model, *arguments, "--banks", number, "-o", file_of("none"), code=2)
        assert "is no number from 1 to 32" in said, said
    folder = bundle_of("banks_wrong", model, *arguments, "--banks", "2")
    change_manifest(folder, lambda text: text.replace('"bank": 1', '"bank": 2', 1))
    said = kiln("bundle", "check", folder, code=1)
    assert "bank is too large" in said and "manifest.json" in said, said


# ---- first results, and ResNet-50 ----

def comes_soon(name, folder, model, arguments):
    """The bar of the first result: 1.2 of a warm run. What disturbs one side of the turns is no reason to fail, so it has
    three tries."""
    ratios = []
    while len(ratios) < 3 and (not ratios or min(ratios) > 1.2):
        ratios.append(turns_of(folder, model, arguments))
    print(f"{name}: first result {ratios[-1]:.2f} of a warm kiln run, {'whole' if RUNNER == KILN else 'minimal'} library")
    assert min(ratios) <= 1.2, f"{name}: {ratios} of a warm kiln run"


@case
def first_results_come_as_soon_as_those_of_a_warm_run():
    if not LONG:
        print("SKIP bundle_boards: times only in the long form: set KILN_TEST_LONG")
        return
    for name, (model, arguments) in (("digits", (DIGITS, THREE)), ("transformer", transformer_model())):
        for form in ("plain", "merged"):
            folder = bundle_of(f"soon_{name}_{form}", model, *arguments, *(["--merge"] if form == "merged" else []))
            kiln("bundle", "compile", folder)
            comes_soon(f"{name} {form}", folder, model, arguments)


@case
def resnet_50_runs_without_a_compiler():
    """As it is, merged, and as loops in one program; the small residual network of bundles.py is the default run's."""
    if not LONG:
        print("SKIP bundle_boards: ResNet-50 only in the long form: set KILN_TEST_LONG")
        return
    subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "bench/models/write_models.py"), file_of("models"), "resnet50"], check=True,
                   timeout=900)
    model, arguments = file_of("models/resnet50/model.onnx"), ("--input", file_of("models/resnet50/image.npy"))
    expected, plain = of_model(model, *arguments), result(model, *arguments)[0]
    assert np.allclose(expected, plain, rtol=1e-3, atol=1e-4) and expected.argmax() == plain.argmax()
    for name, extra in (("plain", []), ("merged", ["--merge"]), ("single", ["--merge", "--single-work-item"])):
        folder = bundle_of("resnet50_" + name, model, *arguments, *extra)
        assert not extra or len(manifest_of(folder)["programs"]) == 1, "more than one program"
        assert "--single-work-item" not in extra or is_one_work_item(folder)
        kiln("bundle", "compile", folder)
        here, said = result(folder, *arguments, layer="", cache=None)
        same_bits(here, expected)
        assert ", 0 made from its sources" in said, said
        comes_soon(f"ResNet-50 {name}", folder, model, arguments)


main("bundle_boards")
