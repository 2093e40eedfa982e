#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows CONTRIBUTING's recipe for an operator on a copy of the tree: exp2, by three hand-edited files.

After each step but the last the tree must not build, and say what is missing. Then the operator runs on the
reference, on OpenCL alone and fused, and NumPy judges it. The copy is kept below the build folder, so that a
second run compiles only what changed.
"""
import collections
import importlib.util
import json
import os
import re
import shlex
import sys
import warnings

import recipe
import structure

ROW = 'KILN_UNARY(EXP2, exp2, %d, 1, FLOAT, SAME, WITHIN_3, NONE(OPEN), "2 raised to x")\n'
REFERENCE = "REFERENCE(exp2, map_float, exp2)\n"
FORMULA = 'EW(EXP2, 16, 1, 0, SAME, "exp2($a)", 0, 0, 0)\n'
EDITS = {  # the steps of the recipe: file, the line before which something is written
    "ir/op/ops.def": ("KILN_UNARY(EXPM1,", ROW),
    "ir/reference/reference_unary.c": ("REFERENCE(expm1,", REFERENCE),
    "plugin_sdk/kf_elementwise.def": ("EW(EXPM1,", FORMULA),
}
UNFINISHED = {"FORMULA": "'exp2' is elementwise and takes floats", "REFERENCE": "kiln_ref_exp2"}


def edit(copy, name):
    """One step of the recipe: writes a line before another."""
    before, line = EDITS[name]
    if name.endswith("ops.def"):
        numbers = re.findall(r"^KILN_[A-Z]+\(\w+, *\w+, *(\d+)", copy.read(name), re.M)
        line = line % (max(map(int, numbers)) + 1)
    copy.insert(name, before, line)


def build(copy):
    """The recipe, a case for each step."""
    names = list(EDITS)
    edit(copy, names[0])
    yield "configure", copy.configure("-DCMAKE_BUILD_TYPE=Unoptimised", "-DKILN_REMOTE=OFF", "-DKILN_ONNX=OFF")
    yield "no reference function", recipe.refused(copy.ninja("gen_ops"), UNFINISHED["REFERENCE"])
    edit(copy, names[1])
    yield "generate", copy.ninja("generated")
    yield "no formula", recipe.refused(copy.ninja("kiln_cl_backend"), UNFINISHED["FORMULA"])
    edit(copy, names[2])
    yield "build", copy.ninja("kiln_library", "kiln_plugin_elementwise", "sample_dump",
                               "kiln_cpp_headers")
    yield "three files", copy.counts(3)


def include_flags(copy):
    with open(os.path.join(copy.build, "compile_commands.json")) as file:
        for entry in json.load(file):
            if entry["file"].endswith("/kiln_context.c"):
                return [w for w in shlex.split(entry["command"]) if w.startswith("-I")]
    return []


def program(copy, out):
    """Compiles the program that calls kiln_exp2."""
    source = os.path.join(copy.root, "tests/structure/consumer/recipe_operator.c")
    return copy.problems("cc", "-std=c11", *include_flags(copy), source, "-o", out,
                         f"-L{copy.build}/lib", f"-Wl,-rpath,{copy.build}/lib", "-lkiln", "-lm")


def in_cpp(copy):
    """The operator is a function of kiln.hpp by itself."""
    with open(copy.built("include/kiln/kiln_ops.hpp"), encoding="ascii") as file:
        return [] if "inline Tensor exp2(const Tensor &x)\n" in file.read() else ["kiln.hpp lacks exp2"]


def judged(copy, path, device, fused):
    status, text = copy.call(path, device)
    good = re.fullmatch(r"0 wrong, same bits, (\d+) fused\n", text)
    if status != 0 or good is None or (int(good.group(1)) > 0) != fused:
        return [f"{device}: {text}"]
    return []


def by_numpy(copy):
    if importlib.util.find_spec("numpy") is None:
        return "python3-numpy is not installed"
    sys.path.insert(0, os.path.join(copy.root, "tests/conformance"))
    import numpy_judge
    warnings.simplefilter("ignore")  # special values are the point here
    status, text = copy.call(os.path.join(copy.build, "tests/bin/sample_dump"), "exp2")
    failures = collections.defaultdict(list)
    lines = [line for line in text.splitlines() if line.startswith("exp2#")]
    for line in lines:
        numpy_judge.judge(line, failures)
    return failures["exp2"] or ([] if status == 0 and len(lines) > 20 else [text[-400:]])


def steps(copy):
    yield from build(copy)
    out = copy.built("recipe_operator")
    yield "program", program(copy, out)
    yield "c++", in_cpp(copy)
    yield "reference", judged(copy, out, "reference:", False)
    yield "opencl, alone and fused", judged(copy, out, "opencl:0", True)
    yield "numpy", by_numpy(copy)


if __name__ == "__main__":
    the_copy = recipe.Copy(structure.load(sys.argv), "operator", keep=True)
    the_copy.env.update(KILN_PLUGIN_MODE="developer", KILN_PLUGIN_PATH=the_copy.built("lib/kiln/plugins"))
    recipe.follow("recipes/operator", the_copy, steps(the_copy))
