// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_MEASURE_H
#define KILNI_CL_MEASURE_H

/// Speeds of a device: measured, and how sure that is.

#include "cl_opencl.h"

enum {
    KILNI_CL_SPEEDS_FORMAT = 3,
    KILNI_CL_SPEEDS_TRIES = 4, ///< processes that measure a device that gives no clear answer
    KILNI_CL_SPEEDS_HOLD_S = 30 * 86400, ///< after which a sure answer is looked at again
    KILNI_CL_SPEEDS_WAIT_S = 600, ///< and one that never became clear
    KILNI_CL_SPEEDS_SURE = 15, ///< spread in percent up to which a figure is sure
    KILNI_CL_SPEEDS_BETTER = 150 ///< percent of a figure from which on another replaces it
};

typedef struct kilni_cl_speeds { ///< as the store keeps them
    uint32_t format;
    uint32_t tries; ///< processes that measured
    uint64_t bytes_per_s; ///< 0: not known
    uint64_t launch_ns; ///< 0: not known
    uint32_t bytes_spread; ///< percent that the second best run took longer than the best
    uint32_t launch_spread;
    uint64_t measured_s; ///< last, since 1970; 0: not known
} kilni_cl_speeds;

/// Forgets both figures where one is such as no device of the type has: what a very busy machine or
/// a simulator says of itself is worse than the estimate.
void kilni_cl_speeds_refuse(kilni_cl_speeds *speeds, kiln_device_type type);
/// What is known after another measurement. A machine that does other things makes a device look
/// slower, never faster, so the faster figure counts; but only where it is clearly faster, for
/// choices shall not differ from process to process without need. Of old figures a clearly slower
/// one replaces them, too, when it is sure: memory can be taken out of a machine.
kilni_cl_speeds kilni_cl_speeds_merge(const kilni_cl_speeds *stored, const kilni_cl_speeds *fresh);
/// Whether a sample says what the device does. On a processor `threads` should have worked all the
/// time, `work_ns` of the process together; where they worked for much less, others were on it.
bool kilni_cl_sample_counts(kiln_device_type type, uint64_t wall_ns, uint64_t work_ns,
                            uint32_t threads);
/// Whether the next process measures again: the answer is not clear, or old.
bool kilni_cl_speeds_doubtful(const kilni_cl_speeds *speeds);

/// `doubt_speeds` of the backend.
void kilni_cl_speeds_doubt(kiln_backend *base);

/// Takes what is stored; where that is missing or doubtful, and wanted, measures if it may: not on
/// an auxiliary queue or a program's own, where other work is under way.
void kilni_cl_device_calibrate(kilni_cl_backend *backend, bool may_measure);

#endif
