// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches norm.cl: layer_norm, rms_norm, and the derivatives of softmax and log_softmax. Decides
// how rows are spread over work-items. Rows that do not lie dense become so in scratch memory.
#include "exec_internal.h"

#include <string.h>

enum { NORM_GROUP = 256, NORM_ITEM_WORK = 4096 };

typedef struct norm_rows { ///< of dense [count, length]
    kiln_view input;
    kiln_view grad; ///< `input` where there is none
    kiln_view scale;
    kiln_view bias;
    kiln_view output;
    unsigned n_params;
    int64_t count;
    int64_t length;
    int64_t each;
    int64_t items;
    bool by_group;
} norm_rows;

static int kind_of(kiln_op op)
{
    return op == KILN_OP_LAYER_NORM         ? 0
           : op == KILN_OP_RMS_NORM         ? 1
           : op == KILN_OP_SOFTMAX_BACKWARD ? 2
                                            : 3;
}

static void rows_cut(const kilni_exec *exec, norm_rows *r)
{
    bool block = kilni_exec_is_block(exec);
    int64_t units = (int64_t)exec->backend->info.compute_units;
    int64_t fair = kilni_exec_ceil_div(r->count, 4 * units);
    int64_t most = block ? NORM_ITEM_WORK / r->length + 1 : 1;
    r->by_group = !block && r->length >= NORM_GROUP / 4;
    r->each = most < fair ? most : fair;
    r->items = r->by_group ? r->count * NORM_GROUP : kilni_exec_ceil_div(r->count, r->each);
}

static kiln_status rows_launch(kilni_exec *exec, norm_rows *r)
{
    kiln_dtype dtype = r->input.dtype;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    rows_cut(exec, r);
    kilni_exec_define_dtype(&options, "A", dtype);
    kilni_exec_define(&options, "KIND", kind_of(exec->record->op));
    kilni_exec_define(&options, "SCALE", r->n_params > 0 ? 1 : 0);
    kilni_exec_define(&options, "BIAS", r->n_params > 1 ? 1 : 0);
    kilni_exec_define(&options, "V", kilni_exec_vector(exec, dtype));
    kilni_exec_define(&options, r->by_group ? "GROUP" : "ROWS", r->by_group ? NORM_GROUP : 1);
    kiln_status status = kilni_exec_kernel(exec, "norm.cl", "kiln_norm", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_view *views[] = {&r->output, &r->input, &r->grad, &r->scale, &r->bias};
    for (unsigned i = 0; i < 5; i++) {
        kilni_cl_push_buffer(&args, views[i]->buffer);
    }
    for (unsigned i = 0; i < 5; i++) {
        kilni_cl_push_i64(&args, kilni_exec_start(views[i]));
    }
    kilni_cl_push_i64(&args, r->count);
    kilni_cl_push_i64(&args, r->length);
    kilni_cl_push_i64(&args, r->each);
    double epsilon = kiln_op_attr_f64(exec->record, KILN_KEY_EPSILON);
    if (dtype == KILN_DTYPE_F64) {
        kilni_cl_push_bytes(&args, &epsilon, sizeof(epsilon));
    } else {
        kilni_cl_push_f32(&args, (float)epsilon);
    }
    return kilni_exec_launch(exec, &args, r->items, r->by_group ? NORM_GROUP : 64);
}

// ---- normalisations ----

/// A parameter as long as a row: given so, or repeated into scratch memory.
static kiln_status parameter(kilni_exec *exec, unsigned index, uint32_t axis, kiln_view *out_view)
{
    const kiln_view *given = &exec->inputs[index];
    const kiln_view *x = &exec->inputs[0];
    kiln_tensor_desc desc = {.dtype = given->dtype, .rank = (uint8_t)(x->rank - axis)};
    memcpy(desc.dims, x->dims + axis, desc.rank * sizeof(desc.dims[0]));
    kiln_view spread = kiln_view_dense(&desc, given->buffer);
    spread.offset_bytes = given->offset_bytes;
    for (uint32_t i = 0; i < spread.rank; i++) {
        uint32_t missing = spread.rank - given->rank;
        bool repeated = i < missing || given->dims[i - missing] == 1;
        spread.strides[i] = repeated ? 0 : given->strides[i - missing];
    }
    return kilni_exec_dense(exec, &spread, out_view);
}

kiln_status kilni_exec_norm(kilni_exec *exec)
{
    norm_rows r = {.count = 1, .length = 1, .n_params = exec->record->n_inputs - 1u};
    uint32_t axis = kilni_exec_axis(exec, exec->inputs[0].rank);
    kiln_status status = kilni_exec_dense(exec, &exec->inputs[0], &r.input);
    r.output = exec->outputs[0];
    r.grad = r.scale = r.bias = r.input;
    if (status == KILN_STATUS_OK && r.n_params > 0) {
        status = parameter(exec, 1, axis, &r.scale);
    }
    if (status == KILN_STATUS_OK && r.n_params > 1) {
        status = parameter(exec, 2, axis, &r.bias);
    }
    for (uint32_t i = 0; i < r.input.rank; i++) {
        *(i < axis ? &r.count : &r.length) *= r.input.dims[i];
    }
    return status == KILN_STATUS_OK ? rows_launch(exec, &r) : status;
}

// ---- derivatives of softmax ----

/// Columns become rows in scratch memory, and columns again.
kiln_status kilni_exec_softmax_backward(kilni_exec *exec)
{
    norm_rows r = {.count = 1};
    uint32_t rank = exec->inputs[0].rank;
    uint32_t axis = kilni_exec_axis(exec, rank);
    const kiln_view output = kilni_exec_axis_last(&exec->inputs[0], axis);
    const kiln_view grad = kilni_exec_axis_last(&exec->inputs[1], axis);
    const kiln_view target = kilni_exec_axis_last(&exec->outputs[0], axis);
    bool aside = !kiln_view_is_contiguous(&target);
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_exec_dense(exec, &output, &r.input));
    r.scale = r.bias = r.input;
    KILN_TRY(out, status, kilni_exec_dense(exec, &grad, &r.grad));
    KILN_TRY(out, status, kilni_exec_result(exec, &target, &r.output));
    for (uint32_t i = 0; i + 1 < rank; i++) {
        r.count *= target.dims[i];
    }
    r.length = target.dims[rank - 1];
    KILN_TRY(out, status, rows_launch(exec, &r));
    if (aside) {
        KILN_TRY(out, status, kilni_exec_copy(exec, &r.output, &target));
    }
out:
    return status;
}
