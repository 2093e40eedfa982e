// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of random numbers: lengths that end inside a block of the generator, places beyond
// 32 bits, ranges that are empty, whole, and everything between.
#include <math.h>
#include <stdint.h>

#include "samples_internal.h"

typedef struct place { ///< shape and place in the generator's stream
    int64_t dims[3];
    uint32_t rank;
    int64_t seed;
    int64_t stream;
    int64_t position;
} place;

static const place places[] = {
    {{0}, 0, 0, 0, 0},
    {{1}, 1, 1, 0, 1},
    {{2, 0, 3}, 3, 1, 2, 3},
    {{3, 5, 7}, 3, -1, 0, 7},
    {{1031}, 1, INT64_MIN, UINT32_MAX, ((int64_t)1 << 48) - 1},
    {{17, 64}, 2, (int64_t)0x0123456789abcdef, 7, (int64_t)1 << 33},
};
enum { N_PLACES = sizeof(places) / sizeof(places[0]) };

/// Attributes in the order of the schemas; `n` parameters stand between dtype and seed.
static void emit_draw(kiln_sample_sink *sink, kiln_op op, kiln_dtype dtype,
                      const kiln_attr *parameters, uint32_t n)
{
    for (unsigned i = 0; i < N_PLACES; i++) {
        kiln_attr attrs[KILN_MAX_ATTRS] = {kilni_attr_ints(places[i].dims, places[i].rank),
                                           kilni_attr_dtype(dtype)};
        for (uint32_t k = 0; k < n; k++) {
            attrs[2 + k] = parameters[k];
        }
        attrs[2 + n] = kilni_attr_i64(places[i].seed);
        attrs[3 + n] = i == 0 ? kilni_attr_none() : kilni_attr_i64(places[i].stream);
        attrs[4 + n] = i == 0 ? kilni_attr_none() : kilni_attr_i64(places[i].position);
        kilni_sample_emit(sink, op, dtype, NULL, 0, attrs);
    }
}

void kiln_samples_random_uniform(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const double ranges[][2] = {{0, 1}, {-1, 1}, {1, 2}, {-3.25, 100}, {2, 2}};
    for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        const kiln_attr parameters[2] = {kilni_attr_f64(ranges[i][0]),
                                         kilni_attr_f64(ranges[i][1])};
        emit_draw(sink, op, dtype, parameters, 2);
    }
}

void kiln_samples_random_int(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const int64_t ranges[][2] = {{0, 1}, {5, 5}, {0, 9}, {3, 100}};
    for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        const kiln_attr parameters[2] = {kilni_attr_i64(ranges[i][0]),
                                         kilni_attr_i64(ranges[i][1])};
        emit_draw(sink, op, dtype, parameters, 2);
    }
    const kiln_attr all[2] = {kilni_attr_f64(-(double)INFINITY), kilni_attr_f64((double)INFINITY)};
    emit_draw(sink, op, dtype, all, 2);
}

void kiln_samples_random_normal(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const double shapes[][2] = {{0, 1}, {100, 0.5}, {-1000, 3}, {2, 0}};
    for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const kiln_attr parameters[2] = {kilni_attr_f64(shapes[i][0]),
                                         kilni_attr_f64(shapes[i][1])};
        emit_draw(sink, op, dtype, parameters, 2);
    }
}

void kiln_samples_random_bernoulli(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const double probabilities[] = {0, 1, 0.5, 0.1};
    for (unsigned i = 0; i < sizeof(probabilities) / sizeof(probabilities[0]); i++) {
        const kiln_attr parameter = kilni_attr_f64(probabilities[i]);
        emit_draw(sink, op, dtype, &parameter, 1);
    }
}

void kiln_samples_random_permutation(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const int64_t counts[] = {0, 1, 2, 100, 127};
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const kiln_attr attrs[5] = {kilni_attr_i64(counts[i]), kilni_attr_dtype(dtype),
                                    kilni_attr_i64(i), kilni_attr_i64(3), kilni_attr_i64(4)};
        kilni_sample_emit(sink, op, dtype, NULL, 0, attrs);
    }
}
