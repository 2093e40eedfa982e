// SPDX-License-Identifier: MIT OR Apache-2.0
// The reader of ONNX files: the digits model, every truncation of it, flipped bits, and files that
// lie about sizes, depth and paths. A bad file must give an error with a text, never more.
#include "faults.h"
#include "harness.h"
#include "onnx_model.h"
#include "proto_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const kiln_env *test_env(void)
{
    static kiln_env env;
    env.allocator = kiln_allocator_default();
    return &env;
}

static char *read_digits(size_t *out_length)
{
    return kiln_test_need_file(KILN_TEST_SOURCE_DIR "/examples/digits/digits.onnx", out_length);
}

/* Opens bytes and closes again; gives the status, checks that an error has a text. */
static kiln_status try_bytes(const void *bytes, size_t length, kiln_error *err)
{
    kiln_onnx_model *model = NULL;
    *err = (kiln_error)KILN_ERROR_INIT;
    kiln_status status = kiln_onnx_model_open_memory(test_env(), bytes, length, NULL, &model, err);
    KILN_CHECK((status == KILN_STATUS_OK) == (model != NULL));
    KILN_CHECK(status == KILN_STATUS_OK || err->message[0] != '\0');
    kiln_onnx_model_close(model);
    return status;
}

static void test_digits(void)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_onnx_model *model = NULL;
    kiln_status status = kiln_onnx_model_open(
        test_env(), KILN_TEST_SOURCE_DIR "/examples/digits/digits.onnx", &model, &err);
    if (!KILN_CHECK_STR(kiln_status_name(status), "ok")) {
        return;
    }
    size_t count = 0;
    const kiln_onnx_value_info *infos = kiln_onnx_model_inputs(model, &count);
    KILN_CHECK_INT(count, 1);
    KILN_CHECK_STR(infos[0].name, "image");
    KILN_CHECK_INT(infos[0].dtype, KILN_DTYPE_F32);
    KILN_CHECK_INT(infos[0].rank, 4);
    KILN_CHECK_INT(infos[0].dims[0].length, -1);
    KILN_CHECK_STR(infos[0].dims[0].symbol, "batch");
    KILN_CHECK_INT(infos[0].dims[2].length, 8);
    infos = kiln_onnx_model_outputs(model, &count);
    KILN_CHECK_INT(count, 1);
    KILN_CHECK_STR(infos[0].name, "log_probability");
    KILN_CHECK_INT(kiln_onnx_model_opset(model, ""), 14);
    KILN_CHECK_INT(kiln_onnx_model_opset(model, "com.example"), 0);
    kiln_onnx_model_close(model);
}

/* Initialisers with raw data stay in the caller's bytes. */
static void test_raw_data_is_not_copied(void)
{
    size_t length = 0;
    char *bytes = read_digits(&length);
    kiln_onnx_model *model = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (KILN_CHECK(kiln_onnx_model_open_memory(test_env(), bytes, length, NULL, &model, &err) ==
                   KILN_STATUS_OK)) {
        for (uint32_t i = 0; i < model->graph.n_initializers; i++) {
            const kilni_onnx_tensor *tensor = &model->graph.initializers[i];
            const char *data = (const char *)tensor->data;
            KILN_CHECK(data >= bytes && data + tensor->bytes <= bytes + length);
        }
        kiln_onnx_model_close(model);
    }
    free(bytes);
}

static void test_truncations(void)
{
    size_t length = 0;
    char *bytes = read_digits(&length);
    for (size_t cut = 0; cut < length; cut += cut < 2048 || cut + 2048 > length ? 1 : 61) {
        char *exact = malloc(cut + 1); /* so that a sanitizer sees a read beyond */
        memcpy(exact, bytes, cut);
        kiln_error err;
        KILN_CHECK(try_bytes(exact, cut, &err) != KILN_STATUS_OK);
        free(exact);
    }
    free(bytes);
}

static void test_bit_flips(void)
{
    size_t length = 0;
    char *bytes = read_digits(&length);
    uint64_t state = 12345;
    for (int round = 0; round < 3000; round++) {
        char *copy = malloc(length);
        memcpy(copy, bytes, length);
        for (int flips = 1 + round % 4; flips > 0; flips--) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            /* Every other flip hits the head, where the structure is. */
            size_t range = round % 2 == 0 ? length : 3000;
            copy[(state >> 20) % range] ^= (char)(1 << ((state >> 17) & 7));
        }
        kiln_error err;
        (void)try_bytes(copy, length, &err);
        free(copy);
    }
    free(bytes);
}

/* A graph with one initialiser of the given form and one output. */
static pw model_with_tensor(pw *tensor)
{
    pw graph = {0};
    pw info = pw_value_info("y", 1, NULL, 0);
    pw_message(&graph, 5, tensor);
    pw_message(&graph, 12, &info);
    return pw_model(&graph, 13);
}

static void expect_tensor_error(pw tensor, kiln_status status, const char *text)
{
    kiln_error err;
    pw model = model_with_tensor(&tensor);
    KILN_CHECK_INT(try_bytes(model.bytes, model.length, &err), status);
    KILN_CHECK_CONTAINS(err.message, text);
    pw_free(&model);
}

static void test_tensor_sizes(void)
{
    static const float data[4] = {1, 2, 3, 4};
    const int64_t two[] = {2};
    const int64_t huge[] = {INT64_MAX / 2, 8};
    const int64_t negative[] = {-1};
    const int64_t deep[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    expect_tensor_error(pw_tensor("w", 1, two, 1, data, 16), KILN_STATUS_INVALID_ARGUMENT,
                        "tensor 'w': 16 bytes of data where the shape needs 8");
    expect_tensor_error(pw_tensor("w", 1, two, 1, NULL, 0), KILN_STATUS_INVALID_ARGUMENT,
                        "0 elements of data");
    expect_tensor_error(pw_tensor("w", 1, huge, 2, data, 16), KILN_STATUS_OUT_OF_RANGE, "2^59");
    expect_tensor_error(pw_tensor("w", 1, negative, 1, data, 4), KILN_STATUS_INVALID_ARGUMENT,
                        "negative");
    expect_tensor_error(pw_tensor("w", 1, deep, 9, data, 4), KILN_STATUS_UNIMPLEMENTED, "rank 9");
}

/* Raw data and a name given as numbers: there are no bytes in the file to point to. */
static void test_number_for_bytes(void)
{
    const int64_t one[] = {1};
    pw raw = pw_tensor("w", 2, one, 1, NULL, 0);
    pw_int(&raw, 9, 5);
    expect_tensor_error(raw, KILN_STATUS_INVALID_ARGUMENT, "a number where bytes belong");
    pw name = pw_tensor("w", 2, one, 1, "5", 1);
    pw_int(&name, 8, 77);
    expect_tensor_error(name, KILN_STATUS_INVALID_ARGUMENT, "a number where bytes belong");
}

static void test_typed_data(void)
{
    const int64_t three[] = {3};
    pw tensor = pw_tensor("w", 10, three, 1, NULL, 0);
    pw_int(&tensor, 5, 0x3C00);
    pw_bytes(&tensor, 5, "\x80\x80\x01\x01", 4); /* a packed run after a single one */
    pw bytes = model_with_tensor(&tensor);
    kiln_onnx_model *model = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (KILN_CHECK(kiln_onnx_model_open_memory(test_env(), bytes.bytes, bytes.length, NULL, &model,
                                               &err) == KILN_STATUS_OK)) {
        const kilni_onnx_tensor *read = &model->graph.initializers[0];
        const uint16_t expected[3] = {0x3C00, 0x4000, 1};
        KILN_CHECK_INT(read->dtype, KILN_DTYPE_F16);
        KILN_CHECK_INT(read->bytes, 6);
        KILN_CHECK_MEM(read->data, expected, 6);
        kiln_onnx_model_close(model);
    }
    pw_free(&bytes);
}

/* Floats and doubles, by themselves and packed; and lists that end within a number. */
static void test_floating_data(void)
{
    static const double doubles[] = {0.5, -3};
    static const float floats[] = {0.25f, 7};
    const int64_t two[] = {2};
    pw all[2] = {pw_tensor("w", 11, two, 1, NULL, 0), pw_tensor("w", 1, two, 1, NULL, 0)};
    pw_bytes(&all[0], 10, doubles, sizeof(doubles));
    pw_float(&all[1], 4, floats[0]);
    pw_bytes(&all[1], 4, &floats[1], sizeof(float));
    for (int i = 0; i < 2; i++) {
        pw bytes = model_with_tensor(&all[i]);
        kiln_onnx_model *model = NULL;
        kiln_error err = KILN_ERROR_INIT;
        if (KILN_CHECK_INT(kiln_onnx_model_open_memory(test_env(), bytes.bytes, bytes.length, NULL,
                                                       &model, &err),
                           KILN_STATUS_OK)) {
            const kilni_onnx_tensor *read = &model->graph.initializers[0];
            const size_t size = i == 0 ? sizeof(doubles) : sizeof(floats);
            if (KILN_CHECK_INT(read->bytes, size)) {
                KILN_CHECK_MEM(read->data, i == 0 ? (const void *)doubles : floats, size);
            }
            kiln_onnx_model_close(model);
        }
        pw_free(&bytes);
    }
    static const struct {
        int32_t type;
        uint32_t field;
        size_t length;
    } cut[] = {{11, 10, 15}, {1, 4, 7}, {7, 7, 1}};
    for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
        pw tensor = pw_tensor("w", cut[i].type, two, 1, NULL, 0);
        pw_bytes(&tensor, cut[i].field,
                 "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e", cut[i].length);
        expect_tensor_error(tensor, KILN_STATUS_DATA_LOSS, "not an ONNX file, or not a whole one");
    }
}

static void test_depth(void)
{
    pw type = pw_value_info("", 1, NULL, 0); /* any message; as a type it holds unknown fields */
    for (int i = 0; i < 100; i++) {
        pw sequence = {0};
        pw outer = {0};
        pw_message(&sequence, 1, &type);
        pw_message(&outer, 4, &sequence);
        type = outer;
    }
    pw info = {0};
    pw graph = {0};
    kiln_error err;
    pw_text(&info, 1, "y");
    pw_message(&info, 2, &type);
    pw_message(&graph, 12, &info);
    pw model = pw_model(&graph, 13);
    KILN_CHECK_INT(try_bytes(model.bytes, model.length, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "nested deeper than 64");
    pw_free(&model);
}

/* Two bytes for each node in the file, more than a hundred in memory. */
static void test_amplification(void)
{
    pw graph = {0};
    kiln_error err;
    for (int i = 0; i < 1000000; i++) {
        pw_bytes(&graph, 1, NULL, 0);
    }
    pw model = pw_model(&graph, 13);
    KILN_CHECK_INT(try_bytes(model.bytes, model.length, &err), KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_CONTAINS(err.message, "needs more than");
    pw_free(&model);
}

/* What is for training is counted, and of no effect otherwise. */
static void test_training_is_counted(void)
{
    pw graph = {0};
    pw info = pw_value_info("y", 1, NULL, 0);
    kiln_onnx_model *model = NULL;
    kiln_error err = KILN_ERROR_INIT;
    pw_message(&graph, 12, &info);
    pw bytes = pw_model(&graph, 13);
    pw_text(&bytes, 20, "\x0a\x00");
    pw_text(&bytes, 20, "");
    if (KILN_CHECK_INT(
            kiln_onnx_model_open_memory(test_env(), bytes.bytes, bytes.length, NULL, &model, &err),
            KILN_STATUS_OK)) {
        KILN_CHECK_INT(model->n_training, 2);
    }
    kiln_onnx_model_close(model);
    pw_free(&bytes);
}

static void test_bad_names(void)
{
    kiln_error err;
    pw graph = {0};
    pw node = {0};
    pw_bytes(&node, 4, "Re\0lu", 5);
    pw_message(&graph, 1, &node);
    pw model = pw_model(&graph, 13);
    KILN_CHECK_INT(try_bytes(model.bytes, model.length, &err), KILN_STATUS_INVALID_ARGUMENT);
    pw_free(&model);
    char *longest = calloc(1, KILNI_ONNX_MAX_NAME + 1);
    memset(longest, 'a', KILNI_ONNX_MAX_NAME + 1);
    pw_bytes(&node, 4, longest, KILNI_ONNX_MAX_NAME + 1);
    pw_message(&graph, 1, &node);
    model = pw_model(&graph, 13);
    KILN_CHECK_INT(try_bytes(model.bytes, model.length, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "text of 4097 bytes is too long");
    pw_free(&model);
    free(longest);
    KILN_CHECK_INT(try_bytes("", 0, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "the file is empty");
    KILN_CHECK_INT(try_bytes("\x93NUMPY garbage", 14, &err), KILN_STATUS_DATA_LOSS);
}

static pw external_tensor(const char *location, const char *offset, const char *length)
{
    const int64_t two[] = {2};
    const char *pairs[3][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    pw tensor = pw_tensor("w", 1, two, 1, NULL, 0);
    pw_int(&tensor, 14, 1);
    for (int i = 0; i < 3; i++) {
        if (pairs[i][1] != NULL) {
            pw entry = {0};
            pw_text(&entry, 1, pairs[i][0]);
            pw_text(&entry, 2, pairs[i][1]);
            pw_message(&tensor, 13, &entry);
        }
    }
    return tensor;
}

/* Every allocation that the decoder makes for these bytes fails once. */
static void fail_allocations(const void *bytes, size_t length)
{
    kiln_faults faults;
    kiln_faults_init(&faults);
    const kiln_env env = {.allocator = faults.allocator};
    uint32_t refused = 0;
    for (size_t k = 1; kiln_faults_next(&faults, k); k++) {
        kiln_onnx_model *model = NULL;
        kiln_error err = KILN_ERROR_INIT;
        kiln_status status = kiln_onnx_model_open_memory(&env, bytes, length, NULL, &model, &err);
        KILN_CHECK(status == KILN_STATUS_OK || status == KILN_STATUS_RESOURCE_EXHAUSTED);
        refused += status != KILN_STATUS_OK;
        kiln_onnx_model_close(model);
    }
    KILN_CHECK(refused > 0);
}

/* A model, and lists of numbers that are longer than a piece of the decoder's memory. */
static void test_no_memory(void)
{
    enum { COUNT = 1 << 16 };
    static const struct {
        int32_t type;
        uint32_t field;
        size_t bytes;
    } lists[] = {{1, 4, 4}, {11, 10, 8}, {7, 7, 1}};
    const int64_t count[] = {COUNT};
    size_t length = 0;
    char *bytes = read_digits(&length);
    fail_allocations(bytes, length);
    free(bytes);
    bytes = calloc(COUNT, 8);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        pw tensor = pw_tensor("w", lists[i].type, count, 1, NULL, 0);
        pw_bytes(&tensor, lists[i].field, bytes, lists[i].bytes * COUNT);
        pw model = model_with_tensor(&tensor);
        fail_allocations(model.bytes, model.length);
        pw_free(&model);
    }
    free(bytes);
}

/* Writes the model into `folder`, opens it there and gives status and error. */
static kiln_status open_external(const char *folder, pw tensor, kiln_error *err)
{
    const char *path = kiln_test_path(folder, "external.onnx");
    pw bytes = model_with_tensor(&tensor);
    kiln_test_write_file(path, bytes.bytes, bytes.length);
    pw_free(&bytes);
    kiln_onnx_model *model = NULL;
    *err = (kiln_error)KILN_ERROR_INIT;
    kiln_status status = kiln_onnx_model_open(test_env(), path, &model, err);
    if (status == KILN_STATUS_OK) {
        static const float expected[2] = {3, 4};
        KILN_CHECK_MEM(model->graph.initializers[0].data, expected, 8);
        kiln_onnx_model_close(model);
    }
    return status;
}

static void test_external_data(void)
{
    static const float data[4] = {1, 2, 3, 4};
    const char *parent = kiln_test_tmpdir();
    const char *folder = kiln_test_path(parent, "model");
    kiln_error err;
    KILN_CHECK_INT(mkdir(folder, 0700), 0);
    kiln_test_write_file(kiln_test_path(folder, "weights.bin"), data, sizeof(data));
    kiln_test_write_file(kiln_test_path(parent, "secret.bin"), data, sizeof(data));
    KILN_CHECK_INT(symlink("../secret.bin", kiln_test_path(folder, "link.bin")), 0);
    KILN_CHECK_INT(mkfifo(kiln_test_path(folder, "pipe"), 0600), 0);

    KILN_CHECK_INT(open_external(folder, external_tensor("weights.bin", "8", "8"), &err), 0);
    KILN_CHECK_INT(open_external(folder, external_tensor("./weights.bin", "8", NULL), &err), 0);
    static const struct {
        const char *location, *offset, *length;
        kiln_status status;
        const char *text;
    } bad[] = {
        {"../secret.bin", "8", "8", KILN_STATUS_INVALID_ARGUMENT, "not a relative path"},
        {"a/../../secret.bin", "8", "8", KILN_STATUS_INVALID_ARGUMENT, "not a relative path"},
        {"/etc/passwd", "0", "8", KILN_STATUS_INVALID_ARGUMENT, "not a relative path"},
        {"", "0", "8", KILN_STATUS_INVALID_ARGUMENT, "not a relative path"},
        {"link.bin", "8", "8", KILN_STATUS_INVALID_ARGUMENT, "outside the model's folder"},
        {"pipe", "0", "8", KILN_STATUS_INVALID_ARGUMENT, "not a plain file"},
        {"missing.bin", "0", "8", KILN_STATUS_NOT_FOUND, "no such file"},
        {"weights.bin", "12", "8", KILN_STATUS_DATA_LOSS, "has 4 of 8 bytes"},
        {"weights.bin", "99999999999", "8", KILN_STATUS_DATA_LOSS, "ends at 16"},
        {"weights.bin", "-1", "8", KILN_STATUS_INVALID_ARGUMENT, "where a number belongs"},
        {"weights.bin", "99999999999999999999", "8", KILN_STATUS_INVALID_ARGUMENT, "number"},
        {"weights.bin", "0", "4", KILN_STATUS_INVALID_ARGUMENT, "where 8 are needed"},
        {NULL, "0", "8", KILN_STATUS_INVALID_ARGUMENT, "without a location"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pw tensor = external_tensor(bad[i].location, bad[i].offset, bad[i].length);
        KILN_CHECK_INT(open_external(folder, tensor, &err), bad[i].status);
        KILN_CHECK_CONTAINS(err.message, bad[i].text);
    }
    pw tensor = external_tensor("weights.bin", "8", "8");
    expect_tensor_error(tensor, KILN_STATUS_FAILED_PRECONDITION, "has no folder");
    remove(kiln_test_path(folder, "link.bin"));
    remove(kiln_test_path(folder, "pipe"));
}

/* Three million elements of four bits in another file: the small model may unpack them. */
static void test_external_four_bits(void)
{
    const int64_t dims[] = {3000000};
    const char *folder = kiln_test_tmpdir();
    const char *path = kiln_test_path(folder, "narrow.onnx");
    kiln_onnx_model *model = NULL;
    kiln_error err = KILN_ERROR_INIT;
    uint8_t *weights = calloc(1, 1500000);
    weights[1499999] = 0x9f;
    kiln_test_write_file(kiln_test_path(folder, "narrow.bin"), weights, 1500000);
    free(weights);
    pw tensor = pw_tensor("w", 22, dims, 1, NULL, 0);
    pw_int(&tensor, 14, 1);
    pw entry = {0};
    pw_text(&entry, 1, "location");
    pw_text(&entry, 2, "narrow.bin");
    pw_message(&tensor, 13, &entry);
    pw bytes = model_with_tensor(&tensor);
    kiln_test_write_file(path, bytes.bytes, bytes.length);
    pw_free(&bytes);
    kiln_status status = kiln_onnx_model_open(test_env(), path, &model, &err);
    KILN_CHECK_STR(status == KILN_STATUS_OK ? "" : err.message, "");
    if (status == KILN_STATUS_OK) {
        const int8_t last[] = {0, -1, -7};
        KILN_CHECK_MEM(model->graph.initializers[0].data + 2999997, last, 3);
        kiln_onnx_model_close(model);
    }
}

static void test_files(void)
{
    kiln_onnx_model *model = NULL;
    kiln_error err = KILN_ERROR_INIT;
    const char *folder = kiln_test_tmpdir();
    kiln_status status =
        kiln_onnx_model_open(test_env(), kiln_test_path(folder, "none.onnx"), &model, &err);
    KILN_CHECK_INT(status, KILN_STATUS_NOT_FOUND);
    status = kiln_onnx_model_open(test_env(), folder, &model, &err);
    KILN_CHECK_INT(status, KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "not a plain file");
}

KILN_TEST_MAIN("unit/onnx/test_onnx_decode", KILN_TEST(test_digits),
               KILN_TEST(test_raw_data_is_not_copied), KILN_TEST(test_truncations),
               KILN_TEST(test_bit_flips), KILN_TEST(test_tensor_sizes), KILN_TEST(test_typed_data),
               KILN_TEST(test_floating_data), KILN_TEST(test_number_for_bytes),
               KILN_TEST(test_depth), KILN_TEST(test_amplification),
               KILN_TEST(test_training_is_counted), KILN_TEST(test_bad_names),
               KILN_TEST(test_external_data), KILN_TEST(test_external_four_bits),
               KILN_TEST(test_files), KILN_TEST(test_no_memory))
