// SPDX-License-Identifier: MIT OR Apache-2.0
// Products of 8-bit integers through the C ABI: dtypes, ragged sizes, zero points of every kind and
// at their ends, batches, turned operands, constants, sums that wrap, what may follow. Results are
// equal to plain sums, with VNNI and without.
#include "harness.h"
#include "ir.h"
#include "mini_host.h"

typedef struct variant {
    uint32_t vnni;
    uint32_t vector_bytes;
} variant;

typedef enum zero_kind { NO_ZERO, NUMBER, LIST_OF_ONE, EACH } zero_kind;

typedef struct product_case {
    int64_t m, k, n;
    int64_t batch; ///< of the left operand; 0: none
    bool batches; ///< of the right operand, too
    bool turned; ///< the right operand
    bool constant; ///< the right operand
    uint32_t left, right; ///< dtypes
    zero_kind left_zero, right_zero;
    int64_t zeros[2];
} product_case;

// ---- material ----

static uint32_t noise = 12345;

static int64_t value_at(const mini_host *mini, uint32_t id, int64_t i)
{
    const mini_tensor *t = &mini->tensors[id];
    return t->view.dtype == KF_DTYPE_U8   ? ((const uint8_t *)t->data)[i]
           : t->view.dtype == KF_DTYPE_I8 ? ((const int8_t *)t->data)[i]
                                          : ((const int32_t *)t->data)[i];
}

static void put(mini_host *mini, uint32_t id, int64_t i, int64_t value)
{
    mini_tensor *t = &mini->tensors[id];
    if (t->view.dtype == KF_DTYPE_I32) {
        ((int32_t *)t->data)[i] = (int32_t)value;
    } else {
        ((uint8_t *)t->data)[i] = (uint8_t)value;
    }
}

static uint32_t bytes_of(mini_host *mini, uint32_t dtype, uint32_t rank, const int64_t *extents)
{
    uint32_t id = mini_tensor_add(mini, dtype, rank, extents);
    for (int64_t i = 0; i < mini_count(mini, id); i++) {
        noise = noise * 1664525u + 1013904223u;
        put(mini, id, i, i % 7 != 0 ? (int64_t)(noise >> 24) : dtype == KF_DTYPE_U8 ? 255 : -128);
    }
    return id;
}

static uint32_t like(mini_host *mini, uint32_t dtype, uint32_t x)
{
    return mini_tensor_add(mini, dtype, mini->tensors[x].view.rank, mini->tensors[x].extents);
}

static uint32_t cast(mini_host *mini, uint32_t x, uint32_t dtype)
{
    uint32_t out = like(mini, dtype, x);
    mini_op *op = mini_unary(mini, KF_OP_CAST, x, out);
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = KF_ATTR_DTYPE, .type = KF_TYPE_DTYPE, .count = 1, .v = {.i = dtype}};
    return out;
}

/// An operand's zero points around `value`; EACH: one for each of `count`.
static uint32_t zeros_of(mini_host *mini, uint32_t x, zero_kind kind, int64_t value, int64_t count)
{
    const int64_t extent = kind == EACH ? count : 1;
    uint32_t dtype = mini->tensors[x].view.dtype, rank = kind == LIST_OF_ONE || kind == EACH;
    uint32_t id = mini_tensor_add(mini, dtype, rank, &extent);
    for (int64_t i = 0; i < mini_count(mini, id); i++) {
        int64_t off = kind == EACH ? i % 3 : 0;
        put(mini, id, i, kind == NO_ZERO ? 0 : value < 0 ? value + off : value - off);
    }
    return id;
}

typedef struct made_case {
    uint32_t a, b, left_zero, right_zero, result;
} made_case;

static made_case make(mini_host *mini, const product_case *c)
{
    const int64_t left[] = {c->batch, c->m, c->k}, right[] = {c->batch, c->k, c->n};
    const int64_t turned[] = {c->batch, c->n, c->k}, result[] = {c->batch, c->m, c->n};
    uint32_t batched = c->batch > 0, both = batched && c->batches;
    made_case made;
    mini_clear(mini);
    made.a = bytes_of(mini, c->left, 2 + batched, left + !batched);
    made.b = bytes_of(mini, c->right, 2 + both, (c->turned ? turned : right) + !both);
    mini->tensors[made.b].view.flags |= c->constant ? KF_TENSOR_CONST : 0;
    made.left_zero = made.right_zero = KF_NONE;
    if (c->left_zero != NO_ZERO || c->right_zero != NO_ZERO) {
        made.left_zero = zeros_of(mini, made.a, c->left_zero, c->zeros[0], c->m);
    }
    if (c->right_zero != NO_ZERO) {
        made.right_zero = zeros_of(mini, made.b, c->right_zero, c->zeros[1], c->n);
    }
    made.result = mini_tensor_add(mini, KF_DTYPE_I32, 2 + batched, result + !batched);
    mini_op *op = mini_binary(mini, KF_OP_MATMUL_INTEGER, made.a, made.b, made.result);
    if (made.left_zero != KF_NONE) {
        op->inputs[op->view.n_inputs++] = &mini->tensors[made.left_zero].view;
    }
    if (made.right_zero != KF_NONE) {
        op->inputs[op->view.n_inputs++] = &mini->tensors[made.right_zero].view;
    }
    if (c->turned) {
        op->attrs[op->view.n_attrs++] =
            (kf_attr){.key = KF_ATTR_TRANSPOSE_B, .type = KF_TYPE_BOOL, .count = 1, .v = {.i = 1}};
    }
    return made;
}

static int64_t zero_at(const mini_host *mini, uint32_t zero, int64_t i)
{
    return zero == KF_NONE ? 0 : value_at(mini, zero, mini_count(mini, zero) == 1 ? 0 : i);
}

static int32_t expected_at(const mini_host *mini, const product_case *c, const made_case *made,
                           int64_t batch, int64_t row, int64_t col)
{
    uint32_t sum = 0;
    int64_t za = zero_at(mini, made->left_zero, row);
    int64_t zb = zero_at(mini, made->right_zero, col);
    int64_t own = c->batches ? batch * c->k * c->n : 0;
    for (int64_t t = 0; t < c->k; t++) {
        int64_t a = value_at(mini, made->a, (batch * c->m + row) * c->k + t);
        int64_t b = value_at(mini, made->b, own + (c->turned ? col * c->k + t : t * c->n + col));
        sum += (uint32_t)((a - za) * (b - zb));
    }
    return (int32_t)sum;
}

static void check_case(mini_host *mini, const product_case *c, size_t number)
{
    made_case made = make(mini, c);
    kf_opt *opt = mini_finish(mini);
    kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
    kf_program program = {.struct_size = (uint32_t)sizeof(program)};
    if (opt == NULL) {
        KILN_FAIL("case %zu was not taken: %s", number, mini->last_text);
        return;
    }
    KILN_CHECK_INT(mini->plugin->opt_info(opt, &info), KF_OK);
    KILN_CHECK_INT(info.len, mini->n_ops);
    KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK);
    KILN_CHECK_INT(program.n_launches - program.n_steps, c->constant ? 1 : 0);
    bool ran = KILN_CHECK(mini_run(mini, opt)), equal = true;
    int64_t rows = c->m * (c->batch > 0 ? c->batch : 1);
    for (int64_t i = 0; i < rows * c->n && ran && equal; i++) {
        int32_t want = expected_at(mini, c, &made, i / c->n / c->m, i / c->n % c->m, i % c->n);
        equal = value_at(mini, made.result, i) == want;
        if (!equal) {
            KILN_FAIL("case %zu, element %lld: %lld, expected %d", number, (long long)i,
                      (long long)value_at(mini, made.result, i), want);
        }
    }
    mini->plugin->opt_destroy(opt);
}

static mini_host *begin(void)
{
    const variant *v = kiln_test_param();
    if (!mini_has_opencl()) {
        return NULL;
    }
    if (v->vnni && !kiln_processor_has_vnni()) {
        kiln_test_skip("the processor has no VNNI");
        return NULL;
    }
    mini_host *mini = mini_open("matmul.so", KF_SHAPE_BLOCK);
    if (mini == NULL) {
        return NULL;
    }
    mini->device.features |= v->vnni ? KF_FEATURE_VNNI : 0;
    mini->device.vector_bytes = v->vector_bytes;
    if (!mini_fuser(mini)) {
        mini_close(mini);
        return NULL;
    }
    return mini;
}

static void end(mini_host *mini)
{
    mini_close(mini);
}

static void check_all(const product_case *cases, size_t count)
{
    mini_host *mini = begin();
    for (size_t i = 0; mini != NULL && i < count; i++) {
        check_case(mini, &cases[i], i);
    }
    if (mini != NULL) {
        end(mini);
    }
}
#define CHECK_ALL(cases) check_all(cases, sizeof(cases) / sizeof((cases)[0]))

enum { U = KF_DTYPE_U8, I = KF_DTYPE_I8 };

// ---- cases ----

static void test_sizes(void)
{
    static const product_case cases[] = {
        {.m = 1, .k = 1, .n = 1, .left = U, .right = I},
        {.m = 1, .k = 4, .n = 16, .left = U, .right = I},
        {.m = 2, .k = 3, .n = 17, .left = U, .right = I, .constant = true},
        {.m = 3, .k = 67, .n = 31, .left = I, .right = I, .constant = true},
        {.m = 5, .k = 130, .n = 33, .left = I, .right = U},
        {.m = 12, .k = 64, .n = 32, .left = U, .right = U},
        {.m = 13, .k = 65, .n = 65, .left = U, .right = U, .constant = true},
        {.m = 29, .k = 18, .n = 1, .left = U, .right = I},
        {.m = 200, .k = 7, .n = 300, .left = I, .right = I},
        {.m = 9, .k = 66, .n = 40, .left = U, .right = I, .turned = true},
        {.m = 40, .k = 13, .n = 20, .left = I, .right = I, .turned = true, .constant = true},
    };
    CHECK_ALL(cases);
}

/// Of each dtype and kind, at the ends of what a zero point may be.
static void test_zero_points(void)
{
    mini_host *mini = begin();
    size_t number = 0;
    for (uint32_t which = 0; mini != NULL && which < 4; which++) {
        for (zero_kind kind = NUMBER; kind <= EACH; kind++) {
            bool high = kind % 2 != 0, sign_a = which % 2 != 0, sign_b = which / 2 != 0;
            product_case c = {.m = 14, .k = 35, .n = 37, .left = sign_a ? I : U};
            c.right = sign_b ? I : U;
            c.zeros[0] = sign_a ? (high ? 127 : -128) : (high ? 255 : 0);
            c.zeros[1] = sign_b ? (high ? -128 : 127) : (high ? 0 : 255);
            c.left_zero = kind;
            c.right_zero = kind == LIST_OF_ONE ? NO_ZERO : kind;
            check_case(mini, &c, number++);
        }
    }
    if (mini != NULL) {
        end(mini);
    }
}

static void test_batches(void)
{
    static const product_case cases[] = {
        {.batch = 3, .m = 5, .k = 21, .n = 18, .left = U, .right = I},
        {.batch = 3, .m = 5, .k = 21, .n = 18, .left = U, .right = I, .batches = true},
        {.batch = 4,
         .m = 1,
         .k = 9,
         .n = 33,
         .left = I,
         .right = I,
         .constant = true,
         .left_zero = LIST_OF_ONE,
         .right_zero = EACH,
         .zeros = {-3, 9}},
        {.batch = 2,
         .m = 7,
         .k = 30,
         .n = 19,
         .left = U,
         .right = U,
         .left_zero = EACH,
         .right_zero = NUMBER,
         .zeros = {200, 130}},
        {.batch = 2,
         .m = 13,
         .k = 6,
         .n = 34,
         .left = I,
         .right = U,
         .batches = true,
         .turned = true,
         .left_zero = NUMBER,
         .zeros = {7, 0}},
    };
    CHECK_ALL(cases);
}

/// Sums beyond 32 bits wrap.
static void test_wraps(void)
{
    static const product_case cases[] = {
        {.m = 2,
         .k = 140000,
         .n = 3,
         .left = U,
         .right = I,
         .right_zero = NUMBER,
         .zeros = {0, 127}},
        {.m = 1,
         .k = 140001,
         .n = 2,
         .left = I,
         .right = I,
         .left_zero = NUMBER,
         .right_zero = EACH,
         .zeros = {127, 127}},
    };
    CHECK_ALL(cases);
}

/// A float of the sums times a scale, and a bias, requantised: as quantised networks go on.
static void test_epilogue(void)
{
    static const product_case c = {.m = 21,
                                   .k = 44,
                                   .n = 35,
                                   .left = U,
                                   .right = I,
                                   .constant = true,
                                   .left_zero = NUMBER,
                                   .zeros = {120, 0}};
    mini_host *mini = begin();
    if (mini == NULL) {
        return;
    }
    made_case made = make(mini, &c);
    uint32_t wide = cast(mini, made.result, KF_DTYPE_F32);
    uint32_t scaled = like(mini, KF_DTYPE_F32, wide), sum = like(mini, KF_DTYPE_F32, wide);
    const int64_t columns[] = {35};
    uint32_t bias = mini_tensor_add(mini, KF_DTYPE_F32, 1, columns);
    for (int i = 0; i < 35; i++) {
        ((float *)mini->tensors[bias].data)[i] = (float)i;
    }
    mini_drop(mini, made.result);
    mini_with_scalar(mini, KF_OP_MUL_SCALAR, wide, 0.0078125, scaled);
    mini_drop(mini, wide);
    mini_binary(mini, KF_OP_ADD, scaled, bias, sum);
    mini_drop(mini, scaled);
    uint32_t out = cast(mini, sum, KF_DTYPE_I8);
    mini_drop(mini, sum);
    kf_opt *opt = mini_finish(mini);
    if (KILN_CHECK(opt != NULL) && KILN_CHECK(mini_run(mini, opt))) {
        for (int64_t i = 0; i < 21 * 35; i++) {
            float want = (float)expected_at(mini, &c, &made, 0, i / 35, i % 35) * 0.0078125f;
            want += (float)(i % 35);
            int64_t whole = want > 127 ? 127 : want < -128 ? -128 : (int64_t)want;
            KILN_CHECK_INT(value_at(mini, out, i), whole);
        }
    }
    mini->plugin->opt_destroy(opt);
    end(mini);
}

/// What is no such product closes the block.
static void test_declines(void)
{
    mini_host *mini = begin();
    const int64_t square[] = {8, 8};
    if (mini == NULL) {
        return;
    }
    // 32-bit operands
    uint32_t a = mini_tensor_add(mini, KF_DTYPE_I32, 2, square);
    mini_binary(mini, KF_OP_MATMUL, a, a, mini_tensor_add(mini, KF_DTYPE_I32, 2, square));
    KILN_CHECK(mini_finish(mini) == NULL && mini->last_code == KF_CODE_DTYPE);
    // zero points of another dtype
    mini_clear(mini);
    a = bytes_of(mini, U, 2, square);
    uint32_t b = bytes_of(mini, I, 2, square);
    mini_op *op = mini_binary(mini, KF_OP_MATMUL_INTEGER, a, b,
                              mini_tensor_add(mini, KF_DTYPE_I32, 2, square));
    op->inputs[op->view.n_inputs++] = &mini->tensors[zeros_of(mini, b, NUMBER, 3, 1)].view;
    KILN_CHECK(mini_finish(mini) == NULL && mini->last_code == KF_CODE_DTYPE);
    // the left operand's rows lie apart
    mini_clear(mini);
    a = bytes_of(mini, U, 2, square);
    mini->tensors[a].view.facts &= ~KF_FACT_CONTIGUOUS;
    mini_binary(mini, KF_OP_MATMUL_INTEGER, a, bytes_of(mini, I, 2, square),
                mini_tensor_add(mini, KF_DTYPE_I32, 2, square));
    KILN_CHECK(mini_finish(mini) == NULL && mini->last_code == KF_CODE_SHAPE);
    end(mini);
}

static const variant vnni = {1, 64};
static const variant wide = {0, 64};
static const variant narrow = {0, 32};
#define EACH_VARIANT(test, name)                                                                   \
    KILN_TEST_PARAM(test, name "_vnni", &vnni), KILN_TEST_PARAM(test, name "_wide", &wide),        \
        KILN_TEST_PARAM(test, name "_narrow", &narrow)

KILN_TEST_MAIN("unit/plugins/matmul_bytes", EACH_VARIANT(test_sizes, "sizes"),
               EACH_VARIANT(test_zero_points, "zero_points"), EACH_VARIANT(test_batches, "batches"),
               EACH_VARIANT(test_wraps, "wraps"), EACH_VARIANT(test_epilogue, "epilogue"),
               EACH_VARIANT(test_declines, "declines"))
