// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_LAUNCH_H
#define KILN_IR_LAUNCH_H

/// Programs of a backend: building and launching what fusers wrote. A backend offers the whole
/// table or none of it; without it the device takes no programs, and every operation is unfused.
///
/// Unless a function says otherwise, the runtime calls it under the backend's lock, and none waits
/// for the queue. No pointer is NULL unless a function takes it.

#include "ir_program.h"
#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_backend kiln_backend;
typedef struct kiln_built kiln_built; ///< a program made ready; each backend defines its own
typedef struct kiln_prepared kiln_prepared; ///< a launch with its arguments; likewise

typedef struct kiln_launch_arg { ///< a kernel argument with its value
    enum {
        KILN_VALUE_BUFFER = 1,
        KILN_VALUE_BYTES = 2,
        KILN_VALUE_LOCAL = 3,
        KILN_VALUE_MEMORY = 4
    } kind;
    uint32_t length; ///< BYTES: 1 to 8; MEMORY: from 1
    kiln_buffer *buffer;
    uint64_t bytes; ///< BYTES: the value, in memory order; LOCAL: how many
    const void *memory; ///< MEMORY: a value of any length, such as a struct
} kiln_launch_arg;

typedef struct kiln_launch {
    uint32_t launch; ///< index in the program
    uint32_t n_dims;
    size_t global[3];
    size_t local[3]; ///< local[0] == 0: the driver chooses
    const kiln_launch_arg *args;
    uint32_t n_args;
} kiln_launch;

typedef struct kiln_backend_program_ops {
    uint32_t struct_size;
    /// The program stays until `free`, which gets what this gives.
    kiln_status (*build)(kiln_backend *backend, const kiln_program *program, kiln_built **out_built,
                         kiln_error *err);
    void (*free)(kiln_backend *backend, kiln_built *built);
    /// Queues one launch. The arguments are the caller's again when this returns.
    kiln_status (*launch)(kiln_backend *backend, kiln_built *built, const kiln_launch *launch,
                          kiln_error *err);
    /// As `launch`, but waits, before and after, and gives the device's time.
    kiln_status (*time)(kiln_backend *backend, kiln_built *built, const kiln_launch *launch,
                        uint64_t *out_ns, kiln_error *err);
    /// Whether `build` would find all that it needs, or compile it. UNIMPLEMENTED: the device has
    /// no compiler and there is no binary, with what to do.
    kiln_status (*ready)(kiln_backend *backend, const kiln_program *program, kiln_error *err);
    /// Calls `take` for each part of a program as the device has it. UNIMPLEMENTED: it has none to
    /// show.
    kiln_status (*parts)(kiln_backend *backend, const kiln_program *program,
                         kiln_program_part_fn take, void *user, kiln_error *err);
    /// Whether the device has compiled anything. Some say that they do (KILN_FEATURE_COMPILER) and
    /// refuse; with `ask`, what had to be known is found out: a device that refuses loses the
    /// feature, and then gets KILN_FEATURE_PREPARED.
    bool (*compiles)(kiln_backend *backend, bool ask);
} kiln_backend_program_ops;

/// Launches that are queued many times. A backend with programs offers the whole table or none of
/// it; without it every launch is a `launch`. All that is prepared is void once `gone` of the
/// backend has grown: from then on it may only be unprepared.
typedef struct kiln_backend_prepared_ops {
    uint32_t struct_size;
    /// The arguments are copied; the buffers stay the caller's. What it needs of `built` it holds,
    /// until `unprepare`. UNIMPLEMENTED: not now.
    kiln_status (*prepare)(kiln_backend *backend, kiln_built *built, const kiln_launch *launch,
                           kiln_prepared **out_prepared, kiln_error *err);
    /// Gives argument `arg`, which is a buffer, another one.
    void (*replace)(kiln_backend *backend, kiln_prepared *prepared, uint32_t arg,
                    kiln_buffer *buffer);
    /// Queues launches in their order. `*out_done`: how many, also on failure.
    kiln_status (*enqueue)(kiln_backend *backend, kiln_prepared *const *prepared, uint32_t count,
                           uint32_t *out_done, kiln_error *err);
    void (*unprepare)(kiln_backend *backend, kiln_prepared *prepared); ///< takes NULL
} kiln_backend_prepared_ops;

/// Default of `ready`: OK.
KILN_API kiln_status kiln_backend_is_ready(kiln_backend *backend, const kiln_program *program,
                                           kiln_error *err);

/// Default of `parts`: UNIMPLEMENTED.
KILN_API kiln_status kiln_backend_no_parts(kiln_backend *backend, const kiln_program *program,
                                           kiln_program_part_fn take, void *user, kiln_error *err);

/// Default of `compiles`: true.
KILN_API bool kiln_backend_compiles_all(kiln_backend *backend, bool ask);

#ifdef __cplusplus
}
#endif

#endif
