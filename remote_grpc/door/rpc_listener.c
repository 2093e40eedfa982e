// SPDX-License-Identifier: MIT OR Apache-2.0
// The door: who connects is given to gRPC, which runs only while somebody is there, and the calls
// that arrive come out of it. Decides nothing about who may call what.

#include "rpc_listener.h"

#include "rpc_engine.h"
#include "rpc_guests.h"
#include "rpc_resets.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    ACCEPT_PAUSE_MS = 20,
    FULL_PAUSE_MS = 50, ///< no descriptor is free, perhaps
    LOOK_MS = 1000,
    REST_MS = 12000, ///< longer than gRPC helps with a write, which its end waits for
    SOCKETS = 32,
    SOON_MS = 2 ///< a message that comes with its call
};

/// A socket that listens.
typedef struct door_socket {
    kilni_rpc_speech speech;
    bool own; ///< we have bound it
} door_socket;

struct kilni_rpc_listener {
    const kiln_env *env;
    bool last; ///< gRPC is left running
    uint32_t rest_ms; ///< nobody has been there for so long
    uint32_t look_ms; ///< between looks whether somebody still is
    // The door's thread.
    door_socket sockets[SOCKETS];
    struct pollfd waits[SOCKETS + 1]; ///< for each socket, and for the end
    size_t n_sockets;
    int end; ///< written to, it ends the thread
    pthread_t door;
    bool has_door;
    kilni_rpc_engine engine; ///< started and stopped by the door's thread
    kilni_rpc_guests guests;
    uint64_t looked_ns; ///< at the guests
    uint64_t seen_ns; ///< when somebody was last there
    atomic_bool down;
    pthread_mutex_t lock; ///< for those below
    bool awake; ///< gRPC runs, and calls may be asked for
    uint32_t inside; ///< threads that wait in gRPC for a call
    uint32_t unawaited; ///< calls that were asked for and nobody waits for
    pthread_cond_t changed; ///< any of these
    kilni_rpc_resets resets;
    kilni_rpc_stream *swept; ///< to be closed by the sweeper
    bool sweeps_end;
    pthread_cond_t to_sweep;
    pthread_t sweeper;
    bool has_sweeper;
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

// ---- gRPC runs while somebody is there ----

static kiln_status wake(kilni_rpc_listener *listener, kiln_error *err)
{
    kiln_status status = kilni_rpc_engine_start(&listener->engine, err);
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&listener->lock);
        listener->awake = true;
        pthread_cond_broadcast(&listener->changed);
        pthread_mutex_unlock(&listener->lock);
    }
    return status;
}

/// Threads that wait for calls are told that none comes, and wait outside.
static void rest(kilni_rpc_listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    listener->awake = false;
    pthread_mutex_unlock(&listener->lock);
    kilni_rpc_engine_quit(&listener->engine);
    pthread_mutex_lock(&listener->lock);
    while (listener->inside > 0) {
        pthread_cond_wait(&listener->changed, &listener->lock);
    }
    listener->unawaited = 0;
    pthread_mutex_unlock(&listener->lock);
    kilni_rpc_engine_stop(&listener->engine, /*last=*/false);
}

/// Whether gRPC has a connection, or somebody still has a call.
static bool is_needed(kilni_rpc_listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    uint32_t asked = listener->inside + listener->unawaited;
    bool calls = atomic_load(&listener->engine.streams) > asked;
    pthread_mutex_unlock(&listener->lock);
    return kilni_rpc_guests_look(&listener->guests) > 0 || calls;
}

static void look(kilni_rpc_listener *listener)
{
    uint64_t now = kiln_time_ns();
    if (listener->engine.server == NULL ||
        now - listener->looked_ns < UINT64_C(1000000) * listener->look_ms) {
        return;
    }
    listener->looked_ns = now;
    if (is_needed(listener)) {
        listener->seen_ns = now;
    } else if (now - listener->seen_ns > UINT64_C(1000000) * listener->rest_ms) {
        rest(listener);
    }
}

// ---- the door ----

static kiln_status let_in(kilni_rpc_listener *listener, size_t socket, int take_fd, kiln_error *err)
{
    kiln_status status = listener->engine.server == NULL ? wake(listener, err) : KILN_STATUS_OK;
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_guests_add(listener->env, &listener->guests, take_fd, err);
    }
    if (status == KILN_STATUS_OK) {
        listener->seen_ns = kiln_time_ns();
        kilni_rpc_engine_give(&listener->engine, listener->sockets[socket].speech,
                              listener->waits[socket].fd, take_fd);
    } else {
        (void)close(take_fd);
    }
    return status;
}

static void take_connection(kilni_rpc_listener *listener, size_t socket)
{
    kiln_error err = KILN_ERROR_INIT;
    int fd = kilni_rpc_socket_accept(listener->waits[socket].fd);
    if (fd >= 0 && let_in(listener, socket, fd, &err) != KILN_STATUS_OK) {
        kiln_log_write(listener->env, KILN_LOG_WARN, "remote", "a connection was sent away: %s",
                       err.message);
    } else if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        (void)poll(NULL, 0, FULL_PAUSE_MS);
    }
}

static void *keep_door(void *pointer)
{
    kilni_rpc_listener *listener = pointer;
    const struct pollfd *end = &listener->waits[listener->n_sockets];
    while (end->revents == 0) {
        int ready = poll(listener->waits, (nfds_t)listener->n_sockets + 1,
                         listener->engine.server != NULL ? (int)listener->look_ms : -1);
        for (size_t i = 0; i < listener->n_sockets && ready > 0; i++) {
            if (listener->waits[i].revents != 0) {
                take_connection(listener, i);
            }
        }
        look(listener);
    }
    return NULL;
}

// ---- listening ----

/// Takes the descriptor, when it is our own.
static kiln_status add_socket(kilni_rpc_listener *listener, int fd, door_socket as, kiln_error *err)
{
    if (listener->n_sockets == SOCKETS) {
        if (as.own) {
            kilni_rpc_socket_close(fd);
        }
        return kiln_fail(err, INVALID_ARGUMENT, "more than %d sockets", SOCKETS);
    }
    listener->sockets[listener->n_sockets] = as;
    listener->waits[listener->n_sockets++] = (struct pollfd){.fd = fd, .events = POLLIN};
    return KILN_STATUS_OK;
}

static kiln_status add_address(kilni_rpc_listener *listener, const char *address, bool tls,
                               int *out_port, kiln_error *err)
{
    int fds[KILNI_RPC_SOCKETS_EACH];
    size_t count = 0;
    bool is_unix = strncmp(address, "unix:", 5) == 0;
    const door_socket as = {
        .speech = tls && !is_unix ? KILNI_RPC_SPEECH_TLS : KILNI_RPC_SPEECH_PLAIN, .own = true};
    kiln_status status = kilni_rpc_socket_listen(address, fds, &count, out_port, err);
    for (size_t i = 0; i < count; i++) {
        kiln_error ignored = KILN_ERROR_INIT;
        kiln_status added =
            add_socket(listener, fds[i], as, status == KILN_STATUS_OK ? err : &ignored);
        status = status == KILN_STATUS_OK ? added : status;
    }
    return status;
}

static kiln_status add_sockets(kilni_rpc_listener *listener,
                               const kilni_rpc_listen_options *options, kiln_error *err)
{
    bool tls = options->identity != NULL && options->identity->certificate != NULL;
    kiln_status status = tls ? kilni_rpc_listener_renew(listener, options->identity, err)
                             : kilni_rpc_engine_try(listener->env, NULL, err);
    for (size_t i = 0; i < options->n_addresses && status == KILN_STATUS_OK; i++) {
        status = add_address(listener, options->addresses[i], tls, &options->out_ports[i], err);
    }
    for (size_t i = 0; i < options->n_fds && status == KILN_STATUS_OK; i++) {
        int fd = options->fds[i];
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); // a client may go early
        status = add_socket(listener, fd, (door_socket){.speech = KILNI_RPC_SPEECH_PLAIN}, err);
    }
    return status;
}

static kiln_status start_threads(kilni_rpc_listener *listener, kiln_error *err)
{
    listener->end = eventfd(0, EFD_CLOEXEC);
    if (listener->end < 0) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no descriptor for a server");
    }
    listener->waits[listener->n_sockets] = (struct pollfd){.fd = listener->end, .events = POLLIN};
    listener->has_sweeper = pthread_create(&listener->sweeper, NULL, sweep_calls, listener) == 0;
    listener->has_door =
        listener->has_sweeper && pthread_create(&listener->door, NULL, keep_door, listener) == 0;
    return listener->has_door ? KILN_STATUS_OK
                              : kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a server");
}

kiln_status kilni_rpc_listen(const kiln_env *env, const kilni_rpc_listen_options *options,
                             kilni_rpc_listener **out_listener, kiln_error *err)
{
    kilni_rpc_listener *listener = kiln_alloc(env, sizeof(*listener));
    if (listener == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a server");
    }
    listener->env = env;
    listener->last = options->last;
    listener->rest_ms = options->rest_ms > 0 ? options->rest_ms : REST_MS;
    listener->look_ms = listener->rest_ms < LOOK_MS ? listener->rest_ms : LOOK_MS;
    listener->end = -1;
    kilni_rpc_engine_init(&listener->engine, env, options->max_message);
    pthread_mutex_init(&listener->lock, NULL);
    pthread_cond_init(&listener->changed, NULL);
    pthread_cond_init(&listener->to_sweep, NULL);
    kiln_status status = add_sockets(listener, options, err);
    if (status == KILN_STATUS_OK) {
        status = start_threads(listener, err);
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_listener_shutdown(listener);
        kilni_rpc_listener_close(listener);
        return status;
    }
    *out_listener = listener;
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_listener_renew(kilni_rpc_listener *listener,
                                     const kilni_rpc_identity *identity, kiln_error *err)
{
    return kilni_rpc_engine_renew(&listener->engine, identity, err);
}

// ---- calls ----

/// Waits until gRPC runs, and goes in, with a call that was asked for; `*out_asks` says whether it
/// is still to be. False: the time is over, or the listener is going.
static bool enter(kilni_rpc_listener *listener, gpr_timespec deadline, bool *out_asks,
                  bool *out_late)
{
    pthread_mutex_lock(&listener->lock);
    while (!listener->awake && !*out_late && !atomic_load(&listener->down)) {
        *out_late = !kilni_grpc_wait_condition(&listener->changed, &listener->lock, deadline);
    }
    bool in = listener->awake && !atomic_load(&listener->down);
    *out_asks = listener->unawaited == 0;
    listener->inside += in;
    listener->unawaited -= in && !*out_asks;
    pthread_mutex_unlock(&listener->lock);
    return in;
}

/// Gives whether gRPC still runs.
static bool leave(kilni_rpc_listener *listener, bool unawaited)
{
    pthread_mutex_lock(&listener->lock);
    bool awake = listener->awake;
    listener->inside--;
    listener->unawaited += unawaited;
    if (!awake) {
        pthread_cond_broadcast(&listener->changed);
    }
    pthread_mutex_unlock(&listener->lock);
    return awake;
}

/// Waits for a call. NULL: none came, `*out_late` in time; `*out_bad`: though it should.
static kilni_rpc_stream *next_call(kilni_rpc_listener *listener, gpr_timespec deadline,
                                   bool *out_late, bool *out_bad)
{
    bool asks = false;
    bool late = false;
    *out_bad = false;
    if (!enter(listener, deadline, &asks, out_late)) {
        return NULL;
    }
    kilni_rpc_stream *stream = !asks || kilni_rpc_engine_ask(&listener->engine)
                                   ? kilni_rpc_engine_next(&listener->engine, deadline, &late)
                                   : NULL;
    bool awake = leave(listener, late);
    *out_late = late;
    *out_bad = stream == NULL && !late && awake && !atomic_load(&listener->down);
    return stream;
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
    bool bad = false;
    while (!late && !atomic_load(&listener->down)) {
        kilni_rpc_stream *stream = next_call(listener, deadline, &late, &bad);
        size_t length = stream != NULL ? GRPC_SLICE_LENGTH(stream->details.method) : 0;
        if (stream != NULL && length < sizeof(stream->method)) {
            memcpy(stream->method, GRPC_SLICE_START_PTR(stream->details.method), length);
        }
        if (stream != NULL && note_call(listener, stream, KILNI_RPC_STAGE_CAME)) {
            return stream;
        }
        if (stream != NULL) {
            sweep(listener, stream);
        } else if (bad) {
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

// ---- end ----

/// Afterwards gRPC is neither started nor stopped by itself.
static void close_door(kilni_rpc_listener *listener)
{
    if (listener->has_door) {
        (void)eventfd_write(listener->end, 1);
        (void)pthread_join(listener->door, NULL);
        listener->has_door = false;
    }
    for (size_t i = 0; i < listener->n_sockets; i++) {
        if (listener->sockets[i].own) {
            kilni_rpc_socket_close(listener->waits[i].fd);
        }
    }
    listener->n_sockets = 0;
}

void kilni_rpc_listener_stop(kilni_rpc_listener *listener)
{
    if (!atomic_exchange(&listener->down, true)) {
        close_door(listener);
        pthread_mutex_lock(&listener->lock);
        pthread_cond_broadcast(&listener->changed);
        pthread_mutex_unlock(&listener->lock);
        if (listener->engine.server != NULL) {
            kilni_rpc_engine_quit(&listener->engine);
        }
    }
}

void kilni_rpc_listener_shutdown(kilni_rpc_listener *listener)
{
    kilni_rpc_listener_stop(listener);
    if (listener->engine.server != NULL) {
        grpc_server_cancel_all_calls(listener->engine.server);
    }
}

static void end_sweeper(kilni_rpc_listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    listener->sweeps_end = true;
    pthread_cond_signal(&listener->to_sweep);
    pthread_mutex_unlock(&listener->lock);
    if (listener->has_sweeper) {
        (void)pthread_join(listener->sweeper, NULL);
    }
}

void kilni_rpc_listener_close(kilni_rpc_listener *listener)
{
    end_sweeper(listener);
    if (listener->engine.server != NULL) {
        kilni_rpc_engine_stop(&listener->engine, listener->last);
    }
    if (listener->end >= 0) {
        (void)close(listener->end);
    }
    kilni_rpc_guests_fini(listener->env, &listener->guests);
    kilni_rpc_engine_fini(&listener->engine);
    pthread_cond_destroy(&listener->to_sweep);
    pthread_cond_destroy(&listener->changed);
    pthread_mutex_destroy(&listener->lock);
    kiln_free(listener->env, listener);
}
