// SPDX-License-Identifier: MIT OR Apache-2.0
// Which results of sums, means and products depend on the order of their terms: those where a
// partial result of some order may overflow, or a partial product become less than a normal number,
// while the whole of another order does not. Any order is right, so nothing can be said of them.
// Sums of up to f32 are taken as added in f32, as kernels do.
#include <math.h>
#include <string.h>

#include "reference_internal.h"

typedef struct terms { ///< of one result
    // Wider than f64, whose sums have to be told from the limit, too.
    long double up; ///< sum of what is above 0; of a product: of the logarithms
    long double down; ///< of what is below, as a positive number
    bool zero, plus_inf, minus_inf, nan;
} terms;

typedef struct range { ///< of what partial results are kept in
    double most; ///< largest number
    double least_normal;
    double least;
} range;

static const double slack = 0.01; // of roundings on the way to a limit

static void add_term(int64_t result, double x, void *user)
{
    terms *t = (terms *)user + result;
    t->nan = t->nan || isnan(x);
    t->plus_inf = t->plus_inf || (isinf(x) && x > 0);
    t->minus_inf = t->minus_inf || (isinf(x) && x < 0);
    t->up += isfinite(x) && x > 0 ? x : 0;
    t->down += isfinite(x) && x < 0 ? -x : 0;
}

static void add_factor(int64_t result, double x, void *user)
{
    terms *t = (terms *)user + result;
    double bits = x != 0 && isfinite(x) ? log2(fabs(x)) : 0;
    t->nan = t->nan || isnan(x);
    t->plus_inf = t->plus_inf || isinf(x);
    t->zero = t->zero || x == 0;
    t->up += bits > 0 ? bits : 0;
    t->down += bits < 0 ? -bits : 0;
}

static bool sum_is_open(const terms *t, const range *r, bool mean)
{
    bool up = t->plus_inf || t->up >= r->most * (1 - slack);
    bool down = t->minus_inf || t->down >= r->most * (1 - slack);
    if (t->nan || (t->plus_inf && t->minus_inf) || (!up && !down)) {
        return false;
    }
    if (up && down) {
        return true;
    }
    if (t->plus_inf || t->minus_inf) {
        return false;
    }
    return mean || fabsl(t->up - t->down) <= (long double)r->most * (1 + slack);
}

static bool product_is_open(const terms *t, const range *r)
{
    bool up = t->plus_inf || t->up >= log2(r->most) - slack;
    bool down = t->down >= -log2(r->least_normal) - slack;
    double bits = (double)(t->up - t->down);
    if (t->nan || (t->zero && t->plus_inf) || (!up && !down)) {
        return false;
    }
    if (t->zero || (up && down)) {
        return up;
    }
    if (up) {
        return !t->plus_inf && bits <= log2(r->most) + slack;
    }
    return t->up > 0 && bits >= log2(r->least) - 2;
}

kiln_status kilni_judge_open_results(const kiln_op_record *record, const kiln_view *input,
                                     const kiln_view *output, kiln_arena *arena, bool **out_open,
                                     kiln_error *err)
{
    static const range narrow = {0x1.fffffep127, 0x1p-126, 0x1p-149};
    static const range wide = {0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074};
    const range *r = input->dtype == KILN_DTYPE_F64 ? &wide : &narrow;
    bool product = record->op == KILN_OP_PROD;
    *out_open = NULL;
    if ((!product && record->op != KILN_OP_SUM && record->op != KILN_OP_MEAN) ||
        !kilni_ref_is_float(input->dtype)) {
        return KILN_STATUS_OK;
    }
    size_t count = (size_t)kiln_desc_count(&record->outputs[0]);
    terms *all = kiln_arena_alloc(arena, (count + 1) * sizeof(*all));
    bool *open = kiln_arena_alloc(arena, count + 1);
    if (all == NULL || open == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the terms of a sum");
    }
    memset(all, 0, (count + 1) * sizeof(*all));
    kiln_status status =
        kilni_ref_reduction_each(record, input, output, product ? add_factor : add_term, all, err);
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        open[i] = product ? product_is_open(&all[i], r)
                          : sum_is_open(&all[i], r, record->op == KILN_OP_MEAN);
    }
    *out_open = status == KILN_STATUS_OK ? open : NULL;
    return status;
}
