// SPDX-License-Identifier: MIT OR Apache-2.0
// Norms, softmax and their derivatives as users record them, through the runtime with the shipped
// fusers: as operators (which the runtime writes with simpler ones, or the fusers take apart) and
// in primitives; and several reductions of one pass. Each against the reference device, and in no
// more kernels than it is said to take.
#include <math.h>
#include <stdlib.h>

#include "harness.h"
#include "ir.h"
#include "kiln.h"
#include "kiln_ops.h"

enum { MAX_RESULTS = 4, X = 0, GRAD = 1, SCALE = 2, BIAS = 3, N_INPUTS = 4 };

typedef struct material {
    kiln_tensor *inputs[N_INPUTS];
    kiln_tensor *held[48]; ///< what is released when the program is recorded
    uint32_t n_held;
    kiln_error err;
} material;

typedef struct chain_case {
    const char *name;
    void (*record)(material *m, kiln_tensor **out);
    uint32_t rank;
    int64_t dims[4];
    uint32_t param_rank; ///< of scale and bias, the last axes; 0: [channels]
    uint32_t kernels; ///< at most, fused
} chain_case;

// ---- recording ----

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != KILN_STATUS_OK) {                                                            \
            KILN_FAIL("%s: %s", #call, m->err.message);                                            \
        }                                                                                          \
    } while (0)

static kiln_tensor *held(material *m, kiln_tensor *tensor)
{
    m->held[m->n_held++] = tensor;
    return tensor;
}

#define TWO(name)                                                                                  \
    static kiln_tensor *name(material *m, kiln_tensor *a, kiln_tensor *b)                          \
    {                                                                                              \
        kiln_tensor *out = NULL;                                                                   \
        OK(kiln_##name(a, b, &out, &m->err));                                                      \
        return held(m, out);                                                                       \
    }
TWO(add)
TWO(sub)
TWO(mul)
#undef TWO

static kiln_tensor *mean(material *m, kiln_tensor *x, int64_t axis)
{
    kiln_tensor *out = NULL;
    OK(kiln_mean(x, &axis, 1, true, &out, &m->err));
    return held(m, out);
}

static kiln_tensor *sum(material *m, kiln_tensor *x, int64_t axis)
{
    kiln_tensor *out = NULL;
    OK(kiln_sum(x, &axis, 1, true, &out, &m->err));
    return held(m, out);
}

static kiln_tensor *factor(material *m, kiln_tensor *variance)
{
    kiln_tensor *moved = NULL, *out = NULL;
    OK(kiln_add_scalar(variance, kiln_f64(1e-5), &moved, &m->err));
    OK(kiln_rsqrt(held(m, moved), &out, &m->err));
    return held(m, out);
}

static kiln_tensor *shaped(material *m, kiln_tensor *x, const int64_t *dims, uint32_t rank)
{
    kiln_tensor *out = NULL;
    OK(kiln_reshape(x, dims, rank, &out, &m->err));
    return held(m, out);
}

// ---- what users record ----

static void layer_norm(material *m, kiln_tensor **out)
{
    OK(kiln_layer_norm(m->inputs[X], m->inputs[SCALE], m->inputs[BIAS], -1, 1e-5, out, &m->err));
}

/// Residual before and activation behind: both belong into the same kernel.
static void layer_norm_between(material *m, kiln_tensor **out)
{
    kiln_tensor *normal = NULL;
    kiln_tensor *x = add(m, m->inputs[X], m->inputs[GRAD]);
    OK(kiln_layer_norm(x, m->inputs[SCALE], m->inputs[BIAS], -1, 1e-5, &normal, &m->err));
    OK(kiln_relu(held(m, normal), out, &m->err));
}

static void layer_norm_two_axes(material *m, kiln_tensor **out)
{
    OK(kiln_layer_norm(m->inputs[X], m->inputs[SCALE], m->inputs[BIAS], -2, 1e-5, out, &m->err));
}

static void rms_norm_between(material *m, kiln_tensor **out)
{
    kiln_tensor *normal = NULL;
    kiln_tensor *x = add(m, m->inputs[X], m->inputs[GRAD]);
    OK(kiln_rms_norm(x, m->inputs[SCALE], -1, 1e-5, &normal, &m->err));
    OK(kiln_mul(held(m, normal), m->inputs[GRAD], out, &m->err));
}

static void group_norm(material *m, kiln_tensor **out)
{
    OK(kiln_group_norm(m->inputs[X], m->inputs[SCALE], m->inputs[BIAS], 2, 1e-5, out, &m->err));
}

static void group_norm_between(material *m, kiln_tensor **out)
{
    kiln_tensor *normal = NULL;
    kiln_tensor *x = add(m, m->inputs[X], m->inputs[GRAD]);
    OK(kiln_group_norm(x, m->inputs[SCALE], m->inputs[BIAS], 2, 1e-5, &normal, &m->err));
    OK(kiln_relu(held(m, normal), out, &m->err));
}

static void instance_norm(material *m, kiln_tensor **out)
{
    OK(kiln_instance_norm(m->inputs[X], m->inputs[SCALE], m->inputs[BIAS], 1e-5, out, &m->err));
}

/// As a user without the operator writes it: five-dimensional.
static void group_norm_primitives(material *m, kiln_tensor **out)
{
    const int64_t n = kiln_tensor_dims(m->inputs[X])[0], c = kiln_tensor_dims(m->inputs[X])[1];
    const int64_t grouped[] = {n, 2, kiln_tensor_count(m->inputs[X]) / n / 2};
    const int64_t channels[] = {c, 1, 1};
    kiln_tensor *x = shaped(m, m->inputs[X], grouped, 3);
    kiln_tensor *moved = sub(m, x, mean(m, x, -1));
    kiln_tensor *variance = mean(m, mul(m, moved, moved), -1);
    kiln_tensor *normal = mul(m, moved, factor(m, variance));
    normal = shaped(m, normal, kiln_tensor_dims(m->inputs[X]), 4);
    normal = mul(m, normal, shaped(m, m->inputs[SCALE], channels, 3));
    OK(kiln_add(normal, shaped(m, m->inputs[BIAS], channels, 3), out, &m->err));
}

static void softmax_backward(material *m, kiln_tensor **out)
{
    OK(kiln_softmax_backward(m->inputs[X], m->inputs[GRAD], -1, out, &m->err));
}

/// With the chain rule of a scale and a mask around it, as attention has it.
static void softmax_backward_between(material *m, kiln_tensor **out)
{
    kiln_tensor *inner = NULL;
    kiln_tensor *grad = mul(m, m->inputs[GRAD], m->inputs[SCALE]);
    OK(kiln_softmax_backward(m->inputs[X], grad, -1, &inner, &m->err));
    OK(kiln_mul_scalar(held(m, inner), kiln_f64(0.125), out, &m->err));
}

static void softmax_backward_primitives(material *m, kiln_tensor **out)
{
    kiln_tensor *both = mul(m, m->inputs[GRAD], m->inputs[X]);
    kiln_tensor *rest = sub(m, m->inputs[GRAD], sum(m, both, -1));
    OK(kiln_mul(m->inputs[X], rest, out, &m->err));
}

static void log_softmax_backward_between(material *m, kiln_tensor **out)
{
    kiln_tensor *inner = NULL;
    kiln_tensor *grad = mul(m, m->inputs[GRAD], m->inputs[SCALE]);
    OK(kiln_log_softmax_backward(m->inputs[X], grad, -1, &inner, &m->err));
    OK(kiln_add(held(m, inner), m->inputs[BIAS], out, &m->err));
}

static void log_softmax_backward_primitives(material *m, kiln_tensor **out)
{
    kiln_tensor *share = NULL;
    OK(kiln_exp(m->inputs[X], &share, &m->err));
    share = mul(m, held(m, share), sum(m, m->inputs[GRAD], -1));
    OK(kiln_sub(m->inputs[GRAD], share, out, &m->err));
}

static void layer_norm_backward(material *m, kiln_tensor **out)
{
    OK(kiln_layer_norm_backward(m->inputs[GRAD], m->inputs[X], m->inputs[SCALE], -1, 1e-5, &out[0],
                                &out[1], &out[2], &m->err));
}

/// What nobody takes costs nothing.
static void layer_norm_backward_of_x(material *m, kiln_tensor **out)
{
    OK(kiln_layer_norm_backward(m->inputs[GRAD], m->inputs[X], m->inputs[SCALE], -1, 1e-5, &out[0],
                                NULL, NULL, &m->err));
}

static void layer_norm_backward_of_bias(material *m, kiln_tensor **out)
{
    OK(kiln_layer_norm_backward(m->inputs[GRAD], m->inputs[X], m->inputs[SCALE], -1, 1e-5, NULL,
                                NULL, &out[0], &m->err));
}

/// r * (h - mean(h) - n * mean(h * n)), n = (x - mean) * r, h = grad * scale
static void layer_norm_backward_primitives(material *m, kiln_tensor **out)
{
    kiln_tensor *moved = sub(m, m->inputs[X], mean(m, m->inputs[X], -1));
    kiln_tensor *r = factor(m, mean(m, mul(m, moved, moved), -1));
    kiln_tensor *n = mul(m, moved, r), *h = mul(m, m->inputs[GRAD], m->inputs[SCALE]);
    kiln_tensor *along = mul(m, n, mean(m, mul(m, h, n), -1));
    OK(kiln_mul(sub(m, sub(m, h, mean(m, h, -1)), along), r, out, &m->err));
}

static void rms_norm_backward(material *m, kiln_tensor **out)
{
    OK(kiln_rms_norm_backward(m->inputs[GRAD], m->inputs[X], m->inputs[SCALE], -1, 1e-5, &out[0],
                              &out[1], &m->err));
}

static void rms_norm_backward_primitives(material *m, kiln_tensor **out)
{
    kiln_tensor *r = factor(m, mean(m, mul(m, m->inputs[X], m->inputs[X]), -1));
    kiln_tensor *n = mul(m, m->inputs[X], r), *h = mul(m, m->inputs[GRAD], m->inputs[SCALE]);
    kiln_tensor *along = mul(m, n, mean(m, mul(m, h, n), -1));
    OK(kiln_mul(sub(m, h, along), r, out, &m->err));
}

static void group_norm_backward(material *m, kiln_tensor **out)
{
    OK(kiln_group_norm_backward(m->inputs[GRAD], m->inputs[X], m->inputs[SCALE], 2, 1e-5, &out[0],
                                &out[1], &out[2], &m->err));
}

/// The gradient turned into groups behind the first reduction, when the space is settled.
static void group_norm_backward_primitives(material *m, kiln_tensor **out)
{
    const int64_t *dims = kiln_tensor_dims(m->inputs[X]);
    const int64_t grouped[] = {dims[0], 2, kiln_tensor_count(m->inputs[X]) / dims[0] / 2};
    const int64_t channels[] = {dims[1], 1, 1};
    kiln_tensor *h = mul(m, m->inputs[GRAD], shaped(m, m->inputs[SCALE], channels, 3));
    h = shaped(m, h, grouped, 3);
    kiln_tensor *x = shaped(m, m->inputs[X], grouped, 3);
    kiln_tensor *moved = sub(m, x, mean(m, x, -1));
    kiln_tensor *r = factor(m, mean(m, mul(m, moved, moved), -1)), *n = mul(m, moved, r);
    kiln_tensor *along = mul(m, n, mean(m, mul(m, h, n), -1));
    kiln_tensor *grad = mul(m, sub(m, sub(m, h, mean(m, h, -1)), along), r);
    OK(kiln_reshape(grad, dims, 4, out, &m->err));
}

// ---- several results of one pass ----

static kiln_tensor *over(material *m,
                         kiln_status (*reduce)(kiln_tensor *, const int64_t *, size_t, bool,
                                               kiln_tensor **, kiln_error *),
                         kiln_tensor *x, const int64_t *axes, size_t n_axes)
{
    kiln_tensor *out = NULL;
    OK(reduce(x, axes, n_axes, false, &out, &m->err));
    return out;
}

/// Mean, variance, sum and largest of x * grad, and its square root's: before, beside and after.
static void results_over(material *m, const int64_t *axes, size_t n_axes, kiln_tensor **out)
{
    kiln_tensor *x = mul(m, m->inputs[X], m->inputs[GRAD]);
    kiln_tensor *squares = held(m, over(m, kiln_mean, mul(m, x, x), axes, n_axes));
    out[0] = over(m, kiln_mean, x, axes, n_axes);
    OK(kiln_sub(squares, mul(m, out[0], out[0]), &out[1], &m->err));
    out[2] = over(m, kiln_max, x, axes, n_axes);
    OK(kiln_relu(held(m, over(m, kiln_sum, x, axes, n_axes)), &out[3], &m->err));
}

static void results_of_rows(material *m, kiln_tensor **out)
{
    const int64_t axis = -1;
    results_over(m, &axis, 1, out);
}

static void results_of_columns(material *m, kiln_tensor **out)
{
    const int64_t axis = 0;
    results_over(m, &axis, 1, out);
}

/// Batch statistics: all axes but the channels'.
static void results_of_channels(material *m, kiln_tensor **out)
{
    const int64_t axes[] = {0, 2, 3};
    results_over(m, axes, 3, out);
}

static void results_of_all(material *m, kiln_tensor **out)
{
    results_over(m, NULL, 0, out);
}

/// What is computed before is kept as well: it is written on the way.
static void results_and_terms(material *m, kiln_tensor **out)
{
    const int64_t axis = 0;
    OK(kiln_mul(m->inputs[X], m->inputs[GRAD], &out[0], &m->err));
    out[1] = over(m, kiln_sum, out[0], &axis, 1);
    out[2] = over(m, kiln_min, m->inputs[X], &axis, 1);
}

/// Two reshapes of what is kept: one is read behind the block, the other one inside of it. As the
/// gradients of a layer's weights and bias read that of its result.
static void results_and_shapes(material *m, kiln_tensor **out)
{
    const int64_t *dims = kiln_tensor_dims(m->inputs[X]), axis = 0;
    const int64_t rows[] = {dims[0] * dims[1], dims[2]};
    OK(kiln_mul(m->inputs[X], m->inputs[GRAD], &out[0], &m->err));
    OK(kiln_reshape(out[0], rows, 2, &out[1], &m->err));
    out[2] = over(m, kiln_sum, shaped(m, out[0], rows, 2), &axis, 1);
}

// ---- running ----

static double value_at(uint32_t which, int64_t i, int64_t row, bool nan_row)
{
    uint32_t noise = (uint32_t)i * 747796405u + which * 2891336453u + 12345u;
    noise = (noise ^ (noise >> 15)) * 2246822519u;
    double value = (double)(noise >> 8) / 8388608.0 - 1;
    return nan_row && row == 1 && i % 5 == 2 && which == X ? NAN : value;
}

static kiln_tensor *input(material *m, kiln_device *device, const chain_case *c, uint32_t which,
                          kiln_dtype dtype, bool nan_row)
{
    const int64_t *dims = c->dims;
    uint32_t rank = c->rank;
    int64_t count = 1;
    if (which >= SCALE) {
        rank = c->param_rank == 0 ? 1 : c->param_rank;
        dims = c->param_rank == 0 ? c->dims + 1 : c->dims + c->rank - rank;
    }
    for (uint32_t i = 0; i < rank; i++) {
        count *= dims[i];
    }
    size_t size = kiln_dtype_size(dtype);
    unsigned char *bytes = malloc((size_t)count * size + 1);
    kiln_tensor *tensor = NULL;
    for (int64_t i = 0; bytes != NULL && i < count; i++) {
        int64_t row = rank == 0 || dims[rank - 1] == 0 ? 0 : i / dims[rank - 1];
        kiln_attr number = {.type = KILN_ATTR_F64, .count = 1};
        number.v.f = value_at(which, i, row, nan_row);
        KILN_CHECK(kiln_number_store(&number, dtype, bytes + (size_t)i * size));
    }
    OK(kiln_tensor_create(device, dtype, rank, dims, bytes, &tensor, &m->err));
    free(bytes);
    return tensor;
}

static uint64_t launched(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.backend.kernels_launched;
}

static uint64_t run(kiln_device *device, const chain_case *c, kiln_dtype dtype, bool nan_row,
                    kiln_tensor **out)
{
    material storage = {.n_held = 0}, *m = &storage;
    for (uint32_t i = 0; i < N_INPUTS; i++) {
        m->inputs[i] = input(m, device, c, i, dtype, nan_row);
    }
    OK(kiln_sync(device, &m->err));
    uint64_t before = launched(device);
    c->record(m, out);
    for (uint32_t i = 0; i < m->n_held; i++) {
        kiln_release(m->held[i]);
    }
    OK(kiln_sync(device, &m->err));
    for (uint32_t i = 0; i < N_INPUTS; i++) {
        kiln_release(m->inputs[i]);
    }
    return launched(device) - before;
}

static void compare(const chain_case *c, kiln_tensor *got, kiln_tensor *expected)
{
    material storage = {.n_held = 0}, *m = &storage;
    size_t bytes = kiln_tensor_bytes(expected);
    kiln_dtype dtype = kiln_tensor_dtype(expected);
    unsigned char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    kiln_tolerance t = {.scaled = kiln_dtype_size(dtype) == 2 ? 4 : 64,
                        .least_scale = 1e-3, // means of values near 1, which cancel
                        .any_zero = true};
    char text[200] = "";
    if (KILN_CHECK(a != NULL && b != NULL) &&
        KILN_CHECK_INT(kiln_tensor_bytes(got), (int64_t)bytes)) {
        OK(kiln_read(got, a, bytes, &m->err));
        OK(kiln_read(expected, b, bytes, &m->err));
        if (!kiln_tolerance_compare(t, dtype, kiln_tensor_count(expected), a, b, text,
                                    sizeof(text))) {
            KILN_FAIL("%s, %s: %s", c->name, kiln_dtype_name(dtype), text);
        }
    }
    free(a);
    free(b);
}

static void check_case(kiln_device *device, kiln_device *judge, const chain_case *c,
                       kiln_dtype dtype, bool nan_row)
{
    kiln_tensor *got[MAX_RESULTS] = {NULL}, *expected[MAX_RESULTS] = {NULL};
    uint64_t kernels = run(device, c, dtype, nan_row, got);
    (void)run(judge, c, dtype, nan_row, expected);
    // The counts are those of processors; on a GPU other estimates decide.
    if (kernels > c->kernels && kiln_device_info_of(device)->type == KILN_DEVICE_CPU) {
        KILN_FAIL("%s, %s: %llu kernels, at most %u expected", c->name, kiln_dtype_name(dtype),
                  (unsigned long long)kernels, c->kernels);
    }
    for (uint32_t i = 0; i < MAX_RESULTS; i++) {
        if (KILN_CHECK((got[i] != NULL) == (expected[i] != NULL)) && got[i] != NULL) {
            compare(c, got[i], expected[i]);
        }
        kiln_release(got[i]);
        kiln_release(expected[i]);
    }
}

// ---- cases ----

static const chain_case chains[] = {
    {"layer_norm", layer_norm, 2, {5, 77}, 1, 1},
    {"layer_norm_between", layer_norm_between, 2, {7, 133}, 1, 1},
    {"layer_norm_two_axes", layer_norm_two_axes, 3, {5, 3, 31}, 2, 1},
    {"layer_norm_long", layer_norm_between, 2, {2, 40007}, 1, 1},
    {"layer_norm_three_axes", layer_norm_between, 3, {3, 5, 65}, 1, 1},
    {"rms_norm_between", rms_norm_between, 2, {7, 133}, 1, 1},
    {"group_norm", group_norm, 4, {2, 4, 5, 7}, 0, 1},
    {"group_norm_between", group_norm_between, 4, {3, 6, 5, 3}, 0, 1},
    {"group_norm_long", group_norm, 4, {1, 4, 97, 131}, 0, 1},
    {"group_norm_points", group_norm, 4, {2, 34, 1, 1}, 0, 1},
    {"group_norm_primitives", group_norm_primitives, 4, {3, 4, 5, 9}, 0, 1},
    {"instance_norm", instance_norm, 4, {2, 3, 5, 7}, 0, 1},
    {"softmax_backward", softmax_backward, 2, {9, 75}, 1, 1},
    {"softmax_backward_between", softmax_backward_between, 2, {9, 75}, 1, 1},
    {"softmax_backward_primitives", softmax_backward_primitives, 3, {3, 5, 129}, 1, 1},
    {"softmax_backward_long", softmax_backward_primitives, 2, {2, 40007}, 1, 1},
    {"log_softmax_backward_between", log_softmax_backward_between, 2, {9, 75}, 1, 1},
    {"log_softmax_backward_primitives", log_softmax_backward_primitives, 2, {9, 75}, 1, 1},
    {"layer_norm_backward_primitives", layer_norm_backward_primitives, 2, {5, 75}, 1, 1},
    {"layer_norm_backward_long", layer_norm_backward_primitives, 2, {2, 40007}, 1, 1},
    {"rms_norm_backward_primitives", rms_norm_backward_primitives, 2, {5, 75}, 1, 1},
    {"group_norm_backward_primitives", group_norm_backward_primitives, 4, {2, 4, 5, 7}, 0, 1},
    {"group_norm_backward_one", group_norm_backward_primitives, 4, {1, 4, 5, 7}, 0, 1},
    {"layer_norm_backward", layer_norm_backward, 2, {33, 75}, 1, 2},
    {"layer_norm_backward_many", layer_norm_backward, 3, {7, 65, 63}, 1, 3},
    {"layer_norm_backward_of_x", layer_norm_backward_of_x, 2, {33, 75}, 1, 1},
    {"layer_norm_backward_of_bias", layer_norm_backward_of_bias, 2, {33, 75}, 1, 1},
    {"rms_norm_backward", rms_norm_backward, 2, {33, 75}, 1, 2},
    {"group_norm_backward", group_norm_backward, 4, {3, 4, 5, 7}, 0, 3},
    {"results_of_rows", results_of_rows, 2, {9, 75}, 1, 1},
    {"results_of_columns", results_of_columns, 2, {75, 131}, 1, 1},
    {"results_of_long_columns", results_of_columns, 2, {4099, 19}, 1, 2}, // in parts
    {"results_of_one_column", results_of_columns, 2, {75, 1}, 1, 1},
    {"results_of_channels", results_of_channels, 4, {3, 5, 7, 9}, 0, 1},
    {"results_of_all", results_of_all, 3, {3, 5, 67}, 1, 1},
    {"results_of_nothing", results_of_columns, 2, {0, 7}, 1, 12},
    {"results_and_terms", results_and_terms, 2, {75, 131}, 1, 1},
    {"results_and_shapes", results_and_shapes, 3, {5, 15, 131}, 1, 1},
    {"one_row", layer_norm_between, 2, {1, 75}, 1, 1},
    {"one_group", group_norm, 4, {1, 2, 3, 5}, 0, 1},
    // Rows of one element are nothing to reduce: elementwise operators join, the norm stays alone.
    {"rows_of_one", layer_norm_between, 2, {5, 1}, 1, 3},
    {"group_of_one", group_norm, 4, {2, 2, 1, 1}, 0, 4},
    {"no_rows", layer_norm_between, 2, {0, 75}, 1, 0},
    {"no_columns", softmax_backward_primitives, 2, {5, 0}, 1, 1}, // a sum of nothing is 0
};

static void test_chains(void)
{
    kiln_dtype dtype = *(const kiln_dtype *)kiln_test_param();
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL, *judge = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!KILN_CHECK_INT(kiln_context_create(&options, &context, &err), KILN_STATUS_OK)) {
        return;
    }
    if (kiln_device_open(context, kiln_test_address("opencl:0"), &device, &err) != KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device: %s", err.message);
        kiln_context_destroy(context);
        return;
    }
    KILN_CHECK_INT(kiln_device_open(context, "reference", &judge, &err), KILN_STATUS_OK);
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        check_case(device, judge, &chains[i], dtype, false);
        check_case(device, judge, &chains[i], dtype, true);
    }
    kiln_device_release(judge);
    kiln_device_release(device);
    kiln_context_destroy(context);
}

/// A reshape of what a block gives is no second copy.
static void test_shapes_stay_views(void)
{
    const chain_case c = {"shapes_stay_views", results_and_shapes, 3, {5, 15, 131}, 1, 1};
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_device_stats before = KILN_DEVICE_STATS_INIT, after = KILN_DEVICE_STATS_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_tensor *out[MAX_RESULTS] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    if (!KILN_CHECK_INT(kiln_context_create(&options, &context, &err), KILN_STATUS_OK)) {
        return;
    }
    if (kiln_device_open(context, kiln_test_address("opencl:0"), &device, &err) == KILN_STATUS_OK) {
        kiln_device_stats_get(device, &before);
        (void)run(device, &c, KILN_DTYPE_F32, false, out);
        kiln_device_stats_get(device, &after);
        uint64_t bytes = kiln_tensor_bytes(out[0]);
        KILN_CHECK(after.bytes_live - after.bytes_arena - before.bytes_live < bytes + bytes / 2);
    } else {
        kiln_test_skip("no OpenCL device: %s", err.message);
    }
    for (uint32_t i = 0; i < MAX_RESULTS; i++) {
        kiln_release(out[i]);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
}

static const kiln_dtype f32 = KILN_DTYPE_F32;
static const kiln_dtype f16 = KILN_DTYPE_F16;
static const kiln_dtype bf16 = KILN_DTYPE_BF16;

KILN_TEST_MAIN("unit/plugins/row_chains", KILN_TEST_PARAM(test_chains, "f32", &f32),
               KILN_TEST_PARAM(test_chains, "f16", &f16),
               KILN_TEST_PARAM(test_chains, "bf16", &bf16), KILN_TEST(test_shapes_stay_views))
