// SPDX-License-Identifier: MIT OR Apache-2.0
// Tapes: what they track and refuse, sums of contributions, scopes, gradients of gradients, custom
// gradients, parts that are computed again, captured graphs, and what is let go.
#include "kiln_grad.h"
#include "runtime_fixture.h"

#include <math.h>
#include <string.h>

typedef struct scene {
    fixture f;
    kiln_tape *tape;
    kiln_tensor *x; ///< 1, 2, 3; tracked
} scene;

#define OK(self, call) FIXTURE_OK(&(self)->f, call)

static bool scene_open_on(scene *self, const char *address)
{
    static const int64_t dims[] = {3};
    static const float data[] = {1, 2, 3};
    memset(self, 0, sizeof(*self));
    if (!fixture_open(&self->f, address)) {
        return false;
    }
    self->x = fixture_f32(&self->f, 1, dims, data);
    return OK(self, kiln_tape_create(self->f.device, &self->tape, &self->f.err)) &&
           OK(self, kiln_tape_track(self->tape, self->x, &self->f.err));
}

static bool scene_open(scene *self)
{
    return scene_open_on(self, "reference:0");
}

static void scene_close(scene *self)
{
    kiln_tape_destroy(self->tape);
    kiln_release(self->x);
    fixture_close(&self->f);
}

static kiln_tensor *square(scene *self, kiln_tensor *x)
{
    kiln_tensor *y = NULL;
    OK(self, kiln_mul(x, x, &y, &self->f.err));
    return y;
}

static kiln_tensor *sum(scene *self, kiln_tensor *take_x)
{
    kiln_tensor *y = NULL;
    OK(self, kiln_sum(take_x, NULL, 0, false, &y, &self->f.err));
    kiln_release(take_x);
    return y;
}

static void backward(scene *self, kiln_tensor *take_loss)
{
    OK(self, kiln_backward(self->tape, take_loss, NULL, &self->f.err));
    kiln_release(take_loss);
}

static void check_values(scene *self, kiln_tensor *tensor, double a, double b, double c)
{
    float found[3] = {0};
    if (OK(self, kiln_read(tensor, found, sizeof(found), &self->f.err))) {
        KILN_CHECK_NEAR((double)found[0], a, 1e-5);
        KILN_CHECK_NEAR((double)found[1], b, 1e-5);
        KILN_CHECK_NEAR((double)found[2], c, 1e-5);
    }
}

static void check_gradient(scene *self, double a, double b, double c)
{
    kiln_tensor *gradient = NULL;
    if (OK(self, kiln_gradient(self->tape, self->x, &gradient, &self->f.err))) {
        check_values(self, gradient, a, b, c);
    }
    kiln_release(gradient);
}

static void check_refused(scene *self, kiln_status status, kiln_status expected, const char *words)
{
    KILN_CHECK_INT(status, expected);
    KILN_CHECK_CONTAINS(self->f.err.message, words);
    self->f.err = (kiln_error)KILN_ERROR_INIT;
}

// ---- what is tracked ----

static void test_gradients_add_up(void)
{
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    check_gradient(&s, 0, 0, 0);
    backward(&s, sum(&s, square(&s, s.x)));
    check_gradient(&s, 2, 4, 6);
    backward(&s, sum(&s, square(&s, s.x)));
    check_gradient(&s, 4, 8, 12);
    scene_close(&s);
}

static void test_results_may_be_tracked_too(void)
{
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    kiln_tensor *y = square(&s, s.x);
    OK(&s, kiln_tape_track(s.tape, y, &s.f.err));
    backward(&s, sum(&s, square(&s, y)));
    kiln_tensor *gradient = NULL;
    OK(&s, kiln_gradient(s.tape, y, &gradient, &s.f.err));
    check_values(&s, gradient, 2, 8, 18);
    check_gradient(&s, 4, 32, 108);
    kiln_release(gradient);
    kiln_release(y);
    scene_close(&s);
}

static void test_what_backward_went_through_is_constant(void)
{
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    kiln_tensor *y = square(&s, s.x);
    kiln_tensor *other = sum(&s, kiln_retain(y));
    backward(&s, sum(&s, square(&s, s.x)));
    KILN_CHECK(!kiln_tape_tracks(s.tape, y));
    check_refused(&s, kiln_backward(s.tape, other, NULL, &s.f.err), KILN_STATUS_INVALID_ARGUMENT,
                  "or before a kiln_backward");
    kiln_release(other);
    OK(&s, kiln_mul(y, s.x, &other, &s.f.err));
    backward(&s, sum(&s, other));
    check_gradient(&s, 2 + 1, 4 + 4, 6 + 9);
    kiln_release(y);
    scene_close(&s);
}

static void test_paused_and_detached_are_constants(void)
{
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    kiln_tensor *apart = NULL;
    kiln_tensor *product = NULL;
    OK(&s, kiln_detach(s.x, &apart, &s.f.err));
    KILN_CHECK(!kiln_tape_tracks(s.tape, apart));
    OK(&s, kiln_mul(s.x, apart, &product, &s.f.err));
    backward(&s, sum(&s, product));
    check_gradient(&s, 1, 2, 3);
    kiln_release(apart);
    kiln_tape_pause(s.tape);
    kiln_tape_pause(s.tape);
    kiln_tape_resume(s.tape);
    kiln_tensor *y = square(&s, s.x);
    kiln_tape_resume(s.tape);
    KILN_CHECK(!kiln_tape_tracks(s.tape, y));
    kiln_release(y);
    y = square(&s, s.x);
    KILN_CHECK(kiln_tape_tracks(s.tape, y));
    kiln_release(y);
    scene_close(&s);
}

static void test_refusals_in_words(void)
{
    static const int64_t dims[] = {2};
    static const int32_t data[] = {1, 2};
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    kiln_error *err = &s.f.err;
    kiln_tensor *integers = NULL;
    kiln_tensor *mask = NULL;
    kiln_tensor *y = square(&s, s.x);
    kiln_tensor *gradient = NULL;
    OK(&s, kiln_tensor_create(s.f.device, KILN_DTYPE_I32, 1, dims, data, &integers, err));
    check_refused(&s, kiln_tape_track(s.tape, integers, err), KILN_STATUS_INVALID_ARGUMENT,
                  "a tensor of i32 has no gradient");
    OK(&s, kiln_less_scalar(s.x, kiln_f64(2), &mask, err));
    check_refused(&s, kiln_backward(s.tape, mask, NULL, err), KILN_STATUS_INVALID_ARGUMENT,
                  "the loss has dtype bool");
    check_refused(&s, kiln_backward(s.tape, y, NULL, err), KILN_STATUS_INVALID_ARGUMENT,
                  "the loss has 3 elements, not one");
    check_refused(&s, kiln_backward(s.tape, y, mask, err), KILN_STATUS_INVALID_ARGUMENT,
                  "the seed is not like the loss");
    check_refused(&s, kiln_gradient(s.tape, y, &gradient, err), KILN_STATUS_INVALID_ARGUMENT,
                  "was not given to kiln_tape_track");
    kiln_tape *other = NULL;
    OK(&s, kiln_tape_create(s.f.device, &other, err));
    check_refused(&s, kiln_tape_track(other, s.x, err), KILN_STATUS_INVALID_ARGUMENT,
                  "another tape tracks");
    check_refused(&s, kiln_backward(other, y, NULL, err), KILN_STATUS_INVALID_ARGUMENT,
                  "is not tracked");
    kiln_tape_destroy(other);
    kiln_release(integers);
    kiln_release(mask);
    kiln_release(y);
    scene_close(&s);
}

static void test_an_operator_without_gradient_is_named(void)
{
    static const int64_t image[] = {1, 1, 2, 2};
    static const int64_t grid[] = {1, 1, 1, 2};
    static const float data[] = {1, 2, 3, 4};
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    kiln_error *err = &s.f.err;
    kiln_tensor *x = fixture_f32(&s.f, 4, image, data);
    kiln_tensor *at = fixture_f32(&s.f, 4, grid, data);
    kiln_tensor *y = NULL;
    OK(&s, kiln_tape_track(s.tape, x, err));
    OK(&s, kiln_grid_sample(x, at, "linear", "zeros", false, -0.75, &y, err));
    check_refused(&s, kiln_backward(s.tape, y, NULL, err), KILN_STATUS_UNIMPLEMENTED,
                  "grid_sample has no gradient here");
    kiln_release(x);
    kiln_release(at);
    kiln_release(y);
    scene_close(&s);
}

static void test_an_old_tape_is_forgotten(void)
{
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    kiln_tensor *old = square(&s, s.x);
    kiln_tape_destroy(s.tape);
    OK(&s, kiln_tape_create(s.f.device, &s.tape, &s.f.err));
    OK(&s, kiln_tape_track(s.tape, s.x, &s.f.err));
    kiln_tensor *y = NULL;
    OK(&s, kiln_mul(s.x, old, &y, &s.f.err)); // a constant now
    backward(&s, sum(&s, y));
    check_gradient(&s, 1, 4, 9);
    kiln_release(old);
    scene_close(&s);
}

// ---- gradients of gradients ----

static void test_second_and_third_order(void)
{
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    kiln_tensor *y = NULL;
    kiln_tensor *d[3] = {NULL};
    OK(&s, kiln_pow_scalar(s.x, kiln_f64(4), &y, &s.f.err));
    kiln_tensor *loss = sum(&s, y);
    for (int i = 0; i < 3; i++) {
        OK(&s, kiln_gradients(s.tape, loss, NULL, &s.x, 1, &d[i], &s.f.err));
        kiln_release(loss);
        loss = sum(&s, kiln_retain(d[i]));
    }
    kiln_release(loss);
    check_values(&s, d[0], 4, 32, 108);
    check_values(&s, d[1], 12, 48, 108);
    check_values(&s, d[2], 24, 48, 72);
    check_gradient(&s, 0, 0, 0); // what backward finds is another sum
    for (int i = 0; i < 3; i++) {
        kiln_release(d[i]);
    }
    scene_close(&s);
}

/// The norm of a gradient as a loss, through a composite.
static void test_a_penalty_of_the_gradient(void)
{
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    kiln_tensor *y = NULL;
    kiln_tensor *d = NULL;
    OK(&s, kiln_silu(s.x, &y, &s.f.err));
    kiln_tensor *loss = sum(&s, y);
    OK(&s, kiln_gradients(s.tape, loss, NULL, &s.x, 1, &d, &s.f.err));
    backward(&s, sum(&s, square(&s, d)));
    kiln_release(d);
    kiln_release(loss);
    double expected[3];
    for (int i = 0; i < 3; i++) {
        double x = i + 1;
        double g = 1 / (1 + exp(-x));
        double first = g + x * g * (1 - g);
        double second = g * (1 - g) * (2 + x * (1 - 2 * g));
        expected[i] = 2 * first * second;
    }
    check_gradient(&s, expected[0], expected[1], expected[2]);
    scene_close(&s);
}

// ---- in the caller's words ----

typedef struct clip {
    int calls;
    int drops;
} clip;

static kiln_status clip_backward(void *user, kiln_tensor *const *gradients,
                                 kiln_tensor **out_gradients, kiln_error *err)
{
    ((clip *)user)->calls++;
    return kiln_mul_scalar(gradients[0], kiln_f64(10), &out_gradients[0], err);
}

static void clip_drop(void *user)
{
    ((clip *)user)->drops++;
}

static void test_a_custom_gradient(void)
{
    scene s;
    clip c = {0, 0};
    if (!scene_open(&s)) {
        return;
    }
    kiln_tensor *y = NULL;
    kiln_tape_pause(s.tape);
    OK(&s, kiln_floor(s.x, &y, &s.f.err));
    kiln_tape_resume(s.tape);
    OK(&s, kiln_tape_custom(s.tape, &s.x, 1, &y, 1, clip_backward, clip_drop, &c, &s.f.err));
    backward(&s, sum(&s, square(&s, y)));
    kiln_release(y);
    check_gradient(&s, 20, 40, 60);
    KILN_CHECK_INT(c.calls, 1);
    KILN_CHECK_INT(c.drops, 1);
    scene_close(&s);
}

typedef struct block {
    kiln_tensor *weight;
    int runs;
} block;

static kiln_status run_block(void *user, kiln_tensor *const *inputs, kiln_tensor **out_outputs,
                             kiln_error *err)
{
    block *self = user;
    kiln_tensor *y = NULL;
    self->runs++;
    kiln_status status = kiln_mul(inputs[0], self->weight, &y, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_mul(y, inputs[0], out_outputs, err);
    }
    kiln_release(y);
    return status;
}

static void test_a_part_is_computed_again(void)
{
    static const int64_t dims[] = {3};
    static const float data[] = {5, 7, 9};
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    block b = {fixture_f32(&s.f, 1, dims, data), 0};
    kiln_tensor *y = NULL;
    kiln_tensor *gradient = NULL;
    OK(&s, kiln_tape_track(s.tape, b.weight, &s.f.err));
    OK(&s, kiln_tape_checkpoint(s.tape, run_block, NULL, &b, &s.x, 1, &y, 1, &s.f.err));
    KILN_CHECK_INT(b.runs, 1);
    backward(&s, sum(&s, y));
    KILN_CHECK_INT(b.runs, 2);
    check_gradient(&s, 10, 28, 54);
    OK(&s, kiln_gradient(s.tape, b.weight, &gradient, &s.f.err));
    check_values(&s, gradient, 1, 4, 9);
    kiln_release(gradient);
    kiln_release(b.weight);
    scene_close(&s);
}

// ---- graphs, memory, threads ----

/// Forward and backward captured as one: a graph from x to the gradient.
static void check_graph(const char *device)
{
    static const int64_t dims[] = {3};
    static const int64_t fewer[] = {2};
    static const float data[] = {2, 0, -1};
    scene s;
    if (!scene_open_on(&s, device)) {
        return;
    }
    kiln_error *err = &s.f.err;
    kiln_graph *graph = NULL;
    kiln_tensor *gradient = NULL;
    kiln_tensor *found = NULL;
    OK(&s, kiln_graph_begin(s.f.device, &s.x, 1, err));
    kiln_tensor *y = square(&s, s.x);
    backward(&s, sum(&s, square(&s, y)));
    kiln_release(y);
    OK(&s, kiln_gradient(s.tape, s.x, &gradient, err));
    OK(&s, kiln_graph_end(s.f.device, &gradient, 1, &graph, err));
    kiln_tensor *other = fixture_f32(&s.f, 1, dims, data);
    for (int i = 0; i < 2; i++) {
        OK(&s, kiln_graph_run(graph, i == 0 ? &s.x : &other, 1, &found, 1, err));
        check_values(&s, found, i == 0 ? 4 : 32, i == 0 ? 32 : 0, i == 0 ? 108 : -4);
        kiln_release(found);
    }
    kiln_release(other);
    other = fixture_f32(&s.f, 1, fewer, data);
    check_refused(&s, kiln_graph_run(graph, &other, 1, &found, 1, err),
                  KILN_STATUS_INVALID_ARGUMENT,
                  "capture it anew"); // what a gradient records fits its lengths
    kiln_release(other);
    kiln_release(gradient);
    kiln_tape_destroy(s.tape);
    s.tape = NULL;
    kiln_graph_destroy(graph);
    scene_close(&s);
}

static void test_a_captured_gradient(void)
{
    check_graph("reference:0");
}

static void test_a_captured_gradient_opencl(void)
{
    check_graph("opencl:0");
}

static kiln_tensor *capture_graph(scene *s, kiln_graph **out_graph)
{
    kiln_error *err = &s->f.err;
    kiln_tensor *t[3] = {NULL};
    OK(s, kiln_graph_begin(s->f.device, &s->x, 1, err));
    OK(s, kiln_silu(s->x, &t[0], err));
    OK(s, kiln_mul(t[0], s->x, &t[1], err));
    OK(s, kiln_sum(t[1], NULL, 0, false, &t[2], err));
    OK(s, kiln_graph_end(s->f.device, &t[2], 1, out_graph, err));
    kiln_release(t[0]);
    kiln_release(t[1]);
    return t[2];
}

/// f = x * x * sigmoid(x) of a graph that was captured without a tape.
static void test_the_gradient_of_a_graph(void)
{
    const size_t first[] = {0};
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    kiln_error *err = &s.f.err;
    kiln_graph *graph = NULL;
    kiln_graph *gradient = NULL;
    kiln_tensor *found[2] = {NULL};
    double expected[3];
    kiln_tape_destroy(s.tape);
    s.tape = NULL;
    kiln_tensor *captured = capture_graph(&s, &graph);
    OK(&s, kiln_graph_gradient(graph, &s.x, 1, first, 1, &gradient, err));
    OK(&s, kiln_graph_run(gradient, &s.x, 1, found, 2, err));
    for (int i = 0; i < 3; i++) {
        double x = i + 1;
        double g = 1 / (1 + exp(-x));
        expected[i] = 2 * x * g + x * x * g * (1 - g);
    }
    check_values(&s, found[1], expected[0], expected[1], expected[2]);
    KILN_CHECK_INT(kiln_tensor_count(found[0]), 1);
    kiln_release(found[0]);
    kiln_release(found[1]);
    kiln_release(captured);
    kiln_graph_destroy(gradient);
    kiln_graph_destroy(graph);
    scene_close(&s);
}

/// The tape holds what rules need and nothing else, and lets go on the way back.
static void test_what_is_held(void)
{
    scene s;
    if (!scene_open(&s)) {
        return;
    }
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_tensor *y = kiln_retain(s.x);
    for (int i = 0; i < 10; i++) { // a sum needs no operand
        kiln_tensor *next = NULL;
        OK(&s, kiln_add_scalar(y, kiln_f64(1), &next, &s.f.err));
        kiln_release(y);
        y = next;
    }
    OK(&s, kiln_sync(s.f.device, &s.f.err));
    kiln_device_stats_get(s.f.device, &stats);
    KILN_CHECK_INT(stats.tensors_live, 2); // x and the last
    backward(&s, sum(&s, y));
    OK(&s, kiln_sync(s.f.device, &s.f.err));
    kiln_device_stats_get(s.f.device, &stats);
    KILN_CHECK_INT(stats.tensors_live, 2); // x and its gradient
    scene_close(&s);
}

KILN_TEST_MAIN("unit/autodiff/tape", KILN_TEST(test_gradients_add_up),
               KILN_TEST(test_results_may_be_tracked_too),
               KILN_TEST(test_what_backward_went_through_is_constant),
               KILN_TEST(test_paused_and_detached_are_constants), KILN_TEST(test_refusals_in_words),
               KILN_TEST(test_an_operator_without_gradient_is_named),
               KILN_TEST(test_an_old_tape_is_forgotten), KILN_TEST(test_second_and_third_order),
               KILN_TEST(test_a_penalty_of_the_gradient), KILN_TEST(test_a_custom_gradient),
               KILN_TEST(test_a_part_is_computed_again), KILN_TEST(test_a_captured_gradient),
               KILN_TEST(test_a_captured_gradient_opencl), KILN_TEST(test_the_gradient_of_a_graph),
               KILN_TEST(test_what_is_held))
