// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds streams that a fuser takes by showing it random operations and keeping those that leave it
// open. So a fuser of two operations among two hundred is checked as well as one that takes all.

#include "plugin_check.h"

#include <string.h>

enum { TRIES = 6000, MOST_OPS = 10 };

kf_status check_feed(check *c, kf_builder *builder, stream_view *view, uint32_t from, uint32_t to,
                     kf_state *state)
{
    kf_status status = KF_OK;
    for (uint32_t i = from; i < to && status == KF_OK; i++) {
        const kf_op *op = stream_view_op(view, i);
        *state = (kf_state){.struct_size = (uint32_t)sizeof(*state)};
        status = c->plugin->builder_fuse(builder, stream_view_block(view), &op, 1, state);
    }
    return status;
}

/// What a fresh builder says of all of it.
static bool ask(check *c, kf_fuser *fuser, const stream *s, kf_state *state)
{
    kf_builder *builder = NULL;
    stream_view *view = stream_view_create(s, NULL);
    *state = (kf_state){.struct_size = (uint32_t)sizeof(*state), .status = KF_CLOSED};
    bool good = c->plugin->builder_create(fuser, &builder) == KF_OK &&
                check_feed(c, builder, view, 0, s->n_ops, state) == KF_OK;
    c->plugin->builder_destroy(builder);
    stream_view_destroy(view);
    return good;
}

static bool takes(check *c, kf_fuser *fuser, const stream *s)
{
    kf_state state;
    return ask(c, fuser, s, &state) &&
           (state.status == KF_OPEN || (state.ready && state.len >= s->n_ops));
}

static bool is_used(const stream *s, uint32_t tensor)
{
    for (uint32_t i = 0; i < s->n_ops; i++) {
        for (uint32_t k = 0; k < s->ops[i].n_inputs; k++) {
            if (s->ops[i].op != KILN_OP_DROP && s->ops[i].inputs[k] == tensor) {
                return true;
            }
        }
    }
    return false;
}

/// Drops what was used, as a program does that lets go of its intermediates.
static void drop_used(stream *s, uint32_t percent)
{
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        if (stream_is_result(s, i) && is_used(s, i) && stream_chance(s, percent)) {
            (void)stream_drop(s, i);
        }
    }
}

static kiln_op liked_op(stream *s, const kiln_op *liked, uint32_t n_liked)
{
    return n_liked > 0 && stream_chance(s, 50) ? liked[stream_below(s, n_liked)] : KILN_OP_COUNT;
}

/// Keeps the stream as it is now, or with what was used dropped, if the fuser is ready then.
static bool keep_ready(check *c, kf_fuser *fuser, const stream *s, stream *best)
{
    stream dropped = *s;
    kf_state state;
    drop_used(&dropped, 85);
    if (ask(c, fuser, &dropped, &state) && state.ready && state.len >= dropped.n_ops) {
        *best = dropped;
        return true;
    }
    if (ask(c, fuser, s, &state) && state.ready && state.len >= s->n_ops) {
        *best = *s;
        return true;
    }
    return false;
}

bool check_taste(check *c, kf_fuser *fuser, uint64_t seed, stream *out)
{
    static kiln_op liked[64]; // by the fusers of this plugin, in this process
    static uint32_t n_liked;
    stream s;
    bool ready = false;
    uint32_t n_taken = 0;
    if (c->large) {
        stream_init_large(&s, seed);
    } else {
        stream_init(&s, seed);
    }
    uint32_t wanted = 1 + stream_below(&s, MOST_OPS);
    check_step(c, "builder_fuse of random operations, seed %llu", (unsigned long long)seed);
    for (int tries = 0; tries < TRIES && s.n_ops < STREAM_OPS / 2; tries++) {
        uint32_t n_ops = s.n_ops, n_tensors = s.n_tensors;
        if ((ready && n_taken >= wanted) || !stream_grow(&s, liked_op(&s, liked, n_liked))) {
            tries = ready && n_taken >= wanted ? TRIES : tries;
            continue;
        }
        kiln_op op = s.ops[n_ops].op;
        if (!takes(c, fuser, &s)) {
            stream_cut(&s, n_ops, n_tensors);
            continue;
        }
        n_taken++;
        if (n_liked < sizeof(liked) / sizeof(liked[0])) {
            liked[n_liked++] = op;
        }
        ready = keep_ready(c, fuser, &s, out) || ready;
        drop_used(&s, 30);
    }
    return ready;
}

// ---- formulas ----------------------------------------------------------------------------------

typedef struct machine {
    int64_t stack[KF_MAX_STACK];
    uint32_t depth;
    const int64_t *symbols;
    uint32_t n_symbols;
    const kf_device *device;
} machine;

static bool leaf(machine *m, const kf_ins *ins)
{
    int64_t value = ins->imm;
    if (m->depth == KF_MAX_STACK) {
        return false;
    }
    if (ins->op == KF_INS_SYM) {
        if (ins->sym >= m->n_symbols) {
            return false;
        }
        value = m->symbols[ins->sym];
    } else if (ins->op == KF_INS_DEVICE) {
        const uint64_t facts[] = {m->device->compute_units, m->device->max_group_size,
                                  m->device->local_bytes};
        if (ins->arg >= sizeof(facts) / sizeof(facts[0])) {
            return false;
        }
        value = (int64_t)facts[ins->arg];
    }
    m->stack[m->depth++] = value;
    return true;
}

static bool divide(uint32_t op, int64_t a, int64_t b, int64_t *out)
{
    if (b <= 0) {
        return false;
    }
    int64_t floor = a / b - (a % b < 0 ? 1 : 0);
    int64_t rest = a - floor * b;
    *out = op == KF_INS_MOD ? rest : op == KF_INS_FLOOR_DIV ? floor : floor + (rest > 0 ? 1 : 0);
    return op != KF_INS_ROUND_UP || !__builtin_mul_overflow(*out, b, out);
}

static bool two(uint32_t op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case KF_INS_ADD:
        return !__builtin_add_overflow(a, b, out);
    case KF_INS_SUB:
        return !__builtin_sub_overflow(a, b, out);
    case KF_INS_MUL:
        return !__builtin_mul_overflow(a, b, out);
    case KF_INS_MIN:
        *out = a < b ? a : b;
        return true;
    case KF_INS_MAX:
        *out = a > b ? a : b;
        return true;
    case KF_INS_EQ:
        *out = a == b;
        return true;
    case KF_INS_LT:
        *out = a < b;
        return true;
    case KF_INS_LE:
        *out = a <= b;
        return true;
    case KF_INS_AND:
        *out = a != 0 && b != 0;
        return true;
    case KF_INS_OR:
        *out = a != 0 || b != 0;
        return true;
    case KF_INS_FLOOR_DIV:
    case KF_INS_CEIL_DIV:
    case KF_INS_ROUND_UP:
    case KF_INS_MOD:
        return divide(op, a, b, out);
    default:
        return false;
    }
}

bool check_formula(const stream_view *view, const kf_device *device, kf_expr expr, int64_t *out)
{
    machine m = {.device = device};
    m.n_symbols = stream_view_symbols(view, &m.symbols);
    if (expr.n == 0 || expr.n > KF_MAX_EXPR || expr.ins == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < expr.n; i++) {
        const kf_ins *ins = &expr.ins[i];
        bool good = true;
        if (ins->op == KF_INS_IMM || ins->op == KF_INS_SYM || ins->op == KF_INS_DEVICE) {
            good = leaf(&m, ins);
        } else if (ins->op == KF_INS_SELECT) {
            good = m.depth >= 3;
            if (good) {
                m.depth -= 2;
                m.stack[m.depth - 1] =
                    m.stack[m.depth - 1] != 0 ? m.stack[m.depth] : m.stack[m.depth + 1];
            }
        } else {
            good = m.depth >= 2;
            if (good) {
                m.depth--;
                good = two(ins->op, m.stack[m.depth - 1], m.stack[m.depth], &m.stack[m.depth - 1]);
            }
        }
        if (!good) {
            return false;
        }
    }
    *out = m.stack[0];
    return m.depth == 1;
}
