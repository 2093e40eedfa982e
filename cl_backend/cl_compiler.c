// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether a device compiles. Some have no compiler, some claim one and refuse, and the user may say
// that only stored binaries run, as on a device to be deployed to. What has a binary there is
// cl_program_cache.c's business.

#include <string.h>

#include "cl_internal.h"

kiln_status kilni_cl_compiler_init(kilni_cl_backend *backend, bool available, kiln_error *err)
{
    const char *mode = kiln_config_string(backend->env->config, KILN_KNOB_COMPILER);
    bool on = strcmp(mode, "on") == 0;
    bool prepare = strcmp(mode, "prepare") == 0;
    if (!on && !prepare && strcmp(mode, "off") != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "compiler is %s; on, off and prepare are known",
                         mode);
    }
    if (prepare && !available) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "device %s has no compiler: prepare where one is", backend->info.name);
    }
    // While it prepares a device must look as the one without, so that the same is chosen.
    backend->info.features |= on && available ? KILN_FEATURE_COMPILER : KILN_FEATURE_PREPARED;
    backend->compiles = available && (on || prepare);
    return KILN_STATUS_OK;
}

bool kilni_cl_compiler_refuses(cl_int code)
{
    return code == CL_COMPILER_NOT_AVAILABLE;
}

void kilni_cl_compiler_gone(kilni_cl_backend *backend)
{
    if (backend->compiles) {
        kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend",
                       "device %s refuses to compile: only stored binaries run from now on",
                       backend->info.name);
    }
    backend->compiles = false;
    backend->info.features &= ~(uint32_t)KILN_FEATURE_COMPILER;
    backend->info.features |= KILN_FEATURE_PREPARED;
}

kiln_status kilni_cl_compiler_missing(const kilni_cl_backend *backend, const char *label,
                                      kiln_error *err)
{
    return kiln_fail(err, UNIMPLEMENTED,
                     "no binary of %.60s is stored, and device %.40s has no compiler: make it with "
                     "kiln cache prepare",
                     label, backend->info.name);
}
