// SPDX-License-Identifier: MIT OR Apache-2.0
// Every allocation of a whole life is made to fail once: the answer is an error that says so,
// nothing leaks, and what was not recorded can be recorded again.
#include <string.h>

#include "fuse_fixture.h"

typedef struct life { ///< results of one run
    kiln_status status;
    uint64_t ops_run;
} life;

static kiln_status push_chain(fuse_fixture *f, kiln_tensor_desc *x, kiln_error *err)
{
    static const kiln_op ops[] = {KILN_OP_NEG,     KILN_OP_ADD, KILN_OP_ADD_SCALAR,
                                  KILN_OP_RESHAPE, KILN_OP_EXP, KILN_OP_RELU};
    static const int64_t shape[] = {8, 128};
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]) && status == KILN_STATUS_OK; i++) {
        kiln_tensor_desc inputs[2] = {*x, *x};
        kiln_tensor_desc out = {.id = f->next_id++};
        kiln_attr attr = {.type = KILN_ATTR_F64, .count = 1, .v = {.f = 2}};
        if (ops[i] == KILN_OP_RESHAPE) {
            attr = (kiln_attr){.type = KILN_ATTR_I64_LIST, .count = 2, .v = {.ints = shape}};
        }
        void *tokens[3] = {NULL, NULL, NULL};
        kiln_op_record record = {.op = ops[i],
                                 .n_inputs = ops[i] == KILN_OP_ADD ? 2 : 1,
                                 .n_outputs = 1,
                                 .n_attrs = i == 2 || i == 3,
                                 .inputs = inputs,
                                 .outputs = &out,
                                 .attrs = &attr};
        KILN_CHECK_INT(kiln_ir_infer(&record, &out, NULL), KILN_STATUS_OK);
        status = kiln_fuse_stream_push(f->stream, &record, tokens, err);
        if (status == KILN_STATUS_RESOURCE_EXHAUSTED) { // nothing was recorded: once more
            status = kiln_fuse_stream_push(f->stream, &record, tokens, err);
        }
        *x = out;
    }
    return status;
}

static kiln_status run_all(fuse_fixture *f, uint64_t *out_ops, kiln_error *err)
{
    for (;;) {
        const kiln_fuse_segment *s = NULL;
        kiln_status status = kiln_fuse_stream_next(f->stream, true, &s, err);
        if (status == KILN_STATUS_RESOURCE_EXHAUSTED) {
            status = kiln_fuse_stream_next(f->stream, true, &s, err);
        }
        if (status != KILN_STATUS_OK || s == NULL) {
            return status;
        }
        *out_ops += s->plan->n_ops;
        kiln_fuse_stream_done(f->stream, s);
    }
}

static life live(fuse_fixture *f, const char *plugin, uint64_t fail_at)
{
    life result = {KILN_STATUS_OK, 0};
    kiln_error err = KILN_ERROR_INIT;
    kiln_fuse_registry_options empty = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    fixture_prepare(f);
    f->fail_at = fail_at;
    const int64_t dims[] = {1024};
    kiln_tensor_desc x = fixture_input(f, 1, dims);
    KILN_TRY(out, result.status, kiln_fuse_registry_create(&f->env, &empty, &f->registry, &err));
    KILN_TRY(out, result.status, kiln_fuse_registry_add(f->registry, plugin, &err));
    KILN_TRY(out, result.status,
             kiln_fuse_engine_create(f->registry, &f->device, &options, &f->engine, &err));
    KILN_TRY(out, result.status, kiln_fuse_stream_create(f->engine, false, &f->stream, &err));
    for (int i = 0; i < 3; i++) {
        KILN_TRY(out, result.status, push_chain(f, &x, &err));
        KILN_TRY(out, result.status, run_all(f, &result.ops_run, &err));
    }
out:
    fixture_release(f);
    return result;
}

static void fail_everything(const char *plugin)
{
    fuse_fixture f;
    life whole = live(&f, fixture_plugin_path(plugin), 0);
    uint64_t total = f.allocations;
    KILN_CHECK_INT(whole.status, KILN_STATUS_OK);
    KILN_CHECK_INT(whole.ops_run, 18);
    KILN_CHECK(total > 50);
    for (uint64_t k = 1; k <= total; k++) {
        life one = live(&f, fixture_plugin_path(plugin), k);
        KILN_CHECK_INT(f.live, 0);
        bool ok = one.status == KILN_STATUS_OK ? one.ops_run == 18
                                               : one.status == KILN_STATUS_RESOURCE_EXHAUSTED;
        if (!ok) {
            KILN_FAIL("allocation %llu of %llu: status %d, %llu operations", (unsigned long long)k,
                      (unsigned long long)total, one.status, (unsigned long long)one.ops_run);
        }
    }
}

static void test_every_allocation_fails_once(void)
{
    fail_everything("chain");
}

static void test_every_allocation_fails_once_elementwise(void)
{
    fail_everything("plugins/elementwise");
}

KILN_TEST_MAIN("unit/fusion_host/memory", KILN_TEST(test_every_allocation_fails_once),
               KILN_TEST(test_every_allocation_fails_once_elementwise))
