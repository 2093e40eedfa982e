// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_PY_MEMORY_H
#define KILNI_PY_MEMORY_H

/// What buffers (py_memory.c) and DLPack's capsules (py_dlpack.c) share: memory of others behind
/// arrays, and the rules that it must follow.

#include "py_kiln.h"

/// Whoever has the memory behind an array. From calloc; what is wrapped lets go of it.
typedef struct kilni_py_owner {
    struct kilni_py_owner *next;
    Py_buffer view; ///< of a buffer
    void (*give_back)(void *given); ///< of a capsule; NULL: not from one
    void *given;
} kilni_py_owner;

/// Gives the memory back and frees the owner.
void kilni_py_let_go(kilni_py_owner *one);

/// Does memory begin where the device wants it?
bool kilni_py_aligned(const kiln_device *device, const void *memory);

/// An array of dense, aligned memory. Takes the owner over, also when it fails.
PyObject *kilni_py_wrap(kiln_device *device, kiln_dtype dtype, size_t rank, const int64_t *dims,
                        void *memory, kilni_py_owner *take_owner);

/// A constant of a model: the device copies what it needs of the memory, and when. Takes the owner
/// over, also when it fails.
PyObject *kilni_py_wrap_constant(kiln_device *device, kiln_dtype dtype, size_t rank,
                                 const int64_t *dims, const void *bytes,
                                 kilni_py_owner *take_owner);

/// Raises what memory that is not dense or not aligned is refused with. Gives NULL.
PyObject *kilni_py_cannot_share(void);

/// Computes a value and maps it for reading.
kiln_status kilni_py_map(kiln_tensor *tensor, const void **out_data, kiln_mapping **out_mapping,
                         kiln_error *err);

#endif
