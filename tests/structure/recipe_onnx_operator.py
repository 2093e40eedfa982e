# SPDX-License-Identifier: MIT OR Apache-2.0
"""Follows CONTRIBUTING's recipe for an ONNX operator on a copy of the tree: Halve, which ONNX has not, by two files.
A row without its handler must not link."""
import os
import sys

import numpy

import recipe
import structure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../onnx_cases"))
import onnx_writer  # noqa: E402

ROW = "KILN_ONNX_WAY(Halve, 1, 21, 1, 1, halve)\n"
HANDLER = """void kilni_onnx_op_halve(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_out(call, 0, kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, 0.5));
}

"""
TABLE, FAMILY, ROWS = "onnx/ops/onnx_ops.def", "onnx/ops/math/onnx_op_activation.c", "onnx/ops/onnx_rows.c"


def write(folder):
    """A model y = Halve(x) of two elements, and an input."""
    x = numpy.array([3, -8], numpy.float32)
    graph = onnx_writer.Graph([onnx_writer.node("Halve", ["x"], ["y"])], {"x": x}, {"y": x})
    with open(os.path.join(folder, "halve.onnx"), "wb") as file:
        file.write(onnx_writer.model(graph, 17))
    numpy.save(os.path.join(folder, "x.npy"), x)


def steps(copy):
    copy.insert(TABLE, "KILN_ONNX_UNARY(Abs,", ROW)
    yield "configure", copy.configure()
    bad = copy.compile(ROWS) or copy.link_library()
    yield "no handler", recipe.refused(bad, "kilni_onnx_op_halve")
    copy.insert(FAMILY, "void kilni_onnx_op_leaky_relu(", HANDLER)
    yield "build", copy.compile(FAMILY) + copy.link_library()
    yield "two files", copy.counts(2)
    write(copy.build)
    yield "runs", recipe.said(copy.kiln("run", "halve.onnx", "--input", "x.npy", "--device", "reference"),
                                "y: f32[2] = 1.5 -4")


if __name__ == "__main__":
    linked = recipe.Linked(structure.load(sys.argv), "onnx_operator")
    recipe.follow("recipes/onnx_operator", linked, steps(linked))
