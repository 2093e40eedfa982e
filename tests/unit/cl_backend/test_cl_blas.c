// SPDX-License-Identifier: MIT OR Apache-2.0
// Matrix products: each against the reference evaluator, and the counter that proves where it ran.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cl_blas.h"
#include "cl_fixture.h"
#include "exec.h"

typedef struct operand {
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t strides[KILN_MAX_RANK]; ///< used when `strided`
    bool strided;
    int64_t offset; ///< in elements
    bool transposed;
} operand;

typedef struct product {
    kiln_dtype dtype;
    operand a;
    operand b;
    int64_t out_offset;
} product;

enum { ELEMENTS = 40000 };

static kiln_backend *open_reference(cl_fixture *f)
{
    kiln_backend *base = NULL;
    kiln_error err = KILN_ERROR_INIT;
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    if (provider->open(&f->env, "reference:", &base, &err, provider->user) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
    }
    return base;
}

static void put(void *data, kiln_dtype dtype, size_t i, double value)
{
    if (dtype == KILN_DTYPE_F64) {
        ((double *)data)[i] = value;
    } else if (dtype == KILN_DTYPE_F32) {
        ((float *)data)[i] = (float)value;
    } else {
        ((int32_t *)data)[i] = (int32_t)(value * 8);
    }
}

static double get(const void *data, kiln_dtype dtype, size_t i)
{
    if (dtype == KILN_DTYPE_F64) {
        return ((const double *)data)[i];
    }
    return dtype == KILN_DTYPE_F32 ? (double)((const float *)data)[i]
                                   : (double)((const int32_t *)data)[i];
}

static kiln_tensor_desc desc_of(const operand *x, kiln_dtype dtype, uint64_t id)
{
    kiln_tensor_desc desc = {.id = id, .dtype = dtype, .rank = (uint8_t)x->rank};
    memcpy(desc.dims, x->dims, x->rank * sizeof(x->dims[0]));
    return desc;
}

static kiln_view view_of(const operand *x, const kiln_tensor_desc *desc, kiln_buffer *buffer)
{
    kiln_view view = kiln_view_dense(desc, buffer);
    if (x->strided) {
        memcpy(view.strides, x->strides, x->rank * sizeof(x->strides[0]));
    }
    view.offset_bytes = x->offset * (int64_t)kiln_dtype_size(desc->dtype);
    return view;
}

typedef struct run_state {
    kiln_op_record record;
    kiln_tensor_desc in[2];
    kiln_tensor_desc out;
    kiln_attr attrs[2];
} run_state;

static bool describe(const product *p, run_state *s)
{
    kiln_error err = KILN_ERROR_INIT;
    memset(s, 0, sizeof(*s));
    s->in[0] = desc_of(&p->a, p->dtype, 1);
    s->in[1] = desc_of(&p->b, p->dtype, 2);
    s->out.id = 3;
    s->attrs[0] = (kiln_attr){.type = KILN_ATTR_BOOL, .count = 1, .v.i = p->a.transposed};
    s->attrs[1] = (kiln_attr){.type = KILN_ATTR_BOOL, .count = 1, .v.i = p->b.transposed};
    s->record = (kiln_op_record){.op = KILN_OP_MATMUL,
                                 .n_inputs = 2,
                                 .n_outputs = 1,
                                 .n_attrs = 2,
                                 .inputs = s->in,
                                 .outputs = &s->out,
                                 .attrs = s->attrs};
    if (kiln_ir_infer(&s->record, &s->out, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        return false;
    }
    return true;
}

// By the library where it takes the product, else as the operator is run.
static kiln_status multiply(kiln_backend *base, bool library, const kiln_op_record *record,
                            const kiln_view inputs[2], const kiln_view *output, kiln_error *err)
{
    bool done = false;
    kiln_status status = library ? kilni_cl_blas_matmul(kilni_cl_backend_of(base), record, inputs,
                                                        output, &done, err)
                                 : KILN_STATUS_OK;
    return status != KILN_STATUS_OK || done
               ? status
               : base->device->execute(base, record, inputs, output, err);
}

// Runs the product on one backend. Both inputs lie in arrays of ELEMENTS; the output is filled with
// NaN before.
static bool execute(kiln_backend *base, bool library, const product *p, const run_state *s,
                    const void *a, const void *b, void *out)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_buffer *buffers[3] = {NULL, NULL, NULL};
    size_t size = kiln_dtype_size(p->dtype);
    size_t bytes = ELEMENTS * size;
    int64_t out_bytes = kiln_desc_bytes(&s->out);
    for (int i = 0; i < 3; i++) {
        KILN_TRY(out, status, base->memory->alloc(base, bytes, &buffers[i], &err));
    }
    KILN_TRY(out, status, base->transfer->upload(base, buffers[0], 0, a, bytes, &err));
    KILN_TRY(out, status, base->transfer->upload(base, buffers[1], 0, b, bytes, &err));
    memset(out, 0xff, bytes);
    KILN_TRY(out, status, base->transfer->upload(base, buffers[2], 0, out, bytes, &err));
    kiln_view inputs[2] = {view_of(&p->a, &s->in[0], buffers[0]),
                           view_of(&p->b, &s->in[1], buffers[1])};
    kiln_view output = kiln_view_dense(&s->out, buffers[2]);
    output.offset_bytes = p->out_offset * (int64_t)size;
    KILN_TRY(out, status, multiply(base, library, &s->record, inputs, &output, &err));
    KILN_TRY(out, status, base->transfer->read(base, buffers[2], 0, out, bytes, &err));
    // Nothing around the output is touched.
    for (size_t i = 0; i < bytes; i++) {
        bool inside =
            (int64_t)i >= output.offset_bytes && (int64_t)i < output.offset_bytes + out_bytes;
        if (!inside && ((unsigned char *)out)[i] != 0xff) {
            KILN_FAIL("byte %zu outside the output was written", i);
            break;
        }
    }
out:
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
    }
    for (int i = 0; i < 3; i++) {
        base->memory->free(base, buffers[i]);
    }
    return status == KILN_STATUS_OK;
}

static void compare(const product *p, const run_state *s, const void *actual, const void *expected)
{
    int64_t count = kiln_desc_count(&s->out);
    double largest = 0;
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        size_t at = (size_t)(i + p->out_offset);
        double e = get(expected, p->dtype, at);
        double d = fabs(get(actual, p->dtype, at) - e);
        largest = fabs(e) > largest ? fabs(e) : largest;
        worst = d > worst || isnan(d) ? d : worst;
    }
    double tolerance = p->dtype == KILN_DTYPE_F64 ? 1e-12 : 2e-6;
    if (!(worst <= tolerance * largest)) {
        KILN_FAIL("off by %g where the largest is %g", worst, largest);
    }
}

static void check_by(cl_fixture *f, kiln_backend *reference, const product *p, bool library,
                     uint64_t blas_calls)
{
    run_state s;
    size_t bytes = ELEMENTS * kiln_dtype_size(p->dtype);
    void *a = malloc(bytes);
    void *b = malloc(bytes);
    void *actual = malloc(bytes);
    void *expected = malloc(bytes);
    for (size_t i = 0; i < ELEMENTS; i++) {
        put(a, p->dtype, i, (double)(i * 7919 % 1009) / 504.0 - 1.0);
        put(b, p->dtype, i, (double)(i * 104729 % 997) / 498.0 - 1.0);
    }
    uint64_t before = f->backend->stats.blas_calls;
    if (describe(p, &s) && execute(f->base, library, p, &s, a, b, actual) &&
        execute(reference, false, p, &s, a, b, expected)) {
        compare(p, &s, actual, expected);
        KILN_CHECK_INT(f->backend->stats.blas_calls - before, blas_calls);
    }
    free(a);
    free(b);
    free(actual);
    free(expected);
}

static void check(cl_fixture *f, kiln_backend *reference, const product *p, uint64_t blas_calls)
{
    check_by(f, reference, p, /*library=*/true, blas_calls);
}

static bool open_both(cl_fixture *f, kiln_backend **out_reference)
{
    if (!cl_fixture_open(f, NULL)) {
        return false;
    }
    *out_reference = open_reference(f);
    return true;
}

static void close_both(cl_fixture *f, kiln_backend *reference)
{
    reference->device->close(reference);
    cl_fixture_close(f);
}

// Every f32 product runs on BLAS: odd sizes, all transposes.
static void test_sizes_and_transposes(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 10, 64},  {7, 1, 5},      {3, 5, 7},
                                       {17, 33, 65}, {64, 64, 64}, {100, 13, 128}, {127, 129, 131}};
    cl_fixture f;
    kiln_backend *reference;
    if (!open_both(&f, &reference)) {
        return;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int64_t m = sizes[i][0];
        int64_t n = sizes[i][1];
        int64_t k = sizes[i][2];
        for (int t = 0; t < 4; t++) {
            bool ta = (t & 1) != 0;
            bool tb = (t & 2) != 0;
            product p = {.dtype = KILN_DTYPE_F32,
                         .a = {.rank = 2, .dims = {ta ? k : m, ta ? m : k}, .transposed = ta},
                         .b = {.rank = 2, .dims = {tb ? n : k, tb ? k : n}, .transposed = tb}};
            check(&f, reference, &p, 1);
        }
    }
    close_both(&f, reference);
}

static void test_ranks_and_batches(void)
{
    static const product products[] = {
        // rank 1 on one side and on both
        {.a = {.rank = 1, .dims = {31}}, .b = {.rank = 1, .dims = {31}}},
        {.a = {.rank = 1, .dims = {31}}, .b = {.rank = 2, .dims = {31, 9}}},
        {.a = {.rank = 2, .dims = {9, 31}}, .b = {.rank = 1, .dims = {31}}},
        {.a = {.rank = 3, .dims = {4, 9, 31}}, .b = {.rank = 1, .dims = {31}}},
        {.a = {.rank = 1, .dims = {31}}, .b = {.rank = 3, .dims = {4, 31, 9}}},
        // a batch, a shared right side (one tall product), a shared left side
        {.a = {.rank = 3, .dims = {5, 7, 11}}, .b = {.rank = 3, .dims = {5, 11, 13}}},
        {.a = {.rank = 3, .dims = {5, 7, 11}}, .b = {.rank = 2, .dims = {11, 13}}},
        {.a = {.rank = 3, .dims = {5, 7, 11}}, .b = {.rank = 3, .dims = {1, 11, 13}}},
        {.a = {.rank = 2, .dims = {7, 11}}, .b = {.rank = 3, .dims = {5, 11, 13}}},
        {.a = {.rank = 3, .dims = {5, 11, 7}, .transposed = true},
         .b = {.rank = 3, .dims = {5, 13, 11}, .transposed = true}},
        {.a = {.rank = 3, .dims = {5, 11, 7}, .transposed = true},
         .b = {.rank = 2, .dims = {13, 11}, .transposed = true}},
        // broadcast along both sides, several axes
        {.a = {.rank = 4, .dims = {3, 1, 7, 11}}, .b = {.rank = 4, .dims = {1, 4, 11, 5}}},
        {.a = {.rank = 4, .dims = {3, 4, 7, 11}}, .b = {.rank = 3, .dims = {4, 11, 5}}},
        {.a = {.rank = 5, .dims = {2, 1, 3, 5, 6}}, .b = {.rank = 5, .dims = {1, 2, 3, 6, 5}}},
        {.a = {.rank = 5, .dims = {2, 3, 1, 5, 6}}, .b = {.rank = 4, .dims = {3, 2, 6, 5}}},
        // large enough for the kernels that pad and transpose first
        {.a = {.rank = 3, .dims = {3, 70, 90}}, .b = {.rank = 3, .dims = {3, 90, 81}}},
        {.a = {.rank = 3, .dims = {3, 90, 70}, .transposed = true},
         .b = {.rank = 3, .dims = {3, 81, 90}, .transposed = true}},
        {.a = {.rank = 2, .dims = {70, 90}}, .b = {.rank = 3, .dims = {3, 90, 81}}},
        // an output in the middle of its buffer, operands with offsets
        {.a = {.rank = 3, .dims = {5, 7, 11}, .offset = 3},
         .b = {.rank = 3, .dims = {5, 11, 13}, .offset = 17},
         .out_offset = 33},
    };
    cl_fixture f;
    kiln_backend *reference;
    if (!open_both(&f, &reference)) {
        return;
    }
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        product p = products[i];
        p.dtype = KILN_DTYPE_F32;
        check(&f, reference, &p, 1);
    }
    close_both(&f, reference);
}

// Layouts that leading dimensions can say are used where they lie; the others are copied first.
static void test_strides(void)
{
    static const struct {
        product p;
        uint64_t own_kernels; ///< copies made
    } layouts[] = {
        // rows of a wider matrix; columns of it as a transposed view
        {{.a = {.rank = 2, .dims = {7, 11}, .strided = true, .strides = {40, 1}, .offset = 5},
          .b = {.rank = 2, .dims = {11, 5}, .strided = true, .strides = {1, 30}}},
         0},
        // a permuted batch: [batch, head, row, col] of a tensor [batch, row, head, col]
        {{.a = {.rank = 4, .dims = {2, 3, 7, 8}, .strided = true, .strides = {168, 8, 24, 1}},
          .b = {.rank = 4, .dims = {2, 3, 8, 7}, .strided = true, .strides = {168, 8, 1, 24}}},
         0},
        // every second column, a reversed row, an expanded matrix
        {{.a = {.rank = 2, .dims = {7, 11}, .strided = true, .strides = {22, 2}},
          .b = {.rank = 2, .dims = {11, 5}}},
         1},
        {{.a = {.rank = 2, .dims = {7, 11}},
          .b = {.rank = 2, .dims = {11, 5}, .strided = true, .strides = {-5, 1}, .offset = 50}},
         1},
        {{.a = {.rank = 2, .dims = {7, 11}, .strided = true, .strides = {0, 1}},
          .b = {.rank = 2, .dims = {11, 5}, .strided = true, .strides = {1, 0}}},
         2},
        // reversed and repeated batches need no copy
        {{.a = {.rank = 3,
                .dims = {4, 7, 11},
                .strided = true,
                .strides = {-77, 11, 1},
                .offset = 231},
          .b = {.rank = 3, .dims = {4, 11, 5}, .strided = true, .strides = {0, 5, 1}}},
         0},
    };
    cl_fixture f;
    kiln_backend *reference;
    if (!open_both(&f, &reference)) {
        return;
    }
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        product p = layouts[i].p;
        kiln_cl_counters before;
        kiln_cl_counters after;
        kiln_cl_counters_get(f.base, &before);
        p.dtype = KILN_DTYPE_F32;
        check(&f, reference, &p, 1);
        kiln_cl_counters_get(f.base, &after);
        // Three buffers are the test's own; each copy needs one more.
        uint64_t allocations =
            after.pool_creates + after.pool_hits - before.pool_creates - before.pool_hits;
        KILN_CHECK(allocations >= 3 + layouts[i].own_kernels);
        KILN_CHECK(layouts[i].own_kernels > 0 || allocations == 3);
    }
    close_both(&f, reference);
}

// Whole tiles, which the library reads where they lie: right whatever stands before and between the
// matrices of a batch. Products that it would misread run on Kiln's own kernel.
static void test_batches_of_whole_tiles(void)
{
    static const struct {
        product p;
        uint64_t calls; ///< of the library
    } batches[] = {
        // dense from the start; one right side for all; a slice of a batch, alone
        {{.a = {.rank = 3, .dims = {2, 64, 64}, .transposed = true},
          .b = {.rank = 3, .dims = {2, 64, 64}}},
         1},
        {{.a = {.rank = 3, .dims = {2, 64, 64}}, .b = {.rank = 2, .dims = {64, 64}}}, 1},
        {{.a = {.rank = 2, .dims = {64, 64}, .transposed = true, .offset = 4096},
          .b = {.rank = 2, .dims = {64, 64}, .offset = 4096}},
         1},
        // the gradient of attention's values: heads of a permuted tensor, in a loop over the batch
        {{.a = {.rank = 4, .dims = {2, 2, 64, 64}, .transposed = true},
          .b = {.rank = 4, .dims = {2, 2, 64, 64}, .strided = true, .strides = {8192, 64, 128, 1}}},
         0},
        {{.a = {.rank = 4, .dims = {2, 2, 64, 64}, .strided = true, .strides = {8192, 64, 128, 1}},
          .b = {.rank = 4, .dims = {2, 2, 64, 64}}},
         0},
        // a result behind the start of its buffer, which GEMMK = 1 forgets
        {{.a = {.rank = 3, .dims = {2, 64, 64}, .transposed = true},
          .b = {.rank = 3, .dims = {2, 64, 64}},
          .out_offset = 4096},
         0},
        // every second matrix; the second one and on; one left side for all
        {{.a = {.rank = 3,
                .dims = {2, 64, 64},
                .strided = true,
                .strides = {8192, 64, 1},
                .transposed = true},
          .b = {.rank = 3, .dims = {2, 64, 64}}},
         0},
        {{.a = {.rank = 3, .dims = {2, 64, 64}},
          .b = {.rank = 3, .dims = {2, 64, 64}, .offset = 4096}},
         0},
        {{.a = {.rank = 2, .dims = {64, 64}, .transposed = true},
          .b = {.rank = 3, .dims = {2, 64, 64}}},
         0},
    };
    cl_fixture f;
    kiln_backend *reference;
    if (!open_both(&f, &reference)) {
        return;
    }
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        product p = batches[i].p;
        p.dtype = KILN_DTYPE_F32;
        check(&f, reference, &p, batches[i].calls);
    }
    close_both(&f, reference);
}

static void test_f64(void)
{
    cl_fixture f;
    kiln_backend *reference;
    if (!open_both(&f, &reference)) {
        return;
    }
    if ((f.base->device->info(f.base)->features & KILN_FEATURE_FP64) == 0) {
        kiln_test_skip("device has no f64");
    } else {
        product p = {.dtype = KILN_DTYPE_F64,
                     .a = {.rank = 3, .dims = {3, 17, 19}},
                     .b = {.rank = 3, .dims = {3, 19, 23}}};
        check(&f, reference, &p, 1);
        p.a = (operand){.rank = 2, .dims = {67, 129}};
        p.b = (operand){.rank = 2, .dims = {129, 71}};
        check(&f, reference, &p, 1);
        p.a = (operand){.rank = 2, .dims = {19, 17}, .transposed = true};
        p.b = (operand){.rank = 2, .dims = {19, 23}};
        check(&f, reference, &p, 1);
    }
    close_both(&f, reference);
}

// What BLAS cannot take runs on Kiln's own kernels, with the same result.
static void test_left_to_own_kernels(void)
{
    static const product products[] = {
        {.dtype = KILN_DTYPE_F32,
         .a = {.rank = 2, .dims = {4, 0}},
         .b = {.rank = 2, .dims = {0, 5}}},
        {.dtype = KILN_DTYPE_F32,
         .a = {.rank = 2, .dims = {0, 4}},
         .b = {.rank = 2, .dims = {4, 5}}},
        {.dtype = KILN_DTYPE_F32,
         .a = {.rank = 3, .dims = {0, 3, 4}},
         .b = {.rank = 2, .dims = {4, 5}}},
        {.dtype = KILN_DTYPE_I32,
         .a = {.rank = 2, .dims = {9, 17}},
         .b = {.rank = 2, .dims = {17, 5}}},
    };
    cl_fixture f;
    kiln_backend *reference;
    if (!open_both(&f, &reference)) {
        return;
    }
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        check(&f, reference, &products[i], 0);
    }
    f.backend->info.features &= ~(uint32_t)KILN_FEATURE_COMPILER;
    kilni_cl_gemm gemm = {.dtype = KILN_DTYPE_F32, .m = 1, .n = 1, .k = 1, .batch = 1};
    KILN_CHECK(!kilni_cl_blas_takes(f.backend, &gemm));
    close_both(&f, reference);
}

// On processors the operator leaves small products of a batch to Kiln's own kernel; not single
// ones, larger ones, or those that share a right operand.
static void test_small_batches_are_own(void)
{
    static const struct {
        product p;
        uint64_t calls; ///< of the library, on a processor
    } batches[] = {
        {{.a = {.rank = 3, .dims = {5, 7, 11}}, .b = {.rank = 3, .dims = {5, 11, 13}}}, 0},
        {{.a = {.rank = 2, .dims = {7, 11}}, .b = {.rank = 3, .dims = {5, 11, 13}}}, 0},
        {{.a = {.rank = 1, .dims = {11}}, .b = {.rank = 4, .dims = {2, 130, 11, 13}}}, 0},
        {{.a = {.rank = 3, .dims = {5, 7, 11}}, .b = {.rank = 3, .dims = {1, 11, 13}}}, 1},
        {{.a = {.rank = 3, .dims = {1, 7, 11}}, .b = {.rank = 3, .dims = {1, 11, 13}}}, 1},
        {{.a = {.rank = 3, .dims = {2, 127, 150}}, .b = {.rank = 3, .dims = {2, 150, 111}}}, 1},
    };
    cl_fixture f;
    kiln_backend *reference;
    if (!open_both(&f, &reference)) {
        return;
    }
    bool processor = f.base->device->info(f.base)->type == KILN_DEVICE_CPU;
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        product p = batches[i].p;
        p.dtype = KILN_DTYPE_F32;
        check_by(&f, reference, &p, /*library=*/false, processor ? batches[i].calls : 1);
    }
    close_both(&f, reference);
}

// CLBlast's own codes become statuses: here, a leading dimension below the row's length.
static void test_codes(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    kiln_buffer *buffer = cl_fixture_buffer(&f, 4096, NULL);
    kilni_cl_operand x = {.buffer = buffer, .leading = 2};
    kilni_cl_gemm gemm = {
        .dtype = KILN_DTYPE_F32, .m = 4, .n = 4, .k = 4, .batch = 1, .a = x, .b = x, .c = x};
    KILN_CHECK_INT(kilni_cl_blas_gemm(f.backend, &gemm, &err), KILN_STATUS_INTERNAL);
    KILN_CHECK_CONTAINS(err.message, "CLBlast gives -1016 for a product of 4 x 4 x 4");
    gemm.a.leading = gemm.b.leading = gemm.c.leading = 4;
    gemm.a.offset = 1020;
    KILN_CHECK_INT(kilni_cl_blas_gemm(f.backend, &gemm, &err), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(f.backend->stats.blas_calls, 0);
    f.base->memory->free(f.base, buffer);
    cl_fixture_close(&f);
}

// CLBlast keeps programs, and with them the context, until its cache is cleared: the last backend
// does so when it closes, and nothing else of ours holds the context.
static void test_close_gives_the_context_back(void)
{
    cl_fixture f;
    kiln_backend *reference;
    product p = {.dtype = KILN_DTYPE_F32,
                 .a = {.rank = 3, .dims = {2, 70, 19}, .strided = true, .strides = {1330, 38, 2}},
                 .b = {.rank = 2, .dims = {19, 23}}};
    if (!open_both(&f, &reference)) {
        return;
    }
    bool pocl = f.backend->pocl;
    cl_context context = f.backend->context;
    KILN_CHECK_INT(clRetainContext(context), CL_SUCCESS);
    check(&f, reference, &p, 1);
    close_both(&f, reference);
    if (pocl) { // other drivers count as they like
        KILN_CHECK_INT(cl_fixture_references(context), 0);
    }
    clReleaseContext(context);
}

static void test_override(void)
{
    static const char *const names[] = {"WGD",  "MDIMCD", "NDIMCD", "MDIMAD", "NDIMBD",
                                        "KWID", "VWMD",   "VWND",   "PADA",   "PADB"};
    static const size_t values[] = {8, 8, 8, 8, 8, 1, 1, 1, 1, 1};
    cl_fixture f;
    kiln_backend *reference;
    kiln_error err = KILN_ERROR_INIT;
    if (!open_both(&f, &reference)) {
        return;
    }
    KILN_CHECK_INT(
        kiln_cl_blas_override(f.base, "NoSuchKernel", KILN_DTYPE_F32, names, values, 10, &err),
        KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(
        kiln_cl_blas_override(f.base, "XgemmDirect", KILN_DTYPE_F32, names, values, 3, &err),
        KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(
        kiln_cl_blas_override(f.base, "XgemmDirect", KILN_DTYPE_I32, names, values, 10, &err),
        KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(
        kiln_cl_blas_override(f.base, "XgemmDirect", KILN_DTYPE_F32, names, values, 10, &err),
        KILN_STATUS_OK);
    product p = {.dtype = KILN_DTYPE_F32,
                 .a = {.rank = 2, .dims = {17, 19}},
                 .b = {.rank = 2, .dims = {19, 23}}};
    check(&f, reference, &p, 1);
    close_both(&f, reference);
}

KILN_TEST_MAIN("unit/cl_backend/blas", KILN_TEST(test_sizes_and_transposes),
               KILN_TEST(test_ranks_and_batches), KILN_TEST(test_strides),
               KILN_TEST(test_batches_of_whole_tiles), KILN_TEST(test_f64),
               KILN_TEST(test_left_to_own_kernels), KILN_TEST(test_small_batches_are_own),
               KILN_TEST(test_codes), KILN_TEST(test_close_gives_the_context_back),
               KILN_TEST(test_override))
