// SPDX-License-Identifier: MIT OR Apache-2.0
// The runs of a language model. Decides what is copied: the new tokens to the device, a row of
// logits from it. What layers keep stays there; a mask of ones and places are made there. A model
// that keeps nothing gets the whole text each time.

#include "generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct generation {
    const kiln_onnx_model *model;
    kiln_device *device; ///< the first: tokens go there
    kiln_device *const *devices;
    size_t n_devices;
    kiln_onnx_session *session;
    generate_names names;
    const kiln_onnx_value_info *inputs;
    size_t n_inputs;
    size_t n_outputs;
    kiln_onnx_input *given;
    kiln_tensor **tensors; ///< of `given`
    size_t n_given;
    kiln_tensor **outputs;
    int64_t *text; ///< prompt and what came
    int64_t *scratch[3]; ///< contents of ids, mask and places, as the host knows them
    size_t length; ///< of the text
    size_t done; ///< of it, that layers have
    float *logits;
    uint32_t *order;
    size_t vocabulary;
} generation;

// ---- inputs ----

static kiln_status add_given(generation *g, uint32_t input, kiln_tensor *take_tensor,
                             const void *host)
{
    g->tensors[g->n_given] = take_tensor;
    g->given[g->n_given++] =
        (kiln_onnx_input){.name = g->inputs[input].name, .tensor = take_tensor, .host = host};
    return KILN_STATUS_OK;
}

static void release_given(generation *g)
{
    for (size_t i = 0; i < g->n_given; i++) {
        kiln_release(g->tensors[i]);
    }
    g->n_given = 0;
}

/// The integers in the element type of an input, in place.
static const void *as_dtype(kiln_dtype dtype, int64_t *values, size_t count)
{
    int32_t *narrow = (int32_t *)(void *)values;
    for (size_t i = 0; dtype == KILN_DTYPE_I32 && i < count; i++) {
        narrow[i] = (int32_t)values[i];
    }
    return values;
}

static kiln_status give_ids(generation *g, size_t first, kiln_error *err)
{
    const kiln_onnx_value_info *info = &g->inputs[g->names.ids];
    const int64_t dims[] = {1, (int64_t)(g->length - first)};
    kiln_tensor *tensor = NULL;
    memcpy(g->scratch[0], g->text + first, (g->length - first) * sizeof(int64_t));
    const void *host = as_dtype(info->dtype, g->scratch[0], g->length - first);
    kiln_status status = kiln_tensor_create(g->device, info->dtype, 2, dims, host, &tensor, err);
    return status == KILN_STATUS_OK ? add_given(g, (uint32_t)g->names.ids, tensor, host) : status;
}

static kiln_status give_mask(generation *g, kiln_error *err)
{
    const kiln_onnx_value_info *info = &g->inputs[g->names.mask];
    const int64_t dims[] = {1, (int64_t)g->length};
    kiln_tensor *tensor = NULL;
    for (size_t i = 0; i < g->length; i++) {
        g->scratch[1][i] = 1;
    }
    const void *host = as_dtype(info->dtype, g->scratch[1], g->length);
    kiln_status status = kiln_full(g->device, dims, 2, info->dtype, kiln_i64(1), &tensor, err);
    return status == KILN_STATUS_OK ? add_given(g, (uint32_t)g->names.mask, tensor, host) : status;
}

static kiln_status give_places(generation *g, size_t first, kiln_error *err)
{
    const kiln_onnx_value_info *info = &g->inputs[g->names.places];
    const int64_t count = (int64_t)(g->length - first);
    const int64_t dims[] = {1, count};
    kiln_tensor *line = NULL;
    kiln_tensor *tensor = NULL;
    for (size_t i = first; i < g->length; i++) {
        g->scratch[2][i - first] = (int64_t)i;
    }
    const void *host = as_dtype(info->dtype, g->scratch[2], g->length - first);
    kiln_status status = kiln_arange(g->device, count, info->dtype, kiln_i64((int64_t)first),
                                     kiln_i64(1), &line, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_reshape(line, dims, 2, &tensor, err);
    }
    kiln_release(line);
    return status == KILN_STATUS_OK ? add_given(g, (uint32_t)g->names.places, tensor, host)
                                    : status;
}

/// What layers keep before the first token: nothing.
static kiln_status give_nothing_kept(generation *g, kiln_error *err)
{
    for (size_t i = 0; i < g->names.n_pairs; i++) {
        const kiln_onnx_value_info *info = &g->inputs[g->names.pairs[i].input];
        int64_t dims[KILN_MAX_RANK] = {0};
        for (uint32_t k = 0; k < info->rank; k++) { // of one text; other open lengths grow
            dims[k] = info->dims[k].length >= 0 ? info->dims[k].length : k == 0 ? 1 : 0;
        }
        kiln_tensor *tensor = NULL;
        kiln_status status =
            info->dtype == KILN_DTYPE_NONE || !info->has_shape
                ? kiln_fail(err, UNIMPLEMENTED, "input \"%.64s\" has no known type or shape",
                            info->name)
                : kiln_tensor_create(g->device, info->dtype, info->rank, dims, NULL, &tensor, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        (void)add_given(g, g->names.pairs[i].input, tensor, NULL);
    }
    return KILN_STATUS_OK;
}

static kiln_status give_inputs(generation *g, size_t first, kiln_error *err)
{
    kiln_status status = give_ids(g, first, err);
    if (status == KILN_STATUS_OK && g->names.mask >= 0) {
        status = give_mask(g, err);
    }
    if (status == KILN_STATUS_OK && g->names.places >= 0) {
        status = give_places(g, first, err);
    }
    if (status == KILN_STATUS_OK && g->done == 0) {
        status = give_nothing_kept(g, err);
    }
    return status;
}

// ---- logits ----

static kiln_status make_room(generation *g, size_t vocabulary, kiln_error *err)
{
    if (vocabulary == g->vocabulary) {
        return KILN_STATUS_OK;
    }
    free(g->logits);
    free(g->order);
    g->logits = malloc((vocabulary + 1) * sizeof(*g->logits));
    g->order = malloc((vocabulary + 1) * sizeof(*g->order));
    g->vocabulary = vocabulary;
    return g->logits != NULL && g->order != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu logits", vocabulary);
}

/// The last row as f32.
static kiln_status read_logits(generation *g, kiln_tensor *logits, kiln_error *err)
{
    uint32_t rank = (uint32_t)kiln_tensor_rank(logits);
    int64_t starts[KILN_MAX_RANK] = {0};
    int64_t ends[KILN_MAX_RANK];
    int64_t steps[KILN_MAX_RANK];
    kiln_tensor *row = NULL;
    kiln_tensor *floats = NULL;
    if (rank < 2 || rank > 3 || kiln_tensor_dims(logits)[rank - 1] < 1 ||
        kiln_tensor_dims(logits)[rank - 2] < 1) {
        return kiln_fail(err, UNIMPLEMENTED, "logits of rank %u, not [batch,rows,vocabulary]",
                         rank);
    }
    for (uint32_t i = 0; i < rank; i++) {
        ends[i] = kiln_tensor_dims(logits)[i];
        starts[i] = i + 2 == rank ? ends[i] - 1 : 0;
        steps[i] = 1;
    }
    kiln_status status = make_room(g, (size_t)ends[rank - 1], err);
    if (status == KILN_STATUS_OK) {
        status = kiln_slice(logits, starts, rank, ends, rank, steps, rank, &row, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_cast(row, KILN_DTYPE_F32, &floats, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_read(floats, g->logits, g->vocabulary * sizeof(*g->logits), err);
    }
    kiln_release(row);
    kiln_release(floats);
    return status;
}

// ---- runs ----

static kiln_status run_once(generation *g, kiln_error *err)
{
    kiln_status status = give_inputs(g, g->names.n_pairs > 0 ? g->done : 0, err);
    if (status == KILN_STATUS_OK) {
        status =
            kiln_onnx_session_run(g->session, g->given, g->n_given, g->outputs, g->n_outputs, err);
    }
    release_given(g);
    if (status == KILN_STATUS_OK) {
        g->done = g->length;
        status = read_logits(g, g->outputs[g->names.logits], err);
    }
    for (size_t i = 0; i < g->n_outputs; i++) {
        kiln_release(g->outputs[i]);
        g->outputs[i] = NULL;
    }
    return status;
}

/// What all devices have done so far.
static generate_step counts_of(const generation *g)
{
    generate_step counts = {0};
    for (size_t i = 0; i < g->n_devices; i++) {
        kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(g->devices[i], &stats);
        counts.plans += stats.plans_searched;
        counts.bytes_uploaded += stats.bytes_uploaded;
        counts.bytes_read += stats.bytes_read;
    }
    return counts;
}

static kiln_status take_step(generation *g, generate_sampling *sampling, generate_step *out_step,
                             kiln_error *err)
{
    generate_step before = counts_of(g);
    uint64_t start = kiln_time_ns();
    kiln_status status = run_once(g, err);
    if (status == KILN_STATUS_OK) {
        status = generate_next(sampling, g->logits, g->vocabulary, g->order, &out_step->token, err);
    }
    out_step->ns = (double)(kiln_time_ns() - start);
    generate_step after = counts_of(g);
    out_step->plans = after.plans - before.plans;
    out_step->bytes_uploaded = after.bytes_uploaded - before.bytes_uploaded;
    out_step->bytes_read = after.bytes_read - before.bytes_read;
    return status;
}

static bool is_end(const generate_options *options, int64_t token)
{
    for (size_t i = 0; i < options->n_ends; i++) {
        if (options->ends[i] == token) {
            return true;
        }
    }
    return false;
}

static kiln_status go_on(generation *g, const generate_options *options, bool *out_ended,
                         kiln_error *err)
{
    generate_sampling sampling = options->sampling;
    for (size_t i = 0; i < options->max_new && !*out_ended; i++) {
        generate_step step = {0};
        kiln_status status = take_step(g, &sampling, &step, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        g->text[g->length++] = step.token;
        options->on_step(&step, options->user);
        *out_ended = is_end(options, step.token);
    }
    return KILN_STATUS_OK;
}

static kiln_status prepare(generation *g, const generate_options *options, kiln_error *err)
{
    size_t most = options->n_prompt + options->max_new + 1;
    g->inputs = kiln_onnx_model_inputs(g->model, &g->n_inputs);
    const kiln_onnx_value_info *outputs = kiln_onnx_model_outputs(g->model, &g->n_outputs);
    g->names.pairs = calloc(GENERATE_MAX_LAYERS, sizeof(*g->names.pairs));
    g->given = calloc(g->n_inputs + 1, sizeof(*g->given));
    g->tensors = calloc(g->n_inputs + 1, sizeof(kiln_tensor *));
    g->outputs = calloc(g->n_outputs + 1, sizeof(kiln_tensor *));
    g->text = calloc(4 * most, sizeof(*g->text));
    if (g->names.pairs == NULL || g->given == NULL || g->tensors == NULL || g->outputs == NULL ||
        g->text == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu tokens", most);
    }
    for (size_t i = 0; i < 3; i++) {
        g->scratch[i] = g->text + (i + 1) * most;
    }
    memcpy(g->text, options->prompt, options->n_prompt * sizeof(*g->text));
    g->length = options->n_prompt;
    kiln_status status = generate_find_names(g->model, &g->names, err);
    if (status == KILN_STATUS_OK) {
        status =
            kiln_onnx_session_create_across(g->model, g->devices, g->n_devices, &g->session, err);
    }
    for (size_t i = 0; status == KILN_STATUS_OK && i < g->names.n_pairs; i++) {
        status =
            kiln_onnx_session_bind(g->session, outputs[g->names.pairs[i].output].name,
                                   g->inputs[g->names.pairs[i].input].name, (int64_t)most, err);
    }
    return status;
}

kiln_status generate_run(const kiln_onnx_model *model, kiln_device *const *devices,
                         size_t n_devices, const generate_options *options, bool *out_ended,
                         kiln_error *err)
{
    generation g = {
        .model = model, .device = devices[0], .devices = devices, .n_devices = n_devices};
    *out_ended = false;
    kiln_status status = prepare(&g, options, err);
    for (size_t i = 0; status == KILN_STATUS_OK && i < n_devices; i++) {
        status = kiln_stream_vary_lengths(devices[i], true, NULL, err);
    }
    if (status == KILN_STATUS_OK) {
        options->on_session(g.session, options->user);
    }
    if (status == KILN_STATUS_OK) {
        status = go_on(&g, options, out_ended, err);
    }
    kiln_onnx_session_destroy(g.session);
    free(g.names.pairs);
    free(g.given);
    free(g.tensors);
    free(g.outputs);
    free(g.text);
    free(g.logits);
    free(g.order);
    return status;
}
