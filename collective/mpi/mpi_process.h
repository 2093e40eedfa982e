// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_MPI_PROCESS_H
#define KILN_COLLECTIVE_MPI_PROCESS_H

/// MPI in this process: started once, when the first network asks for it, and ended with the
/// process. Many networks use it, one after another or at once. Any thread may call any function.

#include "mpi_shim.h"

typedef struct kilni_mpi_process {
    kilni_mpi mpi; ///< its calls, each between lock and unlock
    uint32_t self; ///< this process
    uint32_t count; ///< of all
    uint32_t network; ///< the number of the network that entered, the same in all processes that
                      ///< open theirs in one order
} kilni_mpi_process;

/// Starts MPI where nobody has and gives a network its copy. Who enters leaves. Errors: UNAVAILABLE
/// (no MPI), FAILED_PRECONDITION (started by others for less than MPI_THREAD_MULTIPLE),
/// DEADLINE_EXCEEDED.
kiln_status kilni_mpi_enter(uint64_t deadline_ns, kilni_mpi_process *out_process, kiln_error *err);

/// As enter, for a network of some of the processes, which agreed on its number among such ones.
/// MPI is started.
void kilni_mpi_enter_part(uint32_t number, kilni_mpi_process *out_process);

/// A number that no part of this process has had.
uint32_t kilni_mpi_next_part(void);

/// A network has ended. After one that was not sound, where a message may still be on its way or
/// a process be lost, MPI is left as it is when this process ends.
void kilni_mpi_leave(bool sound);

/// Only one thread at a time is in MPI.
void kilni_mpi_lock(void);
void kilni_mpi_unlock(void);

/// The environment of what MPI may write to longer than any context lives.
const kiln_env *kilni_mpi_env(void);

#endif
