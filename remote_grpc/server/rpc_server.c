// SPDX-License-Identifier: MIT OR Apache-2.0
// The server's life: made, drained, destroyed. Calls are rpc_calls.c's, sessions rpc_sessions.c's,
// what is to be done without a call rpc_house.c's; where a server may listen is rpc_options.c's.

#include "rpc_server.h"

#include "base_wait.h"
#include "rpc_services.h"

#include <string.h>

// ---- life ----

static void wake_all(kiln_rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->to_look = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/// The devices go last: they hold the context, and with it the environment.
static void free_server(kiln_rpc_server *server)
{
    kiln_device *devices[KILNI_RPC_DEVICES];
    uint32_t n_devices = server->session.n_devices;
    memcpy(devices, server->devices, sizeof(devices));
    kilni_rpc_exposures_destroy(server->session.exposures);
    for (uint32_t i = 0; i < n_devices; i++) {
        kilni_rpc_turns_destroy(server->turns[i]);
    }
    kilni_rpc_parties_fini(&server->parties);
    kilni_rpc_server_settings_fini(server);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    kiln_free(server->env, server);
    for (uint32_t i = 0; i < n_devices; i++) {
        kiln_device_release(devices[i]);
    }
}

static kiln_status start_threads(kiln_rpc_server *server, kiln_error *err)
{
    if (pthread_create(&server->housekeeper, NULL, kilni_rpc_keep_house, server) != 0) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a server");
    }
    bool kept = pthread_create(&server->keeper, NULL, kilni_rpc_keep_sessions, server) == 0;
    kiln_status status = kept ? kilni_rpc_accept_all(server, err)
                              : kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a server");
    if (status != KILN_STATUS_OK) {
        atomic_store(&server->stopping, true);
        wake_all(server);
        if (kept) {
            (void)pthread_join(server->keeper, NULL);
        }
        (void)pthread_join(server->housekeeper, NULL);
    }
    return status;
}

static uint64_t dtype_mask(kiln_device *device, uint32_t usage)
{
    uint64_t mask = 0;
    for (int dtype = 1; dtype < KILN_DTYPE_LIMIT; dtype++) {
        if ((kiln_device_dtype_usage(device, (kiln_dtype)dtype) & usage) != 0) {
            mask |= UINT64_C(1) << dtype;
        }
    }
    return mask;
}

static void take_devices(kiln_rpc_server *server, kiln_device *const *devices, uint32_t n_devices)
{
    for (uint32_t i = 0; i < n_devices; i++) {
        server->devices[i] = kiln_device_retain(devices[i]);
        server->dtypes[i] =
            (kilni_rpc_dtypes){.storage = dtype_mask(devices[i], KILN_USAGE_STORAGE),
                               .arithmetic = dtype_mask(devices[i], KILN_USAGE_ARITHMETIC),
                               .accelerated = dtype_mask(devices[i], KILN_USAGE_ACCELERATED)};
    }
    server->session.devices = server->devices;
    server->session.dtypes = server->dtypes;
    server->session.n_devices = n_devices;
}

static kiln_status make_turns(kiln_rpc_server *server, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < server->session.n_devices && status == KILN_STATUS_OK; i++) {
        status =
            kilni_rpc_turns_create(server->env, kiln_device_info_of(server->devices[i])->flops_f32,
                                   &server->turns[i], err);
    }
    server->session.turns = server->turns;
    server->session.parties = &server->parties;
    server->session.pause = kilni_rpc_pause;
    server->session.server = server;
    server->session.stopping = &server->stopping;
    return status;
}

static char give_memory(void *user, const kilni_rpc_memory_hello *hello,
                        const kilni_rpc_memory *memory)
{
    kiln_rpc_server *server = user;
    pthread_mutex_lock(&server->lock);
    kilni_rpc_session *found = *kilni_rpc_session_find(server, hello->session);
    char answer = found != NULL ? kilni_rpc_session_share(found, hello, memory)
                                : (char)KILNI_RPC_MEMORY_REFUSED;
    pthread_mutex_unlock(&server->lock);
    return answer;
}

/// Without a desk tensors go through the socket.
static void open_desks(kiln_rpc_server *server)
{
    for (uint32_t i = 0; i < server->n_listen; i++) {
        kiln_error why = KILN_ERROR_INIT;
        if (strncmp(server->listen[i], "unix:", 5) != 0) {
            continue;
        }
        if (kilni_rpc_desk_open(server->env, server->listen[i] + 5, give_memory, server,
                                &server->desks[i], &why) == KILN_STATUS_OK) {
            server->session.takes_memory = true;
        } else {
            kiln_log_write(server->env, KILN_LOG_WARN, "remote", "%s", why.message);
        }
    }
}

static void close_desks(kiln_rpc_server *server)
{
    for (uint32_t i = 0; i < server->n_listen; i++) {
        kilni_rpc_desk_close(server->desks[i]);
        server->desks[i] = NULL;
    }
}

static kiln_status listen_all(kiln_rpc_server *server, kiln_error *err)
{
    int ports[KILNI_RPC_ADDRESSES] = {0};
    const kilni_rpc_listen_options options = {
        .addresses = (const char *const *)server->listen,
        .n_addresses = server->n_listen,
        .fds = server->fds,
        .n_fds = server->n_fds,
        .identity = &server->identity,
        .max_message = server->models != NULL ? server->max_request_bytes : 0,
        .last = server->last,
        .out_ports = ports};
    kiln_status status = kilni_rpc_listen(server->env, &options, &server->listener, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_server_name(server, ports, err);
        if (status == KILN_STATUS_OK) {
            open_desks(server);
            status = start_threads(server, err);
        }
        if (status != KILN_STATUS_OK) {
            close_desks(server);
            kilni_rpc_listener_shutdown(server->listener);
            kilni_rpc_listener_close(server->listener);
        }
    }
    return status;
}

kiln_status kiln_rpc_server_create(kiln_device *const *devices, uint32_t n_devices,
                                   const kiln_rpc_server_options *options,
                                   kiln_rpc_server **out_server, kiln_error *err)
{
    if (out_server == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_server must not be NULL");
    }
    kiln_rpc_server_options known = KILN_RPC_SERVER_OPTIONS_INIT;
    *out_server = NULL;
    if (options != NULL) { // of an older caller: what it does not know is 0
        memcpy(&known, options,
               options->struct_size < sizeof(known) ? options->struct_size : sizeof(known));
    }
    if (devices == NULL || n_devices == 0 || n_devices > KILNI_RPC_DEVICES) {
        return kiln_fail(err, INVALID_ARGUMENT, "a server has 1 to %d devices", KILNI_RPC_DEVICES);
    }
    const kiln_env *env = kiln_context_env(kiln_device_context(devices[0]));
    kiln_rpc_server *server = kiln_alloc(env, sizeof(*server));
    if (server == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a server");
    }
    server->env = env;
    atomic_init(&server->health, 1);
    atomic_init(&server->raw_bytes, 0);
    atomic_init(&server->operations, 0);
    atomic_init(&server->model_calls, 0);
    kilni_rpc_parties_init(&server->parties, env);
    pthread_mutex_init(&server->lock, NULL);
    kiln_cond_init(&server->changed);
    take_devices(server, devices, n_devices);
    kiln_status status = make_turns(server, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_server_settings(server, &known, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_exposures_create(env, &server->session.exposures, err);
    }
    if (status == KILN_STATUS_OK) {
        status = listen_all(server, err);
    }
    if (status != KILN_STATUS_OK) {
        free_server(server);
        return status;
    }
    *out_server = server;
    return KILN_STATUS_OK;
}

// ---- callers that come in elsewhere ----

struct kiln_rpc_caller {
    kiln_rpc_server *server;
    kilni_rpc_party *party; ///< held
    kilni_rpc_guard guard;
};

kiln_status kiln_rpc_server_admit(kiln_rpc_server *server, const char *authorization,
                                  const char *certificate, kiln_rpc_caller **out_caller,
                                  kiln_error *err)
{
    char name[KILNI_RPC_CALLER];
    kilni_rpc_party *party = NULL;
    if (server == NULL || out_caller == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "server and out_caller must not be NULL");
    }
    *out_caller = NULL;
    pthread_mutex_lock(&server->lock);
    bool shown = server->tokens != NULL && authorization != NULL &&
                 kilni_rpc_is_token(authorization, strlen(authorization), server->tokens, name);
    pthread_mutex_unlock(&server->lock);
    kiln_status status = kilni_rpc_who(server, shown ? name : NULL, certificate, &party, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_rpc_caller *made = kiln_alloc(server->env, sizeof(*made));
    if (made == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    } else {
        status = kilni_rpc_party_begin(&server->parties, party, KILNI_RPC_USE_CALLS,
                                       kilni_rpc_places(server, KILNI_RPC_KIND_MODEL, true), err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_party_put(&server->parties, party);
        kiln_free(server->env, made);
        return status;
    }
    *made = (kiln_rpc_caller){.server = server, .party = party};
    kilni_rpc_guard_init(&made->guard, server->models, &server->parties, party);
    *out_caller = made;
    return KILN_STATUS_OK;
}

const kiln_models *kiln_rpc_caller_models(const kiln_rpc_caller *caller)
{
    return caller != NULL ? &caller->guard.table : NULL;
}

const char *kiln_rpc_caller_name(const kiln_rpc_caller *caller)
{
    return caller != NULL ? caller->party->name : NULL;
}

void kiln_rpc_caller_end(kiln_rpc_caller *caller)
{
    if (caller != NULL) {
        kiln_rpc_server *server = caller->server;
        kilni_rpc_party_end(&server->parties, caller->party, KILNI_RPC_USE_CALLS);
        kilni_rpc_party_put(&server->parties, caller->party);
        kiln_free(server->env, caller);
    }
}

// ---- the end ----

bool kiln_rpc_server_drain(kiln_rpc_server *server, uint32_t timeout_ms)
{
    if (server == NULL) {
        return false;
    }
    uint64_t deadline = kiln_time_ns() + UINT64_C(1000000) * timeout_ms;
    atomic_store(&server->draining, true);
    atomic_store(&server->health, 2);
    wake_all(server);
    pthread_mutex_lock(&server->lock);
    bool busy = true;
    while (busy) {
        busy = atomic_load(&server->model_calls) > 0;
        for (kilni_rpc_session *each = server->sessions; each != NULL; each = each->next) {
            busy = busy || (each->attached && !each->paused);
        }
        uint64_t now = kiln_time_ns();
        if (!busy || now >= deadline) {
            break;
        }
        uint64_t left_ms = (deadline - now) / 1000000 + 1;
        kilni_rpc_wait_change(server, left_ms);
    }
    pthread_mutex_unlock(&server->lock);
    return !busy;
}

void kiln_rpc_server_destroy(kiln_rpc_server *server)
{
    if (server == NULL) {
        return;
    }
    atomic_store(&server->draining, true);
    atomic_store(&server->stopping, true);
    close_desks(server);
    kilni_rpc_exposures_stop(server->session.exposures);
    wake_all(server);
    (void)pthread_join(server->keeper, NULL);
    (void)pthread_join(server->housekeeper, NULL);
    kilni_rpc_listener_shutdown(server->listener);
    kilni_rpc_reap(server);
    kilni_rpc_watch_look(server);
    kilni_rpc_expire_sessions(server, UINT64_MAX);
    kilni_rpc_listener_close(server->listener);
    free_server(server);
}

const char *kiln_rpc_server_address(const kiln_rpc_server *server, uint32_t index)
{
    return server != NULL && index < KILNI_RPC_ADDRESSES ? server->names[index] : NULL;
}

void kiln_rpc_server_stats_get(kiln_rpc_server *server, kiln_rpc_server_stats *out_stats)
{
    if (server == NULL || out_stats == NULL) {
        return;
    }
    kiln_rpc_server_stats stats = {.struct_size = out_stats->struct_size};
    pthread_mutex_lock(&server->lock);
    stats.sessions = server->n_sessions;
    stats.resumed = server->resumed;
    stats.opened = server->opened;
    stats.served = server->served;
    stats.refused = server->refused;
    stats.raw_bytes = atomic_load(&server->raw_bytes);
    stats.operations = atomic_load(&server->operations);
    stats.held_bytes = kilni_rpc_parties_bytes(&server->parties);
    for (int kind = 0; kind < KILNI_RPC_KINDS; kind++) {
        stats.calls += server->calls[kind];
    }
    for (const kilni_rpc_session *each = server->sessions; each != NULL; each = each->next) {
        stats.detached += !each->attached;
    }
    pthread_mutex_unlock(&server->lock);
    size_t size = stats.struct_size < sizeof(stats) ? stats.struct_size : sizeof(stats);
    memcpy(out_stats, &stats, size);
}
