// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocks as replayable streams: a block of a plan with its inputs becomes one, and one runs on the
// device beside the program, planned by the engine as any other, between guard words. This is what
// a wrong block is reduced with.

#include "rt_binding.h"
#include "rt_check.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_guards.h"
#include "rt_run.h"
#include "rt_tensor.h"

#include <string.h>

// ---- from a block ----

/// The elements in row-major order, from the bytes that were saved.
static void gather(const kilni_check_input *input, const kiln_tensor_desc *desc, unsigned char *out)
{
    const kiln_view *view = &input->binding->view;
    size_t size = kiln_dtype_size(desc->dtype);
    int64_t count = kiln_desc_count(desc);
    int64_t index[KILN_MAX_RANK] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t at = view->offset_bytes - input->begin;
        for (unsigned k = 0; k < desc->rank; k++) {
            at += index[k] * view->strides[k] * (int64_t)size;
        }
        memcpy(out + (size_t)i * size, input->raw + at, size);
        for (unsigned k = desc->rank; k-- > 0 && ++index[k] == desc->dims[k];) {
            index[k] = 0;
        }
    }
}

static kiln_status describe_input(kilni_check *check, const kilni_check_input *input,
                                  const kiln_tensor_desc *desc, kiln_replay_input *out,
                                  kiln_error *err)
{
    const kiln_view *view = &input->binding->view;
    size_t bytes = (size_t)kiln_desc_bytes(desc);
    bool packed = kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT;
    unsigned char *data = kiln_arena_alloc(&check->arena, bytes + 1);
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an input's elements");
    }
    *out = (kiln_replay_input){.data = data, .bytes = bytes};
    if (packed) {
        memcpy(data, input->raw, bytes);
    } else if (bytes > 0) {
        gather(input, desc, data);
        out->strided = view->offset_bytes != 0 || !kiln_view_is_contiguous(view);
        out->offset = view->offset_bytes / (int64_t)kiln_dtype_size(desc->dtype);
        memcpy(out->strides, view->strides, desc->rank * sizeof(out->strides[0]));
    }
    return KILN_STATUS_OK;
}

/// A tensor of the segment under the stream's number.
static kiln_tensor_desc renumber(const kilni_check *check, uint32_t slot)
{
    kiln_tensor_desc desc = check->run->segment->tensors[slot];
    desc.id = (uint64_t)slot + 1;
    desc.flags &= KILN_TENSOR_CONST;
    desc.align_log2 = 0;
    return desc;
}

static bool is_of_block(const kilni_check *check, uint32_t op, uint32_t slot)
{
    for (uint32_t at = 0; at < check->block->n_ops && check->block->ops[at] < op; at++) {
        const kiln_op_record *record = &check->run->segment->ops[check->block->ops[at]];
        size_t operands = (size_t)record->n_inputs + record->n_outputs;
        for (size_t i = 0; record->op != KILN_OP_DROP && i < operands; i++) {
            const kiln_tensor *tensor = check->run->segment->operands[check->block->ops[at]][i];
            if (tensor->slot == slot) {
                return true;
            }
        }
    }
    return false;
}

static kiln_status append_ops(const kilni_check *check, kiln_ir_graph *graph, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t at = 0; at < check->block->n_ops && status == KILN_STATUS_OK; at++) {
        uint32_t op = check->block->ops[at];
        kiln_op_record record = check->run->segment->ops[op];
        kiln_tensor_desc descs[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
        for (size_t i = 0; i < (size_t)record.n_inputs + record.n_outputs; i++) {
            const kiln_tensor *tensor = check->run->segment->operands[op][i];
            descs[i] = renumber(check, tensor->slot);
        }
        record.inputs = descs;
        record.outputs = descs + record.n_inputs;
        if (record.op != KILN_OP_DROP || is_of_block(check, op, (uint32_t)descs[0].id - 1)) {
            status = kiln_ir_graph_append(graph, &record, err);
        }
    }
    return status;
}

static kiln_status set_io(kilni_check *check, kiln_ir_graph *graph, kiln_replay_input *memory,
                          kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor_desc *inputs =
        kiln_arena_alloc(&check->arena, (check->n_inputs + 1) * sizeof(*inputs));
    uint64_t *outputs = kiln_arena_alloc(&check->arena, (check->n_outputs + 1) * sizeof(*outputs));
    if (inputs == NULL || outputs == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a stream");
    }
    for (size_t i = 0; i < check->n_inputs && status == KILN_STATUS_OK; i++) {
        inputs[i] = renumber(check, check->inputs[i].slot);
        status = describe_input(check, &check->inputs[i], &inputs[i], &memory[i], err);
    }
    for (size_t i = 0; i < check->n_outputs; i++) {
        outputs[i] = (uint64_t)check->outputs[i] + 1;
    }
    if (status == KILN_STATUS_OK) {
        status =
            kiln_ir_graph_set_io(graph, inputs, check->n_inputs, outputs, check->n_outputs, err);
    }
    return status == KILN_STATUS_OK ? kiln_ir_graph_verify(graph, err) : status;
}

kiln_status kilni_check_make_stream(kilni_check *check, kiln_error *err)
{
    kiln_ir_graph *graph = NULL;
    kiln_replay_input *memory =
        kiln_arena_alloc(&check->arena, (check->n_inputs + 1) * sizeof(*memory));
    kiln_status status = memory != NULL
                             ? kiln_ir_graph_create(check->env, &graph, err)
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a stream");
    if (status == KILN_STATUS_OK) {
        status = append_ops(check, graph, err);
    }
    if (status == KILN_STATUS_OK) {
        status = set_io(check, graph, memory, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_ir_graph_destroy(graph);
        return status;
    }
    return kiln_replay_create(check->env, graph, memory, NULL, &check->stream, err);
}

// ---- running one ----

typedef struct beside {
    const kilni_run *run;
    const kiln_env *env;
    const kiln_replay *replay;
    kiln_tensor *tensors; ///< stand for the stream's: only slot and binding are used
    uint64_t *ids;
    size_t n_tensors;
    kilni_binding **bindings;
    kiln_fuse_stream *queue;
    kiln_judge *judge;
    bool wrong;
} beside;

static kiln_tensor *token_of(const beside *b, uint64_t id)
{
    for (size_t i = 0; i < b->n_tensors; i++) {
        if (b->ids[i] == id) {
            return &b->tensors[i];
        }
    }
    return NULL;
}

static kiln_status make_room(beside *b, kiln_error *err)
{
    size_t count = b->replay->n_inputs + 1;
    for (size_t i = 0; i < kiln_ir_graph_op_count(b->replay->graph); i++) {
        count += kiln_ir_graph_op(b->replay->graph, i)->n_outputs;
    }
    b->tensors = kiln_alloc_array(b->env, count, sizeof(*b->tensors));
    b->ids = kiln_alloc_array(b->env, count, sizeof(*b->ids));
    b->bindings = kiln_alloc_array(b->env, count, sizeof(kilni_binding *));
    const void **data = kiln_alloc_array(b->env, count, sizeof(*data));
    kiln_status status = b->tensors != NULL && b->ids != NULL && b->bindings != NULL && data != NULL
                             ? KILN_STATUS_OK
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to run a stream");
    for (size_t i = 0; i < b->replay->n_inputs && status == KILN_STATUS_OK; i++) {
        data[i] = b->replay->inputs[i].data;
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_judge_create(b->env, b->replay->graph, data, &b->judge, err);
    }
    kiln_free(b->env, (void *)data);
    return status;
}

static kiln_status place_inputs(beside *b, kiln_error *err)
{
    size_t n_inputs = 0;
    const kiln_tensor_desc *descs = kiln_ir_graph_inputs(b->replay->graph, &n_inputs);
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < n_inputs && status == KILN_STATUS_OK; i++) {
        b->ids[b->n_tensors] = descs[i].id;
        status = kilni_replay_bind(b->run->device, &descs[i], &b->replay->inputs[i],
                                   &b->tensors[b->n_tensors++].binding, err);
    }
    return status;
}

/// What fusers may rely on, as recording says it.
static void set_facts(kiln_tensor_desc *desc, kiln_tensor *token)
{
    desc->flags &= KILN_TENSOR_CONST;
    if (token->binding.bound) {
        kilni_binding_describe(&token->binding);
        desc->flags |= token->binding.flags;
        desc->align_log2 = token->binding.align_log2;
    }
}

static kiln_status push(beside *b, const kiln_op_record *given, kiln_error *err)
{
    kiln_op_record record = *given;
    kiln_tensor_desc descs[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    void *tokens[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    for (size_t i = 0; i < record.n_inputs; i++) {
        descs[i] = record.inputs[i];
        tokens[i] = token_of(b, descs[i].id);
        set_facts(&descs[i], tokens[i]);
    }
    for (size_t i = 0; i < record.n_outputs; i++) {
        descs[record.n_inputs + i] = record.outputs[i];
        b->ids[b->n_tensors] = record.outputs[i].id;
        tokens[record.n_inputs + i] = &b->tensors[b->n_tensors++];
    }
    record.inputs = descs;
    record.outputs = descs + record.n_inputs;
    return kiln_fuse_stream_push(b->queue, &record, tokens, err);
}

static kiln_status run_segments(beside *b, kiln_error *err)
{
    const kiln_fuse_segment *segment = NULL;
    kiln_status status = kiln_fuse_stream_next(b->queue, /*drain=*/true, &segment, err);
    while (status == KILN_STATUS_OK && segment != NULL) {
        for (uint32_t i = 0; i < segment->plan->n_tensors; i++) {
            kiln_tensor *tensor = segment->tokens[i];
            tensor->slot = i;
            b->bindings[i] = &tensor->binding;
        }
        const kilni_run run = {.device = b->run->device,
                               .engine = b->run->engine,
                               .segment = segment,
                               .bindings = b->bindings};
        kilni_plan_run(&run);
        kiln_fuse_stream_done(b->queue, segment);
        status = kiln_fuse_stream_next(b->queue, /*drain=*/true, &segment, err);
    }
    kiln_device *device = b->run->device;
    return status == KILN_STATUS_OK ? device->backend->device->sync(device->backend, err) : status;
}

static kiln_status judge_outputs(beside *b, kiln_error *err)
{
    kiln_device *device = b->run->device;
    size_t n_outputs = 0;
    const uint64_t *outputs = kiln_ir_graph_outputs(b->replay->graph, &n_outputs);
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < n_outputs && status == KILN_STATUS_OK && !b->wrong; i++) {
        const kilni_binding *binding = &token_of(b, outputs[i])->binding;
        char text[160];
        if (binding->storage == NULL || !kiln_view_is_contiguous(&binding->view)) {
            continue; // nothing in it, or a view of an input: no kernel wrote it
        }
        int64_t begin = 0, end = 0;
        kiln_view_extent(&binding->view, &begin, &end);
        void *data = kiln_alloc(b->env, (size_t)(end - begin) + 1);
        status = data == NULL ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a result")
                              : kilni_buffer_read_twice(device, binding->view.buffer, (size_t)begin,
                                                        data, (size_t)(end - begin), err);
        if (status == KILN_STATUS_OK) {
            b->wrong = !kiln_judge_output(b->judge, i, data, NULL, text, sizeof(text));
        }
        kiln_free(b->env, data);
    }
    return status;
}

/// Inputs that the stream does not drop are as they were; of strided ones nothing is said.
static kiln_status look_at_inputs(beside *b, kiln_error *err)
{
    kiln_device *device = b->run->device;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < b->replay->n_inputs && status == KILN_STATUS_OK && !b->wrong; i++) {
        const kiln_replay_input *input = &b->replay->inputs[i];
        const kilni_binding *binding = &b->tensors[i].binding;
        if (input->strided || binding->storage == NULL) {
            continue;
        }
        void *now = kiln_alloc(b->env, input->bytes + 1);
        status = now == NULL ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to look at an input")
                             : kilni_buffer_read_twice(device, binding->storage->buffer, 0, now,
                                                       input->bytes, err);
        b->wrong = status == KILN_STATUS_OK && memcmp(now, input->data, input->bytes) != 0;
        kiln_free(b->env, now);
    }
    return status;
}

static kiln_status run_shadow(beside *b, kilni_guards *guards, kiln_error *err)
{
    kilni_guard_damage damage;
    kiln_status status = make_room(b, err);
    KILN_TRY(out, status, status);
    KILN_TRY(out, status, place_inputs(b, err));
    KILN_TRY(out, status, kiln_fuse_stream_create(b->run->engine, true, &b->queue, err));
    for (size_t i = 0; i < kiln_ir_graph_op_count(b->replay->graph); i++) {
        KILN_TRY(out, status, push(b, kiln_ir_graph_op(b->replay->graph, i), err));
    }
    KILN_TRY(out, status, run_segments(b, err));
    b->wrong = kilni_guards_damaged(guards, &damage);
    KILN_TRY(out, status, look_at_inputs(b, err));
    KILN_TRY(out, status, judge_outputs(b, err));
out:
    return status;
}

bool kilni_check_stream(const kilni_run *run, const kiln_replay *replay)
{
    kiln_device *device = run->device;
    kiln_error err = KILN_ERROR_INIT;
    beside b = {.run = run, .env = &device->context->env, .replay = replay};
    kilni_guards *guards = kilni_guards_create(device);
    if (guards == NULL) {
        return false;
    }
    kilni_aside aside = kilni_aside_begin(device, guards);
    kiln_status status = run_shadow(&b, guards, &err);
    for (size_t i = 0; i < b.n_tensors; i++) {
        kilni_binding_clear(device, &b.tensors[i].binding);
    }
    kiln_fuse_stream_destroy(b.queue);
    kilni_aside_end(device, &aside);
    kilni_guards_destroy(guards);
    kiln_judge_destroy(b.judge);
    kiln_free(b.env, b.tensors);
    kiln_free(b.env, b.ids);
    kiln_free(b.env, (void *)b.bindings);
    return status == KILN_STATUS_OK && b.wrong;
}
