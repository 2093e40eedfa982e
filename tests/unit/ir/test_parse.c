// SPDX-License-Identifier: MIT OR Apache-2.0
// The parser takes what the printer writes, free spacing and comments, and says where other texts
// go wrong.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
               KILN_TEST(test_refuses), KILN_TEST(test_damaged))
