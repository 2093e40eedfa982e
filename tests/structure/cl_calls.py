#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each OpenCL call of cl_backend can fail in tests/faults/cl_faults_layer.c, so that a new one is
not forgotten there; the few whose failure means nothing are listed here, with the reason."""
import re

import structure

LAYER = "tests/faults/cl_faults_layer.c"
CALL = re.compile(r"\b(cl[A-Z]\w+)\s*\(")
NAMED = re.compile(r'"(cl[A-Z]\w+)"')
TAKEN = re.compile(r"\bTAKES\((cl[A-Z]\w+)\)|\btable\.(cl[A-Z]\w+)\s*=")
# Call -> why it does not fail there.
MEANINGLESS = {
    "clEnqueueNativeKernel": "a worker sleeps sooner, which costs time alone",
    "clReleaseCommandQueue": "nobody could do anything about it",
    "clReleaseContext": "nobody could do anything about it",
    "clReleaseDevice": "nobody could do anything about it",
    "clReleaseEvent": "nobody could do anything about it",
    "clReleaseKernel": "nobody could do anything about it",
    "clReleaseMemObject": "nobody could do anything about it",
    "clReleaseProgram": "nobody could do anything about it",
    "clSVMFree": "it gives nothing",
    "clCreateProgramWithILKHR": "an extension's: looked up by the call that does fail",
}


def calls_of(tree):
    """Call -> the file that has it first."""
    calls = {}
    for name in tree.sources(".c", ".h", top=("cl_backend",)):
        text = structure.without_comments(tree.read(name))
        for call in NAMED.findall(text) + CALL.findall(structure.without_strings(text)):
            calls.setdefault(call, name)
    return calls


def taken_by(text):
    return {one or other for one, other in TAKEN.findall(structure.without_comments(text))}


def problems(tree):
    calls = calls_of(tree)
    taken = taken_by(tree.read(LAYER))
    return {
        "calls_can_fail": [f"{calls[call]} calls {call}, which {LAYER} does not let fail"
                           for call in sorted(calls) if call not in taken | set(MEANINGLESS)],
        "faults_have_calls": [f"{LAYER} lets {call} fail, which cl_backend does not call"
                              for call in sorted(taken - set(calls))],
        "reasons_have_calls": [f"{call} needs no reason: " +
                               ("it can fail" if call in taken else "cl_backend does not call it")
                               for call in sorted(MEANINGLESS) if call in taken or call not in calls],
    }


if __name__ == "__main__":
    import sys
    tree = structure.load(sys.argv)
    structure.report("structure/cl_calls", problems(tree))
