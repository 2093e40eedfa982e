#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows CONTRIBUTING's recipe for a collective algorithm on a copy of the tree: three files are edited, the
tests run the new algorithm, and each edit that is forgotten stops the build. Arguments: structure.json."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../structure"))
import structure  # pylint: disable=wrong-import-position

SOURCE = """// SPDX-License-Identifier: MIT OR Apache-2.0
// All-reduce along a chain: each rank combines what comes with its own value and passes it on; the
// last one has the result and sends it to all.
#include "coll_algorithms.h"

void kilni_coll_all_reduce_chain(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const kilni_coll_place work = {SLOT_WORK, 0};
    const kilni_coll_range whole = {0, shape->count};
    uint32_t last = shape->ranks - 1;
    kilni_coll_slot own = SLOT_INPUT;
    if (shape->is_wide || last == 0) {
        kilni_coll_copy(schedule, work, (kilni_coll_place){SLOT_INPUT, 0}, shape->count, false);
        own = SLOT_WORK;
    }
    if (shape->rank > 0) {
        kilni_coll_receive(schedule, shape->rank - 1, SLOT_SCRATCH, whole);
        kilni_coll_reduce(schedule, work, (kilni_coll_place){SLOT_SCRATCH, 0},
                          (kilni_coll_place){own, 0}, shape->count);
        own = SLOT_WORK;
    }
    if (shape->rank < last) {
        kilni_coll_send(schedule, shape->rank + 1, own, whole);
        kilni_coll_fence(schedule);
        kilni_coll_receive(schedule, last, SLOT_OUTPUT, whole);
        return;
    }
    kilni_coll_copy(schedule, (kilni_coll_place){SLOT_OUTPUT, 0}, work, shape->count, shape->is_mean);
    for (uint32_t i = 0; i < last; i++) {
        kilni_coll_send(schedule, i, SLOT_OUTPUT, whole);
    }
    kilni_coll_fence(schedule);
}
"""
ROW = """KILN_COLL_ALGORITHM(ALL_REDUCE, CHAIN, "chain", kilni_coll_all_reduce_chain, 1, ANY, 0, UINT64_MAX, 1, UINT32_MAX,
    "along the ranks, ((x0 op x1) op x2) ..., and from the last one to all", "a test")
"""
FILE, TABLE, LIST = ("collective/algorithms/coll_chain.c", "collective/algorithms.def", "collective/CMakeLists.txt")
TESTS = ("collective_test_coll_matrix", "unit_collective_test_coll_schedules")


def run(command, **options):
    """Problems of a command: empty when it succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500, **options)
    return [] if done.returncode == 0 else [" ".join(command)] + (done.stdout + done.stderr).splitlines()[-20:]


def recipe(tree):
    """What is written by hand: file -> its text."""
    table, sources = tree.read(TABLE), tree.read(LIST)
    return {FILE: SOURCE,
            TABLE: table.replace("KILN_COLL_ALGORITHM(REDUCE, ", ROW + "KILN_COLL_ALGORITHM(REDUCE, ", 1),
            LIST: sources.replace("        algorithms/coll_agreement.c\n",
                                  "        algorithms/coll_agreement.c\n        algorithms/coll_chain.c\n", 1)}


def write(copy, edits):
    """Writes what differs; None: the file goes."""
    for name, text in edits.items():
        path = os.path.join(copy, name)
        old = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                old = file.read()
        if text is None:
            os.unlink(path)
        elif text != old:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def build(copy):
    folder = os.path.join(copy, "build")
    return (run(["cmake", "-S", copy, "-B", folder, "-G", "Ninja", "-DKILN_WERROR=ON", "-DKILN_CL=OFF",
                 "-DKILN_REMOTE=OFF", "-DKILN_ONNX=OFF", "-DCMAKE_BUILD_TYPE=Debug"])
            or run(["ninja", "-C", folder, "-j2", *(f"test_exe_{name}" for name in TESTS)]))


def tests(copy):
    bad = []
    for name in TESTS:
        program = os.path.join(copy, "build/tests/bin", name, "test_" + name.split("_test_")[1])
        bad += run([program])
    return bad


def forgotten(tree, copy, name):
    """Without one of the edits there is no build."""
    edits = recipe(tree)
    write(copy, {name: tree.read(name) if name in tree.files else None})
    bad = [] if build(copy) else [f"it builds without the edit of {name}"]
    write(copy, {name: edits[name]})
    return bad


def main():
    tree = structure.load(sys.argv)
    edits = recipe(tree)
    unchanged = [name for name, text in edits.items() if name in tree.files and tree.read(name) == text]
    cases = {"three files": [f"{name} is not changed" for name in unchanged] + ([] if len(edits) == 3 else ["not 3"])}
    with tempfile.TemporaryDirectory(prefix="kiln-toy-") as copy:
        for name in tree.files:
            os.makedirs(os.path.dirname(os.path.join(copy, name)), exist_ok=True)
            shutil.copy2(os.path.join(tree.root, name), os.path.join(copy, name))
        write(copy, edits)
        cases["build"] = build(copy)
        cases["tests"] = cases["build"] or tests(copy)
        for name in (FILE, LIST, TABLE):  # the table last: everything depends on it
            cases[f"without {name}"] = forgotten(tree, copy, name)
    structure.report("collective/toy_algorithm", cases)


main()
