// SPDX-License-Identifier: MIT OR Apache-2.0
// Replayable files: what is written is read, every damage is an error that says where, strides are
// checked, invented data follow from the seed, and a reduction finds the operations that matter.
#include <stdlib.h>
#include <string.h>

#include "ir_support.h"

static kiln_env env;

static const char head[] = "kiln replay 1\n# two lines\n# of a note\n"
                           "input %1: f32[2,2]\ninput %2: f32[2] const\n"
                           "%3: f32[2,2] = add(%1: f32[2,2], %2: f32[2])\noutput %3\n";

static kiln_replay *decode(const char *text, size_t length, const char *reason)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_replay *replay = NULL;
    env = (kiln_env){.allocator = kiln_allocator_default()};
    kiln_status status = kiln_replay_decode(&env, text, length, &replay, &err);
    if (reason == NULL) {
        KILN_CHECK_INT(status, KILN_STATUS_OK);
        KILN_CHECK_STR(err.message, "");
    } else {
        KILN_CHECK(status != KILN_STATUS_OK && replay == NULL);
        KILN_CHECK_CONTAINS(err.message, reason);
    }
    return replay;
}

/* The head, `lines` and the end. */
static kiln_replay *read_lines(const char *lines, const char *reason)
{
    kiln_string text;
    env = (kiln_env){.allocator = kiln_allocator_default()};
    kiln_string_init(&text, &env);
    kiln_string_printf(&text, "%s%send\n", head, lines);
    kiln_replay *replay = decode(text.text, text.length, reason);
    kiln_string_fini(&text);
    return replay;
}

static kiln_replay *with_data(kiln_string *out_bytes)
{
    kiln_replay *replay = read_lines("memory %1 offset 5 strides -2,1\n", NULL);
    if (replay != NULL) {
        const float a[4] = {1, 2, 3, 4};
        kiln_replay_input inputs[2] = {replay->inputs[0], replay->inputs[1]};
        inputs[0].data = a;
        inputs[0].bytes = sizeof(a);
        kiln_ir_graph *graph = replay->graph;
        kiln_replay *made = NULL;
        replay->graph = NULL;
        KILN_CHECK_INT(kiln_replay_create(&env, graph, inputs, replay->note, &made, NULL), 0);
        kiln_replay_destroy(replay);
        KILN_CHECK_INT(kiln_replay_encode(made, out_bytes, NULL), KILN_STATUS_OK);
        return made;
    }
    return NULL;
}

static void test_round_trip(void)
{
    kiln_string bytes = {0}, again = {0};
    kiln_replay *replay = with_data(&bytes);
    if (replay == NULL) {
        return;
    }
    KILN_CHECK_STR(replay->note, "two lines\nof a note");
    kiln_replay *read = decode(bytes.text, bytes.length, NULL);
    if (read != NULL) {
        KILN_CHECK_STR(read->note, replay->note);
        KILN_CHECK(read->inputs[0].strided && read->inputs[0].offset == 5);
        KILN_CHECK(read->inputs[0].strides[0] == -2 && read->inputs[0].strides[1] == 1);
        KILN_CHECK_MEM(read->inputs[0].data, replay->inputs[0].data, 16);
        KILN_CHECK(!read->inputs[1].strided && read->inputs[1].data == NULL);
        KILN_CHECK_INT(kiln_replay_encode(read, &again, NULL), KILN_STATUS_OK);
        KILN_CHECK_INT(again.length, bytes.length);
        KILN_CHECK_MEM(again.text, bytes.text, bytes.length);
        kiln_string_fini(&again);
    }
    kiln_replay_destroy(read);
    kiln_replay_destroy(replay);
    kiln_string_fini(&bytes);
}

static void test_files(void)
{
    kiln_string bytes = {0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_replay *replay = with_data(&bytes), *read = NULL;
    const char *path = kiln_test_path(kiln_test_tmpdir(), "x.replay");
    if (replay != NULL) {
        KILN_CHECK_INT(kiln_replay_write(replay, path, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_replay_read(&env, path, &read, &err), KILN_STATUS_OK);
        KILN_CHECK(read != NULL && read->inputs[0].bytes == 16);
        kiln_replay_destroy(read);
        KILN_CHECK_INT(kiln_replay_read(&env, "/nowhere/x", &read, &err), KILN_STATUS_NOT_FOUND);
        KILN_CHECK_INT(kiln_replay_write(replay, "/nowhere/x", &err), KILN_STATUS_UNAVAILABLE);
    }
    kiln_replay_destroy(replay);
    kiln_string_fini(&bytes);
}

static void test_every_damage_is_seen(void)
{
    kiln_string bytes = {0};
    kiln_replay *replay = with_data(&bytes);
    if (replay == NULL) {
        return;
    }
    for (size_t cut = 0; cut < bytes.length; cut++) {
        kiln_replay *read = NULL;
        KILN_CHECK(kiln_replay_decode(&env, bytes.text, cut, &read, NULL) != KILN_STATUS_OK);
    }
    for (size_t i = bytes.length - 16; i < bytes.length; i++) { // an element
        kiln_replay *read = NULL;
        bytes.text[i] = (char)(bytes.text[i] ^ 1);
        KILN_CHECK_INT(kiln_replay_decode(&env, bytes.text, bytes.length, &read, NULL),
                       KILN_STATUS_DATA_LOSS);
        bytes.text[i] = (char)(bytes.text[i] ^ 1);
    }
    kiln_string_append(&bytes, "x", 1);
    kiln_replay_destroy(decode(bytes.text, bytes.length, "1 bytes stand behind the data"));
    kiln_replay_destroy(replay);
    kiln_string_fini(&bytes);
}

static void test_wrong_lines(void)
{
    static const struct {
        const char *lines;
        const char *reason;
    } cases[] = {
        {"data %9 4 0000000000000000\n", "line 8: \"data %9 4"},
        {"data %1 16 123\n", "line 8: input %1: its data line is malformed"},
        {"data %1 -1 0000000000000000\n", "malformed"},
        {"data %1 99999999999999999999 0000000000000000\n", "malformed"},
        {"data %1 16 0000000000000000\n", "0 of 16 bytes are there"},
        {"data %1 0 2d06800538d394c2\n", "input %1 has 16 bytes, its data 0"},
        {"memory %1 offset 0 strides 1\n", "its memory line is malformed"},
        {"memory %1 offset 0 strides 1,2,3\n", "its memory line is malformed"},
        {"memory %1 offset -1 strides 1,2\n", "its memory line is malformed"},
        {"memory %1 offset 0 strides -1,2\n", "the strides of input %1 leave every buffer"},
        {"memory %1 offset 0 strides 9223372036854775807,9223372036854775807\n", "leave every"},
        {"memory %1 offset 9223372036854775807 strides 1,1\n", "leave every buffer"},
        {"memory %3 offset 0 strides 1,2\n", "names no input"},
        {"something else\n", "line 8"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_replay_destroy(read_lines(cases[i].lines, cases[i].reason));
    }
    kiln_replay_destroy(decode("", 0, "line 1: a replayable file begins"));
    kiln_replay_destroy(decode("kiln replay 2\nend\n", 18, "line 1: a replayable file begins"));
    kiln_replay_destroy(decode("kiln replay 1\n", 14, "no line \"end\""));
}

static void test_invented_data(void)
{
    kiln_replay *a = read_lines("", NULL), *b = read_lines("", NULL), *c = read_lines("", NULL);
    if (a != NULL && b != NULL && c != NULL) {
        KILN_CHECK_INT(kiln_replay_fill(a, 7, NULL), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_replay_fill(b, 7, NULL), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_replay_fill(c, 8, NULL), KILN_STATUS_OK);
        KILN_CHECK_MEM(a->inputs[0].data, b->inputs[0].data, 16);
        KILN_CHECK(memcmp(a->inputs[0].data, c->inputs[0].data, 16) != 0);
        KILN_CHECK_INT(a->inputs[1].bytes, 8);
    }
    kiln_replay_destroy(a);
    kiln_replay_destroy(b);
    kiln_replay_destroy(c);
}

// ---- reduction ----

static const char stream[] = "kiln replay 1\ninput %1: f32[4]\n"
                             "%2: f32[4] = neg(%1: f32[4])\n"
                             "%3: f32[4] = exp(%2: f32[4])\n"
                             "drop(%2: f32[4])\n"
                             "%4: f32[4] = relu(%3: f32[4])\n"
                             "%5: f32[4] = sqrt(%4: f32[4])\n"
                             "drop(%4: f32[4])\n"
                             "%6: f32[4] = add(%5: f32[4], %1: f32[4])\n"
                             "drop(%5: f32[4])\n"
                             "%7: f32[4] = abs(%6: f32[4])\n"
                             "output %7\nend\n";

static unsigned tries;

/* Fails as long as relu and the add are both there. */
static bool has_both(const kiln_replay *replay, void *user)
{
    bool relu = false, add = false;
    (void)user;
    tries++;
    KILN_CHECK_INT(kiln_ir_graph_verify(replay->graph, NULL), KILN_STATUS_OK);
    for (size_t i = 0; i < kiln_ir_graph_op_count(replay->graph); i++) {
        relu = relu || kiln_ir_graph_op(replay->graph, i)->op == KILN_OP_RELU;
        add = add || kiln_ir_graph_op(replay->graph, i)->op == KILN_OP_ADD;
    }
    for (size_t i = 0; i < replay->n_inputs; i++) {
        KILN_CHECK(replay->inputs[i].data != NULL);
    }
    return relu && add;
}

static bool never(const kiln_replay *replay, void *user)
{
    (void)replay;
    (void)user;
    return false;
}

static void test_reduction(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_replay *whole = decode(stream, strlen(stream), NULL), *small = NULL;
    kiln_string text = {0};
    if (whole == NULL) {
        return;
    }
    KILN_CHECK_INT(kiln_replay_reduce(whole, has_both, NULL, 50, &small, &err),
                   KILN_STATUS_INVALID_ARGUMENT); // no data
    KILN_CHECK_INT(kiln_replay_fill(whole, 1, NULL), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_replay_reduce(whole, never, NULL, 50, &small, &err),
                   KILN_STATUS_FAILED_PRECONDITION);
    tries = 0;
    KILN_CHECK_INT(kiln_replay_reduce(whole, has_both, NULL, 50, &small, &err), KILN_STATUS_OK);
    if (small != NULL) {
        KILN_CHECK(tries <= 50);
        KILN_CHECK_INT(kiln_replay_encode(small, &text, NULL), KILN_STATUS_OK);
        KILN_CHECK_CONTAINS(text.text, "relu(%3");
        KILN_CHECK_CONTAINS(text.text, "add(%5");
        KILN_CHECK(strstr(text.text, "sqrt") == NULL && strstr(text.text, "abs") == NULL);
        KILN_CHECK(strstr(text.text, "exp") == NULL && strstr(text.text, "neg") == NULL);
        KILN_CHECK_CONTAINS(text.text, "drop(%5");
        KILN_CHECK(strstr(text.text, "drop(%4") == NULL); // relu's result is one now
        kiln_string_fini(&text);
    }
    kiln_replay_destroy(small);
    kiln_replay_destroy(whole);
}

KILN_TEST_MAIN("unit/ir/replay", KILN_TEST(test_round_trip), KILN_TEST(test_files),
               KILN_TEST(test_every_damage_is_seen), KILN_TEST(test_wrong_lines),
               KILN_TEST(test_invented_data), KILN_TEST(test_reduction))
