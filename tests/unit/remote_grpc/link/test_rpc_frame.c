// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames and limits: round trips, and every kind of damage.

#include "harness.h"
#include "rpc_frame.h"
#include "rpc_limits.h"

#include <grpc/byte_buffer.h>
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

// ---- messages in pieces ----

/// A message in pieces of `size` bytes, as the network brings it; goes back through
/// kilni_rpc_message_free. Each has memory of its own: gRPC joins what could be one.
static kilni_rpc_message in_pieces(const void *bytes, size_t length, size_t size)
{
    grpc_slice slices[256];
    size_t count = 0;
    for (size_t at = 0; at < length && count < 256; at += size) {
        size_t part = length - at < size ? length - at : size;
        slices[count] = grpc_slice_malloc_large(part);
        memcpy(GRPC_SLICE_START_PTR(slices[count]), (const char *)bytes + at, part);
        count++;
    }
    kilni_rpc_message message = {.buffer = grpc_raw_byte_buffer_create(slices, count),
                                 .length = length};
    for (size_t i = 0; i < count; i++) {
        grpc_slice_unref(slices[i]);
    }
    return message;
}

/// Whatever the pieces are, the frame is the same; its data are not gathered when they come last.
static void test_pieces(void)
{
    kiln_env env = test_env();
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_parcel *parcel = NULL;
    kilni_rpc_frame *frame = malloc(sizeof(*frame));
    kilni_rpc_inbox *inbox = calloc(1, sizeof(*inbox));
    make_run(frame);
    KILN_CHECK_INT(kilni_rpc_frame_encode(&env, frame, &parcel, &err), KILN_STATUS_OK);
    for (size_t size = 1; size <= parcel->head_length; size++) {
        char data[10] = "";
        inbox->message = in_pieces(parcel->head, parcel->head_length, size);
        KILN_CHECK_INT(kilni_rpc_inbox_decode(&env, inbox, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(inbox->frame.body.body.run.inputs[4].buffer, 104);
        KILN_CHECK_MEM(inbox->frame.graph, "not a graph", 11);
        if (KILN_CHECK_INT(inbox->frame.data_length, sizeof(data))) {
            kilni_rpc_frame_data(&inbox->frame, data);
            KILN_CHECK_MEM(data, "some bytes", sizeof(data));
        }
        KILN_CHECK(size >= 10 || inbox->frame.data == NULL); // they lie in several pieces
        kilni_rpc_inbox_clear(&env, inbox);
    }
    kilni_rpc_parcel_free(&env, parcel);
    free(inbox);
    free(frame);
}

/// Fields of every wire type before the data, and what only looks like fields.
static void test_fields_in_pieces(void)
{
    // Fields that the schema has not are passed over: 100 as a number, as 64 and as 32 bits, as
    // bytes; then data "ab".
    static const unsigned char good[] = {0xa0, 6,    1, 0xa1, 6,    1,    2, 3,   4,
                                         5,    6,    7, 8,    0xa5, 6,    1, 2,   3,
                                         4,    0xa2, 6, 1,    'x',  0x7a, 2, 'a', 'b'};
    static const struct {
        unsigned char bytes[16];
        size_t length;
    } bad[] = {
        {{0xa0, 6, 0x80}, 3}, // a number without end
        {{0xa1, 6, 1, 2}, 4}, // 64 bits that are 16
        {{0xa5, 6, 1}, 3}, // 32 bits that are 8
        {{0xa2, 6, 9, 'x'}, 4}, // more bytes than there are
        {{0x7a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 'a'}, 12},
        {{0xa3, 6, 1}, 3}, // a group
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 12},
    };
    kiln_env env = test_env();
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_inbox *inbox = calloc(1, sizeof(*inbox));
    char data[2] = "";
    inbox->message = in_pieces(good, sizeof(good), 1);
    KILN_CHECK_INT(kilni_rpc_inbox_decode(&env, inbox, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(inbox->frame.data_length, 2);
    kilni_rpc_frame_data(&inbox->frame, data);
    KILN_CHECK_MEM(data, "ab", 2);
    kilni_rpc_inbox_clear(&env, inbox);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        inbox->message = in_pieces(bad[i].bytes, bad[i].length, 1);
        KILN_CHECK_INT(kilni_rpc_inbox_decode(&env, inbox, &err), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, "a damaged message");
        kilni_rpc_inbox_clear(&env, inbox);
    }
    free(inbox);
}

/// Long data that may be held are not copied into the parcel, and short ones are.
static void test_held_data(void)
{
    enum { LONG = 100000 };
    kiln_env env = test_env();
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_frame *frame = calloc(1, sizeof(*frame));
    char *data = calloc(1, LONG);
    for (size_t length = 1; length <= LONG; length += LONG - 1) {
        kilni_rpc_parcel *parcel = NULL;
        kilni_rpc_hold hold;
        atomic_init(&hold.refs, 1);
        frame->data = data;
        frame->data_length = length;
        frame->hold = &hold;
        KILN_CHECK_INT(kilni_rpc_frame_encode(&env, frame, &parcel, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(atomic_load(&hold.refs), length == LONG ? 2 : 1);
        KILN_CHECK(parcel->data == (length == LONG ? data : NULL));
        kilni_rpc_parcel_free(&env, parcel);
        KILN_CHECK_INT(atomic_load(&hold.refs), 1);
    }
    free(data);
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
               KILN_TEST(test_too_many), KILN_TEST(test_number_for_bytes), KILN_TEST(test_pieces),
               KILN_TEST(test_fields_in_pieces), KILN_TEST(test_held_data), KILN_TEST(test_limits))
