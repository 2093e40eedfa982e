// SPDX-License-Identifier: MIT OR Apache-2.0
// The parser takes what the printer writes, free spacing and comments, and says where other texts
// go wrong.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"
#include "graph_support.h"

static kiln_error err;

static void test_spacing(void)
{
    test_env env;
    test_env_init(&env);
    kiln_ir_graph *graph = parse_graph(&env.env, "# a graph\n\n  input  %1 :f32[ 2 , 3 ]  # x\r\n"
                                                 "%2:f32[2,3]=neg( %1:f32[2,3] )\n output %2");
    KILN_CHECK_INT(kiln_ir_graph_op_count(graph), 1);
    kiln_ir_graph_destroy(graph);
    KILN_CHECK_INT(env.live, 0);
}

static void test_values(void)
{
    test_env env;
    test_env_init(&env);
    kiln_ir_graph *graph =
        parse_graph(&env.env, "input %1: f64[1]\n"
                              "%2: f64[1] = clamp(%1: f64[1], min=-inf, max=3)\n"
                              "%3: f64[1] = add_scalar(%1: f64[1], value=nan)\n"
                              "%4: f64[1] = add_scalar(%1: f64[1], value=-2.5e-3)\n");
    const kiln_op_record *clamp = kiln_ir_graph_op(graph, 0);
    KILN_CHECK(isinf(kiln_op_attr(clamp, KILN_KEY_MIN)->v.f));
    KILN_CHECK_INT(kiln_op_attr(clamp, KILN_KEY_MAX)->type, KILN_ATTR_I64);
    KILN_CHECK(isnan(kiln_op_attr_f64(kiln_ir_graph_op(graph, 1), KILN_KEY_VALUE)));
    KILN_CHECK_NEAR(kiln_op_attr_f64(kiln_ir_graph_op(graph, 2), KILN_KEY_VALUE), -2.5e-3, 0);
    kiln_ir_graph_destroy(graph);
    KILN_CHECK_INT(env.live, 0);
}

static void refused(const char *text, const char *part, int line)
{
    test_env env;
    kiln_ir_graph *graph = NULL;
    test_env_init(&env);
    kiln_status status = kiln_ir_parse(&env.env, text, &graph, &err);
    kiln_test_check_int(status, KILN_STATUS_INVALID_ARGUMENT, __FILE__, line, text);
    kiln_test_check_contains(err.message, part, __FILE__, line);
    kiln_test_check(graph == NULL && env.live == 0, __FILE__, line, "nothing left");
}
#define REFUSED(text, part) refused(text, part, __LINE__)

static void test_refuses(void)
{
    REFUSED("hello\n", "line 1: hello is no operator");
    REFUSED("\ninput f32[2]\n", "line 2: a tensor such as %1 is expected");
    REFUSED("input %1: f99[2]\n", "f99 is no dtype");
    REFUSED("input %1: f32[1,1,1,1,1,1,1,1,1]\n", "a rank exceeds 8");
    REFUSED("input %1: f32[99999999999999999999]\n", "an integer exceeds 64 bits");
    REFUSED("input %99999999999999999999: f32[1]\n", "an id exceeds 64 bits");
    REFUSED("input %1: f32[1] constant\n", "is too much");
    REFUSED("input %1: f32[1\n", "\",\" is expected");
    REFUSED("%2: f32[1] = neg(%1: f32[1]\n", "\",\" is expected");
    REFUSED("%2: f32[1] = sum(%1: f32[1], axis=0)\n", "sum has no attribute axis");
    REFUSED("%2: f32[1] = sum(%1: f32[1], axes=[0], axes=[0])\n", "is given twice");
    REFUSED("%2: f32[1] = sum(%1: f32[1], axes=[0\n", "\",\" is expected");
    REFUSED("%2: f32[1] = sum(%1: f32[1], keepdims=maybe)\n", "maybe is no truth");
    REFUSED("%2: f32[1] = cast(%1: f32[1], dtype=what)\n", "what is no dtype");
    REFUSED("%2: f32[1] = pad(%1: f32[1], padding=[0,0], mode=\"ed\n", "a text does not end");
    REFUSED("%2: f32[1] = pad(%1: f32[1], padding=[0,0], mode=\"\\q\")\n", "wrong escape");
    REFUSED("%2: f32[1] = pad(%1: f32[1], padding=[0,0], mode=\"\\xg0\")\n", "wrong escape");
    REFUSED("%2: f32[1] = add_scalar(%1: f32[1], value=fast)\n", "a number is expected");
    REFUSED("%2: f32[1] neg(%1: f32[1])\n", "\"=\" is expected");
    REFUSED("%2: f32[1], %3: f32[1], %4: f32[1], %5: f32[1], %6: f32[1], %7: f32[1], %8: f32[1] = "
            "neg()\n",
            "more than 6 outputs");
}

/// One value of an attribute, in the form that attributes of plugins' operators have.
static kiln_status read_alone(test_env *env, kiln_arena *arena, const char *text,
                              kiln_attr_type type, kiln_attr *out_attr)
{
    kiln_arena_init(arena, &env->env);
    return kilni_ir_parse_value(&text, type, arena, out_attr, &err);
}

static void test_values_alone(void)
{
    static const unsigned char bytes[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0};
    test_env env;
    kiln_arena arena;
    kiln_attr attr;
    test_env_init(&env);
    KILN_CHECK_INT(read_alone(&env, &arena, "f32[2] {0000803f000000c0}", KILN_ATTR_TENSOR, &attr),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(attr.v.tensor->desc.dims[0], 2);
    KILN_CHECK_MEM(attr.v.tensor->data, bytes, sizeof(bytes));
    kiln_arena_fini(&arena);
    KILN_CHECK_INT(read_alone(&env, &arena, "\"a\\x0a\\\"\\\\\"", KILN_ATTR_STRING, &attr),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(attr.count, 4);
    KILN_CHECK_MEM(attr.v.text, "a\n\"\\", 4);
    kiln_arena_fini(&arena);
    KILN_CHECK_INT(read_alone(&env, &arena, "[1.5, -inf]", KILN_ATTR_F64_LIST, &attr),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(attr.count, 2);
    KILN_CHECK(attr.v.floats[0] == 1.5 && isinf(attr.v.floats[1]));
    kiln_arena_fini(&arena);
    KILN_CHECK_INT(read_alone(&env, &arena, "bf16", KILN_ATTR_DTYPE, &attr), KILN_STATUS_OK);
    KILN_CHECK_INT(attr.v.i, KILN_DTYPE_BF16);
    kiln_arena_fini(&arena);
    KILN_CHECK_INT(env.live, 0);
}

static void test_values_alone_refused(void)
{
    static const struct {
        const char *text;
        kiln_attr_type type;
        const char *words;
    } cases[] = {
        {"f32[2] {00}", KILN_ATTR_TENSOR, "shorter than 8 bytes"},
        {"f32[2] {0000803f0000c0", KILN_ATTR_TENSOR, "shorter than 8 bytes"},
        {"f32[1] {0000803f00}", KILN_ATTR_TENSOR, "\"}\" is expected"},
        {"f32[1] 0000803f", KILN_ATTR_TENSOR, "\"{\" is expected"},
        {"f32[1] {0000803G}", KILN_ATTR_TENSOR, "shorter than 4 bytes"},
        {"f32[1099511627776] {}", KILN_ATTR_TENSOR, "a constant exceeds"},
        {"what[1] {}", KILN_ATTR_TENSOR, "what is no dtype"},
        {"[1 2]", KILN_ATTR_I64_LIST, "\",\" is expected"},
        {"[1,\n2]", KILN_ATTR_I64_LIST, "an integer"},
        {"word", KILN_ATTR_DTYPE, "word is no dtype"},
        {"word", KILN_ATTR_BOOL, "word is no truth"},
        {"=", KILN_ATTR_BOOL, "a name is expected"},
        {"word", KILN_ATTR_STRING, "is expected"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        test_env env;
        kiln_arena arena;
        kiln_attr attr;
        test_env_init(&env);
        kiln_status status = read_alone(&env, &arena, cases[i].text, cases[i].type, &attr);
        kiln_test_check_int(status, KILN_STATUS_INVALID_ARGUMENT, __FILE__, __LINE__,
                            cases[i].text);
        KILN_CHECK_CONTAINS(err.message, cases[i].words);
        kiln_arena_fini(&arena);
        KILN_CHECK_INT(env.live, 0);
    }
}

/* Every beginning of a good text, and every text with one byte changed: an answer, no crash, no
 * leak. */
static void test_damaged(void)
{
    test_env env;
    char text[sizeof(small_graph)];
    unsigned accepted = 0;
    test_env_init(&env);
    for (size_t length = 0; length < sizeof(small_graph); length++) {
        memcpy(text, small_graph, length);
        text[length] = '\0';
        kiln_ir_graph *graph = NULL;
        accepted += kiln_ir_parse(&env.env, text, &graph, &err) == KILN_STATUS_OK ? 1 : 0;
        kiln_ir_graph_destroy(graph);
    }
    for (size_t at = 0; at + 1 < sizeof(small_graph); at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            memcpy(text, small_graph, sizeof(text));
            text[at] = (char)(text[at] ^ (1 << bit));
            kiln_ir_graph *graph = NULL;
            accepted += kiln_ir_parse(&env.env, text, &graph, &err) == KILN_STATUS_OK ? 1 : 0;
            kiln_ir_graph_destroy(graph);
        }
    }
    KILN_CHECK(accepted > 8);
    KILN_CHECK_INT(env.live, 0);
}

KILN_TEST_MAIN("unit/ir/parse", KILN_TEST(test_spacing), KILN_TEST(test_values),
               KILN_TEST(test_refuses), KILN_TEST(test_values_alone),
               KILN_TEST(test_values_alone_refused), KILN_TEST(test_damaged))
