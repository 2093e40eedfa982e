// SPDX-License-Identifier: MIT OR Apache-2.0
// The matrix product's fusers through the C ABI, in both code shapes: dtypes, ragged sizes, one row
// or column, batches, transposed and strided operands, what may come before and behind the product,
// constants that are packed once, NaN and infinities, against the reference evaluator. The same
// cases for the fusers of NVIDIA's tensor cores, on a device that has them.
#include <math.h>
#include <string.h>

#include "harness.h"
#include "ir.h"
#include "product_program.h"

// ---- cases ----

static bool is_taken(size_t i, size_t share)
{
    const product_variant *v = kiln_test_param();
    share *= v->shape == KF_SHAPE_NDRANGE ? 3 : 1; // whole work-groups in one function
    return v->tensor || kiln_test_takes(i + v->fuser + v->vector_bytes / 16, share);
}

static void test_sizes(void)
{
    // {130, 36, 132}: a whole tile of 128 whose lines are aligned, and its rest
    static const int64_t sizes[][3] = {{7, 19, 5},    {13, 130, 33},  {1, 40, 37},   {37, 40, 1},
                                       {1, 600, 1},   {64, 16, 64},   {129, 17, 70}, {2, 1, 3},
                                       {1, 1, 1},     {130, 36, 132}, {1, 33, 300},  {1, 700, 40},
                                       {25, 1100, 9}, {1, 130, 900},  {1, 300, 4200}};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const int64_t *s = sizes[i];
        if (!is_taken(i, 3)) {
            continue;
        }
        mini_clear(mini);
        product_of(mini, product_matrix(mini, KF_DTYPE_F32, s[0], s[1]),
                   product_matrix(mini, KF_DTYPE_F32, s[1], s[2]), false, false);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

static void test_dtypes(void)
{
    static const uint32_t dtypes[] = {KF_DTYPE_F16, KF_DTYPE_BF16, KF_DTYPE_F64};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < 6; i++) {
        int64_t m = i < 3 ? 21 : 1;
        if (!is_taken(i, 2)) {
            continue;
        }
        mini_clear(mini);
        product_of(mini, product_matrix(mini, dtypes[i % 3], m, 45),
                   product_matrix(mini, dtypes[i % 3], 45, 35), false, false);
        KILN_CHECK(product_check(mini));
    }
    mini_clear(mini);
    product_of(mini, product_matrix(mini, KF_DTYPE_I32, 4, 4),
               product_matrix(mini, KF_DTYPE_I32, 4, 4), false, false);
    KILN_CHECK(!product_check(mini) && mini->last_code == KF_CODE_DTYPE);
    product_end(mini);
}

/// All four ways to turn, with several and with one row; with whole tiles, a part of one in whole
/// squares and sums of several pieces, in other types, too.
static void test_turned(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 24; i++) {
        uint32_t dtype = i < 16 ? KF_DTYPE_F32 : i < 20 ? KF_DTYPE_F16 : KF_DTYPE_F64;
        int64_t m = i < 4 ? 19 : i < 8 ? 1 : i < 12 ? 50 : 44, n = i / 4 == 2 ? 1 : 37;
        int64_t k = i < 12 ? 43 : 270;
        bool a = (i & 1) != 0, b = (i & 2) != 0;
        if (!is_taken((size_t)i, 4) || (i >= 20 && mini->device.code_shape != KF_SHAPE_BLOCK)) {
            continue;
        }
        mini_clear(mini);
        uint32_t x = a ? product_matrix(mini, dtype, k, m) : product_matrix(mini, dtype, m, k);
        uint32_t y = b ? product_matrix(mini, dtype, n, k) : product_matrix(mini, dtype, k, n);
        product_of(mini, x, y, a, b);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// A tile whose lines are all there and aligned, and whose steps are whole, and its rest.
static void test_whole_steps(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int turned = 0; turned < 2; turned++) {
        int64_t m = 132, n = 136, k = 64;
        mini_clear(mini);
        uint32_t x = turned ? product_matrix(mini, KF_DTYPE_F32, k, m)
                            : product_matrix(mini, KF_DTYPE_F32, m, k);
        uint32_t y = turned ? product_matrix(mini, KF_DTYPE_F32, n, k)
                            : product_matrix(mini, KF_DTYPE_F32, k, n);
        product_of(mini, x, y, turned, turned);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// A right operand that is read where it lies: with lines that are whole lines of the cache, a page
/// apart, or neither, for a sum of one piece, of several or of none; in a wider matrix whose other
/// columns are NaN; and with rows of the left one that share sets of the cache.
static void test_in_place(void)
{
    static const struct {
        uint32_t dtype;
        int64_t m, k, n, line, offset;
    } cases[] = {{KF_DTYPE_F32, 25, 300, 96, 96, 0},   {KF_DTYPE_F32, 13, 40, 1040, 1040, 0},
                 {KF_DTYPE_F32, 28, 520, 100, 100, 0}, {KF_DTYPE_F32, 30, 260, 64, 80, 3},
                 {KF_DTYPE_F32, 30, 260, 72, 80, 8},   {KF_DTYPE_F32, 27, 1024, 32, 48, 16},
                 {KF_DTYPE_F64, 19, 150, 40, 48, 8},   {KF_DTYPE_F32, 14, 0, 64, 64, 0}};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t strides[] = {cases[i].line, 1};
        int64_t elements = cases[i].k * cases[i].line + cases[i].offset;
        mini_clear(mini);
        uint32_t x = product_matrix(mini, cases[i].dtype, cases[i].m, cases[i].k),
                 y = product_matrix(mini, cases[i].dtype, cases[i].k, cases[i].n);
        if (cases[i].line > cases[i].n) {
            mini_tensor_place(mini, y, strides, cases[i].offset, (size_t)elements);
            product_fill(mini, y);
            for (int64_t e = 0; e < elements; e++) {
                int64_t at = e - cases[i].offset;
                if (at < 0 || at % cases[i].line >= cases[i].n) {
                    product_store(&mini->tensors[y], (size_t)e, (double)NAN);
                }
            }
        }
        product_of(mini, x, y, false, false);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// The direct form asks for the next batch where both operands have one, which lies behind.
static void test_next_batch(void)
{
    static const int64_t lefts[][3] = {{3, 30, 40}, {1, 30, 40}, {3, 30, 40}};
    static const int64_t rights[][3] = {{3, 40, 64}, {3, 40, 64}, {1, 40, 64}};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        kf_program program = {.struct_size = (uint32_t)sizeof(program)};
        mini_clear(mini);
        uint32_t x = product_tensor(mini, KF_DTYPE_F32, 3, lefts[i]),
                 y = product_tensor(mini, KF_DTYPE_F32, 3, rights[i]);
        product_of(mini, x, y, false, false);
        kf_opt *opt = mini_finish(mini);
        if (KILN_CHECK(opt != NULL) &&
            KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK)) {
            const char *asks = strstr(program.sources[0]->code.ptr, "AHEAD_2(soon)");
            KILN_CHECK_INT(asks != NULL, i == 0);
        }
        mini->plugin->opt_destroy(opt);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// Vectors, and batches that broadcast from either side; the last ones count as rows.
static void test_batches(void)
{
    static const struct {
        uint32_t ra, rb;
        int64_t a[4], b[4];
    } cases[] = {
        {1, 2, {30}, {30, 21}},
        {2, 1, {21, 30}, {30}},
        {1, 1, {30}, {30}},
        {1, 3, {30}, {2, 30, 5}},
        {1, 3, {300}, {2, 300, 5}},
        {3, 3, {3, 9, 20}, {3, 20, 17}},
        {3, 4, {3, 9, 20}, {2, 1, 20, 17}},
        {4, 3, {2, 1, 9, 20}, {3, 20, 17}},
        {4, 4, {2, 3, 1, 20}, {2, 3, 20, 17}},
        {3, 2, {5, 7, 20}, {20, 17}},
        {4, 2, {2, 5, 1, 20}, {20, 17}},
        {3, 1, {5, 7, 20}, {20}},
    };
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!is_taken(i, 3)) {
            continue;
        }
        mini_clear(mini);
        product_of(mini, product_tensor(mini, KF_DTYPE_F32, cases[i].ra, cases[i].a),
                   product_tensor(mini, KF_DTYPE_F32, cases[i].rb, cases[i].b), false, false);
        if (!KILN_CHECK(product_check(mini))) {
            KILN_FAIL("case %zu was not taken", i);
        }
    }
    product_end(mini);
}

/// Strides that no flag says: backwards, gaps, repeated rows, both operands one tensor.
static void test_strides(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        const int64_t back[] = {-40, 2}, repeated[] = {0, 3};
        int64_t m = i % 2 == 0 ? 15 : 1;
        if (!is_taken((size_t)i, 2)) {
            continue;
        }
        mini_clear(mini);
        uint32_t a = mini_tensor_add(mini, KF_DTYPE_F32, 2, (const int64_t[]){m, 18});
        uint32_t b = mini_tensor_add(mini, KF_DTYPE_F32, 2, (const int64_t[]){18, 11});
        mini_tensor_place(mini, a, back, 40 * (m - 1) + 3, (size_t)(40 * m + 3));
        if (i >= 2) {
            mini_tensor_place(mini, b, repeated, 5, 60);
        }
        product_fill(mini, a);
        product_fill(mini, b);
        product_of(mini, a, b, false, false);
        KILN_CHECK(product_check(mini));
    }
    mini_clear(mini);
    uint32_t x = product_matrix(mini, KF_DTYPE_F32, 14, 22);
    uint32_t y = product_of(mini, x, x, false, true);
    product_then(mini, KF_OP_SUB, y, product_matrix(mini, KF_DTYPE_F32, 1, 14));
    KILN_CHECK(product_check(mini));
    product_end(mini);
}

/// Bias, activation, a residual of the same and of other layouts, a cast, several results.
static void test_epilogue(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 6; i++) {
        int64_t m = i % 3 == 0 ? 1 : 23;
        const int64_t batched[] = {2, m, 31}, bias[] = {29}, rows[] = {m, 1}, whole[] = {2, m, 29};
        if (!is_taken((size_t)i, 2)) {
            continue;
        }
        mini_clear(mini);
        uint32_t a = product_tensor(mini, KF_DTYPE_F32, 3, batched);
        uint32_t y = product_of(mini, a, product_matrix(mini, KF_DTYPE_F32, 31, 29), false, false);
        y = product_then(mini, KF_OP_ADD, y, product_tensor(mini, KF_DTYPE_F32, 1, bias));
        y = product_then(mini, KF_OP_RELU, y, KF_NONE);
        if (i >= 3) {
            y = product_then(mini, KF_OP_MUL, y, product_tensor(mini, KF_DTYPE_F32, 2, rows));
        }
        uint32_t residual = product_tensor(mini, KF_DTYPE_F32, 3, whole);
        if (i % 3 == 2) {
            const int64_t turned[] = {1, 58, 2};
            mini_tensor_place(mini, residual, turned, 7, (size_t)(58 * m + 70));
            product_fill(mini, residual);
        }
        uint32_t sum = product_like(mini, KF_DTYPE_F32, y);
        mini_binary(mini, KF_OP_ADD, y, residual, sum); // y lives on: a second result
        product_cast(mini, sum, KF_DTYPE_F16); // and a third, of another dtype
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// Storage in 16 bits with the product in f32, a scale on either side.
static void test_prologue(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 6; i++) {
        int64_t m = i < 3 ? 17 : 1;
        if (!is_taken((size_t)i, 2)) {
            continue;
        }
        mini_clear(mini);
        uint32_t a = product_matrix(mini, KF_DTYPE_F16, m, 41),
                 b = product_matrix(mini, KF_DTYPE_BF16, 28, 41);
        uint32_t x = product_cast(mini, a, KF_DTYPE_F32), y = product_cast(mini, b, KF_DTYPE_F32);
        uint32_t scaled = product_like(mini, KF_DTYPE_F32, x);
        mini_with_scalar(mini, KF_OP_MUL_SCALAR, x, 0.125, scaled);
        mini_drop(mini, x);
        uint32_t z = product_of(mini, scaled, y, false, true);
        mini_drop(mini, scaled);
        mini_drop(mini, y);
        if (i % 3 == 1) {
            uint32_t out = product_like(mini, KF_DTYPE_F32, z);
            mini_with_scalar(mini, KF_OP_ADD_SCALAR, z, 3, out);
        }
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// x * (1 + tanh(x + x * x)) / 2, all of which ends before the product.
static uint32_t gated(mini_host *mini, uint32_t x)
{
    uint32_t square = product_like(mini, KF_DTYPE_F32, x);
    mini_binary(mini, KF_OP_MUL, x, x, square);
    uint32_t inner = product_then(mini, KF_OP_ADD, square, x);
    uint32_t flat = product_then(mini, KF_OP_TANH, inner, KF_NONE);
    uint32_t gate = product_like(mini, KF_DTYPE_F32, x);
    mini_with_scalar(mini, KF_OP_ADD_SCALAR, flat, 1, gate);
    mini_drop(mini, flat);
    uint32_t half = product_like(mini, KF_DTYPE_F32, x);
    mini_with_scalar(mini, KF_OP_MUL_SCALAR, x, 0.5, half);
    uint32_t result = product_then(mini, KF_OP_MUL, half, gate);
    mini_drop(mini, gate);
    return result;
}

/// Operators that read one tensor several times, and what was made of it, join where the left
/// operand lies across and is packed; of two tensors, or for another operand, they do not.
static void test_gated_operands(void)
{
    const product_variant *v = kiln_test_param();
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 6; i++) {
        int64_t m = i == 1 ? 1 : 29, n = i == 2 ? 1 : 35;
        bool across = i < 5, packs = v->fuser == 0 && v->shape == KF_SHAPE_BLOCK;
        mini_clear(mini);
        uint32_t a = across ? product_matrix(mini, KF_DTYPE_F32, 50, m)
                            : product_matrix(mini, KF_DTYPE_F32, m, 50);
        uint32_t b = product_matrix(mini, KF_DTYPE_F32, 50, n);
        uint32_t x = i == 3 ? product_like(mini, KF_DTYPE_F32, a) : gated(mini, a);
        if (i == 3) {
            mini_binary(mini, KF_OP_MUL, a, product_matrix(mini, KF_DTYPE_F32, 50, m), x);
        }
        uint32_t y = i == 4 ? gated(mini, b) : b;
        product_of(mini, x, y, across, false);
        mini_drop(mini, x);
        if (i == 4) {
            mini_drop(mini, y);
        }
        KILN_CHECK(product_check(mini) == (packs && i < 3));
    }
    product_end(mini);
}

/// A constant is packed by a launch that is in no step, but not when a scalar goes into it.
static void test_constants(void)
{
    const product_variant *v = kiln_test_param();
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        kf_program program = {.struct_size = (uint32_t)sizeof(program)};
        mini_clear(mini);
        uint32_t a = product_matrix(mini, KF_DTYPE_F32, 20, 24),
                 b = product_matrix(mini, KF_DTYPE_F32, 24, 18);
        uint32_t y = b;
        mini->tensors[b].view.flags |= KF_TENSOR_CONST;
        mini->tensors[a].view.flags |= i == 2 ? KF_TENSOR_CONST : 0;
        if (i == 3) {
            y = product_like(mini, KF_DTYPE_F32, b);
            mini_with_scalar(mini, KF_OP_MUL_SCALAR, b, 2, y);
        } else if (i == 1) {
            y = product_like(mini, KF_DTYPE_F32, b);
            mini_unary(mini, KF_OP_NEG, b, y);
        }
        product_of(mini, a, y, false, false);
        if (y != b) {
            mini_drop(mini, y);
        }
        kf_opt *opt = mini_finish(mini);
        bool taken = !product_is_plain(v) || i != 2;
        if (KILN_CHECK_INT(opt != NULL, taken) && taken &&
            KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK)) {
            bool packs = v->tensor || (v->shape == KF_SHAPE_BLOCK && v->fuser != 2);
            uint64_t kept = !packs || i == 3 ? 0 : i == 2 ? 2 : 1;
            kept += v->tensor && v->fuser % 3 == 1; // clears the counts
            KILN_CHECK_INT(program.n_launches - program.n_steps, kept);
        }
        mini->plugin->opt_destroy(opt);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// Products of one left operand by three constants, with operators of their own behind the first
/// two; gives the last one.
static uint32_t several(mini_host *mini, uint32_t dtype, int64_t m, int64_t k, int64_t n)
{
    uint32_t a = product_matrix(mini, dtype, m, k), y = a;
    for (int i = 0; i < 3; i++) {
        uint32_t b = product_matrix(mini, dtype, k, n);
        mini->tensors[b].view.flags |= KF_TENSOR_CONST;
        y = product_of(mini, a, b, false, false);
        if (i < 2) {
            uint32_t sum = product_then(mini, KF_OP_ADD, y, product_tensor(mini, dtype, 1, &n));
            if (i == 1) {
                product_then(mini, KF_OP_RELU, sum, KF_NONE);
            }
        }
    }
    return y;
}

/// The same, and where a work-item has the sums of all, an operator that reads two of them.
static void several_joined(mini_host *mini, uint32_t dtype, int64_t m, int64_t k, int64_t n)
{
    const product_variant *v = kiln_test_param();
    uint32_t last = several(mini, dtype, m, k, n);
    if (!v->tensor) {
        uint32_t first = mini->ops[1].outputs[0]->id;
        product_then(mini, KF_OP_MUL, last, first);
        mini_drop(mini, first);
    }
}

/// Several products in one launch: sizes that are whole tiles or not, and a sum in parts.
static void test_several(void)
{
    static const int64_t sizes[][3] = {{64, 64, 64}, {70, 600, 90}, {129, 41, 30}, {128, 512, 384}};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        mini_clear(mini);
        several_joined(mini, i == 3 ? KF_DTYPE_F16 : KF_DTYPE_F32, sizes[i][0], sizes[i][1],
                       sizes[i][2]);
        KILN_CHECK(product_check(mini));
    }
    mini_clear(mini); // infinities stay in their row, of their product
    several_joined(mini, KF_DTYPE_F32, 70, 40, 90);
    product_store(&mini->tensors[0], 41, INFINITY);
    KILN_CHECK(product_check(mini));
    product_end(mini);
}

/// A reshape of the last two axes to one.
static uint32_t merged(mini_host *mini, uint32_t x)
{
    int64_t lengths[KF_MAX_RANK];
    const mini_tensor *t = &mini->tensors[x];
    uint32_t rank = t->view.rank - 1;
    memcpy(lengths, t->extents, rank * sizeof(lengths[0]));
    lengths[rank - 1] *= t->extents[rank];
    uint32_t out = mini_tensor_add(mini, t->view.dtype, rank, lengths);
    mini_op *op = mini_unary(mini, KF_OP_RESHAPE, x, out);
    op->attrs[op->view.n_attrs++] = (kf_attr){.key = KF_ATTR_SHAPE,
                                              .type = KF_TYPE_I64S,
                                              .count = rank,
                                              .v = {.iv = mini->tensors[out].extents}};
    return out;
}

/// Heads of attention, which lie one behind the other, as the rows of a product.
static void test_merged(void)
{
    static const int64_t heads[][4] = {
        {2, 70, 3, 32}, {1, 64, 2, 64}, {2, 33, 5, 7}, {3, 20, 4, 1}};
    const product_variant *v = kiln_test_param();
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < 8; i++) {
        const int64_t *h = heads[i / 2];
        const int64_t turned[] = {h[1] * h[2] * h[3], h[3], h[1] * h[3], 1};
        mini_clear(mini);
        uint32_t dtype = i % 2 == 0 ? KF_DTYPE_F32 : KF_DTYPE_BF16;
        uint32_t a = product_tensor(mini, dtype, 4, h),
                 b = product_matrix(mini, dtype, h[2] * h[3], 45);
        mini_tensor_place(mini, a, turned, 0, (size_t)(h[0] * turned[0]));
        product_fill(mini, a);
        mini->tensors[b].view.flags |= KF_TENSOR_CONST;
        uint32_t x = merged(mini, a);
        product_of(mini, x, b, false, false);
        mini_drop(mini, x);
        kf_opt *opt = mini_finish(mini);
        KILN_CHECK_INT(opt != NULL, product_is_plain(v));
        mini->plugin->opt_destroy(opt);
        KILN_CHECK(opt == NULL || product_check(mini));
    }
    product_end(mini);
}

/// Without a device: further products join as far as they are shaped as the first, by constants.
static void test_several_plan(void)
{
    const product_variant *v = kiln_test_param();
    mini_host *mini = mini_open(v->tensor ? "nvidia_tensor.so" : "matmul.so", v->shape);
    if (mini == NULL) {
        return;
    }
    mini->device.features |= v->tensor ? KF_FEATURE_WGMMA : 0;
    for (int i = 0; i < 5 && (i > 0 || mini_fuser_at(mini, v->fuser)); i++) {
        kf_program program = {.struct_size = (uint32_t)sizeof(program)};
        mini_clear(mini);
        uint32_t last = several(mini, KF_DTYPE_BF16, 70, 48, 90);
        uint32_t a = i == 1 ? product_matrix(mini, KF_DTYPE_BF16, 70, 48) : 0;
        uint32_t b = product_matrix(mini, KF_DTYPE_BF16, 48, i == 2 ? 80 : 90);
        mini->tensors[b].view.flags |= i == 3 ? 0 : KF_TENSOR_CONST;
        uint32_t y = product_of(mini, a, b, false, false);
        uint32_t taken = mini->n_ops - (i > 0 && i < 4);
        if (i == 4) { // reads two of the products
            product_then(mini, KF_OP_ADD, y, last);
            taken = v->tensor ? taken : mini->n_ops;
        }
        kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
        kf_opt *opt = mini_finish(mini);
        if (KILN_CHECK(opt != NULL) && KILN_CHECK_INT(mini->plugin->opt_info(opt, &info), KF_OK) &&
            KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK)) {
            uint32_t products = i == 0 || i == 4 ? 4 : 3, in_parts = v->fuser % 3 == 1;
            bool plain = product_is_plain(v);
            KILN_CHECK_INT(info.len, taken);
            KILN_CHECK_INT(program.n_steps, plain ? 1 : 2);
            KILN_CHECK_INT(program.n_launches, program.n_steps + products + in_parts);
            KILN_CHECK_INT(program.n_temps, !plain + products + 2 * in_parts);
        }
        mini->plugin->opt_destroy(opt);
    }
    mini_close(mini);
}

/// Without a device: what the fusers that read the left operand as it lies take, and that nothing
/// but the product is a step where the right one is constant; large tiles of f32 share registers
/// out unevenly. The left operand is dense, turned,
/// constant, negated before, a batch; of 16 bits; made of heads.
static void test_plain_plan(void)
{
    static const char left_alone[] = "the left operand is not read as it lies";
    const product_variant *v = kiln_test_param();
    mini_host *mini = mini_open("nvidia_tensor.so", v->shape);
    if (mini == NULL) {
        return;
    }
    mini->device.features |= KF_FEATURE_WGMMA | v->features;
    for (int i = 0; i < 7 && (i > 0 || mini_fuser_at(mini, v->fuser)); i++) {
        uint32_t dtype = i == 5 ? KF_DTYPE_BF16 : KF_DTYPE_F32;
        bool turned = i == 1, taken = (i == 0 || i > 3) && product_is_plain(v);
        taken = taken && (i == 5 || v->features == 0);
        mini_clear(mini);
        mini->last_text[0] = '\0';
        uint32_t a = i == 4 ? mini_tensor_add(mini, dtype, 3, (const int64_t[]){2, 70, 48})
                            : product_matrix(mini, dtype, turned ? 48 : 70, turned ? 70 : 48);
        if (i == 6) {
            a = product_tensor(mini, dtype, 4, (const int64_t[]){2, 70, 4, 12});
            mini_tensor_place(mini, a, (const int64_t[]){3360, 12, 840, 1}, 0, 6720);
        }
        uint32_t b = product_matrix(mini, dtype, 48, 90), x = i == 6 ? merged(mini, a) : a;
        mini->tensors[b].view.flags |= KF_TENSOR_CONST;
        mini->tensors[a].view.flags |= i == 2 ? KF_TENSOR_CONST : 0;
        if (i == 3) {
            x = product_like(mini, dtype, a);
            mini_unary(mini, KF_OP_NEG, a, x);
        }
        product_of(mini, x, b, turned, false);
        if (x != a) {
            mini_drop(mini, x);
        }
        kf_program program = {.struct_size = (uint32_t)sizeof(program)};
        kf_opt *opt = mini_finish(mini);
        KILN_CHECK_INT(opt != NULL, taken);
        if (!taken && strcmp(mini->last_text, left_alone) != 0) {
            KILN_FAIL("%d: %s", i, mini->last_text);
        }
        if (opt != NULL && KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK)) {
            bool in_parts = v->fuser == 4; // its counts are cleared once
            bool uneven = v->fuser == 3 && dtype == KF_DTYPE_F32;
            const char *text = program.sources[0]->code.ptr;
            KILN_CHECK((strstr(text, "setmaxnreg") != NULL) == uneven);
            KILN_CHECK_INT(program.n_steps, 1);
            KILN_CHECK_INT(program.n_launches, 2 + in_parts);
            KILN_CHECK_INT(program.n_temps, in_parts ? 3 : 1);
        }
        mini->plugin->opt_destroy(opt);
    }
    mini_close(mini);
}

/// Panels of constants of 16 bits hold these bits, infinities and NaN too, either way that they
/// lie.
static void test_narrow_constants(void)
{
    static const uint32_t dtypes[] = {KF_DTYPE_F16, KF_DTYPE_BF16};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        uint32_t dtype = dtypes[i % 2];
        bool turned = i >= 2;
        mini_clear(mini);
        uint32_t a = product_matrix(mini, dtype, 21, 45);
        uint32_t b =
            turned ? product_matrix(mini, dtype, 70, 45) : product_matrix(mini, dtype, 45, 70);
        mini->tensors[b].view.flags |= KF_TENSOR_CONST;
        product_store(&mini->tensors[b], 3, (double)INFINITY);
        product_store(&mini->tensors[b], 700, (double)NAN);
        product_of(mini, a, b, false, turned);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// A matrix that one row meets is read as it lies, in parts of the sum, too.
static void test_constant_for_a_row(void)
{
    const product_variant *v = kiln_test_param();
    kf_program program = {.struct_size = (uint32_t)sizeof(program)};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    uint32_t a = product_matrix(mini, KF_DTYPE_F32, 1, 600),
             b = product_matrix(mini, KF_DTYPE_F32, 600, 50);
    mini->tensors[b].view.flags |= KF_TENSOR_CONST;
    uint32_t y = product_of(mini, a, b, false, false), z = product_like(mini, KF_DTYPE_F32, y);
    mini_with_scalar(mini, KF_OP_MUL_SCALAR, y, 2, z); // no kernel but the product's takes it
    mini_drop(mini, y);
    kf_opt *opt = mini_finish(mini);
    if (KILN_CHECK(opt != NULL) &&
        KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK)) {
        KILN_CHECK_INT(program.n_launches, v->fuser == 1 ? 2 : 1); // clears the counts
        KILN_CHECK_INT(program.n_steps, 1);
        KILN_CHECK_INT(program.n_temps, v->fuser == 1 ? 2 : 0); // the parts and counts
    }
    mini->plugin->opt_destroy(opt);
    KILN_CHECK(product_check(mini));
    product_end(mini);
}

/// NaN and infinities reach exactly the rows and columns that they belong to.
static void test_special_values(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 6; i++) {
        int64_t m = i % 3 == 0 ? 1 : 15;
        if (!is_taken((size_t)i, 2)) {
            continue;
        }
        mini_clear(mini);
        uint32_t a = product_matrix(mini, KF_DTYPE_F32, m, 37),
                 b = product_matrix(mini, KF_DTYPE_F32, 37, 21);
        product_store(&mini->tensors[a], (size_t)(37 * m - 1), i % 2 == 0 ? NAN : INFINITY);
        product_store(&mini->tensors[b], 36 * 21 + 20, i < 3 ? -INFINITY : NAN);
        product_store(&mini->tensors[b], 5, 0);
        product_then(mini, KF_OP_RELU, product_of(mini, a, b, false, false), KF_NONE);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

/// Results that do not fit into the cache, whose rows are whole lines of it or not.
static void test_large_results(void)
{
    static const int64_t sizes[][3] = {{16, 9, 32}, {20, 150, 96}, {21, 9, 100}, {5, 9, 32}};
    const product_variant *v = kiln_test_param();
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    mini->device.cache_bytes = 1024;
    mini->plugin->fuser_destroy(mini->fuser);
    for (size_t i = 0; (i > 0 || mini_fuser_at(mini, v->fuser)) && i < 4; i++) {
        const int64_t *s = sizes[i];
        mini_clear(mini);
        uint32_t y = product_of(mini, product_matrix(mini, KF_DTYPE_F32, s[0], s[1]),
                                product_matrix(mini, KF_DTYPE_F32, s[1], s[2]), false, false);
        mini_binary(mini, KF_OP_ADD, y, product_matrix(mini, KF_DTYPE_F32, 1, s[2]),
                    product_like(mini, KF_DTYPE_F32, y));
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

static void test_repeats(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    uint32_t c = product_of(mini, product_matrix(mini, KF_DTYPE_F32, 30, 3008),
                            product_matrix(mini, KF_DTYPE_F32, 3008, 40), false, false);
    size_t bytes = mini->tensors[c].bytes;
    void *first = malloc(bytes);
    kf_opt *opt = mini_finish(mini);
    for (int i = 0; KILN_CHECK(opt != NULL && first != NULL) && i < 4; i++) {
        KILN_CHECK(mini_run(mini, opt));
        if (i == 0) {
            memcpy(first, mini->tensors[c].data, bytes);
        }
        KILN_CHECK_MEM(mini->tensors[c].data, first, bytes);
    }
    free(first);
    mini->plugin->opt_destroy(opt);
    product_end(mini);
}

/// Few rows by a matrix in whole vectors and in parts of them, along its columns and along the sum.
static void test_few_rows(void)
{
    static const int64_t sizes[][3] = {{1, 2064, 264}, {3, 1040, 64}, {9, 2064, 264}, {2, 1030, 70},
                                       {1, 5000, 24},  {1, 70, 1030}, {8, 16, 2200}};
    static const uint32_t dtypes[] = {KF_DTYPE_F32, KF_DTYPE_F16, KF_DTYPE_BF16, KF_DTYPE_F64};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < 8 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const int64_t *s = sizes[i / 8];
        uint32_t dtype = dtypes[i % 4];
        bool turned = i % 8 >= 4;
        if (!is_taken(i, 5)) {
            continue;
        }
        mini_clear(mini);
        uint32_t a = product_matrix(mini, dtype, s[0], s[1]);
        uint32_t b = turned ? product_matrix(mini, dtype, s[2], s[1])
                            : product_matrix(mini, dtype, s[1], s[2]);
        product_of(mini, a, b, false, turned);
        if (!KILN_CHECK(product_check(mini))) {
            KILN_FAIL("case %zu was not taken", i);
        }
    }
    product_end(mini);
}

/// The same bits wherever the matrix begins.
static void test_few_places(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        int64_t m = i < 2 ? 1 : 4, k = 2064, n = 40;
        float first[4 * 40];
        for (int64_t offset = 0; offset < 2; offset++) {
            const int64_t strides[] = {i % 2 == 0 ? n : k, 1};
            mini_clear(mini);
            uint32_t a = product_matrix(mini, KF_DTYPE_F32, m, k);
            uint32_t b = product_matrix(mini, KF_DTYPE_F32, i % 2 == 0 ? k : n, i % 2 == 0 ? n : k);
            mini_tensor_place(mini, b, strides, offset, (size_t)(k * n + 1));
            mini->tensors[b].view.facts |= KF_FACT_CONTIGUOUS;
            for (int64_t e = 0; e < k * n; e++) {
                ((float *)mini->tensors[b].data)[e + offset] = (float)(e % 1013) / 1000.0f;
            }
            uint32_t c = product_of(mini, a, b, false, i % 2 != 0);
            kf_opt *opt = mini_finish(mini);
            if (KILN_CHECK(opt != NULL) && KILN_CHECK(mini_run(mini, opt))) {
                size_t bytes = mini->tensors[c].bytes;
                if (offset == 0) {
                    memcpy(first, mini->tensors[c].data, bytes);
                }
                KILN_CHECK_MEM(mini->tensors[c].data, first, bytes);
            }
            mini->plugin->opt_destroy(opt);
        }
    }
    product_end(mini);
}

typedef struct conv_case {
    int64_t n, c, h, w, filters, lengths[2];
    int64_t stride, pad, dilation;
    bool constant, biased, residual;
} conv_case;

static void add_list(mini_op *op, uint32_t key, const int64_t *list, uint32_t count)
{
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = key, .type = KF_TYPE_I64S, .count = count, .v = {.iv = list}};
}

static int64_t places(const conv_case *c, int64_t extent, int64_t length)
{
    return (extent + 2 * c->pad - c->dilation * (length - 1) - 1) / c->stride + 1;
}

/// A convolution, and behind it a residual and relu.
static void make_conv(mini_host *mini, const conv_case *c, uint32_t dtype)
{
    static int64_t strides[2], dilations[2], pads[4];
    const int64_t result[] = {c->n, c->filters, places(c, c->h, c->lengths[0]),
                              places(c, c->w, c->lengths[1])};
    uint32_t inputs[3] = {
        product_tensor(mini, dtype, 4, (const int64_t[]){c->n, c->c, c->h, c->w}),
        product_tensor(mini, dtype, 4,
                       (const int64_t[]){c->filters, c->c, c->lengths[0], c->lengths[1]})};
    strides[0] = strides[1] = c->stride;
    dilations[0] = dilations[1] = c->dilation;
    pads[0] = pads[1] = pads[2] = pads[3] = c->pad;
    mini->tensors[inputs[1]].view.flags |= c->constant ? KF_TENSOR_CONST : 0;
    if (c->biased) {
        inputs[2] = product_tensor(mini, dtype, 1, &c->filters);
    }
    uint32_t out = mini_tensor_add(mini, dtype, 4, result);
    mini_op *op = mini_op_add(mini, KF_OP_CONV, inputs, c->biased ? 3 : 2, out);
    add_list(op, KF_ATTR_STRIDES, strides, 2);
    add_list(op, KF_ATTR_PADDING, pads, 4);
    add_list(op, KF_ATTR_DILATIONS, dilations, 2);
    if (c->residual) {
        out = product_then(mini, KF_OP_ADD, out, product_tensor(mini, dtype, 4, result));
        product_then(mini, KF_OP_RELU, out, KF_NONE);
    }
}

static void test_convs(void)
{
    static const conv_case cases[] = {
        {2, 5, 14, 15, 70, {3, 3}, 1, 1, 1, true, true, true},
        {1, 3, 23, 29, 40, {7, 7}, 2, 3, 1, true, true, false},
        {3, 64, 7, 7, 100, {1, 1}, 1, 0, 1, true, false, true},
        {1, 17, 12, 9, 33, {3, 2}, 2, 1, 2, false, true, false},
        {2, 1, 1, 40, 130, {1, 5}, 1, 0, 1, false, false, false},
        {1, 40, 9, 9, 3, {3, 3}, 1, 2, 3, true, true, true},
    };
    static const uint32_t dtypes[] = {KF_DTYPE_F32, KF_DTYPE_F16, KF_DTYPE_BF16};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    product_most_asked = 2;
    for (size_t i = 0; i < 3 * sizeof(cases) / sizeof(cases[0]); i++) {
        mini_clear(mini);
        make_conv(mini, &cases[i / 3], dtypes[i % 3]);
        if (!KILN_CHECK(product_check(mini))) {
            KILN_FAIL("case %zu of dtype %u: %s", i / 3, dtypes[i % 3], mini->last_text);
        }
    }
    product_most_asked = 0;
    product_end(mini);
}

/// A product of small whole numbers, which every precision holds, and of thirds, which tf32 and
/// bf16 round: f32 is left where it is to be strict.
static void test_precision(void)
{
    const product_variant *v = kiln_test_param();
    const double rounded = v->features == KF_FEATURE_ROUND_BF16 ? 1e-2 : 1e-3;
    enum { M = 70, K = 100, N = 90 };
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int thirds = 0; thirds < 2; thirds++) {
        mini_clear(mini);
        uint32_t a = product_matrix(mini, KF_DTYPE_F32, M, K),
                 b = product_matrix(mini, KF_DTYPE_F32, K, N);
        for (int i = 0; i < M * K; i++) {
            ((float *)mini->tensors[a].data)[i] = thirds ? 1.0f / 3 : (float)(i % 7 - 3);
        }
        for (int i = 0; i < K * N; i++) {
            ((float *)mini->tensors[b].data)[i] = thirds ? 1.0f / 3 : (float)(i % 5);
        }
        uint32_t out = product_of(mini, a, b, false, false);
        kf_opt *opt = mini_finish(mini);
        if (v->features == KF_FEATURE_STRICT) {
            KILN_CHECK(opt == NULL && product_is_left(mini));
            continue;
        }
        if (KILN_CHECK(opt != NULL) && KILN_CHECK(mini_run(mini, opt))) {
            const float *got = mini->tensors[out].data;
            double error = fabs((double)got[0] / (K / 9.0) - 1);
            if (thirds) {
                KILN_CHECK(error > rounded / 100 && error < rounded);
            } else if (KILN_CHECK(product_check(mini))) {
                KILN_CHECK(got[0] == (float)(int)got[0]);
            }
            mini->plugin->opt_destroy(opt);
        }
    }
    product_end(mini);
}

static void test_declines(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    // what is made before the product lives on
    uint32_t a = product_matrix(mini, KF_DTYPE_F32, 8, 8), x = product_like(mini, KF_DTYPE_F32, a);
    mini_unary(mini, KF_OP_NEG, a, x);
    product_of(mini, x, a, false, false);
    KILN_CHECK(!product_check(mini));
    // and is read behind it
    mini_clear(mini);
    a = product_matrix(mini, KF_DTYPE_F32, 8, 8);
    x = product_like(mini, KF_DTYPE_F32, a);
    mini_unary(mini, KF_OP_NEG, a, x);
    uint32_t y = product_of(mini, x, a, false, false);
    mini_binary(mini, KF_OP_ADD, y, x, product_like(mini, KF_DTYPE_F32, y));
    KILN_CHECK(!product_check(mini) && mini->last_code == KF_CODE_SHAPE);
    // two products
    mini_clear(mini);
    a = product_matrix(mini, KF_DTYPE_F32, 8, 8);
    product_of(mini, product_of(mini, a, a, false, false), a, false, false);
    kf_builder *builder = NULL;
    KILN_CHECK_INT(mini->plugin->builder_create(mini->fuser, &builder), KF_OK);
    kf_state state = mini_fuse(mini, builder, 0, mini->n_ops);
    KILN_CHECK(state.status == KF_CLOSED && state.ready == 1 && state.len == 1);
    int64_t ns = 0;
    KILN_CHECK(mini_eval(mini, state.est_ns, &ns) && ns >= 5000);
    mini->plugin->builder_destroy(builder);
    // an operator of another version
    mini_clear(mini);
    a = product_matrix(mini, KF_DTYPE_F32, 8, 8);
    product_of(mini, a, a, false, false);
    mini->ops[0].view.version = 2;
    KILN_CHECK(!product_check(mini) && mini->last_code == KF_CODE_NOT_UNDERSTOOD);
    product_end(mini);
}

static const product_variant block = {0, KF_SHAPE_BLOCK, 16, false, 0, 0};
static const product_variant wide = {0, KF_SHAPE_BLOCK, 64, false, 0, 0};
static const product_variant parts = {1, KF_SHAPE_BLOCK, 32, false, 0, 0};
static const product_variant items = {0, KF_SHAPE_NDRANGE, 0, false, 0, 0};
static const product_variant item_parts = {1, KF_SHAPE_NDRANGE, 0, false, 0, 0};
static const product_variant small = {2, KF_SHAPE_NDRANGE, 0, false, 0, 0};
static const product_variant few = {3, KF_SHAPE_NDRANGE, 0, false, 0, 0};
static const product_variant few_parts = {4, KF_SHAPE_NDRANGE, 0, false, 0, 100};
static const product_variant direct = {2, KF_SHAPE_BLOCK, 64, false, 0, 0};
static const product_variant tensor_large = {0, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant tensor_parts = {1, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant tensor_small = {2, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant plain_large = {3, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant plain_parts = {4, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant plain_small = {5, KF_SHAPE_NDRANGE, 0, true, 0, 0};
static const product_variant as_tf32 = {0, KF_SHAPE_NDRANGE, 0, true, KF_FEATURE_ROUND_TF32, 0};
static const product_variant plain_tf32 = {5, KF_SHAPE_NDRANGE, 0, true, KF_FEATURE_ROUND_TF32, 0};
static const product_variant as_bf16 = {0, KF_SHAPE_NDRANGE, 0, true, KF_FEATURE_ROUND_BF16, 0};
static const product_variant strict = {0, KF_SHAPE_NDRANGE, 0, true, KF_FEATURE_STRICT, 0};

// Large tiles take long to compile and differ from small ones in numbers only.
#define SOME(test, name)                                                                           \
    KILN_TEST_PARAM(test, name "_block", &block), KILN_TEST_PARAM(test, name "_wide", &wide),      \
        KILN_TEST_PARAM(test, name "_parts", &parts),                                              \
        KILN_TEST_PARAM(test, name "_small", &small),                                              \
        KILN_TEST_PARAM(test, name "_direct", &direct)
#define FEW(test, name)                                                                            \
    KILN_TEST_PARAM(test, name "_few", &few), KILN_TEST_PARAM(test, name "_few_parts", &few_parts)
#define PLAIN(test, name)                                                                          \
    KILN_TEST_PARAM(test, name "_plain", &plain_large),                                            \
        KILN_TEST_PARAM(test, name "_plain_parts", &plain_parts),                                  \
        KILN_TEST_PARAM(test, name "_plain_small", &plain_small)
#define TENSOR(test, name)                                                                         \
    KILN_TEST_PARAM(test, name "_tensor", &tensor_large),                                          \
        KILN_TEST_PARAM(test, name "_tensor_parts", &tensor_parts),                                \
        KILN_TEST_PARAM(test, name "_tensor_small", &tensor_small), PLAIN(test, name)
#define ALL(test, name)                                                                            \
    SOME(test, name), KILN_TEST_PARAM(test, name "_items", &items),                                \
        KILN_TEST_PARAM(test, name "_item_parts", &item_parts)

KILN_TEST_MAIN(
    "unit/plugins/matmul", ALL(test_sizes, "sizes"), FEW(test_sizes, "sizes"),
    TENSOR(test_sizes, "sizes"), SOME(test_dtypes, "dtypes"), FEW(test_dtypes, "dtypes"),
    TENSOR(test_dtypes, "dtypes"), SOME(test_turned, "turned"), FEW(test_turned, "turned"),
    TENSOR(test_turned, "turned"), KILN_TEST_PARAM(test_whole_steps, "whole_steps_items", &items),
    KILN_TEST_PARAM(test_whole_steps, "whole_steps_item_parts", &item_parts),
    KILN_TEST_PARAM(test_whole_steps, "whole_steps_small", &small),
    KILN_TEST_PARAM(test_in_place, "in_place", &direct),
    KILN_TEST_PARAM(test_next_batch, "next_batch", &direct), SOME(test_batches, "batches"),
    FEW(test_batches, "batches"), TENSOR(test_batches, "batches"), SOME(test_strides, "strides"),
    FEW(test_strides, "strides"), TENSOR(test_strides, "strides"), ALL(test_epilogue, "epilogue"),
    FEW(test_epilogue, "epilogue"), TENSOR(test_epilogue, "epilogue"),
    SOME(test_prologue, "prologue"), FEW(test_prologue, "prologue"),
    TENSOR(test_prologue, "prologue"), SOME(test_gated_operands, "gated"),
    SOME(test_constants, "constants"), TENSOR(test_constants, "constants"),
    KILN_TEST_PARAM(test_narrow_constants, "narrow_constants_wide", &wide),
    SOME(test_constant_for_a_row, "constant_for_a_row"), SOME(test_special_values, "special"),
    FEW(test_special_values, "special"), TENSOR(test_special_values, "special"),
    SOME(test_large_results, "large_results"), ALL(test_repeats, "repeats"),
    FEW(test_repeats, "repeats"), TENSOR(test_repeats, "repeats"), FEW(test_few_rows, "rows"),
    FEW(test_few_places, "places"), TENSOR(test_convs, "convs"), TENSOR(test_several, "several"),
    KILN_TEST_PARAM(test_several, "several_block", &block),
    KILN_TEST_PARAM(test_several_plan, "plan_several_block", &block), TENSOR(test_merged, "merged"),
    TENSOR(test_several_plan, "plan_several"), PLAIN(test_plain_plan, "plan"),
    KILN_TEST_PARAM(test_plain_plan, "plan_tf32", &plain_tf32),
    KILN_TEST_PARAM(test_precision, "tensor_tf32", &as_tf32),
    KILN_TEST_PARAM(test_precision, "tensor_bf16", &as_bf16),
    KILN_TEST_PARAM(test_precision, "tensor_strict", &strict), ALL(test_declines, "declines"),
    FEW(test_declines, "declines"))
