// SPDX-License-Identifier: MIT OR Apache-2.0
// A training in a file: parameters by their names, state beside them, and the number of steps as a
// note. All of it is loaded, or nothing.
#include "optimiser_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char rule_key[] = "kiln.optimiser";
static const char steps_key[] = "kiln.steps";
static const char scale_key[] = "kiln.loss_scale"; // scale, good steps since, steps left out

/// What stands before a parameter's name in the name of a moment.
static void name_prefix(const kiln_optimiser *optimiser, size_t moment, char out_prefix[32])
{
    snprintf(out_prefix, 32, "optimiser.%s.",
             kilni_optimiser_moment_name(optimiser->options.rule, moment));
}

kiln_status kiln_optimiser_save(const kiln_optimiser *optimiser, const char *path, kiln_error *err)
{
    kilni_saving saving;
    char steps[24];
    char scale[80];
    char prefix[32];
    if (optimiser == NULL || path == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "optimiser and path must not be NULL");
    }
    const kiln_params *params = optimiser->params;
    snprintf(steps, sizeof(steps), "%llu", (unsigned long long)optimiser->steps);
    snprintf(scale, sizeof(scale), "%a %llu %llu", optimiser->scale,
             (unsigned long long)optimiser->good_steps, (unsigned long long)optimiser->skipped);
    const kilni_saved_note notes[] = {
        {rule_key, kilni_optimiser_rule_name(optimiser->options.rule)},
        {steps_key, steps},
        {scale_key, scale}};
    const size_t n_notes = optimiser->scale != 0 ? 3 : 2;
    kiln_status status =
        kilni_saving_init(params->env, optimiser->count * (1 + optimiser->n_moments), &saving, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (size_t i = 0; i < optimiser->count; i++) {
        const char *name = kiln_params_name(params, i);
        KILN_TRY(out, status,
                 kilni_saving_add(&saving, "", name, kiln_params_tensor(params, i), err));
        for (size_t m = 0; m < optimiser->n_moments; m++) {
            name_prefix(optimiser, m, prefix);
            KILN_TRY(out, status,
                     kilni_saving_add(&saving, prefix, name, optimiser->moments[i].all[m], err));
        }
    }
    KILN_TRY(out, status,
             kilni_safetensors_write(params->env, path, saving.tensors, saving.count, notes,
                                     n_notes, err));
out:
    kilni_saving_fini(&saving);
    return status;
}

// ---- loading ----

static kiln_status read_steps(const kiln_optimiser *optimiser, const kilni_safetensors *file,
                              uint64_t *out_steps, kiln_error *err)
{
    const char *rule = kilni_safetensors_note(file, rule_key);
    const char *steps = kilni_safetensors_note(file, steps_key);
    const char *own = kilni_optimiser_rule_name(optimiser->options.rule);
    char *end = NULL;
    if (rule == NULL || steps == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "no optimiser's state was saved here");
    }
    if (strcmp(rule, own) != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "the state of %.16s, where this is %s", rule, own);
    }
    errno = 0;
    *out_steps = strtoull(steps, &end, 10);
    if (steps[0] < '0' || steps[0] > '9' || *end != '\0' || errno != 0) {
        return kiln_fail(err, DATA_LOSS, "\"%.24s\" is no number of steps", steps);
    }
    return KILN_STATUS_OK;
}

/// The scale of the loss, where the optimiser has one and the file, too; else as it is.
static kiln_status read_scale(const kiln_optimiser *optimiser, const kilni_safetensors *file,
                              kiln_optimiser *out_state, kiln_error *err)
{
    const char *text = kilni_safetensors_note(file, scale_key);
    char *end = NULL;
    *out_state = *optimiser;
    if (text == NULL || optimiser->scale == 0) {
        return KILN_STATUS_OK;
    }
    out_state->scale = strtod(text, &end);
    out_state->good_steps = strtoull(end, &end, 10);
    out_state->skipped = strtoull(end, &end, 10);
    return *end == '\0' && isfinite(out_state->scale) && out_state->scale > 0
               ? KILN_STATUS_OK
               : kiln_fail(err, DATA_LOSS, "\"%.64s\" is no scale of a loss", text);
}

typedef struct loaded { ///< of one parameter
    kiln_tensor *value;
    kilni_moments moments;
} loaded;

static kiln_status load_one(const kiln_optimiser *optimiser, const kilni_safetensors *file,
                            size_t index, loaded *out_loaded, kiln_error *err)
{
    const char *name = kiln_params_name(optimiser->params, index);
    const kiln_tensor *like = kiln_params_tensor(optimiser->params, index);
    kiln_status status = kilni_saved_like(kilni_safetensors_find(file, name), "", name, like,
                                          &out_loaded->value, err);
    for (size_t m = 0; m < optimiser->n_moments && status == KILN_STATUS_OK; m++) {
        char prefix[32];
        kiln_string full;
        name_prefix(optimiser, m, prefix);
        kiln_string_init(&full, optimiser->env);
        kiln_string_printf(&full, "%s%s", prefix, name);
        status = full.failed ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a name")
                             : kilni_saved_like(kilni_safetensors_find(file, full.text), prefix,
                                                name, like, &out_loaded->moments.all[m], err);
        kiln_string_fini(&full);
    }
    return status;
}

/// The loaded tensors take the places of the old ones, which go where the loaded ones were.
static void swap_in(kiln_optimiser *optimiser, loaded *all)
{
    for (size_t i = 0; i < optimiser->count; i++) {
        kilni_params_replace(optimiser->params, i, all[i].value);
        all[i].value = NULL;
        for (size_t m = 0; m < optimiser->n_moments; m++) {
            kiln_tensor *old = optimiser->moments[i].all[m];
            optimiser->moments[i].all[m] = all[i].moments.all[m];
            all[i].moments.all[m] = old;
        }
    }
}

kiln_status kiln_optimiser_load(kiln_optimiser *optimiser, const char *path, kiln_error *err)
{
    kilni_safetensors *file = NULL;
    kiln_optimiser read;
    uint64_t steps = 0;
    if (optimiser == NULL || path == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "optimiser and path must not be NULL");
    }
    kiln_status status = kilni_safetensors_open(optimiser->env, path, &file, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    loaded *all = kiln_alloc_array(optimiser->env, optimiser->count + 1, sizeof(*all));
    if (all == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to load an optimiser");
        goto out;
    }
    KILN_TRY(out, status, read_steps(optimiser, file, &steps, err));
    KILN_TRY(out, status, read_scale(optimiser, file, &read, err));
    for (size_t i = 0; i < optimiser->count; i++) {
        KILN_TRY(out, status, load_one(optimiser, file, i, &all[i], err));
    }
    swap_in(optimiser, all);
    optimiser->steps = steps;
    optimiser->scale = read.scale;
    optimiser->good_steps = read.good_steps;
    optimiser->skipped = read.skipped;
out:
    for (size_t i = 0; i < optimiser->count && all != NULL; i++) {
        kiln_release(all[i].value);
        for (size_t m = 0; m < KILNI_MOST_STATE; m++) {
            kiln_release(all[i].moments.all[m]);
        }
    }
    kiln_free(optimiser->env, all);
    kilni_safetensors_close(file);
    if (status != KILN_STATUS_OK) {
        (void)kiln_error_context(err, "%s", path);
    }
    return status;
}
