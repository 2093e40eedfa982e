// SPDX-License-Identifier: MIT OR Apache-2.0
// gRPC's server, its certificates and its queue. Decides nothing about who listens where, or when
// it runs; a server that was not started cannot be destroyed, so it always is.

#include "rpc_engine.h"

#include "rpc_protocol.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { HANDSHAKE_MS = 5000, IDLE_MS = 60000, MAX_STREAMS = 64 };

static const char *const entry_names[KILNI_RPC_SPEECHES] = {"external:plain", "external:tls"};

/// gRPC's `TcpServerFdHandler`, by which its C++ users hand over connections as
/// `ExternalConnectionAcceptor`; its C functions have none for it that keeps TLS, the time of a
/// handshake and the peer's name. Two destructors stand first in the table of such a class.
typedef struct entry_table {
    void (*destroy[2])(kilni_rpc_entry *entry);
    void (*take)(kilni_rpc_entry *entry, int listener_fd, int take_fd, grpc_byte_buffer *read);
} entry_table;

struct kilni_rpc_entry {
    const entry_table *table;
};

// ---- certificates ----

static kiln_status copy_identity(const kiln_env *env, const kilni_rpc_identity *identity,
                                 kilni_rpc_identity *out_copy, kiln_error *err)
{
    *out_copy = (kilni_rpc_identity){
        .authorities =
            identity->authorities != NULL ? kiln_strdup(env, identity->authorities) : NULL,
        .certificate = kiln_strdup(env, identity->certificate),
        .key = kiln_strdup(env, identity->key),
    };
    if (out_copy->certificate == NULL || out_copy->key == NULL ||
        (out_copy->authorities == NULL) != (identity->authorities == NULL)) {
        kilni_rpc_identity_fini(env, out_copy);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a certificate");
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_engine_try(const kiln_env *env, const kilni_rpc_identity *identity,
                                 kiln_error *err)
{
    kilni_rpc_engine trial;
    kilni_rpc_engine_init(&trial, env, 0);
    if (identity != NULL) {
        trial.identity = *identity;
        trial.version = 1;
    }
    kiln_status status = kilni_rpc_engine_start(&trial, err);
    if (status == KILN_STATUS_OK) {
        kilni_rpc_engine_quit(&trial);
        kilni_rpc_engine_stop(&trial, /*last=*/false);
    }
    trial.identity = (kilni_rpc_identity){0};
    kilni_rpc_engine_fini(&trial);
    return status;
}

kiln_status kilni_rpc_engine_renew(kilni_rpc_engine *engine, const kilni_rpc_identity *identity,
                                   kiln_error *err)
{
    kilni_rpc_identity fresh;
    if (identity->certificate == NULL) {
        return KILN_STATUS_OK;
    }
    kiln_status status = copy_identity(engine->env, identity, &fresh, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_engine_try(engine->env, &fresh, err);
        if (status == KILN_STATUS_OK) {
            pthread_mutex_lock(&engine->lock);
            kilni_rpc_identity old = engine->identity;
            engine->identity = fresh;
            engine->version++;
            pthread_mutex_unlock(&engine->lock);
            fresh = old;
        }
        kilni_rpc_identity_fini(engine->env, &fresh);
    }
    return status;
}

/// gRPC asks at every handshake.
static grpc_ssl_certificate_config_reload_status
show_certificate(void *user, grpc_ssl_server_certificate_config **out_config)
{
    kilni_rpc_engine *engine = user;
    grpc_ssl_certificate_config_reload_status status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    pthread_mutex_lock(&engine->lock);
    if (engine->shown != engine->version) {
        const kilni_rpc_identity *identity = &engine->identity;
        grpc_ssl_pem_key_cert_pair pair = {.private_key = identity->key,
                                           .cert_chain = identity->certificate};
        // gRPC insists on authorities here, also where no client is asked for a certificate.
        *out_config = grpc_ssl_server_certificate_config_create(
            identity->authorities != NULL ? identity->authorities : identity->certificate, &pair,
            1);
        engine->shown = engine->version;
        status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
    }
    pthread_mutex_unlock(&engine->lock);
    return status;
}

static grpc_server_credentials *make_tls(kilni_rpc_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    bool mutual = engine->identity.authorities != NULL;
    pthread_mutex_unlock(&engine->lock);
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                   : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            show_certificate, engine));
}

static bool has_certificate(kilni_rpc_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    bool has = engine->identity.certificate != NULL;
    pthread_mutex_unlock(&engine->lock);
    return has;
}

// ---- life ----

static void *borrow(void *pointer)
{
    return pointer;
}

static void give_back(void *pointer)
{
    (void)pointer;
}

static int compare(void *left, void *right)
{
    return left < right ? -1 : left > right;
}

/// Where gRPC leaves its entry when it is told to take connections of this speech.
static grpc_arg entry_arg(kilni_rpc_engine *engine, kilni_rpc_speech speech)
{
    static const grpc_arg_pointer_vtable borrowed = {borrow, give_back, compare};
    grpc_arg arg = {.type = GRPC_ARG_POINTER, .key = (char *)(uintptr_t)entry_names[speech]};
    arg.value.pointer.p = &engine->entries[speech];
    arg.value.pointer.vtable = &borrowed;
    return arg;
}

static grpc_server *make_server(kilni_rpc_engine *engine)
{
    uint64_t wanted = engine->max_message;
    int most = wanted <= KILNI_RPC_MAX_MESSAGE ? KILNI_RPC_MAX_MESSAGE
               : wanted < INT32_MAX            ? (int)wanted
                                               : INT32_MAX;
    grpc_arg args[] = {
        kilni_grpc_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, most),
        kilni_grpc_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, MAX_STREAMS),
        kilni_grpc_arg(GRPC_ARG_MAX_METADATA_SIZE, 8192),
        kilni_grpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, KILNI_PING_MS),
        kilni_grpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KILNI_PONG_MS),
        kilni_grpc_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        kilni_grpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        kilni_grpc_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, KILNI_MIN_PING_MS),
        kilni_grpc_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS),
        kilni_grpc_arg(GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_MS),
        kilni_grpc_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        kilni_grpc_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),
        entry_arg(engine, KILNI_RPC_SPEECH_PLAIN),
        entry_arg(engine, KILNI_RPC_SPEECH_TLS),
    };
    grpc_channel_args list = {sizeof(args) / sizeof(args[0]), args};
    return grpc_server_create(&list, NULL);
}

/// False: the certificate cannot be used, of which gRPC says no more.
static bool add_entry(kilni_rpc_engine *engine, kilni_rpc_speech speech)
{
    grpc_server_credentials *credentials = speech == KILNI_RPC_SPEECH_TLS
                                               ? make_tls(engine)
                                               : grpc_insecure_server_credentials_create();
    if (credentials != NULL) {
        (void)grpc_server_add_http2_port(engine->server, entry_names[speech], credentials);
        grpc_server_credentials_release(credentials);
    }
    return engine->entries[speech] != NULL;
}

void kilni_rpc_engine_init(kilni_rpc_engine *engine, const kiln_env *env, uint64_t max_message)
{
    *engine = (kilni_rpc_engine){.env = env, .max_message = max_message};
    pthread_mutex_init(&engine->lock, NULL);
}

void kilni_rpc_engine_fini(kilni_rpc_engine *engine)
{
    kilni_rpc_identity_fini(engine->env, &engine->identity);
    pthread_mutex_destroy(&engine->lock);
}

static void *pass_gate(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/// So many threads at once can be had.
static bool has_threads(void)
{
    enum { THREADS = 10 }; // gRPC 1.51 starts seven
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[THREADS];
    unsigned count = 0;
    pthread_mutex_lock(&gate);
    while (count < THREADS && pthread_create(&threads[count], NULL, pass_gate, &gate) == 0) {
        count++;
    }
    pthread_mutex_unlock(&gate);
    for (unsigned i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return count == THREADS;
}

static bool has_descriptors(void)
{
    enum { DESCRIPTORS = 10 }; // gRPC 1.51 takes four
    int fds[DESCRIPTORS];
    unsigned count = 0;
    while (count < DESCRIPTORS && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0) {
        count++;
    }
    for (unsigned i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
    return count == DESCRIPTORS;
}

/// gRPC ends the process where it starts without descriptors, and itself never ends without
/// threads.
static kiln_status check_room(kiln_error *err)
{
    if (!has_descriptors()) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no descriptors are left for gRPC");
    }
    return has_threads() ? KILN_STATUS_OK
                         : kiln_fail(err, RESOURCE_EXHAUSTED, "no threads are left for gRPC");
}

kiln_status kilni_rpc_engine_start(kilni_rpc_engine *engine, kiln_error *err)
{
    kiln_status status = check_room(err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_grpc_init(engine->env);
    engine->shown = 0;
    memset(engine->entries, 0, sizeof(engine->entries));
    atomic_store(&engine->is_over, false);
    engine->server = make_server(engine);
    engine->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(engine->server, engine->queue, NULL);
    bool plain = add_entry(engine, KILNI_RPC_SPEECH_PLAIN);
    bool good = plain && (!has_certificate(engine) || add_entry(engine, KILNI_RPC_SPEECH_TLS));
    grpc_server_start(engine->server);
    if (good) {
        return KILN_STATUS_OK;
    }
    kilni_rpc_engine_quit(engine);
    kilni_rpc_engine_stop(engine, /*last=*/false);
    return plain ? kiln_fail(err, INVALID_ARGUMENT,
                             "the certificate, its key or the client CA cannot be used: PEM files "
                             "are needed, and a key that belongs to the certificate")
                 : kiln_fail(err, INTERNAL, "this gRPC takes no connections of others");
}

void kilni_rpc_engine_quit(kilni_rpc_engine *engine)
{
    grpc_server_shutdown_and_notify(engine->server, engine->queue, engine);
}

void kilni_rpc_engine_stop(kilni_rpc_engine *engine, bool last)
{
    bool late = false; // what was asked for and did not come is told before the end
    while (!atomic_load(&engine->is_over)) {
        kilni_grpc_stream_free(kilni_rpc_engine_next(engine, kilni_grpc_forever(), &late));
    }
    while (!late) {
        kilni_grpc_stream_free(kilni_rpc_engine_next(engine, kilni_grpc_after(0), &late));
    }
    grpc_server_destroy(engine->server);
    kilni_grpc_destroy_queue(engine->queue, /*pluck=*/false);
    engine->server = NULL;
    engine->queue = NULL;
    if (!last) { // waits for a thread that polls for ten seconds, when one has helped with a write
        grpc_shutdown();
    }
}

// ---- connections and calls ----

void kilni_rpc_engine_give(kilni_rpc_engine *engine, kilni_rpc_speech speech, int listener_fd,
                           int take_fd)
{
    kilni_rpc_entry *entry = engine->entries[speech];
    entry->table->take(entry, listener_fd, take_fd, NULL);
}

bool kilni_rpc_engine_ask(kilni_rpc_engine *engine)
{
    kilni_rpc_stream *stream = kilni_grpc_stream_new(engine->env);
    if (stream == NULL) {
        return false;
    }
    atomic_fetch_add(&engine->streams, 1);
    stream->streams = &engine->streams;
    grpc_completion_queue *queue = stream->queue;
    __tsan_release(stream); // another thread may get it
    if (grpc_server_request_call(engine->server, &stream->call, &stream->details, &stream->metadata,
                                 queue, engine->queue, stream) != GRPC_CALL_OK) {
        kilni_grpc_stream_free(stream);
        return false;
    }
    return true;
}

kilni_rpc_stream *kilni_rpc_engine_next(kilni_rpc_engine *engine, gpr_timespec deadline,
                                        bool *out_late)
{
    grpc_event event = grpc_completion_queue_next(engine->queue, deadline, NULL);
    __tsan_acquire(event.tag);
    if (event.type == GRPC_QUEUE_TIMEOUT) {
        *out_late = true;
    } else if (event.tag == engine) {
        atomic_store(&engine->is_over, true);
    } else if (event.type == GRPC_OP_COMPLETE && event.success != 0) {
        return event.tag;
    } else if (event.type == GRPC_OP_COMPLETE) {
        kilni_grpc_stream_free(event.tag);
    }
    return NULL;
}
