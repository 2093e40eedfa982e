// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators in no standard refuse what does not fit, in words: inputs and attributes that they have
// not, forms that are not served, and inputs of any rank and type. What they compute is checked by
// cases (tests/onnx_cases/microsoft_cases.py).
#include "harness.h"
#include "onnx.h"
#include "onnx_model.h"
#include "proto_writer.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST = 18,
    FLOAT = 1,
    UINT8 = 2,
    INT32 = 6,
    BOOL = 9,
    FLOAT16 = 10
}; // ONNX's numbers of types

typedef struct input {
    int32_t type; ///< ONNX's; 0: left out
    uint32_t rank;
    int64_t dims[5];
} input;

typedef struct attr {
    const char *name;
    int64_t value;
} attr;

typedef struct trial {
    const char *domain;
    const char *op_type;
    input inputs[MOST];
    uint32_t n_inputs;
    attr attrs[6];
    const char *text; ///< of the error
} trial;

static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                    "j", "k", "l", "m", "n", "o", "p", "q", "r"};

static pw write_trial(const trial *t)
{
    static const char *const outputs[] = {"y", NULL};
    const char *given[MOST + 1] = {NULL};
    static const uint8_t zeros[4096];
    pw graph = {0}, y = {0}, opset = {0};
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        given[i] = t->inputs[i].type == 0 ? "" : names[i];
    }
    pw node = pw_node(t->op_type, given, outputs);
    pw_text(&node, 7, t->domain);
    for (uint32_t i = 0; i < 6 && t->attrs[i].name != NULL; i++) {
        pw_attr_int(&node, t->attrs[i].name, t->attrs[i].value);
    }
    pw_message(&graph, 1, &node);
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        const input *x = &t->inputs[i];
        int64_t count = 1;
        for (uint32_t k = 0; k < x->rank; k++) {
            count *= x->dims[k];
        }
        if (x->type != 0) {
            size_t bytes = (size_t)count * kiln_dtype_size(kilni_onnx_type_dtype(x->type));
            pw tensor = pw_tensor(names[i], x->type, x->dims, x->rank, zeros, bytes);
            pw_message(&graph, 5, &tensor);
        }
    }
    pw_text(&y, 1, "y");
    pw_message(&graph, 12, &y);
    pw bytes = pw_model(&graph, 21);
    pw_text(&opset, 1, t->domain);
    pw_int(&opset, 2, 1);
    if (t->domain[0] != '\0') {
        pw_message(&bytes, 8, &opset);
    }
    pw_free(&opset);
    return bytes;
}

static kiln_status try_it(kiln_device *device, const trial *t, kiln_error *err)
{
    kiln_onnx_model *model = NULL;
    kiln_onnx_session *session = NULL;
    kiln_tensor *out = NULL;
    pw bytes = write_trial(t);
    kiln_status status = kiln_onnx_model_open_memory(kiln_context_env(kiln_device_context(device)),
                                                     bytes.bytes, bytes.length, NULL, &model, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_create(model, device, &session, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_run(session, NULL, 0, &out, 1, err);
    }
    kiln_release(out);
    kiln_onnx_session_destroy(session);
    kiln_onnx_model_close(model);
    pw_free(&bytes);
    return status;
}

static kiln_device *open_reference(kiln_context **out_context)
{
    kiln_device *device = NULL;
    if (KILN_CHECK(kiln_context_create(NULL, out_context, NULL) == KILN_STATUS_OK)) {
        KILN_CHECK(kiln_device_open(*out_context, "reference:0", &device, NULL) == KILN_STATUS_OK);
    }
    return device;
}

static void close_reference(kiln_context *context, kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    KILN_CHECK(kiln_sync(device, NULL) == KILN_STATUS_OK);
    kiln_device_stats_get(device, &stats);
    KILN_CHECK_INT(stats.tensors_live, 0);
    kiln_device_release(device);
    kiln_context_destroy(context);
}

#define F32(...)                                                                                   \
    {                                                                                              \
        FLOAT, sizeof((int64_t[]){__VA_ARGS__}) / 8,                                               \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define U8(...)                                                                                    \
    {                                                                                              \
        UINT8, sizeof((int64_t[]){__VA_ARGS__}) / 8,                                               \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define I32(...)                                                                                   \
    {                                                                                              \
        INT32, sizeof((int64_t[]){__VA_ARGS__}) / 8,                                               \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define NONE                                                                                       \
    {                                                                                              \
        0, 0,                                                                                      \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define MS "com.microsoft"

static void test_refused_in_words(void)
{
    static const trial trials[] = {
        {MS, "Gelu", {F32(2)}, 1, {{"approximate", 1}}, "attribute 'approximate' is not known"},
        {MS, "Gelu", {F32(2), F32(2)}, 2, {{0}}, "inputs: 2 given, the operator takes 1"},
        {"", "SimplifiedLayerNormalization", {F32(2), F32(2)}, 2, {{"bias", 1}}, "is not known"},
        {MS, "BiasSplitGelu", {F32(2, 3), F32(3)}, 2, {{0}}, "no even number of columns"},
        {MS,
         "FusedConv",
         {F32(1, 1, 3), F32(1, 1, 3)},
         2,
         {{"group", 1}, {"activation_params", 1}},
         "attribute 'activation_params' is an integer of"},
        {MS, "SkipLayerNormalization", {F32(3), F32(3), F32(3)}, 3, {{0}}, "input of rank 1"},
        {MS,
         "EmbedLayerNormalization",
         {I32(1, 4), NONE, F32(5, 2), F32(3, 2), NONE, F32(2), F32(2)},
         7,
         {{0}},
         "4 words, position_embedding has 3"},
        {MS, "Attention", {F32(1, 2, 4), F32(4, 12)}, 2, {{"num_heads", 0}}, "num_heads is 0"},
        {MS,
         "Attention",
         {F32(1, 2, 4), F32(4, 12)},
         2,
         {{"num_heads", 3}},
         "9 heads do not divide"},
        {MS,
         "Attention",
         {F32(1, 2, 4), F32(4, 12)},
         2,
         {{"num_heads", 2}, {"do_rotary", 1}},
         "attribute do_rotary is not supported"},
        {MS,
         "Attention",
         {F32(1, 2, 4), F32(4, 12), NONE, I32(7)},
         4,
         {{"num_heads", 2}},
         "a mask of i32, rank 1 and 7 elements"},
        {MS,
         "Attention",
         {F32(1, 2, 4), F32(4, 12), NONE, NONE, F32(2, 1)},
         5,
         {{"num_heads", 2}},
         "past of rank 2"},
        {MS, "Attention", {F32(1, 2, 4), F32(4, 13)}, 2, {{"num_heads", 2}}, "are not the 13"},
        {MS,
         "MultiHeadAttention",
         {F32(1, 2, 4), F32(1, 2, 4)},
         2,
         {{"num_heads", 2}},
         "input 2 is missing"},
        {MS,
         "MultiHeadAttention",
         {F32(1, 2, 4), F32(1, 2, 4), F32(1, 2, 4), NONE, NONE, NONE, F32(1, 2, 1, 2)},
         7,
         {{"num_heads", 2}},
         "past_key and past_value go together"},
        {MS,
         "MultiHeadAttention",
         {F32(1, 2, 4), F32(1, 2, 4), F32(1, 2, 4), F32(9)},
         4,
         {{"num_heads", 2}},
         "bias of rank 1 has not the columns"},
        {MS,
         "MultiHeadAttention",
         {F32(1, 2, 4), F32(1, 2, 4), F32(1, 2, 4), NONE, NONE, NONE, NONE, NONE, I32(1)},
         9,
         {{"num_heads", 2}},
         "input past_sequence_length is not supported"},
        {MS,
         "GroupQueryAttention",
         {F32(1, 2, 8), F32(1, 2, 4), F32(1, 2, 4), NONE, NONE, I32(1), I32(1)},
         7,
         {{"num_heads", 3}, {"kv_num_heads", 2}},
         "num_heads is 3 and kv_num_heads 2"},
        {MS,
         "GroupQueryAttention",
         {F32(1, 2, 8), F32(1, 2, 4), F32(1, 2, 4), NONE, NONE, I32(1), I32(1)},
         7,
         {{"num_heads", 4}, {"kv_num_heads", 2}},
         "0 keys in all, 2 of them new"},
        {MS,
         "GroupQueryAttention",
         {F32(1, 2, 8), F32(1, 3, 4), F32(1, 2, 4), NONE, NONE, I32(1), I32(1)},
         7,
         {{"num_heads", 4}, {"kv_num_heads", 2}},
         "key of 1 samples, 3 rows"},
        {MS,
         "GroupQueryAttention",
         {F32(1, 2, 8), F32(1, 2, 4), F32(1, 2, 4), NONE, NONE, I32(1), I32(1)},
         7,
         {{"num_heads", 4}, {"kv_num_heads", 2}, {"sliding_window_cache", 1}},
         "attribute sliding_window_cache is not supported"},
        {MS,
         "RotaryEmbedding",
         {F32(1, 2, 6), I32(1), F32(4, 2), F32(4, 2)},
         4,
         {{0}},
         "cos_cache and sin_cache do not give"},
        {MS,
         "QLinearAdd",
         {U8(2), F32(2), U8(1), U8(2), F32(1), U8(1), F32(1), U8(1)},
         8,
         {{0}},
         "a scale of 2 numbers"},
        {MS, "QLinearConcat", {F32(1), U8(1), U8(2), F32(1)}, 4, {{"axis", 0}}, "4 inputs: after"},
        {MS,
         "QGemm",
         {U8(2, 2, 1), F32(1), U8(1), U8(2, 1), F32(1), U8(1)},
         6,
         {{"transA", 1}},
         "are no matrices"},
        {MS,
         "QGemm",
         {U8(2, 2), F32(1), U8(1), U8(2, 1), F32(1), U8(1), NONE, F32(1)},
         8,
         {{0}},
         "y_scale and y_zero_point go together"},
        {MS,
         "DynamicQuantizeLSTM",
         {F32(1, 1, 1), U8(1, 4), U8(1, 1, 4), NONE, NONE, NONE, NONE, NONE, F32(1), U8(1), F32(1),
          U8(1)},
         12,
         {{0}},
         "weights of rank 2"},
        {MS,
         "MatMulNBits",
         {F32(1, 16), U8(1, 1, 6), F32(1)},
         3,
         {{"K", 16}, {"N", 1}, {"bits", 3}, {"block_size", 16}},
         "values of 3 bits"},
        {MS,
         "MatMulNBits",
         {F32(1, 16), U8(1, 1, 8), F32(1), U8(2)},
         4,
         {{"K", 16}, {"N", 1}, {"bits", 4}, {"block_size", 16}},
         "the zero points has 2 elements"},
        {MS,
         "MatMulNBits",
         {F32(1, 16), U8(1, 1, 8), F32(1), NONE, I32(15)},
         5,
         {{"K", 16}, {"N", 1}, {"bits", 4}, {"block_size", 16}},
         "g_idx has 15 elements"},
        {MS,
         "GatherBlockQuantized",
         {U8(2, 8), I32(1), F32(2)},
         3,
         {{"block_size", 16}},
         "data of u8 and rank 2, scales of f32 and rank 1"},
    };
    kiln_context *context = NULL;
    kiln_device *device = open_reference(&context);
    for (size_t i = 0; device != NULL && i < sizeof(trials) / sizeof(trials[0]); i++) {
        kiln_error err = KILN_ERROR_INIT;
        KILN_CHECK(try_it(device, &trials[i], &err) != KILN_STATUS_OK);
        KILN_CHECK_CONTAINS(err.message, trials[i].text);
    }
    close_reference(context, device);
}

static const struct {
    const char *domain;
    const char *op_type;
    uint32_t least;
    uint32_t most;
    const char *attrs;
} rows[] = {
#define KILN_ONNX_CONTRIB(domain, type, last, least, most, handler, attributes)                    \
    {domain, #type, least, most, attributes},
#include "onnx_contrib.def"
#undef KILN_ONNX_CONTRIB
};

/* One of the operator's attributes with a small number. */
static void name_attrs(trial *t, const char *attrs, char text[512], int64_t value)
{
    snprintf(text, 512, "%s", attrs);
    uint32_t count = 0;
    for (char *at = text; *at != '\0' && count < 6;) {
        char *end = at + strcspn(at, " ");
        t->attrs[count++] = (attr){at, value};
        at = *end == '\0' ? end : end + 1;
        *end = '\0';
    }
}

/* Inputs of any rank and type give a result or an error of the caller's with a text, never one of
   ours. */
static void test_any_inputs(void)
{
    static const int32_t types[] = {FLOAT, UINT8, INT32, BOOL, FLOAT16};
    kiln_context *context = NULL;
    kiln_device *device = open_reference(&context);
    uint32_t seed = 1;
    char text[512];
    for (size_t i = 0; device != NULL && i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (uint32_t round = 0; round < 60; round++) {
            trial t = {.domain = rows[i].domain, .op_type = rows[i].op_type};
            kiln_error err = KILN_ERROR_INIT;
            uint32_t most = rows[i].most <= MOST ? rows[i].most : 7;
            t.n_inputs = rows[i].least + round % (most - rows[i].least + 1);
            for (uint32_t k = 0; k < t.n_inputs; k++) {
                seed = seed * 1664525 + 1013904223;
                uint32_t draw = seed >> 8;
                t.inputs[k] = (input){types[draw % 5], draw / 8 % 6, {0}};
                for (uint32_t a = 0; a < 5; a++) {
                    t.inputs[k].dims[a] = 1 + (draw >> (8 + 2 * a)) % 3;
                }
                if (k >= 1 && draw % 11 == 0) {
                    t.inputs[k].type = 0;
                }
            }
            name_attrs(&t, round % 3 == 0 ? "" : rows[i].attrs, text, round % 3);
            kiln_status status = try_it(device, &t, &err);
            if (status != KILN_STATUS_OK &&
                (status == KILN_STATUS_INTERNAL || err.message[0] == '\0')) {
                printf("%s, round %u: %s\n", rows[i].op_type, round, err.message);
                KILN_CHECK(false);
            }
        }
    }
    close_reference(context, device);
}

KILN_TEST_MAIN("unit/onnx/microsoft", KILN_TEST(test_refused_in_words), KILN_TEST(test_any_inputs))
