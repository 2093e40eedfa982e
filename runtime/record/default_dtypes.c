// SPDX-License-Identifier: MIT OR Apache-2.0
// What is made where no dtype is named, and the handle that is the same device with f32 as its
// default float. Decides which default an operation takes; opening with other defaults is
// device_open.c's.

#include "rt_attrs.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_record.h"
#include "rt_tensor.h"

#include <string.h>

/// Of an operator that makes either kind: integers where all its numbers are some, and it has any.
static bool makes_integers(const kiln_op_info *info, const kiln_attr *attrs)
{
    bool numbers = false;
    if ((info->accept & KILN_KIND_FLOAT) == 0) {
        return (info->accept & KILN_KIND_INT) != 0;
    }
    for (size_t i = 0; i < info->signature->n_attrs; i++) {
        if (kiln_attr_type_of(info->signature->attrs[i].key) == KILN_ATTR_NUMBER) {
            numbers = true;
            if (attrs[i].type == KILN_ATTR_F64) {
                return false;
            }
        }
    }
    return numbers && (info->accept & KILN_KIND_INT) != 0;
}

void kilni_name_dtype(const kiln_device *handle, kiln_op op, const kiln_attr **attrs,
                      kiln_attr scratch[KILN_MAX_ATTRS])
{
    const kiln_op_info *info = kiln_op_info_of(op);
    const kiln_op_signature *signature = info->signature;
    if (info->result != KILN_RESULT_ATTR || op == KILN_OP_CAST) {
        return; // a cast to nothing in particular is an error
    }
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr *attr = &(*attrs)[i];
        bool open = attr->type == KILN_ATTR_NONE ||
                    (attr->type == KILN_ATTR_DTYPE && attr->v.i == KILN_DTYPE_NONE);
        if (signature->attrs[i].key == KILN_KEY_DTYPE && open) {
            memcpy(scratch, *attrs, signature->n_attrs * sizeof(*scratch));
            scratch[i] = kilni_attr_dtype(makes_integers(info, *attrs) ? handle->int_dtype
                                                                       : handle->float_dtype);
            *attrs = scratch;
            return;
        }
    }
}

// ---- the same device in full precision ----

kiln_status kiln_device_full_precision(kiln_device *device, kiln_device **out_device,
                                       kiln_error *err)
{
    if (out_device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_device must not be NULL");
    }
    *out_device = NULL;
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    kiln_device *core = kilni_core(device);
    if (core->float_dtype == KILN_DTYPE_F32) {
        *out_device = kiln_device_retain(core);
        return KILN_STATUS_OK;
    }
    pthread_mutex_lock(&core->lock);
    if (core->full == NULL) {
        core->full = kiln_alloc(&core->context->env, sizeof(*core->full));
        if (core->full != NULL) {
            core->full->core = core;
            core->full->float_dtype = KILN_DTYPE_F32;
            core->full->int_dtype = core->int_dtype;
        }
    }
    *out_device = kiln_device_retain(core->full);
    pthread_mutex_unlock(&core->lock);
    return *out_device != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a handle of a device");
}

// ---- tensors of numbers ----

/// Stores `numbers`, of which each comes from `at`, as elements of `dtype` and makes a tensor.
static kiln_status create(kiln_device *device, kiln_dtype dtype, size_t rank, const int64_t *dims,
                          const void *numbers, kiln_attr (*at)(const void *numbers, int64_t i),
                          kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor_desc desc;
    kiln_status status = kilni_describe(dtype, rank, dims, &desc, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int64_t count = kiln_desc_count(&desc);
    size_t size = kiln_dtype_size(dtype);
    const kiln_env *env = &kilni_core(device)->context->env;
    char *elements = kiln_alloc(env, count > 0 ? (size_t)count * size : 1);
    if (elements == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %lld numbers",
                         (long long)count);
    }
    for (int64_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        const kiln_attr number = at(numbers, i);
        if (!kiln_number_store(&number, dtype, elements + (size_t)i * size)) {
            status = kiln_fail(err, INVALID_ARGUMENT, "number %lld, %lld, is no %s", (long long)i,
                               (long long)number.v.i, kiln_dtype_name(dtype));
        }
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_tensor_create(device, dtype, rank, dims, elements, out_tensor, err);
    }
    kiln_free(env, elements);
    return status;
}

static kiln_attr float_at(const void *numbers, int64_t i)
{
    return kilni_attr_f64(((const double *)numbers)[i]);
}

static kiln_attr int_at(const void *numbers, int64_t i)
{
    return kilni_attr_i64(((const int64_t *)numbers)[i]);
}

kiln_status kiln_tensor_of_floats(kiln_device *device, size_t rank, const int64_t *dims,
                                  const double *numbers, kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    *out_tensor = NULL;
    if (device == NULL || numbers == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and numbers must not be NULL");
    }
    return create(device, device->float_dtype, rank, dims, numbers, float_at, out_tensor, err);
}

kiln_status kiln_tensor_of_ints(kiln_device *device, size_t rank, const int64_t *dims,
                                const int64_t *numbers, kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    *out_tensor = NULL;
    if (device == NULL || numbers == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and numbers must not be NULL");
    }
    return create(device, device->int_dtype, rank, dims, numbers, int_at, out_tensor, err);
}
