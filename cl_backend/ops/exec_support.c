// SPDX-License-Identifier: MIT OR Apache-2.0
// What all launchers need: numbers and attributes in the kernels' terms, scratch memory, compiler
// options and the launch itself. Axes are exec_shape.c's. Nothing here knows an operator.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec_internal.h"

// ---- devices and numbers ----

bool kilni_exec_is_block(const kilni_exec *exec)
{
    return !kiln_device_has_groups(&exec->backend->info);
}

kiln_dtype kilni_exec_compute(kiln_dtype dtype)
{
    switch (dtype) {
    case KILN_DTYPE_BOOL:
    case KILN_DTYPE_I8:
    case KILN_DTYPE_I16:
        return KILN_DTYPE_I32;
    case KILN_DTYPE_U8:
    case KILN_DTYPE_U16:
        return KILN_DTYPE_U32;
    case KILN_DTYPE_F16:
    case KILN_DTYPE_BF16:
        return KILN_DTYPE_F32;
    default:
        return dtype;
    }
}

/// On CPUs one register of 64 bytes, where built-in functions give the same bits at 8 and 16
/// elements; on GPUs one load of 16 bytes.
uint32_t kilni_exec_vector(const kilni_exec *exec, kiln_dtype dtype)
{
    uint32_t bytes = kilni_exec_is_block(exec) ? 64 : 16;
    return bytes / (uint32_t)kiln_dtype_size(kilni_exec_compute(dtype));
}

kiln_dtype kilni_exec_raw(kiln_dtype dtype)
{
    switch (kiln_dtype_size(dtype)) {
    case 1:
        return KILN_DTYPE_U8;
    case 2:
        return KILN_DTYPE_U16;
    case 4:
        return KILN_DTYPE_U32;
    default:
        return KILN_DTYPE_U64;
    }
}

int64_t kilni_exec_count(const kiln_view *view)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < view->rank; i++) {
        count *= view->dims[i];
    }
    return count;
}

int64_t kilni_exec_start(const kiln_view *view)
{
    return view->offset_bytes / (int64_t)kiln_dtype_size(view->dtype);
}

int64_t kilni_exec_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

uint32_t kilni_exec_axis(const kilni_exec *exec, uint32_t rank)
{
    int64_t axis = kiln_op_attr_i64(exec->record, KILN_KEY_AXIS);
    return (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
}

uint32_t kilni_exec_axes(const kilni_exec *exec, uint32_t rank)
{
    const kiln_attr *axes = kiln_op_attr(exec->record, KILN_KEY_AXES);
    uint32_t count = axes->type == KILN_ATTR_I64_LIST ? axes->count : 0;
    uint32_t mask = count == 0 ? (1u << rank) - 1 : 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = axes->v.ints[i];
        mask |= 1u << (axis < 0 ? axis + (int64_t)rank : axis);
    }
    return mask;
}

int64_t kilni_exec_list(const kilni_exec *exec, kiln_attr_key key, uint32_t i, int64_t fallback)
{
    const kiln_attr *list = kiln_op_attr(exec->record, key);
    return list->type == KILN_ATTR_I64_LIST && i < list->count ? list->v.ints[i] : fallback;
}

/// The element in storage becomes a number of the type of computation.
static uint64_t widen(const unsigned char *element, kiln_dtype dtype)
{
    uint64_t bits = 0;
    uint16_t half = 0;
    float wide = 0;
    size_t size = kiln_dtype_size(dtype);
    memcpy(&bits, element, size);
    if (dtype == KILN_DTYPE_F16 || dtype == KILN_DTYPE_BF16) {
        memcpy(&half, element, sizeof(half));
        wide = dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(half) : kiln_bf16_to_f32(half);
        bits = 0;
        memcpy(&bits, &wide, sizeof(wide));
    } else if (kiln_dtype_kind_of(dtype) == KILN_KIND_INT && size < 8 &&
               (bits >> (8 * size - 1) & 1u) != 0) {
        bits |= UINT64_MAX << (8 * size);
    }
    return bits;
}

kiln_status kilni_exec_number(const kilni_exec *exec, kiln_attr_key key, kiln_dtype dtype, bool raw,
                              uint64_t *out_value, uint32_t *out_bytes)
{
    unsigned char element[8] = {0};
    kiln_attr number = *kiln_op_attr(exec->record, key);
    if (number.type == KILN_ATTR_NONE) {
        number.type = KILN_ATTR_F64;
        number.count = 1;
        number.v.f = kiln_op_attr_f64(exec->record, key);
    }
    if (!kiln_number_store(&number, dtype, element)) {
        return kiln_fail(exec->err, INVALID_ARGUMENT, "%s: attribute %s is no value of %s",
                         kiln_op_info_of(exec->record->op)->name, kiln_attr_name(key),
                         kiln_dtype_name(dtype));
    }
    *out_bytes = (uint32_t)kiln_dtype_size(kilni_exec_compute(raw ? kilni_exec_raw(dtype) : dtype));
    *out_value = widen(element, raw ? kilni_exec_raw(dtype) : dtype);
    return KILN_STATUS_OK;
}

// ---- memory ----

kiln_status kilni_exec_alloc(kilni_exec *exec, int64_t bytes, kiln_buffer **out_buffer)
{
    if (exec->n_scratch == KILNI_EXEC_SCRATCH) {
        return kiln_fail(exec->err, INTERNAL, "one operation asks for more than %d scratch buffers",
                         KILNI_EXEC_SCRATCH);
    }
    kiln_status status =
        kilni_cl_alloc(exec->backend, bytes > 0 ? (size_t)bytes : 1, out_buffer, exec->err);
    if (status != KILN_STATUS_OK) {
        const char *name = kiln_op_info_of(exec->record->op)->name;
        (void)kiln_error_context(exec->err, "temporary memory of %s", name);
        return status;
    }
    exec->scratch[exec->n_scratch++] = *out_buffer;
    return status;
}

void kilni_exec_free_scratch(kilni_exec *exec)
{
    for (uint32_t i = 0; i < exec->n_scratch; i++) {
        kilni_cl_free(exec->backend, exec->scratch[i]);
    }
    exec->n_scratch = 0;
}

kiln_view kilni_exec_axis_last(const kiln_view *view, uint32_t axis)
{
    kiln_view turned = *view;
    for (uint32_t i = axis; i + 1 < view->rank; i++) {
        turned.dims[i] = view->dims[i + 1];
        turned.strides[i] = view->strides[i + 1];
    }
    turned.dims[view->rank - 1] = view->dims[axis];
    turned.strides[view->rank - 1] = view->strides[axis];
    return turned;
}

kiln_status kilni_exec_result(kilni_exec *exec, const kiln_view *target, kiln_view *out_view)
{
    kiln_tensor_desc desc = {.dtype = target->dtype, .rank = (uint8_t)target->rank};
    *out_view = *target;
    if (kiln_view_is_contiguous(target)) {
        return KILN_STATUS_OK;
    }
    memcpy(desc.dims, target->dims, sizeof(desc.dims));
    *out_view = kiln_view_dense(&desc, NULL);
    return kilni_exec_alloc(exec, kiln_desc_bytes(&desc), &out_view->buffer);
}

// ---- kernels ----

static void append(kilni_exec_options *options, const char *text)
{
    size_t room = sizeof(options->text) - options->length;
    size_t length = strlen(text);
    if (length < room) {
        memcpy(options->text + options->length, text, length + 1);
        options->length += length;
    } else {
        options->length = sizeof(options->text); // too long: the launch says so
    }
}

void kilni_exec_define_text(kilni_exec_options *options, const char *name, const char *value)
{
    append(options, options->length > 0 ? " -DKILN_" : "-DKILN_");
    append(options, name);
    append(options, "=");
    append(options, value);
}

void kilni_exec_define(kilni_exec_options *options, const char *name, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    kilni_exec_define_text(options, name, text);
}

void kilni_exec_define_operator(kilni_exec_options *options, const char *prefix, const char *name)
{
    kilni_exec_define_text(options, "OP", prefix);
    append(options, name);
}

void kilni_exec_define_dtype(kilni_exec_options *options, const char *name, kiln_dtype dtype)
{
    kilni_exec_define_text(options, name, kiln_dtype_name(dtype));
}

kiln_status kilni_exec_kernel(kilni_exec *exec, const char *file, const char *kernel,
                              const kilni_exec_options *options, kilni_cl_args *out_args)
{
    kilni_cl_kernel_key key = {.file = file, .defines = options->text, .kernel = kernel};
    kilni_cl_kernel *found = NULL;
    if (options->length >= sizeof(options->text)) {
        return kiln_fail(exec->err, INTERNAL, "%s: the compiler options are too long", kernel);
    }
    kiln_status status = kilni_cl_kernel_get(exec->backend, &key, &found, exec->err);
    if (status == KILN_STATUS_OK) {
        *out_args = kilni_cl_args_begin(exec->backend, found);
    }
    return status;
}

kiln_status kilni_exec_launch(kilni_exec *exec, kilni_cl_args *args, int64_t items, size_t group)
{
    size_t local = kilni_exec_is_block(exec) ? 1 : group;
    size_t global = (size_t)kilni_exec_ceil_div(items, (int64_t)local) * local;
    return kilni_cl_enqueue(args, 1, &global, &local, exec->err);
}
