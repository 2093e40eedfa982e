// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors of models that cannot run, on the reference device: operators, versions, inputs and graphs
// that are refused, and what the messages name.
#include "session_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_unknown_operator_is_named(void)
{
    pw graph = small_graph();
    add_node(&graph, "Frobnicate", INPUTS("x"), "z");
    expect_error(&graph, KILN_STATUS_UNIMPLEMENTED,
                 "node 'the_node' (Frobnicate): operator Frobnicate of domain ai.onnx, version 13");
}

/* A standard operator without a row says why; types that Kiln has not are named. */
static void test_refusals_say_why(void)
{
    pw graph = small_graph();
    add_node(&graph, "ImageDecoder", INPUTS("x"), "z");
    expect_error(&graph, KILN_STATUS_UNIMPLEMENTED,
                 "operator ImageDecoder is not supported: Kiln decodes no pictures");
    graph = small_graph();
    const char *const outputs[] = {"z", NULL};
    pw node = pw_node("Cast", INPUTS("x"), outputs);
    pw_attr_int(&node, "to", 14);
    pw_message(&graph, 1, &node);
    expect_error(&graph, KILN_STATUS_UNIMPLEMENTED, "element type complex64 is not supported");
    static const char *const narrow[] = {"float6e2m3", "float6e3m2"};
    for (int i = 0; i < 2; i++) {
        char text[64];
        snprintf(text, sizeof(text), "element type %s is not supported", narrow[i]);
        graph = small_graph();
        node = pw_node("Cast", INPUTS("x"), outputs);
        pw_attr_int(&node, "to", 27 + i);
        pw_message(&graph, 1, &node);
        expect_error_at(&graph, 28, KILN_STATUS_UNIMPLEMENTED, text);
    }
}

/* A set that is newer than Kiln's newest runs where the node says nothing new, and is refused by
   name where it does. */
static void test_newer_sets(void)
{
    pw graph = small_graph();
    add_node(&graph, "Add", INPUTS("x", "y"), "z");
    expect_small(&graph, 29, 4, 2);
    const char *const outputs[] = {"z", NULL};
    pw node = pw_node("Add", INPUTS("x", "y"), outputs);
    pw_attr_int(&node, "carry", 1);
    graph = small_graph();
    pw_message(&graph, 1, &node);
    expect_error_at(&graph, 29, KILN_STATUS_UNIMPLEMENTED,
                    "attribute 'carry' of operator set 29 is newer than set 28, which Kiln knows");
    graph = small_graph();
    add_node(&graph, "Addend", INPUTS("x", "y"), "z");
    expect_error_at(&graph, 29, KILN_STATUS_UNIMPLEMENTED,
                    "operator Addend of operator set 29, Kiln knows those up to 28");
}

/* So is a newer IR version, of which a type that is not known is refused by name. */
static void test_newer_ir(void)
{
    fixture f;
    loaded l;
    kiln_error err;
    float z[2] = {0};
    pw graph = small_graph();
    add_node(&graph, "Add", INPUTS("x", "y"), "z");
    pw bytes = pw_model(&graph, 28);
    pw_int(&bytes, 1, 15); // a field that comes again counts
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes, &l, &err) == KILN_STATUS_OK)) {
        KILN_CHECK(run_small(&f, &l, z, 2, &err) == KILN_STATUS_OK);
        KILN_CHECK_NEAR((double)z[1], 2, 0);
        unload(&l);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

/* What the operators of decoders say of inputs that do not fit. */
static void test_decoders_refuse(void)
{
    static const struct {
        const char *op, *attr, *value, *text;
        bool deep; ///< of rank 3
    } cases[] = {
        {"Attention", "", "", "query, key and value of rank 1, 1 and 1", false},
        {"Attention", "", "",
         "0 heads do not divide the columns of an input of rank 3: attribute q_num_heads", true},
        {"RotaryEmbedding", "", "", "0 heads for an input of rank 3", true},
        {"CausalConvWithState", "", "", "input of rank 1 and weight of rank 1", false},
        {"CausalConvWithState", "activation", "tanh", "activation 'tanh' is not none", true},
        {"TensorScatter", "mode", "spiral", "mode 'spiral' is neither linear nor circular", true},
        {"TensorScatter", "", "", "axis -2 does not fit rank 1", false},
        {"LinearAttention", "update_rule", "cubic", "update_rule 'cubic' is not known", true},
        {"LinearAttention", "update_rule", "delta", "update_rule 'delta' needs input 5", true},
        {"LinearAttention", "update_rule", "linear", "0 heads do not divide", true},
        {"BitCast", "", "", "attribute 'to' names no type as wide as f32", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t dims[] = {1, 1, 2};
        static const float numbers[] = {1, 2};
        const char *const outputs[] = {"z", NULL};
        const char *in = cases[i].deep ? "r" : "x";
        bool one = strcmp(cases[i].op, "BitCast") == 0;
        bool two = strcmp(cases[i].op, "TensorScatter") == 0 || cases[i].op[0] == 'C';
        pw graph = small_graph();
        pw r = pw_tensor("r", 1, dims, 3, numbers, sizeof(numbers));
        pw_message(&graph, 5, &r);
        pw node = pw_node(cases[i].op,
                          one   ? INPUTS(in)
                          : two ? INPUTS(in, in)
                                : INPUTS(in, in, in),
                          outputs);
        if (cases[i].attr[0] != '\0') {
            pw_attr_text(&node, cases[i].attr, cases[i].value);
        }
        pw_message(&graph, 1, &node);
        expect_error_at(&graph, 28, KILN_STATUS_INVALID_ARGUMENT, cases[i].text);
    }
}

/* A query without heads beside keys that have one, and a decay without factors. */
static void test_decoders_without_heads(void)
{
    const int64_t none[] = {1, 0, 1, 2};
    const int64_t one[] = {1, 1, 1, 2};
    static const float numbers[] = {1, 2};
    const char *const outputs[] = {"z", NULL};
    pw graph = small_graph();
    pw q = pw_tensor("q", 1, none, 4, numbers, 0);
    pw k = pw_tensor("k", 1, one, 4, numbers, sizeof(numbers));
    pw_message(&graph, 5, &q);
    pw_message(&graph, 5, &k);
    add_node(&graph, "Attention", INPUTS("q", "k", "k"), "z");
    expect_error_at(&graph, 24, KILN_STATUS_INVALID_ARGUMENT, "0 heads of the query");
    graph = small_graph();
    pw flat = pw_tensor("k", 1, &one[1], 3, numbers, sizeof(numbers));
    pw decay = pw_tensor("g", 1, (const int64_t[]){1, 1, 0}, 3, numbers, 0);
    pw_message(&graph, 5, &flat);
    pw_message(&graph, 5, &decay);
    pw node = pw_node("LinearAttention", INPUTS("k", "k", "k", "", "g"), outputs);
    pw_attr_text(&node, "update_rule", "gated");
    pw_attr_int(&node, "q_num_heads", 1);
    pw_attr_int(&node, "kv_num_heads", 1);
    pw_message(&graph, 1, &node);
    expect_error_at(&graph, 27, KILN_STATUS_INVALID_ARGUMENT, "0 factors of decay for keys of 2");
}

/* x + w with a constant w of type int4, as raw bytes or as packed numbers. */
static pw add_int4(const void *raw, size_t raw_bytes, int64_t packed)
{
    const int64_t two[] = {2};
    pw graph = small_graph();
    pw w = pw_tensor("w", 22, two, 1, raw, raw_bytes);
    if (raw == NULL) {
        pw_int(&w, 5, packed);
    }
    pw_message(&graph, 5, &w);
    const char *const outputs[] = {"f", NULL};
    pw node = pw_node("Cast", INPUTS("w"), outputs);
    pw_attr_int(&node, "to", 1);
    pw_message(&graph, 1, &node);
    add_node(&graph, "Add", INPUTS("x", "f"), "z");
    return graph;
}

static void test_four_bits(void)
{
    const uint8_t bytes[] = {0x87, 0x00}; /* 7, then -8 */
    pw graph = add_int4(bytes, 1, 0);
    expect_small(&graph, 21, 8, -10);
    graph = add_int4(NULL, 0, 0x87);
    expect_small(&graph, 21, 8, -10);
    graph = add_int4(bytes, 2, 0);
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "2 bytes of data where the shape needs 1");
}

/* Scales that fit neither the tensor, an axis nor blocks. */
static void test_blocks_that_do_not_fit(void)
{
    static const struct {
        int64_t block;
        int64_t axis;
        const char *text;
    } cases[] = {
        {2, 0, "of rank 1 does not fit blocks of 2 along axis 0"},
        {-1, 0, "does not fit blocks of -1 along axis 0"},
        {INT64_MAX, 0, "does not fit blocks of 2 along axis 0"},
        {1, 5, "axis 5 does not fit rank 1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const outputs[] = {"z", NULL};
        pw graph = small_graph();
        pw node = pw_node("QuantizeLinear", INPUTS("x", "y"), outputs);
        pw_attr_int(&node, "block_size", cases[i].block);
        pw_attr_int(&node, "axis", cases[i].axis);
        pw_message(&graph, 1, &node);
        expect_error_at(&graph, 21, KILN_STATUS_INVALID_ARGUMENT, cases[i].text);
    }
}

static const struct {
    const char *op_type;
    int32_t last;
    uint32_t least;
    uint32_t most;
} operators[] = {
#define KILN_ONNX_OP(type, first, last, least, most, handler, op) {#type, last, least, most},
#include "onnx_ops.def"
#undef KILN_ONNX_OP
};

/* Every operator refuses one input more than it has, and one less. */
static void test_wrong_number_of_inputs(void)
{
    enum { MOST = 9 };
    char text[128];
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        const uint32_t most = operators[i].most;
        const uint32_t least = operators[i].least;
        const char *names[MOST + 2] = {NULL};
        for (uint32_t k = 0; k <= most && most <= MOST; k++) {
            names[k] = "x";
        }
        if (KILN_CHECK(most <= MOST || most == UINT32_MAX) && most <= MOST) {
            pw graph = small_graph();
            add_node(&graph, operators[i].op_type, names, "z");
            snprintf(text, sizeof(text),
                     "node 'the_node' (%s): inputs: %u given, the operator takes %s%u",
                     operators[i].op_type, most + 1, most > least ? "at most " : "", most);
            expect_error_at(&graph, operators[i].last, KILN_STATUS_INVALID_ARGUMENT, text);
        }
        for (uint32_t k = 0; k <= MOST; k++) {
            names[k] = k + 1 < least ? "x" : NULL;
        }
        if (least > 0) {
            pw graph = small_graph();
            add_node(&graph, operators[i].op_type, names, "z");
            snprintf(text, sizeof(text), "inputs: %u given, the operator takes %s%u", least - 1,
                     most > least ? "at least " : "", least);
            expect_error_at(&graph, operators[i].last, KILN_STATUS_INVALID_ARGUMENT, text);
        }
    }
    pw graph = small_graph(); /* what is left out at the end is none */
    add_node(&graph, "Relu", INPUTS("x", ""), "z");
    expect_small(&graph, 13, 1, 0);
}

static void test_bad_graphs(void)
{
    pw graph = small_graph();
    add_node(&graph, "Relu", INPUTS("nowhere"), "z");
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "'nowhere' is used before it is defined");
    graph = small_graph(); /* a circle has no order */
    add_node(&graph, "Add", INPUTS("x", "later"), "z");
    add_node(&graph, "Neg", INPUTS("z"), "later");
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "'later' is used before it is defined");
    graph = small_graph();
    add_node(&graph, "Relu", INPUTS("x"), "z");
    add_node(&graph, "Relu", INPUTS("y"), "z");
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "'z' is defined twice");
    graph = small_graph();
    add_node(&graph, "Add", INPUTS("x", ""), "z");
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "input 1 is missing");
    graph = small_graph();
    add_node(&graph, "Conv", INPUTS("x", "y"), "z");
    expect_error(&graph, KILN_STATUS_UNIMPLEMENTED, "node 'the_node' (Conv): windows over -1 axes");
    graph = small_graph();
    pw node = pw_node("Concat", INPUTS("x", "y"), INPUTS("z"));
    pw_attr_text(&node, "axis", "zero");
    pw_message(&graph, 1, &node);
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT,
                 "attribute 'axis' is a string, not an integer");
    graph = small_graph();
    node = pw_node("Concat", INPUTS("x", "y"), INPUTS("z"));
    pw_attr_int(&node, "axis", 7);
    pw_message(&graph, 1, &node);
    expect_error(&graph, KILN_STATUS_INVALID_ARGUMENT, "axis 7");
}

static void check_run_error(const fixture *f, const loaded *l, kiln_onnx_input *inputs,
                            size_t count, const char *text)
{
    kiln_tensor *z = NULL;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_onnx_session_run(l->session, inputs, count, &z, 1, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(err.message, text);
    KILN_CHECK(z == NULL);
    (void)f;
}

static void test_bad_inputs(void)
{
    const int64_t two[] = {2};
    const int64_t three[] = {3};
    const int64_t square[] = {2, 1};
    fixture f;
    loaded l;
    kiln_error err;
    kiln_tensor *good = NULL;
    kiln_tensor *longer = NULL;
    kiln_tensor *ranked = NULL;
    kiln_tensor *typed = NULL;
    pw graph = small_graph();
    add_node(&graph, "Add", INPUTS("x", "y"), "z");
    pw bytes = pw_model(&graph, 13);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes, &l, &err) == KILN_STATUS_OK)) {
        kiln_device *d = f.device;
        KILN_CHECK(kiln_tensor_create(d, KILN_DTYPE_F32, 1, two, NULL, &good, &err) == 0);
        KILN_CHECK(kiln_tensor_create(d, KILN_DTYPE_F32, 1, three, NULL, &longer, &err) == 0);
        KILN_CHECK(kiln_tensor_create(d, KILN_DTYPE_F32, 2, square, NULL, &ranked, &err) == 0);
        KILN_CHECK(kiln_tensor_create(d, KILN_DTYPE_I64, 1, two, NULL, &typed, &err) == 0);
        kiln_onnx_input inputs[] = {{.name = "x", .tensor = good},
                                    {.name = "y", .tensor = longer},
                                    {.name = "w", .tensor = good}};
        check_run_error(&f, &l, inputs, 1, "input 'y' is not given");
        check_run_error(&f, &l, inputs, 3, "has no input 'w'");
        check_run_error(&f, &l, inputs, 2, "input 'y' is float32 [3], the model takes float32 [2]");
        inputs[1].tensor = ranked;
        check_run_error(&f, &l, inputs, 2, "is float32 [2,1], the model takes float32 [2]");
        inputs[1].tensor = typed;
        check_run_error(&f, &l, inputs, 2, "is int64, the model takes float32: convert it");
        kiln_release(good);
        kiln_release(longer);
        kiln_release(ranked);
        kiln_release(typed);
        unload(&l);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

/* Where inputs have a length of one name that is not one length, that is told first. */
static void test_lengths_of_a_name(void)
{
    const int64_t name[] = {-2}, two[] = {2}, three[] = {3};
    pw graph = {0};
    fixture f;
    loaded l;
    kiln_error err = KILN_ERROR_INIT;
    add_node(&graph, "Add", INPUTS("x", "y"), "z");
    pw x = pw_value_info("x", 1, name, 1), y = pw_value_info("y", 1, name, 1);
    pw z = pw_value_info("z", 1, name, 1);
    pw_message(&graph, 11, &x);
    pw_message(&graph, 11, &y);
    pw_message(&graph, 12, &z);
    pw bytes = pw_model(&graph, 13);
    if (open_fixture(&f) && KILN_CHECK(load(&f, &bytes, &l, &err) == KILN_STATUS_OK)) {
        kiln_onnx_input inputs[] = {{.name = "x"}, {.name = "y"}};
        KILN_CHECK(kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, two, NULL, &inputs[0].tensor,
                                      &err) == KILN_STATUS_OK);
        KILN_CHECK(kiln_tensor_create(f.device, KILN_DTYPE_F32, 1, three, NULL, &inputs[1].tensor,
                                      &err) == KILN_STATUS_OK);
        check_run_error(&f, &l, inputs, 2, "length 'n2' is 2 of input 'x', 3 of 'y': node 'the_");
        kiln_release(inputs[0].tensor);
        kiln_release(inputs[1].tensor);
        unload(&l);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

typedef struct heard {
    char reasons[4][sizeof(((kiln_error *)NULL)->message)];
    size_t count;
} heard;

static void hear(size_t node, const kiln_error *why, void *user)
{
    heard *h = user;
    KILN_CHECK_INT((int64_t)node, (int64_t)h->count);
    if (KILN_CHECK(h->count < 4) && why != NULL) {
        memcpy(h->reasons[h->count], why->message, sizeof(why->message));
    }
    h->count++;
}

/* Every node is asked about, also those behind one that is refused. */
static void test_survey(void)
{
    fixture f;
    heard h = {.count = 0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_onnx_model *model = NULL;
    pw graph = small_graph();
    add_node(&graph, "Add", INPUTS("x", "y"), "a");
    add_node(&graph, "ImageDecoder", INPUTS("a"), "b");
    add_node(&graph, "Relu", INPUTS("b"), "c");
    add_node(&graph, "Frobnicate", INPUTS("c"), "z");
    pw bytes = pw_model(&graph, 20);
    if (open_fixture(&f)) {
        const kiln_env *env = kiln_context_env(f.context);
        KILN_CHECK_INT(
            kiln_onnx_model_open_memory(env, bytes.bytes, bytes.length, NULL, &model, &err),
            KILN_STATUS_OK);
        KILN_CHECK_INT(kiln_onnx_model_survey(model, f.device, hear, &h, &err), KILN_STATUS_OK);
        KILN_CHECK_INT((int64_t)h.count, 4);
        KILN_CHECK_STR(h.reasons[0], "");
        KILN_CHECK_CONTAINS(h.reasons[1],
                            "ImageDecoder is not supported: Kiln decodes no pictures");
        KILN_CHECK_STR(h.reasons[2], "");
        KILN_CHECK_CONTAINS(h.reasons[3], "operator Frobnicate of domain ai.onnx");
        kiln_onnx_model_close(model);
    }
    close_fixture(&f);
    pw_free(&bytes);
}

KILN_TEST_MAIN("unit/onnx/test_onnx_errors", KILN_TEST(test_unknown_operator_is_named),
               KILN_TEST(test_refusals_say_why), KILN_TEST(test_newer_sets),
               KILN_TEST(test_newer_ir), KILN_TEST(test_decoders_refuse),
               KILN_TEST(test_decoders_without_heads), KILN_TEST(test_four_bits),
               KILN_TEST(test_blocks_that_do_not_fit), KILN_TEST(test_bad_graphs),
               KILN_TEST(test_wrong_number_of_inputs), KILN_TEST(test_bad_inputs),
               KILN_TEST(test_lengths_of_a_name), KILN_TEST(test_survey))
