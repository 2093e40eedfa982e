// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln serve`: offers devices of this machine to others. Options, signals and the one line that
// says where it listens; serving is libkiln_remote's, which is loaded here so that no other command
// pays for gRPC.

#define _GNU_SOURCE // sigtimedwait beside argp
#include "cli.h"
#include "remote_grpc.h"
#include "serve_models.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_DEVICES = 64, MAX_LISTEN = 16, MAX_PEERS = 64, STEP_MS = 100 };

enum {
    KEY_TLS_CERT = 256,
    KEY_TLS_KEY,
    KEY_CLIENT_CA,
    KEY_TOKEN_FILE,
    KEY_INSECURE,
    KEY_MEMORY,
    KEY_RAW_MEMORY,
    KEY_SESSIONS,
    KEY_RESUME,
    KEY_GRACE,
    KEY_ADVERTISE,
    KEY_PEERS,
    KEY_GROUP
};

static const struct argp_option options_table[] = {
    {"device", 'd', "ADDRESS", 0, "device to offer, such as opencl:0; may be repeated: /0, /1, ...",
     0},
    {"listen", 'l', "WHERE", 0, "HOST:PORT or unix:PATH; may be repeated; else 127.0.0.1:3000", 0},
    {"tls-cert", KEY_TLS_CERT, "FILE", 0, "certificate (PEM): HOST:PORT speaks TLS", 0},
    {"tls-key", KEY_TLS_KEY, "FILE", 0, "its key", 0},
    {"client-ca", KEY_CLIENT_CA, "FILE", 0, "clients must show a certificate signed by it", 0},
    {"token-file", KEY_TOKEN_FILE, "FILE", 0, "clients must show one of its lines as their token",
     0},
    {"insecure-i-know", KEY_INSECURE, NULL, 0,
     "listen beyond loopback without TLS or without knowing the clients", 0},
    {"session-memory", KEY_MEMORY, "BYTES", 0, "that a session may hold, with K, M or G", 0},
    {"raw-memory", KEY_RAW_MEMORY, "BYTES", 0,
     "that all sessions may hold before an operation uses them; else half of the device's memory",
     0},
    {"max-sessions", KEY_SESSIONS, "COUNT", 0, "at a time; else 64", 0},
    {"resume", KEY_RESUME, "SECONDS", 0,
     "that a session waits for its client to come back; else 60", 0},
    {"grace", KEY_GRACE, "SECONDS", 0, "that clients have to finish after SIGTERM; else 10", 0},
    {"advertise", KEY_ADVERTISE, "ADDRESS", 0, "where other servers reach this one", 0},
    {"fetch-peers", KEY_PEERS, "ADDRESS,...", 0, "servers to fetch tensors from; else none", 0},
    {"group", KEY_GROUP, NULL, 0,
     "make the devices one group, in their order, for all_reduce of their sessions", 0},
    {"no-fusion", 'F', NULL, 0, "run every operation on its own", 0},
    {"plugin", 'p', "FILE", 0, "load one more fuser; may be repeated", 0},
    {"set", 's', "NAME=VALUE", 0, "set an option (see `kiln config`); may be repeated", 0},
    {0},
};

typedef struct serve_options {
    cli_device_options common;
    const char *devices[MAX_DEVICES];
    uint32_t n_devices;
    const char *listen[MAX_LISTEN];
    const char *peers[MAX_PEERS];
    kiln_rpc_server_options server;
    uint32_t grace_seconds;
    bool is_group;
    serve_models *models;
} serve_options;

// ---- options ----

static uint64_t parse_count(const char *text, bool units, struct argp_state *state)
{
    char *end = NULL;
    uint64_t value = strtoull(text, &end, 10);
    const char *unit = *end != '\0' ? strchr("KMG", *end) : NULL;
    if (units && unit != NULL) {
        value <<= 10 * (unit - "KMG" + 1);
        end++;
    }
    if (*text < '0' || *text > '9' || *end != '\0' || value == 0) {
        argp_error(state, "%s: a number from 1%s", text, units ? ", with K, M or G" : "");
    }
    return value;
}

static uint32_t parse_small(const char *text, struct argp_state *state)
{
    uint64_t value = parse_count(text, /*units=*/false, state);
    if (value > 1000000) {
        argp_error(state, "%s: at most 1000000", text);
    }
    return (uint32_t)value;
}

static void add_text(const char **list, uint32_t *count, uint32_t most, const char *text,
                     struct argp_state *state)
{
    if (*count == most) {
        argp_error(state, "%s: more than %u of them", text, most);
    }
    list[(*count)++] = text;
}

static void add_peers(serve_options *options, char *text, struct argp_state *state)
{
    for (char *rest = NULL, *each = strtok_r(text, ",", &rest); each != NULL;
         each = strtok_r(NULL, ",", &rest)) {
        add_text(options->peers, &options->server.n_fetch_peers, MAX_PEERS, each, state);
    }
}

static error_t parse_limit(int key, char *text, struct argp_state *state)
{
    serve_options *options = state->input;
    switch (key) {
    case KEY_MEMORY:
        options->server.max_bytes = parse_count(text, /*units=*/true, state);
        return 0;
    case KEY_RAW_MEMORY:
        options->server.max_raw_bytes = parse_count(text, /*units=*/true, state);
        return 0;
    case KEY_SESSIONS:
        options->server.max_sessions = parse_small(text, state);
        return 0;
    case KEY_RESUME:
        options->server.resume_seconds = parse_small(text, state);
        return 0;
    case KEY_GROUP:
        options->is_group = true;
        return 0;
    case KEY_GRACE:
        options->grace_seconds = parse_small(text, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    serve_options *options = state->input;
    struct argp_state common = *state;
    common.input = &options->common;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->models;
        return 0;
    case 'd':
        add_text(options->devices, &options->n_devices, MAX_DEVICES, text, state);
        return 0;
    case 'l':
        add_text(options->listen, &options->server.n_listen, MAX_LISTEN, text, state);
        return 0;
    case KEY_TLS_CERT:
        options->server.tls_cert = text;
        return 0;
    case KEY_TLS_KEY:
        options->server.tls_key = text;
        return 0;
    case KEY_CLIENT_CA:
        options->server.client_ca = text;
        return 0;
    case KEY_TOKEN_FILE:
        options->server.token_file = text;
        return 0;
    case KEY_INSECURE:
        options->server.allow_public = 1;
        return 0;
    case KEY_ADVERTISE:
        options->server.advertise = text;
        return 0;
    case KEY_PEERS:
        add_peers(options, text, state);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "no arguments are taken");
        return 0;
    case 'F':
    case 'p':
    case 's':
        return cli_device_argp.parser(key, text, &common);
    default:
        return parse_limit(key, text, state);
    }
}

// ---- the library ----

/// The functions of remote_grpc.h that serve.
typedef struct serve_api {
    kiln_status (*create)(kiln_device *const *devices, uint32_t n_devices,
                          const kiln_rpc_server_options *options, kiln_rpc_server **out_server,
                          kiln_error *err);
    bool (*drain)(kiln_rpc_server *server, uint32_t timeout_ms);
    void (*destroy)(kiln_rpc_server *server);
    const char *(*address)(const kiln_rpc_server *server, uint32_t index);
    void (*stats)(kiln_rpc_server *server, kiln_rpc_server_stats *out_stats);
    bool (*knows)(kiln_rpc_server *server, const char *authorization);
} serve_api;

static kiln_status load_api(serve_api *out_api, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_server_create", &out_api->create, err));
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_server_drain", &out_api->drain, err));
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_server_destroy", &out_api->destroy, err));
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_server_address", &out_api->address, err));
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_server_stats_get", &out_api->stats, err));
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_server_knows", &out_api->knows, err));
out:
    return status;
}

// ---- serving ----

static void say_where(const serve_api *api, const kiln_rpc_server *server,
                      const kiln_collective *group, const serve_models *models,
                      kiln_device *const *devices, uint32_t n_devices)
{
    printf("kiln serve:");
    for (uint32_t i = 0; i < n_devices; i++) {
        printf(" %s", kiln_device_address(devices[i]));
    }
    if (group != NULL) {
        printf(" as group %lld", (long long)kiln_collective_id(group));
    }
    printf(" at");
    for (uint32_t i = 0; api->address(server, i) != NULL; i++) {
        printf(" %s", api->address(server, i));
    }
    serve_models_say(models);
    printf("\n");
    fflush(stdout);
}

/// What was done, when all of it is.
static void say_what(const kiln_rpc_server_stats *stats, kiln_device *const *devices,
                     uint32_t n_devices)
{
    uint64_t operations = 0;
    for (uint32_t i = 0; i < n_devices; i++) {
        kiln_device_stats device = KILN_DEVICE_STATS_INIT;
        kiln_device_stats_get(devices[i], &device);
        operations += device.ops_recorded;
    }
    printf("kiln serve: %llu %s, %u %s resumed, %llu %s\n", (unsigned long long)stats->opened,
           kiln_plural(stats->opened, "session", "sessions"), stats->resumed,
           kiln_plural(stats->resumed, "time", "times"), (unsigned long long)operations,
           kiln_plural(operations, "operation", "operations"));
    fflush(stdout);
}

/// Waits for a signal to end; then for the clients, until they are gone, the time is over, or a
/// second signal comes.
static void wait_end(const serve_api *api, kiln_rpc_server *server, serve_models *models,
                     const sigset_t *signals, uint32_t grace_seconds)
{
    const struct timespec none = {0};
    int signal = 0;
    (void)sigwait(signals, &signal);
    serve_models_drain(models);
    uint64_t end_ns = kiln_time_ns() + grace_seconds * UINT64_C(1000000000);
    while (kiln_time_ns() < end_ns) {
        if (api->drain(server, STEP_MS) || sigtimedwait(signals, NULL, &none) > 0) {
            return;
        }
    }
}

/// Connections are descriptors: as many as the system allows.
static void raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/// What the server knows of who may call goes for HTTP too.
typedef struct http_guard {
    const serve_api *api;
    kiln_rpc_server *server;
} http_guard;

static bool may_call_http(void *guard, const char *authorization)
{
    const http_guard *self = guard;
    return self->api->knows(self->server, authorization);
}

static kiln_status serve(serve_options *options, const sigset_t *signals, kiln_error *err)
{
    serve_api api = {0};
    kiln_context *context = NULL;
    kiln_rpc_server *server = NULL;
    kiln_collective *group = NULL;
    http_guard guard = {NULL, NULL};
    kiln_device *devices[MAX_DEVICES] = {NULL};
    uint32_t n_devices = 0;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, load_api(&api, err));
    KILN_TRY(out, status, cli_open_context(&options->common, &context, err));
    do {
        cli_device_options one = options->common;
        one.device = options->n_devices > 0 ? options->devices[n_devices] : NULL;
        KILN_TRY(out, status, cli_open_device(&one, context, &devices[n_devices], err));
        n_devices++;
    } while (n_devices < options->n_devices);
    if (options->is_group) {
        KILN_TRY(out, status, kiln_collective_create(devices, n_devices, NULL, &group, err));
    }
    KILN_TRY(out, status,
             serve_models_open(options->models, devices, n_devices, &options->server, err));
    KILN_TRY(out, status, api.create(devices, n_devices, &options->server, &server, err));
    guard = (http_guard){&api, server};
    KILN_TRY(out, status,
             serve_models_listen(options->models, &options->server, may_call_http, &guard, err));
    say_where(&api, server, group, options->models, devices, n_devices);
    wait_end(&api, server, options->models, signals, options->grace_seconds);
out:
    serve_models_hang_up(options->models);
    if (server != NULL) {
        kiln_rpc_server_stats stats = {.struct_size = sizeof(stats)};
        api.stats(server, &stats);
        api.destroy(server);
        say_what(&stats, devices, n_devices);
    }
    serve_models_close(options->models);
    kiln_collective_destroy(group);
    for (uint32_t i = 0; i < n_devices; i++) {
        kiln_device_release(devices[i]);
    }
    cli_close_context(context);
    return status;
}

int cmd_serve(int argc, char **argv)
{
    static const char *const usual[] = {"127.0.0.1:3000"};
    static const struct argp_child children[] = {{&serve_models_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        options_table,
        parse,
        NULL,
        "Offers devices and models to other machines over gRPC, until SIGTERM or SIGINT.\vBeyond "
        "loopback it listens only with TLS and either client certificates or tokens.",
        children,
        NULL,
        NULL};
    serve_options options = {
        .server = KILN_RPC_SERVER_OPTIONS_INIT, .grace_seconds = 10, .models = serve_models_new()};
    kiln_error err = KILN_ERROR_INIT;
    sigset_t signals;
    if (options.models == NULL) {
        (void)kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory");
        return cli_fail("serve", &err);
    }
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    options.server.listen = options.server.n_listen > 0 ? options.listen : usual;
    options.server.n_listen = options.server.n_listen > 0 ? options.server.n_listen : 1;
    options.server.fetch_peers = options.peers;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    // Before any thread is made, so that all of them leave the signals to sigwait.
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    raise_files();
    kiln_status status = serve(&options, &signals, &err);
    if (status == KILN_STATUS_PERMISSION_DENIED) {
        fprintf(stderr,
                "kiln serve: %s (--tls-cert, --tls-key, --client-ca, --token-file), or "
                "--insecure-i-know\n",
                err.message);
        return CLI_FAILED;
    }
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("serve", &err);
}
