// SPDX-License-Identifier: MIT OR Apache-2.0
// The server: listens, gives each session a thread, ends them all when it is destroyed. Decides
// where it may listen and how many sessions there are; what a session does is rpc_session.c's.

#include "rpc_session.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef struct worker {
    kiln_rpc_server *server;
    kilni_rpc_stream *stream;
    pthread_t thread;
    atomic_bool done;
    struct worker *next;
} worker;

struct kiln_rpc_server {
    const kiln_env *env;
    kilni_rpc_session_options session;
    kilni_rpc_listener *listener;
    pthread_t acceptor;
    uint32_t max_sessions;
    char address[160];
    worker *workers; ///< the acceptor's, and after its end the destroyer's
};

static void *serve(void *pointer)
{
    worker *self = pointer;
    kilni_rpc_session_serve(self->server->env, &self->server->session, self->stream);
    atomic_store(&self->done, true);
    return NULL;
}

/// Joins the threads that have ended, or all of them. Gives how many are left.
static uint32_t reap(kiln_rpc_server *server, bool all)
{
    uint32_t left = 0;
    worker **link = &server->workers;
    while (*link != NULL) {
        worker *self = *link;
        if (!all && !atomic_load(&self->done)) {
            left++;
            link = &self->next;
            continue;
        }
        (void)pthread_join(self->thread, NULL);
        *link = self->next;
        kiln_free(server->env, self);
    }
    return left;
}

static void start_worker(kiln_rpc_server *server, kilni_rpc_stream *stream)
{
    kiln_error err = KILN_ERROR_INIT;
    worker *fresh = NULL;
    if (reap(server, /*all=*/false) >= server->max_sessions) {
        (void)kiln_fail(&err, RESOURCE_EXHAUSTED, "the server has %u sessions, the most allowed",
                        server->max_sessions);
    } else {
        fresh = kiln_alloc(server->env, sizeof(*fresh));
    }
    if (fresh != NULL) {
        fresh->server = server;
        fresh->stream = stream;
        atomic_init(&fresh->done, false);
        if (pthread_create(&fresh->thread, NULL, serve, fresh) == 0) {
            fresh->next = server->workers;
            server->workers = fresh;
            return;
        }
        kiln_free(server->env, fresh);
    }
    if (err.code == 0) {
        (void)kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory for a session");
    }
    kilni_rpc_stream_close(stream, &err);
}

static void *accept_all(void *pointer)
{
    kiln_rpc_server *server = pointer;
    kilni_rpc_stream *stream = NULL;
    while ((stream = kilni_rpc_accept(server->listener)) != NULL) {
        start_worker(server, stream);
    }
    return NULL;
}

static void set_limits(kiln_rpc_server *server, const kiln_rpc_server_options *options)
{
    kilni_rpc_limits *limits = &server->session.limits;
    uint64_t memory = kiln_device_info_of(server->session.device)->memory_bytes;
    limits->max_bytes = options->max_bytes > 0 ? options->max_bytes : memory / 2;
    limits->max_buffers = options->max_buffers > 0 ? options->max_buffers : 65536;
    limits->max_data_bytes = KILNI_RPC_CHUNK;
    server->max_sessions = options->max_sessions > 0 ? options->max_sessions : 8;
}

static void set_address(kiln_rpc_server *server, const char *address, int port)
{
    const char *colon = strrchr(address, ':');
    if (strncmp(address, "unix:", 5) == 0 || colon == NULL) {
        snprintf(server->address, sizeof(server->address), "%s", address);
    } else {
        snprintf(server->address, sizeof(server->address), "grpc://%.*s:%d", (int)(colon - address),
                 address, port);
    }
}

kiln_status kiln_rpc_server_create(kiln_device *device, const kiln_rpc_server_options *options,
                                   kiln_rpc_server **out_server, kiln_error *err)
{
    kiln_rpc_server_options defaults = KILN_RPC_SERVER_OPTIONS_INIT;
    *out_server = NULL;
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    options = options != NULL ? options : &defaults;
    const char *address = options->address != NULL ? options->address : "127.0.0.1:0";
    if (strchr(address, ':') == NULL || strlen(address) > 120) {
        return kiln_fail(err, INVALID_ARGUMENT, "\"%.100s\" is no HOST:PORT and no unix:PATH",
                         address);
    }
    if (!kilni_rpc_is_loopback(address) && options->allow_public == 0) {
        return kiln_fail(err, PERMISSION_DENIED,
                         "%s is beyond loopback and nothing is encrypted; allow it explicitly",
                         address);
    }
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    kiln_rpc_server *server = kiln_alloc(env, sizeof(*server));
    if (server == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a server");
    }
    int port = 0;
    server->env = env;
    server->session.device = device;
    server->session.instance = kiln_time_ns();
    set_limits(server, options);
    kiln_status status = kilni_rpc_listen(env, address, &server->listener, &port, err);
    if (status == KILN_STATUS_OK) {
        set_address(server, address, port);
        kiln_device_retain(device);
        if (pthread_create(&server->acceptor, NULL, accept_all, server) != 0) {
            kilni_rpc_listener_shutdown(server->listener);
            kilni_rpc_listener_close(server->listener);
            kiln_device_release(device);
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a server");
        }
    }
    if (status != KILN_STATUS_OK) {
        kiln_free(env, server);
        return status;
    }
    *out_server = server;
    return KILN_STATUS_OK;
}

void kiln_rpc_server_destroy(kiln_rpc_server *server)
{
    if (server == NULL) {
        return;
    }
    kiln_device *device = server->session.device;
    kilni_rpc_listener_shutdown(server->listener);
    (void)pthread_join(server->acceptor, NULL);
    (void)reap(server, /*all=*/true);
    kilni_rpc_listener_close(server->listener);
    kiln_free(server->env, server);
    kiln_device_release(device);
}

const char *kiln_rpc_server_address(const kiln_rpc_server *server)
{
    return server->address;
}
