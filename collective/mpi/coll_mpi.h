// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_MPI_H
#define KILN_COLLECTIVE_COLL_MPI_H

/// The network of a group over the processes that mpirun started. In libkiln_mpi.so, which libkiln
/// opens when a group asks for it.

#include "collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Starts MPI where nobody has, and learns how many ranks the others bring. All processes of
/// MPI_COMM_WORLD have to call it; those that open several networks do it in one order. MPI ends
/// when the process exits. `*out_network` goes to a group, or back through its detach. `env`
/// outlives it. Errors: UNAVAILABLE (no MPI), FAILED_PRECONDITION (started by others for less than
/// MPI_THREAD_MULTIPLE), DEADLINE_EXCEEDED (a process did not come).
KILN_API kiln_status kiln_coll_mpi_open(const kiln_env *env, uint32_t local_ranks,
                                        uint64_t deadline_ns, kiln_coll_network **out_network,
                                        kiln_coll_place *out_place, kiln_error *err);

#ifdef __cplusplus
}
#endif
#endif
