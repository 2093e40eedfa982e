// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams into files: what a program lets run, segment by segment, as replayable files in the
// folder that the option `record` names. Each kind of stream (operators and what they are told,
// dtypes, extents, strides) is written once by a process, before it runs, with its inputs; large
// inputs of floats go without their elements, which a replay invents.

#include "rt_binding.h"
#include "rt_check.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_run.h"
#include "rt_tensor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FLOATS = 1 << 20, MOST_BYTES = 64 << 20 }; // of an input

typedef struct replay_taking {
    const kilni_run *run;
    kiln_arena arena;
    bool *made; ///< by slot: results of the segment
    bool *gone; ///< dropped in it
    uint32_t *inputs; ///< slots
    size_t n_inputs;
    kiln_ir_graph *graph;
} replay_taking;

static uint32_t operand_slot(const kilni_run *run, uint32_t op, size_t operand)
{
    const kiln_tensor *tensor = run->segment->operands[op][operand];
    return tensor->slot;
}

static uint64_t add_tensor(uint64_t hash, const kilni_run *run, uint32_t slot)
{
    const kiln_tensor_desc *desc = &run->segment->tensors[slot];
    const kilni_binding *binding = run->bindings[slot];
    const uint64_t facts[] = {slot, (uint64_t)desc->dtype, desc->scheme};
    size_t bytes = desc->rank * sizeof(desc->dims[0]);
    hash = kiln_hash64(facts, sizeof(facts), hash);
    hash = kiln_hash64(desc->dims, bytes, hash);
    bool lies = binding->bound && binding->fault == NULL && binding->view.rank == desc->rank;
    return lies ? kiln_hash64(binding->view.strides, bytes, hash) : hash;
}

static uint64_t add_attr(uint64_t hash, const kiln_attr *attr)
{
    const uint64_t facts[] = {(uint64_t)attr->type, attr->count};
    hash = kiln_hash64(facts, sizeof(facts), hash);
    switch (attr->type) {
    case KILN_ATTR_NONE:
        return hash;
    case KILN_ATTR_I64_LIST:
    case KILN_ATTR_F64_LIST:
        return kiln_hash64(attr->v.ints, attr->count * sizeof(attr->v.ints[0]), hash);
    case KILN_ATTR_STRING:
        return kiln_hash64(attr->v.text, attr->count, hash);
    case KILN_ATTR_TENSOR:
        return kiln_hash64(attr->v.tensor->data, (size_t)kiln_desc_bytes(&attr->v.tensor->desc),
                           hash);
    default: // the floats' bits
        return kiln_hash64(&attr->v.i, sizeof(attr->v.i), hash);
    }
}

/// Equal for streams that differ in values alone: of elements, of numbers that plans do not know.
static uint64_t kind_of(const kilni_run *run)
{
    uint64_t hash = 0;
    for (uint32_t op = 0; op < run->segment->plan->n_ops; op++) {
        const kiln_op_record *record = &run->segment->ops[op];
        const kiln_op_signature *signature = kiln_op_info_of(record->op)->signature;
        const uint64_t facts[] = {(uint64_t)record->op, record->n_inputs, record->n_outputs};
        hash = kiln_hash64(facts, sizeof(facts), hash);
        for (size_t i = 0; i < (size_t)record->n_inputs + record->n_outputs; i++) {
            hash = add_tensor(hash, run, operand_slot(run, op, i));
        }
        for (uint32_t i = 0; i < record->n_attrs; i++) {
            if (i >= signature->n_attrs || signature->attrs[i].role == KILN_ROLE_IDENTITY) {
                hash = add_attr(hash, &record->attrs[i]);
            }
        }
    }
    return hash;
}

static bool is_known(kiln_device *device, uint64_t kind)
{
    for (size_t i = 0; i < device->check.n_recorded; i++) {
        if (device->check.recorded[i] == kind) {
            return true;
        }
    }
    const kiln_env *env = &device->context->env;
    uint64_t *more = kiln_alloc_array(env, device->check.n_recorded + 1, sizeof(*more));
    if (more == NULL) {
        return true;
    }
    if (device->check.n_recorded > 0) {
        memcpy(more, device->check.recorded, device->check.n_recorded * sizeof(*more));
    }
    more[device->check.n_recorded++] = kind;
    kiln_free(env, device->check.recorded);
    device->check.recorded = more;
    return false;
}

static bool is_input(const replay_taking *t, uint32_t slot)
{
    for (size_t i = 0; i < t->n_inputs; i++) {
        if (t->inputs[i] == slot) {
            return true;
        }
    }
    return false;
}

static kiln_tensor_desc desc_of(const replay_taking *t, uint32_t slot)
{
    kiln_tensor_desc desc = t->run->segment->tensors[slot];
    desc.id = (uint64_t)slot + 1;
    desc.flags &= KILN_TENSOR_CONST;
    desc.align_log2 = 0;
    return desc;
}

static kiln_status append_op(replay_taking *t, uint32_t op, kiln_error *err)
{
    kiln_op_record record = t->run->segment->ops[op];
    kiln_tensor_desc descs[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    if (kiln_op_info_of(record.op)->cls == KILN_CLASS_COLLECTIVE) {
        return kiln_fail(err, UNIMPLEMENTED, "it is one of several devices");
    }
    for (size_t i = 0; i < (size_t)record.n_inputs + record.n_outputs; i++) {
        uint32_t slot = operand_slot(t->run, op, i);
        descs[i] = desc_of(t, slot);
        if (i >= record.n_inputs) {
            t->made[slot] = true;
        } else if (record.op == KILN_OP_DROP && !t->made[slot] && !is_input(t, slot)) {
            return KILN_STATUS_OK; // of something that the stream never saw
        } else if (record.op == KILN_OP_DROP) {
            t->gone[slot] = true;
        } else if (!t->made[slot] && !is_input(t, slot)) {
            t->inputs[t->n_inputs++] = slot;
        }
    }
    record.inputs = descs;
    record.outputs = descs + record.n_inputs;
    return kiln_ir_graph_append(t->graph, &record, err);
}

static kiln_status take_data(replay_taking *t, const kiln_tensor_desc *desc,
                             const kilni_binding *binding, kiln_replay_input *out, kiln_error *err)
{
    size_t bytes = (size_t)kiln_desc_bytes(desc);
    bool floats = kiln_dtype_kind_of(desc->dtype) == KILN_KIND_FLOAT;
    if (bytes > (floats ? MOST_FLOATS : MOST_BYTES)) {
        return KILN_STATUS_OK;
    }
    void *data = kiln_arena_alloc(&t->arena, bytes + 1);
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an input's elements");
    }
    out->data = data;
    out->bytes = bytes;
    return bytes == 0 ? KILN_STATUS_OK
                      : kilni_binding_read(t->run->device, desc, binding, data, err);
}

static kiln_status take_input(replay_taking *t, uint32_t slot, kiln_replay_input *out,
                              kiln_error *err)
{
    const kilni_binding *binding = t->run->bindings[slot];
    kiln_tensor_desc desc = t->run->segment->tensors[slot];
    *out = (kiln_replay_input){0};
    if (!binding->bound || kilni_binding_status(binding, NULL) != KILN_STATUS_OK) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "tensor %u, which the segment takes, has no value", slot);
    }
    if (kiln_dtype_kind_of(desc.dtype) != KILN_KIND_QUANT && kiln_desc_count(&desc) > 0) {
        const kiln_view *view = &binding->view;
        out->strided = view->offset_bytes != 0 || !kiln_view_is_contiguous(view);
        out->offset = view->offset_bytes / (int64_t)kiln_dtype_size(desc.dtype);
        memcpy(out->strides, view->strides, desc.rank * sizeof(out->strides[0]));
    }
    return take_data(t, &desc, binding, out, err);
}

static kiln_status set_file_io(replay_taking *t, kiln_replay_input *memory, kiln_error *err)
{
    uint32_t n_tensors = t->run->segment->plan->n_tensors;
    kiln_tensor_desc *inputs = kiln_arena_alloc(&t->arena, (t->n_inputs + 1) * sizeof(*inputs));
    uint64_t *outputs = kiln_arena_alloc(&t->arena, (n_tensors + 1) * sizeof(*outputs));
    size_t n_outputs = 0;
    kiln_status status = inputs != NULL && outputs != NULL
                             ? KILN_STATUS_OK
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a stream");
    for (size_t i = 0; i < t->n_inputs && status == KILN_STATUS_OK; i++) {
        inputs[i] = desc_of(t, t->inputs[i]);
        status = take_input(t, t->inputs[i], &memory[i], err);
    }
    for (uint32_t slot = 0; slot < n_tensors && status == KILN_STATUS_OK; slot++) {
        if (t->made[slot] && !t->gone[slot]) {
            outputs[n_outputs++] = (uint64_t)slot + 1;
        }
    }
    if (status == KILN_STATUS_OK && n_outputs == 0) {
        status = kiln_fail(err, FAILED_PRECONDITION, "nothing of it is left at its end");
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_graph_set_io(t->graph, inputs, t->n_inputs, outputs, n_outputs, err);
    }
    return status == KILN_STATUS_OK ? kiln_ir_graph_verify(t->graph, err) : status;
}

static kiln_status make_replay(replay_taking *t, kiln_replay **out_replay, kiln_error *err)
{
    const kiln_env *env = &t->run->device->context->env;
    const kiln_plan *plan = t->run->segment->plan;
    t->made = kiln_arena_alloc(&t->arena, plan->n_tensors + 1);
    t->gone = kiln_arena_alloc(&t->arena, plan->n_tensors + 1);
    t->inputs = kiln_arena_alloc(&t->arena, (plan->n_tensors + 1) * sizeof(*t->inputs));
    kiln_replay_input *memory =
        kiln_arena_alloc(&t->arena, (plan->n_tensors + 1) * sizeof(*memory));
    if (t->made == NULL || t->gone == NULL || t->inputs == NULL || memory == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a stream");
    }
    memset(t->made, 0, plan->n_tensors);
    memset(t->gone, 0, plan->n_tensors);
    kiln_status status = kiln_ir_graph_create(env, &t->graph, err);
    for (uint32_t op = 0; op < plan->n_ops && status == KILN_STATUS_OK; op++) {
        status = append_op(t, op, err);
    }
    if (status == KILN_STATUS_OK) {
        status = set_file_io(t, memory, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_ir_graph_destroy(t->graph);
        return status;
    }
    return kiln_replay_create(env, t->graph, memory, NULL, out_replay, err);
}

/// Named by what the stream is: another run of the program gives the same file.
static kiln_status write_file(const kilni_run *run, uint64_t kind, kiln_replay *replay,
                              kiln_error *err)
{
    const char *folder = run->device->check.records;
    char path[4200];
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return kiln_fail(err, NOT_FOUND, "%s cannot be made: %s", folder, strerror(errno));
    }
    snprintf(path, sizeof(path), "%.4000s/stream-%016llx.replay", folder, (unsigned long long)kind);
    return access(path, F_OK) == 0 ? KILN_STATUS_OK : kiln_replay_write(replay, path, err);
}

void kilni_record_file(const kilni_run *run)
{
    kiln_device *device = run->device;
    kiln_error err = KILN_ERROR_INIT;
    uint64_t kind = kind_of(run);
    kiln_replay *replay = NULL;
    if (is_known(device, kind)) {
        return;
    }
    replay_taking t = {.run = run};
    kiln_arena_init(&t.arena, &device->context->env);
    kiln_status status = make_replay(&t, &replay, &err);
    if (status == KILN_STATUS_OK) {
        status = write_file(run, kind, replay, &err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_log_write(&device->context->env, KILN_LOG_WARN, "runtime",
                       "a stream of %u %s is not recorded: %s", run->segment->plan->n_ops,
                       kiln_plural(run->segment->plan->n_ops, "operation", "operations"),
                       err.message);
    }
    kiln_replay_destroy(replay);
    kiln_arena_fini(&t.arena);
}
