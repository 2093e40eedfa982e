// SPDX-License-Identifier: MIT OR Apache-2.0
// Graphs own copies of everything; nothing leaks when memory runs out at any allocation.
#include <string.h>

#include "graph_support.h"

static kiln_error err;

static void test_copies(void)
{
    test_env env;
    kiln_ir_graph *graph = NULL;
    test_env_init(&env);
    int64_t padding[2] = {1, 2};
    char mode[8] = "edge";
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, 3);
    kiln_tensor_desc y = test_desc(KILN_DTYPE_F32, 1, 6);
    kiln_attr attrs[3] = {test_ints(2, padding), test_text(mode), test_none()};
    y.id = 2;
    kiln_op_record pad = {.op = KILN_OP_PAD,
                          .n_inputs = 1,
                          .n_outputs = 1,
                          .n_attrs = 3,
                          .inputs = &x,
                          .outputs = &y,
                          .attrs = attrs};
    uint64_t output = 2;
    KILN_CHECK_INT(kiln_ir_graph_create(&env.env, &graph, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_graph_append(graph, &pad, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_graph_set_io(graph, &x, 1, &output, 1, &err), KILN_STATUS_OK);
    memset(padding, 0x77, sizeof(padding));
    memset(mode, 'z', 4);
    memset(attrs, 0x77, sizeof(attrs));
    memset(&x, 0x77, sizeof(x));
    output = 99;
    KILN_CHECK_INT(kiln_ir_graph_verify(graph, &err), KILN_STATUS_OK);
    const kiln_op_record *kept = kiln_ir_graph_op(graph, 0);
    KILN_CHECK_INT(kiln_op_attr(kept, KILN_KEY_PADDING)->v.ints[1], 2);
    KILN_CHECK_STR(kiln_op_attr(kept, KILN_KEY_MODE)->v.text, "edge");
    size_t count = 0;
    KILN_CHECK_INT(kiln_ir_graph_inputs(graph, &count)[0].dims[0], 3);
    KILN_CHECK_INT(count, 1);
    KILN_CHECK_INT(kiln_ir_graph_outputs(graph, &count)[0], 2);
    KILN_CHECK_INT(kiln_ir_graph_op_count(graph), 1);
    KILN_CHECK(kiln_ir_graph_op(graph, 1) == NULL);
    kiln_ir_graph_destroy(graph);
    kiln_ir_graph_destroy(NULL);
    KILN_CHECK_INT(env.live, 0);
}

static void test_refuses(void)
{
    test_env env;
    kiln_ir_graph *graph = NULL;
    test_env_init(&env);
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, 3);
    kiln_attr attrs[2] = {{KILN_ATTR_I64_LIST, 1u << 20, {.ints = x.dims}}, {0}};
    kiln_op_record record = {.op = KILN_OP_SUM,
                             .n_inputs = 1,
                             .n_outputs = 1,
                             .n_attrs = 2,
                             .inputs = &x,
                             .outputs = &x,
                             .attrs = attrs};
    KILN_CHECK_INT(kiln_ir_graph_create(&env.env, &graph, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_graph_append(graph, &record, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_STR(err.message, "operation 0: sum: attribute axes is malformed or too large");
    record.n_inputs = 65;
    KILN_CHECK_INT(kiln_ir_graph_append(graph, &record, &err), KILN_STATUS_INVALID_ARGUMENT);
    record.op = KILN_OP_COUNT;
    KILN_CHECK_INT(kiln_ir_graph_append(graph, &record, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_ir_graph_op_count(graph), 0);
    kiln_ir_graph_destroy(graph);
    KILN_CHECK_INT(env.live, 0);
}

static void test_many_operations(void)
{
    test_env env;
    kiln_ir_graph *graph = NULL;
    test_env_init(&env);
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 1, 3);
    KILN_CHECK_INT(kiln_ir_graph_create(&env.env, &graph, &err), KILN_STATUS_OK);
    for (uint64_t i = 1; i <= 1000; i++) {
        kiln_tensor_desc y = x;
        x.id = i;
        y.id = i + 1;
        kiln_op_record neg = {
            .op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 1, .inputs = &x, .outputs = &y};
        KILN_CHECK_INT(kiln_ir_graph_append(graph, &neg, &err), KILN_STATUS_OK);
    }
    x.id = 1;
    KILN_CHECK_INT(kiln_ir_graph_set_io(graph, &x, 1, NULL, 0, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_graph_verify(graph, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_ir_graph_op(graph, 999)->inputs[0].id, 1000);
    kiln_ir_graph_destroy(graph);
    KILN_CHECK_INT(env.live, 0);
}

/* Parse, print, encode and decode with the k-th allocation failing, for every k until all succeed.
 */
static bool round_trip(test_env *env, unsigned long k)
{
    kiln_ir_graph *parsed = NULL;
    kiln_ir_graph *decoded = NULL;
    kiln_blob bytes = {NULL, 0};
    kiln_string text;
    env->fail_at = k;
    kiln_string_init(&text, &env->env);
    kiln_status status = kiln_ir_parse(&env->env, small_graph, &parsed, &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_print(parsed, &text, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_encode(&env->env, parsed, &bytes, &err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_decode(&env->env, bytes.data, bytes.length, &decoded, &err);
    }
    bool failed = env->fail_at == 0 && k != 0;
    KILN_CHECK_INT(status, failed ? KILN_STATUS_RESOURCE_EXHAUSTED : KILN_STATUS_OK);
    env->fail_at = 0;
    kiln_ir_graph_destroy(parsed);
    kiln_ir_graph_destroy(decoded);
    kiln_free(&env->env, bytes.data);
    kiln_string_fini(&text);
    KILN_CHECK_INT(env->live, 0);
    return !failed;
}

static void test_no_memory(void)
{
    test_env env;
    test_env_init(&env);
    unsigned long k = 1;
    while (!round_trip(&env, k) && k < 10000) {
        k++;
    }
    KILN_CHECK(k > 5 && k < 10000);
}

KILN_TEST_MAIN("unit/ir/graph", KILN_TEST(test_copies), KILN_TEST(test_refuses),
               KILN_TEST(test_many_operations), KILN_TEST(test_no_memory))
