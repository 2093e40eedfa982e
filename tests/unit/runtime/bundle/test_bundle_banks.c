// SPDX-License-Identifier: MIT OR Apache-2.0
// Banks of memory: what shares an argument lies together, and where no bank can be named for an
// argument nothing of banks is left in the bundle.

#include <string.h>

#include "bundle_maker.h"
#include "harness.h"

enum { BUFFERS = 4, ARGS = 2 };

typedef struct board {
    kiln_env env;
    kiln_bundle_maker *maker;
    bundle_parameter parameters[ARGS];
    bundle_kernel kernels[2];
    bundle_program programs[2];
    bundle_buffer buffers[BUFFERS];
    bundle_arg args[2][ARGS];
    bundle_step steps[2];
    bundle_shapes shapes;
} board;

/// Two programs, each of which reads one buffer of its own and writes another.
static void board_open(board *b)
{
    kiln_error err = KILN_ERROR_INIT;
    *b = (board){.env = {.allocator = kiln_allocator_default()}};
    b->parameters[0] = (bundle_parameter){.name = "x", .read_only = true};
    b->parameters[1] = (bundle_parameter){.name = "y"};
    KILN_CHECK_INT(kiln_bundle_maker_create(&b->env, &b->maker, &err), KILN_STATUS_OK);
    for (uint32_t i = 0; i < 2; i++) {
        b->kernels[i] = (bundle_kernel){
            .name = i == 0 ? "first" : "second", .n_args = ARGS, .parameters = b->parameters};
        b->programs[i] = (bundle_program){.kernels = &b->kernels[i], .n_kernels = 1};
        for (uint32_t k = 0; k < ARGS; k++) {
            b->args[i][k] = (bundle_arg){.kind = BUNDLE_ARG_BUFFER, .buffer = 2 * i + k};
        }
        b->steps[i] = (bundle_step){.program = i, .args = b->args[i], .n_args = ARGS};
    }
    for (uint32_t i = 0; i < BUFFERS; i++) {
        b->buffers[i] = (bundle_buffer){.kind = BUNDLE_BUFFER_SCRATCH, .bytes = 64 << i};
    }
    b->shapes = (bundle_shapes){
        .buffers = b->buffers, .n_buffers = BUFFERS, .steps = b->steps, .n_steps = 2};
    b->maker->manifest.programs = b->programs;
    b->maker->manifest.n_programs = 2;
    b->maker->manifest.shapes = &b->shapes;
    b->maker->manifest.n_shapes = 1;
}

static void test_the_heaviest_lie_apart(void)
{
    kiln_error err = KILN_ERROR_INIT;
    board b;
    board_open(&b);
    KILN_CHECK_INT(kilni_bundle_banks(b.maker, 2, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(b.maker->manifest.n_banks, 2);
    const uint32_t banks[BUFFERS] = {1, 1, 1, 0}; // 512 bytes; 256, 128 and 64
    for (uint32_t i = 0; i < BUFFERS; i++) {
        KILN_CHECK_INT(b.buffers[i].bank, banks[i]);
    }
    KILN_CHECK_CONTAINS(b.programs[0].connections, "sp=first_1.x:DDR[1]\nsp=first_1.y:DDR[1]\n");
    KILN_CHECK_CONTAINS(b.programs[1].connections, "sp=second_1.x:DDR[1]\nsp=second_1.y:DDR[0]\n");
    kiln_bundle_maker_destroy(b.maker);
}

static void test_no_bank_is_left_where_one_has_no_name(void)
{
    kiln_error err = KILN_ERROR_INIT;
    board b;
    board_open(&b);
    b.kernels[1].parameters = NULL;
    KILN_CHECK_INT(kilni_bundle_banks(b.maker, 2, &err), KILN_STATUS_UNIMPLEMENTED);
    KILN_CHECK_CONTAINS(err.message, "second");
    KILN_CHECK_INT(b.maker->manifest.n_banks, 0);
    for (uint32_t i = 0; i < 2; i++) {
        KILN_CHECK(b.programs[i].connections == NULL);
    }
    for (uint32_t i = 0; i < BUFFERS; i++) {
        KILN_CHECK_INT(b.buffers[i].bank, 0);
    }
    kiln_bundle_maker_destroy(b.maker);
}

KILN_TEST_MAIN("unit/runtime/bundle_banks", KILN_TEST(test_the_heaviest_lie_apart),
               KILN_TEST(test_no_bank_is_left_where_one_has_no_name))
