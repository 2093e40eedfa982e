// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_CHECK_STATE_H
#define KILN_RUNTIME_CHECK_STATE_H

/// What a device checks and writes down.

#include "fusion_host.h"
#include "kiln.h"

/// What is checked and written down. All under the device's lock.
typedef struct kilni_check_state {
    unsigned mode; ///< kilni_check_mode
    const char *records; ///< folder into which streams go, or NULL
    int64_t watchdog_ms; ///< option `watchdog`
    uint64_t *recorded; ///< what has been written, sorted by nothing
    size_t n_recorded;
    uint64_t last_plan; ///< number given to a plan
    struct kilni_index_places *index_places; ///< looked at, or found to be outside; NULL: none
} kilni_check_state;

typedef enum kilni_check_mode { ///< option `check`
    KILNI_CHECK_OFF = 0,
    KILNI_CHECK_FIRST = 1, ///< the first run of each block of each plan
    KILNI_CHECK_ALWAYS = 2
} kilni_check_mode;

/// Says which index operands of an operation that is about to run unfused have values outside their
/// range.
typedef struct kilni_index_places kilni_index_places;

#endif
