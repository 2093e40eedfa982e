// SPDX-License-Identifier: MIT OR Apache-2.0
// Tensors of small floats: casts of every code both ways from every dtype, what moves them and
// keeps their dtype, what is refused in words, graphs, and the names of bits.
#include <math.h>
#include <string.h>

#include "runtime_fixture.h"

static const kiln_dtype small[] = {KILN_DTYPE_F8E4M3FN,   KILN_DTYPE_F8E4M3FNUZ, KILN_DTYPE_F8E5M2,
                                   KILN_DTYPE_F8E5M2FNUZ, KILN_DTYPE_F8E8M0,     KILN_DTYPE_F4E2M1};
enum { N_SMALL = sizeof(small) / sizeof(small[0]), N_CODES = 256 };

static const char *address(void)
{
    return kiln_test_param();
}

static kiln_tensor *all_codes(fixture *f, kiln_dtype dtype)
{
    const int64_t dims[] = {N_CODES};
    uint8_t codes[N_CODES];
    kiln_tensor *made = NULL;
    for (int i = 0; i < N_CODES; i++) {
        codes[i] = (uint8_t)i;
    }
    FIXTURE_OK(f, kiln_tensor_create(f->device, dtype, 1, dims, codes, &made, &f->err));
    return made;
}

static bool same(float a, float b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/// Replaces the tensor by its cast.
static void cast(fixture *f, kiln_tensor **x, kiln_dtype dtype)
{
    kiln_tensor *made = NULL;
    FIXTURE_OK(f, kiln_cast(*x, dtype, &made, &f->err));
    kiln_release(*x);
    *x = made;
    KILN_CHECK_INT(made == NULL ? 0 : kiln_tensor_dtype(made), dtype);
}

/* By way of each float, which holds all numbers of the type. */
static void check_decoded(fixture *f, kiln_dtype dtype, kiln_dtype via)
{
    float values[N_CODES];
    kiln_tensor *x = all_codes(f, dtype);
    cast(f, &x, via);
    cast(f, &x, KILN_DTYPE_F32);
    FIXTURE_OK(f, kiln_read(x, values, sizeof(values), &f->err));
    for (int i = 0; i < N_CODES; i++) {
        float want = kiln_small_to_f32(dtype, (uint8_t)i);
        if (via == KILN_DTYPE_F16) {
            want = kiln_f16_to_f32(kiln_f32_to_f16(want)); // of f8e8m0 most are outside
        }
        if (!KILN_CHECK(same(values[i], want))) {
            KILN_CHECK_INT(i, -1);
        }
    }
    kiln_release(x);
}

static void test_decode(void)
{
    static const kiln_dtype floats[] = {KILN_DTYPE_F32, KILN_DTYPE_F16, KILN_DTYPE_BF16,
                                        KILN_DTYPE_F64};
    fixture f;
    if (!fixture_open(&f, address())) {
        return;
    }
    for (size_t i = 0; i < N_SMALL; i++) {
        for (size_t k = 0; k < 4; k++) {
            if (kiln_device_supports_dtype(f.device, floats[k])) {
                check_decoded(&f, small[i], floats[k]);
            }
        }
    }
    fixture_close(&f);
}

enum { N_NUMBERS = 4096 };

/// Numbers of all sizes, each near a place where rounding turns.
static void fill_numbers(double *numbers, kiln_dtype dtype)
{
    for (int i = 0; i < N_NUMBERS; i++) {
        double code = (double)kiln_small_to_f32(dtype, (uint8_t)(i / 16));
        double next = (double)kiln_small_to_f32(dtype, (uint8_t)(i / 16 + 1));
        double at = i % 16 / 8.0;
        numbers[i] = isfinite(code) && isfinite(next) ? code + (next - code) * at : code;
    }
}

static void check_encoded(fixture *f, kiln_dtype dtype, kiln_dtype from)
{
    static double numbers[N_NUMBERS];
    static uint8_t bits[N_NUMBERS];
    const int64_t dims[] = {N_NUMBERS};
    kiln_tensor *x = NULL;
    bool wide = kiln_device_supports_dtype(f->device, KILN_DTYPE_F64);
    static float narrow[N_NUMBERS];
    fill_numbers(numbers, dtype);
    for (int i = 0; i < N_NUMBERS; i++) {
        narrow[i] = (float)numbers[i];
    }
    FIXTURE_OK(f, kiln_tensor_create(f->device, wide ? KILN_DTYPE_F64 : KILN_DTYPE_F32, 1, dims,
                                     wide ? (const void *)numbers : narrow, &x, &f->err));
    cast(f, &x, from);
    kiln_tensor *copy = kiln_retain(x);
    cast(f, &copy, wide ? KILN_DTYPE_F64 : KILN_DTYPE_F32); // the numbers as `from` has them
    size_t bytes = wide ? sizeof(numbers) : sizeof(narrow);
    FIXTURE_OK(f, kiln_read(copy, wide ? (void *)numbers : narrow, bytes, &f->err));
    cast(f, &x, dtype);
    FIXTURE_OK(f, kiln_read(x, bits, sizeof(bits), &f->err));
    for (int i = 0; i < N_NUMBERS; i++) {
        uint8_t want = kiln_f64_to_small(dtype, wide ? numbers[i] : (double)narrow[i]);
        if (isnan(numbers[i])) { // whose sign no cast before keeps
            KILN_CHECK((bits[i] & 0x77) == (want & 0x77));
        } else if (!KILN_CHECK(bits[i] == want)) {
            KILN_CHECK_INT(bits[i], want);
        }
    }
    kiln_release(copy);
    kiln_release(x);
}

static void test_encode(void)
{
    static const kiln_dtype from[] = {KILN_DTYPE_F32,  KILN_DTYPE_F64, KILN_DTYPE_F16,
                                      KILN_DTYPE_BF16, KILN_DTYPE_I32, KILN_DTYPE_I64,
                                      KILN_DTYPE_U8,   KILN_DTYPE_I8,  KILN_DTYPE_BOOL};
    fixture f;
    if (!fixture_open(&f, address())) {
        return;
    }
    for (size_t i = 0; i < N_SMALL; i++) {
        for (size_t k = 0; k < sizeof(from) / sizeof(from[0]); k++) {
            if (kiln_device_supports_dtype(f.device, from[k])) {
                check_encoded(&f, small[i], from[k]);
            }
        }
    }
    fixture_close(&f);
}

static void expect_codes(fixture *f, kiln_tensor *x, kiln_dtype dtype, const uint8_t *want,
                         size_t count)
{
    uint8_t got[N_CODES] = {0};
    KILN_CHECK_INT(x == NULL ? 0 : kiln_tensor_dtype(x), dtype);
    FIXTURE_OK(f, kiln_read(x, got, count, &f->err));
    KILN_CHECK(memcmp(got, want, count) == 0);
    kiln_release(x);
}

static void test_moved(void)
{
    static const uint8_t codes[] = {1, 2, 3, 0xfe, 0x7f, 0x80};
    static const uint8_t turned[] = {1, 0xfe, 2, 0x7f, 3, 0x80};
    static const uint8_t twice[] = {1, 2, 3, 0xfe, 0x7f, 0x80, 1, 2, 3, 0xfe, 0x7f, 0x80};
    const int64_t dims[] = {2, 3}, axes[] = {1, 0}, line[] = {6};
    const kiln_dtype dtype = KILN_DTYPE_F8E5M2;
    fixture f;
    kiln_tensor *x = NULL, *y = NULL, *moved = NULL, *other = NULL;
    if (!fixture_open(&f, address())) {
        return;
    }
    FIXTURE_OK(&f, kiln_tensor_create(f.device, dtype, 2, dims, codes, &x, &f.err));
    FIXTURE_OK(&f, kiln_reshape(x, line, 1, &y, &f.err));
    expect_codes(&f, y, dtype, codes, 6);
    FIXTURE_OK(&f, kiln_permute(x, axes, 2, &y, &f.err));
    FIXTURE_OK(&f, kiln_contiguous(y, &moved, &f.err));
    kiln_release(y);
    expect_codes(&f, moved, dtype, turned, 6);
    kiln_tensor *const both[] = {x, x};
    FIXTURE_OK(&f, kiln_concat(both, 2, 0, &y, &f.err));
    expect_codes(&f, y, dtype, twice, 12);
    FIXTURE_OK(&f, kiln_bits_as(x, KILN_DTYPE_U8, &y, &f.err));
    expect_codes(&f, y, KILN_DTYPE_U8, codes, 6);
    FIXTURE_OK(&f, kiln_tensor_create(f.device, KILN_DTYPE_U8, 2, dims, codes, &other, &f.err));
    FIXTURE_OK(&f, kiln_bits_as(other, dtype, &y, &f.err));
    expect_codes(&f, y, dtype, codes, 6);
    kiln_tensor *const mixed[] = {x, other};
    KILN_CHECK_INT(kiln_concat(mixed, 2, 0, &y, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(strstr(f.err.message, "input 1 is u8 but input 0 is f8e5m2") != NULL);
    kiln_release(other);
    kiln_release(x);
    fixture_close(&f);
}

static void test_refused(void)
{
    const int64_t dims[] = {3};
    fixture f;
    kiln_tensor *y = NULL;
    if (!fixture_open(&f, address())) {
        return;
    }
    kiln_tensor *x = all_codes(&f, KILN_DTYPE_F4E2M1);
    KILN_CHECK_INT(kiln_add(x, x, &y, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(strstr(f.err.message, "add does not take f4e2m1 (input 0), which is only stored: "
                                     "cast it first") != NULL);
    KILN_CHECK(y == NULL);
    KILN_CHECK_INT(kiln_full(f.device, dims, 1, KILN_DTYPE_F8E8M0, kiln_f64(1), &y, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(strstr(f.err.message, "full: does not give f8e8m0") != NULL);
    KILN_CHECK_INT(kiln_encode_small(x, kiln_i64(20), &y, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_bits_as(x, KILN_DTYPE_I8, &y, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    kiln_tensor *numbers = fixture_f32(&f, 1, dims, (const float[]){1, 2, 3});
    KILN_CHECK_INT(kiln_encode_small(numbers, kiln_i64(12), &y, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(strstr(f.err.message, "12 is the number of no small float dtype") != NULL);
    KILN_CHECK_INT(kiln_bits_as(numbers, KILN_DTYPE_F4E2M1, &y, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_device_dtype_usage(f.device, KILN_DTYPE_F8E5M2), KILN_USAGE_STORAGE);
    kiln_release(numbers);
    kiln_release(x);
    fixture_close(&f);
}

/* A graph keeps the dtype of what goes in and comes out, with other shapes too. */
static void test_graph(void)
{
    const int64_t dims[] = {4};
    const float numbers[] = {0.3f, -2, 448, 1e9f};
    fixture f;
    kiln_graph *graph = NULL;
    kiln_tensor *y = NULL, *out = NULL, *again = NULL;
    if (!fixture_open(&f, address())) {
        return;
    }
    kiln_tensor *x = fixture_f32(&f, 1, dims, numbers);
    cast(&f, &x, KILN_DTYPE_F8E4M3FN);
    FIXTURE_OK(&f, kiln_graph_begin(f.device, &x, 1, &f.err));
    FIXTURE_OK(&f, kiln_cast(x, KILN_DTYPE_F32, &y, &f.err));
    FIXTURE_OK(&f, kiln_mul_scalar(y, kiln_f64(2), &again, &f.err));
    FIXTURE_OK(&f, kiln_cast(again, KILN_DTYPE_F8E5M2, &out, &f.err));
    FIXTURE_OK(&f, kiln_graph_end(f.device, &out, 1, &graph, &f.err));
    kiln_release(y);
    kiln_release(again);
    kiln_release(out);
    FIXTURE_OK(&f, kiln_graph_run(graph, &x, 1, &out, 1, &f.err));
    const uint8_t want[] = {0x39, 0xc4, 0x63, 0x7e};
    expect_codes(&f, out, KILN_DTYPE_F8E5M2, want, 4);
    kiln_tensor *longer = all_codes(&f, KILN_DTYPE_F8E4M3FN);
    FIXTURE_OK(&f, kiln_graph_run(graph, &longer, 1, &out, 1, &f.err));
    KILN_CHECK_INT(kiln_tensor_dtype(out), KILN_DTYPE_F8E5M2);
    kiln_release(out);
    kiln_release(longer);
    longer = all_codes(&f, KILN_DTYPE_U8);
    KILN_CHECK_INT(kiln_graph_run(graph, &longer, 1, &out, 1, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(strstr(f.err.message, "input 0 is u8; the graph wants f8e4m3fn") != NULL);
    kiln_release(longer);
    kiln_release(x);
    kiln_graph_destroy(graph);
    fixture_close(&f);
}

static void test_other_device(void)
{
    fixture f;
    kiln_device *other = NULL;
    kiln_tensor *moved = NULL;
    uint8_t got[N_CODES] = {0};
    if (!fixture_open(&f, address())) {
        return;
    }
    FIXTURE_OK(&f, kiln_device_open(f.context, "reference:1", &other, &f.err));
    kiln_tensor *x = all_codes(&f, KILN_DTYPE_F8E8M0);
    if (other != NULL && FIXTURE_OK(&f, kiln_to_device(x, other, &moved, &f.err))) {
        KILN_CHECK_INT(kiln_tensor_dtype(moved), KILN_DTYPE_F8E8M0);
        FIXTURE_OK(&f, kiln_read(moved, got, sizeof(got), &f.err));
        KILN_CHECK_INT(got[200], 200);
        kiln_release(moved);
    }
    kiln_release(x);
    kiln_device_release(other);
    fixture_close(&f);
}

#define ON_EACH(test, name)                                                                        \
    KILN_TEST_PARAM(test, name " reference", "reference:0"),                                       \
        KILN_TEST_PARAM(test, name " opencl", "opencl:0")

KILN_TEST_MAIN("unit/runtime/small_floats", ON_EACH(test_decode, "decode"),
               ON_EACH(test_encode, "encode"), ON_EACH(test_moved, "moved"),
               ON_EACH(test_refused, "refused"), ON_EACH(test_graph, "graph"),
               ON_EACH(test_other_device, "other device"))
