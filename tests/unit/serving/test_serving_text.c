// SPDX-License-Identifier: MIT OR Apache-2.0
// config.pbtxt: what is read of it, and that no damaged text is read past its end.

#include "harness.h"
#include "serving_text.h"

#include <string.h>

typedef struct reading {
    kiln_env env;
    kiln_arena arena;
    kilni_serving_node *root;
    kiln_error err;
} reading;

static kiln_status read_text(reading *self, const char *text)
{
    *self = (reading){.env = {.allocator = kiln_allocator_default()}, .err = KILN_ERROR_INIT};
    kiln_arena_init(&self->arena, &self->env);
    return kilni_serving_text_read(&self->arena, text, &self->root, &self->err);
}

static void test_forms(void)
{
    reading r;
    KILN_CHECK_INT(read_text(&r, "name: \"a \\\"b\\\"\" # said\n"
                                 "input [ { dims: [ -1, 3 ] }, < dims: 5; > ]\n"
                                 "empty { }\nlist: []\nkind: KIND_CPU"),
                   KILN_STATUS_OK);
    KILN_CHECK_STR(kilni_serving_node_find(r.root, "name")->value, "a \"b\"");
    const kilni_serving_node *input = kilni_serving_node_find(r.root, "input");
    const kilni_serving_node *dim = kilni_serving_node_find(input->members, "dims");
    KILN_CHECK_STR(dim->value, "-1");
    KILN_CHECK_STR(kilni_serving_node_again(dim)->value, "3");
    KILN_CHECK(kilni_serving_node_again(kilni_serving_node_again(dim)) == NULL);
    KILN_CHECK(kilni_serving_node_again(input) != NULL);
    const kilni_serving_node *empty = kilni_serving_node_find(r.root, "empty");
    KILN_CHECK(empty != NULL && empty->members == NULL && empty->value == NULL);
    KILN_CHECK(kilni_serving_node_find(r.root, "list") == NULL);
    KILN_CHECK_INT(kilni_serving_node_find(r.root, "kind")->line, 5);
    kiln_arena_fini(&r.arena);
}

static void test_refusals(void)
{
    static const char *const cases[][2] = {
        {"a", "neither"},    {"a:", "value is missing"}, {"a: \"b", "without its last"},
        {"a {", "without"},  {"a: [ 1,", "without"},     {"}", "key is missing"},
        {"a: }", "missing"}, {": 1", "key is missing"},  {"\n\na: \"b\n\"", "line 3"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reading r;
        KILN_CHECK_INT(read_text(&r, cases[i][0]), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(r.err.message, cases[i][1]);
        kiln_arena_fini(&r.arena);
    }
}

static void test_numbers(void)
{
    reading r;
    int64_t number = 0;
    KILN_CHECK_INT(read_text(&r, "a: 7 b: seven c: 7x d { }"), KILN_STATUS_OK);
    KILN_CHECK_INT(
        kilni_serving_node_number(kilni_serving_node_find(r.root, "a"), 0, 9, &number, &r.err),
        KILN_STATUS_OK);
    KILN_CHECK_INT(number, 7);
    for (const char *key = "abcd"; *key != '\0'; key++) {
        const char name[] = {*key, '\0'};
        KILN_CHECK_INT(
            kilni_serving_node_number(kilni_serving_node_find(r.root, name), 0, 6, &number, &r.err),
            KILN_STATUS_INVALID_ARGUMENT);
    }
    kiln_arena_fini(&r.arena);
}

/// Every beginning of a text ends in an error or a tree.
static void test_cuts(void)
{
    static const char whole[] = "a: [ { b: \"c\" d <e: 1> } ] # f\ng { h: 'i' }";
    for (size_t length = 0; length < sizeof(whole); length++) {
        char cut[sizeof(whole)] = "";
        reading r;
        memcpy(cut, whole, length);
        kiln_status status = read_text(&r, cut);
        KILN_CHECK(status == KILN_STATUS_OK || r.err.message[0] != '\0');
        kiln_arena_fini(&r.arena);
    }
}

KILN_TEST_MAIN("unit/serving/text", KILN_TEST(test_forms), KILN_TEST(test_refusals),
               KILN_TEST(test_numbers), KILN_TEST(test_cuts))
