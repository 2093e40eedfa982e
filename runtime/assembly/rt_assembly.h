// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_ASSEMBLY_H
#define KILN_RUNTIME_ASSEMBLY_H

/// Making and ending devices (assemble.c), and what the rooms above them do for them (rooms.c).

#include "fusion_host.h"
#include "kiln.h"

/// A device that is in no list of the context's. `plan_for` may be NULL.
kiln_status kilni_device_create(kiln_context *context, const char *address,
                                const kiln_backend_provider *provider,
                                const kiln_device_info *plan_for, kiln_device **out_device,
                                kiln_error *err);

/// Ends a device that is in no list and that nobody holds.
void kilni_device_free(kiln_device *device);

/// The rooms' tables go into a device that is being made, before it has a backend.
void kilni_rooms_enter(kiln_device *device);

/// What they need once it has one.
kiln_status kilni_rooms_open(kiln_device *device, kiln_error *err);

/// Ends what they have begun on a device that nobody holds. Under its lock.
void kilni_rooms_close(kiln_device *device);

/// Frees what they keep in it; its backend may be NULL.
void kilni_rooms_leave(kiln_device *device);

/// Ends what they keep in a context that its caller gives up.
void kilni_rooms_forget(kiln_context *context);

#endif
