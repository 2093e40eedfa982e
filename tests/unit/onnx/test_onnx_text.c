// SPDX-License-Identifier: MIT OR Apache-2.0
// Strings and maps of a session: what goes in, what comes out, what is refused and with which
// words, and that numbers of strings stay theirs from run to run. What the operators compute is the
// cases' (tests/onnx_cases/ml_cases.py).
#include "session_fixture.h"

#include <string.h>

typedef struct text_model {
    fixture f;
    loaded l;
    kiln_error err;
    bool open;
} text_model;

/* One node from x to y, of a domain and with the attributes that are in it already. */
static void open_model(text_model *m, pw *node, const char *domain, pw *x_info)
{
    pw graph = {0};
    pw bare = {0};
    pw_text(&bare, 1, "y"); // without a type: of what form it is, the run says
    if (domain[0] != '\0') {
        pw_text(node, 7, domain);
    }
    pw_message(&graph, 1, node);
    pw_message(&graph, 11, x_info);
    pw_message(&graph, 12, &bare);
    pw bytes = pw_model(&graph, 21);
    if (domain[0] != '\0') {
        pw opset = {0};
        pw_text(&opset, 1, domain);
        pw_int(&opset, 2, 3);
        pw_message(&bytes, 8, &opset);
    }
    (void)open_fixture(&m->f);
    kiln_status status = load(&m->f, &bytes, &m->l, &m->err);
    KILN_CHECK_STR(status == KILN_STATUS_OK ? "" : m->err.message, "");
    m->open = status == KILN_STATUS_OK;
    pw_free(&bytes);
}

static void close_model(text_model *m)
{
    unload(&m->l);
    KILN_CHECK_INT(live_tensors(&m->f), 0);
    close_fixture(&m->f);
}

static kiln_status run_with(text_model *m, const kiln_onnx_value *x, kiln_onnx_value *y)
{
    const kiln_onnx_input input = {.name = "x", .value = x};
    m->err = (kiln_error)KILN_ERROR_INIT;
    return kiln_onnx_session_run_values(m->l.session, &input, 1, y, 1, &m->err);
}

static void free_value(text_model *m, kiln_onnx_value *y)
{
    kiln_onnx_values_free(kiln_context_env(m->f.context), y, 1);
}

static pw info_of_texts(const int64_t *dims, size_t rank)
{
    return pw_value_info("x", 8, dims, rank);
}

static pw plain_node(const char *op)
{
    static const char *const inputs[] = {"x", NULL}, *const outputs[] = {"y", NULL};
    return pw_node(op, inputs, outputs);
}

static void add_texts(pw *node, const char *name, const char *const *texts, size_t count)
{
    pw attr = {0};
    pw_text(&attr, 1, name);
    for (size_t i = 0; i < count; i++) {
        pw_text(&attr, 9, texts[i]);
    }
    pw_int(&attr, 20, 8);
    pw_message(node, 5, &attr);
}

static kiln_onnx_texts texts_of(const char *const *texts, int64_t rows, int64_t columns)
{
    return (kiln_onnx_texts){.struct_size = (uint32_t)sizeof(kiln_onnx_texts),
                             .rank = 2,
                             .dims = {rows, columns},
                             .texts = texts};
}

static void test_strings_go_through_the_device(void)
{
    static const char *const words[] = {"red", "", "Grün", "red", "x", "red"};
    const int64_t dims[] = {2, 3};
    text_model m;
    pw node = plain_node("Transpose"), info = info_of_texts(dims, 2);
    open_model(&m, &node, "", &info);
    const kiln_onnx_texts given = texts_of(words, 2, 3);
    const kiln_onnx_value x = {.kind = KILN_ONNX_KIND_TEXTS, .host = &given};
    for (int run = 0; m.open && run < 5; run++) {
        kiln_onnx_value y;
        KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_OK);
        KILN_CHECK_INT(y.kind, KILN_ONNX_KIND_TEXTS);
        const kiln_onnx_texts *got = y.host;
        KILN_CHECK_INT(got->dims[0], 3);
        KILN_CHECK_STR(got->texts[0], "red");
        KILN_CHECK_STR(got->texts[2], "");
        KILN_CHECK_STR(got->texts[3], "x");
        KILN_CHECK_STR(got->texts[4], "Grün");
        free_value(&m, &y);
    }
    close_model(&m);
}

/* The same places of other strings: nothing of an earlier run is taken for this one's. */
static void test_other_strings_in_a_later_run(void)
{
    static const char *const words[][2] = {{"a b", "c"}, {"d", "e f"}, {"a b", "c"}, {"g h", "i"}};
    const int64_t dims[] = {1, 2};
    text_model m;
    pw node = plain_node("StringNormalizer"), info = info_of_texts(dims, 2);
    pw_attr_text(&node, "case_change_action", "UPPER");
    open_model(&m, &node, "", &info);
    for (size_t run = 0; m.open && run < 4; run++) {
        const kiln_onnx_texts given = texts_of(words[run], 1, 2);
        const kiln_onnx_value x = {.kind = KILN_ONNX_KIND_TEXTS, .host = &given};
        kiln_onnx_value y;
        KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_OK);
        const kiln_onnx_texts *got = y.host;
        KILN_CHECK_INT(got->texts[0][0], words[run][0][0] - 32);
        KILN_CHECK_INT(got->texts[1][0], words[run][1][0] - 32);
        free_value(&m, &y);
    }
    close_model(&m);
}

static void test_what_is_no_string_is_refused(void)
{
    static const char *const words[] = {"a", "b"};
    const int64_t dims[] = {1, 2};
    text_model m;
    pw node = plain_node("Neg"), info = info_of_texts(dims, 2);
    open_model(&m, &node, "", &info);
    const kiln_onnx_texts given = texts_of(words, 1, 2), long_one = texts_of(words, 2, 1);
    kiln_onnx_value x = {.kind = KILN_ONNX_KIND_TEXTS, .host = &given}, y;
    KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_UNIMPLEMENTED);
    KILN_CHECK_CONTAINS(m.err.message, "neg of string, which is only stored");
    x.host = &long_one;
    KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(m.err.message, "input 'x' is string [2,1], the model takes string [1,2]");
    x = (kiln_onnx_value){.kind = KILN_ONNX_KIND_TENSOR};
    KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(m.err.message, "strings are given as KILN_ONNX_KIND_TEXTS");
    close_model(&m);
}

static void test_bad_numbers_and_patterns_are_told(void)
{
    static const char *const words[] = {"7", "seven"};
    const int64_t dims[] = {1, 2};
    const kiln_onnx_texts given = texts_of(words, 1, 2);
    const kiln_onnx_value x = {.kind = KILN_ONNX_KIND_TEXTS, .host = &given};
    kiln_onnx_value y;
    text_model m;
    pw node = plain_node("Cast"), info = info_of_texts(dims, 2);
    pw_attr_int(&node, "to", 7);
    open_model(&m, &node, "", &info);
    KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(m.err.message, "string 'seven' is no i64");
    close_model(&m);
    static const struct {
        const char *pattern, *text;
    } bad[] = {{"(a", ") is missing"},
               {"a)", "( is missing"},
               {"[a", "] is missing"},
               {"*a", "nothing before"},
               {"(?i)a", "(?i is not"},
               {"\\pL", "\\p is not"},
               {"a{9,2}", "repeated"},
               {"[b-a]", "end is before"},
               {"(((a{1000}){1000}){9})", "too large"},
               {"a\\", "is not supported"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pw match = plain_node("RegexFullMatch"), own = info_of_texts(dims, 2);
        pw_attr_text(&match, "pattern", bad[i].pattern);
        open_model(&m, &match, "", &own);
        KILN_CHECK(run_with(&m, &x, &y) != KILN_STATUS_OK);
        KILN_CHECK_CONTAINS(m.err.message, bad[i].text);
        close_model(&m);
    }
}

static void test_zip_map_gives_maps_with_the_same_keys(void)
{
    static const char *const labels[] = {"no", "yes"};
    static const float scores[] = {0.25F, 0.75F, 1, 0, 0.5F, 0.5F};
    const int64_t dims[] = {3, 2};
    text_model m;
    pw node = plain_node("ZipMap"), info = pw_value_info("x", 1, dims, 2);
    add_texts(&node, "classlabels_strings", labels, 2);
    open_model(&m, &node, "ai.onnx.ml", &info);
    kiln_onnx_value x = {.kind = KILN_ONNX_KIND_TENSOR}, y;
    KILN_CHECK_INT(kiln_tensor_create(m.f.device, KILN_DTYPE_F32, 2, dims, scores, &x.tensor, NULL),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_OK);
    KILN_CHECK_INT(y.kind, KILN_ONNX_KIND_MAP);
    const kiln_onnx_maps *maps = y.host;
    KILN_CHECK_INT(maps->rows, 3);
    KILN_CHECK_INT(maps->count, 2);
    KILN_CHECK_INT(maps->dtype, KILN_DTYPE_F32);
    KILN_CHECK_STR(maps->texts[1], "yes");
    KILN_CHECK_INT(memcmp(maps->values, scores, sizeof(scores)), 0);
    free_value(&m, &y);
    kiln_release(x.tensor);
    close_model(&m);
}

/* map(string or int64, float), as a model says it. */
static pw info_of_map(int32_t key_type)
{
    pw dense = {0}, value = {0}, map = {0}, type = {0}, info = {0};
    pw_int(&dense, 1, 1);
    pw_message(&value, 1, &dense);
    pw_int(&map, 1, key_type);
    pw_message(&map, 2, &value);
    pw_message(&type, 5, &map);
    pw_text(&info, 1, "x");
    pw_message(&info, 2, &type);
    return info;
}

static void test_maps_become_rows(void)
{
    static const char *const names[] = {"a", "b", "c"}, *const keys[] = {"c", "a", "z"};
    static const float values[] = {3, 1, 9};
    kiln_onnx_maps given = {.struct_size = (uint32_t)sizeof(given),
                            .dtype = KILN_DTYPE_F32,
                            .rows = 1,
                            .count = 3,
                            .texts = keys,
                            .values = values};
    const kiln_onnx_value x = {.kind = KILN_ONNX_KIND_MAP, .host = &given};
    kiln_onnx_value y;
    float row[3] = {0};
    text_model m;
    pw node = plain_node("DictVectorizer"), info = info_of_map(8);
    add_texts(&node, "string_vocabulary", names, 3);
    open_model(&m, &node, "ai.onnx.ml", &info);
    KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(y.tensor, row, sizeof(row), NULL), KILN_STATUS_OK);
    KILN_CHECK(row[0] == 1 && row[1] == 0 && row[2] == 3);
    free_value(&m, &y);
    given.rows = 2;
    KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(m.err.message, "is not one map with keys and values of float32");
    close_model(&m);
}

static void test_maps_of_integers_are_cast(void)
{
    static const int64_t keys[] = {2, 0, 7};
    static const float values[] = {3, 1, 9};
    const kiln_onnx_maps given = {.struct_size = (uint32_t)sizeof(given),
                                  .dtype = KILN_DTYPE_F32,
                                  .rows = 1,
                                  .count = 3,
                                  .ints = keys,
                                  .values = values};
    const kiln_onnx_value x = {.kind = KILN_ONNX_KIND_MAP, .host = &given};
    kiln_onnx_value y;
    int64_t row[4] = {0};
    text_model m;
    pw node = plain_node("CastMap"), info = info_of_map(7);
    pw_attr_text(&node, "cast_to", "TO_INT64");
    pw_attr_text(&node, "map_form", "SPARSE");
    pw_attr_int(&node, "max_map", 4);
    open_model(&m, &node, "ai.onnx.ml", &info);
    KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(y.tensor, row, sizeof(row), NULL), KILN_STATUS_OK);
    KILN_CHECK(row[0] == 1 && row[1] == 0 && row[2] == 3 && row[3] == 0);
    free_value(&m, &y);
    close_model(&m);
}

static void test_hostile_trees_are_refused(void)
{
    static const int64_t trees[] = {0, 0}, nodes[] = {0, 1}, features[] = {0, 0}, ways[] = {1, 0};
    static const char *const modes[] = {"BRANCH_LEQ", "BRANCH_LEQ"};
    static const float x_data[] = {1, 2};
    const int64_t dims[] = {1, 2};
    text_model m;
    pw node = plain_node("TreeEnsembleRegressor"), info = pw_value_info("x", 1, dims, 2);
    pw values = {0};
    pw_text(&values, 1, "nodes_values");
    pw_float(&values, 7, 0);
    pw_float(&values, 7, 0);
    pw_int(&values, 20, 6);
    pw_message(&node, 5, &values);
    pw_attr_ints(&node, "nodes_treeids", trees, 2);
    pw_attr_ints(&node, "nodes_nodeids", nodes, 2);
    pw_attr_ints(&node, "nodes_featureids", features, 2);
    pw_attr_ints(&node, "nodes_truenodeids", ways, 2);
    pw_attr_ints(&node, "nodes_falsenodeids", ways, 2);
    add_texts(&node, "nodes_modes", modes, 2);
    open_model(&m, &node, "ai.onnx.ml", &info);
    kiln_onnx_value x = {.kind = KILN_ONNX_KIND_TENSOR}, y;
    KILN_CHECK_INT(kiln_tensor_create(m.f.device, KILN_DTYPE_F32, 2, dims, x_data, &x.tensor, NULL),
                   KILN_STATUS_OK);
    /* Each leads to the other: there is no root, so no tree either. */
    float row = 1;
    KILN_CHECK_INT(run_with(&m, &x, &y), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(y.tensor, &row, sizeof(row), NULL), KILN_STATUS_OK);
    KILN_CHECK(row == 0);
    free_value(&m, &y);
    kiln_release(x.tensor);
    close_model(&m);
}

KILN_TEST_MAIN("unit/onnx/text", KILN_TEST(test_strings_go_through_the_device),
               KILN_TEST(test_other_strings_in_a_later_run),
               KILN_TEST(test_what_is_no_string_is_refused),
               KILN_TEST(test_bad_numbers_and_patterns_are_told),
               KILN_TEST(test_zip_map_gives_maps_with_the_same_keys),
               KILN_TEST(test_maps_become_rows), KILN_TEST(test_maps_of_integers_are_cast),
               KILN_TEST(test_hostile_trees_are_refused))
