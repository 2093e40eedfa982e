// SPDX-License-Identifier: MIT OR Apache-2.0
// Files of tensors: what is written is read again, and a file that lies about sizes, places, dtypes
// or names is refused in words.
#include "harness.h"
#include "safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const kiln_env *env(void)
{
    static kiln_env own;
    own.allocator = kiln_allocator_default();
    return &own;
}

/// A file of this header and so many bytes of data.
static kiln_status parse(const char *header, size_t data_bytes, kilni_safetensors **out_file,
                         kiln_error *err)
{
    static unsigned char file[4096];
    uint64_t length = strlen(header);
    memset(file, 7, sizeof(file));
    for (size_t i = 0; i < 8; i++) {
        file[i] = (unsigned char)(length >> (8 * i));
    }
    memcpy(file + 8, header, length);
    return kilni_safetensors_parse(env(), file, 8 + length + data_bytes, out_file, err);
}

static void test_sound(void)
{
    kilni_safetensors *file = NULL;
    kiln_error err = KILN_ERROR_INIT;
    const char *header = "{\"__metadata__\":{\"format\":\"pt\"},"
                         "\"late\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]},"
                         "\"empty\":{\"dtype\":\"F64\",\"shape\":[2,0],\"data_offsets\":[16,16]},"
                         "\"early\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                         "\"one\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[22,23]}}   ";
    if (!KILN_CHECK_INT(parse(header, 23, &file, &err), KILN_STATUS_OK)) {
        KILN_FAIL("%s", err.message);
        return;
    }
    static const char *const names[] = {"early", "empty", "late", "one"};
    size_t count = 0;
    const kilni_saved *all = kilni_safetensors_all(file, &count);
    KILN_CHECK_INT(count, 4);
    for (size_t i = 0; i < count; i++) {
        KILN_CHECK_STR(all[i].name, names[i]);
    }
    const kilni_saved *late = kilni_safetensors_find(file, "late");
    KILN_CHECK(late != NULL && late->dtype == KILN_DTYPE_BF16 && late->rank == 1 &&
               late->dims[0] == 3 && late->bytes == 6);
    KILN_CHECK(kilni_safetensors_find(file, "none") == NULL);
    KILN_CHECK_STR(kilni_safetensors_note(file, "format"), "pt");
    KILN_CHECK(kilni_safetensors_note(file, "other") == NULL);
    kilni_safetensors_close(file);
}

typedef struct lie {
    const char *header;
    size_t data_bytes;
    const char *words; ///< in the message
} lie;

#define ROW(dtype, shape, from, to)                                                                \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static const lie lies[] = {
    {"[]", 0, "no JSON object"},
    {"{\"a\":", 0, "no JSON object"},
    {"{\"a\":" ROW("F32", "[1]", "0", "4") ",\"a\":" ROW("F32", "[1]", "0", "4") "}", 4,
     "no JSON object"},
    {"{\"a\":5}", 0, "tensor a: no dtype"},
    {"{\"a\":" ROW("F33", "[1]", "0", "4") "}", 4, "tensor a: dtype F33 is not known"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor a: no shape"},
    {"{\"a\":" ROW("F32", "[-1]", "0", "4") "}", 4, "length 0 of its shape is no count"},
    {"{\"a\":" ROW("F32", "[1.0]", "0", "4") "}", 4, "length 0 of its shape is no count"},
    {"{\"a\":" ROW("F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "rank 9, the limit is 8"},
    {"{\"a\":" ROW("F32", "[4294967296,4294967296]", "0", "4") "}", 4, "more elements than memory"},
    {"{\"a\":" ROW("F64", "[4294967296,1073741824]", "0", "4") "}", 4, "more bytes than memory"},
    {"{\"a\":" ROW("F32", "[99999999999999999999]", "0", "4") "}", 4, "no JSON object"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets are not two ascending places"},
    {"{\"a\":" ROW("F32", "[1]", "4", "0") "}", 4, "data_offsets are not two ascending places"},
    {"{\"a\":" ROW("F32", "[1]", "-4", "0") "}", 4, "data_offsets are not two ascending places"},
    {"{\"a\":" ROW("F32", "[1]", "0", "4") "}", 3, "it ends at byte 4 of 3"},
    {"{\"a\":" ROW("F32", "[2]", "0", "4") "}", 4, "4 bytes, where its shape and dtype have 8"},
    {"{\"a\":" ROW("F32", "[2]", "0", "8") ",\"b\":" ROW("F32", "[2]", "4", "12") "}", 12,
     "tensor b overlaps the one before it"},
    {"{\"a\":" ROW("F32", "[1]", "0", "4") ",\"b\":" ROW("F32", "[1]", "8", "12") "}", 12,
     "tensor b leaves a gap before it"},
    {"{\"a\":" ROW("F32", "[1]", "4", "8") "}", 8, "tensor a leaves a gap before it"},
    {"{\"a\":" ROW("F32", "[1]", "0", "4") "}", 9, "5 bytes behind the last tensor"},
    {"{\"__metadata__\":{\"a\":5}}", 0, "__metadata__ is not texts by their names"},
    {"{\"__metadata__\":\"a\"}", 0, "__metadata__ is not texts by their names"},
};

static void test_lies(void)
{
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        kilni_safetensors *file = NULL;
        kiln_error err = KILN_ERROR_INIT;
        if (!KILN_CHECK(parse(lies[i].header, lies[i].data_bytes, &file, &err) != KILN_STATUS_OK)) {
            KILN_FAIL("taken: %s", lies[i].header);
            kilni_safetensors_close(file);
            continue;
        }
        KILN_CHECK(file == NULL);
        KILN_CHECK_CONTAINS(err.message, lies[i].words);
    }
}

static void test_header_length(void)
{
    static const struct {
        unsigned char bytes[16];
        size_t length;
    } files[] = {
        {{2, 0, 0, 0, 0, 0, 0, 0}, 8},
        {{2, 0, 0, 0}, 4},
        {{255, 255, 255, 255, 255, 255, 255, 255, '{', '}'}, 10},
        {{1, 225, 245, 5, 0, 0, 0, 0, '{', '}'}, 10}, // 100,000,001
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        kilni_safetensors *file = NULL;
        KILN_CHECK_INT(kilni_safetensors_parse(env(), files[i].bytes, files[i].length, &file, NULL),
                       KILN_STATUS_DATA_LOSS);
    }
}

static void test_written(void)
{
    static const float floats[3] = {1, 2, 3};
    static const int64_t integers[2] = {-5, 6};
    const kilni_saved tensors[] = {
        {.name = "b \"quoted\" \xc3\xa9",
         .dtype = KILN_DTYPE_F32,
         .rank = 2,
         .dims = {1, 3},
         .data = floats,
         .bytes = 12},
        {.name = "a",
         .dtype = KILN_DTYPE_I64,
         .rank = 1,
         .dims = {2},
         .data = integers,
         .bytes = 16},
    };
    const kilni_saved_note note = {"kiln.steps", "12"};
    const char *path = kiln_test_path(kiln_test_tmpdir(), "w.safetensors");
    kilni_safetensors *file = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!KILN_CHECK_INT(kilni_safetensors_write(env(), path, tensors, 2, &note, 1, &err),
                        KILN_STATUS_OK) ||
        !KILN_CHECK_INT(kilni_safetensors_open(env(), path, &file, &err), KILN_STATUS_OK)) {
        KILN_FAIL("%s", err.message);
        return;
    }
    size_t count = 0;
    const kilni_saved *all = kilni_safetensors_all(file, &count);
    if (KILN_CHECK_INT(count, 2)) {
        for (size_t i = 0; i < 2; i++) {
            KILN_CHECK_STR(all[i].name, tensors[i].name);
            KILN_CHECK_INT(all[i].dtype, tensors[i].dtype);
            unsigned char back[16] = {0};
            KILN_CHECK_INT(kilni_saved_read(&all[i], back, &err), KILN_STATUS_OK);
            KILN_CHECK_MEM(back, tensors[i].data, tensors[i].bytes);
        }
    }
    KILN_CHECK_STR(kilni_safetensors_note(file, "kiln.steps"), "12");
    kilni_safetensors_close(file);
}

/// Between the reading of the header and that of a tensor.
static void test_cut_short(void)
{
    static float floats[5000];
    const kilni_saved tensors[] = {
        {.name = "first",
         .dtype = KILN_DTYPE_F32,
         .rank = 1,
         .dims = {5000},
         .data = floats,
         .bytes = 20000},
        {.name = "last",
         .dtype = KILN_DTYPE_F32,
         .rank = 1,
         .dims = {5000},
         .data = floats,
         .bytes = 20000},
    };
    const char *path = kiln_test_path(kiln_test_tmpdir(), "c.safetensors");
    static float back[5000];
    kilni_safetensors *file = NULL;
    kiln_error err = KILN_ERROR_INIT;
    floats[4999] = 1;
    KILN_CHECK_INT(kilni_safetensors_write(env(), path, tensors, 2, NULL, 0, &err), KILN_STATUS_OK);
    if (!KILN_CHECK_INT(kilni_safetensors_open(env(), path, &file, &err), KILN_STATUS_OK)) {
        return;
    }
    KILN_CHECK_INT(truncate(path, 30000), 0);
    KILN_CHECK_INT(kilni_saved_read(kilni_safetensors_find(file, "first"), back, &err),
                   KILN_STATUS_OK);
    KILN_CHECK(back[4999] == 1.0f);
    KILN_CHECK_INT(kilni_saved_read(kilni_safetensors_find(file, "last"), back, &err),
                   KILN_STATUS_DATA_LOSS);
    KILN_CHECK_CONTAINS(err.message, "the file ends before byte");
    kilni_safetensors_close(file);
}

static void test_not_written(void)
{
    static const unsigned char data[8] = {0};
    const char *path = kiln_test_path(kiln_test_tmpdir(), "n.safetensors");
    const kilni_saved twice[] = {
        {.name = "a", .dtype = KILN_DTYPE_U8, .rank = 1, .dims = {1}, .data = data, .bytes = 1},
        {.name = "a", .dtype = KILN_DTYPE_U8, .rank = 1, .dims = {1}, .data = data, .bytes = 1},
    };
    const kilni_saved quantised = {.name = "q", .dtype = KILN_DTYPE_Q8F, .data = data, .bytes = 8};
    const kilni_saved broken = {.name = "\xff", .dtype = KILN_DTYPE_U8, .data = data, .bytes = 1};
    kiln_error err = KILN_ERROR_INIT;
    kilni_safetensors *file = NULL;
    KILN_CHECK_INT(kilni_safetensors_write(env(), path, twice, 2, NULL, 0, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "two tensors are named a");
    KILN_CHECK_INT(kilni_safetensors_write(env(), path, &quantised, 1, NULL, 0, &err),
                   KILN_STATUS_UNIMPLEMENTED);
    KILN_CHECK_CONTAINS(err.message, "tensor q: safetensors has no q8f");
    KILN_CHECK_INT(kilni_safetensors_write(env(), path, &broken, 1, NULL, 0, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(kilni_safetensors_write(env(), "/nowhere/a", twice, 1, NULL, 0, &err),
                   KILN_STATUS_UNAVAILABLE);
    KILN_CHECK_INT(kilni_safetensors_open(env(), path, &file, &err), KILN_STATUS_NOT_FOUND);
}

KILN_TEST_MAIN("unit/autodiff/safetensors", KILN_TEST(test_sound), KILN_TEST(test_lies),
               KILN_TEST(test_header_length), KILN_TEST(test_written), KILN_TEST(test_cut_short),
               KILN_TEST(test_not_written))
