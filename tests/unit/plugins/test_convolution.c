// SPDX-License-Identifier: MIT OR Apache-2.0
// Regions of convolutions as the shipped fuser `convolution` takes them, through the runtime.
// region_program.c runs each program with that fuser alone, and compares.
//
// KILN_TEST_LONG adds products of all lengths, strides and dilations, more random programs, and the
// unfused run of each; KILN_TEST_REGION=name runs one case.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "region_program.h"

enum { RANDOM_PROGRAMS = 40, RANDOM_PROGRAMS_LONG = 400 };

// ---- single products ----

typedef struct product_case {
    int64_t n, channels, height, width, outputs;
    window window;
    bool bias;
    bool depthwise;
} product_case;

#define W(kh, kw, sy, sx, dy, dx, t, l, b, r)                                                      \
    {                                                                                              \
        {kh, kw}, {sy, sx}, {dy, dx},                                                              \
        {                                                                                          \
            t, l, b, r                                                                             \
        }                                                                                          \
    }

static const product_case product_cases[] = {
    {1, 1, 1, 1, 1, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), false, false},
    {2, 3, 7, 13, 5, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), true, false},
    {1, 16, 14, 14, 16, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), false, false},
    {3, 17, 2, 28, 40, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), true, false},
    {1, 64, 7, 7, 64, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), false, false},
    {1, 24, 15, 15, 24, W(1, 1, 2, 2, 1, 1, 0, 0, 0, 0), true, false},
    {2, 8, 13, 29, 17, W(2, 2, 1, 1, 1, 1, 0, 0, 0, 0), false, false},
    {1, 5, 13, 14, 24, W(2, 2, 2, 2, 1, 1, 1, 0, 0, 1), true, false},
    {1, 1, 28, 28, 8, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, false},
    {2, 3, 29, 15, 16, W(3, 3, 2, 2, 1, 1, 0, 0, 1, 1), false, false},
    {1, 16, 13, 13, 17, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, false},
    {1, 40, 14, 7, 64, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), false, false},
    {3, 17, 7, 7, 3, W(3, 3, 1, 1, 2, 2, 2, 2, 2, 2), true, false},
    {1, 8, 15, 28, 8, W(3, 3, 3, 3, 1, 1, 2, 1, 0, 2), false, false},
    {1, 24, 29, 13, 16, W(3, 3, 2, 2, 2, 2, 2, 1, 1, 2), true, false},
    {2, 16, 7, 1, 16, W(3, 1, 1, 1, 1, 1, 1, 0, 1, 0), false, false},
    {1, 17, 1, 29, 24, W(1, 3, 1, 2, 1, 1, 0, 1, 0, 1), true, false},
    {1, 5, 14, 14, 40, W(5, 5, 1, 1, 1, 1, 2, 2, 2, 2), false, false},
    {1, 16, 15, 13, 8, W(5, 5, 2, 2, 1, 1, 2, 2, 2, 2), true, false},
    {1, 3, 28, 28, 16, W(7, 7, 2, 2, 1, 1, 3, 3, 3, 3), true, false},
    {2, 1, 13, 7, 5, W(7, 7, 3, 1, 1, 1, 6, 0, 0, 6), false, false},
    {1, 8, 1, 2, 64, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, false},
    {1, 3, 2, 2, 5, W(5, 5, 3, 3, 1, 1, 4, 4, 4, 4), false, false},
    // weights that are larger than the first cache: all tiles at once, several times some, parts
    {1, 64, 9, 11, 24, W(3, 3, 2, 2, 1, 1, 1, 1, 1, 1), true, false},
    {2, 72, 19, 23, 40, W(3, 3, 1, 1, 2, 2, 2, 2, 2, 2), false, false},
    {1, 528, 5, 4, 16, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), true, false},
    {1, 16, 14, 14, 16, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), false, true},
    {2, 17, 7, 13, 17, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true},
    {1, 40, 15, 15, 40, W(3, 3, 2, 2, 1, 1, 1, 1, 1, 1), false, true},
    {1, 3, 28, 29, 3, W(5, 5, 1, 1, 1, 1, 2, 2, 2, 2), true, true},
    {3, 24, 13, 2, 24, W(3, 3, 1, 2, 2, 1, 2, 1, 1, 0), false, true},
    {1, 8, 1, 1, 8, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true},
    {1, 64, 7, 14, 64, W(7, 1, 3, 3, 1, 1, 0, 2, 6, 1), false, true},
};

static void single(program *p, const product_case *c)
{
    p->count = 0;
    p->products = 0;
    int x = region_image(p, c->n, c->channels, c->height, c->width);
    int y = region_grouped(p, c->depthwise ? c->channels : 1, x, c->outputs, c->bias, c->window);
    region_keep(p, y);
}

static void test_products(void)
{
    if (!region_open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(product_cases) / sizeof(product_cases[0]); i++) {
        program p = {.count = 0};
        if (i % 3 == 2 && !kiln_test_is_long()) {
            continue;
        }
        snprintf(p.name, sizeof(p.name), "product %zu", i);
        single(&p, &product_cases[i]);
        region_check(&p);
    }
    region_close_all();
}

/// Every length, stride and dilation with every number of channels, in turns.
static void test_products_long(void)
{
    static const int64_t channels[] = {1, 3, 5, 8, 16, 17, 24, 40, 64};
    static const int64_t lengths[] = {1, 2, 3, 5, 7};
    static const int64_t sizes[] = {1, 2, 7, 13, 14, 15, 28, 29};
    uint64_t state = 5;
    if (!kiln_test_is_long()) {
        kiln_test_skip("long: set KILN_TEST_LONG");
        return;
    }
    if (!region_open_all()) {
        return;
    }
    for (int i = 0; i < 400; i++) {
        program p = {.count = 0};
        product_case c = {.n = 1 + i % 3, .channels = channels[i % 9]};
        c.depthwise = c.channels > 1 && i % 4 == 3;
        c.outputs = c.depthwise ? c.channels : channels[(int)(region_next_number(&state) * 9) % 9];
        c.height = sizes[(int)(region_next_number(&state) * 8) % 8];
        c.width = sizes[(int)(region_next_number(&state) * 8) % 8];
        c.bias = region_next_number(&state) < 0.5;
        for (int k = 0; k < 2; k++) {
            window *w = &c.window;
            int64_t size = k == 0 ? c.height : c.width;
            w->lengths[k] = lengths[(int)(region_next_number(&state) * 5) % 5];
            w->strides[k] = 1 + (int64_t)(region_next_number(&state) * 3) % 3;
            w->dilations[k] = 1 + (int64_t)(region_next_number(&state) * 2) % 2;
            int64_t reach = (w->lengths[k] - 1) * w->dilations[k] + 1;
            int64_t missing = reach > size ? reach - size : 0;
            w->padding[k] = (missing + 1) / 2 + (int64_t)(region_next_number(&state) * 3) % 3;
            w->padding[2 + k] = (missing + 1) / 2 + (int64_t)(region_next_number(&state) * 3) % 3;
        }
        snprintf(p.name, sizeof(p.name), "long product %d", i);
        single(&p, &c);
        region_check(&p);
    }
    region_close_all();
}

// ---- what lies behind and between ----

static int start(program *p) ///< what most programs begin with
{
    return region_image(p, 1, 16, 3, 2);
}

static void norm_folds(program *p)
{
    region_keep(p, region_map(p, RELU, region_norm(p, region_conv3(p, start(p), 17))));
}

static void norm_of_bias_folds(program *p)
{
    region_keep(p, region_norm(p, region_conv1(p, start(p), 17)));
}

static void norm_of_depthwise_folds(program *p)
{
    region_keep(p, region_norm(p, region_depthwise(p, start(p), true, region_square(3, 1, 1))));
}

static void norm_behind_relu(program *p)
{
    region_keep(p, region_norm(p, region_map(p, RELU, region_conv3(p, start(p), 17))));
}

static void norm_of_used(program *p)
{
    int c = region_conv3(p, start(p), 16);
    region_keep(p, region_both(p, ADD, region_norm(p, c), c));
}

static void norm_of_kept(program *p)
{
    region_keep(p, region_norm(p, region_keep(p, region_conv3(p, start(p), 16))));
}

static void norm_twice(program *p)
{
    region_keep(p, region_norm(p, region_norm(p, region_conv3(p, start(p), 16))));
}

static void norm_epsilons(program *p)
{
    int x = region_norm_with(p, region_conv3(p, start(p), 16), 0.25);
    region_keep(p, region_norm_with(p, region_map(p, RELU, x), 0.001));
}

static void norm_epsilon_whole(program *p)
{
    int x = region_norm_with(p, region_conv3(p, start(p), 16), 1);
    region_keep(p, region_norm_with(p, region_map(p, RELU, x), 0));
}

static void clamps(program *p)
{
    int x = region_numbers(p, CLAMP, region_conv1(p, start(p), 17), -0.25, 0.5);
    region_keep(p, region_numbers(p, CLAMP, region_conv1(p, x, 17), 0, 6));
}

static void silus(program *p)
{
    region_keep(p,
                region_silu(p, region_conv1(p, region_silu(p, region_conv1(p, start(p), 17)), 16)));
}

static void hard_swishes(program *p)
{
    region_keep(
        p,
        region_map(p, HARD_SWISH,
                   region_conv1(p, region_map(p, HARD_SWISH, region_conv1(p, start(p), 17)), 16)));
}

static void other_maps(program *p)
{
    int x = region_map(p, TANH, region_conv1(p, start(p), 17));
    x = region_map(p, GELU, region_numbers(p, LEAKY, region_conv1(p, x, 16), 0.125, 0));
    x = region_numbers(p, ADD_NUMBER, region_map(p, ERF, region_conv1(p, x, 16)), 0.1, 0);
    region_keep(p, region_numbers(p, MUL_NUMBER, x, -1.5, 0));
}

static void residual_earlier(program *p)
{
    int a = region_map(p, RELU, region_conv3(p, start(p), 24));
    int b = region_norm(p, region_conv3(p, a, 24));
    region_keep(p, region_map(p, RELU, region_both(p, ADD, b, a)));
}

static void residual_later(program *p) ///< as the shortcut of a strided block
{
    int x = region_conv1(p, start(p), 24);
    int a = region_norm(p, region_conv(p, x, 40, false, region_square(3, 2, 1)));
    int b = region_norm(p, region_conv(p, x, 40, false, region_square(1, 2, 0)));
    region_keep(p, region_map(p, RELU, region_both(p, ADD, a, b)));
}

static void residual_outside(program *p)
{
    int other = region_image(p, 1, 17, 3, 2);
    region_keep(p, region_map(p, RELU, region_both(p, ADD, region_conv3(p, start(p), 17), other)));
}

static void residual_input(program *p)
{
    int x = region_image(p, 2, 5, 7, 7);
    region_keep(p, region_both(p, ADD, x, region_conv3(p, x, 5)));
}

static void residual_constant(program *p)
{
    const int64_t dims[] = {1, 17, 3, 2};
    region_keep(
        p, region_both(p, ADD, region_conv3(p, start(p), 17), region_constant(p, 4, dims, -1, 1)));
}

static void residual_itself(program *p)
{
    int x = region_conv3(p, start(p), 16);
    x = region_both(p, ADD, x, x);
    region_keep(p, region_both(p, MUL, x, x));
}

static void preactivation(program *p)
{
    int a = region_conv3(p, start(p), 24);
    for (int i = 0; i < 3; i++) {
        int b = region_conv3(p, region_map(p, RELU, region_norm(p, a)), 24);
        a = region_both(p, ADD, b, a);
    }
    region_keep(p, a);
}

static void gates(program *p)
{
    int x = region_gate(p, region_map(p, RELU, region_conv3(p, region_image(p, 2, 16, 3, 2), 17)));
    region_keep(p, region_gate(p, region_conv1(p, x, 24)));
}

static void gates_before(program *p) ///< convolutions take the gates before them in
{
    int x = region_conv1(p, region_image(p, 2, 5, 5, 3), 24);
    int g = region_image(p, 2, 24, 1, 1); // from outside
    int y = region_conv1(p, region_both(p, MUL, g, x), 40);
    y = region_gate(p, region_silu(p, region_depthwise(p, y, true, region_square(3, 1, 1))));
    y = region_conv(p, y, 33, true, region_square(1, 2, 0));
    region_keep(p, region_gate(p, y)); // a result
}

static void gates_apart(program *p) ///< gates that they may not
{
    int x = region_conv3(p, start(p), 16);
    int g = region_map(p, SIGMOID, region_conv1(p, region_mean(p, x), 16));
    int wide = region_conv3(p, region_both(p, MUL, x, g), 24);
    int padded = region_conv(p, region_both(p, MUL, x, g), 24, false, region_square(1, 1, 1));
    int both = region_both(p, MUL, g, x);
    int a = region_conv1(p, both, 16), b = region_conv1(p, both, 16);
    int kept = region_keep(p, region_both(p, MUL, x, g));
    region_keep(p, region_both(p, ADD, region_conv1(p, kept, 16), region_both(p, ADD, a, b)));
    region_keep(p, wide);
    region_keep(p, padded);
}

static void gate_alone(program *p) ///< a gate is read by an image that is computed later
{
    int x = region_conv3(p, start(p), 16);
    int g = region_map(p, SIGMOID, region_conv1(p, region_mean(p, x), 16));
    int y = region_conv3(p, x, 16);
    region_keep(p, region_both(p, ADD, region_both(p, MUL, g, y), x));
}

static void gate_outside(program *p)
{
    int g = region_image(p, 1, 17, 1, 1);
    region_keep(p, region_both(p, MUL, region_conv3(p, start(p), 17), g));
}

static void gate_of_outside(program *p)
{
    int x = region_image(p, 1, 16, 3, 2);
    region_keep(p,
                region_both(p, MUL,
                            region_map(p, SIGMOID,
                                       region_conv1(p, region_mean(p, region_conv1(p, x, 16)), 16)),
                            x));
}

static void channel_constants(program *p)
{
    int x = region_both(p, MUL, region_conv1(p, start(p), 17), region_per_channel(p, 4, 17));
    x = region_both(p, ADD, region_per_channel(p, 3, 17), x);
    x = region_both(p, SUB, region_conv1(p, x, 24), region_per_channel(p, 1, 1));
    x = region_both(p, MAXIMUM, x, region_per_channel(p, 4, 1));
    region_keep(p, region_both(p, ADD, x, region_constant(p, 0, NULL, -1, 1)));
}

static void channel_constant_twice(program *p)
{
    int k = region_per_channel(p, 4, 16);
    int x = region_both(p, MUL, region_conv1(p, start(p), 16), k);
    region_keep(p, region_both(p, ADD, region_both(p, SUB, k, region_conv1(p, x, 16)), k));
}

static void max_pools(program *p)
{
    window w = {.lengths = {3, 2}, .strides = {2, 3}, .dilations = {2, 1}, .padding = {1, 0, 2, 1}};
    int x = region_pool(p, MAX_POOL, region_conv1(p, region_image(p, 1, 8, 14, 15), 17),
                        region_square(3, 2, 1), false, false);
    int y = region_pool(p, MAX_POOL, region_keep(p, x), w, false, false);
    int z = region_pool(p, MAX_POOL, x, region_square(2, 3, 0), true, false);
    region_keep(p, region_map(p, RELU, region_conv1(p, y, 16)));
    region_keep(p, region_map(p, RELU, region_conv1(p, z, 16)));
}

static void average_pools(program *p)
{
    int x = region_conv1(p, region_image(p, 2, 8, 14, 15), 17);
    region_keep(p, region_pool(p, AVG_POOL, x, region_square(3, 2, 1), false, false));
    region_keep(p, region_pool(p, AVG_POOL, x, region_square(3, 2, 1), false, true));
    region_keep(p, region_pool(p, AVG_POOL, x, region_square(3, 2, 1), true, false));
    region_keep(p, region_pool(p, AVG_POOL, x, region_square(3, 2, 1), true, true));
    region_keep(p, region_norm(p, region_pool(p, AVG_POOL, x, region_square(2, 3, 0), true, true)));
}

static void empty_windows(program *p) ///< some windows lie in the padding alone
{
    int x = region_conv1(p, region_image(p, 1, 8, 3, 3), 17);
    region_keep(p, region_pool(p, AVG_POOL, x, region_square(2, 1, 2), false, true));
    region_keep(p, region_pool(p, MAX_POOL, x, region_square(2, 1, 2), false, false));
}

static void pool_among_zeros(program *p) ///< zeros around an image are for its other reader
{
    int x = region_conv1(p, start(p), 16);
    int m = region_pool(p, MAX_POOL, x, region_square(3, 1, 1), false, false);
    region_keep(p, region_both(p, ADD, region_conv(p, x, 16, true, region_square(5, 1, 2)), m));
}

static void means(program *p)
{
    int x = region_mean(p, region_map(p, RELU, region_conv3(p, region_image(p, 3, 3, 13, 14), 40)));
    region_keep(p, region_conv1(p, x, 10));
}

static void several_kept(program *p)
{
    int x = region_keep(p, region_conv3(p, start(p), 16));
    int y = region_keep(p, region_map(p, RELU, x));
    int z = region_keep(p, region_both(p, ADD, region_conv3(p, y, 16), x));
    region_keep(p, region_mean(p, z));
    region_keep(p, region_map(p, SIGMOID, z));
}

static void dead_value(program *p) ///< nobody reads it
{
    int x = region_conv3(p, start(p), 16);
    (void)region_map(p, SIGMOID, x);
    (void)region_conv1(p, x, 24);
    region_keep(p, region_map(p, RELU, region_conv3(p, x, 17)));
}

static void branches(program *p)
{
    int x = region_image(p, 1, 3, 14, 14);
    int a = region_conv(p, x, 16, true, region_square(3, 2, 1)),
        b = region_conv(p, x, 16, true, region_square(5, 2, 2));
    int c = region_map(p, TANH, region_both(p, MUL, a, b));
    region_keep(p, region_both(p, ADD, region_conv1(p, c, 16), region_both(p, SUB, a, b)));
}

static void two_images(program *p)
{
    int a = region_conv1(p, region_image(p, 2, 5, 7, 7), 16),
        b = region_conv3(p, region_image(p, 2, 24, 7, 7), 16);
    region_keep(p, region_map(p, RELU, region_both(p, MUL, a, b)));
}

static void many_behind(program *p)
{
    int x = region_conv1(p, start(p), 16), y = x;
    for (int i = 0; i < 30; i++) {
        x = i % 3 == 0 ? region_both(p, ADD, x, y)
                       : region_numbers(p, MUL_NUMBER, x, 0.75 + 0.01 * i, 0);
    }
    region_keep(p, x);
}

static void many_images(program *p)
{
    int x = region_conv1(p, start(p), 16);
    for (int i = 0; i < 9; i++) {
        x = region_both(p, ADD, x, region_image(p, 1, 16, 3, 2));
    }
    region_keep(p, x);
}

static void many_constants(program *p)
{
    int x = region_conv1(p, start(p), 16);
    for (int i = 0; i < 28; i++) {
        x = region_both(p, i % 2 == 0 ? ADD : MUL, x, region_per_channel(p, 4, 16));
    }
    region_keep(p, x);
}

static void many_norms(program *p)
{
    int x = region_map(p, RELU, region_conv1(p, start(p), 16));
    for (int i = 0; i < 9; i++) {
        x = region_norm(p, x);
    }
    region_keep(p, x);
}

static void inverted(program *p) ///< as MobileNet's blocks
{
    int x = region_conv1(p, start(p), 24);
    int a = region_numbers(p, CLAMP, region_norm(p, region_conv1(p, x, 64)), 0, 6);
    int b = region_numbers(
        p, CLAMP, region_norm(p, region_depthwise(p, a, false, region_square(3, 1, 1))), 0, 6);
    region_keep(p, region_both(p, ADD, region_norm(p, region_conv1(p, b, 24)), x));
}

typedef struct region_case {
    const char *name;
    void (*build)(program *p);
} region_case;

#define CASE(function)                                                                             \
    {                                                                                              \
#function, function                                                                        \
    }

static const region_case region_cases[] = {
    CASE(norm_folds),
    CASE(norm_of_bias_folds),
    CASE(norm_of_depthwise_folds),
    CASE(norm_behind_relu),
    CASE(norm_of_used),
    CASE(norm_of_kept),
    CASE(norm_twice),
    CASE(norm_epsilons),
    CASE(norm_epsilon_whole),
    CASE(clamps),
    CASE(silus),
    CASE(hard_swishes),
    CASE(other_maps),
    CASE(residual_earlier),
    CASE(residual_later),
    CASE(residual_outside),
    CASE(residual_input),
    CASE(residual_constant),
    CASE(residual_itself),
    CASE(preactivation),
    CASE(gates),
    CASE(gates_before),
    CASE(gates_apart),
    CASE(gate_alone),
    CASE(gate_outside),
    CASE(gate_of_outside),
    CASE(channel_constants),
    CASE(channel_constant_twice),
    CASE(max_pools),
    CASE(average_pools),
    CASE(empty_windows),
    CASE(pool_among_zeros),
    CASE(means),
    CASE(several_kept),
    CASE(dead_value),
    CASE(branches),
    CASE(two_images),
    CASE(many_behind),
    CASE(many_images),
    CASE(many_constants),
    CASE(many_norms),
    CASE(inverted),
};

static void make_region(program *p, const region_case *c)
{
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%s", c->name);
    c->build(p);
}

static void test_regions(void)
{
    if (!region_open_all()) {
        return;
    }
    const char *only = getenv("KILN_TEST_REGION");
    for (size_t i = 0; i < sizeof(region_cases) / sizeof(region_cases[0]); i++) {
        program p;
        make_region(&p, &region_cases[i]);
        if (only != NULL && strcmp(only, p.name) != 0) {
            continue;
        }
        region_check(&p);
        for (int k = 0; k < p.count; k++) {
            p.nodes[k].odd = p.nodes[k].kind == IMAGE;
        }
        region_check_salted(&p, 2, 1); // the same plan with other constants, NaN and infinities
    }
    region_close_all();
}

// ---- one stream, several sizes ----

static void sized(program *p, int64_t n, int64_t height, int64_t width)
{
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%d x %d x %d", (int)n, (int)height, (int)width);
    p->unfused = true;
    int x = region_conv3(p, region_image(p, n, 5, height, width), 17);
    int y =
        region_map(p, RELU, region_norm(p, region_depthwise(p, x, true, region_square(3, 1, 1))));
    int other = region_image(p, n, 17, height, width);
    region_keep(p, region_gate(p, region_both(p, ADD, y, other)));
    region_keep(p, region_pool(p, MAX_POOL, y, region_square(2, 1, 1), false, false));
}

/// Sizes that plans belong to: lengths that are equal by chance do not make one of two.
static void test_sizes(void)
{
    static const int64_t sizes[][3] = {{1, 3, 4}, {2, 3, 4},  {1, 4, 3}, {3, 3, 3},
                                       {4, 3, 4}, {5, 1, 1},  {1, 1, 1}, {3, 4, 3},
                                       {1, 3, 4}, {17, 2, 3}, {2, 3, 4}};
    if (!region_open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        program p;
        sized(&p, sizes[i][0], sizes[i][1], sizes[i][2]);
        region_check_salted(&p, i, 1);
    }
    region_close_all();
}

// ---- what ends a region ----

static void outside_pool(program *p)
{
    region_keep(p, region_map(p, RELU, region_conv1(p, start(p), 16)));
    region_keep(p, region_pool(p, MAX_POOL, region_image(p, 1, 16, 3, 3), region_square(2, 1, 0),
                               false, false));
    p->apart = 1;
}

static void outside_mean(program *p)
{
    int x = region_map(p, RELU, region_conv1(p, start(p), 16));
    region_keep(p, region_both(p, MUL, region_mean(p, region_image(p, 1, 16, 3, 3)), x));
    p->apart = 1;
}

static void outside_map(program *p)
{
    int x = region_map(p, RELU, region_conv1(p, start(p), 16)),
        other = region_image(p, 1, 16, 3, 2);
    region_keep(p, x);
    region_keep(p, region_both(p, MUL, other, other));
    p->apart = 1;
}

static void outside_norm(program *p)
{
    region_keep(p, region_map(p, RELU, region_conv1(p, start(p), 16)));
    region_keep(p, region_norm(p, region_image(p, 1, 16, 3, 3)));
    p->apart = 1;
}

static void outside_places(program *p) ///< a number for each place, none for each channel
{
    int x = region_map(p, RELU, region_conv1(p, start(p), 16)), other = region_image(p, 1, 1, 3, 2);
    region_keep(p, region_both(p, MUL, x, other));
    p->apart = 1;
}

static void around(program *p) ///< what the region leaves out stands between its operations
{
    int x = region_map(p, RELU, region_conv1(p, start(p), 16));
    int y = region_both(p, MUL, x, region_image(p, 1, 1, 3, 2));
    region_keep(p, region_both(p, ADD, x, region_conv3(p, y, 16)));
    p->apart = 1;
}

static const region_case end_cases[] = {CASE(outside_pool), CASE(outside_mean),   CASE(outside_map),
                                        CASE(outside_norm), CASE(outside_places), CASE(around)};

static void test_ends(void)
{
    if (!region_open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(end_cases) / sizeof(end_cases[0]); i++) {
        program p;
        make_region(&p, &end_cases[i]);
        p.unfused = true;
        region_check_salted(&p, 1, 2);
    }
    region_close_all();
}

// ---- limits ----

static void long_chain_held(program *p) ///< a launch for each value, and one that gives it
{
    int x = region_conv1(p, region_image(p, 1, 1, 1, 1), 1);
    for (int i = 0; i < 210; i++) {
        x = region_keep(p, region_map(p, TANH, x));
    }
}

static void twelve_norms(program *p)
{
    int x = region_map(p, RELU, region_conv1(p, start(p), 16));
    for (int i = 0; i < 12; i++) {
        x = region_norm(p, x);
    }
    region_keep(p, x);
}

static void tall(program *p) ///< rows of one work-item are more than 16 bits
{
    int x = region_conv1(p, region_image(p, 1, 1, 65536, 1), 128);
    region_keep(p, region_pool(p, MAX_POOL, x, region_square(1, 1, 0), false, false));
}

static const region_case limit_cases[] = {CASE(long_chain_held), CASE(twelve_norms), CASE(tall)};

static void test_limits(void)
{
    if (!region_open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(limit_cases) / sizeof(limit_cases[0]); i++) {
        program p;
        make_region(&p, &limit_cases[i]);
        region_check(&p);
    }
    region_close_all();
}

// ---- random programs ----

typedef struct dice {
    program *p;
    uint64_t state;
    int images[MAX_NODES]; ///< values to choose from
    int count;
} dice;

static int roll(dice *d, int sides)
{
    return (int)(region_next_number(&d->state) * sides) % sides;
}

static int any(dice *d)
{
    return d->images[roll(d, d->count)];
}

static bool same_dims(const node *a, const node *b)
{
    return memcmp(a->dims, b->dims, sizeof(a->dims)) == 0;
}

/// Another value of the same size; sometimes one from outside.
static int partner(dice *d, int x)
{
    const node *like = &d->p->nodes[x];
    for (int tries = 0; tries < 8; tries++) {
        int y = any(d);
        if (same_dims(&d->p->nodes[y], like)) {
            return y;
        }
    }
    return region_image(d->p, like->dims[0], like->dims[1], like->dims[2], like->dims[3]);
}

static int random_window(dice *d, int x)
{
    static const int64_t channels[] = {5, 16, 17};
    const node *in = &d->p->nodes[x];
    int64_t outputs = channels[roll(d, 3)];
    bool fits = in->dims[2] > 1 && in->dims[3] > 1;
    switch (roll(d, 8)) {
    case 0:
        return region_conv3(d->p, x, outputs);
    case 6:
        return in->dims[1] < 80 ? region_concat(d->p, (int[]){x, partner(d, x)}, 2)
                                : region_conv1(d->p, x, 5);
    case 1:
        return in->dims[1] == 16
                   ? region_grouped(d->p, 1 << roll(d, 5), x, 16, false, region_square(3, 1, 1))
               : in->dims[1] > 1 ? region_depthwise(d->p, x, false, region_square(3, 1, 1))
                                 : region_conv1(d->p, x, 5);
    case 2:
        return region_pool(d->p, MAX_POOL, x, region_square(3, 1, 1), false, false);
    case 3:
        return fits ? region_pool(d->p, AVG_POOL, x, region_square(2, 2, 0), roll(d, 2), false)
                    : region_mean(d->p, x);
    case 4:
        return region_mean(d->p, x);
    default:
        return region_conv1(d->p, x, outputs);
    }
}

static int random_map(dice *d, int x)
{
    program *p = d->p;
    static const node_kind kinds[] = {ADD, MUL, SUB, MAXIMUM};
    switch (roll(d, 8)) {
    case 0:
        return region_map(p, RELU, x);
    case 1:
        return region_numbers(p, CLAMP, x, -0.5, 0.75);
    case 2:
        return region_silu(p, x);
    case 3:
        return region_both(p, kinds[roll(d, 4)], x, region_per_channel(p, 4, p->nodes[x].dims[1]));
    case 4:
        return region_norm(p, x);
    default:
        return region_both(p, kinds[roll(d, 4)], x, partner(d, x));
    }
}

/// A value that nobody reads is held, and one of six of the others.
static void keep_some(dice *d)
{
    program *p = d->p;
    for (int i = 0; i < p->count; i++) {
        if (p->nodes[i].kind > CONSTANT && (!region_is_read_behind(p, i, i) || roll(d, 6) == 0)) {
            region_keep(p, i);
        }
    }
}

static void random_program(program *p, uint64_t seed)
{
    dice d = {.p = p, .state = seed * 977 + 3};
    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "random program %d", (int)seed);
    int steps = 3 + roll(&d, 7);
    int x = region_image(p, 1 + roll(&d, 2), roll(&d, 2) ? 16 : 3, 3, 2);
    d.images[d.count++] = region_conv1(p, x, 16);
    for (int i = 0; i < steps && p->count < MAX_NODES - 16; i++) {
        x = roll(&d, 3) > 0 ? d.images[d.count - 1] : any(&d);
        int y = roll(&d, 3) == 0   ? random_window(&d, x)
                : roll(&d, 8) == 0 ? region_gate(p, x)
                                   : random_map(&d, x);
        d.images[d.count++] = y;
    }
    keep_some(&d);
}

static void test_random_programs(void)
{
    uint64_t count = kiln_test_is_long() ? RANDOM_PROGRAMS_LONG : RANDOM_PROGRAMS;
    if (!region_open_all()) {
        return;
    }
    for (uint64_t seed = 0; seed < count; seed++) {
        program p;
        random_program(&p, seed);
        region_check(&p);
    }
    region_close_all();
}

// ---- packs ----

/// Launches of a run over constants and images that stay.
static uint64_t launches_again(const program *p, session *s, kiln_tensor **values)
{
    kiln_device_stats before = region_stats_of(s->device);
    for (int i = 0; i < p->count; i++) {
        const node *n = &p->nodes[i];
        kiln_tensor *in[MOST_INPUTS] = {NULL};
        for (int k = 0; k < n->n_inputs; k++) {
            in[k] = values[n->inputs[k]];
        }
        if (n->kind > CONSTANT && !region_ok(region_record(n, in, &values[i]), p)) {
            return 0;
        }
    }
    for (int i = 0; i < p->count; i++) { // only the last is wanted
        if (p->nodes[i].kind > CONSTANT && !p->nodes[i].kept) {
            kiln_release(values[i]);
        }
    }
    region_ok(kiln_sync(s->device, &region_err), p);
    for (int i = 0; i < p->count; i++) {
        if (p->nodes[i].kind > CONSTANT && p->nodes[i].kept) {
            kiln_release(values[i]);
        }
    }
    return region_stats_of(s->device).backend.kernels_launched - before.backend.kernels_launched;
}

/// Weights are packed once, however many constants are packed with them.
static void test_packs_stay(void)
{
    program p = {.count = 0};
    kiln_tensor *values[MAX_NODES] = {NULL};
    if (!region_open_all()) {
        return;
    }
    many_norms(&p);
    for (int i = 0; i < p.count; i++) {
        if (p.nodes[i].kind <= CONSTANT) {
            values[i] = region_source(&p, &p.nodes[i], region_fused.device, (uint64_t)i);
        }
    }
    uint64_t first = launches_again(&p, &region_fused, values);
    uint64_t second = launches_again(&p, &region_fused, values);
    uint64_t third = launches_again(&p, &region_fused, values);
    KILN_CHECK(second < first);
    KILN_CHECK_INT(third, second);
    KILN_CHECK(second <= 4); // into blocks, the product, norms that find no room with it, out
    for (int i = 0; i < p.count; i++) {
        if (p.nodes[i].kind <= CONSTANT) {
            kiln_release(values[i]);
        }
    }
    region_close_all();
}

KILN_TEST_MAIN("unit/plugins/convolution", KILN_TEST(test_products), KILN_TEST(test_products_long),
               KILN_TEST(test_regions), KILN_TEST(test_sizes), KILN_TEST(test_ends),
               KILN_TEST(test_limits), KILN_TEST(test_packs_stay), KILN_TEST(test_random_programs))
