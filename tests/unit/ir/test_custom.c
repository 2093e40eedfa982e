// SPDX-License-Identifier: MIT OR Apache-2.0
// The row `custom`: what is checked of a record that nobody has looked up, canonical text of
// attributes and what is not, and what becomes of a rule's answer.
#include <math.h>
#include <string.h>

#include "harness.h"
#include "ir_support.h"

static test_env env;

static kiln_status same(const kiln_custom_op *self, const kiln_op_record *call,
                        const kiln_attr *values, kiln_tensor_desc *outputs, kiln_error *err)
{
    (void)self;
    (void)values;
    (void)err;
    outputs[0].dtype = call->inputs[0].dtype;
    outputs[0].rank = call->inputs[0].rank;
    memcpy(outputs[0].dims, call->inputs[0].dims, sizeof(outputs[0].dims));
    return KILN_STATUS_OK;
}

static kiln_status copy(const kiln_custom_op *self, const kiln_op_record *call,
                        const kiln_attr *values, const kiln_view *inputs, const kiln_view *outputs,
                        void *const *memory, kiln_error *err)
{
    const float *from = memory[0];
    float *to = memory[1];
    (void)self;
    (void)values;
    (void)outputs;
    (void)err;
    for (int64_t i = 0; i < call->inputs[0].dims[0]; i++) {
        to[i] = from[i * inputs[0].strides[0]];
    }
    return KILN_STATUS_OK;
}

static const kiln_custom_param params[] = {
    {"scale", KILN_ATTR_F64, false, {KILN_ATTR_F64, 1, {.f = 0.5}}},
    {"axes", KILN_ATTR_I64_LIST, false, {KILN_ATTR_I64_LIST, 0, {.ints = NULL}}},
    {"mode", KILN_ATTR_STRING, true, {0}},
    {"to", KILN_ATTR_DTYPE, false, {KILN_ATTR_DTYPE, 1, {.i = KILN_DTYPE_F16}}},
};

static const kiln_custom_op op = {.env = &env.env,
                                  .name = "test::op",
                                  .version = 2,
                                  .min_inputs = 1,
                                  .max_inputs = 1,
                                  .n_outputs = 1,
                                  .n_params = 4,
                                  .params = params,
                                  .infer = same,
                                  .reference = copy};

typedef struct sample {
    kiln_tensor_desc x;
    kiln_tensor_desc y;
    kiln_attr attrs[3];
    kiln_op_record record;
} sample;

static void make(sample *s, const char *name, int64_t version, const char *attributes,
                 const kiln_custom_op *custom)
{
    memset(s, 0, sizeof(*s));
    s->x = (kiln_tensor_desc){.id = 1, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {3}};
    s->y = (kiln_tensor_desc){.id = 2, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {3}};
    s->attrs[0] = (kiln_attr){KILN_ATTR_STRING, (uint32_t)strlen(name), {.text = name}};
    s->attrs[1] = (kiln_attr){KILN_ATTR_I64, 1, {.i = version}};
    s->attrs[2] = (kiln_attr){KILN_ATTR_STRING, (uint32_t)strlen(attributes), {.text = attributes}};
    s->record = (kiln_op_record){.op = KILN_OP_CUSTOM,
                                 .n_inputs = 1,
                                 .n_outputs = 1,
                                 .n_attrs = 3,
                                 .inputs = &s->x,
                                 .outputs = &s->y,
                                 .attrs = s->attrs,
                                 .custom = custom};
}

static kiln_status inferred(const sample *s, kiln_error *err)
{
    kiln_tensor_desc out[KILN_MAX_OUTPUTS] = {{0}};
    *err = (kiln_error)KILN_ERROR_INIT;
    return kiln_ir_infer(&s->record, out, err);
}

static void test_form(void)
{
    static const char *const wrong[] = {"",      "op",      "::op",    "test::", "test:op",
                                        "a::1b", "a b::op", "a::b::c", "1a::op", "a::b\xff"};
    sample s;
    kiln_error err;
    test_env_init(&env);
    make(&s, "test.org::op-2_b", 7, "whatever", NULL);
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        make(&s, wrong[i], 1, "", NULL);
        if (inferred(&s, &err) != KILN_STATUS_INVALID_ARGUMENT) {
            KILN_FAIL("\"%s\" is taken", wrong[i]);
        }
    }
    make(&s, "test::op", 0, "", NULL);
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "there is no version 0");
    make(&s, "test::op", 1, "", NULL);
    s.y.rank = 9;
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "output 0 has rank 9");
    make(&s, "test::op", 1, "", NULL);
    s.y.dims[0] = -1;
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_INVALID_ARGUMENT);
    s.y.dims[0] = INT64_MAX;
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_OUT_OF_RANGE);
    make(&s, "test::op", 1, "", NULL);
    s.record.n_outputs = 0;
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_INVALID_ARGUMENT);
    s.record.n_outputs = 7;
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_INVALID_ARGUMENT);
    make(&s, "test::op", 1, "", NULL); // nothing is known of its results: they cannot be inferred
    KILN_CHECK_INT(kiln_ir_infer(&s.record, &s.y, &err), KILN_STATUS_NOT_FOUND);
}

static void check_text(const kiln_custom_attr *attrs, size_t count, const char *expected)
{
    kiln_string text;
    kiln_error err = KILN_ERROR_INIT;
    const kiln_attr *values = NULL;
    kiln_arena arena;
    kiln_arena_init(&arena, &env.env);
    kiln_string_init(&text, &env.env);
    KILN_CHECK_INT(kiln_ir_custom_text(&op, attrs, count, &text, &err), KILN_STATUS_OK);
    KILN_CHECK_STR(text.text, expected);
    KILN_CHECK_INT(kiln_ir_custom_values(&op, text.text, &arena, &values, &err), KILN_STATUS_OK);
    KILN_CHECK(values != NULL);
    kiln_string_fini(&text);
    kiln_arena_fini(&arena);
}

static void test_canonical(void)
{
    const int64_t axes[] = {-1, INT64_MIN};
    const kiln_custom_attr mode = {"mode", {KILN_ATTR_STRING, 5, {.text = "a\"\\\nb"}}};
    const kiln_custom_attr all[] = {
        mode,
        {"axes", {KILN_ATTR_I64_LIST, 2, {.ints = axes}}},
        {"to", {KILN_ATTR_DTYPE, 1, {.i = KILN_DTYPE_I8}}},
        {"scale", {KILN_ATTR_F64, 1, {.f = -0.0}}},
    };
    const kiln_custom_attr odd[] = {mode, {"scale", {KILN_ATTR_F64, 1, {.f = (double)NAN}}}};
    test_env_init(&env);
    check_text(&mode, 1, "scale=0.5, axes=[], mode=\"a\\\"\\\\\\x0ab\", to=f16");
    check_text(all, 4,
               "scale=-0.0, axes=[-1,-9223372036854775808], mode=\"a\\\"\\\\\\x0ab\", to=i8");
    check_text(odd, 2, "scale=nan, axes=[], mode=\"a\\\"\\\\\\x0ab\", to=f16");
    KILN_CHECK_INT(env.live, 0);
}

/* One meaning has one text. */
static void test_other_texts(void)
{
    static const char *const texts[] = {
        "",
        "scale=0.5",
        "scale=0.50, axes=[], mode=\"\", to=f16",
        "scale=0.5,axes=[], mode=\"\", to=f16",
        "scale= 0.5, axes=[], mode=\"\", to=f16",
        "axes=[], scale=0.5, mode=\"\", to=f16",
        "scale=0.5, axes=[ 1], mode=\"\", to=f16",
        "scale=0.5, axes=[+1], mode=\"\", to=f16",
        "scale=0.5, axes=[01], mode=\"\", to=f16",
        "scale=0.5, axes=[], mode=\"\\x41\", to=f16",
        "scale=0.5, axes=[], mode=\"\", to=f16 ",
        "scale=0.5, axes=[], mode=\"\", to=f16, more=1",
        "scale=0.5, axes=[], mode=\"\", to=f17",
        "scale=0.5, axes=[], mode=\", to=f16",
        "scale=0.5, axes=[, mode=\"\", to=f16",
        "scale=1e999, axes=[], mode=\"\", to=f16",
        "# scale=0.5",
    };
    sample s;
    kiln_error err;
    test_env_init(&env);
    make(&s, "test::op", 2, "scale=0.5, axes=[], mode=\"\", to=f16", &op);
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_OK);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        make(&s, "test::op", 2, texts[i], &op);
        if (inferred(&s, &err) != KILN_STATUS_INVALID_ARGUMENT) {
            KILN_FAIL("%s is taken", texts[i]);
        }
    }
    KILN_CHECK_INT(env.live, 0);
}

static void test_looked_up(void)
{
    sample s;
    kiln_error err;
    kiln_tensor_desc two[2];
    test_env_init(&env);
    make(&s, "test::op", 3, "scale=0.5, axes=[], mode=\"\", to=f16", &op);
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_INTERNAL); // another version than it says
    make(&s, "test::op", 2, "scale=0.5, axes=[], mode=\"\", to=f16", &op);
    two[0] = two[1] = s.x;
    s.record.inputs = two;
    s.record.n_inputs = 2;
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "test::op: 2 inputs given, it takes 1 to 1");
    make(&s, "test::op", 2, "scale=0.5, axes=[], mode=\"\", to=f16", &op);
    s.record.n_outputs = 2;
    KILN_CHECK_INT(inferred(&s, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, "2 outputs asked, it gives 1");
}

static void test_reference_run(void)
{
    sample s;
    kiln_error err = KILN_ERROR_INIT;
    float from[6] = {1, 2, 3, 4, 5, 6}, to[3] = {0};
    const kiln_host_memory memory[] = {{from, sizeof(from)}, {to, sizeof(to)}};
    test_env_init(&env);
    make(&s, "test::op", 2, "scale=0.5, axes=[], mode=\"\", to=f16", &op);
    kiln_view x = kiln_view_dense(&s.x, NULL), y = kiln_view_dense(&s.y, NULL);
    x.offset_bytes = 20; // backwards from the last but none, every second
    x.strides[0] = -2;
    KILN_CHECK_INT(kiln_ir_reference_run(&s.record, &x, &y, memory, &err), KILN_STATUS_OK);
    KILN_CHECK(to[0] == 6 && to[1] == 4 && to[2] == 2);
    x.strides[0] = -3;
    KILN_CHECK_INT(kiln_ir_reference_run(&s.record, &x, &y, memory, &err),
                   KILN_STATUS_OUT_OF_RANGE);
    s.record.custom = NULL;
    x.strides[0] = -2;
    KILN_CHECK_INT(kiln_ir_reference_run(&s.record, &x, &y, memory, &err), KILN_STATUS_NOT_FOUND);
}

KILN_TEST_MAIN("unit/ir/custom", KILN_TEST(test_form), KILN_TEST(test_canonical),
               KILN_TEST(test_other_texts), KILN_TEST(test_looked_up),
               KILN_TEST(test_reference_run))
