// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_STATE_H
#define KILNI_CL_STATE_H

/// The whole backend: one device with one context and one in-order queue, and beside these the
/// objects of the rooms, each declared by its owner. Its caller lets one thread in at a time
/// (ir_backend.h), so only cl_ahead.c and cl_read.c lock.

#include "cl_ahead.h"
#include "cl_compiler.h"
#include "cl_elsewhere.h"
#include "cl_host.h"
#include "cl_kernel.h"
#include "cl_pool.h"
#include "cl_program.h"
#include "cl_queue.h"
#include "cl_read.h"
#include "cl_record.h"
#include "cl_svm.h"
#include "cl_trace.h"
#include "cl_transfer.h"

struct kilni_cl_backend {
    kiln_backend base; ///< first
    const kiln_env *env;
    kiln_store *store; ///< NULL when the cache is off

    // the device
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    kiln_device_info info;
    cl_int unanswered; ///< the first code of a driver that could not answer (cl_query.h)
    bool pocl; ///< compiles for each local size at the first enqueue
    kilni_cl_compiler compiler;
    kilni_cl_elsewhere elsewhere;

    // the queue
    cl_command_queue queue;
    cl_command_queue timing_queue; ///< with profiling, made at the first timing
    bool foreign_queue; ///< the program's own
    kilni_cl_flight flight;
    kilni_cl_trace trace;

    // memory
    kilni_cl_sub_buffers sub_buffers;
    kilni_cl_pool pool;
    kilni_cl_loan loan;
    kilni_cl_pinned *pinned;
    kilni_cl_transfer transfer;
    kilni_cl_reader reader;

    // programs
    kilni_cl_start start;
    kilni_cl_programs programs;
    kilni_cl_kernels kernels;
    bool blas_used;
    kilni_cl_recorder *recorder; ///< NULL: nobody wants to know what is enqueued

    kiln_backend_stats stats;
    kiln_cl_counters counters;
};

static inline kilni_cl_backend *kilni_cl_backend_of(kiln_backend *backend)
{
    return (kilni_cl_backend *)(void *)backend;
}

#endif
