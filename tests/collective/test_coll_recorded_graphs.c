// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations of a group in graphs that are replayed: the wait is an operation of the graph, a
// replay has the group's deadline and failures, and a graph may outlive its group.
#include <stdlib.h>

#include "harness.h"
#include "recorded_scene.h"

/// Begins y = 2 * (sum of 2x) + x on every member: as far as the sum.
static bool begin_all(const scene *self, kiln_tensor **out_sums)
{
    kiln_tensor *doubled[MOST] = {NULL};
    bool ok = true;
    for (uint32_t i = 0; i < self->count && ok; i++) {
        ok = KILN_CHECK_INT(kiln_graph_begin(self->set.devices[i], &self->inputs[i], 1, NULL), 0) &&
             KILN_CHECK_INT(kiln_mul_scalar(self->inputs[i], kiln_f64(2), &doubled[i], NULL), 0);
    }
    ok = ok &&
         KILN_CHECK_INT(kiln_collective_all_reduce(self->group, doubled, "sum", out_sums, NULL), 0);
    release_all(doubled);
    return ok;
}

/// In a capture the wait is an operation, and a result that nothing waits for is no output.
static bool check_unresolved(const scene *self)
{
    kiln_tensor *sums[MOST] = {NULL};
    bool ok = begin_all(self, sums);
    for (uint32_t i = 0; i < self->count && ok; i++) {
        kiln_error err = KILN_ERROR_INIT;
        kiln_graph *graph = NULL;
        KILN_CHECK_INT(kiln_collective_resolve(sums[i], &err), KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_CONTAINS(err.message, "kiln_collective_sync");
        KILN_CHECK_INT(kiln_graph_end(self->set.devices[i], &sums[i], 1, &graph, &err),
                       KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_CONTAINS(err.message, "kiln_collective_resolve");
        ok = KILN_CHECK(graph == NULL);
    }
    release_all(sums);
    return ok;
}

static bool record(const scene *self, kiln_graph **out_graphs)
{
    kiln_tensor *sums[MOST] = {NULL};
    bool ok = begin_all(self, sums);
    for (uint32_t i = 0; i < self->count && ok; i++) {
        kiln_error err = KILN_ERROR_INIT;
        kiln_tensor *there = NULL;
        kiln_tensor *scaled = NULL;
        kiln_tensor *y = NULL;
        ok = KILN_CHECK_INT(kiln_collective_sync(sums[i], &there, NULL), 0) &&
             KILN_CHECK_INT(kiln_mul_scalar(there, kiln_f64(2), &scaled, NULL), 0) &&
             KILN_CHECK_INT(kiln_add(scaled, self->inputs[i], &y, NULL), 0);
        kiln_release(there);
        kiln_release(scaled);
        if (kiln_graph_end(self->set.devices[i], &y, 1, &out_graphs[i], &err) != KILN_STATUS_OK) {
            KILN_FAIL("%s", err.message);
            ok = false;
        }
        kiln_release(y);
    }
    release_all(sums);
    return ok;
}

static bool replay(const scene *self, kiln_graph *const *graphs)
{
    kiln_tensor *results[MOST] = {NULL};
    float data[COUNT];
    bool ok = true;
    for (uint32_t i = 0; i < self->count && ok;
         i++) { // one after another: none may hold the thread
        ok =
            KILN_CHECK_INT(kiln_graph_run(graphs[i], &self->inputs[i], 1, &results[i], 1, NULL), 0);
    }
    for (uint32_t i = 0; i < self->count && ok; i++) {
        ok = KILN_CHECK_INT(kiln_read(results[i], data, sizeof(data), NULL), 0);
        for (int64_t k = 0; k < COUNT && ok; k++) {
            ok = KILN_CHECK(data[k] == 4 * sum_at(self, k) + value_at(i, k));
        }
    }
    release_all(results);
    return ok;
}

static void test_graphs(void)
{
    scene self;
    kiln_graph *graphs[MOST] = {NULL};
    if (scene_init(&self, kiln_test_param(), 30000) && check_unresolved(&self) &&
        record(&self, graphs)) {
        for (int i = 0; i < ROUNDS && replay(&self, graphs); i++) {
        }
    }
    for (uint32_t i = 0; i < self.count; i++) {
        kiln_graph_destroy(graphs[i]);
    }
    scene_fini(&self);
}

/// A member that lets its result go unread takes part all the same, as recorded and in a graph.
static void test_unread_results(void)
{
    scene self;
    kiln_tensor *sum = NULL;
    kiln_tensor *y = NULL;
    kiln_graph *graph = NULL;
    if (scene_init(&self, kiln_test_param(), 3000)) {
        int64_t id = kiln_collective_id(self.group);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[0], "sum", id, 0, &sum, NULL), 0);
        kiln_release(sum);
        KILN_CHECK_INT(kiln_flush(self.set.devices[0], NULL), 0);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[1], "sum", id, 1, &sum, NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sum, NULL), 0);
        holds(&self, sum, 1, 0);
        kiln_release(sum);
        KILN_CHECK_INT(kiln_graph_begin(self.set.devices[0], &self.inputs[0], 1, NULL), 0);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[0], "sum", id, 0, &sum, NULL), 0);
        kiln_release(sum);
        KILN_CHECK_INT(kiln_mul_scalar(self.inputs[0], kiln_f64(2), &y, NULL), 0);
        KILN_CHECK_INT(kiln_graph_end(self.set.devices[0], &y, 1, &graph, NULL), 0);
        kiln_release(y);
        y = NULL;
        sum = NULL;
        KILN_CHECK_INT(kiln_graph_run(graph, &self.inputs[0], 1, &y, 1, NULL), 0);
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[1], "sum", id, 1, &sum, NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sum, NULL), 0);
        holds(&self, sum, 1, 0);
    }
    kiln_release(sum);
    kiln_release(y);
    kiln_graph_destroy(graph);
    scene_fini(&self);
}

/// Replays a member's part: it, or else the reading of its result, gives the failure.
static void replay_fails(const scene *self, kiln_graph *const *graphs, uint32_t rank,
                         kiln_status code, const char *part)
{
    float data[COUNT];
    kiln_tensor *result = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = kiln_graph_run(graphs[rank], &self->inputs[rank], 1, &result, 1, &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_read(result, data, sizeof(data), &err);
    }
    KILN_CHECK_INT(status, code);
    KILN_CHECK_CONTAINS(err.message, part);
    kiln_release(result);
}

/// One member does not replay: the other's result names it within the deadline. What is replayed on
/// the poisoned group gives the same, and after the group is gone, that it is. Nothing waits then.
static void test_graphs_outlive_group(void)
{
    scene self;
    kiln_graph *graphs[MOST] = {NULL};
    if (scene_init(&self, kiln_test_param(), 2000) && record(&self, graphs)) {
        uint64_t begin = kiln_time_ns();
        replay_fails(&self, graphs, 0, KILN_STATUS_DEADLINE_EXCEEDED, "rank 1");
        KILN_CHECK(kiln_time_ns() - begin < 3000000000u); // the deadline + 1 s
        begin = kiln_time_ns();
        replay_fails(&self, graphs, 1, KILN_STATUS_DEADLINE_EXCEEDED, "rank 1");
        kiln_collective_destroy(self.group);
        self.group = NULL;
        replay_fails(&self, graphs, 0, KILN_STATUS_NOT_FOUND, "no group");
        KILN_CHECK(kiln_time_ns() - begin < 1500000000u);
        hear_failures(&self);
    }
    for (uint32_t i = 0; i < self.count; i++) {
        kiln_graph_destroy(graphs[i]);
    }
    scene_fini(&self);
}

/// All members capture or none does; a device whose queue cannot wait takes no part in a graph.
static void test_graphs_refused(void)
{
    scene self;
    kiln_tensor *sums[MOST] = {NULL};
    kiln_tensor *there = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (scene_init(&self, &mixed, 30000)) {
        KILN_CHECK_INT(kiln_graph_begin(self.set.devices[1], &self.inputs[1], 1, NULL), 0);
        KILN_CHECK_INT(kiln_collective_all_reduce(self.group, self.inputs, "sum", sums, &err),
                       KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_CONTAINS(err.message, "captures a graph");
        KILN_CHECK_INT(kiln_all_reduce(self.inputs[1], "sum", kiln_collective_id(self.group), 1,
                                       &sums[1], NULL),
                       0);
        KILN_CHECK_INT(kiln_collective_sync(sums[1], &there, &err), KILN_STATUS_UNIMPLEMENTED);
        KILN_CHECK_CONTAINS(err.message, "reference:0");
        release_all(sums);
        kiln_graph_cancel(self.set.devices[1]);
    }
    scene_fini(&self);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST_PARAM(test_graphs, "graphs", &opencl),
        KILN_TEST_PARAM(test_graphs, "graphs, memory apart", &opencl_apart),
        KILN_TEST(test_graphs_refused),
        KILN_TEST_PARAM(test_graphs_outlive_group, "graphs outlive group", &opencl),
        KILN_TEST_PARAM(test_graphs_outlive_group, "graphs outlive group, memory apart",
                        &opencl_apart),
        KILN_TEST_PARAM(test_unread_results, "unread results", &opencl),
        KILN_TEST_PARAM(test_unread_results, "unread results, memory apart", &opencl_apart),
    };
    setenv("POCL_DEVICES", "pthread pthread", 1); // read once, before the first OpenCL call
    return kiln_test_run("collective/recorded_graphs", cases, sizeof(cases) / sizeof(cases[0]),
                         argc, argv);
}
