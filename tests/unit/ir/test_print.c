// SPDX-License-Identifier: MIT OR Apache-2.0
// The printed form: word for word for one graph, against the golden file for a sample of every
// operator.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"
#include "samples.h"

static void test_word_for_word(void)
{
    test_env env;
    test_env_init(&env);
    kiln_ir_graph *graph = parse_graph(&env.env, small_graph);
    kiln_string text = text_of(&env.env, graph);
    KILN_CHECK_STR(text.text, small_graph);
    kiln_string_fini(&text);
    kiln_ir_graph_destroy(graph);
    KILN_CHECK_INT(env.live, 0);
}

static void expect_value(kiln_attr value, const char *expected, int line)
{
    test_env env;
    kiln_string text;
    char whole[128];
    test_env_init(&env);
    kiln_string_init(&text, &env.env);
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F64, 0);
    kiln_op_record record = {.op = KILN_OP_ADD_SCALAR,
                             .n_inputs = 1,
                             .n_outputs = 1,
                             .n_attrs = 1,
                             .inputs = &x,
                             .outputs = &x,
                             .attrs = &value};
    kiln_ir_print_op(&record, &text);
    snprintf(whole, sizeof(whole), "%%1: f64[] = add_scalar(%%1: f64[], value=%s)", expected);
    kiln_test_check_str(text.text, whole, __FILE__, line, "text");
    kiln_string_fini(&text);
}

static void test_numbers(void)
{
    expect_value(test_f64(2), "2.0", __LINE__);
    expect_value(test_f64(0.1), "0.10000000000000001", __LINE__);
    expect_value(test_f64(-0.0), "-0.0", __LINE__);
    expect_value(test_f64(1e300), "1.0000000000000001e+300", __LINE__);
    expect_value(test_f64((double)INFINITY), "inf", __LINE__);
    expect_value(test_f64(-(double)INFINITY), "-inf", __LINE__);
    expect_value(test_f64((double)NAN), "nan", __LINE__);
    expect_value(test_i64(INT64_MIN), "-9223372036854775808", __LINE__);
}

static void test_texts(void)
{
    test_env env;
    kiln_string text;
    test_env_init(&env);
    kiln_string_init(&text, &env.env);
    kiln_tensor_desc x = test_desc(KILN_DTYPE_F32, 0);
    kiln_attr attrs[3] = {test_ints(0, NULL),
                          {KILN_ATTR_STRING,
                           6,
                           {.text = "a\"\\\n\xff"
                                    "b"}},
                          test_none()};
    kiln_op_record record = {.op = KILN_OP_PAD,
                             .n_inputs = 1,
                             .n_outputs = 1,
                             .n_attrs = 3,
                             .inputs = &x,
                             .outputs = &x,
                             .attrs = attrs};
    kiln_ir_print_op(&record, &text);
    KILN_CHECK_STR(text.text,
                   "%1: f32[] = pad(%1: f32[], padding=[], mode=\"a\\\"\\\\\\x0a\\xffb\")");
    kiln_string_fini(&text);
}

enum { SAMPLES_EACH = 2 };

typedef struct printed {
    kiln_string text;
    unsigned left; ///< samples of this operator still to print
} printed;

static void print_sample(const kiln_op_record *record, const void *const *data, void *user)
{
    printed *p = user;
    (void)data;
    if (p->left > 0) {
        p->left--;
        kiln_ir_print_op(record, &p->text);
        kiln_string_append(&p->text, "\n", 1);
    }
}

/* The first f32 samples (of the first type that is taken). KILN_UPDATE_GOLDEN=1 writes the file
 * anew. */
static void test_golden(void)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_I32, KILN_DTYPE_BOOL,
                                        KILN_DTYPE_Q8F};
    test_env env;
    printed p;
    test_env_init(&env);
    kiln_string_init(&p.text, &env.env);
    kiln_sample_sink sink = {&env.env, print_sample, &p};
    for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        unsigned i = 0;
        while ((kiln_dtype_kind_of(dtypes[i]) & info->accept) == 0) {
            i++;
        }
        p.left = SAMPLES_EACH;
        kiln_samples_make((kiln_op)op, dtypes[i], &sink);
    }
    const char *path = kiln_test_path(KILN_TEST_SOURCE_DIR "/tests/golden", "printed.txt");
    if (getenv("KILN_UPDATE_GOLDEN") != NULL) {
        kiln_test_write_file(path, p.text.text, p.text.length);
    }
    char *golden = kiln_test_read_file(path, NULL);
    if (KILN_CHECK(golden != NULL)) {
        size_t same = 0;
        while (golden[same] != '\0' && golden[same] == p.text.text[same]) {
            same++;
        }
        if (golden[same] != p.text.text[same]) {
            KILN_FAIL("printed.txt differs at byte %zu: \"%.60s\" is now \"%.60s\"", same,
                      golden + same, p.text.text + same);
        }
    }
    free(golden);
    kiln_string_fini(&p.text);
    KILN_CHECK_INT(env.live, 0);
}

KILN_TEST_MAIN("unit/ir/print", KILN_TEST(test_word_for_word), KILN_TEST(test_numbers),
               KILN_TEST(test_texts), KILN_TEST(test_golden))
