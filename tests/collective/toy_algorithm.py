#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows CONTRIBUTING's recipe for a collective algorithm on a copy of the tree: three files are edited, the
tests run the new algorithm, and each edit that is forgotten stops the build. Arguments: structure.json."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../structure"))
import recipe  # pylint: disable=wrong-import-position
import structure  # pylint: disable=wrong-import-position

SOURCE = """// SPDX-License-Identifier: MIT OR Apache-2.0
// All-reduce along a chain: each rank combines what comes with its own value and passes it on; the
// last one has the result and sends it to all.
#include "coll_algorithms.h"

void kilni_coll_all_reduce_chain(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    const kilni_coll_operand work = {SLOT_WORK, 0};
    const kilni_coll_range whole = {0, shape->count};
    uint32_t last = shape->ranks - 1;
    kilni_coll_slot own = SLOT_INPUT;
    if (shape->is_wide || last == 0) {
        kilni_coll_copy(schedule, work, (kilni_coll_operand){SLOT_INPUT, 0}, shape->count, false);
        own = SLOT_WORK;
    }
    if (shape->rank > 0) {
        kilni_coll_receive(schedule, shape->rank - 1, SLOT_SCRATCH, whole);
        kilni_coll_reduce(schedule, work, (kilni_coll_operand){SLOT_SCRATCH, 0},
                          (kilni_coll_operand){own, 0}, shape->count);
        own = SLOT_WORK;
    }
    if (shape->rank < last) {
        kilni_coll_send(schedule, shape->rank + 1, own, whole);
        kilni_coll_fence(schedule);
        kilni_coll_receive(schedule, last, SLOT_OUTPUT, whole);
        return;
    }
    kilni_coll_copy(schedule, (kilni_coll_operand){SLOT_OUTPUT, 0}, work, shape->count, shape->is_mean);
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
TESTS = ("collective/test_coll_matrix", "unit/collective/test_coll_schedules")


def take(copy, name):
    """One of the recipe's three edits."""
    if name == FILE:
        copy.create(FILE, SOURCE)
    elif name == TABLE:
        copy.insert(TABLE, "KILN_COLL_ALGORITHM(REDUCE,         CENTRALISED", ROW)
    else:
        copy.insert(LIST, "        algorithms/coll_agreement.c\n", "        algorithms/coll_chain.c\n")


def build(copy):
    return (copy.configure("-DKILN_WERROR=ON", "-DKILN_CL=OFF", "-DKILN_REMOTE=OFF", "-DKILN_ONNX=OFF",
                           "-DCMAKE_BUILD_TYPE=Debug")
            or copy.ninja(*(f"test_exe_{name.replace('/', '_')}" for name in TESTS)))


def forgotten(copy, name):
    """Without one of the edits there is no build."""
    copy.restore(name)
    problems = build(copy)
    take(copy, name)
    return [] if problems else [f"it builds without the edit of {name}"]


def steps(copy):
    for name in (FILE, TABLE, LIST):
        take(copy, name)
    yield "three files", copy.counts(3)
    yield "build", build(copy)
    yield "tests", [line for test in TESTS for line in copy.problems(copy.program(test))]
    for name in (FILE, LIST, TABLE):  # the table last: everything depends on it
        yield f"without {name}", forgotten(copy, name)


if __name__ == "__main__":
    the_copy = recipe.Copy(structure.load(sys.argv), "collective_algorithm")
    recipe.follow("collective/toy_algorithm", the_copy, steps(the_copy))
