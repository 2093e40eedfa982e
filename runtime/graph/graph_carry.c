// SPDX-License-Identifier: MIT OR Apache-2.0
// What a graph carries from run to run: results that become the next values of inputs. Decides
// which inputs a run may write over: those that nobody but the caller holds, mentions or gave
// twice; the others keep their values, and the caller gets tensors of the next ones instead.

#include "graph_parts.h"
#include "rt_binding.h"
#include "rt_device.h"
#include "rt_record.h"
#include "rt_streams.h"
#include "rt_tensor.h"

static size_t input_number(const kilni_stream *stream, const kiln_tensor *tensor)
{
    size_t i = 0;
    while (i < stream->n_inputs && stream->inputs[i] != tensor) {
        i++;
    }
    return i;
}

static kiln_status check_carry(const kilni_stream *stream, const kiln_tensor *input,
                               const kiln_tensor *next, kiln_error *err)
{
    size_t i = input_number(stream, input);
    if (i == stream->n_inputs) {
        return kiln_fail(err, INVALID_ARGUMENT, "the tensor is no input of this capture");
    }
    if (stream->carried != NULL && stream->carried[i] != NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %zu has a next value already", i);
    }
    if (kilni_core(next->device) != stream->device || !next->captured ||
        next->stream != stream->id) {
        return kiln_fail(err, INVALID_ARGUMENT, "the next value of input %zu was not captured", i);
    }
    if (kiln_tensor_dtype(next) != kiln_tensor_dtype(input) ||
        next->desc.scheme != input->desc.scheme ||
        !kiln_desc_same_shape(&next->desc, &input->desc)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the next value of input %zu has another shape, dtype or scheme", i);
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_graph_carry(kiln_device *device, kiln_tensor *input, kiln_tensor *next,
                             kiln_error *err)
{
    device = kilni_core(device);
    if (device == NULL || input == NULL || next == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device, input and next must not be NULL");
    }
    pthread_mutex_lock(&device->lock);
    kilni_stream *stream = kilni_graph_find_capture(device, kiln_thread_id());
    kiln_status status = KILN_STATUS_OK;
    if (stream == NULL) {
        status = kiln_fail(err, FAILED_PRECONDITION, "this thread captures no graph");
    } else {
        status = check_carry(stream, input, next, err);
    }
    if (status == KILN_STATUS_OK && stream->carried == NULL) {
        stream->carried =
            kiln_alloc_array(kilni_graph_env(device), stream->n_inputs, sizeof(kiln_tensor *));
        if (stream->carried == NULL) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a capture");
        }
    }
    if (status == KILN_STATUS_OK) {
        stream->carried[input_number(stream, input)] = kiln_retain(next);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

// ---- at the end of a capture ----

kiln_status kilni_carry_record(kilni_stream *stream, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; stream->carried != NULL && i < stream->n_inputs; i++) {
        if (stream->carried[i] != NULL && status == KILN_STATUS_OK) {
            status = kilni_tensor_drop(stream->inputs[i], stream, err);
        }
    }
    return status;
}

kiln_status kilni_carry_adopt(kiln_graph *graph, kiln_tensor *const *next, kiln_error *err)
{
    const kiln_env *env = kilni_graph_env(graph->device);
    graph->carry_of = kiln_alloc_array(env, graph->n_inputs + 1, sizeof(*graph->carry_of));
    graph->carries = kiln_alloc_array(env, graph->n_inputs + 1, sizeof(*graph->carries));
    if (graph->carry_of == NULL || graph->carries == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph's carried values");
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        graph->carry_of[i] = UINT32_MAX;
        if (next != NULL && next[i] != NULL) {
            graph->carry_of[i] = graph->n_carries;
            graph->carries[graph->n_carries++].input = (uint32_t)i;
        }
    }
    for (size_t i = 0; i < graph->n_outputs; i++) {
        size_t input = graph->input_of[i];
        if (input < graph->n_inputs && graph->carry_of[input] != UINT32_MAX) {
            graph->carries[graph->carry_of[input]].passed_on = true;
        }
    }
    return KILN_STATUS_OK;
}

// ---- runs ----

/// Whether the caller's hold is all that there is of the tensor.
static bool is_alone(const kilni_carry *carry, const kiln_tensor *tensor)
{
    return !carry->passed_on && tensor->binding.fault == NULL && atomic_load(&tensor->refs) == 1 &&
           tensor->pins == 0;
}

/// An input that was given twice is written over by nobody.
static void refuse_twins(kiln_graph *graph, kiln_tensor *const *tensors)
{
    for (size_t i = 0; i < graph->n_inputs; i++) {
        tensors[i]->slot = UINT32_MAX;
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        uint32_t first = tensors[i]->slot;
        uint32_t both[] = {graph->carry_of[i],
                           first != UINT32_MAX ? graph->carry_of[first] : UINT32_MAX};
        for (size_t k = 0; k < 2 && first != UINT32_MAX; k++) {
            if (both[k] != UINT32_MAX) {
                graph->carries[both[k]].in_place = false;
            }
        }
        tensors[i]->slot = first != UINT32_MAX ? first : (uint32_t)i;
    }
}

kiln_status kilni_carry_prepare(kiln_graph *graph, const kilni_graph_specialisation *spec,
                                kiln_tensor *const *tensors, kiln_error *err)
{
    for (uint32_t k = 0; k < graph->n_carries; k++) {
        kilni_carry *carry = &graph->carries[k];
        const kiln_tensor *next = spec->outputs[graph->n_outputs + k];
        carry->in_place = is_alone(carry, tensors[carry->input]) &&
                          kiln_desc_same_shape(&tensors[carry->input]->desc, &next->desc);
    }
    refuse_twins(graph, tensors);
    for (uint32_t k = 0; k < graph->n_carries; k++) {
        kilni_carry *carry = &graph->carries[k];
        if (carry->in_place) {
            continue;
        }
        carry->other = kilni_tensor_new(tensors[carry->input]->handle,
                                        &spec->outputs[graph->n_outputs + k]->desc);
        if (carry->other == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor's record");
        }
        carry->other->desc.small = tensors[carry->input]->desc.small;
    }
    return KILN_STATUS_OK;
}

void kilni_carry_take(kiln_graph *graph, kiln_tensor *const *tensors)
{
    for (uint32_t k = 0; k < graph->n_carries; k++) {
        if (graph->carries[k].in_place) {
            kilni_binding_clear(graph->device, &tensors[graph->carries[k].input]->binding);
        }
    }
}

void kilni_carry_give(kiln_graph *graph, uint32_t k, const kilni_binding *binding,
                      kiln_tensor **tensors)
{
    kilni_carry *carry = &graph->carries[k];
    kiln_tensor **tensor = &tensors[carry->input];
    if (carry->in_place) {
        kilni_tensor_renew(*tensor, binding);
        return;
    }
    kiln_tensor *before = *tensor;
    kilni_tensor_settle(carry->other, binding);
    *tensor = carry->other;
    carry->other = before;
}

void kilni_carry_release(kiln_graph *graph)
{
    for (uint32_t k = 0; k < graph->n_carries; k++) {
        kiln_tensor *other = graph->carries[k].other;
        graph->carries[k].other = NULL;
        kiln_release(other);
    }
}
