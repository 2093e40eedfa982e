// SPDX-License-Identifier: MIT OR Apache-2.0
// What the verifier of graphs refuses, and the place that its errors name.
#include "graph_support.h"

static kiln_error err;

static void refused(const char *text, const char *message, int line)
{
    test_env env;
    kiln_ir_graph *graph = NULL;
    test_env_init(&env);
    kiln_status status = kiln_ir_parse(&env.env, text, &graph, &err);
    kiln_test_check_int(status, KILN_STATUS_INVALID_ARGUMENT, __FILE__, line, "status");
    kiln_test_check_str(err.message, message, __FILE__, line, "message");
    kiln_test_check_int((int64_t)env.live, 0, __FILE__, line, "allocations");
}
#define REFUSED(text, message) refused(text, message, __LINE__)

static void test_ids(void)
{
    REFUSED("input %0: f32[1]\n", "input 0: 0 is no id of a tensor");
    REFUSED("input %1: f32[1]\ninput %1: f32[1]\n", "input 1: %1 is defined twice");
    REFUSED("%2: f32[1] = neg(%1: f32[1])\n", "operation 0: %1 is used before it is defined");
    REFUSED("input %1: f32[1]\n%1: f32[1] = neg(%1: f32[1])\n", "operation 0: %1 is defined twice");
    REFUSED("input %1: f32[1]\ndrop(%1: f32[1])\n%2: f32[1] = neg(%1: f32[1])\n",
            "operation 1: %1 is used after its drop");
    REFUSED("input %1: f32[1]\ndrop(%1: f32[1])\ndrop(%1: f32[1])\n",
            "operation 1: %1 is used after its drop");
    REFUSED("input %1: f32[1]\n%2: f32[2] = neg(%1: f32[2])\n",
            "operation 0: %1 changes its dtype or shape");
    REFUSED("input %1: f32[1]\n%2: i32[1] = neg(%1: i32[1])\n",
            "operation 0: %1 changes its dtype or shape");
}

static void test_outputs(void)
{
    REFUSED("output %1\n", "output 0: %1 does not exist at the end");
    REFUSED("input %1: f32[1]\ndrop(%1: f32[1])\noutput %1\n",
            "output 0: %1 does not exist at the end");
}

static void test_inference(void)
{
    REFUSED("input %1: f32[2,3]\n%2: f32[3,2] = neg(%1: f32[2,3])\n",
            "operation 0: neg: output 0 is stored as f32[3,2] but is f32[2,3]");
    REFUSED("input %1: f32[2]\n%2: f32[2] = is_nan(%1: f32[2])\n",
            "operation 0: is_nan: output 0 is stored as f32[2] but is bool[2]");
    REFUSED("input %1: f32[2]\n%2: f32[2] = add(%1: f32[2])\n",
            "operation 0: add: 1 inputs given, it takes 2");
    REFUSED("input %1: f32[-2]\n", "input 0: %1 has no valid dtype and shape");
}

static void test_accepts(void)
{
    test_env env;
    test_env_init(&env);
    kiln_ir_graph *graph = parse_graph(&env.env, small_graph);
    KILN_CHECK_INT(kiln_ir_graph_verify(graph, &err), KILN_STATUS_OK);
    kiln_ir_graph_destroy(graph);
    kiln_ir_graph *empty = parse_graph(&env.env, "");
    KILN_CHECK_INT(kiln_ir_graph_op_count(empty), 0);
    kiln_ir_graph_destroy(empty);
}

KILN_TEST_MAIN("unit/ir/verify", KILN_TEST(test_ids), KILN_TEST(test_outputs),
               KILN_TEST(test_inference), KILN_TEST(test_accepts))
