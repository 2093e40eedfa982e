// SPDX-License-Identifier: MIT OR Apache-2.0
// Events as lines of JSON. A line is written by one call, so that lines of several threads, and of
// several processes that append to one file, stay whole.

#include "serve_log.h"

#include "cli_json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct serve_log {
    int fd;
};

kiln_status serve_log_open(const char *path, serve_log **out_log, kiln_error *err)
{
    *out_log = NULL;
    if (path == NULL) {
        return KILN_STATUS_OK;
    }
    serve_log *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory");
    }
    made->fd = strcmp(path, "-") == 0 ? STDERR_FILENO
                                      : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (made->fd < 0) {
        free(made);
        return kiln_fail(err, NOT_FOUND, "cannot write %.160s: %s", path, strerror(errno));
    }
    *out_log = made;
    return KILN_STATUS_OK;
}

void serve_log_close(serve_log *log)
{
    if (log != NULL && log->fd != STDERR_FILENO) {
        (void)close(log->fd);
    }
    free(log);
}

static void set_text(json_t *line, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        (void)json_object_set_new(line, name, cli_json_text(text));
    }
}

static void set_time(json_t *line)
{
    struct timespec now;
    struct tm parts;
    char day[32] = "";
    char text[48];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &parts));
    snprintf(text, sizeof(text), "%s.%03ldZ", day, now.tv_nsec / 1000000);
    set_text(line, "time", text);
}

/// Of a W3C traceparent, VERSION-TRACE-SPAN-FLAGS, the trace.
static void set_trace(json_t *line, const char *traceparent)
{
    enum { BEGIN = 3, DIGITS = 32 };
    char trace[DIGITS + 1] = "";
    set_text(line, "traceparent", traceparent);
    if (strlen(traceparent) > BEGIN + DIGITS) {
        memcpy(trace, traceparent + BEGIN, DIGITS);
        set_text(line, "trace_id", trace);
    }
}

static void set_session(json_t *line, const kiln_rpc_event *event)
{
    char number[24];
    snprintf(number, sizeof(number), "%016" PRIx64, event->session);
    set_text(line, "session", number);
    (void)json_object_set_new(line, "operations", json_integer((json_int_t)event->operations));
}

void serve_log_write(const kiln_rpc_event *event, void *user)
{
    const serve_log *log = user;
    const char *status = event->code != 0 ? kiln_status_name((kiln_status)event->code) : "ok";
    json_t *line = json_object();
    set_time(line);
    set_text(line, "event", event->kind);
    set_text(line, "identity", event->identity);
    set_text(line, "peer", event->peer);
    set_text(line, "method", event->method);
    set_text(line, "model", event->model);
    set_text(line, "client", event->client);
    set_trace(line, event->trace);
    if (event->session != 0) {
        set_session(line, event);
    }
    (void)json_object_set_new(line, "ms", json_real((double)event->duration_ns / 1e6));
    set_text(line, "status", status != NULL ? status : "unknown");
    set_text(line, "message", event->message);
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(6));
    size_t length = text != NULL ? strlen(text) : 0;
    if (text != NULL) {
        text[length] = '\n'; // in the place of its end
        (void)!write(log->fd, text, length + 1);
    }
    free(text);
    json_decref(line);
}
