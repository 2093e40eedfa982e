// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_AUTODIFF_TRAIN_INTERNAL_H
#define KILN_AUTODIFF_TRAIN_INTERNAL_H

/// What the files of this room share.

#include "kiln_optimiser.h"
#include "safetensors.h"

typedef struct kilni_parameter {
    char *name;
    kiln_param_id id;
    kiln_tensor *value;
} kilni_parameter;

struct kiln_params {
    const kiln_env *env;
    kiln_device *device; ///< held
    uint64_t seed;
    kilni_parameter *all;
    size_t count;
    bool (*bring)(void *bringer, size_t index); ///< NULL: all values are here. Else it is called
                                                ///< before one is looked at; false: no memory
    void *bringer;
};

/// The value becomes the parameter's; the set takes the reference.
void kilni_params_replace(kiln_params *params, size_t index, kiln_tensor *take_value);

/// Sets of a group's members: none is NULL, and all have the same names in one order.
kiln_status kilni_params_check_alike(kiln_params *const *sets, size_t n_sets, kiln_error *err);

/// Fills memory with initial values: numbers of the stream that `seed` and `name` give.
/// `options` is whole, and `desc` a float's. Errors: RESOURCE_EXHAUSTED, INVALID_ARGUMENT.
kiln_status kilni_init_fill(const kiln_env *env, uint64_t seed, const char *name,
                            const kiln_init_options *options, const kiln_tensor_desc *desc,
                            void *out_data, kiln_error *err);

/// Tensors that are saved, in the host's memory until kilni_saving_fini.
typedef struct kilni_saving {
    const kiln_env *env;
    kilni_saved *tensors;
    kiln_mapping **mappings;
    char **names;
    size_t count;
    size_t room;
} kilni_saving;

kiln_status kilni_saving_init(const kiln_env *env, size_t room, kilni_saving *out_saving,
                              kiln_error *err);
/// Waits for the tensor. Its name is `prefix` and `name`.
kiln_status kilni_saving_add(kilni_saving *saving, const char *prefix, const char *name,
                             kiln_tensor *tensor, kiln_error *err);
void kilni_saving_fini(kilni_saving *saving);

/// A tensor of what was saved. Errors: as kiln_tensor_create and kilni_saved_read.
kiln_status kilni_saved_tensor(kiln_device *device, const kilni_saved *saved,
                               kiln_tensor **out_tensor, kiln_error *err);
/// The same, which must look as `like`. Errors: also NOT_FOUND when `saved` is NULL,
/// INVALID_ARGUMENT for another shape or dtype.
kiln_status kilni_saved_like(const kilni_saved *saved, const char *prefix, const char *name,
                             const kiln_tensor *like, kiln_tensor **out_tensor, kiln_error *err);

#endif
