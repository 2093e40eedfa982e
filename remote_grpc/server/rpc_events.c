// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens, told to the program and, on one line, to the log. Calls to models are many, so the
// log has them only at its level debug.

#include "rpc_server.h"

#include <string.h>

static kiln_log_level level_of(const kiln_rpc_event *event)
{
    return strcmp(event->kind, "call") == 0 ? KILN_LOG_DEBUG : KILN_LOG_INFO;
}

void kilni_rpc_tell(const kiln_rpc_server *server, const kiln_rpc_event *event)
{
    const char *code = event->code != 0 ? kiln_status_name((kiln_status)event->code) : "ok";
    kiln_log_write(server->env, level_of(event), "remote", "%s of %s at %s (%.60s%s%s): %s%s%.160s",
                   event->kind, event->identity, event->peer,
                   event->client[0] != '\0' ? event->client : event->method,
                   event->model[0] != '\0' ? " " : "", event->model,
                   code != NULL ? code : "unknown", event->message[0] != '\0' ? ", " : "",
                   event->message);
    if (event->duration_ns > 0) { // with the trace of whoever called, so that theirs and ours meet
        kiln_trace_note(server->devices[0], event->model[0] != '\0' ? event->model : event->method,
                        event->trace, kiln_time_ns() - event->duration_ns);
    }
    if (server->event != NULL) {
        server->event(event, server->event_user);
    }
}
