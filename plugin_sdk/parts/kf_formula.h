// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_formula.h: builders of formulas: of sizes, of a program's cost, of a builder's answer. Part of
// kf_util.h.
#ifndef KILN_PLUGIN_SDK_KF_FORMULA_H
#define KILN_PLUGIN_SDK_KF_FORMULA_H

#include "kiln_fuser.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A formula under construction. Overflow of the array sets `failed`.
typedef struct kf_formula {
    uint32_t n;
    uint32_t failed;
    kf_ins ins[KF_MAX_EXPR];
} kf_formula;

static inline void kf_formula_put(kf_formula *f, uint32_t op, uint32_t arg, uint32_t sym,
                                  int64_t imm)
{
    if (f->n == KF_MAX_EXPR) {
        f->failed = 1;
        return;
    }
    f->ins[f->n].op = (uint16_t)op;
    f->ins[f->n].arg = (uint16_t)arg;
    f->ins[f->n].sym = sym;
    f->ins[f->n].imm = imm;
    f->n++;
}

static inline void kf_formula_imm(kf_formula *f, int64_t value)
{
    kf_formula_put(f, KF_INS_IMM, 0, 0, value);
}

static inline void kf_formula_sym(kf_formula *f, uint32_t symbol)
{
    kf_formula_put(f, KF_INS_SYM, 0, symbol, 0);
}

static inline void kf_formula_op(kf_formula *f, uint32_t op)
{
    kf_formula_put(f, op, 0, 0, 0);
}

/// Applies `op` to what was pushed last and `value`.
static inline void kf_formula_imm_op(kf_formula *f, int64_t value, uint32_t op)
{
    kf_formula_imm(f, value);
    kf_formula_op(f, op);
}

/// Pushes the product of extents; symbol 0 is 1 and is left out.
static inline void kf_formula_product(kf_formula *f, const uint32_t *symbols, uint32_t count)
{
    uint32_t i, factors = 0;
    for (i = 0; i < count; i++) {
        if (symbols[i] != 0) {
            kf_formula_sym(f, symbols[i]);
            if (factors++ > 0) {
                kf_formula_op(f, KF_INS_MUL);
            }
        }
    }
    if (factors == 0) {
        kf_formula_imm(f, 1);
    }
}

/// Pushes the number of elements of a tensor.
static inline void kf_formula_numel(kf_formula *f, const kf_tensor *tensor)
{
    uint32_t symbols[KF_MAX_RANK];
    uint32_t i;
    for (i = 0; i < tensor->rank; i++) {
        symbols[i] = tensor->dims[i].symbol;
    }
    kf_formula_product(f, symbols, tensor->rank);
}

static inline void kf_formula_append(kf_formula *f, kf_expr expr)
{
    uint64_t i;
    for (i = 0; i < expr.n; i++) {
        kf_formula_put(f, expr.ins[i].op, expr.ins[i].arg, expr.ins[i].sym, expr.ins[i].imm);
    }
}

/// A view of the formula; lives as long as `f` and while it is not changed.
static inline kf_expr kf_formula_expr(const kf_formula *f)
{
    kf_expr expr;
    expr.ins = f->ins;
    expr.n = f->failed ? 0 : f->n;
    return expr;
}

// ---- cost ----

// Of a device that has not been measured. The host takes the same, so that claims and what they are
// compared with rest on one idea of the device.
#define KF_UNKNOWN_BYTES_PER_S 10000000000ull
#define KF_UNKNOWN_FLOPS_F32 20000000000ull
#define KF_UNKNOWN_LAUNCH_NS 5000

/// What a byte, a flop and a launch cost on a device, in units that keep formulas within int64.
typedef struct kf_cost {
    int64_t ps_per_kib; // picoseconds for 1024 bytes moved
    int64_t ps_per_kflop; // picoseconds for 1024 f32 operations
    int64_t launch_ns;
} kf_cost;

static inline kf_cost kf_cost_of(const kf_device *device)
{
    kf_cost cost;
    uint64_t bandwidth = device->mem_bytes_per_s ? device->mem_bytes_per_s : KF_UNKNOWN_BYTES_PER_S;
    uint64_t flops = device->flops_f32 ? device->flops_f32 : KF_UNKNOWN_FLOPS_F32;
    cost.ps_per_kib = (int64_t)(1024000000000000ull / bandwidth) + 1;
    cost.ps_per_kflop = (int64_t)(1024000000000000ull / flops) + 1;
    cost.launch_ns = device->launch_ns ? (int64_t)device->launch_ns : KF_UNKNOWN_LAUNCH_NS;
    return cost;
}

/// Pushes the predicted nanoseconds of a program that moves `bytes` and computes `flops`, both
/// formulas: the roofline max(bytes / bandwidth, flops / rate), and its launches.
static inline void kf_formula_roofline(kf_formula *f, const kf_cost *cost, kf_expr bytes,
                                       kf_expr flops, uint32_t launches)
{
    kf_formula_append(f, bytes);
    kf_formula_imm(f, cost->ps_per_kib);
    kf_formula_op(f, KF_INS_MUL);
    if (flops.n > 0) {
        kf_formula_append(f, flops);
        kf_formula_imm(f, cost->ps_per_kflop);
        kf_formula_op(f, KF_INS_MUL);
        kf_formula_op(f, KF_INS_MAX);
    }
    kf_formula_imm(f, 1024000);
    kf_formula_op(f, KF_INS_FLOOR_DIV);
    kf_formula_imm(f, launches * cost->launch_ns);
    kf_formula_op(f, KF_INS_ADD);
}

// ---- results ----

/// What a block costs. A formula left empty, or that overflowed, is absent from the answer.
typedef struct kf_estimate {
    kf_formula read; // bytes
    kf_formula written; // bytes
    kf_formula flops;
    kf_formula temp; // bytes
    kf_formula ns;
} kf_estimate;

/// Empties the formulas; their instructions need no clearing.
static inline void kf_estimate_init(kf_estimate *estimate)
{
    estimate->read.n = estimate->read.failed = 0;
    estimate->written.n = estimate->written.failed = 0;
    estimate->flops.n = estimate->flops.failed = 0;
    estimate->temp.n = estimate->temp.failed = 0;
    estimate->ns.n = estimate->ns.failed = 0;
}

/// Puts the length, the launches and the formulas, as views of `estimate`, into an answer.
static inline void kf_estimate_answer(const kf_estimate *estimate, uint32_t len, uint32_t launches,
                                      kf_state *state)
{
    state->len = len;
    state->confidence = KF_CONFIDENCE_MODEL;
    state->launches = launches;
    state->est_ns = kf_formula_expr(&estimate->ns);
    state->est_bytes_read = kf_formula_expr(&estimate->read);
    state->est_bytes_written = kf_formula_expr(&estimate->written);
    state->est_flops = kf_formula_expr(&estimate->flops);
    state->temp_bytes = kf_formula_expr(&estimate->temp);
}

#ifdef __cplusplus
}
#endif
#endif
