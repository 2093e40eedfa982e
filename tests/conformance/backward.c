// SPDX-License-Identifier: MIT OR Apache-2.0
// Backward operators against numerical differentiation of their forward ones, both by the reference
// evaluator in f64 (which numpy_judge.py and the backend suite tie to NumPy and to devices). For
// each sample of the forward operator, with values of ordinary size in its place: the backward
// operator's results against (f(x + h) - f(x - h)) / 2h, summed with a gradient of random numbers,
// at some elements of each input. A new pair is a row of the table.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "ir.h"
#include "samples.h"

enum { GRAD = 100, OUTPUT = 50, MAX_POINTS = 10 };

/* Attributes of the backward operator are the forward one's of the same name; `shape` is that of
 * the input that result 0 belongs to. */
typedef struct pair {
    kiln_op forward;
    kiln_op backward;
    int sources[KILN_MAX_NAMED_INPUTS]; ///< of its inputs: GRAD, an input of the forward operator,
                                        ///< OUTPUT + one of its results
    unsigned n_sources;
    int of[KILN_MAX_OUTPUTS]; ///< for each of its results: the input that it is the gradient of
} pair;

static const pair pairs[] = {
    {KILN_OP_CONV, KILN_OP_CONV_X_BACKWARD, {GRAD, 1}, 2, {0}},
    {KILN_OP_CONV, KILN_OP_CONV_WEIGHT_BACKWARD, {0, GRAD}, 2, {1}},
    {KILN_OP_CONV, KILN_OP_CONV_BIAS_BACKWARD, {GRAD}, 1, {2}},
    {KILN_OP_RELU, KILN_OP_RELU_BACKWARD, {OUTPUT, GRAD}, 2, {0}},
    {KILN_OP_GELU, KILN_OP_GELU_BACKWARD, {0, GRAD}, 2, {0}},
    {KILN_OP_SIGMOID, KILN_OP_SIGMOID_BACKWARD, {OUTPUT, GRAD}, 2, {0}},
    {KILN_OP_LOG_SIGMOID, KILN_OP_LOG_SIGMOID_BACKWARD, {0, GRAD}, 2, {0}},
    {KILN_OP_SOFTMAX, KILN_OP_SOFTMAX_BACKWARD, {OUTPUT, GRAD}, 2, {0}},
    {KILN_OP_LOG_SOFTMAX, KILN_OP_LOG_SOFTMAX_BACKWARD, {OUTPUT, GRAD}, 2, {0}},
    {KILN_OP_LAYER_NORM, KILN_OP_LAYER_NORM_BACKWARD, {GRAD, 0, 1}, 3, {0, 1, 2}},
    {KILN_OP_RMS_NORM, KILN_OP_RMS_NORM_BACKWARD, {GRAD, 0, 1}, 3, {0, 1}},
    {KILN_OP_GROUP_NORM, KILN_OP_GROUP_NORM_BACKWARD, {GRAD, 0, 1}, 3, {0, 1, 2}},
    {KILN_OP_INSTANCE_NORM, KILN_OP_INSTANCE_NORM_BACKWARD, {GRAD, 0, 1}, 3, {0, 1, 2}},
    {KILN_OP_BATCH_NORM_TRAIN, KILN_OP_BATCH_NORM_BACKWARD, {GRAD, 0, 1}, 3, {0, 1, 2}},
    {KILN_OP_LINEAR, KILN_OP_LINEAR_X_BACKWARD, {GRAD, 1}, 2, {0}},
    {KILN_OP_LINEAR, KILN_OP_LINEAR_WEIGHT_BACKWARD, {0, GRAD}, 2, {1}},
    {KILN_OP_LINEAR, KILN_OP_LINEAR_BIAS_BACKWARD, {GRAD}, 1, {2}},
    {KILN_OP_CTC_LOSS, KILN_OP_CTC_LOSS_BACKWARD, {0, GRAD, 1, 2, 3}, 5, {0}},
    {KILN_OP_CONV_TRANSPOSE, KILN_OP_CONV_TRANSPOSE_X_BACKWARD, {GRAD, 1}, 2, {0}},
    {KILN_OP_CONV_TRANSPOSE, KILN_OP_CONV_TRANSPOSE_WEIGHT_BACKWARD, {0, GRAD}, 2, {1}},
    {KILN_OP_CONV_TRANSPOSE, KILN_OP_CONV_BIAS_BACKWARD, {GRAD}, 1, {2}},
    {KILN_OP_MAX_POOL_WITH_INDICES, KILN_OP_MAX_POOL_BACKWARD, {GRAD, OUTPUT + 1}, 2, {0}},
    {KILN_OP_AVG_POOL, KILN_OP_AVG_POOL_BACKWARD, {GRAD}, 1, {0}},
    {KILN_OP_ADAPTIVE_AVG_POOL, KILN_OP_ADAPTIVE_AVG_POOL_BACKWARD, {GRAD}, 1, {0}},
    {KILN_OP_INTERPOLATE, KILN_OP_INTERPOLATE_BACKWARD, {GRAD}, 1, {0}},
    {KILN_OP_DEFORM_IM2COL, KILN_OP_DEFORM_IM2COL_BACKWARD, {0, 1, 2, GRAD}, 4, {0, 1, 2}},
    {KILN_OP_DEFORM_CONV, KILN_OP_DEFORM_CONV_BACKWARD, {0, 1, 2, 3, GRAD}, 5, {0, 1, 2, 3, 4}},
    {KILN_OP_IM2COL, KILN_OP_COL2IM, {GRAD}, 1, {0}},
};

typedef struct trial {
    const pair *pair;
    kiln_env env;
    kiln_backend *backend;
    double spoil; ///< factor of the backward results: 1, or else what has to be noticed
    unsigned samples;
    unsigned points;
    unsigned wrong;
    char first[200];
} trial;

// ---- one operation ----

typedef struct values { ///< tensors on the host, in the order of descriptions
    void *data[KILN_MAX_INPUTS];
    unsigned count;
} values;

static void values_fini(values *v)
{
    for (unsigned i = 0; i < v->count; i++) {
        free(v->data[i]);
    }
    v->count = 0;
}

static bool values_init(values *v, const kiln_tensor_desc *descs, unsigned count)
{
    *v = (values){.count = 0};
    for (; v->count < count; v->count++) {
        v->data[v->count] = calloc(1, (size_t)kiln_desc_bytes(&descs[v->count]) + 8);
        if (v->data[v->count] == NULL) {
            values_fini(v);
            return false;
        }
    }
    return true;
}

static kiln_status evaluate(trial *t, const kiln_op_record *record, const values *inputs,
                            values *outputs, kiln_error *err)
{
    kiln_view views[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    unsigned total = (unsigned)record->n_inputs + record->n_outputs;
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = 0; i < total; i++) {
        bool is_input = i < record->n_inputs;
        const kiln_tensor_desc *desc =
            is_input ? &record->inputs[i] : &record->outputs[i - record->n_inputs];
        kiln_buffer *buffer = NULL;
        size_t bytes = (size_t)kiln_desc_bytes(desc);
        if (status == KILN_STATUS_OK) {
            status = t->backend->memory->alloc(t->backend, bytes, &buffer, err);
        }
        if (status == KILN_STATUS_OK && is_input) {
            status =
                t->backend->transfer->upload(t->backend, buffer, 0, inputs->data[i], bytes, err);
        }
        views[i] = kiln_view_dense(desc, buffer);
    }
    if (status == KILN_STATUS_OK) {
        status =
            t->backend->device->execute(t->backend, record, views, views + record->n_inputs, err);
    }
    for (unsigned i = 0; i < total; i++) {
        if (status == KILN_STATUS_OK && i >= record->n_inputs) {
            const kiln_tensor_desc *desc = &record->outputs[i - record->n_inputs];
            status = t->backend->transfer->read(t->backend, views[i].buffer, 0,
                                                outputs->data[i - record->n_inputs],
                                                (size_t)kiln_desc_bytes(desc), err);
        }
        t->backend->memory->free(t->backend, views[i].buffer);
    }
    return status;
}

// ---- the backward call ----

typedef struct back_call {
    kiln_op_record record;
    kiln_tensor_desc inputs[KILN_MAX_NAMED_INPUTS];
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS];
    kiln_attr attrs[KILN_MAX_ATTRS];
} back_call;

static kiln_attr attr_for(const kiln_op_record *forward, const pair *p, kiln_attr_key key)
{
    if (key == KILN_KEY_SHAPE || (key == KILN_KEY_OUTPUT_SIZE && p->backward == KILN_OP_COL2IM)) {
        const kiln_tensor_desc *x = &forward->inputs[p->of[0]];
        uint32_t first = key == KILN_KEY_SHAPE ? 0 : 2;
        return (kiln_attr){
            .type = KILN_ATTR_I64_LIST, .count = x->rank - first, .v.ints = &x->dims[first]};
    }
    return *kiln_op_attr(forward, key);
}

static const kiln_tensor_desc *source_desc(const kiln_op_record *forward, int source)
{
    if (source == GRAD) {
        return &forward->outputs[0];
    }
    return source >= OUTPUT ? &forward->outputs[source - OUTPUT] : &forward->inputs[source];
}

/* False when the sample lacks an optional input that this pair is about. */
static bool back_call_init(back_call *c, const kiln_op_record *forward, const pair *p)
{
    const kiln_op_info *info = kiln_op_info_of(p->backward);
    bool any = false;
    *c = (back_call){.record = {.op = p->backward,
                                .n_outputs = info->n_outputs,
                                .n_attrs = info->signature->n_attrs,
                                .inputs = c->inputs,
                                .outputs = c->outputs,
                                .attrs = c->attrs}};
    for (unsigned i = 0; i < p->n_sources; i++) {
        bool is_input = p->sources[i] < OUTPUT;
        if (is_input && p->sources[i] >= (int)forward->n_inputs) {
            return false;
        }
        c->inputs[c->record.n_inputs++] = *source_desc(forward, p->sources[i]);
    }
    if (p->backward == KILN_OP_DEFORM_IM2COL_BACKWARD && c->inputs[2].rank == 0) {
        return false; // it takes whole masks only
    }
    for (unsigned i = 0; i < info->n_outputs; i++) {
        any = any || (p->of[i] >= 0 && p->of[i] < (int)forward->n_inputs);
    }
    for (unsigned i = 0; any && i < info->signature->n_attrs; i++) {
        c->attrs[i] = attr_for(forward, p, info->signature->attrs[i].key);
    }
    return any && c->record.n_inputs >= info->signature->min_inputs;
}

// ---- differences ----

static double sum_with(const values *outputs, const double *grad, int64_t count)
{
    const double *y = outputs->data[0];
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += y[i] * grad[i];
    }
    return sum;
}

static bool slope_at(trial *t, const kiln_op_record *forward, values *inputs, values *outputs,
                     const double *grad, double *x, double *out_slope)
{
    const double h = 1e-5;
    const double middle = *x;
    double sums[2] = {0, 0};
    bool ok = true;
    for (int side = 0; side < 2; side++) {
        *x = side == 0 ? middle - h : middle + h;
        ok = ok && evaluate(t, forward, inputs, outputs, NULL) == KILN_STATUS_OK;
        sums[side] = sum_with(outputs, grad, kiln_desc_count(&forward->outputs[0]));
    }
    *x = middle;
    *out_slope = (sums[1] - sums[0]) / (2 * h);
    return ok;
}

static void compare_input(trial *t, const kiln_op_record *forward, values *inputs, values *outputs,
                          const double *grad, unsigned index, const double *result)
{
    int64_t count = kiln_desc_count(&forward->inputs[index]);
    int64_t step = count / MAX_POINTS + 1;
    double *x = inputs->data[index];
    for (int64_t i = count > 0 ? (int64_t)t->samples % step : 0; i < count; i += step) {
        double slope = 0;
        double given = result[i] * t->spoil;
        bool ok = slope_at(t, forward, inputs, outputs, grad, &x[i], &slope);
        if (ok && !isfinite(slope)) {
            continue; // the function is infinite here
        }
        t->points++;
        if (!ok || !(fabs(slope - given) <= 1e-6 * fmax(1, fabs(slope)))) {
            if (t->wrong++ == 0) {
                snprintf(t->first, sizeof(t->first),
                         "sample %u, input %u, element %lld: %.9g, by differences %.9g", t->samples,
                         index, (long long)i, given, slope);
            }
        }
    }
}

static double next_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

static void fill(double *data, int64_t count, uint64_t *state)
{
    for (int64_t i = 0; i < count; i++) {
        data[i] = next_number(state) * 4 - 2;
    }
}

static void compare_results(trial *t, const kiln_op_record *forward, values *inputs,
                            values *outputs, const double *grad)
{
    back_call back;
    values sources = {.count = 0};
    values results = {.count = 0};
    kiln_error err = KILN_ERROR_INIT;
    if (!back_call_init(&back, forward, t->pair)) {
        return;
    }
    t->samples++;
    kiln_status status = kiln_ir_infer(&back.record, back.outputs, &err);
    for (unsigned i = 0; i < back.record.n_inputs; i++) {
        int source = t->pair->sources[i];
        sources.data[i] = source == GRAD     ? (void *)(uintptr_t)grad
                          : source >= OUTPUT ? outputs->data[source - OUTPUT]
                                             : inputs->data[source];
    }
    if (status == KILN_STATUS_OK && !values_init(&results, back.outputs, back.record.n_outputs)) {
        status = KILN_STATUS_RESOURCE_EXHAUSTED;
    }
    if (status == KILN_STATUS_OK) {
        status = evaluate(t, &back.record, &sources, &results, &err);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < back.record.n_outputs; i++) {
        int of = t->pair->of[i];
        bool spread = of > 0 && of < (int)forward->n_inputs && forward->inputs[of].rank == 0;
        if (of >= 0 && of < (int)forward->n_inputs && !spread && // a number stands for a tensor
            KILN_CHECK(kiln_desc_same_shape(&back.outputs[i], &forward->inputs[of]))) {
            compare_input(t, forward, inputs, outputs, grad, (unsigned)of, results.data[i]);
        }
    }
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("sample %u: %s", t->samples, err.message);
    }
    values_fini(&results);
}

static void take_sample(const kiln_op_record *forward, const void *const *data, void *user)
{
    trial *t = user;
    values inputs;
    values outputs;
    double *grad = NULL;
    uint64_t state = 77 + t->samples;
    if (forward->outputs == NULL || !values_init(&inputs, forward->inputs, forward->n_inputs)) {
        KILN_FAIL("no sample");
        return;
    }
    for (unsigned i = 0; i < forward->n_inputs; i++) {
        if (forward->inputs[i].dtype == KILN_DTYPE_F64) {
            fill(inputs.data[i], kiln_desc_count(&forward->inputs[i]), &state);
        } else {
            memcpy(inputs.data[i], data[i], (size_t)kiln_desc_bytes(&forward->inputs[i]));
        }
    }
    int64_t count = kiln_desc_count(&forward->outputs[0]);
    grad = calloc((size_t)count + 1, sizeof(*grad));
    if (grad != NULL && values_init(&outputs, forward->outputs, forward->n_outputs)) {
        fill(grad, count, &state);
        if (KILN_CHECK_INT(evaluate(t, forward, &inputs, &outputs, NULL), KILN_STATUS_OK)) {
            compare_results(t, forward, &inputs, &outputs, grad);
        }
        values_fini(&outputs);
    }
    free(grad);
    values_fini(&inputs);
}

static bool run_pair(trial *t, const pair *p, double spoil)
{
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    *t = (trial){.pair = p, .spoil = spoil, .env = {.allocator = kiln_allocator_default()}};
    if (!KILN_CHECK_INT(provider->open(&t->env, "reference:", &t->backend, NULL, provider->user),
                        KILN_STATUS_OK)) {
        return false;
    }
    kiln_sample_sink sink = {.env = &t->env, .take = take_sample, .user = t};
    kiln_samples_make(p->forward, KILN_DTYPE_F64, &sink);
    t->backend->device->close(t->backend);
    return true;
}

static void test_pair(void)
{
    const pair *p = *(const pair *const *)kiln_test_param();
    trial t;
    if (run_pair(&t, p, 1)) {
        KILN_CHECK(t.samples > 0 && t.points > 0);
        if (t.wrong > 0) {
            KILN_FAIL("%u of %u derivatives are wrong: %s", t.wrong, t.points, t.first);
        }
    }
}

/* A gradient that is off by a thousandth has to be noticed. */
static void test_notices(void)
{
    trial t;
    if (run_pair(&t, &pairs[0], 1.001)) {
        KILN_CHECK(t.wrong > t.points / 4);
    }
}

int main(int argc, char **argv)
{
    enum { N_PAIRS = sizeof(pairs) / sizeof(pairs[0]) };
    static const pair *params[N_PAIRS];
    static char names[N_PAIRS][80];
    static kiln_test_case cases[N_PAIRS + 1];
    for (size_t i = 0; i < N_PAIRS; i++) {
        params[i] = &pairs[i];
        snprintf(names[i], sizeof(names[i]), "%s:%s", kiln_op_info_of(pairs[i].forward)->name,
                 kiln_op_info_of(pairs[i].backward)->name);
        cases[i] = (kiln_test_case)KILN_TEST_PARAM(test_pair, names[i], &params[i]);
    }
    cases[N_PAIRS] = (kiln_test_case)KILN_TEST(test_notices);
    return kiln_test_run("conformance/backward", cases, N_PAIRS + 1, argc, argv);
}
