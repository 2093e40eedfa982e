// SPDX-License-Identifier: MIT OR Apache-2.0
// Moving tensors: every pair of devices times every dtype and several lengths, a program that goes
// over all of them, uses before the bytes have come, and failures on the way.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "collective.h"
#include "device_set.h"
#include "harness.h"
#include "rt_device.h"
#include "rt_tensor.h"
#ifdef TEST_WITH_OPENCL
#include "cl_state.h"
#include "cl_transfer.h"
#endif

static const char *const addresses[] = {
    "reference:0", "reference:1",
#ifdef TEST_WITH_OPENCL
    "opencl:0",    "opencl:1",
#endif
#ifdef TEST_WITH_REMOTE
    "remote",
#endif
};

enum { DEVICES = sizeof(addresses) / sizeof(addresses[0]) };

static bool stores(kiln_device *device, kiln_dtype dtype)
{
    return (kiln_device_dtype_usage(device, dtype) & KILN_USAGE_STORAGE) != 0;
}

/// Bytes that differ from place to place; 0 and 1 for bool.
static void fill(kiln_dtype dtype, unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (unsigned char)((i * 131 + i / 4099) ^ (i >> 13));
        data[i] = dtype == KILN_DTYPE_BOOL ? data[i] & 1 : data[i];
    }
}

static bool move_one(device_set *set, uint32_t from, uint32_t to, kiln_dtype dtype, int64_t count)
{
    bool quantised = kiln_dtype_kind_of(dtype) == KILN_KIND_QUANT;
    const int64_t block = 32;
    kiln_tensor_desc desc = {.dtype = dtype, .rank = 1, .dims = {count}};
    desc.scheme = quantised ? kiln_scheme_make(KILN_DTYPE_F16, true, &block, 1) : 0;
    size_t bytes = (size_t)kiln_desc_bytes(&desc);
    unsigned char *data = malloc(bytes + 1);
    unsigned char *back = calloc(1, bytes + 1);
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    kiln_error err = KILN_ERROR_INIT;
    fill(dtype, data, bytes);
    kiln_status made =
        quantised ? kiln_tensor_create_quantised(set->devices[from], dtype, desc.scheme, 1, &count,
                                                 data, &x, &err)
                  : kiln_tensor_create(set->devices[from], dtype, 1, &count, data, &x, &err);
    bool ok = made == KILN_STATUS_OK && kiln_to_device(x, set->devices[to], &y, &err) == 0;
    kiln_release(x); // the move keeps what it needs
    ok = ok && kiln_read(y, back, bytes, &err) == 0;
    if (!ok || memcmp(data, back, bytes) != 0) {
        KILN_FAIL("%s to %s, %lld of %s: %s", addresses[from], addresses[to], (long long)count,
                  kiln_dtype_name(dtype), ok ? "other bytes" : err.message);
        ok = false;
    }
    kiln_release(y);
    free(data);
    free(back);
    return ok;
}

static void test_pairs(void)
{
    static const int64_t counts[] = {0, 1, 7, 1021};
    device_set set;
    bool ok = device_set_open(&set, addresses, DEVICES);
    for (uint32_t pair = 0; pair < DEVICES * DEVICES && ok; pair++) {
        uint32_t from = pair / DEVICES;
        uint32_t to = pair % DEVICES;
        for (int dtype = 1; dtype < KILN_DTYPE_LIMIT && ok; dtype++) {
            if (!stores(set.devices[from], (kiln_dtype)dtype) ||
                !stores(set.devices[to], (kiln_dtype)dtype)) {
                KILN_FAIL("%s is not stored by %s and %s", kiln_dtype_name((kiln_dtype)dtype),
                          addresses[from], addresses[to]);
                ok = false;
            }
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]) && ok; c++) {
                ok = move_one(&set, from, to, (kiln_dtype)dtype, counts[c]);
            }
        }
    }
    device_set_close(&set);
}

/// Several chunks, the last one odd.
static void test_long(void)
{
    device_set set;
    bool ok = device_set_open(&set, addresses, DEVICES);
    for (uint32_t pair = 0; pair < DEVICES * DEVICES && ok; pair++) {
        ok = pair / DEVICES == pair % DEVICES ||
             move_one(&set, pair / DEVICES, pair % DEVICES, KILN_DTYPE_U8, (11 << 20) + 3);
    }
    device_set_close(&set);
}

/// A value goes round all devices, each of which adds to what the one before made of it; a
/// transposed view in between. Nothing is read before the end.
static void test_program_over_all(void)
{
    enum { ROWS = 31, COLUMNS = 17 };
    device_set set;
    float data[ROWS * COLUMNS];
    float back[ROWS * COLUMNS];
    int64_t dims[] = {ROWS, COLUMNS};
    const int64_t axes[] = {1, 0};
    kiln_tensor *x = NULL;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        data[i] = (float)i;
    }
    bool ok = device_set_open(&set, addresses, DEVICES) &&
              KILN_CHECK_INT(
                  kiln_tensor_create(set.devices[0], KILN_DTYPE_F32, 2, dims, data, &x, NULL), 0);
    for (uint32_t i = 0; i < 2 * DEVICES && ok; i++) {
        kiln_tensor *here = NULL;
        kiln_tensor *more = NULL;
        kiln_tensor *turned = NULL;
        ok = KILN_CHECK_INT(kiln_to_device(x, set.devices[i % DEVICES], &here, NULL), 0) &&
             KILN_CHECK_INT(kiln_add_scalar(here, kiln_f64(i + 1), &more, NULL), 0) &&
             KILN_CHECK_INT(kiln_permute(more, axes, 2, &turned, NULL), 0);
        kiln_release(here);
        kiln_release(more);
        kiln_release(x);
        x = turned;
    }
    ok = ok && KILN_CHECK_INT(kiln_read(x, back, sizeof(back), NULL), 0);
    float sum = (float)(2 * DEVICES * (2 * DEVICES + 1) / 2);
    for (int i = 0; i < ROWS * COLUMNS && ok; i++) { // turned an even number of times
        ok = KILN_CHECK(back[i] == data[i] + sum);
    }
    kiln_release(x);
    device_set_close(&set);
}

#ifdef TEST_WITH_OPENCL
/// A chain of matrix products that takes a while; it is only queued.
static kiln_tensor *long_work(kiln_device *device)
{
    enum { SIZE = 512, PRODUCTS = 60 };
    const int64_t dims[] = {SIZE, SIZE};
    kiln_tensor *x = NULL;
    bool ok =
        KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims, NULL, &x, NULL), 0);
    for (int i = 0; i < PRODUCTS && ok; i++) {
        kiln_tensor *y = NULL;
        ok = KILN_CHECK_INT(kiln_matmul(x, x, false, false, &y, NULL), 0);
        kiln_release(x);
        x = y;
    }
    return x;
}

/// Small operations on both devices, enqueued.
static bool short_work(device_set *set)
{
    const int64_t count = 1;
    bool ok = true;
    for (int i = 0; i < 20 && ok; i++) {
        kiln_tensor *small = NULL;
        kiln_tensor *more = NULL;
        kiln_device *device = set->devices[i % 2];
        ok = KILN_CHECK_INT(kiln_tensor_create(device, KILN_DTYPE_I32, 1, &count, &i, &small, NULL),
                            0) &&
             KILN_CHECK_INT(kiln_add(small, small, &more, NULL), 0) &&
             KILN_CHECK_INT(kiln_flush(device, NULL), 0);
        kiln_release(small);
        kiln_release(more);
    }
    return ok;
}

/// Moving the result of long work neither waits nor keeps others from recording on either device.
static void test_nobody_waits(void)
{
    device_set set;
    kiln_tensor *there = NULL;
    bool ok = device_set_open(&set, &addresses[2], 2) && short_work(&set);
    kiln_tensor *warm = ok ? long_work(set.devices[0]) : NULL; // kernels are built
    KILN_CHECK_INT(ok ? kiln_sync(set.devices[0], NULL) : 1, 0);
    kiln_release(warm);
    kiln_tensor *x = ok ? long_work(set.devices[0]) : NULL;
    uint64_t begin = kiln_time_ns();
    ok = ok && KILN_CHECK_INT(kiln_to_device(x, set.devices[1], &there, NULL), 0) &&
         short_work(&set);
    uint64_t recorded = kiln_time_ns() - begin;
    float *data = ok ? malloc(kiln_tensor_bytes(there)) : NULL;
    KILN_CHECK_INT(ok ? kiln_read(there, data, kiln_tensor_bytes(there), NULL) : 1, 0);
    uint64_t all = kiln_time_ns() - begin;
    KILN_CHECK(recorded < all / 2);
    free(data);
    kiln_release(x);
    kiln_release(there);
    device_set_close(&set);
}

/// A sum of the first two devices' tensors in which the second has no part yet: the first one's
/// queue waits for it.
static kiln_collective *half_a_sum(device_set *set, kiln_tensor *x, kiln_tensor **out_sum)
{
    kiln_collective *group = NULL;
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    options.deadline_ns = 30000000000u;
    (void)(KILN_CHECK_INT(kiln_collective_create(set->devices, 2, &options, &group, NULL), 0) &&
           KILN_CHECK_INT(kiln_all_reduce(x, "sum", kiln_collective_id(group), 0, out_sum, NULL),
                          0) &&
           KILN_CHECK_INT(kiln_collective_resolve(*out_sum, NULL), 0));
    return group;
}

/// Moves behind a gate, and moves that were begun before it, keep none that could open it.
static void test_behind_a_gate(void)
{
    enum { BEFORE = 16, BYTES = 4 << 20 };
    static const char *const three[] = {"opencl:0", "opencl:1", "reference:0"};
    static unsigned char data[BYTES], back[BYTES];
    const int64_t count = BYTES;
    device_set set;
    kiln_tensor *x = NULL, *part = NULL, *sums[2] = {NULL}, *moved = NULL, *gated = NULL;
    kiln_tensor *before[BEFORE] = {NULL};
    fill(KILN_DTYPE_U8, data, BYTES);
    if (!device_set_open(&set, three, 3) ||
        !KILN_CHECK_INT(
            kiln_tensor_create(set.devices[0], KILN_DTYPE_U8, 1, &count, data, &x, NULL), 0) ||
        !KILN_CHECK_INT(
            kiln_tensor_create(set.devices[2], KILN_DTYPE_U8, 1, &count, data, &part, NULL), 0)) {
        device_set_close(&set);
        return;
    }
    for (int i = 0; i < BEFORE; i++) {
        KILN_CHECK_INT(kiln_to_device(x, set.devices[2], &before[i], NULL), 0);
    }
    uint64_t begin = kiln_time_ns();
    kiln_collective *group = half_a_sum(&set, x, &sums[0]);
    KILN_CHECK_INT(kiln_to_device(sums[0], set.devices[2], &gated, NULL), 0);
    KILN_CHECK_INT(kiln_to_device(part, set.devices[1], &moved, NULL), 0);
    KILN_CHECK_INT(kiln_all_reduce(moved, "sum", kiln_collective_id(group), 1, &sums[1], NULL), 0);
    KILN_CHECK_INT(kiln_collective_resolve(sums[1], NULL), 0);
    KILN_CHECK_INT(kiln_read(gated, back, BYTES, NULL), 0);
    KILN_CHECK(kiln_time_ns() - begin < 25000000000u); // not the deadline
    KILN_CHECK(back[7] == (unsigned char)(2 * data[7]));
    for (int i = 0; i < BEFORE; i++) {
        KILN_CHECK_INT(kiln_read(before[i], back, BYTES, NULL), 0);
        KILN_CHECK(memcmp(data, back, BYTES) == 0);
        kiln_release(before[i]);
    }
    kiln_tensor *const all[] = {x, part, sums[0], sums[1], moved, gated};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        kiln_release(all[i]);
    }
    kiln_collective_destroy(group);
    device_set_close(&set);
}

/// What comes from the host behind a gate is taken and waits there, however much it is.
static void test_uploads_behind_a_gate(void)
{
    enum { MANY = 3000, LARGE = 1 << 20, SMALL = 2000 };
    static unsigned char data[LARGE], back[LARGE];
    static kiln_tensor *small[MANY];
    const int64_t count = LARGE, some = SMALL;
    device_set set;
    kiln_tensor *x[2] = {NULL}, *sums[2] = {NULL}, *large = NULL;
    fill(KILN_DTYPE_U8, data, LARGE);
    bool ok = device_set_open(&set, &addresses[2], 2);
    for (int i = 0; i < 2 && ok; i++) {
        ok = KILN_CHECK_INT(
            kiln_tensor_create(set.devices[i], KILN_DTYPE_U8, 1, &some, data, &x[i], NULL), 0);
    }
    if (ok) {
        uint64_t begin = kiln_time_ns();
        kiln_collective *group = half_a_sum(&set, x[0], &sums[0]);
        KILN_CHECK_INT(
            kiln_tensor_create(set.devices[0], KILN_DTYPE_U8, 1, &count, data, &large, NULL), 0);
        for (int i = 0; i < MANY; i++) {
            KILN_CHECK_INT(kiln_tensor_create(set.devices[0], KILN_DTYPE_U8, 1, &some, data + i,
                                              &small[i], NULL),
                           0);
        }
        data[5] ^= 1; // it was taken
        KILN_CHECK_INT(kiln_all_reduce(x[1], "sum", kiln_collective_id(group), 1, &sums[1], NULL),
                       0);
        KILN_CHECK_INT(kiln_collective_resolve(sums[1], NULL), 0);
        KILN_CHECK_INT(kiln_read(large, back, LARGE, NULL), 0);
        KILN_CHECK(kiln_time_ns() - begin < 25000000000u); // not the deadline
        data[5] ^= 1;
        KILN_CHECK(memcmp(data, back, LARGE) == 0);
        for (int i = 0; i < MANY; i++) {
            KILN_CHECK_INT(kiln_read(small[i], back, SMALL, NULL), 0);
            KILN_CHECK(memcmp(data + i, back, SMALL) == 0);
            kiln_release(small[i]);
        }
        kiln_collective_destroy(group);
    }
    kiln_tensor *const all[] = {x[0], x[1], sums[0], sums[1], large};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        kiln_release(all[i]);
    }
    device_set_close(&set);
}
#endif

typedef struct crosser {
    device_set *set;
    uint32_t number;
    bool ok;
} crosser;

static void *cross(void *user)
{
    crosser *self = user;
    for (int round = 0; round < 30 && self->ok; round++) {
        uint32_t from = (self->number + (uint32_t)round) % DEVICES;
        uint32_t to = (self->number * 3 + (uint32_t)round * 2) % DEVICES;
        self->ok = move_one(self->set, from, to, KILN_DTYPE_I32, 5000 + round);
    }
    return NULL;
}

static void test_threads_cross(void)
{
    enum { THREADS = 6 };
    device_set set;
    pthread_t threads[THREADS];
    crosser crossers[THREADS];
    if (device_set_open(&set, addresses, DEVICES)) {
        for (uint32_t i = 0; i < THREADS; i++) {
            crossers[i] = (crosser){&set, i, true};
            KILN_CHECK_INT(pthread_create(&threads[i], NULL, cross, &crossers[i]), 0);
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            KILN_CHECK(crossers[i].ok);
        }
    }
    device_set_close(&set);
}

/// A sync of either end waits for what travels.
static void test_sync_waits(void)
{
    device_set set;
    const int64_t count = 4 << 20;
    bool ok = device_set_open(&set, addresses, DEVICES);
    for (uint32_t i = 0; i < 2 * DEVICES && ok; i++) {
        uint32_t from = i / 2;
        uint32_t to = (from + 1) % DEVICES;
        kiln_tensor *x = NULL;
        kiln_tensor *y = NULL;
        ok = KILN_CHECK_INT(
                 kiln_tensor_create(set.devices[from], KILN_DTYPE_F32, 1, &count, NULL, &x, NULL),
                 0) &&
             KILN_CHECK_INT(kiln_to_device(x, set.devices[to], &y, NULL), 0) &&
             KILN_CHECK_INT(kiln_sync(set.devices[i % 2 == 0 ? from : to], NULL), 0);
        // The source is done with a move a moment before the target is.
        ok = ok && (i % 2 == 0 || KILN_CHECK(kiln_collective_ended(y)));
        kiln_release(x);
        kiln_release(y);
    }
    device_set_close(&set);
}

enum { UNDER_WAY = 4, MOVED = 1 << 18 };

typedef struct mover_thread {
    device_set *set;
    kiln_tensor *x;
    atomic_bool *stop;
    atomic_uint *begun;
    uint64_t end_ns;
} mover_thread;

/// Begins a move before the one that was begun UNDER_WAY ago has surely ended.
static void *move_on(void *user)
{
    mover_thread *self = user;
    kiln_tensor *moved[UNDER_WAY] = {NULL};
    float *back = malloc(MOVED * sizeof(float));
    for (size_t i = 0; !atomic_load(self->stop) && kiln_time_ns() < self->end_ns; i++) {
        kiln_tensor **at = &moved[i % UNDER_WAY];
        if (*at != NULL) {
            KILN_CHECK_INT(kiln_read(*at, back, MOVED * sizeof(float), NULL), 0);
            kiln_release(*at);
        }
        KILN_CHECK_INT(kiln_to_device(self->x, self->set->devices[1], at, NULL), 0);
        atomic_fetch_add(self->begun, 1);
    }
    for (size_t i = 0; i < UNDER_WAY; i++) {
        kiln_release(moved[i]);
    }
    free(back);
    return NULL;
}

/// A sync is for what there was when it was called: others may go on moving.
static void test_sync_ends(void)
{
    enum { THREADS = 6 };
    device_set set;
    pthread_t threads[THREADS];
    atomic_bool stop = false;
    atomic_uint begun = 0;
    const int64_t count = MOVED;
    kiln_tensor *x = NULL;
    if (device_set_open(&set, addresses, 2) &&
        KILN_CHECK_INT(
            kiln_tensor_create(set.devices[0], KILN_DTYPE_F32, 1, &count, NULL, &x, NULL), 0)) {
        mover_thread self = {&set, x, &stop, &begun, kiln_time_ns() + 30000000000u};
        for (int i = 0; i < THREADS; i++) {
            KILN_CHECK_INT(pthread_create(&threads[i], NULL, move_on, &self), 0);
        }
        while (atomic_load(&begun) < 100) {
            sched_yield();
        }
        for (int i = 0; i < 10; i++) {
            KILN_CHECK_INT(kiln_sync(set.devices[i % 2], NULL), 0);
        }
        KILN_CHECK(kiln_time_ns() < self.end_ns - 10000000000u); // they have not given up
        atomic_store(&stop, true);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    kiln_release(x);
    device_set_close(&set);
}

/// Both ends are let go while bytes travel; closing the devices waits.
static void test_let_go(void)
{
    device_set set;
    const int64_t count = 3 << 20;
    bool ok = device_set_open(&set, addresses, DEVICES);
    for (uint32_t i = 0; i < DEVICES && ok; i++) {
        kiln_tensor *x = NULL;
        kiln_tensor *y = NULL;
        ok =
            KILN_CHECK_INT(
                kiln_tensor_create(set.devices[i], KILN_DTYPE_F32, 1, &count, NULL, &x, NULL), 0) &&
            KILN_CHECK_INT(kiln_to_device(x, set.devices[(i + 1) % DEVICES], &y, NULL), 0);
        kiln_release(x);
        kiln_release(y);
    }
    for (uint32_t i = 0; i < set.count; i++) {
        kiln_device_release(set.devices[i]);
        set.devices[i] = NULL;
    }
    device_set_close(&set);
}

// ---- how ----

/// One chunk is written while the next is read: a move takes much less than all its transfers one
/// after another.
static void test_chunks_overlap(void)
{
    static const char *const slow[] = {"failing:0", "failing:1"};
    static unsigned char data[36 << 20];
    static unsigned char back[36 << 20];
    const int64_t count = sizeof(data);
    device_set set;
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    fill(KILN_DTYPE_U8, data, sizeof(data));
    device_set_fail_at(0, 0, 0);
    device_set_stay_at(0);
    bool ok =
        device_set_open(&set, slow, 2) &&
        KILN_CHECK_INT(kiln_tensor_create(set.devices[0], KILN_DTYPE_U8, 1, &count, data, &x, NULL),
                       0) &&
        KILN_CHECK_INT(kiln_sync(set.devices[0], NULL), 0);
    (void)device_set_delay(40000);
    uint64_t begin = kiln_time_ns();
    if (ok && KILN_CHECK_INT(kiln_to_device(x, set.devices[1], &y, NULL), 0)) {
        KILN_CHECK_INT(kiln_sync(set.devices[1], NULL), 0);
        uint64_t took = kiln_time_ns() - begin;
        uint64_t sum = device_set_delay(0);
        KILN_CHECK(sum > 17 * 40000000u); // 9 chunks, each way
        if (took > sum * 8 / 10) {
            KILN_FAIL("the move took %llu ms, its transfers %llu ms", took / 1000000ull,
                      sum / 1000000ull);
        }
        KILN_CHECK_INT(kiln_read(y, back, sizeof(back), NULL), 0);
        KILN_CHECK(memcmp(data, back, sizeof(back)) == 0);
    }
    kiln_release(x);
    kiln_release(y);
    device_set_close(&set);
}

#ifdef TEST_WITH_OPENCL
static bool is_pinned(cl_mem memory)
{
    cl_mem_flags flags = 0;
    return memory != NULL &&
           clGetMemObjectInfo(memory, CL_MEM_FLAGS, sizeof(flags), &flags, NULL) == CL_SUCCESS &&
           (flags & CL_MEM_ALLOC_HOST_PTR) != 0;
}

/// A device is asked as one with memory of its own would be: bytes leave it and come to it through
/// two pieces or more of memory that its driver made for that, and that stays mapped.
static void test_staging_is_pinned(void)
{
    device_set set;
    uint32_t pieces = 0;
    if (device_set_open(&set, &addresses[2], 2)) {
        kilni_cl_backend *source = kilni_cl_backend_of(set.devices[0]->backend);
        kilni_cl_backend *target = kilni_cl_backend_of(set.devices[1]->backend);
        source->info.features &= ~(uint32_t)KILN_FEATURE_UNIFIED_MEMORY;
        target->info.features &= ~(uint32_t)KILN_FEATURE_UNIFIED_MEMORY;
        (void)move_one(&set, 0, 1, KILN_DTYPE_U8, (37 << 20) + 5);
        for (int i = 0; i < 2; i++) {
            KILN_CHECK(source->reader.host[i] != NULL && is_pinned(source->reader.mem[i]));
        }
        for (int i = 0; i < KILNI_CL_STAGES; i++) {
            const kilni_cl_stage *stage = &target->transfer.stages[i];
            pieces += stage->host != NULL;
            KILN_CHECK(stage->host == NULL || is_pinned(stage->mem));
        }
        KILN_CHECK(pieces >= 2);
    }
    device_set_close(&set);
}
#endif

// ---- failures ----

/// The move fails after `reads` or `uploads` chunks: the copy's first use says so, the source stays
/// readable, a later move goes through.
static void check_failing(int reads, int uploads)
{
    static const char *const source_fails[] = {"failing", "reference"};
    static const char *const target_fails[] = {"reference", "failing"};
    static unsigned char data[9 << 20];
    const int64_t count = sizeof(data);
    device_set set;
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    kiln_tensor *more = NULL;
    kiln_error err = KILN_ERROR_INIT;
    device_set_fail_at(0, 0, 0);
    bool ok = device_set_open(&set, reads > 0 ? source_fails : target_fails, 2) &&
              KILN_CHECK_INT(
                  kiln_tensor_create(set.devices[0], KILN_DTYPE_U8, 1, &count, data, &x, NULL), 0);
    device_set_fail_at(reads, uploads, 0);
    if (ok && KILN_CHECK_INT(kiln_to_device(x, set.devices[1], &y, &err), 0)) {
        KILN_CHECK_INT(kiln_read(y, data, sizeof(data), &err), KILN_STATUS_DEVICE_LOST);
        KILN_CHECK_CONTAINS(err.message, "on purpose");
        KILN_CHECK_CONTAINS(err.message, "moving 9437184 bytes from");
        KILN_CHECK_INT(kiln_add(y, y, &more, NULL), 0); // consumers inherit the failure
        KILN_CHECK_INT(kiln_read(more, data, sizeof(data), &err), KILN_STATUS_DEVICE_LOST);
        kiln_release(more);
        kiln_release(y);
        KILN_CHECK_INT(kiln_to_device(x, set.devices[1], &y, &err), 0);
        KILN_CHECK_INT(kiln_read(y, data, sizeof(data), &err), KILN_STATUS_OK);
    }
    kiln_release(x);
    kiln_release(y);
    device_set_close(&set);
}

static void test_failures(void)
{
    for (int chunk = 1; chunk <= 3; chunk++) {
        check_failing(chunk, 0);
        check_failing(0, chunk);
    }
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
#ifdef TEST_WITH_OPENCL
        KILN_TEST(test_nobody_waits),   KILN_TEST(test_staging_is_pinned),
        KILN_TEST(test_behind_a_gate),  KILN_TEST(test_uploads_behind_a_gate),
#endif
        KILN_TEST(test_chunks_overlap), KILN_TEST(test_pairs),
        KILN_TEST(test_long),           KILN_TEST(test_program_over_all),
        KILN_TEST(test_threads_cross),  KILN_TEST(test_sync_waits),
        KILN_TEST(test_let_go),         KILN_TEST(test_failures),
        KILN_TEST(test_sync_ends),
    };
    setenv("POCL_DEVICES", "pthread pthread", 1); // read once, before the first OpenCL call
    return kiln_test_run("collective/move", cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
