// SPDX-License-Identifier: MIT OR Apache-2.0
// Graphs: what a thread records between begin and end is one segment that is kept, and described.
// Running it, for these shapes and others, is graph_specialisation.c's.

#include "graph_parts.h"
#include "kiln_explained.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_record.h"
#include "rt_streams.h"
#include "rt_tensor.h"
#include "rt_trace.h"

#include <string.h>

// ---- capture ----

static void unlist(kiln_device *device, kilni_stream *stream)
{
    kilni_stream **link = &device->streams.first;
    while (*link != NULL && *link != stream) {
        link = &(*link)->next;
    }
    if (*link == stream) {
        *link = stream->next;
        device->streams.count--;
    }
    device->streams.current = NULL;
}

/// Holds on tensors, in an array of their own. NULL: no memory.
static kiln_tensor **hold_all(kiln_device *device, kiln_tensor *const *tensors, size_t count)
{
    kiln_tensor **held = kiln_alloc_array(kilni_graph_env(device), count + 1, sizeof(*held));
    for (size_t i = 0; held != NULL && i < count; i++) {
        held[i] = kiln_retain(tensors[i]);
    }
    return held;
}

kiln_status kiln_graph_begin(kiln_device *device, kiln_tensor *const *inputs, size_t n_inputs,
                             kiln_error *err)
{
    device = kilni_core(device);
    if (device == NULL || (inputs == NULL && n_inputs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and inputs must not be NULL");
    }
    kiln_status status = kilni_graph_check_tensors(device, inputs, n_inputs, "input", err);
    for (size_t i = 0; i < n_inputs * n_inputs && status == KILN_STATUS_OK; i++) {
        if (i / n_inputs < i % n_inputs && inputs[i / n_inputs] == inputs[i % n_inputs]) {
            status = kiln_fail(err, INVALID_ARGUMENT, "inputs %zu and %zu are the same tensor",
                               i / n_inputs, i % n_inputs);
        }
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_stream *stream = NULL;
    pthread_mutex_lock(&device->lock);
    if (kilni_graph_find_capture(device, kiln_thread_id()) != NULL) {
        status = kiln_fail(err, FAILED_PRECONDITION, "this thread captures a graph already");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_graph_place_inputs(device, inputs, n_inputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_stream_create(device, /*whole=*/true, &stream, err);
    }
    if (status == KILN_STATUS_OK) {
        stream->inputs = hold_all(device, inputs, n_inputs);
        stream->n_inputs = n_inputs;
        kilni_stream_enlist(stream);
    }
    pthread_mutex_unlock(&device->lock);
    if (status == KILN_STATUS_OK && stream->inputs == NULL) {
        kiln_graph_cancel(device);
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a capture");
    }
    return status;
}

void kiln_graph_cancel(kiln_device *device)
{
    if (device == NULL) {
        return;
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kilni_stream *stream = kilni_graph_find_capture(device, kiln_thread_id());
    kiln_tensor **inputs = stream != NULL ? stream->inputs : NULL;
    kiln_tensor **carried = stream != NULL ? stream->carried : NULL;
    size_t n_inputs = stream != NULL ? stream->n_inputs : 0;
    if (stream != NULL) {
        unlist(device, stream);
        kilni_stream_destroy(stream);
    }
    pthread_mutex_unlock(&device->lock);
    kilni_graph_release_all(device, inputs, n_inputs);
    kilni_graph_release_all(device, carried, n_inputs);
}

static kiln_status check_outputs(const kilni_stream *stream, kiln_tensor *const *outputs,
                                 size_t n_outputs, kiln_error *err)
{
    for (size_t i = 0; i < n_outputs; i++) {
        bool captured_here = outputs[i]->captured && outputs[i]->stream == stream->id;
        if (!captured_here && !outputs[i]->binding.bound) {
            return kiln_fail(err, INVALID_ARGUMENT, "output %zu was not captured", i);
        }
    }
    return KILN_STATUS_OK;
}

/// Which outputs are inputs: they are passed on.
static kiln_status find_passed(kiln_graph *graph, const kilni_stream *stream,
                               kiln_tensor *const *outputs, kiln_error *err)
{
    graph->input_of = kiln_alloc_array(kilni_graph_env(graph->device), graph->n_outputs + 1,
                                       sizeof(*graph->input_of));
    if (graph->input_of == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph's outputs");
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        stream->inputs[i]->slot = UINT32_MAX;
    }
    for (size_t i = 0; i < graph->n_outputs; i++) {
        outputs[i]->slot = UINT32_MAX;
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        stream->inputs[i]->slot = (uint32_t)i;
    }
    for (size_t i = 0; i < graph->n_outputs; i++) {
        uint32_t input = outputs[i]->slot;
        graph->input_of[i] = input != UINT32_MAX ? input : graph->n_inputs;
    }
    return KILN_STATUS_OK;
}

/// Holds on all results: outputs, and the next values of what is carried.
static kiln_tensor **hold_results(const kiln_graph *graph, kiln_tensor *const *outputs,
                                  kiln_tensor *const *next)
{
    kiln_tensor **held = kiln_alloc_array(kilni_graph_env(graph->device),
                                          kilni_graph_results(graph) + 1, sizeof(*held));
    for (size_t i = 0; held != NULL && i < graph->n_outputs; i++) {
        size_t input = graph->input_of[i];
        held[i] = kiln_retain(input < graph->n_inputs ? graph->specialisations->inputs[input]
                                                      : outputs[i]);
    }
    for (uint32_t k = 0; held != NULL && k < graph->n_carries; k++) {
        held[graph->n_outputs + k] = kiln_retain(next[graph->carries[k].input]);
    }
    return held;
}

kiln_status kiln_graph_end(kiln_device *device, kiln_tensor *const *outputs, size_t n_outputs,
                           kiln_graph **out_graph, kiln_error *err)
{
    if (out_graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_graph must not be NULL");
    }
    *out_graph = NULL;
    if (device == NULL || (outputs == NULL && n_outputs > 0)) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and outputs must not be NULL");
    }
    device = kilni_core(device);
    kiln_status status = kilni_graph_check_tensors(device, outputs, n_outputs, "output", err);
    kiln_graph *graph = kiln_alloc(kilni_graph_env(device), sizeof(*graph));
    if (status == KILN_STATUS_OK && graph == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph");
    }
    kiln_tensor **inputs = NULL;
    kiln_tensor **carried = NULL;
    pthread_mutex_lock(&device->lock);
    if (status == KILN_STATUS_OK) {
        status = kilni_await_futures(device, outputs, n_outputs, err);
    }
    kilni_stream *stream = kilni_graph_find_capture(device, kiln_thread_id());
    if (status == KILN_STATUS_OK && stream == NULL) {
        status = kiln_fail(err, FAILED_PRECONDITION, "this thread captures no graph");
    }
    if (status == KILN_STATUS_OK) {
        status = check_outputs(stream, outputs, n_outputs, err);
    }
    if (status == KILN_STATUS_OK) {
        graph->device = kiln_device_retain(device);
        graph->n_inputs = stream->n_inputs;
        graph->n_outputs = n_outputs;
        graph->fixed = stream->fixed;
        status = find_passed(graph, stream, outputs, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_carry_adopt(graph, stream->carried, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_carry_record(stream, err);
    }
    if (status == KILN_STATUS_OK) {
        inputs = stream->inputs;
        carried = stream->carried;
        stream->inputs = NULL;
        stream->carried = NULL;
        unlist(device, stream);
        status = kilni_graph_specialisation_create(device, stream, &graph->specialisations, err);
        if (status == KILN_STATUS_OK) {
            status = kilni_graph_stand_in(graph, inputs, err);
        }
        if (status == KILN_STATUS_OK) {
            graph->specialisations->outputs = hold_results(graph, outputs, carried);
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (inputs != NULL || carried != NULL) {
        kilni_graph_release_all(device, inputs, graph->n_inputs);
        kilni_graph_release_all(device, carried, graph->n_inputs);
    }
    if (status == KILN_STATUS_OK &&
        (graph->specialisations == NULL || graph->specialisations->outputs == NULL)) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a graph's outputs");
    }
    if (status != KILN_STATUS_OK) {
        kiln_graph_cancel(device);
        if (graph != NULL && graph->device != NULL) {
            kiln_graph_destroy(graph);
        } else {
            kiln_free(kilni_graph_env(device), graph);
        }
        return status;
    }
    *out_graph = graph;
    return KILN_STATUS_OK;
}

void kiln_graph_fix_shapes(kiln_device *device)
{
    if (device == NULL) {
        return;
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    kilni_stream *stream = kilni_graph_find_capture(device, kiln_thread_id());
    if (stream != NULL) {
        stream->fixed = true;
    }
    pthread_mutex_unlock(&device->lock);
}

bool kiln_graph_is_capturing(kiln_device *device)
{
    if (device == NULL) {
        return false;
    }
    device = kilni_core(device);
    pthread_mutex_lock(&device->lock);
    bool captures = kilni_graph_find_capture(device, kiln_thread_id()) != NULL;
    pthread_mutex_unlock(&device->lock);
    return captures;
}

void kiln_graph_destroy(kiln_graph *graph)
{
    if (graph == NULL) {
        return;
    }
    kiln_device *device = graph->device;
    while (graph->specialisations != NULL) {
        kilni_graph_specialisation *spec = graph->specialisations;
        graph->specialisations = spec->next;
        kilni_graph_specialisation_free(graph, spec);
    }
    kiln_free(kilni_graph_env(device), graph->input_of);
    kiln_free(kilni_graph_env(device), graph->carry_of);
    kiln_free(kilni_graph_env(device), graph->carries);
    kiln_free(kilni_graph_env(device), graph);
    kiln_device_release(device);
}

// ---- description ----

static uint64_t count_open(const kiln_graph *graph)
{
    const kiln_fuse_segment *segment = graph->specialisations->segment;
    kiln_fuse_contender known[KILN_FUSE_MAX_CONTENDERS] = {{0}};
    uint64_t count = 0;
    for (uint32_t i = 0; segment != NULL && i < segment->plan->n_blocks; i++) {
        count += kiln_fuse_contenders(graph->specialisations->stream->engine, segment->plan, i,
                                      known, KILN_FUSE_MAX_CONTENDERS) > 0;
    }
    return count;
}

void kiln_graph_info_get(const kiln_graph *graph, kiln_graph_info *out_info)
{
    if (graph == NULL || out_info == NULL) {
        return;
    }
    kiln_graph_info info = {.struct_size = out_info->struct_size};
    pthread_mutex_lock(&graph->device->lock);
    const kiln_fuse_segment *segment = graph->specialisations->segment;
    for (uint32_t i = 0; segment != NULL && i < segment->plan->n_ops; i++) {
        info.ops += kiln_op_info_of(segment->ops[i].op)->cls != KILN_CLASS_CONTROL;
    }
    for (uint32_t i = 0; segment != NULL && i < segment->plan->n_blocks; i++) {
        const kiln_plan_block *block = &segment->plan->blocks[i];
        if (kilni_plan_block_failed(block)) {
            info.blocks_failed++;
            continue;
        }
        info.blocks++;
        for (uint32_t k = 0; k < block->n_ops; k++) {
            kiln_op op = segment->ops[block->ops[k]].op;
            info.ops_fused += kiln_op_info_of(op)->cls != KILN_CLASS_CONTROL;
        }
    }
    info.blocks_open = count_open(graph);
    info.steps = segment != NULL ? segment->plan->n_steps : 0;
    pthread_mutex_unlock(&graph->device->lock);
    size_t size = info.struct_size < sizeof(info) ? info.struct_size : sizeof(info);
    memcpy(out_info, &info, size);
}

/// Which tensors are inputs and outputs of the graph, and what its steps took.
static void complete(kiln_graph *graph, kiln_explanation *out)
{
    const kilni_graph_specialisation *spec = graph->specialisations;
    for (uint32_t i = 0; i < out->n_tensors; i++) {
        const kiln_tensor *tensor = spec->segment->tokens[i];
        for (size_t k = 0; k < graph->n_inputs; k++) {
            out->tensors[i].input = spec->inputs[k] == tensor ? (uint32_t)k : out->tensors[i].input;
        }
        for (size_t k = 0; k < graph->n_outputs; k++) {
            out->tensors[i].output =
                spec->outputs[k] == tensor ? (uint32_t)k : out->tensors[i].output;
        }
    }
    kilni_step_time *times =
        kiln_alloc_array(kilni_graph_env(graph->device), out->n_steps + 1u, sizeof(*times));
    if (times != NULL && kilni_trace_times(graph->device, spec->segment->plan, times)) {
        uint64_t first = UINT64_MAX;
        for (uint32_t i = 0; i < out->n_steps; i++) {
            first = times[i].runs > 0 && times[i].start_ns < first ? times[i].start_ns : first;
        }
        for (uint32_t i = 0; i < out->n_steps; i++) {
            kiln_explained_step *step = &out->steps[i];
            step->runs = times[i].runs;
            step->measured_ns = (double)times[i].median_ns;
            step->last_ns = (double)times[i].last_ns;
            step->start_ns = times[i].runs > 0 ? (double)(times[i].start_ns - first) : 0;
        }
    }
    kiln_free(kilni_graph_env(graph->device), times);
}

kiln_status kiln_graph_explained(kiln_graph *graph, kiln_explanation *out_explanation,
                                 kiln_error *err)
{
    if (out_explanation == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_explanation must not be NULL");
    }
    if (graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph must not be NULL");
    }
    kiln_device *device = graph->device;
    kiln_status status = KILN_STATUS_OK;
    *out_explanation = (kiln_explanation){0};
    pthread_mutex_lock(&device->lock);
    if (graph->specialisations->segment != NULL) {
        status = kiln_fuse_explain_collect(graph->specialisations->stream->engine,
                                           graph->specialisations->segment, out_explanation, err);
        if (status == KILN_STATUS_OK) {
            complete(graph, out_explanation);
        }
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

void kiln_graph_explained_fini(kiln_explanation *explanation)
{
    if (explanation != NULL) {
        kiln_explanation_fini(explanation);
    }
}

/// The assignment, where there is one; else what the steps need.
static uint32_t print_memory(const kiln_graph *graph, uint32_t flags, const kiln_explanation *of,
                             kiln_string *out)
{
    kiln_graph_memory m = KILN_GRAPH_MEMORY_INIT;
    if ((flags & KILN_EXPLAIN_MEMORY) == 0 ||
        kiln_graph_memory_get(graph, &m, NULL) != KILN_STATUS_OK) {
        return flags;
    }
    kiln_string_printf(out,
                       "memory: %llu bytes: arena %llu, results %llu; liveness needs %llu, without "
                       "sharing %llu\n",
                       (unsigned long long)m.peak_bytes, (unsigned long long)m.arena_bytes,
                       (unsigned long long)m.result_bytes, (unsigned long long)m.bound_bytes,
                       (unsigned long long)m.all_bytes);
    kiln_string_printf(out,
                       "    %u values, %u assigned with the plan, %u in place; besides, %llu of "
                       "inputs and constants\n",
                       m.values, m.values_planned, m.values_in_place,
                       (unsigned long long)of->resident_bytes);
    return flags & ~(uint32_t)KILN_EXPLAIN_MEMORY;
}

kiln_status kiln_graph_explain(kiln_graph *graph, uint32_t flags, char **out_text, kiln_error *err)
{
    if (out_text == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_text must not be NULL");
    }
    *out_text = NULL;
    if (graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph must not be NULL");
    }
    kiln_explanation explanation;
    kiln_string text;
    kiln_string_init(&text, kilni_graph_env(graph->device));
    kiln_status status = kiln_graph_explained(graph, &explanation, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_string_append(&text, "", 0);
    kiln_string memory;
    kiln_string_init(&memory, kilni_graph_env(graph->device));
    flags = print_memory(graph, flags, &explanation, &memory);
    kiln_explanation_print(&explanation, flags, &text);
    kiln_string_append(&text, memory.length > 0 ? memory.text : "", memory.length);
    kiln_explanation_fini(&explanation);
    text.failed = text.failed || memory.failed;
    kiln_string_fini(&memory);
    if (text.failed) {
        kiln_string_fini(&text);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the explanation");
    }
    *out_text = text.text;
    return KILN_STATUS_OK;
}
