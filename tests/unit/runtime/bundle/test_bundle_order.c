// SPDX-License-Identifier: MIT OR Apache-2.0
// The order of a bundle's steps: fewer changes of program, and the same values in every buffer.

#include <stdlib.h>
#include <string.h>

#include "bundle_maker.h"
#include "harness.h"

enum { PROGRAMS = 4, BUFFERS = 6, STEPS = 24, ARGS = 3 };

typedef struct bench {
    kiln_env env;
    kiln_bundle_maker *maker;
    bundle_parameter parameters[ARGS]; ///< the first may be written
    bundle_kernel kernel;
    bundle_program programs[PROGRAMS];
    bundle_buffer buffers[BUFFERS];
    bundle_arg args[STEPS][ARGS];
    bundle_step steps[STEPS];
    bundle_shapes shapes;
} bench;

static void bench_open(bench *b)
{
    kiln_error err = KILN_ERROR_INIT;
    *b = (bench){.env = {.allocator = kiln_allocator_default()}};
    for (uint32_t i = 1; i < ARGS; i++) {
        b->parameters[i].read_only = true;
    }
    b->kernel = (bundle_kernel){.name = "k", .n_args = ARGS, .parameters = b->parameters};
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        b->programs[i] = (bundle_program){.kernels = &b->kernel, .n_kernels = 1};
    }
    KILN_CHECK_INT(kiln_bundle_maker_create(&b->env, &b->maker, &err), KILN_STATUS_OK);
    b->maker->manifest.programs = b->programs;
    b->maker->manifest.n_programs = PROGRAMS;
    b->shapes = (bundle_shapes){.buffers = b->buffers, .n_buffers = BUFFERS, .steps = b->steps};
}

/// A launch that writes `to` from what is in the two others (UINT32_MAX: a null pointer).
static void add_launch(bench *b, uint32_t program, uint32_t to, uint32_t from, uint32_t other)
{
    const uint32_t used[ARGS] = {to, from, other};
    uint32_t number = b->shapes.n_steps++;
    for (uint32_t i = 0; i < ARGS; i++) {
        b->args[number][i] = (bundle_arg){.kind = BUNDLE_ARG_BUFFER, .buffer = used[i]};
    }
    b->steps[number] = (bundle_step){.program = program, .args = b->args[number], .n_args = ARGS};
}

static void add_copy(bench *b, uint32_t from, uint32_t to)
{
    b->steps[b->shapes.n_steps++] = (bundle_step){.is_copy = true, .source = from, .target = to};
}

static uint64_t mixed(uint64_t a, uint64_t b)
{
    return (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
}

/// What the buffers hold in the end, where each launch mixes what it reads with what it is.
static void run_steps(const bundle_shapes *shapes, uint64_t values[BUFFERS])
{
    for (uint32_t i = 0; i < BUFFERS; i++) {
        values[i] = i;
    }
    for (uint32_t i = 0; i < shapes->n_steps; i++) {
        const bundle_step *step = &shapes->steps[i];
        if (step->is_copy) {
            values[step->target] = values[step->source];
            continue;
        }
        uint64_t value = step->program;
        for (uint32_t k = 0; k < ARGS; k++) { // it reads what it writes over, too
            uint32_t from = step->args[k].buffer;
            value = mixed(value, from != UINT32_MAX ? values[from] : 1);
        }
        if (step->args[0].buffer != UINT32_MAX) {
            values[step->args[0].buffer] = value;
        }
    }
}

static void check_lives(const bundle_shapes *shapes)
{
    for (uint32_t b = 0; b < shapes->n_buffers; b++) {
        uint32_t first = UINT32_MAX;
        uint32_t last = 0;
        for (uint32_t i = 0; i < shapes->n_steps; i++) {
            const bundle_step *step = &shapes->steps[i];
            bool uses = step->is_copy && (step->source == b || step->target == b);
            for (uint32_t k = 0; k < step->n_args; k++) {
                uses = uses || step->args[k].buffer == b;
            }
            first = uses && first == UINT32_MAX ? i : first;
            last = uses ? i : last;
        }
        KILN_CHECK_INT(shapes->buffers[b].first, first);
        KILN_CHECK(first == UINT32_MAX || shapes->buffers[b].last == last);
    }
}

/// Orders, and gives the changes of program that are left.
static uint32_t order(bench *b)
{
    kiln_error err = KILN_ERROR_INIT;
    uint64_t before[BUFFERS];
    uint64_t after[BUFFERS];
    uint32_t changes = kilni_bundle_reprograms(&b->shapes);
    const bundle_step *steps = b->shapes.steps;
    run_steps(&b->shapes, before);
    KILN_CHECK_INT(kilni_bundle_order(b->maker, &b->shapes, &err), KILN_STATUS_OK);
    run_steps(&b->shapes, after);
    KILN_CHECK_MEM(after, before, sizeof(before));
    uint32_t left = kilni_bundle_reprograms(&b->shapes);
    KILN_CHECK(b->shapes.steps == steps ? left == changes : left < changes);
    if (b->shapes.steps != steps) {
        check_lives(&b->shapes);
    }
    return left;
}

static void bench_close(bench *b)
{
    kiln_bundle_maker_destroy(b->maker);
}

static void test_branches_are_gathered(void)
{
    bench b;
    bench_open(&b);
    for (uint32_t i = 1; i < BUFFERS; i++) { // readers of one buffer wait for nobody
        add_launch(&b, i % 2, i, 0, 0);
    }
    KILN_CHECK_INT(kilni_bundle_reprograms(&b.shapes), 4);
    KILN_CHECK_INT(order(&b), 1);
    bench_close(&b);
}

static void test_unknown_parameters_may_be_written(void)
{
    bench b;
    bench_open(&b);
    b.kernel.parameters = NULL;
    for (uint32_t i = 1; i < BUFFERS; i++) {
        add_launch(&b, i % 2, i, 0, 0);
    }
    KILN_CHECK_INT(order(&b), 4);
    bench_close(&b);
}

static void test_a_chain_stays_as_it_is(void)
{
    bench b;
    bench_open(&b);
    for (uint32_t i = 1; i < BUFFERS; i++) {
        add_launch(&b, i % 2, i, i - 1, UINT32_MAX);
    }
    KILN_CHECK_INT(order(&b), 4);
    bench_close(&b);
}

/// What is written over waits for those that still read the old value.
static void test_memory_that_is_used_again(void)
{
    bench b;
    bench_open(&b);
    add_launch(&b, 0, 1, 0, 0);
    add_launch(&b, 1, 2, 1, 1);
    add_launch(&b, 0, 1, 3, 3);
    add_copy(&b, 1, 4);
    add_launch(&b, 1, 5, 1, 1);
    KILN_CHECK_INT(order(&b), 3);
    bench_close(&b);
}

/// The longest program first would leave one more: 0 1 0 2 has to become 1 0 2, not 0 1 0 2.
static void test_the_first_program_is_chosen_by_what_follows(void)
{
    bench b;
    bench_open(&b);
    add_launch(&b, 0, 1, 0, 0);
    add_launch(&b, 0, 2, 0, 0);
    add_launch(&b, 1, 3, 0, 0);
    add_launch(&b, 0, 4, 3, 1);
    add_launch(&b, 2, 5, 4, 2);
    KILN_CHECK_INT(order(&b), 2);
    KILN_CHECK_INT(b.shapes.steps[0].program, 1);
    bench_close(&b);
}

static uint32_t next_number(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below;
}

static void test_any_steps_give_the_same_values(void)
{
    uint32_t state = 1;
    uint32_t saved = 0;
    for (int round = 0; round < 2000; round++) {
        bench b;
        bench_open(&b);
        uint32_t count = 1 + next_number(&state, STEPS);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t from = next_number(&state, BUFFERS + 1);
            if (next_number(&state, 8) == 0) {
                add_copy(&b, next_number(&state, BUFFERS), next_number(&state, BUFFERS));
            } else {
                add_launch(&b, next_number(&state, PROGRAMS), next_number(&state, BUFFERS),
                           from < BUFFERS ? from : UINT32_MAX, next_number(&state, BUFFERS));
            }
        }
        uint32_t before = kilni_bundle_reprograms(&b.shapes);
        saved += before - order(&b);
        bench_close(&b);
    }
    KILN_CHECK(saved > 2000);
}

KILN_TEST_MAIN("unit/runtime/bundle_order", KILN_TEST(test_branches_are_gathered),
               KILN_TEST(test_unknown_parameters_may_be_written),
               KILN_TEST(test_a_chain_stays_as_it_is), KILN_TEST(test_memory_that_is_used_again),
               KILN_TEST(test_the_first_program_is_chosen_by_what_follows),
               KILN_TEST(test_any_steps_give_the_same_values))
