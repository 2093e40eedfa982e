// SPDX-License-Identifier: MIT OR Apache-2.0
// Values of a fuser's formulas, for `kiln plugin check`: written from the ABI's text and not from
// fusion_host, so that a check does not repeat an error of the host.

#include "plugin_stream.h"

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

bool stream_view_formula(const stream_view *view, const kf_device *device, kf_expr expr,
                         int64_t *out)
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
