// SPDX-License-Identifier: MIT OR Apache-2.0
// Functions of libkiln_remote for the commands that call it themselves: it is loaded when one is
// asked for, so that no other command pays for gRPC.

#include "cli.h"

#include <dlfcn.h>
#include <string.h>

kiln_status cli_remote_function(const char *name, void *out_function, kiln_error *err)
{
    void *library =
        dlopen("libkiln_remote.so." KILN_SOVERSION, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        return kiln_fail(err, NOT_FOUND, "built without gRPC: %s", dlerror());
    }
    void *symbol = dlsym(library, name);
    (void)dlclose(library); // it stays
    memcpy(out_function, &symbol, sizeof(symbol));
    return symbol != NULL ? KILN_STATUS_OK
                          : kiln_fail(err, FAILED_PRECONDITION, "libkiln_remote has no %s", name);
}
