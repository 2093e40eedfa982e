// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_MPI_SHIM_H
#define KILN_COLLECTIVE_MPI_SHIM_H

/// The few functions of MPI that Kiln uses, found at run time in Open MPI or MPICH. Handles are
/// pointers in the one and ints in the other: both travel as words, which the calling conventions
/// of 64-bit systems allow. Requests get eight bytes of zeroed storage.

#include "base.h"

typedef struct kilni_mpi {
    kiln_dynlib *library;
    const char *name; ///< "Open MPI" or "MPICH"
    uintptr_t world;
    uintptr_t byte;
    uintptr_t errors_return;
    void *status_ignore;
    int (*init_thread)(int *argc, char ***argv, int required, int *out_provided);
    int (*initialized)(int *out_flag);
    int (*query_thread)(int *out_provided);
    int (*finalize)(void);
    int (*comm_rank)(uintptr_t comm, int *out_rank);
    int (*comm_size)(uintptr_t comm, int *out_size);
    int (*comm_set_errhandler)(uintptr_t comm, uintptr_t handler);
    int (*isend)(const void *data, int count, uintptr_t type, int target, int tag, uintptr_t comm,
                 uint64_t *out_request);
    int (*irecv)(void *data, int count, uintptr_t type, int source, int tag, uintptr_t comm,
                 uint64_t *out_request);
    int (*recv)(void *data, int count, uintptr_t type, int source, int tag, uintptr_t comm,
                void *status);
    int (*iprobe)(int source, int tag, uintptr_t comm, int *out_flag, void *status);
    int (*test)(uint64_t *request, int *out_flag, void *status);
} kilni_mpi;

enum { KILNI_MPI_THREAD_SERIALIZED = 2, KILNI_MPI_THREAD_MULTIPLE = 3 };

/// Loads the library of the launcher that started this process, else the first that is there. The
/// table is the caller's; the library stays loaded for the process. Errors: UNAVAILABLE when there
/// is neither.
kiln_status kilni_mpi_load(const kiln_env *env, kilni_mpi *out_mpi, kiln_error *err);

#endif
