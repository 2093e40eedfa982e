// SPDX-License-Identifier: MIT OR Apache-2.0
// Shared objects: opened with every symbol bound and none shared. Which files may be loaded, and
// what is asked of them, is decided by the modules that load.
#define _DEFAULT_SOURCE // RTLD_NODELETE
#include "base.h"

#include <dlfcn.h>

struct kiln_dynlib {
    const kiln_env *env;
    void *handle;
};

kiln_status kiln_dynlib_open(const kiln_env *env, const char *path, bool keep,
                             kiln_dynlib **out_library, kiln_error *err)
{
    *out_library = NULL;
    kiln_dynlib *library = kiln_alloc(env, sizeof(*library));
    if (library == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to open %s", path);
    }
    library->env = env;
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | (keep ? RTLD_NODELETE : 0));
    if (library->handle == NULL) {
        const char *why = dlerror();
        kiln_free(env, library);
        return kiln_fail(err, NOT_FOUND, "%s", why == NULL ? path : why);
    }
    *out_library = library;
    return KILN_STATUS_OK;
}

void *kiln_dynlib_symbol(kiln_dynlib *library, const char *name)
{
    return dlsym(library->handle, name);
}

void kiln_dynlib_close(kiln_dynlib *library)
{
    if (library != NULL) {
        dlclose(library->handle);
        kiln_free(library->env, library);
    }
}
