// SPDX-License-Identifier: MIT OR Apache-2.0
// einsum as views, products and sums. Each input first loses what it has alone: diagonals, letters
// that nobody else needs, and axes of length 1 that are longer elsewhere. Then the inputs are
// joined from left to right: letters that both have and that are needed later become batches, the
// others that both have are summed by a matrix product; where nothing is summed, or everything, it
// is an elementwise product.
#include "decompose_internal.h"
#include "einsum_internal.h"

typedef struct operand {
    kilni_value value;
    uint32_t rank;
    uint8_t labels[KILN_MAX_RANK];
} operand;

static uint64_t bit(uint8_t label)
{
    return UINT64_C(1) << label;
}

static uint64_t set_of(const operand *o)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < o->rank; i++) {
        set |= bit(o->labels[i]);
    }
    return set;
}

static bool has(uint64_t set, uint8_t label)
{
    return (set >> label & 1u) != 0;
}

static int64_t length_at(kiln_expander *x, const operand *o, uint32_t axis)
{
    return kilni_expand_desc(x, o->value).dims[axis];
}

static void remove_axis(operand *o, uint32_t axis)
{
    o->rank--;
    for (uint32_t i = axis; i < o->rank; i++) {
        o->labels[i] = o->labels[i + 1];
    }
}

/// Axes in the order of `labels`.
static void order(kiln_expander *x, operand *o, const uint8_t *labels)
{
    int64_t axes[KILN_MAX_RANK];
    bool moved = false;
    for (uint32_t i = 0; i < o->rank; i++) {
        for (uint32_t k = 0; k < o->rank; k++) {
            if (o->labels[k] == labels[i]) {
                axes[i] = k;
            }
        }
        moved |= axes[i] != i;
    }
    if (moved) {
        o->value = kilni_expand_permute(x, o->value, axes, o->rank);
    }
    for (uint32_t i = 0; i < o->rank && i < KILN_MAX_RANK; i++) {
        o->labels[i] = labels[i];
    }
}

// ---- one operand alone ----

/// Axes a and b, of one length n, become one: brought last, merged, every n + 1st element.
static void take_diagonal(kiln_expander *x, operand *o, uint32_t a, uint32_t b)
{
    int64_t axes[KILN_MAX_RANK];
    int64_t dims[KILN_MAX_RANK];
    int64_t starts[KILN_MAX_RANK] = {0};
    int64_t steps[KILN_MAX_RANK];
    uint32_t n = 0;
    int64_t length = length_at(x, o, a);
    uint8_t label = o->labels[a];
    for (uint32_t i = 0; i < o->rank; i++) {
        if (i != a && i != b) {
            dims[n] = length_at(x, o, i);
            o->labels[n] = o->labels[i];
            steps[n] = 1;
            axes[n++] = i;
        }
    }
    axes[n] = a;
    axes[n + 1] = b;
    o->value = kilni_expand_permute(x, o->value, axes, o->rank);
    dims[n] = length * length;
    steps[n] = length + 1;
    o->labels[n] = label;
    o->rank--;
    o->value = kilni_expand_reshape(x, o->value, dims, o->rank);
    const kiln_attr attrs[] = {
        {.type = KILN_ATTR_I64_LIST, .count = o->rank, .v.ints = starts},
        {.type = KILN_ATTR_I64_LIST, .count = o->rank, .v.ints = dims},
        {.type = KILN_ATTR_I64_LIST, .count = o->rank, .v.ints = steps},
    };
    kilni_value sliced = 0;
    kilni_expand_op(x, KILN_OP_SLICE, &o->value, 1, attrs, 3, &sliced);
    o->value = sliced;
}

static void take_diagonals(kiln_expander *x, operand *o)
{
    for (uint32_t a = 0; a < o->rank; a++) {
        for (uint32_t b = a + 1; b < o->rank; b++) {
            if (o->labels[a] == o->labels[b]) {
                take_diagonal(x, o, a, b);
                a = UINT32_MAX; // the axes have moved: begin again
                break;
            }
        }
    }
}

static void drop_ones(kiln_expander *x, const kilni_einsum *e, operand *o)
{
    int64_t dims[KILN_MAX_RANK];
    uint32_t rank = o->rank;
    uint32_t n = 0;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t length = kilni_expand_desc(x, o->value).dims[i];
        if (length != 1 || e->length[o->labels[i]] == 1) {
            o->labels[n] = o->labels[i];
            dims[n++] = length;
        }
    }
    o->rank = n;
    if (n < rank) {
        o->value = kilni_expand_reshape(x, o->value, dims, n);
    }
}

static void sum_others(kiln_expander *x, operand *o, uint64_t needed)
{
    int64_t axes[KILN_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->rank; i++) {
        if (!has(needed, o->labels[i])) {
            axes[count++] = i;
        }
    }
    if (count > 0) {
        o->value = kilni_expand_reduce(x, KILN_OP_SUM, o->value, axes, count, false);
    }
    while (count > 0) {
        remove_axis(o, (uint32_t)axes[--count]);
    }
}

// ---- two operands ----

typedef struct groups { ///< labels of a pair, by what becomes of them
    uint8_t labels[4][KILN_MAX_RANK];
    uint32_t count[4];
    int64_t product[4];
} groups;

enum { BATCH, LEFT, RIGHT, SUMMED };

static void classify(const kilni_einsum *e, const operand *a, const operand *b, uint64_t needed,
                     groups *g)
{
    *g = (groups){.product = {1, 1, 1, 1}};
    for (uint32_t i = 0; i < a->rank + b->rank; i++) {
        uint8_t label = i < a->rank ? a->labels[i] : b->labels[i - a->rank];
        bool both = has(set_of(a), label) && has(set_of(b), label);
        if (both && i >= a->rank) {
            continue;
        }
        unsigned kind = !both ? (i < a->rank ? LEFT : RIGHT) : has(needed, label) ? BATCH : SUMMED;
        g->labels[kind][g->count[kind]++] = label;
        g->product[kind] *= e->length[label];
    }
}

static uint32_t join(const groups *g, const unsigned *kinds, unsigned n, uint8_t *out_labels)
{
    uint32_t count = 0;
    for (unsigned i = 0; i < n; i++) {
        for (uint32_t k = 0; k < g->count[kinds[i]]; k++) {
            out_labels[count++] = g->labels[kinds[i]][k];
        }
    }
    return count;
}

/// An operand with its axes in the order of two or three groups, each merged into one axis.
static kilni_value merged(kiln_expander *x, operand *o, const groups *g, const unsigned *kinds)
{
    uint8_t labels[3 * KILN_MAX_RANK];
    const int64_t dims[] = {g->product[kinds[0]], g->product[kinds[1]], g->product[kinds[2]]};
    (void)join(g, kinds, 3, labels);
    order(x, o, labels);
    return kilni_expand_reshape(x, o->value, dims, 3);
}

static void result_shape(kiln_expander *x, const kilni_einsum *e, const groups *g, operand *out)
{
    static const unsigned kinds[] = {BATCH, LEFT, RIGHT};
    uint8_t labels[3 * KILN_MAX_RANK];
    int64_t dims[KILN_MAX_RANK];
    uint32_t rank = join(g, kinds, 3, labels);
    if (rank > KILN_MAX_RANK) {
        kilni_expand_fail(x, KILN_STATUS_UNIMPLEMENTED, "two inputs together have too many axes");
        return;
    }
    for (uint32_t i = 0; i < rank; i++) {
        out->labels[i] = labels[i];
        dims[i] = e->length[labels[i]];
    }
    out->rank = rank;
    out->value = kilni_expand_reshape(x, out->value, dims, rank);
}

static operand multiply(kiln_expander *x, const kilni_einsum *e, operand a, operand b,
                        uint64_t needed)
{
    static const unsigned left[] = {BATCH, LEFT, SUMMED};
    static const unsigned right[] = {BATCH, SUMMED, RIGHT};
    groups g;
    operand out = {0};
    classify(e, &a, &b, needed, &g);
    kilni_value x3 = merged(x, &a, &g, left);
    kilni_value y3 = merged(x, &b, &g, right);
    bool dot = g.product[LEFT] == 1 && g.product[RIGHT] == 1;
    if (g.count[SUMMED] > 0 && !dot) {
        out.value = kilni_expand_matmul(x, x3, y3, false, false);
    } else {
        const int64_t turned[] = {g.product[BATCH], 1, g.product[SUMMED]};
        const int64_t last = 2;
        y3 = dot ? kilni_expand_reshape(x, y3, turned, 3) : y3;
        out.value = kilni_x_mul(x, x3, y3);
        if (g.count[SUMMED] > 0) {
            out.value = kilni_expand_reduce(x, KILN_OP_SUM, out.value, &last, 1, true);
        }
    }
    result_shape(x, e, &g, &out);
    return out;
}

void kiln_decompose_einsum(kiln_expander *expander)
{
    kilni_einsum e;
    operand first = {0};
    uint64_t result = 0;
    const kiln_op_record *call = kilni_expand_call(expander);
    if (kilni_ir_einsum_of(call, &e, NULL) != KILN_STATUS_OK) {
        kilni_expand_fail(expander, KILN_STATUS_INTERNAL, "its equation was not checked");
        return;
    }
    for (uint32_t i = 0; i < e.out_rank; i++) {
        result |= bit(e.out_labels[i]);
    }
    for (unsigned i = 0; i < call->n_inputs; i++) {
        uint64_t others = result;
        uint64_t later = result;
        operand o = {.value = kilni_x_input(expander, i), .rank = call->inputs[i].rank};
        for (uint32_t k = 0; k < o.rank; k++) {
            o.labels[k] = e.labels[i][k];
        }
        for (unsigned n = 0; n < call->n_inputs; n++) {
            for (uint32_t k = 0; n != i && k < call->inputs[n].rank; k++) {
                others |= bit(e.labels[n][k]);
                later |= n > i ? bit(e.labels[n][k]) : 0;
            }
        }
        take_diagonals(expander, &o);
        drop_ones(expander, &e, &o);
        sum_others(expander, &o, others);
        if (i > 0) {
            sum_others(expander, &first, set_of(&o) | later);
            sum_others(expander, &o, set_of(&first) | later);
        }
        first = i == 0 ? o : multiply(expander, &e, first, o, later);
    }
    sum_others(expander, &first, result);
    order(expander, &first, e.out_labels);
    kilni_expand_output(expander, 0, first.value);
}
