// SPDX-License-Identifier: MIT OR Apache-2.0
// The contract of each table of a backend, on the backend named by --backend=ADDRESS: "grpc:" is a
// server of our own, "least:" the reference with a default wherever there is one and without the
// tables that may be absent. What an entry may refuse it refuses with UNIMPLEMENTED only.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness.h"
#include "ir.h"
#ifdef KILN_TEST_WITH_CL
#include "cl_backend.h"
#endif
#ifdef KILN_TEST_WITH_REMOTE
#include "remote_grpc.h"
#include "remote_host.h"
#endif

enum { N = 256 };
static kiln_env env;
static kiln_backend *tested;
static bool computes; ///< all but the null backend
static float numbers[N];
static kiln_error err;

#define OK(call) kiln_test_check((call) == KILN_STATUS_OK, __FILE__, __LINE__, err.message)

/// Whether it worked; that it may refuse.
static bool worked(kiln_status status)
{
    kiln_test_check(status == KILN_STATUS_OK || status == KILN_STATUS_UNIMPLEMENTED, __FILE__,
                    __LINE__, err.message);
    return status == KILN_STATUS_OK;
}

static kiln_buffer *filled(void)
{
    kiln_buffer *buffer = NULL;
    OK(tested->memory->alloc(tested, sizeof(numbers), &buffer, &err));
    OK(tested->transfer->upload(tested, buffer, 0, numbers, sizeof(numbers), &err));
    return buffer;
}

static void check_holds(kiln_buffer *buffer, float factor)
{
    float now[N] = {0};
    OK(tested->transfer->read(tested, buffer, 0, now, sizeof(now), &err));
    for (int i = 0; i < N && computes; i++) {
        if (now[i] != numbers[i] * factor) {
            KILN_FAIL("number %d is %g", i, (double)now[i]);
            return;
        }
    }
}

static void negate(kiln_buffer *from, kiln_buffer *to)
{
    const kiln_tensor_desc x = {.id = 1, .dtype = KILN_DTYPE_F32, .rank = 1, .dims = {N}};
    kiln_tensor_desc y = x;
    y.id = 2;
    const kiln_op_record neg = {
        .op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 1, .inputs = &x, .outputs = &y};
    const kiln_view input = kiln_view_dense(&x, from);
    const kiln_view output = kiln_view_dense(&y, to);
    KILN_CHECK(tested->device->runs(tested, &neg));
    OK(tested->device->execute(tested, &neg, &input, &output, &err));
}

// ---- all tables ----

static void test_whole(void)
{
    OK(kiln_backend_check(tested, &err));
}

/// One table with entry `hole` NULL; false past its last entry.
static bool refuses_hole(size_t member, const char *name, size_t hole, size_t size)
{
    const size_t entry = sizeof(void (*)(void));
    kiln_backend holed = *tested;
    const void *table = NULL;
    unsigned char copy[512];
    memcpy(&table, (const char *)tested + member, sizeof(table));
    if (table == NULL || (hole + 1) * entry >= size || size > sizeof(copy)) {
        KILN_CHECK(size <= sizeof(copy));
        return false;
    }
    memcpy(copy, table, size);
    memset(copy + (hole + 1) * entry, 0, entry);
    table = copy;
    memcpy((char *)&holed + member, &table, sizeof(table));
    KILN_CHECK_INT(kiln_backend_check(&holed, &err), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(strstr(err.message, name) != NULL);
    return true;
}

#define HOLES(member)                                                                              \
    for (size_t i = 0;                                                                             \
         refuses_hole(offsetof(kiln_backend, member), #member, i, sizeof(*tested->member)); i++) { \
    }

static void test_holes_are_refused(void)
{
    HOLES(device)
    HOLES(memory)
    HOLES(transfer)
    HOLES(program)
    HOLES(arena)
    HOLES(queue)
    HOLES(peer)
    HOLES(trace)
}

static void test_tables_that_are_needed(void)
{
    kiln_backend lacks[6] = {*tested, *tested, *tested, *tested, *tested, *tested};
    kiln_backend_memory_ops of_before = *tested->memory;
    of_before.struct_size -= (uint32_t)sizeof(void (*)(void));
    lacks[0].device = NULL;
    lacks[1].memory = NULL;
    lacks[2].transfer = NULL;
    lacks[3].trace = NULL;
    lacks[4].struct_size = 0;
    lacks[5].memory = &of_before;
    for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
        KILN_CHECK_INT(kiln_backend_check(&lacks[i], &err), KILN_STATUS_INVALID_ARGUMENT);
    }
}

// ---- device ----

static void test_device(void)
{
    const kiln_device_info *info = tested->device->info(tested);
    kiln_backend_stats before, after;
    kiln_buffer *from = filled();
    kiln_buffer *to = NULL;
    KILN_CHECK(info->name != NULL && info->type != 0 && info->memory_align > 0);
    KILN_CHECK((tested->device->dtype_usage(tested, KILN_DTYPE_F32) & KILN_USAGE_STORAGE) != 0);
    KILN_CHECK_INT(tested->device->dtype_usage(tested, (kiln_dtype)KILN_DTYPE_NONE), 0);
    OK(tested->memory->alloc(tested, sizeof(numbers), &to, &err));
    tested->device->stats(tested, &before);
    negate(from, to);
    OK(tested->device->flush(tested, &err));
    OK(tested->device->sync(tested, &err));
    tested->device->stats(tested, &after);
    KILN_CHECK_INT(after.ops_executed, before.ops_executed + 1);
    check_holds(to, -1);
    check_holds(from, 1);
    tested->memory->free(tested, from);
    tested->memory->free(tested, to);
    tested->device->close(NULL);
}

// ---- memory ----

static void test_memory(void)
{
    kiln_backend_stats before, now;
    kiln_buffer *pooled = NULL;
    kiln_buffer *lasting = NULL;
    tested->device->stats(tested, &before);
    OK(tested->memory->alloc(tested, 1000, &pooled, &err));
    OK(tested->memory->alloc_persistent(tested, 1000, &lasting, &err));
    KILN_CHECK(pooled != lasting);
    tested->device->stats(tested, &now);
    KILN_CHECK_INT(now.buffers_live, before.buffers_live + 2);
    KILN_CHECK(now.bytes_peak >= before.bytes_used + 2000);
    tested->memory->free(tested, pooled);
    tested->memory->free(tested, lasting);
    tested->memory->free(tested, NULL);
    tested->memory->trim(tested);
    tested->memory->reset_peaks(tested);
    tested->device->stats(tested, &now);
    KILN_CHECK_INT(now.buffers_live, before.buffers_live);
    KILN_CHECK_INT(now.bytes_used, before.bytes_used);
}

static void test_budget(void)
{
    kiln_backend_stats stats;
    if (!worked(tested->memory->set_budget(tested, 4096, &err))) {
        return;
    }
    kiln_buffer *buffer = NULL;
    tested->memory->trim(tested);
    tested->device->stats(tested, &stats);
    KILN_CHECK_INT(stats.bytes_budget, 4096);
    KILN_CHECK_INT(tested->memory->alloc(tested, 1 << 20, &buffer, &err),
                   KILN_STATUS_RESOURCE_EXHAUSTED);
    OK(tested->memory->set_budget(tested, 0, &err));
    OK(tested->memory->alloc(tested, 1 << 20, &buffer, &err));
    tested->memory->free(tested, buffer);
}

static void count(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static void test_host_memory(void)
{
    void *memory = NULL;
    kiln_buffer *buffer = NULL;
    atomic_int released = 0;
    OK(tested->memory->host_alloc(tested, sizeof(numbers), &memory, &err));
    memset(memory, 1, sizeof(numbers));
    tested->memory->host_free(tested, memory);
    OK(tested->memory->host_alloc(tested, 0, &memory, &err));
    KILN_CHECK(memory != NULL);
    tested->memory->host_free(tested, memory);
    memory = aligned_alloc(4096, 4096);
    memcpy(memory, numbers, sizeof(numbers));
    if (worked(tested->memory->wrap_host(tested, memory, sizeof(numbers), count, &released, &buffer,
                                         &err))) {
        check_holds(buffer, 1);
        KILN_CHECK_INT(atomic_load(&released), 0);
        tested->memory->free(tested, buffer);
        OK(tested->device->sync(tested, &err));
        KILN_CHECK_INT(atomic_load(&released), 1);
    } else {
        KILN_CHECK(buffer == NULL);
        KILN_CHECK_INT(atomic_load(&released), 0);
    }
    free(memory);
}

static void note_copied(void *user, size_t offset, size_t bytes)
{
    (void)user;
    KILN_CHECK(offset + bytes <= sizeof(numbers));
}

/// A buffer of constants that lie in the host's memory: there when it is used, and read anyway.
static void origin_at(size_t misaligned)
{
    kiln_buffer *buffer = NULL;
    atomic_int released = 0;
    unsigned char *memory = aligned_alloc(4096, 8192);
    memcpy(memory + misaligned, numbers, sizeof(numbers));
    const kiln_host_origin origin = {
        .memory = memory + misaligned, .copied = note_copied, .release = count, .user = &released};
    kiln_backend_stats before, after;
    tested->device->stats(tested, &before);
    if (!worked(tested->memory->alloc_from(tested, &origin, sizeof(numbers), &buffer, &err))) {
        KILN_CHECK(buffer == NULL);
        KILN_CHECK_INT(atomic_load(&released), 0);
        free(memory);
        return;
    }
    kiln_buffer *to = NULL;
    OK(tested->memory->alloc(tested, sizeof(numbers), &to, &err));
    for (int i = 0; i < 3; i++) {
        check_holds(buffer, 1);
        negate(buffer, to);
        check_holds(to, -1);
        KILN_CHECK(tested->memory->resides(tested, buffer));
        OK(tested->transfer->copy(tested, buffer, 0, to, 0, sizeof(numbers), &err));
        OK(tested->memory->reside(tested, buffer, /*there=*/false, &err));
        check_holds(to, 1);
        check_holds(buffer, 1);
    }
    OK(tested->memory->reside(tested, buffer, /*there=*/true, &err));
    KILN_CHECK(tested->memory->resides(tested, buffer));
    KILN_CHECK_INT(atomic_load(&released), 0);
    tested->memory->free(tested, buffer);
    tested->memory->free(tested, to);
    OK(tested->device->sync(tested, &err));
    KILN_CHECK_INT(atomic_load(&released), 1);
    tested->device->stats(tested, &after);
    KILN_CHECK_INT(after.bytes_used, before.bytes_used);
    free(memory);
}

static void test_origins(void)
{
    kiln_buffer *buffer = filled();
    OK(tested->memory->reside(tested, buffer, /*there=*/false, &err)); // it is nowhere else
    KILN_CHECK(tested->memory->resides(tested, buffer));
    check_holds(buffer, 1);
    tested->memory->free(tested, buffer);
    origin_at(0);
    origin_at(4);
    origin_at(1);
}

static void test_map(void)
{
    kiln_buffer *buffer = filled();
    const void *data = NULL;
    OK(tested->device->sync(tested, &err));
    if (worked(tested->memory->map(tested, buffer, 64, sizeof(numbers) - 64, &data, &err))) {
        KILN_CHECK_MEM(data, numbers + 16, sizeof(numbers) - 64);
        tested->memory->unmap(tested, buffer, data);
    }
    tested->memory->free(tested, buffer);
}

// ---- transfer ----

static void test_transfer(void)
{
    const float few[2] = {-5, -6};
    float now[N];
    kiln_buffer *a = filled();
    kiln_buffer *b = filled();
    OK(tested->transfer->upload(tested, a, 8, few, sizeof(few), &err));
    OK(tested->transfer->copy(tested, a, 8, b, 16, sizeof(few), &err));
    OK(tested->transfer->copy(tested, a, 0, b, 0, 0, &err));
    OK(tested->transfer->read(tested, b, 12, now, 5 * sizeof(float), &err));
    const float expected[5] = {numbers[3], -5, -6, numbers[6], numbers[7]};
    KILN_CHECK_MEM(now, expected, sizeof(expected));
    tested->memory->free(tested, a);
    tested->memory->free(tested, b);
}

static void test_read_in_parts(void)
{
    float now[N] = {0};
    kiln_pending *pending = NULL;
    kiln_buffer *buffer = filled();
    OK(tested->transfer->read_begin(tested, buffer, 0, now, sizeof(now), &pending, &err));
    if (pending != NULL) {
        (void)tested->transfer->read_poll(pending);
        tested->transfer->read_wait(pending, /*cancel=*/false);
        KILN_CHECK(tested->transfer->read_poll(pending));
        OK(tested->transfer->read_end(tested, pending, &err));
    }
    KILN_CHECK_MEM(now, numbers, sizeof(now));
    pending = NULL;
    OK(tested->transfer->read_begin(tested, NULL, 0, NULL, 0, &pending, &err));
    if (pending != NULL) {
        tested->transfer->read_wait(pending, /*cancel=*/false);
        OK(tested->transfer->read_end(tested, pending, &err));
    }
    pending = NULL;
    OK(tested->transfer->read_begin(tested, buffer, 0, now, sizeof(now), &pending, &err));
    if (pending != NULL) {
        tested->transfer->read_wait(pending, /*cancel=*/true);
        (void)!tested->transfer->read_end(tested, pending, &err);
    }
    tested->memory->free(tested, buffer);
}

/// The defaults are never given anything to wait for; still they are there to be called.
static void test_default_read(void)
{
    if (tested->transfer->read_begin == kiln_backend_read_at_once) {
        KILN_CHECK(tested->transfer->read_poll(NULL));
        tested->transfer->read_wait(NULL, /*cancel=*/false);
        OK(tested->transfer->read_end(tested, NULL, &err));
    }
}

// ---- program ----

static void run_program(kiln_built *built)
{
    kiln_buffer *buffer = filled();
    const kiln_launch_arg arg = {.kind = KILN_VALUE_BUFFER, .buffer = buffer};
    kiln_launch launch = {.n_dims = 1, .global = {N, 1, 1}, .args = &arg, .n_args = 1};
    uint64_t ns = 0;
    OK(tested->program->launch(tested, built, &launch, &err));
    check_holds(buffer, 2);
    OK(tested->program->time(tested, built, &launch, &ns, &err));
    check_holds(buffer, 4);
    launch.launch = 1;
    KILN_CHECK_INT(tested->program->launch(tested, built, &launch, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    tested->memory->free(tested, buffer);
}

static void see_part(uint32_t source, const char *options, const void *binary, size_t bytes,
                     void *user)
{
    KILN_CHECK_INT(source, 0);
    KILN_CHECK(options != NULL && binary != NULL && bytes > 0);
    ++*(int *)user;
}

static void test_program(void)
{
    static const char text[] =
        "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }\n";
    const kiln_program_source source = {
        .format = KILN_SOURCE_OPENCL_C, .code = text, .length = sizeof(text) - 1};
    static const kiln_program_arg arg;
    const kiln_program_launch twice = {.kernel = "twice", .n_dims = 1, .args = &arg, .n_args = 1};
    const kiln_program program = {.key = kiln_hash_bytes(text, sizeof(text)),
                                  .sources = &source,
                                  .n_sources = 1,
                                  .launches = &twice,
                                  .n_launches = 1};
    kiln_built *built = NULL;
    int parts = 0;
    if (tested->program == NULL) {
        KILN_CHECK((tested->device->info(tested)->features & KILN_FEATURE_PROGRAMS) == 0);
        return;
    }
    OK(tested->program->ready(tested, &program, &err));
    OK(tested->program->build(tested, &program, &built, &err));
    run_program(built);
    KILN_CHECK(tested->program->compiles(tested, /*ask=*/true));
    if (worked(tested->program->parts(tested, &program, see_part, &parts, &err))) {
        KILN_CHECK_INT(parts, 1);
    }
    tested->program->free(tested, built);
    tested->program->free(tested, NULL);
}

// ---- arena ----

static void test_arena(void)
{
    kiln_buffer *arena = NULL;
    kiln_buffer *part = NULL;
    const uint64_t *lengths = NULL;
    size_t align = tested->device->info(tested)->memory_align;
    if (tested->arena == NULL) {
        return;
    }
    if (worked(tested->arena->alloc(tested, align + sizeof(numbers), &arena, &err)) &&
        worked(tested->arena->sub_buffer(tested, arena, align, sizeof(numbers), &part, &err))) {
        float now[N];
        OK(tested->transfer->upload(tested, part, 0, numbers, sizeof(numbers), &err));
        OK(tested->transfer->read(tested, arena, align, now, sizeof(now), &err));
        KILN_CHECK_MEM(now, numbers, sizeof(now));
    }
    tested->memory->free(tested, part);
    tested->memory->free(tested, arena);
    tested->arena->lend(tested, NULL, 0);
    kiln_buffer *x = filled();
    negate(x, x);
    KILN_CHECK_INT(tested->arena->asked(tested, &lengths), 0);
    check_holds(x, -1);
    tested->memory->free(tested, x);
}

// ---- queue ----

static void note(kiln_status status, void *user)
{
    atomic_store((atomic_int *)user, (int)status + 1);
}

static void test_events(void)
{
    kiln_event *gate = NULL;
    kiln_event *marker = NULL;
    atomic_int seen = 0;
    if (tested->queue == NULL) {
        return;
    }
    OK(tested->queue->user_event(tested, &gate, &err));
    OK(tested->queue->marker(tested, &marker, &err));
    OK(tested->queue->event_after(marker, note, &seen, &err));
    OK(tested->device->flush(tested, &err));
    KILN_CHECK_INT(atomic_load(&seen), 0);
    tested->queue->event_signal(gate, KILN_STATUS_OK);
    OK(tested->queue->event_wait(marker, &err));
    OK(tested->device->sync(tested, &err));
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 5000 && atomic_load(&seen) == 0; i++) {
        nanosleep(&pause, NULL);
    }
    KILN_CHECK_INT(atomic_load(&seen), KILN_STATUS_OK + 1);
    tested->queue->event_destroy(marker);
    tested->queue->event_destroy(gate);
}

/// What the host finds without a command is what kernels work on. The buffer holds the numbers.
static void look_there(kiln_buffer *buffer)
{
    float *there = tested->queue->host_address(tested, buffer);
    if (there == NULL) {
        return;
    }
    negate(buffer, buffer);
    OK(tested->device->sync(tested, &err));
    for (int i = 0; i < N; i++) {
        KILN_CHECK(there[i] == -numbers[i]);
        there[i] = numbers[i];
    }
    negate(buffer, buffer);
    check_holds(buffer, -1);
}

static void test_queue_memory(void)
{
    kiln_event *marker = NULL;
    kiln_backend *other = NULL;
    float now[N];
    void *mapped = NULL;
    if (tested->queue == NULL) {
        return;
    }
    kiln_buffer *buffer = filled();
    OK(tested->queue->write(tested, buffer, 4, numbers, 8, &err));
    OK(tested->queue->marker(tested, &marker, &err));
    OK(tested->queue->event_wait(marker, &err));
    tested->queue->event_destroy(marker);
    OK(tested->queue->map(tested, buffer, 0, 16, KILN_MAP_READ | KILN_MAP_WRITE, &mapped, &err));
    KILN_CHECK_MEM((const char *)mapped + 4, numbers, 8);
    memcpy(mapped, numbers, 16);
    OK(tested->queue->unmap(tested, buffer, mapped, &err));
    OK(tested->device->sync(tested, &err));
    OK(tested->queue->open_auxiliary(tested, &other, &err));
    OK(kiln_backend_check(other, &err));
    OK(other->transfer->read(other, buffer, 0, now, sizeof(now), &err));
    KILN_CHECK_MEM(now, numbers, sizeof(now));
    other->device->close(other);
    look_there(buffer);
    tested->memory->free(tested, buffer);
}

// ---- peer ----

static void test_peer(void)
{
    kiln_transfer transfer = {0};
    if (tested->peer == NULL) {
        return;
    }
    kiln_buffer *from = filled();
    kiln_buffer *to = NULL;
    OK(tested->memory->alloc(tested, sizeof(numbers), &to, &err));
    OK(tested->peer->identify(tested, &transfer, &err));
    if (worked(tested->peer->expose(tested, from, &transfer, &err))) {
        KILN_CHECK_INT(transfer.bytes, sizeof(numbers));
        kiln_status status = tested->peer->obtain(tested, to, &transfer, &err);
        if (status == KILN_STATUS_OK) {
            check_holds(to, 1);
        } else {
            KILN_CHECK_INT(status, KILN_STATUS_PERMISSION_DENIED);
            tested->peer->withdraw(tested, &transfer);
        }
    }
    if (worked(tested->peer->expose(tested, from, &transfer, &err))) {
        tested->peer->withdraw(tested, &transfer);
    }
    tested->memory->free(tested, from);
    tested->memory->free(tested, to);
}

// ---- trace ----

static void see_span(const kiln_device_span *span, void *user)
{
    KILN_CHECK_INT(span->tag, 7);
    KILN_CHECK(span->name[0] != '\0' && span->start_ns <= span->end_ns);
    ++*(int *)user;
}

static void test_trace(void)
{
    int spans = 0;
    uint64_t lost = 1;
    kiln_buffer *buffer = filled();
    OK(tested->trace->set(tested, true, &err));
    tested->trace->tag(tested, 7);
    negate(buffer, buffer);
    OK(tested->trace->take(tested, see_span, &spans, &lost, &err));
    KILN_CHECK_INT(lost, 0);
    KILN_CHECK_INT(spans > 0, tested->trace != &kiln_backend_no_trace);
    tested->trace->tag(tested, 0);
    OK(tested->trace->set(tested, false, &err));
    check_holds(buffer, -1);
    tested->memory->free(tested, buffer);
}

// ---- the backend ----

static kiln_status open_least(const kiln_env *given, const char *address,
                              kiln_backend **out_backend, kiln_error *out_err, void *user)
{
    static kiln_backend_memory_ops memory;
    static kiln_backend_transfer_ops transfer;
    const kiln_backend_provider *reference = user;
    (void)address;
    kiln_status status = reference->open(given, "reference:", out_backend, out_err, NULL);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_backend *least = *out_backend;
    memory = *least->memory;
    memory.trim = kiln_backend_no_trim;
    memory.set_budget = kiln_backend_no_budget;
    memory.reset_peaks = kiln_backend_no_reset_peaks;
    memory.host_alloc = kiln_backend_host_alloc;
    memory.host_free = kiln_backend_host_free;
    memory.wrap_host = kiln_backend_no_wrap;
    memory.alloc_from = kiln_backend_no_origin;
    memory.reside = kiln_backend_stays;
    memory.resides = kiln_backend_has_all;
    memory.map = kiln_backend_no_map;
    memory.unmap = kiln_backend_no_unmap;
    transfer = *least->transfer;
    transfer.copy = kiln_backend_copy_by_host;
    least->scheme = "least";
    least->memory = &memory;
    least->transfer = &transfer;
    least->arena = NULL;
    return KILN_STATUS_OK;
}

static kiln_status open_tested(const char *address)
{
    static kiln_backend_provider least = {.scheme = "least", .open = open_least};
    const kiln_backend_provider *providers[] = {
        &least,
        kiln_ir_reference_provider(),
        kiln_ir_null_provider(),
#ifdef KILN_TEST_WITH_CL
        kiln_cl_provider(),
#endif
#ifdef KILN_TEST_WITH_REMOTE
        kiln_rpc_provider(),
#endif
    };
    least.user = (void *)(uintptr_t)kiln_ir_reference_provider();
#ifdef KILN_TEST_WITH_REMOTE
    address = remote_host_start(&err);
    if (address == NULL) {
        return (kiln_status)err.code;
    }
#endif
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++) {
        size_t length = strlen(providers[i]->scheme);
        if (strncmp(address, providers[i]->scheme, length) == 0 && address[length] == ':') {
            return kiln_backend_open(providers[i], &env, address, &tested, &err);
        }
    }
    return kiln_fail(&err, INVALID_ARGUMENT, "no backend for %s", address);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {
        KILN_TEST(test_whole),         KILN_TEST(test_holes_are_refused),
        KILN_TEST(test_device),        KILN_TEST(test_tables_that_are_needed),
        KILN_TEST(test_memory),        KILN_TEST(test_budget),
        KILN_TEST(test_host_memory),   KILN_TEST(test_origins),
        KILN_TEST(test_map),           KILN_TEST(test_transfer),
        KILN_TEST(test_read_in_parts), KILN_TEST(test_default_read),
        KILN_TEST(test_program),       KILN_TEST(test_arena),
        KILN_TEST(test_events),        KILN_TEST(test_queue_memory),
        KILN_TEST(test_peer),          KILN_TEST(test_trace),
    };
    char suite[96];
    const char *address = "reference:";
    if (argc > 1 && strncmp(argv[1], "--backend=", 10) == 0) {
        address = argv[1] + 10;
        argv[1] = argv[0];
        argv++;
        argc--;
    }
    env.allocator = kiln_allocator_default();
    kiln_status status =
        kiln_config_create(&env.allocator, NULL, /*use_environment=*/false, &env.config, &err);
    if (status == KILN_STATUS_OK) {
        status = open_tested(address);
    }
    if (status == KILN_STATUS_NOT_FOUND && strncmp(address, "opencl", 6) == 0) {
        printf("SKIP tables/%s: %s\nkiln-test: 0 passed, 0 failed, 1 skipped\n", address,
               err.message);
        return 0;
    }
    if (status != KILN_STATUS_OK) {
        fprintf(stderr, "tables: %s: %s\n", address, err.message);
        return 3;
    }
    for (int i = 0; i < N; i++) {
        numbers[i] = (float)(i + 1);
    }
    computes = strcmp(tested->scheme, "null") != 0;
    snprintf(suite, sizeof(suite), "tables/%s", tested->scheme);
    int failures = kiln_test_run(suite, cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
    tested->device->close(tested);
#ifdef KILN_TEST_WITH_REMOTE
    remote_host_stop();
#endif
    kiln_config_destroy(env.config);
    return failures;
}
