// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes streams: picks operands that fit or new ones, attributes by their type, and keeps what the
// table's own verifier lets through. Most operations go on from the latest result, as programs do.

#include "plugin_stream.h"

#include <stdio.h>
#include <string.h>

enum { TINY = 3000, SMALL = 40000, LARGE = 4 << 20 };

uint64_t stream_draw(stream *s) // splitmix64
{
    uint64_t z = (s->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t stream_below(stream *s, uint32_t limit)
{
    return (uint32_t)(stream_draw(s) % limit);
}

bool stream_chance(stream *s, uint32_t percent)
{
    return stream_below(s, 100) < percent;
}

static int64_t count_of(const stream_tensor *t)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        count *= t->dims[i];
    }
    return count;
}

void stream_init(stream *s, uint64_t seed)
{
    static const int64_t extents[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64, 100, 129, 257};
    memset(s, 0, sizeof(*s));
    s->state = seed;
    s->most = SMALL;
    for (uint32_t i = 0; i < 4; i++) {
        s->base[i] = extents[stream_below(s, sizeof(extents) / sizeof(extents[0]))];
    }
}

void stream_init_small(stream *s, uint64_t seed)
{
    static const int64_t extents[] = {1, 2, 3, 5, 8, 13, 16, 17, 33};
    stream_init(s, seed);
    s->most = TINY;
    for (uint32_t i = 0; i < 4; i++) {
        s->base[i] = extents[stream_below(s, sizeof(extents) / sizeof(extents[0]))];
    }
}

void stream_init_large(stream *s, uint64_t seed)
{
    stream_init(s, seed);
    static const int64_t extents[] = {8, 16, 64, 100, 256, 300, 512, 1024};
    s->most = LARGE;
    for (uint32_t i = 0; i < 4; i++) {
        s->base[i] = extents[stream_below(s, sizeof(extents) / sizeof(extents[0]))];
    }
}

bool stream_is_large(const stream *s)
{
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        if (count_of(&s->tensors[i]) >= LARGE / 8) {
            return true;
        }
    }
    return false;
}

// ---- tensors ----

static uint32_t add_tensor(stream *s, const stream_tensor *t)
{
    if (s->n_tensors == STREAM_TENSORS || count_of(t) > s->most) {
        return UINT32_MAX;
    }
    s->tensors[s->n_tensors] = *t;
    return s->n_tensors++;
}

static kiln_dtype any_dtype(stream *s)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F16,  KILN_DTYPE_I32, KILN_DTYPE_F64,
                                        KILN_DTYPE_BF16, KILN_DTYPE_I8,  KILN_DTYPE_U32,
                                        KILN_DTYPE_I64,  KILN_DTYPE_BOOL};
    return stream_chance(s, 70) ? KILN_DTYPE_F32
                                : dtypes[stream_below(s, sizeof(dtypes) / sizeof(dtypes[0]))];
}

static void any_shape(stream *s, stream_tensor *t)
{
    t->rank = stream_chance(s, 10) ? 0 : 1 + stream_below(s, 4);
    for (uint32_t i = 0; i < t->rank; i++) {
        t->dims[i] = stream_chance(s, 12) ? 1 : s->base[(4 - t->rank + i) % 4];
    }
    while (count_of(t) > s->most) {
        memmove(t->dims, t->dims + 1, sizeof(t->dims) - sizeof(t->dims[0]));
        t->rank--;
    }
}

/// An operand of a product with `beside`: it shares one of the last two extents.
static void matrix_beside(stream *s, stream_tensor *t, const stream_tensor *beside)
{
    int64_t last = beside->dims[beside->rank - 1];
    int64_t shared =
        beside->rank >= 2 && stream_chance(s, 35) ? beside->dims[beside->rank - 2] : last;
    int64_t other = s->base[stream_below(s, 4)];
    uint32_t batch = beside->rank < 2 || stream_chance(s, 50) ? 0 : beside->rank - 2;
    for (uint32_t i = 0; i < batch; i++) {
        t->dims[i] = stream_chance(s, 15) ? 1 : beside->dims[i];
    }
    t->rank = batch + 2;
    bool first = stream_chance(s, 60);
    t->dims[batch] = first ? shared : other;
    t->dims[batch + 1] = first ? other : shared;
}

/// A shape that goes with `beside`: the same, one that broadcasts, or one that shares an extent.
static void shape_beside(stream *s, stream_tensor *t, const stream_tensor *beside)
{
    uint32_t roll = stream_below(s, 100);
    if (roll >= 93 || beside->rank == 0) {
        any_shape(s, t);
        return;
    }
    if (roll >= 68) {
        matrix_beside(s, t, beside);
        return;
    }
    t->rank = beside->rank;
    memcpy(t->dims, beside->dims, sizeof(t->dims));
    if (roll >= 45) { // fewer axes, or some of length 1
        uint32_t cut = stream_chance(s, 40) ? t->rank - 1 : stream_below(s, t->rank + 1);
        memmove(t->dims, t->dims + cut, (t->rank - cut) * sizeof(t->dims[0]));
        t->rank -= cut;
        for (uint32_t i = 0; i < t->rank; i++) {
            t->dims[i] = stream_chance(s, 20) ? 1 : t->dims[i];
        }
    }
}

static void any_layout(stream *s, stream_tensor *t)
{
    uint32_t roll = stream_below(s, 100);
    t->constant = stream_chance(s, 20);
    if (roll >= 75 && t->rank >= 1) {
        t->layout = roll >= 95                   ? STREAM_FLIPPED
                    : roll >= 91                 ? STREAM_PADDED
                    : roll >= 87 || t->rank == 1 ? STREAM_SHIFTED
                                                 : STREAM_SWAPPED;
    }
}

bool stream_is_result(const stream *s, uint32_t tensor)
{
    return !s->tensors[tensor].external && !s->tensors[tensor].dropped;
}

/// The living result that is `back` results before the latest; UINT32_MAX: there is none.
static uint32_t latest(const stream *s, uint32_t back)
{
    for (uint32_t i = s->n_tensors; i > 0; i--) {
        if (stream_is_result(s, i - 1) && back-- == 0) {
            return i - 1;
        }
    }
    return UINT32_MAX;
}

typedef struct wish { ///< what an operand may be
    kiln_dtype dtype; ///< NONE: any of `kinds`
    uint32_t kinds;
    bool index;
} wish;

static bool suits(const stream *s, uint32_t tensor, const wish *w)
{
    const stream_tensor *t = tensor == UINT32_MAX ? NULL : &s->tensors[tensor];
    return t != NULL && !t->dropped && t->top == 0 &&
           (w->dtype == KILN_DTYPE_NONE || t->dtype == w->dtype) &&
           (kiln_dtype_kind_of(t->dtype) & w->kinds) != 0;
}

/// A living tensor that will do, late ones more often; UINT32_MAX: none was found.
static uint32_t pick(stream *s, const wish *w)
{
    for (int i = 0; i < 8 && s->n_tensors > 0; i++) {
        uint32_t roll = stream_below(s, 100);
        uint32_t at = roll < 40   ? latest(s, 1)
                      : roll < 80 ? latest(s, stream_below(s, 6))
                                  : stream_below(s, s->n_tensors);
        if (suits(s, at, w)) {
            return at;
        }
    }
    return UINT32_MAX;
}

static wish wish_of(const kiln_op_info *info, uint32_t i, kiln_dtype data)
{
    const kiln_op_signature *sig = info->signature;
    wish w = {data, info->accept, false};
    if ((sig->mask_inputs >> i & 1u) != 0) {
        w = (wish){KILN_DTYPE_BOOL, UINT32_MAX, false};
    } else if ((sig->index_inputs >> i & 1u) != 0) {
        w = (wish){KILN_DTYPE_I64, UINT32_MAX, true};
    } else if ((sig->free_inputs >> i & 1u) != 0) {
        w.dtype = KILN_DTYPE_NONE;
    }
    return w;
}

static int64_t least_extent(const stream_tensor *t)
{
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; t != NULL && i < t->rank; i++) {
        least = t->dims[i] < least ? t->dims[i] : least;
    }
    return least == INT64_MAX ? 1 : least;
}

static uint32_t operand(stream *s, const wish *w, const stream_tensor *beside)
{
    stream_tensor made = {.external = true};
    uint32_t found =
        w->index || stream_chance(s, beside == NULL ? 15 : 45) ? UINT32_MAX : pick(s, w);
    if (found != UINT32_MAX) {
        return found;
    }
    made.dtype = w->dtype != KILN_DTYPE_NONE ? w->dtype : any_dtype(s);
    if (beside == NULL) {
        any_shape(s, &made);
    } else {
        shape_beside(s, &made, beside);
    }
    if (w->index) {
        made.top = least_extent(beside);
    } else {
        any_layout(s, &made);
    }
    return add_tensor(s, &made);
}

/// Operands, of which one is mostly the latest result; the others go with it.
static bool choose_operands(stream *s, stream_op *op, const kiln_op_info *info)
{
    uint32_t last = latest(s, 0);
    uint32_t anchored =
        last != UINT32_MAX && stream_chance(s, 75) ? stream_below(s, op->n_inputs) : UINT32_MAX;
    const stream_tensor *beside = NULL;
    kiln_dtype data = KILN_DTYPE_NONE;
    if (anchored != UINT32_MAX) {
        wish w = wish_of(info, anchored, KILN_DTYPE_NONE);
        anchored = suits(s, last, &w) && !w.index ? anchored : UINT32_MAX;
        beside = anchored == UINT32_MAX ? NULL : &s->tensors[last];
        data = beside != NULL && w.kinds == info->accept ? beside->dtype : data;
    }
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        wish w = wish_of(info, i, data);
        op->inputs[i] = i == anchored ? last : operand(s, &w, beside);
        if (op->inputs[i] == UINT32_MAX) {
            return false;
        }
        bool is_data = !w.index && w.kinds == info->accept;
        beside = beside == NULL ? &s->tensors[op->inputs[i]] : beside;
        data = data == KILN_DTYPE_NONE && is_data ? s->tensors[op->inputs[i]].dtype : data;
    }
    return true;
}

// ---- attributes ----

/// Extents: the same with axes of length 1 grown, the first two as one, or one of length 1 put in.
static uint32_t fill_shape(stream *s, int64_t *out, const stream_tensor *in)
{
    uint32_t roll = stream_below(s, in->rank < STREAM_LIST ? 100 : 80), n = 0;
    uint32_t at = stream_below(s, in->rank + 1);
    for (uint32_t i = 0; i < in->rank; i++) {
        if (roll >= 80 && i == at) {
            out[n++] = 1;
        }
        if (roll >= 55 && roll < 80 && i == 1) {
            out[0] *= in->dims[1];
        } else {
            bool grows = roll < 55 && in->dims[i] == 1;
            out[n++] = grows ? s->base[stream_below(s, 4)] : in->dims[i];
        }
    }
    return n;
}

static uint32_t fill_axes(stream *s, int64_t *out, const stream_tensor *in)
{
    uint32_t n = 0;
    if (in->rank > 0 && stream_chance(s, 65)) {
        out[n++] = (int64_t)in->rank - 1;
        return n;
    }
    for (uint32_t i = 0; i < in->rank; i++) {
        if (stream_chance(s, 45)) {
            out[n++] = i;
        }
    }
    return n;
}

/// All axes in another order, mostly with the last two swapped.
static uint32_t fill_order(stream *s, int64_t *out, const stream_tensor *in)
{
    bool swap = in->rank >= 2 && stream_chance(s, 60);
    for (uint32_t i = 0; i < in->rank; i++) {
        uint32_t other = swap ? i : stream_below(s, i + 1);
        out[i] = out[other];
        out[other] = i;
    }
    if (swap) {
        out[in->rank - 2] = in->rank - 1;
        out[in->rank - 1] = in->rank - 2;
    }
    return in->rank;
}

static uint32_t fill_list(stream *s, const stream_op *op, kiln_attr_key key, int64_t *out,
                          const stream_tensor *in)
{
    uint32_t n = 0;
    switch (key) {
    case KILN_KEY_SHAPE:
        return fill_shape(s, out, in);
    case KILN_KEY_STARTS:
    case KILN_KEY_STEPS:
        for (; n < in->rank; n++) {
            int64_t usual = key == KILN_KEY_STEPS ? 1 : 0;
            out[n] = stream_chance(s, 80) ? usual : usual + 1;
        }
        return n;
    case KILN_KEY_ENDS:
        for (; n < in->rank; n++) {
            out[n] = in->dims[n] - (stream_chance(s, 20) && in->dims[n] > 2 ? 1 : 0);
        }
        return n;
    default:
        return op->op == KILN_OP_PERMUTE ? fill_order(s, out, in) : fill_axes(s, out, in);
    }
}

static void fill_number(stream *s, kiln_attr *attr, const stream_tensor *in, bool low)
{
    double x = (double)stream_below(s, 4000) / 1000.0 - (low ? 4 : 0);
    kiln_dtype_kind kind = kiln_dtype_kind_of(in->dtype);
    *attr = (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v.f = x};
    if (kind != KILN_KIND_FLOAT) {
        attr->type = KILN_ATTR_I64;
        attr->v.i = in->dtype == KILN_DTYPE_BOOL ? x > 2 : kind == KILN_KIND_INT ? (int64_t)x : 3;
    }
}

/// False for a type that has no random values.
static bool fill_attr(stream *s, stream_op *op, uint32_t slot, const kiln_attr_spec *spec,
                      const stream_tensor *in)
{
    kiln_attr *attr = &op->attrs[slot];
    *attr = (kiln_attr){.type = KILN_ATTR_NONE};
    bool axis = spec->key == KILN_KEY_AXIS || spec->key == KILN_KEY_AXES;
    if (spec->optional && !axis && stream_chance(s, 70)) {
        return true;
    }
    switch (kiln_attr_type_of(spec->key)) {
    case KILN_ATTR_NUMBER:
        fill_number(s, attr, in, spec->key == KILN_KEY_MIN);
        return true;
    case KILN_ATTR_F64:
        *attr = (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v.f = 0.125};
        return true;
    case KILN_ATTR_I64:
        *attr = (kiln_attr){.type = KILN_ATTR_I64, .count = 1, .v.i = 1};
        if (axis) {
            attr->v.i =
                in->rank == 0 || stream_chance(s, 70) ? -1 : (int64_t)stream_below(s, in->rank);
        }
        return true;
    case KILN_ATTR_BOOL:
        *attr = (kiln_attr){.type = KILN_ATTR_BOOL, .count = 1, .v.i = stream_chance(s, 40)};
        return true;
    case KILN_ATTR_DTYPE:
        *attr = (kiln_attr){.type = KILN_ATTR_DTYPE, .count = 1, .v.i = any_dtype(s)};
        return true;
    case KILN_ATTR_I64_LIST:
        attr->count = fill_list(s, op, spec->key, op->lists[slot], in);
        attr->type = KILN_ATTR_I64_LIST;
        return true;
    default:
        return spec->optional;
    }
}

// ---- operations ----

static void describe(const stream_tensor *t, uint64_t id, kiln_tensor_desc *out)
{
    *out = (kiln_tensor_desc){.id = id, .dtype = t->dtype, .rank = (uint8_t)t->rank};
    memcpy(out->dims, t->dims, t->rank * sizeof(t->dims[0]));
}

/// Lets the table's verifier say what the operation gives; false: it is not allowed.
static bool infer(stream *s, stream_op *op)
{
    kiln_tensor_desc in[KILN_MAX_NAMED_INPUTS];
    kiln_tensor_desc out[KILN_MAX_OUTPUTS];
    kiln_attr attrs[KILN_MAX_ATTRS];
    const kiln_op_info *info = kiln_op_info_of(op->op);
    memset(out, 0, sizeof(out));
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        describe(&s->tensors[op->inputs[i]], op->inputs[i] + 1, &in[i]);
    }
    for (uint32_t i = 0; i < info->signature->n_attrs; i++) {
        attrs[i] = op->attrs[i];
        if (attrs[i].type == KILN_ATTR_I64_LIST) {
            attrs[i].v.ints = op->lists[i];
        }
    }
    kiln_op_record record = {.op = op->op,
                             .n_inputs = (uint16_t)op->n_inputs,
                             .n_outputs = info->n_outputs,
                             .n_attrs = info->signature->n_attrs,
                             .inputs = in,
                             .outputs = out,
                             .attrs = attrs};
    if (kiln_ir_infer(&record, out, NULL) != KILN_STATUS_OK) {
        return false;
    }
    op->n_outputs = info->n_outputs;
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        stream_tensor made = {.dtype = out[i].dtype, .rank = out[i].rank};
        memcpy(made.dims, out[i].dims, sizeof(made.dims));
        op->outputs[i] =
            out[i].scheme != 0 || count_of(&made) == 0 ? UINT32_MAX : add_tensor(s, &made);
        if (op->outputs[i] == UINT32_MAX) {
            return false;
        }
    }
    return true;
}

bool stream_begin_conv(stream *s)
{
    static const int64_t channels[] = {32, 64, 128};
    int64_t c = channels[stream_below(s, 3)], side = stream_chance(s, 50) ? 28 : 56;
    int64_t window = stream_chance(s, 60) ? 3 : 1;
    stream_tensor image = {.dtype = KILN_DTYPE_F32, .rank = 4, .external = true};
    stream_tensor filters = image;
    image.dims[0] = 1;
    image.dims[1] = c;
    image.dims[2] = image.dims[3] = side;
    while (count_of(&image) < LARGE / 8) {
        image.dims[0] *= 2;
    }
    filters.dims[0] = channels[stream_below(s, 3)];
    filters.dims[1] = c;
    filters.dims[2] = filters.dims[3] = window;
    filters.constant = true;
    stream_op *op = &s->ops[0];
    *op = (stream_op){.op = KILN_OP_CONV, .n_inputs = 2, .inputs = {0, 1}};
    if (add_tensor(s, &image) == UINT32_MAX || add_tensor(s, &filters) == UINT32_MAX ||
        !infer(s, op)) {
        stream_cut(s, 0, 0);
        return false;
    }
    s->n_ops = 1;
    return true;
}

bool stream_usable(kiln_op op)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    return info != NULL && op != KILN_OP_DROP && info->n_outputs > 0 &&
           info->cls != KILN_CLASS_CONTROL && info->cls != KILN_CLASS_COLLECTIVE &&
           info->signature->min_inputs > 0 &&
           info->signature->min_inputs <= KILN_MAX_NAMED_INPUTS &&
           info->signature->quant_inputs == 0;
}

bool stream_grow(stream *s, kiln_op only)
{
    uint32_t n_ops = s->n_ops, n_tensors = s->n_tensors;
    kiln_op chosen = only != KILN_OP_COUNT ? only : (kiln_op)stream_below(s, KILN_OP_COUNT);
    const kiln_op_info *info = kiln_op_info_of(chosen);
    if (n_ops == STREAM_OPS || !stream_usable(chosen)) {
        return false;
    }
    stream_op *op = &s->ops[n_ops];
    memset(op, 0, sizeof(*op));
    op->op = chosen;
    const kiln_op_signature *sig = info->signature;
    op->n_inputs = sig->min_inputs;
    if (sig->max_inputs > sig->min_inputs && sig->max_inputs <= KILN_MAX_NAMED_INPUTS &&
        stream_chance(s, 30)) {
        op->n_inputs++;
    }
    bool good = choose_operands(s, op, info);
    for (uint32_t i = 0; i < sig->n_attrs && good; i++) {
        good = fill_attr(s, op, i, &sig->attrs[i], &s->tensors[op->inputs[0]]);
    }
    if (!good || !infer(s, op)) {
        stream_cut(s, n_ops, n_tensors);
        return false;
    }
    s->n_ops++;
    return true;
}

// ---- the same on other extents ----

typedef struct change { ///< of extents and of one dtype
    int64_t from[STREAM_TENSORS * KILN_MAX_RANK], to[STREAM_TENSORS * KILN_MAX_RANK];
    uint32_t n;
    kiln_dtype dtype_from, dtype_to;
} change;

/// What an extent becomes: different ones stay different, 1 stays 1.
static int64_t changed(stream *s, change *all, int64_t extent)
{
    int64_t to = extent;
    if (extent == 1) {
        return 1;
    }
    for (uint32_t i = 0; i < all->n; i++) {
        if (all->from[i] == extent) {
            return all->to[i];
        }
    }
    for (int tries = 0; tries < 20; tries++) {
        bool known = false;
        to = tries < 6 ? s->base[stream_below(s, 4)] : 2 + (int64_t)stream_below(s, 40);
        for (uint32_t i = 0; i < all->n; i++) {
            known = known || all->to[i] == to;
        }
        if (to > 1 && !known) {
            break;
        }
    }
    all->from[all->n] = extent;
    all->to[all->n++] = to;
    return to;
}

/// Externals up to the tensor `end`.
static bool adapt_externals(stream *s, const stream *from, change *all, uint32_t end)
{
    while (s->n_tensors < end) {
        stream_tensor t = from->tensors[s->n_tensors];
        t.dropped = false;
        t.dtype = t.dtype == all->dtype_from ? all->dtype_to : t.dtype;
        for (uint32_t i = 0; i < t.rank; i++) {
            t.dims[i] = changed(s, all, t.dims[i]);
        }
        if (t.top != 0) {
            for (uint32_t i = 0; i < s->n_tensors; i++) {
                int64_t least = least_extent(&s->tensors[i]);
                t.top = i == 0 || least < t.top ? least : t.top;
            }
        } else {
            t.layout = STREAM_DENSE;
            any_layout(s, &t);
        }
        if (!t.external || add_tensor(s, &t) == UINT32_MAX) {
            return false;
        }
    }
    return true;
}

static bool adapt_op(stream *s, const stream *from, uint32_t index, change *all)
{
    stream_op *op = &s->ops[index];
    *op = from->ops[index];
    if (op->op == KILN_OP_DROP) {
        s->tensors[op->inputs[0]].dropped = true;
        return true;
    }
    const kiln_op_signature *sig = kiln_op_info_of(op->op)->signature;
    for (uint32_t i = 0; i < sig->n_attrs; i++) {
        for (uint32_t k = 0; sig->attrs[i].key == KILN_KEY_SHAPE && k < op->attrs[i].count; k++) {
            op->lists[i][k] = changed(s, all, op->lists[i][k]);
        }
    }
    uint32_t first = op->outputs[0];
    return adapt_externals(s, from, all, first) && infer(s, op) && op->outputs[0] == first;
}

bool stream_adapt(stream *s, const stream *from)
{
    static const kiln_dtype floats[] = {KILN_DTYPE_F32, KILN_DTYPE_F16, KILN_DTYPE_F64,
                                        KILN_DTYPE_BF16};
    change all = {.n = 0, .dtype_from = KILN_DTYPE_NONE};
    if (stream_chance(s, 35)) {
        all.dtype_from = floats[stream_below(s, 4)];
        all.dtype_to = floats[stream_below(s, 4)];
    }
    for (uint32_t i = 0; i < from->n_ops; i++) {
        if (!adapt_op(s, from, i, &all)) {
            stream_cut(s, 0, 0);
            return false;
        }
        s->n_ops = i + 1;
    }
    return true;
}

void stream_cut(stream *s, uint32_t n_ops, uint32_t n_tensors)
{
    for (uint32_t i = n_ops; i < s->n_ops; i++) {
        if (s->ops[i].op == KILN_OP_DROP) {
            s->tensors[s->ops[i].inputs[0]].dropped = false;
        }
    }
    s->n_ops = n_ops;
    s->n_tensors = n_tensors;
}

void stream_shorten(stream *s, uint32_t n_ops)
{
    uint32_t n_tensors = 0;
    for (uint32_t i = 0; i < n_ops; i++) {
        const stream_op *op = &s->ops[i];
        for (uint32_t k = 0; k < op->n_outputs; k++) {
            n_tensors = op->outputs[k] >= n_tensors ? op->outputs[k] + 1 : n_tensors;
        }
    }
    stream_cut(s, n_ops, n_tensors);
}

bool stream_drop(stream *s, uint32_t tensor)
{
    if (s->n_ops == STREAM_OPS || s->tensors[tensor].dropped) {
        return false;
    }
    s->ops[s->n_ops++] = (stream_op){.op = KILN_OP_DROP, .n_inputs = 1, .inputs = {tensor}};
    s->tensors[tensor].dropped = true;
    return true;
}

void stream_print(const stream *s, char *out, size_t capacity)
{
    size_t length = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < s->n_ops && length < capacity; i++) {
        const stream_op *op = &s->ops[i];
        int n =
            snprintf(out + length, capacity - length, "%s%s(%%%u%s", i == 0 ? "" : " ",
                     kiln_op_info_of(op->op)->name, op->inputs[0], op->n_inputs > 1 ? ",.." : "");
        length += n < 0 ? 0 : (size_t)n;
        if (length < capacity) {
            const stream_tensor *t = &s->tensors[op->inputs[0]];
            n = snprintf(out + length, capacity - length, " %s", kiln_dtype_name(t->dtype));
            length += n < 0 ? 0 : (size_t)n;
        }
        for (uint32_t d = 0; d < s->tensors[op->inputs[0]].rank && length < capacity; d++) {
            n = snprintf(out + length, capacity - length, "%s%lld", d == 0 ? "[" : ",",
                         (long long)s->tensors[op->inputs[0]].dims[d]);
            length += n < 0 ? 0 : (size_t)n;
        }
        if (length < capacity) {
            n = snprintf(out + length, capacity - length, "%s)",
                         s->tensors[op->inputs[0]].rank > 0 ? "]" : "");
            length += n < 0 ? 0 : (size_t)n;
        }
    }
}
