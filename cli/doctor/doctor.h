// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_DOCTOR_H
#define KILN_DOCTOR_H

/// What `kiln doctor` looks at. A check tells what it found, whether that is good, and how to mend
/// what is not; it goes on behind whatever it meets.

#include "cli_json.h"

typedef enum doctor_verdict {
    DOCTOR_GOOD,
    DOCTOR_SLOW, ///< works, but slower or less sure than it could
    DOCTOR_BROKEN ///< something that Kiln needs does not work
} doctor_verdict;

typedef struct doctor {
    const cli_device_options *options;
    kiln_context *context; ///< NULL: it could not be made, and those that need it say nothing
    json_t *list; ///< NULL: as text
    unsigned counts[DOCTOR_BROKEN + 1];
} doctor;

/// Tells one thing. `mend` is what to do, NULL where there is nothing to mend.
void doctor_tell(doctor *d, doctor_verdict verdict, const char *what, const char *mend,
                 const char *format, ...) KILN_PRINTF(5, 6);

// Without a context.
void doctor_build(doctor *d);
void doctor_machine(doctor *d);
void doctor_environment(doctor *d); ///< variables that are no options
void doctor_drivers(doctor *d);
// With one.
void doctor_cache(doctor *d);
void doctor_plugins(doctor *d);
void doctor_devices(doctor *d);

#endif
