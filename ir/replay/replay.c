// SPDX-License-Identifier: MIT OR Apache-2.0
// A stream of operations with its inputs, as an object: what is kept, and what is checked of
// strides and data before anyone allocates or runs. Its file is replay_file.c, making it smaller
// replay_reduce.c; running it is the runtime's.
#include <inttypes.h>
#include <string.h>

#include "graph_internal.h"
#include "ir_quant.h"
#include "ir_replay.h"
#include "reference_internal.h"

/// Elements from the start of the buffer to the end of the last that the strides reach; below 0:
/// they reach before the start, or beyond what an int64 can say.
static int64_t span_of(const kiln_tensor_desc *desc, const kiln_replay_input *input)
{
    int64_t low = input->offset, high = input->offset;
    for (unsigned i = 0; i < desc->rank; i++) {
        int64_t reach = 0;
        if (desc->dims[i] == 0) {
            return 0;
        }
        if (__builtin_mul_overflow(desc->dims[i] - 1, input->strides[i], &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) {
            return -1;
        }
    }
    return low < 0 || high > INT64_MAX / 16 ? -1 : high + 1;
}

static kiln_status check_input(const kiln_tensor_desc *desc, const kiln_replay_input *input,
                               kiln_error *err)
{
    int64_t bytes = kiln_desc_bytes(desc);
    if (bytes < 0 || (input->data != NULL && (uint64_t)bytes != input->bytes)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "input %%%" PRIu64 " has %" PRId64 " bytes, its data %zu", desc->id, bytes,
                         input->bytes);
    }
    if (!input->strided) {
        return KILN_STATUS_OK;
    }
    if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT) {
        return kiln_fail(err, INVALID_ARGUMENT, "input %%%" PRIu64 " is quantised and has strides",
                         desc->id);
    }
    return span_of(desc, input) >= 0
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT,
                           "the strides of input %%%" PRIu64 " leave every buffer", desc->id);
}

static bool copy_inputs(kiln_replay *replay, const kiln_replay_input *inputs)
{
    size_t count = replay->n_inputs;
    replay->inputs = kiln_arena_alloc(&replay->arena, (count + 1) * sizeof(*replay->inputs));
    for (size_t i = 0; replay->inputs != NULL && inputs != NULL && i < count; i++) {
        kiln_replay_input *copy = &replay->inputs[i];
        *copy = inputs[i];
        if (copy->data != NULL) {
            unsigned char *data = kiln_arena_alloc(&replay->arena, copy->bytes + 1);
            if (data == NULL) {
                return false;
            }
            memcpy(data, copy->data, copy->bytes);
            copy->data = data;
        }
    }
    return replay->inputs != NULL;
}

kiln_status kiln_replay_create(const kiln_env *env, kiln_ir_graph *graph,
                               const kiln_replay_input *inputs, const char *note,
                               kiln_replay **out_replay, kiln_error *err)
{
    if (env == NULL || graph == NULL || out_replay == NULL) {
        kiln_ir_graph_destroy(graph);
        return kiln_fail(err, INVALID_ARGUMENT, "env, graph and out_replay must not be NULL");
    }
    size_t n_inputs = 0;
    const kiln_tensor_desc *descs = kiln_ir_graph_inputs(graph, &n_inputs);
    kiln_replay *replay = kiln_alloc(env, sizeof(*replay));
    *out_replay = NULL;
    if (replay == NULL) {
        kiln_ir_graph_destroy(graph);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a replay");
    }
    *replay = (kiln_replay){.env = env, .graph = graph, .n_inputs = n_inputs};
    kiln_arena_init(&replay->arena, env);
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; status == KILN_STATUS_OK && inputs != NULL && i < n_inputs; i++) {
        status = check_input(&descs[i], &inputs[i], err);
    }
    if (status == KILN_STATUS_OK && note != NULL) {
        replay->note = kiln_arena_copy(&replay->arena, note, strlen(note) + 1);
    }
    if (status == KILN_STATUS_OK &&
        (!copy_inputs(replay, inputs) || (note != NULL && replay->note == NULL))) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a replay");
    }
    if (status != KILN_STATUS_OK) {
        kiln_replay_destroy(replay);
        return status;
    }
    *out_replay = replay;
    return status;
}

void kiln_replay_destroy(kiln_replay *replay)
{
    if (replay != NULL) {
        kiln_ir_graph_destroy(replay->graph);
        kiln_arena_fini(&replay->arena);
        kiln_free(replay->env, replay);
    }
}

// ---- invented data ----

/// Multiples of 1/64 within 4 of zero; integers within 8 of it, not below it where there is nothing
/// below.
static void invent(const kiln_tensor_desc *desc, unsigned char *data, uint64_t seed)
{
    struct kiln_buffer buffer = {.data = data};
    kiln_view view = kiln_view_dense(desc, &buffer);
    int64_t count = kiln_desc_count(desc);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t key[] = {seed, desc->id, (uint64_t)i};
        uint64_t random = kiln_hash64(key, sizeof(key), 5);
        kilni_ref_value x = {.u = random % (desc->dtype == KILN_DTYPE_BOOL ? 2 : 8)};
        if (kilni_ref_is_float(desc->dtype)) {
            x.f = (double)(int64_t)(random % 513) / 64 - 4;
        } else if (kilni_ref_is_signed(desc->dtype)) {
            x.i = (int64_t)(random % 17) - 8;
        }
        kilni_ref_store(&view, i, x);
    }
}

/// Any packed values are values; the scales are 2^-4.
static void invent_quantised(const kiln_tensor_desc *desc, unsigned char *data, uint64_t seed)
{
    kiln_quant_layout layout;
    kiln_tensor_desc part = {.id = desc->id, .dtype = KILN_DTYPE_U32, .rank = 1};
    const kiln_attr scale = {.type = KILN_ATTR_F64, .count = 1, .v.f = 0.0625};
    if (!kiln_quant_layout_of(desc, &layout)) {
        return;
    }
    for (int64_t i = 0; i < layout.words * 4; i++) {
        const uint64_t key[] = {seed, desc->id, (uint64_t)i};
        data[i] = (unsigned char)kiln_hash64(key, sizeof(key), 6);
    }
    part.dtype = kiln_scheme_scale(desc->scheme);
    for (int64_t i = 0; i < layout.scales; i++) {
        size_t at = (size_t)layout.scales_at + (size_t)i * kiln_dtype_size(part.dtype);
        (void)kiln_number_store(&scale, part.dtype, data + at);
    }
    if (layout.global_at >= 0) {
        (void)kiln_number_store(&scale, KILN_DTYPE_F32, data + layout.global_at);
    }
}

kiln_status kiln_replay_fill(kiln_replay *replay, uint64_t seed, kiln_error *err)
{
    if (replay == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "replay must not be NULL");
    }
    for (size_t i = 0; i < replay->n_inputs; i++) {
        const kiln_tensor_desc *desc = &replay->graph->inputs[i];
        kiln_replay_input *input = &replay->inputs[i];
        int64_t bytes = kiln_desc_bytes(desc);
        if (input->data != NULL) {
            continue;
        }
        unsigned char *data =
            bytes < 0 ? NULL : kiln_arena_alloc(&replay->arena, (size_t)bytes + 1);
        if (data == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for input %%%" PRIu64, desc->id);
        }
        (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT ? invent_quantised : invent)(desc, data,
                                                                                         seed);
        input->data = data;
        input->bytes = (size_t)bytes;
    }
    return KILN_STATUS_OK;
}
