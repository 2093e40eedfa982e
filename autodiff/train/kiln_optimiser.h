// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_OPTIMISER_H
#define KILN_KILN_OPTIMISER_H

/// Optimisers: from the gradients of a set of parameters to their next values. A step is recorded
/// as operations, the same chain for each parameter, which the foreach fuser computes with few
/// launches. Values and state are kept in the dtype of their parameter.
///
/// Unless a function says otherwise: one thread at a time uses an optimiser and its set; arguments
/// are borrowed for the call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED, and with the
/// errors of recording. NULL where a pointer is needed is INVALID_ARGUMENT; a function without a
/// status then does nothing and gives 0.

#include "kiln_params.h"
#include "kiln_schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_optimiser kiln_optimiser;

typedef enum kiln_optimiser_rule {
    KILN_OPTIMISER_SGD = 0, ///< with momentum, if wanted as Nesterov's
    KILN_OPTIMISER_ADAM = 1, ///< Kingma and Ba, 2015; `decay` joins the gradient
    KILN_OPTIMISER_ADAMW = 2, ///< Loshchilov and Hutter, 2019; `decay` shrinks the parameter
    KILN_OPTIMISER_LION = 3 ///< Chen and others, 2023; `decay` shrinks the parameter
} kiln_optimiser_rule;

typedef struct kiln_optimiser_options {
    uint32_t struct_size;
    kiln_optimiser_rule rule;
    double rate; ///< 0: 0.001
    double momentum; ///< of SGD
    uint32_t nesterov; ///< of SGD: 1: the step looks ahead
    uint32_t captured; ///< 1: the step becomes a graph at its first run, and runs in place
    double beta1; ///< 0: 0.9
    double beta2; ///< 0: 0.999; of Lion 0.99
    double epsilon; ///< 0: 1e-8
    double decay; ///< of weights
    double clip; ///< gradients are scaled down to this norm of all of them together; 0: never
    const kiln_schedule *schedule; ///< copied; NULL: constant
    double loss_scale; ///< where scaling of the loss begins, such as 65536; 0: no scaling
    uint64_t scale_period; ///< good steps after which the scale doubles; 0: 2000
} kiln_optimiser_options;

#define KILN_OPTIMISER_OPTIONS_INIT                                                                \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_optimiser_options)                                    \
    }

/// Makes an optimiser of all parameters that the set has now; it outlives the optimiser and gets no
/// further ones. State begins with zeros. `options` may be NULL. The caller owns `*out_optimiser`
/// (kiln_optimiser_destroy).
KILN_NODISCARD KILN_API kiln_status kiln_optimiser_create(kiln_params *params,
                                                          const kiln_optimiser_options *options,
                                                          kiln_optimiser **out_optimiser,
                                                          kiln_error *err);

/// Frees the optimiser and its state; the parameters stay. Takes NULL.
KILN_API void kiln_optimiser_destroy(kiln_optimiser *optimiser);

/// Makes a step: gradients[i], on the set's device, is of parameter i. A parameter whose gradient
/// is NULL stays as it is, and so does its state; a captured step needs all of them. Nothing waits.
/// Wrong gradients change nothing; a step that fails on the way may have changed some parameters.
/// With scaling of the loss the step divides by the scale. It waits until it knows whether all
/// gradients are finite: if one is not, it changes nothing, halves the scale, and is no step.
/// Members of a job, which have the same gradients, come to the same.
KILN_NODISCARD KILN_API kiln_status kiln_optimiser_step(kiln_optimiser *optimiser,
                                                        kiln_tensor *const *gradients,
                                                        size_t n_gradients, kiln_error *err);

/// Multiplies the loss by the scale of options.loss_scale, so that gradients of f16 do not vanish:
/// backward starts from the result. The caller holds `*out_loss`. Errors: also FAILED_PRECONDITION
/// for an optimiser without scaling.
KILN_NODISCARD KILN_API kiln_status kiln_optimiser_scale_loss(const kiln_optimiser *optimiser,
                                                              kiln_tensor *loss,
                                                              kiln_tensor **out_loss,
                                                              kiln_error *err);

/// What the next loss is multiplied by; 1 without scaling.
KILN_API double kiln_optimiser_loss_scale(const kiln_optimiser *optimiser);

/// How many steps were left out for gradients that were no finite numbers.
KILN_API uint64_t kiln_optimiser_skipped(const kiln_optimiser *optimiser);

/// How many steps were made.
KILN_API uint64_t kiln_optimiser_steps(const kiln_optimiser *optimiser);

/// The rate of the next step.
KILN_API double kiln_optimiser_rate(const kiln_optimiser *optimiser);

/// Writes parameters, state, the number of steps and the scale to one safetensors file; what loads
/// it goes on bit for bit. A file of that name is replaced when the new one is whole: a process
/// that is killed leaves the old one. Waits for the device. Errors: also those of kiln_params_save.
KILN_NODISCARD KILN_API kiln_status kiln_optimiser_save(const kiln_optimiser *optimiser,
                                                        const char *path, kiln_error *err);

/// Takes all that kiln_optimiser_save wrote, for a set of the same names, shapes and dtypes and the
/// same rule. On failure nothing has changed. Errors: also those of kiln_params_load.
KILN_NODISCARD KILN_API kiln_status kiln_optimiser_load(kiln_optimiser *optimiser, const char *path,
                                                        kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
