// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators of plugins that the device has no kernel for: their inputs come to the host, where the
// plugin computes, and their results go back.

#include "rt_context.h"
#include "rt_device.h"
#include "rt_execute.h"

/// Host memory for the part of a buffer that a view touches; offsets count from its start.
static kiln_status fetch(kiln_device *device, kiln_view *view, kiln_host_memory *out_memory,
                         bool read, kiln_error *err)
{
    int64_t begin = 0;
    int64_t end = 0;
    if (view->buffer == NULL) {
        return KILN_STATUS_OK;
    }
    kiln_view_extent(view, &begin, &end);
    out_memory->bytes = (size_t)(end - begin);
    out_memory->data = kiln_alloc(&device->context->env, out_memory->bytes + 1);
    if (out_memory->data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no host memory for %zu bytes",
                         out_memory->bytes);
    }
    kiln_backend *backend = device->backend;
    kiln_status status = !read || out_memory->bytes == 0
                             ? KILN_STATUS_OK
                             : backend->transfer->read(backend, view->buffer, (size_t)begin,
                                                       out_memory->data, out_memory->bytes, err);
    view->offset_bytes -= begin;
    return status;
}

kiln_status kilni_custom_on_host(kiln_device *device, const kiln_op_record *record,
                                 const kiln_view *inputs, const kiln_view *outputs, kiln_error *err)
{
    kiln_view views[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {{0}};
    kiln_host_memory memory[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {{0}};
    size_t n_inputs = record->n_inputs;
    size_t count = n_inputs + record->n_outputs;
    kiln_backend *backend = device->backend;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        views[i] = i < n_inputs ? inputs[i] : outputs[i - n_inputs];
        status = fetch(device, &views[i], &memory[i], /*read=*/i < n_inputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_reference_run(record, views, views + n_inputs, memory, err);
    }
    for (size_t i = n_inputs; status == KILN_STATUS_OK && i < count; i++) {
        const kiln_view *to = &outputs[i - n_inputs];
        if (memory[i].bytes > 0) {
            status = backend->transfer->upload(backend, to->buffer, (size_t)to->offset_bytes,
                                               memory[i].data, memory[i].bytes, err);
        }
    }
    for (size_t i = 0; i < count; i++) {
        kiln_free(&device->context->env, memory[i].data);
    }
    return status;
}
