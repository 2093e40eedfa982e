// SPDX-License-Identifier: MIT OR Apache-2.0
// Views, gathers, masks and casts in elementwise blocks: recorded as users do, fused and unfused,
// the same bits, in one kernel. Indices are hostile: whatever they are, the same elements.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "ir.h"
#include "kiln.h"
#include "kiln_ops.h"

enum { ROWS = 13, COLUMNS = 37, TABLE = 11, MAX_HELD = 24 };

typedef struct material {
    kiln_tensor *x; ///< [ROWS, COLUMNS]
    kiln_tensor *y; ///< the same
    kiln_tensor *turned; ///< [COLUMNS, ROWS]
    kiln_tensor *table; ///< [TABLE, COLUMNS]
    kiln_tensor *mask; ///< [ROWS, COLUMNS], bool
    kiln_tensor *rows; ///< [ROWS], indices
    kiln_tensor *columns; ///< [COLUMNS], indices
    kiln_tensor *places; ///< [ROWS, COLUMNS], indices
    kiln_tensor *held[MAX_HELD];
    uint32_t n_held;
    kiln_error err;
} material;

typedef struct view_case {
    const char *name;
    kiln_tensor *(*record)(material *m);
    uint32_t kernels;
} view_case;

static kiln_dtype dtype_at;

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

/// relu(a) * b + b: something that a block is made of.
static kiln_tensor *chain(material *m, kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *t[2] = {NULL}, *out = NULL;
    OK(kiln_relu(a, &t[0], &m->err));
    OK(kiln_mul(held(m, t[0]), b, &t[1], &m->err));
    OK(kiln_add(held(m, t[1]), b, &out, &m->err));
    return out;
}

// ---- views ----

static kiln_tensor *permuted(material *m)
{
    const int64_t axes[] = {1, 0};
    kiln_tensor *view = NULL;
    OK(kiln_permute(m->turned, axes, 2, &view, &m->err));
    return chain(m, held(m, view), m->x);
}

static kiln_tensor *sliced(material *m)
{
    const int64_t starts[] = {1, 2}, ends[] = {ROWS, COLUMNS}, steps[] = {2, 3};
    kiln_tensor *a = NULL, *b = NULL;
    OK(kiln_slice(m->x, starts, 2, ends, 2, steps, 2, &a, &m->err));
    OK(kiln_slice(m->y, starts, 2, ends, 2, steps, 2, &b, &m->err));
    return chain(m, held(m, a), held(m, b));
}

static kiln_tensor *flipped(material *m)
{
    const int64_t axes[] = {0, 1};
    kiln_tensor *view = NULL;
    OK(kiln_flip(m->x, axes, 2, &view, &m->err));
    return chain(m, held(m, view), m->y);
}

static kiln_tensor *expanded(material *m)
{
    const int64_t starts[] = {0, 3}, ends[] = {ROWS, 4}, steps[] = {1, 1}, dims[] = {ROWS, COLUMNS};
    kiln_tensor *column = NULL, *view = NULL;
    OK(kiln_slice(m->x, starts, 2, ends, 2, steps, 2, &column, &m->err));
    OK(kiln_expand(held(m, column), dims, 2, &view, &m->err));
    return chain(m, held(m, view), m->y);
}

static kiln_tensor *reshaped(material *m)
{
    const int64_t dims[] = {ROWS, COLUMNS};
    kiln_tensor *view = NULL;
    OK(kiln_reshape(m->turned, dims, 2, &view, &m->err));
    return chain(m, m->x, held(m, view));
}

/// Between two parts of a chain: a view of the end, not a copy.
static kiln_tensor *permuted_last(material *m)
{
    const int64_t axes[] = {1, 0};
    kiln_tensor *out = NULL;
    OK(kiln_permute(held(m, chain(m, m->x, m->y)), axes, 2, &out, &m->err));
    return out;
}

// ---- masks, comparisons, casts ----

static kiln_tensor *where(material *m)
{
    kiln_tensor *a = held(m, chain(m, m->x, m->y)), *out = NULL;
    OK(kiln_where(a, m->y, m->mask, &out, &m->err));
    return out;
}

static kiln_tensor *filled(material *m)
{
    kiln_tensor *a = held(m, chain(m, m->x, m->y)), *out = NULL;
    OK(kiln_mask_fill(a, m->mask, kiln_f64(-3), &out, &m->err));
    return out;
}

static kiln_tensor *compared(material *m)
{
    kiln_tensor *less = NULL, *both = NULL, *out = NULL;
    kiln_tensor *a = held(m, chain(m, m->x, m->y));
    OK(kiln_less(a, m->y, &less, &m->err));
    OK(kiln_logical_or(held(m, less), m->mask, &both, &m->err));
    OK(kiln_where(a, m->x, held(m, both), &out, &m->err));
    return out;
}

static kiln_tensor *cast(material *m)
{
    kiln_tensor *whole = NULL, *back = NULL;
    OK(kiln_cast(held(m, chain(m, m->x, m->y)), KILN_DTYPE_I8, &whole, &m->err));
    OK(kiln_cast(held(m, whole), dtype_at, &back, &m->err));
    return chain(m, held(m, back), m->y);
}

// ---- gathers ----

static kiln_tensor *select_rows(material *m)
{
    kiln_tensor *taken = NULL;
    OK(kiln_select(m->table, m->rows, 0, &taken, &m->err));
    return chain(m, held(m, taken), m->y);
}

static kiln_tensor *select_columns(material *m)
{
    kiln_tensor *taken = NULL;
    OK(kiln_select(m->x, m->columns, -1, &taken, &m->err));
    return chain(m, m->y, held(m, taken));
}

static kiln_tensor *select_of_view(material *m)
{
    const int64_t axes[] = {1, 0};
    kiln_tensor *view = NULL, *taken = NULL;
    OK(kiln_permute(m->turned, axes, 2, &view, &m->err));
    OK(kiln_select(held(m, view), m->columns, 1, &taken, &m->err));
    return chain(m, held(m, taken), m->x);
}

static kiln_tensor *gather_columns(material *m)
{
    kiln_tensor *taken = NULL;
    OK(kiln_gather(m->x, m->places, 1, &taken, &m->err));
    return chain(m, held(m, taken), m->y);
}

static kiln_tensor *gather_rows(material *m)
{
    kiln_tensor *taken = NULL;
    OK(kiln_gather(m->table, m->places, 0, &taken, &m->err));
    return chain(m, held(m, taken), m->y);
}

/// Two tables by the same indices, and a tensor that is both taken from and read: rotation by
/// position has this form. The result must not take the memory of what is taken from.
static kiln_tensor *select_twice(material *m)
{
    kiln_tensor *a = NULL, *b = NULL;
    OK(kiln_select(m->x, m->rows, 0, &a, &m->err));
    OK(kiln_select(m->table, m->rows, 0, &b, &m->err));
    return chain(m, held(m, chain(m, held(m, a), held(m, b))), m->x);
}

/// What is taken is used twice, by halves that are one block.
static kiln_tensor *select_shared(material *m)
{
    kiln_tensor *taken = NULL, *out = NULL;
    OK(kiln_select(m->table, m->rows, 0, &taken, &m->err));
    kiln_tensor *sum = held(m, chain(m, held(m, taken), m->y));
    OK(kiln_mul(sum, taken, &out, &m->err));
    return out;
}

static kiln_tensor *select_line(material *m)
{
    const int64_t count = TABLE * COLUMNS;
    kiln_tensor *flat = NULL, *taken = NULL, *first = NULL;
    const int64_t starts[] = {2, 0}, ends[] = {3, COLUMNS}, steps[] = {1, 1};
    OK(kiln_reshape(m->table, &count, 1, &flat, &m->err));
    OK(kiln_select(held(m, flat), m->columns, 0, &taken, &m->err));
    OK(kiln_slice(m->y, starts, 2, ends, 2, steps, 2, &first, &m->err));
    const int64_t columns = COLUMNS;
    kiln_tensor *line = NULL;
    OK(kiln_reshape(held(m, first), &columns, 1, &line, &m->err));
    return chain(m, held(m, taken), held(m, line));
}

// ---- running ----

static kiln_tensor *tensor(material *m, kiln_device *device, kiln_dtype dtype, uint32_t rank,
                           int64_t a, int64_t b, uint32_t seed)
{
    const int64_t dims[] = {a, b};
    size_t count = (size_t)(rank == 1 ? a : a * b), size = kiln_dtype_size(dtype);
    unsigned char *bytes = malloc(count * size);
    kiln_tensor *out = NULL;
    for (size_t i = 0; bytes != NULL && i < count; i++) {
        uint32_t noise = ((uint32_t)i + seed * 977u) * 2654435761u >> 8;
        kiln_attr number = {.type = KILN_ATTR_F64, .count = 1};
        number.v.f = i % 61 == 7 ? NAN : (double)noise / 2097152.0 - 4;
        if (kiln_dtype_kind_of(dtype) != KILN_KIND_FLOAT) {
            number.type = KILN_ATTR_I64;
            number.v.i = dtype == KILN_DTYPE_BOOL ? noise & 1u : (int64_t)(noise % 200) - 100;
        }
        KILN_CHECK(kiln_number_store(&number, dtype, bytes + i * size));
    }
    OK(kiln_tensor_create(device, dtype, rank, dims, bytes, &out, &m->err));
    free(bytes);
    return out;
}

/// Below, above, from the end, and as far away as the type goes.
static kiln_tensor *indices(material *m, kiln_device *device, kiln_dtype dtype, uint32_t rank,
                            int64_t a, int64_t b)
{
    static const int64_t odd[] = {-1, 0, 5, TABLE - 1, TABLE, -TABLE, -TABLE - 1, 1000, -1000, 3};
    const int64_t dims[] = {a, b};
    size_t count = (size_t)(rank == 1 ? a : a * b);
    bool is_wide = dtype == KILN_DTYPE_I64;
    int64_t wide[ROWS * COLUMNS];
    int32_t narrow[ROWS * COLUMNS];
    kiln_tensor *out = NULL;
    for (size_t i = 0; i < count; i++) {
        wide[i] = i % 10 == 9 ? (i % 20 < 10 ? INT64_MIN : INT64_MAX) : odd[(i * 7 + i / 10) % 10];
        narrow[i] = wide[i] == INT64_MIN   ? INT32_MIN
                    : wide[i] == INT64_MAX ? INT32_MAX
                                           : (int32_t)wide[i];
    }
    OK(kiln_tensor_create(device, dtype, rank, dims, is_wide ? (const void *)wide : narrow, &out,
                          &m->err));
    return out;
}

static uint64_t launched(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.backend.kernels_launched;
}

static uint64_t run(kiln_device *device, const view_case *c, kiln_dtype index, bool fused,
                    kiln_tensor **out)
{
    material storage = {.n_held = 0}, *m = &storage;
    OK(kiln_device_set_fusion(device, fused, &m->err));
    m->x = tensor(m, device, dtype_at, 2, ROWS, COLUMNS, 1);
    m->y = tensor(m, device, dtype_at, 2, ROWS, COLUMNS, 2);
    m->turned = tensor(m, device, dtype_at, 2, COLUMNS, ROWS, 3);
    m->table = tensor(m, device, dtype_at, 2, TABLE, COLUMNS, 4);
    m->mask = tensor(m, device, KILN_DTYPE_BOOL, 2, ROWS, COLUMNS, 5);
    m->rows = indices(m, device, index, 1, ROWS, 0);
    m->columns = indices(m, device, index, 1, COLUMNS, 0);
    m->places = indices(m, device, index, 2, ROWS, COLUMNS);
    OK(kiln_sync(device, &m->err));
    uint64_t before = launched(device);
    *out = c->record(m);
    kiln_tensor *const inputs[] = {m->x,    m->y,    m->turned,  m->table,
                                   m->mask, m->rows, m->columns, m->places};
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        kiln_release(inputs[i]); // results may take their memory, where that is allowed
    }
    for (uint32_t i = 0; i < m->n_held; i++) {
        kiln_release(m->held[i]);
    }
    OK(kiln_sync(device, &m->err));
    return launched(device) - before;
}

static bool is_nan(kiln_dtype dtype, uint64_t bits)
{
    return (dtype == KILN_DTYPE_F32 && (bits & 0x7fffffffu) > 0x7f800000u) ||
           (dtype == KILN_DTYPE_F16 && (bits & 0x7fffu) > 0x7c00u);
}

/// Where two NaNs meet, which one stays is the processor's choice.
static void compare(const view_case *c, kiln_dtype dtype, const unsigned char *a,
                    const unsigned char *b, size_t bytes)
{
    size_t size = kiln_dtype_size(dtype);
    for (size_t i = 0; i < bytes; i += size) {
        uint64_t x = 0, y = 0;
        memcpy(&x, a + i, size);
        memcpy(&y, b + i, size);
        if (x != y && !(is_nan(dtype, x) && is_nan(dtype, y))) {
            KILN_FAIL("%s, %s: element %zu is %llx fused, %llx unfused", c->name,
                      kiln_dtype_name(dtype), i / size, (unsigned long long)x,
                      (unsigned long long)y);
            return;
        }
    }
}

static void check_case(kiln_device *device, const view_case *c, kiln_dtype index)
{
    static unsigned char a[ROWS * COLUMNS * 8], b[sizeof(a)];
    material storage = {.n_held = 0}, *m = &storage;
    kiln_tensor *fused = NULL, *plain = NULL;
    uint64_t kernels = run(device, c, index, true, &fused);
    (void)run(device, c, index, false, &plain);
    size_t bytes = plain == NULL ? 0 : kiln_tensor_bytes(plain);
    if (kernels > c->kernels) {
        KILN_FAIL("%s: %llu kernels, at most %u expected", c->name, (unsigned long long)kernels,
                  c->kernels);
    }
    if (KILN_CHECK(fused != NULL && plain != NULL && bytes <= sizeof(a))) {
        OK(kiln_read(fused, a, bytes, &m->err));
        OK(kiln_read(plain, b, bytes, &m->err));
        compare(c, kiln_tensor_dtype(plain), a, b, bytes);
    }
    kiln_release(fused);
    kiln_release(plain);
}

static const view_case cases[] = {
    {"permuted", permuted, 1},
    {"sliced", sliced, 1},
    {"flipped", flipped, 1},
    {"expanded", expanded, 1},
    {"reshaped", reshaped, 1},
    {"permuted_last", permuted_last, 1},
    {"where", where, 1},
    {"filled", filled, 1},
    {"compared", compared, 1},
    {"cast", cast, 1},
    {"select_rows", select_rows, 1},
    {"select_columns", select_columns, 1},
    {"select_of_view", select_of_view, 1},
    {"gather_columns", gather_columns, 1},
    {"gather_rows", gather_rows, 2}, // x is longer or shorter than the result elsewhere: alone
    {"select_twice", select_twice, 1},
    {"select_shared", select_shared, 1},
    {"select_line", select_line, 1},
};

static void test_views(void)
{
    dtype_at = *(const kiln_dtype *)kiln_test_param();
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!KILN_CHECK_INT(kiln_context_create(&options, &context, &err), KILN_STATUS_OK)) {
        return;
    }
    if (kiln_device_open(context, kiln_test_address("opencl:0"), &device, &err) != KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device: %s", err.message);
        kiln_context_destroy(context);
        return;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_case(device, &cases[i], i % 2 == 0 ? KILN_DTYPE_I32 : KILN_DTYPE_I64);
    }
    kiln_device_release(device);
    kiln_context_destroy(context);
}

static const kiln_dtype f32 = KILN_DTYPE_F32;
static const kiln_dtype f16 = KILN_DTYPE_F16;
static const kiln_dtype i32 = KILN_DTYPE_I32;

KILN_TEST_MAIN("unit/plugins/fused_views", KILN_TEST_PARAM(test_views, "f32", &f32),
               KILN_TEST_PARAM(test_views, "f16", &f16), KILN_TEST_PARAM(test_views, "i32", &i32))
