// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames and limits: round trips, and every kind of damage.

#include "harness.h"
#include "rpc_frame.h"
#include "rpc_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_env test_env(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    return env;
}

static void make_run(kilni_rpc_frame *frame)
{
    memset(frame, 0, sizeof(*frame));
    frame->body.request = 7;
    frame->body.which_body = kiln_v1_Frame_run_tag;
    kiln_v1_Run *run = &frame->body.body.run;
    for (pb_size_t i = 0; i < 5; i++) {
        run->inputs[run->inputs_count++] = (kiln_v1_Binding){.value = i, .buffer = 100u + i};
        run->frees[run->frees_count++] = i;
    }
    frame->graph = "not a graph";
    frame->graph_length = 11;
    frame->data = "some bytes";
    frame->data_length = 10;
}

static void test_round_trip(void)
{
    kiln_env env = test_env();
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_parcel *message = NULL;
    kilni_rpc_frame *frame = malloc(sizeof(*frame));
    kilni_rpc_frame *back = malloc(sizeof(*back));
    make_run(frame);
    KILN_CHECK_INT(kilni_rpc_frame_encode(&env, frame, &message, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_rpc_frame_decode(message->head, message->head_length, back, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(back->body.request, 7);
    KILN_CHECK_INT(back->body.body.run.inputs_count, 5);
    KILN_CHECK_INT(back->body.body.run.inputs[4].buffer, 104);
    KILN_CHECK_INT(back->graph_length, 11);
    KILN_CHECK_MEM(back->graph, "not a graph", 11);
    KILN_CHECK_MEM(back->data, "some bytes", 10);
    kilni_rpc_parcel_free(&env, message);
    free(frame);
    free(back);
}

static void test_damage(void)
{
    kiln_env env = test_env();
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_parcel *message = NULL;
    kilni_rpc_frame *frame = malloc(sizeof(*frame));
    make_run(frame);
    KILN_CHECK_INT(kilni_rpc_frame_encode(&env, frame, &message, &err), KILN_STATUS_OK);
    // Every truncation and every flipped bit is an error or a frame; its spans stay inside the
    // message.
    for (size_t cut = 0; cut <= message->head_length; cut++) {
        char *copy = malloc(cut + 1);
        memcpy(copy, message->head, cut);
        kiln_status status = kilni_rpc_frame_decode(copy, cut, frame, &err);
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_INVALID_ARGUMENT);
        free(copy);
    }
    for (size_t bit = 0; bit < message->head_length * 8; bit++) {
        char *copy = malloc(message->head_length);
        memcpy(copy, message->head, message->head_length);
        copy[bit / 8] = (char)(copy[bit / 8] ^ (1 << bit % 8));
        if (kilni_rpc_frame_decode(copy, message->head_length, frame, &err) == KILN_STATUS_OK &&
            frame->data_length > 0) {
            const char *data = frame->data;
            KILN_CHECK(data >= copy && data + frame->data_length <= copy + message->head_length);
        }
        free(copy);
    }
    kilni_rpc_parcel_free(&env, message);
    free(frame);
}

static void test_too_many(void)
{
    // Field 6 (run) with 200 inputs: more than the schema allows.
    unsigned char message[2048];
    size_t at = 0;
    unsigned char body[1024];
    size_t length = 0;
    for (int i = 0; i < 200; i++) {
        const unsigned char binding[] = {0x0a, 0x02, 0x08, 0x01};
        memcpy(body + length, binding, sizeof(binding));
        length += sizeof(binding);
    }
    message[at++] = 6 << 3 | 2;
    message[at++] = (unsigned char)(length & 127) | 128;
    message[at++] = (unsigned char)(length >> 7);
    memcpy(message + at, body, length);
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_frame *frame = malloc(sizeof(*frame));
    KILN_CHECK_INT(kilni_rpc_frame_decode(message, at + length, frame, &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED); // that is no damage
    KILN_CHECK_CONTAINS(err.message, "128 rows");
    free(frame);
}

/// Data and graph given as numbers: nothing of the message could be pointed to.
static void test_number_for_bytes(void)
{
    static const unsigned char data[] = {0x78, 0x81, 0x82, 0x83, 0x04};
    static const unsigned char fixed[] = {0x7d, 0x01, 0x02, 0x03, 0x04};
    static const unsigned char graph[] = {0x70, 0x81, 0x82, 0x83, 0x04};
    static const unsigned char *const messages[] = {data, fixed, graph};
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_frame *frame = malloc(sizeof(*frame));
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        KILN_CHECK_INT(kilni_rpc_frame_decode(messages[i], sizeof(data), frame, &err),
                       KILN_STATUS_INVALID_ARGUMENT);
    }
    free(frame);
}

static void test_limits(void)
{
    kiln_error err = KILN_ERROR_INIT;
    const kilni_rpc_limits limits = {.max_bytes = 100, .max_buffers = 2, .max_data_bytes = 10};
    KILN_CHECK_INT(kilni_rpc_check_range(0, 10, 10, "a write", &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_rpc_check_range(1, 10, 10, "a write", &err), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(kilni_rpc_check_range(UINT64_MAX, 2, 10, "a write", &err),
                   KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(kilni_rpc_check_bytes(&limits, 60, 40, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_rpc_check_bytes(&limits, 60, 41, &err), KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_INT(kilni_rpc_check_bytes(&limits, 60, UINT64_MAX, &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_INT(kilni_rpc_check_buffers(&limits, 1, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_rpc_check_buffers(&limits, 2, &err), KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK(kilni_rpc_is_loopback("127.0.0.1:80") && kilni_rpc_is_loopback("unix:/tmp/x") &&
               kilni_rpc_is_loopback("[::1]:80") && kilni_rpc_is_loopback("localhost:80"));
    KILN_CHECK(!kilni_rpc_is_loopback("0.0.0.0:80") &&
               !kilni_rpc_is_loopback("localhost.example:1"));
    KILN_CHECK(kilni_rpc_is_loopback("127.1.22.255:0"));
    static const char *const beyond[] = {
        "127.example.org:80", "127.0.0.1.example:80", "127.0.0:80",  "127.0.0.256:80",
        "127.0.0.1",          "127.0.0.0001:80",      "127.0..1:80", "1270.0.0.1:80"};
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        KILN_CHECK(!kilni_rpc_is_loopback(beyond[i]));
    }
}

KILN_TEST_MAIN("unit/remote_grpc/frame", KILN_TEST(test_round_trip), KILN_TEST(test_damage),
               KILN_TEST(test_too_many), KILN_TEST(test_number_for_bytes), KILN_TEST(test_limits))
