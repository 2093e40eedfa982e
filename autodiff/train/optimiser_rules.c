// SPDX-License-Identifier: MIT OR Apache-2.0
// The rules as operations on one parameter: elementwise chains, equal for all parameters, which the
// foreach fuser computes together. What differs from step to step comes as factors.
#include "optimiser_internal.h"

enum { MOST_STEPS = 20 };

/// What is on the way to a result; released at the end of the chain.
typedef struct chain {
    kiln_tensor *all[MOST_STEPS];
    size_t count;
} chain;

static void chain_fini(chain *self)
{
    for (size_t i = 0; i < self->count; i++) {
        kiln_release(self->all[i]);
    }
}

/// A place for the next value.
static kiln_tensor **next(chain *self)
{
    self->all[self->count] = NULL;
    return &self->all[self->count++];
}

typedef kiln_status (*binary_fn)(kiln_tensor *a, kiln_tensor *b, kiln_tensor **out_tensor,
                                 kiln_error *err);
typedef kiln_status (*scalar_fn)(kiln_tensor *x, kiln_number value, kiln_tensor **out_tensor,
                                 kiln_error *err);

static kiln_status join(chain *self, binary_fn op, kiln_tensor *a, kiln_tensor *b,
                        kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor **place = next(self);
    kiln_status status = op(a, b, place, err);
    *out_tensor = *place;
    return status;
}

static kiln_status with_number(chain *self, scalar_fn op, kiln_tensor *x, double number,
                               kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor **place = next(self);
    kiln_status status = op(x, kiln_f64(number), place, err);
    *out_tensor = *place;
    return status;
}

static kiln_status times(chain *self, kiln_tensor *x, const kilni_factor *factor,
                         kiln_tensor **out_tensor, kiln_error *err)
{
    return factor->tensor != NULL
               ? join(self, kiln_mul, x, factor->tensor, out_tensor, err)
               : with_number(self, kiln_mul_scalar, x, factor->number, out_tensor, err);
}

/// a * x + b * y.
static kiln_status blend(chain *self, kiln_tensor *x, double a, kiln_tensor *y, double b,
                         kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor *left = NULL;
    kiln_tensor *right = y;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, with_number(self, kiln_mul_scalar, x, a, &left, err));
    if (b != 1) {
        KILN_TRY(out, status, with_number(self, kiln_mul_scalar, y, b, &right, err));
    }
    KILN_TRY(out, status, join(self, kiln_add, left, right, out_tensor, err));
out:
    return status;
}

/// The gradient as the rule takes it: scaled down, and with the decay that belongs to it.
static kiln_status prepare_gradient(chain *self, const kilni_step_input *input, bool with_decay,
                                    kiln_tensor **out_gradient, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor *gradient = input->gradient;
    double decay = input->options->decay;
    if (input->factors->clip != NULL) {
        KILN_TRY(out, status, join(self, kiln_mul, gradient, input->factors->clip, &gradient, err));
    }
    if (with_decay && decay != 0) {
        KILN_TRY(out, status, blend(self, input->value, decay, gradient, 1, &gradient, err));
    }
    *out_gradient = gradient;
out:
    return status;
}

static kiln_status record_sgd(chain *self, const kilni_step_input *input, kiln_tensor **out_value,
                              kilni_moments *out_moments, kiln_error *err)
{
    const kiln_optimiser_options *options = input->options;
    kiln_tensor *gradient = NULL;
    kiln_tensor *update = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, prepare_gradient(self, input, /*with_decay=*/true, &gradient, err));
    if (options->momentum != 0) {
        kiln_tensor *momentum = NULL;
        KILN_TRY(
            out, status,
            blend(self, input->moments->all[0], options->momentum, gradient, 1, &momentum, err));
        out_moments->all[0] = kiln_retain(momentum);
        if (options->nesterov != 0) {
            KILN_TRY(out, status,
                     blend(self, momentum, options->momentum, gradient, 1, &gradient, err));
        } else {
            gradient = momentum;
        }
    }
    KILN_TRY(out, status,
             times(self, gradient, &input->factors->all[KILNI_FACTOR_RATE], &update, err));
    KILN_TRY(out, status, kiln_sub(input->value, update, out_value, err));
out:
    return status;
}

/// The parameter less its decay and its update.
static kiln_status take_update(chain *self, const kilni_step_input *input, bool shrinks,
                               kiln_tensor *update, kiln_tensor **out_value, kiln_error *err)
{
    kiln_tensor *value = input->value;
    kiln_tensor *scaled = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status,
             times(self, update, &input->factors->all[KILNI_FACTOR_RATE], &scaled, err));
    if (shrinks && input->options->decay != 0) {
        KILN_TRY(out, status,
                 times(self, value, &input->factors->all[KILNI_FACTOR_SHRINK], &value, err));
    }
    KILN_TRY(out, status, kiln_sub(value, scaled, out_value, err));
out:
    return status;
}

static kiln_status record_adam(chain *self, const kilni_step_input *input, kiln_tensor **out_value,
                               kilni_moments *out_moments, kiln_error *err)
{
    const kiln_optimiser_options *options = input->options;
    bool decoupled = options->rule == KILN_OPTIMISER_ADAMW;
    kiln_tensor *gradient = NULL;
    kiln_tensor *mean = NULL;
    kiln_tensor *square = NULL;
    kiln_tensor *t = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, prepare_gradient(self, input, !decoupled, &gradient, err));
    KILN_TRY(out, status,
             blend(self, input->moments->all[0], options->beta1, gradient, 1 - options->beta1,
                   &mean, err));
    out_moments->all[0] = kiln_retain(mean);
    KILN_TRY(out, status, join(self, kiln_mul, gradient, gradient, &t, err));
    KILN_TRY(
        out, status,
        blend(self, input->moments->all[1], options->beta2, t, 1 - options->beta2, &square, err));
    out_moments->all[1] = kiln_retain(square);
    kiln_tensor **root = next(self);
    KILN_TRY(out, status, kiln_sqrt(square, root, err));
    KILN_TRY(out, status, times(self, *root, &input->factors->all[KILNI_FACTOR_ROOT], &t, err));
    KILN_TRY(out, status, with_number(self, kiln_add_scalar, t, options->epsilon, &t, err));
    KILN_TRY(out, status, join(self, kiln_div, mean, t, &t, err));
    KILN_TRY(out, status, take_update(self, input, decoupled, t, out_value, err));
out:
    return status;
}

static kiln_status record_lion(chain *self, const kilni_step_input *input, kiln_tensor **out_value,
                               kilni_moments *out_moments, kiln_error *err)
{
    const kiln_optimiser_options *options = input->options;
    kiln_tensor *before = input->moments->all[0];
    kiln_tensor *gradient = NULL;
    kiln_tensor *t = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, prepare_gradient(self, input, /*with_decay=*/false, &gradient, err));
    KILN_TRY(out, status,
             blend(self, before, options->beta1, gradient, 1 - options->beta1, &t, err));
    kiln_tensor **sign = next(self);
    KILN_TRY(out, status, kiln_sign(t, sign, err));
    KILN_TRY(out, status, take_update(self, input, /*shrinks=*/true, *sign, out_value, err));
    KILN_TRY(out, status,
             blend(self, before, options->beta2, gradient, 1 - options->beta2, &t, err));
    out_moments->all[0] = kiln_retain(t);
out:
    return status;
}

// ---- the table ----

typedef struct rule {
    const char *name;
    const char *moments[KILNI_MOST_STATE];
    kiln_status (*record)(chain *self, const kilni_step_input *input, kiln_tensor **out_value,
                          kilni_moments *out_moments, kiln_error *err);
} rule;

static const rule rules[] = {
    [KILN_OPTIMISER_SGD] = {"sgd", {"momentum"}, record_sgd},
    [KILN_OPTIMISER_ADAM] = {"adam", {"mean", "square"}, record_adam},
    [KILN_OPTIMISER_ADAMW] = {"adamw", {"mean", "square"}, record_adam},
    [KILN_OPTIMISER_LION] = {"lion", {"mean"}, record_lion},
};

const char *kilni_optimiser_rule_name(kiln_optimiser_rule number)
{
    return (size_t)number < sizeof(rules) / sizeof(rules[0]) ? rules[number].name : NULL;
}

const char *kilni_optimiser_moment_name(kiln_optimiser_rule number, size_t moment)
{
    return rules[number].moments[moment];
}

size_t kilni_optimiser_moment_count(const kiln_optimiser_options *options)
{
    size_t count = 0;
    while (count < KILNI_MOST_STATE && rules[options->rule].moments[count] != NULL) {
        count++;
    }
    return options->rule == KILN_OPTIMISER_SGD && options->momentum == 0 ? 0 : count;
}

kiln_status kilni_optimiser_rule_record(const kilni_step_input *input, kiln_tensor **out_value,
                                        kilni_moments *out_moments, kiln_error *err)
{
    chain self = {.count = 0};
    *out_value = NULL;
    *out_moments = (kilni_moments){{NULL}};
    kiln_status status =
        rules[input->options->rule].record(&self, input, out_value, out_moments, err);
    chain_fini(&self);
    if (status != KILN_STATUS_OK) {
        for (size_t i = 0; i < KILNI_MOST_STATE; i++) {
            kiln_release(out_moments->all[i]);
            out_moments->all[i] = NULL;
        }
        kiln_release(*out_value);
        *out_value = NULL;
    }
    return status;
}
