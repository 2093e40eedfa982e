// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches with many buffers where memory is shared virtual memory: which are packed, that results
// are those of plain arguments, what cannot be packed; and the slabs that small buffers come from.

#include <stdio.h>
#include <string.h>

#include "cl_fixture.h"

enum { BUFFERS = 14, ARGS = BUFFERS + 4, ITEMS = 256, LARGE = 300 << 10 };

/// As on devices whose sub-buffers cannot be trusted; skips where memory cannot be shared.
static bool open_shared(cl_fixture *f)
{
    if (!cl_fixture_open(f, NULL)) {
        return false;
    }
    f->backend->sub_buffers = KILNI_CL_SUB_UNPROVEN;
    if (!kilni_cl_shares(f->backend)) {
        kiln_test_skip("no shared virtual memory on this device");
        cl_fixture_close(f);
        return false;
    }
    return true;
}

/// out[i] = the sum of all inputs at `first` + i, times `by`, plus two numbers.
static void write_source(char *text, size_t capacity, const char *extra)
{
    size_t at = (size_t)snprintf(text, capacity, "__kernel void many(");
    for (int i = 0; i < BUFFERS - 1; i++) {
        at += (size_t)snprintf(text + at, capacity - at, "__global const float *p%d, ", i);
    }
    at += (size_t)snprintf(
        text + at, capacity - at,
        "__global float *out, const float by, const long first, const int more, "
        "const double wide) {\n  size_t i = get_global_id(0);\n  %s float x = 0;\n",
        extra);
    for (int i = 0; i < BUFFERS - 1; i++) {
        at += (size_t)snprintf(text + at, capacity - at, "  x += p%d[first + i];\n", i);
    }
    snprintf(text + at, capacity - at, "  out[i] = x * by + more + (float)wide;\n}\n");
}

typedef struct many { ///< a program of that source and what it is launched with
    char source[4096];
    cl_program_text text;
    kiln_program_arg params[ARGS];
    kiln_launch_arg args[ARGS];
    kiln_launch launch;
    kiln_buffer *buffers[BUFFERS];
    kiln_built *built;
} many;

static void describe(many *m, const char *extra)
{
    static const char *const name = "many";
    static const kiln_dtype numbers[] = {KILN_DTYPE_F32, KILN_DTYPE_I64, KILN_DTYPE_I32,
                                         KILN_DTYPE_F64};
    const float by = 0.5f;
    const double wide = 0.25;
    const int64_t first = 3;
    const int32_t more = -7;
    const void *values[] = {&by, &first, &more, &wide};
    memset(m, 0, sizeof(*m));
    write_source(m->source, sizeof(m->source), extra);
    cl_program_text_init(&m->text, m->source, &name, 1);
    for (uint32_t i = 0; i < ARGS; i++) {
        bool is_buffer = i < BUFFERS;
        m->params[i].kind = is_buffer ? KILN_ARG_TENSOR : KILN_ARG_SCALAR;
        m->params[i].access = i + 1 < BUFFERS ? KILN_ACCESS_READ : KILN_ACCESS_WRITE;
        m->args[i].kind = is_buffer ? KILN_VALUE_BUFFER : KILN_VALUE_BYTES;
        if (!is_buffer) {
            m->params[i].dtype = numbers[i - BUFFERS];
            m->args[i].length = (uint32_t)kiln_dtype_size(numbers[i - BUFFERS]);
            memcpy(&m->args[i].bytes, values[i - BUFFERS], m->args[i].length);
        }
    }
    m->text.launches[0].args = m->params;
    m->text.launches[0].n_args = ARGS;
    m->launch =
        (kiln_launch){.n_dims = 1, .global = {ITEMS, 1, 1}, .args = m->args, .n_args = ARGS};
}

static bool prepare(cl_fixture *f, many *m)
{
    kiln_error err = KILN_ERROR_INIT;
    float values[ITEMS + 3];
    kiln_status status = f->base->program->build(f->base, &m->text.program, &m->built, &err);
    if (!KILN_CHECK_INT(status, KILN_STATUS_OK)) {
        printf("  %s\n", err.message);
        return false;
    }
    for (int i = 0; i < BUFFERS; i++) {
        for (int k = 0; k < ITEMS + 3; k++) {
            values[k] = (float)(k * (i + 1));
        }
        m->buffers[i] = cl_fixture_buffer(f, sizeof(values), values);
        m->args[i].buffer = m->buffers[i];
    }
    return true;
}

/// Launches it, and gives how many launches were packed.
static int64_t launch(cl_fixture *f, many *m)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_cl_counters before, after;
    float out[ITEMS] = {0};
    uint32_t wrong = 0;
    kiln_cl_counters_get(f->base, &before);
    KILN_CHECK_INT(f->base->program->launch(f->base, m->built, &m->launch, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(
        f->base->transfer->read(f->base, m->args[BUFFERS - 1].buffer, 0, out, sizeof(out), &err),
        KILN_STATUS_OK);
    for (int i = 0; i < ITEMS; i++) {
        float x = 0;
        for (int k = 1; k < BUFFERS; k++) {
            x += (float)((i + 3) * k);
        }
        wrong += out[i] != x * 0.5f - 7 + 0.25f;
    }
    KILN_CHECK_INT(wrong, 0);
    kiln_cl_counters_get(f->base, &after);
    return (int64_t)(after.packed - before.packed);
}

static void finish(cl_fixture *f, many *m)
{
    for (int i = 0; i < BUFFERS; i++) {
        f->base->memory->free(f->base, m->buffers[i]);
    }
    f->base->program->free(f->base, m->built);
    cl_fixture_close(f);
}

static void test_many_buffers_are_packed(void)
{
    static many m;
    cl_fixture f;
    uint64_t ns = 0;
    kiln_error err = KILN_ERROR_INIT;
    describe(&m, "");
    if (!open_shared(&f)) {
        return;
    }
    if (prepare(&f, &m)) {
        KILN_CHECK_INT(launch(&f, &m), 1);
        KILN_CHECK_INT(launch(&f, &m), 1);
        KILN_CHECK_INT(f.base->program->time(f.base, m.built, &m.launch, &ns, &err),
                       KILN_STATUS_OK);
    }
    finish(&f, &m);
}

// Of one launch some may be pieces of slabs, some windows of an arena.
static void test_windows_are_packed(void)
{
    static many m;
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    kiln_buffer *arena = NULL;
    kiln_buffer *window = NULL;
    describe(&m, "");
    if (!open_shared(&f)) {
        return;
    }
    KILN_CHECK_INT(f.base->arena->alloc(f.base, 65536, &arena, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->arena->sub_buffer(f.base, arena, 8192, 8192, &window, &err),
                   KILN_STATUS_OK);
    if (prepare(&f, &m)) {
        m.args[BUFFERS - 1].buffer = window;
        KILN_CHECK_INT(launch(&f, &m), 1);
    }
    f.base->memory->free(f.base, window);
    f.base->memory->free(f.base, arena);
    finish(&f, &m);
}

// A buffer whose address is not known goes the usual way, and all others of the launch with it.
static void test_large_buffers_are_not(void)
{
    static many m;
    cl_fixture f;
    describe(&m, "");
    if (!open_shared(&f)) {
        return;
    }
    kiln_buffer *large = cl_fixture_buffer(&f, LARGE, NULL);
    KILN_CHECK(kilni_cl_buffer_of(large)->address == NULL);
    if (prepare(&f, &m)) {
        m.args[BUFFERS - 1].buffer = large;
        KILN_CHECK_INT(launch(&f, &m), 0);
        m.args[BUFFERS - 1].buffer = m.buffers[BUFFERS - 1];
        KILN_CHECK_INT(launch(&f, &m), 1);
    }
    f.base->memory->free(f.base, large);
    finish(&f, &m);
}

static void test_local_variables_are_not(void)
{
    static many m;
    cl_fixture f;
    describe(&m, "__local float unused[4]; unused[i & 3] = 0;");
    if (!open_shared(&f)) {
        return;
    }
    if (prepare(&f, &m)) {
        KILN_CHECK_INT(launch(&f, &m), 0);
    }
    finish(&f, &m);
}

static void test_unproven_devices_do_not(void)
{
    static many m;
    cl_fixture f;
    describe(&m, "");
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    f.backend->sub_buffers = KILNI_CL_SUB_NONE;
    if (prepare(&f, &m)) {
        KILN_CHECK_INT(launch(&f, &m), 0);
    }
    finish(&f, &m);
}

static void test_a_broken_source_says_so(void)
{
    static many m;
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    describe(&m, "no_such_type y;");
    if (!open_shared(&f)) {
        return;
    }
    KILN_CHECK_INT(f.base->program->build(f.base, &m.text.program, &m.built, &err),
                   KILN_STATUS_BUILD_FAILED);
    KILN_CHECK_CONTAINS(err.message, "no_such_type");
    KILN_CHECK(m.built == NULL);
    cl_fixture_close(&f);
}

// Small buffers share an allocation; it goes when all of them do, and not before.
static void test_slabs(void)
{
    enum { COUNT = 200, BYTES = 100000 };
    cl_fixture f;
    kiln_buffer *buffers[COUNT];
    kiln_backend_stats stats;
    float number = 0;
    kiln_error err = KILN_ERROR_INIT;
    if (!open_shared(&f)) {
        return;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        float value = (float)i;
        buffers[i] = cl_fixture_buffer(&f, BYTES, NULL);
        KILN_CHECK_INT(f.base->transfer->upload(f.base, buffers[i], BYTES - 4, &value, 4, &err),
                       KILN_STATUS_OK);
    }
    KILN_CHECK(kilni_cl_buffer_of(buffers[0])->slab == kilni_cl_buffer_of(buffers[1])->slab);
    KILN_CHECK(kilni_cl_buffer_of(buffers[0])->slab !=
               kilni_cl_buffer_of(buffers[COUNT - 1])->slab);
    for (uint32_t i = 1; i < COUNT; i++) {
        KILN_CHECK_INT(f.base->transfer->read(f.base, buffers[i], BYTES - 4, &number, 4, &err),
                       KILN_STATUS_OK);
        KILN_CHECK_INT((int64_t)number, i);
        f.base->memory->free(f.base, buffers[i]);
    }
    uint64_t held = f.backend->pool.held_bytes;
    f.base->memory->trim(f.base); // the last slab goes, that of the first buffer stays
    KILN_CHECK(f.backend->pool.held_bytes < held && f.backend->pool.held_bytes > 2 * BYTES);
    buffers[1] = cl_fixture_buffer(&f, BYTES, NULL);
    KILN_CHECK_INT(f.base->transfer->read(f.base, buffers[0], BYTES - 4, &number, 4, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT((int64_t)number, 0);
    f.base->memory->free(f.base, buffers[0]);
    f.base->memory->free(f.base, buffers[1]);
    f.base->memory->trim(f.base);
    f.base->device->stats(f.base, &stats);
    KILN_CHECK_INT(stats.bytes_pooled, 0);
    KILN_CHECK(f.backend->pool.slab == NULL);
    cl_fixture_close(&f);
}

// A launch pays for each slab, so there are few: of 16, 32 and 64 MiB.
static void test_slabs_grow(void)
{
    enum { COUNT = 340, BYTES = 256 << 10 }; // 85 MiB
    cl_fixture f;
    kiln_buffer *buffers[COUNT];
    uint32_t slabs = 0;
    if (!open_shared(&f)) {
        return;
    }
    if (f.backend->pool.budget / 64 < UINT64_C(64) << 20) {
        kiln_test_skip("the device has less than 4 GiB");
        cl_fixture_close(&f);
        return;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        buffers[i] = cl_fixture_buffer(&f, BYTES, NULL);
        KILN_CHECK(kilni_cl_buffer_of(buffers[i])->slab != NULL);
        slabs += i == 0 ||
                 kilni_cl_buffer_of(buffers[i])->slab != kilni_cl_buffer_of(buffers[i - 1])->slab;
    }
    KILN_CHECK_INT(slabs, 3);
    for (uint32_t i = 0; i < COUNT; i++) {
        f.base->memory->free(f.base, buffers[i]);
    }
    f.base->memory->trim(f.base);
    KILN_CHECK(f.backend->pool.slab == NULL && f.backend->pool.next_slab == 0);
    cl_fixture_close(&f);
}

// A slab is no small part of a small budget.
static void test_small_budgets_have_no_slabs(void)
{
    cl_fixture f;
    cl_settings settings = {.budget = "1M"};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    f.backend->sub_buffers = KILNI_CL_SUB_UNPROVEN;
    kiln_buffer *buffer = cl_fixture_buffer(&f, 1000, NULL);
    KILN_CHECK(kilni_cl_buffer_of(buffer)->slab == NULL);
    f.base->memory->free(f.base, buffer);
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/packed", KILN_TEST(test_many_buffers_are_packed),
               KILN_TEST(test_windows_are_packed), KILN_TEST(test_large_buffers_are_not),
               KILN_TEST(test_local_variables_are_not), KILN_TEST(test_unproven_devices_do_not),
               KILN_TEST(test_a_broken_source_says_so), KILN_TEST(test_slabs),
               KILN_TEST(test_slabs_grow), KILN_TEST(test_small_budgets_have_no_slabs))
