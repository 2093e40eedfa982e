// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes to the device and back: small and large ones, the source reused at once, copies, maps,
// wrong ranges.

#include <stdlib.h>
#include <string.h>

#include "cl_fixture.h"

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 2654435761u >> 13);
}

static void round_trip(cl_fixture *f, size_t bytes, size_t offset)
{
    kiln_error err = KILN_ERROR_INIT;
    unsigned char *data = malloc(bytes);
    unsigned char *back = calloc(bytes, 1);
    kiln_buffer *buffer = cl_fixture_buffer(f, bytes + offset, NULL);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = byte_at(i);
    }
    KILN_CHECK_INT(f->base->transfer->upload(f->base, buffer, offset, data, bytes, &err),
                   KILN_STATUS_OK);
    memset(data, 0xee, bytes); // the source may be reused
    KILN_CHECK_INT(f->base->transfer->read(f->base, buffer, offset, back, bytes, &err),
                   KILN_STATUS_OK);
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++) {
        wrong += back[i] != byte_at(i);
    }
    KILN_CHECK_INT(wrong, 0);
    f->base->memory->free(f->base, buffer);
    free(data);
    free(back);
}

static void all_sizes(cl_fixture *f)
{
    static const size_t sizes[] = {1,      7,       4096,    131072,  131073,  262144,
                                   262145, 1000003, 8388608, 8388609, 30000001};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        round_trip(f, sizes[i], 0);
        kilni_cl_set_last(f->backend, NULL); // so that the upload goes through the queue
        round_trip(f, sizes[i], 13);
    }
}

static void test_round_trips(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    all_sizes(&f);
    cl_fixture_close(&f);
}

// The way of discrete devices, on whatever device there is.
static void test_round_trips_through_pinned_memory(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    f.backend->info.features &= ~(uint32_t)KILN_FEATURE_UNIFIED_MEMORY;
    all_sizes(&f);
    KILN_CHECK(f.backend->transfer.pinned);
    cl_fixture_close(&f);
}

/// What is uploaded while nothing is queued needs no command; what is uploaded behind a command
/// comes behind it, however long that takes.
static void test_upload_at_once(void)
{
    enum { BYTES = 64 << 20 };
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    int first[4] = {1, 2, 3, 4}, second[4] = {5, 6, 7, 8}, back[4] = {0};
    unsigned char *zeros = calloc(BYTES, 1);
    kiln_buffer *from = cl_fixture_buffer(&f, BYTES, zeros);
    kiln_buffer *to = cl_fixture_buffer(&f, BYTES, zeros);
    KILN_CHECK_INT(f.base->transfer->read(f.base, to, 0, back, sizeof(back), &err), KILN_STATUS_OK);
    bool idle = kilni_cl_is_idle(f.backend);
    kiln_buffer *small = cl_fixture_buffer(&f, 256, NULL);
    KILN_CHECK(idle == f.backend->flight.keeps_last);
    KILN_CHECK((kilni_cl_buffer_of(small)->host != NULL) == idle);
    KILN_CHECK_INT(f.base->transfer->upload(f.base, from, 0, first, sizeof(first), &err),
                   KILN_STATUS_OK);
    KILN_CHECK(kilni_cl_is_idle(f.backend) == idle); // no command was put behind the read
    KILN_CHECK_INT(f.base->transfer->copy(f.base, from, 0, to, 0, BYTES, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->transfer->upload(f.base, from, 0, second, sizeof(second), &err),
                   KILN_STATUS_OK);
    KILN_CHECK(!kilni_cl_is_idle(f.backend));
    KILN_CHECK_INT(f.base->transfer->read(f.base, to, 0, back, sizeof(back), &err), KILN_STATUS_OK);
    KILN_CHECK(memcmp(back, first, sizeof(back)) == 0);
    KILN_CHECK_INT(f.base->transfer->read(f.base, from, 0, back, sizeof(back), &err),
                   KILN_STATUS_OK);
    KILN_CHECK(memcmp(back, second, sizeof(back)) == 0);
    free(zeros);
    f.base->memory->free(f.base, small);
    f.base->memory->free(f.base, from);
    f.base->memory->free(f.base, to);
    cl_fixture_close(&f);
}

// More small uploads than the staging memory holds, without a wait between them.
static void test_many_small_uploads(void)
{
    enum { COUNT = 3000, BYTES = 1024 };
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    kiln_buffer *buffer = cl_fixture_buffer(&f, (size_t)COUNT * BYTES, NULL);
    unsigned char block[BYTES];
    for (int i = 0; i < COUNT; i++) {
        memset(block, i % 251, sizeof(block));
        size_t at = (size_t)i * BYTES;
        if (f.base->transfer->upload(f.base, buffer, at, block, BYTES, &err) != KILN_STATUS_OK) {
            KILN_FAIL("%s", err.message);
        }
    }
    unsigned char *back = malloc((size_t)COUNT * BYTES);
    KILN_CHECK_INT(f.base->transfer->read(f.base, buffer, 0, back, (size_t)COUNT * BYTES, &err),
                   KILN_STATUS_OK);
    size_t wrong = 0;
    for (size_t i = 0; i < (size_t)COUNT * BYTES; i++) {
        wrong += back[i] != (i / BYTES) % 251;
    }
    KILN_CHECK_INT(wrong, 0);
    free(back);
    f.base->memory->free(f.base, buffer);
    cl_fixture_close(&f);
}

static void test_copy_and_map(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    int source[64];
    int back[64];
    void *pointer = NULL;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    for (int i = 0; i < 64; i++) {
        source[i] = i * i;
    }
    kiln_buffer *a = cl_fixture_buffer(&f, sizeof(source), source);
    kiln_buffer *b = cl_fixture_buffer(&f, sizeof(source), source);
    KILN_CHECK_INT(f.base->transfer->copy(f.base, a, 128, b, 0, 128, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->transfer->read(f.base, b, 0, back, sizeof(back), &err), KILN_STATUS_OK);
    KILN_CHECK_INT(back[0], 32 * 32);
    KILN_CHECK_INT(back[63], 63 * 63);
    KILN_CHECK_INT(
        kiln_cl_map(f.base, b, 4, 8, KILN_CL_MAP_READ | KILN_CL_MAP_WRITE, &pointer, &err),
        KILN_STATUS_OK);
    KILN_CHECK_INT(((int *)pointer)[0], 33 * 33);
    ((int *)pointer)[1] = -5;
    KILN_CHECK_INT(kiln_cl_unmap(f.base, b, pointer, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(f.base->transfer->read(f.base, b, 8, back, 4, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(back[0], -5);
    f.base->memory->free(f.base, a);
    f.base->memory->free(f.base, b);
    cl_fixture_close(&f);
}

static void test_wrong_ranges(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    char bytes[100] = {0};
    void *pointer = NULL;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    kiln_buffer *a = cl_fixture_buffer(&f, 50, bytes);
    KILN_CHECK_INT(f.base->transfer->upload(f.base, a, 0, bytes, 51, &err),
                   KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_CONTAINS(err.message, "51 bytes at offset 0 of a buffer of 50 bytes");
    KILN_CHECK_INT(f.base->transfer->upload(f.base, a, SIZE_MAX, bytes, 2, &err),
                   KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(f.base->transfer->read(f.base, a, 49, bytes, 2, &err), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(f.base->transfer->copy(f.base, a, 0, a, 40, 20, &err), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(f.base->transfer->read(f.base, NULL, 0, bytes, 2, &err),
                   KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(kiln_cl_map(f.base, a, 0, 51, KILN_CL_MAP_READ, &pointer, &err),
                   KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(kiln_cl_map(f.base, a, 0, 5, 0, &pointer, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(pointer == NULL);
    f.base->memory->free(f.base, a);
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/transfer", KILN_TEST(test_round_trips),
               KILN_TEST(test_round_trips_through_pinned_memory), KILN_TEST(test_upload_at_once),
               KILN_TEST(test_many_small_uploads), KILN_TEST(test_copy_and_map),
               KILN_TEST(test_wrong_ranges))
