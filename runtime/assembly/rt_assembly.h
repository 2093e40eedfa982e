// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_ASSEMBLY_H
#define KILN_RUNTIME_ASSEMBLY_H

/// Making and ending devices (assemble.c).

#include "fusion_host.h"
#include "kiln.h"

/// A device that is in no list of the context's.
kiln_status kilni_device_create(kiln_context *context, const char *address,
                                const kiln_backend_provider *provider, kiln_device **out_device,
                                kiln_error *err);

/// Ends a device that is in no list and that nobody holds.
void kilni_device_free(kiln_device *device);

#endif
