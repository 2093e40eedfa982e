// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads libkiln_remote by its soname, and the functions that `kiln serve` calls. The library stays
// for the process.

#include "serve_library.h"

#include <dlfcn.h>
#include <string.h>

static kiln_status load_symbol(void *library, const char *name, void *out_function, kiln_error *err)
{
    void *symbol = dlsym(library, name);
    memcpy(out_function, &symbol, sizeof(symbol));
    return symbol != NULL ? KILN_STATUS_OK
                          : kiln_fail(err, FAILED_PRECONDITION, "libkiln_remote has no %s", name);
}

kiln_status serve_library_load(serve_library *out_library, kiln_error *err)
{
    const struct {
        const char *name;
        void *function;
    } symbols[] = {{"kiln_rpc_server_create", &out_library->create},
                   {"kiln_rpc_server_drain", &out_library->drain},
                   {"kiln_rpc_server_destroy", &out_library->destroy},
                   {"kiln_rpc_server_address", &out_library->address},
                   {"kiln_rpc_server_stats_get", &out_library->stats},
                   {"kiln_rpc_server_admit", &out_library->admit},
                   {"kiln_rpc_caller_models", &out_library->caller_models},
                   {"kiln_rpc_caller_name", &out_library->caller_name},
                   {"kiln_rpc_caller_end", &out_library->caller_end}};
    void *library =
        dlopen("libkiln_remote.so." KILN_SOVERSION, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    kiln_status status = KILN_STATUS_OK;
    if (library == NULL) {
        return kiln_fail(err, NOT_FOUND, "built without gRPC: %s", dlerror());
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]) && status == KILN_STATUS_OK; i++) {
        status = load_symbol(library, symbols[i].name, symbols[i].function, err);
    }
    (void)dlclose(library);
    return status;
}
