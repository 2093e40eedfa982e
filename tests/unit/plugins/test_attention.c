// SPDX-License-Identifier: MIT OR Apache-2.0
// The attention fuser through the C ABI: sizes, masks and biases that broadcast in every way, scale
// before and behind the product, transposed and strided operands, shared heads, NaN and infinities,
// against sums in double precision; and what it declines. The cases `_bf16` and `_f16` are of
// tensor cores, on a device that has them.
#include <math.h>
#include <string.h>

#include "harness.h"
#include "ir.h"
#include "mini_host.h"

typedef struct heads {
    int64_t batch;
    int64_t heads;
    int64_t rows;
    int64_t keys;
    int64_t depth;
    int64_t width;
} heads;

#define LOW_FILL (-30000.0) // what a mask leaves of a score, in every dtype

typedef enum mask_kind { NO_MASK, ADDED, CHOSEN, MASKS } mask_kind;

/// An attention in the making: the tensors by their ids.
typedef struct scene {
    mini_host *mini;
    uint32_t dtype; ///< of all but masks that choose
    heads size;
    uint32_t query;
    uint32_t key; ///< [batch, heads, keys, depth] or turned
    uint32_t values;
    uint32_t mask;
    uint32_t result;
    bool key_turned;
    bool scale_first;
    double scale;
    double low; ///< a hidden score
    mask_kind mask_is;
} scene;

// ---- tensors ----

typedef struct variant {
    uint32_t shape;
    uint32_t vector_bytes;
    uint64_t local_bytes;
    uint32_t dtype;
    bool streams; ///< one row by bulk copies, which devices of 16 bits have anyway
} variant;

/// The dtype that the cases are of: f32 but on tensor cores.
static uint32_t dtype_of_case(void)
{
    const variant *v = kiln_test_param();
    return v->dtype;
}

static size_t place_of(const mini_host *mini, uint32_t id, const int64_t index[4])
{
    const mini_tensor *t = &mini->tensors[id];
    int64_t at = t->offset;
    for (uint32_t i = 0; i < t->view.rank; i++) {
        at += t->extents[i] == 1 ? 0 : index[4 - t->view.rank + i] * t->strides[i];
    }
    return (size_t)at;
}

static double get(const mini_tensor *t, size_t at)
{
    const uint16_t *bits = t->data;
    return t->view.dtype == KF_DTYPE_BF16  ? (double)kiln_bf16_to_f32(bits[at])
           : t->view.dtype == KF_DTYPE_F16 ? (double)kiln_f16_to_f32(bits[at])
                                           : (double)((const float *)t->data)[at];
}

static void put(mini_tensor *t, size_t at, double value)
{
    const kiln_attr number = {.type = KILN_ATTR_F64, .count = 1, .v.f = value};
    size_t bytes = kf_dtype_of(t->view.dtype).bytes;
    KILN_CHECK(kiln_number_store(&number, (kiln_dtype)t->view.dtype,
                                 (unsigned char *)t->data + at * bytes));
}

static double value_of(const mini_host *mini, uint32_t id, const int64_t index[4])
{
    return get(&mini->tensors[id], place_of(mini, id, index));
}

static bool bit_of(const mini_host *mini, uint32_t id, const int64_t index[4])
{
    return ((const unsigned char *)mini->tensors[id].data)[place_of(mini, id, index)] != 0;
}

static void fill(mini_host *mini, uint32_t id)
{
    mini_tensor *t = &mini->tensors[id];
    uint32_t noise = id * 747796405u + 2891336453u;
    for (size_t i = 0; i < t->bytes / kf_dtype_of(t->view.dtype).bytes; i++) {
        noise = noise * 1664525u + 1013904223u;
        if (t->view.dtype == KF_DTYPE_BOOL) {
            ((unsigned char *)t->data)[i] = (noise >> 8) % 3 != 0;
        } else {
            put(t, i, (double)(noise >> 8) / 4194304.0 - 2);
        }
    }
}

static uint32_t tensor(mini_host *mini, uint32_t dtype, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t extents[] = {a, b, c, d};
    uint32_t id = mini_tensor_add(mini, dtype, 4, extents);
    fill(mini, id);
    return id;
}

/// As [batch, rows, heads, depth] seen with two axes swapped, behind an offset.
static void interleave(mini_host *mini, uint32_t id)
{
    const int64_t *n = mini->tensors[id].extents;
    const int64_t strides[] = {n[1] * n[2] * n[3], n[3], n[1] * n[3], 1};
    mini_tensor_place(mini, id, strides, 5, (size_t)(n[0] * n[1] * n[2] * n[3] + 9));
    fill(mini, id);
}

// ---- operations ----

static void flag(mini_op *op, uint32_t key)
{
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = key, .type = KF_TYPE_BOOL, .count = 1, .v = {.i = 1}};
}

static uint32_t scaled(mini_host *mini, uint32_t x, double scale, bool drop)
{
    uint32_t out = mini_tensor_add(mini, dtype_of_case(), mini->tensors[x].view.rank,
                                   mini->tensors[x].extents);
    mini_with_scalar(mini, KF_OP_MUL_SCALAR, x, scale, out);
    if (drop) {
        mini_drop(mini, x);
    }
    return out;
}

static uint32_t masked(scene *s, uint32_t scores)
{
    mini_host *mini = s->mini;
    uint32_t out = mini_tensor_add(mini, dtype_of_case(), 4, mini->tensors[scores].extents);
    if (s->mask_is == ADDED) {
        mini_binary(mini, KF_OP_ADD, scores, s->mask, out);
    } else {
        uint32_t low = mini_tensor_add(mini, dtype_of_case(), 0, NULL);
        put(&mini->tensors[low], 0, LOW_FILL);
        const uint32_t inputs[] = {scores, low, s->mask};
        mini_op_add(mini, KF_OP_WHERE, inputs, 3, out);
    }
    mini_drop(mini, scores);
    return out;
}

static mini_op *softmax(mini_host *mini, uint32_t x, int64_t axis, uint32_t *out)
{
    *out = mini_tensor_add(mini, dtype_of_case(), 4, mini->tensors[x].extents);
    mini_op *op = mini_unary(mini, KF_OP_SOFTMAX, x, *out);
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = KF_ATTR_AXIS, .type = KF_TYPE_I64, .count = 1, .v = {.i = axis}};
    mini_drop(mini, x);
    return op;
}

static uint32_t scores_of(scene *s)
{
    mini_host *mini = s->mini;
    const heads *n = &s->size;
    uint32_t query = s->scale_first ? scaled(mini, s->query, s->scale, false) : s->query;
    const int64_t extents[] = {n->batch, n->heads, n->rows, n->keys};
    uint32_t scores = mini_tensor_add(mini, dtype_of_case(), 4, extents);
    mini_op *op = mini_binary(mini, KF_OP_MATMUL, query, s->key, scores);
    if (!s->key_turned) {
        flag(op, KF_ATTR_TRANSPOSE_B);
    }
    if (s->scale_first) {
        mini_drop(mini, query);
    }
    return s->scale_first ? scores : scaled(mini, scores, s->scale, true);
}

static void record(scene *s)
{
    mini_host *mini = s->mini;
    const heads *n = &s->size;
    uint32_t scores = scores_of(s), weights = 0;
    if (s->mask_is != NO_MASK) {
        scores = masked(s, scores);
    }
    softmax(mini, scores, -1, &weights);
    const int64_t extents[] = {n->batch, n->heads, n->rows, n->width};
    s->result = mini_tensor_add(mini, dtype_of_case(), 4, extents);
    mini_binary(mini, KF_OP_MATMUL, weights, s->values, s->result);
    mini_drop(mini, weights);
}

static void make_tensors(scene *s, mini_host *mini, const heads *size, uint32_t kind)
{
    const heads *n = size;
    *s = (scene){.mini = mini, .size = *size, .scale = 0.25, .low = LOW_FILL};
    s->key_turned = kind % 2 == 1;
    s->scale_first = kind % 3 == 1;
    s->mask_is = (mask_kind)(kind % MASKS);
    mini_clear(mini);
    s->query = tensor(mini, dtype_of_case(), n->batch, n->heads, n->rows, n->depth);
    s->key = tensor(mini, dtype_of_case(), n->batch, n->heads, s->key_turned ? n->depth : n->keys,
                    s->key_turned ? n->keys : n->depth);
    s->values = tensor(mini, dtype_of_case(), n->batch, n->heads, n->keys, n->width);
    s->mask = s->mask_is == ADDED ? tensor(mini, dtype_of_case(), kind % 4 < 2 ? n->batch : 1, 1,
                                           kind % 5 < 2 ? 1 : n->rows, n->keys)
                                  : tensor(mini, KF_DTYPE_BOOL, 1, kind % 4 < 2 ? n->heads : 1,
                                           kind % 5 < 2 ? n->rows : 1, n->keys);
}

// ---- the judge ----

/// Of results up to 2, whose weights are rounded, too.
static double tolerance(void)
{
    uint32_t dtype = dtype_of_case();
    return dtype == KF_DTYPE_BF16 ? 2e-2 : dtype == KF_DTYPE_F16 ? 2.5e-3 : 1e-5;
}

static double score_at(const scene *s, int64_t b, int64_t h, int64_t row, int64_t key)
{
    double sum = 0;
    for (int64_t d = 0; d < s->size.depth; d++) {
        const int64_t q[] = {b, h, row, d}, k[] = {b, h, key, d}, turned[] = {b, h, d, key};
        sum +=
            value_of(s->mini, s->query, q) * value_of(s->mini, s->key, s->key_turned ? turned : k);
    }
    const int64_t at[] = {b, h, row, key};
    sum *= s->scale;
    if (s->mask_is == ADDED) {
        sum += value_of(s->mini, s->mask, at);
    } else if (s->mask_is == CHOSEN && !bit_of(s->mini, s->mask, at)) {
        sum = s->low;
    }
    return sum;
}

static void check_row(const scene *s, int64_t b, int64_t h, int64_t row)
{
    double *weights = malloc((size_t)s->size.keys * sizeof(*weights)), most = -INFINITY, all = 0;
    for (int64_t key = 0; weights != NULL && key < s->size.keys; key++) {
        weights[key] = score_at(s, b, h, row, key);
        most = weights[key] > most ? weights[key] : most;
    }
    for (int64_t key = 0; weights != NULL && key < s->size.keys; key++) {
        weights[key] = exp(weights[key] - most);
        all += weights[key];
    }
    for (int64_t c = 0; KILN_CHECK(weights != NULL) && c < s->size.width; c++) {
        double sum = 0;
        for (int64_t key = 0; key < s->size.keys; key++) {
            const int64_t at[] = {b, h, key, c};
            sum += weights[key] / all * value_of(s->mini, s->values, at);
        }
        const int64_t at[] = {b, h, row, c};
        double got = value_of(s->mini, s->result, at);
        if (isnan(sum) ? !isnan(got) : !(got == sum || fabs(got - sum) < tolerance())) {
            KILN_FAIL("%lld rows by %lld keys, heads of %lld: at %lld, %lld, %lld, %lld is %g, "
                      "not %g",
                      (long long)s->size.rows, (long long)s->size.keys, (long long)s->size.depth,
                      (long long)b, (long long)h, (long long)row, (long long)c, got, sum);
            break;
        }
    }
    free(weights);
}

/// False when the block was not taken.
static bool check(scene *s)
{
    kf_opt *opt = mini_finish(s->mini);
    if (opt == NULL) {
        return false;
    }
    kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
    KILN_CHECK_INT(s->mini->plugin->opt_info(opt, &info), KF_OK);
    KILN_CHECK_INT(info.len, s->mini->n_ops);
    if (KILN_CHECK(mini_run(s->mini, opt))) {
        for (int64_t i = 0; i < s->size.batch * s->size.heads * s->size.rows; i++) {
            check_row(s, i / s->size.rows / s->size.heads, i / s->size.rows % s->size.heads,
                      i % s->size.rows);
        }
    }
    s->mini->plugin->opt_destroy(opt);
    return true;
}

enum { LITTLE = 49152, UNITS = 132 }; // bytes of local memory; work-groups that share heads

static mini_host *begin(void)
{
    const variant *v = kiln_test_param();
    if (!mini_has_opencl()) {
        return NULL;
    }
    bool is_sm_90 = v->streams || v->dtype != KF_DTYPE_F32;
    if (is_sm_90 && !mini_has_wgmma()) {
        kiln_test_skip("the device has no tensor cores of compute capability 9.0");
        return NULL;
    }
    mini_host *mini = mini_open("attention.so", v->shape);
    if (mini == NULL) {
        return NULL;
    }
    mini->device.vector_bytes = v->vector_bytes;
    mini->device.local_bytes = v->local_bytes;
    mini->device.features |= is_sm_90 ? KF_FEATURE_WGMMA : 0;
    mini->device.compute_units = UNITS;
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

// ---- cases ----

static void test_sizes(void)
{
    static const heads sizes[] = {{1, 1, 1, 1, 1, 1},         {1, 2, 1, 129, 64, 64},
                                  {2, 3, 37, 100, 40, 24},    {1, 2, 33, 64, 64, 64},
                                  {2, 2, 1, 200, 17, 33},     {1, 1, 5, 1, 3, 7},
                                  {1, 1, 40, 70, 128, 80},    {1, 3, 9, 5, 256, 1},
                                  {1, 2, 131, 300, 128, 128}, {1, 1, 257, 129, 72, 64}};
    const variant *v = kiln_test_param();
    mini_host *mini = begin();
    for (uint32_t i = 0; mini != NULL && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        scene s;
        make_tensors(&s, mini, &sizes[i], i);
        record(&s);
        bool fits = v->local_bytes != LITTLE || sizes[i].depth < 256;
        uint32_t code = v->dtype == KF_DTYPE_F32 ? KF_CODE_DEVICE : KF_CODE_SHAPE;
        KILN_CHECK(check(&s) == fits && (fits || mini->last_code == code));
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// Every mask, with heads that lie side by side, for many rows and for one.
static void test_masks_and_views(void)
{
    mini_host *mini = begin();
    for (uint32_t i = 0; mini != NULL && i < 12; i++) {
        const heads size = {2, 3, i % 2 == 0 ? 19 : 1, 67, 16, 16};
        scene s;
        make_tensors(&s, mini, &size, i / 2);
        interleave(mini, s.query);
        interleave(mini, s.values);
        interleave(mini, s.key);
        record(&s);
        KILN_CHECK(check(&s));
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// Several heads of the query have one of the keys and values.
static void test_shared_heads(void)
{
    mini_host *mini = begin();
    for (uint32_t i = 0; mini != NULL && i < 2; i++) {
        const heads size = {2, 4, i == 0 ? 20 : 1, 30, 32, 32};
        scene s;
        make_tensors(&s, mini, &size, 0);
        s.key = tensor(mini, dtype_of_case(), 2, 1, 30, 32);
        s.values = tensor(mini, dtype_of_case(), 2, 1, 30, 32);
        record(&s);
        KILN_CHECK(check(&s));
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// A row that sees nothing, a first tile that is not seen, NaN and infinities on either side.
static void test_special_values(void)
{
    mini_host *mini = begin();
    for (uint32_t i = 0; mini != NULL && i < 10; i++) {
        const int64_t head = i % 2 == 0 ? 24 : 64;
        const heads size = {1, 2, i % 2 == 0 ? 18 : 1, 130, head, head};
        scene s;
        make_tensors(&s, mini, &size, 4); // a mask is added
        mini_tensor *of = mini->tensors;
        for (int64_t k = 0; k < size.keys && (i / 2 == 0 || (i / 2 == 1 && k < 129)); k++) {
            put(&of[s.mask], (size_t)k, -(double)INFINITY);
        }
        if (i / 2 == 2) {
            put(&of[s.query], 3, (double)NAN);
        } else if (i / 2 == 3) {
            put(&of[s.key], 100, (double)INFINITY);
        } else if (i / 2 == 4) {
            put(&of[s.values], (size_t)head * 100 + 5, (double)NAN);
        }
        record(&s);
        KILN_CHECK(check(&s));
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// Runs what is recorded again and again: the same bits.
static void check_repeats(scene *s)
{
    mini_host *mini = s->mini;
    size_t bytes = mini->tensors[s->result].bytes;
    void *first = malloc(bytes);
    kf_opt *opt = mini_finish(mini);
    for (int i = 0; KILN_CHECK(opt != NULL && first != NULL) && i < 4; i++) {
        KILN_CHECK(mini_run(mini, opt));
        if (i == 0) {
            memcpy(first, mini->tensors[s->result].data, bytes);
        }
        KILN_CHECK_MEM(mini->tensors[s->result].data, first, bytes);
    }
    free(first);
    mini->plugin->opt_destroy(opt);
}

/// Of a decoder: one part and many, the last shorter; more heads than units; lines that lie apart,
/// and numbers of a line that do (the kinds with turned keys).
static void test_one_row(void)
{
    static const heads sizes[] = {{1, 1, 1, 1, 128, 128},    {1, 2, 1, 63, 128, 128},
                                  {1, 3, 1, 700, 64, 64},    {1, 1, 1, 4500, 128, 128},
                                  {2, 70, 1, 130, 64, 64},   {1, 1, 1, 9000, 32, 32},
                                  {2, 1, 1, 1000, 128, 128}, {3, 2, 1, 1023, 64, 64}};
    mini_host *mini = begin();
    for (uint32_t i = 0; mini != NULL && i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        scene s;
        make_tensors(&s, mini, &sizes[i / 2], i / 2 + i % 2);
        if (i % 3 == 2) {
            interleave(mini, s.key);
            interleave(mini, s.values);
        }
        record(&s);
        if (KILN_CHECK(check(&s)) && i == 6) {
            check_repeats(&s);
        }
    }
    if (mini != NULL) {
        end(mini);
    }
}

/// What positions hide, computed in the block: one comparison, or more than that.
typedef struct seeing {
    uint32_t op;
    bool key_first;
    bool inverted; ///< by another operator
    int64_t ahead; ///< of the first row's position
    double fill;
} seeing;

static uint32_t positions(mini_host *mini, int64_t rows, int64_t keys, int64_t first)
{
    uint32_t id = mini_tensor_add(mini, KF_DTYPE_I64, 2, (const int64_t[]){rows, keys});
    for (int64_t i = 0; i < rows * keys; i++) {
        ((int64_t *)mini->tensors[id].data)[i] = first + i;
    }
    return id;
}

static bool compared(uint32_t op, int64_t a, int64_t b)
{
    return op == KF_OP_LESS         ? a < b
           : op == KF_OP_LESS_EQUAL ? a <= b
           : op == KF_OP_GREATER    ? a > b
                                    : a >= b;
}

/// Records what `of` says; `s->mask` is what the judge looks into: true where a key is seen.
static void record_seeing(scene *s, const seeing *of)
{
    mini_host *mini = s->mini;
    const heads *n = &s->size;
    const int64_t extents[] = {1, 1, n->rows, n->keys};
    uint32_t row = positions(mini, n->rows, 1, of->ahead), key = positions(mini, 1, n->keys, 0);
    uint32_t scores = scores_of(s), weights = 0;
    uint32_t hides = mini_tensor_add(mini, KF_DTYPE_BOOL, 2, extents + 2);
    mini_binary(mini, of->op, of->key_first ? key : row, of->key_first ? row : key, hides);
    if (of->inverted) {
        uint32_t other = mini_tensor_add(mini, KF_DTYPE_BOOL, 2, extents + 2);
        mini_unary(mini, KF_OP_LOGICAL_NOT, hides, other);
        mini_drop(mini, hides);
        hides = other;
    }
    uint32_t out = mini_tensor_add(mini, dtype_of_case(), 4, mini->tensors[scores].extents);
    mini_op *op = mini_binary(mini, KF_OP_MASK_FILL, scores, hides, out);
    mini_scalar(mini, op, KF_ATTR_VALUE, of->fill);
    mini_drop(mini, hides);
    mini_drop(mini, scores);
    softmax(mini, out, -1, &weights);
    const int64_t result[] = {n->batch, n->heads, n->rows, n->width};
    s->result = mini_tensor_add(mini, dtype_of_case(), 4, result);
    mini_binary(mini, KF_OP_MATMUL, weights, s->values, s->result);
    mini_drop(mini, weights);
    s->mask = mini_tensor_add(mini, KF_DTYPE_BOOL, 4, extents);
    s->mask_is = CHOSEN;
    s->low = of->fill;
    for (int64_t i = 0; i < n->rows * n->keys; i++) {
        int64_t a = of->ahead + i / n->keys, b = i % n->keys;
        bool hidden = compared(of->op, of->key_first ? b : a, of->key_first ? a : b);
        ((unsigned char *)mini->tensors[s->mask].data)[i] = hidden == of->inverted;
    }
}

static void test_positions(void)
{
    static const seeing all[] = {{KF_OP_LESS, false, false, 0, -INFINITY},
                                 {KF_OP_LESS, false, false, 170, -INFINITY},
                                 {KF_OP_GREATER_EQUAL, true, false, 0, LOW_FILL},
                                 {KF_OP_GREATER, true, false, -3, -INFINITY},
                                 {KF_OP_LESS_EQUAL, true, false, 0, -INFINITY},
                                 {KF_OP_GREATER, false, false, 150, -INFINITY},
                                 {KF_OP_LESS_EQUAL, true, true, 0, -INFINITY}};
    mini_host *mini = begin();
    uint32_t step = dtype_of_case() == KF_DTYPE_F32 ? 3 : 1; // only tensor cores look at positions
    for (uint32_t i = 0; mini != NULL && i < sizeof(all) / sizeof(all[0]); i += step) {
        const heads size = {1, 2, i % 2 == 0 ? 270 : 40, 300, 16, 16};
        scene s;
        make_tensors(&s, mini, &size, i < 5 ? 4 : 0); // the query is scaled, or the scores are
        record_seeing(&s, &all[i]);
        KILN_CHECK(check(&s));
    }
    if (mini != NULL) {
        end(mini);
    }
}

static uint32_t cast(mini_host *mini, uint32_t x, uint32_t dtype)
{
    uint32_t out =
        mini_tensor_add(mini, dtype, mini->tensors[x].view.rank, mini->tensors[x].extents);
    mini_op *op = mini_unary(mini, KF_OP_CAST, x, out);
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = KF_ATTR_DTYPE, .type = KF_TYPE_DTYPE, .count = 1, .v = {.i = dtype}};
    return out;
}

/// Operands of 16 bits that are cast to f32, as the operator attention is recorded of them: the
/// query or all three at first. `wanted`: so is the cast of the keys.
static void record_cast(scene *s, bool all_first, bool wanted)
{
    mini_host *mini = s->mini;
    const heads *n = &s->size;
    const int64_t scores_dims[] = {n->batch, n->heads, n->rows, n->keys};
    const int64_t result_dims[] = {n->batch, n->heads, n->rows, n->width};
    uint32_t scaled_query = mini_tensor_add(mini, KF_DTYPE_F32, 4, mini->tensors[s->query].extents);
    uint32_t query = cast(mini, s->query, KF_DTYPE_F32), key = 0, values = 0;
    if (all_first) {
        key = cast(mini, s->key, KF_DTYPE_F32);
        values = cast(mini, s->values, KF_DTYPE_F32);
    }
    mini_with_scalar(mini, KF_OP_MUL_SCALAR, query, s->scale, scaled_query);
    mini_drop(mini, query);
    key = all_first ? key : cast(mini, s->key, KF_DTYPE_F32);
    uint32_t scores = mini_tensor_add(mini, KF_DTYPE_F32, 4, scores_dims);
    flag(mini_binary(mini, KF_OP_MATMUL, scaled_query, key, scores), KF_ATTR_TRANSPOSE_B);
    mini_drop(mini, scaled_query);
    if (!wanted) {
        mini_drop(mini, key);
    }
    uint32_t weights = mini_tensor_add(mini, KF_DTYPE_F32, 4, scores_dims);
    mini_op *op = mini_unary(mini, KF_OP_SOFTMAX, scores, weights);
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = KF_ATTR_AXIS, .type = KF_TYPE_I64, .count = 1, .v = {.i = -1}};
    mini_drop(mini, scores);
    values = all_first ? values : cast(mini, s->values, KF_DTYPE_F32);
    uint32_t result = mini_tensor_add(mini, KF_DTYPE_F32, 4, result_dims);
    mini_binary(mini, KF_OP_MATMUL, weights, values, result);
    mini_drop(mini, weights);
    mini_drop(mini, values);
    s->result = cast(mini, result, dtype_of_case());
    mini_drop(mini, result);
}

static void test_casts(void)
{
    mini_host *mini = begin();
    for (uint32_t i = 0; mini != NULL && i < 4; i++) {
        const heads size = {1, 2, i % 2 == 0 ? 150 : 1, 140, 64, 64};
        scene s;
        make_tensors(&s, mini, &size, 0);
        record_cast(&s, i / 2 == 1, false);
        KILN_CHECK(check(&s));
    }
    if (mini != NULL) {
        scene s;
        make_tensors(&s, mini, &(heads){1, 2, 20, 30, 16, 16}, 0);
        record_cast(&s, false, true);
        KILN_CHECK(!check(&s));
        end(mini);
    }
}

/// Operands of f32 that are cast to 16 bits first, and a mask that is cast behind the first product
/// and wanted by others. The scores are of f32, their weights cast back.
static void record_narrowed(scene *s)
{
    mini_host *mini = s->mini;
    const heads *n = &s->size;
    const int64_t scores_dims[] = {n->batch, n->heads, n->rows, n->keys};
    const int64_t mask_dims[] = {n->batch, 1, 1, n->keys};
    const int64_t result_dims[] = {n->batch, n->heads, n->rows, n->width};
    const uint32_t dtype = dtype_of_case();
    uint32_t from[3] = {s->query, s->key, s->values}, to[3];
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t wide = mini_tensor_add(mini, KF_DTYPE_F32, 4, mini->tensors[from[i]].extents);
        to[i] = cast(mini, wide, dtype);
    }
    uint32_t scores = mini_tensor_add(mini, dtype, 4, scores_dims);
    flag(mini_binary(mini, KF_OP_MATMUL, to[0], to[1], scores), KF_ATTR_TRANSPOSE_B);
    uint32_t mask = cast(mini, mini_tensor_add(mini, KF_DTYPE_F32, 4, mask_dims), dtype);
    uint32_t masked = mini_tensor_add(mini, dtype, 4, scores_dims);
    mini_binary(mini, KF_OP_ADD, scores, mask, masked);
    mini_drop(mini, scores);
    uint32_t wide = cast(mini, masked, KF_DTYPE_F32);
    mini_drop(mini, masked);
    uint32_t weights = mini_tensor_add(mini, KF_DTYPE_F32, 4, scores_dims);
    mini_op *op = mini_unary(mini, KF_OP_SOFTMAX, wide, weights);
    op->attrs[op->view.n_attrs++] =
        (kf_attr){.key = KF_ATTR_AXIS, .type = KF_TYPE_I64, .count = 1, .v = {.i = -1}};
    mini_drop(mini, wide);
    uint32_t narrow_weights = cast(mini, weights, dtype);
    mini_drop(mini, weights);
    weights = narrow_weights;
    s->result = mini_tensor_add(mini, dtype, 4, result_dims);
    mini_binary(mini, KF_OP_MATMUL, weights, to[2], s->result);
    mini_drop(mini, weights);
    for (uint32_t i = 0; i < 3; i++) {
        mini_drop(mini, to[i]);
    }
}

static void test_narrowed(void)
{
    mini_host *mini = mini_open("attention.so", KF_SHAPE_NDRANGE);
    scene s;
    if (mini == NULL) {
        return;
    }
    mini->device.features |= KF_FEATURE_WGMMA;
    mini->device.local_bytes = LITTLE;
    if (mini_fuser(mini)) {
        make_tensors(&s, mini, &(heads){1, 2, 20, 30, 16, 16}, 0);
        record_narrowed(&s);
        kf_opt *opt = mini_finish(mini);
        kf_program program = {.struct_size = (uint32_t)sizeof(program)};
        if (KILN_CHECK(opt != NULL) &&
            KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK) &&
            KILN_CHECK_INT(program.n_steps, 5)) {
            static const uint32_t hosted[] = {0, 1, 2, 4};
            for (uint32_t i = 0; i < 4; i++) {
                KILN_CHECK_INT(program.steps[i].kind, KF_STEP_HOST_OP);
                KILN_CHECK_INT(program.steps[i].index, hosted[i]);
            }
            KILN_CHECK_INT(program.steps[4].kind, KF_STEP_LAUNCH);
        }
        if (opt != NULL) {
            mini->plugin->opt_destroy(opt);
        }
    }
    mini_close(mini);
}

/// Whether a host of these features is given a program, and which: what needs no such device.
static void check_offer(uint64_t features, bool is_cast, int64_t rows, bool taken)
{
    mini_host *mini = mini_open("attention.so", KF_SHAPE_NDRANGE);
    scene s;
    if (mini == NULL) {
        return;
    }
    mini->device.features |= features;
    mini->device.local_bytes = LITTLE;
    if (mini_fuser(mini)) {
        make_tensors(&s, mini, &(heads){1, 2, rows, 30, 16, 16}, 0);
        if (is_cast) {
            record_cast(&s, false, false);
        } else {
            record(&s);
        }
        kf_opt *opt = mini_finish(mini);
        KILN_CHECK((opt != NULL) == taken);
        if (opt != NULL) {
            kf_program program = {.struct_size = (uint32_t)sizeof(program)};
            KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK);
            const char *text = program.sources[0]->code.ptr;
            KILN_CHECK((strstr(text, "wgmma.mma_async") != NULL) == (rows > 1));
            KILN_CHECK_INT(program.sources[0]->n_defines, rows > 1);
            KILN_CHECK_INT(program.n_launches, rows > 1 ? 1 : 2);
            mini->plugin->opt_destroy(opt);
        }
    }
    mini_close(mini);
}

/// One row of heads whose lines are 128 to 512 bytes goes by bulk copies, where there are some.
static void check_stream(uint32_t features, int64_t head, bool streams)
{
    mini_host *mini = mini_open("attention.so", KF_SHAPE_NDRANGE);
    scene s;
    if (mini == NULL) {
        return;
    }
    mini->device.features |= features;
    mini->device.local_bytes = LITTLE;
    mini->device.compute_units = UNITS;
    if (KILN_CHECK(mini_fuser(mini))) {
        make_tensors(&s, mini, &(heads){1, 16, 1, 4096, head, head}, 0);
        record(&s);
        kf_opt *opt = mini_finish(mini);
        kf_program program = {.struct_size = (uint32_t)sizeof(program)};
        int64_t items = 0;
        if (KILN_CHECK(opt != NULL)) {
            KILN_CHECK_INT(mini->plugin->opt_describe(opt, 0, &program), KF_OK);
            const char *text = program.sources[0]->code.ptr;
            KILN_CHECK((strstr(text, "cp.async.bulk") != NULL) == streams);
            KILN_CHECK_INT(program.sources[0]->n_defines, streams);
            KILN_CHECK(mini_eval(mini, program.launches[0]->global[0], &items));
            KILN_CHECK_INT(items, streams ? 8 * 256 : 32 * 128);
            mini->plugin->opt_destroy(opt);
        }
    }
    mini_close(mini);
}

static void test_stream_offers(void)
{
    check_stream(0, 64, false);
    check_stream(KF_FEATURE_WGMMA, 80, false);
    check_stream(KF_FEATURE_WGMMA, 64, true);
    check_stream(KF_FEATURE_WGMMA, 128, true);
}

static void test_offers(void)
{
    check_stream(KF_FEATURE_WGMMA, 80, false);
    check_stream(KF_FEATURE_WGMMA, 64, true);
    check_stream(KF_FEATURE_WGMMA, 128, true);
    for (int64_t rows = 1; rows <= 20; rows += 19) {
        check_offer(0, false, rows, false);
        check_offer(0, true, rows, false);
        check_offer(KF_FEATURE_WGMMA, false, rows, true);
        check_offer(KF_FEATURE_WGMMA, true, rows, true);
        check_offer(KF_FEATURE_WGMMA | KF_FEATURE_STRICT, false, rows, true);
        check_offer(KF_FEATURE_WGMMA | KF_FEATURE_STRICT, true, rows, false);
    }
}

static void test_repeats(void)
{
    mini_host *mini = begin();
    if (mini == NULL) {
        return;
    }
    const heads size = {1, 3, 50, 150, 32, 32};
    scene s;
    make_tensors(&s, mini, &size, 2);
    record(&s);
    check_repeats(&s);
    end(mini);
}

static void test_declines(void)
{
    static const heads size = {1, 2, 20, 30, 16, 16}, deep = {1, 1, 20, 30, 300, 16};
    mini_host *mini = begin();
    scene s;
    uint32_t weights = 0;
    if (mini == NULL) {
        return;
    }
    // the weights are wanted
    make_tensors(&s, mini, &size, 0);
    record(&s);
    mini->n_ops--;
    KILN_CHECK(!check(&s));
    // a softmax along the rows
    make_tensors(&s, mini, &size, 0);
    softmax(mini, scores_of(&s), -2, &weights);
    mini_binary(mini, KF_OP_MATMUL, weights, s.values, tensor(mini, dtype_of_case(), 1, 2, 20, 16));
    mini_drop(mini, weights);
    KILN_CHECK(!check(&s) && mini->last_code == KF_CODE_SHAPE);
    // a head longer than the kernel's memory
    make_tensors(&s, mini, &deep, 0);
    record(&s);
    KILN_CHECK(!check(&s) && mini->last_code == KF_CODE_SHAPE);
    // something between the softmax and the product
    make_tensors(&s, mini, &size, 0);
    softmax(mini, scores_of(&s), -1, &weights);
    weights = scaled(mini, weights, 2, true);
    mini_binary(mini, KF_OP_MATMUL, weights, s.values, tensor(mini, dtype_of_case(), 1, 2, 20, 16));
    mini_drop(mini, weights);
    KILN_CHECK(!check(&s) && mini->last_code == KF_CODE_SHAPE);
    // values that are what the block computes
    make_tensors(&s, mini, &(heads){1, 1, 20, 20, 20, 20}, 0);
    softmax(mini, scores_of(&s), -1, &weights);
    mini_binary(mini, KF_OP_MATMUL, weights, weights, tensor(mini, dtype_of_case(), 1, 1, 20, 20));
    mini_drop(mini, weights);
    KILN_CHECK(!check(&s) && mini->last_code == KF_CODE_SHAPE);
    // an operator of another version
    make_tensors(&s, mini, &size, 0);
    record(&s);
    mini->ops[0].view.version = 2;
    KILN_CHECK(!check(&s) && mini->last_code == KF_CODE_NOT_UNDERSTOOD);
    end(mini);
}

static const variant narrow = {KF_SHAPE_BLOCK, 16, 0, KF_DTYPE_F32, false};
static const variant wide = {KF_SHAPE_BLOCK, 64, 0, KF_DTYPE_F32, false};
static const variant small_groups = {KF_SHAPE_NDRANGE, 16, LITTLE, KF_DTYPE_F32, false};
static const variant groups = {KF_SHAPE_NDRANGE, 16, 131072, KF_DTYPE_F32, false};
static const variant bf16 = {KF_SHAPE_NDRANGE, 16, LITTLE, KF_DTYPE_BF16, false};
static const variant f16 = {KF_SHAPE_NDRANGE, 16, LITTLE, KF_DTYPE_F16, false};
static const variant streams = {KF_SHAPE_NDRANGE, 16, LITTLE, KF_DTYPE_F32, true};

#define ALL(test, name)                                                                            \
    KILN_TEST_PARAM(test, name "_narrow", &narrow), KILN_TEST_PARAM(test, name "_wide", &wide),    \
        KILN_TEST_PARAM(test, name "_small_groups", &small_groups),                                \
        KILN_TEST_PARAM(test, name "_groups", &groups),                                            \
        KILN_TEST_PARAM(test, name "_bf16", &bf16), KILN_TEST_PARAM(test, name "_f16", &f16)

KILN_TEST_MAIN("unit/plugins/attention", ALL(test_sizes, "sizes"),
               ALL(test_masks_and_views, "masks"), ALL(test_shared_heads, "shared"),
               KILN_TEST_PARAM(test_one_row, "one_row_bf16", &bf16),
               KILN_TEST_PARAM(test_one_row, "one_row_f16", &f16),
               KILN_TEST_PARAM(test_one_row, "one_row_f32", &streams),
               KILN_TEST_PARAM(test_sizes, "sizes_f32", &streams),
               KILN_TEST_PARAM(test_masks_and_views, "masks_f32", &streams),
               KILN_TEST_PARAM(test_shared_heads, "shared_f32", &streams),
               KILN_TEST_PARAM(test_special_values, "special_f32", &streams),
               ALL(test_special_values, "special"), ALL(test_positions, "positions"),
               ALL(test_repeats, "repeats"), ALL(test_declines, "declines"),
               KILN_TEST_PARAM(test_casts, "casts_bf16", &bf16),
               KILN_TEST_PARAM(test_casts, "casts_f16", &f16),
               KILN_TEST_PARAM(test_narrowed, "narrowed_bf16", &bf16),
               KILN_TEST_PARAM(test_narrowed, "narrowed_f16", &f16),
               KILN_TEST_PARAM(test_offers, "offers_bf16", &bf16),
               KILN_TEST_PARAM(test_offers, "offers_f16", &f16),
               KILN_TEST_PARAM(test_stream_offers, "offers_f32", &groups))
