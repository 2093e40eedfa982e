// SPDX-License-Identifier: MIT OR Apache-2.0
// Convolutions between quantised images, as the fuser `convolution` computes them in integers: each
// net runs with that fuser alone, unfused and on the reference. The fuser must take all of it as
// one block. Scales are powers of two, so that f32 is exact as well and results are the same to the
// last bit: zero points, padding, ties, saturation and layouts are seen, and nothing hides behind a
// tolerance. Nets with other scales are one step off at most.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "kiln.h"
#include "kiln_ops.h"

enum { MAX_RESULTS = 8, MAX_CONSTANTS = 256 };

typedef struct session {
    kiln_context *context;
    kiln_device *device;
    uint32_t complaints; ///< warnings: a kernel that does not build is one, not an error
} session;

/// A net while it is recorded. Its functions take the tensors that they are given.
typedef struct net {
    session *on;
    uint64_t state; ///< of random numbers
    double odd; ///< scales are powers of two times this
    bool other; ///< second round: other zero points
    bool failed;
    uint64_t apart; ///< operations that the region must not take
    uint32_t n_results;
    kiln_tensor *results[MAX_RESULTS];
    uint32_t n_constants;
    kiln_tensor *constants[MAX_CONSTANTS]; ///< released behind the run
} net;

static session fused, plain, judge;
static kiln_error err;

static void heard(const kiln_log_record *record, void *user)
{
    session *s = user;
    if (record->level <= KILN_LOG_WARN) {
        s->complaints++;
        printf("    %s: %s\n", record->module, record->message);
    }
}

static bool open_one(session *s, const char *device, const char *plugins)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.log = heard;
    options.log_user = s;
    s->complaints = 0;
    if (!KILN_CHECK_INT(kiln_context_create(&options, &s->context, &err), KILN_STATUS_OK)) {
        return false;
    }
    KILN_CHECK_INT(kiln_context_set(s->context, "plugins", plugins, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_context_set(s->context, "fuse-slower", "1", &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_context_set(s->context, "tune", "off", &err), KILN_STATUS_OK);
    return kiln_device_open(s->context, kiln_test_address(device), &s->device, &err) ==
           KILN_STATUS_OK;
}

static void close_all(void)
{
    session *all[] = {&fused, &plain, &judge};
    for (size_t i = 0; i < 3; i++) {
        kiln_device_release(all[i]->device);
        kiln_context_destroy(all[i]->context);
        *all[i] = (session){NULL, NULL, 0};
    }
}

static bool open_all(void)
{
    bool open = open_one(&fused, "opencl:0", "org.kiln.convolution") &&
                open_one(&plain, "opencl:0", "off") && open_one(&judge, "reference", "off");
    if (!open) {
        kiln_test_skip("no OpenCL device: %s", err.message);
        close_all();
    } else if (kiln_device_info_of(fused.device)->type != KILN_DEVICE_CPU) {
        kiln_test_skip("the fuser of regions is for processors");
        close_all();
        open = false;
    }
    return open;
}

// ---- nets ----

static double next_number(net *n)
{
    n->state = n->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(n->state >> 40) / 16777216.0;
}

static kiln_tensor *checked(net *n, kiln_status status, kiln_tensor **made)
{
    if (status != KILN_STATUS_OK && !n->failed) {
        KILN_FAIL("%s", err.message);
        n->failed = true;
    }
    return status == KILN_STATUS_OK ? *made : NULL;
}

/// The tensor, to be taken once more.
static kiln_tensor *also(kiln_tensor *t)
{
    kiln_retain(t);
    return t;
}

static size_t count_of(uint32_t rank, const int64_t *dims)
{
    size_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        count *= (size_t)dims[i];
    }
    return count;
}

/// Random whole numbers from low to high, times `unit`, of f32, i32, i8 or u8.
static kiln_tensor *numbers(net *n, kiln_dtype dtype, uint32_t rank, const int64_t *dims,
                            double low, double high, double unit)
{
    size_t count = count_of(rank, dims);
    double *values = malloc((count + 1) * sizeof(*values));
    kiln_tensor *made = NULL;
    for (size_t i = 0; values != NULL && i < count; i++) {
        double v = (low + floor(next_number(n) * (high - low + 1))) * unit;
        switch (dtype) {
        case KILN_DTYPE_I32:
            ((int32_t *)values)[i] = (int32_t)v;
            break;
        case KILN_DTYPE_I8:
            ((int8_t *)values)[i] = (int8_t)v;
            break;
        case KILN_DTYPE_U8:
            ((uint8_t *)values)[i] = (uint8_t)v;
            break;
        default:
            ((float *)values)[i] = (float)v;
        }
    }
    kiln_status status = kiln_tensor_create(n->on->device, dtype, rank, dims, values, &made, &err);
    free(values);
    return checked(n, status, &made);
}

static kiln_tensor *constant(net *n, kiln_tensor *t)
{
    if (t != NULL && KILN_CHECK(n->n_constants < MAX_CONSTANTS)) {
        kiln_tensor_mark_constant(t);
        n->constants[n->n_constants++] = t;
    }
    return t;
}

#define UNARY(function, call)                                                                      \
    static kiln_tensor *function(net *n, kiln_tensor *x)                                           \
    {                                                                                              \
        kiln_tensor *y = NULL;                                                                     \
        y = x == NULL ? NULL : checked(n, call, &y);                                               \
        kiln_release(x);                                                                           \
        return y;                                                                                  \
    }

UNARY(rounded, kiln_round(x, &y, &err))
UNARY(relu, kiln_relu(x, &y, &err))

static kiln_tensor *cast(net *n, kiln_tensor *x, kiln_dtype dtype)
{
    kiln_tensor *y = NULL;
    kiln_status status = kiln_cast(x, dtype, &y, &err);
    kiln_release(x);
    return checked(n, status, &y);
}

typedef kiln_status (*with_number)(kiln_tensor *x, kiln_number value, kiln_tensor **out,
                                   kiln_error *error);

static kiln_tensor *number(net *n, with_number call, kiln_tensor *x, kiln_number value)
{
    kiln_tensor *y = NULL;
    kiln_status status = call(x, value, &y, &err);
    kiln_release(x);
    return checked(n, status, &y);
}

/// QuantizeLinear; a zero point of 0 is left out.
static kiln_tensor *quantised(net *n, kiln_tensor *x, double scale, int zero, kiln_dtype dtype)
{
    x = rounded(n, number(n, kiln_div_scalar, x, kiln_f64(scale * n->odd)));
    x = zero == 0 ? x : number(n, kiln_add_scalar, x, kiln_f64(zero + n->other));
    return cast(n, x, dtype);
}

/// DequantizeLinear.
static kiln_tensor *real(net *n, kiln_tensor *x, double scale, int zero)
{
    x = cast(n, x, KILN_DTYPE_I32);
    x = zero == 0 ? x : number(n, kiln_sub_scalar, x, kiln_i64(zero + n->other));
    return number(n, kiln_mul_scalar, cast(n, x, KILN_DTYPE_F32), kiln_f64(scale * n->odd));
}

static kiln_tensor *via_bytes(net *n, kiln_tensor *x, double scale, int zero, kiln_dtype dtype)
{
    return real(n, quantised(n, x, scale, zero, dtype), scale, zero);
}

typedef enum zeros { NO_ZERO, ONE_ZERO, ZEROS } zeros;

typedef struct filter {
    int64_t inputs, outputs, length, stride, padding;
    kiln_dtype dtype; ///< NONE: weights are f32
    zeros zeros;
    bool one_scale;
    bool bias;
    bool each; ///< depthwise
    bool extreme; ///< weights are the largest and the smallest
} filter;

/// DequantizeLinear of constant weights.
static kiln_tensor *weights(net *n, const filter *f)
{
    const int64_t dims[] = {f->outputs, f->each ? 1 : f->inputs, f->length, f->length};
    const int64_t column[] = {f->outputs, 1, 1, 1};
    double low = f->dtype == KILN_DTYPE_U8 ? 0 : -128, high = low + 255;
    kiln_tensor *made;
    if (f->dtype == KILN_DTYPE_NONE) {
        return also(constant(n, numbers(n, KILN_DTYPE_F32, 4, dims, -127, 127, 1.0 / 128)));
    }
    if (f->extreme) {
        low = high = n->other ? low : high;
    }
    made = cast(n, also(constant(n, numbers(n, f->dtype, 4, dims, low, high, 1))), KILN_DTYPE_I32);
    if (f->zeros == ONE_ZERO) {
        made = number(n, kiln_sub_scalar, made, kiln_i64((int64_t)(low + 121 + n->other)));
    } else if (f->zeros == ZEROS) {
        kiln_tensor *x = made;
        kiln_tensor *z = constant(n, numbers(n, KILN_DTYPE_I32, 4, column, low, high, 1));
        made = NULL;
        made = checked(n, kiln_sub(x, z, &made, &err), &made);
        kiln_release(x);
    }
    made = cast(n, made, KILN_DTYPE_F32);
    if (f->one_scale) {
        return number(n, kiln_mul_scalar, made, kiln_f64(n->odd / 64));
    }
    kiln_tensor *x = made;
    kiln_tensor *s = constant(n, numbers(n, KILN_DTYPE_F32, 4, column, 1, 2, n->odd / 128));
    made = NULL;
    made = checked(n, kiln_mul(x, s, &made, &err), &made);
    kiln_release(x);
    return made;
}

static kiln_tensor *conv(net *n, kiln_tensor *x, filter f)
{
    const int64_t strides[] = {f.stride, f.stride};
    const int64_t padding[] = {f.padding, f.padding, f.padding, f.padding};
    kiln_conv_options o = KILN_CONV_OPTIONS_INIT;
    kiln_tensor *y = NULL, *w = weights(n, &f), *bias = NULL;
    o.strides = strides;
    o.padding = padding;
    o.n_strides = 2;
    o.n_padding = 4;
    o.groups = f.each ? f.inputs : 1;
    if (f.bias) {
        bias = constant(n, numbers(n, KILN_DTYPE_F32, 1, &f.outputs, -256, 256, 1.0 / 64));
    }
    kiln_status status = kiln_conv(x, w, bias, &o, &y, &err);
    kiln_release(w);
    kiln_release(x);
    return checked(n, status, &y);
}

static kiln_tensor *sum(net *n, kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *y = NULL;
    kiln_status status = kiln_add(a, b, &y, &err);
    kiln_release(a);
    kiln_release(b);
    return checked(n, status, &y);
}

static kiln_tensor *pool(net *n, kiln_tensor *x, bool largest)
{
    static const int64_t three[] = {3, 3}, two[] = {2, 2}, one[] = {1, 1, 1, 1};
    kiln_max_pool_options m = KILN_MAX_POOL_OPTIONS_INIT;
    kiln_avg_pool_options a = KILN_AVG_POOL_OPTIONS_INIT;
    kiln_tensor *y = NULL;
    m.kernel = three;
    a.kernel = two;
    m.strides = a.strides = two;
    m.padding = one;
    m.n_kernel = m.n_strides = a.n_kernel = a.n_strides = 2;
    m.n_padding = 4;
    kiln_status status = largest ? kiln_max_pool(x, &m, &y, &err) : kiln_avg_pool(x, &a, &y, &err);
    kiln_release(x);
    return checked(n, status, &y);
}

static kiln_tensor *mean(net *n, kiln_tensor *x)
{
    static const int64_t axes[] = {2, 3};
    kiln_tensor *y = NULL;
    kiln_status status = kiln_mean(x, axes, 2, true, &y, &err);
    kiln_release(x);
    return checked(n, status, &y);
}

static void give(net *n, kiln_tensor *x)
{
    if (x != NULL && KILN_CHECK(n->n_results < MAX_RESULTS)) {
        n->results[n->n_results++] = x;
    }
}

/// An image in f32, some of it beyond what 8 bits hold, some of it half between two steps.
static kiln_tensor *image(net *n, int64_t batch, int64_t channels, int64_t height, int64_t width)
{
    const int64_t dims[] = {batch, channels, height, width};
    return numbers(n, KILN_DTYPE_F32, 4, dims, -300, 300, 1.0 / 32);
}

static kiln_tensor *bytes(net *n, kiln_dtype dtype, int64_t channels, int64_t height, int64_t width)
{
    const int64_t dims[] = {2, channels, height, width};
    double low = dtype == KILN_DTYPE_U8 ? 0 : -128;
    return numbers(n, dtype, 4, dims, low, low + 255, 1);
}

#define U8 KILN_DTYPE_U8
#define I8 KILN_DTYPE_I8

static const filter three = {.inputs = 16,
                             .outputs = 16,
                             .length = 3,
                             .stride = 1,
                             .padding = 1,
                             .dtype = KILN_DTYPE_I8,
                             .bias = true};

static filter of(int64_t inputs, int64_t outputs, int64_t length, int64_t stride)
{
    filter f = three;
    f.inputs = inputs;
    f.outputs = outputs;
    f.length = length;
    f.stride = stride;
    f.padding = length / 2;
    return f;
}

// ---- cases ----

static void stem(net *n)
{
    kiln_tensor *x = via_bytes(n, image(n, 2, 3, 19, 33), 1.0 / 16, 120, U8);
    give(n, via_bytes(n, relu(n, conv(n, x, of(3, 17, 7, 2))), 1, 0, U8));
}

static void widths(net *n) ///< channels that are no multiple of four or sixteen
{
    kiln_tensor *x = via_bytes(n, image(n, 1, 5, 6, 7), 1.0 / 16, 100, U8);
    x = via_bytes(n, conv(n, x, of(5, 18, 3, 1)), 1, 101, U8);
    x = via_bytes(n, conv(n, x, of(18, 33, 1, 1)), 2, 102, U8);
    give(n, quantised(n, conv(n, x, of(33, 64, 3, 2)), 4, 103, U8));
}

static void signed_images(net *n)
{
    kiln_tensor *x = via_bytes(n, image(n, 2, 16, 5, 5), 1.0 / 16, -7, I8);
    x = via_bytes(n, conv(n, x, three), 1, 5, I8);
    give(n, also(x));
    give(n, quantised(n, conv(n, x, three), 4, 0, I8));
}

static void signed_without_zero(net *n)
{
    kiln_tensor *x = real(n, bytes(n, I8, 20, 4, 9), 1.0 / 16, 0);
    give(n, quantised(n, conv(n, x, of(20, 16, 3, 1)), 2, 0, I8));
}

static void weights_of(net *n, kiln_dtype dtype, zeros of_them, bool one_scale)
{
    filter f = of(19, 20, 3, 1);
    f.dtype = dtype;
    f.zeros = of_them;
    f.one_scale = one_scale;
    give(n, quantised(n, conv(n, real(n, bytes(n, U8, 19, 5, 6), 1.0 / 16, 130), f), 8, 99, U8));
}

static void weights_signed_one(net *n)
{
    weights_of(n, I8, ONE_ZERO, true);
}

static void weights_signed_each(net *n)
{
    weights_of(n, I8, ZEROS, false);
}

static void weights_one_scale(net *n)
{
    weights_of(n, I8, NO_ZERO, true);
}

static void weights_unsigned(net *n)
{
    weights_of(n, U8, NO_ZERO, false);
}

static void weights_unsigned_one(net *n)
{
    weights_of(n, U8, ONE_ZERO, true);
}

static void weights_unsigned_each(net *n)
{
    weights_of(n, U8, ZEROS, false);
}

static void extremes(net *n)
{
    filter f = of(32, 16, 1, 1);
    f.extreme = true;
    f.bias = false;
    const int64_t dims[] = {1, 32, 3, 3};
    kiln_tensor *x = numbers(n, KILN_DTYPE_F32, 4, dims, 15, 20, 1);
    give(n, quantised(n, conv(n, via_bytes(n, x, 1.0 / 16, 0, U8), f), 16, 1, U8));
}

static void long_sums(net *n) ///< beyond 32 bits: in f32
{
    filter f = of(8192, 1, 3, 1);
    f.extreme = true;
    f.bias = false;
    f.padding = 0;
    const int64_t dims[] = {1, 8192, 3, 3};
    kiln_tensor *x = numbers(n, KILN_DTYPE_F32, 4, dims, 16, 16, 1);
    give(n, quantised(n, conv(n, via_bytes(n, x, 1.0 / 16, 0, U8), f), 16, 1, U8));
}

static void residual(net *n)
{
    kiln_tensor *x = via_bytes(n, image(n, 2, 16, 6, 5), 1.0 / 16, 77, U8);
    kiln_tensor *y = via_bytes(n, relu(n, conv(n, also(x), three)), 1, 0, U8);
    y = via_bytes(n, conv(n, y, three), 2, 111, U8);
    y = via_bytes(n, relu(n, sum(n, y, x)), 1, 3, U8);
    give(n, quantised(n, conv(n, y, of(16, 24, 3, 2)), 4, 50, U8));
}

static void pools(net *n)
{
    kiln_tensor *x =
        via_bytes(n, conv(n, real(n, bytes(n, U8, 16, 8, 8), 1.0 / 16, 9), three), 2, 60, U8);
    kiln_tensor *y = via_bytes(n, pool(n, also(x), true), 2, 61, U8);
    give(n, via_bytes(n, pool(n, x, false), 1, 62, U8));
    give(n, quantised(n, mean(n, also(y)), 1, 63, U8));
    give(n, quantised(n, conv(n, y, three), 8, 64, U8));
}

static void negative_scale(net *n) ///< the largest byte is the smallest number
{
    kiln_tensor *x =
        via_bytes(n, conv(n, real(n, bytes(n, U8, 16, 8, 8), 1.0 / 16, 9), three), -2, 60, U8);
    give(n, via_bytes(n, pool(n, x, true), -2, 61, U8));
}

static void depthwise(net *n)
{
    filter f = of(18, 18, 3, 1), g = f;
    f.each = g.each = true;
    f.zeros = ZEROS;
    g.dtype = KILN_DTYPE_NONE;
    kiln_tensor *x = via_bytes(
        n, conv(n, real(n, bytes(n, U8, 7, 6, 6), 1.0 / 16, 9), of(7, 18, 1, 1)), 2, 60, U8);
    x = via_bytes(n, conv(n, x, f), 4, 61, U8);
    give(n, quantised(n, conv(n, x, g), 8, 64, I8));
}

static void kept_between(net *n) ///< what else would be made again by each reader
{
    kiln_tensor *x =
        quantised(n, conv(n, real(n, bytes(n, U8, 16, 5, 4), 1.0 / 16, 9), three), 2, 60, U8);
    give(n, also(x));
    x = real(n, x, 2, 60);
    give(n, also(x));
    give(n, relu(n, also(x)));
    give(n, quantised(n, conv(n, x, three), 8, 64, U8));
}

static void two_zeros(net *n) ///< of the same bytes: what stands around them can be but one
{
    kiln_tensor *x =
        quantised(n, conv(n, real(n, bytes(n, U8, 16, 5, 4), 1.0 / 16, 9), three), 2, 60, U8);
    kiln_tensor *a = conv(n, real(n, also(x), 2, 60), three);
    kiln_tensor *b = conv(n, real(n, also(x), 2, 50), three);
    kiln_tensor *c = conv(n, real(n, x, 2, 40), of(16, 16, 1, 1));
    give(n, quantised(n, sum(n, sum(n, a, b), c), 16, 64, U8));
}

static void float_weights(net *n)
{
    filter f = three;
    f.dtype = KILN_DTYPE_NONE;
    kiln_tensor *x =
        via_bytes(n, conv(n, real(n, bytes(n, U8, 16, 5, 4), 1.0 / 16, 9), three), 2, 60, U8);
    give(n, quantised(n, conv(n, x, f), 8, 64, U8));
}

static void float_image(net *n)
{
    filter f = of(5, 16, 3, 1);
    f.zeros = ZEROS;
    give(n, relu(n, conv(n, image(n, 1, 5, 4, 4), f)));
}

static void outside_beside(net *n) ///< a residual of bytes from outside
{
    kiln_tensor *x = conv(n, real(n, bytes(n, U8, 16, 5, 4), 1.0 / 16, 9), three);
    give(n, sum(n, x, real(n, bytes(n, I8, 16, 5, 4), 1.0 / 16, 3)));
}

static void not_numbers(net *n) ///< become 0, and infinities the largest and the smallest
{
    const int64_t dims[] = {1, 4, 2, 3};
    float data[24];
    kiln_tensor *x = NULL;
    for (int i = 0; i < 24; i++) {
        data[i] = i % 4 == 0 ? NAN : i % 4 == 1 ? INFINITY : i % 4 == 2 ? -INFINITY : (float)i;
    }
    x = checked(n, kiln_tensor_create(n->on->device, KILN_DTYPE_F32, 4, dims, data, &x, &err), &x);
    x = via_bytes(n, x, 1.0 / 16, n->other ? 0 : 5, n->other ? I8 : U8);
    give(n, also(x));
    give(n, conv(n, x, of(4, 5, 1, 1)));
}

/// All weights come first, and some are of no convolution.
static void other_weights(net *n)
{
    const int64_t dims[] = {10, 16};
    kiln_tensor *w = constant(n, numbers(n, I8, 2, dims, -128, 127, 1));
    give(n, cast(n, cast(n, also(w), KILN_DTYPE_I32), KILN_DTYPE_F32));
    n->apart = 2;
    give(n, quantised(n, conv(n, real(n, bytes(n, U8, 16, 5, 4), 1.0 / 16, 9), three), 2, 60, U8));
}

static void kept_weights(net *n) ///< f32 that no convolution of the region reads
{
    filter f = three;
    f.zeros = ZEROS;
    give(n, weights(n, &f));
    give(n, quantised(n, conv(n, real(n, bytes(n, U8, 16, 5, 4), 1.0 / 16, 9), three), 2, 60, U8));
}

typedef struct net_case {
    const char *name;
    void (*build)(net *n);
} net_case;

#define CASE(function)                                                                             \
    {                                                                                              \
#function, function                                                                        \
    }

static const net_case cases[] = {CASE(stem),
                                 CASE(widths),
                                 CASE(signed_images),
                                 CASE(signed_without_zero),
                                 CASE(weights_signed_one),
                                 CASE(weights_signed_each),
                                 CASE(weights_one_scale),
                                 CASE(weights_unsigned),
                                 CASE(weights_unsigned_one),
                                 CASE(weights_unsigned_each),
                                 CASE(extremes),
                                 CASE(long_sums),
                                 CASE(residual),
                                 CASE(pools),
                                 CASE(negative_scale),
                                 CASE(depthwise),
                                 CASE(kept_between),
                                 CASE(two_zeros),
                                 CASE(float_weights),
                                 CASE(float_image),
                                 CASE(outside_beside),
                                 CASE(other_weights),
                                 CASE(kept_weights),
                                 CASE(not_numbers)};

// ---- running ----

typedef struct results {
    uint32_t count;
    kiln_dtype dtypes[MAX_RESULTS];
    size_t elems[MAX_RESULTS];
    void *data[MAX_RESULTS];
    uint64_t recorded, taken, blocks, apart;
} results;

static kiln_device_stats stats_of(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats;
}

static void run(const net_case *c, session *s, double odd, bool other, results *out)
{
    net n = {.on = s, .state = 12345 + other, .odd = odd, .other = other};
    kiln_device_stats before = stats_of(s->device);
    memset(out, 0, sizeof(*out));
    c->build(&n);
    if (!n.failed) {
        KILN_CHECK_INT(kiln_sync(s->device, &err), KILN_STATUS_OK);
    }
    kiln_device_stats after = stats_of(s->device);
    out->recorded = after.ops_recorded - before.ops_recorded;
    out->taken = after.ops_fused - before.ops_fused;
    out->blocks = after.blocks_fused - before.blocks_fused;
    out->apart = n.apart;
    for (uint32_t i = 0; i < n.n_results; i++) {
        size_t size = kiln_tensor_bytes(n.results[i]);
        out->data[i] = malloc(size + 1);
        out->dtypes[i] = kiln_tensor_dtype(n.results[i]);
        out->elems[i] = size / kiln_dtype_size(out->dtypes[i]);
        KILN_CHECK_INT(kiln_read(n.results[i], out->data[i], size, &err), KILN_STATUS_OK);
        kiln_release(n.results[i]);
        out->count++;
    }
    for (uint32_t i = 0; i < n.n_constants; i++) {
        kiln_release(n.constants[i]);
    }
}

static double element(const results *r, uint32_t i, size_t at)
{
    return r->dtypes[i] == U8   ? ((const uint8_t *)r->data[i])[at]
           : r->dtypes[i] == I8 ? ((const int8_t *)r->data[i])[at]
                                : (double)((const float *)r->data[i])[at];
}

/// `bound`: of a result in bytes, in steps; f32 is not compared unless it is 0.
static void compare(const char *name, const char *with, const results *a, const results *b,
                    double bound)
{
    if (!KILN_CHECK_INT(a->count, b->count)) {
        return;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        bool is_float = a->dtypes[i] == KILN_DTYPE_F32;
        for (size_t at = 0; at < b->elems[i] && !(is_float && bound > 0); at++) {
            double x = element(a, i, at), y = element(b, i, at);
            if (fabs(x - y) > bound || isnan(x) != isnan(y)) {
                KILN_FAIL("%s, result %u: element %zu of %zu is %g, %s it is %g", name, i, at,
                          b->elems[i], x, with, y);
                break;
            }
        }
    }
}

static void free_results(results *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        free(r->data[i]);
    }
}

static void check(const net_case *c, double odd, bool other, double bound)
{
    results is, unfused, reference;
    uint32_t complaints = fused.complaints;
    run(c, &fused, odd, other, &is);
    run(c, &plain, odd, other, &unfused);
    run(c, &judge, odd, other, &reference);
    if (is.taken + is.apart != is.recorded || is.blocks != 1 || fused.complaints != complaints) {
        KILN_FAIL("%s: %d of %d operations fused, in %d blocks", c->name, (int)is.taken,
                  (int)is.recorded, (int)is.blocks);
    }
    compare(c->name, "unfused", &is, &unfused, bound);
    compare(c->name, "on the reference", &is, &reference, bound);
    free_results(&is);
    free_results(&unfused);
    free_results(&reference);
}

/// The second round has other zero points, weights and images, and the same plan.
static void test_exact(void)
{
    const char *only = getenv("KILN_TEST_REGION");
    if (!open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (only == NULL || strcmp(only, cases[i].name) == 0) {
            check(&cases[i], 1, false, 0);
            check(&cases[i], 1, true, 0);
        }
    }
    close_all();
}

/// Scales as they come: f32 rounds, and a number near the middle of two steps falls to either.
static void test_one_step(void)
{
    static const net_case single[] = {CASE(stem), CASE(weights_signed_each), CASE(weights_unsigned),
                                      CASE(signed_without_zero)};
    if (!open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++) {
        check(&single[i], 0.97, false, 1);
    }
    close_all();
}

/// Nothing before a convolution is a region.
static void no_product(net *n)
{
    give(n, via_bytes(n, image(n, 1, 16, 4, 4), 1.0 / 16, 3, U8));
}

static void test_no_product(void)
{
    static const net_case none = CASE(no_product);
    results is;
    if (!open_all()) {
        return;
    }
    run(&none, &fused, 1, false, &is);
    KILN_CHECK_INT(is.taken, 0);
    KILN_CHECK_INT(is.count, 1);
    free_results(&is);
    close_all();
}

KILN_TEST_MAIN("unit/plugins/convolution_bytes", KILN_TEST(test_exact), KILN_TEST(test_one_step),
               KILN_TEST(test_no_product))
