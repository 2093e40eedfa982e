// SPDX-License-Identifier: MIT OR Apache-2.0
// Groups that are split, and the calls that move parts: gather, scatter, all-to-all, send and
// receive, over devices through the public calls.
#include <stdlib.h>
#include <string.h>

#include "collective.h"
#include "device_set.h"
#include "harness.h"

enum { MOST = 4, ROWS = 12, COLUMNS = 7, MOST_ELEMS = MOST * ROWS * COLUMNS, SHORT_MS = 1000 };

typedef struct setting {
    uint32_t count;
    const char *addresses[MOST];
} setting;

static const setting references = {4, {"reference:0", "reference:1", "reference:2", "reference:3"}};
static const setting single = {1, {"reference:0"}};
#ifdef TEST_WITH_OPENCL
static const setting pair = {2, {"opencl:0", "opencl:1"}};
static const setting subdevices = {4, {"opencl:0#0/2", "opencl:0#1/2", "opencl:1", "opencl:2"}};
static const setting mixed = {3, {"opencl:1", "reference:0", "opencl:0"}};
#ifdef TEST_WITH_REMOTE
static const setting remote = {3, {"opencl:0", "remote", "reference:0"}};
#endif
#endif

typedef struct scene {
    uint32_t count;
    device_set set;
    kiln_collective *group;
    kiln_tensor *inputs[MOST];
    kiln_tensor *outputs[MOST];
} scene;

static bool scene_init(scene *self, const setting *what, uint64_t deadline_ms)
{
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    kiln_error err = KILN_ERROR_INIT;
    options.deadline_ns = deadline_ms * 1000000;
    *self = (scene){.count = what->count};
    bool ok = device_set_open(&self->set, what->addresses, what->count);
    if (ok && kiln_collective_create(self->set.devices, what->count, &options, &self->group,
                                     &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        ok = false;
    }
    return ok;
}

static void release_all(kiln_tensor **tensors)
{
    for (uint32_t i = 0; i < MOST; i++) {
        kiln_release(tensors[i]);
        tensors[i] = NULL;
    }
}

static void scene_fini(scene *self)
{
    release_all(self->inputs);
    release_all(self->outputs);
    kiln_collective_destroy(self->group);
    device_set_close(&self->set);
}

static float value_at(uint32_t rank, int64_t i)
{
    return (float)(1000 * (int)rank) + (float)i;
}

static kiln_tensor *make(kiln_device *device, uint32_t rank, int64_t rows)
{
    static float data[MOST_ELEMS];
    const int64_t dims[] = {rows, COLUMNS};
    kiln_tensor *tensor = NULL;
    for (int64_t i = 0; i < rows * COLUMNS; i++) {
        data[i] = value_at(rank, i);
    }
    KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims, data, &tensor, NULL), 0);
    return tensor;
}

static void make_inputs(scene *self, int64_t rows)
{
    release_all(self->inputs);
    release_all(self->outputs);
    for (uint32_t i = 0; i < self->count; i++) {
        self->inputs[i] = make(self->set.devices[i], i, rows);
    }
}

/// The tensor has rows of COLUMNS, and its block `at` of `rows` rows begins with the value `first`.
static bool holds_block(kiln_tensor *tensor, int64_t at, int64_t rows, float first)
{
    static float data[MOST_ELEMS];
    size_t count = (size_t)(rows * COLUMNS);
    bool ok = KILN_CHECK_INT(kiln_tensor_rank(tensor), 2) &&
              KILN_CHECK_INT(kiln_tensor_dims(tensor)[1], COLUMNS) &&
              KILN_CHECK(kiln_tensor_count(tensor) >= (at + 1) * rows * COLUMNS) &&
              KILN_CHECK_INT(kiln_read(tensor, data, kiln_tensor_bytes(tensor), NULL), 0);
    for (size_t i = 0; i < count && ok; i++) {
        ok = KILN_CHECK(data[(size_t)at * count + i] == first + (float)i);
    }
    return ok;
}

static bool resolve(kiln_tensor *tensor)
{
    kiln_error err = KILN_ERROR_INIT;
    if (kiln_collective_resolve(tensor, &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        return false;
    }
    return true;
}

// ---- calls that move parts ----

static void check_gather(scene *self, int64_t rows, uint32_t root)
{
    kiln_tensor **outputs = self->outputs;
    make_inputs(self, rows);
    bool ok = KILN_CHECK_INT(kiln_collective_gather(self->group, self->inputs, root, outputs, NULL),
                             KILN_STATUS_OK);
    for (uint32_t i = 0; i < self->count && ok; i++) {
        ok = KILN_CHECK((outputs[i] != NULL) == (i == root));
    }
    ok = ok && resolve(outputs[root]) &&
         KILN_CHECK_INT(kiln_tensor_dims(outputs[root])[0], rows * self->count);
    for (uint32_t i = 0; i < self->count && ok; i++) {
        ok = holds_block(outputs[root], i, rows, value_at(i, 0));
    }
}

static void check_scatter(scene *self, int64_t rows, uint32_t root)
{
    make_inputs(self, rows * self->count);
    bool ok = KILN_CHECK_INT(
        kiln_collective_scatter(self->group, self->inputs, root, self->outputs, NULL), 0);
    for (uint32_t i = 0; i < self->count && ok; i++) {
        ok = resolve(self->outputs[i]) &&
             KILN_CHECK_INT(kiln_tensor_dims(self->outputs[i])[0], rows) &&
             holds_block(self->outputs[i], 0, rows, value_at(root, i * rows * COLUMNS));
    }
}

static void check_all_to_all(scene *self, int64_t rows)
{
    make_inputs(self, rows * self->count);
    bool ok = KILN_CHECK_INT(
        kiln_collective_all_to_all(self->group, self->inputs, self->outputs, NULL), 0);
    for (uint32_t i = 0; i < self->count && ok; i++) {
        ok = resolve(self->outputs[i]);
        for (uint32_t from = 0; from < self->count && ok; from++) {
            ok = holds_block(self->outputs[i], from, rows, value_at(from, i * rows * COLUMNS));
        }
    }
}

static void test_parts(void)
{
    static const int64_t lengths[] = {0, 1, 3, ROWS};
    scene self;
    bool ok = scene_init(&self, kiln_test_param(), 60000);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && ok; i++) {
        for (uint32_t root = 0; root < self.count; root++) {
            check_gather(&self, lengths[i], root);
            check_scatter(&self, lengths[i], root);
        }
        check_all_to_all(&self, lengths[i]);
    }
    if (ok) {
        KILN_CHECK_INT(kiln_collective_status(self.group, NULL, NULL), KILN_STATUS_OK);
    }
    scene_fini(&self);
}

/// A view as input, a tensor of rank 0, and an input that its call alone keeps.
static void test_forms(void)
{
    scene self;
    kiln_tensor *rows[MOST] = {NULL};
    kiln_tensor *numbers[MOST] = {NULL};
    const int64_t axes[] = {1, 0};
    float data[ROWS * COLUMNS];
    float got[MOST];
    bool ok = scene_init(&self, kiln_test_param(), 60000);
    for (uint32_t i = 0; i < self.count && ok; i++) { // [count, 7] from [7, count]
        const int64_t dims[] = {COLUMNS, self.count};
        const float number = (float)i + 0.5f;
        kiln_tensor *whole = NULL;
        for (int64_t k = 0; k < COLUMNS * self.count; k++) { // element [c, r] is r * 7 + c of value
            data[k] = value_at(i, k % self.count * COLUMNS + k / self.count);
        }
        ok = KILN_CHECK_INT(kiln_tensor_create(self.set.devices[i], KILN_DTYPE_F32, 2, dims, data,
                                               &whole, NULL),
                            0) &&
             KILN_CHECK_INT(kiln_permute(whole, axes, 2, &rows[i], NULL), 0) &&
             KILN_CHECK_INT(kiln_tensor_create(self.set.devices[i], KILN_DTYPE_F32, 0, NULL,
                                               &number, &numbers[i], NULL),
                            0);
        kiln_release(whole);
    }
    ok = ok && KILN_CHECK_INT(kiln_collective_all_to_all(self.group, rows, self.outputs, NULL), 0);
    release_all(rows);
    for (uint32_t i = 0; i < self.count && ok; i++) {
        ok = resolve(self.outputs[i]);
        for (uint32_t from = 0; from < self.count && ok; from++) {
            ok = holds_block(self.outputs[i], from, 1, value_at(from, i * COLUMNS));
        }
    }
    release_all(self.outputs);
    ok = ok &&
         KILN_CHECK_INT(kiln_collective_gather(self.group, numbers, 0, self.outputs, NULL), 0) &&
         resolve(self.outputs[0]) && KILN_CHECK_INT(kiln_tensor_rank(self.outputs[0]), 1) &&
         KILN_CHECK_INT(kiln_read(self.outputs[0], got, self.count * sizeof(float), NULL), 0);
    for (uint32_t i = 0; i < self.count && ok; i++) {
        ok = KILN_CHECK(got[i] == (float)i + 0.5f);
    }
    release_all(numbers);
    scene_fini(&self);
}

/// Every rank passes its tensor on, in turn; then the last one to the first, of a long tensor,
/// while the ranks between are in no call.
static void test_send_and_receive(void)
{
    scene self;
    bool ok = scene_init(&self, kiln_test_param(), 60000);
    const uint32_t last = self.count - 1;
    for (int64_t rows = 0; rows < 4 && ok; rows += 3) {
        make_inputs(&self, rows);
        for (uint32_t from = 0; from < self.count && ok; from++) {
            uint32_t to = (from + 1) % self.count;
            ok = KILN_CHECK_INT(kiln_collective_send(self.group, self.inputs[from], from, to, NULL),
                                0) &&
                 KILN_CHECK_INT(kiln_collective_receive(self.group, self.inputs[to], from, to,
                                                        &self.outputs[to], NULL),
                                0);
        }
        for (uint32_t i = 0; i < self.count && ok; i++) {
            uint32_t from = (i + last) % self.count;
            ok = resolve(self.outputs[i]) &&
                 holds_block(self.outputs[i], 0, rows, value_at(from, 0));
        }
    }
    make_inputs(&self, ROWS);
    ok = ok &&
         KILN_CHECK_INT(
             kiln_collective_receive(self.group, self.inputs[0], last, 0, &self.outputs[0], NULL),
             0) &&
         KILN_CHECK_INT(kiln_collective_send(self.group, self.inputs[last], last, 0, NULL), 0) &&
         resolve(self.outputs[0]) && holds_block(self.outputs[0], 0, ROWS, value_at(last, 0));
    KILN_CHECK_INT(kiln_collective_barrier(self.group, NULL), KILN_STATUS_OK);
    scene_fini(&self);
}

/// The receiver asks for another shape or dtype: nothing is written, and both learn it in the same
/// words; or nobody sends.
static void test_pair_disagrees(void)
{
    scene self;
    for (int how = 0; how < 2; how++) {
        bool ok = scene_init(&self, &references, how == 0 ? 60000 : SHORT_MS);
        kiln_error err = KILN_ERROR_INIT;
        kiln_error status = KILN_ERROR_INIT;
        int32_t guilty = -1;
        if (ok) {
            make_inputs(&self, 3);
            kiln_tensor *other = make(self.set.devices[2], 2, 4);
            ok = KILN_CHECK_INT(
                     kiln_collective_receive(self.group, other, 1, 2, &self.outputs[2], NULL), 0) &&
                 (how == 1 ||
                  KILN_CHECK_INT(kiln_collective_send(self.group, self.inputs[1], 1, 2, NULL), 0));
            kiln_release(other);
            kiln_status wanted =
                how == 0 ? KILN_STATUS_INVALID_ARGUMENT : KILN_STATUS_DEADLINE_EXCEEDED;
            ok = ok && KILN_CHECK_INT(kiln_collective_resolve(self.outputs[2], &err), wanted) &&
                 KILN_CHECK_INT(kiln_collective_status(self.group, &guilty, &status), wanted) &&
                 KILN_CHECK_STR(err.message, status.message);
            KILN_CHECK_CONTAINS(err.message, how == 0 ? "it receives" : "did not come to a send");
            KILN_CHECK_INT(guilty, how == 0 ? 2 : 1);
        }
        scene_fini(&self);
    }
}

// ---- refusals ----

static void refused(kiln_status status, const kiln_error *err, const char *word)
{
    KILN_CHECK_INT(status, KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err->message, word);
}

/// Each is refused before any rank begins, and leaves the group as it was.
static void test_refusals(void)
{
    static const int32_t colours[MOST] = {0};
    scene self;
    kiln_error err = KILN_ERROR_INIT;
    kiln_collective *parts[MOST] = {NULL};
    kiln_tensor *one = NULL;
    kiln_tensor **in = self.inputs;
    kiln_tensor **out = self.outputs;
    if (scene_init(&self, &references, 60000)) {
        kiln_collective *group = self.group;
        make_inputs(&self, 6); // no multiple of four
        refused(kiln_collective_scatter(group, in, 0, out, &err), &err, "scatter: 6 rows");
        refused(kiln_collective_all_to_all(group, in, out, &err), &err, "all_to_all: 6 rows");
        refused(kiln_collective_gather(group, in, 4, out, &err), &err, "root 4");
        refused(kiln_collective_scatter(group, in, 9, out, &err), &err, "root 9");
        refused(kiln_collective_gather(NULL, in, 0, out, &err), &err, "NULL");
        refused(kiln_collective_scatter(group, NULL, 0, out, &err), &err, "NULL");
        refused(kiln_collective_all_to_all(group, in, NULL, &err), &err, "NULL");
        refused(kiln_collective_send(group, NULL, 0, 1, &err), &err, "NULL");
        refused(kiln_collective_send(group, in[0], 0, 0, &err), &err, "rank 0");
        refused(kiln_collective_send(group, in[0], 0, 4, &err), &err, "rank 4");
        refused(kiln_collective_send(group, in[0], 7, 1, &err), &err, "rank 7");
        refused(kiln_collective_send(group, in[0], 1, 2, &err), &err, "not on device reference:1");
        refused(kiln_collective_receive(group, in[0], 1, 0, NULL, &err), &err, "NULL");
        refused(kiln_collective_receive(group, NULL, 1, 0, &one, &err), &err, "NULL");
        refused(kiln_collective_receive(NULL, in[0], 1, 0, &one, &err), &err, "NULL");
        refused(kiln_collective_receive(group, in[0], 5, 0, &one, &err), &err, "rank 5");
        refused(kiln_collective_split(NULL, colours, NULL, parts, &err), &err, "NULL");
        refused(kiln_collective_split(group, NULL, NULL, parts, &err), &err, "NULL");
        refused(kiln_collective_split(group, colours, NULL, NULL, &err), &err, "NULL");
        KILN_CHECK(out[0] == NULL && one == NULL && parts[0] == NULL);
        KILN_CHECK(kiln_collective_member(NULL, 0, NULL) == NULL);
        KILN_CHECK(kiln_collective_member(group, 4, NULL) == NULL);
        KILN_CHECK_INT(kiln_collective_status(group, NULL, NULL), KILN_STATUS_OK);
        check_all_to_all(&self, 2);
    }
    scene_fini(&self);
}

// ---- splitting ----

/// The sum of a part's devices' values of one element; each device holds its place in `self`.
static bool start_sum(const scene *self, kiln_collective *part, kiln_tensor **inputs,
                      kiln_tensor **outputs)
{
    kiln_device *device = NULL;
    bool ok = true;
    for (size_t i = 0; (device = kiln_collective_member(part, i, NULL)) != NULL && ok; i++) {
        uint32_t place = 0;
        while (self->set.devices[place] != device) {
            place++;
        }
        ok = (inputs[i] = make(device, place, 1)) != NULL;
    }
    return ok && KILN_CHECK_INT(kiln_collective_all_reduce(part, inputs, "sum", outputs, NULL), 0);
}

static bool check_sum(kiln_tensor **outputs, uint32_t count, float first)
{
    bool ok = true;
    for (uint32_t i = 0; i < count && ok; i++) {
        float got[COLUMNS];
        ok = resolve(outputs[i]) &&
             KILN_CHECK_INT(kiln_read(outputs[i], got, sizeof(got), NULL), 0) &&
             KILN_CHECK(got[0] == first) &&
             KILN_CHECK(got[COLUMNS - 1] == first + (float)(count * (COLUMNS - 1)));
    }
    return ok;
}

/// Even and odd ranks, the odd ones backwards: both halves at once, and the whole between; the
/// parts live longer than it.
static void test_halves(void)
{
    scene self;
    kiln_collective *parts[MOST] = {NULL};
    kiln_tensor *inputs[2][MOST] = {{NULL}};
    kiln_tensor *outputs[2][MOST] = {{NULL}};
    static const int32_t colours[MOST] = {7, 1, 7, 1};
    static const int32_t keys[MOST] = {0, 5, 0, -5};
    bool ok = scene_init(&self, kiln_test_param(), 60000) &&
              KILN_CHECK_INT(kiln_collective_split(self.group, colours, keys, parts, NULL), 0);
    if (ok) {
        uint32_t rank = 9;
        KILN_CHECK(parts[0] == parts[2] && parts[1] == parts[3] && parts[0] != parts[1]);
        KILN_CHECK_INT(kiln_collective_ranks(parts[0]), 2);
        KILN_CHECK(kiln_collective_member(parts[0], 0, &rank) == self.set.devices[0] && rank == 0);
        KILN_CHECK(kiln_collective_member(parts[1], 0, &rank) == self.set.devices[3] && rank == 0);
        KILN_CHECK(kiln_collective_member(parts[1], 1, &rank) == self.set.devices[1] && rank == 1);
        KILN_CHECK(kiln_collective_member(parts[1], 2, &rank) == NULL);
        KILN_CHECK(kiln_collective_id(parts[0]) != kiln_collective_id(parts[1]) &&
                   kiln_collective_id(parts[0]) != kiln_collective_id(self.group));
    }
    for (int round = 0; round < 5 && ok; round++) {
        make_inputs(&self, 1);
        ok = start_sum(&self, parts[0], inputs[0], outputs[0]) &&
             KILN_CHECK_INT(
                 kiln_collective_all_reduce(self.group, self.inputs, "sum", self.outputs, NULL),
                 0) &&
             start_sum(&self, parts[1], inputs[1], outputs[1]) &&
             check_sum(outputs[1], 2, value_at(1, 0) + value_at(3, 0)) &&
             check_sum(outputs[0], 2, value_at(2, 0)) &&
             check_sum(self.outputs, MOST, value_at(6, 0));
        for (int i = 0; i < 2; i++) {
            release_all(inputs[i]);
            release_all(outputs[i]);
        }
    }
    kiln_collective_destroy(self.group);
    self.group = NULL;
    ok = ok && start_sum(&self, parts[1], inputs[0], outputs[0]) &&
         check_sum(outputs[0], 2, value_at(4, 0));
    release_all(inputs[0]);
    release_all(outputs[0]);
    for (uint32_t i = 0; i < MOST; i++) {
        kiln_collective_destroy(parts[i]);
    }
    scene_fini(&self);
}

/// A part of a part, a rank that joins none, and parts of one; each one's hold is its own.
static void test_parts_of_parts(void)
{
    static const int32_t three[MOST] = {4, -1, 4, 4};
    static const int32_t alone[MOST] = {2, 1, 0};
    scene self;
    kiln_collective *parts[MOST] = {NULL};
    kiln_collective *ones[MOST] = {NULL};
    kiln_tensor *inputs[MOST] = {NULL};
    kiln_tensor *outputs[MOST] = {NULL};
    bool ok = scene_init(&self, &references, 60000) &&
              KILN_CHECK_INT(kiln_collective_split(self.group, three, NULL, parts, NULL), 0) &&
              KILN_CHECK(parts[1] == NULL && parts[0] != NULL) &&
              KILN_CHECK_INT(kiln_collective_ranks(parts[0]), 3) &&
              KILN_CHECK_INT(kiln_collective_split(parts[0], alone, NULL, ones, NULL), 0);
    for (uint32_t i = 0; i < 3 && ok; i++) {
        ok = KILN_CHECK_INT(kiln_collective_ranks(ones[i]), 1) &&
             KILN_CHECK(kiln_collective_member(ones[i], 0, NULL) ==
                        self.set.devices[i == 0 ? 0 : i + 1]);
    }
    kiln_collective_destroy(parts[0]); // two holds are left
    kiln_collective_destroy(parts[2]);
    ok = ok && start_sum(&self, ones[1], inputs, outputs) && check_sum(outputs, 1, value_at(2, 0));
    release_all(inputs);
    release_all(outputs);
    ok = ok && start_sum(&self, parts[3], inputs, outputs) && check_sum(outputs, 3, value_at(5, 0));
    release_all(inputs);
    release_all(outputs);
    kiln_collective_destroy(parts[3]);
    for (uint32_t i = 0; i < 3; i++) {
        kiln_collective_destroy(ones[i]);
    }
    scene_fini(&self);
}

/// A part that fails takes neither its parent nor its sibling along; a failed group is not split.
static void test_parts_fail_alone(void)
{
    static const int32_t colours[MOST] = {0, 0, 1, 1};
    scene self;
    kiln_collective *parts[MOST] = {NULL};
    kiln_collective *none[MOST] = {NULL};
    bool ok = scene_init(&self, &references, SHORT_MS) &&
              KILN_CHECK_INT(kiln_collective_split(self.group, colours, NULL, parts, NULL), 0);
    if (ok) {
        make_inputs(&self, 1);
        KILN_CHECK_INT(
            kiln_collective_receive(parts[0], self.inputs[0], 1, 0, &self.outputs[0], NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(self.outputs[0], NULL),
                       KILN_STATUS_DEADLINE_EXCEEDED); // the parent's deadline
        KILN_CHECK_INT(kiln_collective_split(parts[0], colours, NULL, none, NULL),
                       KILN_STATUS_DEADLINE_EXCEEDED);
        KILN_CHECK(none[0] == NULL && none[1] == NULL);
        KILN_CHECK_INT(kiln_collective_status(self.group, NULL, NULL), KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_collective_status(parts[2], NULL, NULL), KILN_STATUS_OK);
    }
    for (uint32_t i = 0; i < MOST; i++) {
        kiln_collective_destroy(parts[i]);
    }
    scene_fini(&self);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST_PARAM(test_parts, "parts, reference", &references),
        KILN_TEST_PARAM(test_parts, "parts, one reference", &single),
        KILN_TEST_PARAM(test_forms, "forms, reference", &references),
        KILN_TEST_PARAM(test_send_and_receive, "send and receive, reference", &references),
        KILN_TEST(test_pair_disagrees),
        KILN_TEST(test_refusals),
        KILN_TEST_PARAM(test_halves, "halves, reference", &references),
        KILN_TEST(test_parts_of_parts),
        KILN_TEST(test_parts_fail_alone),
#ifdef TEST_WITH_OPENCL
        KILN_TEST_PARAM(test_parts, "parts, two", &pair),
        KILN_TEST_PARAM(test_parts, "parts, subdevices", &subdevices),
        KILN_TEST_PARAM(test_parts, "parts, mixed", &mixed),
        KILN_TEST_PARAM(test_forms, "forms, subdevices", &subdevices),
        KILN_TEST_PARAM(test_send_and_receive, "send and receive, two", &pair),
        KILN_TEST_PARAM(test_send_and_receive, "send and receive, mixed", &mixed),
        KILN_TEST_PARAM(test_halves, "halves, subdevices", &subdevices),
#ifdef TEST_WITH_REMOTE
        KILN_TEST_PARAM(test_parts, "parts, remote", &remote),
        KILN_TEST_PARAM(test_send_and_receive, "send and receive, remote", &remote),
#endif
#endif
    };
    setenv("POCL_DEVICES", "pthread pthread pthread pthread",
           1); // read once, before the first OpenCL call
    return kiln_test_run("collective/parts", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
