// SPDX-License-Identifier: MIT OR Apache-2.0
// Mixed precision: products of f32 that compute in f16 or bf16, on the threads that ask for it.
// Which operators these are says the operator table. Each becomes casts of its operands, the
// product, and a cast of the result; so all else, reductions and norms above all, stays in f32, and
// observers learn of what is computed.

#include "attr_make.h"
#include "record_internal.h"
#include "rt_device.h"
#include "rt_threads.h"

static bool has_f32(const kilni_op_call *call)
{
    bool has = false;
    for (size_t i = 0; i < call->n_inputs; i++) {
        has = has || (call->inputs[i] != NULL && call->inputs[i]->desc.dtype == KILN_DTYPE_F32);
    }
    return has;
}

kiln_dtype kilni_product_dtype(const kilni_op_call *call)
{
    if (call->n_inputs == 0 || call->inputs[0] == NULL ||
        kiln_op_precision_of(call->op) != KILN_PRECISION_PRODUCT) {
        return KILN_DTYPE_NONE;
    }
    kiln_device *device = call->inputs[0]->device;
    if (atomic_load_explicit(&device->n_mixed, memory_order_relaxed) == 0 || !has_f32(call)) {
        return KILN_DTYPE_NONE;
    }
    pthread_mutex_lock(&device->lock);
    const kilni_thread *thread = kilni_thread_find(device, kiln_thread_id());
    kiln_dtype dtype = thread != NULL ? thread->products : KILN_DTYPE_NONE;
    pthread_mutex_unlock(&device->lock);
    return dtype;
}

static kiln_status cast_operand(kiln_device *handle, kiln_tensor *x, kiln_dtype dtype,
                                kiln_tensor **out_tensor, kiln_error *err)
{
    const kiln_attr attr = kilni_attr_dtype(dtype);
    kilni_op_call call = {KILN_OP_CAST, 0, &x, 1, &attr, 1};
    return kilni_record_any(handle, &call, out_tensor, err);
}

/// Casts of f32 to `dtype`; the others as they are. The caller releases them.
static kiln_status narrow(kiln_device *handle, const kilni_op_call *call, kiln_dtype dtype,
                          kiln_tensor **out_inputs, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < call->n_inputs && status == KILN_STATUS_OK; i++) {
        kiln_tensor *x = call->inputs[i];
        if (x != NULL && x->desc.dtype == KILN_DTYPE_F32) {
            status = cast_operand(handle, x, dtype, &out_inputs[i], err);
        } else {
            out_inputs[i] = kiln_retain(x);
        }
    }
    return status;
}

kiln_status kilni_record_product(kiln_device *handle, const kilni_op_call *call, kiln_dtype dtype,
                                 kiln_tensor **out_tensors, kiln_error *err)
{
    kiln_tensor *inputs[KILN_MAX_INPUTS] = {NULL};
    kiln_tensor *made = NULL;
    kiln_status status = KILN_STATUS_OK;
    if (out_tensors == NULL || call->n_inputs > KILN_MAX_INPUTS) {
        return kiln_fail(err, INVALID_ARGUMENT, "a product of %zu inputs, or without a result",
                         call->n_inputs);
    }
    *out_tensors = NULL;
    kilni_op_call narrowed = *call;
    narrowed.inputs = inputs;
    KILN_TRY(out, status, narrow(handle, call, dtype, inputs, err));
    KILN_TRY(out, status, kilni_record_any(handle, &narrowed, &made, err));
    KILN_TRY(out, status, cast_operand(handle, made, KILN_DTYPE_F32, out_tensors, err));
out:
    for (size_t i = 0; i < call->n_inputs; i++) {
        kiln_release(inputs[i]);
    }
    kiln_release(made);
    return status;
}

static kiln_status check_dtype(kiln_device *handle, kiln_dtype dtype, kiln_error *err)
{
    if (dtype != KILN_DTYPE_F32 && dtype != KILN_DTYPE_F16 && dtype != KILN_DTYPE_BF16) {
        const char *name = kiln_dtype_name(dtype);
        return kiln_fail(err, INVALID_ARGUMENT,
                         "products of f32 compute in f16, bf16 or f32, not in %s",
                         name != NULL ? name : "no dtype");
    }
    if ((kiln_device_dtype_usage(handle, dtype) & KILN_USAGE_STORAGE) == 0) {
        return kiln_fail(err, UNIMPLEMENTED, "%s has no %s", kiln_device_address(handle),
                         kiln_dtype_name(dtype));
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_products_in(kiln_device *handle, kiln_dtype dtype, kiln_dtype *out_before,
                             kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    kiln_status status = check_dtype(handle, dtype, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_dtype own = dtype == KILN_DTYPE_F32 ? KILN_DTYPE_NONE : dtype;
    pthread_mutex_lock(&device->lock);
    kilni_thread *thread = kilni_thread_get(device, kiln_thread_id());
    if (thread == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to choose a dtype");
    } else {
        kiln_dtype before = thread->products;
        thread->products = own;
        atomic_fetch_add(&device->n_mixed, own != KILN_DTYPE_NONE ? 1 : 0);
        atomic_fetch_sub(&device->n_mixed, before != KILN_DTYPE_NONE ? 1 : 0);
        if (out_before != NULL) {
            *out_before = before == KILN_DTYPE_NONE ? KILN_DTYPE_F32 : before;
        }
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
