// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches loss.cl: a work-group for each sequence of ctc_loss and its derivative, and for each
// matrix of det. All operands become dense.
#include "exec_internal.h"

enum { LOSS_GROUP = 64, MAX_VIEWS = 5 };

static kiln_status begin(kilni_exec *exec, const char *kernel, kilni_exec_options *options,
                         kilni_cl_args *out_args)
{
    kilni_exec_define_dtype(options, "A", exec->inputs[0].dtype);
    kilni_exec_define(options, "GROUP", kilni_exec_is_block(exec) ? 1 : LOSS_GROUP);
    return kilni_exec_kernel(exec, "loss.cl", kernel, options, out_args);
}

static kiln_status launch_loss(kilni_exec *exec, kilni_cl_args *args, int64_t groups)
{
    int64_t each = kilni_exec_is_block(exec) ? 1 : LOSS_GROUP;
    return kilni_exec_launch(exec, args, groups * each, LOSS_GROUP);
}

typedef struct ctc {
    kiln_view views[MAX_VIEWS]; ///< x, grad, targets, lengths, counts
    bool backward;
    int64_t width; ///< of a row of states: whole vectors, two places on either side
    kiln_buffer *paths;
    kiln_buffer *numbers;
} ctc;

static kiln_status ctc_memory(kilni_exec *exec, ctc *c)
{
    const int64_t *dims = c->views[0].dims;
    int64_t most = 2 * c->views[2].dims[1] + 1;
    int64_t vector = kilni_exec_is_block(exec) ? kilni_exec_vector(exec, c->views[0].dtype) : 1;
    c->width = kilni_exec_ceil_div(most, vector) * vector + 4;
    int64_t size = (int64_t)kiln_dtype_size(kilni_exec_compute(c->views[0].dtype));
    kiln_status status =
        kilni_exec_alloc(exec, dims[1] * (dims[0] + 5) * c->width * size, &c->paths);
    return status == KILN_STATUS_OK
               ? kilni_exec_alloc(exec, dims[1] * 3 * most * (int64_t)sizeof(int32_t), &c->numbers)
               : status;
}

static kiln_status ctc_launch(kilni_exec *exec, const ctc *c)
{
    const kiln_view *out = &exec->outputs[0];
    const int64_t *dims = c->views[0].dims;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kilni_exec_define_dtype(&options, "I", c->views[2].dtype);
    kilni_exec_define_dtype(&options, "J", c->views[3].dtype);
    kilni_exec_define_dtype(&options, "K", c->views[4].dtype);
    kilni_exec_define(&options, "V", kilni_exec_vector(exec, c->views[0].dtype));
    kiln_status status = begin(exec, "kiln_ctc", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_buffer(&args, out->buffer);
    for (unsigned i = 0; i < MAX_VIEWS; i++) {
        kilni_cl_push_buffer(&args, c->views[i].buffer);
    }
    kilni_cl_push_buffer(&args, c->paths);
    kilni_cl_push_buffer(&args, c->numbers);
    kilni_cl_push_i64(&args, kilni_exec_start(out));
    for (unsigned i = 0; i < MAX_VIEWS; i++) {
        kilni_cl_push_i64(&args, kilni_exec_start(&c->views[i]));
    }
    for (unsigned i = 0; i < 3; i++) {
        kilni_cl_push_i64(&args, dims[i]);
    }
    kilni_cl_push_i64(&args, c->views[2].dims[1]);
    kilni_cl_push_i64(&args, kiln_op_attr_i64(exec->record, KILN_KEY_BLANK));
    kilni_cl_push_i64(&args, c->width);
    kilni_cl_push_i32(&args, c->backward ? 1 : 0);
    return launch_loss(exec, &args, dims[1]);
}

kiln_status kilni_exec_ctc(kilni_exec *exec)
{
    ctc c = {.backward = exec->record->op == KILN_OP_CTC_LOSS_BACKWARD};
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = 0; status == KILN_STATUS_OK && i < MAX_VIEWS; i++) {
        unsigned from = c.backward ? i : i == 0 ? 0 : i - 1;
        status = kilni_exec_dense(exec, &exec->inputs[from], &c.views[i]);
    }
    status = status == KILN_STATUS_OK ? ctc_memory(exec, &c) : status;
    return status == KILN_STATUS_OK ? ctc_launch(exec, &c) : status;
}

kiln_status kilni_exec_det(kilni_exec *exec)
{
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_buffer *work = NULL;
    kiln_view x;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kilni_exec_dense(exec, &exec->inputs[0], &x));
    int64_t size = (int64_t)kiln_dtype_size(kilni_exec_compute(x.dtype));
    KILN_TRY(out, status, kilni_exec_alloc(exec, kilni_exec_count(&x) * size, &work));
    KILN_TRY(out, status, begin(exec, "kiln_det", &options, &args));
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_buffer(&args, x.buffer);
    kilni_cl_push_buffer(&args, work);
    kilni_cl_push_i64(&args, kilni_exec_start(&exec->outputs[0]));
    kilni_cl_push_i64(&args, kilni_exec_start(&x));
    kilni_cl_push_i64(&args, x.dims[x.rank - 1]);
    KILN_TRY(out, status, launch_loss(exec, &args, kilni_exec_count(&exec->outputs[0])));
out:
    return status;
}
