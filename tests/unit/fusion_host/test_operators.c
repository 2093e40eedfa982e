// SPDX-License-Identifier: MIT OR Apache-2.0
// Plugins that bring operators: each malformed table is refused with its reason, versions are
// looked up, one operator has one owner, and a plan's key tells calls apart.
#include <stdio.h>
#include <string.h>

#include "fuse_fixture.h"

typedef struct wrong {
    const char *name;
    kiln_status status;
    const char *reason;
} wrong;

static const wrong table[] = {
    {"no_version", KILN_STATUS_INVALID_ARGUMENT, "operator good::params has no version"},
    {"bad_name", KILN_STATUS_INVALID_ARGUMENT, "\"good:params!\" is no name, as domain::name is"},
    {"no_reference", KILN_STATUS_INVALID_ARGUMENT, "good::params lacks infer or reference"},
    {"many_params", KILN_STATUS_INVALID_ARGUMENT, "good::params has too many parameters"},
    {"param_type", KILN_STATUS_INVALID_ARGUMENT, "parameter b has the type 8"},
    {"param_twice", KILN_STATUS_INVALID_ARGUMENT, "good::params has parameter a twice"},
    {"param_name", KILN_STATUS_INVALID_ARGUMENT, "good::params: a parameter has no name"},
    {"param_flag", KILN_STATUS_INVALID_ARGUMENT, "flags of parameter b are malformed"},
    {"param_default", KILN_STATUS_INVALID_ARGUMENT, "flags of parameter b are malformed"},
    {"half_kernel", KILN_STATUS_INVALID_ARGUMENT, "has a part of the kernel's functions"},
    {"op_twice", KILN_STATUS_ALREADY_EXISTS, "good::params, version 1, is brought by"},
    {"op_size", KILN_STATUS_INVALID_ARGUMENT, "operator 0 has a struct size of 40"},
    {"no_operator", KILN_STATUS_INVALID_ARGUMENT, "its list of operators is malformed"},
    {"nothing", KILN_STATUS_INVALID_ARGUMENT, "names 0 fusers, and brings no operator"},
    {"inputs", KILN_STATUS_INVALID_ARGUMENT, "takes a number of inputs that there is not"},
    {"outputs", KILN_STATUS_INVALID_ARGUMENT, "gives a number of outputs that there is not"},
    {"flag", KILN_STATUS_INVALID_ARGUMENT, "good::params has an unknown flag"},
    {"null_op", KILN_STATUS_INVALID_ARGUMENT, "operator 0 has a struct size of 0"},
};

static void test_wrong(void)
{
    const wrong *w = kiln_test_param();
    fuse_fixture f;
    char name[64];
    kiln_error err = KILN_ERROR_INIT;
    const kiln_custom_op *op = NULL;
    snprintf(name, sizeof(name), "operators_%s", w->name);
    if (fixture_open(&f, NULL)) {
        KILN_CHECK_INT(kiln_fuse_registry_add(f.registry, fixture_plugin_path(name), &err),
                       w->status);
        KILN_CHECK_CONTAINS(err.message, w->reason);
        KILN_CHECK_INT(kiln_fuse_registry_operator(f.registry, "good::plus", 0, false, &op, &err),
                       KILN_STATUS_NOT_FOUND); // nothing of a refused one stays
        KILN_CHECK(op == NULL);
    }
    fixture_close(&f);
}

static uint32_t found(fuse_fixture *f, const char *name, uint32_t version, bool exact,
                      kiln_error *err)
{
    const kiln_custom_op *op = NULL;
    kiln_status status = kiln_fuse_registry_operator(f->registry, name, version, exact, &op, err);
    return status == KILN_STATUS_OK ? op->version : 0;
}

static void test_versions(void)
{
    fuse_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (fixture_open(&f, (const char *const[]){"operators", NULL})) {
        KILN_CHECK_INT(found(&f, "good::params", 0, false, &err), 3);
        KILN_CHECK_INT(found(&f, "good::params", 1, false, &err), 1);
        KILN_CHECK_INT(found(&f, "good::params", 2, false, &err), 1);
        KILN_CHECK_INT(found(&f, "good::params", 99, false, &err), 3);
        KILN_CHECK_INT(found(&f, "good::params", 3, true, &err), 3);
        KILN_CHECK_INT(found(&f, "good::params", 2, true, &err), 0);
        KILN_CHECK_CONTAINS(err.message, "version 2 is not there, test.operators brings version 3");
        KILN_CHECK_INT(found(&f, "good::param", 0, false, &err), 0);
        KILN_CHECK_CONTAINS(err.message, "KILN_PLUGIN_PATH");
        const kiln_fuse_plugin_info *info = kiln_fuse_registry_plugin(f.registry, 0);
        KILN_CHECK_STR(info->reason, "taken: 0 fusers, 20 operators, fuser ABI 1.1");
        KILN_CHECK_INT(info->n_operators, 20);
    }
    fixture_close(&f);
}

/* Another plugin with another id may not bring an operator that is there. */
static void test_one_owner(void)
{
    fuse_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (fixture_open(&f, (const char *const[]){"operators", NULL})) {
        const char *path = fixture_plugin_path("operators_again");
        KILN_CHECK_INT(kiln_fuse_registry_add(f.registry, path, &err), KILN_STATUS_ALREADY_EXISTS);
        KILN_CHECK_CONTAINS(err.message, "operator good::params, version 1, is brought by");
    }
    fixture_close(&f);
}

static kiln_tensor_desc record(fuse_fixture *f, const kiln_tensor_desc *x, const char *name,
                               const char *attributes)
{
    const kiln_custom_op *op = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_tensor_desc out = {.id = f->next_id++};
    KILN_CHECK_INT(kiln_fuse_registry_operator(f->registry, name, 0, false, &op, &err),
                   KILN_STATUS_OK);
    const kiln_attr attrs[] = {
        {KILN_ATTR_STRING, (uint32_t)strlen(name), {.text = name}},
        {KILN_ATTR_I64, 1, {.i = op != NULL ? op->version : 0}},
        {KILN_ATTR_STRING, (uint32_t)strlen(attributes), {.text = attributes}}};
    const kiln_op_record call = {.op = KILN_OP_CUSTOM,
                                 .n_inputs = 1,
                                 .n_outputs = 1,
                                 .n_attrs = 3,
                                 .inputs = x,
                                 .outputs = &out,
                                 .attrs = attrs,
                                 .custom = op};
    void *tokens[2] = {(void *)(uintptr_t)x->id, (void *)(uintptr_t)out.id};
    KILN_CHECK_INT(kiln_ir_infer(&call, &out, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_fuse_stream_push(f->stream, &call, tokens, &err), KILN_STATUS_OK);
    return out;
}

/* One call, one plan for all sizes of a class; other attributes are another plan. */
static void test_plans(void)
{
    fuse_fixture f;
    if (fixture_open(&f, (const char *const[]){"acme_operators", NULL})) {
        static const char *const attributes[] = {"clip=6.0", "clip=6.0", "clip=7.0"};
        for (int i = 0; i < 3; i++) {
            kiln_tensor_desc x = fixture_vector(&f, 64 + 16 * i);
            (void)record(&f, &x, "acme::mish_clip", attributes[i]);
            KILN_CHECK_STR(fixture_run(&f, true), "com.acme.operators/operators[0+1];");
            KILN_CHECK_INT(fixture_stats(&f).plans_searched, i < 2 ? 1 : 2);
        }
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
    }
    fixture_close(&f);
}

/* A program that breaks the rules is a strike for the fuser of the operators' kernels, and the
 * operation runs unfused. */
static void test_wrong_program(void)
{
    fuse_fixture f;
    if (fixture_open(&f, (const char *const[]){"operators", NULL})) {
        kiln_tensor_desc x = fixture_vector(&f, 64);
        (void)record(&f, &x, "bad::program", "");
        KILN_CHECK_STR(fixture_run(&f, true), "custom;");
        KILN_CHECK_INT(fixture_stats(&f).strikes, 1);
    }
    fixture_close(&f);
}

enum { N_WRONG = sizeof(table) / sizeof(table[0]) };

int main(int argc, char **argv)
{
    kiln_test_case cases[N_WRONG + 4];
    size_t count = 0;
    for (size_t i = 0; i < N_WRONG; i++) {
        cases[count++] = (kiln_test_case)KILN_TEST_PARAM(test_wrong, table[i].name,
                                                         (void *)(uintptr_t)&table[i]);
    }
    cases[count++] = (kiln_test_case)KILN_TEST(test_versions);
    cases[count++] = (kiln_test_case)KILN_TEST(test_one_owner);
    cases[count++] = (kiln_test_case)KILN_TEST(test_plans);
    cases[count++] = (kiln_test_case)KILN_TEST(test_wrong_program);
    return kiln_test_run("unit/fusion_host/operators", cases, count, argc, argv);
}
