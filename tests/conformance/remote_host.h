// SPDX-License-Identifier: MIT OR Apache-2.0
// A server in this process, so that the backend suite can try the client over loopback.
#ifndef KILN_TESTS_CONFORMANCE_REMOTE_HOST_H
#define KILN_TESTS_CONFORMANCE_REMOTE_HOST_H

#include "ir.h"

/// Serves the device "reference" on a free port. The address to open, or NULL with `err` filled.
/// Valid until remote_host_stop.
const char *remote_host_start(kiln_error *err);
void remote_host_stop(void);

#endif
