// SPDX-License-Identifier: MIT OR Apache-2.0
// lstm and gru on their kernels, against the reference and against what they stand for on the same
// device: sizes around blocks of 16 units, groups of rows, directions, inputs that are left out or
// one number; a row that is not a number stays alone; and which calls the kernels take.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attr_make.h"
#include "cl_trial.h"
#include "expand_run.h"

enum { MAX_GIVEN = 8 };

typedef struct sequence {
    kiln_op op;
    int64_t steps, batch, inputs, hidden;
    const char *direction;
    unsigned n_inputs; ///< 3 to 6: bias, initial_h, initial_c may be left out
    bool reset_after;
    bool by_number; ///< bias and initial_h are one number
} sequence;

typedef struct call { ///< a record and its operands
    kiln_op_record record;
    kiln_tensor_desc inputs[MAX_GIVEN];
    kiln_tensor_desc outputs[KILN_MAX_OUTPUTS];
    kiln_attr attrs[6];
    void *data[MAX_GIVEN];
} call;

static kiln_tensor_desc desc_of(unsigned id, uint8_t rank, int64_t a, int64_t b, int64_t c)
{
    return (kiln_tensor_desc){.id = id, .dtype = KILN_DTYPE_F32, .rank = rank, .dims = {a, b, c}};
}

static void *numbers(const kiln_tensor_desc *desc, uint32_t seed, double scale)
{
    int64_t count = kiln_desc_count(desc);
    float *data = calloc((size_t)count + 1, sizeof(*data));
    for (int64_t i = 0; data != NULL && i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)(((double)(seed >> 16) / 32768.0 - 1) * scale);
    }
    return data;
}

static bool call_init(call *c, const sequence *q)
{
    bool lstm = q->op == KILN_OP_LSTM;
    int64_t d = strcmp(q->direction, "bidirectional") == 0 ? 2 : 1;
    int64_t rows = (lstm ? 4 : 3) * q->hidden;
    uint8_t rank = q->by_number ? 0 : 3;
    double scale = 1 / sqrt((double)q->hidden);
    kiln_error err = KILN_ERROR_INIT;
    memset(c, 0, sizeof(*c));
    c->inputs[0] = desc_of(1, 3, q->steps, q->batch, q->inputs);
    c->inputs[1] = desc_of(2, 3, d, rows, q->inputs);
    c->inputs[2] = desc_of(3, 3, d, rows, q->hidden);
    c->inputs[3] = desc_of(4, q->by_number ? 0 : 2, d, 2 * rows, 0);
    c->inputs[4] = desc_of(5, rank, d, q->batch, q->hidden);
    c->inputs[5] = desc_of(6, 3, d, q->batch, q->hidden);
    c->attrs[0] = kilni_attr_text(q->direction);
    c->attrs[5] = kilni_attr_bool(q->reset_after);
    c->record = (kiln_op_record){.op = q->op,
                                 .n_inputs = (uint16_t)(!lstm && q->n_inputs > 5 ? 5 : q->n_inputs),
                                 .n_outputs = lstm ? 3 : 2,
                                 .n_attrs = 6,
                                 .inputs = c->inputs,
                                 .outputs = c->outputs,
                                 .attrs = c->attrs};
    for (unsigned i = 0; i < c->record.n_inputs; i++) {
        c->data[i] = numbers(&c->inputs[i], 77 + i, i == 1 || i == 2 ? scale : 1);
    }
    kiln_status status = kiln_ir_infer(&c->record, c->outputs, &err);
    return KILN_CHECK_INT(status, KILN_STATUS_OK);
}

static void call_fini(call *c)
{
    for (unsigned i = 0; i < MAX_GIVEN; i++) {
        free(c->data[i]);
    }
}

// ---- the expanded form ----

static kiln_status run_expanded(cl_trial *t, const call *c, float **out_results, kiln_error *err)
{
    kiln_view views[MAX_GIVEN + KILN_MAX_OUTPUTS] = {0};
    kiln_backend *backend = t->f.base;
    const kiln_op_record *record = &c->record;
    unsigned total = (unsigned)record->n_inputs + record->n_outputs;
    for (unsigned i = 0; i < total; i++) {
        bool given = i < record->n_inputs;
        const kiln_tensor_desc *desc = given ? &c->inputs[i] : &c->outputs[i - record->n_inputs];
        size_t bytes = (size_t)kiln_desc_bytes(desc);
        views[i] =
            kiln_view_dense(desc, cl_fixture_buffer(&t->f, bytes, given ? c->data[i] : NULL));
    }
    expand_on = backend;
    kiln_status status =
        execute_or_expand(&t->f.env, backend, record, views, views + record->n_inputs, err);
    expand_on = NULL;
    for (unsigned i = 0; i < total; i++) {
        if (i >= record->n_inputs) {
            unsigned k = i - record->n_inputs;
            size_t bytes = (size_t)kiln_desc_bytes(&c->outputs[k]);
            out_results[k] = calloc(1, bytes + 1);
            if (status == KILN_STATUS_OK) {
                status = backend->transfer->read(backend, views[i].buffer, 0, out_results[k], bytes,
                                                 err);
            }
        }
        backend->memory->free(backend, views[i].buffer);
    }
    return status;
}

/* Ours beside what the operator stands for. */
static void compare_with_expanded(cl_trial *t, const call *c)
{
    kiln_error err = KILN_ERROR_INIT;
    void *ours[KILN_MAX_OUTPUTS] = {NULL};
    float *theirs[KILN_MAX_OUTPUTS] = {NULL};
    bool ran = cl_trial_run(t->f.base, &c->record, (const void *const *)c->data, ours, &err) ==
                   KILN_STATUS_OK &&
               run_expanded(t, c, theirs, &err) == KILN_STATUS_OK;
    if (!ran) {
        KILN_FAIL("%s", err.message);
    }
    for (unsigned k = 0; k < c->record.n_outputs; k++) {
        double worst = 0;
        for (int64_t i = 0; ran && i < kiln_desc_count(&c->outputs[k]); i++) {
            worst = fmax(worst, fabs((double)((const float *)ours[k])[i] - theirs[k][i]));
        }
        KILN_CHECK_NEAR(worst, 0, 1e-5);
        free(ours[k]);
        free(theirs[k]);
    }
}

static void try_sequence(cl_trial *t, const sequence *q, bool expanded)
{
    call c;
    if (call_init(&c, q)) {
        KILN_CHECK(!kiln_ir_is_expanded(t->f.base, &c.record));
        cl_trial_take(&c.record, (const void *const *)c.data, t);
        if (expanded) {
            compare_with_expanded(t, &c);
        }
    }
    call_fini(&c);
}

// ---- cases ----

static const struct {
    kiln_op op;
    bool reset_after;
} kinds[] = {{KILN_OP_LSTM, false}, {KILN_OP_GRU, false}, {KILN_OP_GRU, true}};

static void test_sizes(void)
{
    static const int64_t hidden[] = {1, 7, 16, 20, 128};
    static const int64_t steps[] = {1, 3, 40};
    static const int64_t batch[] = {1, 2, 5};
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_CPU)) {
        return;
    }
    for (unsigned i = 0; i < 3 * 5 * 3 * 3; i++) {
        unsigned k = i / 45;
        sequence q = {kinds[k].op,
                      steps[i / 3 % 3],
                      batch[i % 3],
                      hidden[(i / 9 + 1) % 5] + i % 2,
                      hidden[i / 9 % 5],
                      i % 4 == 3   ? "bidirectional"
                      : i % 4 == 2 ? "reverse"
                                   : "forward",
                      3 + i % 4,
                      kinds[k].reset_after,
                      false};
        try_sequence(&t, &q, false);
    }
    KILN_CHECK_INT(t.count, 135);
    cl_trial_close(&t);
}

static void test_expanded_form(void)
{
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_CPU)) {
        return;
    }
    for (unsigned k = 0; k < 3; k++) {
        sequence q = {kinds[k].op, 3, 2, 5, 20, "bidirectional", 6, kinds[k].reset_after, false};
        try_sequence(&t, &q, true);
        q.by_number = true;
        try_sequence(&t, &q, true);
    }
    cl_trial_close(&t);
}

/* More rows than one work-item takes, and more units of the device than directions and blocks. */
static void test_many_items(void)
{
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_CPU)) {
        return;
    }
    t.f.backend->info.compute_units = 6;
    for (unsigned k = 0; k < 3; k++) {
        const sequence q = {kinds[k].op, 9, 23, 17, 19, "reverse", 4, kinds[k].reset_after, false};
        try_sequence(&t, &q, false);
    }
    cl_trial_close(&t);
}

/* Teams of two, and of more members than the device has threads, so that some never meet. */
static void test_teams(void)
{
    static const struct {
        uint32_t units;
        int64_t batch, hidden;
        const char *direction;
    } cases[] = {{2, 1, 112, "forward"},
                 {2, 3, 130, "reverse"},
                 {8, 1, 250, "forward"},
                 {8, 9, 150, "forward"},
                 {8, 2, 176, "bidirectional"}};
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_CPU)) {
        return;
    }
    for (unsigned i = 0; i < 3 * sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned k = i % 3;
        const sequence q = {kinds[k].op,
                            6,
                            cases[i / 3].batch,
                            9,
                            cases[i / 3].hidden,
                            cases[i / 3].direction,
                            6,
                            kinds[k].reset_after,
                            false};
        t.f.backend->info.compute_units = cases[i / 3].units;
        try_sequence(&t, &q, false);
    }
    cl_trial_close(&t);
}

// ---- constant weights ----

enum { WEIGHT_FLOATS = 1600 }; // behind a first one, so that no origin is used where it lies

static void origin_gone(void *user)
{
    ++*(int *)user;
}

/* Weight and recurrence as constants; `gone` counts those that nothing uses any more. */
static bool make_constants(cl_trial *t, float *const memory[2], int *gone, kiln_buffer **out_made)
{
    kiln_error err = KILN_ERROR_INIT;
    bool made = true;
    for (unsigned i = 0; i < 2; i++) {
        const kiln_host_origin origin = {
            .memory = memory[i] + 1, .release = origin_gone, .user = gone};
        made = made && KILN_CHECK_INT(t->f.base->memory->alloc_from(t->f.base, &origin,
                                                                    WEIGHT_FLOATS * sizeof(float),
                                                                    &out_made[i], &err),
                                      KILN_STATUS_OK);
    }
    return made;
}

/* Runs a call with those weights, against the judge; gives the launches. */
static uint64_t run_on_constants(cl_trial *t, call *c, float *const memory[2],
                                 kiln_buffer *const *weights)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_backend *backend = t->f.base;
    kiln_view views[3 + KILN_MAX_OUTPUTS] = {0};
    void *expected[KILN_MAX_OUTPUTS] = {NULL};
    float values[512] = {0};
    size_t bytes = (size_t)kiln_desc_bytes(&c->outputs[0]);
    for (unsigned i = 0; i < 3u + c->record.n_outputs; i++) {
        const kiln_tensor_desc *desc = i < 3 ? &c->inputs[i] : &c->outputs[i - 3];
        kiln_buffer *buffer = i == 1 || i == 2
                                  ? weights[i - 1]
                                  : cl_fixture_buffer(&t->f, (size_t)kiln_desc_bytes(desc),
                                                      i == 0 ? c->data[0] : NULL);
        views[i] = kiln_view_dense(desc, buffer);
    }
    const void *data[3] = {c->data[0], memory[0] + 1, memory[1] + 1};
    uint64_t before = t->f.backend->stats.kernels_launched;
    bool ran = KILN_CHECK_INT(backend->device->execute(backend, &c->record, views, views + 3, &err),
                              KILN_STATUS_OK);
    uint64_t launches = t->f.backend->stats.kernels_launched - before;
    if (ran && KILN_CHECK(bytes <= sizeof(values)) &&
        KILN_CHECK_INT(backend->transfer->read(backend, views[3].buffer, 0, values, bytes, &err),
                       KILN_STATUS_OK) &&
        KILN_CHECK_INT(cl_trial_run(t->judge, &c->record, data, expected, &err), KILN_STATUS_OK)) {
        for (size_t i = 0; i < bytes / sizeof(float); i++) {
            KILN_CHECK_NEAR(values[i], ((const float *)expected[0])[i], 1e-5);
        }
    }
    for (unsigned i = 0; i < KILN_MAX_OUTPUTS; i++) {
        free(expected[i]);
    }
    for (unsigned i = 0; i < 3u + c->record.n_outputs; i++) {
        if (i != 1 && i != 2) {
            backend->memory->free(backend, views[i].buffer);
        }
    }
    return launches;
}

/* Constant weights are packed by the first call and leave the device. Another call that wants them
 * otherwise packs them each time. What was packed goes with them. */
static void test_constants_are_packed_once(void)
{
    const sequence first = {KILN_OP_LSTM, 3, 2, 20, 16, "forward", 3, false, false};
    const sequence other = {KILN_OP_LSTM, 3, 2, 16, 20, "forward", 3, false, false};
    const kiln_tensor_desc all = desc_of(1, 1, WEIGHT_FLOATS + 1, 0, 0);
    float *memory[2] = {numbers(&all, 5, 0.25), numbers(&all, 6, 0.25)};
    kiln_buffer *weights[2] = {NULL, NULL};
    int gone = 0;
    call c[2] = {0};
    cl_trial t;
    if (cl_trial_open(&t, KILN_DEVICE_CPU)) {
        uint64_t live = t.f.backend->stats.buffers_live;
        if (call_init(&c[0], &first) && call_init(&c[1], &other) &&
            make_constants(&t, memory, &gone, weights)) {
            KILN_CHECK_INT(run_on_constants(&t, &c[0], memory, weights), 3);
            KILN_CHECK(!t.f.base->memory->resides(t.f.base, weights[0]));
            KILN_CHECK(!t.f.base->memory->resides(t.f.base, weights[1]));
            KILN_CHECK_INT(run_on_constants(&t, &c[0], memory, weights), 2);
            KILN_CHECK(!t.f.base->memory->resides(t.f.base, weights[0]));
            KILN_CHECK_INT(run_on_constants(&t, &c[1], memory, weights), 2);
            KILN_CHECK_INT(run_on_constants(&t, &c[0], memory, weights), 2);
        }
        for (unsigned i = 0; i < 2; i++) {
            t.f.base->memory->free(t.f.base, weights[i]);
        }
        KILN_CHECK_INT(gone, 2);
        KILN_CHECK_INT(t.f.backend->stats.buffers_live, live);
        cl_trial_close(&t);
    }
    for (unsigned i = 0; i < 2; i++) {
        call_fini(&c[i]);
        free(memory[i]);
    }
}

static void test_no_step(void)
{
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_CPU)) {
        return;
    }
    for (unsigned k = 0; k < 3; k++) {
        const sequence q = {kinds[k].op, 0, 2, 3, 5, "forward", 6, kinds[k].reset_after, false};
        try_sequence(&t, &q, false);
    }
    cl_trial_close(&t);
}

/* Of 5 rows the second is not a number from the second step on. */
static void check_alone(const call *c, const float *values, int64_t hidden)
{
    for (int64_t i = 0; i < kiln_desc_count(&c->outputs[0]); i++) {
        bool lost = i / hidden % 5 == 1 && i / hidden / 5 > 0;
        if (!KILN_CHECK(isnan(values[i]) == lost)) {
            return;
        }
    }
}

static void test_not_a_number_stays_in_its_row(void)
{
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_CPU)) {
        return;
    }
    for (unsigned k = 0; k < 3; k++) {
        const sequence q = {kinds[k].op, 3, 5, 2, 20, "forward", 4, kinds[k].reset_after, false};
        call c;
        kiln_error err = KILN_ERROR_INIT;
        void *results[KILN_MAX_OUTPUTS] = {NULL};
        if (call_init(&c, &q)) {
            ((float *)c.data[0])[(1 * 5 + 1) * 2] = NAN;
            KILN_CHECK_INT(
                cl_trial_run(t.f.base, &c.record, (const void *const *)c.data, results, &err),
                KILN_STATUS_OK);
            check_alone(&c, results[0], q.hidden);
        }
        for (unsigned i = 0; i < KILN_MAX_OUTPUTS; i++) {
            free(results[i]);
        }
        call_fini(&c);
    }
    cl_trial_close(&t);
}

static bool takes(cl_trial *t, unsigned attr, kiln_attr value, unsigned n_inputs)
{
    const sequence q = {KILN_OP_LSTM, 3, 2, 4, 5, "forward", 6, false, false};
    call c;
    bool taken = false;
    if (call_init(&c, &q)) {
        c.inputs[6] = desc_of(7, 2, 1, 3 * q.hidden, 0);
        c.inputs[7] = desc_of(8, 1, q.batch, 0, 0);
        c.inputs[7].dtype = KILN_DTYPE_I32;
        c.record.n_inputs = (uint16_t)n_inputs;
        c.attrs[attr] = value;
        taken = !kiln_ir_is_expanded(t->f.base, &c.record);
    }
    call_fini(&c);
    return taken;
}

static void test_which_calls_are_taken(void)
{
    const kiln_attr none = kilni_attr_none();
    cl_trial t;
    if (!cl_trial_open(&t, KILN_DEVICE_CPU)) {
        return;
    }
    KILN_CHECK(takes(&t, 1, none, 6));
    KILN_CHECK(takes(&t, 1, kilni_attr_text("Sigmoid,tanh,Tanh"), 3));
    KILN_CHECK(!takes(&t, 1, kilni_attr_text("sigmoid,relu,tanh"), 6));
    KILN_CHECK(!takes(&t, 4, kilni_attr_f64(0.5), 6));
    KILN_CHECK(!takes(&t, 5, kilni_attr_bool(true), 6)); // the forget gate is the input's rest
    KILN_CHECK(!takes(&t, 1, none, 7)); // peephole
    KILN_CHECK(!takes(&t, 1, none, 8)); // lengths
    t.f.backend->info.type = KILN_DEVICE_GPU;
    KILN_CHECK(!takes(&t, 1, none, 6));
    cl_trial_close(&t);
}

KILN_TEST_MAIN("unit/cl_backend/recurrent", KILN_TEST(test_sizes), KILN_TEST(test_expanded_form),
               KILN_TEST(test_many_items), KILN_TEST(test_teams),
               KILN_TEST(test_constants_are_packed_once), KILN_TEST(test_no_step),
               KILN_TEST(test_not_a_number_stays_in_its_row), KILN_TEST(test_which_calls_are_taken))
