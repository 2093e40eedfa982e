#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""CONTRIBUTING.md's recipe for a kernel, followed: `eye`, a composite, gets one, in three files."""
import sys

import recipe
import structure

CL = """// SPDX-License-Identifier: MIT OR Apache-2.0
// A matrix of 0 with 1 on a diagonal. Defines: KILN_O.
__kernel void kiln_eye(__global K_S(KILN_O) *out, long first, long rows, long columns, long offset)
{
    const long row = get_global_id(0);
    if (row < rows) {
        for (long column = 0; column < columns; column++) {
            K_ST(KILN_O, out + first + row * columns + column, (K_C(KILN_O))(column - row == offset));
        }
    }
}
"""
LAUNCHER = """// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches eye.cl: one work-item for each row of a dense result. Which operators have kernels is
// decided in kernels.def.
#include "exec_internal.h"

kiln_status kilni_exec_eye(kilni_exec *exec)
{
    const kiln_view *out = &exec->outputs[0];
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_view dense;
    kiln_status status = kilni_exec_result(exec, out, &dense);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_exec_define_dtype(&options, "O", dense.dtype);
    status = kilni_exec_kernel(exec, "eye.cl", "kiln_eye", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_buffer(&args, dense.buffer);
    kilni_cl_push_i64(&args, kilni_exec_start(&dense));
    kilni_cl_push_i64(&args, dense.dims[0]);
    kilni_cl_push_i64(&args, dense.dims[1]);
    kilni_cl_push_i64(&args, kiln_op_attr_i64(exec->record, KILN_KEY_OFFSET));
    status = kilni_exec_launch(exec, &args, dense.dims[0], 64);
    if (status == KILN_STATUS_OK && dense.buffer != out->buffer) {
        status = kilni_exec_copy(exec, &dense, out);
    }
    return status;
}
"""


def steps(kernel):
    kernel.create("cl_backend/kernels/eye.cl", CL)
    kernel.create("cl_backend/ops/exec_eye.c", LAUNCHER)
    kernel.insert("cl_backend/ops/kernels.def", "#undef KILN_KERNEL_FILES",
                  "KILN_KERNEL_FILES(exec_eye.c, eye.cl)\nKILN_KERNEL(EYE, kilni_exec_eye)\n")
    yield "configure", kernel.configure("-DCMAKE_BUILD_TYPE=Release", "-DKILN_WERROR=ON", "-DKILN_REMOTE=OFF",
                                        "-DKILN_ONNX=OFF")
    yield "build", kernel.ninja("generated", "test_exe_conformance_reference")
    told = kernel.call(kernel.program("conformance/reference"), "--backend=opencl:", "eye")
    yield "conformance", recipe.said(told, "1 passed, 0 failed")
    rows = [line for line in kernel.read("docs/ops.md").splitlines() if line.startswith("| `eye`") and "kernel" in line]
    yield "page", [] if rows else ["docs/ops.md does not say that eye has a kernel"]
    yield "three files", kernel.counts(3)


if __name__ == "__main__":
    copy = recipe.Copy(structure.load(sys.argv), "kernel")
    recipe.follow("recipes/kernel", copy, steps(copy))
