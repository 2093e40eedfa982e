// SPDX-License-Identifier: MIT OR Apache-2.0
// Layouts for people and tools: the memory of a graph as a whole, by value and by step. Decides
// what is counted where; nothing here changes a layout.

#include "memory_internal.h"
#include "rt_arena.h"
#include "rt_device.h"

#include <string.h>

/// Under the lock. NULL: none, and why.
static const kilni_layout *layout_of(const kiln_graph *graph, const kiln_fuse_segment **out_segment,
                                     kiln_error *err)
{
    const kiln_fuse_segment *segment = kilni_graph_segment(graph);
    const kiln_device *device = kilni_graph_device(graph);
    *out_segment = segment;
    const kilni_layout *layout =
        segment != NULL ? kilni_layout_of(segment->plan, segment->symbols) : NULL;
    if (layout == NULL) {
        (void)kiln_fail(err, FAILED_PRECONDITION,
                        device->arena.off
                            ? "%s does not plan memory"
                            : "the memory of a graph on %s is known after its first run",
                        device->address);
    }
    return layout;
}

static void copy_out(void *target, uint32_t struct_size, const void *source, size_t size)
{
    memcpy(target, source, struct_size < size ? struct_size : size);
}

kiln_status kiln_graph_memory_get(const kiln_graph *graph, kiln_graph_memory *out_memory,
                                  kiln_error *err)
{
    if (out_memory == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_memory must not be NULL");
    }
    if (graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph must not be NULL");
    }
    kiln_graph_memory memory = {.struct_size = out_memory->struct_size};
    const kiln_fuse_segment *segment = NULL;
    kiln_device *device = kilni_graph_device(graph);
    pthread_mutex_lock(&device->lock);
    const kilni_layout *layout = layout_of(graph, &segment, err);
    if (layout != NULL) {
        memory.steps = layout->n_steps;
        memory.values = layout->n_values;
        memory.values_planned = layout->n_planned;
        memory.values_in_place = layout->n_in_place;
        memory.bound_bytes = layout->bound_bytes;
        memory.peak_bytes = layout->arena_bytes + layout->result_bytes;
        memory.arena_bytes = layout->arena_bytes;
        memory.result_bytes = layout->result_bytes;
        memory.all_bytes = layout->all_bytes;
    }
    pthread_mutex_unlock(&device->lock);
    if (layout == NULL) {
        return KILN_STATUS_FAILED_PRECONDITION;
    }
    copy_out(out_memory, memory.struct_size, &memory, sizeof(memory));
    return KILN_STATUS_OK;
}

static kiln_memory_kind kind_of(const kilni_layout *layout, uint32_t number)
{
    const kilni_value *value = &layout->values[number];
    if (value->slot != KILNI_NO_VALUE) {
        return KILN_MEMORY_TENSOR;
    }
    return number >= layout->scratch_of[0] ? KILN_MEMORY_SCRATCH : KILN_MEMORY_TEMPORARY;
}

kiln_status kiln_graph_memory_value_get(const kiln_graph *graph, uint32_t index,
                                        kiln_graph_memory_value *out_value, kiln_error *err)
{
    if (out_value == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_value must not be NULL");
    }
    if (graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph must not be NULL");
    }
    kiln_graph_memory_value shown = {.struct_size = out_value->struct_size};
    const kiln_fuse_segment *segment = NULL;
    kiln_device *device = kilni_graph_device(graph);
    pthread_mutex_lock(&device->lock);
    const kilni_layout *layout = layout_of(graph, &segment, err);
    kiln_status status = layout != NULL ? KILN_STATUS_OK : KILN_STATUS_FAILED_PRECONDITION;
    if (layout != NULL && index >= layout->n_values) {
        status = kiln_fail(err, NOT_FOUND, "there are %u values; number %u does not exist",
                           layout->n_values, index);
    }
    if (status == KILN_STATUS_OK) {
        const kilni_value *value = &layout->values[index];
        const kilni_object *object = &layout->objects[value->object];
        shown.kind = kind_of(layout, index);
        shown.home = value->kept ? KILN_MEMORY_KEPT : (kiln_memory_home)object->home;
        shown.first_step = value->first;
        shown.last_step = value->lives ? layout->n_steps : value->last;
        shown.in_place = value->took;
        shown.bytes = value->bytes;
        shown.offset_bytes = object->offset;
        shown.tensor = value->slot;
    }
    pthread_mutex_unlock(&device->lock);
    if (status == KILN_STATUS_OK) {
        copy_out(out_value, shown.struct_size, &shown, sizeof(shown));
    }
    return status;
}

static const char *name_of(const kiln_fuse_segment *segment, uint32_t index)
{
    const kiln_plan_step *step = &segment->plan->steps[index];
    if (step->kind == KILN_STEP_HOST_OP) {
        return kiln_op_info_of(segment->ops[step->index].op)->name;
    }
    return segment->plan->blocks[step->block].program->launches[step->index].kernel;
}

static void sum_up(const kilni_layout *layout, uint32_t step, kiln_graph_memory_step *shown)
{
    for (uint32_t i = 0; i < layout->n_values; i++) {
        const kilni_value *value = &layout->values[i];
        const kilni_object *object = &layout->objects[i];
        if (value->kept) {
            continue;
        }
        bool alive = value->first <= step && step <= value->last;
        if (value->slot != KILNI_NO_VALUE) {
            shown->written_bytes += value->first == step ? value->bytes : 0;
        } else {
            shown->temporary_bytes += alive ? value->bytes : 0;
        }
        if (!value->took && object->first <= step && step <= object->last) {
            shown->live_bytes += object->bytes;
        }
    }
}

kiln_status kiln_graph_memory_step_get(const kiln_graph *graph, uint32_t index,
                                       kiln_graph_memory_step *out_step, kiln_error *err)
{
    if (out_step == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_step must not be NULL");
    }
    if (graph == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "graph must not be NULL");
    }
    kiln_graph_memory_step shown = {.struct_size = out_step->struct_size};
    const kiln_fuse_segment *segment = NULL;
    kiln_device *device = kilni_graph_device(graph);
    pthread_mutex_lock(&device->lock);
    const kilni_layout *layout = layout_of(graph, &segment, err);
    kiln_status status = layout != NULL ? KILN_STATUS_OK : KILN_STATUS_FAILED_PRECONDITION;
    if (layout != NULL && index >= layout->n_steps) {
        status = kiln_fail(err, NOT_FOUND, "there are %u steps; number %u does not exist",
                           layout->n_steps, index);
    }
    if (status == KILN_STATUS_OK) {
        shown.block = segment->plan->steps[index].block;
        shown.name = name_of(segment, index);
        sum_up(layout, index, &shown);
    }
    pthread_mutex_unlock(&device->lock);
    if (status == KILN_STATUS_OK) {
        copy_out(out_step, shown.struct_size, &shown, sizeof(shown));
    }
    return status;
}
