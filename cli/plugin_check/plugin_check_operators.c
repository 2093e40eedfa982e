// SPDX-License-Identifier: MIT OR Apache-2.0
// Level 4 for operators that a plugin brings: random calls that their rules accept run on the
// device and by reference, and both must say the same, with dense and with turned inputs. Required
// attributes get plain values; a call that the rule declines is no fault.

#include "plugin_check.h"

#include "kf_operators.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 60, MOST_INPUTS = 4, MOST_ELEMENTS = 4096 };

typedef struct trial { ///< one call of an operator
    const kiln_custom_op *op;
    uint64_t seed;
    uint32_t n_inputs;
    kiln_dtype dtypes[MOST_INPUTS];
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    bool turned; ///< inputs are transposed
    kiln_custom_attr attrs[KILN_CUSTOM_MAX_PARAMS];
    size_t n_attrs;
} trial;

typedef struct tally {
    uint64_t calls;
    uint64_t kernels;
} tally;

static const int64_t one_axis[] = {0};
static const double one_real[] = {1.0};

/// A value of a required attribute: what most operators can do something with.
static kiln_attr plain_value(kiln_attr_type type)
{
    switch (type) {
    case KILN_ATTR_F64:
        return (kiln_attr){KILN_ATTR_F64, 1, {.f = 0.5}};
    case KILN_ATTR_DTYPE:
        return (kiln_attr){KILN_ATTR_DTYPE, 1, {.i = KILN_DTYPE_F32}};
    case KILN_ATTR_I64_LIST:
        return (kiln_attr){KILN_ATTR_I64_LIST, 1, {.ints = one_axis}};
    case KILN_ATTR_F64_LIST:
        return (kiln_attr){KILN_ATTR_F64_LIST, 1, {.floats = one_real}};
    case KILN_ATTR_STRING:
        return (kiln_attr){KILN_ATTR_STRING, 0, {.text = ""}};
    default:
        return (kiln_attr){type, 1, {.i = 1}};
    }
}

/// Shapes with small, odd, one and zero extents; one dtype for all inputs, or one for each.
static void draw(trial *t, const kiln_custom_op *op, uint64_t seed)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_F32, KILN_DTYPE_F16,
                                        KILN_DTYPE_F64, KILN_DTYPE_I32, KILN_DTYPE_I64,
                                        KILN_DTYPE_U8,  KILN_DTYPE_BOOL};
    static const int64_t extents[] = {1, 2, 3, 5, 8, 17, 64, 0};
    stream s;
    stream_init(&s, seed);
    *t = (trial){.op = op, .seed = seed};
    uint32_t most = op->max_inputs < MOST_INPUTS ? op->max_inputs : MOST_INPUTS;
    t->n_inputs = op->min_inputs + stream_below(&s, most - op->min_inputs + 1);
    t->rank = stream_below(&s, 5);
    int64_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t extent = extents[stream_below(&s, stream_chance(&s, 10) ? 8 : 7)];
        t->dims[i] = count * extent > MOST_ELEMENTS ? 1 : extent;
        count *= t->dims[i];
    }
    bool mixed = stream_chance(&s, 20);
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        t->dtypes[i] = i == 0 || mixed ? dtypes[stream_below(&s, 8)] : t->dtypes[0];
    }
    t->turned = t->rank > 1 && stream_chance(&s, 40);
    for (uint32_t i = 0; i < op->n_params; i++) {
        if (op->params[i].required) {
            t->attrs[t->n_attrs++] =
                (kiln_custom_attr){op->params[i].name, plain_value(op->params[i].type)};
        }
    }
}

/// Numbers from -4 to 4, now and then a special one; on every device the same.
static kiln_status make_input(const trial *t, kiln_device *device, uint32_t index,
                              kiln_tensor **out, kiln_error *err)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, -0.0f};
    float values[MOST_ELEMENTS];
    int64_t reversed[KILN_MAX_RANK], axes[KILN_MAX_RANK], count = 1;
    kiln_tensor *base = NULL, *cast = NULL;
    stream s;
    stream_init(&s, t->seed * 31 + index);
    for (uint32_t i = 0; i < t->rank; i++) {
        reversed[i] = t->dims[t->rank - 1 - i];
        axes[i] = (int64_t)t->rank - 1 - i;
        count *= t->dims[i];
    }
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)stream_below(&s, 8001) / 1000.0f - 4.0f;
        if (stream_chance(&s, 10)) {
            values[i] = special[stream_below(&s, 4)];
        }
    }
    kiln_status status = kiln_tensor_create(device, KILN_DTYPE_F32, t->rank,
                                            t->turned ? reversed : t->dims, values, &base, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_cast(base, t->dtypes[index], &cast, err);
    }
    if (status == KILN_STATUS_OK) {
        status = t->turned ? kiln_permute(cast, axes, t->rank, out, err)
                           : kiln_contiguous(cast, out, err);
    }
    kiln_release(base);
    kiln_release(cast);
    return status;
}

typedef struct answer { ///< of one device
    kiln_tensor *outputs[KILN_MAX_OUTPUTS];
    bool declined; ///< by the rule
    uint64_t kernels;
} answer;

static uint64_t kernels_of(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.backend.kernels_launched;
}

static kiln_status run(const trial *t, kiln_device *device, answer *out, kiln_error *err)
{
    kiln_tensor *inputs[MOST_INPUTS] = {NULL};
    kiln_custom_call call = KILN_CUSTOM_CALL_INIT;
    kiln_status status = KILN_STATUS_OK;
    *out = (answer){{NULL}, false, 0};
    for (uint32_t i = 0; i < t->n_inputs && status == KILN_STATUS_OK; i++) {
        status = make_input(t, device, i, &inputs[i], err);
    }
    status = status == KILN_STATUS_OK ? kiln_sync(device, err) : status;
    uint64_t before = kernels_of(device);
    if (status == KILN_STATUS_OK) {
        call.name = t->op->name;
        call.version = t->op->version;
        call.inputs = inputs;
        call.n_inputs = t->n_inputs;
        call.attrs = t->attrs;
        call.n_attrs = t->n_attrs;
        status = kiln_custom(device, &call, out->outputs, t->op->n_outputs, err);
        out->declined = status == KILN_STATUS_INVALID_ARGUMENT;
        status = out->declined ? KILN_STATUS_OK : status;
    }
    if (status == KILN_STATUS_OK && !out->declined) {
        status = kiln_sync(device, err);
    }
    out->kernels = kernels_of(device) - before;
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        kiln_release(inputs[i]);
    }
    return status;
}

static bool same_numbers(check *c, const trial *t, uint32_t output, const stream_tensor *as,
                         const unsigned char *x, const unsigned char *y, int64_t count)
{
    double most = 0;
    double part = check_tolerance(as->dtype);
    for (int64_t i = 0; i < count; i++) {
        double v = fabs(stream_element(as, x, i));
        most = isfinite(v) && v > most ? v : most;
    }
    for (int64_t i = 0; i < count; i++) {
        double a = stream_element(as, x, i), b = stream_element(as, y, i);
        bool real = kiln_dtype_kind_of(as->dtype) == KILN_KIND_FLOAT;
        bool same = a == b || (isnan(a) && isnan(b)) || (real && fabs(a - b) <= part * most);
        if (!same) {
            return check_fail(c,
                              "%s: output %u, element %lld: %.9g, and %.9g by reference; seed %llu",
                              t->op->name, output, (long long)i, b, a, (unsigned long long)t->seed);
        }
    }
    return true;
}

static bool compare_outputs(check *c, const trial *t, uint32_t output, kiln_tensor *x,
                            kiln_tensor *y)
{
    kiln_error err = KILN_ERROR_INIT;
    size_t bytes = kiln_tensor_bytes(x);
    const stream_tensor as = {.dtype = kiln_tensor_dtype(x)};
    unsigned char *data[2] = {malloc(bytes + 1), malloc(bytes + 1)};
    bool good = data[0] != NULL && data[1] != NULL && bytes == kiln_tensor_bytes(y) &&
                kiln_read(x, data[0], bytes, &err) == KILN_STATUS_OK &&
                kiln_read(y, data[1], bytes, &err) == KILN_STATUS_OK;
    if (!good) {
        check_fail(c, "%s: %s", t->op->name, err.message);
    } else {
        good = same_numbers(c, t, output, &as, data[0], data[1],
                            (int64_t)(bytes / kiln_dtype_size(as.dtype)));
    }
    free(data[0]);
    free(data[1]);
    return good;
}

/// Runs the call on both devices; a call that both decline does not count.
static void try_call(check *c, const trial *t, kiln_device *device, kiln_device *judge, tally *sum)
{
    answer by[2];
    kiln_error err = KILN_ERROR_INIT;
    check_step(c, "%s, seed %llu", t->op->name, (unsigned long long)t->seed);
    bool good = run(t, judge, &by[0], &err) == KILN_STATUS_OK;
    good = run(t, device, &by[1], &err) == KILN_STATUS_OK && good;
    if (!good) {
        check_fail(c, "%s, seed %llu: %s", t->op->name, (unsigned long long)t->seed, err.message);
    } else if (by[0].declined != by[1].declined) {
        check_fail(c, "%s, seed %llu: its rule accepts a call on one device only", t->op->name,
                   (unsigned long long)t->seed);
    } else if (!by[0].declined) {
        sum->calls++;
        sum->kernels += by[1].kernels > 0;
        for (uint32_t i = 0; i < t->op->n_outputs && check_good(c); i++) {
            (void)compare_outputs(c, t, i, by[0].outputs[i], by[1].outputs[i]);
        }
    }
    for (uint32_t i = 0; i < KILN_MAX_OUTPUTS; i++) {
        kiln_release(by[0].outputs[i]);
        kiln_release(by[1].outputs[i]);
    }
}

static void check_operator(check *c, const kf_operator *abi, kiln_device *device,
                           kiln_device *judge, tally *sum)
{
    char name[KILN_CUSTOM_MAX_NAME + 1];
    const kiln_custom_op *op = NULL;
    kiln_error err = KILN_ERROR_INIT;
    tally own = {0};
    snprintf(name, sizeof(name), "%.*s", (int)abi->name.len, abi->name.ptr);
    if (kiln_custom_find(judge, name, abi->version, &op, &err) != KILN_STATUS_OK) {
        check_fail(c, "%s", err.message);
        return;
    }
    if (op->min_inputs > MOST_INPUTS) {
        return;
    }
    for (uint64_t i = 0; i < CALLS && check_good(c) && check_has_time(c); i++) {
        trial t;
        draw(&t, op, c->seed * 1000 + i);
        try_call(c, &t, device, judge, &own);
    }
    if (check_good(c) && abi->kernel_create != NULL && own.calls > 0 && own.kernels == 0) {
        check_fail(c, "%s: its kernel ran in none of %llu calls%s%s", name,
                   (unsigned long long)own.calls, c->decided[0] != '\0' ? "; the last: " : "",
                   c->decided);
    }
    sum->calls += own.calls;
    sum->kernels += own.kernels;
}

static void check_operators(check *c)
{
    check_bench b;
    kiln_device *judge = NULL;
    kiln_error err = KILN_ERROR_INIT;
    tally sum = {0};
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
    }
    for (uint64_t i = 0; i < list->n_operators && check_good(c); i++) {
        check_operator(c, list->operators[i], b.device, judge, &sum);
    }
    if (check_good(c) && sum.calls == 0) {
        check_fail(c, "its operators accept none of the random calls");
    }
    check_say(c, "%llu %s, %llu of them by kernel", (unsigned long long)sum.calls,
              kiln_plural(sum.calls, "call", "calls"), (unsigned long long)sum.kernels);
    kiln_device_release(judge);
    check_bench_close(&b);
}

const check_row check_operator_rows[] = {
    {"operators", 4, check_operators, "operators give what their references give"},
    {NULL, 0, NULL, NULL},
};
