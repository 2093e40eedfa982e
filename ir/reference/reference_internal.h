// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_REFERENCE_INTERNAL_H
#define KILN_REFERENCE_INTERNAL_H

/// What the reference evaluator's files share: host memory, one element of any dtype as a wide
/// value, and a walk over broadcast views. Each backend defines its own kiln_buffer: this is that
/// of the two backends of ir.

#include "shape_internal.h"

struct kiln_buffer { ///< of the reference and null backends
    unsigned char *data;
    size_t bytes;
    void (*release)(void *user); ///< of memory that is the caller's; NULL: ours
    void *user;
    bool window; ///< part of another buffer
};

/// One element: floats in `f`, signed integers in `i`, unsigned integers and bool in `u`.
typedef union kilni_ref_value {
    double f;
    int64_t i;
    uint64_t u;
} kilni_ref_value;

/// Reads and writes the element at `at` elements from the view's first. Writing rounds floats once,
/// to nearest even, and keeps the low bits of integers.
kilni_ref_value kilni_ref_load(const kiln_view *view, int64_t at);
void kilni_ref_store(const kiln_view *view, int64_t at, kilni_ref_value value);

bool kilni_ref_is_float(kiln_dtype dtype);
bool kilni_ref_is_signed(kiln_dtype dtype);
kilni_ref_value kilni_ref_of_bool(bool truth);
kilni_ref_value kilni_ref_of_float(double value);

/// Scalar attribute as an element of `dtype`, its fallback when absent.
kilni_ref_value kilni_ref_scalar(const kiln_op_record *call, kiln_attr_key key, kiln_dtype dtype);

/// Smallest and largest value of a dtype, infinities for floats.
kilni_ref_value kilni_ref_lowest(kiln_dtype dtype);
kilni_ref_value kilni_ref_highest(kiln_dtype dtype);

/// a < b and a == b in the order of `dtype`; false when one is NaN. NaN in maximum and minimum
/// wins.
bool kilni_ref_less(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype);
bool kilni_ref_equal(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype);
bool kilni_ref_is_nan(kilni_ref_value a, kiln_dtype dtype);
kilni_ref_value kilni_ref_max(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype);
kilni_ref_value kilni_ref_min(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype);
kilni_ref_value kilni_ref_abs(kilni_ref_value a, kiln_dtype dtype);

/// Zero and one of `dtype`, and what sums and products are folded with; integers wrap around.
kilni_ref_value kilni_ref_zero(kiln_dtype dtype);
kilni_ref_value kilni_ref_one(kiln_dtype dtype);
typedef kilni_ref_value (*kilni_ref_fold)(kilni_ref_value so_far, kilni_ref_value x,
                                          kiln_dtype dtype);
kilni_ref_value kilni_ref_plus(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype);
kilni_ref_value kilni_ref_times(kilni_ref_value a, kilni_ref_value b, kiln_dtype dtype);

/// Visits every index of a shape in row-major order; `at[k]` is the k-th view's element there.
enum { KILNI_REF_WALK_VIEWS = 4 };
typedef struct kilni_ref_walk {
    uint32_t rank;
    uint32_t n_views;
    int64_t dims[KILN_MAX_RANK];
    int64_t index[KILN_MAX_RANK];
    int64_t strides[KILNI_REF_WALK_VIEWS][KILN_MAX_RANK];
    int64_t at[KILNI_REF_WALK_VIEWS];
    bool done;
} kilni_ref_walk;

/// Gives every element of a reduction of floats, with the place of the result that it goes into.
kiln_status kilni_ref_reduction_each(const kiln_op_record *call, const kiln_view *input,
                                     const kiln_view *output,
                                     void (*see)(int64_t result, double x, void *user), void *user,
                                     kiln_error *err);

/// Which results of a sum, mean or product of floats depend on the order of its terms, for each
/// element of a dense output; NULL of other operators.
kiln_status kilni_judge_open_results(const kiln_op_record *record, const kiln_view *input,
                                     const kiln_view *output, kiln_arena *arena, bool **out_open,
                                     kiln_error *err);

/// Begins over `dims`; `add` aligns a view to the last axes, with length 1 repeated.
void kilni_ref_walk_init(kilni_ref_walk *walk, const int64_t *dims, uint32_t rank);
void kilni_ref_walk_add(kilni_ref_walk *walk, const kiln_view *view);
void kilni_ref_walk_next(kilni_ref_walk *walk);

/// Copies every element of `source` to the one at the same place of `target`; equal shapes and
/// dtypes.
void kilni_ref_copy(const kiln_view *source, const kiln_view *target);

/// Ten rounds of Philox4x32 (reference_random.c).
void kilni_ref_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out_words[4]);
// ---- windows over planes: reference_window.c ----

/// A view [n, c, one to three spatial axes] with three of them, those in front of length 1.
kiln_view kilni_ref_planes(const kiln_view *view);

/// The place of element `tap` (row-major in the kernel) of a window; whether it is in the input.
bool kilni_ref_place(const kilni_ir_window *w, const int64_t *window, int64_t tap,
                     int64_t out_place[KILNI_IR_SPATIAL]);

/// The window whose element `tap` is at `place`; whether there is one.
bool kilni_ref_window_at(const kilni_ir_window *w, const int64_t *place, int64_t tap,
                         int64_t out_window[KILNI_IR_SPATIAL]);

/// A float element of planes.
double kilni_ref_at(const kiln_view *planes, int64_t n, int64_t channel, const int64_t *place);

/// Element offset of an index into a view.
int64_t kilni_ref_offset(const kiln_view *view, const int64_t *index);

/// The place that an index means: below 0 it counts from the end, what is still outside is clamped.
int64_t kilni_ref_clamped(int64_t index, int64_t length);

/// The scale of a block whose values reach `range`, as scale_dtype holds it (reference_quant.c).
float kilni_ir_quant_scale(float range, kiln_dtype dtype, kiln_dtype scale_dtype);

#endif
