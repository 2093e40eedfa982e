// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BENCH_CHOICE_H
#define KILN_BENCH_CHOICE_H

/// How good the choice among a block's candidates is: each against all others and against the
/// block's unfused operations, measured by tournaments that had no part in the choice.

#include "kiln.h"

enum { CHOICE_MAX_IO = 1024 };

typedef enum choice_mode { ///< option `tune`
    CHOICE_OFF,
    CHOICE_LAZY,
    CHOICE_FULL,
    CHOICE_MODES
} choice_mode;

/// A program: tensors that it reads, made on a device, and what is done with them.
typedef struct choice_program {
    const char *name;
    void *user;
    kiln_status (*make)(kiln_device *device, void *user, kiln_tensor **out_inputs,
                        size_t *out_count, kiln_error *err);
    kiln_status (*record)(kiln_device *device, void *user, kiln_tensor *const *inputs,
                          kiln_tensor **out_results, size_t *out_count, kiln_error *err);
} choice_program;

typedef struct choice_tally {
    const char *device; ///< NULL: the first OpenCL device
    bool quiet; ///< misses are not printed
    uint32_t blocks; ///< with more than one way to run them: each has its unfused operations
    uint32_t good[CHOICE_MODES]; ///< chosen within 5 % of the fastest, by the rule in choice.c
    uint32_t ties[CHOICE_MODES]; ///< of the good: nothing tells the choice from the fastest
    uint32_t recut[CHOICE_MODES]; ///< the operations went to another block: not counted as good
    uint32_t failed; ///< blocks that could not be measured
} choice_tally;

/// Adds the program's blocks to the tally. One thread at a time. Errors: of the program and the
/// device.
kiln_status choice_measure(const choice_program *program, choice_tally *tally, kiln_error *err);

#endif
