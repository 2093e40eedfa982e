// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_AUTODIFF_OPTIMISER_INTERNAL_H
#define KILN_AUTODIFF_OPTIMISER_INTERNAL_H

/// What the files of optimisers share.

#include "train_internal.h"

enum { KILNI_MOST_STATE = 2, KILNI_FLOATS = 4 };

/// What differs from step to step.
enum { KILNI_FACTOR_RATE, KILNI_FACTOR_ROOT, KILNI_FACTOR_SHRINK, KILNI_FACTORS };

/// A factor: a number, or in a captured step a tensor of one element.
typedef struct kilni_factor {
    double number;
    kiln_tensor *tensor; ///< NULL: the number
} kilni_factor;

/// The factors for parameters of one dtype, and what gradients are scaled down by.
typedef struct kilni_factors {
    kiln_dtype dtype;
    kilni_factor all[KILNI_FACTORS];
    kiln_tensor *clip; ///< of one element; NULL: not
} kilni_factors;

/// The state of one parameter; NULL beyond what the rule has.
typedef struct kilni_moments {
    kiln_tensor *all[KILNI_MOST_STATE];
} kilni_moments;

struct kiln_optimiser {
    const kiln_env *env;
    kiln_params *params;
    size_t count; ///< of parameters
    kiln_optimiser_options options; ///< whole
    kiln_schedule schedule;
    uint64_t steps;
    double scale; ///< of the loss; 0: none
    uint64_t good_steps; ///< since the scale changed
    uint64_t skipped;
    size_t n_moments; ///< of each parameter
    kilni_moments *moments;
    kiln_dtype dtypes[KILNI_FLOATS]; ///< of the parameters, each once
    size_t n_dtypes;
    kiln_graph *graph; ///< NULL: not captured
};

/// What a rule needs.
typedef struct kilni_step_input {
    const kiln_optimiser_options *options;
    const kilni_factors *factors;
    kiln_tensor *value;
    kiln_tensor *gradient;
    const kilni_moments *moments;
} kilni_step_input;

/// Records the step of one parameter. The caller holds the results.
kiln_status kilni_optimiser_rule_record(const kilni_step_input *input, kiln_tensor **out_value,
                                        kilni_moments *out_moments, kiln_error *err);

/// Name of a rule, and of one of its moments, in files.
const char *kilni_optimiser_rule_name(kiln_optimiser_rule rule);
const char *kilni_optimiser_moment_name(kiln_optimiser_rule rule, size_t moment);
/// How many moments each parameter has.
size_t kilni_optimiser_moment_count(const kiln_optimiser_options *options);

/// What of a gradient counts, as one element of rank 1 and `dtype`; and how such are joined.
typedef kiln_status (*kilni_part_of_fn)(kiln_tensor *gradient, kiln_dtype dtype,
                                        kiln_tensor **out_part, kiln_error *err);
typedef kiln_status (*kilni_join_fn)(kiln_tensor *x, const int64_t *axes, size_t n_axes,
                                     bool keepdims, kiln_tensor **out_tensor, kiln_error *err);

/// Records the parts of all gradients joined to one element; NULL when there is no element.
kiln_status kilni_gradients_fold(kiln_tensor *const *gradients, size_t count, kiln_dtype dtype,
                                 kilni_part_of_fn part, kilni_join_fn joined,
                                 kiln_tensor **out_tensor, kiln_error *err);

/// Records what gradients are multiplied by so that their norm, of all together, is at most `most`:
/// one element of f32, or of f64 when a gradient is. NULL gradients count nothing.
kiln_status kilni_optimiser_clip_record(kiln_device *device, kiln_tensor *const *gradients,
                                        size_t count, double most, kiln_tensor **out_factor,
                                        kiln_error *err);

/// The two halves of it: the sum of all squares, as one element of rank 1, NULL when there is none;
/// and min(1, most / (sqrt(total) + 1e-6)), of rank 0.
kiln_status kilni_optimiser_squares_record(kiln_tensor *const *gradients, size_t count,
                                           kiln_tensor **out_total, kiln_error *err);
kiln_status kilni_optimiser_clip_factor(kiln_device *device, kiln_tensor *total, double most,
                                        kiln_tensor **out_factor, kiln_error *err);

/// A step with gradients that fit and are not scaled.
kiln_status kilni_optimiser_step_as_is(kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                                       kiln_error *err);

/// Whether all elements of all gradients are finite. Waits. NULL gradients are.
kiln_status kilni_optimiser_check_finite(const kiln_optimiser *optimiser,
                                         kiln_tensor *const *gradients, bool *out_finite,
                                         kiln_error *err);
/// Records the gradients divided by the scale of the loss. The caller releases them.
kiln_status kilni_optimiser_unscale(const kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                                    kiln_tensor **out_gradients, kiln_error *err);
/// The step was made, or left out.
void kilni_optimiser_adapt_scale(kiln_optimiser *optimiser, bool finite);

/// Numbers of the step that comes, as `factors` of each dtype; the tensors are NULL.
void kilni_optimiser_factors(const kiln_optimiser *optimiser, kilni_factors *out_factors);

#endif
