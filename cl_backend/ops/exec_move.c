// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators that move elements or make them from nothing: views as copies, concat, pad, full,
// arange. All but arange and the mirrored pads are copies and fills of exec_elementwise.c on parts
// of the result.
#include <string.h>

#include "exec_internal.h"
#include "move_args.h"

/// A reshape that strides cannot express: both sides in the input's shape, the output being dense.
static kiln_status copy_in_order(kilni_exec *exec)
{
    kiln_tensor_desc desc = {.dtype = exec->inputs[0].dtype, .rank = (uint8_t)exec->inputs[0].rank};
    memcpy(desc.dims, exec->inputs[0].dims, sizeof(desc.dims));
    kiln_view target = kiln_view_dense(&desc, exec->outputs[0].buffer);
    target.offset_bytes = exec->outputs[0].offset_bytes;
    return kilni_exec_copy(exec, &exec->inputs[0], &target);
}

kiln_status kilni_exec_view(kilni_exec *exec)
{
    kiln_view source;
    if (!kiln_view_apply(exec->record, &exec->inputs[0], &source)) {
        return copy_in_order(exec);
    }
    return kilni_exec_copy(exec, &source, &exec->outputs[0]);
}

kiln_status kilni_exec_concat(kilni_exec *exec)
{
    kiln_view part = exec->outputs[0];
    uint32_t axis = kilni_exec_axis(exec, part.rank);
    int64_t size = (int64_t)kiln_dtype_size(part.dtype);
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = 0; status == KILN_STATUS_OK && i < exec->record->n_inputs; i++) {
        part.dims[axis] = exec->inputs[i].dims[axis];
        if (part.dims[axis] > 0) {
            status = kilni_exec_copy(exec, &exec->inputs[i], &part);
        }
        part.offset_bytes += part.dims[axis] * part.strides[axis] * size;
    }
    return status;
}

static kiln_status fill_with(kilni_exec *exec, kiln_attr_key key)
{
    uint64_t value = 0;
    uint32_t bytes = 0;
    kiln_status status = kilni_exec_number(exec, key, exec->outputs[0].dtype, true, &value, &bytes);
    return status == KILN_STATUS_OK ? kilni_exec_fill(exec, value, &exec->outputs[0]) : status;
}

kiln_status kilni_exec_full(kilni_exec *exec)
{
    return fill_with(exec, KILN_KEY_VALUE);
}

kiln_status kilni_exec_arange(kilni_exec *exec)
{
    kiln_dtype dtype = exec->outputs[0].dtype;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    uint64_t start = 0;
    uint64_t step = 0;
    uint32_t bytes = 0;
    int64_t first = kilni_exec_start(&exec->outputs[0]);
    int64_t count = exec->outputs[0].dims[0];
    int64_t each = kilni_exec_is_block(exec) ? 4096 : 1;
    kiln_status status = kilni_exec_number(exec, KILN_KEY_START, dtype, false, &start, &bytes);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_number(exec, KILN_KEY_STEP, dtype, false, &step, &bytes);
    }
    if (status == KILN_STATUS_OK) {
        kilni_exec_define_dtype(&options, "O", dtype);
        status = kilni_exec_kernel(exec, "arange.cl", "kiln_arange", &options, &args);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_buffer(&args, exec->outputs[0].buffer);
    kilni_cl_push_i64(&args, first);
    kilni_cl_push_i64(&args, count);
    kilni_cl_push_i64(&args, each);
    kilni_cl_push_bytes(&args, &start, bytes);
    kilni_cl_push_bytes(&args, &step, bytes);
    return kilni_exec_launch(exec, &args, kilni_exec_ceil_div(count, each), 256);
}

kiln_status kilni_exec_drop(kilni_exec *exec)
{
    (void)exec;
    return KILN_STATUS_OK;
}

// ---- pad ----

/// The part of the input that negative padding leaves, and where it lies in the output.
static void pad_parts(const kilni_exec *exec, kiln_view *out_kept, kiln_view *out_place)
{
    int64_t size = (int64_t)kiln_dtype_size(out_kept->dtype);
    for (uint32_t i = 0; i < out_kept->rank; i++) {
        int64_t begin = kilni_exec_list(exec, KILN_KEY_PADDING, i, 0);
        int64_t end = kilni_exec_list(exec, KILN_KEY_PADDING, out_kept->rank + i, 0);
        int64_t cut = begin < 0 ? -begin : 0;
        out_kept->dims[i] += (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
        out_kept->offset_bytes += cut * out_kept->strides[i] * size;
        out_place->offset_bytes += (begin > 0 ? begin : 0) * out_place->strides[i] * size;
        out_place->dims[i] = out_kept->dims[i];
    }
}

static kiln_status pad_mirrored(kilni_exec *exec, const kiln_view *kept, bool reflect)
{
    const kiln_view *out = &exec->outputs[0];
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    kiln_pad_shape s = {.rank = out->rank, .count = kilni_exec_count(out)};
    s.each = kilni_exec_is_block(exec) ? 1024 : 1;
    s.out_start = kilni_exec_start(out);
    s.in_start = kilni_exec_start(kept);
    for (uint32_t i = 0; i < out->rank; i++) {
        int64_t begin = kilni_exec_list(exec, KILN_KEY_PADDING, i, 0);
        s.dims[i] = out->dims[i];
        s.kept[i] = kept->dims[i];
        s.begin[i] = begin > 0 ? begin : 0;
        s.strides[i] = kept->strides[i];
    }
    kilni_exec_define_dtype(&options, "O", kilni_exec_raw(out->dtype));
    kilni_exec_define(&options, "REFLECT", reflect ? 1 : 0);
    kiln_status status = kilni_exec_kernel(exec, "pad.cl", "kiln_pad", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    kilni_cl_push_buffer(&args, out->buffer);
    kilni_cl_push_buffer(&args, kept->buffer);
    return kilni_exec_launch(exec, &args, kilni_exec_ceil_div(s.count, s.each), 256);
}

kiln_status kilni_exec_pad(kilni_exec *exec)
{
    const kiln_attr *mode = kiln_op_attr(exec->record, KILN_KEY_MODE);
    const char *text = mode->type == KILN_ATTR_STRING ? mode->v.text : "constant";
    kiln_view kept = exec->inputs[0];
    kiln_view place = exec->outputs[0];
    pad_parts(exec, &kept, &place);
    bool same_shape = memcmp(kept.dims, exec->outputs[0].dims, sizeof(kept.dims)) == 0;
    if (strcmp(text, "constant") != 0 && !same_shape) {
        return pad_mirrored(exec, &kept, strcmp(text, "reflect") == 0);
    }
    kiln_status status = same_shape ? KILN_STATUS_OK : fill_with(exec, KILN_KEY_VALUE);
    if (status == KILN_STATUS_OK && kilni_exec_count(&kept) > 0) {
        status = kilni_exec_copy(exec, &kept, &place);
    }
    return status;
}

/// Of a group of one; the calls of larger ones are started in the runtime.
kiln_status kilni_exec_collective(kilni_exec *exec)
{
    const kiln_op_record *record = exec->record;
    if (record->op == KILN_OP_ALL_REDUCE && record->attrs[1].v.i != 0) {
        return kiln_fail(exec->err, FAILED_PRECONDITION,
                         "all_reduce: group %lld is not known where this runs; 0 is the device "
                         "alone",
                         (long long)record->attrs[1].v.i);
    }
    return kilni_exec_copy(exec, &exec->inputs[0], &exec->outputs[0]);
}
