// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows of an optimiser whose state is shared out: they travel when their gradients have come, one
// by one or from tapes, and come to the sets when a parameter of theirs is asked for; what is
// refused.
#include "collective.h"
#include "device_set.h"
#include "harness.h"
#include "kiln_train.h"
#include "sharded_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MEMBERS = 2, PARAMS = 3, MOST = 6 };

static const int64_t lengths[PARAMS] = {4, 6, 5};

typedef struct setting {
    const char *addresses[MEMBERS];
} setting;

static const setting references = {{"reference:0", "reference:1"}};
#ifdef TEST_WITH_OPENCL
static const setting devices = {{"opencl:0", "opencl:1"}};
#endif

typedef struct scene {
    device_set set;
    kiln_collective *group;
    kiln_params *params[MEMBERS];
    kiln_sharded *sharded;
} scene;

static bool passes(kiln_status status, const kiln_error *err)
{
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s", err->message);
    }
    return status == KILN_STATUS_OK;
}

static void refuses(kiln_status status, const kiln_error *err, const char *word)
{
    KILN_CHECK_INT(status, KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err->message, word);
}

/// Zeros, with steps of SGD that subtract the gradient; each parameter is a row of its own.
static bool scene_init(scene *self, const setting *where, uint32_t late)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_optimiser_options rule = KILN_OPTIMISER_OPTIONS_INIT;
    kiln_sharded_options options = KILN_SHARDED_OPTIONS_INIT;
    *self = (scene){.group = NULL};
    rule.rate = 1;
    options.optimiser = &rule;
    options.late = late;
    options.bucket_bytes = 1;
    if (!device_set_open(&self->set, where->addresses, MEMBERS) ||
        !passes(kiln_collective_create(self->set.devices, MEMBERS, NULL, &self->group, &err),
                &err)) {
        return false;
    }
    for (size_t m = 0; m < MEMBERS; m++) {
        KILN_CHECK_INT(kiln_params_create(self->set.devices[m], 0, &self->params[m], NULL), 0);
        for (size_t p = 0; p < PARAMS; p++) {
            const char name[] = {'w', (char)('0' + p), '\0'};
            KILN_CHECK_INT(
                kiln_params_add(self->params[m], name, KILN_DTYPE_F32, 1, &lengths[p], NULL, NULL),
                0);
        }
    }
    return passes(kiln_sharded_create(self->group, self->params, MEMBERS, &options, &self->sharded,
                                      &err),
                  &err) &&
           KILN_CHECK_INT(self->sharded->layout.n_rows, PARAMS);
}

static void scene_fini(scene *self)
{
    kiln_sharded_destroy(self->sharded);
    for (size_t m = 0; m < MEMBERS; m++) {
        kiln_params_destroy(self->params[m]);
    }
    kiln_collective_destroy(self->group);
    device_set_close(&self->set);
}

static kiln_tensor *filled(const scene *self, size_t member, size_t p, float number)
{
    float data[MOST];
    kiln_tensor *tensor = NULL;
    for (int i = 0; i < MOST; i++) {
        data[i] = number;
    }
    KILN_CHECK_INT(kiln_tensor_create(self->set.devices[member], KILN_DTYPE_F32, 1, &lengths[p],
                                      data, &tensor, NULL),
                   0);
    return tensor;
}

/// Member m's gradients of parameter p are p + 2 * m: their mean is p + 1.
static bool submit(const scene *self, size_t member, size_t p)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_tensor *gradient = filled(self, member, p, (float)(p + 2 * member));
    bool ok = passes(kiln_sharded_submit(self->sharded, member, p, gradient, &err), &err);
    kiln_release(gradient);
    return ok;
}

static bool submit_all(const scene *self)
{
    bool ok = true;
    for (size_t i = 0; i < MEMBERS * PARAMS && ok; i++) {
        ok = submit(self, i % MEMBERS, i / MEMBERS);
    }
    return ok;
}

static bool step(const scene *self)
{
    kiln_error err = KILN_ERROR_INIT;
    return passes(kiln_sharded_step(self->sharded, NULL, 0, &err), &err);
}

static bool expect(const scene *self, size_t member, size_t p, float number)
{
    float got[MOST] = {0};
    bool ok = KILN_CHECK_INT(kiln_read(kiln_params_tensor(self->params[member], p), got,
                                       (size_t)lengths[p] * sizeof(got[0]), NULL),
                             0);
    for (int64_t i = 0; i < lengths[p] && ok; i++) {
        ok = KILN_CHECK(got[i] == number);
    }
    return ok;
}

static void expect_all(const scene *self, int steps)
{
    for (size_t i = 0; i < MEMBERS * PARAMS; i++) {
        expect(self, i % MEMBERS, i / MEMBERS, (float)(-steps * (int)(i / MEMBERS + 1)));
    }
}

// ---- gradients ----

/// The last parameter's row is averaged to its end while the others have no gradients.
static void test_rows_go_early(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    scene self;
    if (scene_init(&self, kiln_test_param(), 0) && submit(&self, 0, 2) && submit(&self, 1, 2)) {
        const kiln_tensor *part = self.sharded->members[1].parts[0];
        uint64_t latest_ns = kiln_time_ns() + 60000000000u;
        KILN_CHECK(part != NULL);
        while (!kiln_collective_ended(part) && kiln_time_ns() < latest_ns) {
            nanosleep(&pause, NULL);
        }
        KILN_CHECK(kiln_collective_ended(part));
        KILN_CHECK(self.sharded->members[1].gradients[2] == NULL);
        KILN_CHECK(submit(&self, 1, 0) && submit(&self, 0, 0)); // their row waits for that of w1
        KILN_CHECK(self.sharded->members[0].parts[2] == NULL);
        KILN_CHECK(submit(&self, 1, 1) && submit(&self, 0, 1));
        KILN_CHECK(self.sharded->members[0].parts[2] != NULL);
        if (step(&self)) {
            expect_all(&self, 1);
        }
        KILN_CHECK(submit_all(&self) && step(&self)); // once more
        expect_all(&self, 2);
    }
    scene_fini(&self);
}

/// What was submitted is not brought by the step once more, and what is missing has a name.
static void test_refusals(void)
{
    kiln_sharded_options old = KILN_SHARDED_OPTIONS_INIT;
    kiln_error err = KILN_ERROR_INIT;
    kiln_sharded *none = NULL;
    scene self;
    old.struct_size = 8;
    if (scene_init(&self, &references, 1) && submit(&self, 0, 1)) {
        kiln_tensor *gradient = filled(&self, 0, 1, 1);
        kiln_tensor *other = filled(&self, 1, 1, 1);
        kiln_tensor *brought[MEMBERS * PARAMS] = {[1] = gradient};
        kiln_sharded *sharded = self.sharded;
        refuses(kiln_sharded_submit(NULL, 0, 0, gradient, &err), &err, "a member");
        refuses(kiln_sharded_submit(sharded, MEMBERS, 0, gradient, &err), &err, "a member");
        refuses(kiln_sharded_submit(sharded, 0, PARAMS, gradient, &err), &err, "a parameter");
        refuses(kiln_sharded_submit(sharded, 0, 1, gradient, &err), &err, "w1 got its gradient");
        refuses(kiln_sharded_submit(sharded, 0, 2, gradient, &err), &err, "w2 has no gradient");
        refuses(kiln_sharded_submit(sharded, 0, 0, NULL, &err), &err, "w0 has no gradient");
        refuses(kiln_sharded_submit(sharded, 1, 1, gradient, &err), &err, "member 1");
        refuses(kiln_sharded_step(sharded, NULL, 0, &err), &err, "w0 has no gradient");
        refuses(kiln_sharded_step(sharded, brought, MEMBERS * PARAMS, &err), &err, "w0");
        brought[0] = brought[2] = gradient;
        refuses(kiln_sharded_step(sharded, brought, MEMBERS * PARAMS, &err), &err, "w0");
        refuses(kiln_sharded_join(sharded, MEMBERS, NULL, &err), &err, "joins a member");
        refuses(kiln_sharded_join(sharded, 0, NULL, &err), &err, "NULL");
        refuses(kiln_sharded_create(self.group, self.params, MEMBERS, &old, &none, &err), &err,
                "size");
        refuses(kiln_sharded_create(self.group, self.params, MEMBERS, NULL, &none, &err), &err,
                "set 0 gets its values late");
        KILN_CHECK(submit(&self, 1, 1) && submit(&self, 0, 0) && submit(&self, 1, 0) &&
                   submit(&self, 0, 2) && submit(&self, 1, 2) && step(&self));
        expect_all(&self, 1);
        kiln_release(gradient);
        kiln_release(other);
    }
    scene_fini(&self);
}

// ---- late values ----

static size_t rows_on_their_way(const scene *self, size_t member)
{
    size_t count = 0;
    for (size_t r = 0; r < PARAMS; r++) {
        count += self->sharded->members[member].whole[r] != NULL;
    }
    return count;
}

/// A set takes the row that is asked for and no other; a value that is set stays; the end brings
/// the rest.
static void test_late(void)
{
    scene self;
    if (scene_init(&self, kiln_test_param(), 1) && submit_all(&self) && step(&self)) {
        KILN_CHECK_INT(rows_on_their_way(&self, 0), PARAMS);
        expect(&self, 0, 1, -2);
        KILN_CHECK_INT(rows_on_their_way(&self, 0), PARAMS - 1);
        KILN_CHECK_INT(rows_on_their_way(&self, 1), PARAMS);
        kiln_tensor *own[MEMBERS];
        for (size_t m = 0; m < MEMBERS; m++) {
            own[m] = filled(&self, m, 0, 8);
            KILN_CHECK_INT(kiln_params_set(self.params[m], 0, own[m], NULL), 0);
            kiln_release(own[m]);
            expect(&self, m, 0, 8);
        }
        KILN_CHECK(submit_all(&self) && step(&self)); // with values that nobody asked for
        kiln_sharded_destroy(self.sharded);
        self.sharded = NULL;
        for (size_t m = 0; m < MEMBERS; m++) {
            expect(&self, m, 0, 7);
            expect(&self, m, 1, -4);
            expect(&self, m, 2, -6);
        }
    }
    scene_fini(&self);
}

static void test_late_files(void)
{
    char path[] = "/tmp/kiln_rows_XXXXXX";
    int file = mkstemp(path);
    scene self;
    if (scene_init(&self, &references, 1) && KILN_CHECK(file >= 0) && submit_all(&self) &&
        step(&self)) {
        KILN_CHECK_INT(kiln_params_save(self.params[0], path, NULL), 0);
        KILN_CHECK_INT(kiln_params_load(self.params[1], path, NULL), 0); // over what is on its way
        KILN_CHECK_INT(rows_on_their_way(&self, 1), 0);
        expect_all(&self, 1);
        KILN_CHECK(submit_all(&self) && step(&self));
        kiln_error err = KILN_ERROR_INIT;
        passes(kiln_params_broadcast(self.group, self.params, MEMBERS, 0, &err), &err);
        expect_all(&self, 2);
    }
    (void)remove(path);
    scene_fini(&self);
}

// ---- from tapes ----

/// The sum of all parameters' elements, p + 2 * member times.
static kiln_status lose(const scene *self, size_t member, kiln_tape *tape, kiln_tensor **out_loss,
                        kiln_error *err)
{
    const int64_t axis = 0;
    kiln_tensor *sum = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (size_t p = 0; p < PARAMS; p++) {
        kiln_tensor *value = kiln_params_tensor(self->params[member], p);
        kiln_tensor *scaled = NULL;
        kiln_tensor *part = NULL;
        kiln_tensor *total = NULL;
        KILN_TRY(out, status, kiln_tape_track(tape, value, err));
        KILN_TRY(out, status,
                 kiln_mul_scalar(value, kiln_f64((double)(p + 2 * member)), &scaled, err));
        status = kiln_sum(scaled, &axis, 1, false, &part, err);
        kiln_release(scaled);
        if (status == KILN_STATUS_OK && sum != NULL) {
            status = kiln_add(sum, part, &total, err);
            kiln_release(part);
            kiln_release(sum);
            sum = total;
        } else {
            sum = part;
        }
        KILN_TRY(out, status, status);
    }
    *out_loss = sum;
    sum = NULL;
out:
    kiln_release(sum);
    return status;
}

/// A step from tapes of its own.
static bool step_tapes(const scene *self)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_tape *tapes[MEMBERS] = {NULL};
    kiln_tensor *losses[MEMBERS] = {NULL};
    bool ok = true;
    for (size_t m = 0; m < MEMBERS && ok; m++) {
        ok = passes(kiln_tape_create(self->set.devices[m], &tapes[m], &err), &err) &&
             passes(kiln_sharded_join(self->sharded, m, tapes[m], &err), &err) &&
             passes(lose(self, m, tapes[m], &losses[m], &err), &err);
    }
    ok = ok && passes(kiln_backward_all(tapes, losses, MEMBERS, &err), &err) && step(self);
    for (size_t m = 0; m < MEMBERS; m++) {
        kiln_release(losses[m]);
        kiln_tape_destroy(tapes[m]);
    }
    return ok;
}

static void test_tapes(void)
{
    scene self;
    if (scene_init(&self, kiln_test_param(), 1) && step_tapes(&self) && step_tapes(&self)) {
        expect_all(&self, 2);
    }
    scene_fini(&self);
}

/// A function gets each leaf's gradient once, the last used first, and the tape forgets it.
typedef struct taken {
    size_t count;
    kiln_param_id ids[PARAMS];
    bool fails;
} taken;

static kiln_status take(void *user, kiln_tensor *leaf, kiln_tensor *gradient, kiln_error *err)
{
    taken *self = user;
    if (self->fails) {
        return kiln_fail(err, ABORTED, "not taken");
    }
    if (KILN_CHECK(self->count < PARAMS)) {
        self->ids[self->count++] = kiln_tensor_param(leaf);
        KILN_CHECK_INT(kiln_tensor_param(gradient), kiln_tensor_param(leaf));
        KILN_CHECK_INT(kiln_tensor_count(gradient), kiln_tensor_count(leaf));
    }
    return KILN_STATUS_OK;
}

static void test_hand(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_tape *tape = NULL;
    taken got = {0};
    scene self;
    bool ok = scene_init(&self, &references, 0) &&
              passes(kiln_tape_create(self.set.devices[1], &tape, &err), &err) &&
              passes(kiln_tape_hand(tape, take, &got, &err), &err);
    for (int round = 0; round < 3 && ok; round++) {
        kiln_tensor *loss = NULL;
        kiln_tensor *gradient = NULL;
        float found[MOST] = {9};
        got = (taken){.fails = round == 1};
        ok = round < 2 || passes(kiln_tape_hand(tape, NULL, NULL, &err), &err);
        ok = ok && passes(lose(&self, 1, tape, &loss, &err), &err);
        if (round == 1) {
            KILN_CHECK_INT(kiln_backward(tape, loss, NULL, &err), KILN_STATUS_ABORTED);
        } else {
            ok = ok && passes(kiln_backward(tape, loss, NULL, &err), &err);
            KILN_CHECK_INT(got.count, round == 0 ? PARAMS : 0);
        }
        for (size_t p = 0; p < got.count; p++) {
            KILN_CHECK_INT(got.ids[p],
                           kiln_tensor_param(kiln_params_tensor(self.params[1], PARAMS - 1 - p)));
        }
        ok = ok &&
             passes(kiln_gradient(tape, kiln_params_tensor(self.params[1], 1), &gradient, &err),
                    &err);
        KILN_CHECK_INT(kiln_read(gradient, found, 6 * sizeof(found[0]), NULL), 0);
        KILN_CHECK(found[0] == (round == 2 ? 3 : 0));
        kiln_release(gradient);
        kiln_release(loss);
    }
    KILN_CHECK_INT(kiln_tape_hand(NULL, take, &got, &err), KILN_STATUS_INVALID_ARGUMENT);
    kiln_tape_destroy(tape);
    scene_fini(&self);
}

/// A row takes parameters until it is long enough, so that small ones between large ones make no
/// rows of their own; without a wish the length follows from all parameters.
static void test_row_lengths(void)
{
    static const int64_t elems[] = {10, 1, 1, 10, 1};
    enum { COUNT = sizeof(elems) / sizeof(elems[0]) };
    kiln_error err = KILN_ERROR_INIT;
    kilni_shard_layout layout = {0};
    device_set set;
    kiln_params *params = NULL;
    if (device_set_open(&set, references.addresses, 1) &&
        passes(kiln_params_create(set.devices[0], 0, &params, &err), &err)) {
        for (size_t p = 0; p < COUNT; p++) {
            const char name[] = {'w', (char)('0' + p), '\0'};
            KILN_CHECK_INT(kiln_params_add(params, name, KILN_DTYPE_F32, 1, &elems[p], NULL, NULL),
                           0);
        }
        KILN_CHECK_INT(kilni_shard_layout_init(params, 2, 4 * sizeof(float), &layout, &err), 0);
        KILN_CHECK_INT(layout.n_rows, 2);
        KILN_CHECK_INT(layout.rows[0].elems, 11);
        KILN_CHECK_INT(layout.rows[1].elems, 12);
        kilni_shard_layout_fini(&layout);
        KILN_CHECK_INT(kilni_shard_layout_init(params, 2, 0, &layout, &err), 0);
        KILN_CHECK_INT(layout.n_rows, 1);
        kilni_shard_layout_fini(&layout);
    }
    kiln_params_destroy(params);
    device_set_close(&set);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST_PARAM(test_rows_go_early, "rows go early, reference", &references),
        KILN_TEST(test_refusals),
        KILN_TEST_PARAM(test_late, "late, reference", &references),
        KILN_TEST(test_late_files),
        KILN_TEST_PARAM(test_tapes, "tapes, reference", &references),
        KILN_TEST(test_hand),
        KILN_TEST(test_row_lengths),
#ifdef TEST_WITH_OPENCL
        KILN_TEST_PARAM(test_rows_go_early, "rows go early, opencl", &devices),
        KILN_TEST_PARAM(test_late, "late, opencl", &devices),
        KILN_TEST_PARAM(test_tapes, "tapes, opencl", &devices),
#endif
    };
    setenv("POCL_DEVICES", "pthread pthread", 1); // read once, before the first OpenCL call
    return kiln_test_run("unit/autodiff/sharded/sharded_rows", cases,
                         sizeof(cases) / sizeof(cases[0]), argc, argv);
}
