// SPDX-License-Identifier: MIT OR Apache-2.0
// Mixed precision: which operations compute in f16 or bf16, gradients through them, and scaling of
// the loss: steps that overflow are left out, training goes on behind them, and its state is saved.
#include <math.h>
#include <pthread.h>

#include "kiln_grad.h"
#include "kiln_train.h"
#include "runtime_fixture.h"

#define OK(f, call) FIXTURE_OK(f, call)

static const double below_f16 = 0x1p-13; ///< 1 + this is 1 in f16 and bf16

static bool set_products(fixture *f, kiln_dtype dtype)
{
    return OK(f, kiln_products_in(f->device, dtype, NULL, &f->err));
}

static float read_one(fixture *f, kiln_tensor *take_tensor)
{
    float found = NAN;
    KILN_CHECK_INT(kiln_tensor_dtype(take_tensor), KILN_DTYPE_F32);
    OK(f, kiln_read(take_tensor, &found, sizeof(found), &f->err));
    kiln_release(take_tensor);
    return found;
}

/// A matrix of one element.
static kiln_tensor *one(fixture *f, double value)
{
    const int64_t dims[] = {1, 1};
    const float data = (float)value;
    return fixture_f32(f, 2, dims, &data);
}

static kiln_tensor *product(fixture *f, kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *y = NULL;
    OK(f, kiln_matmul(a, b, false, false, &y, &f->err));
    return y;
}

// ---- what computes in which dtype ----

static void *multiply(void *user)
{
    fixture *f = user;
    kiln_tensor *a = one(f, 1 + below_f16);
    kiln_tensor *b = one(f, 1);
    KILN_CHECK_NEAR((double)read_one(f, product(f, a, b)), 1 + below_f16, 0);
    kiln_release(a);
    kiln_release(b);
    return NULL;
}

static void test_products_alone(void)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F16, KILN_DTYPE_BF16};
    fixture f;
    for (int i = 0; i < 2 && fixture_open(&f, "reference:0"); i++) {
        kiln_tensor *a = one(&f, 1 + below_f16);
        kiln_tensor *b = one(&f, 1);
        kiln_tensor *sum = NULL;
        kiln_tensor *twice = NULL;
        pthread_t other;
        set_products(&f, dtypes[i]);
        KILN_CHECK_NEAR((double)read_one(&f, product(&f, a, b)), 1, 0);
        OK(&f, kiln_sum(a, NULL, 0, false, &sum, &f.err)); // all else stays in f32
        OK(&f, kiln_mul(a, b, &twice, &f.err));
        KILN_CHECK_NEAR((double)read_one(&f, sum), 1 + below_f16, 0);
        KILN_CHECK_NEAR((double)read_one(&f, twice), 1 + below_f16, 0);
        KILN_CHECK_INT(pthread_create(&other, NULL, multiply, &f), 0); // who did not ask for it
        pthread_join(other, NULL);
        kiln_dtype before = KILN_DTYPE_NONE;
        OK(&f, kiln_products_in(f.device, KILN_DTYPE_F32, &before, &f.err));
        KILN_CHECK_INT(before, dtypes[i]);
        KILN_CHECK_NEAR((double)read_one(&f, product(&f, a, b)), 1 + below_f16, 0);
        kiln_release(a);
        kiln_release(b);
        fixture_close(&f);
    }
}

/// The sum of many terms that f16 could not add up.
static void check_sums(const char *address)
{
    enum { LONG = 4096, SIDE = 8 };
    static float data[SIDE * LONG];
    const int64_t rows[] = {SIDE, LONG};
    const int64_t columns[] = {LONG, SIDE};
    float found[SIDE * SIDE] = {0};
    fixture f;
    for (int i = 0; i < SIDE * LONG; i++) {
        data[i] = 1;
    }
    if (fixture_open(&f, address)) {
        kiln_tensor *a = fixture_f32(&f, 2, rows, data);
        kiln_tensor *b = fixture_f32(&f, 2, columns, data);
        set_products(&f, KILN_DTYPE_F16);
        kiln_tensor *y = product(&f, a, b);
        OK(&f, kiln_read(y, found, sizeof(found), &f.err));
        KILN_CHECK_NEAR((double)found[0], LONG, 0);
        KILN_CHECK_NEAR((double)found[SIDE * SIDE - 1], LONG, 0);
        kiln_release(y);
        kiln_release(a);
        kiln_release(b);
        fixture_close(&f);
    }
}

static void test_sums(void)
{
    check_sums("reference:0");
    check_sums("opencl:0");
}

static void test_refused(void)
{
    fixture f;
    if (fixture_open(&f, "reference:0")) {
        kiln_params *params = NULL;
        kiln_optimiser *optimiser = NULL;
        kiln_tensor *a = one(&f, 1);
        kiln_tensor *loss = NULL;
        KILN_CHECK_INT(kiln_products_in(f.device, KILN_DTYPE_I32, NULL, &f.err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(f.err.message, "i32");
        OK(&f, kiln_params_create(f.device, 1, &params, &f.err));
        OK(&f, kiln_optimiser_create(params, NULL, &optimiser, &f.err));
        KILN_CHECK_INT(kiln_optimiser_scale_loss(optimiser, a, &loss, &f.err),
                       KILN_STATUS_FAILED_PRECONDITION);
        KILN_CHECK_NEAR(kiln_optimiser_loss_scale(optimiser), 1, 0);
        kiln_optimiser_destroy(optimiser);
        kiln_params_destroy(params);
        kiln_release(a);
        fixture_close(&f);
    }
}

// ---- training ----

enum { ROWS = 6, WIDTH = 4 };

typedef struct trainer {
    fixture f;
    kiln_params *params;
    kiln_optimiser *optimiser;
    kiln_tensor *x;
    kiln_tensor *target;
} trainer;

static bool open_trainer(trainer *t, const char *address, double scale, uint64_t period,
                         uint32_t captured)
{
    const int64_t x_dims[] = {ROWS, WIDTH};
    const int64_t w_dims[] = {WIDTH, 1};
    const int64_t y_dims[] = {ROWS, 1};
    float x[ROWS * WIDTH];
    float y[ROWS];
    kiln_optimiser_options options = KILN_OPTIMISER_OPTIONS_INIT;
    kiln_init_options start = KILN_INIT_OPTIONS_INIT;
    *t = (trainer){.params = NULL};
    for (int i = 0; i < ROWS * WIDTH; i++) {
        x[i] = (float)sin(i * 1.7);
    }
    for (int i = 0; i < ROWS; i++) {
        y[i] = x[i * WIDTH] - 2 * x[i * WIDTH + 2];
    }
    start.kind = KILN_INIT_NORMAL;
    start.spread = 0.3;
    options.rule = KILN_OPTIMISER_ADAM;
    options.rate = 0.1;
    options.clip = 10;
    options.captured = captured;
    options.loss_scale = scale;
    options.scale_period = period;
    if (!fixture_open(&t->f, address)) {
        return false;
    }
    t->x = fixture_f32(&t->f, 2, x_dims, x);
    t->target = fixture_f32(&t->f, 2, y_dims, y);
    return OK(&t->f, kiln_params_create(t->f.device, 1, &t->params, &t->f.err)) &&
           OK(&t->f,
              kiln_params_add(t->params, "w", KILN_DTYPE_F32, 2, w_dims, &start, &t->f.err)) &&
           OK(&t->f, kiln_optimiser_create(t->params, &options, &t->optimiser, &t->f.err)) &&
           set_products(&t->f, KILN_DTYPE_F16);
}

static void close_trainer(trainer *t)
{
    kiln_release(t->x);
    kiln_release(t->target);
    kiln_optimiser_destroy(t->optimiser);
    kiln_params_destroy(t->params);
    fixture_close(&t->f);
}

/// The mean of (x w - target)^2.
static kiln_tensor *find_loss(trainer *t)
{
    kiln_tensor *y = product(&t->f, t->x, kiln_params_tensor(t->params, 0));
    kiln_tensor *off = NULL;
    kiln_tensor *square = NULL;
    kiln_tensor *loss = NULL;
    OK(&t->f, kiln_sub(y, t->target, &off, &t->f.err));
    OK(&t->f, kiln_mul(off, off, &square, &t->f.err));
    OK(&t->f, kiln_mean(square, NULL, 0, false, &loss, &t->f.err));
    kiln_release(y);
    kiln_release(off);
    kiln_release(square);
    return loss;
}

/// The loss before the step.
static double make_step(trainer *t)
{
    kiln_error *err = &t->f.err;
    kiln_tensor *w = kiln_params_tensor(t->params, 0);
    kiln_tape *tape = NULL;
    kiln_tensor *scaled = NULL;
    kiln_tensor *gradient = NULL;
    OK(&t->f, kiln_tape_create(t->f.device, &tape, err));
    OK(&t->f, kiln_tape_track(tape, w, err));
    kiln_tensor *loss = find_loss(t);
    OK(&t->f, kiln_optimiser_scale_loss(t->optimiser, loss, &scaled, err));
    OK(&t->f, kiln_backward(tape, scaled, NULL, err));
    OK(&t->f, kiln_gradient(tape, w, &gradient, err));
    KILN_CHECK_INT(kiln_tensor_dtype(gradient), KILN_DTYPE_F32);
    kiln_tape_destroy(tape);
    OK(&t->f, kiln_optimiser_step(t->optimiser, &gradient, 1, err));
    kiln_release(gradient);
    kiln_release(scaled);
    return (double)read_one(&t->f, loss);
}

/// The scale is far too large: the first steps overflow in f16 and are left out, nothing else is
/// changed by them, and then training goes on.
static void check_overflow(const char *address, uint32_t captured)
{
    trainer t;
    if (!open_trainer(&t, address, 0x1p40, 0, captured)) {
        return;
    }
    float before[WIDTH];
    float after[WIDTH];
    OK(&t.f, kiln_read(kiln_params_tensor(t.params, 0), before, sizeof(before), &t.f.err));
    double first = make_step(&t);
    KILN_CHECK_INT(kiln_optimiser_skipped(t.optimiser), 1);
    KILN_CHECK_INT(kiln_optimiser_steps(t.optimiser), 0);
    KILN_CHECK_NEAR(kiln_optimiser_loss_scale(t.optimiser), 0x1p39, 0);
    OK(&t.f, kiln_read(kiln_params_tensor(t.params, 0), after, sizeof(after), &t.f.err));
    KILN_CHECK_MEM(after, before, sizeof(before));
    double last = first;
    for (int i = 0; i < 120; i++) {
        last = make_step(&t);
        KILN_CHECK(isfinite(last));
    }
    uint64_t skipped = kiln_optimiser_skipped(t.optimiser);
    KILN_CHECK(skipped > 10 && skipped < 40);
    KILN_CHECK_INT(kiln_optimiser_steps(t.optimiser) + skipped, 121);
    KILN_CHECK_NEAR(kiln_optimiser_loss_scale(t.optimiser), ldexp(1, 40 - (int)skipped), 0);
    KILN_CHECK(first > 0.5 && last < first / 50);
    close_trainer(&t);
}

static void test_overflow(void)
{
    check_overflow("reference:0", 0);
    check_overflow("reference:0", 1);
    check_overflow("opencl:0", 0);
}

/// After so many good steps the scale doubles, until that is too much again.
static void test_growth(void)
{
    trainer t;
    if (open_trainer(&t, "reference:0", 8, 3, 0)) {
        for (int i = 0; i < 7; i++) {
            (void)make_step(&t);
        }
        KILN_CHECK_NEAR(kiln_optimiser_loss_scale(t.optimiser), 32, 0);
        KILN_CHECK_INT(kiln_optimiser_skipped(t.optimiser), 0);
        for (int i = 0; i < 60; i++) {
            (void)make_step(&t);
        }
        KILN_CHECK(kiln_optimiser_skipped(t.optimiser) > 0);
        KILN_CHECK(kiln_optimiser_steps(t.optimiser) > 50);
    }
    close_trainer(&t);
}

/// The scale goes on where it was, and so do the losses, bit for bit.
static void test_saved(void)
{
    const char *path = kiln_test_path(kiln_test_tmpdir(), "mixed.safetensors");
    double losses[2][10];
    trainer t;
    for (int run = 0; run < 2 && open_trainer(&t, "reference:0", run == 0 ? 0x1p30 : 4, 7, 0);
         run++) {
        for (int i = 0; i < 20 && run == 0; i++) {
            (void)make_step(&t);
        }
        OK(&t.f, run == 0 ? kiln_optimiser_save(t.optimiser, path, &t.f.err)
                          : kiln_optimiser_load(t.optimiser, path, &t.f.err));
        for (int i = 0; i < 10; i++) {
            losses[run][i] = make_step(&t);
        }
        KILN_CHECK(kiln_optimiser_skipped(t.optimiser) > 5);
        close_trainer(&t);
    }
    KILN_CHECK_MEM(losses[1], losses[0], sizeof(losses[0]));
}

/// A gradient that f16 has not becomes 0 without scaling, and is right with it.
static void test_small_gradients(void)
{
    static const double scales[] = {1, 65536};
    fixture f;
    for (int i = 0; i < 2 && fixture_open(&f, "reference:0"); i++) {
        kiln_tape *tape = NULL;
        kiln_tensor *t[3] = {NULL};
        kiln_tensor *x = one(&f, 1);
        kiln_tensor *w = one(&f, 1);
        set_products(&f, KILN_DTYPE_F16);
        OK(&f, kiln_tape_create(f.device, &tape, &f.err));
        OK(&f, kiln_tape_track(tape, w, &f.err));
        t[0] = product(&f, x, w);
        OK(&f, kiln_mul_scalar(t[0], kiln_f64(1e-9), &t[1], &f.err));
        OK(&f, kiln_mul_scalar(t[1], kiln_f64(scales[i]), &t[2], &f.err));
        OK(&f, kiln_backward(tape, t[2], NULL, &f.err));
        kiln_tensor *gradient = NULL;
        OK(&f, kiln_gradient(tape, w, &gradient, &f.err));
        KILN_CHECK_NEAR((double)read_one(&f, gradient) / scales[i], i == 0 ? 0 : 1e-9, 1e-12);
        kiln_tape_destroy(tape);
        kiln_release(x);
        kiln_release(w);
        for (int k = 0; k < 3; k++) {
            kiln_release(t[k]);
        }
        fixture_close(&f);
    }
}

KILN_TEST_MAIN("unit/autodiff/train/mixed", KILN_TEST(test_products_alone), KILN_TEST(test_sums),
               KILN_TEST(test_refused), KILN_TEST(test_overflow), KILN_TEST(test_growth),
               KILN_TEST(test_saved), KILN_TEST(test_small_gradients))
