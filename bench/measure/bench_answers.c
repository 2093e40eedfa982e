// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests to a model one after another on one open stream, on gRPC's C core and nothing above it:
// what of a round trip is not the server's stays the same as in the ping-pong beside this file.

#include "rpc_link.h"
#include "rpc_wire.h"

#include <string.h>

kiln_status kiln_bench_answers(const kiln_env *env, const char *address, uint32_t rounds,
                               double *out_us, kiln_error *err);

enum { READY_MS = 60000, WARM_UP = 100 };

static const unsigned char image_shape[] = {1, 1, 8, 8};

/// An image of zeros for the model `digits`.
static void write_request(kiln_string *out, const kiln_env *env)
{
    static const float image[8 * 8];
    kiln_string tensor;
    kiln_string_init(&tensor, env);
    kilni_wire_put_text(&tensor, 1, "image");
    kilni_wire_put_text(&tensor, 2, "FP32");
    kilni_wire_put(&tensor, 3, image_shape, sizeof(image_shape));
    kilni_wire_put_text(out, 1, "digits");
    kilni_wire_put_message(out, 5, &tensor);
    kilni_wire_put(out, 7, image, sizeof(image));
}

static kiln_status ask(kilni_rpc_stream *stream, const kiln_string *request, kiln_error *err)
{
    char head[256];
    bool end = false;
    kilni_rpc_message message = {0};
    kiln_status status = kilni_rpc_send_bytes(stream, request->text, request->length, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_receive(stream, -1, &message, &end, err);
    }
    if (status == KILN_STATUS_OK) {
        size_t length = message.length < sizeof(head) ? message.length : sizeof(head);
        kilni_rpc_message_copy(&message, 0, length, head);
        if (end || length == 0 || head[0] != (2 << 3 | 2)) { // infer_response
            status = kiln_fail(err, UNAVAILABLE, "no answer: %.*s", (int)length, head);
        }
    }
    kilni_rpc_message_free(&message);
    return status;
}

/// A server listens before its models are loaded.
static kiln_status warm_up(kilni_rpc_stream *stream, const kiln_string *request, kiln_error *err)
{
    uint64_t deadline = kiln_time_ns() + UINT64_C(1000000) * READY_MS;
    kiln_status status = ask(stream, request, err);
    while (status != KILN_STATUS_OK && !kilni_rpc_is_broken(stream) && kiln_time_ns() < deadline) {
        status = ask(stream, request, err);
    }
    for (int i = 0; i < WARM_UP && status == KILN_STATUS_OK; i++) {
        status = ask(stream, request, err);
    }
    return status;
}

__attribute__((visibility("default"))) kiln_status
kiln_bench_answers(const kiln_env *env, const char *name, uint32_t rounds, double *out_us,
                   kiln_error *err)
{
    kilni_rpc_address address;
    kilni_rpc_stream *stream = NULL;
    kiln_string request;
    kiln_status status = KILN_STATUS_OK;
    double *samples = kiln_alloc_array(env, rounds, sizeof(*samples));
    kiln_string_init(&request, env);
    if (samples == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for samples");
    }
    write_request(&request, env);
    KILN_TRY(out, status, kilni_rpc_address_parse(name, &address, err));
    KILN_TRY(out, status,
             kilni_rpc_connect(env, &address, NULL,
                               "/inference.GRPCInferenceService/ModelStreamInfer", 5000, &stream,
                               err));
    KILN_TRY(out, status, warm_up(stream, &request, err));
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t start = kiln_time_ns();
        KILN_TRY(out, status, ask(stream, &request, err));
        samples[i] = (double)(kiln_time_ns() - start) / 1000;
    }
    *out_us = kiln_quantile(samples, rounds, 0.5);
out:
    kiln_free(env, samples);
    if (stream != NULL) {
        kilni_rpc_stream_close(stream, NULL);
    }
    kiln_string_fini(&request);
    return status;
}
