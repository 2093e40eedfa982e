// SPDX-License-Identifier: MIT OR Apache-2.0
// What decoders of text have beside Attention: rotary positions, caches written in place, and the
// two layers with a state that go along the text (linear attention, causal convolution). All are
// decompositions that take their formula from ONNX's own function bodies.
#include "onnx_parts.h"
#include "onnx_run.h"

#include <math.h>
#include <string.h>

// ---- rotary positions ----

/// [batch, rows, 1 or heads, size]: the layout in which positions broadcast over heads.
static kilni_onnx_ref with_heads(kilni_onnx_call *call, kilni_onnx_ref x)
{
    static const int64_t turned[] = {0, 2, 1, 3};
    int64_t heads = kilni_onnx_attr_int(call, "num_heads", 0);
    if (!kilni_onnx_ok(call) || x->desc.rank == 4) {
        return kilni_onnx_ok(call) ? kilni_onnx_permute(call, x, turned, 4) : NULL;
    }
    if (x->desc.rank != 3 || heads < 1 || x->desc.dims[2] % heads != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "%lld heads for an input of rank %u: num_heads has to divide its columns",
                        (long long)heads, x->desc.rank);
        return NULL;
    }
    const int64_t dims[] = {x->desc.dims[0], x->desc.dims[1], heads, x->desc.dims[2] / heads};
    return kilni_onnx_reshape(call, x, dims, 4);
}

/// A table of cosines or sines as [batch, rows, 1, half], taken at positions where they are given.
static kilni_onnx_ref angles(kilni_onnx_call *call, kilni_onnx_ref table, kilni_onnx_ref positions,
                             const int64_t *x, int64_t half)
{
    if (positions != NULL && kilni_onnx_ok(call)) {
        const int64_t flat[] = {kiln_desc_count(&positions->desc)};
        table = kilni_onnx_indexed(call, KILN_OP_SELECT, table,
                                   kilni_onnx_reshape(call, positions, flat, 1), 0);
    }
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    const kiln_tensor_desc *d = &table->desc;
    if (d->rank == 0 || d->dims[d->rank - 1u] != half || kiln_desc_count(d) != x[0] * x[1] * half) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "cos_cache and sin_cache do not give %lld numbers for each of %lld x %lld "
                        "positions",
                        (long long)half, (long long)x[0], (long long)x[1]);
        return NULL;
    }
    const int64_t dims[] = {x[0], x[1], 1, half};
    return kilni_onnx_reshape(call, table, dims, 4);
}

static kilni_onnx_ref turn(kilni_onnx_call *call, kilni_onnx_ref a, kilni_onnx_ref a_factor,
                           kilni_onnx_ref b, kilni_onnx_ref b_factor, kiln_op op)
{
    a = kilni_onnx_binary(call, KILN_OP_MUL, a, a_factor);
    b = kilni_onnx_binary(call, KILN_OP_MUL, b, b_factor);
    return kilni_onnx_binary(call, op, a, b);
}

/// Pairs of the first `size` columns, turned: neighbours, or one of each half.
static kilni_onnx_ref rotated(kilni_onnx_call *call, kilni_onnx_ref x, int64_t size,
                              const kilni_onnx_rotation *by)
{
    const int64_t *d = x->desc.dims;
    int64_t step = by->neighbours ? 2 : 1;
    int64_t second = by->neighbours ? 1 : size / 2;
    kilni_onnx_ref cosine = angles(call, by->cosine, by->positions, d, size / 2);
    kilni_onnx_ref sine = angles(call, by->sine, by->positions, d, size / 2);
    kilni_onnx_ref a = kilni_onnx_slice_axis(call, x, 3, 0, by->neighbours ? size : size / 2, step);
    kilni_onnx_ref b = kilni_onnx_slice_axis(call, x, 3, second, size, step);
    kilni_onnx_ref parts[] = {turn(call, a, cosine, b, sine, KILN_OP_SUB),
                              turn(call, a, sine, b, cosine, KILN_OP_ADD)};
    if (!by->neighbours) {
        return kilni_onnx_concat(call, parts, 2, 3);
    }
    const int64_t apart[] = {d[0], d[1], d[2], size / 2, 1};
    const int64_t joined[] = {d[0], d[1], d[2], size};
    for (int i = 0; i < 2; i++) {
        parts[i] = kilni_onnx_reshape(call, parts[i], apart, 5);
    }
    return kilni_onnx_reshape(call, kilni_onnx_concat(call, parts, 2, 4), joined, 4);
}

kilni_onnx_ref kilni_onnx_rotate(kilni_onnx_call *call, kilni_onnx_ref x,
                                 const kilni_onnx_rotation *by)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    int64_t whole = x->desc.dims[3];
    int64_t size = by->size == 0 ? whole : by->size;
    if (size < 0 || size > whole || size % 2 != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld of %lld columns cannot be turned in pairs",
                        (long long)size, (long long)whole);
        return NULL;
    }
    kilni_onnx_ref y = rotated(call, x, size, by);
    if (size == whole) {
        return y;
    }
    const kilni_onnx_ref parts[] = {y, kilni_onnx_slice_axis(call, x, 3, size, whole, 1)};
    return kilni_onnx_concat(call, parts, 2, 3);
}

void kilni_onnx_op_rotary_embedding(kilni_onnx_call *call)
{
    static const int64_t turned[] = {0, 2, 1, 3};
    kilni_onnx_ref given = kilni_onnx_in(call, 0);
    const kilni_onnx_rotation by = {.cosine = kilni_onnx_in(call, 1),
                                    .sine = kilni_onnx_in(call, 2),
                                    .positions = kilni_onnx_opt(call, 3),
                                    .size = kilni_onnx_attr_int(call, "rotary_embedding_dim", 0),
                                    .neighbours = kilni_onnx_attr_int(call, "interleaved", 0) != 0};
    kilni_onnx_ref y = kilni_onnx_rotate(call, with_heads(call, given), &by);
    if (kilni_onnx_ok(call)) {
        y = given->desc.rank == 4 ? kilni_onnx_permute(call, y, turned, 4)
                                  : kilni_onnx_reshape(call, y, given->desc.dims, 3);
    }
    kilni_onnx_out(call, 0, y);
}

// ---- caches ----

/// Where each row of the update goes: the sample's first place and what follows, round the end of
/// the cache in circular mode.
static kilni_onnx_ref written_places(kilni_onnx_call *call, const kiln_tensor_desc *update,
                                     uint32_t axis, int64_t capacity)
{
    const char *mode = kilni_onnx_attr_text(call, "mode", "linear");
    bool circular = strcmp(mode, "circular") == 0;
    int64_t dims[KILN_MAX_RANK];
    for (uint32_t i = 0; i < update->rank; i++) {
        dims[i] = i == axis ? update->dims[axis] : 1;
    }
    if (!circular && strcmp(mode, "linear") != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "mode '%.32s' is neither linear nor circular",
                        mode);
    }
    kilni_onnx_ref line =
        kilni_onnx_arange(call, KILN_DTYPE_I64, dims[axis], kiln_i64(0), kiln_i64(1));
    line = kilni_onnx_reshape(call, line, dims, update->rank);
    kilni_onnx_ref first = kilni_onnx_opt(call, 2);
    if (first != NULL) {
        dims[axis] = 1;
        dims[0] = update->dims[0];
        line = kilni_onnx_binary(call, KILN_OP_ADD, line,
                                 kilni_onnx_reshape(call, first, dims, update->rank));
    }
    line = circular ? kilni_onnx_scalar_int(call, KILN_OP_REM_SCALAR, line, capacity) : line;
    return kilni_onnx_expand(call, line, update->dims, update->rank);
}

void kilni_onnx_op_tensor_scatter(kilni_onnx_call *call)
{
    kilni_onnx_ref cache = kilni_onnx_in(call, 0);
    kilni_onnx_ref update = kilni_onnx_in(call, 1);
    int64_t given = kilni_onnx_attr_int(call, "axis", -2);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t axis = kilni_onnx_axis(call, given, cache->desc.rank);
    if (kilni_onnx_ok(call) && (axis == 0 || update->desc.rank != cache->desc.rank ||
                                update->desc.dims[axis] > cache->desc.dims[axis])) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "update of rank %u does not fit along axis %u of a cache of rank %u",
                        update->desc.rank, axis, cache->desc.rank);
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    kilni_onnx_ref places = written_places(call, &update->desc, axis, cache->desc.dims[axis]);
    const kilni_onnx_ref inputs[] = {cache, update, places};
    const kiln_attr attrs[] = {
        kilni_attr_i64(axis),
        {.type = KILN_ATTR_STRING, .count = sizeof("assign") - 1, .v.text = "assign"}};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_SCATTER, inputs, 3, attrs, 2));
}

// ---- causal convolution ----

static kilni_onnx_ref swish_as_asked(kilni_onnx_call *call, kilni_onnx_ref x)
{
    const char *name = kilni_onnx_attr_text(call, "activation", "none");
    if (strcmp(name, "none") == 0) {
        return x;
    }
    if (strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "activation '%.32s' is not none, silu or swish",
                        name);
    }
    return kilni_onnx_binary(call, KILN_OP_MUL, x, kilni_onnx_unary(call, KILN_OP_SIGMOID, x));
}

/// What stood before x, zeros where nothing is given; the state is the end of both.
void kilni_onnx_op_causal_conv(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref weight = kilni_onnx_in(call, 1);
    kilni_onnx_ref bias = kilni_onnx_opt(call, 2);
    kilni_onnx_ref past = kilni_onnx_opt(call, 3);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (x->desc.rank != 3 || weight->desc.rank != 3 || weight->desc.dims[2] < 1) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input of rank %u and weight of rank %u, not 3",
                        x->desc.rank, weight->desc.rank);
        return;
    }
    int64_t before = weight->desc.dims[2] - 1;
    const int64_t padding[] = {0, 0, before, 0, 0, 0};
    const kilni_onnx_ref parts[] = {past, x};
    kilni_onnx_ref whole = past == NULL ? kilni_onnx_pad(call, x, padding, "constant", kiln_f64(0))
                                        : kilni_onnx_concat(call, parts, 2, 2);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    const int64_t one = 1;
    const int64_t none[] = {0, 0};
    const kilni_onnx_ref inputs[] = {whole, weight, bias};
    const kiln_attr attrs[] = {kilni_attr_ints(&one, 1), kilni_attr_ints(none, 2),
                               kilni_attr_ints(&one, 1), kilni_attr_i64(x->desc.dims[1])};
    kilni_onnx_ref y = kilni_onnx_emit(call, KILN_OP_CONV, inputs, bias == NULL ? 2 : 3, attrs, 4);
    int64_t length = whole->desc.dims[2];
    kilni_onnx_out(call, 0, swish_as_asked(call, y));
    kilni_onnx_out(call, 1, kilni_onnx_slice_axis(call, whole, 2, length - before, length, 1));
}

// ---- linear attention ----

typedef struct recurrence {
    kilni_onnx_ref query; ///< [batch, rows, heads, key size], heads those of a key after each other
    kilni_onnx_ref key; ///< [batch, rows, key heads, key size]
    kilni_onnx_ref value; ///< [batch, rows, key heads, value size]
    kilni_onnx_ref decay; ///< [batch, rows, key heads, key size or 1]: a factor; NULL: none
    kilni_onnx_ref rate; ///< [batch, rows, key heads or 1, 1]; NULL: what is there stays
    kilni_onnx_ref state; ///< [batch, key heads, key size, value size]; NULL: zeros
    int64_t batch, rows, heads, key_heads, size, value_size;
} recurrence;

/// [batch, rows, heads, length / heads] in f32
static kilni_onnx_ref unpacked(kilni_onnx_call *call, kilni_onnx_ref x, int64_t heads)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    if (x->desc.rank != 3 || heads < 1 || x->desc.dims[2] % heads != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld heads do not divide an input of rank %u",
                        (long long)heads, x->desc.rank);
        return NULL;
    }
    const int64_t dims[] = {x->desc.dims[0], x->desc.dims[1], heads, x->desc.dims[2] / heads};
    return kilni_onnx_reshape(call, kilni_onnx_cast(call, x, KILN_DTYPE_F32), dims, 4);
}

/// An input that the rule has, or has not.
static kilni_onnx_ref of_rule(kilni_onnx_call *call, uint32_t index, bool has, const char *rule)
{
    kilni_onnx_ref x = kilni_onnx_opt(call, index);
    if (kilni_onnx_ok(call) && has != (x != NULL)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "update_rule '%s' %s input %u", rule,
                        has ? "needs" : "has no", index);
    }
    return has ? x : NULL;
}

static void read_recurrence(kilni_onnx_call *call, recurrence *r)
{
    const char *rule = kilni_onnx_attr_text(call, "update_rule", "gated_delta");
    bool gated = strncmp(rule, "gated", 5) == 0;
    bool delta = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0;
    if (!delta && strcmp(rule, "linear") != 0 && strcmp(rule, "gated") != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "update_rule '%.32s' is not known", rule);
    }
    kilni_onnx_ref decay = of_rule(call, 4, gated, rule);
    kilni_onnx_ref rate = of_rule(call, 5, delta, rule);
    r->heads = kilni_onnx_attr_int(call, "q_num_heads", 0);
    r->key_heads = kilni_onnx_attr_int(call, "kv_num_heads", 0);
    r->query = unpacked(call, kilni_onnx_in(call, 0), r->heads);
    r->key = unpacked(call, kilni_onnx_in(call, 1), r->key_heads);
    r->value = unpacked(call, kilni_onnx_in(call, 2), r->key_heads);
    r->decay = decay == NULL
                   ? NULL
                   : kilni_onnx_unary(call, KILN_OP_EXP, unpacked(call, decay, r->key_heads));
    if (kilni_onnx_ok(call) && rate != NULL) {
        bool shared = rate->desc.rank == 3 && rate->desc.dims[2] == 1;
        r->rate = unpacked(call, rate, shared ? 1 : r->key_heads);
    }
    r->state = kilni_onnx_opt(call, 3);
    r->state = r->state == NULL ? NULL : kilni_onnx_cast(call, r->state, KILN_DTYPE_F32);
    if (kilni_onnx_ok(call) && r->heads % r->key_heads != 0) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld heads of the query cannot share %lld",
                        (long long)r->heads, (long long)r->key_heads);
    }
    if (!kilni_onnx_ok(call)) {
        return;
    }
    r->batch = r->query->desc.dims[0];
    r->rows = r->query->desc.dims[1];
    r->size = r->query->desc.dims[3];
    r->value_size = r->value->desc.dims[3];
    int64_t factors = r->decay == NULL ? 1 : r->decay->desc.dims[3];
    if (r->size < 1 || (factors != 1 && factors != r->size)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld factors of decay for keys of %lld numbers",
                        (long long)factors, (long long)r->size);
    }
}

/// Row `at` as [batch, heads or key heads, height, width]
static kilni_onnx_ref row_of(kilni_onnx_call *call, kilni_onnx_ref x, int64_t at, int64_t heads,
                             int64_t height)
{
    if (!kilni_onnx_ok(call) || x == NULL) {
        return NULL;
    }
    const int64_t *d = x->desc.dims;
    const int64_t dims[] = {d[0], heads, height, d[2] * d[3] / (heads * height)};
    return kilni_onnx_reshape(call, kilni_onnx_slice_axis(call, x, 1, at, at + 1, 1), dims, 4);
}

/// state * decay + key (value - what the state has for the key already, by the delta rules)
static void step(kilni_onnx_call *call, recurrence *r, int64_t at)
{
    int64_t n = r->key_heads;
    kilni_onnx_ref key = row_of(call, r->key, at, n, r->size);
    kilni_onnx_ref value = row_of(call, r->value, at, n, 1);
    if (r->decay != NULL && r->state != NULL) {
        kilni_onnx_ref decay = row_of(call, r->decay, at, n, r->decay->desc.dims[3]);
        r->state = kilni_onnx_binary(call, KILN_OP_MUL, r->state, decay);
    }
    if (r->rate != NULL) {
        if (r->state != NULL) {
            kilni_onnx_ref known = kilni_onnx_matmul(call, key, r->state, true, false);
            value = kilni_onnx_binary(call, KILN_OP_SUB, value, known);
        }
        kilni_onnx_ref rate = row_of(call, r->rate, at, r->rate->desc.dims[2], 1);
        value = kilni_onnx_binary(call, KILN_OP_MUL, value, rate);
    }
    kilni_onnx_ref more = kilni_onnx_binary(call, KILN_OP_MUL, key, value);
    r->state = r->state == NULL ? more : kilni_onnx_binary(call, KILN_OP_ADD, r->state, more);
}

/// The rows' outputs, [batch, key heads, heads for each, value size], beside each other.
static kilni_onnx_ref go_along(kilni_onnx_call *call, recurrence *r)
{
    kilni_onnx_ref *parts = kiln_alloc_array(&call->session->env, (size_t)r->rows, sizeof(*parts));
    const int64_t row[] = {r->batch, 1, r->heads * r->value_size};
    if (parts == NULL) {
        KILNI_ONNX_FAIL(call, RESOURCE_EXHAUSTED, "no memory for %lld rows", (long long)r->rows);
    }
    for (int64_t i = 0; kilni_onnx_ok(call) && i < r->rows; i++) {
        step(call, r, i);
        kilni_onnx_ref query = row_of(call, r->query, i, r->key_heads, r->heads / r->key_heads);
        parts[i] = kilni_onnx_matmul(call, query, r->state, false, false);
        parts[i] = kilni_onnx_reshape(call, parts[i], row, 3);
    }
    kilni_onnx_ref all =
        kilni_onnx_ok(call) ? kilni_onnx_concat(call, parts, (uint32_t)r->rows, 1) : NULL;
    kiln_free(&call->session->env, parts);
    return all;
}

/// `chunk_size` is a hint for others.
void kilni_onnx_op_linear_attention(kilni_onnx_call *call)
{
    recurrence r = {0};
    read_recurrence(call, &r);
    double scale = kilni_onnx_attr_float(call, "scale", 0);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    if (r.rows < 1 || r.rows > KILNI_ONNX_MAX_ITEMS) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "a text of %lld rows", (long long)r.rows);
        return;
    }
    kiln_dtype own = kilni_onnx_in(call, 0)->desc.dtype;
    kilni_onnx_ref past = kilni_onnx_opt(call, 3);
    kilni_onnx_ref y = go_along(call, &r);
    y = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, y,
                          scale == 0 ? 1 / sqrt((double)r.size) : scale);
    kilni_onnx_out(call, 0, kilni_onnx_cast(call, y, own));
    kilni_onnx_out(call, 1, kilni_onnx_cast(call, r.state, past == NULL ? own : past->desc.dtype));
}
