// SPDX-License-Identifier: MIT OR Apache-2.0
// The server's side of gRPC: ports with and without TLS, and the calls that arrive. Decides nothing
// about who may call what; a server that was not started cannot be destroyed, so it always is.

#include "rpc_listener.h"

#include "rpc_activated.h"
#include "rpc_grpc.h"
#include "rpc_protocol.h"
#include "rpc_resets.h"

#include <grpc/support/alloc.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    ACCEPT_PAUSE_MS = 20,
    HANDSHAKE_MS = 5000,
    IDLE_MS = 60000,
    MAX_STREAMS = 64,
    PORTS = 16,
    SOON_MS = 2 ///< a message that comes with its call
};

/// A port with TLS, and which certificate it shows.
typedef struct tls_port {
    kilni_rpc_listener *listener;
    uint64_t shown;
} tls_port;

struct kilni_rpc_listener {
    const kiln_env *env;
    grpc_server *server;
    grpc_completion_queue *queue;
    pthread_mutex_t lock; ///< for those below
    kilni_rpc_identity identity;
    uint64_t version; ///< of the identity
    bool last; ///< gRPC is left running
    tls_port tls_ports[PORTS];
    size_t n_tls_ports;
    kilni_rpc_activated *activated[PORTS]; ///< sockets that others have bound
    size_t n_activated;
    kilni_rpc_resets resets; ///< under the lock
    uint32_t unawaited; ///< under the lock: calls that were asked for and nobody waits for
    kilni_rpc_stream *swept; ///< under the lock: to be closed by the sweeper
    bool sweeps_end;
    pthread_cond_t to_sweep;
    pthread_t sweeper;
    bool has_sweeper;
    atomic_bool down;
    atomic_bool shutdown_seen;
};

// ---- calls that nobody waits for ----

/// Starts the batch that tells of the call's end.
static bool await_end(kilni_rpc_stream *stream)
{
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    close.data.recv_close_on_server.cancelled = &stream->cancelled;
    stream->status_pending = kilni_grpc_start(stream, &close, 1, KILNI_TAG_STATUS);
    return stream->status_pending;
}

/// Closing them waits for their connection, so one thread does it for all.
static void *sweep_calls(void *pointer)
{
    kilni_rpc_listener *listener = pointer;
    pthread_mutex_lock(&listener->lock);
    while (!listener->sweeps_end || listener->swept != NULL) {
        kilni_rpc_stream *stream = listener->swept;
        if (stream == NULL) {
            pthread_cond_wait(&listener->to_sweep, &listener->lock);
            continue;
        }
        listener->swept = stream->next;
        pthread_mutex_unlock(&listener->lock);
        (void)await_end(stream);
        kilni_rpc_cancel(stream);
        kilni_rpc_stream_close(stream, NULL);
        pthread_mutex_lock(&listener->lock);
    }
    pthread_mutex_unlock(&listener->lock);
    return NULL;
}

static void sweep(kilni_rpc_listener *listener, kilni_rpc_stream *stream)
{
    pthread_mutex_lock(&listener->lock);
    stream->next = listener->swept;
    listener->swept = stream;
    pthread_cond_signal(&listener->to_sweep);
    pthread_mutex_unlock(&listener->lock);
}

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

kiln_status kilni_rpc_listener_renew(kilni_rpc_listener *listener,
                                     const kilni_rpc_identity *identity, kiln_error *err)
{
    kilni_rpc_identity fresh;
    if (identity->certificate == NULL) {
        return KILN_STATUS_OK;
    }
    kiln_status status = copy_identity(listener->env, identity, &fresh, err);
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&listener->lock);
        kilni_rpc_identity old = listener->identity;
        listener->identity = fresh;
        listener->version++;
        pthread_mutex_unlock(&listener->lock);
        kilni_rpc_identity_fini(listener->env, &old);
    }
    return status;
}

/// gRPC asks at every handshake.
static grpc_ssl_certificate_config_reload_status
show_certificate(void *user, grpc_ssl_server_certificate_config **out_config)
{
    tls_port *port = user;
    kilni_rpc_listener *listener = port->listener;
    grpc_ssl_certificate_config_reload_status status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    pthread_mutex_lock(&listener->lock);
    if (port->shown != listener->version) {
        const kilni_rpc_identity *identity = &listener->identity;
        grpc_ssl_pem_key_cert_pair pair = {.private_key = identity->key,
                                           .cert_chain = identity->certificate};
        // gRPC insists on authorities here, also where no client is asked for a certificate.
        *out_config = grpc_ssl_server_certificate_config_create(
            identity->authorities != NULL ? identity->authorities : identity->certificate, &pair,
            1);
        port->shown = listener->version;
        status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
    }
    pthread_mutex_unlock(&listener->lock);
    return status;
}

static grpc_server_credentials *make_credentials(kilni_rpc_listener *listener, bool plain)
{
    const kilni_rpc_identity *identity = &listener->identity;
    if (plain || identity->certificate == NULL) {
        return grpc_insecure_server_credentials_create();
    }
    if (listener->n_tls_ports == PORTS) {
        return NULL;
    }
    tls_port *port = &listener->tls_ports[listener->n_tls_ports++];
    port->listener = listener;
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            identity->authorities != NULL
                ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            show_certificate, port));
}

// ---- ports ----

/// gRPC removes a socket file before it binds; somebody may be listening there.
static bool is_served(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || strlen(path) >= sizeof(name.sun_path)) {
        (void)close(fd);
        return false;
    }
    memcpy(name.sun_path, path, strlen(path) + 1);
    bool served = connect(fd, (const struct sockaddr *)&name, sizeof(name)) == 0;
    (void)close(fd);
    return served;
}

/// Without a mask between making the socket and closing it to others somebody could connect.
static int bind_port(kilni_rpc_listener *listener, const char *address, bool is_unix,
                     grpc_server_credentials *credentials)
{
    mode_t old = is_unix ? umask(S_IRWXG | S_IRWXO | S_IXUSR) : 0;
    int port = grpc_server_add_http2_port(listener->server, address, credentials);
    if (is_unix) {
        (void)umask(old);
    }
    return port;
}

/// gRPC does not say why: where it can listen without TLS, the certificate is to blame.
static kiln_status explain_port(kilni_rpc_listener *listener, const char *address, bool is_unix,
                                kiln_error *err)
{
    grpc_server_credentials *credentials = make_credentials(listener, /*plain=*/true);
    bool tls = !is_unix && listener->identity.certificate != NULL &&
               bind_port(listener, address, is_unix, credentials) != 0;
    grpc_server_credentials_release(credentials);
    if (tls) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "the certificate, its key or the client CA cannot be used: PEM files are "
                         "needed, and a key that belongs to the certificate");
    }
    return kiln_fail(err, UNAVAILABLE, "cannot listen at %s: %s", address,
                     is_unix ? "the folder is missing or closed, or the path too long"
                             : "the port is taken, or this machine has no such address");
}

static kiln_status add_activated(kilni_rpc_listener *listener, int fd, kiln_error *err)
{
    if (listener->n_activated == PORTS) {
        return kiln_fail(err, INVALID_ARGUMENT, "more than %d sockets", PORTS);
    }
    kiln_status status = kilni_rpc_activated_start(
        listener->env, listener->server, fd, &listener->activated[listener->n_activated], err);
    listener->n_activated += status == KILN_STATUS_OK;
    return status;
}

static kiln_status add_port(kilni_rpc_listener *listener, const char *address, int *out_port,
                            kiln_error *err)
{
    bool is_unix = strncmp(address, "unix:", 5) == 0;
    if (is_unix && is_served(address + 5)) {
        return kiln_fail(err, UNAVAILABLE, "somebody listens at %s already", address);
    }
    grpc_server_credentials *credentials = make_credentials(listener, is_unix);
    if (credentials == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "the certificate or the key cannot be used");
    }
    int port = bind_port(listener, address, is_unix, credentials);
    grpc_server_credentials_release(credentials);
    if (port == 0) {
        return explain_port(listener, address, is_unix, err);
    }
    *out_port = is_unix ? 0 : port;
    return KILN_STATUS_OK;
}

static grpc_server *make_server(uint64_t max_message)
{
    int most = max_message <= KILNI_RPC_MAX_MESSAGE ? KILNI_RPC_MAX_MESSAGE
               : max_message < INT32_MAX            ? (int)max_message
                                                    : INT32_MAX;
    grpc_arg args[] = {
        kilni_grpc_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, most),
        kilni_grpc_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, MAX_STREAMS),
        kilni_grpc_arg(GRPC_ARG_MAX_METADATA_SIZE, 8192),
        kilni_grpc_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),
        kilni_grpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, KILNI_PING_MS),
        kilni_grpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KILNI_PONG_MS),
        kilni_grpc_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        kilni_grpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        kilni_grpc_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, KILNI_MIN_PING_MS),
        kilni_grpc_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS),
        kilni_grpc_arg(GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_MS),
        kilni_grpc_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        kilni_grpc_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),
    };
    grpc_channel_args list = {sizeof(args) / sizeof(args[0]), args};
    return grpc_server_create(&list, NULL);
}

kiln_status kilni_rpc_listen(const kiln_env *env, const kilni_rpc_listen_options *options,
                             kilni_rpc_listener **out_listener, kiln_error *err)
{
    kilni_rpc_listener *listener = kiln_alloc(env, sizeof(*listener));
    kiln_status status = KILN_STATUS_OK;
    if (listener == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a server");
    }
    kilni_grpc_init(env);
    listener->env = env;
    listener->last = options->last;
    pthread_mutex_init(&listener->lock, NULL);
    pthread_cond_init(&listener->to_sweep, NULL);
    listener->has_sweeper = pthread_create(&listener->sweeper, NULL, sweep_calls, listener) == 0;
    if (!listener->has_sweeper) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a server");
    }
    listener->server = make_server(options->max_message);
    listener->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(listener->server, listener->queue, NULL);
    if (options->identity != NULL && status == KILN_STATUS_OK) {
        status = kilni_rpc_listener_renew(listener, options->identity, err);
    }
    for (size_t i = 0; i < options->n_addresses && status == KILN_STATUS_OK; i++) {
        status = add_port(listener, options->addresses[i], &options->out_ports[i], err);
    }
    grpc_server_start(listener->server);
    for (size_t i = 0; i < options->n_fds && status == KILN_STATUS_OK; i++) {
        status = add_activated(listener, options->fds[i], err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_listener_shutdown(listener);
        kilni_rpc_listener_close(listener);
        return status;
    }
    *out_listener = listener;
    return KILN_STATUS_OK;
}

// ---- calls ----

/// For each thread that waits one call is asked for.
static bool ask_for_call(kilni_rpc_listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    bool asked = listener->unawaited > 0;
    listener->unawaited -= asked;
    pthread_mutex_unlock(&listener->lock);
    if (asked) {
        return true;
    }
    kilni_rpc_stream *stream = kilni_grpc_stream_new(listener->env);
    grpc_completion_queue *queue = stream != NULL ? stream->queue : NULL;
    __tsan_release(stream); // another thread may get it
    if (stream == NULL || grpc_server_request_call(listener->server, &stream->call,
                                                   &stream->details, &stream->metadata, queue,
                                                   listener->queue, stream) != GRPC_CALL_OK) {
        if (stream != NULL) {
            kilni_grpc_stream_free(stream);
        }
        return false;
    }
    return true;
}

/// Waits for any call that was asked for; NULL when there was none, `*out_late` true: in time.
static kilni_rpc_stream *next_call(kilni_rpc_listener *listener, gpr_timespec deadline,
                                   bool *out_late)
{
    if (!ask_for_call(listener)) {
        return NULL;
    }
    grpc_event event = grpc_completion_queue_next(listener->queue, deadline, NULL);
    __tsan_acquire(event.tag);
    if (event.type == GRPC_QUEUE_TIMEOUT) {
        pthread_mutex_lock(&listener->lock);
        listener->unawaited++;
        pthread_mutex_unlock(&listener->lock);
        *out_late = true;
    } else if (event.tag == listener) {
        atomic_store(&listener->shutdown_seen, true);
    } else if (event.type == GRPC_OP_COMPLETE && event.success != 0) {
        return event.tag;
    } else if (event.type == GRPC_OP_COMPLETE) {
        kilni_grpc_stream_free(event.tag);
    }
    return NULL;
}

/// One who asks and takes back all the time is sent away. Gives whether the call is to be answered.
static bool note_call(kilni_rpc_listener *listener, const kilni_rpc_stream *stream,
                      kilni_rpc_stage stage)
{
    char peer[KILNI_RPC_PEER_TEXT];
    kilni_rpc_peer(stream, peer, sizeof(peer));
    pthread_mutex_lock(&listener->lock);
    kilni_rpc_verdict verdict = kilni_rpc_resets_note(&listener->resets, peer, stage);
    pthread_mutex_unlock(&listener->lock);
    if (verdict == KILNI_RPC_VERDICT_CUT) {
        kiln_log_write(listener->env, KILN_LOG_WARN, "remote",
                       "%s took its calls back before they were answered, and was sent away", peer);
    }
    return verdict == KILNI_RPC_VERDICT_FINE;
}

kilni_rpc_stream *kilni_rpc_accept(kilni_rpc_listener *listener, int64_t timeout_ms)
{
    gpr_timespec deadline = timeout_ms < 0 ? kilni_grpc_forever() : kilni_grpc_after(timeout_ms);
    bool late = false;
    while (!late && !atomic_load(&listener->down)) {
        kilni_rpc_stream *stream = next_call(listener, deadline, &late);
        size_t length = stream != NULL ? GRPC_SLICE_LENGTH(stream->details.method) : 0;
        if (stream != NULL && length < sizeof(stream->method)) {
            memcpy(stream->method, GRPC_SLICE_START_PTR(stream->details.method), length);
        }
        if (stream != NULL && note_call(listener, stream, KILNI_RPC_STAGE_CAME)) {
            return stream;
        }
        if (stream != NULL) {
            sweep(listener, stream);
        } else if (!late && !atomic_load(&listener->down)) {
            kiln_log_write(listener->env, KILN_LOG_WARN, "remote", "a call could not be accepted");
            gpr_sleep_until(kilni_grpc_after(ACCEPT_PAUSE_MS));
        }
    }
    return NULL;
}

void kilni_rpc_drop_call(kilni_rpc_listener *listener, kilni_rpc_stream *stream)
{
    (void)note_call(listener, stream, KILNI_RPC_STAGE_GONE);
    sweep(listener, stream);
}

bool kilni_rpc_begin_call(kilni_rpc_listener *listener, kilni_rpc_stream *stream, bool single)
{
    grpc_op first = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    bool begun = await_end(stream);
    // A start that leaves alone wakes the client for nothing, and takes as long as an answer.
    stream->unopened = begun && single && kilni_grpc_await_message(stream, SOON_MS);
    begun = begun && (stream->unopened || kilni_grpc_run(stream, &first, 1, KILNI_TAG_START)) &&
            !kilni_rpc_is_ended(stream, 0);
    (void)note_call(listener, stream, begun ? KILNI_RPC_STAGE_BEGUN : KILNI_RPC_STAGE_GONE);
    return begun;
}

const char *kilni_rpc_method(const kilni_rpc_stream *stream)
{
    return stream->method;
}

/// One that is longer is cut; control characters would disturb the log.
static void copy_name(const char *text, size_t length, char out_name[KILNI_RPC_CALLER])
{
    length = length < KILNI_RPC_CALLER ? length : KILNI_RPC_CALLER - 1;
    for (size_t i = 0; i < length; i++) {
        out_name[i] = text[i];
        if ((unsigned char)text[i] <= ' ' || text[i] == 127) {
            out_name[i] = '_';
        }
    }
    out_name[length] = '\0';
}

/// `line` has blanks between a name, which may be missing, and the token.
static size_t token_of(const char *line, size_t length, char out_name[KILNI_RPC_CALLER])
{
    size_t begin = length;
    while (begin > 0 && line[begin - 1] != ' ' && line[begin - 1] != '\t') {
        begin--;
    }
    size_t name = strspn(line, " \t");
    size_t end = begin;
    while (end > name && (line[end - 1] == ' ' || line[end - 1] == '\t')) {
        end--;
    }
    if (end > name) {
        copy_name(line + name, end - name, out_name);
    } else {
        uint64_t hash = kiln_hash64(line + begin, length - begin, 0);
        snprintf(out_name, KILNI_RPC_CALLER, "token-%012" PRIx64, hash >> 16);
    }
    return begin;
}

/// Compares with every line, so that the time does not tell which one is near.
static bool is_line_of(const char *tokens, const char *given, size_t length,
                       char out_name[KILNI_RPC_CALLER])
{
    bool found = false;
    for (const char *line = tokens; *line != '\0';) {
        char name[KILNI_RPC_CALLER];
        size_t line_length = strcspn(line, "\r\n");
        size_t begin = token_of(line, line_length, name);
        if (line_length - begin == length && length > 0 &&
            kilni_rpc_same_secret(line + begin, given, length)) {
            memcpy(out_name, name, sizeof(name));
            found = true;
        }
        line += line_length;
        line += strspn(line, "\r\n");
    }
    return found;
}

bool kilni_rpc_is_token(const char *text, size_t length, const char *tokens,
                        char out_name[KILNI_RPC_CALLER])
{
    static const char scheme[] = "bearer "; // RFC 7235: its case does not count
    size_t head = sizeof(scheme) - 1;
    return length > head && strncasecmp(text, scheme, head) == 0 &&
           is_line_of(tokens, text + head, length - head, out_name);
}

bool kilni_rpc_is_authorized(const kilni_rpc_stream *stream, const char *tokens,
                             char out_name[KILNI_RPC_CALLER])
{
    bool found = false;
    for (size_t i = 0; i < stream->metadata.count; i++) {
        const grpc_metadata *each = &stream->metadata.metadata[i];
        if (grpc_slice_str_cmp(each->key, "authorization") == 0) {
            found = kilni_rpc_is_token((const char *)GRPC_SLICE_START_PTR(each->value),
                                       GRPC_SLICE_LENGTH(each->value), tokens, out_name) ||
                    found;
        }
    }
    return found;
}

bool kilni_rpc_certificate_name(const kilni_rpc_stream *stream, char out_name[KILNI_RPC_CALLER])
{
    grpc_auth_context *context = grpc_call_auth_context(stream->call);
    bool found = false;
    if (context != NULL && grpc_auth_context_peer_is_authenticated(context) != 0) {
        grpc_auth_property_iterator each =
            grpc_auth_context_find_properties_by_name(context, GRPC_X509_CN_PROPERTY_NAME);
        const grpc_auth_property *name = grpc_auth_property_iterator_next(&each);
        if (name == NULL || name->value_length == 0) {
            each = grpc_auth_context_peer_identity(context);
            name = grpc_auth_property_iterator_next(&each);
        }
        found = name != NULL && name->value_length > 0;
        if (found) {
            copy_name(name->value, name->value_length, out_name);
        }
    }
    grpc_auth_context_release(context);
    return found;
}

void kilni_rpc_header(const kilni_rpc_stream *stream, const char *key, char *out_text, size_t size)
{
    out_text[0] = '\0';
    for (size_t i = 0; i < stream->metadata.count; i++) {
        const grpc_metadata *each = &stream->metadata.metadata[i];
        size_t length = GRPC_SLICE_LENGTH(each->value);
        if (grpc_slice_str_cmp(each->key, key) == 0 && length < size) {
            memcpy(out_text, GRPC_SLICE_START_PTR(each->value), length);
            out_text[length] = '\0';
        }
    }
}

void kilni_rpc_peer(const kilni_rpc_stream *stream, char *out_text, size_t size)
{
    char *peer = grpc_call_get_peer(stream->call);
    snprintf(out_text, size, "%s", peer != NULL ? peer : "");
    gpr_free(peer);
}

// ---- end ----

void kilni_rpc_listener_stop(kilni_rpc_listener *listener)
{
    if (!atomic_exchange(&listener->down, true)) {
        for (size_t i = 0; i < listener->n_activated; i++) {
            kilni_rpc_activated_stop(listener->activated[i]);
        }
        grpc_server_shutdown_and_notify(listener->server, listener->queue, listener);
    }
}

void kilni_rpc_listener_shutdown(kilni_rpc_listener *listener)
{
    kilni_rpc_listener_stop(listener);
    grpc_server_cancel_all_calls(listener->server);
}

/// Frees the streams that were not used.
static void drain_requests(kilni_rpc_listener *listener)
{
    grpc_event event = {.type = GRPC_OP_COMPLETE};
    while (event.type == GRPC_OP_COMPLETE) {
        event = grpc_completion_queue_next(listener->queue, kilni_grpc_after(0), NULL);
        if (event.type == GRPC_OP_COMPLETE && event.tag != listener) {
            kilni_grpc_stream_free(event.tag);
        }
    }
}

void kilni_rpc_listener_close(kilni_rpc_listener *listener)
{
    // What was asked for and did not come is told before the end.
    while (!atomic_load(&listener->shutdown_seen)) {
        grpc_event event = grpc_completion_queue_next(listener->queue, kilni_grpc_forever(), NULL);
        if (event.tag == listener || event.type == GRPC_QUEUE_SHUTDOWN) {
            atomic_store(&listener->shutdown_seen, true);
        } else {
            kilni_grpc_stream_free(event.tag);
        }
    }
    drain_requests(listener);
    pthread_mutex_lock(&listener->lock);
    listener->sweeps_end = true;
    pthread_cond_signal(&listener->to_sweep);
    pthread_mutex_unlock(&listener->lock);
    if (listener->has_sweeper) {
        (void)pthread_join(listener->sweeper, NULL);
    }
    pthread_cond_destroy(&listener->to_sweep);
    grpc_server_destroy(listener->server);
    kilni_grpc_destroy_queue(listener->queue, /*pluck=*/false);
    kilni_rpc_identity_fini(listener->env, &listener->identity);
    pthread_mutex_destroy(&listener->lock);
    bool last = listener->last;
    kiln_free(listener->env, listener);
    if (!last) { // waits for a thread that polls for ten seconds, when one has helped with a write
        grpc_shutdown();
    }
}
