// SPDX-License-Identifier: MIT OR Apache-2.0
// What differs between libkiln and libkiln_client: whether there are OpenCL devices of this
// machine, and which library brings the remote ones. Compiled once for each.

#include "rt_local.h"

#include <stddef.h>

#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"
#endif

#ifndef KILN_RUNTIME_REMOTE
#define KILN_RUNTIME_REMOTE "libkiln_remote.so." KILN_SOVERSION
#endif

const kiln_backend_provider *kilni_local_provider(void)
{
#ifdef KILN_RUNTIME_CL
    return kiln_cl_provider();
#else
    return NULL;
#endif
}

const char *kilni_remote_library(void)
{
    return KILN_RUNTIME_REMOTE;
}
