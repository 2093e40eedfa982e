// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a replayable stream on a device: inputs lie in memory as they did when it was recorded, the
// operations are recorded as a program would, drops included. What is fused is then up to the
// device. The files are ir's; comparing is whoever asked for it.

#include "rt_binding.h"
#include "rt_check.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_tensor.h"

#include <inttypes.h>
#include <string.h>

/// Elements from the start of the buffer to the end of the last; the replay was checked.
static int64_t span_of(const kiln_tensor_desc *desc, const kiln_replay_input *input)
{
    int64_t last = input->offset;
    for (unsigned i = 0; i < desc->rank; i++) {
        if (desc->dims[i] == 0) {
            return 0;
        }
        last += input->strides[i] > 0 ? (desc->dims[i] - 1) * input->strides[i] : 0;
    }
    return last + 1;
}

/// The dense elements where the strides want them; what lies between is zero.
static void scatter(const kiln_tensor_desc *desc, const kiln_replay_input *input,
                    unsigned char *out)
{
    size_t size = kiln_dtype_size(desc->dtype);
    int64_t count = kiln_desc_count(desc);
    int64_t index[KILN_MAX_RANK] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t at = input->offset;
        for (unsigned k = 0; k < desc->rank; k++) {
            at += index[k] * input->strides[k];
        }
        memcpy(out + (size_t)at * size, (const unsigned char *)input->data + (size_t)i * size,
               size);
        for (unsigned k = desc->rank; k-- > 0 && ++index[k] == desc->dims[k];) {
            index[k] = 0;
        }
    }
}

kiln_status kilni_replay_bind(kiln_device *device, const kiln_tensor_desc *desc,
                              const kiln_replay_input *input, kilni_binding *binding,
                              kiln_error *err)
{
    const kiln_env *env = &device->context->env;
    size_t size = kiln_dtype_size(desc->dtype);
    int64_t length = input->strided ? span_of(desc, input) * (int64_t)size : kiln_desc_bytes(desc);
    const kiln_tensor_desc memory = {.dtype = KILN_DTYPE_U8, .rank = 1, .dims = {length}};
    unsigned char *bytes = NULL;
    kiln_status status = kilni_binding_alloc(device, &memory, binding, err);
    binding->view = kiln_view_dense(desc, binding->view.buffer);
    if (status != KILN_STATUS_OK || length == 0) {
        return status;
    }
    if (input->strided) {
        bytes = kiln_alloc(env, (size_t)length);
        if (bytes == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %lld bytes of a replay",
                             (long long)length);
        }
        scatter(desc, input, bytes);
        binding->view.offset_bytes = input->offset * (int64_t)size;
        memcpy(binding->view.strides, input->strides, desc->rank * sizeof(input->strides[0]));
    }
    status =
        device->backend->transfer->upload(device->backend, binding->view.buffer, 0,
                                          bytes != NULL ? bytes : input->data, (size_t)length, err);
    kiln_free(env, bytes);
    return status;
}

static kiln_status make_strided(kiln_device *handle, const kiln_tensor_desc *from,
                                const kiln_replay_input *input, kiln_tensor **out_tensor,
                                kiln_error *err)
{
    kiln_tensor_desc desc;
    kiln_device *device = kilni_core(handle);
    kiln_status status = kilni_describe(from->dtype, from->rank, from->dims, &desc, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&device->lock);
    kiln_tensor *tensor = kilni_tensor_new(handle, &desc);
    status = tensor != NULL ? kilni_replay_bind(device, &desc, input, &tensor->binding, err)
                            : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor");
    pthread_mutex_unlock(&device->lock);
    if (status != KILN_STATUS_OK) {
        kiln_release(tensor);
        return status;
    }
    *out_tensor = tensor;
    return KILN_STATUS_OK;
}

static kiln_status make_input(kiln_device *device, const kiln_tensor_desc *desc,
                              const kiln_replay_input *input, kiln_tensor **out_tensor,
                              kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    if (input->data == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "input %%%" PRIu64 " has no data: kiln_replay_fill makes some", desc->id);
    }
    if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT) {
        status = kiln_tensor_create_quantised(device, desc->dtype, desc->scheme, desc->rank,
                                              desc->dims, input->data, out_tensor, err);
    } else if (input->strided) {
        status = make_strided(device, desc, input, out_tensor, err);
    } else {
        status = kiln_tensor_create(device, desc->dtype, desc->rank, desc->dims, input->data,
                                    out_tensor, err);
    }
    if (status == KILN_STATUS_OK && (desc->flags & KILN_TENSOR_CONST) != 0) {
        kiln_tensor_mark_constant(*out_tensor);
    }
    return status;
}

// ---- the stream ----

typedef struct held { ///< a tensor by its id in the file
    uint64_t id;
    kiln_tensor *tensor;
} held;

typedef struct replaying {
    kiln_device *device;
    held *tensors;
    size_t n_tensors;
} replaying;

static held *find_held(const replaying *r, uint64_t id)
{
    for (size_t i = r->n_tensors; i-- > 0;) { // the latest are the ones that are used
        if (r->tensors[i].id == id) {
            return &r->tensors[i];
        }
    }
    return NULL;
}

static kiln_status run_op(replaying *r, const kiln_op_record *record, kiln_error *err)
{
    kiln_tensor *inputs[KILN_MAX_INPUTS] = {NULL};
    kiln_tensor *outputs[KILN_MAX_OUTPUTS] = {NULL};
    for (unsigned i = 0; i < record->n_inputs; i++) {
        held *h = find_held(r, record->inputs[i].id);
        inputs[i] = h->tensor;
        if (record->op == KILN_OP_DROP) {
            kiln_release(h->tensor);
            h->tensor = NULL;
            return KILN_STATUS_OK;
        }
    }
    kiln_status status = kiln_record(r->device, record->op, inputs, record->n_inputs, record->attrs,
                                     record->n_attrs, outputs, err);
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_outputs; i++) {
        r->tensors[r->n_tensors++] = (held){record->outputs[i].id, outputs[i]};
    }
    return status;
}

static size_t count_tensors(const kiln_replay *replay)
{
    size_t count = replay->n_inputs + 1;
    for (size_t i = 0; i < kiln_ir_graph_op_count(replay->graph); i++) {
        count += kiln_ir_graph_op(replay->graph, i)->n_outputs;
    }
    return count;
}

static kiln_status run_all(replaying *r, const kiln_replay *replay, kiln_error *err)
{
    size_t n_inputs = 0, n_ops = kiln_ir_graph_op_count(replay->graph);
    const kiln_tensor_desc *descs = kiln_ir_graph_inputs(replay->graph, &n_inputs);
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < n_inputs && status == KILN_STATUS_OK; i++) {
        kiln_tensor *tensor = NULL;
        status = make_input(r->device, &descs[i], &replay->inputs[i], &tensor, err);
        if (status == KILN_STATUS_OK) {
            r->tensors[r->n_tensors++] = (held){descs[i].id, tensor};
        }
    }
    for (size_t i = 0; i < n_ops && status == KILN_STATUS_OK; i++) {
        status = run_op(r, kiln_ir_graph_op(replay->graph, i), err);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "operation %zu", i);
        }
    }
    return status;
}

kiln_status kiln_replay_run(kiln_device *device, const kiln_replay *replay,
                            kiln_tensor **out_tensors, kiln_error *err)
{
    if (device == NULL || replay == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and replay must not be NULL");
    }
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    size_t n_outputs = 0;
    const uint64_t *outputs = kiln_ir_graph_outputs(replay->graph, &n_outputs);
    replaying r = {.device = device};
    r.tensors = kiln_alloc_array(env, count_tensors(replay), sizeof(*r.tensors));
    if (r.tensors == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to run a replay");
    }
    kiln_status status = run_all(&r, replay, err);
    for (size_t i = 0; i < n_outputs && status == KILN_STATUS_OK; i++) {
        const held *h = find_held(&r, outputs[i]);
        out_tensors[i] = kiln_retain(h->tensor);
    }
    for (size_t i = 0; i < r.n_tensors; i++) {
        kiln_release(r.tensors[i].tensor);
    }
    kiln_free(env, r.tensors);
    return status;
}
