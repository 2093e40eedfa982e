// SPDX-License-Identifier: MIT OR Apache-2.0
// First values of parameters, computed on the host in double precision and rounded once: the same
// bits on every device. Number i of a parameter is a function of the seed, its name and i, by the
// mixing step of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
// OOPSLA 2014).
#include "train_internal.h"

#include <math.h>
#include <string.h>

static const double two_pi = 6.283185307179586476925286766559;

typedef struct draws {
    uint64_t key;
} draws;

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/// Between 0 and 1, neither of them.
static double unit(const draws *from, uint64_t i)
{
    uint64_t bits = mix(from->key + (i + 1) * 0x9e3779b97f4a7c15u);
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

/// Of mean 0 and deviation 1 (Box and Muller, 1958): elements 2k and 2k + 1 share two draws.
static double normal(const draws *from, uint64_t i)
{
    double radius = sqrt(-2 * log(unit(from, i & ~(uint64_t)1)));
    double angle = two_pi * unit(from, i | 1);
    return radius * ((i & 1) == 0 ? cos(angle) : sin(angle));
}

static double truncated_normal(const draws *from, uint64_t i)
{
    draws attempt = *from;
    double value = normal(&attempt, i);
    while (fabs(value) > 2) {
        attempt.key = mix(attempt.key);
        value = normal(&attempt, i);
    }
    return value;
}

// ---- how wide ----

static kiln_status find_fans(const char *name, const kiln_init_options *options,
                             const kiln_tensor_desc *desc, double *out_in, double *out_out,
                             kiln_error *err)
{
    double behind = 1;
    for (size_t i = 2; i < desc->rank; i++) {
        behind *= (double)desc->dims[i];
    }
    if (desc->rank < 2 && (options->fan_in <= 0 || options->fan_out <= 0)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "parameter %.64s has rank %u: its initial values need fan_in and fan_out",
                         name, desc->rank);
    }
    *out_in = options->fan_in > 0 ? (double)options->fan_in : (double)desc->dims[1] * behind;
    *out_out = options->fan_out > 0 ? (double)options->fan_out : (double)desc->dims[0] * behind;
    return KILN_STATUS_OK;
}

/// The plain distribution that a named one is, around 0.
static kiln_status reduce_to_plain(const char *name, const kiln_tensor_desc *desc,
                                   kiln_init_options *options, kiln_error *err)
{
    double in = 0;
    double out = 0;
    double gain = options->gain;
    kiln_status status = KILN_STATUS_OK;
    if (options->kind < KILN_INIT_XAVIER_UNIFORM || options->kind > KILN_INIT_KAIMING_NORMAL) {
        options->spread = options->spread == 0 ? 1 : options->spread;
        return status;
    }
    status = find_fans(name, options, desc, &in, &out, err);
    options->center = 0;
    switch (options->kind) {
    case KILN_INIT_XAVIER_UNIFORM:
        options->kind = KILN_INIT_UNIFORM;
        options->spread = (gain == 0 ? 1 : gain) * sqrt(6 / (in + out));
        break;
    case KILN_INIT_XAVIER_NORMAL:
        options->kind = KILN_INIT_NORMAL;
        options->spread = (gain == 0 ? 1 : gain) * sqrt(2 / (in + out));
        break;
    case KILN_INIT_KAIMING_UNIFORM:
        options->kind = KILN_INIT_UNIFORM;
        options->spread = (gain == 0 ? sqrt(2) : gain) * sqrt(3 / in);
        break;
    default:
        options->kind = KILN_INIT_NORMAL;
        options->spread = (gain == 0 ? sqrt(2) : gain) / sqrt(in);
        break;
    }
    return status;
}

// ---- orthogonal ----

typedef struct matrix { ///< vectors of `length`, one after another
    double *data;
    size_t vectors;
    size_t length;
} matrix;

static double dot(const double *a, const double *b, size_t length)
{
    double sum = 0;
    for (size_t i = 0; i < length; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/// Gram and Schmidt's, twice for each vector, which is enough (Giraud and others, 2005).
static void orthonormalise(const matrix *m)
{
    for (size_t v = 0; v < m->vectors; v++) {
        double *own = m->data + v * m->length;
        for (size_t other = 0; other < 2 * v; other++) {
            const double *before = m->data + (other % v) * m->length;
            double share = dot(own, before, m->length);
            for (size_t i = 0; i < m->length; i++) {
                own[i] -= share * before[i];
            }
        }
        double size = sqrt(dot(own, own, m->length));
        for (size_t i = 0; i < m->length; i++) {
            own[i] /= size;
        }
    }
}

static void store(double value, kiln_dtype dtype, void *out_data, size_t i)
{
    const kiln_attr number = {.type = KILN_ATTR_F64, .count = 1, .v.f = value};
    (void)kiln_number_store(&number, dtype, (unsigned char *)out_data + i * kiln_dtype_size(dtype));
}

static kiln_status fill_orthogonal(const kiln_env *env, const draws *from, double gain,
                                   const kiln_tensor_desc *desc, void *out_data, kiln_error *err)
{
    size_t count = (size_t)kiln_desc_count(desc);
    if (desc->rank < 2) {
        return kiln_fail(err, INVALID_ARGUMENT, "an orthogonal matrix of rank %u", desc->rank);
    }
    size_t rows = (size_t)desc->dims[0];
    size_t columns = rows > 0 ? count / rows : 0;
    bool by_row = rows <= columns;
    matrix m = {.vectors = by_row ? rows : columns, .length = by_row ? columns : rows};
    m.data = kiln_alloc_array(env, count + 1, sizeof(*m.data));
    if (m.data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a matrix of %zu elements", count);
    }
    for (size_t i = 0; i < count; i++) {
        m.data[i] = normal(from, i);
    }
    orthonormalise(&m);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            double value = by_row ? m.data[r * columns + c] : m.data[c * rows + r];
            store(gain * value, desc->dtype, out_data, r * columns + c);
        }
    }
    kiln_free(env, m.data);
    return KILN_STATUS_OK;
}

// ---- all of them ----

static double draw(const kiln_init_options *how, const draws *from, uint64_t i)
{
    switch (how->kind) {
    case KILN_INIT_UNIFORM:
        return how->center + how->spread * (2 * unit(from, i) - 1);
    case KILN_INIT_NORMAL:
        return how->center + how->spread * normal(from, i);
    case KILN_INIT_TRUNCATED_NORMAL:
        return how->center + how->spread * truncated_normal(from, i);
    default:
        return how->center;
    }
}

kiln_status kilni_init_fill(const kiln_env *env, uint64_t seed, const char *name,
                            const kiln_init_options *options, const kiln_tensor_desc *desc,
                            void *out_data, kiln_error *err)
{
    const draws from = {mix(seed ^ kiln_hash64(name, strlen(name), 0))};
    kiln_init_options plain = *options;
    if ((unsigned)plain.kind > KILN_INIT_ORTHOGONAL) {
        return kiln_fail(err, INVALID_ARGUMENT, "parameter %.64s: no initial values have number %d",
                         name, (int)plain.kind);
    }
    if (plain.kind == KILN_INIT_ORTHOGONAL) {
        double gain = plain.gain == 0 ? 1 : plain.gain;
        kiln_status filled = fill_orthogonal(env, &from, gain, desc, out_data, err);
        if (filled != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "parameter %.64s", name);
        }
        return filled;
    }
    kiln_status status = reduce_to_plain(name, desc, &plain, err);
    uint64_t count = (uint64_t)kiln_desc_count(desc);
    for (uint64_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        store(draw(&plain, &from, i), desc->dtype, out_data, (size_t)i);
    }
    return status;
}
