// SPDX-License-Identifier: MIT OR Apache-2.0
// What a client gathers: which values a Run binds to buffers, and which graphs are the same.
#include "faults.h"
#include "harness.h"
#include "rpc_batch.h"

static const uint64_t first_tensor = 100;

static kiln_tensor_desc floats(uint64_t id, int64_t count)
{
    return (kiln_tensor_desc){.id = id, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {count}};
}

/// Tensor `id` becomes tensor `id + 1`.
static void negate(kilni_rpc_batch *batch, uint64_t id, int64_t count, uint64_t from, uint64_t to)
{
    kiln_error err = KILN_ERROR_INIT;
    const kiln_tensor_desc x = floats(id, count);
    const kiln_tensor_desc y = floats(id + 1, count);
    const kiln_op_record record = {
        .op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 1, .inputs = &x, .outputs = &y};
    KILN_CHECK(kilni_rpc_batch_takes(batch, &record, &from));
    KILN_CHECK(kilni_rpc_batch_add(batch, &record, &from, &to, &err) == KILN_STATUS_OK);
}

static const kiln_v1_Run *gathered(kilni_rpc_batch *batch, size_t *out_graph_bytes)
{
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_frame *frame = NULL;
    uint64_t forgotten = 0;
    KILN_CHECK(kilni_rpc_batch_frame(batch, /*lasting=*/false, &frame, &forgotten, &err) ==
               KILN_STATUS_OK);
    *out_graph_bytes = frame->graph_length;
    return &frame->body.body.run;
}

/// A buffer that is written in place again and again is bound once, to the last value.
static void test_last_value_is_bound(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_batch *batch = NULL;
    size_t bytes = 0;
    KILN_CHECK(kilni_rpc_batch_create(&env, &batch, &err) == KILN_STATUS_OK);
    negate(batch, first_tensor, 4, 1, 2);
    negate(batch, first_tensor + 1, 4, 2, 3);
    negate(batch, first_tensor + 2, 4, 3, 2);
    negate(batch, first_tensor + 3, 4, 2, 2);
    KILN_CHECK(kilni_rpc_batch_free(batch, 3, /*fresh=*/true));
    const kiln_v1_Run *run = gathered(batch, &bytes);
    KILN_CHECK_INT(run->inputs_count, 1);
    KILN_CHECK_INT(run->outputs_count, 1);
    KILN_CHECK_INT(run->outputs[0].buffer, 2);
    KILN_CHECK_INT(run->outputs[0].value, 5);
    KILN_CHECK_INT(run->frees_count, 0);
    kilni_rpc_batch_destroy(batch);
}

/// The second time a graph gets a number, the third time it is the number alone; one of other
/// shapes is another.
static void test_same_graph_is_a_number(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_batch *batch = NULL;
    KILN_CHECK(kilni_rpc_batch_create(&env, &batch, &err) == KILN_STATUS_OK);
    kilni_rpc_batch_begin(batch, 16, UINT64_C(1) << 40);
    for (uint64_t i = 0; i < 6; i++) {
        size_t bytes = 0;
        negate(batch, first_tensor + 10 * i, i < 3 ? 4 : 5, 1, 2);
        const kiln_v1_Run *run = gathered(batch, &bytes);
        KILN_CHECK((bytes == 0) == (i % 3 == 2));
        KILN_CHECK((run->graph == 0) == (i % 3 == 0));
        kilni_rpc_batch_end(batch);
    }
    kilni_rpc_batch_destroy(batch);
}

/// What could not be sent is the same when it is asked for again, and nothing comes to it
/// meanwhile.
static void test_frame_stays(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_batch *batch = NULL;
    KILN_CHECK(kilni_rpc_batch_create(&env, &batch, &err) == KILN_STATUS_OK);
    kilni_rpc_batch_begin(batch, 16, UINT64_C(1) << 40);
    for (uint64_t i = 0; i < 3; i++) {
        const kiln_op_record none = {.op = KILN_OP_NEG};
        size_t bytes = 0, again = 0;
        negate(batch, first_tensor + 10 * i, 4, 1, 2);
        uint64_t graph = gathered(batch, &bytes)->graph;
        KILN_CHECK(!kilni_rpc_batch_takes(batch, &none, NULL));
        KILN_CHECK_INT(gathered(batch, &again)->graph, graph);
        KILN_CHECK_INT(again, bytes);
        kilni_rpc_batch_end(batch);
    }
    kilni_rpc_batch_destroy(batch);
}

/// An operation for which there is no memory has never been there.
static void test_no_memory_for_an_operation(void)
{
    kiln_faults faults;
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_batch *batch = NULL;
    const uint64_t from = 1, to = 2;
    const kiln_tensor_desc x = floats(first_tensor, 4), y = floats(first_tensor + 1, 4);
    const kiln_op_record record = {
        .op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 1, .inputs = &x, .outputs = &y};
    size_t bytes = 0;
    kiln_faults_init(&faults);
    const kiln_env env = {.allocator = faults.allocator};
    KILN_CHECK(kilni_rpc_batch_create(&env, &batch, &err) == KILN_STATUS_OK);
    faults.persistent = true;
    faults.fail_at = 1;
    KILN_CHECK_INT(kilni_rpc_batch_add(batch, &record, &from, &to, &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    faults.fail_at = 0;
    KILN_CHECK(kilni_rpc_batch_is_empty(batch));
    negate(batch, first_tensor, 4, from, to);
    const kiln_v1_Run *run = gathered(batch, &bytes);
    KILN_CHECK_INT(run->inputs_count, 1);
    KILN_CHECK_INT(run->outputs_count, 1);
    KILN_CHECK_INT(run->outputs[0].value, 2);
    kilni_rpc_batch_destroy(batch);
    KILN_CHECK_INT(faults.live, 0);
}

KILN_TEST_MAIN("unit/remote_grpc/batch", KILN_TEST(test_last_value_is_bound),
               KILN_TEST(test_same_graph_is_a_number), KILN_TEST(test_frame_stays),
               KILN_TEST(test_no_memory_for_an_operation))
