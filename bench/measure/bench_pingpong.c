// SPDX-License-Identifier: MIT OR Apache-2.0
// The peer of a remote operation: messages of 16 bytes to and fro on one open stream over a Unix
// socket, on gRPC's C core and nothing above it. In a library of its own.

#include "rpc_link.h"
#include "rpc_listener.h"
#include "rpc_protocol.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

kiln_status kiln_bench_pingpong(const kiln_env *env, uint32_t rounds, double *out_us,
                                kiln_error *err);

/// The answering side: one thread accepts, which is also how a call's end is heard of; one answers.
typedef struct echo_side {
    kilni_rpc_listener *listener;
    kilni_rpc_stream *stream;
} echo_side;

static void *echo(void *pointer)
{
    echo_side *self = pointer;
    bool begun = kilni_rpc_begin_call(self->listener, self->stream, /*single=*/false);
    kiln_status status = begun ? KILN_STATUS_OK : KILN_STATUS_UNAVAILABLE;
    bool end = false;
    while (status == KILN_STATUS_OK && !end) {
        kilni_rpc_message message = {0};
        char bytes[16];
        status = kilni_rpc_receive(self->stream, -1, &message, &end, NULL);
        if (status == KILN_STATUS_OK && !end && message.length <= sizeof(bytes)) {
            kilni_rpc_message_copy(&message, 0, message.length, bytes);
            status = kilni_rpc_send_bytes(self->stream, bytes, message.length, NULL);
        }
        kilni_rpc_message_free(&message);
    }
    kilni_rpc_stream_close(self->stream, NULL);
    return NULL;
}

static void *accept_one(void *pointer)
{
    echo_side *self = pointer;
    pthread_t thread;
    self->stream = kilni_rpc_accept(self->listener, -1);
    bool started = self->stream != NULL && pthread_create(&thread, NULL, echo, self) == 0;
    if (self->stream != NULL && !started) {
        kilni_rpc_drop_call(self->listener, self->stream);
    }
    (void)!kilni_rpc_accept(self->listener,
                            -1); // nobody else calls: until the listener is shut down
    if (started) {
        pthread_join(thread, NULL);
    }
    return NULL;
}

static kiln_status play(const kiln_env *env, const char *name, uint32_t rounds, double *samples,
                        kiln_error *err)
{
    static const char bytes[16] = "ping";
    kilni_rpc_address address;
    kilni_rpc_stream *stream = NULL;
    kiln_status status = kilni_rpc_address_parse(name, &address, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_connect(env, &address, NULL, "/ping/pong", 5000, &stream, err);
    }
    for (uint32_t i = 0; i < rounds && status == KILN_STATUS_OK; i++) {
        kilni_rpc_message message = {0};
        uint64_t start = kiln_time_ns();
        bool end = false;
        status = kilni_rpc_send_bytes(stream, bytes, sizeof(bytes), err);
        if (status == KILN_STATUS_OK) {
            status = kilni_rpc_receive(stream, -1, &message, &end, err);
        }
        kilni_rpc_message_free(&message);
        samples[i] = (double)(kiln_time_ns() - start) / 1000;
    }
    kilni_rpc_stream_close(stream, NULL);
    return status;
}

__attribute__((visibility("default"))) kiln_status
kiln_bench_pingpong(const kiln_env *env, uint32_t rounds, double *out_us, kiln_error *err)
{
    char name[64];
    pthread_t thread;
    int port = 0;
    echo_side side = {NULL, NULL};
    double *samples = kiln_alloc_array(env, rounds, sizeof(*samples));
    snprintf(name, sizeof(name), "unix:/tmp/kiln-pingpong-%d", (int)getpid());
    const char *const listen[] = {name};
    const kilni_rpc_listen_options options = {
        .addresses = listen, .n_addresses = 1, .out_ports = &port};
    kiln_status status = samples != NULL
                             ? kilni_rpc_listen(env, &options, &side.listener, err)
                             : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for samples");
    if (status != KILN_STATUS_OK) {
        kiln_free(env, samples);
        return status;
    }
    if (pthread_create(&thread, NULL, accept_one, &side) != 0) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no thread for a ping-pong");
    } else {
        status = play(env, name, rounds, samples, err);
        *out_us = status == KILN_STATUS_OK ? kiln_quantile(samples, rounds, 0.5) : 0;
        kilni_rpc_listener_shutdown(side.listener);
        pthread_join(thread, NULL);
    }
    kilni_rpc_listener_shutdown(side.listener);
    kilni_rpc_listener_close(side.listener);
    kiln_free(env, samples);
    (void)unlink(name + 5);
    return status;
}
