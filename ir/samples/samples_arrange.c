// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of windows, diagonals, repeat, roll, triangles and eye. All of them only move or
// choose elements, so they get the special values.
#include "samples_internal.h"

#define COUNT_OF(cases) (sizeof(cases) / sizeof((cases)[0]))

void kiln_samples_unfold(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        int64_t axis, size, stride;
    } cases[] = {
        {{.rank = 1, .dims = {1}}, 0, 1, 1},       {{.rank = 1, .dims = {45}}, -1, 5, 3},
        {{.rank = 2, .dims = {9, 7}}, 0, 4, 1},    {{.rank = 2, .dims = {9, 7}}, 1, 7, INT64_MAX},
        {{.rank = 3, .dims = {2, 6, 3}}, 1, 2, 4}, {{.rank = 2, .dims = {3, 4}}, 1, 0, 1},
        {{.rank = 2, .dims = {0, 4}}, 1, 2, 1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const kiln_attr attrs[] = {kilni_attr_i64(cases[i].axis), kilni_attr_i64(cases[i].size),
                                   cases[i].stride == 1 ? kilni_attr_none()
                                                        : kilni_attr_i64(cases[i].stride)};
        kilni_sample_emit(sink, op, dtype, &cases[i].x, 1, attrs);
    }
}

void kiln_samples_diagonal(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        int64_t offset;
    } cases[] = {
        {{.rank = 2, .dims = {1, 1}}, 0},         {{.rank = 2, .dims = {7, 7}}, 0},
        {{.rank = 2, .dims = {5, 8}}, 2},         {{.rank = 2, .dims = {8, 5}}, -3},
        {{.rank = 2, .dims = {5, 8}}, 8},         {{.rank = 3, .dims = {3, 4, 4}}, -1},
        {{.rank = 4, .dims = {2, 1, 3, 5}}, 1},   {{.rank = 2, .dims = {4, 6}}, INT64_MIN},
        {{.rank = 2, .dims = {4, 6}}, INT64_MAX}, {{.rank = 3, .dims = {2, 0, 3}}, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kiln_attr offset =
            cases[i].offset == 0 ? kilni_attr_none() : kilni_attr_i64(cases[i].offset);
        kilni_sample_emit(sink, op, dtype, &cases[i].x, 1, &offset);
    }
}

void kiln_samples_eye(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const int64_t shapes[][2] = {{1, 1}, {6, 6}, {3, 7}, {8, 2}, {0, 3}};
    static const int64_t offsets[] = {0, 1, -2, 50, INT64_MIN};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        for (size_t k = 0; k < COUNT_OF(offsets); k++) {
            const kiln_attr attrs[] = {kilni_attr_ints(shapes[i], 2), kilni_attr_dtype(dtype),
                                       k == 0 ? kilni_attr_none() : kilni_attr_i64(offsets[k])};
            kilni_sample_emit(sink, op, dtype, NULL, 0, attrs);
        }
    }
}

void kiln_samples_repeat(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        int64_t repeats[KILN_MAX_RANK];
    } cases[] = {
        {{.rank = 0}, {0}},
        {{.rank = 1, .dims = {5}}, {3}},
        {{.rank = 2, .dims = {3, 40}}, {2, 1}},
        {{.rank = 2, .dims = {3, 7}}, {1, 4}},
        {{.rank = 3, .dims = {2, 3, 4}}, {3, 1, 2}},
        {{.rank = 2, .dims = {3, 4}}, {0, 2}},
        {{.rank = 2, .dims = {0, 4}}, {3, 2}},
        {{.rank = 5, .dims = {2, 1, 3, 1, 2}}, {2, 3, 2, 2, 2}},
        {{.rank = 8, .dims = {1, 2, 1, 2, 1, 2, 1, 2}}, {2, 1, 2, 1, 2, 1, 2, 2}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kiln_attr repeats = kilni_attr_ints(cases[i].repeats, cases[i].x.rank);
        kilni_sample_emit(sink, op, dtype, &cases[i].x, 1, &repeats);
    }
}

void kiln_samples_roll(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        uint32_t n_shifts, n_axes;
        int64_t shifts[3], axes[3];
    } cases[] = {
        {{.rank = 0}, 0, 0, {0}, {0}},
        {{.rank = 1, .dims = {41}}, 1, 0, {3}, {0}},
        {{.rank = 1, .dims = {41}}, 1, 1, {-100}, {-1}},
        {{.rank = 2, .dims = {5, 6}}, 1, 1, {2}, {0}},
        {{.rank = 3, .dims = {4, 5, 3}}, 2, 2, {INT64_MIN, 7}, {-1, 0}},
        {{.rank = 3, .dims = {2, 1, 3}}, 3, 0, {1, 1, 2}, {0}},
        {{.rank = 2, .dims = {0, 3}}, 2, 0, {1, 1}, {0}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const kiln_attr attrs[] = {kilni_attr_ints(cases[i].shifts, cases[i].n_shifts),
                                   cases[i].n_axes > 0
                                       ? kilni_attr_ints(cases[i].axes, cases[i].n_axes)
                                       : kilni_attr_none()};
        kilni_sample_emit(sink, op, dtype, &cases[i].x, 1, attrs);
    }
}

void kiln_samples_blocks(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        int64_t to_space[4], to_depth[4];
        int64_t size;
    } cases[] = {
        {{1, 1, 1, 1}, {1, 1, 1, 1}, 1},
        {{2, 12, 3, 5}, {2, 3, 6, 10}, 2},
        {{1, 18, 2, 1}, {1, 2, 3, 9}, 3},
        {{0, 4, 3, 2}, {0, 1, 4, 2}, 2},
    };
    static const char *const modes[] = {NULL, "dcr", "crd"};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kilni_sample_tensor x = {.rank = 4};
        for (unsigned d = 0; d < 4; d++) {
            x.dims[d] = op == KILN_OP_DEPTH_TO_SPACE ? cases[i].to_space[d] : cases[i].to_depth[d];
        }
        for (size_t m = 0; m < COUNT_OF(modes); m++) {
            const kiln_attr attrs[] = {kilni_attr_i64(cases[i].size),
                                       modes[m] != NULL ? kilni_attr_text(modes[m])
                                                        : kilni_attr_none()};
            kilni_sample_emit(sink, op, dtype, &x, 1, attrs);
        }
    }
}
