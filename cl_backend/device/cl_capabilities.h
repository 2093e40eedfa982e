// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CL_BACKEND_CL_CAPABILITIES_H
#define KILN_CL_BACKEND_CL_CAPABILITIES_H

/// What a device can do beside what the backend itself needs: facts that fusers are told.

#include "cl_state.h"

/// Adds them to the backend's device info, whose numbers and speeds are there already.
void kilni_cl_device_capabilities(kilni_cl_backend *backend);

#endif
