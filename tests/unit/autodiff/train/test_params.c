// SPDX-License-Identifier: MIT OR Apache-2.0
// Sets of parameters: first values are of their distribution, and the same on every device and in
// every order; names, ids and replacement; files of both formats give the same bits again, and one
// that does not fit changes nothing.
#include "kiln_train.h"
#include "runtime_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 96, COLUMNS = 64, COUNT = ROWS * COLUMNS };
static const int64_t dims[] = {ROWS, COLUMNS};

static kiln_params *make_set(fixture *f, uint64_t seed)
{
    kiln_params *params = NULL;
    FIXTURE_OK(f, kiln_params_create(f->device, seed, &params, &f->err));
    return params;
}

static bool add(fixture *f, kiln_params *params, const char *name, kiln_init kind, double center,
                double spread)
{
    kiln_init_options how = KILN_INIT_OPTIONS_INIT;
    how.kind = kind;
    how.center = center;
    how.spread = spread;
    return FIXTURE_OK(f, kiln_params_add(params, name, KILN_DTYPE_F32, 2, dims, &how, &f->err));
}

static bool read_all(fixture *f, const kiln_params *params, size_t index, float *out)
{
    return FIXTURE_OK(
        f, kiln_read(kiln_params_tensor(params, index), out, COUNT * sizeof(float), &f->err));
}

typedef struct shape_of {
    const char *name;
    kiln_init kind;
    double center;
    double spread;
    double mean;
    double deviation;
    double bound; ///< nothing is further from the mean; 0: not asked
} shape_of;

static const shape_of distributions[] = {
    {"constant", KILN_INIT_CONSTANT, 3, 0, 3, 0, 1e-9},
    {"uniform", KILN_INIT_UNIFORM, 1, 2, 1, 1.1547, 2},
    {"normal", KILN_INIT_NORMAL, -1, 0.5, -1, 0.5, 0},
    {"truncated", KILN_INIT_TRUNCATED_NORMAL, 0, 2, 0, 2 * 0.8796, 4},
    {"xavier uniform", KILN_INIT_XAVIER_UNIFORM, 0, 0, 0, 0.1118, 0.19365},
    {"xavier normal", KILN_INIT_XAVIER_NORMAL, 0, 0, 0, 0.1118, 0},
    {"kaiming uniform", KILN_INIT_KAIMING_UNIFORM, 0, 0, 0, 0.17678, 0.30619},
    {"kaiming normal", KILN_INIT_KAIMING_NORMAL, 0, 0, 0, 0.17678, 0},
};

enum { DISTRIBUTIONS = sizeof(distributions) / sizeof(distributions[0]) };

static void test_distributions(void)
{
    static float data[COUNT];
    fixture f;
    if (!fixture_open(&f, "reference:0")) {
        return;
    }
    kiln_params *params = make_set(&f, 5);
    for (size_t i = 0; i < DISTRIBUTIONS; i++) {
        const shape_of *d = &distributions[i];
        double sum = 0;
        double squares = 0;
        if (!add(&f, params, d->name, d->kind, d->center, d->spread) ||
            !read_all(&f, params, i, data)) {
            break;
        }
        for (int k = 0; k < COUNT; k++) {
            sum += (double)data[k];
            squares += ((double)data[k] - d->mean) * ((double)data[k] - d->mean);
            if (d->bound != 0 && fabs((double)data[k] - d->mean) > d->bound * 1.0001) {
                KILN_FAIL("%s: %g", d->name, (double)data[k]);
                break;
            }
        }
        KILN_CHECK_NEAR(sum / COUNT, d->mean, 0.05 * d->deviation + 1e-9);
        KILN_CHECK_NEAR(sqrt(squares / COUNT), d->deviation, 0.04 * d->deviation + 1e-9);
    }
    kiln_params_destroy(params);
    fixture_close(&f);
}

static void test_orthogonal(void)
{
    static float data[COUNT];
    fixture f;
    if (!fixture_open(&f, "reference:0")) {
        return;
    }
    kiln_params *params = make_set(&f, 5);
    if (add(&f, params, "q", KILN_INIT_ORTHOGONAL, 0, 0) && read_all(&f, params, 0, data)) {
        for (int a = 0; a < COLUMNS; a++) { // the shorter side
            for (int b = 0; b <= a; b++) {
                double dot = 0;
                for (int r = 0; r < ROWS; r++) {
                    dot += (double)data[r * COLUMNS + a] * (double)data[r * COLUMNS + b];
                }
                KILN_CHECK_NEAR(dot, a == b ? 1 : 0, 1e-5);
            }
        }
    }
    kiln_params_destroy(params);
    fixture_close(&f);
}

/// Neither the device nor what else is in a set changes a parameter's first values; seeds do.
static void test_same_bits(void)
{
    static float first[COUNT];
    static float other[COUNT];
    fixture reference;
    fixture opencl;
    if (!fixture_open(&reference, "reference:0")) {
        return;
    }
    if (!fixture_open(&opencl, "opencl:0")) {
        fixture_close(&reference);
        return;
    }
    kiln_params *a = make_set(&reference, 5);
    kiln_params *b = make_set(&opencl, 5);
    kiln_params *c = make_set(&opencl, 6);
    if (add(&reference, a, "w", KILN_INIT_NORMAL, 0, 1) &&
        add(&opencl, b, "before", KILN_INIT_NORMAL, 0, 1) &&
        add(&opencl, b, "w", KILN_INIT_NORMAL, 0, 1) &&
        add(&opencl, c, "w", KILN_INIT_NORMAL, 0, 1) && read_all(&reference, a, 0, first) &&
        read_all(&opencl, b, 1, other)) {
        KILN_CHECK_MEM(other, first, sizeof(first));
        KILN_CHECK(read_all(&opencl, c, 0, other) && memcmp(other, first, sizeof(first)) != 0);
        KILN_CHECK(read_all(&opencl, b, 0, other) && memcmp(other, first, sizeof(first)) != 0);
        KILN_CHECK(kiln_tensor_param(kiln_params_tensor(a, 0)) != 0 &&
                   kiln_tensor_param(kiln_params_tensor(a, 0)) ==
                       kiln_tensor_param(kiln_params_tensor(b, 1)));
    }
    kiln_params_destroy(a);
    kiln_params_destroy(b);
    kiln_params_destroy(c);
    fixture_close(&reference);
    fixture_close(&opencl);
}

static void test_refused(void)
{
    fixture f;
    if (!fixture_open(&f, "reference:0")) {
        return;
    }
    kiln_params *params = make_set(&f, 0);
    kiln_init_options how = KILN_INIT_OPTIONS_INIT;
    const int64_t one[] = {4};
    const int64_t negative[] = {-4};
    KILN_CHECK(add(&f, params, "w", KILN_INIT_UNIFORM, 0, 1));
    KILN_CHECK_INT(kiln_params_add(params, "w", KILN_DTYPE_F32, 1, one, NULL, &f.err),
                   KILN_STATUS_ALREADY_EXISTS);
    KILN_CHECK_CONTAINS(f.err.message, "a parameter is named w already");
    KILN_CHECK_INT(kiln_params_add(params, "i", KILN_DTYPE_I32, 1, one, NULL, &f.err),
                   KILN_STATUS_UNIMPLEMENTED);
    KILN_CHECK_CONTAINS(f.err.message, "parameter i is i32; initial values are floats");
    KILN_CHECK_INT(kiln_params_add(params, "n", KILN_DTYPE_F32, 1, negative, NULL, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    how.kind = KILN_INIT_KAIMING_UNIFORM;
    KILN_CHECK_INT(kiln_params_add(params, "b", KILN_DTYPE_F32, 1, one, &how, &f.err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "parameter b has rank 1: its initial values need fan_in");
    KILN_CHECK_INT(kiln_params_set(params, 0, NULL, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kiln_params_count(params), 1);
    KILN_CHECK_INT(kiln_params_bytes(params), COUNT * 4);
    KILN_CHECK_INT(kiln_params_find(params, "w"), 0);
    KILN_CHECK_INT(kiln_params_find(params, "v"), 1);
    KILN_CHECK(kiln_params_tensor(params, 1) == NULL && kiln_params_name(params, 1) == NULL);
    kiln_params_destroy(params);
    fixture_close(&f);
}

// ---- several devices ----

/// All members get the values of one, and keep theirs where the sets differ.
static void test_broadcast(void)
{
    static float wanted[COUNT];
    static float got[COUNT];
    enum { DEVICES = 3 };
    fixture f;
    kiln_device *devices[DEVICES] = {NULL};
    kiln_params *sets[DEVICES] = {NULL};
    kiln_collective *group = NULL;
    if (!fixture_open(&f, "reference:0")) {
        return;
    }
    bool ok = true;
    for (int i = 0; i < DEVICES && ok; i++) {
        char address[16];
        snprintf(address, sizeof(address), "reference:%d", i);
        ok = FIXTURE_OK(&f, kiln_device_open(f.context, address, &devices[i], &f.err)) &&
             FIXTURE_OK(&f, kiln_params_create(devices[i], (uint64_t)i, &sets[i], &f.err)) &&
             add(&f, sets[i], "w", KILN_INIT_NORMAL, 0, 1) &&
             add(&f, sets[i], "v", KILN_INIT_UNIFORM, 0, 1);
    }
    if (ok && FIXTURE_OK(&f, kiln_collective_create(devices, DEVICES, NULL, &group, &f.err)) &&
        FIXTURE_OK(&f, kiln_params_broadcast(group, sets, DEVICES, 1, &f.err))) {
        for (size_t p = 0; p < 2; p++) {
            KILN_CHECK(read_all(&f, sets[1], p, wanted));
            for (int i = 0; i < DEVICES; i++) {
                KILN_CHECK(read_all(&f, sets[i], p, got));
                KILN_CHECK_MEM(got, wanted, sizeof(wanted));
                KILN_CHECK(kiln_tensor_param(kiln_params_tensor(sets[i], p)) != 0);
            }
        }
        KILN_CHECK(add(&f, sets[2], "other", KILN_INIT_NORMAL, 0, 1));
        KILN_CHECK_INT(kiln_params_broadcast(group, sets, DEVICES, 1, &f.err),
                       KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(f.err.message, "set 2 has 3 parameters, set 0 has 2");
    }
    kiln_collective_destroy(group);
    for (int i = 0; i < DEVICES; i++) {
        kiln_params_destroy(sets[i]);
        kiln_device_release(devices[i]);
    }
    fixture_close(&f);
}

// ---- files ----

static void test_file(void)
{
    static float saved[COUNT];
    static float got[COUNT];
    const char *path = kiln_test_path(kiln_test_tmpdir(), (const char *)kiln_test_param());
    fixture f;
    if (!fixture_open(&f, "reference:0")) {
        return;
    }
    kiln_params *a = make_set(&f, 1);
    kiln_params *b = make_set(&f, 2);
    kiln_params *all = make_set(&f, 3);
    if (add(&f, a, "deep.weight", KILN_INIT_NORMAL, 0, 1) &&
        add(&f, a, "extra", KILN_INIT_NORMAL, 0, 1) &&
        add(&f, b, "deep.weight", KILN_INIT_NORMAL, 0, 1) &&
        FIXTURE_OK(&f, kiln_params_save(a, path, &f.err)) &&
        FIXTURE_OK(&f, kiln_params_load(b, path, &f.err)) &&
        FIXTURE_OK(&f, kiln_params_add_file(all, path, &f.err)) && read_all(&f, a, 0, saved) &&
        read_all(&f, b, 0, got)) {
        KILN_CHECK_MEM(got, saved, sizeof(saved));
        KILN_CHECK_INT(kiln_params_count(all), 2);
        KILN_CHECK(read_all(&f, all, kiln_params_find(all, "extra"), got) &&
                   read_all(&f, a, 1, saved));
        KILN_CHECK_MEM(got, saved, sizeof(saved));
    }
    kiln_params_destroy(a);
    kiln_params_destroy(b);
    kiln_params_destroy(all);
    fixture_close(&f);
}

/// What does not fit is refused, and the set keeps its values.
static void test_file_refused(void)
{
    static float before[COUNT];
    static float after[COUNT];
    const char *path = kiln_test_path(kiln_test_tmpdir(), "r.safetensors");
    const int64_t turned[] = {COLUMNS, ROWS};
    fixture f;
    if (!fixture_open(&f, "reference:0")) {
        return;
    }
    kiln_params *a = make_set(&f, 1);
    kiln_params *b = make_set(&f, 2);
    KILN_CHECK(add(&f, a, "w", KILN_INIT_NORMAL, 0, 1) && add(&f, b, "w", KILN_INIT_NORMAL, 0, 1));
    FIXTURE_OK(&f, kiln_params_add(a, "x", KILN_DTYPE_F32, 2, turned, NULL, &f.err));
    FIXTURE_OK(&f, kiln_params_add(a, "y", KILN_DTYPE_F16, 2, dims, NULL, &f.err));
    FIXTURE_OK(&f, kiln_params_save(a, path, &f.err));
    KILN_CHECK(read_all(&f, b, 0, before));
    FIXTURE_OK(&f, kiln_params_add(b, "x", KILN_DTYPE_F32, 2, dims, NULL, &f.err));
    KILN_CHECK_INT(kiln_params_load(b, path, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "tensor x has rank 2");
    kiln_params_destroy(b);
    b = make_set(&f, 2);
    KILN_CHECK(add(&f, b, "w", KILN_INIT_NORMAL, 0, 1) && add(&f, b, "y", KILN_INIT_NORMAL, 0, 1));
    KILN_CHECK_INT(kiln_params_load(b, path, &f.err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(f.err.message, "tensor y is f16, the parameter is f32");
    KILN_CHECK(add(&f, b, "z", KILN_INIT_NORMAL, 0, 1));
    KILN_CHECK_INT(kiln_params_load(a, "/nowhere.npz", &f.err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(kiln_params_load(a, "/nowhere", &f.err), KILN_STATUS_NOT_FOUND);
    KILN_CHECK(read_all(&f, b, 0, after));
    KILN_CHECK_MEM(after, before, sizeof(before));
    kiln_params_destroy(a);
    kiln_params_destroy(b);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/autodiff/params", KILN_TEST(test_distributions), KILN_TEST(test_orthogonal),
               KILN_TEST(test_same_bits), KILN_TEST(test_refused), KILN_TEST(test_broadcast),
               KILN_TEST_PARAM(test_file, "file_safetensors", "p.safetensors"),
               KILN_TEST_PARAM(test_file, "file_npz", "p.npz"), KILN_TEST(test_file_refused))
