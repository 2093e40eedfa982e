// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches matmul.cl: Kiln's own matrix product, for every dtype and any strides. Decides how
// NumPy's rules for rank 1 and for batches become strides, and which form suits the device. What
// BLAS takes never comes here, but small products of a batch do on processors (decision 104).
#include <string.h>

#include "exec_internal.h"
#include "product_args.h"

enum { ROWS = 4, VECTORS = 2, SIDE = 64, MATMUL_GROUP = 256 };

typedef struct matrix { ///< the last two axes of an operand
    int64_t rows;
    int64_t columns;
    int64_t row_stride;
    int64_t column_stride;
    kiln_view batch; ///< the other axes
} matrix;

/// A vector is a row when it stands left, a column when it stands right.
static matrix matrix_of(const kiln_view *view, bool transpose, bool left)
{
    matrix x = {.rows = 1, .columns = 1, .batch = *view};
    uint32_t last = view->rank - 1;
    if (view->rank == 1) {
        *(left ? &x.columns : &x.rows) = view->dims[0];
        *(left ? &x.column_stride : &x.row_stride) = view->strides[0];
        x.batch.rank = 0;
        return x;
    }
    uint32_t row = transpose ? last : last - 1;
    uint32_t column = transpose ? last - 1 : last;
    x.rows = view->dims[row];
    x.columns = view->dims[column];
    x.row_stride = view->strides[row];
    x.column_stride = view->strides[column];
    x.batch.rank = view->rank - 2;
    return x;
}

static void matmul_shape_init(const kilni_exec *exec, kiln_matmul_shape *s)
{
    const kiln_op_record *record = exec->record;
    const kiln_view *out = &exec->outputs[0];
    matrix a =
        matrix_of(&exec->inputs[0], kiln_op_attr_i64(record, KILN_KEY_TRANSPOSE_A) != 0, true);
    matrix b =
        matrix_of(&exec->inputs[1], kiln_op_attr_i64(record, KILN_KEY_TRANSPOSE_B) != 0, false);
    uint32_t has_rows = exec->inputs[0].rank > 1 ? 1 : 0;
    uint32_t has_columns = exec->inputs[1].rank > 1 ? 1 : 0;
    kiln_view batch = *out;
    kilni_exec_loops loops;
    batch.rank = out->rank - has_rows - has_columns;
    memset(s, 0, sizeof(*s));
    s->m = a.rows;
    s->n = b.columns;
    s->k = a.columns;
    s->row_stride[0] = has_rows != 0 ? out->strides[batch.rank] : 0;
    s->column_stride[0] = has_columns != 0 ? out->strides[out->rank - 1] : 0;
    s->row_stride[1] = a.row_stride;
    s->column_stride[1] = a.column_stride;
    s->row_stride[2] = b.row_stride;
    s->column_stride[2] = b.column_stride;
    kilni_exec_loops_init(&loops, batch.dims, batch.rank);
    kilni_exec_loops_add(&loops, &batch);
    kilni_exec_loops_add(&loops, &a.batch);
    kilni_exec_loops_add(&loops, &b.batch);
    kilni_exec_loops_merge(&loops, 0, NULL);
    s->rank = loops.rank;
    s->batch = kilni_exec_count(&batch);
    memcpy(s->dims, loops.dims, sizeof(s->dims));
    memcpy(s->strides, loops.strides, sizeof(s->strides));
    memcpy(s->start, loops.start, sizeof(s->start));
}

kiln_status kilni_exec_matmul(kilni_exec *exec)
{
    kiln_matmul_shape s;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_dtype dtype = exec->outputs[0].dtype;
    uint32_t vector = kilni_exec_vector(exec, dtype);
    bool block = kilni_exec_is_block(exec);
    matmul_shape_init(exec, &s);
    int64_t rows = block ? ROWS : SIDE;
    int64_t columns = block ? (int64_t)VECTORS * vector : SIDE;
    int64_t pieces = s.batch * kilni_exec_ceil_div(s.m, rows) * kilni_exec_ceil_div(s.n, columns);
    kilni_exec_define_dtype(&options, "A", dtype);
    kilni_exec_define(&options, "V", vector);
    kilni_exec_define(&options, "MB", s.column_stride[2] == 1 ? 1 : 2);
    kilni_exec_define(&options, "MR", ROWS);
    kilni_exec_define(&options, "NR", VECTORS);
    kilni_exec_define(&options, block ? "BLOCK" : "TILE", 1);
    kiln_status status = kilni_exec_kernel(
        exec, "matmul.cl", block ? "kiln_matmul_block" : "kiln_matmul_tile", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_buffer(&args, exec->inputs[0].buffer);
    kilni_cl_push_buffer(&args, exec->inputs[1].buffer);
    return kilni_exec_launch(exec, &args, block ? pieces : pieces * MATMUL_GROUP, MATMUL_GROUP);
}

kiln_status kilni_exec_matmul_of(kilni_exec *exec, const kiln_tensor_desc descs[2],
                                 const kiln_view views[2])
{
    const kiln_attr attrs[2] = {*kiln_op_attr(exec->record, KILN_KEY_TRANSPOSE_A),
                                *kiln_op_attr(exec->record, KILN_KEY_TRANSPOSE_B)};
    const kiln_op_record record = {.op = KILN_OP_MATMUL,
                                   .n_inputs = 2,
                                   .n_outputs = 1,
                                   .n_attrs = 2,
                                   .inputs = descs,
                                   .outputs = exec->record->outputs,
                                   .attrs = attrs};
    return kilni_cl_execute(exec->backend, &record, views, exec->outputs, exec->err);
}
