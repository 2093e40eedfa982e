// SPDX-License-Identifier: MIT OR Apache-2.0
// The fixture of fusion_host's tests. Tokens are the tensors' ids, so a segment's maps can be
// checked against them.
#include "fuse_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *counting_alloc(void *user, size_t bytes, size_t alignment)
{
    fuse_fixture *f = user;
    void *pointer = NULL;
    size_t step = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    f->allocations++;
    if (f->allocations == f->fail_at) {
        return NULL;
    }
    if (posix_memalign(&pointer, step, bytes == 0 ? step : bytes) != 0) {
        return NULL;
    }
    f->live++;
    return pointer;
}

static void counting_free(void *user, void *pointer)
{
    fuse_fixture *f = user;
    f->live -= pointer != NULL;
    free(pointer);
}

static void print_log(const kiln_log_record *record, void *user)
{
    (void)user;
    if (getenv("FUSE_TEST_LOG") != NULL) {
        fprintf(stderr, "log: %s\n", record->message);
    }
}

static const kiln_device_info invented = {
    .name = "invented",
    .vendor = "",
    .platform = "",
    .driver = "",
    .extensions = "",
    .type = KILN_DEVICE_CPU,
    .features = KILN_FEATURE_COMPILER | KILN_FEATURE_PROGRAMS,
    .compute_units = 4,
    .vector_bytes = 32,
    .memory_align = 128,
    .cl_version = 120,
    .memory_bytes = 1u << 30,
    .max_alloc_bytes = 1u << 28,
    .local_bytes = 32768,
    .max_work_group = 1024,
    .bytes_per_s = 10000000000u,
    .flops_f32 = 100000000000u,
    .launch_ns = 5000,
};

const char *fixture_plugin_path(const char *name)
{
    char file[128];
    const char *carried = getenv("KILN_TEST_BUILD_DIR"); // a fuzz target on another machine
    snprintf(file, sizeof(file), "lib/kiln/%s%s.so",
             strchr(name, '/') != NULL ? "" : "test_plugins/", name);
    return kiln_test_path(carried != NULL ? carried : KILN_TEST_BUILD_DIR, file);
}

void fixture_prepare(fuse_fixture *f)
{
    *f = (fuse_fixture){.device = invented, .next_id = 1};
    f->env = (kiln_env){.allocator = {counting_alloc, counting_free, f}, .log = print_log};
}

bool fixture_open_with(fuse_fixture *f, const char *const *plugins,
                       const kiln_fuse_engine_options *options, bool whole)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_fuse_registry_options empty = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    fixture_prepare(f);
    bool ok = kiln_fuse_registry_create(&f->env, &empty, &f->registry, &err) == KILN_STATUS_OK;
    for (; ok && plugins != NULL && *plugins != NULL; plugins++) {
        const char *path = fixture_plugin_path(*plugins);
        ok = kiln_fuse_registry_add(f->registry, path, &err) == KILN_STATUS_OK;
    }
    ok = ok && kiln_fuse_engine_create(f->registry, &f->device, options, &f->engine, &err) ==
                   KILN_STATUS_OK;
    ok = ok && kiln_fuse_stream_create(f->engine, whole, &f->stream, &err) == KILN_STATUS_OK;
    if (!ok) {
        KILN_FAIL("fixture: %s", err.message);
    }
    return ok;
}

bool fixture_open(fuse_fixture *f, const char *const *plugins)
{
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    return fixture_open_with(f, plugins, &options, /*whole=*/false);
}

void fixture_release(fuse_fixture *f)
{
    kiln_fuse_stream_destroy(f->stream);
    kiln_fuse_engine_destroy(f->engine);
    kiln_fuse_registry_destroy(f->registry);
}

void fixture_close(fuse_fixture *f)
{
    fixture_release(f);
    KILN_CHECK_INT(f->live, 0);
}

kiln_tensor_desc fixture_input(fuse_fixture *f, uint32_t rank, const int64_t *dims)
{
    kiln_tensor_desc desc = {.id = f->next_id++,
                             .dtype = KILN_DTYPE_F32,
                             .rank = (uint8_t)rank,
                             .flags = KILN_TENSOR_PLACED | KILN_TENSOR_CONTIGUOUS |
                                      KILN_TENSOR_ZERO_OFFSET,
                             .align_log2 = 7};
    memcpy(desc.dims, dims, rank * sizeof(*dims));
    return desc;
}

kiln_tensor_desc fixture_vector(fuse_fixture *f, int64_t length)
{
    return fixture_input(f, 1, &length);
}

kiln_tensor_desc fixture_record(fuse_fixture *f, kiln_op op, const kiln_tensor_desc *inputs,
                                uint16_t n_inputs, const kiln_attr *attrs, uint8_t n_attrs)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_tensor_desc out = {.id = f->next_id++};
    void *tokens[KILN_MAX_INPUTS + 1];
    kiln_op_record record = {.op = op,
                             .n_inputs = n_inputs,
                             .n_outputs = 1,
                             .n_attrs = n_attrs,
                             .inputs = inputs,
                             .outputs = &out,
                             .attrs = attrs};
    for (uint32_t i = 0; i < n_inputs; i++) {
        tokens[i] = (void *)(uintptr_t)inputs[i].id;
    }
    tokens[n_inputs] = (void *)(uintptr_t)out.id;
    if (kiln_ir_infer(&record, &out, &err) != KILN_STATUS_OK ||
        kiln_fuse_stream_push(f->stream, &record, tokens, &err) != KILN_STATUS_OK) {
        KILN_FAIL("record: %s", err.message);
    }
    return out;
}

kiln_tensor_desc fixture_op(fuse_fixture *f, kiln_op op, const kiln_tensor_desc *a,
                            const kiln_tensor_desc *b)
{
    kiln_tensor_desc inputs[2] = {*a};
    if (b != NULL) {
        inputs[1] = *b;
    }
    const kiln_attr absent[KILN_MAX_ATTRS] = {{.type = KILN_ATTR_NONE}};
    uint8_t n_attrs = kiln_op_info_of(op)->signature->n_attrs;
    return fixture_record(f, op, inputs, b != NULL ? 2 : 1, absent, n_attrs);
}

kiln_tensor_desc fixture_scalar_op(fuse_fixture *f, kiln_op op, const kiln_tensor_desc *a,
                                   double value)
{
    kiln_attr attr = {.type = KILN_ATTR_F64, .count = 1, .v = {.f = value}};
    return fixture_record(f, op, a, 1, &attr, 1);
}

void fixture_drop(fuse_fixture *f, const kiln_tensor_desc *t)
{
    kiln_error err = KILN_ERROR_INIT;
    void *token = (void *)(uintptr_t)t->id;
    kiln_op_record record = {.op = KILN_OP_DROP, .n_inputs = 1, .inputs = t};
    if (kiln_fuse_stream_push(f->stream, &record, &token, &err) != KILN_STATUS_OK) {
        KILN_FAIL("drop: %s", err.message);
    }
}

const kiln_fuse_segment *fixture_next(fuse_fixture *f, bool drain)
{
    kiln_error err = KILN_ERROR_INIT;
    const kiln_fuse_segment *segment = NULL;
    if (kiln_fuse_stream_next(f->stream, drain, &segment, &err) != KILN_STATUS_OK) {
        KILN_FAIL("next: %s", err.message);
    }
    return segment;
}

void fixture_done(fuse_fixture *f, const kiln_fuse_segment *segment)
{
    kiln_fuse_stream_done(f->stream, segment);
}

static void describe(const kiln_fuse_segment *segment, char *text, size_t capacity)
{
    size_t at = strlen(text);
    for (uint32_t i = 0; i < segment->plan->n_steps && at < capacity; i++) {
        const kiln_plan_step *step = &segment->plan->steps[i];
        if (step->kind == KILN_STEP_LAUNCH) {
            const kiln_plan_block *block = &segment->plan->blocks[step->block];
            bool run = block->ops[block->n_ops - 1] - block->ops[0] + 1 == block->n_ops;
            at += (size_t)snprintf(text + at, capacity - at, "%s%s[%u%c%u]", at > 0 ? " " : "",
                                   block->fuser, block->ops[0], run ? '+' : '/', block->n_ops);
        } else {
            at += (size_t)snprintf(text + at, capacity - at, "%s%s", at > 0 ? " " : "",
                                   kiln_op_info_of(segment->ops[step->index].op)->name);
        }
        for (uint32_t k = 0; k < step->n_dies && at < capacity; k++) {
            at += (size_t)snprintf(text + at, capacity - at, "-%u",
                                   (unsigned)(uintptr_t)segment->tokens[step->dies[k]]);
        }
    }
    snprintf(text + at, at < capacity ? capacity - at : 0, ";");
}

const char *fixture_run(fuse_fixture *f, bool drain)
{
    static char text[8192];
    text[0] = 0;
    for (const kiln_fuse_segment *s = fixture_next(f, drain); s != NULL;
         s = fixture_next(f, drain)) {
        describe(s, text, sizeof(text));
        fixture_done(f, s);
    }
    return text;
}

kiln_fuse_stats fixture_stats(const fuse_fixture *f)
{
    kiln_fuse_stats stats;
    kiln_fuse_engine_stats(f->engine, &stats);
    return stats;
}

kiln_tensor_desc fixture_chain(fuse_fixture *f, const kiln_tensor_desc *a,
                               const kiln_tensor_desc *b)
{
    kiln_tensor_desc t1 = fixture_op(f, KILN_OP_MUL, a, b);
    kiln_tensor_desc t2 = fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &t1, 1.0);
    fixture_drop(f, &t1);
    kiln_tensor_desc t3 = fixture_op(f, KILN_OP_RELU, &t2, NULL);
    fixture_drop(f, &t2);
    kiln_tensor_desc t4 = fixture_scalar_op(f, KILN_OP_MUL_SCALAR, &t3, 0.5);
    fixture_drop(f, &t3);
    kiln_tensor_desc t5 = fixture_op(f, KILN_OP_SUB, &t4, b);
    fixture_drop(f, &t4);
    return t5;
}
