// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_COLLECTIVE_H
#define KILN_RUNTIME_COLLECTIVE_H

/// Operations that several devices take part in (coll_recorded.c). Under the device's lock.

#include "rt_binding.h"

/// Runs this device's part of one; groups of one are left to the backend.
kiln_status kilni_collective_execute(kiln_device *device, const kiln_op_record *record,
                                     const kilni_binding *input, kilni_binding *output,
                                     kiln_error *err);

/// Whether the device's server is to run the operation: of a group that this process does not know.
bool kilni_collective_is_served(kiln_device *device, const kiln_op_record *record,
                                const kilni_binding *input);

/// As destroy, but calls under way are cancelled. Takes NULL.
void kilni_collective_cancel(kiln_collective *collective);

#endif
