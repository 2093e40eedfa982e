// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's Attention as products, a mask and a softmax, in the order that the attention fuser takes.
// Decides which keys a row sees and when a row that sees none has to be looked for. Heads of a
// query that share one of the keys and values get an axis of their own, over which the products
// broadcast. FlexAttention (ai.onnx.preview) has graphs instead of masks.
#include "onnx_parts.h"
#include "onnx_run.h"

#include <math.h>

typedef kilni_onnx_attention attention;

// ---- query, keys and values ----

kilni_onnx_ref kilni_onnx_heads_apart(kilni_onnx_call *call, kilni_onnx_ref x, int64_t heads,
                                      const char *name)
{
    static const int64_t turned[] = {0, 2, 1, 3};
    if (!kilni_onnx_ok(call) || x->desc.rank == 4) {
        return x;
    }
    const int64_t *d = x->desc.dims;
    if (x->desc.rank != 3 || heads < 1 || d[2] % heads != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "%lld heads do not divide the columns of an input of rank %u: attribute %s "
                        "is needed with inputs of rank 3",
                        (long long)heads, x->desc.rank, name);
        return NULL;
    }
    const int64_t dims[] = {d[0], d[1], heads, d[2] / heads};
    return kilni_onnx_permute(call, kilni_onnx_reshape(call, x, dims, 4), turned, 4);
}

static kilni_onnx_ref after(kilni_onnx_call *call, kilni_onnx_ref past, kilni_onnx_ref x)
{
    const kilni_onnx_ref parts[] = {past, x};
    return past == NULL ? x : kilni_onnx_concat(call, parts, 2, 2);
}

void kilni_onnx_attention_measure(kilni_onnx_call *call, attention *a)
{
    if (!kilni_onnx_ok(call)) {
        return;
    }
    const int64_t *q = a->query->desc.dims;
    int64_t heads = a->key->desc.dims[1];
    if (heads < 1 || q[1] < 1 || q[1] % heads != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "%lld heads of the query cannot share %lld of the keys", (long long)q[1],
                        (long long)heads);
        return;
    }
    a->batch = q[0];
    a->heads = q[1];
    a->rows = q[2];
    a->groups = q[1] / heads;
    a->keys = a->key->desc.dims[2];
}

static void take_inputs(kilni_onnx_call *call, attention *a)
{
    a->query = kilni_onnx_in(call, 0);
    a->key = kilni_onnx_in(call, 1);
    a->value = kilni_onnx_in(call, 2);
    kilni_onnx_ref past_key = kilni_onnx_opt(call, 4);
    kilni_onnx_ref past_value = kilni_onnx_opt(call, 5);
    if (kilni_onnx_ok(call) && (past_key == NULL) != (past_value == NULL)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "past_key and past_value go together");
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t rank = a->query->desc.rank;
    if ((rank != 3 && rank != 4) || a->key->desc.rank != rank || a->value->desc.rank != rank) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "query, key and value of rank %u, %u and %u", rank,
                        a->key->desc.rank, a->value->desc.rank);
        return;
    }
    int64_t key_heads = kilni_onnx_attr_int(call, "kv_num_heads", 0);
    a->flat = rank == 3;
    a->query = kilni_onnx_heads_apart(call, a->query, kilni_onnx_attr_int(call, "q_num_heads", 0),
                                      "q_num_heads");
    a->key = after(call, past_key, kilni_onnx_heads_apart(call, a->key, key_heads, "kv_num_heads"));
    a->value =
        after(call, past_value, kilni_onnx_heads_apart(call, a->value, key_heads, "kv_num_heads"));
    a->offset = past_key == NULL ? 0 : past_key->desc.dims[2];
    kilni_onnx_attention_measure(call, a);
}

// ---- what is seen ----

/// Compares places. Behind the product, fusers see the comparison with what it hides, and no mask
/// is in memory; where there is more than one, they become a mask.
static void compare_places(kilni_onnx_call *call, attention *a)
{
    if (a->places[0] != NULL) {
        a->hidden = kilni_onnx_binary(call, a->compare, a->places[0], a->places[1]);
        a->places[0] = NULL;
    }
}

static void hide(kilni_onnx_call *call, attention *a, kilni_onnx_ref mask)
{
    compare_places(call, a);
    a->hidden =
        a->hidden == NULL ? mask : kilni_onnx_binary(call, KILN_OP_LOGICAL_OR, a->hidden, mask);
}

kilni_onnx_ref kilni_onnx_places(kilni_onnx_call *call, int64_t count, uint32_t axis, int64_t first)
{
    int64_t dims[] = {1, 1, 1, 1};
    dims[axis] = count;
    kilni_onnx_ref line =
        kilni_onnx_arange(call, KILN_DTYPE_I64, count, kiln_i64(first), kiln_i64(1));
    return kilni_onnx_reshape(call, line, dims, 4);
}

void kilni_onnx_add_bias(kilni_onnx_call *call, attention *a, kilni_onnx_ref bias)
{
    a->bias = a->bias == NULL ? bias : kilni_onnx_binary(call, KILN_OP_ADD, a->bias, bias);
}

void kilni_onnx_hide_far(kilni_onnx_call *call, attention *a, kiln_op op, int64_t most)
{
    bool before = op == KILN_OP_LESS;
    int64_t worst = before ? a->offset + a->rows - 1 - most : a->keys - 1 - a->offset - most;
    if (a->first == NULL && worst <= 0) {
        return;
    }
    kilni_onnx_ref row = kilni_onnx_places(
        call, a->rows, 2, (a->first == NULL ? a->offset : 0) + (before ? -most : most));
    row = a->first == NULL ? row : kilni_onnx_binary(call, KILN_OP_ADD, row, a->first);
    kilni_onnx_ref key = kilni_onnx_places(call, a->keys, 3, 0);
    if (a->hidden != NULL || a->places[0] != NULL) {
        hide(call, a, kilni_onnx_binary(call, op, key, row));
        return;
    }
    a->places[0] = key;
    a->places[1] = row;
    a->compare = op;
}

void kilni_onnx_hide_from(kilni_onnx_call *call, attention *a, kilni_onnx_ref lengths)
{
    hide(call, a,
         kilni_onnx_binary(call, KILN_OP_GREATER_EQUAL, kilni_onnx_places(call, a->keys, 3, 0),
                           lengths));
}

/// Samples with fewer keys than the others: those behind them are padding, and the rows stand at
/// their end.
static void hide_padding(kilni_onnx_call *call, attention *a, kilni_onnx_ref lengths)
{
    const int64_t dims[] = {a->batch, 1, 1, 1};
    lengths = kilni_onnx_reshape(call, lengths, dims, 4);
    if (kilni_onnx_opt(call, 4) == NULL) {
        a->first = kilni_onnx_scalar_int(call, KILN_OP_SUB_SCALAR, lengths, a->rows);
    }
    kilni_onnx_hide_from(call, a, lengths);
}

/// The given mask, with four axes and as many keys as there are: those beyond it are not seen.
static void take_mask(kilni_onnx_call *call, attention *a, kilni_onnx_ref mask)
{
    int64_t dims[] = {1, 1, 1, 1};
    uint32_t rank = mask->desc.rank;
    bool flags = mask->desc.dtype == KILN_DTYPE_BOOL;
    if (rank < 1 || rank > 4) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attn_mask of rank %u", rank);
        return;
    }
    for (uint32_t i = 0; i < rank; i++) {
        dims[4 - rank + i] = mask->desc.dims[i];
    }
    mask = kilni_onnx_reshape(call, mask, dims, 4);
    mask = flags ? kilni_onnx_unary(call, KILN_OP_LOGICAL_NOT, mask)
                 : kilni_onnx_cast(call, mask, a->query->desc.dtype);
    if (dims[3] < a->keys) {
        const int64_t padding[] = {0, 0, 0, 0, 0, 0, 0, a->keys - dims[3]};
        mask = kilni_onnx_pad(call, mask, padding, "constant",
                              flags ? kiln_i64(1) : kiln_f64(-(double)INFINITY));
    }
    if (flags) {
        hide(call, a, mask);
    } else {
        a->bias = mask;
    }
}

static bool any_true(kilni_onnx_call *call, kilni_onnx_ref flags)
{
    const bool *host = kilni_onnx_host(call, flags);
    for (int64_t i = 0; host != NULL && i < kiln_desc_count(&flags->desc); i++) {
        if (host[i]) {
            return true;
        }
    }
    return false;
}

/// A row that sees nothing gives 0 and not the softmax's NaN. Without a mask from outside, windows
/// alone can leave a row without keys.
static void find_blind(kilni_onnx_call *call, attention *a, bool possible)
{
    static const int64_t keys = 3;
    if (!possible || !kilni_onnx_ok(call)) {
        return;
    }
    compare_places(call, a);
    if (a->bias == NULL) {
        a->blind = kilni_onnx_reduce(call, KILN_OP_ALL, a->hidden, &keys, 1, true);
    } else {
        kilni_onnx_ref all = a->bias;
        if (a->hidden != NULL) {
            kilni_onnx_ref nothing =
                kilni_onnx_full(call, all->desc.dtype, NULL, 0, kiln_f64(-(double)INFINITY));
            all = kilni_onnx_where(call, a->hidden, nothing, all);
        }
        all = kilni_onnx_reduce(call, KILN_OP_MAX, all, &keys, 1, true);
        a->blind = kilni_onnx_scalar(call, KILN_OP_EQUAL_SCALAR, all, -(double)INFINITY);
    }
    if (kilni_onnx_ok(call) && kilni_onnx_is_small(a->blind) && !any_true(call, a->blind)) {
        a->blind = NULL;
    }
}

static void find_seen(kilni_onnx_call *call, attention *a)
{
    kilni_onnx_ref mask = kilni_onnx_opt(call, 3);
    kilni_onnx_ref lengths = kilni_onnx_opt(call, 6);
    int64_t left = kilni_onnx_attr_int(call, "left_window_size", -1);
    int64_t right = kilni_onnx_attr_int(call, "right_window_size", -1);
    bool causal = kilni_onnx_attr_int(call, "is_causal", 0) != 0;
    if (mask != NULL && kilni_onnx_ok(call)) {
        take_mask(call, a, mask);
    }
    if (lengths != NULL && kilni_onnx_ok(call)) {
        hide_padding(call, a, lengths);
    }
    if (causal && right != 0) {
        kilni_onnx_hide_far(call, a, KILN_OP_GREATER, 0);
    }
    if (right >= 0) {
        kilni_onnx_hide_far(call, a, KILN_OP_GREATER, right);
    }
    if (left >= 0) {
        kilni_onnx_hide_far(call, a, KILN_OP_LESS, left);
    }
    bool windows = left >= 0 && (a->hidden != NULL || a->places[0] != NULL);
    find_blind(call, a, mask != NULL || lengths != NULL || windows);
}

// ---- products ----

/// Where heads share keys: [batch, key heads, heads for each, ..]. What they share has one there.
static kilni_onnx_ref grouped(kilni_onnx_call *call, const attention *a, kilni_onnx_ref x,
                              bool shared)
{
    if (!kilni_onnx_ok(call) || x == NULL || a->groups == 1) {
        return x;
    }
    const int64_t *d = x->desc.dims;
    shared = shared || d[1] == 1;
    const int64_t dims[] = {d[0], shared ? d[1] : d[1] / a->groups, shared ? 1 : a->groups, d[2],
                            d[3]};
    return kilni_onnx_reshape(call, x, dims, 5);
}

static kilni_onnx_ref ungrouped(kilni_onnx_call *call, const attention *a, kilni_onnx_ref x)
{
    if (!kilni_onnx_ok(call) || a->groups == 1) {
        return x;
    }
    const int64_t dims[] = {a->batch, a->heads, a->rows, x->desc.dims[4]};
    return kilni_onnx_reshape(call, x, dims, 4);
}

double kilni_onnx_default_scale(const attention *a)
{
    int64_t size = a->query == NULL ? 0 : a->query->desc.dims[a->query->desc.rank - 1u];
    return size > 0 ? 1 / sqrt((double)size) : 1;
}

/// Views come before all products, so that nothing stands between those and what fusers join.
static void group(kilni_onnx_call *call, attention *a)
{
    kilni_onnx_ref value = kilni_onnx_cast(call, a->value, a->query->desc.dtype);
    a->value = grouped(call, a, value, true);
    a->key = grouped(call, a, a->key, true);
    a->query = grouped(call, a, a->query, false);
    a->bias = grouped(call, a, a->bias, false);
    a->hidden = grouped(call, a, a->hidden, false);
    a->blind = grouped(call, a, a->blind, false);
    a->places[0] = grouped(call, a, a->places[0], true);
    a->places[1] = grouped(call, a, a->places[1], true);
}

/// The output of the scores is of the step that the node asks for.
static void give(kilni_onnx_call *call, const attention *a, int64_t step, kilni_onnx_ref scores)
{
    if (kilni_onnx_wants(call, 3) && a->given_step == step) {
        kilni_onnx_out(call, 3, ungrouped(call, a, scores));
    }
}

static kilni_onnx_ref scores_of(kilni_onnx_call *call, attention *a)
{
    kilni_onnx_ref query = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, a->query, a->scale);
    kilni_onnx_ref scores = kilni_onnx_matmul(call, query, a->key, false, true);
    give(call, a, KILNI_ONNX_SCORES_RAW, scores);
    if (a->cap > 0) {
        scores = kilni_onnx_scalar(call, KILN_OP_DIV_SCALAR, scores, a->cap);
        scores = kilni_onnx_unary(call, KILN_OP_TANH, scores);
        scores = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, scores, a->cap);
    }
    give(call, a, KILNI_ONNX_SCORES_CAPPED, scores);
    if (a->bias != NULL) {
        scores = kilni_onnx_binary(call, KILN_OP_ADD, scores, a->bias);
    }
    compare_places(call, a);
    if (a->hidden != NULL) {
        scores = kilni_onnx_mask_fill(call, scores, a->hidden, -(double)INFINITY);
    }
    give(call, a, KILNI_ONNX_SCORES_BIASED, scores);
    return scores;
}

/// A column behind the keys that takes its share of each row.
static kilni_onnx_ref with_sink(kilni_onnx_call *call, const attention *a, kilni_onnx_ref scores)
{
    if (a->sink == NULL || !kilni_onnx_ok(call)) {
        return scores;
    }
    kiln_tensor_desc column = scores->desc;
    column.dims[column.rank - 1u] = 1;
    kilni_onnx_ref sink = kilni_onnx_cast(call, grouped(call, a, a->sink, false), column.dtype);
    const kilni_onnx_ref parts[] = {scores,
                                    kilni_onnx_expand(call, sink, column.dims, column.rank)};
    return kilni_onnx_concat(call, parts, 2, -1);
}

static kilni_onnx_ref shares_of(kilni_onnx_call *call, const attention *a, kilni_onnx_ref scores)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    kiln_dtype own = scores->desc.dtype;
    scores = kilni_onnx_cast(call, scores, a->precision == KILN_DTYPE_NONE ? own : a->precision);
    kilni_onnx_ref shares =
        kilni_onnx_with_axis(call, KILN_OP_SOFTMAX, with_sink(call, a, scores), -1);
    if (a->sink != NULL && kilni_onnx_ok(call)) {
        shares = kilni_onnx_slice_axis(call, shares, shares->desc.rank - 1u, 0, a->keys, 1);
    }
    shares = kilni_onnx_cast(call, shares, own);
    if (kilni_onnx_wants(call, 3)) {
        give(call, a, KILNI_ONNX_SHARES,
             a->blind == NULL ? shares : kilni_onnx_mask_fill(call, shares, a->blind, 0));
    }
    return shares;
}

kilni_onnx_ref kilni_onnx_attend(kilni_onnx_call *call, attention *a)
{
    static const int64_t turned[] = {0, 2, 1, 3};
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    group(call, a);
    kilni_onnx_ref shares = shares_of(call, a, scores_of(call, a));
    kilni_onnx_ref y = kilni_onnx_matmul(call, shares, a->value, false, false);
    y = a->blind == NULL ? y : kilni_onnx_mask_fill(call, y, a->blind, 0);
    y = ungrouped(call, a, y);
    if (kilni_onnx_ok(call) && a->flat) {
        const int64_t dims[] = {a->batch, a->rows, a->heads * y->desc.dims[3]};
        y = kilni_onnx_reshape(call, kilni_onnx_permute(call, y, turned, 4), dims, 3);
    }
    return y;
}

void kilni_onnx_op_attention(kilni_onnx_call *call)
{
    attention a = {0};
    take_inputs(call, &a);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    a.scale = kilni_onnx_attr_float(call, "scale", kilni_onnx_default_scale(&a));
    a.cap = kilni_onnx_attr_float(call, "softcap", 0);
    a.precision = kilni_onnx_attr_dtype(call, "softmax_precision", KILN_DTYPE_NONE);
    a.given_step = kilni_onnx_attr_int(call, "qk_matmul_output_mode", 0);
    kilni_onnx_out(call, 1, a.key);
    kilni_onnx_out(call, 2, a.value);
    find_seen(call, &a);
    kilni_onnx_out(call, 0, kilni_onnx_attend(call, &a));
}

// ---- with graphs ----

/// What a graph of the node makes of x, which it may not reshape; x where there is none. The result
/// is an output of the call until a later one takes its place.
static kilni_onnx_ref modified(kilni_onnx_call *call, const char *name, kilni_onnx_ref x)
{
    if (!kilni_onnx_ok(call) || kilni_onnx_attr_find(call, name) == NULL) {
        return x;
    }
    const kilni_onnx_plan *body = kilni_onnx_body(call, name, 1);
    if (body != NULL && body->n_outputs != 1) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%s gives %u values, not 1", name, body->n_outputs);
    }
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    kilni_onnx_ref given = x;
    kilni_onnx_ref result = NULL;
    kilni_onnx_run_body(call, body, &given, &result);
    kilni_onnx_out(call, 0, result);
    bool same = kilni_onnx_ok(call) && result->form == KILNI_ONNX_TENSOR &&
                result->desc.dtype == x->desc.dtype &&
                kiln_desc_same_shape(&result->desc, &x->desc);
    kilni_onnx_release(&call->session->env, result);
    if (!same) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%s changes the type or shape of its input", name);
    }
    return kilni_onnx_ok(call) ? result : NULL;
}

void kilni_onnx_op_flex_attention(kilni_onnx_call *call)
{
    attention a = {.query = kilni_onnx_in(call, 0),
                   .key = kilni_onnx_in(call, 1),
                   .value = kilni_onnx_in(call, 2)};
    if (!kilni_onnx_ok(call) || call->n_outputs == 0) {
        return;
    }
    kiln_dtype own = a.query->desc.dtype;
    kiln_dtype wide = kilni_onnx_attr_dtype(
        call, "softmax_precision", own == KILN_DTYPE_F64 ? KILN_DTYPE_F64 : KILN_DTYPE_F32);
    if (a.query->desc.rank != 4 || a.key->desc.rank != 4 || a.value->desc.rank != 4) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "query, key and value of rank %u, %u and %u, not 4",
                        a.query->desc.rank, a.key->desc.rank, a.value->desc.rank);
    }
    kilni_onnx_attention_measure(call, &a);
    group(call, &a);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    a.scale = kilni_onnx_attr_float(call, "scale", kilni_onnx_default_scale(&a));
    kilni_onnx_ref scores = kilni_onnx_cast(call, scores_of(call, &a), wide);
    scores = modified(call, "score_mod", ungrouped(call, &a, scores));
    kilni_onnx_ref shares = kilni_onnx_with_axis(call, KILN_OP_SOFTMAX, scores, -1);
    shares = grouped(call, &a, modified(call, "prob_mod", shares), false);
    kilni_onnx_ref y =
        kilni_onnx_matmul(call, kilni_onnx_cast(call, shares, own), a.value, false, false);
    kilni_onnx_out(call, 0, ungrouped(call, &a, y));
}
