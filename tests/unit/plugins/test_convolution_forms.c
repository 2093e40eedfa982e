// SPDX-License-Identifier: MIT OR Apache-2.0
// Regions of convolutions with groups of several channels, with concatenations, with windows of 3x3
// in Winograd's form, of lines, and of f16 and bf16: sizes that fill blocks, tiles and parts of
// sums and that do not, NaN and infinities. region_program.c runs each program and compares.
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "region_program.h"

#define W(kh, kw, sy, sx, dy, dx, t, l, b, r)                                                      \
    {                                                                                              \
        {kh, kw}, {sy, sx}, {dy, dx},                                                              \
        {                                                                                          \
            t, l, b, r                                                                             \
        }                                                                                          \
    }

typedef struct grouped_case {
    int64_t n, groups, inputs, outputs; ///< channels of a group
    int64_t height, width;
    window window;
    bool bias;
    bool odd; ///< the image has NaN and infinities
} grouped_case;

static const grouped_case grouped_cases[] = {
    {1, 8, 4, 4, 9, 13, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true}, // within blocks
    {2, 5, 8, 8, 7, 15, W(3, 3, 2, 2, 1, 1, 1, 1, 1, 1), false, true},
    {1, 9, 2, 2, 5, 3, W(5, 3, 1, 2, 1, 2, 2, 1, 0, 3), true, true},
    {1, 2, 16, 16, 7, 29, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true}, // whole blocks
    {2, 3, 32, 64, 7, 5, W(3, 3, 2, 1, 1, 1, 1, 1, 1, 1), false, true},
    {1, 2, 64, 16, 14, 14, W(1, 1, 1, 1, 1, 1, 0, 0, 0, 0), true, true},
    {1, 3, 24, 24, 6, 11, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true}, // across blocks
    {2, 2, 20, 20, 9, 4, W(1, 1, 2, 2, 1, 1, 0, 0, 0, 0), false, true},
    {1, 10, 1, 3, 8, 9, W(3, 3, 1, 1, 2, 1, 2, 1, 2, 1), true, true},
    {1, 7, 3, 1, 8, 9, W(2, 2, 1, 1, 1, 1, 0, 1, 1, 0), true, true},
    {1, 2, 40, 5, 5, 17, W(3, 3, 3, 1, 1, 1, 2, 0, 0, 2), false, false},
    {1, 2, 8, 8, 20, 21, W(9, 9, 1, 1, 1, 1, 4, 4, 4, 4), true, false}, // sums too long to spread
};

/// With a batch norm, an activation and a residual behind it.
static void grouped_region(program *p, const grouped_case *c)
{
    int x = region_image(p, c->n, c->groups * c->inputs, c->height, c->width);
    p->nodes[x].odd = c->odd;
    int y = region_grouped(p, c->groups, x, c->groups * c->outputs, c->bias, c->window);
    int z = region_map(p, RELU, region_norm(p, y));
    const node *out = &p->nodes[z];
    int other = region_image(p, out->dims[0], out->dims[1], out->dims[2], out->dims[3]);
    if (c->bias) { // otherwise the norm goes into the weights
        region_keep(p, y);
    }
    region_keep(p, region_conv1(p, region_both(p, ADD, z, other), 24));
}

static void test_groups(void)
{
    if (!region_open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(grouped_cases) / sizeof(grouped_cases[0]); i++) {
        program p = {.unfused = i % 3 == 0};
        snprintf(p.name, sizeof(p.name), "groups %zu", i);
        grouped_region(&p, &grouped_cases[i]);
        region_check(&p);
    }
    region_close_all();
}

typedef struct winograd_case {
    int64_t n, channels, height, width, outputs;
    int64_t padding[4];
    bool bias;
    bool odd; ///< the image has NaN and infinities; otherwise only NaN
} winograd_case;

/// Of whole and broken tiles, groups and parts of sums; with enough tiles for Winograd's form.
static const winograd_case winograd_cases[] = {
    {1, 32, 12, 12, 32, {1, 1, 1, 1}, true, false}, {2, 40, 11, 13, 20, {1, 1, 1, 1}, false, true},
    {1, 72, 15, 9, 64, {0, 0, 0, 0}, true, false},  {1, 160, 9, 16, 32, {2, 0, 1, 2}, true, true},
    {3, 33, 1, 65, 24, {1, 1, 1, 1}, false, false}, {1, 64, 14, 14, 128, {1, 1, 1, 1}, true, true},
};

/// A convolution, and one with a norm, an activation and a residual behind it.
static void winograd_region(program *p, const winograd_case *c)
{
    window w = region_square(3, 1, 0);
    memcpy(w.padding, c->padding, sizeof(w.padding));
    int x = region_image(p, c->n, c->channels, c->height, c->width);
    p->nodes[x].odd = c->odd;
    p->nodes[x].has_nan = !c->odd;
    p->infinity_is_nan = c->odd;
    region_keep(p, region_conv(p, x, c->outputs, c->bias, w));
    int other = region_image(p, c->n, c->channels, c->height, c->width);
    int y = region_norm(p, region_conv(p, other, c->outputs, c->bias, w));
    const node *out = &p->nodes[y];
    int residual = region_image(p, out->dims[0], out->dims[1], out->dims[2], out->dims[3]);
    region_keep(p, region_map(p, RELU, region_both(p, ADD, y, residual)));
}

static void test_winograd(void)
{
    if (!region_open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(winograd_cases) / sizeof(winograd_cases[0]); i++) {
        program p = {.count = 0};
        snprintf(p.name, sizeof(p.name), "Winograd %zu", i);
        winograd_region(&p, &winograd_cases[i]);
        region_check(&p);
    }
    region_close_all();
}

/// Images of these many channels, and behind their concatenation a region's end.
static void concat_region(program *p, const int *channels, int count, int seed)
{
    int x = region_image(p, 1 + seed % 2, 17, 5 + seed, 7), pieces[MOST_INPUTS];
    p->nodes[x].odd = seed % 3 == 1;
    for (int i = 0; i < count; i++) {
        pieces[i] = i == 2   ? region_image(p, 1 + seed % 2, channels[i], 5 + seed, 7)
                    : i == 3 ? region_depthwise(p, x, true, region_square(3, 1, 1))
                             : region_map(p, RELU, region_conv1(p, x, channels[i]));
    }
    int y = region_concat(p, pieces, count);
    int z = seed % 2 == 0 ? region_map(p, RELU, region_norm(p, y)) : y;
    if (seed % 4 > 1) {
        region_keep(p, y);
    }
    region_keep(p, region_pool(p, MAX_POOL, z, region_square(2, 1, 0), false, false));
    region_keep(p, region_conv3(p, z, 20));
}

static void test_concats(void)
{
    static const int channels[][MOST_INPUTS] = {
        {16, 32, 0},
        {5, 3, 16, 0},
        {64, 16, 48, 17, 0},
        {16, 16, 32, 17, 16, 0},
        {7, 16, 24, 17, 3, 40, 1, 0},
        {32, 32, 32, 17, 32, 32, 32, 32, 32, 0},
        {1, 1, 5, 17, 2, 3, 1, 1, 9, 20, 0},
    };
    if (!region_open_all()) {
        return;
    }
    for (int i = 0; i < (int)(sizeof(channels) / sizeof(channels[0])); i++) {
        program p = {.unfused = i == 4};
        int count = 0;
        while (channels[i][count] != 0) {
            count++;
        }
        snprintf(p.name, sizeof(p.name), "concatenation %d", i);
        concat_region(&p, channels[i], count, i);
        region_check(&p);
    }
    region_close_all();
}

typedef struct line_case {
    int64_t n, channels, width, outputs, length, stride, dilation, padding[2];
    bool bias;
    bool odd; ///< the line has NaN and infinities
} line_case;

static const line_case line_cases[] = {
    {1, 1, 200, 32, 10, 5, 1, {0, 0}, false, false}, // as of sound
    {2, 17, 33, 40, 3, 1, 1, {1, 1}, true, true},    {1, 32, 64, 16, 3, 2, 1, {1, 1}, true, false},
    {1, 16, 1, 64, 1, 1, 1, {0, 0}, true, true},     {3, 24, 50, 24, 5, 1, 4, {16, 0}, false, true},
    {1, 80, 40, 128, 3, 1, 1, {1, 1}, true, false},  {1, 5, 7, 3, 2, 3, 2, {2, 1}, false, false},
};

static window along(int64_t length, int64_t stride, int64_t dilation, int64_t before, int64_t after)
{
    return (window){.lengths = {1, length},
                    .strides = {1, stride},
                    .dilations = {1, dilation},
                    .padding = {0, before, 0, after}};
}

/// Everything that a region of images may have.
static void line_region(program *p, const line_case *c)
{
    int x = region_image(p, c->n, c->channels, 1, c->width);
    p->nodes[x].odd = c->odd;
    window w = along(c->length, c->stride, c->dilation, c->padding[0], c->padding[1]);
    int y = region_map(p, GELU, region_norm(p, region_conv(p, x, c->outputs, c->bias, w)));
    int64_t width = p->nodes[y].dims[3];
    int z = region_depthwise(p, y, c->bias, along(3, 1, 1, 1, 1));
    z = region_both(p, MUL, z, region_per_channel(p, 4, c->outputs));
    z = region_both(p, ADD, z, region_per_channel(p, 3, c->outputs));
    z = region_both(p, ADD, z, region_image(p, c->n, c->outputs, 1, width));
    z = region_keep(p, region_gate(p, z));
    int pieces[] = {z, y};
    z = region_concat(p, pieces, 2);
    if (width > 2) {
        z = region_pool(p, c->bias ? MAX_POOL : AVG_POOL, z, along(2, 2, 1, 1, 0), true, c->odd);
    }
    region_keep(p, region_conv(p, z, 20, true, along(1, 1, 1, 0, 0)));
    region_keep(p, region_mean(p, z));
}

static void test_lines(void)
{
    if (!region_open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(line_cases) / sizeof(line_cases[0]); i++) {
        program p = {.lines = true, .unfused = i % 2 == 0};
        snprintf(p.name, sizeof(p.name), "lines %zu", i);
        line_region(&p, &line_cases[i]);
        region_check(&p);
    }
    region_close_all();
}

// ---- transposed convolutions ----

typedef struct turned_case {
    int64_t n, channels, height, width, outputs;
    window window;
    bool bias;
    bool odd; ///< the image has NaN and infinities
} turned_case;

static const turned_case turned_cases[] = {
    {1, 16, 7, 9, 32, W(2, 2, 2, 2, 1, 1, 0, 0, 0, 0), true, true}, // as networks of segments have
    {2, 17, 5, 4, 24, W(4, 4, 2, 2, 1, 1, 1, 1, 1, 1), false, true}, // as generators have
    {1, 40, 6, 33, 5, W(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), true, true},
    {1, 3, 4, 5, 16, W(3, 2, 3, 4, 1, 1, 0, 0, 0, 0), true, false}, // places that nothing reaches
    {1, 20, 6, 3, 48, W(3, 4, 2, 1, 2, 3, 2, 0, 0, 4), false, true},
    {2, 33, 1, 1, 33, W(4, 4, 1, 1, 1, 1, 0, 0, 0, 0), true, false},
    {1, 8, 2, 6, 16, W(5, 2, 2, 3, 1, 1, 2, 1, 1, 0), false, false},
};

/// Of an image from outside, and of one that the region computes, with all that may follow.
static void turned_region(program *p, const turned_case *c)
{
    int x = region_image(p, c->n, c->channels, c->height, c->width);
    p->nodes[x].odd = c->odd;
    int y = region_turned(p, x, c->outputs, c->bias, c->window);
    y = region_map(p, RELU, region_norm(p, y));
    if (!c->odd) {
        region_keep(p, y);
    }
    int z = region_turned(p, region_conv1(p, y, c->channels), 20, !c->bias, c->window);
    const node *out = &p->nodes[z];
    int other = region_image(p, out->dims[0], 20, out->dims[2], out->dims[3]);
    region_keep(p, region_both(p, ADD, region_map(p, SIGMOID, z), other));
}

static void test_turned(void)
{
    if (!region_open_all()) {
        return;
    }
    for (size_t i = 0; i < sizeof(turned_cases) / sizeof(turned_cases[0]); i++) {
        program p = {.unfused = i % 3 == 1};
        const turned_case *c = &turned_cases[i];
        snprintf(p.name, sizeof(p.name), "turned %zu", i);
        turned_region(&p, c);
        region_check(&p);
    }
    program q = {.name = "turned line", .lines = true};
    int y = region_turned(&q, region_image(&q, 2, 17, 1, 13), 24, true, along(4, 2, 1, 1, 1));
    region_keep(&q, region_conv(&q, y, 16, false, along(3, 1, 1, 1, 1)));
    region_check(&q);
    region_close_all();
}

/// What comes before a transposed convolution that no region takes, for its window is too long, is
/// a region all the same.
static void test_before_turned(void)
{
    if (!region_open_all()) {
        return;
    }
    program p = {.name = "before turned", .apart = 7};
    int y = region_map(&p, RELU, region_conv3(&p, region_image(&p, 2, 16, 5, 6), 16));
    region_keep(&p, region_turned(&p, y, 16, true, region_square(17, 1, 0)));
    region_check(&p);
    region_close_all();
}

// ---- f16 and bf16 ----

/// What a region of f32 may have, with a stem of few channels, whose weights and vectors are
/// packed.
static void narrow_region(program *p, int64_t n, int64_t channels, int64_t size)
{
    int x = region_image(p, n, 3, size, size + 4);
    p->nodes[x].odd = p->dtype == KILN_DTYPE_F16;
    int a = region_map(p, RELU,
                       region_norm(p, region_conv(p, x, channels, true, region_square(3, 2, 1))));
    int b = region_map(p, HARD_SWISH, region_depthwise(p, a, true, region_square(3, 1, 1)));
    b = region_both(p, ADD, region_conv1(p, region_gate(p, b), channels), a);
    int c = region_numbers(p, MUL_NUMBER, region_norm(p, region_map(p, SIGMOID, b)), 0.3, 0);
    int pieces[] = {region_both(p, MUL, c, region_per_channel(p, 4, channels)), region_keep(p, b)};
    int d = region_concat(p, pieces, 2);
    region_keep(p, region_pool(p, MAX_POOL, d, region_square(2, 2, 0), false, false));
    int e = region_grouped(p, 2, d, 48, false, region_square(3, 1, 1));
    region_keep(
        p, region_pool(p, AVG_POOL, region_map(p, GELU, e), region_square(3, 1, 1), false, true));
    region_keep(p, region_mean(p, e));
}

/// Exact, where every sum and step is a small whole number: nothing but the rounding can differ.
static void rounded_region(program *p)
{
    int x = region_image(p, 1, 1, 9, 21);
    const int64_t dims[] = {1, 1, 1, 1};
    node made = {.kind = CONV,
                 .rank = 4,
                 .groups = 1,
                 .dims = {1, 1, 9, 21},
                 .inputs = {x},
                 .n_inputs = 2,
                 .window = region_square(1, 1, 0)};
    made.inputs[1] = region_constant(p, 4, dims, 1, 1);
    p->nodes[p->count] = made;
    int y = p->count++;
    y = region_numbers(p, ADD_NUMBER, region_numbers(p, ADD_NUMBER, y, 2048, 0), -2048, 0);
    region_keep(p, region_numbers(p, MUL_NUMBER, y, 2048, 0));
    y = region_numbers(p, ADD_NUMBER, region_map(p, RELU, y), 7, 0); // 0 before
    y = region_numbers(p, MUL_NUMBER, y, 0.1, 0); // by the element that is nearest to 0.1
    region_keep(p, region_numbers(p, ADD_NUMBER, y, -0.7, 0));
}

static void test_narrow(void)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F16, KILN_DTYPE_BF16};
    if (!region_open_all()) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        program p = {.dtype = dtypes[i], .unfused = true};
        snprintf(p.name, sizeof(p.name), "%s region", kiln_dtype_name(dtypes[i]));
        narrow_region(&p, 1 + i, 17 + 15 * i, 9 + i);
        region_check(&p);
        program q = {.dtype = dtypes[i], .unfused = true};
        snprintf(q.name, sizeof(q.name), "%s rounded", kiln_dtype_name(dtypes[i]));
        rounded_region(&q);
        region_check(&q);
    }
    region_close_all();
}

KILN_TEST_MAIN("unit/plugins/convolution_forms", KILN_TEST(test_groups), KILN_TEST(test_concats),
               KILN_TEST(test_winograd), KILN_TEST(test_lines), KILN_TEST(test_turned),
               KILN_TEST(test_before_turned), KILN_TEST(test_narrow))
