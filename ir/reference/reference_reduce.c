// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of reductions and of argmax and argmin. Sums and products of floats are
// accumulated in double in row-major order and rounded once; integers wrap. What an empty reduction
// gives is the row's.
#include <math.h>
#include <string.h>

#include "reference_internal.h"

/// The output seen with the rank of the input: reduced axes have length 1.
static kiln_view keep_reduced(const kiln_view *output, uint32_t rank, uint32_t mask)
{
    kiln_view kept = *output;
    uint32_t from = 0;
    bool has_them = output->rank == rank;
    kept.rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        bool reduced = (mask >> i & 1u) != 0;
        kept.dims[i] = reduced ? 1 : output->dims[from];
        kept.strides[i] = reduced ? 0 : output->strides[from];
        from += reduced && !has_them ? 0 : 1;
    }
    return kept;
}

/// Walks the output (with reduced axes of length 1) and, inside, the reduced axes of the input.
typedef struct reduction {
    kiln_view kept;
    kiln_view inner; ///< the input's reduced axes only, others of length 1
    kilni_ref_walk outer;
} reduction;

static void reduction_init(reduction *r, const kiln_view *input, const kiln_view *output,
                           uint32_t mask)
{
    kiln_view start = *input;
    r->kept = keep_reduced(output, input->rank, mask);
    r->inner = *input;
    for (uint32_t i = 0; i < input->rank; i++) {
        bool reduced = (mask >> i & 1u) != 0;
        r->inner.dims[i] = reduced ? input->dims[i] : 1;
        start.dims[i] = reduced ? 1 : input->dims[i];
    }
    kilni_ref_walk_init(&r->outer, r->kept.dims, input->rank);
    kilni_ref_walk_add(&r->outer, &start);
    kilni_ref_walk_add(&r->outer, &r->kept);
}

static kilni_ref_value fold_one(const reduction *r, kilni_ref_value start, kilni_ref_fold fold,
                                int64_t *out_count)
{
    kilni_ref_walk walk;
    kilni_ref_value so_far = start;
    *out_count = 0;
    kilni_ref_walk_init(&walk, r->inner.dims, r->inner.rank);
    kilni_ref_walk_add(&walk, &r->inner);
    for (; !walk.done; kilni_ref_walk_next(&walk)) {
        kilni_ref_value x = kilni_ref_load(&r->inner, r->outer.at[0] + walk.at[0]);
        so_far = fold(so_far, x, r->inner.dtype);
        *out_count += 1;
    }
    return so_far;
}

static kiln_status reduce(const kiln_op_record *call, const kiln_view *inputs,
                          const kiln_view *outputs, kilni_ref_value start, kilni_ref_fold fold,
                          bool mean, kiln_error *err)
{
    uint32_t mask = 0;
    reduction r;
    kiln_status status = kilni_ir_axes_mask(call, inputs[0].rank, &mask, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    reduction_init(&r, &inputs[0], &outputs[0], mask);
    for (; !r.outer.done; kilni_ref_walk_next(&r.outer)) {
        int64_t count = 0;
        kilni_ref_value result = fold_one(&r, start, fold, &count);
        if (mean) {
            result.f /= (double)count;
        }
        kilni_ref_store(&r.kept, r.outer.at[1], result);
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_ref_reduction_each(const kiln_op_record *call, const kiln_view *input,
                                     const kiln_view *output,
                                     void (*see)(int64_t result, double x, void *user), void *user,
                                     kiln_error *err)
{
    uint32_t mask = 0;
    reduction r;
    kiln_status status = kilni_ir_axes_mask(call, input->rank, &mask, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    reduction_init(&r, input, output, mask);
    for (; !r.outer.done; kilni_ref_walk_next(&r.outer)) {
        kilni_ref_walk walk;
        kilni_ref_walk_init(&walk, r.inner.dims, r.inner.rank);
        kilni_ref_walk_add(&walk, &r.inner);
        for (; !walk.done; kilni_ref_walk_next(&walk)) {
            see(r.outer.at[1], kilni_ref_load(&r.inner, r.outer.at[0] + walk.at[0]).f, user);
        }
    }
    return status;
}

static kilni_ref_value larger_abs(kilni_ref_value so_far, kilni_ref_value x, kiln_dtype dtype)
{
    return kilni_ref_max(so_far, kilni_ref_abs(x, dtype), dtype);
}

static kilni_ref_value either(kilni_ref_value so_far, kilni_ref_value x, kiln_dtype dtype)
{
    (void)dtype;
    return (kilni_ref_value){.u = so_far.u | x.u};
}

static kilni_ref_value both(kilni_ref_value so_far, kilni_ref_value x, kiln_dtype dtype)
{
    (void)dtype;
    return (kilni_ref_value){.u = so_far.u & x.u};
}

#define REFERENCE(name, start, fold, mean)                                                         \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err)                         \
    {                                                                                              \
        return reduce(call, inputs, outputs, start(inputs[0].dtype), fold, mean, err);             \
    }

REFERENCE(sum, kilni_ref_zero, kilni_ref_plus, false)
REFERENCE(mean, kilni_ref_zero, kilni_ref_plus, true)
REFERENCE(prod, kilni_ref_one, kilni_ref_times, false)
REFERENCE(max, kilni_ref_lowest, kilni_ref_max, false)
REFERENCE(min, kilni_ref_highest, kilni_ref_min, false)
REFERENCE(max_abs, kilni_ref_zero, larger_abs, false)
REFERENCE(any, kilni_ref_zero, either, false)
REFERENCE(all, kilni_ref_one, both, false)

#undef REFERENCE

/// Whether `x` takes the place of `best`: beyond it, or equal when the last of equals is wanted.
static bool replaces(kilni_ref_value x, kilni_ref_value best, kiln_dtype dtype, bool smallest,
                     bool last)
{
    bool x_nan = kilni_ref_is_nan(x, dtype);
    bool best_nan = kilni_ref_is_nan(best, dtype);
    if (x_nan || best_nan) {
        return x_nan && (!best_nan || last);
    }
    bool beyond = smallest ? kilni_ref_less(x, best, dtype) : kilni_ref_less(best, x, dtype);
    return beyond || (last && kilni_ref_equal(x, best, dtype));
}

static kiln_status arg_reduce(const kiln_op_record *call, const kiln_view *inputs,
                              const kiln_view *outputs, bool smallest, kiln_error *err)
{
    const kiln_view *x = &inputs[0];
    bool last = kiln_op_attr_i64(call, KILN_KEY_LAST) != 0;
    uint32_t axis = 0;
    reduction r;
    int64_t wanted = kiln_op_attr_i64(call, KILN_KEY_AXIS);
    kiln_status status = kilni_ir_axis(call, wanted, x->rank, &axis, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    reduction_init(&r, x, &outputs[0], 1u << axis);
    for (; !r.outer.done; kilni_ref_walk_next(&r.outer)) {
        kilni_ref_value best = kilni_ref_load(x, r.outer.at[0]);
        int64_t place = 0;
        for (int64_t i = 1; i < x->dims[axis]; i++) {
            kilni_ref_value value = kilni_ref_load(x, r.outer.at[0] + i * x->strides[axis]);
            if (replaces(value, best, x->dtype, smallest, last)) {
                best = value;
                place = i;
            }
        }
        kilni_ref_store(&r.kept, r.outer.at[1], (kilni_ref_value){.i = place});
    }
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_argmax(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    return arg_reduce(call, inputs, outputs, false, err);
}

kiln_status kiln_ref_argmin(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    return arg_reduce(call, inputs, outputs, true, err);
}
