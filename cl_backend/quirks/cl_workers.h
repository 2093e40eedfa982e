// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_WORKERS_H
#define KILNI_CL_WORKERS_H

/// Where PoCL's worker threads run.

/// Before the first OpenCL call of the process: PoCL's workers are to be bound to processors, one
/// to each. Does nothing where POCL_AFFINITY is set, where the process may not use the whole
/// machine, and when called again. It changes the environment.
void kilni_cl_bind_workers(void);

#endif
