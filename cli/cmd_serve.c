// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln serve`: offers devices of this machine to others. Options, signals and the one line that
// says where it listens; serving is libkiln_remote's, which is loaded here so that no other command
// pays for gRPC.

#define _GNU_SOURCE // sigtimedwait beside argp
#include "cli.h"
#include "remote_grpc.h"
#include "serve_library.h"
#include "serve_log.h"
#include "serve_models.h"
#include "serve_notify.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MAX_DEVICES = 64, MAX_LISTEN = 16, MAX_PEERS = 64, STEP_MS = 100 };

enum {
    KEY_TLS_CERT = 256,
    KEY_TLS_KEY,
    KEY_CLIENT_CA,
    KEY_TOKEN_FILE,
    KEY_ACCESS,
    KEY_LOG,
    KEY_TRACE,
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
    {"listen", 'l', "WHERE", 0,
     "HOST:PORT or unix:PATH; may be repeated; else systemd's sockets, or 127.0.0.1:3000", 0},
    {"tls-cert", KEY_TLS_CERT, "FILE", 0, "certificate (PEM): HOST:PORT speaks TLS", 0},
    {"tls-key", KEY_TLS_KEY, "FILE", 0, "its key", 0},
    {"client-ca", KEY_CLIENT_CA, "FILE", 0, "clients must show a certificate signed by it", 0},
    {"token-file", KEY_TOKEN_FILE, "FILE", 0,
     "clients must show a token of its lines, TOKEN or NAME TOKEN", 0},
    {"access", KEY_ACCESS, "FILE", 0, "what each identity may use, and how much: docs/serving.md",
     0},
    {"log", KEY_LOG, "FILE", 0, "a line of JSON for each session, call and refusal; - is stderr",
     0},
    {"trace", KEY_TRACE, "FILE", 0,
     "write what the devices did to FILE at the end, for Perfetto; calls carry their traceparent",
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
    int sockets[MAX_LISTEN]; ///< that systemd has handed over
    const char *peers[MAX_PEERS];
    kiln_rpc_server_options server;
    uint32_t grace_seconds;
    bool is_group;
    const char *log_path; ///< NULL: none
    char trace_setting[4096]; ///< "trace=FILE"
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
    case KEY_ACCESS:
        options->server.access_file = text;
        return 0;
    case KEY_TRACE:
        snprintf(options->trace_setting, sizeof(options->trace_setting), "trace=%s", text);
        return cli_device_argp.parser('s', options->trace_setting, &common);
    case KEY_LOG:
        options->log_path = text;
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

// ---- serving ----

static void say_where(const serve_library *api, const kiln_rpc_server *server,
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
static void say_what(const kiln_rpc_server_stats *stats)
{
    printf("kiln serve: %llu %s, %u %s resumed, %llu %s\n", (unsigned long long)stats->opened,
           kiln_plural(stats->opened, "session", "sessions"), stats->resumed,
           kiln_plural(stats->resumed, "time", "times"), (unsigned long long)stats->operations,
           kiln_plural(stats->operations, "operation", "operations"));
    fflush(stdout);
}

/// Waits for a signal to end. The watchdog hears of us as long as the server answers.
static void await_signal(const serve_library *api, kiln_rpc_server *server, serve_models *models,
                         const sigset_t *signals)
{
    uint64_t watchdog_ns = serve_watchdog_ns();
    bool told = false;
    for (;;) {
        // Models are loaded by a thread of their own: until then we look often.
        uint64_t step_ns = told ? watchdog_ns : STEP_MS * UINT64_C(1000000);
        const struct timespec step = {.tv_sec = (time_t)(step_ns / 1000000000),
                                      .tv_nsec = (long)(step_ns % 1000000000)};
        kiln_rpc_server_stats stats = {.struct_size = sizeof(stats)};
        int signal = told && watchdog_ns == 0 ? sigwaitinfo(signals, NULL)
                                              : sigtimedwait(signals, NULL, &step);
        if (signal > 0) {
            return;
        }
        api->stats(server, &stats); // a server that hangs does not come back
        if (!told && serve_models_are_ready(models)) {
            serve_notify("READY=1");
            told = true;
        }
        if (watchdog_ns > 0) {
            serve_notify("WATCHDOG=1");
        }
    }
}

/// Waits for a signal to end; then for the clients, until they are gone, the time is over, or a
/// second signal comes.
static void wait_end(const serve_library *api, kiln_rpc_server *server, serve_models *models,
                     const sigset_t *signals, uint32_t grace_seconds)
{
    const struct timespec none = {0};
    await_signal(api, server, models, signals);
    serve_notify("STOPPING=1");
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

/// What is left at the end may take long: a device stores what it has compiled, and with PoCL
/// compiles for that. It has as long as the clients had; the rest is compiled by the next server.
static void *end_in_time(void *grace_seconds)
{
    static const char said[] = "kiln serve: the end took too long; what was not stored is lost\n";
    const struct timespec rest = {.tv_sec = (time_t)(uintptr_t)grace_seconds};
    struct pollfd log = {.fd = STDERR_FILENO, .events = POLLOUT};
    (void)nanosleep(&rest, NULL);
    // A pipe that nobody reads may be full.
    if (poll(&log, 1, 0) == 1 && (log.revents & POLLOUT) != 0) {
        (void)!write(STDERR_FILENO, said, sizeof(said) - 1);
    }
    _exit(CLI_OK);
}

static void begin_end(uint32_t grace_seconds)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_in_time, (void *)(uintptr_t)grace_seconds) == 0) {
        (void)pthread_detach(thread);
    }
}

static kiln_status serve(serve_options *options, const sigset_t *signals, kiln_error *err)
{
    serve_library api = {0};
    kiln_context *context = NULL;
    kiln_rpc_server *server = NULL;
    kiln_collective *group = NULL;
    serve_log *log = NULL;
    kiln_device *devices[MAX_DEVICES] = {NULL};
    uint32_t n_devices = 0;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, serve_library_load(&api, err));
    KILN_TRY(out, status, serve_log_open(options->log_path, &log, err));
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
    options->server.event = log != NULL ? serve_log_write : NULL;
    options->server.event_user = log;
    options->server.last = 1;
    KILN_TRY(out, status, api.create(devices, n_devices, &options->server, &server, err));
    KILN_TRY(out, status,
             serve_models_listen(options->models, &options->server, &api, server, log, err));
    say_where(&api, server, group, options->models, devices, n_devices);
    wait_end(&api, server, options->models, signals, options->grace_seconds);
    begin_end(options->grace_seconds);
out:
    serve_models_hang_up(options->models);
    if (server != NULL) {
        kiln_rpc_server_stats stats = {.struct_size = sizeof(stats)};
        api.stats(server, &stats);
        api.destroy(server);
        say_what(&stats);
    }
    serve_models_close(options->models);
    serve_log_close(log);
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
    options.server.n_listen_fds = serve_activated();
    for (uint32_t i = 0; i < options.server.n_listen_fds && i < MAX_LISTEN; i++) {
        options.sockets[i] = SERVE_FIRST_SOCKET + (int)i;
    }
    options.server.listen_fds = options.sockets;
    options.server.listen = options.listen;
    if (options.server.n_listen == 0 && options.server.n_listen_fds == 0) {
        options.server.listen = usual;
        options.server.n_listen = 1;
    }
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
