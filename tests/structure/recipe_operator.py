#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows CONTRIBUTING's recipe for an operator on a copy of the tree: exp2, by three hand-edited files.

After each step but the last the tree must not build, and say what is missing. Then the operator runs on the
reference, on OpenCL alone and fused, and NumPy judges it. The copy is kept below the build folder, so that a
second run compiles only what changed.
"""
import collections
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings

import structure

ROW = 'KILN_UNARY(EXP2, exp2, %d, 1, FLOAT, SAME, WITHIN_3, "2 raised to x")\n'
REFERENCE = "REFERENCE(exp2, map_float, exp2)\n"
FORMULA = 'EW(EXP2, 16, 1, 0, SAME, "exp2($a)", 0, 0, 0)\n'
EDITS = {  # the steps of the recipe: file, the line before which something is written
    "ir/op/ops.def": ("KILN_UNARY(EXPM1,", ROW),
    "ir/reference/reference_unary.c": ("REFERENCE(expm1,", REFERENCE),
    "plugin_sdk/kf_elementwise.def": ("EW(EXPM1,", FORMULA),
}
GENERATED = {"runtime/kiln_ops.h", "plugin_sdk/kiln_fuser_ops.h", "docs/ops.md",
             "tests/golden/ops.txt"}
UNFINISHED = {"FORMULA": "'exp2' is elementwise and takes floats", "REFERENCE": "kiln_ref_exp2"}


def write_if_other(path, data):
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == data:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


class Copy:
    """A copy of the tree, and its build."""

    def __init__(self, tree, folder):
        self.tree, self.root, self.build = tree, os.path.join(folder, "tree"), folder + "/build"
        self.edited, self.originals = [], {}
        for name in tree.files:
            with open(os.path.join(tree.root, name), "rb") as file:
                data = file.read()
            write_if_other(os.path.join(self.root, name), data)
            self.originals[name] = hashlib.sha256(data).digest()
            shutil.copymode(os.path.join(tree.root, name), os.path.join(self.root, name))
        self.env = dict(os.environ, CCACHE_BASEDIR=self.root, CCACHE_NOHASHDIR="1",
                        KILN_CACHE_DIR="off", KILN_PLUGIN_MODE="developer",
                        KILN_PLUGIN_PATH=os.path.join(self.build, "lib/kiln/plugins"))

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.env,
                              cwd=self.root)
        return done.returncode, done.stdout + done.stderr

    def configure(self):
        return self.problems("cmake", "-S", self.root, "-B", self.build, "-G", "Ninja",
                             "-DCMAKE_BUILD_TYPE=Unoptimised", "-DKILN_REMOTE=OFF",
                             "-DKILN_ONNX=OFF")

    def problems(self, *command):
        status, text = self.run(*command)
        return [] if status == 0 else [f"{' '.join(command)}: {status}"] + text.splitlines()[-12:]

    def ninja(self, *targets):
        return ("ninja", "-C", self.build, "-j2", *targets)

    def edit(self, name):
        """One step of the recipe: writes a line before another."""
        before, line = EDITS[name]
        text = self.tree.read(name)
        if name.endswith("ops.def"):
            numbers = re.findall(r"^KILN_[A-Z]+\(\w+, *\w+, *(\d+)", text, re.M)
            line = line % (max(map(int, numbers)) + 1)
        assert text.count(before) == 1, f"{name}: {before}"
        write_if_other(os.path.join(self.root, name), text.replace(before, line + before).encode())
        self.edited.append(name)

    def changed(self):
        """Files that are not as they were."""
        names = set()
        for name, digest in self.originals.items():
            with open(os.path.join(self.root, name), "rb") as file:
                if hashlib.sha256(file.read()).digest() != digest:
                    names.add(name)
        return names


def refused(copy, target, word):
    """A tree with a piece missing does not build, and the message names the piece."""
    status, text = copy.run(*copy.ninja(target))
    if status == 0:
        return [f"{target} is built though a piece is missing"]
    return [] if word in text else [f"nothing says {word}:"] + text.splitlines()[-12:]


def follow(copy):
    """The recipe, a case for each step."""
    names = list(EDITS)
    copy.edit(names[0])
    yield "configure", copy.configure()
    yield "no reference function", refused(copy, "gen_ops", UNFINISHED["REFERENCE"])
    copy.edit(names[1])
    yield "generate", copy.problems(*copy.ninja("generated"))
    yield "no formula", refused(copy, "kiln_cl_backend", UNFINISHED["FORMULA"])
    copy.edit(names[2])
    yield "build", copy.problems(*copy.ninja("kiln_library", "kiln_plugin_elementwise",
                                             "sample_dump"))


def counts(copy):
    """Three files by hand; what else changed was generated."""
    by_hand = copy.changed() - GENERATED
    problems = [] if by_hand == set(EDITS) else [f"edited: {', '.join(sorted(by_hand))}"]
    return problems + ([] if len(copy.edited) == 3 else [f"{len(copy.edited)} edits"])


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


def judged(copy, path, device, fused):
    status, text = copy.run(path, device)
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
    status, text = copy.run(os.path.join(copy.build, "tests/bin/sample_dump"), "exp2")
    failures = collections.defaultdict(list)
    lines = [line for line in text.splitlines() if line.startswith("exp2#")]
    for line in lines:
        numpy_judge.judge(line, failures)
    return failures["exp2"] or ([] if status == 0 and len(lines) > 20 else [text[-400:]])


def main():
    tree = structure.load(sys.argv)
    copy = Copy(tree, os.path.join(tree.config["build_dir"], "recipe_operator"))
    cases = {}
    for name, problems in follow(copy):
        cases[name] = problems
        if problems:
            structure.report("recipes/operator", cases)
    out = os.path.join(copy.build, "recipe_operator")
    cases["three files"] = counts(copy)
    cases["program"] = program(copy, out)
    cases["reference"] = judged(copy, out, "reference:", False)
    cases["opencl, alone and fused"] = judged(copy, out, "opencl:0", True)
    cases["numpy"] = by_numpy(copy)
    structure.report("recipes/operator", cases)


if __name__ == "__main__":
    main()
