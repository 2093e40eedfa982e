// SPDX-License-Identifier: MIT OR Apache-2.0
// Level 4 for gradients that a plugin brings for its operators: random calls go backwards by the
// reference, and every element of the gradients must lie between the differences of the operator to
// its two sides. In f64, and in f32 where an operator takes no f64.

#include "plugin_check.h"

#include "kf_operators.h"
#include "kiln_grad.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SLOPE_CALLS = 40, SLOPE_INPUTS = 4, SLOPE_ELEMENTS = 16 };

typedef struct slope_trial { ///< one call of an operator
    const kiln_custom_op *op;
    kiln_device *device;
    kiln_dtype dtype;
    uint32_t n_inputs;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t count; ///< of elements of each input
    double values[SLOPE_INPUTS][SLOPE_ELEMENTS];
    uint64_t seed;
} slope_trial;

static void draw_slope(slope_trial *t, uint64_t seed)
{
    static const int64_t extents[] = {1, 2, 3, 4};
    const kiln_custom_op *op = t->op;
    stream s;
    stream_init(&s, seed);
    t->seed = seed;
    uint32_t most = op->max_inputs < SLOPE_INPUTS ? op->max_inputs : SLOPE_INPUTS;
    t->n_inputs = op->min_inputs + stream_below(&s, most - op->min_inputs + 1);
    t->rank = stream_below(&s, 4);
    t->count = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t extent = extents[stream_below(&s, 4)];
        t->dims[i] = t->count * extent > SLOPE_ELEMENTS ? 1 : extent;
        t->count *= t->dims[i];
    }
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        for (int64_t k = 0; k < t->count; k++) {
            t->values[i][k] = stream_below(&s, 8001) / 1000.0 - 4.0;
        }
    }
}

static kiln_status make_operand(const slope_trial *t, uint32_t index, kiln_tensor **out,
                                kiln_error *err)
{
    kiln_tensor *wide = NULL;
    kiln_status status = kiln_tensor_create(t->device, KILN_DTYPE_F64, t->rank, t->dims,
                                            t->values[index], &wide, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_cast(wide, t->dtype, out, err);
    }
    kiln_release(wide);
    return status;
}

/// The sum of all elements of all outputs of floats, each with a weight of its own, in f64.
static kiln_status weigh(kiln_tensor *const *outputs, uint32_t n_outputs, kiln_tensor **out_loss,
                         kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < n_outputs && status == KILN_STATUS_OK; i++) {
        kiln_tensor *t[4] = {NULL};
        if (kiln_dtype_kind_of(kiln_tensor_dtype(outputs[i])) != KILN_KIND_FLOAT) {
            continue;
        }
        const int64_t length = kiln_tensor_count(outputs[i]);
        double weights[256];
        for (int64_t k = 0; k < length && k < 256; k++) {
            weights[k] = sin((double)k + i + 1);
        }
        if (length > 256) {
            return kiln_fail(err, INVALID_ARGUMENT, "more results than are looked at");
        }
        KILN_TRY(next, status, kiln_cast(outputs[i], KILN_DTYPE_F64, &t[0], err));
        KILN_TRY(next, status,
                 kiln_tensor_create(kiln_tensor_device(outputs[i]), KILN_DTYPE_F64,
                                    kiln_tensor_rank(outputs[i]), kiln_tensor_dims(outputs[i]),
                                    weights, &t[1], err));
        KILN_TRY(next, status, kiln_mul(t[0], t[1], &t[2], err));
        KILN_TRY(next, status, kiln_sum(t[2], NULL, 0, false, &t[3], err));
        if (*out_loss != NULL) {
            kiln_tensor *sum = NULL;
            status = kiln_add(*out_loss, t[3], &sum, err);
            kiln_release(*out_loss);
            *out_loss = sum;
        } else {
            *out_loss = kiln_retain(t[3]);
        }
    next:
        for (int k = 0; k < 4; k++) {
            kiln_release(t[k]);
        }
    }
    return status;
}

/// Calls the operator on operands, and weighs what it gives.
static kiln_status find_loss(const slope_trial *t, kiln_tensor *const *inputs,
                             kiln_tensor **out_loss, kiln_error *err)
{
    kiln_tensor *outputs[KILN_MAX_OUTPUTS] = {NULL};
    kiln_custom_call call = KILN_CUSTOM_CALL_INIT;
    call.name = t->op->name;
    call.version = t->op->version;
    call.inputs = inputs;
    call.n_inputs = t->n_inputs;
    kiln_status status = kiln_custom(t->device, &call, outputs, t->op->n_outputs, err);
    if (status == KILN_STATUS_OK) {
        status = weigh(outputs, t->op->n_outputs, out_loss, err);
    }
    for (uint32_t i = 0; i < KILN_MAX_OUTPUTS; i++) {
        kiln_release(outputs[i]);
    }
    return status;
}

static kiln_status loss_at(const slope_trial *t, double *out_loss, kiln_error *err)
{
    kiln_tensor *inputs[SLOPE_INPUTS] = {NULL};
    kiln_tensor *loss = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        KILN_TRY(out, status, make_operand(t, i, &inputs[i], err));
    }
    KILN_TRY(out, status, find_loss(t, inputs, &loss, err));
    KILN_TRY(out, status, kiln_read(loss, out_loss, sizeof(*out_loss), err));
out:
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        kiln_release(inputs[i]);
    }
    kiln_release(loss);
    return status;
}

static kiln_status read_slopes(const slope_trial *t, kiln_tape *tape, kiln_tensor *input,
                               double *out_slopes, kiln_error *err)
{
    kiln_tensor *gradient = NULL;
    kiln_tensor *wide = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_gradient(tape, input, &gradient, err));
    KILN_TRY(out, status, kiln_cast(gradient, KILN_DTYPE_F64, &wide, err));
    KILN_TRY(out, status, kiln_read(wide, out_slopes, (size_t)t->count * sizeof(*out_slopes), err));
out:
    kiln_release(gradient);
    kiln_release(wide);
    return status;
}

static kiln_status go_backwards(const slope_trial *t, double slopes[SLOPE_INPUTS][SLOPE_ELEMENTS],
                                kiln_error *err)
{
    kiln_tape *tape = NULL;
    kiln_tensor *inputs[SLOPE_INPUTS] = {NULL};
    kiln_tensor *loss = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_tape_create(t->device, &tape, err));
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        KILN_TRY(out, status, make_operand(t, i, &inputs[i], err));
        KILN_TRY(out, status, kiln_tape_track(tape, inputs[i], err));
    }
    KILN_TRY(out, status, find_loss(t, inputs, &loss, err));
    KILN_TRY(out, status, kiln_backward(tape, loss, NULL, err));
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        KILN_TRY(out, status, read_slopes(t, tape, inputs[i], slopes[i], err));
    }
out:
    kiln_tape_destroy(tape);
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        kiln_release(inputs[i]);
    }
    kiln_release(loss);
    return status;
}

/// At a kink a gradient is one of those on the two sides, or lies between them.
static bool is_between(double slope, double left, double right, double part)
{
    double near = part * (1 + fmax(fabs(left), fabs(right)));
    return slope >= fmin(left, right) - near && slope <= fmax(left, right) + near;
}

static bool compare_slopes(check *c, slope_trial *t, double at,
                           double slopes[SLOPE_INPUTS][SLOPE_ELEMENTS])
{
    double step = t->dtype == KILN_DTYPE_F64 ? 1e-6 : 0x1p-7;
    double part = t->dtype == KILN_DTYPE_F64 ? 1e-4 : 0.05;
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        for (int64_t k = 0; k < t->count; k++) {
            kiln_error err = KILN_ERROR_INIT;
            double before = t->values[i][k];
            double sides[2] = {0, 0};
            bool ran = true;
            for (int side = 0; side < 2; side++) {
                t->values[i][k] = before + (side == 0 ? -step : step);
                ran = ran && loss_at(t, &sides[side], &err) == KILN_STATUS_OK;
            }
            t->values[i][k] = before;
            double left = (at - sides[0]) / step, right = (sides[1] - at) / step;
            if (ran && !is_between(slopes[i][k], left, right, part)) {
                return check_fail(c,
                                  "%s: the gradient of input %u, element %lld, is %.9g; the "
                                  "operator's differences are %.9g and %.9g; seed %llu",
                                  t->op->name, i, (long long)k, slopes[i][k], left, right,
                                  (unsigned long long)t->seed);
            }
        }
    }
    return true;
}

/// Calls that the operator's rule declines do not count. Returns whether this one does.
static bool try_slope(check *c, slope_trial *t)
{
    static double slopes[SLOPE_INPUTS][SLOPE_ELEMENTS];
    kiln_error err = KILN_ERROR_INIT;
    double at = 0;
    check_step(c, "gradient of %s, seed %llu", t->op->name, (unsigned long long)t->seed);
    if (loss_at(t, &at, &err) != KILN_STATUS_OK || !isfinite(at)) {
        return false;
    }
    if (go_backwards(t, slopes, &err) != KILN_STATUS_OK) {
        check_fail(c, "%s, seed %llu: %s", t->op->name, (unsigned long long)t->seed, err.message);
        return false;
    }
    return compare_slopes(c, t, at, slopes);
}

static uint64_t check_gradient_of(check *c, const kiln_custom_op *op, kiln_device *judge)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F64, KILN_DTYPE_F32};
    uint64_t calls = 0;
    for (int d = 0; d < 2 && calls == 0; d++) {
        for (uint64_t i = 0; i < SLOPE_CALLS && check_good(c) && check_has_time(c); i++) {
            slope_trial t = {.op = op, .device = judge, .dtype = dtypes[d]};
            draw_slope(&t, c->seed * 1000 + i);
            calls += try_slope(c, &t);
        }
    }
    if (check_good(c) && calls == 0) {
        check_fail(c, "%s: none of the calls that were tried has a gradient", op->name);
    }
    return calls;
}

static void check_all(check *c, const kf_operators *list, kiln_device *judge)
{
    uint64_t calls = 0, gradients = 0;
    for (uint64_t i = 0; i < list->n_operators && check_good(c); i++) {
        const kf_operator *abi = list->operators[i];
        char name[KILN_CUSTOM_MAX_NAME + 1];
        const kiln_custom_op *op = NULL;
        kiln_error err = KILN_ERROR_INIT;
        snprintf(name, sizeof(name), "%.*s", (int)abi->name.len, abi->name.ptr);
        if (kiln_custom_find(judge, name, abi->version, &op, &err) != KILN_STATUS_OK) {
            check_fail(c, "%s", err.message);
        } else if (op->gradient != NULL && op->min_inputs <= SLOPE_INPUTS) {
            gradients++;
            calls += check_gradient_of(c, op, judge);
        }
    }
    if (gradients == 0) {
        check_skip(c, "brings no gradient");
    } else {
        check_say(c, "%llu %s of %llu %s", (unsigned long long)calls,
                  kiln_plural(calls, "call", "calls"), (unsigned long long)gradients,
                  kiln_plural(gradients, "operator", "operators"));
    }
}

static void check_gradients(check *c)
{
    check_bench b;
    kiln_device *judge = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!check_load(c)) {
        return;
    }
    const kf_operators *list =
        c->plugin->extension != NULL ? c->plugin->extension(KF_EXT_OPERATORS) : NULL;
    if (list == NULL) {
        check_skip(c, "brings no operator");
        return;
    }
    if (!check_bench_open(c, &b)) {
        return;
    }
    if (kiln_device_open(b.context, "reference:0", &judge, &err) != KILN_STATUS_OK) {
        check_fail(c, "%s", err.message);
    } else {
        check_all(c, list, judge);
    }
    kiln_device_release(judge);
    check_bench_close(&b);
}

const check_row check_gradient_rows[] = {
    {"gradients", 4, check_gradients, "gradients of operators agree with their differences"},
    {NULL, 0, NULL, NULL},
};
