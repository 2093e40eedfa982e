// SPDX-License-Identifier: MIT OR Apache-2.0
// The server's side of gRPC: ports with and without TLS, and the calls that arrive. Decides nothing
// about who may call what; a server that was not started cannot be destroyed, so it always is.

#include "rpc_listener.h"

#include "rpc_grpc.h"
#include "rpc_protocol.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { ACCEPT_PAUSE_MS = 20, HANDSHAKE_MS = 5000, IDLE_MS = 60000, MAX_STREAMS = 64, PORTS = 16 };

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
    tls_port tls_ports[PORTS];
    size_t n_tls_ports;
    atomic_bool down;
    bool shutdown_seen;
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
    pthread_mutex_init(&listener->lock, NULL);
    listener->server = make_server(options->max_message);
    listener->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(listener->server, listener->queue, NULL);
    if (options->identity != NULL) {
        status = kilni_rpc_listener_renew(listener, options->identity, err);
    }
    for (size_t i = 0; i < options->n_addresses && status == KILN_STATUS_OK; i++) {
        status = add_port(listener, options->addresses[i], &options->out_ports[i], err);
    }
    grpc_server_start(listener->server);
    if (status != KILN_STATUS_OK) {
        kilni_rpc_listener_shutdown(listener);
        kilni_rpc_listener_close(listener);
        return status;
    }
    *out_listener = listener;
    return KILN_STATUS_OK;
}

// ---- calls ----

/// Answers the start of a call; the batch that tells of its end stays open.
static bool greet(kilni_rpc_stream *stream)
{
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    close.data.recv_close_on_server.cancelled = &stream->cancelled;
    grpc_op first = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    size_t length = GRPC_SLICE_LENGTH(stream->details.method);
    if (length < sizeof(stream->method)) {
        memcpy(stream->method, GRPC_SLICE_START_PTR(stream->details.method), length);
    }
    stream->status_pending = kilni_grpc_start(stream, &close, 1, KILNI_TAG_STATUS);
    return stream->status_pending && kilni_grpc_run(stream, &first, 1, KILNI_TAG_START);
}

/// Waits for a call; NULL when there was none.
static kilni_rpc_stream *next_call(kilni_rpc_listener *listener)
{
    kilni_rpc_stream *stream = kilni_grpc_stream_new(listener->env);
    grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};
    if (stream == NULL) {
        return NULL;
    }
    if (grpc_server_request_call(listener->server, &stream->call, &stream->details,
                                 &stream->metadata, stream->queue, listener->queue,
                                 stream) == GRPC_CALL_OK) {
        do {
            event = grpc_completion_queue_next(listener->queue, kilni_grpc_forever(), NULL);
            listener->shutdown_seen = listener->shutdown_seen || event.tag == listener;
        } while (event.type == GRPC_OP_COMPLETE && event.tag != stream);
    }
    if (event.type != GRPC_OP_COMPLETE || event.success == 0) {
        kilni_grpc_stream_free(stream);
        return NULL;
    }
    return stream;
}

kilni_rpc_stream *kilni_rpc_accept(kilni_rpc_listener *listener)
{
    while (!atomic_load(&listener->down)) {
        kilni_rpc_stream *stream = next_call(listener);
        if (stream == NULL) {
            if (!atomic_load(&listener->down)) {
                kiln_log_write(listener->env, KILN_LOG_WARN, "remote",
                               "a call could not be accepted");
                gpr_sleep_until(kilni_grpc_after(ACCEPT_PAUSE_MS));
            }
        } else if (!greet(stream)) {
            kilni_rpc_stream_close(stream, NULL);
        } else {
            return stream;
        }
    }
    return NULL;
}

const char *kilni_rpc_method(const kilni_rpc_stream *stream)
{
    return stream->method;
}

/// Compares with every line, so that the time does not tell which one is near.
static bool is_line_of(const char *tokens, const char *given, size_t length)
{
    bool found = false;
    for (const char *line = tokens; *line != '\0';) {
        size_t line_length = strcspn(line, "\r\n");
        if (line_length == length && length > 0) {
            found = kilni_rpc_same_secret(line, given, length) || found;
        }
        line += line_length;
        line += strspn(line, "\r\n");
    }
    return found;
}

bool kilni_rpc_is_token(const char *text, size_t length, const char *tokens)
{
    static const char scheme[] = "bearer "; // RFC 7235: its case does not count
    size_t head = sizeof(scheme) - 1;
    return length > head && strncasecmp(text, scheme, head) == 0 &&
           is_line_of(tokens, text + head, length - head);
}

bool kilni_rpc_is_authorized(const kilni_rpc_stream *stream, const char *tokens)
{
    bool found = false;
    for (size_t i = 0; i < stream->metadata.count; i++) {
        const grpc_metadata *each = &stream->metadata.metadata[i];
        if (grpc_slice_str_cmp(each->key, "authorization") == 0) {
            found = kilni_rpc_is_token((const char *)GRPC_SLICE_START_PTR(each->value),
                                       GRPC_SLICE_LENGTH(each->value), tokens) ||
                    found;
        }
    }
    return found;
}

// ---- who calls ----

/// Mixes bytes of a `kind` into a caller's digest, so that no two sequences are the same.
static void mix_caller(kilni_rpc_digest *caller, char kind, const void *bytes, size_t length)
{
    unsigned char text[2 * KILNI_RPC_DIGEST + 1];
    kilni_rpc_digest part;
    kiln_error ignored = KILN_ERROR_INIT;
    if (kilni_rpc_digest_of(bytes, length, &part, &ignored) != KILN_STATUS_OK) {
        (void)!kilni_rpc_random(&part, sizeof(part), &ignored); // a caller like no other
    }
    text[0] = (unsigned char)kind;
    memcpy(text + 1, caller->bytes, KILNI_RPC_DIGEST);
    memcpy(text + 1 + KILNI_RPC_DIGEST, part.bytes, KILNI_RPC_DIGEST);
    if (kilni_rpc_digest_of(text, sizeof(text), caller, &ignored) != KILN_STATUS_OK) {
        (void)!kilni_rpc_random(caller, sizeof(*caller), &ignored);
    }
}

static void mix_token(kilni_rpc_digest *caller, const grpc_slice *text, const char *tokens)
{
    const size_t head = sizeof("bearer ") - 1;
    const char *bytes = (const char *)GRPC_SLICE_START_PTR(*text);
    size_t length = GRPC_SLICE_LENGTH(*text);
    if (kilni_rpc_is_token(bytes, length, tokens)) {
        mix_caller(caller, 't', bytes + head, length - head);
    }
}

static void mix_certificate(kilni_rpc_digest *caller, const kilni_rpc_stream *stream)
{
    grpc_auth_context *context = grpc_call_auth_context(stream->call);
    if (context != NULL && grpc_auth_context_peer_is_authenticated(context) != 0) {
        grpc_auth_property_iterator names = grpc_auth_context_peer_identity(context);
        for (const grpc_auth_property *each;
             (each = grpc_auth_property_iterator_next(&names)) != NULL;) {
            mix_caller(caller, 'c', each->value, each->value_length);
        }
    }
    grpc_auth_context_release(context);
}

void kilni_rpc_caller(const kilni_rpc_stream *stream, const char *tokens,
                      kilni_rpc_digest *out_caller)
{
    *out_caller = (kilni_rpc_digest){{0}};
    for (size_t i = 0; tokens != NULL && i < stream->metadata.count; i++) {
        const grpc_metadata *each = &stream->metadata.metadata[i];
        if (grpc_slice_str_cmp(each->key, "authorization") == 0) {
            mix_token(out_caller, &each->value, tokens);
        }
    }
    mix_certificate(out_caller, stream);
}

// ---- end ----

void kilni_rpc_listener_stop(kilni_rpc_listener *listener)
{
    if (!atomic_exchange(&listener->down, true)) {
        grpc_server_shutdown_and_notify(listener->server, listener->queue, listener);
    }
}

void kilni_rpc_listener_shutdown(kilni_rpc_listener *listener)
{
    kilni_rpc_listener_stop(listener);
    grpc_server_cancel_all_calls(listener->server);
}

void kilni_rpc_listener_close(kilni_rpc_listener *listener)
{
    while (!listener->shutdown_seen) {
        grpc_event event = grpc_completion_queue_next(listener->queue, kilni_grpc_forever(), NULL);
        listener->shutdown_seen = event.tag == listener || event.type == GRPC_QUEUE_SHUTDOWN;
    }
    grpc_server_destroy(listener->server);
    kilni_grpc_destroy_queue(listener->queue, /*pluck=*/false);
    kilni_rpc_identity_fini(listener->env, &listener->identity);
    pthread_mutex_destroy(&listener->lock);
    kiln_free(listener->env, listener);
    grpc_shutdown();
}
