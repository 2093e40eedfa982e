// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_KERNEL_H
#define KILNI_CL_KERNEL_H

/// Built-in kernels by (file, defines, name).

#include "cl_program.h"

/// `file` is an embedded source such as "elementwise.cl", `defines` compiler options such as
/// "-DKILN_T=float -DKILN_OP=add" ("" for none). Equal file and defines share one program, so a
/// file with several kernels compiles once. Before every built-in file stands "prelude.cl", and
/// before that FP_CONTRACT OFF (unless -DKILN_CONTRACT=1 is among the defines) and fp64/fp16
/// enabled where the device has them.
typedef struct kilni_cl_kernel_key {
    const char *file;
    const char *defines;
    const char *kernel;
} kilni_cl_kernel_key;

typedef struct kilni_cl_source { ///< one embedded file; the table ends with a NULL name
    const char *name; ///< of the file
    const char *place; ///< below kernels/
    const char *text;
    size_t length;
} kilni_cl_source;

extern const kilni_cl_source kilni_cl_sources[]; ///< written by the build from kernels/

typedef struct kilni_cl_kernel_slot { ///< from the three texts of a key to a kernel
    uint64_t hash;
    kilni_cl_kernel *kernel; ///< NULL: free
    char *texts; ///< file, defines and kernel, each terminated
    size_t length;
} kilni_cl_kernel_slot;

typedef struct kilni_cl_kernels { ///< those that a backend has made ready, by open addressing
    kilni_cl_kernel_slot *slots;
    uint32_t capacity;
    uint32_t used;
} kilni_cl_kernels;

/// Finds or builds a kernel, which is valid until the backend closes. A hit costs a hash of the
/// three texts. The same object is given to everybody: set all arguments before each enqueue.
/// Errors: BUILD_FAILED with the compiler's log, NOT_FOUND for an unknown file or kernel.
KILN_NODISCARD kiln_status kilni_cl_kernel_get(kilni_cl_backend *backend,
                                               const kilni_cl_kernel_key *key,
                                               kilni_cl_kernel **out_kernel, kiln_error *err);
void kilni_cl_kernels_close(kilni_cl_backend *backend);

#endif
