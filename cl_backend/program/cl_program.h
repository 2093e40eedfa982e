// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_PROGRAM_H
#define KILNI_CL_PROGRAM_H

/// Programs in memory, and their kernels.

#include "cl_opencl.h"

typedef struct kilni_cl_program kilni_cl_program;

enum { KILNI_CL_SHAPES = 8 };

typedef struct kilni_cl_kernel { ///< owned by its program
    cl_kernel kernel;
    kilni_cl_program *program;
    char *name;
    struct kilni_cl_kernel *next; ///< of the same program
    size_t required_local[3]; ///< reqd_work_group_size; 0: none
    cl_uint n_args;
    uint32_t n_shapes;
    uint64_t shapes[KILNI_CL_SHAPES]; ///< launch shapes seen, as PoCL compiles them apart
} kilni_cl_kernel;

typedef struct kilni_cl_shape { ///< a way in which a kernel was launched, on drivers that compile
                                ///< it apart
    uint64_t kernel;
    uint64_t shape;
} kilni_cl_shape;

struct kilni_cl_program {
    kilni_cl_program *next; ///< in the list of the backend
    kiln_hash128 key;
    cl_program program;
    char *label;
    kilni_cl_kernel *kernels;
    kilni_cl_shape *shapes; ///< compiled in `program`, or in the stored binary
    uint32_t n_shapes;
    uint32_t shape_capacity;
    uint32_t users; ///< built-in kernels count as one for ever
    size_t binary_bytes; ///< of the binary that it was made of; 0: compiled here
    uint64_t bytes; ///< of the host, as they are counted in the list
    bool storable;
    bool dirty;
};

typedef struct kilni_cl_programs { ///< those that a backend has made ready
    kilni_cl_program *list; ///< most recently used first
    uint32_t count;
    uint32_t idle; ///< of them: without users
    uint32_t kernels; ///< of all of them
    uint64_t bytes; ///< of the host that they take, estimated
    uint64_t limit_bytes; ///< above which those without users go
    uint32_t dirty; ///< programs whose binaries the store lacks
    uint64_t last_dirty_ns;
    uint64_t last_saved_ns; ///< by programs_quiet
} kilni_cl_programs;

typedef struct kilni_cl_build { ///< what a program is made from
    kiln_source_format format;
    const void *code;
    size_t length;
    const char *options; ///< all of them, for the compiler and for the key
    const char *label; ///< for people
    bool once; ///< what the next process does not ask for: not loaded ahead of time
} kilni_cl_build;

/// From memory, from the store, or compiled. Each get wants a release.
kiln_status kilni_cl_program_get(kilni_cl_backend *backend, const kilni_cl_build *build,
                                 kilni_cl_program **out_program, kiln_error *err);
void kilni_cl_program_release(kilni_cl_backend *backend, kilni_cl_program *program);
/// A kernel of it by name, the same object for everybody; valid as long as the program is held.
kiln_status kilni_cl_program_kernel(kilni_cl_backend *backend, kilni_cl_program *program,
                                    const char *name, kilni_cl_kernel **out_kernel,
                                    kiln_error *err);
/// The driver's own program of a source or a binary, built; with an error it may be there for its
/// log. NULL: none could be made.
cl_program kilni_cl_program_build(kilni_cl_backend *backend, const kilni_cl_build *build,
                                  cl_int *out_code);
/// Whether kilni_cl_program_get would find a program that needs no compiler, in memory or stored.
bool kilni_cl_program_known(kilni_cl_backend *backend, const kilni_cl_build *build);

#endif
