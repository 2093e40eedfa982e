// SPDX-License-Identifier: MIT OR Apache-2.0
// com.microsoft's Attention, QAttention, MultiHeadAttention and RotaryEmbedding, which ONNX
// Runtime's transformer optimiser writes. They differ from ONNX's Attention in where query, keys
// and values come from and in what masks mean: a key that a mask hides gets a number added to its
// score.
#include "onnx_parts.h"

typedef kilni_onnx_attention attention;

static void refuse_input(kilni_onnx_call *call, uint32_t index, const char *name)
{
    if (kilni_onnx_opt(call, index) != NULL) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "input %s is not supported: leave it out", name);
    }
}

static void refuse_attr(kilni_onnx_call *call, const char *name)
{
    if (kilni_onnx_attr_int(call, name, 0) != 0) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "attribute %s is not supported: only 0 is", name);
    }
}

static int64_t heads_asked_for(kilni_onnx_call *call)
{
    int64_t heads = kilni_onnx_attr_int(call, "num_heads", 0);
    if (heads < 1 || heads > INT32_MAX) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "attribute num_heads is %lld", (long long)heads);
    }
    return heads;
}

// ---- masks ----

/// `mask_filter_value` where a key is hidden, else 0.
static void add_filter(kilni_onnx_call *call, attention *a, kilni_onnx_ref hidden, kiln_dtype dtype)
{
    double filter = kilni_onnx_attr_float(call, "mask_filter_value", -10000);
    hidden = kilni_onnx_cast(call, hidden, dtype);
    kilni_onnx_add_bias(call, a, kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, hidden, filter));
}

/// Which keys are behind each sample's last, or before its first where the starts are given, too.
static kilni_onnx_ref outside(kilni_onnx_call *call, const attention *a, kilni_onnx_ref ends)
{
    const int64_t dims[] = {a->batch, 1, 1, 1};
    bool starts = ends->desc.dims[0] == 2 * a->batch && a->batch > 0;
    kilni_onnx_ref keys = kilni_onnx_places(call, a->keys, 3, 0);
    kilni_onnx_ref edges = kilni_onnx_cast(call, ends, KILN_DTYPE_I64);
    kilni_onnx_ref last = kilni_onnx_slice_axis(call, edges, 0, 0, a->batch, 1);
    last = kilni_onnx_reshape(call, last, dims, 4);
    kilni_onnx_ref hidden = kilni_onnx_binary(call, KILN_OP_GREATER_EQUAL, keys, last);
    if (!starts) {
        return hidden;
    }
    kilni_onnx_ref first = kilni_onnx_slice_axis(call, edges, 0, a->batch, 2 * a->batch, 1);
    first = kilni_onnx_reshape(call, first, dims, 4);
    first = kilni_onnx_binary(call, KILN_OP_LESS, keys, first);
    return kilni_onnx_binary(call, KILN_OP_LOGICAL_OR, hidden, first);
}

static void take_key_mask(kilni_onnx_call *call, attention *a, kilni_onnx_ref mask,
                          kiln_dtype dtype)
{
    if (mask == NULL || !kilni_onnx_ok(call)) {
        return;
    }
    const int64_t *d = mask->desc.dims;
    uint32_t rank = mask->desc.rank;
    bool edges = rank == 1 && (d[0] == a->batch || d[0] == 2 * a->batch);
    bool keys = rank == 2 && d[1] == a->keys;
    bool pairs = rank == 3 && d[1] == a->rows && d[2] == a->keys;
    if ((!edges && !keys && !pairs) || kilni_onnx_is_float(mask)) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED,
                        "a mask of %s, rank %u and %lld elements: integers [batch], [2 * batch], "
                        "[batch, keys] and [batch, rows, keys] are supported",
                        kiln_dtype_name(mask->desc.dtype), rank,
                        (long long)kiln_desc_count(&mask->desc));
        return;
    }
    if (edges) {
        add_filter(call, a, outside(call, a, mask), dtype);
        return;
    }
    const int64_t dims[] = {d[0], 1, pairs ? d[1] : 1, a->keys};
    mask = kilni_onnx_reshape(call, mask, dims, 4);
    add_filter(call, a, kilni_onnx_scalar_int(call, KILN_OP_LESS_EQUAL_SCALAR, mask, 0), dtype);
}

void kilni_onnx_take_bias(kilni_onnx_call *call, attention *a, kilni_onnx_ref bias)
{
    if (bias == NULL || !kilni_onnx_ok(call)) {
        return;
    }
    if (bias->desc.rank != 4 || bias->desc.dims[3] < a->keys) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "attention_bias of rank %u is not [batch, heads, rows, %lld keys]",
                        bias->desc.rank, (long long)a->keys);
        return;
    }
    bias =
        bias->desc.dims[3] == a->keys ? bias : kilni_onnx_slice_axis(call, bias, 3, 0, a->keys, 1);
    kilni_onnx_add_bias(call, a, bias);
}

/// Masks come before all products, so that nothing stands between those and the softmax; `a` knows
/// the numbers of samples, rows and keys.
static void take_masks(kilni_onnx_call *call, attention *a, kilni_onnx_ref mask,
                       kilni_onnx_ref bias, kiln_dtype dtype)
{
    take_key_mask(call, a, mask, dtype);
    kilni_onnx_take_bias(call, a, bias);
    if (kilni_onnx_attr_int(call, "unidirectional", 0) != 0) {
        kilni_onnx_hide_far(call, a, KILN_OP_GREATER, 0);
    }
}

static void attend_to_three(kilni_onnx_call *call, attention *a)
{
    a->flat = true;
    kilni_onnx_attention_measure(call, a);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    a->scale = kilni_onnx_attr_float(call, "scale", 0);
    a->scale = a->scale != 0.0 ? a->scale : kilni_onnx_default_scale(a);
    kilni_onnx_out(call, 0, kilni_onnx_attend(call, a));
}

// ---- Attention: one product for query, keys and values ----

/// [batch, rows, columns] as three parts [batch, heads, rows, size]; parts of the same length are
/// views of one array of heads.
static void part(kilni_onnx_call *call, attention *a, kilni_onnx_ref x, int64_t heads,
                 const int64_t columns[3])
{
    kilni_onnx_ref parts[3] = {NULL};
    bool alike = columns[0] == columns[1] && columns[1] == columns[2];
    int64_t at = 0;
    kilni_onnx_ref all = alike ? kilni_onnx_heads_apart(call, x, 3 * heads, "num_heads") : x;
    for (int i = 0; i < 3; i++) {
        if (alike) {
            parts[i] = kilni_onnx_slice_axis(call, all, 1, i * heads, (i + 1) * heads, 1);
        } else {
            parts[i] = kilni_onnx_slice_axis(call, all, 2, at, at + columns[i], 1);
            parts[i] = kilni_onnx_heads_apart(call, parts[i], heads, "num_heads");
        }
        at += columns[i];
    }
    a->query = parts[0];
    a->key = parts[1];
    a->value = parts[2];
}

static void read_columns(kilni_onnx_call *call, kilni_onnx_ref x, int64_t columns[3])
{
    kilni_onnx_ints sizes;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    int64_t width = x->desc.rank == 3 ? x->desc.dims[2] : 0;
    bool given = kilni_onnx_attr_ints(call, "qkv_hidden_sizes", &sizes) && sizes.count > 0;
    for (uint32_t i = 0; i < 3; i++) {
        columns[i] = given && i < sizes.count ? sizes.v[i] : width / 3;
    }
    bool counted = columns[0] > 0 && columns[1] == columns[0] && columns[2] > 0 &&
                   columns[0] <= width && columns[2] <= width;
    if (x->desc.rank != 3 || (given && sizes.count != 3) || !counted ||
        columns[0] + columns[1] + columns[2] != width) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "query, keys and values of %lld, %lld and %lld columns are not the %lld "
                        "that the weights give to an input of rank 3",
                        (long long)columns[0], (long long)columns[1], (long long)columns[2],
                        (long long)width);
    }
}

/// past and present: keys, then values, along a first axis.
static void join_past(kilni_onnx_call *call, attention *a, kilni_onnx_ref past)
{
    kilni_onnx_ref *parts[] = {&a->key, &a->value};
    kilni_onnx_ref both[2];
    for (int i = 0; i < 2 && kilni_onnx_ok(call); i++) {
        if (past != NULL) {
            kilni_onnx_ref old = kilni_onnx_slice_axis(call, past, 0, i, i + 1, 1);
            const kilni_onnx_ref line[] = {kilni_onnx_reshape(call, old, past->desc.dims + 1, 4),
                                           *parts[i]};
            *parts[i] = kilni_onnx_concat(call, line, 2, 2);
        }
        if (kilni_onnx_ok(call)) {
            const int64_t *d = (*parts[i])->desc.dims;
            const int64_t dims[] = {1, d[0], d[1], d[2], d[3]};
            both[i] = kilni_onnx_reshape(call, *parts[i], dims, 5);
        }
    }
    if (kilni_onnx_ok(call) && kilni_onnx_wants(call, 1)) {
        kilni_onnx_out(call, 1, kilni_onnx_concat(call, both, 2, 0));
    }
}

/// Samples, rows and keys as input and past have them, and what the masks make of them.
static void look(kilni_onnx_call *call, attention *a, kilni_onnx_ref past, kilni_onnx_ref mask,
                 kilni_onnx_ref bias, kiln_dtype dtype)
{
    const kilni_onnx_value *x = kilni_onnx_in(call, 0);
    refuse_attr(call, "do_rotary");
    refuse_attr(call, "past_present_share_buffer");
    if (kilni_onnx_ok(call) && x->desc.rank != 3) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "an input of rank %u is not [batch, rows, columns]",
                        x->desc.rank);
    }
    if (past != NULL && kilni_onnx_ok(call) && (past->desc.rank != 5 || past->desc.dims[0] != 2)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "past of rank %u is not [2, batch, heads, rows, size]", past->desc.rank);
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    a->batch = x->desc.dims[0];
    a->rows = x->desc.dims[1];
    a->offset = past == NULL ? 0 : past->desc.dims[3];
    a->keys = a->offset + a->rows;
    take_masks(call, a, mask, bias, dtype);
}

static void attend_to_product(kilni_onnx_call *call, attention *a, kilni_onnx_ref x,
                              kilni_onnx_ref past)
{
    int64_t columns[3] = {0};
    int64_t heads = heads_asked_for(call);
    read_columns(call, x, columns);
    part(call, a, x, heads, columns);
    join_past(call, a, past);
    attend_to_three(call, a);
}

void kilni_onnx_op_merged_attention(kilni_onnx_call *call)
{
    attention a = {0};
    kilni_onnx_ref x = kilni_onnx_in(call, 0), weight = kilni_onnx_in(call, 1);
    kilni_onnx_ref bias = kilni_onnx_opt(call, 2), past = kilni_onnx_opt(call, 4);
    refuse_input(call, 6, "past_sequence_length");
    look(call, &a, past, kilni_onnx_opt(call, 3), kilni_onnx_opt(call, 5),
         kilni_onnx_ok(call) ? x->desc.dtype : KILN_DTYPE_NONE);
    x = kilni_onnx_matmul(call, x, weight, false, false);
    x = bias == NULL ? x : kilni_onnx_binary(call, KILN_OP_ADD, x, bias);
    attend_to_product(call, &a, x, past);
}

void kilni_onnx_op_quantised_attention(kilni_onnx_call *call)
{
    attention a = {0};
    const kilni_onnx_ref scales[] = {kilni_onnx_in(call, 3), kilni_onnx_in(call, 4)};
    const kilni_onnx_ref zeros[] = {kilni_onnx_opt(call, 6), kilni_onnx_opt(call, 7)};
    kilni_onnx_ref past = kilni_onnx_opt(call, 8);
    look(call, &a, past, kilni_onnx_opt(call, 5), NULL, KILN_DTYPE_F32);
    kilni_onnx_ref x = kilni_onnx_float_product(call, kilni_onnx_in(call, 0),
                                                kilni_onnx_in(call, 1), scales, zeros);
    x = kilni_onnx_binary(call, KILN_OP_ADD, x, kilni_onnx_in(call, 2));
    attend_to_product(call, &a, x, past);
}

// ---- MultiHeadAttention: query, keys and values are given ----

/// [batch, rows, heads, parts, size] as `count` parts [batch, heads, rows, size].
static void unpack(kilni_onnx_call *call, kilni_onnx_ref x, int64_t heads, uint32_t count,
                   kilni_onnx_ref *out_parts)
{
    static const int64_t turned[] = {0, 2, 1, 3};
    const int64_t *d = x->desc.dims;
    if (d[2] != heads || d[3] != (int64_t)count) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "packed input of %lld heads and %lld parts, expected %lld and %u",
                        (long long)d[2], (long long)d[3], (long long)heads, count);
        return;
    }
    const int64_t dims[] = {d[0], d[1], d[2], d[4]};
    for (uint32_t i = 0; i < count; i++) {
        kilni_onnx_ref one = kilni_onnx_slice_axis(call, x, 3, i, i + 1, 1);
        out_parts[i] = kilni_onnx_permute(call, kilni_onnx_reshape(call, one, dims, 4), turned, 4);
    }
}

/// Columns of the bias from `at` on are added to x, which has as many; gives what is behind them.
static int64_t add_columns(kilni_onnx_call *call, kilni_onnx_ref *x, kilni_onnx_ref bias,
                           int64_t at)
{
    if (!kilni_onnx_ok(call) || (*x)->desc.rank != 3) {
        return at;
    }
    int64_t end = at + (*x)->desc.dims[2];
    if (bias->desc.rank != 1 || end > bias->desc.dims[0]) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "bias of rank %u has not the columns of query, key and value",
                        bias->desc.rank);
        return at;
    }
    *x = kilni_onnx_binary(call, KILN_OP_ADD, *x, kilni_onnx_slice_axis(call, bias, 0, at, end, 1));
    return end;
}

/// Query, key and value of whatever form as [batch, heads, rows, size].
static void take_three(kilni_onnx_call *call, attention *a, int64_t heads)
{
    kilni_onnx_ref three[] = {kilni_onnx_in(call, 0), kilni_onnx_opt(call, 1),
                              kilni_onnx_opt(call, 2)};
    kilni_onnx_ref bias = kilni_onnx_opt(call, 3);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t packed = three[0]->desc.rank == 5                       ? 0
                      : three[1] != NULL && three[1]->desc.rank == 5 ? 1
                                                                     : 3;
    if (packed < 3 && bias != NULL) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "packed inputs with a bias are not supported");
    }
    int64_t at = 0;
    for (uint32_t i = 0; i < 3 && kilni_onnx_ok(call); i++) {
        if (i >= packed) {
            break;
        }
        if (three[i] == NULL) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u is missing", i);
            return;
        }
        at = bias == NULL ? 0 : add_columns(call, &three[i], bias, at);
        three[i] = kilni_onnx_heads_apart(call, three[i], heads, "num_heads");
    }
    if (packed < 3 && kilni_onnx_ok(call)) {
        unpack(call, three[packed], heads, 3 - packed, &three[packed]);
    }
    a->query = three[0];
    a->key = three[1];
    a->value = three[2];
}

static kilni_onnx_ref behind_past(kilni_onnx_call *call, kilni_onnx_ref past, kilni_onnx_ref x)
{
    const kilni_onnx_ref parts[] = {past, x};
    return past == NULL ? x : kilni_onnx_concat(call, parts, 2, 2);
}

/// Samples, rows and keys as the inputs have them, whatever their form.
static void count_keys(kilni_onnx_call *call, attention *a, const kilni_onnx_value *past)
{
    const kilni_onnx_value *query = kilni_onnx_in(call, 0), *key = kilni_onnx_opt(call, 1);
    key = key == NULL ? query : key;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (query->desc.rank < 3 || key->desc.rank < 3 || (past != NULL && past->desc.rank != 4)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "query of rank %u, key of rank %u, past of rank %u",
                        query->desc.rank, key->desc.rank, past == NULL ? 0U : past->desc.rank);
        return;
    }
    a->batch = query->desc.dims[0];
    a->rows = query->desc.dims[1];
    a->offset = past == NULL ? 0 : past->desc.dims[2];
    a->keys = a->offset + key->desc.dims[key->desc.rank == 4 ? 2 : 1];
}

void kilni_onnx_op_multi_head_attention(kilni_onnx_call *call)
{
    attention a = {.given_step = KILNI_ONNX_SCORES_RAW};
    const kilni_onnx_value *query = kilni_onnx_in(call, 0);
    kilni_onnx_ref past[] = {kilni_onnx_opt(call, 6), kilni_onnx_opt(call, 7)};
    refuse_input(call, 8, "past_sequence_length");
    refuse_input(call, 9, "cache_indirection");
    if (kilni_onnx_ok(call) && (past[0] == NULL) != (past[1] == NULL)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "past_key and past_value go together");
    }
    count_keys(call, &a, past[0]);
    take_masks(call, &a, kilni_onnx_opt(call, 4), kilni_onnx_opt(call, 5),
               query == NULL ? KILN_DTYPE_NONE : query->desc.dtype);
    take_three(call, &a, heads_asked_for(call));
    a.key = behind_past(call, past[0], a.key);
    a.value = behind_past(call, past[1], a.value);
    kilni_onnx_out(call, 1, a.key);
    kilni_onnx_out(call, 2, a.value);
    attend_to_three(call, &a);
}

// ---- RotaryEmbedding ----

/// [batch, rows] from one place of the first row for all.
static kilni_onnx_ref places_from(kilni_onnx_call *call, kilni_onnx_ref first, const int64_t *dims)
{
    if (!kilni_onnx_ok(call) || first->desc.rank == 2) {
        return first;
    }
    kilni_onnx_ref line =
        kilni_onnx_arange(call, KILN_DTYPE_I64, dims[1], kiln_i64(0), kiln_i64(1));
    line = kilni_onnx_binary(
        call, KILN_OP_ADD, line,
        kilni_onnx_reshape(call, kilni_onnx_cast(call, first, KILN_DTYPE_I64), NULL, 0));
    return kilni_onnx_expand(call, line, dims, 2);
}

/// [batch, rows, heads, size]; without num_heads the tables say how wide a head is.
static kilni_onnx_ref rows_of_heads(kilni_onnx_call *call, kilni_onnx_ref x, kilni_onnx_ref table)
{
    static const int64_t turned[] = {0, 2, 1, 3};
    int64_t heads = kilni_onnx_attr_int(call, "num_heads", 0);
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    if (x->desc.rank == 4) {
        return kilni_onnx_permute(call, x, turned, 4);
    }
    int64_t width = x->desc.rank == 3 ? x->desc.dims[2] : 0;
    int64_t half = table->desc.rank == 2 ? table->desc.dims[1] : 0;
    heads = heads > 0 || half < 1 ? heads : width / (2 * half);
    if (width < 1 || heads < 1 || width % heads != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "%lld heads do not divide an input of rank %u with %lld columns",
                        (long long)heads, x->desc.rank, (long long)width);
        return NULL;
    }
    const int64_t dims[] = {x->desc.dims[0], x->desc.dims[1], heads, width / heads};
    return kilni_onnx_reshape(call, x, dims, 4);
}

void kilni_onnx_op_placed_rotary_embedding(kilni_onnx_call *call)
{
    static const int64_t turned[] = {0, 2, 1, 3};
    kilni_onnx_ref given = kilni_onnx_in(call, 0), places = kilni_onnx_in(call, 1);
    kilni_onnx_rotation by = {.cosine = kilni_onnx_in(call, 2),
                              .sine = kilni_onnx_in(call, 3),
                              .size = kilni_onnx_attr_int(call, "rotary_embedding_dim", 0),
                              .neighbours = kilni_onnx_attr_int(call, "interleaved", 0) != 0};
    refuse_attr(call, "is_packed_batching");
    if (kilni_onnx_attr_float(call, "scale", 1) != 1.0) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "attribute scale is not supported: only 1 is");
    }
    kilni_onnx_ref x = rows_of_heads(call, given, by.cosine);
    if (kilni_onnx_ok(call)) {
        by.positions = places_from(call, places, x->desc.dims);
    }
    kilni_onnx_ref y = kilni_onnx_rotate(call, x, &by);
    if (kilni_onnx_ok(call)) {
        y = given->desc.rank == 4 ? kilni_onnx_permute(call, y, turned, 4)
                                  : kilni_onnx_reshape(call, y, given->desc.dims, 3);
    }
    kilni_onnx_out(call, 0, y);
}
