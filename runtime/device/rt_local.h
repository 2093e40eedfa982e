// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_RT_LOCAL_H
#define KILN_RUNTIME_RT_LOCAL_H

/// What differs between libkiln and libkiln_client. Any thread.

#include "ir_backend.h"

/// The provider of this machine's OpenCL devices; NULL in a library without OpenCL.
const kiln_backend_provider *kilni_local_provider(void);

/// File name of the library that has the providers of remote devices.
const char *kilni_remote_library(void);

#endif
