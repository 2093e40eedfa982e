// SPDX-License-Identifier: MIT OR Apache-2.0
// The wire form: every sample survives encoding, text and back; truncated, flipped and oversized
// bytes get an error.
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"
#include "samples.h"

static kiln_error err;

static kiln_blob encoded(const kiln_env *env, const kiln_ir_graph *graph)
{
    kiln_blob bytes = {NULL, 0};
    KILN_CHECK_INT(kiln_ir_encode(env, graph, &bytes, &err), KILN_STATUS_OK);
    return bytes;
}

static void test_graph(void)
{
    test_env env;
    test_env_init(&env);
    kiln_ir_graph *graph = parse_graph(&env.env, small_graph);
    kiln_blob bytes = encoded(&env.env, graph);
    kiln_ir_graph *back = NULL;
    KILN_CHECK_INT(kiln_ir_decode(&env.env, bytes.data, bytes.length, &back, &err), KILN_STATUS_OK);
    kiln_string text = text_of(&env.env, back);
    KILN_CHECK_STR(text.text, small_graph);
    size_t count = 0;
    KILN_CHECK_INT(kiln_ir_graph_inputs(back, &count)[1].flags, KILN_TENSOR_CONST);
    kiln_string_fini(&text);
    kiln_free(&env.env, bytes.data);
    kiln_ir_graph_destroy(graph);
    kiln_ir_graph_destroy(back);
    KILN_CHECK_INT(env.live, 0);
}

/* One sample as a graph of its own, through bytes and through text. */
static void trip_sample(const kiln_op_record *record, const void *const *data, void *user)
{
    const test_env *env = user;
    kiln_ir_graph *graph = NULL;
    kiln_ir_graph *from_bytes = NULL;
    kiln_ir_graph *from_text = NULL;
    uint64_t outputs[KILN_MAX_OUTPUTS];
    (void)data;
    for (unsigned i = 0; i < record->n_outputs; i++) {
        outputs[i] = record->outputs[i].id;
    }
    KILN_CHECK_INT(kiln_ir_graph_create(&env->env, &graph, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_graph_append(graph, record, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_graph_set_io(graph, record->inputs, record->n_inputs, outputs,
                                        record->n_outputs, &err),
                   KILN_STATUS_OK);
    kiln_blob bytes = encoded(&env->env, graph);
    kiln_string text = text_of(&env->env, graph);
    kiln_status status = kiln_ir_decode(&env->env, bytes.data, bytes.length, &from_bytes, &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_parse(&env->env, text.text, &from_text, &err);
    }
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s: %s", text.text, err.message);
    } else {
        kiln_string again[2] = {text_of(&env->env, from_bytes), text_of(&env->env, from_text)};
        KILN_CHECK_STR(again[0].text, text.text);
        KILN_CHECK_STR(again[1].text, text.text);
        kiln_string_fini(&again[0]);
        kiln_string_fini(&again[1]);
    }
    kiln_string_fini(&text);
    kiln_free(&env->env, bytes.data);
    kiln_ir_graph_destroy(graph);
    kiln_ir_graph_destroy(from_bytes);
    kiln_ir_graph_destroy(from_text);
}

static void test_all_samples(void)
{
    test_env env;
    test_env_init(&env);
    kiln_sample_sink sink = {&env.env, trip_sample, &env};
    for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        for (int d = 1; d < KILN_DTYPE_LIMIT; d++) {
            if ((kiln_dtype_kind_of((kiln_dtype)d) & info->accept) != 0) {
                kiln_samples_make((kiln_op)op, (kiln_dtype)d, &sink);
            }
        }
    }
    KILN_CHECK_INT(env.live, 0);
}

static void test_one_operation(void)
{
    test_env env;
    kiln_ir_graph *back = NULL;
    test_env_init(&env);
    kiln_ir_graph *graph = parse_graph(&env.env, small_graph);
    kiln_blob bytes = encoded(&env.env, graph);
    KILN_CHECK_INT(kiln_ir_decode(&env.env, bytes.data, bytes.length, &back, &err), KILN_STATUS_OK);
    const kiln_op_record *pad = kiln_ir_graph_op(back, 3);
    KILN_CHECK_INT(pad->op, KILN_OP_PAD);
    KILN_CHECK_INT(pad->inputs[0].id, 4);
    KILN_CHECK_STR(kiln_op_attr(pad, KILN_KEY_MODE)->v.text, "edge");
    KILN_CHECK_INT(kiln_op_attr(pad, KILN_KEY_VALUE)->type, KILN_ATTR_NONE);
    kiln_free(&env.env, bytes.data);
    kiln_ir_graph_destroy(back);
    kiln_ir_graph_destroy(graph);
    KILN_CHECK_INT(env.live, 0);
}

static void test_truncated(void)
{
    test_env env;
    test_env_init(&env);
    kiln_ir_graph *graph = parse_graph(&env.env, small_graph);
    kiln_blob bytes = encoded(&env.env, graph);
    for (size_t length = 0; length < bytes.length; length++) {
        kiln_ir_graph *back = NULL;
        void *exact = malloc(length > 0 ? length : 1);
        memcpy(exact, bytes.data, length);
        kiln_status status = kiln_ir_decode(&env.env, exact, length, &back, &err);
        KILN_CHECK(status == KILN_STATUS_DATA_LOSS ||
                   (status == KILN_STATUS_INVALID_ARGUMENT && length == 0));
        KILN_CHECK(back == NULL);
        free(exact);
    }
    kiln_free(&env.env, bytes.data);
    kiln_ir_graph_destroy(graph);
    KILN_CHECK_INT(env.live, 0);
}

/* Flipped bits either give an error or another graph that passes the verifier. */
static void test_flipped(void)
{
    test_env env;
    test_env_init(&env);
    kiln_ir_graph *graph = parse_graph(&env.env, small_graph);
    kiln_blob bytes = encoded(&env.env, graph);
    unsigned refused = 0;
    for (size_t i = 0; i < bytes.length * 8; i++) {
        unsigned char *data = bytes.data;
        kiln_ir_graph *back = NULL;
        data[i / 8] = (unsigned char)(data[i / 8] ^ (1u << i % 8));
        if (kiln_ir_decode(&env.env, data, bytes.length, &back, &err) == KILN_STATUS_OK) {
            KILN_CHECK_INT(kiln_ir_graph_verify(back, &err), KILN_STATUS_OK);
        } else {
            refused++;
        }
        kiln_ir_graph_destroy(back);
        data[i / 8] = (unsigned char)(data[i / 8] ^ (1u << i % 8));
    }
    KILN_CHECK(refused > bytes.length * 4);
    kiln_free(&env.env, bytes.data);
    kiln_ir_graph_destroy(graph);
    KILN_CHECK_INT(env.live, 0);
}

static kiln_status decode_text(const char *data, size_t length)
{
    test_env env;
    kiln_ir_graph *back = NULL;
    test_env_init(&env);
    kiln_status status = kiln_ir_decode(&env.env, data, length, &back, &err);
    kiln_ir_graph_destroy(back);
    KILN_CHECK_INT(env.live, 0);
    return status;
}
#define DECODE(bytes) decode_text(bytes, sizeof(bytes) - 1)

/* Field 7 is an operation, its field 1 the name and 2 the version; see ir.proto. */
static void test_hostile(void)
{
    KILN_CHECK_INT(DECODE("\x08\x01\x10\x00\x18\x00\x20\x00"), KILN_STATUS_OK);
    KILN_CHECK_INT(DECODE("\x08\x02\x10\x00\x18\x00\x20\x00"), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "version 2");
    KILN_CHECK_INT(DECODE("\x08\x01\x10\x00\x18\x00\x20\x01"), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_INT(DECODE("\x3a\x06\x0a\x04what"), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "\"what\" is no operator");
    KILN_CHECK_INT(DECODE("\x3a\x07\x0a\x03neg\x10\x63"), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "neg is of version 99, not 1");
    KILN_CHECK_INT(DECODE("\x3a\xff\xff\xff\xff\x0f"), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_INT(DECODE("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), KILN_STATUS_DATA_LOSS);
    /* A tensor with nine lengths, and one of dtype 200. */
    KILN_CHECK_INT(DECODE("\x2a\x0b\x1a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01"),
                   KILN_STATUS_DATA_LOSS);
    KILN_CHECK_INT(DECODE("\x2a\x03\x10\xc8\x01"), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "200 is no dtype");
}

static void test_too_many(void)
{
    char longer[3 + 65 * 2] = {0x3a, (char)0x82, 0x01};
    for (unsigned i = 0; i < 65; i++) {
        longer[3 + 2 * i] = 0x1a; // an empty input
    }
    KILN_CHECK_INT(decode_text(longer, sizeof(longer)), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "more than 64 items");
    char name[4 + 100] = {0x3a, 102, 0x0a, 100};
    KILN_CHECK_INT(decode_text(name, sizeof(name)), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "a text of 100 bytes exceeds 64");
}

KILN_TEST_MAIN("unit/ir/codec", KILN_TEST(test_graph), KILN_TEST(test_all_samples),
               KILN_TEST(test_one_operation), KILN_TEST(test_truncated), KILN_TEST(test_flipped),
               KILN_TEST(test_hostile), KILN_TEST(test_too_many))
