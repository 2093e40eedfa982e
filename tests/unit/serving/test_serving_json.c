// SPDX-License-Identifier: MIT OR Apache-2.0
// JSON of the Open Inference Protocol: what is read of a request, what is refused and in which
// words, and the text of answers and descriptions.

#include "harness.h"
#include "serving_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    kiln_env env;
    kilni_json_infer infer;
    kiln_error err;
} reading;

/// Reads `body`, whose first `json` bytes are JSON; 0: all. What comes back goes through
/// end_reading.
static reading *read_body(const char *body, size_t length, size_t json, kiln_status expected)
{
    reading *self = calloc(1, sizeof(*self));
    self->env.allocator = kiln_allocator_default();
    self->err = (kiln_error)KILN_ERROR_INIT;
    KILN_CHECK_INT(kilni_json_infer_read(&self->env, body, length, json > 0 ? json : length,
                                         &self->infer, &self->err),
                   expected);
    return self;
}

static void end_reading(reading *self)
{
    kilni_json_infer_fini(&self->infer);
    free(self);
}

/// A request with one input x of this datatype, shape and data.
static reading *read_input(const char *datatype, const char *shape, const char *data,
                           kiln_status expected)
{
    char body[512];
    int length = snprintf(body, sizeof(body),
                          "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"%s\",\"shape\":%s%s%s}]}",
                          datatype, shape, data[0] != '\0' ? ",\"data\":" : "", data);
    return read_body(body, (size_t)length, 0, expected);
}

// ---- requests ----

static void check_bytes(const char *datatype, const char *data, const void *expected,
                        size_t size_bytes)
{
    reading *self = read_input(datatype, "[2]", data, KILN_STATUS_OK);
    const kiln_model_tensor *x = &self->infer.request.inputs[0];
    if (KILN_CHECK_INT(x->bytes, (int64_t)size_bytes)) {
        KILN_CHECK_MEM(x->data, expected, size_bytes);
    }
    end_reading(self);
}

static void test_every_datatype(void)
{
    check_bytes("FP32", "[1.5,-2]", (const float[]){1.5f, -2}, 8);
    check_bytes("FP64", "[[0.1],[3]]", (const double[]){0.1, 3}, 16);
    check_bytes("INT8", "[-128,127]", (const int8_t[]){INT8_MIN, INT8_MAX}, 2);
    check_bytes("UINT8", "[0,255]", (const uint8_t[]){0, UINT8_MAX}, 2);
    check_bytes("INT16", "[-32768,32767]", (const int16_t[]){INT16_MIN, INT16_MAX}, 4);
    check_bytes("UINT16", "[0,65535]", (const uint16_t[]){0, UINT16_MAX}, 4);
    check_bytes("INT32", "[-2147483648,2147483647]", (const int32_t[]){INT32_MIN, INT32_MAX}, 8);
    check_bytes("UINT32", "[0,4294967295]", (const uint32_t[]){0, UINT32_MAX}, 8);
    check_bytes("INT64", "[-9223372036854775808,9223372036854775807]",
                (const int64_t[]){INT64_MIN, INT64_MAX}, 16);
    check_bytes("UINT64", "[0,9223372036854775807]", (const uint64_t[]){0, INT64_MAX}, 16);
    check_bytes("BOOL", "[true,0]", (const uint8_t[]){1, 0}, 2);
}

static void test_elements_that_are_none(void)
{
    static const char *const cases[][3] = {
        {"INT8", "[0,128]", "element 1 of input x is no INT8"},
        {"INT8", "[-129,0]", "element 0 of input x is no INT8"},
        {"UINT8", "[0,-1]", "element 1 of input x is no UINT8"},
        {"UINT16", "[65536,0]", "no UINT16"},
        {"INT32", "[2147483648,0]", "no INT32"},
        {"UINT64", "[0,-1]", "no UINT64"},
        {"INT32", "[1.5,0]", "no INT32"},
        {"INT64", "[true,0]", "no INT64"},
        {"BOOL", "[2,0]", "no BOOL"},
        {"BOOL", "[0.0,0]", "no BOOL"},
        {"FP32", "[\"1\",0]", "no FP32"},
        {"FP64", "[null,0]", "no FP64"},
        {"FP16", "[1,0]", "FP16 travels as binary data only"},
        {"BF16", "[1,0]", "BF16 travels as binary data only"},
        {"FP32", "[[[[[[[[[[1]]]]]]]]]]", "lists too deep"},
        {"FP32", "7", "are no list"},
        {"BYTES", "[\"a\"]", "texts are not served"},
        {"FP31", "[1]", "datatype \"FP31\", which is none"},
        {"SIXTEEN LETTERS!", "[1]", "\"datatype\" is a text of less than 16 bytes"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool bytes = strcmp(cases[i][0], "BYTES") == 0;
        reading *self =
            read_input(cases[i][0], "[2]", cases[i][1],
                       bytes ? KILN_STATUS_UNIMPLEMENTED : KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(self->err.message, cases[i][2]);
        end_reading(self);
    }
}

static void test_shapes(void)
{
    static const char *const bad[][2] = {{"7", "no shape of at most"},
                                         {"[1,1,1,1,1,1,1,1,1]", "no shape of at most"},
                                         {"[2,-1]", "dimension 1 of input x"},
                                         {"[1.0]", "dimension 0 of input x"},
                                         {"[\"2\"]", "is no length"}};
    reading *good = read_input("FP32", "[2,0,3]", "[]", KILN_STATUS_OK);
    KILN_CHECK_INT(good->infer.request.inputs[0].rank, 3);
    KILN_CHECK_INT(good->infer.request.inputs[0].dims[2], 3);
    KILN_CHECK_INT(good->infer.request.inputs[0].bytes, 0);
    end_reading(good);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        reading *self = read_input("FP32", bad[i][0], "[1,2]", KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(self->err.message, bad[i][1]);
        end_reading(self);
    }
}

static void test_whole_request(void)
{
    static const char body[] =
        "{\"id\":\"seven\",\"parameters\":{\"timeout\":9,\"priority\":2,"
        "\"binary_data_output\":true},\"inputs\":["
        "{\"name\":\"a\",\"datatype\":\"UINT8\",\"shape\":[3],"
        "\"parameters\":{\"binary_data_size\":3}},"
        "{\"name\":\"b\",\"datatype\":\"FP32\",\"shape\":[2],\"parameters\":"
        "{\"shared_memory_region\":\"r\",\"shared_memory_offset\":64,"
        "\"shared_memory_byte_size\":8}}],\"outputs\":[{\"name\":\"y\"},"
        "{\"name\":\"z\",\"parameters\":{\"binary_data\":false,\"shared_memory_region\":\"s\","
        "\"shared_memory_byte_size\":16}}]}abc";
    size_t length = sizeof(body) - 1;
    reading *self = read_body(body, length, length - 3, KILN_STATUS_OK);
    const kiln_model_request *request = &self->infer.request;
    KILN_CHECK_STR(self->infer.id, "seven");
    KILN_CHECK_INT(request->timeout_us, 9);
    KILN_CHECK_INT(request->priority, 2);
    KILN_CHECK_INT(request->n_inputs, 2);
    KILN_CHECK_INT(request->n_wanted, 2);
    KILN_CHECK_MEM(request->inputs[0].data, "abc", 3);
    KILN_CHECK_STR(request->inputs[1].region, "r");
    KILN_CHECK_INT(request->inputs[1].region_offset, 64);
    KILN_CHECK_INT(request->inputs[1].bytes, 8);
    KILN_CHECK(self->infer.binary[0] && !self->infer.binary[1]);
    KILN_CHECK_STR(request->wanted[1].region, "s");
    KILN_CHECK_INT(request->wanted[1].bytes, 16);
    end_reading(self);
}

static void check_refused(const char *body, size_t json, kiln_status expected, const char *words)
{
    reading *self = read_body(body, strlen(body), json, expected);
    KILN_CHECK_CONTAINS(self->err.message, words);
    end_reading(self);
}

static void test_requests_that_are_none(void)
{
    char many[64 * (KILN_MODEL_TENSORS + 1)] = "{\"outputs\":[{}";
    check_refused("{", 0, KILN_STATUS_INVALID_ARGUMENT, "no JSON object");
    check_refused("[1]", 0, KILN_STATUS_INVALID_ARGUMENT, "it is something else");
    check_refused("{\"id\":1}", 0, KILN_STATUS_INVALID_ARGUMENT, "\"id\" is a text");
    check_refused("{\"id\":\"a\",\"id\":\"b\"}", 0, KILN_STATUS_INVALID_ARGUMENT, "no JSON object");
    check_refused("{}", 3, KILN_STATUS_INVALID_ARGUMENT, "Content-Length is 3, the body has 2");
    check_refused("{}ab", 2, KILN_STATUS_INVALID_ARGUMENT, "2 bytes of binary data belong to no");
    check_refused("{\"inputs\":[{\"name\":\"a\",\"datatype\":\"INT8\",\"shape\":[9],"
                  "\"parameters\":{\"binary_data_size\":9}}]}",
                  0, KILN_STATUS_INVALID_ARGUMENT, "9 bytes of binary data, 0 are left");
    check_refused("{\"outputs\":[{\"name\":\"y\",\"parameters\":{\"classification\":3}}]}", 0,
                  KILN_STATUS_UNIMPLEMENTED, "classification");
    for (int i = 0; i < KILN_MODEL_TENSORS; i++) {
        memcpy(many + strlen(many), ",{}", 4);
    }
    memcpy(many + strlen(many), "]}", 3);
    check_refused(many, 0, KILN_STATUS_INVALID_ARGUMENT, "more than");
}

// ---- answers ----

static kiln_model_tensor tensor_of(const char *name, kiln_dtype dtype, int64_t count,
                                   const void *data)
{
    kiln_model_tensor tensor = {.dtype = dtype, .rank = 1, .dims = {count}, .data = data};
    snprintf(tensor.name, sizeof(tensor.name), "%s", name);
    tensor.bytes = (size_t)count * kiln_dtype_size(dtype);
    return tensor;
}

/// An answer with one output; its last `binary_bytes` are no JSON.
static void check_answer(const kilni_json_infer *infer, const kiln_model_tensor *tensor,
                         kiln_status expected, size_t binary_bytes, const char *text)
{
    kiln_env own = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kiln_model_answer *answer = calloc(1, sizeof(*answer));
    kiln_string out;
    size_t length = 0;
    snprintf(answer->version, sizeof(answer->version), "3");
    answer->n_outputs = 1;
    answer->outputs[0] = *tensor;
    kiln_string_init(&out, &own);
    KILN_CHECK_INT(kilni_json_answer_put(&out, infer, answer, &length, &err), expected);
    KILN_CHECK_INT(length, binary_bytes > 0 ? (int64_t)(strlen(text) - binary_bytes) : 0);
    if (expected == KILN_STATUS_OK) {
        KILN_CHECK_STR(out.text, text);
    } else {
        KILN_CHECK_CONTAINS(err.message, text);
    }
    kiln_string_fini(&out);
    free(answer);
}

static void check_numbers(kiln_dtype dtype, int64_t count, const void *data, const char *name,
                          const char *numbers)
{
    kilni_json_infer *infer = calloc(1, sizeof(*infer));
    const kiln_model_tensor tensor = tensor_of("y", dtype, count, data);
    char text[512];
    snprintf(infer->request.model, sizeof(infer->request.model), "m");
    snprintf(text, sizeof(text),
             "{\"model_name\":\"m\",\"model_version\":\"3\",\"outputs\":[{\"name\":\"y\","
             "\"datatype\":\"%s\",\"shape\":[%lld],\"data\":[%s]}]}",
             name, (long long)count, numbers);
    check_answer(infer, &tensor, KILN_STATUS_OK, 0, text);
    free(infer);
}

static void test_numbers_of_answers(void)
{
    check_numbers(KILN_DTYPE_F32, 2, (const float[]){1.5f, -0.25f}, "FP32", "1.5,-0.25");
    check_numbers(KILN_DTYPE_F64, 1, (const double[]){0.1}, "FP64", "0.10000000000000001");
    check_numbers(KILN_DTYPE_F16, 1, (const uint16_t[]){0x3c00}, "FP16", "1");
    check_numbers(KILN_DTYPE_BF16, 1, (const uint16_t[]){0xc000}, "BF16", "-2");
    check_numbers(KILN_DTYPE_I8, 2, (const int8_t[]){-128, 127}, "INT8", "-128,127");
    check_numbers(KILN_DTYPE_I64, 1, (const int64_t[]){INT64_MIN}, "INT64", "-9223372036854775808");
    check_numbers(KILN_DTYPE_U64, 1, (const uint64_t[]){UINT64_MAX}, "UINT64",
                  "18446744073709551615");
    check_numbers(KILN_DTYPE_BOOL, 2, (const uint8_t[]){1, 0}, "BOOL", "true,false");
    check_numbers(KILN_DTYPE_I32, 0, "", "INT32", "");
}

static void test_answers(void)
{
    kilni_json_infer *infer = calloc(1, sizeof(*infer));
    const float none[] = {1, NAN};
    kiln_model_tensor tensor = tensor_of("y", KILN_DTYPE_F32, 2, none);
    snprintf(infer->request.model, sizeof(infer->request.model), "m");
    check_answer(infer, &tensor, KILN_STATUS_INVALID_ARGUMENT, 0,
                 "element 1 of output y is no finite number");
    snprintf(infer->id, sizeof(infer->id), "a\"\\\n");
    infer->all_binary = true;
    tensor = tensor_of("y", KILN_DTYPE_U8, 2, "hi");
    check_answer(infer, &tensor, KILN_STATUS_OK, 2,
                 "{\"id\":\"a\\\"\\\\\\u000a\",\"model_name\":\"m\",\"model_version\":\"3\","
                 "\"outputs\":[{\"name\":\"y\",\"datatype\":\"UINT8\",\"shape\":[2],"
                 "\"parameters\":{\"binary_data_size\":2}}]}hi");
    snprintf(tensor.region, sizeof(tensor.region), "r");
    tensor.region_offset = 8;
    infer->id[0] = '\0';
    check_answer(infer, &tensor, KILN_STATUS_OK, 0,
                 "{\"model_name\":\"m\",\"model_version\":\"3\",\"outputs\":[{\"name\":\"y\","
                 "\"datatype\":\"UINT8\",\"shape\":[2],\"parameters\":"
                 "{\"shared_memory_region\":\"r\",\"shared_memory_offset\":8,"
                 "\"shared_memory_byte_size\":2}}]}");
    free(infer);
}

// ---- descriptions ----

static kiln_model_info *make_info(void)
{
    kiln_model_info *info = calloc(1, sizeof(*info));
    snprintf(info->name, sizeof(info->name), "m");
    snprintf(info->file, sizeof(info->file), "model.onnx");
    info->versions[0] = 1;
    info->versions[1] = 12;
    info->n_versions = 2;
    info->n_inputs = info->n_outputs = 1;
    info->inputs[0] = tensor_of("x", KILN_DTYPE_F32, -1, NULL);
    info->inputs[0].rank = 2;
    info->inputs[0].dims[1] = 64;
    info->outputs[0] = tensor_of("y", KILN_DTYPE_I64, -1, NULL);
    info->max_batch = 8;
    info->instances = 2;
    return info;
}

static void check_text(kiln_string *out, const char *text)
{
    KILN_CHECK_STR(out->text, text);
    kiln_string_fini(out);
}

static void test_descriptions(void)
{
    kiln_env own = {.allocator = kiln_allocator_default()};
    kiln_model_info *info = make_info();
    kiln_string out;
    kiln_string_init(&out, &own);
    kilni_json_metadata_put(&out, info);
    check_text(&out, "{\"name\":\"m\",\"versions\":[\"1\",\"12\"],\"platform\":\"kiln_onnx\","
                     "\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,64]}],"
                     "\"outputs\":[{\"name\":\"y\",\"datatype\":\"INT64\",\"shape\":[-1]}]}");
    kiln_string_init(&out, &own);
    kilni_json_config_put(&out, info);
    check_text(&out, "{\"name\":\"m\",\"platform\":\"kiln_onnx\",\"backend\":\"kiln\","
                     "\"max_batch_size\":8,\"input\":[{\"name\":\"x\",\"data_type\":\"TYPE_FP32\","
                     "\"dims\":[64]}],\"output\":[{\"name\":\"y\",\"data_type\":\"TYPE_INT64\","
                     "\"dims\":[]}],\"instance_group\":[{\"name\":\"m\",\"count\":2}],"
                     "\"default_model_filename\":\"model.onnx\"}");
    free(info);
}

static void test_batching(void)
{
    kiln_env own = {.allocator = kiln_allocator_default()};
    kiln_model_info *info = make_info();
    kiln_string out;
    info->n_inputs = info->n_outputs = 0;
    info->batching = true;
    info->n_preferred = 2;
    info->preferred[0] = 4;
    info->preferred[1] = 8;
    info->queue_delay_us = 100;
    info->priority_levels = 3;
    info->default_priority = 2;
    info->queue_timeout_us = 7;
    info->max_queue = 5;
    kiln_string_init(&out, &own);
    kilni_json_config_put(&out, info);
    check_text(&out, "{\"name\":\"m\",\"platform\":\"kiln_onnx\",\"backend\":\"kiln\","
                     "\"max_batch_size\":8,\"input\":[],\"output\":[],\"instance_group\":"
                     "[{\"name\":\"m\",\"count\":2}],\"default_model_filename\":\"model.onnx\","
                     "\"dynamic_batching\":{\"preferred_batch_size\":[4,8],"
                     "\"max_queue_delay_microseconds\":100,\"priority_levels\":3,"
                     "\"default_priority_level\":2,\"default_queue_policy\":"
                     "{\"default_timeout_microseconds\":7,\"max_queue_size\":5}}}");
    free(info);
}

static void test_statistics(void)
{
    kiln_env own = {.allocator = kiln_allocator_default()};
    kiln_model_stats *stats = calloc(1, sizeof(*stats));
    kiln_string out;
    snprintf(stats->name, sizeof(stats->name), "m");
    snprintf(stats->version, sizeof(stats->version), "1");
    stats->last_ms = 5;
    stats->inferences = 6;
    stats->executions = 4;
    stats->success = (kiln_model_duration){4, 40};
    stats->infer = (kiln_model_duration){4, 30};
    stats->n_batches = 1;
    stats->batches[0] = (kiln_model_batch){.size = 2, .infer = {1, 9}};
    kiln_string_init(&out, &own);
    kilni_json_stats_put(&out, stats);
    check_text(&out, "{\"name\":\"m\",\"version\":\"1\",\"last_inference\":5,"
                     "\"inference_count\":6,\"execution_count\":4,\"inference_stats\":{"
                     "\"success\":{\"count\":4,\"ns\":40},\"fail\":{\"count\":0,\"ns\":0},"
                     "\"queue\":{\"count\":0,\"ns\":0},\"compute_input\":{\"count\":0,\"ns\":0},"
                     "\"compute_infer\":{\"count\":4,\"ns\":30},"
                     "\"compute_output\":{\"count\":0,\"ns\":0}},\"batch_stats\":[{"
                     "\"batch_size\":2,\"compute_input\":{\"count\":0,\"ns\":0},"
                     "\"compute_infer\":{\"count\":1,\"ns\":9},"
                     "\"compute_output\":{\"count\":0,\"ns\":0}}]}");
    free(stats);
}

KILN_TEST_MAIN("unit/serving/json", KILN_TEST(test_every_datatype),
               KILN_TEST(test_elements_that_are_none), KILN_TEST(test_shapes),
               KILN_TEST(test_whole_request), KILN_TEST(test_requests_that_are_none),
               KILN_TEST(test_numbers_of_answers), KILN_TEST(test_answers),
               KILN_TEST(test_descriptions), KILN_TEST(test_batching), KILN_TEST(test_statistics))
