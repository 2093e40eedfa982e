// SPDX-License-Identifier: MIT OR Apache-2.0
// The contract of a device, whatever is behind it: names, dtypes, seed, order of reads, memory.
// Which one is tried is the argument --device=ADDRESS ("grpc:" for a server of our own), with
// --no-fusion to turn fusion off and --full-precision for a light handle of it. What a device may
// leave out is left out by its features, never by its name.
#include "harness.h"
#include "ir_view.h"
#include "kiln.h"
#ifdef KILN_TEST_WITH_REMOTE
#include "remote_grpc.h"
#include "remote_host.h"
#endif

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_context *context;
static kiln_device *device;
static bool fused;
static kiln_error err;

#define OK(call) kiln_test_check((call) == KILN_STATUS_OK, __FILE__, __LINE__, err.message)

enum { N = 1000 };
static float host[N];

static kiln_tensor *make(void)
{
    const int64_t dims[1] = {N};
    kiln_tensor *x = NULL;
    for (int i = 0; i < N; i++) {
        host[i] = (float)i;
    }
    OK(kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, host, &x, &err));
    return x;
}

/* 2 x + 1, which fuses where anything does. */
static kiln_tensor *compute(kiln_tensor *x)
{
    kiln_tensor *doubled = NULL;
    kiln_tensor *y = NULL;
    OK(kiln_mul_scalar(x, kiln_f64(2), &doubled, &err));
    OK(kiln_add_scalar(doubled, kiln_f64(1), &y, &err));
    kiln_release(doubled);
    return y;
}

static void check_computed(const float *y)
{
    for (int i = 0; i < N; i++) {
        if (y[i] != 2 * (float)i + 1) {
            KILN_FAIL("element %d is %g", i, (double)y[i]);
            return;
        }
    }
}

static kiln_backend_stats backend_stats(void)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.backend;
}

// ---- questions ----

static void test_name(void)
{
    const char *name = kiln_device_name(device);
    KILN_CHECK((strncmp(name, "fusion<", 7) == 0) == fused);
    KILN_CHECK(!fused || name[strlen(name) - 1] == '>');
    KILN_CHECK(!kiln_device_records_gradients(device));
}

static void test_dtypes(void)
{
    uint32_t both = KILN_USAGE_STORAGE | KILN_USAGE_ARITHMETIC;
    for (int d = 1; d < KILN_DTYPE_LIMIT; d++) {
        kiln_dtype dtype = (kiln_dtype)d;
        const int64_t dims[1] = {3};
        kiln_tensor *x = NULL;
        if (kiln_dtype_size(dtype) == 0) {
            continue;
        }
        uint32_t usage = kiln_device_dtype_usage(device, dtype);
        KILN_CHECK((usage & ~(both | KILN_USAGE_ACCELERATED)) == 0);
        KILN_CHECK(kiln_device_supports_dtype(device, dtype) == ((usage & both) == both));
        kiln_status status = kiln_tensor_create(device, dtype, 1, dims, NULL, &x, &err);
        bool stored = (usage & KILN_USAGE_STORAGE) != 0;
        KILN_CHECK(stored ? status == KILN_STATUS_OK : status == KILN_STATUS_UNIMPLEMENTED);
        kiln_release(x);
    }
    KILN_CHECK(kiln_device_supports_dtype(device, KILN_DTYPE_F32));
    KILN_CHECK(kiln_device_supports_dtype(device, KILN_DTYPE_I64));
    KILN_CHECK(kiln_device_dtype_usage(device, (kiln_dtype)99) == 0);
}

static void test_count(void)
{
    kiln_device_type type = kiln_device_info_of(device)->type;
    size_t count = 0;
    OK(kiln_device_count(context, type, &count, &err));
    KILN_CHECK(type == KILN_DEVICE_REMOTE || count >= 1); // of servers nobody knows how many
    OK(kiln_device_count(context, KILN_DEVICE_HOST, &count, &err));
    KILN_CHECK_INT((int64_t)count, 1);
}

// ---- order ----

static void test_seed_is_for_later(void)
{
    const int64_t dims[1] = {N};
    static float drawn[3][N];
    kiln_tensor *x[3] = {NULL};
    for (int i = 0; i < 3; i++) {
        OK(kiln_seed(device, i == 1 ? 8 : 7, &err)); // what was recorded keeps its seed
        OK(kiln_random_uniform(device, dims, 1, KILN_DTYPE_F32, kiln_f64(0), kiln_f64(1), &x[i],
                               &err));
    }
    for (int i = 0; i < 3; i++) {
        OK(kiln_read(x[i], drawn[i], sizeof(drawn[i]), &err));
        kiln_release(x[i]);
    }
    KILN_CHECK_MEM(drawn[0], drawn[2], sizeof(drawn[0]));
    KILN_CHECK(memcmp(drawn[0], drawn[1], sizeof(drawn[0])) != 0);
}

static void test_sync_submits(void)
{
    kiln_tensor *x = make();
    kiln_tensor *y = compute(x);
    uint64_t before = backend_stats().ops_executed + backend_stats().kernels_launched;
    OK(kiln_sync(device, &err));
    uint64_t after = backend_stats().ops_executed + backend_stats().kernels_launched;
    KILN_CHECK(after > before);
    kiln_tensor *z = compute(y);
    OK(kiln_flush(device, &err));
    KILN_CHECK(backend_stats().ops_executed + backend_stats().kernels_launched > after);
    static float back[N];
    OK(kiln_read(y, back, sizeof(back), &err));
    check_computed(back);
    kiln_release(x);
    kiln_release(y);
    kiln_release(z);
}

static void test_read_async(void)
{
    static float back[N];
    kiln_request *request = NULL;
    kiln_tensor *x = make();
    kiln_tensor *y = compute(x);
    OK(kiln_read_async(y, back, sizeof(back), &request, &err));
    kiln_release(y); // its place in the order is taken
    for (int i = 0; i < 20; i++) { // later work does not change what is read
        kiln_tensor *z = compute(x);
        kiln_release(x);
        x = z;
    }
    (void)kiln_request_poll(request);
    OK(kiln_request_wait(request, &err));
    KILN_CHECK(kiln_request_poll(request));
    check_computed(back);
    memset(back, 0, sizeof(back));
    OK(kiln_request_wait(request, &err)); // the result again, not the data
    KILN_CHECK(back[0] == 0);
    kiln_request_destroy(request);
    OK(kiln_flush(device, &err));
    kiln_release(x);
}

static void test_read_cancelled(void)
{
    static float back[N];
    kiln_request *request = NULL;
    kiln_tensor *x = make();
    kiln_tensor *y = compute(x);
    OK(kiln_read_async(y, back, sizeof(back), &request, &err));
    kiln_request_cancel(request);
    memset(back, 0, sizeof(back));
    KILN_CHECK(kiln_request_wait(request, &err) == KILN_STATUS_CANCELLED);
    kiln_request_destroy(request);
    OK(kiln_read_async(y, back, sizeof(back), &request, &err));
    kiln_request_destroy(request); // without waiting
    KILN_CHECK(kiln_read_async(y, back, 4, &request, &err) == KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(request == NULL);
    OK(kiln_sync(device, &err));
    for (int i = 0; i < N; i++) {
        back[i] = -1;
    }
    OK(kiln_sync(device, &err));
    KILN_CHECK(back[N - 1] == -1);
    kiln_release(x);
    kiln_release(y);
}

static void test_read_many(void)
{
    enum { COUNT = 70 };
    static float back[COUNT][N];
    kiln_tensor *tensors[COUNT];
    void *out[COUNT];
    size_t bytes[COUNT];
    kiln_tensor *x = make();
    for (int i = 0; i < COUNT; i++) {
        tensors[i] = compute(x);
        out[i] = back[i];
        bytes[i] = sizeof(back[i]);
    }
    OK(kiln_read_many(tensors, out, bytes, COUNT, &err));
    for (int i = 0; i < COUNT; i++) {
        check_computed(back[i]);
    }
    bytes[3] = 1;
    KILN_CHECK(kiln_read_many(tensors, out, bytes, COUNT, &err) == KILN_STATUS_INVALID_ARGUMENT);
    OK(kiln_read_many(NULL, NULL, NULL, 0, &err));
    for (int i = 0; i < COUNT; i++) {
        kiln_release(tensors[i]);
    }
    kiln_release(x);
}

typedef struct worker {
    atomic_int *failures;
} worker;

/* Reads and records on one device from several threads: nobody waits for ever, all are right. */
static void *read_and_record(void *user)
{
    const worker *self = user;
    float back[N];
    for (int i = 0; i < 20; i++) {
        const int64_t dims[1] = {N};
        kiln_error local = KILN_ERROR_INIT;
        kiln_tensor *x = NULL;
        kiln_tensor *y = NULL;
        bool ok = kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, host, &x, &local) ==
                      KILN_STATUS_OK &&
                  kiln_mul_scalar(x, kiln_f64(i), &y, &local) == KILN_STATUS_OK &&
                  kiln_read(y, back, sizeof(back), &local) == KILN_STATUS_OK &&
                  back[N - 1] == host[N - 1] * (float)i;
        atomic_fetch_add(self->failures, ok ? 0 : 1);
        kiln_release(x);
        kiln_release(y);
    }
    return NULL;
}

static void test_threads_read(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    atomic_int failures = 0;
    worker self = {&failures};
    kiln_release(make());
    for (int i = 0; i < THREADS; i++) {
        KILN_CHECK(pthread_create(&threads[i], NULL, read_and_record, &self) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    KILN_CHECK_INT(atomic_load(&failures), 0);
}

// ---- memory ----

static void test_staging(void)
{
    const int64_t dims[1] = {N};
    float *staged = NULL;
    kiln_tensor *x = NULL;
    void *memory = NULL;
    OK(kiln_host_alloc(device, 2 * N * sizeof(float), &memory, &err));
    staged = memory;
    for (int i = 0; i < N; i++) {
        staged[i] = (float)i;
    }
    OK(kiln_tensor_create(device, KILN_DTYPE_F32, 1, dims, staged, &x, &err));
    memset(staged, 0, N * sizeof(float)); // it was copied
    kiln_tensor *y = compute(x);
    OK(kiln_read(y, staged + N, N * sizeof(float), &err));
    check_computed(staged + N);
    kiln_host_free(device, memory);
    kiln_host_free(device, NULL);
    kiln_release(x);
    kiln_release(y);
}

static void test_persistent(void)
{
    static float back[N];
    OK(kiln_sync(device, &err));
    kiln_device_trim(device);
    kiln_backend_stats before = backend_stats();
    OK(kiln_persistent_begin(device, &err));
    OK(kiln_persistent_begin(device, &err));
    kiln_tensor *x = make();
    kiln_tensor *y = compute(x);
    OK(kiln_persistent_end(device, &err));
    OK(kiln_persistent_end(device, &err));
    KILN_CHECK(kiln_persistent_end(device, &err) == KILN_STATUS_FAILED_PRECONDITION);
    kiln_backend_stats inside = backend_stats();
    KILN_CHECK_INT((int64_t)(inside.bytes_used - before.bytes_used), 2 * N * 4);
    if (kiln_device_info_of(device)->type != KILN_DEVICE_REMOTE) { // that pool is the server's
        KILN_CHECK(inside.bytes_pooled - before.bytes_pooled >= 2 * N * 4);
    }
    OK(kiln_read(y, back, sizeof(back), &err));
    check_computed(back);
    kiln_release(x);
    kiln_release(y);
    OK(kiln_sync(device, &err));
    kiln_device_trim(device);
    KILN_CHECK_INT((int64_t)backend_stats().bytes_used, (int64_t)before.bytes_used);
    KILN_CHECK_INT((int64_t)backend_stats().bytes_pooled, (int64_t)before.bytes_pooled);
}

static atomic_int released;

static void count_release(void *user)
{
    (void)user;
    atomic_fetch_add(&released, 1);
}

static void test_wrap(void)
{
    const int64_t dims[1] = {N};
    static float back[N];
    float *memory = aligned_alloc(4096, 8192);
    kiln_tensor *x = NULL;
    if (!KILN_CHECK(memory != NULL)) {
        return;
    }
    for (int i = 0; i < N; i++) {
        memory[i] = (float)i;
    }
    atomic_store(&released, 0);
    OK(kiln_tensor_wrap(device, KILN_DTYPE_F32, 1, dims, memory, count_release, NULL, &x, &err));
    kiln_tensor *y = compute(x);
    kiln_release(x); // its last use could be in place, were it not the caller's memory
    OK(kiln_read(y, back, sizeof(back), &err));
    check_computed(back);
    kiln_release(y);
    OK(kiln_sync(device, &err));
    KILN_CHECK_INT(atomic_load(&released), 1);
    KILN_CHECK(memory[N - 1] == N - 1);
    OK(kiln_tensor_wrap(device, KILN_DTYPE_F32, 1, dims, memory + 1, NULL, NULL, &x, &err));
    OK(kiln_read(x, back, sizeof(back), &err)); // not aligned: a copy
    KILN_CHECK(back[0] == 1);
    kiln_release(x);
    OK(kiln_sync(device, &err));
    free(memory);
}

static void note_copied(void *user, size_t offset, size_t bytes)
{
    (void)user;
    KILN_CHECK(offset + bytes <= sizeof(float) * N);
}

static void read_made(void *user, size_t offset, size_t bytes, void *out)
{
    memcpy(out, (const unsigned char *)user + offset, bytes);
}

/// A constant in the caller's memory, at an address that no device would take, computes and reads
/// like any other, and moves. `made`: what lies there is something else, and a function reads it.
static void wrap_constant(bool made)
{
    const int64_t dims[1] = {N};
    static float values[N], back[N];
    unsigned char *memory = malloc(sizeof(values) + 1);
    kiln_constant_memory lent = KILN_CONSTANT_MEMORY_INIT;
    kiln_tensor *x = NULL, *moved = NULL;
    for (int i = 0; i < N; i++) {
        values[i] = (float)i;
    }
    memset(memory, 0xee, sizeof(values) + 1);
    if (made) {
        lent.read = read_made;
        lent.user = values;
    } else {
        memcpy(memory + 1, values, sizeof(values));
    }
    lent.bytes = memory + 1;
    lent.copied = note_copied;
    lent.release = count_release;
    atomic_store(&released, 0);
    OK(kiln_tensor_wrap_constant(device, KILN_DTYPE_F32, 1, dims, &lent, &x, &err));
    OK(kiln_read(x, back, sizeof(back), &err));
    KILN_CHECK_MEM(back, values, sizeof(values));
    kiln_tensor *y = compute(x);
    OK(kiln_to_device(x, device, &moved, &err));
    kiln_release(x);
    OK(kiln_read(y, back, sizeof(back), &err));
    check_computed(back);
    kiln_release(y);
    OK(kiln_read(moved, back, sizeof(back), &err));
    KILN_CHECK_MEM(back, values, sizeof(values));
    kiln_release(moved);
    OK(kiln_sync(device, &err));
    KILN_CHECK_INT(atomic_load(&released), 1);
    lent.bytes = NULL;
    KILN_CHECK_INT(kiln_tensor_wrap_constant(device, KILN_DTYPE_F32, 1, dims, &lent, &x, NULL),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(x == NULL);
    free(memory);
}

static void test_wrap_constant(void)
{
    wrap_constant(false);
    wrap_constant(true);
}

static void test_map(void)
{
    const void *data = NULL;
    kiln_mapping *mapping = NULL;
    kiln_tensor *x = make();
    kiln_tensor *y = compute(x);
    OK(kiln_tensor_map(y, &data, &mapping, &err));
    kiln_release(y); // the mapping keeps it
    kiln_tensor *z = compute(x);
    OK(kiln_sync(device, &err));
    if (data != NULL) {
        check_computed(data);
    }
    kiln_mapping_release(mapping);
    kiln_mapping_release(NULL);
    kiln_release(x);
    kiln_release(z);
}

static void test_handles(void)
{
    static float back[N];
    static uint8_t truths[N];
    kiln_handle *handle = NULL;
    kiln_tensor *again = NULL;
    kiln_tensor *x = make();
    kiln_tensor *y = compute(x);
    kiln_tensor *mask = NULL;
    KILN_CHECK(kiln_tensor_to_handle(y, KILN_HANDLE_INT, &handle, &err) ==
               KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(kiln_tensor_to_handle(y, KILN_HANDLE_QUANTISED, &handle, &err) ==
               KILN_STATUS_INVALID_ARGUMENT);
    OK(kiln_tensor_to_handle(y, KILN_HANDLE_FLOAT, &handle, &err));
    kiln_release(y);
    KILN_CHECK_INT((int64_t)kiln_handle_view(handle)->dims[0], N);
    KILN_CHECK(kiln_tensor_from_handle(handle, KILN_HANDLE_BOOL, &again, &err) ==
               KILN_STATUS_INVALID_ARGUMENT);
    OK(kiln_tensor_from_handle(handle, KILN_HANDLE_FLOAT, &again, &err));
    kiln_handle_release(handle);
    OK(kiln_read(again, back, sizeof(back), &err));
    check_computed(back);
    OK(kiln_greater_scalar(again, kiln_f64(99), &mask, &err));
    OK(kiln_tensor_to_handle(mask, KILN_HANDLE_BOOL, &handle, &err));
    kiln_release(mask);
    OK(kiln_tensor_from_handle(handle, KILN_HANDLE_BOOL, &mask, &err));
    kiln_handle_release(handle);
    OK(kiln_read(mask, truths, sizeof(truths), &err));
    KILN_CHECK(truths[49] == 0 && truths[50] == 1);
    kiln_release(mask);
    kiln_release(again);
    kiln_release(x);
}

/* As a handle of its kind and back; as one of another kind it is refused both ways. */
static kiln_tensor *through_handle(kiln_tensor *x, kiln_handle_kind kind, kiln_handle_kind wrong)
{
    kiln_handle *handle = NULL;
    kiln_tensor *again = NULL;
    KILN_CHECK_INT(kiln_tensor_to_handle(x, wrong, &handle, &err), KILN_STATUS_INVALID_ARGUMENT);
    OK(kiln_tensor_to_handle(x, kind, &handle, &err));
    kiln_release(x);
    KILN_CHECK_INT(kiln_tensor_from_handle(handle, wrong, &again, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    OK(kiln_tensor_from_handle(handle, kind, &again, &err));
    kiln_handle_release(handle);
    return again;
}

static void test_integer_handles(void)
{
    static int64_t back[N];
    kiln_tensor *x = make();
    kiln_tensor *y = compute(x);
    kiln_tensor *whole = NULL;
    OK(kiln_cast(y, KILN_DTYPE_I64, &whole, &err));
    whole = through_handle(whole, KILN_HANDLE_INT, KILN_HANDLE_FLOAT);
    OK(kiln_read(whole, back, sizeof(back), &err));
    for (int i = 0; i < N; i++) {
        if (!KILN_CHECK_INT(back[i], 2 * i + 1)) {
            break;
        }
    }
    kiln_release(whole);
    kiln_release(y);
    kiln_release(x);
}

static void test_quantised_handles(void)
{
    static float back[2][N];
    const int64_t blocks[1] = {128};
    kiln_tensor *x = make();
    kiln_tensor *packed = NULL;
    OK(kiln_quantize_dynamic(x, KILN_DTYPE_Q8S, blocks, 1, KILN_DTYPE_F32, "min_max", &packed,
                             &err));
    for (int i = 0; i < 2; i++) {
        kiln_tensor *plain = NULL;
        OK(kiln_dequantize(packed, KILN_DTYPE_F32, &plain, &err));
        OK(kiln_read(plain, back[i], sizeof(back[i]), &err));
        kiln_release(plain);
        packed = i == 0 ? through_handle(packed, KILN_HANDLE_QUANTISED, KILN_HANDLE_INT) : packed;
    }
    KILN_CHECK_MEM(back[0], back[1], sizeof(back[0]));
    KILN_CHECK_NEAR(back[1][N - 1], N - 1, N / 127.0);
    kiln_release(packed);
    kiln_release(x);
}

static void test_nothing_is_left(void)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    OK(kiln_sync(device, &err));
    kiln_device_trim(device);
    kiln_device_stats_get(device, &stats);
    KILN_CHECK_INT((int64_t)stats.tensors_live, 0);
    KILN_CHECK_INT((int64_t)stats.backend.buffers_live, 0);
    KILN_CHECK_INT((int64_t)stats.backend.bytes_used, 0);
    KILN_CHECK_INT((int64_t)stats.backend.bytes_pooled, 0);
}

// ---- which device ----

/* Instead of the device its handle in full precision, which is all of it too. */
static kiln_status open_full(const char *address)
{
    kiln_device_options options = KILN_DEVICE_OPTIONS_INIT;
    kiln_device *narrow = NULL;
    options.float_dtype = KILN_DTYPE_F16;
    kiln_status status = kiln_device_open_with(context, address, &options, &narrow, &err);
    if (status == KILN_STATUS_OK) {
        status = kiln_device_full_precision(narrow, &device, &err);
    }
    kiln_device_release(narrow);
    return status;
}

static kiln_status open_device(const char *address, bool fuse, bool full)
{
    kiln_status status = kiln_context_create(NULL, &context, &err);
#ifdef KILN_TEST_WITH_REMOTE
    if (status == KILN_STATUS_OK && strcmp(address, "grpc:") == 0) {
        address = remote_host_start(&err);
        status = address != NULL ? kiln_context_add_provider(context, kiln_rpc_provider(), &err)
                                 : (kiln_status)err.code;
    }
#endif
    if (status == KILN_STATUS_OK) {
        status = full ? open_full(address) : kiln_device_open(context, address, &device, &err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    fused = (kiln_device_info_of(device)->features & KILN_FEATURE_PROGRAMS) != 0 && fuse;
    return fuse || (kiln_device_info_of(device)->features & KILN_FEATURE_PROGRAMS) == 0
               ? KILN_STATUS_OK
               : kiln_device_set_fusion(device, false, &err);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST(test_name),
        KILN_TEST(test_dtypes),
        KILN_TEST(test_count),
        KILN_TEST(test_seed_is_for_later),
        KILN_TEST(test_sync_submits),
        KILN_TEST(test_read_async),
        KILN_TEST(test_read_cancelled),
        KILN_TEST(test_read_many),
        KILN_TEST(test_threads_read),
        KILN_TEST(test_staging),
        KILN_TEST(test_persistent),
        KILN_TEST(test_wrap),
        KILN_TEST(test_wrap_constant),
        KILN_TEST(test_map),
        KILN_TEST(test_handles),
        KILN_TEST(test_integer_handles),
        KILN_TEST(test_quantised_handles),
        KILN_TEST(test_nothing_is_left),
    };
    const char *address = "reference";
    char suite[96];
    bool fuse = true;
    bool full = false;
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--device=", 9) == 0) {
            address = argv[i] + 9;
        } else if (strcmp(argv[i], "--no-fusion") == 0) {
            fuse = false;
        } else if (strcmp(argv[i], "--full-precision") == 0) {
            full = true;
        } else {
            argv[kept++] = argv[i];
        }
    }
    kiln_status status = open_device(address, fuse, full);
    if (status == KILN_STATUS_NOT_FOUND && strncmp(address, "opencl", 6) == 0) {
        printf("SKIP contract/%s: %s\nkiln-test: 0 passed, 0 failed, 1 skipped\n", address,
               err.message);
        return 0;
    }
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "contract: %s: %s\n", address, err.message);
        return 3;
    }
    snprintf(suite, sizeof(suite), "contract/%s", kiln_device_name(device));
    int failures = kiln_test_run(suite, cases, sizeof(cases) / sizeof(cases[0]), kept, argv);
    kiln_device_release(device);
    kiln_context_destroy(context);
#ifdef KILN_TEST_WITH_REMOTE
    remote_host_stop();
#endif
    return failures;
}
