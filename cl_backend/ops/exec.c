// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs one operation, products that a BLAS library takes on it and all others with Kiln's own
// kernels: finds its launcher in kernels.def, refuses what the
// device cannot do, and sees to it that no kernel reads memory that it has already overwritten. How
// an operator becomes launches is in exec_*.c.
#include <inttypes.h>

#include "exec_internal.h"

kilni_exec_fn kilni_exec_launcher(kiln_op op)
{
    switch (op) {
#define KILN_KERNEL(id, launcher)                                                                  \
    case KILN_OP_##id:                                                                             \
        return launcher;
#include "kernels.def"
#undef KILN_KERNEL
    default:
        return NULL;
    }
}

const uint8_t *kilni_cl_op_launches(void)
{
    static const uint8_t launches[KILN_OP_COUNT] = {
#define KILN_KERNEL(id, launcher) [KILN_OP_##id] = 1,
#define KILN_KERNELS(id, count, launcher) [KILN_OP_##id] = count,
#include "kernels.def"
#undef KILN_KERNEL
    };
    return launches;
}

bool kilni_cl_has_kernel(kiln_op op)
{
    return kilni_exec_launcher(op) != NULL;
}

static const char *op_name(const kiln_op_record *record)
{
    const kiln_op_info *info = kiln_op_info_of(record->op);
    return info != NULL ? info->name : "unknown operator";
}

static kiln_status check_views(const kilni_exec *exec)
{
    const kiln_op_record *record = exec->record;
    bool fp64 = (exec->backend->info.features & KILN_FEATURE_FP64) != 0;
    bool moves_only = record->op == KILN_OP_CONTIGUOUS || record->op == KILN_OP_CONCAT ||
                      kiln_op_info_of(record->op)->cls == KILN_CLASS_VIEW;
    for (unsigned i = 0; i < (unsigned)record->n_inputs + record->n_outputs; i++) {
        const kiln_view *view =
            i < record->n_inputs ? &exec->inputs[i] : &exec->outputs[i - record->n_inputs];
        kiln_dtype dtype = view->dtype;
        if (dtype == KILN_DTYPE_F64 && !fp64 && !moves_only) {
            return kiln_fail(exec->err, UNIMPLEMENTED, "%s of f64: %s has no double precision",
                             op_name(record), exec->backend->info.name);
        }
        int64_t size = (int64_t)kiln_dtype_size(dtype);
        if (view->offset_bytes % (size > 0 ? size : 4) != 0) {
            return kiln_fail(exec->err, INVALID_ARGUMENT,
                             "%s: a tensor of %s starts at byte %" PRId64, op_name(record),
                             kiln_dtype_name(dtype), view->offset_bytes);
        }
    }
    return KILN_STATUS_OK;
}

static bool overlaps(const kiln_view *a, const kiln_view *b)
{
    int64_t a_begin = 0;
    int64_t a_end = 0;
    int64_t b_begin = 0;
    int64_t b_end = 0;
    if (a->buffer == NULL || a->buffer != b->buffer) {
        return false;
    }
    kiln_view_extent(a, &a_begin, &a_end);
    kiln_view_extent(b, &b_begin, &b_end);
    return a_begin < b_end && b_begin < a_end;
}

/// Whether element i of the input lies where element i of the output does.
static bool same_places(const kiln_view *input, const kiln_view *output)
{
    if (input->offset_bytes != output->offset_bytes || input->rank != output->rank ||
        kiln_dtype_size(input->dtype) != kiln_dtype_size(output->dtype)) {
        return false;
    }
    for (uint32_t i = 0; i < input->rank; i++) {
        bool same_stride = input->dims[i] == 1 || input->strides[i] == output->strides[i];
        if (input->dims[i] != output->dims[i] || !same_stride) {
            return false;
        }
    }
    return true;
}

/// Some operations may write over an operand element by element; the others may not at all.
static bool needs_own_output(const kilni_exec *exec)
{
    uint32_t givers = kiln_op_givers(exec->record);
    for (unsigned i = 0; i < exec->record->n_inputs; i++) {
        if (overlaps(&exec->inputs[i], &exec->outputs[0]) &&
            !(i < givers && same_places(&exec->inputs[i], &exec->outputs[0]))) {
            return true;
        }
    }
    return false;
}

/// Runs into scratch memory, then copies over the output.
static kiln_status run_aside(kilni_exec *exec, kilni_exec_fn launcher)
{
    kiln_view aside = exec->outputs[0];
    const kiln_view *outputs = exec->outputs;
    int64_t bytes = kilni_exec_count(&aside) * (int64_t)kiln_dtype_size(aside.dtype);
    kiln_status status = kilni_exec_alloc(exec, bytes, &aside.buffer);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    aside.offset_bytes = 0;
    exec->outputs = &aside;
    status = launcher(exec);
    exec->outputs = outputs;
    return status == KILN_STATUS_OK ? kilni_exec_copy(exec, &aside, &outputs[0]) : status;
}

static bool is_empty(const kiln_op_record *record, const kiln_view *outputs)
{
    for (unsigned i = 0; i < record->n_outputs; i++) {
        if (kilni_exec_count(&outputs[i]) > 0) {
            return false;
        }
    }
    return true;
}

kiln_status kilni_cl_execute_own(kilni_cl_backend *backend, const kiln_op_record *record,
                                 const kiln_view *inputs, const kiln_view *outputs, kiln_error *err)
{
    kilni_exec exec = {
        .backend = backend, .record = record, .inputs = inputs, .outputs = outputs, .err = err};
    kilni_exec_fn launcher = kilni_exec_launcher(record->op);
    if (launcher == NULL) {
        kiln_dtype dtype = record->n_inputs > 0 ? inputs[0].dtype : KILN_DTYPE_NONE;
        const char *name = kiln_dtype_name(dtype);
        return kiln_fail(err, UNIMPLEMENTED, "%s of %s: the OpenCL backend has no kernel for it",
                         op_name(record), name != NULL ? name : "nothing");
    }
    kiln_status status = check_views(&exec);
    if (status != KILN_STATUS_OK || is_empty(record, outputs)) {
        return status;
    }
    status = needs_own_output(&exec) ? run_aside(&exec, launcher) : launcher(&exec);
    kilni_exec_free_scratch(&exec);
    return status;
}

kiln_status kilni_cl_execute(kilni_cl_backend *backend, const kiln_op_record *record,
                             const kiln_view *inputs, const kiln_view *outputs, kiln_error *err)
{
    bool done = false;
    kiln_status status = KILN_STATUS_OK;
    if (record->op == KILN_OP_MATMUL && !kiln_ir_is_small_batch(&backend->info, record)) {
        status = kilni_cl_blas_matmul(backend, record, inputs, outputs, &done, err);
    }
    return status != KILN_STATUS_OK || done
               ? status
               : kilni_cl_execute_own(backend, record, inputs, outputs, err);
}
