// SPDX-License-Identifier: MIT OR Apache-2.0
// com.microsoft's GroupQueryAttention: heads of the query share keys and values, which live in
// caches that grow or have room, with rotary positions. Decides where in the caches the new rows go
// and which keys a row sees: in a first run those before it, later those up to its place, which may
// differ between samples.
#include "onnx_parts.h"

#include <string.h>

typedef struct grouped_query {
    kilni_onnx_attention a;
    kilni_onnx_ref three[3]; ///< query, key, value: [batch, rows, heads, size]
    kilni_onnx_ref both; ///< heads of query and key side by side, as they are given; or NULL
    kilni_onnx_ref past[2];
    kilni_onnx_ref first; ///< [batch, 1]: the place of the first row of each sample
    kilni_onnx_ref lengths; ///< [batch, 1]: keys of each sample, with the new ones
    int64_t batch, rows, heads, key_heads, size;
    int64_t total; ///< keys of the longest sample
    bool prompt; ///< there is nothing before the new rows
} grouped_query;

// ---- what is given ----

static void refuse_what_is_missing(kilni_onnx_call *call)
{
    static const struct {
        uint32_t index;
        const char *name;
    } inputs[] = {{12, "k_scale"}, {13, "v_scale"}, {16, "query_seqlens"}};
    static const char *const attrs[] = {"sliding_window_cache", "qk_output", "kv_cache_bit_width"};
    static const char *const types[] = {"k_quant_type", "v_quant_type"};
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        if (kilni_onnx_opt(call, inputs[i].index) != NULL) {
            KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "input %s is not supported: leave it out",
                            inputs[i].name);
        }
    }
    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
        if (kilni_onnx_attr_int(call, attrs[i], 0) != 0) {
            KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "attribute %s is not supported: only 0 is",
                            attrs[i]);
        }
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(kilni_onnx_attr_text(call, types[i], "NONE"), "NONE") != 0) {
            KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "attribute %s is not supported: only NONE is",
                            types[i]);
        }
    }
}

static kilni_onnx_ref in_heads(kilni_onnx_call *call, kilni_onnx_ref x, int64_t heads)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    if (x->desc.rank != 3 || x->desc.dims[2] % heads != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "%lld heads do not divide the columns of an input of rank %u",
                        (long long)heads, x->desc.rank);
        return NULL;
    }
    const int64_t dims[] = {x->desc.dims[0], x->desc.dims[1], heads, x->desc.dims[2] / heads};
    return kilni_onnx_reshape(call, x, dims, 4);
}

/// Without key and value the query has their heads behind its own.
static void take_heads(kilni_onnx_call *call, grouped_query *g)
{
    const int64_t counts[] = {g->heads, g->key_heads, g->key_heads};
    kilni_onnx_ref query = kilni_onnx_in(call, 0);
    bool packed = kilni_onnx_opt(call, 1) == NULL && kilni_onnx_opt(call, 2) == NULL;
    int64_t at = 0;
    kilni_onnx_ref all = packed ? in_heads(call, query, g->heads + 2 * g->key_heads) : NULL;
    for (uint32_t i = 0; i < 3; i++) {
        g->three[i] = packed ? kilni_onnx_slice_axis(call, all, 2, at, at + counts[i], 1)
                             : in_heads(call, kilni_onnx_in(call, i), counts[i]);
        at += counts[i];
    }
    if (packed) {
        g->both = kilni_onnx_slice_axis(call, all, 2, 0, g->heads + g->key_heads, 1);
    }
    for (uint32_t i = 1; i < 3 && kilni_onnx_ok(call); i++) {
        const int64_t *q = g->three[0]->desc.dims, *d = g->three[i]->desc.dims;
        if (d[0] != q[0] || d[1] != q[1] || d[3] != q[3]) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                            "%s of %lld samples, %lld rows and heads of %lld beside a query of "
                            "%lld, %lld and %lld",
                            i == 1 ? "key" : "value", (long long)d[0], (long long)d[1],
                            (long long)d[3], (long long)q[0], (long long)q[1], (long long)q[3]);
        }
    }
    if (kilni_onnx_ok(call)) {
        const int64_t *q = g->three[0]->desc.dims;
        g->batch = q[0];
        g->rows = q[1];
        g->size = q[3];
    }
}

static void take_pasts(kilni_onnx_call *call, grouped_query *g)
{
    for (uint32_t i = 0; i < 2; i++) {
        kilni_onnx_ref past = kilni_onnx_opt(call, 3 + i);
        if (past != NULL && kilni_onnx_ok(call) &&
            (past->desc.rank != 4 || past->desc.dims[0] != g->batch ||
             past->desc.dims[1] != g->key_heads || past->desc.dims[3] != g->size ||
             past->desc.dtype != g->three[0]->desc.dtype)) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                            "past_%s of %s and rank %u is not [%lld, %lld, rows, %lld] of the "
                            "query's type",
                            i == 0 ? "key" : "value", kiln_dtype_name(past->desc.dtype),
                            past->desc.rank, (long long)g->batch, (long long)g->key_heads,
                            (long long)g->size);
        }
        g->past[i] = past;
    }
    if (kilni_onnx_ok(call) &&
        ((g->past[0] == NULL) != (g->past[1] == NULL) ||
         (g->past[0] != NULL && g->past[0]->desc.dims[2] != g->past[1]->desc.dims[2]))) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "past_key and past_value go together");
    }
}

static void take_lengths(kilni_onnx_call *call, grouped_query *g)
{
    kilni_onnx_ref lengths = kilni_onnx_in(call, 5);
    g->total = kilni_onnx_value_number(call, kilni_onnx_in(call, 6)).v.i;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    int64_t past = g->past[0] == NULL ? 0 : g->past[0]->desc.dims[2];
    if (kiln_desc_count(&lengths->desc) != g->batch || kilni_onnx_is_float(lengths) ||
        g->total < g->rows || g->total > past + g->rows) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "%lld keys in all, %lld of them new and %lld in the caches, and %lld "
                        "seqlens_k of %s for %lld samples",
                        (long long)g->total, (long long)g->rows, (long long)past,
                        (long long)kiln_desc_count(&lengths->desc),
                        kiln_dtype_name(lengths->desc.dtype), (long long)g->batch);
        return;
    }
    const int64_t dims[] = {g->batch, 1};
    g->prompt = g->total == g->rows;
    lengths = kilni_onnx_reshape(call, kilni_onnx_cast(call, lengths, KILN_DTYPE_I64), dims, 2);
    g->lengths = kilni_onnx_scalar_int(call, KILN_OP_ADD_SCALAR, lengths, 1);
    if (!g->prompt) {
        g->first = kilni_onnx_scalar_int(call, KILN_OP_SUB_SCALAR, g->lengths, g->rows);
    }
}

// ---- rows: normed and turned ----

/// Where the rows stand: [batch, rows].
static kilni_onnx_ref row_places(kilni_onnx_call *call, const grouped_query *g)
{
    const int64_t dims[] = {g->batch, g->rows};
    const int64_t one[] = {1, g->rows};
    kilni_onnx_ref line =
        kilni_onnx_arange(call, KILN_DTYPE_I64, g->rows, kiln_i64(0), kiln_i64(1));
    line = kilni_onnx_reshape(call, line, one, 2);
    line = g->first == NULL ? line : kilni_onnx_binary(call, KILN_OP_ADD, line, g->first);
    return kilni_onnx_expand(call, line, dims, 2);
}

static void norm_heads(kilni_onnx_call *call, grouped_query *g)
{
    static const char *const names[] = {"q_norm_epsilon", "k_norm_epsilon"};
    double both = kilni_onnx_attr_float(call, "qk_norm_epsilon", (double)1e-6f);
    for (uint32_t i = 0; i < 2; i++) {
        const kilni_onnx_ref inputs[] = {g->three[i], kilni_onnx_opt(call, 14 + i)};
        const kiln_attr attrs[] = {kilni_attr_i64(-1),
                                   kilni_attr_f64(kilni_onnx_attr_float(call, names[i], both))};
        if (inputs[1] != NULL && kilni_onnx_ok(call)) {
            g->three[i] = kilni_onnx_emit(call, KILN_OP_RMS_NORM, inputs, 2, attrs, 2);
            g->both = NULL;
        }
    }
}

/// Query and key by the same rows of the tables, at once where they lie side by side.
static void turn_heads(kilni_onnx_call *call, grouped_query *g)
{
    kilni_onnx_ref places = kilni_onnx_opt(call, 9);
    if (kilni_onnx_attr_int(call, "do_rotary", 0) == 0 || !kilni_onnx_ok(call)) {
        return;
    }
    places = places != NULL ? places : row_places(call, g);
    kilni_onnx_rotation by = {.cosine = kilni_onnx_take(call, kilni_onnx_in(call, 7), places, 0),
                              .sine = kilni_onnx_take(call, kilni_onnx_in(call, 8), places, 0),
                              .neighbours =
                                  kilni_onnx_attr_int(call, "rotary_interleaved", 0) != 0};
    if (!kilni_onnx_ok(call) || by.cosine->desc.rank == 0) {
        return;
    }
    by.size = 2 * by.cosine->desc.dims[by.cosine->desc.rank - 1u];
    if (g->both == NULL) {
        g->three[0] = kilni_onnx_rotate(call, g->three[0], &by);
        g->three[1] = kilni_onnx_rotate(call, g->three[1], &by);
        return;
    }
    int64_t all = g->heads + g->key_heads;
    kilni_onnx_ref turned = kilni_onnx_rotate(call, g->both, &by);
    g->three[0] = kilni_onnx_slice_axis(call, turned, 2, 0, g->heads, 1);
    g->three[1] = kilni_onnx_slice_axis(call, turned, 2, g->heads, all, 1);
}

// ---- caches ----

/// The rows of x in the cache from each sample's first place on.
static kilni_onnx_ref written(kilni_onnx_call *call, const grouped_query *g, kilni_onnx_ref cache,
                              kilni_onnx_ref x)
{
    const int64_t dims[] = {g->batch, 1, g->rows, 1};
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    kilni_onnx_ref places = kilni_onnx_reshape(call, row_places(call, g), dims, 4);
    const kilni_onnx_ref inputs[] = {cache, x, kilni_onnx_expand(call, places, x->desc.dims, 4)};
    const kiln_attr attrs[] = {kilni_attr_i64(2), kilni_attr_text("assign")};
    return kilni_onnx_emit(call, KILN_OP_SCATTER, inputs, 3, attrs, 2);
}

/// Keys or values of all rows, and the cache behind them as output `out`.
static kilni_onnx_ref cached(kilni_onnx_call *call, const grouped_query *g, kilni_onnx_ref past,
                             kilni_onnx_ref x, uint32_t out)
{
    int64_t room = past == NULL || !kilni_onnx_ok(call) ? 0 : past->desc.dims[2];
    kilni_onnx_ref parts[] = {past, x};
    kilni_onnx_ref present = x;
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    if (g->prompt && room > g->rows) {
        parts[0] = x;
        parts[1] = kilni_onnx_slice_axis(call, past, 2, g->rows, room, 1);
        present = kilni_onnx_concat(call, parts, 2, 2);
    } else if (!g->prompt && g->batch == 1 && room + g->rows == g->total) {
        present = x = kilni_onnx_concat(call, parts, 2, 2);
    } else if (!g->prompt) {
        const int64_t padding[] = {0, 0, 0, 0, 0, 0, room < g->total ? g->total - room : 0, 0};
        past =
            room < g->total ? kilni_onnx_pad(call, past, padding, "constant", kiln_f64(0)) : past;
        present = x = written(call, g, past, x);
        x = room > g->total ? kilni_onnx_slice_axis(call, x, 2, 0, g->total, 1) : x;
    }
    kilni_onnx_out(call, out, present);
    return x;
}

// ---- what is seen ----

static void take_sink(kilni_onnx_call *call, grouped_query *g)
{
    kilni_onnx_ref sink = kilni_onnx_opt(call, 11);
    const int64_t dims[] = {1, g->heads, 1, 1};
    if (sink == NULL && kilni_onnx_attr_int(call, "smooth_softmax", 0) != 0) {
        sink = kilni_onnx_full(call, KILN_DTYPE_F32, dims, 4, kiln_f64(0));
    }
    if (sink != NULL && kilni_onnx_ok(call)) {
        g->a.sink = kilni_onnx_reshape(call, sink, dims, 4);
    }
}

static void find_keys(kilni_onnx_call *call, grouped_query *g)
{
    const int64_t dims[] = {g->batch, 1, 1, 1};
    int64_t window = kilni_onnx_attr_int(call, "local_window_size", -1);
    bool one = g->batch == 1 && g->past[0] != NULL && kilni_onnx_ok(call) &&
               g->past[0]->desc.dims[2] + g->rows == g->total;
    if (g->first != NULL && !one) {
        g->a.first = kilni_onnx_reshape(call, g->first, dims, 4);
    }
    g->a.offset = g->total - g->rows;
    if (kilni_onnx_attr_int(call, "causal", 1) != 0) {
        kilni_onnx_hide_far(call, &g->a, KILN_OP_GREATER, 0);
    } else {
        kilni_onnx_hide_from(call, &g->a, kilni_onnx_reshape(call, g->lengths, dims, 4));
    }
    if (window > 0) {
        kilni_onnx_hide_far(call, &g->a, KILN_OP_LESS, window - 1);
    }
    kilni_onnx_take_bias(call, &g->a, kilni_onnx_opt(call, 10));
    take_sink(call, g);
}

void kilni_onnx_op_group_query_attention(kilni_onnx_call *call)
{
    static const int64_t turned[] = {0, 2, 1, 3};
    grouped_query g = {.heads = kilni_onnx_attr_int(call, "num_heads", 0),
                       .key_heads = kilni_onnx_attr_int(call, "kv_num_heads", 0)};
    refuse_what_is_missing(call);
    if (g.heads < 1 || g.key_heads < 1 || g.heads > INT32_MAX || g.heads % g.key_heads != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "num_heads is %lld and kv_num_heads %lld",
                        (long long)g.heads, (long long)g.key_heads);
        return;
    }
    take_heads(call, &g);
    take_pasts(call, &g);
    take_lengths(call, &g);
    norm_heads(call, &g);
    turn_heads(call, &g);
    for (int i = 0; i < 3; i++) {
        g.three[i] = kilni_onnx_permute(call, g.three[i], turned, 4);
    }
    g.a.query = g.three[0];
    g.a.key = cached(call, &g, g.past[0], g.three[1], 1);
    g.a.value = cached(call, &g, g.past[1], g.three[2], 2);
    g.a.flat = true;
    g.a.cap = kilni_onnx_attr_float(call, "softcap", 0);
    kilni_onnx_attention_measure(call, &g.a);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    g.a.scale = kilni_onnx_attr_float(call, "scale", 0);
    g.a.scale = g.a.scale != 0.0 ? g.a.scale : kilni_onnx_default_scale(&g.a);
    find_keys(call, &g);
    kilni_onnx_out(call, 0, kilni_onnx_attend(call, &g.a));
}
