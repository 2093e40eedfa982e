# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bundles: made of a model, compiled, and run under a layer that refuses to compile
(tests/support/no_compiler_layer.c), with the bits of `kiln run`. What is missing or damaged is named."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bundle_support import *  # noqa: E402,F403

# ---- what runs ----

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


@case
def merged_into_one_program_they_give_the_same():
    runs_merged("merged1", DIGITS, *THREE)
    model, arguments = transformer_model()
    runs_merged("merged2", model, *arguments, "--no-fusion")  # Kiln's own kernels, with their definitions as options


@case
def merged_programs_compile_without_a_word():
    """Of two that declare the same names none sees the other's: the driver's compiler would warn."""
    folder = bundle_of("quiet", DIGITS, *THREE, "--merge")
    assert has_names_of_its_own(folder) > 1, "no two parts declare types"
    says_nothing_while_it_compiles(folder, *THREE)


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
def single_work_item_forms_of_launches_in_a_chain():
    model, arguments = chain_model()
    folder = single_bundle_of("single_chain", model, *arguments)
    kiln("bundle", "compile", folder)
    here, said = result(folder, *arguments, layer="", cache=None)
    same_bits(here, of_model(model, *arguments))
    assert "programs: 1, of them 1 from binaries" in said, said


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


def changes_of(folder):
    programs = [step["program"] for step in manifest_of(folder)["shapes"][0]["steps"] if "program" in step]
    return sum(a != b for a, b in zip(programs, programs[1:]))


@case
def the_steps_are_ordered_so_that_the_program_changes_seldom():
    """Two kinds of work in turns, which do not need each other."""
    nodes, outputs, inputs = [], {}, {}
    for i in range(3):
        inputs[f"x{i}"] = numbers(4, 40, seed=i)
        nodes += [onnx.node("Softmax", [f"x{i}"], [f"s{i}"], axis=-1), onnx.node("CumSum", [f"x{i}", "axis"], [f"c{i}"])]
        outputs.update({f"s{i}": inputs["x0"], f"c{i}": inputs["x0"]})
    model, arguments = write_model("turns", nodes, inputs, {"axis": np.array(1)}, outputs)
    folder = file_of("turns")
    said = kiln("bundle", model, *arguments, "--no-fusion", "-o", folder)
    changes, saved = map(int, re.search(r"a run changes the program (\d+) times?, (\d+) fewer than in the model's order", said).groups())
    assert saved > 0 and changes + saved >= 5 and "it gives the model's bits" in said, said
    assert manifest_of(folder)["shapes"][0]["reprograms"] == changes_of(folder) == changes
    for told in (kiln("bundle", "run", folder, *arguments), kiln("bundle", "check", folder)):
        assert re.search(rf"changes the program {changes} time", told), told
    assert json.loads(kiln("bundle", "check", folder, "--json"))["reprograms"] == changes
    change_manifest(folder, lambda text: text.replace(f'"reprograms": {changes}', f'"reprograms": {changes + 1}'))
    assert "reprograms is not what the steps do" in kiln("bundle", "check", folder, code=1)


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
        with open(os.path.join(copy, name), "wb"):
            pass
        said = kiln("bundle", "run", copy, *THREE, code=1)
        assert f"{name} is damaged" in said, said


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


STAND_IN = """#!/usr/bin/python3
# In place of a board's compiler: takes what its manual has, and gives a binary that this device takes.
import json, os, re, shutil, sys
name, args = os.path.basename(sys.argv[0]), sys.argv[1:]
def fail(words):
    sys.exit(f"{name}: {words}: {args}")
def value(option):
    if args.count(option) != 1 or args.index(option) + 1 == len(args):
        fail(option + " once, please")
    at = args.index(option)
    taken = args[at + 1]
    del args[at:at + 2]
    return taken
with open(os.environ["STAND_IN_LOG"], "a") as log:
    log.write(json.dumps([name, *args]) + "\\n")
out = value("-o")
defines = [arg for arg in args if re.fullmatch(r"-D[A-Za-z_]\\w*(=\\S*)?", arg)]
args = [arg for arg in args if arg not in defines]
wanted, made = ".cl", ".aocx"
if name == "aoc":
    boards = [arg for arg in args if arg.startswith("-board=")]
    args = [arg for arg in args if arg not in boards and not re.fullmatch(r"-no-interleaving=\\w+", arg)]
    if boards != ["-board=pac_a10"]:
        fail("no such board")
else:
    if value("-t") != "hw" or value("--platform") != "u250":
        fail("no such platform")
    if "-c" in args:
        args.remove("-c")
        made = ".xo"
        if "--max_memory_ports" in args and value("--max_memory_ports") != "all":
            fail("ports")
    else:
        args.remove("-l")
        wanted, made = ".xo", ".xclbin"
        if "--config" in args and "[connectivity]" not in open(value("--config")).read():
            fail("no connections")
if len(args) != 1 or not args[0].endswith(wanted) or not os.path.getsize(args[0]) or not out.endswith(made):
    fail("one file, please")
stem = os.path.basename(out).split(".")[0]
if made == ".xo":
    shutil.copy(args[0], out)
else:
    shutil.copy(os.path.join(os.environ["STAND_IN_BINARIES"], stem + ".bin"), out)
"""


def made_by_stand_ins(folder, *arguments, code=0):
    """What `make` asked of the board's compilers: the lists of their arguments."""
    tools, log = file_of("stand_ins"), file_of("stand_ins.log")
    os.makedirs(tools, exist_ok=True)
    for name in ("aoc", "v++"):
        with open(os.path.join(tools, name), "w", encoding="utf-8") as file:
            file.write(STAND_IN)
        os.chmod(file.name, 0o755)
    with open(log, "w", encoding="utf-8"):
        pass
    run = subprocess.run(["make", "-C", folder, *arguments], capture_output=True, text=True, check=False, timeout=300,
                         env={**os.environ, "PATH": tools + os.pathsep + os.environ["PATH"], "STAND_IN_LOG": log,
                              "STAND_IN_BINARIES": binaries_of(file_of("boards"))})
    assert run.returncode == code, run.stdout[-800:] + run.stderr[-800:]
    with open(log, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@case
def the_rules_for_boards_make_what_is_imported():
    """By stand-ins for aoc and v++ that check their arguments: what they write runs under the layer."""
    made = bundle_of("boards", DIGITS, *THREE, "--single-work-item", "--merge", "--banks", "2")
    kiln("bundle", "compile", made)
    expected, program = of_model(DIGITS, *THREE), manifest_of(made)["programs"][0]
    with open(os.path.join(binaries_of(made), "target.json"), encoding="utf-8") as file:
        device = json.load(file)["device"]
    for word, where, ending, n_calls in (("aoc", "BOARD=pac_a10", "aocx", 1), ("vpp", "PLATFORM=u250", "xclbin", 2)):
        folder = copy_of(made)
        shutil.rmtree(os.path.join(folder, "bin"))
        calls = made_by_stand_ins(folder, word, where)
        assert len(calls) == n_calls and calls[0].count(program["source"]) == 1, calls
        assert [arg for arg in calls[0] if arg.startswith("-D")] == re.findall(r"-D\S+", program["options"]), calls
        assert made_by_stand_ins(folder, word, where) == [], "made again though nothing changed"
        output = os.path.join(folder, "out", os.path.basename(program["source"])[:-len("cl")] + ending)
        assert "kernel " in kiln("run", folder, *THREE, layer="", cache=None, code=1)
        kiln("bundle", "add", folder, "--name", device, output)
        here, said = result(folder, *THREE, layer="", cache=None)
        same_bits(here, expected)
        assert "1 from binaries" in said and ", 0 made from its sources" in said, said
        assert "has all of it" in kiln("bundle", "check", folder, layer="", cache=None)
        shutil.rmtree(os.path.join(folder, "out"))
        made_by_stand_ins(folder, word, "BOARD=none", "PLATFORM=none", code=2)
        assert not os.path.exists(output), f"{word} failed and left {output}"


@case
def the_rule_for_spir_v_makes_modules():
    missing = [name for name in ("clang-14", "llvm-spirv-14") if shutil.which(name) is None]
    if missing:
        print(f"SKIP bundles: {' and '.join(missing)} not installed, so no module of SPIR-V was made")
        return
    single = bundle_of("spirv", DIGITS, *THREE, "--single-work-item", "--merge")
    for folder in (copy_of(digits_bundle()), single):
        run = subprocess.run(["make", "-C", folder, "spirv"], capture_output=True, text=True, check=False, timeout=600)
        assert run.returncode == 0, run.stdout[-800:] + run.stderr[-800:]
        for program in manifest_of(folder)["programs"]:
            path = os.path.join(folder, "out", os.path.basename(program["source"])[:-len("cl")] + "spv")
            with open(path, "rb") as file:
                module = file.read()
            assert module[:4] == bytes.fromhex("03022307"), f"{path} is no SPIR-V"
            for kernel in program["kernels"]:
                assert kernel["name"].encode() in module, f"{path} has no {kernel['name']}"


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


main("bundles")
