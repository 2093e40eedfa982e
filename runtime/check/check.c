// SPDX-License-Identifier: MIT OR Apache-2.0
// Checked mode: a block's program runs on copies between guard words, its operations run one by one
// for the user, and the two results are compared. Decides what is saved before and what counts as
// wrong: a guard word, an input, an element beyond what the judge allows (judge.c of ir). What then
// happens is check_report.c.

#include "rt_binding.h"
#include "rt_block_sample.h"
#include "rt_check.h"
#include "rt_check_state.h"
#include "rt_context.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_guards.h"
#include "rt_run.h"
#include "rt_streams.h"
#include "rt_tensor.h"

#include <stdio.h>
#include <string.h>

kilni_check_mode kilni_check_mode_of(const kiln_context *context)
{
    const char *text = kiln_config_string(context->env.config, KILN_OPTION_CHECK);
    return text[0] == 'o'   ? KILNI_CHECK_OFF
           : text[0] == 'f' ? KILNI_CHECK_FIRST
                            : KILNI_CHECK_ALWAYS;
}

// ---- what the block is given ----

static uint32_t slot_of(const kilni_check *check, uint32_t op, size_t operand)
{
    return ((const kiln_tensor *)check->run->segment->operands[op][operand])->slot;
}

static bool is_listed(const kilni_check *check, uint32_t slot)
{
    for (size_t i = 0; i < check->n_inputs; i++) {
        if (check->inputs[i].slot == slot) {
            return true;
        }
    }
    return false;
}

/// The bytes between the first and the last that a view touches.
static kiln_status save_input(kilni_check *check, uint32_t slot, kiln_error *err)
{
    kiln_device *device = check->run->device;
    const kilni_binding *binding = check->run->bindings[slot];
    kilni_check_input *input = &check->inputs[check->n_inputs++];
    int64_t end = 0;
    *input = (kilni_check_input){.binding = binding, .slot = slot};
    if (!binding->bound || kilni_binding_status(binding, NULL) != KILN_STATUS_OK) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "tensor %u, which the block takes, has no value yet", slot);
    }
    if (binding->storage == NULL) {
        return KILN_STATUS_OK;
    }
    if (kiln_dtype_kind_of(binding->view.dtype) == KILN_KIND_QUANT) {
        end = kiln_desc_bytes(&check->run->segment->tensors[slot]);
    } else {
        kiln_view_extent(&binding->view, &input->begin, &end);
    }
    input->bytes = (size_t)(end - input->begin);
    input->raw = kiln_arena_alloc(&check->arena, input->bytes + 1);
    if (input->raw == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to save an input");
    }
    return kilni_buffer_read_twice(device, binding->storage->buffer, (size_t)input->begin,
                                   input->raw, input->bytes, err);
}

static kiln_status save_inputs(kilni_check *check, const kilni_sample *sample, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    check->inputs =
        kiln_arena_alloc(&check->arena, (check->block->n_tensors + 1) * sizeof(*check->inputs));
    if (check->inputs == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a check");
    }
    for (uint32_t at = 0; at < check->block->n_ops; at++) {
        uint32_t op = check->block->ops[at];
        const kiln_op_record *record = &check->run->segment->ops[op];
        for (size_t i = 0; record->op != KILN_OP_DROP && i < record->n_inputs; i++) {
            uint32_t slot = slot_of(check, op, i);
            uint32_t number = kilni_shadow_number(sample, slot);
            if (number == UINT32_MAX) {
                return kiln_fail(err, INTERNAL, "a block does not know its input");
            }
            if (!sample->made[number] && !is_listed(check, slot) && status == KILN_STATUS_OK) {
                status = save_input(check, slot, err);
            }
        }
    }
    return status;
}

static kiln_status list_outputs(kilni_check *check, const kilni_sample *sample, kiln_error *err)
{
    size_t room = check->block->n_tensors + 1;
    check->outputs = kiln_arena_alloc(&check->arena, room * sizeof(*check->outputs));
    check->fused = kiln_arena_alloc(&check->arena, room * sizeof(void *));
    if (check->outputs == NULL || check->fused == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a check");
    }
    for (uint32_t i = 0; i < check->block->n_tensors; i++) {
        uint32_t slot = check->block->tensors[i];
        if (sample->made[i] && !kilni_shadow_drops(sample, slot)) {
            check->outputs[check->n_outputs++] = slot;
        }
    }
    return KILN_STATUS_OK;
}

// ---- what came of it ----

static kiln_status read_output(kilni_check *check, const kilni_binding *binding, uint32_t slot,
                               void **out_data, kiln_error *err)
{
    const kiln_tensor_desc *desc = &check->run->segment->tensors[slot];
    *out_data = kiln_arena_alloc(&check->arena, (size_t)kiln_desc_bytes(desc) + 1);
    if (*out_data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a result");
    }
    return kilni_binding_read(check->run->device, desc, binding, *out_data, err);
}

static void name_damage(kilni_check *check, const kilni_sample *sample,
                        const kilni_guard_damage *damage)
{
    char what[64];
    uint32_t copies = 0;
    for (uint32_t i = 0; i < check->block->n_tensors; i++) {
        copies += sample->dying[i] &&
                  kiln_desc_bytes(&check->run->segment->tensors[check->block->tensors[i]]) > 0;
    }
    snprintf(what, sizeof(what), "temporary %u", damage->number - copies);
    for (uint32_t i = 0; i < check->block->n_tensors; i++) {
        if (damage->binding == &sample->scratch[i]) {
            snprintf(what, sizeof(what), "%s %%%u", sample->made[i] ? "result" : "input",
                     check->block->tensors[i] + 1);
        }
    }
    snprintf(check->text, sizeof(check->text), "it writes %s %s, %u bytes away",
             damage->before ? "before" : "behind", what, damage->distance_bytes);
}

/// Inputs that the program was told to read are as they were; else they are put back.
static kiln_status check_inputs(kilni_check *check, const kilni_sample *sample, kiln_error *err)
{
    kiln_device *device = check->run->device;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < check->n_inputs && status == KILN_STATUS_OK; i++) {
        const kilni_check_input *input = &check->inputs[i];
        if (input->raw == NULL || sample->dying[kilni_shadow_number(sample, input->slot)]) {
            continue;
        }
        unsigned char *now = kiln_alloc(check->env, input->bytes + 1);
        if (now == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to look at an input");
        }
        kiln_buffer *buffer = input->binding->storage->buffer;
        status =
            kilni_buffer_read_twice(device, buffer, (size_t)input->begin, now, input->bytes, err);
        if (status == KILN_STATUS_OK && memcmp(now, input->raw, input->bytes) != 0) {
            snprintf(check->text, sizeof(check->text), "it writes into input %%%u",
                     input->slot + 1);
            status = device->backend->transfer->upload(
                device->backend, buffer, (size_t)input->begin, input->raw, input->bytes, err);
        }
        kiln_free(check->env, now);
    }
    return status;
}

static kiln_status run_fused(kilni_check *check, kilni_sample *sample, kilni_guards *guards,
                             kiln_error *err)
{
    kilni_small_plan small = {0};
    kilni_guard_damage damage;
    kiln_status status = kilni_shadow_fused(sample, &small, check->block->program, err);
    KILN_TRY(out, status, status);
    KILN_TRY(out, status, kilni_shadow_copy_inputs(sample, 1, err));
    check->run->device->samples.starved = false;
    kiln_fuse_block_doing(check->run->engine, check->block, KILN_FUSE_RUNS);
    status = kilni_shadow_run(sample, &small, err);
    kiln_fuse_block_doing(check->run->engine, check->block, KILN_FUSE_DOES_NOTHING);
    KILN_TRY(out, status, status);
    if (check->run->device->samples.starved) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "there is no memory beside the run's");
        goto out;
    }
    check->failed = kilni_shadow_fault(sample) != NULL || kilni_plan_block_failed(&small.block);
    KILN_TRY(out, status, check_inputs(check, sample, err));
    if (kilni_guards_damaged(guards, &damage)) {
        name_damage(check, sample, &damage);
    }
    for (size_t i = 0; i < check->n_outputs && !check->failed; i++) {
        uint32_t number = kilni_shadow_number(sample, check->outputs[i]);
        KILN_TRY(
            out, status,
            read_output(check, &sample->scratch[number], check->outputs[i], &check->fused[i], err));
    }
out:
    kilni_shadow_clear(sample);
    kilni_shadow_plan_fini(sample, &small);
    return status;
}

static void check_free(kilni_check *check)
{
    kiln_replay_destroy(check->stream);
    kiln_arena_fini(&check->arena);
    kiln_free(check->env, check);
}

static kiln_status begin(kilni_check *check, kiln_error *err)
{
    kiln_device *device = check->run->device;
    kilni_sample sample;
    kilni_guards *guards = kilni_guards_create(device);
    kiln_status status = kilni_shadow_init(&sample, check->run, check->index, err);
    if (status == KILN_STATUS_OK && guards == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for guard words");
    }
    KILN_TRY(out, status, status);
    KILN_TRY(out, status, save_inputs(check, &sample, err));
    KILN_TRY(out, status, list_outputs(check, &sample, err));
    KILN_TRY(out, status, kilni_check_make_stream(check, err));
    kilni_aside aside = kilni_aside_begin(device, guards);
    status = run_fused(check, &sample, guards, err);
    kilni_aside_end(device, &aside);
out:
    kilni_shadow_fini(&sample);
    kilni_guards_destroy(guards);
    return status;
}

kilni_check *kilni_check_begin(const kilni_run *run, uint32_t block)
{
    const kiln_env *env = &run->device->context->env;
    kiln_error err = KILN_ERROR_INIT;
    kilni_check *check = kiln_alloc(env, sizeof(*check));
    if (check == NULL) {
        return NULL;
    }
    *check = (kilni_check){
        .run = run, .env = env, .index = block, .block = &run->segment->plan->blocks[block]};
    kiln_arena_init(&check->arena, env);
    if (begin(check, &err) != KILN_STATUS_OK) {
        kiln_log_write(env, KILN_LOG_WARN, "runtime", "a block of %s is not checked: %s",
                       check->block->fuser, err.message);
        check_free(check);
        return NULL;
    }
    return check;
}

// ---- comparing ----

static kiln_status make_judge(const kilni_check *check, kiln_judge **out_judge, kiln_error *err)
{
    const kiln_replay *stream = check->stream;
    const void **data = kiln_alloc_array(check->env, stream->n_inputs + 1, sizeof(*data));
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to compare");
    }
    for (size_t i = 0; i < stream->n_inputs; i++) {
        data[i] = stream->inputs[i].data;
    }
    kiln_status status = kiln_judge_create(check->env, stream->graph, data, out_judge, err);
    kiln_free(check->env, (void *)data);
    return status;
}

/// Equal bits need no judge; other bits are judged by what errors the operations may make.
static kiln_status compare(kilni_check *check, kiln_error *err)
{
    kiln_judge *judge = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < check->n_outputs && status == KILN_STATUS_OK; i++) {
        uint32_t slot = check->outputs[i];
        char text[160] = "";
        void *alone = NULL;
        size_t bytes = (size_t)kiln_desc_bytes(&check->run->segment->tensors[slot]);
        status = kilni_binding_status(check->run->bindings[slot], err);
        if (status == KILN_STATUS_OK) {
            status = read_output(check, check->run->bindings[slot], slot, &alone, err);
        }
        if (status != KILN_STATUS_OK || memcmp(alone, check->fused[i], bytes) == 0) {
            continue;
        }
        status = judge != NULL ? status : make_judge(check, &judge, err);
        if (status == KILN_STATUS_OK && check->text[0] == '\0' &&
            !kiln_judge_output(judge, i, check->fused[i], alone, text, sizeof(text))) {
            snprintf(check->text, sizeof(check->text), "result %%%u: %s", slot + 1, text);
        }
    }
    kiln_judge_destroy(judge);
    return status;
}

bool kilni_check_end(kilni_check *check, bool *out_compared)
{
    kiln_error err = KILN_ERROR_INIT;
    bool right = !check->failed;
    kiln_status status = right ? compare(check, &err) : KILN_STATUS_OK;
    *out_compared = status != KILN_STATUS_DATA_LOSS; // a read that was wrong may be right next time
    if (status != KILN_STATUS_OK) {
        kiln_log_write(check->env, KILN_LOG_WARN, "runtime", "a block of %s is not checked: %s",
                       check->block->fuser, err.message);
    }
    if (check->text[0] != '\0') {
        right = false;
        kilni_check_report(check);
    }
    check_free(check);
    return right;
}
