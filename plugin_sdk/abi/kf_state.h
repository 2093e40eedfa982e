// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_state.h: a builder's answer: is it open, what does it cover, what would it cost. Part of
// kiln_fuser.h.
#ifndef KILN_PLUGIN_SDK_KF_STATE_H
#define KILN_PLUGIN_SDK_KF_STATE_H

#include "kf_expr.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KF_OPEN 0u
#define KF_CLOSED 1u

// kf_state.confidence. Against other fusers a guess counts as if it were longer by a quarter, and
// of claims that save as much the more confident one is taken.
#define KF_CONFIDENCE_GUESS 0u
#define KF_CONFIDENCE_MODEL 1u // roofline or better
#define KF_CONFIDENCE_MEASURED 2u // timed on a device of this fingerprint

/// Estimates are formulas, because sizes are not visible: the host evaluates them for the extents
/// at hand, so one plan is scored rightly for every batch size. They cover the first `len`
/// operations as one program. `len` may be less than what was shown: a block that was ready and
/// took an operation whose input is still wanted should go on offering what it was. The pointers
/// are views that live until the next call on the same
/// builder. An absent est_ns means "no estimate": the host then takes its own roofline of the
/// program. One that divides by zero, overflows or is negative makes the block no candidate.
typedef struct kf_state {
    uint32_t struct_size;
    uint32_t status; // KF_OPEN or KF_CLOSED
    uint32_t ready; // 1: finish() would succeed now
    uint32_t len; // leading operations, drops counted, that finish() would cover
    uint32_t confidence; // KF_CONFIDENCE_*; of plugins of minor 0 it is not read
    uint32_t launches;
    kf_expr est_ns; // of the whole program, launches included
    kf_expr est_bytes_read;
    kf_expr est_bytes_written;
    kf_expr est_flops;
    kf_expr temp_bytes; // of one run, kept temporaries not counted; told, not yet used by 1.0
} kf_state;
KF_ASSERT(sizeof(kf_state) == 104);

#ifdef __cplusplus
}
#endif
#endif
