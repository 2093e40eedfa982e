// SPDX-License-Identifier: MIT OR Apache-2.0
// What a tape lets go of, within a budget and in parts that are computed again: that gradients have
// the same bits, also those of gradients, and that nothing stays behind.
#include "kiln_grad.h"
#include "runtime_fixture.h"

#include <math.h>
#include <string.h>

enum { SIDE = 16, ELEMENTS = SIDE * SIDE, BYTES = ELEMENTS * 4, LAYERS = 4, CHAIN = 20 };

#define OK(f, call) FIXTURE_OK(f, call)

static kiln_tensor *matrix(fixture *f, int seed)
{
    const int64_t dims[] = {SIDE, SIDE};
    float data[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        data[i] = (float)((i * 37 + seed * 101) % 64 - 32) / 64;
    }
    return fixture_f32(f, 2, dims, data);
}

typedef struct result {
    float gradients[LAYERS + 1][ELEMENTS];
    uint64_t held; ///< by the tape, before backward
    uint64_t device; ///< bytes in use then
} result;

/// softmax(gelu(x w0) w1 ..): the product and the softmax are read by their neighbours' rules.
static kiln_tensor *go_forward(fixture *f, kiln_tensor *const *weights)
{
    kiln_tensor *x = kiln_retain(weights[LAYERS]);
    for (int i = 0; i < LAYERS; i++) {
        kiln_tensor *t[3] = {NULL};
        OK(f, kiln_matmul(x, weights[i], false, false, &t[0], &f->err));
        OK(f, kiln_gelu(t[0], false, &t[1], &f->err));
        OK(f, kiln_softmax(t[1], 1, &t[2], &f->err));
        kiln_release(x);
        x = t[2];
        kiln_release(t[0]);
        kiln_release(t[1]);
    }
    kiln_tensor *square = NULL;
    kiln_tensor *loss = NULL;
    OK(f, kiln_mul(x, weights[0], &square, &f->err));
    OK(f, kiln_sum(square, NULL, 0, false, &loss, &f->err));
    kiln_release(square);
    kiln_release(x);
    return loss;
}

static void run_layers(const char *address, uint64_t budget, result *out)
{
    fixture f;
    kiln_tape *tape = NULL;
    kiln_tensor *weights[LAYERS + 1];
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    memset(out, 0, sizeof(*out));
    if (!fixture_open(&f, address)) {
        return;
    }
    OK(&f, kiln_tape_create(f.device, &tape, &f.err));
    OK(&f, kiln_tape_set_budget(tape, budget, &f.err));
    for (int i = 0; i <= LAYERS; i++) {
        weights[i] = matrix(&f, i);
        OK(&f, kiln_tape_track(tape, weights[i], &f.err));
    }
    kiln_tensor *loss = go_forward(&f, weights);
    OK(&f, kiln_sync(f.device, &f.err));
    kiln_device_stats_get(f.device, &stats);
    out->held = kiln_tape_held_bytes(tape);
    out->device = stats.backend.bytes_used;
    OK(&f, kiln_backward(tape, loss, NULL, &f.err));
    kiln_release(loss);
    KILN_CHECK_INT(kiln_tape_held_bytes(tape), 0);
    for (int i = 0; i <= LAYERS; i++) {
        kiln_tensor *gradient = NULL;
        OK(&f, kiln_gradient(tape, weights[i], &gradient, &f.err));
        OK(&f, kiln_read(gradient, out->gradients[i], sizeof(out->gradients[i]), &f.err));
        kiln_release(gradient);
    }
    kiln_tape_destroy(tape);
    for (int i = 0; i <= LAYERS; i++) {
        kiln_release(weights[i]);
    }
    fixture_close(&f);
}

/// Of each layer the tape needs the product, for gelu's rule, and the softmax, for its own rule and
/// for the next product's. With a budget it holds the products.
static void check_layers(const char *address)
{
    static result whole, large, small;
    run_layers(address, 0, &whole);
    run_layers(address, 1 << 30, &large);
    run_layers(address, 1, &small);
    KILN_CHECK_INT(large.held, 2 * LAYERS * BYTES);
    KILN_CHECK_INT(small.held, LAYERS * BYTES);
    KILN_CHECK(small.device + LAYERS * BYTES <= whole.device);
    KILN_CHECK_INT(large.device, whole.device);
    KILN_CHECK_MEM(large.gradients, whole.gradients, sizeof(whole.gradients));
    KILN_CHECK_MEM(small.gradients, whole.gradients, sizeof(whole.gradients));
    KILN_CHECK(whole.gradients[1][3] != 0);
}

static void test_layers(void)
{
    check_layers("reference:0");
}

static void test_layers_opencl(void)
{
    static result whole, small;
    run_layers("opencl:0", 0, &whole);
    run_layers("opencl:0", 1, &small);
    for (int i = 0; i <= LAYERS; i++) {
        for (int k = 0; k < ELEMENTS; k++) {
            KILN_CHECK_NEAR((double)small.gradients[i][k], (double)whole.gradients[i][k], 1e-5);
        }
    }
}

/// A budget between: the oldest values go first, and no more than have to.
static void test_between(void)
{
    static result whole, part;
    run_layers("reference:0", 0, &whole);
    run_layers("reference:0", (2 * LAYERS - 2) * BYTES, &part);
    KILN_CHECK_INT(part.held, (2 * LAYERS - 2) * BYTES);
    KILN_CHECK_MEM(part.gradients, whole.gradients, sizeof(whole.gradients));
}

// ---- chains, and gradients of gradients ----

static kiln_tensor *run_chain(fixture *f, kiln_tensor *x, int length)
{
    kiln_tensor *y = kiln_retain(x);
    for (int i = 0; i < length; i++) {
        kiln_tensor *next = NULL;
        OK(f, kiln_tanh(y, &next, &f->err));
        kiln_release(y);
        y = next;
    }
    kiln_tensor *sum = NULL;
    OK(f, kiln_sum(y, NULL, 0, false, &sum, &f->err));
    kiln_release(y);
    return sum;
}

/// A value is had from at most eight operations behind one that is held.
static void test_chain(void)
{
    float found[2][ELEMENTS];
    fixture f;
    for (int i = 0; i < 2 && fixture_open(&f, "reference:0"); i++) {
        kiln_tape *tape = NULL;
        kiln_tensor *gradient = NULL;
        kiln_tensor *x = matrix(&f, 3);
        OK(&f, kiln_tape_create(f.device, &tape, &f.err));
        OK(&f, kiln_tape_set_budget(tape, (uint64_t)i, &f.err));
        OK(&f, kiln_tape_track(tape, x, &f.err));
        kiln_tensor *loss = run_chain(&f, x, CHAIN);
        KILN_CHECK_INT(kiln_tape_held_bytes(tape), i == 0 ? 0 : 2 * BYTES);
        OK(&f, kiln_backward(tape, loss, NULL, &f.err));
        OK(&f, kiln_gradient(tape, x, &gradient, &f.err));
        OK(&f, kiln_read(gradient, found[i], sizeof(found[i]), &f.err));
        kiln_tape_destroy(tape);
        kiln_release(gradient);
        kiln_release(loss);
        kiln_release(x);
        fixture_close(&f);
    }
    KILN_CHECK_MEM(found[1], found[0], sizeof(found[0]));
    KILN_CHECK(found[0][0] != 0);
}

static void test_second_order(void)
{
    float found[2][ELEMENTS];
    fixture f;
    for (int i = 0; i < 2 && fixture_open(&f, "reference:0"); i++) {
        kiln_tape *tape = NULL;
        kiln_tensor *t[4] = {NULL};
        kiln_tensor *x = matrix(&f, 5);
        OK(&f, kiln_tape_create(f.device, &tape, &f.err));
        OK(&f, kiln_tape_set_budget(tape, (uint64_t)i, &f.err));
        OK(&f, kiln_tape_track(tape, x, &f.err));
        t[0] = run_chain(&f, x, 3);
        OK(&f, kiln_gradients(tape, t[0], NULL, &x, 1, &t[1], &f.err));
        OK(&f, kiln_sum(t[1], NULL, 0, false, &t[2], &f.err));
        OK(&f, kiln_gradients(tape, t[2], NULL, &x, 1, &t[3], &f.err));
        OK(&f, kiln_read(t[3], found[i], sizeof(found[i]), &f.err));
        kiln_tape_destroy(tape);
        kiln_release(x);
        for (int k = 0; k < 4; k++) {
            kiln_release(t[k]);
        }
        fixture_close(&f);
    }
    for (int k = 0; k < ELEMENTS; k++) {
        KILN_CHECK_NEAR((double)found[1][k], (double)found[0][k], 1e-6);
    }
    KILN_CHECK(found[0][0] != 0);
}

/// Gradients of what was computed on the way, which is a leaf for that long.
static void test_of_results(void)
{
    fixture f;
    if (fixture_open(&f, "reference:0")) {
        kiln_tape *tape = NULL;
        kiln_tensor *t[3] = {NULL};
        kiln_tensor *x = matrix(&f, 2);
        float found[ELEMENTS] = {0};
        OK(&f, kiln_tape_create(f.device, &tape, &f.err));
        OK(&f, kiln_tape_set_budget(tape, 1, &f.err));
        OK(&f, kiln_tape_track(tape, x, &f.err));
        OK(&f, kiln_neg(x, &t[0], &f.err));
        t[1] = run_chain(&f, t[0], CHAIN);
        OK(&f, kiln_gradients(tape, t[1], NULL, &t[0], 1, &t[2], &f.err));
        OK(&f, kiln_read(t[2], found, sizeof(found), &f.err));
        KILN_CHECK(found[0] > 0 && found[0] <= 1);
        kiln_tape_destroy(tape);
        kiln_release(x);
        for (int i = 0; i < 3; i++) {
            kiln_release(t[i]);
        }
        fixture_close(&f);
    }
}

// ---- parts that are computed again ----

enum { PART_BATCH = 2, PART_ROWS = 8 };

typedef struct part {
    kiln_tape *tape;
    kiln_tensor *weights[2];
    bool linear; ///< else products
    uint64_t held; ///< by the tape when the part ended last
} part;

static kiln_status multiply(const part *self, kiln_tensor *x, int i, kiln_tensor **out,
                            kiln_error *err)
{
    return self->linear ? kiln_linear(x, self->weights[i], NULL, out, err)
                        : kiln_matmul(x, self->weights[i], false, false, out, err);
}

/// gelu(x w0) w1, with more axes than the weights have.
static kiln_status run_part(void *user, kiln_tensor *const *inputs, kiln_tensor **out_outputs,
                            kiln_error *err)
{
    part *self = user;
    kiln_tensor *t[2] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, multiply(self, inputs[0], 0, &t[0], err));
    KILN_TRY(out, status, kiln_gelu(t[0], true, &t[1], err));
    KILN_TRY(out, status, multiply(self, t[1], 1, out_outputs, err));
    self->held = kiln_tape_held_bytes(self->tape);
out:
    kiln_release(t[0]);
    kiln_release(t[1]);
    return status;
}

/// Gradients for x and the weights of the sum of the squares; of `order` 2 of the sum of the first.
static void run_with_part(const char *address, bool linear, bool again, int order,
                          float (*found)[ELEMENTS], uint64_t *out_held)
{
    const int64_t dims[] = {PART_BATCH, PART_ROWS, SIDE};
    fixture f;
    if (!fixture_open(&f, address)) {
        return;
    }
    part p = {.weights = {matrix(&f, 1), matrix(&f, 2)}, .linear = linear};
    kiln_tensor *t[8] = {matrix(&f, 3)};
    OK(&f, kiln_reshape(t[0], dims, 3, &t[1], &f.err));
    kiln_tensor *leaves[] = {t[1], p.weights[0], p.weights[1]};
    OK(&f, kiln_tape_create(f.device, &p.tape, &f.err));
    for (int i = 0; i < 3; i++) {
        OK(&f, kiln_tape_track(p.tape, leaves[i], &f.err));
    }
    OK(&f, again ? kiln_tape_checkpoint(p.tape, run_part, NULL, &p, &t[1], 1, &t[2], 1, &f.err)
                 : run_part(&p, &t[1], &t[2], &f.err));
    KILN_CHECK_INT(p.held, 0);
    OK(&f, kiln_mul(t[2], t[2], &t[3], &f.err));
    OK(&f, kiln_sum(t[3], NULL, 0, false, &t[4], &f.err));
    if (order == 2) {
        OK(&f, kiln_gradients(p.tape, t[4], NULL, &leaves[2], 1, &t[5], &f.err));
        OK(&f, kiln_mul(t[5], t[5], &t[6], &f.err));
        OK(&f, kiln_sum(t[6], NULL, 0, false, &t[7], &f.err));
    }
    OK(&f, kiln_backward(p.tape, t[order == 2 ? 7 : 4], NULL, &f.err));
    *out_held = p.held;
    KILN_CHECK_INT(kiln_tape_held_bytes(p.tape), 0);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *gradient = NULL;
        OK(&f, kiln_gradient(p.tape, leaves[i], &gradient, &f.err));
        OK(&f, kiln_read(gradient, found[i], sizeof(found[i]), &f.err));
        kiln_release(gradient);
    }
    kiln_tape_destroy(p.tape);
    for (int i = 0; i < 8; i++) {
        kiln_release(t[i]);
    }
    kiln_release(p.weights[0]);
    kiln_release(p.weights[1]);
    fixture_close(&f);
}

/// The tape holds what gelu reads, not what it gives: that is had again for the second weight.
static void test_parts(void)
{
    for (int i = 0; i < 6; i++) {
        static float whole[3][ELEMENTS], again[3][ELEMENTS];
        const char *address = i < 4 ? "reference:0" : "opencl:0";
        uint64_t held[2] = {0};
        int order = i == 2 || i == 3 ? 2 : 1;
        run_with_part(address, i % 2 == 0, false, order, whole, &held[0]);
        run_with_part(address, i % 2 == 0, true, order, again, &held[1]);
        KILN_CHECK_INT(held[0], 0);
        KILN_CHECK_INT(held[1], BYTES);
        KILN_CHECK(whole[2][3] != 0);
        for (int k = 0; k < 3 * ELEMENTS; k++) {
            double limit = order == 1 ? 0 : 1e-5 * (1 + fabs((double)whole[0][k]));
            KILN_CHECK_NEAR((double)again[0][k], (double)whole[0][k], i < 4 ? limit : 1e-3);
        }
    }
}

/// A tape that ends before backward, and a budget that comes too late.
static void test_ends(void)
{
    fixture f;
    if (fixture_open(&f, "reference:0")) {
        kiln_tape *tape = NULL;
        kiln_tensor *x = matrix(&f, 1);
        OK(&f, kiln_tape_create(f.device, &tape, &f.err));
        OK(&f, kiln_tape_set_budget(tape, 1, &f.err));
        OK(&f, kiln_tape_track(tape, x, &f.err));
        kiln_tensor *loss = run_chain(&f, x, CHAIN);
        KILN_CHECK_INT(kiln_tape_set_budget(tape, 0, &f.err), KILN_STATUS_FAILED_PRECONDITION);
        kiln_tape_destroy(tape);
        kiln_release(loss);
        kiln_release(x);
        fixture_close(&f);
    }
}

// ---- rules that are made of operations ----

enum { KINDS = 3 }; ///< nothing is let go, within a budget, in a part that is computed again

typedef struct branches {
    fixture *f;
    kiln_tensor *weights[2];
    int64_t columns; ///< of the second one
} branches;

/// linear(y, w1) * silu(y) with y = gelu(linear(x, w0)): y is let go for the product, and read by
/// the rule of silu, which is that of the operations it stands for. Without columns the product
/// alone.
static kiln_status go_branches(void *user, kiln_tensor *const *inputs, kiln_tensor **results,
                               kiln_error *err)
{
    branches *b = user;
    kiln_tensor *h = NULL, *y = NULL, *p = NULL, *s = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_linear(inputs[0], b->weights[0], NULL, &h, err));
    KILN_TRY(out, status, kiln_gelu(h, true, &y, err));
    KILN_TRY(out, status, kiln_linear(y, b->weights[1], NULL, &p, err));
    if (b->columns == 0) {
        results[0] = kiln_retain(p);
        goto out;
    }
    KILN_TRY(out, status, kiln_silu(y, &s, err));
    KILN_TRY(out, status, kiln_mul(p, s, &results[0], err));
out:
    kiln_release(h);
    kiln_release(y);
    kiln_release(p);
    kiln_release(s);
    return status;
}

static void run_branches(int kind, int64_t columns, float out_gradients[2][ELEMENTS])
{
    fixture f;
    kiln_tape *tape = NULL;
    const int64_t rows[] = {2, SIDE / 2, SIDE}, narrow[] = {SIDE, columns};
    if (!fixture_open(&f, "reference:0")) {
        return;
    }
    branches b = {.f = &f, .columns = columns};
    kiln_tensor *flat = matrix(&f, 5), *x = NULL, *y = NULL, *loss = NULL;
    OK(&f, kiln_reshape(flat, rows, 3, &x, &f.err));
    b.weights[0] = matrix(&f, 1);
    if (columns == SIDE) {
        b.weights[1] = matrix(&f, 2);
    } else {
        OK(&f, kiln_full(f.device, narrow, 2, KILN_DTYPE_F32, kiln_f64(1), &b.weights[1], &f.err));
    }
    OK(&f, kiln_tape_create(f.device, &tape, &f.err));
    OK(&f, kiln_tape_set_budget(tape, kind == 1 ? 1 : 0, &f.err));
    OK(&f, kiln_tape_track(tape, x, &f.err));
    OK(&f, kiln_tape_track(tape, b.weights[0], &f.err));
    OK(&f, kiln_tape_track(tape, b.weights[1], &f.err));
    if (kind == 2) {
        OK(&f, kiln_tape_checkpoint(tape, go_branches, NULL, &b, &x, 1, &y, 1, &f.err));
    } else {
        OK(&f, go_branches(&b, &x, &y, &f.err));
    }
    OK(&f, kiln_sum(y, NULL, 0, false, &loss, &f.err));
    OK(&f, kiln_backward(tape, loss, NULL, &f.err));
    for (int i = 0; i < 2; i++) {
        kiln_tensor *gradient = NULL;
        OK(&f, kiln_gradient(tape, b.weights[i], &gradient, &f.err));
        OK(&f, kiln_read(gradient, out_gradients[i],
                         (size_t)kiln_tensor_count(gradient) * sizeof(float), &f.err));
        kiln_release(gradient);
        kiln_release(b.weights[i]);
    }
    kiln_tape_destroy(tape);
    kiln_release(loss);
    kiln_release(y);
    kiln_release(x);
    kiln_release(flat);
    fixture_close(&f);
}

static void test_rules_by_operations(void)
{
    static float gradients[KINDS][2][ELEMENTS];
    for (int kind = 0; kind < KINDS; kind++) {
        run_branches(kind, SIDE, gradients[kind]);
        KILN_CHECK_MEM(gradients[kind], gradients[0], sizeof(gradients[0]));
    }
    KILN_CHECK(gradients[0][0][3] != 0);
}

static void test_no_columns(void)
{
    static float gradients[KINDS][2][ELEMENTS];
    for (int kind = 0; kind < KINDS; kind++) {
        run_branches(kind, 0, gradients[kind]);
        KILN_CHECK_MEM(gradients[kind], gradients[0], sizeof(gradients[0]));
    }
}

KILN_TEST_MAIN("unit/autodiff/tape_budget", KILN_TEST(test_layers), KILN_TEST(test_layers_opencl),
               KILN_TEST(test_between), KILN_TEST(test_chain), KILN_TEST(test_second_order),
               KILN_TEST(test_of_results), KILN_TEST(test_parts), KILN_TEST(test_ends),
               KILN_TEST(test_rules_by_operations), KILN_TEST(test_no_columns))
