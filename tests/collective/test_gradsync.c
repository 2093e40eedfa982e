// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradient synchronisation: sums and means over the members that took part, epochs in any order of
// calls, accumulation, uneven rounds, and who waits.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gradsync_scene.h"
#include "harness.h"

#ifdef TEST_WITH_OPENCL
static const char *const mixed[MEMBERS] = {"opencl:0", "reference:0", "opencl:1", "reference:1"};
#ifdef TEST_WITH_REMOTE
static const char *const far[MEMBERS] = {"opencl:0", "remote", "reference:0", "opencl:1"};
#endif
#endif

// ---- values ----

/// Three epochs of many small parameters and two large ones, from one thread.
static void run_epochs(const char *const *addresses, const char *op)
{
    enum { SMALL = 40, PARAMS = SMALL + 2 };
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    kiln_param_id ids[PARAMS];
    scene self;
    options.op = op;
    options.bucket_bytes = 4096;
    float divisor = strcmp(op, "mean") == 0 ? MEMBERS : 1;
    bool ok = scene_open(&self, addresses, &options);
    for (uint32_t p = 0; p < PARAMS; p++) {
        ids[p] = 1000 + p * 17;
    }
    for (int epoch = 0; epoch < 3 && ok; epoch++) {
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            ok = KILN_CHECK_INT(kiln_gradsync_register(self.job, m, ids, PARAMS, NULL), 0);
        }
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            for (uint32_t p = 0; p < PARAMS && ok; p++) { // each member in another order
                uint32_t q = (p * 5 + m * 7) % PARAMS;
                int64_t count = q < SMALL ? 2 + q : 3001;
                ok = KILN_CHECK_INT(
                    submit(&self, m, ids[q], count, (float)(m + q + (uint32_t)epoch), NULL), 0);
            }
        }
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            ok = KILN_CHECK_INT(kiln_gradsync_sync(self.job, m, NULL), 0);
            for (uint32_t p = 0; p < PARAMS && ok; p++) {
                float sum = (float)(MEMBERS * (p + (uint32_t)epoch) + 6); // 0 + 1 + 2 + 3
                ok = check_gradient(&self, m, ids[p], p < SMALL ? 2 + p : 3001, sum / divisor,
                                    MEMBERS / divisor);
            }
        }
    }
    scene_close(&self);
}

static void test_epochs(void)
{
    run_epochs(gradsync_references, "sum");
    run_epochs(gradsync_references, "mean");
#ifdef TEST_WITH_OPENCL
    run_epochs(mixed, "mean");
#ifdef TEST_WITH_REMOTE
    run_epochs(far, "sum");
#endif
#endif
}

/// Parameters of three members, of one and of all; a member without any.
static void test_participants(void)
{
    static const uint64_t sets[] = {0x7, 0xe, 0x2, 0x6, 0x7};
    enum { PARAMS = sizeof(sets) / sizeof(sets[0]) };
    scene self;
    bool ok = scene_open(&self, gradsync_references, NULL);
    for (int epoch = 0; epoch < 2 && ok; epoch++) {
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            kiln_param_id ids[PARAMS];
            size_t count = 0;
            for (uint32_t p = 0; p < PARAMS; p++) {
                ids[count] = p + 1;
                count += (sets[p] >> m & 1) != 0 && (epoch == 0 || m != 3); // then none at all
            }
            ok = KILN_CHECK_INT(kiln_gradsync_register(self.job, m, ids, count, NULL), 0);
            for (size_t i = 0; i < count && ok; i++) {
                ok = KILN_CHECK_INT(submit(&self, m, ids[i], 9, (float)(m * 12), NULL), 0);
            }
        }
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            ok = KILN_CHECK_INT(kiln_gradsync_sync(self.job, m, NULL), 0);
            for (uint32_t p = 0; p < PARAMS && ok; p++) {
                uint64_t members = epoch == 0 ? sets[p] : sets[p] & 0x7;
                float sum = 0;
                float count = 0;
                for (uint32_t k = 0; k < MEMBERS; k++) {
                    sum += (members >> k & 1) != 0 ? (float)(k * 12) : 0;
                    count += (members >> k & 1) != 0;
                }
                if ((members >> m & 1) != 0) {
                    ok = check_gradient(&self, m, p + 1, 9, sum / count, 1);
                } else {
                    kiln_tensor *none = NULL;
                    ok = KILN_CHECK_INT(kiln_gradsync_gradient(self.job, m, p + 1, &none, NULL),
                                        KILN_STATUS_NOT_FOUND);
                }
            }
        }
    }
    scene_close(&self);
}

/// Members sync between epochs, and in the middle of others' epochs, without having registered:
/// that means nothing to anybody.
static void test_unrelated_syncs(void)
{
    const kiln_param_id id = 3;
    scene self;
    bool ok = scene_open(&self, gradsync_references, NULL);
    for (int epoch = 0; epoch < 3 && ok; epoch++) {
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            for (uint32_t k = m; k < MEMBERS && ok; k++) {
                ok = KILN_CHECK_INT(kiln_gradsync_sync(self.job, k, NULL), 0);
            }
            ok = ok && KILN_CHECK_INT(kiln_gradsync_register(self.job, m, &id, 1, NULL), 0) &&
                 KILN_CHECK_INT(submit(&self, m, id, 4, (float)m, NULL), 0);
        }
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            ok = KILN_CHECK_INT(kiln_gradsync_sync(self.job, m, NULL), 0) &&
                 KILN_CHECK_INT(kiln_gradsync_sync(self.job, m, NULL), 0) &&
                 check_gradient(&self, m, id, 4, 1.5f, 1);
        }
    }
    scene_close(&self);
}

/// Two batches are added up on each member and nothing is sent; the third is submitted. Divided by
/// the members, three of four, not by the batches.
static void test_accumulation(void)
{
    const kiln_param_id id = 5;
    scene self;
    bool ok = scene_open(&self, gradsync_references, NULL);
    for (uint32_t m = 0; m < MEMBERS && ok; m++) {
        for (int batch = 0; batch < 2 && ok && m < 3; batch++) {
            kiln_tensor *part = gradient(&self, m, id, 6, (float)(m + 1));
            ok = KILN_CHECK_INT(kiln_gradsync_accumulate(self.job, m, part, NULL), 0);
            kiln_release(part);
        }
        ok = ok && KILN_CHECK_INT(kiln_gradsync_register(self.job, m, &id, m < 3, NULL), 0);
        ok = ok && (m == 3 || KILN_CHECK_INT(submit(&self, m, id, 6, (float)(m + 1), NULL), 0));
    }
    for (uint32_t m = 0; m < MEMBERS && ok; m++) {
        ok = KILN_CHECK_INT(kiln_gradsync_sync(self.job, m, NULL), 0) &&
             (m == 3 || check_gradient(&self, m, id, 6, 3.0f * (1 + 2 + 3) / 3, 3));
    }
    scene_close(&self);
}

/// Members have 3, 2, 2 and 1 batches; a second round is even.
static void test_uneven_rounds(void)
{
    static const int batches[] = {3, 2, 2, 1};
    const kiln_param_id id = 77;
    scene self;
    bool ok = scene_open(&self, gradsync_references, NULL);
    for (int round = 0; round < 2; round++) {
        for (int step = 0; step < 3 && ok; step++) {
            uint32_t taking = 0;
            for (uint32_t m = 0; m < MEMBERS && ok; m++) {
                int has = round == 0 ? batches[m] : 3;
                if (step < has) {
                    taking++;
                    ok = KILN_CHECK_INT(kiln_gradsync_register(self.job, m, &id, 1, NULL), 0) &&
                         KILN_CHECK_INT(submit(&self, m, id, 1, (float)(m + 1), NULL), 0);
                } else if (step == has) {
                    ok = KILN_CHECK_INT(kiln_gradsync_finish(self.job, m, NULL), 0);
                }
            }
            float sum = (float)(taking * (taking + 1) / 2); // the last ones stop first
            for (uint32_t m = 0; m < taking && ok; m++) {
                ok = KILN_CHECK_INT(kiln_gradsync_sync(self.job, m, NULL), 0) &&
                     check_gradient(&self, m, id, 1, sum / (float)taking, 1);
            }
        }
        for (uint32_t m = 0; m < MEMBERS && ok; m++) {
            if (round == 1 || batches[m] == 3) {
                ok = KILN_CHECK_INT(kiln_gradsync_finish(self.job, m, NULL), 0);
            }
        }
    }
    scene_close(&self);
}

// ---- any order ----

enum { ORDER_PARAMS = 3, ORDER_EPOCHS = 2, ORDER_STEPS = ORDER_PARAMS + 2 };

typedef struct walker { ///< where a member is: register, submit each in its own order, sync
    int epoch;
    int step;
    int order[ORDER_PARAMS];
} walker;

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void shuffle(walker *self, uint64_t *state)
{
    for (int i = 0; i < ORDER_PARAMS; i++) {
        int other = (int)(draw(state) % (uint64_t)(i + 1));
        self->order[i] = self->order[other];
        self->order[other] = i;
    }
}

/// Member 3 does not have parameter 1, and in the second epoch member 0 has none.
static bool takes(uint32_t member, int epoch, int param)
{
    return !(member == 3 && param == 1) && !(member == 0 && epoch == 1);
}

static float order_sum(int epoch, int param)
{
    float sum = 0;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        sum += takes(m, epoch, param) ? (float)(m * 10 + (uint32_t)(param + epoch * 3)) : 0;
    }
    return sum;
}

static bool take_step(scene *self, uint32_t member, walker *at, uint64_t *state, kiln_error *err)
{
    kiln_param_id ids[ORDER_PARAMS];
    size_t count = 0;
    if (at->step == 0) {
        for (int p = 0; p < ORDER_PARAMS; p++) {
            ids[count] = (kiln_param_id)p + 1;
            count += takes(member, at->epoch, p);
        }
        shuffle(at, state);
        return kiln_gradsync_register(self->job, member, ids, count, err) == KILN_STATUS_OK;
    }
    if (at->step <= ORDER_PARAMS) {
        int p = at->order[at->step - 1];
        float value = (float)(member * 10 + (uint32_t)(p + at->epoch * 3));
        return !takes(member, at->epoch, p) ||
               submit(self, member, (kiln_param_id)p + 1, 1, value, err) == KILN_STATUS_OK;
    }
    bool ok = kiln_gradsync_sync(self->job, member, err) == KILN_STATUS_OK;
    for (int p = 0; p < ORDER_PARAMS && ok; p++) {
        ok = !takes(member, at->epoch, p) ||
             check_gradient(self, member, (kiln_param_id)p + 1, 1, order_sum(at->epoch, p), 1);
    }
    return ok;
}

/// One order: each turn goes to a member that can go on without waiting.
static bool run_order(scene *self, uint64_t seed)
{
    walker walkers[MEMBERS] = {0};
    uint64_t state = seed * 2654435761u + 1;
    kiln_error err = KILN_ERROR_INIT;
    uint32_t left = MEMBERS;
    for (int turns = 0; left > 0; turns++) {
        uint32_t m = (uint32_t)(draw(&state) % MEMBERS);
        walker *at = &walkers[m];
        bool done = at->epoch == ORDER_EPOCHS;
        bool dependencies = at->step == ORDER_STEPS - 1 && !kiln_gradsync_ready(self->job, m);
        if (turns > 100000) {
            KILN_FAIL("order %llu does not end", (unsigned long long)seed);
            return false;
        }
        if (done || dependencies) {
            continue;
        }
        if (!take_step(self, m, at, &state, &err)) {
            KILN_FAIL("order %llu: %s", (unsigned long long)seed, err.message);
            return false;
        }
        at->step = (at->step + 1) % ORDER_STEPS;
        at->epoch += at->step == 0;
        left -= at->epoch == ORDER_EPOCHS;
    }
    return true;
}

static void test_orders(void)
{
    enum { ORDERS = 10000, PER_JOB = 50 };
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    options.op = "sum";
    options.deadline_ns = 20000000000u;
    bool ok = true;
    for (uint64_t seed = 0; seed < ORDERS && ok; seed += PER_JOB) {
        scene self;
        ok = scene_open(&self, gradsync_references, &options);
        for (uint64_t i = 0; i < PER_JOB && ok; i++) {
            ok = run_order(&self, seed + i);
        }
        scene_close(&self);
    }
}

/// As above with a mistake somewhere: a submission twice, forgotten, or of another shape. Every
/// order ends in one named error, the same for all.
static void test_orders_with_mistakes(void)
{
    enum { ORDERS = 300 };
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    options.deadline_ns = 50000000;
    bool ok = true;
    for (uint64_t seed = 0; seed < ORDERS && ok; seed++) {
        scene self;
        kiln_error errors[MEMBERS] = {KILN_ERROR_INIT};
        const kiln_param_id id = 9;
        uint64_t state = seed + 99;
        uint32_t guilty = (uint32_t)(draw(&state) % MEMBERS);
        uint32_t mistake = (uint32_t)(draw(&state) % 3);
        uint32_t first = (uint32_t)(draw(&state) % MEMBERS);
        ok = scene_open(&self, gradsync_references, &options);
        for (uint32_t i = 0; i < MEMBERS && ok; i++) {
            uint32_t m = (first + i) % MEMBERS;
            bool wrong = m == guilty;
            kiln_status status = kiln_gradsync_register(self.job, m, &id, 1, NULL);
            if (status == KILN_STATUS_OK && !(wrong && mistake == 0)) {
                status = submit(&self, m, id, wrong && mistake == 1 ? 3 : 2, 1, NULL);
            }
            if (status == KILN_STATUS_OK && wrong && mistake == 2) {
                ok = KILN_CHECK(submit(&self, m, id, 2, 1, NULL) != KILN_STATUS_OK);
            }
        }
        for (uint32_t i = 0; i < MEMBERS && ok; i++) {
            uint32_t m = (first + 2 * i + seed % 2) % MEMBERS;
            ok = KILN_CHECK(kiln_gradsync_sync(self.job, m, &errors[i]) != KILN_STATUS_OK) &&
                 KILN_CHECK_CONTAINS(errors[i].message, "member ") &&
                 KILN_CHECK_STR(errors[i].message, errors[0].message);
        }
        scene_close(&self);
    }
}

#ifdef TEST_WITH_OPENCL
/// One device is busy with what only comes later: sync returns all the same, on both, before the
/// reduction can have begun, and the gradient is right in the end.
static void test_device_waits(void)
{
    static const char *const addresses[] = {"opencl:0", "opencl:1", "reference:0"};
    enum { BOTH = 2, ALL = 3, COUNT = 1000 };
    const kiln_param_id id = 12;
    scene self = {0};
    kiln_collective *busy = NULL;
    kiln_tensor *parts[BOTH] = {NULL};
    kiln_tensor *sums[BOTH] = {NULL};
    if (device_set_open(&self.set, addresses, ALL) &&
        KILN_CHECK_INT(kiln_gradsync_start(self.set.context, "job", self.set.devices, BOTH, NULL,
                                           &self.job, NULL),
                       0) &&
        KILN_CHECK_INT(
            kiln_collective_create((kiln_device *[]){self.set.devices[0], self.set.devices[2]},
                                   BOTH, NULL, &busy, NULL),
            0)) {
        int64_t group = kiln_collective_id(busy);
        uint64_t begin = kiln_time_ns();
        for (uint32_t m = 0; m < BOTH; m++) {
            parts[m] = gradient(&self, 2 * m, 0, COUNT, (float)m);
            KILN_CHECK_INT(kiln_gradsync_register(self.job, m, &id, 1, NULL), 0);
        }
        KILN_CHECK_INT(kiln_all_reduce(parts[0], "sum", group, 0, &sums[0], NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sums[0], NULL), 0);
        for (uint32_t m = 0; m < BOTH; m++) {
            KILN_CHECK_INT(submit(&self, m, id, COUNT, (float)m, NULL), 0);
        }
        for (uint32_t m = 0; m < BOTH; m++) {
            KILN_CHECK_INT(kiln_gradsync_sync(self.job, m, NULL), 0);
        }
        KILN_CHECK(!kiln_collective_ended(sums[0]));
        KILN_CHECK(kiln_time_ns() - begin < 20000000000u); // not the deadline
        KILN_CHECK_INT(kiln_all_reduce(parts[1], "sum", group, 1, &sums[1], NULL), 0);
        KILN_CHECK_INT(kiln_collective_resolve(sums[1], NULL), 0);
        for (uint32_t m = 0; m < BOTH; m++) {
            check_gradient(&self, m, id, COUNT, 0.5f, 1);
        }
    }
    for (uint32_t m = 0; m < BOTH; m++) {
        kiln_release(parts[m]);
        kiln_release(sums[m]);
    }
    kiln_collective_destroy(busy);
    scene_close(&self);
}
#endif

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST(test_epochs),
        KILN_TEST(test_participants),
        KILN_TEST(test_unrelated_syncs),
        KILN_TEST(test_accumulation),
        KILN_TEST(test_uneven_rounds),
        KILN_TEST(test_orders),
        KILN_TEST(test_orders_with_mistakes),
#ifdef TEST_WITH_OPENCL
        KILN_TEST(test_device_waits),
#endif
    };
    setenv("POCL_DEVICES", "pthread pthread", 1); // read once, before the first OpenCL call
    return kiln_test_run("collective/gradsync", cases, sizeof(cases) / sizeof(cases[0]), argc,
                         argv);
}
