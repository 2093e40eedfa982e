// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_DEVICES_REMOTE_H
#define KILN_DEVICES_REMOTE_H

/// What a server has, for `kiln devices`.

#include "cli_json.h"

/// Whether the address is a server's, and names none of its devices.
bool devices_is_server(const char *address);

/// Prints the server's devices and models, or adds them to `list`. Errors: those of asking it;
/// NOT_FOUND without gRPC.
kiln_status devices_show_server(kiln_context *context, const char *address, json_t *list,
                                kiln_error *err);

#endif
