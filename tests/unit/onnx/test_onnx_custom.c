// SPDX-License-Identifier: MIT OR Apache-2.0
// Nodes of foreign domains: served by a plugin's operator with its attributes, two results and a
// version; refused by name without the plugin, and where node and operator do not fit.
#include "harness.h"
#include "onnx.h"
#include "proto_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct model { ///< a graph of one node: x f32[2,3] in, y and perhaps z out
    const char *domain;
    const char *op_type;
    int64_t version; ///< 0: the domain is not imported
    uint32_t n_outputs;
    void (*add)(pw *node); ///< attributes
} model;

static pw write_model(const model *m)
{
    static const char *const inputs[] = {"x", NULL};
    static const char *const outputs[] = {"y", "z", "more", NULL};
    const char *names[4] = {NULL};
    const int64_t dims[] = {2, 3};
    pw graph = {0};
    pw x = pw_value_info("x", 1, dims, 2);
    memcpy((void *)names, outputs, m->n_outputs * sizeof(names[0]));
    pw node = pw_node(m->op_type, inputs, names);
    pw_text(&node, 7, m->domain);
    if (m->add != NULL) {
        m->add(&node);
    }
    pw_message(&graph, 1, &node);
    pw_message(&graph, 11, &x);
    for (uint32_t i = 0; i < m->n_outputs; i++) {
        pw value = {0};
        pw_text(&value, 1, names[i]);
        pw_message(&graph, 12, &value);
    }
    pw bytes = pw_model(&graph, 21);
    if (m->version > 0) {
        pw opset = {0};
        pw_text(&opset, 1, m->domain);
        pw_int(&opset, 2, m->version);
        pw_message(&bytes, 8, &opset);
    }
    return bytes;
}

typedef struct run {
    kiln_context *context;
    kiln_device *device;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    kiln_tensor *out[3];
    pw bytes;
    kiln_error err;
} run;

static kiln_status start(run *r, const model *m, const char *plugin)
{
    char path[512];
    *r = (run){0};
    r->bytes = write_model(m);
    kiln_status status = kiln_context_create(NULL, &r->context, &r->err);
    snprintf(path, sizeof(path), "%s/lib/kiln/test_plugins/%s.so", KILN_TEST_BUILD_DIR,
             plugin != NULL ? plugin : "");
    if (status == KILN_STATUS_OK && plugin != NULL) {
        status = kiln_plugin_load(r->context, path, &r->err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_device_open(r->context, "reference:0", &r->device, &r->err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_model_open_memory(kiln_context_env(r->context), r->bytes.bytes,
                                             r->bytes.length, NULL, &r->model, &r->err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_create(r->model, r->device, &r->session, &r->err);
    }
    return status;
}

static const float contents[] = {-2, 0, 3, 7, -0.5f, 7};

static kiln_status go(run *r, uint32_t n_outputs)
{
    const int64_t dims[] = {2, 3};
    kiln_onnx_input input = {.name = "x"};
    kiln_status status =
        kiln_tensor_create(r->device, KILN_DTYPE_F32, 2, dims, contents, &input.tensor, &r->err);
    if (status == KILN_STATUS_OK) {
        status = kiln_onnx_session_run(r->session, &input, 1, r->out, n_outputs, &r->err);
    }
    kiln_release(input.tensor);
    return status;
}

static void stop(run *r)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    for (size_t i = 0; i < 3; i++) {
        kiln_release(r->out[i]);
    }
    kiln_onnx_session_destroy(r->session);
    kiln_onnx_model_close(r->model);
    if (r->device != NULL) {
        kiln_device_stats_get(r->device, &stats);
        KILN_CHECK_INT(stats.tensors_live, 0);
    }
    kiln_device_release(r->device);
    kiln_context_destroy(r->context);
    pw_free(&r->bytes);
}

static void add_clip(pw *node)
{
    pw_attr_float(node, "clip", 2.5f);
}

static void test_attributes(void)
{
    const model m = {"acme", "mish_clip", 1, 1, add_clip};
    run r;
    float y[6] = {0};
    KILN_CHECK_INT(start(&r, &m, "acme_operators"), KILN_STATUS_OK);
    KILN_CHECK_INT(go(&r, 1), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(r.out[0], y, sizeof(y), &r.err), KILN_STATUS_OK);
    KILN_CHECK_STR(r.err.message, "");
    for (int i = 0; i < 6; i++) {
        double x = (double)contents[i];
        KILN_CHECK_NEAR((double)y[i], fmin(x * tanh(log1p(exp(x))), 2.5), 1e-6);
    }
    stop(&r);
}

static void add_axis(pw *node)
{
    pw_attr_int(node, "axis", 0);
}

static void test_two_results(void)
{
    const model both = {"acme", "row_top", 1, 2, add_axis}, first = {"acme", "row_top", 3, 1, NULL};
    run r;
    float y[3] = {0};
    int64_t z[3] = {0};
    KILN_CHECK_INT(start(&r, &both, "acme_operators"), KILN_STATUS_OK);
    KILN_CHECK_INT(go(&r, 2), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(r.out[0], y, sizeof(y), &r.err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(r.out[1], z, sizeof(z), &r.err), KILN_STATUS_OK);
    KILN_CHECK(y[0] == 7 && y[1] == 0 && y[2] == 7);
    KILN_CHECK(z[0] == 1 && z[1] == 0 && z[2] == 1);
    stop(&r);
    KILN_CHECK_INT(start(&r, &first, "acme_operators"),
                   KILN_STATUS_OK); // the second is not asked for
    KILN_CHECK_INT(go(&r, 1), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(r.out[0], y, 2 * sizeof(float), &r.err), KILN_STATUS_OK);
    KILN_CHECK(y[0] == 3 && y[1] == 7);
    stop(&r);
}

/* Integers stand for truths and dtypes, floats and lists go over. */
static void add_all(pw *node)
{
    const int64_t axes[] = {5, 6};
    pw_attr_int(node, "amount", 2);
    pw_attr_int(node, "twice", 1);
    pw_attr_int(node, "dtype", 10); // FLOAT16
    pw_attr_ints(node, "axes", axes, 2);
    pw_attr_text(node, "mode", "cubic");
}

static void test_kinds_of_attributes(void)
{
    const model m = {"good", "params", 3, 1, add_all};
    run r;
    float y[6] = {0};
    KILN_CHECK_INT(start(&r, &m, "operators"), KILN_STATUS_OK);
    KILN_CHECK_INT(go(&r, 1), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(r.out[0], y, sizeof(y), &r.err), KILN_STATUS_OK);
    KILN_CHECK_NEAR((double)y[1], 2 + 100 + 1000 + 10000 + 11 + 0.75 + 5, 1e-6);
    stop(&r);
}

static void add_unknown(pw *node)
{
    pw_attr_float(node, "clap", 1);
}

static void add_text(pw *node)
{
    pw_attr_text(node, "clip", "wide");
}

static void add_negative(pw *node)
{
    pw_attr_float(node, "clip", -1);
}

static void test_refused(void)
{
    static const struct {
        model m;
        const char *plugin;
        bool starts;
        kiln_status status;
        const char *text;
    } cases[] = {
        {{"acme", "mish_clip", 1, 1, NULL},
         NULL,
         false,
         KILN_STATUS_UNIMPLEMENTED,
         "operator mish_clip of domain acme, version 1, is not supported, and no plugin brings it"},
        {{"acme", "mish", 1, 1, NULL},
         "acme_operators",
         false,
         KILN_STATUS_UNIMPLEMENTED,
         "operator mish of domain acme, version 1"},
        {{"other", "mish_clip", 1, 1, NULL},
         "acme_operators",
         false,
         KILN_STATUS_UNIMPLEMENTED,
         "operator mish_clip of domain other"},
        {{"acme", "mish_clip", 1, 1, add_unknown},
         "acme_operators",
         true,
         KILN_STATUS_INVALID_ARGUMENT,
         "acme::mish_clip has no attribute \"clap\""},
        {{"acme", "mish_clip", 1, 1, add_text},
         "acme_operators",
         true,
         KILN_STATUS_INVALID_ARGUMENT,
         "attribute clip is a text, not a number"},
        {{"acme", "mish_clip", 1, 1, add_negative},
         "acme_operators",
         true,
         KILN_STATUS_INVALID_ARGUMENT,
         "clip must be above 0"},
        {{"acme", "mish_clip", 1, 2, NULL},
         "acme_operators",
         true,
         KILN_STATUS_INVALID_ARGUMENT,
         "acme::mish_clip gives 1 outputs, not 2"},
        {{"good", "params", 2, 1, add_all},
         "operators",
         true,
         KILN_STATUS_INVALID_ARGUMENT,
         "good::params has no attribute \"amount\""}, // version 1 is what there is then
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        run r;
        kiln_status status = start(&r, &cases[i].m, cases[i].plugin);
        KILN_CHECK_INT(status == KILN_STATUS_OK, cases[i].starts);
        if (status == KILN_STATUS_OK) {
            status = go(&r, cases[i].m.n_outputs);
        }
        KILN_CHECK_INT(status, cases[i].status);
        KILN_CHECK_CONTAINS(r.err.message, cases[i].text);
        stop(&r);
    }
}

KILN_TEST_MAIN("unit/onnx/custom", KILN_TEST(test_attributes), KILN_TEST(test_two_results),
               KILN_TEST(test_kinds_of_attributes), KILN_TEST(test_refused))
