// SPDX-License-Identifier: MIT OR Apache-2.0
// NumPy's files: what is written is read again, names and all; what the format has not is refused;
// a damaged archive is an error.
#include "base_npy.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static const float floats[6] = {1, -2, 3.5F, 0, 1e30F, -0.25F};
static const int64_t integers[3] = {-1, 0, INT64_MAX};

static kiln_npy array_of(kiln_dtype dtype, size_t rank, int64_t a, int64_t b, const void *data,
                         size_t bytes)
{
    return (kiln_npy){
        .dtype = dtype, .rank = rank, .dims = {a, b}, .data = (void *)data, .bytes = bytes};
}

static void check_same(const kiln_npy *got, const kiln_npy *wanted)
{
    KILN_CHECK_INT(got->dtype, wanted->dtype);
    KILN_CHECK_INT(got->rank, wanted->rank);
    for (size_t i = 0; i < wanted->rank; i++) {
        KILN_CHECK_INT(got->dims[i], wanted->dims[i]);
    }
    if (KILN_CHECK_INT(got->bytes, wanted->bytes)) {
        KILN_CHECK_MEM(got->data, wanted->data, wanted->bytes);
    }
}

static void test_array(void)
{
    const char *path = kiln_test_path(kiln_test_tmpdir(), "one.npy");
    const kiln_npy wanted = array_of(KILN_DTYPE_F32, 2, 2, 3, floats, sizeof(floats));
    kiln_npy got = {0};
    if (KILN_CHECK_INT(kiln_npy_write(path, &wanted, NULL), KILN_STATUS_OK) &&
        KILN_CHECK_INT(kiln_npy_read(path, &got, NULL), KILN_STATUS_OK)) {
        check_same(&got, &wanted);
        KILN_CHECK_INT(kiln_npy_count(&got), 6);
        KILN_CHECK_NEAR(kiln_npy_number(&got, 2), 3.5, 0);
    }
    kiln_npy_free(&got);
}

static void test_archive(void)
{
    const char *path = kiln_test_path(kiln_test_tmpdir(), "all.npz");
    const char *const names[] = {"layer.weight", "counts", "nothing"};
    const kiln_npy wanted[] = {array_of(KILN_DTYPE_F32, 2, 3, 2, floats, sizeof(floats)),
                               array_of(KILN_DTYPE_I64, 1, 3, 0, integers, sizeof(integers)),
                               array_of(KILN_DTYPE_F64, 1, 0, 0, floats, 0)};
    char name[KILN_NPZ_NAME_ROOM];
    if (!KILN_CHECK_INT(kiln_npz_write(path, names, wanted, 3, NULL), KILN_STATUS_OK)) {
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        kiln_npy got = {0};
        if (KILN_CHECK_INT(kiln_npz_read(path, i, name, &got, NULL), KILN_STATUS_OK)) {
            KILN_CHECK_STR(name, names[i]);
            check_same(&got, &wanted[i]);
        }
        kiln_npy_free(&got);
    }
    kiln_npy none = {0};
    KILN_CHECK_INT(kiln_npz_read(path, 3, name, &none, NULL), KILN_STATUS_NOT_FOUND);
}

static void test_refused(void)
{
    const char *path = kiln_test_path(kiln_test_tmpdir(), "refused.npz");
    const char *const names[] = {"half"};
    const kiln_npy half = array_of(KILN_DTYPE_BF16, 1, 2, 0, floats, 4);
    kiln_error err = {0};
    KILN_CHECK_INT(kiln_npz_write(path, names, &half, 1, &err), KILN_STATUS_UNIMPLEMENTED);
    KILN_CHECK_CONTAINS(err.message, "half: NumPy has no bf16");
    kiln_npy none = {0};
    KILN_CHECK_INT(kiln_npy_read(path, &none, NULL), KILN_STATUS_NOT_FOUND); // nothing is left
}

static void test_damaged(void)
{
    const char *path = kiln_test_path(kiln_test_tmpdir(), "damaged.npz");
    const char *const names[] = {"a"};
    const kiln_npy wanted = array_of(KILN_DTYPE_F32, 1, 6, 0, floats, sizeof(floats));
    char name[KILN_NPZ_NAME_ROOM];
    size_t bytes = 0;
    if (!KILN_CHECK_INT(kiln_npz_write(path, names, &wanted, 1, NULL), KILN_STATUS_OK)) {
        return;
    }
    char *whole = kiln_test_read_file(path, &bytes);
    for (size_t i = 0; whole != NULL && i < bytes; i++) {
        kiln_npy got = {0};
        if (!kiln_test_write_file(path, whole, i)) {
            break;
        }
        if (!KILN_CHECK(kiln_npz_read(path, 0, name, &got, NULL) != KILN_STATUS_OK)) {
            kiln_npy_free(&got);
        }
    }
    free(whole);
}

KILN_TEST_MAIN("unit/base/npy", KILN_TEST(test_array), KILN_TEST(test_archive),
               KILN_TEST(test_refused), KILN_TEST(test_damaged))
