// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_AHEAD_H
#define KILNI_CL_AHEAD_H

/// Programs that are loaded before they are asked for.

#include "cl_opencl.h"

enum { KILNI_CL_FIRST = 64, KILNI_CL_AHEAD_KEYS = 2 };

typedef struct kilni_cl_wish { ///< a program as a process asked for it
    kiln_hash128 key;
    char *options;
} kilni_cl_wish;

typedef struct kilni_cl_ahead kilni_cl_ahead;

typedef struct kilni_cl_start {
    kilni_cl_ahead *ahead; ///< NULL: nothing is loaded ahead
    kilni_cl_wish wishes[KILNI_CL_FIRST]; ///< what was asked for first, for the next process
    uint32_t n_wishes;
    bool for_others; ///< the next process will ask for something else
} kilni_cl_start;

/// Before the driver is loaded: a thread opens the store of `folder` and reads what the last
/// process like this one began with. Then the backend takes the store, `go` lets the thread load
/// programs, and `stop` ends it. Without a thread all of these do nothing, and `store` gives false.
void kilni_cl_ahead_begin(kilni_cl_backend *backend, const char *address, const char *folder);
bool kilni_cl_ahead_store(kilni_cl_backend *backend, kiln_status *out_status, kiln_error *err);
void kilni_cl_ahead_go(kilni_cl_backend *backend);
void kilni_cl_ahead_stop(kilni_cl_backend *backend);
/// The entry of a program and, when the thread came that far, the program; the caller's. False: it
/// is not among what was read; then nothing more is loaded ahead, as this process does other
/// things.
bool kilni_cl_ahead_take(kilni_cl_backend *backend, kiln_hash128 key, kiln_blob *out_entry,
                         cl_program *out_program);
/// Remembers that a program was asked for; and writes it down for the next process, when it would
/// not have known.
void kilni_cl_ahead_wish(kilni_cl_backend *backend, kiln_hash128 key, const char *options);
void kilni_cl_ahead_save(kilni_cl_backend *backend);
void kilni_cl_ahead_close(kilni_cl_backend *backend);
/// For tests: programs that wait to be asked for; and where the list of this process is stored.
uint32_t kilni_cl_ahead_ready(kilni_cl_backend *backend);
void kilni_cl_ahead_keys(const char *address, kiln_hash128 out_keys[KILNI_CL_AHEAD_KEYS]);

#endif
