// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_PARAMS_H
#define KILN_KILN_PARAMS_H

/// Named parameters of a model, on one device: made, initialised, saved and loaded. What computes
/// with them is the program's. An optimiser (kiln_optimiser.h) replaces their values.
///
/// Unless a function says otherwise: one thread at a time uses a set; arguments are borrowed for
/// the call; it can fail with INVALID_ARGUMENT, NOT_FOUND for a name that the set has not, or
/// RESOURCE_EXHAUSTED. NULL where a pointer is needed is INVALID_ARGUMENT; a function without a
/// status then does nothing and gives 0.

#include "kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_params kiln_params;

typedef enum kiln_init {
    KILN_INIT_CONSTANT = 0, ///< `center` everywhere
    KILN_INIT_UNIFORM = 1, ///< from center - spread to center + spread
    KILN_INIT_NORMAL = 2, ///< around `center` with the deviation `spread`
    KILN_INIT_TRUNCATED_NORMAL = 3, ///< the same, drawn again beyond two deviations
    KILN_INIT_XAVIER_UNIFORM = 4, ///< bound gain * sqrt(6 / (fan_in + fan_out))
    KILN_INIT_XAVIER_NORMAL = 5, ///< deviation gain * sqrt(2 / (fan_in + fan_out))
    KILN_INIT_KAIMING_UNIFORM = 6, ///< bound gain * sqrt(3 / fan_in)
    KILN_INIT_KAIMING_NORMAL = 7, ///< deviation gain / sqrt(fan_in)
    KILN_INIT_ORTHOGONAL = 8 ///< gain times a matrix whose shorter side is orthonormal
} kiln_init;

typedef struct kiln_init_options {
    uint32_t struct_size;
    kiln_init kind;
    double center;
    double spread; ///< 0: 1
    double gain; ///< 0: 1; of Kaiming sqrt(2), which suits relu
    int64_t
        fan_in; ///< 0: axis 1 times the axes behind it, as a layer's weight (out, in, ..) has it
    int64_t fan_out; ///< 0: axis 0 times the axes behind axis 1
} kiln_init_options;

#define KILN_INIT_OPTIONS_INIT                                                                     \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_init_options)                                         \
    }

/// Makes an empty set. A parameter's first values depend on `seed`, its name and its shape: not on
/// the device, and not on what else is in the set. The caller owns `*out_params`
/// (kiln_params_destroy).
KILN_NODISCARD KILN_API kiln_status kiln_params_create(kiln_device *device, uint64_t seed,
                                                       kiln_params **out_params, kiln_error *err);

/// Frees the set and releases its tensors. Takes NULL.
KILN_API void kiln_params_destroy(kiln_params *params);

/// Adds a parameter of initial values. `options` NULL: zeros. Errors: also ALREADY_EXISTS;
/// UNIMPLEMENTED when the device does not store the dtype, or it is no float.
KILN_NODISCARD KILN_API kiln_status kiln_params_add(kiln_params *params, const char *name,
                                                    kiln_dtype dtype, size_t rank,
                                                    const int64_t *dims,
                                                    const kiln_init_options *options,
                                                    kiln_error *err);

/// Adds a parameter whose value is there; the set takes a reference. Errors: also ALREADY_EXISTS.
KILN_NODISCARD KILN_API kiln_status kiln_params_add_tensor(kiln_params *params, const char *name,
                                                           kiln_tensor *tensor, kiln_error *err);

/// How many parameters there are. They are numbered in the order in which they were added.
KILN_API size_t kiln_params_count(const kiln_params *params);

/// Name of a parameter; lives as long as the set.
KILN_API const char *kiln_params_name(const kiln_params *params, size_t index);

/// The number of the parameter with this name; kiln_params_count when there is none.
KILN_API size_t kiln_params_find(const kiln_params *params, const char *name);

/// The value of a parameter, until it is replaced. Its kiln_param_id (kiln_gradsync.h) follows from
/// its name: the same on all devices and in all processes. NULL also when a value that comes late
/// (kiln_sharded.h) finds no memory.
KILN_API kiln_tensor *kiln_params_tensor(const kiln_params *params, size_t index);

/// Replaces the value of a parameter by one of the same shape and dtype; the set takes a reference.
KILN_NODISCARD KILN_API kiln_status kiln_params_set(kiln_params *params, size_t index,
                                                    kiln_tensor *tensor, kiln_error *err);

/// Gives the parameters of all members of a group, in all processes, the values that the member
/// `root` has. sets[i] is of the group's device i in this process; all have the same parameters in
/// one order. On failure the parameters keep their values. Errors: also those of
/// kiln_collective_broadcast.
KILN_NODISCARD KILN_API kiln_status kiln_params_broadcast(kiln_collective *group,
                                                          kiln_params *const *sets, size_t n_sets,
                                                          uint32_t root, kiln_error *err);

/// The bytes of all parameters.
KILN_API size_t kiln_params_bytes(const kiln_params *params);

/// Writes all parameters to a file: NumPy's format when its name ends in .npz, else safetensors. A
/// file of that name is replaced when the new one is whole. Errors: also UNAVAILABLE with the
/// reason, UNIMPLEMENTED for a dtype that the format has not, and those of kiln_read.
KILN_NODISCARD KILN_API kiln_status kiln_params_save(const kiln_params *params, const char *path,
                                                     kiln_error *err);

/// Gives every parameter the value that a file has for its name; other tensors of the file are left
/// alone. On failure the parameters keep their values. Errors: also NOT_FOUND for a file or name
/// that is not there, INVALID_ARGUMENT for another shape or dtype, DATA_LOSS for a damaged file,
/// UNIMPLEMENTED.
KILN_NODISCARD KILN_API kiln_status kiln_params_load(kiln_params *params, const char *path,
                                                     kiln_error *err);

/// Adds all tensors of a file as parameters. Errors: as kiln_params_load; ALREADY_EXISTS.
KILN_NODISCARD KILN_API kiln_status kiln_params_add_file(kiln_params *params, const char *path,
                                                         kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
