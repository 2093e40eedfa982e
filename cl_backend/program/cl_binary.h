// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_BINARY_H
#define KILNI_CL_BINARY_H

/// Binaries of programs, as the store keeps them.

#include "cl_program.h"

enum { KILNI_CL_STORED_SHAPES = 64 }; ///< of a program, at most

typedef struct kilni_cl_entry { ///< of the store, borrowed from its bytes
    const unsigned char *shapes; ///< `n_shapes` kilni_cl_shape, unaligned
    uint64_t n_shapes;
    kiln_blob binary;
} kilni_cl_entry;

kiln_hash128 kilni_cl_build_key(const kilni_cl_backend *backend, const kilni_cl_build *build);
/// False for a damaged entry. And the program of a binary, NULL when the driver refuses it. Any
/// thread.
bool kilni_cl_entry_parse(const kiln_blob *entry, kilni_cl_entry *out_entry);
cl_program kilni_cl_binary_load(cl_context context, cl_device_id device, const kiln_blob *binary,
                                const char *options);
/// The length of a program's binary, 0 where the driver gives none. PoCL compiles for the answer.
size_t kilni_cl_program_binary_bytes(const kilni_cl_program *program);
/// The entry of a program as it is now: UNAVAILABLE where the driver gives no binary, DATA_LOSS
/// where it gives two. The caller's (kiln_free).
kiln_status kilni_cl_entry_make(kilni_cl_backend *backend, const kilni_cl_program *program,
                                kiln_blob *out_entry, kiln_error *err);
/// The device's binary of a program, with the same errors. The caller's (kiln_free).
kiln_status kilni_cl_program_binary(kilni_cl_backend *backend, const kilni_cl_program *program,
                                    kiln_blob *out_binary, kiln_error *err);
/// What the driver gives as a program's binary, taken twice, for nothing else would notice a wrong
/// byte before the device runs it: CL_INVALID_BINARY where the two differ. The caller's
/// (kiln_free).
cl_int kilni_cl_binary_take(const kiln_env *env, cl_program program, kiln_blob *out_binary);

#endif
