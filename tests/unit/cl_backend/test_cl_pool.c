// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory pool: reuse, rounding, alignment, statistics, budget, and what happens when memory is
// short.

#include <stdio.h>
#include <string.h>

#include "cl_fixture.h"

static kiln_backend_stats stats_of(cl_fixture *f)
{
    kiln_backend_stats stats;
    f->base->device->stats(f->base, &stats);
    return stats;
}

static void test_statistics(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    kiln_buffer *a = cl_fixture_buffer(&f, 1000, NULL);
    kiln_buffer *b = cl_fixture_buffer(&f, 5000, NULL);
    kiln_backend_stats stats = stats_of(&f);
    KILN_CHECK_INT(stats.bytes_used, 6000);
    KILN_CHECK_INT(stats.buffers_live, 2);
    KILN_CHECK_INT(stats.bytes_pooled, 1024 + 5120);
    f.base->memory->free(f.base, b);
    stats = stats_of(&f);
    KILN_CHECK_INT(stats.bytes_used, 1000);
    KILN_CHECK_INT(stats.bytes_peak, 6000);
    KILN_CHECK_INT(stats.bytes_pooled, 1024 + 5120);
    f.base->memory->trim(f.base); // a slab that is in use stays whole
    KILN_CHECK_INT(stats_of(&f).bytes_pooled, f.backend->pool.slab != NULL ? 6144 : 1024);
    f.base->memory->free(f.base, a);
    f.base->memory->free(f.base, NULL);
    f.base->memory->trim(f.base);
    stats = stats_of(&f);
    KILN_CHECK_INT(stats.bytes_pooled, 0);
    KILN_CHECK_INT(stats.buffers_live, 0);
    cl_fixture_close(&f);
}

static void test_reuse(void)
{
    cl_fixture f;
    kiln_cl_counters counters;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    for (int i = 0; i < 100; i++) {
        f.base->memory->free(f.base, cl_fixture_buffer(&f, (size_t)(4000 + i % 50), NULL));
    }
    kiln_cl_counters_get(f.base, &counters);
    KILN_CHECK_INT(counters.pool_creates, 1);
    KILN_CHECK_INT(counters.pool_hits, 99);
    cl_fixture_close(&f);
}

// At most a sixteenth is lost, sizes never shrink, and every class is reached.
static void test_rounding(void)
{
    cl_fixture f;
    cl_settings settings = {.budget = "4G"};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    size_t limit = (size_t)64 << 20;
    for (size_t bytes = 1; bytes <= limit; bytes += bytes / 3 + 1) {
        kiln_buffer *buffer = cl_fixture_buffer(&f, bytes, NULL);
        size_t capacity = kilni_cl_buffer_of(buffer)->capacity;
        if (capacity < bytes || (bytes > 256 && capacity > bytes + bytes / 4 + 64)) {
            KILN_FAIL("%zu bytes become %zu", bytes, capacity);
        }
        f.base->memory->free(f.base, buffer);
        f.base->memory->trim(f.base);
    }
    cl_fixture_close(&f);
}

static void test_alignment(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    kiln_buffer *buffers[12];
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    if (!f.backend->pocl) {
        kiln_test_skip("device addresses are those of the host on PoCL only");
        cl_fixture_close(&f);
        return;
    }
    for (size_t i = 0; i < 12; i++) {
        void *pointer = NULL;
        buffers[i] = cl_fixture_buffer(&f, 100 * i + 1, NULL);
        KILN_CHECK_INT(kiln_cl_map(f.base, buffers[i], 0, 1, KILN_CL_MAP_READ, &pointer, &err),
                       KILN_STATUS_OK);
        KILN_CHECK_INT((uintptr_t)pointer % 128, 0);
        KILN_CHECK_INT(kiln_cl_unmap(f.base, buffers[i], pointer, &err), KILN_STATUS_OK);
    }
    for (size_t i = 0; i < 12; i++) {
        f.base->memory->free(f.base, buffers[i]);
    }
    cl_fixture_close(&f);
}

// Large buffers of a processor begin where a large page may, also those outside of the pool, and
// hold what is written to their last byte.
static void test_large_pages(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    if (!f.backend->pocl) {
        kiln_test_skip("device addresses are those of the host on PoCL only");
        cl_fixture_close(&f);
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        size_t bytes = ((size_t)2 << 20) + 1000003 * i;
        unsigned char last = (unsigned char)(7 + i), back = 0;
        void *pointer = NULL;
        kiln_buffer *buffer = NULL;
        if (i < 2) {
            buffer = cl_fixture_buffer(&f, bytes, NULL);
        } else {
            KILN_CHECK_INT(kilni_cl_alloc_arena(f.base, bytes, &buffer, &err), KILN_STATUS_OK);
        }
        KILN_CHECK_INT(f.base->transfer->upload(f.base, buffer, bytes - 1, &last, 1, &err),
                       KILN_STATUS_OK);
        KILN_CHECK_INT(f.base->transfer->read(f.base, buffer, bytes - 1, &back, 1, &err),
                       KILN_STATUS_OK);
        KILN_CHECK_INT(back, last);
        KILN_CHECK_INT(kiln_cl_map(f.base, buffer, 0, 1, KILN_CL_MAP_READ, &pointer, &err),
                       KILN_STATUS_OK);
        KILN_CHECK_INT((uintptr_t)pointer % ((size_t)2 << 20), 0);
        KILN_CHECK_INT(kiln_cl_unmap(f.base, buffer, pointer, &err), KILN_STATUS_OK);
        f.base->memory->free(f.base, buffer);
    }
    cl_fixture_close(&f);
}

static void test_budget(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    cl_settings settings = {.budget = "1M"};
    kiln_buffer *more = NULL;
    float value = 42.0f;
    float back = 0.0f;
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    kiln_buffer *first = cl_fixture_buffer(&f, 700000, NULL);
    KILN_CHECK_INT(f.base->transfer->upload(f.base, first, 0, &value, sizeof(value), &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->memory->alloc(f.base, 400000, &more, &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK(more == NULL);
    KILN_CHECK_CONTAINS(err.message, "400000 bytes");
    KILN_CHECK_CONTAINS(err.message, "budget is 1048576");
    // What exists stays readable, and what fits is still given.
    KILN_CHECK_INT(f.base->transfer->read(f.base, first, 0, &back, sizeof(back), &err),
                   KILN_STATUS_OK);
    KILN_CHECK_NEAR(back, 42.0, 0);
    f.base->memory->free(f.base, cl_fixture_buffer(&f, 200000, NULL));
    f.base->memory->free(f.base, first);
    cl_fixture_close(&f);
}

// Idle buffers of other classes go when the budget is reached.
static void test_budget_frees_idle(void)
{
    cl_fixture f;
    cl_settings settings = {.budget = "1M"};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    for (size_t bytes = 100000; bytes <= 1000000; bytes += 100000) {
        f.base->memory->free(f.base, cl_fixture_buffer(&f, bytes, NULL));
        KILN_CHECK(stats_of(&f).bytes_pooled <= 1048576);
    }
    // A size whose class would not fit is taken exactly.
    kiln_buffer *all = cl_fixture_buffer(&f, 1048576 - 8, NULL);
    KILN_CHECK(all != NULL);
    f.base->memory->free(f.base, all);
    KILN_CHECK(stats_of(&f).bytes_pooled <= 1048576);
    cl_fixture_close(&f);
}

enum { MIB = 1 << 20 };

/// Sizes that do not return: a class of the pool is used once or twice.
static void use_ragged_sizes(cl_fixture *f, size_t most)
{
    for (size_t bytes = most / 16; bytes <= most; bytes += most / 32) {
        kiln_buffer *buffers[2];
        for (size_t i = 0; i < 2; i++) {
            buffers[i] = cl_fixture_buffer(f, bytes, NULL);
        }
        for (size_t i = 0; i < 2; i++) {
            f->base->memory->free(f->base, buffers[i]);
        }
    }
}

static void use_small(cl_fixture *f, int count)
{
    for (int i = 0; i < count; i++) {
        f->base->memory->free(f->base, cl_fixture_buffer(f, 1000, NULL));
    }
}

// What is idle is no more than what was used at most lately, whatever sizes came; a program that
// needs little for a while keeps little.
static void test_idle_is_bounded(void)
{
    cl_fixture f;
    kiln_cl_counters before, after;
    cl_settings settings = {.budget = "1G"};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    use_ragged_sizes(&f, (size_t)32 * MIB);
    kiln_backend_stats stats = stats_of(&f);
    KILN_CHECK_INT(stats.bytes_peak, 64 * MIB);
    KILN_CHECK(stats.bytes_pooled_peak > 64 * MIB);
    KILN_CHECK(stats.bytes_pooled_peak <= 128 * MIB);
    use_small(&f, 1024); // the peak was in the span before
    kiln_cl_counters_get(f.base, &before);
    KILN_CHECK(stats_of(&f).bytes_pooled > 64 * MIB);
    use_small(&f, 1024);
    KILN_CHECK(stats_of(&f).bytes_pooled <= 32 * MIB);
    kiln_cl_counters_get(f.base, &after);
    KILN_CHECK_INT(after.pool_creates, before.pool_creates); // the small one was never given back
    cl_fixture_close(&f);
}

// What a device was measured with when it was opened is not kept room for.
static void test_measuring_is_no_use(void)
{
    cl_fixture f;
    cl_settings settings = {.budget = "1G", .tune = "full", .cache = kiln_test_tmpdir()};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    KILN_CHECK_INT(f.backend->pool.peaks[0] + f.backend->pool.peaks[1], 0);
    KILN_CHECK_INT(f.backend->pool.given, 0);
    KILN_CHECK_INT(stats_of(&f).bytes_pooled, 0);
    cl_fixture_close(&f);
}

// A step that uses many classes, one after another, makes no buffers once it has run, though the
// pool does not keep one of each.
static void test_steps_find_their_buffers(void)
{
    enum { STEPS_OF_ONE_KIND = 400, SIZES = 12 };
    cl_fixture f;
    kiln_cl_counters before, after;
    cl_settings settings = {.budget = "1G"};
    if (!cl_fixture_open(&f, &settings)) {
        return;
    }
    use_ragged_sizes(&f, (size_t)16 * MIB);
    kiln_buffer *held = cl_fixture_buffer(&f, (size_t)48 * MIB, NULL);
    for (int step = 0; step < STEPS_OF_ONE_KIND; step++) {
        if (step == 1) {
            kiln_cl_counters_get(f.base, &before);
        }
        for (size_t i = 1; i <= SIZES; i++) {
            f.base->memory->free(f.base, cl_fixture_buffer(&f, i * MIB, NULL));
        }
    }
    kiln_cl_counters_get(f.base, &after);
    KILN_CHECK_INT(after.pool_creates, before.pool_creates);
    KILN_CHECK_INT(after.pool_hits, before.pool_hits + (STEPS_OF_ONE_KIND - 1) * SIZES);
    KILN_CHECK(stats_of(&f).bytes_pooled <= 2 * (48 + SIZES) * (uint64_t)MIB);
    KILN_CHECK(stats_of(&f).bytes_pooled < (48 + SIZES * (SIZES + 1) / 2) * (uint64_t)MIB);
    f.base->memory->free(f.base, held);
    cl_fixture_close(&f);
}

static void test_larger_than_the_device_allows(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    kiln_buffer *buffer = NULL;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    size_t largest = (size_t)f.base->device->info(f.base)->max_alloc_bytes;
    KILN_CHECK_INT(f.base->memory->alloc(f.base, largest + 1, &buffer, &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_CONTAINS(err.message, "largest buffer");
    KILN_CHECK_INT(f.base->memory->alloc(f.base, SIZE_MAX, &buffer, &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK(buffer == NULL);
    cl_fixture_close(&f);
}

static void test_zero_bytes(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    char unused = 0;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    kiln_buffer *buffer = cl_fixture_buffer(&f, 0, NULL);
    KILN_CHECK_INT(f.base->transfer->upload(f.base, buffer, 0, &unused, 0, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->transfer->read(f.base, buffer, 0, &unused, 0, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->transfer->read(f.base, buffer, 0, &unused, 1, &err),
                   KILN_STATUS_OUT_OF_RANGE);
    f.base->memory->free(f.base, buffer);
    cl_fixture_close(&f);
}

static uint32_t number_at(cl_fixture *f, kiln_buffer *buffer, size_t offset)
{
    kiln_error err = KILN_ERROR_INIT;
    uint32_t number = 0;
    KILN_CHECK_INT(f->base->transfer->read(f->base, buffer, offset, &number, sizeof(number), &err),
                   KILN_STATUS_OK);
    return number;
}

/// Windows of an arena see each other's writes where they overlap, and count for nothing.
static void check_windows(cl_fixture *f)
{
    enum { BYTES = 1 << 20, STEP = 65536, WINDOWS = 8 };
    kiln_error err = KILN_ERROR_INIT;
    kiln_buffer *arena = NULL;
    kiln_buffer *windows[WINDOWS] = {NULL};
    kiln_buffer *beyond = NULL;
    KILN_CHECK_INT(f->base->arena->alloc(f->base, BYTES, &arena, &err), KILN_STATUS_OK);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < WINDOWS; i++) { // each overlaps half of the next
            KILN_CHECK_INT(f->base->arena->sub_buffer(f->base, arena, (size_t)i * STEP,
                                                      (size_t)2 * STEP, &windows[i], &err),
                           KILN_STATUS_OK);
        }
        KILN_CHECK_INT(stats_of(f).buffers_live, 1);
        for (uint32_t i = 0; i < WINDOWS; i++) {
            uint32_t number = 1000 * round + i;
            KILN_CHECK_INT(
                f->base->transfer->upload(f->base, windows[i], STEP, &number, sizeof(number), &err),
                KILN_STATUS_OK);
        }
        for (uint32_t i = 1; i < WINDOWS; i++) {
            KILN_CHECK_INT(number_at(f, windows[i], 0), 1000 * round + i - 1);
        }
        KILN_CHECK_INT(f->base->transfer->copy(f->base, windows[1], 0, windows[6], STEP, 4, &err),
                       KILN_STATUS_OK);
        KILN_CHECK_INT(number_at(f, windows[7], 0), 1000 * round);
        for (uint32_t i = 0; i < WINDOWS; i++) {
            f->base->memory->free(f->base, windows[i]);
        }
    }
    KILN_CHECK_INT(f->base->arena->sub_buffer(f->base, arena, BYTES, STEP, &beyond, &err),
                   KILN_STATUS_OUT_OF_RANGE);
    f->base->memory->free(f->base, arena);
    KILN_CHECK_INT(stats_of(f).bytes_pooled, 0);
}

static void test_windows(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    check_windows(&f);
    cl_fixture_close(&f);
}

// As on devices whose sub-buffers cannot be trusted.
static void test_windows_of_shared_memory(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    kiln_buffer *arena = NULL;
    kiln_buffer *window = NULL;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    f.backend->sub_buffers = KILNI_CL_SUB_UNPROVEN;
    KILN_CHECK_INT(f.base->arena->alloc(f.base, 4096, &arena, &err), KILN_STATUS_OK);
    f.base->memory->free(f.base, arena);
    if (f.backend->sub_buffers == KILNI_CL_SUB_SVM) {
        check_windows(&f);
    } else {
        printf("  no shared virtual memory on this device\n");
    }
    f.backend->sub_buffers = KILNI_CL_SUB_NONE;
    KILN_CHECK_INT(f.base->arena->alloc(f.base, 4096, &arena, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->arena->sub_buffer(f.base, arena, 0, 1024, &window, &err),
                   KILN_STATUS_UNIMPLEMENTED);
    f.base->memory->free(f.base, arena);
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/pool", KILN_TEST(test_windows),
               KILN_TEST(test_windows_of_shared_memory), KILN_TEST(test_statistics),
               KILN_TEST(test_reuse), KILN_TEST(test_rounding), KILN_TEST(test_alignment),
               KILN_TEST(test_large_pages), KILN_TEST(test_budget),
               KILN_TEST(test_budget_frees_idle), KILN_TEST(test_idle_is_bounded),
               KILN_TEST(test_measuring_is_no_use), KILN_TEST(test_steps_find_their_buffers),
               KILN_TEST(test_larger_than_the_device_allows), KILN_TEST(test_zero_bytes))
