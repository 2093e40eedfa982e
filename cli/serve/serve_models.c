// SPDX-License-Identifier: MIT OR Apache-2.0
// The models of `kiln serve`: its options for them, and the order in which things begin and end.
// HTTP takes certificates and tokens from the gRPC server, so that there is one place for them.

#include "serve_models.h"

#include "serving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MODELS = 512,
    KEY_HTTP,
    KEY_POLL,
    KEY_LOAD,
    KEY_MAX_BATCH,
    KEY_MAX_QUEUE,
    KEY_MAX_REQUEST,
    KEY_SHARED_MEMORY
};

enum { SERVE_MOST_LOAD = 64 };

struct serve_models {
    kiln_serving_options options;
    kiln_serving_http_options http_options;
    const char *load[SERVE_MOST_LOAD];
    uint64_t max_request_bytes;
    kiln_serving *serving; ///< NULL: no --models
    kiln_serving_http *http; ///< NULL: no --http
    kiln_serving_door door;
    const serve_library *library;
    kiln_rpc_server *server;
    serve_log *log; ///< NULL: none
};

serve_models *serve_models_new(void)
{
    return calloc(1, sizeof(serve_models));
}

static const struct argp_option models_table[] = {
    {NULL, 0, NULL, 0, "Models:", 1},
    {"models", KEY_MODELS, "FOLDER", 0,
     "offer the models of FOLDER: NAME/VERSION/model.onnx, NAME/config.pbtxt", 1},
    {"http", KEY_HTTP, "HOST:PORT", 0, "offer them over HTTP too, and /metrics", 1},
    {"poll", KEY_POLL, "SECONDS", 0, "follow the folder; else models change when a client says so",
     1},
    {"load", KEY_LOAD, "NAME", 0,
     "load this model at the start, `none` for none; may be repeated; else all", 1},
    {"max-batch", KEY_MAX_BATCH, "ROWS", 0,
     "of a batch, for models without a configuration; else 4", 1},
    {"max-queue", KEY_MAX_QUEUE, "COUNT", 0,
     "of requests that wait for a model that does not say; else 1024", 1},
    {"max-request", KEY_MAX_REQUEST, "MIB", 0, "of a request to a model; else 64", 1},
    {"shared-memory", KEY_SHARED_MEMORY, NULL, 0,
     "let clients of this machine name shared memory for tensors", 1},
    {0},
};

static uint32_t parse_number(const char *text, struct argp_state *state)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value < 1 || value > 1000000) {
        argp_error(state, "%s: a number from 1 to 1000000", text);
    }
    return (uint32_t)value;
}

static void add_load(serve_models *self, const char *name, struct argp_state *state)
{
    if (strcmp(name, "none") == 0) {
        self->options.load_nothing = true;
    } else if (self->options.n_load == SERVE_MOST_LOAD) {
        argp_error(state, "more than %d times --load", SERVE_MOST_LOAD);
    } else {
        self->load[self->options.n_load++] = name;
    }
}

static error_t parse_models(int key, char *text, struct argp_state *state)
{
    serve_models *self = state->input;
    switch (key) {
    case KEY_MODELS:
        self->options.folder = text;
        return 0;
    case KEY_HTTP:
        self->http_options.address = text;
        return 0;
    case KEY_POLL:
        self->options.poll_seconds = parse_number(text, state);
        return 0;
    case KEY_LOAD:
        add_load(self, text, state);
        return 0;
    case KEY_MAX_BATCH:
        self->options.max_batch = parse_number(text, state);
        return 0;
    case KEY_MAX_QUEUE:
        self->options.max_queue = parse_number(text, state);
        return 0;
    case KEY_MAX_REQUEST:
        self->max_request_bytes = (uint64_t)parse_number(text, state) << 20;
        return 0;
    case KEY_SHARED_MEMORY:
        self->options.shared_memory = true;
        return 0;
    case ARGP_KEY_END:
        if (self->options.folder == NULL && self->http_options.address != NULL) {
            argp_error(state, "--http answers for models: give --models too");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp serve_models_argp = {models_table, parse_models, NULL, NULL, NULL, NULL, NULL};

kiln_status serve_models_open(serve_models *self, kiln_device *const *devices, uint32_t n_devices,
                              kiln_rpc_server_options *server, kiln_error *err)
{
    if (self->options.folder == NULL) {
        return KILN_STATUS_OK;
    }
    self->options.load = self->load;
    kiln_status status =
        kiln_serving_create(devices, n_devices, &self->options, &self->serving, err);
    if (status == KILN_STATUS_OK) {
        server->models = kiln_serving_models(self->serving);
        server->max_request_bytes = self->max_request_bytes;
    }
    return status;
}

// ---- who comes in over HTTP: whoever the server over gRPC lets in ----

static kiln_status admit_call(void *user, const char *authorization,
                              kiln_serving_caller *out_caller, kiln_error *err)
{
    const serve_models *self = user;
    kiln_rpc_caller *caller = NULL;
    kiln_status status = self->library->admit(self->server, authorization, NULL, &caller, err);
    if (status == KILN_STATUS_OK) {
        *out_caller = (kiln_serving_caller){.handle = caller,
                                            .name = self->library->caller_name(caller),
                                            .models = self->library->caller_models(caller)};
    }
    return status;
}

static void end_caller(void *user, kiln_serving_caller *caller)
{
    const serve_models *self = user;
    self->library->caller_end(caller->handle);
}

static void tell_event(void *user, const kiln_rpc_event *event)
{
    const serve_models *self = user;
    if (self->log != NULL) {
        serve_log_write(event, self->log);
    }
}

static void get_stats(void *user, kiln_rpc_server_stats *out_stats)
{
    const serve_models *self = user;
    self->library->stats(self->server, out_stats);
}

kiln_status serve_models_listen(serve_models *self, const kiln_rpc_server_options *server,
                                const serve_library *library, kiln_rpc_server *running,
                                serve_log *log, kiln_error *err)
{
    if (self->http_options.address == NULL) {
        return KILN_STATUS_OK;
    }
    self->http_options.tls_cert = server->tls_cert;
    self->http_options.tls_key = server->tls_key;
    self->http_options.client_ca = server->client_ca;
    self->http_options.allow_public =
        server->allow_public != 0 ||
        (server->tls_cert != NULL && (server->client_ca != NULL || server->token_file != NULL));
    self->http_options.max_request_bytes = self->max_request_bytes;
    self->library = library;
    self->server = running;
    self->log = log;
    self->door = (kiln_serving_door){.user = self,
                                     .admit = admit_call,
                                     .end = end_caller,
                                     .tell = tell_event,
                                     .stats = get_stats};
    self->http_options.door = &self->door;
    return kiln_serving_http_create(self->serving, &self->http_options, &self->http, err);
}

bool serve_models_are_ready(const serve_models *self)
{
    const kiln_models *models = self->serving != NULL ? kiln_serving_models(self->serving) : NULL;
    return models == NULL || models->ready(models->user);
}

void serve_models_drain(serve_models *self)
{
    if (self->serving != NULL) {
        kiln_serving_drain(self->serving);
    }
}

void serve_models_hang_up(serve_models *self)
{
    kiln_serving_http_destroy(self->http);
    self->http = NULL;
}

void serve_models_close(serve_models *self)
{
    kiln_serving_destroy(self->serving);
    free(self);
}

void serve_models_say(const serve_models *self)
{
    if (self->http != NULL) {
        printf(" %s", kiln_serving_http_address(self->http));
    }
}
