// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes streams: picks an operator, operands that fit or new ones, attributes by their type, and
// keeps what the table's own verifier lets through. Nothing here knows a single operator.

#include "plugin_stream.h"

#include <stdio.h>
#include <string.h>

enum { SMALL = 40000, LARGE = 4 << 20 };

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

void stream_init_large(stream *s, uint64_t seed)
{
    stream_init(s, seed);
    s->most = LARGE;
    s->base[0] = 8;
    s->base[1] = 16;
    s->base[2] = stream_chance(s, 50) ? 64 : 100;
    s->base[3] = stream_chance(s, 50) ? 256 : 300;
}

// ---- tensors -----------------------------------------------------------------------------------

static int64_t count_of(const stream_tensor *t)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        count *= t->dims[i];
    }
    return count;
}

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

/// A shape that goes with `beside`: the same, one that broadcasts, or one that shares an extent.
static void shape_beside(stream *s, stream_tensor *t, const stream_tensor *beside)
{
    uint32_t roll = stream_below(s, 100);
    if (roll >= 90) {
        any_shape(s, t);
        return;
    }
    t->rank = beside->rank;
    memcpy(t->dims, beside->dims, sizeof(t->dims));
    if (roll >= 75 && t->rank > 0) { // a matrix to multiply by
        t->dims[t->rank - 1] = s->base[stream_below(s, 4)];
        if (t->rank >= 2) {
            t->dims[t->rank - 2] = beside->dims[beside->rank - 1];
        }
    } else if (roll >= 60 && t->rank > 0) { // fewer axes, or some of length 1
        uint32_t cut = stream_below(s, t->rank + 1);
        memmove(t->dims, t->dims + cut, (t->rank - cut) * sizeof(t->dims[0]));
        t->rank -= cut;
        for (uint32_t i = 0; i < t->rank; i++) {
            t->dims[i] = stream_chance(s, 25) ? 1 : t->dims[i];
        }
    }
}

bool stream_is_result(const stream *s, uint32_t tensor)
{
    return !s->tensors[tensor].external && !s->tensors[tensor].dropped;
}

/// A living tensor of this dtype (NONE: any), late ones more often; UINT32_MAX: none was found.
static uint32_t pick(stream *s, kiln_dtype dtype, kiln_dtype_kind kinds)
{
    for (int i = 0; i < 12 && s->n_tensors > 0; i++) {
        uint32_t at = stream_chance(s, 70) && s->n_tensors > 3
                          ? s->n_tensors - 1 - stream_below(s, 3)
                          : stream_below(s, s->n_tensors);
        const stream_tensor *t = &s->tensors[at];
        if (!t->dropped && t->top == 0 && (dtype == KILN_DTYPE_NONE || t->dtype == dtype) &&
            (kiln_dtype_kind_of(t->dtype) & kinds) != 0) {
            return at;
        }
    }
    return UINT32_MAX;
}

static uint32_t operand(stream *s, const kiln_op_info *info, uint32_t i, const stream_tensor *first)
{
    const kiln_op_signature *sig = info->signature;
    bool mask = (sig->mask_inputs >> i & 1u) != 0;
    bool index = (sig->index_inputs >> i & 1u) != 0;
    bool free_one = (sig->free_inputs >> i & 1u) != 0;
    stream_tensor made = {.external = true};
    kiln_dtype dtype = mask                        ? KILN_DTYPE_BOOL
                       : index                     ? KILN_DTYPE_I64
                       : first == NULL || free_one ? KILN_DTYPE_NONE
                                                   : first->dtype;
    uint32_t found = index || stream_chance(s, first == NULL ? 10 : 55)
                         ? UINT32_MAX
                         : pick(s, dtype, mask ? UINT32_MAX : (kiln_dtype_kind)info->accept);
    if (found != UINT32_MAX) {
        return found;
    }
    made.dtype = dtype != KILN_DTYPE_NONE ? dtype : any_dtype(s);
    if (first == NULL) {
        any_shape(s, &made);
    } else {
        shape_beside(s, &made, first);
    }
    made.top = index ? (first != NULL && first->rank > 0 ? first->dims[0] : 1) : 0;
    return add_tensor(s, &made);
}

// ---- attributes --------------------------------------------------------------------------------

static void list(stream_op *op, uint32_t slot, uint32_t count)
{
    op->attrs[slot] = (kiln_attr){.type = KILN_ATTR_I64_LIST, .count = count};
}

static void fill_list(stream *s, stream_op *op, uint32_t slot, kiln_attr_key key,
                      const stream_tensor *in)
{
    uint32_t n = 0;
    if (key == KILN_KEY_SHAPE) {
        for (; n < in->rank; n++) {
            op->lists[slot][n] = in->dims[n] == 1 ? s->base[stream_below(s, 4)] : in->dims[n];
        }
    } else if (op->op == KILN_OP_PERMUTE) {
        for (; n < in->rank; n++) {
            uint32_t other = stream_below(s, n + 1);
            op->lists[slot][n] = op->lists[slot][other];
            op->lists[slot][other] = n;
        }
    } else if (in->rank > 0 && stream_chance(s, 65)) {
        op->lists[slot][n++] = (int64_t)in->rank - 1;
    } else {
        for (uint32_t i = 0; i < in->rank; i++) {
            if (stream_chance(s, 45)) {
                op->lists[slot][n++] = i;
            }
        }
    }
    list(op, slot, n);
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
        fill_list(s, op, slot, spec->key, in);
        return true;
    default:
        return spec->optional;
    }
}

// ---- operations --------------------------------------------------------------------------------

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

/// What streams are made of: operators that compute from tensors alone.
static bool usable(kiln_op op, const kiln_op_info *info)
{
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
    if (n_ops == STREAM_OPS || !usable(chosen, info)) {
        return false;
    }
    stream_op *op = &s->ops[n_ops];
    memset(op, 0, sizeof(*op));
    op->op = chosen;
    const kiln_op_signature *sig = info->signature;
    bool good = true;
    op->n_inputs = sig->min_inputs;
    if (sig->max_inputs > sig->min_inputs && sig->max_inputs <= KILN_MAX_NAMED_INPUTS &&
        stream_chance(s, 30)) {
        op->n_inputs++;
    }
    for (uint32_t i = 0; i < op->n_inputs && good; i++) {
        stream_tensor first = i == 0 ? (stream_tensor){0} : s->tensors[op->inputs[0]];
        op->inputs[i] = operand(s, info, i, i == 0 ? NULL : &first);
        good = op->inputs[i] != UINT32_MAX;
    }
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
