// SPDX-License-Identifier: MIT OR Apache-2.0
// An optimiser whose state is shared out against one on a single device with the averaged
// gradients: rules, clipping, schedules, captured steps, dtypes, odd lengths, many parameters; what
// all members must decide alike; what is saved; that state takes a part of the memory; refusals.
#include "collective.h"
#include "device_set.h"
#include "harness.h"
#include "kiln_train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4, MOST_PARAMS = 70, MOST_ELEMS = 4099, STEPS = 4 };

typedef struct setting {
    uint32_t count;
    const char *addresses[MOST];
} setting;

static const setting references = {3, {"reference:0", "reference:1", "reference:2"}};
static const setting four = {4, {"reference:0", "reference:1", "reference:2", "reference:3"}};
static const setting single = {1, {"reference:0"}};
#ifdef TEST_WITH_OPENCL
static const setting subdevices = {4, {"opencl:0#0/2", "opencl:0#1/2", "opencl:1", "opencl:2"}};
static const setting mixed = {2, {"opencl:1", "reference:0"}};
#endif

/// Parameters of a model.
typedef struct model {
    size_t count;
    int64_t elems[MOST_PARAMS];
    kiln_dtype dtypes[MOST_PARAMS];
} model;

static const model odd = {
    5,
    {12, 5, 0, 1, 7},
    {KILN_DTYPE_F32, KILN_DTYPE_F32, KILN_DTYPE_F32, KILN_DTYPE_F32, KILN_DTYPE_F32}};
static const model two_dtypes = {
    4, {3, 2, 8, 6}, {KILN_DTYPE_F32, KILN_DTYPE_F64, KILN_DTYPE_F32, KILN_DTYPE_F64}};
static const model large = {1, {MOST_ELEMS}, {KILN_DTYPE_F32}};

typedef struct scene {
    uint32_t count;
    const model *what;
    device_set set;
    kiln_collective *group;
    kiln_params *sets[MOST];
    kiln_sharded *sharded;
    kiln_params *alone; ///< on device 0, with an ordinary optimiser
    kiln_optimiser *optimiser;
} scene;

static bool ok_or_fail(kiln_status status, const kiln_error *err)
{
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s", err->message);
    }
    return status == KILN_STATUS_OK;
}

static kiln_tensor *make(kiln_device *device, const model *what, size_t p,
                         double (*number)(uint32_t member, size_t p, int64_t i, int step),
                         uint32_t member, int step)
{
    static double wide[MOST_ELEMS];
    static float narrow[MOST_ELEMS];
    bool is_wide = what->dtypes[p] == KILN_DTYPE_F64;
    kiln_tensor *tensor = NULL;
    for (int64_t i = 0; i < what->elems[p]; i++) {
        wide[i] = number(member, p, i, step);
        narrow[i] = (float)wide[i];
    }
    KILN_CHECK_INT(kiln_tensor_create(device, what->dtypes[p], 1, &what->elems[p],
                                      is_wide ? (const void *)wide : narrow, &tensor, NULL),
                   0);
    return tensor;
}

static double first_value(uint32_t member, size_t p, int64_t i, int step)
{
    (void)member;
    (void)step;
    return sin((double)p + 0.7 * (double)i);
}

/// Sums of these over up to four members are exact, whatever the order.
static double gradient_of(uint32_t member, size_t p, int64_t i, int step)
{
    return (double)((i * 5 + (int64_t)p * 3 + member * 7 + (uint32_t)step * 11) % 31 - 15) / 8;
}

static uint32_t members; ///< that a mean is of
static uint64_t bucket_bytes; ///< 0: the default, which is one row for each dtype here

static double mean_gradient(uint32_t member, size_t p, int64_t i, int step)
{
    double sum = 0;
    (void)member;
    for (uint32_t m = 0; m < members; m++) {
        sum += gradient_of(m, p, i, step);
    }
    return sum / members;
}

static kiln_params *make_params(kiln_device *device, const model *what)
{
    kiln_params *params = NULL;
    KILN_CHECK_INT(kiln_params_create(device, 0, &params, NULL), 0);
    for (size_t p = 0; p < what->count; p++) {
        char name[16];
        kiln_tensor *tensor = make(device, what, p, first_value, 0, 0);
        snprintf(name, sizeof(name), "p%zu", p);
        KILN_CHECK_INT(kiln_params_add_tensor(params, name, tensor, NULL), 0);
        kiln_release(tensor);
    }
    return params;
}

static bool scene_init(scene *self, const setting *where, const model *what,
                       const kiln_optimiser_options *options)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_sharded_options shared = KILN_SHARDED_OPTIONS_INIT;
    shared.optimiser = options;
    shared.bucket_bytes = bucket_bytes;
    *self = (scene){.count = where->count, .what = what};
    members = where->count;
    if (!device_set_open(&self->set, where->addresses, where->count) ||
        !ok_or_fail(
            kiln_collective_create(self->set.devices, where->count, NULL, &self->group, &err),
            &err)) {
        return false;
    }
    for (uint32_t m = 0; m < self->count; m++) {
        self->sets[m] = make_params(self->set.devices[m], what);
    }
    self->alone = make_params(self->set.devices[0], what);
    return ok_or_fail(kiln_sharded_create(self->group, self->sets, self->count, &shared,
                                          &self->sharded, &err),
                      &err) &&
           ok_or_fail(kiln_optimiser_create(self->alone, options, &self->optimiser, &err), &err);
}

static void scene_fini(scene *self)
{
    kiln_sharded_destroy(self->sharded);
    kiln_optimiser_destroy(self->optimiser);
    kiln_params_destroy(self->alone);
    for (uint32_t m = 0; m < self->count; m++) {
        kiln_params_destroy(self->sets[m]);
    }
    kiln_collective_destroy(self->group);
    device_set_close(&self->set);
}

// ---- steps ----

static void make_gradients(const scene *self, int step, kiln_tensor **out_gradients)
{
    for (size_t i = 0; i < self->count * self->what->count; i++) {
        uint32_t member = (uint32_t)(i / self->what->count);
        out_gradients[i] = make(self->set.devices[member], self->what, i % self->what->count,
                                gradient_of, member, step);
    }
}

static void release_all(kiln_tensor **tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kiln_release(tensors[i]);
        tensors[i] = NULL;
    }
}

static bool step_sharded(const scene *self, int step)
{
    kiln_tensor *gradients[MOST * MOST_PARAMS];
    kiln_error err = KILN_ERROR_INIT;
    size_t count = self->count * self->what->count;
    make_gradients(self, step, gradients);
    bool ok = ok_or_fail(kiln_sharded_step(self->sharded, gradients, count, &err), &err);
    release_all(gradients, count);
    return ok;
}

static bool step_alone(const scene *self, int step)
{
    kiln_tensor *gradients[MOST_PARAMS];
    kiln_error err = KILN_ERROR_INIT;
    for (size_t p = 0; p < self->what->count; p++) {
        gradients[p] = make(self->set.devices[0], self->what, p, mean_gradient, 0, step);
    }
    bool ok =
        ok_or_fail(kiln_optimiser_step(self->optimiser, gradients, self->what->count, &err), &err);
    release_all(gradients, self->what->count);
    return ok;
}

/// A parameter's elements; returns their bytes.
static size_t read_param(const kiln_params *params, size_t p, double *out_data)
{
    kiln_tensor *tensor = kiln_params_tensor(params, p);
    size_t bytes = kiln_tensor_bytes(tensor);
    KILN_CHECK_INT(kiln_read(tensor, out_data, bytes, NULL), 0);
    return bytes;
}

static double element(kiln_dtype dtype, const double *data, int64_t i)
{
    return dtype == KILN_DTYPE_F64 ? data[i] : (double)((const float *)data)[i];
}

/// All members have the same bits, and those of the ordinary optimiser up to rounding.
static bool check_values(const scene *self)
{
    static double first[MOST_ELEMS];
    static double other[MOST_ELEMS];
    bool ok = true;
    bool moved = false;
    for (size_t p = 0; p < self->what->count && ok; p++) {
        kiln_dtype dtype = self->what->dtypes[p];
        size_t bytes = read_param(self->sets[0], p, first);
        ok = KILN_CHECK_INT(bytes, (size_t)self->what->elems[p] * kiln_dtype_size(dtype));
        for (uint32_t m = 1; m < self->count && ok; m++) {
            ok = KILN_CHECK_INT(read_param(self->sets[m], p, other), bytes) &&
                 KILN_CHECK_MEM(other, first, bytes);
        }
        read_param(self->alone, p, other);
        for (int64_t i = 0; i < self->what->elems[p] && ok; i++) {
            double wanted = element(dtype, other, i);
            double got = element(dtype, first, i);
            moved = moved || fabs(got - first_value(0, p, i, 0)) > 1e-3;
            ok = KILN_CHECK(fabs(got - wanted) <= 2e-6 * (1 + fabs(wanted)));
        }
    }
    return ok && KILN_CHECK(moved);
}

typedef struct rule_case {
    kiln_optimiser_rule rule;
    double momentum;
    uint32_t nesterov;
    uint32_t captured;
    double decay;
    double clip;
} rule_case;

static void run_case(const setting *where, const model *what, const rule_case *how)
{
    kiln_schedule schedule = KILN_SCHEDULE_INIT;
    kiln_optimiser_options options = KILN_OPTIMISER_OPTIONS_INIT;
    scene self;
    schedule.kind = KILN_SCHEDULE_COSINE;
    schedule.steps = 10;
    options.rule = how->rule;
    options.rate = 0.01;
    options.momentum = how->momentum;
    options.nesterov = how->nesterov;
    options.captured = how->captured;
    options.decay = how->decay;
    options.clip = how->clip;
    options.schedule = &schedule;
    bool ok = scene_init(&self, where, what, &options);
    for (int step = 0; step < STEPS && ok; step++) {
        ok = step_sharded(&self, step) && step_alone(&self, step);
    }
    if (ok && check_values(&self)) {
        const kiln_optimiser *part = kiln_sharded_optimiser(self.sharded, self.count - 1);
        KILN_CHECK_INT(kiln_optimiser_steps(part), STEPS);
        KILN_CHECK(kiln_optimiser_rate(part) == kiln_optimiser_rate(self.optimiser));
    }
    scene_fini(&self);
}

static void test_rules(void)
{
    static const rule_case cases[] = {
        {KILN_OPTIMISER_SGD, 0, 0, 0, 0, 0},      {KILN_OPTIMISER_SGD, 0.9, 1, 0, 0.1, 0},
        {KILN_OPTIMISER_ADAM, 0, 0, 0, 0.1, 0},   {KILN_OPTIMISER_ADAMW, 0, 0, 0, 0.1, 0.5},
        {KILN_OPTIMISER_LION, 0, 0, 0, 0.1, 0},   {KILN_OPTIMISER_ADAMW, 0, 0, 1, 0.1, 0},
        {KILN_OPTIMISER_SGD, 0.9, 0, 1, 0, 0.25},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        run_case(kiln_test_param(), &odd, &cases[i]);
    }
}

/// Those that differ in what is launched.
static void test_some_rules(void)
{
    static const rule_case clipped = {KILN_OPTIMISER_ADAMW, 0, 0, 0, 0.1, 0.5};
    static const rule_case captured = {KILN_OPTIMISER_SGD, 0.9, 1, 1, 0, 0};
    run_case(kiln_test_param(), &odd, &clipped);
    run_case(kiln_test_param(), &odd, &captured);
}

static void test_dtypes(void)
{
    static const rule_case clipped = {KILN_OPTIMISER_ADAMW, 0, 0, 0, 0.1, 0.5};
    run_case(&references, &two_dtypes, &clipped);
}

/// More than one operation joins.
static void test_many_parameters(void)
{
    static const rule_case momentum = {KILN_OPTIMISER_SGD, 0.9, 0, 0, 0, 0};
    static model many = {.count = MOST_PARAMS};
    for (size_t p = 0; p < MOST_PARAMS; p++) {
        many.elems[p] = (int64_t)(p % 4) + 1;
        many.dtypes[p] = KILN_DTYPE_F32;
    }
    run_case(kiln_test_param(), &many, &momentum);
}

// ---- what all members decide alike ----

/// One member's gradient is infinite, in an element of another one's part: nobody makes the step.
static void test_scaled_loss(void)
{
    kiln_optimiser_options options = KILN_OPTIMISER_OPTIONS_INIT;
    kiln_tensor *gradients[MOST * MOST_PARAMS] = {NULL};
    scene self;
    options.rate = 0.01;
    options.rule = KILN_OPTIMISER_ADAMW;
    options.clip = 0.5;
    options.loss_scale = 1; // gradients as they are: dividing by a power of two rounds nothing
    bool ok = scene_init(&self, &references, &odd, &options);
    size_t count = self.count * self.what->count;
    if (ok) {
        static double before[MOST_ELEMS];
        static double after[MOST_ELEMS];
        float bad[12] = {0};
        kiln_error err = KILN_ERROR_INIT;
        size_t bytes = read_param(self.sets[0], 0, before);
        make_gradients(&self, 0, gradients);
        kiln_release(gradients[self.what->count]); // of member 1
        gradients[self.what->count] = NULL;
        bad[0] = INFINITY;
        ok = KILN_CHECK_INT(kiln_tensor_create(self.set.devices[1], KILN_DTYPE_F32, 1,
                                               &self.what->elems[0], bad,
                                               &gradients[self.what->count], NULL),
                            0) &&
             ok_or_fail(kiln_sharded_step(self.sharded, gradients, count, &err), &err);
        read_param(self.sets[2], 0, after);
        KILN_CHECK_MEM(after, before, bytes);
        release_all(gradients, count);
    }
    for (uint32_t m = 0; m < self.count && ok; m++) {
        const kiln_optimiser *part = kiln_sharded_optimiser(self.sharded, m);
        KILN_CHECK_INT(kiln_optimiser_skipped(part), 1);
        KILN_CHECK_INT(kiln_optimiser_steps(part), 0);
        KILN_CHECK(kiln_optimiser_loss_scale(part) == 0.5);
    }
    scene_fini(&self);
}

/// The step divides by the scale: half the loss scale means twice the gradient.
static void test_good_steps_with_scale(void)
{
    kiln_optimiser_options options = KILN_OPTIMISER_OPTIONS_INIT;
    static double got[MOST_ELEMS];
    scene self;
    options.rule = KILN_OPTIMISER_SGD;
    options.rate = 1;
    options.loss_scale = 0.5;
    if (scene_init(&self, &references, &odd, &options) && step_sharded(&self, 0)) {
        read_param(self.sets[1], 0, got);
        for (int64_t i = 0; i < self.what->elems[0]; i++) {
            double wanted = first_value(0, 0, i, 0) - 2 * mean_gradient(0, 0, i, 0);
            KILN_CHECK(fabs(element(KILN_DTYPE_F32, got, i) - wanted) < 1e-5);
        }
        KILN_CHECK_INT(kiln_optimiser_steps(kiln_sharded_optimiser(self.sharded, 2)), 1);
    }
    scene_fini(&self);
}

// ---- state ----

static void name_file(char *out_path, size_t size, uint32_t member)
{
    snprintf(out_path, size, "/tmp/kiln_sharded_%ld_%u.safetensors", (long)getpid(), member);
}

/// Parts that are saved go on bit for bit in others that load them.
static void test_saved_parts(void)
{
    kiln_optimiser_options options = KILN_OPTIMISER_OPTIONS_INIT;
    static double wanted[MOST_ELEMS];
    static double got[MOST_ELEMS];
    scene self;
    scene again;
    options.rule = KILN_OPTIMISER_ADAMW;
    bool ok = scene_init(&self, &references, &odd, &options) && step_sharded(&self, 0) &&
              step_sharded(&self, 1);
    bool opened = scene_init(&again, &references, &odd, &options);
    for (uint32_t m = 0; m < self.count && ok && opened; m++) {
        char path[96];
        kiln_error err = KILN_ERROR_INIT;
        name_file(path, sizeof(path), m);
        ok = ok_or_fail(kiln_optimiser_save(kiln_sharded_optimiser(self.sharded, m), path, &err),
                        &err) &&
             ok_or_fail(kiln_optimiser_load(kiln_sharded_optimiser(again.sharded, m), path, &err),
                        &err);
        if (m == 0) { // parameters are all members'
            ok = ok && ok_or_fail(kiln_params_save(self.sets[0], path, &err), &err);
            for (uint32_t k = 0; k < again.count && ok; k++) {
                ok = ok_or_fail(kiln_params_load(again.sets[k], path, &err), &err);
            }
        }
        unlink(path);
    }
    ok = ok && opened && step_sharded(&self, 2) && step_sharded(&again, 2);
    for (size_t p = 0; p < odd.count && ok; p++) {
        size_t bytes = read_param(self.sets[1], p, wanted);
        read_param(again.sets[2], p, got);
        ok = KILN_CHECK_MEM(got, wanted, bytes);
    }
    scene_fini(&again);
    scene_fini(&self);
}

static size_t bytes_on(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    KILN_CHECK_INT(kiln_sync(device, NULL), 0);
    kiln_device_stats_get(device, &stats);
    return (size_t)stats.backend.bytes_used;
}

/// Of Adam's two moments each of four members keeps a quarter.
static void test_memory(void)
{
    kiln_optimiser_options options = KILN_OPTIMISER_OPTIONS_INIT;
    options.rule = KILN_OPTIMISER_ADAM;
    const size_t whole = MOST_ELEMS * sizeof(float);
    scene self;
    if (scene_init(&self, &four, &large, &options)) { // device 1 has nothing else
        size_t params = kiln_params_bytes(self.sets[1]);
        KILN_CHECK_INT(params, whole);
        KILN_CHECK(bytes_on(self.set.devices[1]) <= params + 3 * (whole / 4 + 64));
        KILN_CHECK(bytes_on(self.set.devices[1]) >= params + 2 * (whole / 4));
    }
    scene_fini(&self);
}

/// The same in several rows for a dtype.
static void test_rows(void)
{
    bucket_bytes = 40;
    test_rules();
    test_dtypes();
    test_saved_parts();
    test_scaled_loss();
    bucket_bytes = 0;
}

// ---- refusals ----

static void refused(kiln_status status, const kiln_error *err, const char *word)
{
    KILN_CHECK_INT(status, KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err->message, word);
}

static void test_refusals(void)
{
    kiln_optimiser_options wrong = KILN_OPTIMISER_OPTIONS_INIT;
    kiln_sharded_options shared = KILN_SHARDED_OPTIONS_INIT;
    kiln_tensor *gradients[MOST * MOST_PARAMS] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    kiln_sharded *none = NULL;
    scene self;
    wrong.rate = -1;
    shared.optimiser = &wrong;
    if (scene_init(&self, &references, &odd, NULL)) {
        kiln_params *swapped[MOST] = {self.sets[1], self.sets[0], self.sets[2]};
        kiln_params *missing[MOST] = {self.sets[0], NULL, self.sets[2]};
        size_t count = self.count * self.what->count;
        refused(kiln_sharded_create(NULL, self.sets, 3, NULL, &none, &err), &err, "NULL");
        refused(kiln_sharded_create(self.group, NULL, 3, NULL, &none, &err), &err, "needs sets");
        refused(kiln_sharded_create(self.group, self.sets, 3, NULL, NULL, &err), &err, "NULL");
        refused(kiln_sharded_create(self.group, self.sets, 2, NULL, &none, &err), &err, "2 sets");
        refused(kiln_sharded_create(self.group, swapped, 3, NULL, &none, &err), &err,
                "another device");
        refused(kiln_sharded_create(self.group, missing, 3, NULL, &none, &err), &err, "set 1");
        refused(kiln_sharded_create(self.group, self.sets, 3, &shared, &none, &err), &err, "rate");
        KILN_CHECK(none == NULL);
        make_gradients(&self, 0, gradients);
        refused(kiln_sharded_step(NULL, gradients, count, &err), &err, "0 parameters");
        refused(kiln_sharded_step(self.sharded, NULL, count, &err), &err, "0 gradients");
        refused(kiln_sharded_step(self.sharded, gradients, count - 1, &err), &err, "14 gradients");
        kiln_tensor *kept = gradients[6];
        gradients[6] = NULL;
        refused(kiln_sharded_step(self.sharded, gradients, count, &err), &err, "member 1");
        gradients[6] = gradients[0]; // another length, another device
        refused(kiln_sharded_step(self.sharded, gradients, count, &err), &err, "p1");
        gradients[6] = kept;
        KILN_CHECK(kiln_sharded_optimiser(self.sharded, 3) == NULL);
        KILN_CHECK(kiln_sharded_optimiser(NULL, 0) == NULL);
        KILN_CHECK_INT(kiln_optimiser_steps(kiln_sharded_optimiser(self.sharded, 0)), 0);
        KILN_CHECK_INT(kiln_sharded_step(self.sharded, gradients, count, NULL), KILN_STATUS_OK);
        release_all(gradients, count);
    }
    scene_fini(&self);
    kiln_sharded_destroy(NULL);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST_PARAM(test_rules, "rules, reference", &references),
        KILN_TEST_PARAM(test_rules, "rules, one member", &single),
        KILN_TEST_PARAM(test_many_parameters, "many parameters, reference", &references),
        KILN_TEST(test_dtypes),
        KILN_TEST_PARAM(test_rows, "several rows, reference", &references),
        KILN_TEST(test_scaled_loss),
        KILN_TEST(test_good_steps_with_scale),
        KILN_TEST(test_saved_parts),
        KILN_TEST(test_memory),
        KILN_TEST(test_refusals),
#ifdef TEST_WITH_OPENCL
        KILN_TEST_PARAM(test_some_rules, "rules, subdevices", &subdevices),
        KILN_TEST_PARAM(test_some_rules, "rules, mixed", &mixed),
        KILN_TEST_PARAM(test_many_parameters, "many parameters, mixed", &mixed),
#endif
    };
    setenv("POCL_DEVICES", "pthread pthread pthread pthread",
           1); // read once, before the first OpenCL call
    return kiln_test_run("unit/autodiff/sharded/sharded", cases, sizeof(cases) / sizeof(cases[0]),
                         argc, argv);
}
