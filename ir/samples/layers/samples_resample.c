// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of operators that sample between elements: interpolate with every mode and
// coordinate rule, grids and boxes that reach outside, coordinates that are no numbers.
#include <string.h>

#include "samples_internal.h"

typedef struct size_list {
    uint32_t count;
    int64_t values[5];
} size_list;

typedef struct float_list {
    uint32_t count;
    double values[6];
} float_list;

typedef struct resample_case {
    size_list x;
    size_list y; ///< the last lengths of the result
    const char *mode;
    const char *coordinates;
    float_list scales;
    float_list region;
    bool exclude_outside;
    bool antialias;
} resample_case;

static const resample_case resample_cases[] = {
    {{4, {1, 2, 4, 5}}, {2, {7, 10}}, NULL, NULL, {0}, {0}, false, false},
    {{4, {2, 3, 6, 7}}, {2, {4, 3}}, "linear", "align_corners", {0}, {0}, false, false},
    {{4, {1, 1, 5, 4}}, {2, {8, 9}}, "cubic", "half_pixel", {0}, {0}, false, false},
    {{4, {1, 1, 6, 6}}, {2, {4, 9}}, "cubic", "pytorch_half_pixel", {0}, {0}, true, false},
    {{4, {1, 2, 9, 8}}, {2, {4, 3}}, "cubic", "half_pixel", {0}, {0}, true, true},
    {{4, {1, 2, 9, 8}},
     {2, {4, 3}},
     "linear",
     "half_pixel_symmetric",
     {2, {0.45, 0.4}},
     {0},
     false,
     true},
    {{4, {1, 1, 7, 6}}, {2, {5, 11}}, "lanczos3", "half_pixel", {0}, {0}, false, false},
    {{4, {1, 1, 7, 6}}, {2, {3, 4}}, "lanczos3", "align_corners", {0}, {0}, true, true},
    {{4, {1, 2, 4, 5}}, {2, {7, 3}}, "nearest", "half_pixel", {0}, {0}, false, false},
    {{4, {1, 2, 4, 5}}, {2, {8, 3}}, "nearest_up", "half_pixel", {0}, {0}, false, false},
    {{4, {1, 2, 4, 5}},
     {2, {8, 3}},
     "nearest_floor",
     "asymmetric",
     {2, {2, 0.6}},
     {0},
     false,
     false},
    {{4, {1, 2, 4, 5}}, {2, {6, 7}}, "nearest_ceil", "align_corners", {0}, {0}, false, false},
    {{3, {2, 3, 8}}, {1, {20}}, "nearest_floor", "tf_half_pixel_for_nn", {0}, {0}, false, false},
    {{2, {6, 33}},
     {2, {4, 40}},
     "linear",
     "tf_crop_and_resize",
     {0},
     {4, {0.2, -0.1, 0.9, 1.2}},
     false,
     false},
    {{5, {1, 2, 3, 4, 3}}, {3, {5, 2, 4}}, "linear", "asymmetric", {0}, {0}, false, false},
    {{1, {9}}, {1, {1}}, "linear", "pytorch_half_pixel", {0}, {0}, false, false},
    {{2, {1, 1}}, {2, {3, 4}}, "cubic", "half_pixel", {0}, {0}, false, false},
    {{3, {2, 3, 4}}, {3, {2, 3, 4}}, "linear", "half_pixel", {0}, {0}, false, false},
    {{3, {0, 3, 4}}, {2, {2, 2}}, "linear", "half_pixel", {0}, {0}, false, false},
    {{2, {3, 4}}, {2, {3, 0}}, "linear", "half_pixel", {0}, {0}, false, false},
    {{2, {3, 4}}, {2, {3, 0}}, "cubic", "half_pixel", {0}, {0}, false, true},
    {{2, {3, 4}}, {2, {3, 0}}, "linear", "asymmetric", {2, {1, 1e-300}}, {0}, false, true},
    {{4, {1, 40, 3, 3}}, {3, {30, 2, 3}}, "linear", "half_pixel", {0}, {0}, false, false},
};
enum { N_RESAMPLE_CASES = sizeof(resample_cases) / sizeof(resample_cases[0]) };

static kilni_sample_tensor sized_tensor(const size_list *shape)
{
    kilni_sample_tensor tensor = {.rank = (uint8_t)shape->count, .fill = KILNI_FILL_SMALL};
    memcpy(tensor.dims, shape->values, shape->count * sizeof(shape->values[0]));
    return tensor;
}

static kiln_attr floats(const float_list *list)
{
    return list->count > 0 ? kilni_attr_floats(list->values, list->count) : kilni_attr_none();
}

static void resample_attrs(const resample_case *c, unsigned i, kiln_attr *out_attrs)
{
    out_attrs[0] = kilni_attr_text(c->mode);
    out_attrs[1] = kilni_attr_text(c->coordinates);
    out_attrs[2] = floats(&c->scales);
    out_attrs[3] = floats(&c->region);
    out_attrs[4] = i % 2 == 0 ? kilni_attr_none() : kilni_attr_f64(-0.5);
    out_attrs[5] = kilni_attr_bool(c->exclude_outside);
    out_attrs[6] = kilni_attr_bool(c->antialias);
}

void kiln_samples_interpolate(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_RESAMPLE_CASES; i++) {
        const resample_case *c = &resample_cases[i];
        kilni_sample_tensor x = sized_tensor(&c->x);
        kiln_attr attrs[8] = {kilni_attr_ints(c->y.values, c->y.count)};
        resample_attrs(c, i, attrs + 1);
        kilni_sample_emit(sink, op, dtype, &x, 1, attrs);
    }
}

void kiln_samples_interpolate_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_RESAMPLE_CASES; i++) {
        const resample_case *c = &resample_cases[i];
        kilni_sample_tensor grad = sized_tensor(&c->x);
        kiln_attr attrs[8] = {kilni_attr_ints(c->x.values, c->x.count)};
        memcpy(&grad.dims[c->x.count - c->y.count], c->y.values,
               c->y.count * sizeof(c->y.values[0]));
        resample_attrs(c, i, attrs + 1);
        kilni_sample_emit(sink, op, dtype, &grad, 1, attrs);
    }
}

void kiln_samples_grid_sample(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        size_list x;
        size_list grid;
        const char *mode;
    } cases[] = {
        {{4, {2, 3, 5, 6}}, {4, {2, 4, 3, 2}}, NULL},
        {{4, {1, 2, 4, 7}}, {4, {1, 6, 5, 2}}, "nearest"},
        {{4, {1, 2, 6, 5}}, {4, {1, 5, 7, 2}}, "cubic"},
        {{3, {2, 3, 9}}, {3, {2, 11, 1}}, "linear"},
        {{5, {1, 2, 3, 4, 5}}, {5, {1, 2, 3, 4, 3}}, "linear"},
        {{5, {1, 1, 3, 4, 3}}, {5, {1, 2, 2, 3, 3}}, "cubic"},
        {{4, {1, 1, 1, 1}}, {4, {1, 3, 3, 2}}, "linear"},
        {{4, {0, 2, 3, 3}}, {4, {0, 2, 2, 2}}, "linear"},
    };
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    for (unsigned i = 0; i < 6 * sizeof(cases) / sizeof(cases[0]); i++) {
        kilni_sample_tensor inputs[2] = {sized_tensor(&cases[i / 6].x),
                                         sized_tensor(&cases[i / 6].grid)};
        inputs[1].fill = i % 6 == 5 ? KILNI_FILL_SPECIAL : KILNI_FILL_SMALL;
        const kiln_attr attrs[4] = {kilni_attr_text(cases[i / 6].mode),
                                    kilni_attr_text(paddings[i % 3]), kilni_attr_bool(i % 6 < 3),
                                    kilni_attr_none()};
        kilni_sample_emit(sink, op, dtype, inputs, 2, attrs);
    }
}

void kiln_samples_roi_align(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const int64_t sizes[][2] = {{2, 3}, {1, 1}, {4, 2}};
    for (unsigned i = 0; i < 12; i++) {
        const kilni_sample_tensor inputs[3] = {
            {.rank = 4, .dims = {2, 3, 6, 7}, .fill = KILNI_FILL_SMALL},
            {.rank = 2,
             .dims = {i == 11 ? 0 : 9, 4},
             .fill = i == 10 ? KILNI_FILL_SPECIAL : KILNI_FILL_SMALL},
            {.rank = 1,
             .dims = {i == 11 ? 0 : 9},
             .fill = KILNI_FILL_INDEX,
             .limit = 2,
             .dtype = i % 2 == 0 ? KILN_DTYPE_I64 : KILN_DTYPE_I32}};
        const kiln_attr attrs[5] = {
            kilni_attr_ints(sizes[i % 3], 2), kilni_attr_text(i % 2 == 0 ? "avg" : "max"),
            i < 6 ? kilni_attr_none() : kilni_attr_text("output_half_pixel"),
            kilni_attr_i64(i % 4 < 2 ? 0 : 2), kilni_attr_f64(2.5)};
        kilni_sample_emit(sink, op, dtype, inputs, 3, attrs);
    }
}
