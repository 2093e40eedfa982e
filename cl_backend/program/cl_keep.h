// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_KEEP_H
#define KILNI_CL_KEEP_H

/// Which programs stay in memory, and how much of the host they are taken to hold.

#include "cl_program.h"

/// The limit of the option `program-limit`.
void kilni_cl_keep_init(kilni_cl_backend *backend);
/// The program of a key, NULL when it is not in memory.
kilni_cl_program *kilni_cl_keep_find(kilni_cl_backend *backend, kiln_hash128 key);
/// Gives `program` one more user; it is the most recently used one. A new one is kept from now on.
void kilni_cl_keep_use(kilni_cl_backend *backend, kilni_cl_program *program, bool is_new);
/// One user less. Programs without users go, the least recently used first, where there are too
/// many of them, or where all programs hold more than the limit; what the store lacks of them is
/// written before.
void kilni_cl_keep_leave(kilni_cl_backend *backend, kilni_cl_program *program);
/// Counts what the driver is taken to hold of the host for a program that was just made.
void kilni_cl_keep_weigh(kilni_cl_backend *backend, kilni_cl_program *program);
/// Ends a program that is not kept, or no longer.
void kilni_cl_program_destroy(kilni_cl_backend *backend, kilni_cl_program *program);
void kilni_cl_keep_close(kilni_cl_backend *backend);

#endif
