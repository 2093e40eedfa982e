// SPDX-License-Identifier: MIT OR Apache-2.0
// HTTP on libmicrohttpd, a thread for each connection. Decides who may call at all and how much a
// call may bring, before its body is read; everything else is answered by serving_routes.c.

#include "serving_routes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 256, IDLE_SECONDS = 60, BODIES = 4, MOST_FILE = 1 << 20 };

struct kiln_serving_http {
    const kiln_env *env;
    kiln_serving *serving;
    struct MHD_Daemon *daemon;
    const kiln_serving_door *door;
    uint64_t max_bytes; ///< of a body
    atomic_uint_fast64_t held_bytes; ///< of all bodies
    atomic_uint calls; ///< whose answers have not been sent
    char *certificate;
    char *key;
    char *authorities;
    char address[160];
};

/// A call while its body arrives and it is answered.
typedef struct http_call {
    kiln_serving_http *of;
    kiln_serving_caller caller; ///< no handle: a probe of health
    uint64_t begun_ns;
    char *body;
    size_t length;
    size_t room;
    bool too_long;
    bool no_memory;
} http_call;

// ---- answers ----

static enum MHD_Result queue_reply(struct MHD_Connection *connection, const kilni_http_reply *reply)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->body.length, reply->body.length > 0 ? reply->body.text : (void *)(uintptr_t) "",
        MHD_RESPMEM_MUST_COPY);
    char length[24];
    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type);
    if (reply->json_length > 0) {
        snprintf(length, sizeof(length), "%zu", reply->json_length);
        (void)MHD_add_response_header(response, "Inference-Header-Content-Length", length);
    }
    if (reply->code == 401) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    enum MHD_Result result = MHD_queue_response(connection, reply->code, response);
    MHD_destroy_response(response);
    return result;
}

static void put_peer(struct MHD_Connection *connection, char *out_text, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    char host[64] = "";
    char port[8] = "";
    if (info != NULL) {
        socklen_t length = info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                    : sizeof(struct sockaddr_in);
        (void)getnameinfo(info->client_addr, length, host, sizeof(host), port, sizeof(port),
                          NI_NUMERICHOST | NI_NUMERICSERV);
    }
    snprintf(out_text, size, "http:%s:%s", host, port);
}

/// `caller` NULL: not known, the call is refused.
static void tell_call(const kiln_serving_http *http, struct MHD_Connection *connection,
                      const char *caller, const char *path, const kilni_http_reply *reply,
                      uint64_t begun_ns)
{
    char peer[96];
    const char *trace = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "traceparent");
    put_peer(connection, peer, sizeof(peer));
    const kiln_rpc_event event = {.struct_size = (uint32_t)sizeof(event),
                                  .code = (uint32_t)reply->status,
                                  .kind = caller != NULL ? "call" : "refused",
                                  .identity = caller != NULL ? caller : "",
                                  .peer = peer,
                                  .method = path,
                                  .model = reply->model,
                                  .client = "",
                                  .trace = trace != NULL ? trace : "",
                                  .message = reply->message,
                                  .duration_ns = kiln_time_ns() - begun_ns};
    kiln_trace_note(http->serving->devices[0], reply->model[0] != '\0' ? reply->model : path,
                    event.trace, begun_ns);
    http->door->tell(http->door->user, &event);
}

static enum MHD_Result refuse(const kiln_serving_http *http, struct MHD_Connection *connection,
                              const char *path, kiln_status status, unsigned code, const char *text)
{
    kilni_http_reply reply = {.type = "application/json"};
    kiln_string_init(&reply.body, http->env);
    kilni_http_refuse(&reply, status, text);
    reply.code = code != 0 ? code : reply.code;
    tell_call(http, connection, NULL, path, &reply, kiln_time_ns());
    enum MHD_Result result = queue_reply(connection, &reply);
    kiln_string_fini(&reply.body);
    return result;
}

static enum MHD_Result answer_call(http_call *call, struct MHD_Connection *connection,
                                   const char *method, const char *path)
{
    kilni_http_reply reply;
    const kilni_http_request request = {
        .method = method,
        .path = path,
        .body = call->body != NULL ? call->body : "",
        .length = call->length,
        .caller = call->caller.name,
        .models = call->caller.models,
        .door = call->of->door,
        .json_length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                   "Inference-Header-Content-Length")};
    if (call->too_long) {
        return refuse(call->of, connection, path, KILN_STATUS_OUT_OF_RANGE, 413,
                      "the body is larger than the server takes");
    }
    if (call->no_memory) {
        return refuse(call->of, connection, path, KILN_STATUS_RESOURCE_EXHAUSTED, 0,
                      "the server has no memory for the body");
    }
    kilni_http_answer(call->of->serving, &request, &reply);
    if (call->caller.handle != NULL) {
        tell_call(call->of, connection, call->caller.name, path, &reply, call->begun_ns);
    }
    enum MHD_Result result = queue_reply(connection, &reply);
    kiln_string_fini(&reply.body);
    return result;
}

// ---- bodies ----

static void drop_body(http_call *call)
{
    kiln_free(call->of->env, call->body);
    atomic_fetch_sub(&call->of->held_bytes, call->room);
    call->body = NULL;
    call->length = call->room = 0;
}

/// Room for `bytes`, counted with the bodies of all other calls.
static bool reserve_body(http_call *call, size_t bytes)
{
    kiln_serving_http *http = call->of;
    if (bytes <= call->room) {
        return true;
    }
    size_t more = bytes - call->room;
    if (atomic_fetch_add(&http->held_bytes, more) + more > BODIES * http->max_bytes) {
        atomic_fetch_sub(&http->held_bytes, more);
        return false;
    }
    char *grown = kiln_realloc(http->env, call->body, call->room, bytes);
    if (grown == NULL) {
        atomic_fetch_sub(&http->held_bytes, more);
        return false;
    }
    call->body = grown;
    call->room = bytes;
    return true;
}

static void take_body(http_call *call, const char *data, size_t bytes)
{
    size_t needs = call->length + bytes;
    if (call->too_long || call->no_memory) {
        return;
    }
    if (needs > call->of->max_bytes) {
        call->too_long = true;
        drop_body(call);
        return;
    }
    size_t twice = call->room * 2 < call->of->max_bytes ? call->room * 2 : call->of->max_bytes;
    if (needs > call->room && !reserve_body(call, needs > twice ? needs : twice)) {
        call->no_memory = true;
        drop_body(call);
        return;
    }
    memcpy(call->body + call->length, data, bytes);
    call->length += bytes;
}

// ---- calls ----

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/// Probes of health need no token, as over gRPC.
static bool is_probe(const char *path)
{
    return strncmp(path, "/v2/health/", 11) == 0;
}

/// 0, or the code that the call is refused with.
static unsigned check_call(const kiln_serving_http *http, struct MHD_Connection *connection,
                           const char **out_text)
{
    const char *length = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *encoding = header_of(connection, MHD_HTTP_HEADER_CONTENT_ENCODING);
    if (length != NULL && strtoull(length, NULL, 10) > http->max_bytes) {
        *out_text = "the body is larger than the server takes";
        return 413;
    }
    if (encoding != NULL && strcmp(encoding, "identity") != 0) {
        *out_text = "compressed bodies are not taken";
        return 415;
    }
    return 0;
}

static enum MHD_Result begin_call(kiln_serving_http *http, struct MHD_Connection *connection,
                                  const char *path, void **out_call)
{
    const char *text = "";
    kiln_error err = KILN_ERROR_INIT;
    kiln_serving_caller caller = {.handle = NULL};
    if (!is_probe(path) &&
        http->door->admit(http->door->user, header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION),
                          &caller, &err) != KILN_STATUS_OK) {
        return refuse(http, connection, path, (kiln_status)err.code, 0, err.message);
    }
    unsigned code = check_call(http, connection, &text);
    const char *length = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    http_call *call = code == 0 ? kiln_alloc(http->env, sizeof(*call)) : NULL;
    if (call == NULL) {
        http->door->end(http->door->user, &caller);
        return code != 0 ? refuse(http, connection, path, KILN_STATUS_OUT_OF_RANGE, code, text)
                         : MHD_NO;
    }
    call->of = http;
    call->caller = caller;
    call->begun_ns = kiln_time_ns();
    atomic_fetch_add(&http->calls, 1);
    call->no_memory = length != NULL && !reserve_body(call, (size_t)strtoull(length, NULL, 10));
    *out_call = call;
    return MHD_YES;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *bytes, void **call)
{
    (void)version;
    if (*call == NULL) {
        return begin_call(user, connection, path, call);
    }
    if (*bytes > 0) {
        take_body(*call, data, *bytes);
        *bytes = 0;
        return MHD_YES;
    }
    return answer_call(*call, connection, method, path);
}

static void end_call(void *user, struct MHD_Connection *connection, void **call,
                     enum MHD_RequestTerminationCode how)
{
    (void)user;
    (void)connection;
    (void)how;
    if (*call != NULL) {
        http_call *ended = *call;
        kiln_serving_http *http = ended->of;
        drop_body(ended);
        http->door->end(http->door->user, &ended->caller);
        kiln_free(http->env, ended);
        *call = NULL;
        atomic_fetch_sub(&http->calls, 1);
    }
}

// ---- listening ----

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *in6 = (const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

static kiln_status split_address(const char *address, char host[128], const char **out_port,
                                 kiln_error *err)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon != NULL ? (size_t)(colon - address) : 0;
    bool brackets = length > 2 && address[0] == '[' && address[length - 1] == ']';
    if (length == 0 || length >= 128 || colon[1] == '\0' ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
        return kiln_fail(err, INVALID_ARGUMENT, "\"%.100s\" is no HOST:PORT", address);
    }
    length -= brackets ? 2 : 0;
    memcpy(host, address + (brackets ? 1 : 0), length);
    host[length] = '\0';
    *out_port = colon + 1;
    return KILN_STATUS_OK;
}

static kiln_status start_daemon(kiln_serving_http *http, const struct sockaddr *address,
                                kiln_error *err)
{
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, http->certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, http->key},
        {http->authorities != NULL ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
         http->authorities},
        {MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                     MHD_USE_POLL | MHD_USE_ITC |
                     (address->sa_family == AF_INET6 ? MHD_USE_IPv6 : 0) |
                     (http->certificate != NULL ? MHD_USE_TLS : 0);
    http->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, http, MHD_OPTION_SOCK_ADDR,
                                    address, MHD_OPTION_NOTIFY_COMPLETED, end_call, NULL,
                                    MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
                                    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
                                    MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_ARRAY,
                                    http->certificate != NULL ? tls : &tls[3], MHD_OPTION_END);
    return http->daemon != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, UNAVAILABLE, "cannot listen for HTTP: %s",
                           errno != 0 ? strerror(errno) : "the certificate cannot be used");
}

static void name_address(kiln_serving_http *http, const char *given)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    snprintf(http->address, sizeof(http->address), "%s://%.*s:%u",
             http->certificate != NULL ? "https" : "http", (int)(strrchr(given, ':') - given),
             given, info != NULL ? info->port : 0);
}

static kiln_status listen_at(kiln_serving_http *http, const kiln_serving_http_options *options,
                             kiln_error *err)
{
    char host[128];
    const char *port = NULL;
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    kiln_status status = split_address(options->address, host, &port, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        return kiln_fail(err, UNAVAILABLE, "this machine has no address \"%.100s\"", host);
    }
    if (!is_loopback(found->ai_addr) && !options->allow_public) {
        status =
            kiln_fail(err, PERMISSION_DENIED,
                      "%.100s is beyond loopback: give a TLS certificate and key, and a client "
                      "CA or a token file",
                      options->address);
    }
    errno = 0;
    status = status == KILN_STATUS_OK ? start_daemon(http, found->ai_addr, err) : status;
    freeaddrinfo(found);
    if (status == KILN_STATUS_OK) {
        name_address(http, options->address);
    }
    return status;
}

static kiln_status read_pem(const kiln_env *env, const char *path, char **out_text, kiln_error *err)
{
    if (path == NULL) {
        return KILN_STATUS_OK;
    }
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? kiln_alloc(env, MOST_FILE + 1) : NULL;
    size_t length = text != NULL ? fread(text, 1, MOST_FILE, file) : 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    *out_text = text;
    return length > 0 ? KILN_STATUS_OK : kiln_fail(err, NOT_FOUND, "%.160s cannot be read", path);
}

kiln_status kiln_serving_http_create(kiln_serving *serving,
                                     const kiln_serving_http_options *options,
                                     kiln_serving_http **out_http, kiln_error *err)
{
    enum { USUAL_BODY = 64 << 20 };
    kiln_serving_http *made = kiln_alloc(serving->env, sizeof(*made));
    kiln_status status = KILN_STATUS_OK;
    *out_http = NULL;
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for HTTP");
    }
    made->env = serving->env;
    made->serving = serving;
    made->door = options->door;
    made->max_bytes = options->max_request_bytes > 0 ? options->max_request_bytes : USUAL_BODY;
    atomic_init(&made->held_bytes, 0);
    atomic_init(&made->calls, 0);
    KILN_TRY(out, status, read_pem(made->env, options->tls_cert, &made->certificate, err));
    KILN_TRY(out, status, read_pem(made->env, options->tls_key, &made->key, err));
    KILN_TRY(out, status, read_pem(made->env, options->client_ca, &made->authorities, err));
    KILN_TRY(out, status, listen_at(made, options, err));
    *out_http = made;
    made = NULL;
out:
    kiln_serving_http_destroy(made);
    return status;
}

const char *kiln_serving_http_address(const kiln_serving_http *http)
{
    return http->address;
}

/// Nobody is let in any more; a connection that stays silent is not waited for to its end.
static void wait_calls(kiln_serving_http *http)
{
    enum { STEPS = 200 };
    const struct timespec pause = {.tv_nsec = 10000000};
    MHD_socket listening = MHD_quiesce_daemon(http->daemon);
    for (int i = 0; i < STEPS && atomic_load(&http->calls) > 0; i++) {
        (void)nanosleep(&pause, NULL);
    }
    if (listening != MHD_INVALID_SOCKET) {
        (void)close(listening);
    }
}

void kiln_serving_http_destroy(kiln_serving_http *http)
{
    if (http == NULL) {
        return;
    }
    if (http->daemon != NULL) {
        wait_calls(http);
        MHD_stop_daemon(http->daemon);
    }
    kiln_free(http->env, http->certificate);
    kiln_free(http->env, http->key);
    kiln_free(http->env, http->authorities);
    kiln_free(http->env, http);
}
