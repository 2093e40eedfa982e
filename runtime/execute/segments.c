// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs what streams have queued, segment after segment: asks for a plan, gives the tensors of the
// segment bindings, and lets go of what was pinned. Running a plan is plan_exec.c's.
#include "rt_binding.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_engines.h"
#include "rt_execute.h"
#include "rt_run.h"
#include "rt_streams.h"
#include "rt_tensor.h"
#include "rt_trace.h"

void kilni_segment_unpin(const kiln_fuse_segment *segment)
{
    for (uint32_t i = 0; i < segment->plan->n_ops; i++) {
        const kiln_op_record *record = &segment->ops[i];
        size_t n = (size_t)record->n_inputs + record->n_outputs;
        for (size_t k = 0; k < n; k++) {
            kilni_tensor_unpin(segment->operands[i][k]);
        }
    }
}

static kiln_status reserve_bindings(kiln_device *device, size_t count, kiln_error *err)
{
    if (count <= device->execution.bindings_capacity) {
        return KILN_STATUS_OK;
    }
    size_t capacity = count * 2;
    kilni_binding **bindings = kiln_realloc(&device->context->env, device->execution.bindings,
                                            device->execution.bindings_capacity * sizeof(*bindings),
                                            capacity * sizeof(*bindings));
    if (bindings == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu tensors of a segment", count);
    }
    device->execution.bindings = bindings;
    device->execution.bindings_capacity = capacity;
    return KILN_STATUS_OK;
}

/// A segment that cannot even be started: its results are failed tensors.
static void lose_segment(kiln_device *device, const kiln_fuse_segment *segment)
{
    for (uint32_t i = 0; i < segment->plan->n_tensors; i++) {
        kiln_tensor *tensor = segment->tokens[i];
        kilni_tensor_unpend(tensor);
        if (!tensor->binding.bound) {
            kilni_binding_fail(device, &tensor->binding, &device->faults.no_memory);
        }
    }
}

static uint64_t plans_searched(const kiln_fuse_engine *engine)
{
    kiln_fuse_stats stats = {0};
    kiln_fuse_engine_stats(engine, &stats);
    return stats.plans_searched;
}

static kiln_status find_plan(const kilni_stream *stream, bool drain, bool *out_searched,
                             const kiln_fuse_segment **out_segment, kiln_error *err)
{
    uint64_t start_ns = kilni_trace_now(stream->device);
    bool counts = start_ns != 0 || !stream->device->engines.settled;
    uint64_t before = counts ? plans_searched(stream->engine) : 0;
    kiln_status status = kiln_fuse_stream_next(stream->queue, drain, out_segment, err);
    *out_searched = counts && plans_searched(stream->engine) != before;
    if (start_ns != 0) {
        kilni_trace_span(stream->device, *out_searched ? KILNI_SPAN_SEARCH : KILNI_SPAN_PLAN, NULL,
                         start_ns);
    }
    return status;
}

kiln_status kilni_stream_next(kilni_stream *stream, bool drain,
                              const kiln_fuse_segment **out_segment, kiln_error *err)
{
    *out_segment = NULL;
    for (;;) { // twice at most
        bool searched = false;
        kiln_status status = kilni_engines_follow(stream, err);
        if (status == KILN_STATUS_OK) {
            status = find_plan(stream, drain, &searched, out_segment, err);
        }
        if (status != KILN_STATUS_OK || *out_segment == NULL ||
            kilni_engines_settled(stream, *out_segment, searched)) {
            return status;
        }
        kiln_fuse_stream_return(stream->queue, *out_segment);
        *out_segment = NULL;
    }
}

kiln_status kilni_stream_run(kilni_stream *stream, bool drain, kiln_error *err)
{
    kiln_device *device = stream->device;
    for (;;) {
        const kiln_fuse_segment *segment = NULL;
        kiln_status status = kilni_stream_next(stream, drain, &segment, err);
        if (status != KILN_STATUS_OK || segment == NULL) {
            return status;
        }
        status = reserve_bindings(device, segment->plan->n_tensors, err);
        if (status != KILN_STATUS_OK) {
            lose_segment(device, segment);
            kilni_segment_unpin(segment);
            kiln_fuse_stream_done(stream->queue, segment);
            return status;
        }
        for (uint32_t i = 0; i < segment->plan->n_tensors; i++) {
            kiln_tensor *tensor = segment->tokens[i];
            tensor->slot = i;
            kilni_tensor_unpend(tensor);
            device->execution.bindings[i] = &tensor->binding;
        }
        kilni_run run = {.device = device,
                         .engine = stream->engine,
                         .segment = segment,
                         .bindings = device->execution.bindings};
        device->memory.persistent = stream->persistent > 0;
        kilni_stats_show(device);
        uint64_t start_ns = kilni_trace_now(device);
        kilni_plan_run(&run);
        kilni_trace_span(device, KILNI_SPAN_RUN, "segment", start_ns);
        device->memory.persistent = false;
        kilni_segment_unpin(segment);
        kiln_fuse_stream_done(stream->queue, segment);
        kilni_block_programs_relieve(device);
    }
}

kiln_status kilni_device_drain(kiln_device *device, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (kilni_stream *s = device->streams.first; s != NULL && status == KILN_STATUS_OK;
         s = s->next) {
        if (!s->capturing) {
            status = kilni_stream_run(s, /*drain=*/true, err);
        }
    }
    return status;
}
