// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocks of matrix products that fusers of every form are tried with: dtypes, ragged sizes, one row
// or column, batches, transposed and strided operands, what may come before and behind the product,
// constants that are packed once, several products in one launch, NaN and infinities.
#include "product_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "product_program.h"

bool product_takes(size_t i, size_t share)
{
    const product_variant *v = kiln_test_param();
    share *= v->shape == KF_SHAPE_NDRANGE ? 3 : 1; // whole work-groups in one function
    return v->tensor || kiln_test_takes(i + v->fuser + v->vector_bytes / 16, share);
}

void product_test_sizes(void)
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
        if (!product_takes(i, 3)) {
            continue;
        }
        mini_clear(mini);
        product_of(mini, product_matrix(mini, KF_DTYPE_F32, s[0], s[1]),
                   product_matrix(mini, KF_DTYPE_F32, s[1], s[2]), false, false);
        KILN_CHECK(product_check(mini));
    }
    product_end(mini);
}

void product_test_dtypes(void)
{
    static const uint32_t dtypes[] = {KF_DTYPE_F16, KF_DTYPE_BF16, KF_DTYPE_F64};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (size_t i = 0; i < 6; i++) {
        int64_t m = i < 3 ? 21 : 1;
        if (!product_takes(i, 2)) {
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
void product_test_turned(void)
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
        if (!product_takes((size_t)i, 4) ||
            (i >= 20 && mini->device.code_shape != KF_SHAPE_BLOCK)) {
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

/// Vectors, and batches that broadcast from either side; the last ones count as rows.
void product_test_batches(void)
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
        if (!product_takes(i, 3)) {
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
void product_test_strides(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        const int64_t back[] = {-40, 2}, repeated[] = {0, 3};
        int64_t m = i % 2 == 0 ? 15 : 1;
        if (!product_takes((size_t)i, 2)) {
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
void product_test_epilogue(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 6; i++) {
        int64_t m = i % 3 == 0 ? 1 : 23;
        const int64_t batched[] = {2, m, 31}, bias[] = {29}, rows[] = {m, 1}, whole[] = {2, m, 29};
        if (!product_takes((size_t)i, 2)) {
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
void product_test_prologue(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 6; i++) {
        int64_t m = i < 3 ? 17 : 1;
        if (!product_takes((size_t)i, 2)) {
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

/// A constant is packed by a launch that is in no step, but not when a scalar goes into it.
void product_test_constants(void)
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
void product_test_several(void)
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

/// Without a device: further products join as far as they are shaped as the first, by constants.
void product_test_several_plan(void)
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

/// NaN and infinities reach exactly the rows and columns that they belong to.
void product_test_special_values(void)
{
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (int i = 0; i < 6; i++) {
        int64_t m = i % 3 == 0 ? 1 : 15;
        if (!product_takes((size_t)i, 2)) {
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

void product_test_repeats(void)
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

void product_test_declines(void)
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

static void check_claim(mini_host *mini, const char *what)
{
    kf_builder *builder = NULL;
    int64_t ns = 0;
    KILN_CHECK_INT(mini->plugin->builder_create(mini->fuser, &builder), KF_OK);
    kf_state state = mini_fuse(mini, builder, 0, mini->n_ops);
    if (state.ready && !(mini_eval(mini, state.est_ns, &ns) && ns > 0)) {
        KILN_FAIL("%s: taken without a claim", what);
    }
    mini->plugin->builder_destroy(builder);
}

/* A formula has 256 instructions at most: one that needs more is no claim. */
void product_test_claims(void)
{
    static const int64_t deep[2][8] = {{2, 3, 4, 5, 7, 11, 6, 9}, {2, 3, 4, 5, 7, 11, 9, 8}};
    mini_host *mini = product_begin();
    if (mini == NULL) {
        return;
    }
    for (uint32_t rank = 3; rank <= 7; rank++) {
        mini_clear(mini);
        uint32_t a = product_tensor(mini, KF_DTYPE_F32, rank, deep[0] + 8 - rank);
        uint32_t b = product_tensor(mini, KF_DTYPE_F32, rank, deep[1] + 8 - rank);
        product_of(mini, a, b, false, false);
        check_claim(mini, "a batch");
    }
    for (uint32_t rank = 4; rank <= 5; rank++) {
        mini_clear(mini);
        uint32_t a = product_tensor(mini, KF_DTYPE_F32, rank, deep[0] + 8 - rank);
        uint32_t b = product_tensor(mini, KF_DTYPE_F32, rank, deep[1] + 8 - rank);
        uint32_t y = product_of(mini, a, b, false, false);
        for (uint32_t i = 0; i < (rank == 4 ? 5u : 2u); i++) {
            y = product_then(mini, KF_OP_ADD, y, product_like(mini, KF_DTYPE_F32, y));
        }
        check_claim(mini, "a batch and what is added");
    }
    product_end(mini);
}
