// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests of the Open Inference Protocol as bytes: what is read of them, and that damaged ones are
// refused or read inside their bytes. And answers.

#define _GNU_SOURCE // memmem
#include "harness.h"
#include "kserve.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL_MESSAGES = 20000 };

/// x: two floats, typed and raw; with a parameter and a wanted output.
static void put_request(kiln_string *out, bool typed)
{
    static const float numbers[] = {1.5f, -2};
    kiln_string input, inner, entry;
    kiln_string_init(&input, out->env);
    kiln_string_init(&inner, out->env);
    kiln_string_init(&entry, out->env);
    kilni_wire_put_text(out, 1, "model");
    kilni_wire_put_text(out, 3, "id");
    kilni_wire_put_text(&entry, 1, "timeout");
    kilni_wire_put_number(&inner, 2, 1000);
    kilni_wire_put_message(&entry, 2, &inner);
    kilni_wire_put_message(out, 4, &entry);
    kilni_wire_put_text(&input, 1, "x");
    kilni_wire_put_text(&input, 2, "FP32");
    kilni_wire_put(&input, 3, "\1\2", 2);
    if (typed) {
        kiln_string_init(&inner, out->env);
        kilni_wire_put(&inner, 6, numbers, sizeof(numbers));
        kilni_wire_put_message(&input, 5, &inner);
    }
    kilni_wire_put_message(out, 5, &input);
    kiln_string_init(&entry, out->env);
    kilni_wire_put_text(&entry, 1, "y");
    kilni_wire_put_message(out, 6, &entry);
    if (!typed) {
        kilni_wire_put(out, 7, numbers, sizeof(numbers));
    }
}

/// So that the next request finds nothing of this one.
static void clear(kilni_kserve_infer *infer)
{
    static const kilni_kserve_infer zeros;
    kilni_kserve_infer_clear(infer);
    KILN_CHECK(memcmp(infer, &zeros, sizeof(zeros)) == 0);
}

static void test_typed_and_raw(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kilni_kserve_infer *infer = calloc(1, sizeof(*infer));
    for (int typed = 0; typed < 2; typed++) {
        kiln_error err = KILN_ERROR_INIT;
        kiln_string message;
        float got[2] = {0, 0};
        kiln_string_init(&message, &env);
        put_request(&message, typed != 0);
        const kilni_wire_piece piece = {(const unsigned char *)message.text, message.length};
        KILN_CHECK_INT(kilni_kserve_infer_read(&env, piece, infer, &err), KILN_STATUS_OK);
        const kiln_model_tensor *x = &infer->request.inputs[0];
        KILN_CHECK_STR(infer->request.model, "model");
        KILN_CHECK_INT(infer->request.timeout_us, 1000);
        KILN_CHECK_STR(infer->request.wanted[0].name, "y");
        KILN_CHECK(x->rank == 2 && x->dims[0] == 1 && x->dims[1] == 2 && x->bytes == 8);
        memcpy(got, x->data, sizeof(got));
        KILN_CHECK(got[0] == 1.5f && got[1] == -2);
        clear(infer);
        kiln_string_fini(&message);
    }
    free(infer);
}

/// Tensors of a damaged request lie in it, or in its arena.
static void check_inside(const kilni_kserve_infer *infer, const unsigned char *bytes, size_t length)
{
    for (uint32_t i = 0; i < infer->request.n_inputs; i++) {
        const kiln_model_tensor *tensor = &infer->request.inputs[i];
        const unsigned char *data = tensor->data;
        if (data >= bytes && data <= bytes + length && tensor->region[0] == '\0') {
            KILN_CHECK(tensor->bytes <= (size_t)(bytes + length - data));
        }
        KILN_CHECK(tensor->rank <= KILN_MAX_RANK);
    }
}

static void test_damaged(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kilni_kserve_infer *infer = calloc(1, sizeof(*infer));
    uint64_t state = 88172645463325252u;
    uint32_t refused = 0;
    for (uint32_t i = 0; i < USUAL_MESSAGES; i++) {
        kiln_error err = KILN_ERROR_INIT;
        kiln_string message;
        kiln_string_init(&message, &env);
        put_request(&message, i % 2 != 0);
        for (uint32_t k = 0; k < 1 + i % 3; k++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            message.text[state % message.length] = (char)(state >> 32);
        }
        size_t length = i % 5 == 0 ? state % message.length : message.length;
        unsigned char *exact = malloc(length + 1); // so that a sanitizer sees its end
        memcpy(exact, message.text, length);
        kiln_status status =
            kilni_kserve_infer_read(&env, (kilni_wire_piece){exact, length}, infer, &err);
        refused += status != KILN_STATUS_OK;
        KILN_CHECK(status == KILN_STATUS_OK || err.message[0] != '\0');
        check_inside(infer, exact, length);
        clear(infer);
        free(exact);
        kiln_string_fini(&message);
    }
    KILN_CHECK(refused > USUAL_MESSAGES / 10 && refused < USUAL_MESSAGES);
    free(infer);
}

// ---- what a request may not say ----

/// A request with one input x, and what is unusual about it. Zeros: nothing.
typedef struct unusual {
    const char *model;
    const char *key; ///< of a parameter of the request, whose value is `text`
    const char *input;
    const char *dtype;
    const char *shape; ///< a packed list
    const char *place; ///< a parameter of the input, whose value is `text`
    const char *output; ///< wanted, with a parameter of key `of_output`
    const char *of_output;
    const char *text;
    uint32_t contents; ///< a field of typed contents with eight bytes in it
    uint32_t inputs; ///< so many more
    uint32_t outputs;
    uint32_t raws;
    kiln_status status;
    const char *error;
} unusual;

static const char name_128[] = "eight---eight---eight---eight---eight---eight---eight---eight---"
                               "eight---eight---eight---eight---eight---eight---eight---eight---";

/// {key: a parameter}, a text or, where that is NULL, a number.
static void put_parameter(kiln_string *out, uint32_t field, const char *key, const char *text,
                          uint64_t number)
{
    kiln_string entry, value;
    kiln_string_init(&entry, out->env);
    kiln_string_init(&value, out->env);
    kilni_wire_put_text(&entry, 1, key);
    if (text != NULL) {
        kilni_wire_put_text(&value, 3, text);
    } else {
        kilni_wire_put_number(&value, 2, number);
    }
    kilni_wire_put_message(&entry, 2, &value);
    kilni_wire_put_message(out, field, &entry);
}

static void put_input(kiln_string *out, const unusual *u)
{
    kiln_string input, inner;
    kiln_string_init(&input, out->env);
    kiln_string_init(&inner, out->env);
    kilni_wire_put_text(&input, 1, u->input != NULL ? u->input : "x");
    kilni_wire_put_text(&input, 2, u->dtype != NULL ? u->dtype : "FP32");
    kilni_wire_put_text(&input, 3, u->shape != NULL ? u->shape : "\2");
    if (u->place != NULL) {
        put_parameter(&input, 4, u->place, u->text, 0);
    }
    if (u->contents != 0) {
        kilni_wire_put(&inner, u->contents, "\1\2\3\4\5\6\7", 8);
        kilni_wire_put_message(&input, 5, &inner);
    }
    kilni_wire_put_message(out, 5, &input);
}

static void put_output(kiln_string *out, const char *name, const char *key, const char *text)
{
    kiln_string output;
    kiln_string_init(&output, out->env);
    kilni_wire_put_text(&output, 1, name);
    if (key != NULL) {
        put_parameter(&output, 2, key, text, 1);
    }
    kilni_wire_put_message(out, 6, &output);
}

static void put_unusual(kiln_string *out, const unusual *u)
{
    kilni_wire_put_text(out, 1, u->model != NULL ? u->model : "model");
    if (u->key != NULL) {
        put_parameter(out, 4, u->key, u->text, 0);
    }
    for (uint32_t i = 0; i <= u->inputs; i++) {
        put_input(out, u);
    }
    if (u->output != NULL) {
        put_output(out, u->output, u->of_output, u->text);
    }
    for (uint32_t i = 0; i < u->outputs; i++) {
        put_output(out, "y", NULL, NULL);
    }
    for (uint32_t i = 0; i < u->raws; i++) {
        kilni_wire_put(out, 7, "\1\2\3\4\5\6\7", 8);
    }
}

/// Reads `message`, which is freed; `*infer` is for kilni_kserve_infer_clear.
static kiln_status read_message(kiln_string *message, kilni_kserve_infer *infer, kiln_error *err)
{
    memset(infer, 0, sizeof(*infer));
    *err = (kiln_error)KILN_ERROR_INIT;
    return kilni_kserve_infer_read(
        message->env, (kilni_wire_piece){(const unsigned char *)message->text, message->length},
        infer, err);
}

static void test_refused(void)
{
    static const unusual all[] = {
        {.model = name_128,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "name or version of the model is too long"},
        {.key = "sequence_id",
         .text = name_128,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "sequence_id is longer"},
        {.input = name_128,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "the name of input 0 is longer than 127"},
        {.dtype = "FP32FP32FP32FP32",
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "no known datatype"},
        {.dtype = "FP33",
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "datatype FP33, which is none"},
        {.dtype = "BYTES", .status = KILN_STATUS_UNIMPLEMENTED, .error = "texts are not served"},
        {.shape = "\1\1\1\1\1\1\1\1\1",
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "more than 8 dimensions"},
        {.shape = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\1",
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "of -1"},
        {.shape = "\x80", .status = KILN_STATUS_INVALID_ARGUMENT, .error = "a damaged shape"},
        {.place = "shared_memory_region",
         .text = name_128,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "too long a"},
        {.contents = 6,
         .dtype = "BF16",
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "travels as raw contents only"},
        {.contents = 7,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "contents are of another datatype"},
        {.contents = 6,
         .raws = 1,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "typed contents beside raw ones"},
        {.raws = 2,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "more raw contents than inputs"},
        {.place = "shared_memory_region",
         .text = "r",
         .raws = 1,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "more"},
        {.inputs = KILN_MODEL_TENSORS,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "more than 64 inputs"},
        {.outputs = KILN_MODEL_TENSORS + 1,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "more than 64 outputs"},
        {.output = name_128,
         .status = KILN_STATUS_INVALID_ARGUMENT,
         .error = "the name of an output is too long"},
        {.output = "y",
         .of_output = "classification",
         .status = KILN_STATUS_UNIMPLEMENTED,
         .error = "not served"},
    };
    kiln_env env = {.allocator = kiln_allocator_default()};
    kilni_kserve_infer *infer = calloc(1, sizeof(*infer));
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        kiln_string message;
        kiln_error err;
        kiln_string_init(&message, &env);
        put_unusual(&message, &all[i]);
        KILN_CHECK_INT(read_message(&message, infer, &err), all[i].status);
        KILN_CHECK_CONTAINS(err.message, all[i].error);
        kilni_kserve_infer_clear(infer);
        kiln_string_fini(&message);
    }
    free(infer);
}

/// Elements by themselves and in packed lists, of every width.
static void test_typed_contents(void)
{
    static const struct {
        const char *dtype;
        uint32_t field;
        const char *packed;
        size_t length;
        const char *expected;
        size_t bytes;
    } all[] = {
        {"BOOL", 1, "\0\2", 2, "\0\1\1", 3},
        {"INT8", 2, "\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11, "\1\xff\1", 3},
        {"UINT16", 4, "\x80\2", 2, "\0\1\1\0", 4},
        {"INT64", 3, "\7", 1, "\7\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16},
        {"FP64", 7, "\0\0\0\0\0\0\xf0\x3f", 8, "\0\0\0\0\0\0\xf0\x3f", 8},
        {"FP64", 7, "\0\0\0", 3, "", 0},
    };
    kiln_env env = {.allocator = kiln_allocator_default()};
    kilni_kserve_infer *infer = calloc(1, sizeof(*infer));
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        kiln_string message, input, contents;
        kiln_error err;
        kiln_string_init(&message, &env);
        kiln_string_init(&input, &env);
        kiln_string_init(&contents, &env);
        kilni_wire_put_text(&input, 1, "x");
        kilni_wire_put_text(&input, 2, all[i].dtype);
        kilni_wire_put_number(&input, 3, 3); // a dimension by itself
        kilni_wire_put(&contents, all[i].field, all[i].packed, all[i].length);
        if (all[i].field != 7) {
            kilni_wire_put_number(&contents, all[i].field, 1); // an element by itself
        }
        kilni_wire_put_message(&input, 5, &contents);
        kilni_wire_put_message(&message, 5, &input);
        KILN_CHECK_INT(read_message(&message, infer, &err), KILN_STATUS_OK);
        const kiln_model_tensor *x = &infer->request.inputs[0];
        KILN_CHECK(x->rank == 1 && x->dims[0] == 3);
        if (KILN_CHECK_INT(x->bytes, all[i].bytes)) {
            KILN_CHECK_MEM(x->data, all[i].expected, all[i].bytes);
        }
        kilni_kserve_infer_clear(infer);
        kiln_string_fini(&message);
    }
    free(infer);
}

static void test_parameters(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kilni_kserve_infer *infer = calloc(1, sizeof(*infer));
    for (uint64_t id = 0; id < 3; id++) { // none, a number, a text
        kiln_string message, input;
        kiln_error err;
        kiln_string_init(&message, &env);
        kiln_string_init(&input, &env);
        put_parameter(&message, 4, "priority", NULL, 2);
        put_parameter(&message, 4, "sequence_start", NULL, 1);
        put_parameter(&message, 4, "sequence_end", NULL, 1);
        put_parameter(&message, 4, "sequence_id", id == 2 ? "text" : NULL, id * 42);
        put_parameter(&message, 4, name_128, NULL, 1);
        kilni_wire_put_text(&message, 2, "7");
        kilni_wire_put_text(&input, 1, "x");
        kilni_wire_put_text(&input, 2, "FP32");
        put_parameter(&input, 4, "shared_memory_region", "in", 0);
        put_parameter(&input, 4, "shared_memory_offset", NULL, 64);
        put_parameter(&input, 4, "shared_memory_byte_size", NULL, 8);
        kilni_wire_put_message(&message, 5, &input);
        put_output(&message, "y", "shared_memory_region", "out");
        KILN_CHECK_INT(read_message(&message, infer, &err), KILN_STATUS_OK);
        const kiln_model_request *request = &infer->request;
        KILN_CHECK_STR(request->version, "7");
        KILN_CHECK_INT(request->priority, 2);
        KILN_CHECK(request->sequence_start && request->sequence_end);
        KILN_CHECK_STR(request->sequence, id == 0 ? "" : id == 1 ? "42" : "text");
        KILN_CHECK_STR(request->inputs[0].region, "in");
        KILN_CHECK_INT(request->inputs[0].region_offset, 64);
        KILN_CHECK_INT(request->inputs[0].bytes, 8);
        KILN_CHECK_STR(request->wanted[0].region, "out");
        kilni_kserve_infer_clear(infer);
        kiln_string_fini(&message);
    }
    free(infer);
}

/// An answer with its contents, which says that it is the last; and one whose contents follow.
static void test_answers(void)
{
    static const float numbers[] = {1, 2};
    static kiln_model_answer answer = {
        .version = "3",
        .n_outputs = 2,
        .outputs = {{.name = "y", .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {2}, .bytes = 8},
                    {.name = "z", .dtype = KILN_DTYPE_F32, .region = "out", .bytes = 4}}};
    kiln_env env = {.allocator = kiln_allocator_default()};
    kilni_kserve_infer *infer = calloc(1, sizeof(*infer));
    kilni_kserve_contents contents = {.count = 0};
    kiln_string whole, head;
    kiln_string_init(&whole, &env);
    kiln_string_init(&head, &env);
    answer.outputs[0].data = numbers;
    infer->id = (kilni_wire_piece){(const unsigned char *)"id", 2};
    kilni_kserve_answer_put(&whole, infer, &answer, NULL);
    kilni_kserve_answer_put(&head, infer, &answer, &contents);
    const kilni_wire_piece piece = {(const unsigned char *)whole.text, whole.length};
    const kilni_wire_piece raw = kilni_wire_get(piece, 6);
    KILN_CHECK(kilni_wire_same(kilni_wire_get(piece, 3), infer->id));
    if (KILN_CHECK_INT(raw.length, sizeof(numbers))) {
        KILN_CHECK_MEM(raw.bytes, numbers, sizeof(numbers));
    }
    if (KILN_CHECK_INT(contents.count, 1)) {
        KILN_CHECK(contents.places[0] == head.length);
        KILN_CHECK(contents.pieces[0].bytes == (const unsigned char *)numbers);
    }
    KILN_CHECK(memmem(whole.text, whole.length, "triton_final_response", 21) != NULL);
    KILN_CHECK(memmem(head.text, head.length, "triton_final_response", 21) == NULL);
    KILN_CHECK(memmem(head.text, head.length, "shared_memory_region", 20) != NULL);
    kiln_string_fini(&whole);
    kiln_string_fini(&head);
    free(infer);
}

KILN_TEST_MAIN("unit/remote_grpc/kserve", KILN_TEST(test_typed_and_raw), KILN_TEST(test_damaged),
               KILN_TEST(test_refused), KILN_TEST(test_typed_contents), KILN_TEST(test_parameters),
               KILN_TEST(test_answers))
