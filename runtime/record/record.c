// SPDX-License-Identifier: MIT OR Apache-2.0
// Recording: from a call to a thread's stream. Checks the call against the table at once, finds the
// stream, and hands what is ready to the executor. On the hot path of the library: nothing here
// searches or waits.

#include "record_internal.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_memory_account.h"
#include "rt_record.h"
#include "rt_streams.h"
#include "rt_tensor.h"
#include "rt_trace.h"

/// How many results a call may have. Custom operations say so themselves.
static size_t most_results(kiln_op op, const kiln_op_info *info)
{
    return op == KILN_OP_CUSTOM ? KILN_MAX_OUTPUTS : info != NULL ? info->n_outputs : 1;
}

static inline kiln_status check(kiln_device **handle, const kilni_op_call *call,
                                const kiln_op_info *info, kiln_tensor **out_tensors,
                                kiln_error *err)
{
    size_t n_results = most_results(call->op, info);
    kiln_tensor *const *inputs = call->inputs;
    size_t n_inputs = call->n_inputs;
    size_t n_attrs = call->n_attrs;
    if (out_tensors == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensors must not be NULL");
    }
    for (size_t i = 0; i < n_results; i++) {
        out_tensors[i] = NULL;
    }
    if (info == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "there is no operator with the number %d",
                         (int)call->op);
    }
    if (info->cls == KILN_CLASS_CONTROL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s is recorded by the runtime alone", info->name);
    }
    if (n_inputs > info->signature->max_inputs || n_inputs < info->signature->min_inputs) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s takes %u to %u inputs, not %zu", info->name,
                         info->signature->min_inputs, info->signature->max_inputs, n_inputs);
    }
    if (n_attrs != info->signature->n_attrs) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s has %u attributes, not %zu", info->name,
                         info->signature->n_attrs, n_attrs);
    }
    for (size_t i = 0; i < n_inputs; i++) {
        if (inputs[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s: input %zu is NULL", info->name, i);
        }
        *handle = *handle == NULL ? inputs[i]->handle : *handle;
        if (inputs[i]->device != kilni_core(*handle)) {
            return kiln_fail(
                err, FAILED_PRECONDITION,
                "%s: input %zu is on %s, the others on %s; move it with kiln_to_device", info->name,
                i, inputs[i]->device->address, kilni_core(*handle)->address);
        }
    }
    if (*handle == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s needs a device", info->name);
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_record_check(kiln_device **handle, const kilni_op_call *call,
                               kiln_tensor **out_tensors, kiln_error *err)
{
    return check(handle, call, kiln_op_info_of(call->op), out_tensors, err);
}

/// Before collective_sync of `tensor` is recorded: a device that cannot wait in its queue waits
/// here.
static kiln_status await_result(kiln_device *device, kiln_tensor *tensor, kiln_error *err)
{
    kilni_stream *stream = NULL;
    kiln_status status = KILN_STATUS_OK;
    if (kilni_device_has_user_events(device) || !tensor->unresolved) {
        return status;
    }
    KILN_TRY(out, status, kilni_stream_current(device, &stream, err));
    if (stream->capturing) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "%s cannot wait for a call in its queue, so a graph on it cannot have one",
                         device->address);
    }
    KILN_TRY(out, status, kilni_tensor_bind(tensor, err));
    status = kilni_binding_await(device, &tensor->binding, err);
out:
    return status;
}

kiln_status kilni_record_call(kiln_device *handle, kilni_op_call *call, kiln_tensor **out_tensors,
                              kiln_error *err)
{
    kiln_attr named[KILN_MAX_ATTRS];
    const kiln_op_info *info = kiln_op_info_of(call->op);
    size_t n_results = most_results(call->op, info);
    kiln_status status = check(&handle, call, info, out_tensors, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_name_dtype(handle, call->op, &call->attrs, named);
    kiln_device *device = kilni_core(handle);
    kilni_stream *stream = NULL;
    pthread_mutex_lock(&device->lock);
    uint64_t start_ns = kilni_trace_now(device);
    status = call->op == KILN_OP_COLLECTIVE_SYNC
                 ? await_result(device, call->inputs[0], err)
                 : kilni_await_futures(device, call->inputs, call->n_inputs, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_stream_current(device, &stream, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_stream_record(stream, call, out_tensors, err);
    }
    for (size_t i = 0; i < n_results && status == KILN_STATUS_OK; i++) {
        if (out_tensors[i] != NULL) {
            out_tensors[i]->handle = handle;
        }
    }
    kilni_trace_span(device, KILNI_SPAN_RECORD, info->name, start_ns);
    if (status == KILN_STATUS_OK && !stream->capturing) {
        // The operation is recorded whatever becomes of the planning of those before it. On the hot
        // path the record is not zeroed; a failure fills it.
        kiln_error later;
        later.struct_size = (uint32_t)sizeof(later);
        if (kilni_stream_run(stream, /*drain=*/false, &later) != KILN_STATUS_OK) {
            kiln_log_write(&device->context->env, KILN_LOG_WARN, "runtime", "planning: %s",
                           later.message);
        }
        if (kilni_under_pressure(&device->memory)) {
            kilni_run_for_memory(device);
        }
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

kiln_status kilni_tensor_drop(kiln_tensor *tensor, kilni_stream *stream, kiln_error *err)
{
    kiln_tensor_desc desc;
    void *token = tensor;
    kilni_tensor_snapshot(tensor, &desc);
    const kiln_op_record record = {.op = KILN_OP_DROP, .n_inputs = 1, .inputs = &desc};
    kiln_status status = kiln_fuse_stream_push(stream->queue, &record, &token, err);
    if (status == KILN_STATUS_OK) {
        stream->recorded++;
        kilni_tensor_pin(tensor, stream);
        kilni_tensor_unpend(tensor);
        if (!stream->capturing) {
            kilni_tensor_pend_free(tensor);
        }
    }
    return status;
}
