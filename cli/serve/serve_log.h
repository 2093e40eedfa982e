// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVE_LOG_H
#define KILN_SERVE_LOG_H

/// The log of `kiln serve`: one line of JSON for each event.

#include "remote_grpc.h"

typedef struct serve_log serve_log;

/// Appends to a file, "-" is stderr; NULL: `*out_log` is NULL. Errors: NOT_FOUND.
kiln_status serve_log_open(const char *path, serve_log **out_log, kiln_error *err);
void serve_log_close(serve_log *log);

/// A kiln_rpc_event_fn whose user is the log. Any thread.
void serve_log_write(const kiln_rpc_event *event, void *log);

#endif
