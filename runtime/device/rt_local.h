// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_RT_LOCAL_H
#define KILN_RUNTIME_RT_LOCAL_H

/// What differs between libkiln, libkiln_client and the library that runs bundles only. Any thread.

#include "ir_backend.h"

/// Providers of this machine's devices, OpenCL's first where there are any; how many.
size_t kilni_local_providers(const kiln_backend_provider **out_providers);

/// Has a backend plan for another device. Errors: UNIMPLEMENTED for a backend that cannot.
kiln_status kilni_local_plan_for(kiln_backend *backend, const kiln_device_info *there,
                                 kiln_error *err);

/// File name of the library that has the providers of remote devices.
const char *kilni_remote_library(void);

#endif
