// SPDX-License-Identifier: MIT OR Apache-2.0
// Random programs: operators drawn from the table, shapes and values from a seed. Each runs fused
// and unfused on the first OpenCL device and step by step on the reference. Chains of elementwise
// operators must agree between fused and unfused bit for bit, what only moves bits with the
// reference, too, NaNs included: every eighth program is such. Everything must agree with the
// reference within a bound that follows from the table of tolerances and the values at hand.
// --programs=N and --seed=S run more or others; a failure names the seed that repeats it alone.
// --choices=N measures of N programs instead whether blocks got the fastest candidate.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choice.h"
#include "harness.h"
#include "ir.h"
#include "kiln.h"

enum { MAX_VALUES = 48, MAX_STEPS = 28, MAX_ELEMENTS = 60000, MAX_LIST = 8, TRIES = 400 };

typedef struct value {
    kiln_dtype dtype;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
    int64_t count;
    unsigned char *bytes; ///< of the reference
    double bound; ///< how far a device may be from it
    double most; ///< largest magnitude
    double least; ///< smallest magnitude
    bool finite;
    bool elementwise; ///< nothing but elementwise operators and views made it
    bool moved; ///< no arithmetic did: signs and places only, so that NaNs are those of the sources
    bool keep; ///< read at the end, or else dropped after its last use
    int last_use;
} value;

typedef struct step {
    kiln_op op;
    uint32_t n_inputs;
    uint32_t inputs[KILN_MAX_INPUTS];
    kiln_attr attrs[KILN_MAX_ATTRS];
    int64_t lists[KILN_MAX_ATTRS][MAX_LIST];
    uint32_t output;
} step;

typedef struct program {
    uint64_t seed;
    uint64_t state;
    value values[MAX_VALUES];
    uint32_t n_values;
    uint32_t n_sources;
    step steps[MAX_STEPS];
    uint32_t n_steps;
    int64_t base[4]; ///< extents that shapes are made of
    bool moves; ///< only operators that move bits, of floats with many NaNs
} program;

static uint64_t first_seed = 1, n_programs = 24;
static bool measures; // choices, instead of judging results
static uint32_t uses[KILN_OP_COUNT];
static kiln_context *context;
static kiln_device *device, *judge;

// ---- chance ------------------------------------------------------------------------------------

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

// ---- values ------------------------------------------------------------------------------------

static double element(const value *v, int64_t i)
{
    const unsigned char *at = v->bytes + (size_t)i * kiln_dtype_size(v->dtype);
    uint16_t half;
    float f;
    double d;
    int64_t wide = 0;
    switch (v->dtype) {
    case KILN_DTYPE_F64:
        memcpy(&d, at, sizeof(d));
        return d;
    case KILN_DTYPE_F32:
        memcpy(&f, at, sizeof(f));
        return f;
    case KILN_DTYPE_F16:
    case KILN_DTYPE_BF16:
        memcpy(&half, at, sizeof(half));
        return v->dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(half) : kiln_bf16_to_f32(half);
    default:
        memcpy(&wide, at, kiln_dtype_size(v->dtype));
        return (double)wide;
    }
}

static bool is_float(const value *v)
{
    return kiln_dtype_kind_of(v->dtype) == KILN_KIND_FLOAT;
}

static void look_at(value *v)
{
    v->most = 0;
    v->least = INFINITY;
    v->finite = true;
    for (int64_t i = 0; is_float(v) && i < v->count; i++) {
        double x = fabs(element(v, i));
        v->finite = v->finite && isfinite(x);
        v->most = isfinite(x) && x > v->most ? x : v->most;
        v->least = x < v->least ? x : v->least;
    }
}

static double epsilon_of(kiln_dtype dtype)
{
    return dtype == KILN_DTYPE_F64    ? 0x1p-52
           : dtype == KILN_DTYPE_F32  ? 0x1p-23
           : dtype == KILN_DTYPE_BF16 ? 0x1p-7
                                      : 0x1p-10;
}

/// The largest sum of the magnitudes that a sum may be made of: where they cancel, what rounding
/// left is of that size, not of the result's.
static double summed(kiln_op op, const value *const *in, const value *out)
{
    switch (op) {
    case KILN_OP_SUM:
        return out->count > 0 ? (double)in[0]->count / (double)out->count * in[0]->most : 0;
    case KILN_OP_MEAN:
        return in[0]->most;
    case KILN_OP_MATMUL:
        return (double)in[0]->dims[in[0]->rank - 1] * in[0]->most * in[1]->most;
    default:
        return 0;
    }
}

/// What the operator itself may add, for operands and a result of these magnitudes.
static double own_error(kiln_op op, const value *const *in, const value *out)
{
    kiln_tolerance t = kiln_tolerance_of(op, out->dtype);
    double units = t.scaled > t.ulps ? t.scaled : t.ulps;
    kiln_dtype sums = kiln_dtype_size(out->dtype) == 2 ? KILN_DTYPE_F32 : out->dtype;
    return is_float(out)
               ? units * epsilon_of(out->dtype) * out->most + epsilon_of(sums) * summed(op, in, out)
               : 0;
}

/// The bound of a result from those of its operands, or a negative number: nothing useful follows.
static double carried(kiln_op op, const value *const *in, uint32_t n, const value *out)
{
    double a = in[0]->bound, b = n > 1 ? in[1]->bound : 0;
    double rounding = is_float(out) ? epsilon_of(out->dtype) * out->most : 0;
    double terms = out->count > 0 ? (double)in[0]->count / (double)out->count : 1;
    switch (op) {
    case KILN_OP_ADD:
    case KILN_OP_SUB:
        return a + b + rounding;
    case KILN_OP_MUL:
        return (in[0]->most + a) * b + (in[1]->most + b) * a + rounding;
    case KILN_OP_DIV:
        return in[1]->least > 0.05 + 2 * b ? (a + out->most * b) / (in[1]->least - b) + rounding
                                           : -1;
    case KILN_OP_EXP:
        return in[0]->most < 20 ? out->most * expm1(a) + rounding : -1;
    case KILN_OP_SQRT:
        return in[0]->least > 0.01 + 2 * a ? a / sqrt(in[0]->least - a) + rounding : -1;
    case KILN_OP_RSQRT:
        return in[0]->least > 0.01 + 2 * a ? a / pow(in[0]->least - a, 1.5) + rounding : -1;
    case KILN_OP_LOG:
        return in[0]->least > 0.01 + 2 * a ? a / (in[0]->least - a) + rounding : -1;
    case KILN_OP_NEG:
    case KILN_OP_ABS:
    case KILN_OP_RELU:
    case KILN_OP_RESHAPE:
    case KILN_OP_EXPAND:
    case KILN_OP_PERMUTE:
    case KILN_OP_SLICE:
    case KILN_OP_FLIP:
    case KILN_OP_CONTIGUOUS:
    case KILN_OP_SELECT:
    case KILN_OP_GATHER:
    case KILN_OP_MAX:
    case KILN_OP_MIN:
    case KILN_OP_MAX_ABS:
        return a;
    case KILN_OP_MAXIMUM:
    case KILN_OP_MINIMUM:
        return a > b ? a : b;
    case KILN_OP_ADD_SCALAR:
    case KILN_OP_SUB_SCALAR:
    case KILN_OP_CLAMP:
    case KILN_OP_CLAMP_MIN:
    case KILN_OP_CLAMP_MAX:
    case KILN_OP_SIN:
    case KILN_OP_COS:
    case KILN_OP_ATAN:
    case KILN_OP_ASINH:
    case KILN_OP_TANH:
    case KILN_OP_SIGMOID:
    case KILN_OP_MEAN:
        return a + rounding;
    case KILN_OP_MUL_SCALAR:
        return 4 * a + rounding; // scalars are below 4
    case KILN_OP_ERF:
    case KILN_OP_SOFTMAX:
        return 2 * a + rounding;
    case KILN_OP_LOG_SOFTMAX:
        return 2 * a + rounding;
    case KILN_OP_SUM:
        return terms * a + rounding;
    case KILN_OP_CAST:
        return is_float(out) ? a + epsilon_of(out->dtype) * out->most : -1;
    default:
        return -1;
    }
}

// ---- choosing ----------------------------------------------------------------------------------

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
    if (is_float(in)) {
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

// ---- running -----------------------------------------------------------------------------------

static kiln_status record(kiln_device *on, const step *s, kiln_tensor *const *tensors,
                          kiln_tensor **out, kiln_error *err)
{
    kiln_tensor *inputs[KILN_MAX_INPUTS] = {NULL};
    kiln_attr attrs[KILN_MAX_ATTRS];
    uint32_t n_attrs = kiln_op_info_of(s->op)->signature->n_attrs;
    kiln_tensor *results[KILN_MAX_OUTPUTS] = {NULL};
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        inputs[i] = tensors[s->inputs[i]];
    }
    for (uint32_t i = 0; i < n_attrs; i++) {
        attrs[i] = s->attrs[i];
        if (attrs[i].type == KILN_ATTR_I64_LIST) {
            attrs[i].v.ints = s->lists[i];
        }
    }
    kiln_status status = kiln_record(on, s->op, inputs, s->n_inputs, attrs, n_attrs, results, err);
    *out = results[0];
    return status;
}

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
    look_at(out);
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        in[i] = &p->values[s->inputs[i]];
        inexact = inexact || in[i]->bound > 0;
        elementwise = elementwise && in[i]->elementwise;
        moved = moved && in[i]->moved;
    }
    out->elementwise = elementwise;
    out->moved = moved;
    out->bound = inexact ? carried(s->op, in, s->n_inputs, out) : 0;
    double own = own_error(s->op, in, out);
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

static kiln_tensor *make_source(program *p, kiln_dtype dtype)
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
        if (!is_float(v)) {
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
    look_at(v);
    p->n_values++;
    kiln_status status = kiln_tensor_create(judge, dtype, v->rank, v->dims, bytes, &tensor, &err);
    return KILN_CHECK_INT(status, KILN_STATUS_OK) ? tensor : NULL;
}

/// Makes a program, with the reference's values of everything in it.
static void make(program *p)
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
        tensors[i] = make_source(p, dtype);
    }
    uint32_t wanted = 3 + below(p, MAX_STEPS - 3);
    for (int tries = 0; tries < TRIES && p->n_steps < wanted && p->n_values < MAX_VALUES; tries++) {
        step *s = &p->steps[p->n_steps];
        kiln_tensor *result = NULL;
        kiln_error err = KILN_ERROR_INIT;
        if (!choose(p, s) || record(judge, s, tensors, &result, &err) != KILN_STATUS_OK) {
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

/// Runs the program on the device; `out` gets the values that are kept.
static bool run(const program *p, bool fused, unsigned char **out)
{
    kiln_tensor *tensors[MAX_VALUES] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    bool ok = kiln_device_set_fusion(device, fused, &err) == KILN_STATUS_OK;
    for (uint32_t i = 0; ok && i < p->n_sources; i++) {
        const value *v = &p->values[i];
        ok = kiln_tensor_create(device, v->dtype, v->rank, v->dims, v->bytes, &tensors[i], &err) ==
             KILN_STATUS_OK;
    }
    for (uint32_t i = 0; ok && i < p->n_steps; i++) {
        ok = record(device, &p->steps[i], tensors, &tensors[p->steps[i].output], &err) ==
             KILN_STATUS_OK;
        for (uint32_t v = 0; v < p->n_values; v++) {
            if (p->values[v].last_use == (int)i && !p->values[v].keep) {
                kiln_release(tensors[v]);
                tensors[v] = NULL;
            }
        }
    }
    for (uint32_t i = p->n_sources; ok && i < p->n_values; i++) {
        if (p->values[i].keep && tensors[i] != NULL) {
            size_t bytes = kiln_tensor_bytes(tensors[i]);
            out[i] = malloc(bytes + 1);
            ok = out[i] != NULL && kiln_read(tensors[i], out[i], bytes, &err) == KILN_STATUS_OK;
        }
    }
    for (uint32_t i = 0; i < p->n_values; i++) {
        kiln_release(tensors[i]);
    }
    if (!ok) {
        KILN_FAIL("--seed=%llu: %s", (unsigned long long)p->seed, err.message);
    }
    return ok;
}

// ---- judging -----------------------------------------------------------------------------------

static void print_program(const program *p)
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

static double distance(double a, double b)
{
    if ((isnan(a) && isnan(b)) || a == b) {
        return 0;
    }
    return isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
}

static bool compare(const program *p, uint32_t which, const unsigned char *bytes, double bound,
                    const unsigned char *against, const char *what)
{
    value a = p->values[which], b = p->values[which];
    a.bytes = (unsigned char *)(uintptr_t)bytes;
    b.bytes = (unsigned char *)(uintptr_t)against;
    for (int64_t i = 0; i < a.count; i++) {
        double x = element(&a, i), y = element(&b, i);
        if (distance(x, y) > bound) {
            KILN_FAIL("--seed=%llu: %%%u, element %lld: %.9g, %s %.9g, at most %.3g apart",
                      (unsigned long long)p->seed, which, (long long)i, x, what, y, bound);
            print_program(p);
            return false;
        }
    }
    return true;
}

/// Other devices may know one NaN of f16 only.
static bool is_pocl(void)
{
    return strncmp(kiln_device_info_of(device)->platform, "Portable Computing", 18) == 0;
}

/// Zeros of one sign too, and NaNs that were only moved. What arithmetic makes of NaNs has the bits
/// that the device gives it (docs/numerics.md).
static bool compare_bits(const program *p, uint32_t which, const unsigned char *fused,
                         const unsigned char *plain, const char *what)
{
    size_t size = kiln_dtype_size(p->values[which].dtype);
    value a = p->values[which];
    a.bytes = (unsigned char *)(uintptr_t)fused;
    for (int64_t i = 0; i < a.count; i++) {
        size_t at = (size_t)i * size;
        bool exact = a.moved && (a.dtype != KILN_DTYPE_F16 || is_pocl());
        bool any = isnan(element(&a, i)) && !exact;
        if (memcmp(fused + at, plain + at, size) != 0 && !any) {
            KILN_FAIL("--seed=%llu: %%%u, element %lld has other bits %s",
                      (unsigned long long)p->seed, which, (long long)i, what);
            print_program(p);
            return false;
        }
    }
    return true;
}

static void judge_program(const program *p)
{
    unsigned char *fused[MAX_VALUES] = {NULL}, *plain[MAX_VALUES] = {NULL};
    bool ok = run(p, true, fused) && run(p, false, plain);
    for (uint32_t i = p->n_sources; ok && i < p->n_values; i++) {
        const value *v = &p->values[i];
        if (fused[i] == NULL || plain[i] == NULL) {
            continue;
        }
        ok = compare(p, i, plain[i], v->bound, v->bytes, "unfused, the reference") &&
             compare(p, i, fused[i], v->bound, v->bytes, "fused, the reference");
        if (ok && v->moved) {
            ok = compare_bits(p, i, plain[i], v->bytes, "unfused than the reference");
        }
        if (ok && v->elementwise) {
            ok = compare(p, i, fused[i], 0, plain[i], "fused, unfused") &&
                 compare_bits(p, i, fused[i], plain[i], "fused than unfused");
        }
    }
    for (uint32_t i = 0; i < MAX_VALUES; i++) {
        free(fused[i]);
        free(plain[i]);
    }
}

// ---- choices -----------------------------------------------------------------------------------

static kiln_status make_inputs(kiln_device *on, void *user, kiln_tensor **out_inputs,
                               size_t *out_count, kiln_error *err)
{
    const program *p = user;
    kiln_status status = KILN_STATUS_OK;
    *out_count = 0;
    for (uint32_t i = 0; i < p->n_sources && status == KILN_STATUS_OK; i++) {
        const value *v = &p->values[i];
        status = kiln_tensor_create(on, v->dtype, v->rank, v->dims, v->bytes,
                                    &out_inputs[*out_count], err);
        *out_count += status == KILN_STATUS_OK;
    }
    return status;
}

static kiln_status record_all(kiln_device *on, void *user, kiln_tensor *const *inputs,
                              kiln_tensor **out_results, size_t *out_count, kiln_error *err)
{
    const program *p = user;
    kiln_tensor *tensors[MAX_VALUES] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < p->n_sources; i++) {
        tensors[i] = inputs[i];
    }
    for (uint32_t i = 0; i < p->n_steps && status == KILN_STATUS_OK; i++) {
        const step *s = &p->steps[i];
        status = record(on, s, tensors, &tensors[s->output], err);
        for (uint32_t k = p->n_sources; k < p->n_values; k++) {
            if (p->values[k].last_use == (int)i && !p->values[k].keep) {
                kiln_release(tensors[k]);
                tensors[k] = NULL;
            }
        }
    }
    *out_count = 0;
    for (uint32_t i = p->n_sources; i < p->n_values; i++) {
        if (tensors[i] != NULL && p->values[i].keep && status == KILN_STATUS_OK) {
            out_results[(*out_count)++] = tensors[i];
        } else {
            kiln_release(tensors[i]);
        }
    }
    return status;
}

static void measure_choices(program *p, choice_tally *tally)
{
    char name[40];
    kiln_error err = KILN_ERROR_INIT;
    snprintf(name, sizeof(name), "program %llu", (unsigned long long)p->seed);
    const choice_program made = {name, p, make_inputs, record_all};
    if (p->n_steps > 0 && choice_measure(&made, tally, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s: %s", name, err.message);
    }
}

static void print_choices(const choice_tally *tally)
{
    printf("choices: %u blocks, within 5 %% of the fastest: tune off %u, lazy %u, full %u; ties "
           "among them: %u, %u, %u; %u not measured\n",
           tally->blocks, tally->good[CHOICE_OFF], tally->good[CHOICE_LAZY],
           tally->good[CHOICE_FULL], tally->ties[CHOICE_OFF], tally->ties[CHOICE_LAZY],
           tally->ties[CHOICE_FULL], tally->failed);
}

static void test_programs(void)
{
    choice_tally tally = {.device = "opencl:0"};
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_error err = KILN_ERROR_INIT;
    uint32_t covered = 0;
    uint64_t steps = 0;
    KILN_CHECK_INT(kiln_context_create(&options, &context, &err), KILN_STATUS_OK);
    if (kiln_device_open(context, "opencl:0", &device, &err) != KILN_STATUS_OK) {
        kiln_test_skip("no OpenCL device: %s", err.message);
        kiln_context_destroy(context);
        return;
    }
    KILN_CHECK_INT(kiln_device_open(context, "reference", &judge, &err), KILN_STATUS_OK);
    for (uint64_t i = 0; i < n_programs; i++) {
        program *p = calloc(1, sizeof(*p));
        if (!KILN_CHECK(p != NULL)) {
            break;
        }
        p->seed = p->state = first_seed + i;
        make(p);
        if (measures) {
            measure_choices(p, &tally);
        } else {
            judge_program(p);
        }
        steps += p->n_steps;
        for (uint32_t k = 0; k < p->n_values; k++) {
            free(p->values[k].bytes);
        }
        free(p);
    }
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        covered += uses[op] > 0;
    }
    kiln_device_stats_get(device, &stats);
    printf("random programs: %llu from seed %llu, %llu operations, %u operators, %llu blocks of "
           "%llu operations fused\n",
           (unsigned long long)n_programs, (unsigned long long)first_seed,
           (unsigned long long)steps, covered, (unsigned long long)stats.blocks_fused,
           (unsigned long long)stats.ops_fused);
    if (measures) {
        print_choices(&tally);
    }
    KILN_CHECK(measures || n_programs < 20 || (covered >= 60 && stats.ops_fused > n_programs));
    kiln_device_release(judge);
    kiln_device_release(device);
    kiln_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {KILN_TEST(test_programs)};
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--programs=", 11) == 0) {
            n_programs = strtoull(argv[i] + 11, NULL, 10);
        } else if (strncmp(argv[i], "--choices=", 10) == 0) {
            n_programs = strtoull(argv[i] + 10, NULL, 10);
            measures = true;
        } else if (strncmp(argv[i], "--seed=", 7) == 0) {
            first_seed = strtoull(argv[i] + 7, NULL, 10);
        } else {
            argv[kept++] = argv[i];
        }
    }
    return kiln_test_run("conformance/random_programs", cases, 1, kept, argv);
}
