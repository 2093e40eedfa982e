// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether a device compiles. Some have no compiler, some claim one and refuse, and the user may say
// that only stored binaries run, as on a device to be deployed to. Who refuses is known when it is
// asked; that it did is noted in the store, so that the next process asks before it plans. No more
// than that: another device may share the store. What has a binary there is cl_program_cache.c's
// business.

#include <string.h>

#include "cl_builtins.h"
#include "cl_compiler.h"
#include "cl_error.h"
#include "cl_facts.h"
#include "cl_state.h"

kiln_status kilni_cl_compiler_init(kilni_cl_backend *backend, kiln_error *err)
{
    cl_bool available = CL_FALSE;
    cl_int code = clGetDeviceInfo(backend->device, CL_DEVICE_COMPILER_AVAILABLE, sizeof(available),
                                  &available, NULL);
    if (code != CL_SUCCESS) {
        return kilni_cl_fail(NULL, err, code, "whether %s has a compiler", backend->info.name);
    }
    const char *mode = kiln_config_string(backend->env->config, KILN_OPTION_COMPILER);
    bool on = strcmp(mode, "on") == 0;
    bool prepare = strcmp(mode, "prepare") == 0 || strcmp(mode, "record") == 0;
    if (prepare && available == CL_FALSE) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "device %s has no compiler: prepare where one is", backend->info.name);
    }
    // While it prepares a device must look as the one without, so that the same is chosen.
    backend->info.features |=
        on && available != CL_FALSE ? KILN_FEATURE_COMPILER : KILN_FEATURE_PREPARED;
    backend->compiler.compiles = available != CL_FALSE && (on || prepare);
    return KILN_STATUS_OK;
}

bool kilni_cl_compiler_refuses(cl_int code)
{
    return code == CL_COMPILER_NOT_AVAILABLE;
}

// ---- who claims a compiler ----

/// A note that says nothing takes the place of one that is no longer true.
static void note_doubt(kilni_cl_backend *backend, bool refuses)
{
    const char yes = 1;
    kiln_error err = KILN_ERROR_INIT;
    if (backend->store == NULL || backend->compiler.doubted == refuses) {
        return;
    }
    backend->compiler.doubted = refuses;
    if (kiln_store_put(backend->store, KILN_STORE_DEVICES, kilni_cl_device_key(backend, "refuses"),
                       &yes, refuses, &err) != KILN_STATUS_OK) {
        kiln_log_write(backend->env, KILN_LOG_DEBUG, "cl_backend", "not noted: %s", err.message);
    }
}

bool kilni_cl_compiles(kiln_backend *base, bool ask)
{
    static const char least[] = "__kernel void kiln_asks(void) {}\n";
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    if (!ask || !backend->compiler.compiles || backend->compiler.compiled) {
        return backend->compiler.compiled;
    }
    const char *text = least;
    cl_int code = CL_SUCCESS;
    cl_program program = clCreateProgramWithSource(backend->context, 1, &text, NULL, &code);
    if (code == CL_SUCCESS) {
        code = clBuildProgram(program, 1, &backend->device, KILNI_CL_BUILTINS_OPTION, NULL, NULL);
    }
    if (program != NULL) {
        clReleaseProgram(program);
    }
    if (kilni_cl_compiler_refuses(code)) {
        kilni_cl_compiler_gone(backend);
    } else {
        backend->compiler.compiled = true;
    }
    return backend->compiler.compiled;
}

void kilni_cl_compiler_recall(kilni_cl_backend *backend)
{
    kiln_blob note = {0};
    if (!backend->compiler.compiles || backend->store == NULL ||
        kiln_store_get(backend->store, KILN_STORE_DEVICES, kilni_cl_device_key(backend, "refuses"),
                       &note, NULL) != KILN_STATUS_OK) {
        return;
    }
    backend->compiler.doubted = note.length > 0;
    kiln_free(backend->env, note.data);
    if (backend->compiler.doubted && kilni_cl_compiles(&backend->base, /*ask=*/true)) {
        note_doubt(backend, false);
    }
}

void kilni_cl_compiler_gone(kilni_cl_backend *backend)
{
    note_doubt(backend, true);
    if (backend->compiler.compiles) {
        kiln_log_write(backend->env, KILN_LOG_WARN, "cl_backend",
                       "device %s refuses to compile: only stored binaries run from now on",
                       backend->info.name);
    }
    backend->compiler.compiles = false;
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
