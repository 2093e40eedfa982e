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

static void test_texts(void)
{
    const char *path = kiln_test_path(kiln_test_tmpdir(), "texts.npy");
    // Letters of one to four bytes of UTF-8, none at all, and bytes that are no UTF-8.
    const char *const texts[] = {"kiln", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x94\xa5", "", "a\xe2z\x80"};
    const char *const wanted[] = {texts[0], texts[1], "", "a\xc3\xa2z\xc2\x80"};
    kiln_npy array = {.rank = 2, .dims = {2, 2}};
    kiln_npy got = {0};
    if (!KILN_CHECK_INT(kiln_npy_set_texts(&array, texts, NULL), KILN_STATUS_OK)) {
        return;
    }
    KILN_CHECK_INT(kiln_npy_write(path, &array, NULL), KILN_STATUS_OK);
    if (KILN_CHECK_INT(kiln_npy_read(path, &got, NULL), KILN_STATUS_OK)) {
        KILN_CHECK_INT(got.dtype, KILN_DTYPE_NONE);
        KILN_CHECK_INT(got.rank, 2);
        for (size_t i = 0; i < 4; i++) {
            KILN_CHECK_STR(got.texts[i], wanted[i]);
        }
    }
    kiln_npy_free(&got);
    kiln_error err = {0};
    KILN_CHECK_INT(kiln_npy_write("/nowhere/texts.npy", &array, &err), KILN_STATUS_UNAVAILABLE);
    KILN_CHECK_CONTAINS(err.message, "/nowhere/texts.npy");
    kiln_npy_free(&array);
}

/// Reads a file of version `version` with this header, whose length is said to be `said`, and data.
static kiln_status read_raw(int version, const char *header, size_t said, const void *data,
                            size_t bytes, kiln_npy *out_array, kiln_error *err)
{
    const char *path = kiln_test_path(kiln_test_tmpdir(), "raw.npy");
    unsigned char file[512] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
    size_t at = 8;
    for (int i = 0; i < (version > 1 ? 4 : 2); i++) {
        file[at++] = (unsigned char)(said >> (8 * i));
    }
    memcpy(file + at, header, strlen(header));
    at += strlen(header);
    if (bytes > 0) {
        memcpy(file + at, data, bytes);
    }
    *out_array = (kiln_npy){0};
    *err = (kiln_error){0};
    return kiln_test_write_file(path, file, at + bytes) ? kiln_npy_read(path, out_array, err)
                                                        : KILN_STATUS_INTERNAL;
}

static void test_headers_that_are_none(void)
{
#define HEAD(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape
    static const struct {
        const char *header;
        kiln_status status;
        const char *words;
    } cases[] = {
        {HEAD("[('a','<f4')]", "False", "(1,)}"), KILN_STATUS_UNIMPLEMENTED, "structured"},
        {HEAD("'<c8'", "False", "(1,)}"), KILN_STATUS_UNIMPLEMENTED, "type <c8 is not supported"},
        {HEAD("'<U99999999'", "False", "(1,)}"), KILN_STATUS_UNIMPLEMENTED, "<U99999999"},
        {HEAD("'<U'", "False", "(1,)}"), KILN_STATUS_UNIMPLEMENTED, "type <U is not supported"},
        {"{'descr': '<f4', 'shape': (1,)}", KILN_STATUS_DATA_LOSS, "no fortran_order"},
        {HEAD("'<f4'", "False", "1}"), KILN_STATUS_DATA_LOSS, "no shape"},
        {HEAD("'<f4'", "False", "(one,)}"), KILN_STATUS_DATA_LOSS, "shape is damaged"},
        {HEAD("'<f4'", "False", "(1"), KILN_STATUS_DATA_LOSS, "shape is damaged"},
        {HEAD("'<f4'", "False", "(9223372036854775807,2)}"), KILN_STATUS_DATA_LOSS, "int64"},
        {HEAD("'<U0'", "False", "(9223372036854775807,2)}"), KILN_STATUS_DATA_LOSS, "int64"},
        {HEAD("'<U0'", "False", "(44444444444444444,)}"), KILN_STATUS_DATA_LOSS, "without letters"},
        {HEAD("'|S0'", "True", "(4096,4097)}"), KILN_STATUS_DATA_LOSS, "16781312 strings"},
        {HEAD("'<f4'", "False",
              "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
              "1,1)}"),
         KILN_STATUS_UNIMPLEMENTED, "dimensions"},
        {HEAD("'<f4'", "False", "(2,)}"), KILN_STATUS_DATA_LOSS, "ends 4 bytes early"},
        {HEAD("'<i2'", "False", "(1,)}"), KILN_STATUS_DATA_LOSS, "goes on for 2 bytes"},
        {HEAD("'<U1'", "False", "(1,)}"), KILN_STATUS_DATA_LOSS, "no letter"},
    };
    static const unsigned char none[] = {0, 0, 0x11, 0}; // the number above the last letter
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_npy got;
        kiln_error err;
        KILN_CHECK_INT(read_raw(1, cases[i].header, strlen(cases[i].header), none, 4, &got, &err),
                       cases[i].status);
        KILN_CHECK_CONTAINS(err.message, cases[i].words);
        KILN_CHECK(got.data == NULL && got.texts == NULL);
    }
}

static void test_headers(void)
{
    static const char fortran[] = HEAD("'<i2'", "True", "(2, 3), }");
    static const char bytes[] = HEAD("'|S3'", "False", "(2,), }");
    static const char nothing[] = HEAD("'<U0'", "False", "(2,), }");
    static const int16_t columns[] = {1, 4, 2, 5, 3, 6};
    static const int16_t rows[] = {1, 2, 3, 4, 5, 6};
    kiln_npy got;
    kiln_error err;
    for (int version = 1; version <= 3; version++) {
        if (KILN_CHECK_INT(read_raw(version, fortran, sizeof(fortran) - 1, columns, 12, &got, &err),
                           KILN_STATUS_OK)) {
            KILN_CHECK_MEM(got.data, rows, sizeof(rows));
        }
        kiln_npy_free(&got);
    }
    if (KILN_CHECK_INT(read_raw(1, bytes, sizeof(bytes) - 1, "abcd\0\0", 6, &got, &err),
                       KILN_STATUS_OK)) {
        KILN_CHECK_STR(got.texts[0], "abc");
        KILN_CHECK_STR(got.texts[1], "d");
    }
    kiln_npy_free(&got);
    KILN_CHECK_INT(read_raw(4, bytes, 9, NULL, 0, &got, &err), KILN_STATUS_UNIMPLEMENTED);
    KILN_CHECK_CONTAINS(err.message, "version 4");
    KILN_CHECK_INT(read_raw(2, bytes, UINT32_MAX, NULL, 0, &got, &err), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_CONTAINS(err.message, "a header of 4294967295 bytes");
    KILN_CHECK_INT(read_raw(1, bytes, 200, NULL, 0, &got, &err), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_CONTAINS(err.message, "ends inside its header");
    KILN_CHECK_INT(kiln_npy_read("/dev/null", &got, &err), KILN_STATUS_DATA_LOSS);
    KILN_CHECK_CONTAINS(err.message, "/dev/null: not a .npy file");
    if (KILN_CHECK_INT(read_raw(1, nothing, sizeof(nothing) - 1, NULL, 0, &got, &err),
                       KILN_STATUS_OK)) {
        KILN_CHECK_STR(got.texts[1], "");
    }
    kiln_npy_free(&got);
}

KILN_TEST_MAIN("unit/base/npy", KILN_TEST(test_array), KILN_TEST(test_archive),
               KILN_TEST(test_refused), KILN_TEST(test_damaged), KILN_TEST(test_texts),
               KILN_TEST(test_headers_that_are_none), KILN_TEST(test_headers))
