// SPDX-License-Identifier: MIT OR Apache-2.0
// See program.h. A step that the reference refuses, or of whose result nothing can be said, is
// drawn again.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "ir.h"
#include "program.h"

enum { TRIES = 400 };

// ---- chance ----

static uint64_t draw(program *p) // splitmix64
{
    uint64_t z = (p->state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static uint32_t below(program *p, uint32_t limit)
{
    return (uint32_t)(draw(p) % limit);
}

static bool chance(program *p, uint32_t percent)
{
    return below(p, 100) < percent;
}

// ---- choosing ----

static bool broadcasts(const value *a, const value *b)
{
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    for (uint32_t i = 1; i <= rank; i++) {
        int64_t x = i <= a->rank ? a->dims[a->rank - i] : 1;
        int64_t y = i <= b->rank ? b->dims[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1) {
            return false;
        }
    }
    return true;
}

/// A random value, later ones more often; UINT32_MAX when none fits.
static uint32_t pick(program *p, uint32_t kinds, kiln_dtype dtype, const value *beside)
{
    for (int i = 0; i < 20; i++) {
        uint32_t at = chance(p, 60) && p->n_values > 4 ? p->n_values - 1 - below(p, 4)
                                                       : below(p, p->n_values);
        const value *v = &p->values[at];
        if ((kiln_dtype_kind_of(v->dtype) & kinds) != 0 &&
            (dtype == KILN_DTYPE_NONE || v->dtype == dtype) &&
            (beside == NULL || broadcasts(v, beside))) {
            return at;
        }
    }
    return UINT32_MAX;
}

static void fill_shape(program *p, step *s, uint32_t slot, const value *in)
{
    uint32_t n = 0;
    bool flat = s->op == KILN_OP_RESHAPE && chance(p, 15);
    for (uint32_t i = 0; i < in->rank && n < MAX_LIST - 1; i++) {
        if (s->op == KILN_OP_RESHAPE && chance(p, 25)) {
            s->lists[slot][n++] = 1;
        }
        if (s->op == KILN_OP_EXPAND && in->dims[i] == 1 && chance(p, 70)) {
            s->lists[slot][n++] = p->base[below(p, 4)];
        } else if (s->op != KILN_OP_RESHAPE || in->dims[i] != 1 || chance(p, 50)) {
            s->lists[slot][n++] = in->dims[i];
        }
    }
    if (flat) {
        s->lists[slot][0] = in->count;
        n = 1;
    }
    s->attrs[slot] = (kiln_attr){.type = KILN_ATTR_I64_LIST, .count = n};
}

static void fill_axes(program *p, step *s, uint32_t slot, const value *in)
{
    uint32_t n = 0;
    if (s->op == KILN_OP_PERMUTE) {
        for (; n < in->rank && n < MAX_LIST; n++) {
            uint32_t other = below(p, n + 1);
            s->lists[slot][n] = s->lists[slot][other];
            s->lists[slot][other] = n;
        }
    } else if (in->rank > 0 && chance(p, 65)) {
        s->lists[slot][n++] = (int64_t)in->rank - 1; // rows, most of the time
    } else {
        for (uint32_t i = 0; i < in->rank && n < MAX_LIST; i++) {
            if (chance(p, 45)) {
                s->lists[slot][n++] = i;
            }
        }
    }
    s->attrs[slot] = (kiln_attr){.type = KILN_ATTR_I64_LIST, .count = n};
}

static void fill_number(program *p, kiln_attr *attr, const value *in, bool low)
{
    double x = (double)below(p, 4000) / 1000.0 - (low ? 4 : 0);
    if (value_is_float(in)) {
        *attr = (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v.f = x};
    } else {
        bool is_signed = kiln_dtype_kind_of(in->dtype) == KILN_KIND_INT;
        *attr = (kiln_attr){.type = KILN_ATTR_I64, .count = 1};
        attr->v.i = in->dtype == KILN_DTYPE_BOOL ? x > 2 : is_signed ? (int64_t)x : 3;
    }
}

/// False for an attribute that this test has no values for.
static bool fill_attr(program *p, step *s, uint32_t slot, kiln_attr_key key, const value *in)
{
    static const kiln_dtype casts[] = {
        KILN_DTYPE_F32,  KILN_DTYPE_I32, KILN_DTYPE_F16, KILN_DTYPE_F64, KILN_DTYPE_I8,
        KILN_DTYPE_BF16, KILN_DTYPE_I64, KILN_DTYPE_U8,  KILN_DTYPE_U64, KILN_DTYPE_BOOL};
    kiln_attr *attr = &s->attrs[slot];
    switch (key) {
    case KILN_KEY_VALUE:
    case KILN_KEY_MAX:
        fill_number(p, attr, in, false);
        return true;
    case KILN_KEY_MIN:
        fill_number(p, attr, in, true);
        return true;
    case KILN_KEY_SLOPE:
        *attr = (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v.f = 0.125};
        return true;
    case KILN_KEY_EPSILON:
        *attr = (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v.f = 0.25};
        return true;
    case KILN_KEY_GROUPS:
        *attr = (kiln_attr){.type = KILN_ATTR_I64, .count = 1, .v.i = 1 + (int64_t)below(p, 3)};
        return true;
    case KILN_KEY_AXES:
        fill_axes(p, s, slot, in);
        return true;
    case KILN_KEY_AXIS:
        *attr = (kiln_attr){.type = KILN_ATTR_I64, .count = 1};
        attr->v.i = in->rank == 0 || chance(p, 70) ? -1 : (int64_t)below(p, in->rank);
        return true;
    case KILN_KEY_KEEPDIMS:
    case KILN_KEY_LAST:
        *attr = (kiln_attr){.type = KILN_ATTR_BOOL, .count = 1, .v.i = chance(p, 70)};
        return true;
    case KILN_KEY_DTYPE:
        *attr = (kiln_attr){.type = KILN_ATTR_DTYPE,
                            .count = 1,
                            .v.i = casts[below(p, sizeof(casts) / sizeof(casts[0]))]};
        return true;
    case KILN_KEY_SHAPE:
        fill_shape(p, s, slot, in);
        return true;
    case KILN_KEY_TRANSPOSE_A:
    case KILN_KEY_TRANSPOSE_B:
        *attr = (kiln_attr){.type = KILN_ATTR_BOOL, .count = 1};
        return true;
    default:
        return false;
    }
}

/// They give bits of their operands, a sign apart: IEEE 754-2019, 5.5.1.
static const kiln_op moving[] = {KILN_OP_NEG,       KILN_OP_ABS,        KILN_OP_WHERE,
                                 KILN_OP_MASK_FILL, KILN_OP_CONTIGUOUS, KILN_OP_RESHAPE,
                                 KILN_OP_PERMUTE,   KILN_OP_EXPAND,     KILN_OP_FLIP,
                                 KILN_OP_SELECT,    KILN_OP_GATHER};
enum { N_MOVING = sizeof(moving) / sizeof(moving[0]) };

static bool moves_bits(kiln_op op)
{
    bool found = false;
    for (size_t i = 0; i < N_MOVING; i++) {
        found = found || moving[i] == op;
    }
    return found;
}

static kiln_op pick_op(program *p)
{
    if (p->moves) {
        return moving[below(p, N_MOVING)];
    }
    uint32_t roll = below(p, 100);
    kiln_op_class wanted = roll < 62   ? KILN_CLASS_ELEMENTWISE
                           : roll < 80 ? KILN_CLASS_REDUCE
                           : roll < 88 ? KILN_CLASS_VIEW
                           : roll < 95 ? KILN_CLASS_ROW
                           : roll < 98 ? KILN_CLASS_GATHER
                                       : KILN_CLASS_CREATION;
    for (;;) {
        kiln_op op = (kiln_op)below(p, KILN_OP_COUNT);
        const kiln_op_info *info = kiln_op_info_of(op);
        if (info != NULL && info->cls == wanted) {
            return op;
        }
    }
}

/// A step that the table allows, as far as operands and attributes go.
static bool choose(program *p, step *s)
{
    memset(s, 0, sizeof(*s));
    s->op = pick_op(p);
    const kiln_op_info *info = kiln_op_info_of(s->op);
    const kiln_op_signature *signature = info->signature;
    const value *first = &p->values[below(p, p->n_values)];
    s->n_inputs = signature->min_inputs;
    if (info->n_outputs != 1 || s->n_inputs > 3) {
        return false;
    }
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        bool mask = (signature->mask_inputs >> i & 1u) != 0;
        bool index = (signature->index_inputs >> i & 1u) != 0;
        bool free = (signature->free_inputs >> i & 1u) != 0 && !index;
        kiln_dtype indices = chance(p, 50) ? KILN_DTYPE_I32 : KILN_DTYPE_I64;
        kiln_dtype dtype = mask     ? KILN_DTYPE_BOOL
                           : index  ? indices
                           : i == 0 ? KILN_DTYPE_NONE
                                    : first->dtype;
        bool aligned = i > 0 && info->cls == KILN_CLASS_ELEMENTWISE;
        s->inputs[i] = pick(p, mask || free || index ? UINT32_MAX : (uint32_t)info->accept,
                            free ? KILN_DTYPE_NONE : dtype, aligned ? first : NULL);
        if (s->inputs[i] == UINT32_MAX) {
            return false;
        }
        first = i == 0 ? &p->values[s->inputs[0]] : first;
    }
    for (uint32_t i = 0; i < signature->n_attrs; i++) {
        if (!fill_attr(p, s, i, signature->attrs[i].key, first)) {
            return false;
        }
    }
    return true;
}

// ---- making ----

static bool is_ordered(kiln_op op)
{
    kiln_op_class cls = kiln_op_info_of(op)->cls;
    return cls == KILN_CLASS_ELEMENTWISE || cls == KILN_CLASS_VIEW || cls == KILN_CLASS_CREATION ||
           op == KILN_OP_SELECT || op == KILN_OP_GATHER;
}

/// Takes the reference's result in; false when nothing can be said about a device's.
static bool accept(program *p, step *s, kiln_tensor *result)
{
    value *out = &p->values[p->n_values];
    const value *in[3] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    bool inexact = false, elementwise = is_ordered(s->op), moved = moves_bits(s->op);
    *out = (value){.dtype = kiln_tensor_dtype(result),
                   .rank = (uint32_t)kiln_tensor_rank(result),
                   .count = kiln_tensor_count(result),
                   .last_use = -1};
    memcpy(out->dims, kiln_tensor_dims(result), out->rank * sizeof(out->dims[0]));
    if (out->count > MAX_ELEMENTS) {
        return false;
    }
    size_t bytes = kiln_tensor_bytes(result);
    out->bytes = malloc(bytes + 1);
    if (out->bytes == NULL || kiln_read(result, out->bytes, bytes, &err) != KILN_STATUS_OK) {
        free(out->bytes);
        return false;
    }
    value_look(out);
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        in[i] = &p->values[s->inputs[i]];
        inexact = inexact || in[i]->bound > 0;
        elementwise = elementwise && in[i]->elementwise;
        moved = moved && in[i]->moved;
    }
    out->elementwise = elementwise;
    out->moved = moved;
    out->bound = inexact ? value_carried_bound(s->op, in, s->n_inputs, out) : 0;
    double own = value_own_bound(s->op, in, out);
    // Normalised equals: what is left is how the mean was rounded, of which nothing here knows.
    bool cancelled = kiln_op_info_of(s->op)->cls == KILN_CLASS_ROW && !elementwise &&
                     out->most == 0 && s->n_inputs > 0 && in[0]->most > 0;
    if (cancelled || out->bound < 0 || (!out->finite && (inexact || !elementwise)) ||
        (inexact && out->bound > 0.05 * (out->most + 1e-3))) {
        free(out->bytes);
        return false;
    }
    out->bound += own;
    out->keep = chance(p, 30);
    s->output = p->n_values++;
    return true;
}

/// A quiet NaN with any sign and payload.
static void store_nan(program *p, kiln_dtype dtype, unsigned char *out)
{
    static const struct {
        kiln_dtype dtype;
        uint64_t quiet, payload;
    } forms[] = {{KILN_DTYPE_F16, 0x7e00, 0x81ff},
                 {KILN_DTYPE_BF16, 0x7fc0, 0x803f},
                 {KILN_DTYPE_F32, 0x7fc00000, 0x803fffff},
                 {KILN_DTYPE_F64, 0x7ff8000000000000, 0x8007ffffffffffff}};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (forms[i].dtype == dtype) {
            uint64_t bits = forms[i].quiet | (draw(p) & forms[i].payload); // little-endian
            memcpy(out, &bits, kiln_dtype_size(dtype));
        }
    }
}

static kiln_tensor *make_source(program *p, kiln_device *judge, kiln_dtype dtype)
{
    value *v = &p->values[p->n_values];
    unsigned char *bytes = NULL;
    kiln_tensor *tensor = NULL;
    kiln_error err = KILN_ERROR_INIT;
    bool special = p->moves || chance(p, 10);
    *v = (value){.dtype = dtype, .count = 1, .elementwise = true, .moved = true, .last_use = -1};
    v->rank = p->n_values == 1 ? 1 : below(p, 4); // indices
    for (uint32_t i = 0; i < v->rank; i++) {
        v->dims[i] = chance(p, 12) ? 1 : p->base[(4 - v->rank + i) % 4];
        v->count *= v->dims[i];
    }
    if (v->count > MAX_ELEMENTS) {
        v->dims[0] = 1;
        v->count = 1;
        for (uint32_t i = 0; i < v->rank; i++) {
            v->count *= v->dims[i];
        }
    }
    size_t size = kiln_dtype_size(dtype);
    bytes = malloc((size_t)v->count * size + 1);
    for (int64_t i = 0; bytes != NULL && i < v->count; i++) {
        static const double specials[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40};
        double x = (double)(int64_t)below(p, 4001) / 1000.0 - 2;
        kiln_attr number = {.type = KILN_ATTR_F64, .count = 1, .v.f = x};
        if (special && chance(p, p->moves ? 50 : 10)) {
            number.v.f = specials[below(p, 6)];
        }
        if (!value_is_float(v)) {
            number.type = KILN_ATTR_I64;
            bool below_zero = kiln_dtype_kind_of(dtype) == KILN_KIND_INT;
            number.v.i =
                (int64_t)below(p, dtype == KILN_DTYPE_BOOL ? 2 : 40) - (below_zero ? 20 : 0);
        }
        KILN_CHECK(kiln_number_store(&number, dtype, bytes + (size_t)i * size));
        if (number.type == KILN_ATTR_F64 && isnan(number.v.f)) {
            store_nan(p, dtype, bytes + (size_t)i * size);
        }
    }
    v->bytes = bytes;
    value_look(v);
    p->n_values++;
    kiln_status status = kiln_tensor_create(judge, dtype, v->rank, v->dims, bytes, &tensor, &err);
    return KILN_CHECK_INT(status, KILN_STATUS_OK) ? tensor : NULL;
}

/// Makes a program, with the reference's values of everything in it.
void program_make(program *p, kiln_device *judge, uint32_t *uses)
{
    static const int64_t extents[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64, 100, 129, 257};
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_F32, KILN_DTYPE_F16,
                                        KILN_DTYPE_I32, KILN_DTYPE_F64, KILN_DTYPE_BF16,
                                        KILN_DTYPE_I8,  KILN_DTYPE_U32, KILN_DTYPE_I64,
                                        KILN_DTYPE_U8,  KILN_DTYPE_I16, KILN_DTYPE_U64};
    static const kiln_dtype floats[] = {KILN_DTYPE_F16, KILN_DTYPE_BF16, KILN_DTYPE_F32,
                                        KILN_DTYPE_F64};
    kiln_tensor *tensors[MAX_VALUES] = {NULL};
    for (int i = 0; i < 4; i++) {
        p->base[i] = extents[below(p, sizeof(extents) / sizeof(extents[0]))];
    }
    p->n_sources = 3 + below(p, 4);
    p->moves = p->seed % 8 == 0;
    for (uint32_t i = 0; i < p->n_sources; i++) {
        kiln_dtype dtype = i == 0          ? KILN_DTYPE_BOOL
                           : i == 1        ? KILN_DTYPE_I64
                           : p->moves      ? floats[i % 4 == 2 ? 0 : below(p, 4)]
                           : chance(p, 70) ? KILN_DTYPE_F32
                                           : dtypes[below(p, sizeof(dtypes) / sizeof(dtypes[0]))];
        tensors[i] = make_source(p, judge, dtype);
    }
    uint32_t wanted = 3 + below(p, MAX_STEPS - 3);
    for (int tries = 0; tries < TRIES && p->n_steps < wanted && p->n_values < MAX_VALUES; tries++) {
        step *s = &p->steps[p->n_steps];
        kiln_tensor *result = NULL;
        kiln_error err = KILN_ERROR_INIT;
        if (!choose(p, s) || program_step(judge, s, tensors, &result, &err) != KILN_STATUS_OK) {
            continue;
        }
        if (!accept(p, s, result)) {
            kiln_release(result);
            continue;
        }
        tensors[s->output] = result;
        for (uint32_t i = 0; i < s->n_inputs; i++) {
            p->values[s->inputs[i]].last_use = (int)p->n_steps;
        }
        uses[s->op]++;
        p->n_steps++;
    }
    if (p->n_values > 0) {
        p->values[p->n_values - 1].keep = true;
    }
    for (uint32_t i = 0; i < p->n_values; i++) {
        kiln_release(tensors[i]);
    }
}

void program_fini(program *p)
{
    for (uint32_t i = 0; i < p->n_values; i++) {
        free(p->values[i].bytes);
    }
}

void program_print(const program *p)
{
    for (uint32_t i = 0; i < p->n_values; i++) {
        const value *v = &p->values[i];
        fprintf(stderr, "  %%%u %s[", i, kiln_dtype_name(v->dtype));
        for (uint32_t k = 0; k < v->rank; k++) {
            fprintf(stderr, "%s%lld", k == 0 ? "" : ",", (long long)v->dims[k]);
        }
        fprintf(stderr, "]%s", v->keep ? " kept" : "");
        for (uint32_t s = 0; s < p->n_steps; s++) {
            if (p->steps[s].output == i && i >= p->n_sources) {
                fprintf(stderr, " = %s", kiln_op_info_of(p->steps[s].op)->name);
                for (uint32_t k = 0; k < p->steps[s].n_inputs; k++) {
                    fprintf(stderr, " %%%u", p->steps[s].inputs[k]);
                }
            }
        }
        fprintf(stderr, "\n");
    }
}
