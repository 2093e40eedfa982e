// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of libkiln_remote that `kiln serve` calls, loaded by their names. How they are
// found is cli_remote.c's.

#include "serve_library.h"

#include "cli.h"

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
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]) && status == KILN_STATUS_OK; i++) {
        status = cli_remote_function(symbols[i].name, symbols[i].function, err);
    }
    return status;
}
