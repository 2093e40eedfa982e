// SPDX-License-Identifier: MIT OR Apache-2.0
// Optimisers and their steps. Decides what a step is made of, and whether it is recorded each time
// or captured once: then what differs from step to step are inputs of the graph, tensors of one
// element, and parameters and state are carried in their place. The rules are optimiser_rules.c's.
#include "optimiser_internal.h"

#include <math.h>

// ---- life ----

static kiln_status settle(const kiln_optimiser_options *options, kiln_optimiser_options *out_own,
                          kiln_error *err)
{
    const kiln_optimiser_options none = KILN_OPTIMISER_OPTIONS_INIT;
    kiln_optimiser_options own = options != NULL ? *options : none;
    if (own.struct_size < sizeof(own)) {
        return kiln_fail(err, INVALID_ARGUMENT, "options of an optimiser without their size");
    }
    if (kilni_optimiser_rule_name(own.rule) == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "no optimiser has number %d", (int)own.rule);
    }
    own.rate = own.rate == 0 ? 0.001 : own.rate;
    own.beta1 = own.beta1 == 0 ? 0.9 : own.beta1;
    own.beta2 = own.beta2 != 0 ? own.beta2 : own.rule == KILN_OPTIMISER_LION ? 0.99 : 0.999;
    own.epsilon = own.epsilon == 0 ? 1e-8 : own.epsilon;
    const struct {
        const char *name;
        double value;
        double limit;
    } checked[] = {
        {"rate", own.rate, INFINITY},
        {"momentum", own.momentum, 1},
        {"beta1", own.beta1, 1},
        {"beta2", own.beta2, 1},
        {"epsilon", own.epsilon, INFINITY},
        {"decay", own.decay, INFINITY},
        {"clip", own.clip, INFINITY},
        {"loss_scale", own.loss_scale, INFINITY},
    };
    for (size_t i = 0; i < sizeof(checked) / sizeof(checked[0]); i++) {
        if (!(checked[i].value >= 0 && checked[i].value < checked[i].limit)) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s is %g, and must be from 0 to below %g",
                             checked[i].name, checked[i].value, checked[i].limit);
        }
    }
    if (own.schedule != NULL && own.schedule->struct_size < sizeof(*own.schedule)) {
        return kiln_fail(err, INVALID_ARGUMENT, "a schedule without its size");
    }
    *out_own = own;
    return KILN_STATUS_OK;
}

/// Notes a parameter's dtype, once.
static kiln_status note_dtype(kiln_optimiser *optimiser, size_t index, kiln_error *err)
{
    kiln_dtype dtype = kiln_tensor_dtype(kiln_params_tensor(optimiser->params, index));
    if (kiln_dtype_kind_of(dtype) != KILN_KIND_FLOAT) {
        return kiln_fail(err, INVALID_ARGUMENT, "parameter %.64s is %s; only floats are optimised",
                         kiln_params_name(optimiser->params, index), kiln_dtype_name(dtype));
    }
    for (size_t i = 0; i < optimiser->n_dtypes; i++) {
        if (optimiser->dtypes[i] == dtype) {
            return KILN_STATUS_OK;
        }
    }
    optimiser->dtypes[optimiser->n_dtypes++] = dtype;
    return KILN_STATUS_OK;
}

static kiln_status make_moments(kiln_optimiser *optimiser, size_t index, kiln_error *err)
{
    const kiln_tensor *value = kiln_params_tensor(optimiser->params, index);
    kiln_status status = note_dtype(optimiser, index, err);
    for (size_t m = 0; m < optimiser->n_moments && status == KILN_STATUS_OK; m++) {
        status = kiln_tensor_create(optimiser->params->device, kiln_tensor_dtype(value),
                                    kiln_tensor_rank(value), kiln_tensor_dims(value), NULL,
                                    &optimiser->moments[index].all[m], err);
    }
    return status;
}

kiln_status kiln_optimiser_create(kiln_params *params, const kiln_optimiser_options *options,
                                  kiln_optimiser **out_optimiser, kiln_error *err)
{
    if (out_optimiser == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_optimiser must not be NULL");
    }
    kiln_optimiser_options own;
    *out_optimiser = NULL;
    if (params == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "parameters must not be NULL");
    }
    kiln_status status = settle(options, &own, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_optimiser *optimiser = kiln_alloc(params->env, sizeof(*optimiser));
    kilni_moments *moments = kiln_alloc_array(params->env, params->count + 1, sizeof(*moments));
    if (optimiser == NULL || moments == NULL) {
        kiln_free(params->env, optimiser);
        kiln_free(params->env, moments);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an optimiser");
    }
    *optimiser = (kiln_optimiser){.env = params->env,
                                  .params = params,
                                  .count = params->count,
                                  .options = own,
                                  .scale = own.loss_scale,
                                  .n_moments = kilni_optimiser_moment_count(&own),
                                  .moments = moments};
    if (own.schedule != NULL) {
        optimiser->schedule = *own.schedule;
        optimiser->options.schedule = &optimiser->schedule;
    }
    for (size_t i = 0; i < optimiser->count && status == KILN_STATUS_OK; i++) {
        status = make_moments(optimiser, i, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_optimiser_destroy(optimiser);
        return status;
    }
    *out_optimiser = optimiser;
    return KILN_STATUS_OK;
}

void kiln_optimiser_destroy(kiln_optimiser *optimiser)
{
    if (optimiser == NULL) {
        return;
    }
    for (size_t i = 0; i < optimiser->count; i++) {
        for (size_t m = 0; m < KILNI_MOST_STATE; m++) {
            kiln_release(optimiser->moments[i].all[m]);
        }
    }
    kiln_graph_destroy(optimiser->graph);
    kiln_free(optimiser->env, optimiser->moments);
    kiln_free(optimiser->env, optimiser);
}

uint64_t kiln_optimiser_steps(const kiln_optimiser *optimiser)
{
    if (optimiser == NULL) {
        return 0;
    }
    return optimiser->steps;
}

double kiln_optimiser_rate(const kiln_optimiser *optimiser)
{
    if (optimiser == NULL) {
        return 0;
    }
    return kiln_schedule_rate(optimiser->options.schedule, optimiser->options.rate,
                              optimiser->steps);
}

// ---- factors ----

void kilni_optimiser_factors(const kiln_optimiser *optimiser, kilni_factors *out_factors)
{
    const kiln_optimiser_options *options = &optimiser->options;
    bool is_adam = options->rule == KILN_OPTIMISER_ADAM || options->rule == KILN_OPTIMISER_ADAMW;
    double rate = kiln_optimiser_rate(optimiser);
    double step = (double)(optimiser->steps + 1);
    kilni_factors factors = {.dtype = KILN_DTYPE_NONE};
    factors.all[KILNI_FACTOR_RATE].number = is_adam ? rate / (1 - pow(options->beta1, step)) : rate;
    factors.all[KILNI_FACTOR_ROOT].number = 1 / sqrt(1 - pow(options->beta2, step));
    factors.all[KILNI_FACTOR_SHRINK].number = 1 - rate * options->decay;
    for (size_t i = 0; i < optimiser->n_dtypes; i++) {
        out_factors[i] = factors;
        out_factors[i].dtype = optimiser->dtypes[i];
    }
}

static kilni_factors *factors_for(const kiln_optimiser *optimiser, kilni_factors *factors,
                                  const kiln_tensor *value)
{
    size_t i = 0;
    while (i + 1 < optimiser->n_dtypes && factors[i].dtype != kiln_tensor_dtype(value)) {
        i++;
    }
    return &factors[i];
}

/// Records the scaling of gradients, in each dtype.
static kiln_status record_clip(const kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                               kilni_factors *factors, kiln_error *err)
{
    kiln_tensor *clip = NULL;
    if (optimiser->options.clip == 0) {
        return KILN_STATUS_OK;
    }
    kiln_status status =
        kilni_optimiser_clip_record(optimiser->params->device, gradients, optimiser->count,
                                    optimiser->options.clip, &clip, err);
    for (size_t i = 0; i < optimiser->n_dtypes && clip != NULL && status == KILN_STATUS_OK; i++) {
        if (kiln_tensor_dtype(clip) == factors[i].dtype) {
            factors[i].clip = kiln_retain(clip);
        } else {
            status = kiln_cast(clip, factors[i].dtype, &factors[i].clip, err);
        }
    }
    kiln_release(clip);
    return status;
}

static void factors_fini(const kiln_optimiser *optimiser, kilni_factors *factors)
{
    for (size_t i = 0; i < optimiser->n_dtypes; i++) {
        for (size_t k = 0; k < KILNI_FACTORS; k++) {
            kiln_release(factors[i].all[k].tensor);
            factors[i].all[k].tensor = NULL;
        }
        kiln_release(factors[i].clip);
        factors[i].clip = NULL;
    }
}

// ---- a step ----

static kiln_status check_gradient(const kiln_optimiser *optimiser, size_t index,
                                  const kiln_tensor *gradient, kiln_error *err)
{
    const char *name = kiln_params_name(optimiser->params, index);
    const kiln_tensor *value = kiln_params_tensor(optimiser->params, index);
    if (gradient == NULL) {
        return optimiser->options.captured == 0
                   ? KILN_STATUS_OK
                   : kiln_fail(err, INVALID_ARGUMENT,
                               "parameter %.64s has no gradient, and the step is captured", name);
    }
    bool same = kiln_tensor_dtype(gradient) == kiln_tensor_dtype(value) &&
                kiln_tensor_rank(gradient) == kiln_tensor_rank(value);
    for (size_t i = 0; same && i < kiln_tensor_rank(value); i++) {
        same = kiln_tensor_dims(gradient)[i] == kiln_tensor_dims(value)[i];
    }
    if (!same) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the gradient of parameter %.64s is %s of %lld elements, the parameter %s "
                         "of %lld, or the shapes differ",
                         name, kiln_dtype_name(kiln_tensor_dtype(gradient)),
                         (long long)kiln_tensor_count(gradient),
                         kiln_dtype_name(kiln_tensor_dtype(value)),
                         (long long)kiln_tensor_count(value));
    }
    return KILN_STATUS_OK;
}

static kiln_status record_one(const kiln_optimiser *optimiser, size_t index, kilni_factors *factors,
                              kiln_tensor *gradient, kiln_tensor **out_value,
                              kilni_moments *out_moments, kiln_error *err)
{
    kiln_tensor *value = kiln_params_tensor(optimiser->params, index);
    const kilni_step_input input = {.options = &optimiser->options,
                                    .factors = factors_for(optimiser, factors, value),
                                    .value = value,
                                    .gradient = gradient,
                                    .moments = &optimiser->moments[index]};
    return kilni_optimiser_rule_record(&input, out_value, out_moments, err);
}

/// Each parameter gives its old value up at once, so that the new one may take its memory.
static kiln_status step_recorded(kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                                 kiln_error *err)
{
    kilni_factors factors[KILNI_FLOATS];
    kilni_optimiser_factors(optimiser, factors);
    kiln_status status = record_clip(optimiser, gradients, factors, err);
    for (size_t i = 0; i < optimiser->count && status == KILN_STATUS_OK; i++) {
        kiln_tensor *value = NULL;
        kilni_moments moments;
        if (gradients[i] == NULL) {
            continue;
        }
        KILN_TRY(out, status,
                 record_one(optimiser, i, factors, gradients[i], &value, &moments, err));
        for (size_t m = 0; m < optimiser->n_moments; m++) {
            kiln_release(optimiser->moments[i].all[m]);
            optimiser->moments[i].all[m] = moments.all[m];
        }
        kilni_params_replace(optimiser->params, i, value);
    }
out:
    factors_fini(optimiser, factors);
    return status;
}

// ---- a captured step ----

static bool is_used(const kiln_optimiser_options *options, size_t factor)
{
    bool is_adam = options->rule == KILN_OPTIMISER_ADAM || options->rule == KILN_OPTIMISER_ADAMW;
    bool shrinks = options->rule >= KILN_OPTIMISER_ADAMW && options->decay != 0;
    return factor == KILNI_FACTOR_RATE || (factor == KILNI_FACTOR_ROOT && is_adam) ||
           (factor == KILNI_FACTOR_SHRINK && shrinks);
}

static kiln_status make_factor_tensors(const kiln_optimiser *optimiser, kilni_factors *factors,
                                       kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < optimiser->n_dtypes; i++) {
        for (size_t k = 0; k < KILNI_FACTORS && status == KILN_STATUS_OK; k++) {
            const kiln_attr number = {
                .type = KILN_ATTR_F64, .count = 1, .v.f = factors[i].all[k].number};
            unsigned char element[8];
            if (is_used(&optimiser->options, k)) {
                (void)kiln_number_store(&number, factors[i].dtype, element);
                status = kiln_tensor_create(optimiser->params->device, factors[i].dtype, 0, NULL,
                                            element, &factors[i].all[k].tensor, err);
            }
        }
    }
    return status;
}

/// The graph's inputs: of each parameter its value, its state, its gradient; then the factors.
/// Returns how many there are. The references stay where they are.
static size_t gather_inputs(const kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                            const kilni_factors *factors, kiln_tensor **out_inputs)
{
    size_t count = 0;
    for (size_t i = 0; i < optimiser->count; i++) {
        out_inputs[count++] = kiln_params_tensor(optimiser->params, i);
        for (size_t m = 0; m < optimiser->n_moments; m++) {
            out_inputs[count++] = optimiser->moments[i].all[m];
        }
        out_inputs[count++] = gradients[i];
    }
    for (size_t i = 0; i < optimiser->n_dtypes; i++) {
        for (size_t k = 0; k < KILNI_FACTORS; k++) {
            if (factors[i].all[k].tensor != NULL) {
                out_inputs[count++] = factors[i].all[k].tensor;
            }
        }
    }
    return count;
}

static kiln_status carry_one(kiln_optimiser *optimiser, size_t index, kilni_factors *factors,
                             kiln_tensor *gradient, kiln_error *err)
{
    kiln_device *device = optimiser->params->device;
    kiln_tensor *value = NULL;
    kilni_moments moments = {{NULL}};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, record_one(optimiser, index, factors, gradient, &value, &moments, err));
    KILN_TRY(out, status,
             kiln_graph_carry(device, kiln_params_tensor(optimiser->params, index), value, err));
    for (size_t m = 0; m < optimiser->n_moments; m++) {
        KILN_TRY(out, status,
                 kiln_graph_carry(device, optimiser->moments[index].all[m], moments.all[m], err));
    }
out:
    kiln_release(value);
    for (size_t m = 0; m < KILNI_MOST_STATE; m++) {
        kiln_release(moments.all[m]);
    }
    return status;
}

static kiln_status capture(kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                           kilni_factors *factors, kiln_tensor *const *inputs, size_t n_inputs,
                           kiln_error *err)
{
    kiln_device *device = optimiser->params->device;
    kiln_status status = kiln_graph_begin(device, inputs, n_inputs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    KILN_TRY(out, status, record_clip(optimiser, gradients, factors, err));
    for (size_t i = 0; i < optimiser->count; i++) {
        KILN_TRY(out, status, carry_one(optimiser, i, factors, gradients[i], err));
    }
    KILN_TRY(out, status, kiln_graph_end(device, NULL, 0, &optimiser->graph, err));
out:
    if (status != KILN_STATUS_OK) {
        kiln_graph_cancel(device);
    }
    return status;
}

/// What the run put into the places of values and state is theirs.
static void take_carried(kiln_optimiser *optimiser, kiln_tensor *const *inputs)
{
    for (size_t i = 0; i < optimiser->count; i++) {
        kilni_parameter *parameter = &optimiser->params->all[i];
        parameter->value = *inputs++;
        kiln_tensor_set_param(parameter->value, parameter->id);
        for (size_t m = 0; m < optimiser->n_moments; m++) {
            optimiser->moments[i].all[m] = *inputs++;
        }
        inputs++; // the gradient
    }
}

static kiln_status step_captured(kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                                 kiln_error *err)
{
    kilni_factors factors[KILNI_FLOATS];
    size_t most = optimiser->count * (2 + KILNI_MOST_STATE) + KILNI_FLOATS * KILNI_FACTORS;
    kilni_optimiser_factors(optimiser, factors);
    kiln_tensor **inputs = kiln_alloc_array(optimiser->env, most, sizeof(kiln_tensor *));
    kiln_status status = KILN_STATUS_OK;
    if (inputs == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    }
    KILN_TRY(out, status, make_factor_tensors(optimiser, factors, err));
    size_t n_inputs = gather_inputs(optimiser, gradients, factors, inputs);
    if (optimiser->graph == NULL) {
        KILN_TRY(out, status, capture(optimiser, gradients, factors, inputs, n_inputs, err));
    }
    KILN_TRY(out, status, kiln_graph_advance(optimiser->graph, inputs, n_inputs, NULL, 0, err));
    take_carried(optimiser, inputs);
out:
    factors_fini(optimiser, factors);
    kiln_free(optimiser->env, (void *)inputs);
    return status;
}

kiln_status kilni_optimiser_step_as_is(kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                                       kiln_error *err)
{
    kiln_status status = optimiser->options.captured != 0
                             ? step_captured(optimiser, gradients, err)
                             : step_recorded(optimiser, gradients, err);
    optimiser->steps += status == KILN_STATUS_OK;
    return status;
}

/// A step with gradients of a loss that was multiplied; or none, where they are not finite.
static kiln_status step_scaled(kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                               kiln_error *err)
{
    bool finite = true;
    kiln_status status = kilni_optimiser_check_finite(optimiser, gradients, &finite, err);
    if (status != KILN_STATUS_OK || !finite) {
        if (status == KILN_STATUS_OK) {
            kilni_optimiser_adapt_scale(optimiser, false);
        }
        return status;
    }
    kiln_tensor **own =
        kiln_alloc_array(optimiser->env, optimiser->count + 1, sizeof(kiln_tensor *));
    if (own == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a step");
    }
    KILN_TRY(out, status, kilni_optimiser_unscale(optimiser, gradients, own, err));
    KILN_TRY(out, status, kilni_optimiser_step_as_is(optimiser, own, err));
    kilni_optimiser_adapt_scale(optimiser, true);
out:
    for (size_t i = 0; i < optimiser->count; i++) {
        kiln_release(own[i]);
    }
    kiln_free(optimiser->env, (void *)own);
    return status;
}

kiln_status kiln_optimiser_step(kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                                size_t n_gradients, kiln_error *err)
{
    if (optimiser == NULL || gradients == NULL || n_gradients != optimiser->count) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu gradients for %zu parameters",
                         gradients != NULL ? n_gradients : 0,
                         optimiser != NULL ? optimiser->count : 0);
    }
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < n_gradients; i++) {
        status = check_gradient(optimiser, i, gradients[i], err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return optimiser->scale != 0 ? step_scaled(optimiser, gradients, err)
                                 : kilni_optimiser_step_as_is(optimiser, gradients, err);
}
