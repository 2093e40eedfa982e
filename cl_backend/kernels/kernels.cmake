# SPDX-License-Identifier: MIT OR Apache-2.0
# Device code, and the files that launch it.
set(kiln_cl_kernels
    prelude.cl
    elementwise.cl
    arange.cl
    pad.cl
    gather.cl
    reduce.cl
    argreduce.cl
    softmax.cl
    batch_norm.cl
    matmul.cl
    conv2d.cl
    pool2d.cl
    random.cl)
set(kiln_cl_exec
    exec.c
    exec_support.c
    exec_shape.c
    exec_elementwise.c
    exec_move.c
    exec_gather.c
    exec_reduce.c
    exec_row.c
    exec_matmul.c
    exec_window.c
    exec_random.c)
