// SPDX-License-Identifier: MIT OR Apache-2.0
// What differs between libkiln, libkiln_client and the library that runs bundles only: which
// devices of this machine there are, and which library brings the remote ones. Compiled once for
// each.

#include "rt_local.h"

#include <string.h>

#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"
#endif

#ifndef KILN_RUNTIME_REMOTE
#define KILN_RUNTIME_REMOTE "libkiln_remote.so." KILN_SOVERSION
#endif

size_t kilni_local_providers(const kiln_backend_provider **out_providers)
{
    size_t count = 0;
#ifdef KILN_RUNTIME_CL
    out_providers[count++] = kiln_cl_provider();
#endif
#ifndef KILN_RUNTIME_BUNDLES
    out_providers[count++] = kiln_ir_reference_provider();
    out_providers[count++] = kiln_ir_null_provider();
#endif
    return count;
}

kiln_status kilni_local_plan_for(kiln_backend *backend, const kiln_device_info *there,
                                 kiln_error *err)
{
#ifdef KILN_RUNTIME_CL
    if (kiln_cl_is(backend)) {
        return kiln_cl_plan_for(backend, there, err);
    }
#endif
#ifndef KILN_RUNTIME_BUNDLES
    if (strcmp(backend->scheme, "null") == 0) {
        return kiln_ir_null_plan_for(backend, there, err);
    }
#endif
    (void)there;
    return kiln_fail(err, UNIMPLEMENTED,
                     "%s plans for no other device, as those of OpenCL and null do",
                     backend->scheme);
}

const char *kilni_remote_library(void)
{
    return KILN_RUNTIME_REMOTE;
}
