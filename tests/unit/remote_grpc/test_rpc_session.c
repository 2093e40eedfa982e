// SPDX-License-Identifier: MIT OR Apache-2.0
// Server and client over loopback: the remote device through the runtime's own path, errors that
// come later, limits, and peers that break the rules.

#include "remote_fixture.h"
#include "rpc_listener.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void run_program(pair *self)
{
    const int64_t dims[] = {3, 4};
    const int64_t order[] = {1, 0};
    const float data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    float back[16] = {0};
    kiln_tensor *x = pair_upload(self, 2, dims, data);
    kiln_tensor *turned = NULL;
    kiln_tensor *product = NULL;
    kiln_tensor *shifted = NULL;
    PAIR_OK(self, kiln_permute(x, order, 2, &turned, &self->err));
    PAIR_OK(self, kiln_matmul(turned, x, false, false, &product, &self->err));
    PAIR_OK(self, kiln_add_scalar(product, kiln_f64(-100), &shifted, &self->err));
    kiln_release(product);
    PAIR_OK(self, kiln_read(shifted, back, sizeof(back), &self->err));
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            float expected = -100;
            for (int k = 0; k < 3; k++) {
                expected += data[k * 4 + i] * data[k * 4 + j];
            }
            KILN_CHECK(back[i * 4 + j] == expected);
        }
    }
    kiln_release(x);
    kiln_release(turned);
    kiln_release(shifted);
}

static void test_program(void)
{
    pair self;
    if (pair_open(&self, NULL)) {
        for (int i = 0; i < 5; i++) {
            run_program(&self);
        }
        PAIR_OK(&self, kiln_sync(self.remote, &self.err));
        pair_close(&self);
    }
}

/// Behind "unix:" stands the file's name, in which nothing is decoded.
static void test_unix_socket(void)
{
    static const char *const names[] = {"/s", "/a b", "/a%20b", "/100%?[x]&y=z", "/\xc3\xa9+\"'\\"};
    const char *folder = kiln_test_tmpdir();
    for (size_t i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++) {
        pair self;
        char address[200];
        struct stat about;
        kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
        snprintf(address, sizeof(address), "unix:%s%s%s", i % 2 == 0 ? "" : "/", folder,
                 names[i / 2]);
        const char *const listen[] = {address};
        options.listen = listen;
        options.n_listen = 1;
        if (pair_open(&self, &options)) {
            KILN_CHECK(stat(address + 5, &about) == 0 && S_ISSOCK(about.st_mode));
            run_program(&self);
            pair_close(&self);
        }
    }
}

static void test_many_operations(void)
{
    pair self;
    const int64_t dims[] = {5};
    float back[5] = {0};
    if (!pair_open(&self, NULL)) {
        return;
    }
    kiln_tensor *x = pair_upload(&self, 1, dims, NULL);
    for (int i = 0; i < 1000; i++) { // many batches, every buffer in place
        kiln_tensor *y = NULL;
        PAIR_OK(&self, kiln_add_scalar(x, kiln_f64(1), &y, &self.err));
        kiln_release(x);
        x = y;
    }
    PAIR_OK(&self, kiln_read(x, back, sizeof(back), &self.err));
    KILN_CHECK(back[0] == 1000.0f && back[4] == 1000.0f);
    kiln_release(x);
    pair_close(&self);
}

static void test_large_tensor(void)
{
    pair self;
    const int64_t dims[] = {3 * 1024 * 1024 + 7}; // 12 MiB and a bit: many chunks
    size_t bytes = (size_t)dims[0] * sizeof(float);
    float *data = malloc(bytes);
    float *back = calloc(1, bytes);
    for (int64_t i = 0; i < dims[0]; i++) {
        data[i] = (float)(i % 1000);
    }
    if (pair_open(&self, NULL)) {
        kiln_tensor *x = pair_upload(&self, 1, dims, data);
        kiln_tensor *y = NULL;
        PAIR_OK(&self, kiln_neg(x, &y, &self.err));
        PAIR_OK(&self, kiln_read(x, back, bytes, &self.err));
        KILN_CHECK_MEM(back, data, bytes);
        PAIR_OK(&self, kiln_read(y, back, bytes, &self.err));
        KILN_CHECK(back[999] == -999.0f && back[dims[0] - 1] == -data[dims[0] - 1]);
        kiln_release(x);
        kiln_release(y);
        pair_close(&self);
    }
    free(data);
    free(back);
}

static void test_graph_run_again(void)
{
    pair self;
    const int64_t dims[] = {2};
    const float ones[] = {1, 1};
    const float twos[] = {2, 2};
    float back[2];
    kiln_graph *graph = NULL;
    kiln_tensor *t = NULL;
    if (!pair_open(&self, NULL)) {
        return;
    }
    kiln_tensor *x = pair_upload(&self, 1, dims, ones);
    kiln_tensor *y = pair_upload(&self, 1, dims, twos);
    PAIR_OK(&self, kiln_graph_begin(self.remote, &x, 1, &self.err));
    PAIR_OK(&self, kiln_mul(x, y, &t, &self.err));
    PAIR_OK(&self, kiln_graph_end(self.remote, &t, 1, &graph, &self.err));
    for (int i = 0; i < 3; i++) {
        kiln_tensor *out[2] = {NULL};
        PAIR_OK(&self, kiln_graph_run(graph, &x, 1, &out[0], 1, &self.err));
        PAIR_OK(&self, kiln_graph_run(graph, &out[0], 1, &out[1], 1, &self.err));
        PAIR_OK(&self, kiln_read(out[1], back, sizeof(back), &self.err));
        KILN_CHECK(back[0] == 4.0f);
        kiln_release(out[0]);
        kiln_release(out[1]);
    }
    kiln_release(t);
    kiln_release(x);
    kiln_release(y);
    kiln_graph_destroy(graph);
    pair_close(&self);
}

/// A graph longer than a batch, whose last operations use the input again: the rest of the first
/// run and the beginning of the second must not share a batch, for the input is another buffer.
static void test_long_graph_other_input(void)
{
    enum { LENGTH = 71 };
    pair self;
    const int64_t dims[] = {2};
    const float ones[] = {1, 2};
    const float tens[] = {10, 20};
    kiln_graph *graph = NULL;
    if (!pair_open(&self, NULL)) {
        return;
    }
    kiln_tensor *x[2] = {pair_upload(&self, 1, dims, ones), pair_upload(&self, 1, dims, tens)};
    kiln_tensor *out[2] = {NULL, NULL};
    PAIR_OK(&self, kiln_graph_begin(self.remote, &x[0], 1, &self.err));
    kiln_tensor *t = kiln_retain(x[0]);
    for (int i = 0; i < LENGTH; i++) {
        kiln_tensor *next = NULL;
        if (i < LENGTH - 5) {
            PAIR_OK(&self, kiln_add_scalar(t, kiln_f64(1), &next, &self.err));
        } else {
            PAIR_OK(&self, kiln_add(t, x[0], &next, &self.err));
        }
        kiln_release(t);
        t = next;
    }
    PAIR_OK(&self, kiln_graph_end(self.remote, &t, 1, &graph, &self.err));
    for (int i = 0; i < 2; i++) {
        PAIR_OK(&self, kiln_graph_run(graph, &x[i], 1, &out[i], 1, &self.err));
    }
    for (int i = 0; i < 2; i++) {
        const float *data = i == 0 ? ones : tens;
        float back[2] = {0};
        PAIR_OK(&self, kiln_read(out[i], back, sizeof(back), &self.err));
        KILN_CHECK(back[0] == 6 * data[0] + LENGTH - 5 && back[1] == 6 * data[1] + LENGTH - 5);
        kiln_release(out[i]);
        kiln_release(x[i]);
    }
    kiln_release(t);
    kiln_graph_destroy(graph);
    pair_close(&self);
}

static void test_session_limit(void)
{
    pair self;
    const int64_t dims[] = {1024};
    float back[1024];
    kiln_tensor *y = NULL;
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.max_bytes = 4096;
    if (!pair_open(&self, &options)) {
        return;
    }
    kiln_tensor *x = pair_upload(&self, 1, dims, NULL);
    PAIR_OK(&self, kiln_exp(x, &y, &self.err));
    // The refusal comes with the next answer and says why; the session goes on.
    KILN_CHECK_INT(kiln_read(y, back, sizeof(back), &self.err), KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_CONTAINS(self.err.message, "4096");
    kiln_release(y);
    PAIR_OK(&self, kiln_read(x, back, sizeof(back), &self.err));
    kiln_release(x);
    pair_close(&self);
}

/// The result of a failed Run is not what was in its buffer before, and stays failed until it is
/// written.
static void test_failed_run_fails_outputs(void)
{
    pair self;
    hand client;
    const float two[] = {1, 2};
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    hand_write(&client, 1, 0, 8, two, 8);
    hand_negate(&client, 2, 1, 2);
    KILN_CHECK_INT(hand_read(&client, 2, 0, 8), KILN_STATUS_OK);
    KILN_CHECK(hand_float(client.frame->data, 1) == -2.0f);
    hand_negate(&client, 3, 1, 2); // another shape than the buffer has
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OK);
    for (int i = 0; i < 2; i++) {
        KILN_CHECK_INT(hand_read(&client, 2, 0, 8), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(client.frame->body.body.answer.message,
                            "buffer 1 has shape [2]; the graph says [3]");
    }
    const kiln_tensor_desc whole = {.id = 1, .dtype = KILN_DTYPE_I32, .rank = 1, .dims = {2}};
    const kiln_tensor_desc negated = {.id = 2, .dtype = KILN_DTYPE_I32, .rank = 1, .dims = {2}};
    const kiln_op_record record = {
        .op = KILN_OP_NEG, .n_inputs = 1, .n_outputs = 1, .inputs = &whole, .outputs = &negated};
    hand_run(&client, &record, 1, 1, 4, 0);
    KILN_CHECK_INT(hand_read(&client, 4, 0, 8), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(client.frame->body.body.answer.message,
                        "buffer 1 holds f32; the graph says i32");
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OK);
    hand_negate(&client, 2, 2, 3); // whoever uses it fails as well
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(hand_read(&client, 3, 0, 8), KILN_STATUS_INVALID_ARGUMENT);
    hand_write(&client, 2, 0, 8, two, 8);
    KILN_CHECK_INT(hand_read(&client, 2, 0, 8), KILN_STATUS_OK);
    hand_close(&client);
    pair_close(&self);
}

/// A write of a part of a tensor keeps the rest.
static void test_write_part_of_tensor(void)
{
    pair self;
    hand client;
    const float four[] = {1, 2, 3, 4};
    const float wanted[] = {-1, 2, -3, -4};
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    hand_write(&client, 1, 0, 16, four, 16);
    hand_negate(&client, 4, 1, 2);
    hand_write(&client, 2, 4, 16, &four[1], 4);
    KILN_CHECK_INT(hand_read(&client, 2, 0, 16), KILN_STATUS_OK);
    KILN_CHECK_MEM(client.frame->data, wanted, 16);
    hand_close(&client);
    pair_close(&self);
}

/// A chain in one Run needs the memory of a few of its values, not of all.
static void test_values_end_at_their_last_use(void)
{
    enum { OPERATIONS = 100, COUNT = 1 << 18 };
    static float zeros[COUNT];
    static kiln_tensor_desc values[OPERATIONS + 1];
    static kiln_op_record records[OPERATIONS];
    pair self;
    hand client;
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    for (size_t i = 0; i <= OPERATIONS; i++) {
        values[i] = hand_floats(i + 1, COUNT);
    }
    for (size_t i = 0; i < OPERATIONS; i++) {
        records[i] = (kiln_op_record){.op = KILN_OP_NEG,
                                      .n_inputs = 1,
                                      .n_outputs = 1,
                                      .inputs = &values[i],
                                      .outputs = &values[i + 1]};
    }
    hand_write(&client, 1, 0, sizeof(zeros), zeros, sizeof(zeros));
    hand_run(&client, records, OPERATIONS, 1, 2, 0);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OK);
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(self.local, &stats);
    KILN_CHECK(stats.backend.bytes_peak < OPERATIONS / 2 * sizeof(zeros));
    hand_close(&client);
    pair_close(&self);
}

/// Results of one Run count together, also those that nobody keeps.
static void test_run_is_counted_whole(void)
{
    pair self;
    hand client;
    const float four[] = {1, 2, 3, 4};
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.max_bytes = 64;
    if (!pair_open(&self, &options) || !hand_open(&client, &self)) {
        return;
    }
    kiln_tensor_desc values[5];
    kiln_op_record records[4];
    for (uint64_t i = 0; i < 5; i++) {
        values[i] = hand_floats(i + 1, 4);
    }
    for (size_t i = 0; i < 4; i++) {
        records[i] = (kiln_op_record){.op = KILN_OP_NEG,
                                      .n_inputs = 1,
                                      .n_outputs = 1,
                                      .inputs = &values[i],
                                      .outputs = &values[i + 1]};
    }
    hand_write(&client, 1, 0, 16, four, 16);
    hand_run(&client, records, 3, 1, 2, 0);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OK);
    kilni_rpc_frame frees = {0};
    frees.body.which_body = kiln_v1_Frame_free_tag;
    frees.body.body.free.buffers_count = 1;
    frees.body.body.free.buffers[0] = 2;
    hand_send(&client, &frees);
    hand_run(&client, records, 4, 1, 2, 0);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_RESOURCE_EXHAUSTED);
    hand_close(&client);
    pair_close(&self);
}

/// A size alone takes no memory: it comes with the bytes.
static void test_size_takes_no_memory(void)
{
    pair self;
    hand client;
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.max_bytes = UINT64_C(1) << 46;
    if (!pair_open(&self, &options) || !hand_open(&client, &self)) {
        return;
    }
    hand_write(&client, 1, 0, UINT64_C(1) << 45, "12345678", 8);
    KILN_CHECK_INT(hand_read(&client, 2, 0, 8), KILN_STATUS_NOT_FOUND);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OK);
    hand_close(&client);
    pair_close(&self);
}

/// A fence neither tells nor forgets what happened to others on the device.
/// Bytes that nobody has used yet count over all sessions, and come back with their buffer.
static void test_raw_bytes_of_all(void)
{
    enum { LENGTH = 1 << 20 };
    pair self = {0};
    hand first, second;
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.max_raw_bytes = LENGTH + LENGTH / 2;
    char *bytes = calloc(1, LENGTH);
    if (pair_open(&self, &options) && hand_open(&first, &self) && hand_open(&second, &self)) {
        hand_write(&first, 1, 0, LENGTH, bytes, LENGTH);
        KILN_CHECK_INT(hand_fence(&first), 0);
        hand_write(&second, 1, 0, LENGTH, bytes, LENGTH);
        KILN_CHECK_INT(hand_fence(&second), KILN_STATUS_RESOURCE_EXHAUSTED);
        KILN_CHECK_CONTAINS(second.frame->body.body.answer.message, "all sessions");
        hand_close(&first); // and with it its buffer
        for (int i = 0; i < 200; i++) {
            hand_write(&second, 2, 0, LENGTH, bytes, LENGTH);
            if (hand_fence(&second) == 0) {
                break;
            }
            pause_us(10000);
        }
        KILN_CHECK_INT(hand_read(&second, 2, 0, 8), 0);
        hand_close(&second);
    }
    pair_close(&self);
    free(bytes);
}

static void test_buffer_0_is_none(void)
{
    static const float two[] = {1, 2};
    pair self = {0};
    hand client;
    if (pair_open(&self, NULL) && hand_open(&client, &self)) {
        hand_write(&client, 0, 0, 8, two, 8);
        KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(client.frame->body.body.answer.message, "buffer 0");
        hand_write(&client, 1, 0, 8, two, 8);
        hand_negate(&client, 2, 1, 0);
        KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_INT(hand_read(&client, 1, 0, 8), 0);
        hand_close(&client);
    }
    pair_close(&self);
}

static void test_fence_is_of_its_session(void)
{
    pair self;
    hand one;
    hand other;
    const float two[] = {1, 2};
    if (!pair_open(&self, NULL) || !hand_open(&one, &self) || !hand_open(&other, &self)) {
        return;
    }
    hand_write(&one, 1, 0, 8, two, 8);
    hand_negate(&one, 2, 7, 2); // there is no buffer 7
    hand_write(&other, 1, 0, 8, two, 8);
    hand_negate(&other, 2, 1, 2);
    KILN_CHECK_INT(hand_fence(&other), KILN_STATUS_OK);
    KILN_CHECK_INT(hand_fence(&one), KILN_STATUS_NOT_FOUND);
    hand_close(&one);
    hand_close(&other);
    pair_close(&self);
}

// ---- silence and hunger ----

/// A listener that takes connections but no sessions: connecting ends at its deadline.
static void test_silent_server(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_listener *listener = NULL;
    kilni_rpc_stream *stream = NULL;
    int port = 0;
    char target[64];
    kilni_rpc_address address;
    static const char *const listen[] = {"127.0.0.1:0"};
    const kilni_rpc_listen_options options = {
        .addresses = listen, .n_addresses = 1, .out_ports = &port};
    if (!KILN_CHECK_INT(kilni_rpc_listen(&env, &options, &listener, &err), KILN_STATUS_OK)) {
        return;
    }
    snprintf(target, sizeof(target), "grpc://127.0.0.1:%d", port);
    KILN_CHECK_INT(kilni_rpc_address_parse(target, &address, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_rpc_connect(&env, &address, NULL, KILNI_RPC_SESSION, 500, &stream, &err),
                   KILN_STATUS_DEADLINE_EXCEEDED);
    kilni_rpc_listener_shutdown(listener);
    kilni_rpc_listener_close(listener);
}

static atomic_size_t largest = SIZE_MAX; ///< larger allocations fail

static void *hungry_alloc(void *user, size_t bytes, size_t alignment)
{
    const kiln_allocator *feeder = user;
    return bytes > atomic_load(&largest) ? NULL : feeder->alloc(feeder->user, bytes, alignment);
}

static void hungry_free(void *user, void *memory)
{
    const kiln_allocator *feeder = user;
    feeder->free(feeder->user, memory);
}

/// Without memory for a while, the server refuses sessions; afterwards it takes them again.
static void test_acceptor_goes_on(void)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    const kiln_allocator hungry = {
        .alloc = hungry_alloc, .free = hungry_free, .user = &env.allocator};
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.allocator = &hungry;
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_rpc_server *server = NULL;
    KILN_CHECK_INT(kiln_context_create(&options, &context, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_device_open(context, "reference", &device, &err), KILN_STATUS_OK);
    if (!KILN_CHECK_INT(kiln_rpc_server_create(&device, 1, NULL, &server, &err), KILN_STATUS_OK)) {
        return;
    }
    kilni_rpc_address target;
    KILN_CHECK_INT(kilni_rpc_address_parse(kiln_rpc_server_address(server, 0), &target, &err),
                   KILN_STATUS_OK);
    for (int round = 0; round < 2; round++) {
        kilni_rpc_stream *stream = NULL;
        atomic_store(&largest, round == 0 ? 0 : SIZE_MAX);
        (void)!kilni_rpc_connect(&env, &target, NULL, KILNI_RPC_SESSION, 2000, &stream, &err);
        KILN_CHECK(round == 0 || stream != NULL);
        if (stream != NULL && round == 0) {
            kilni_rpc_message message = {0};
            bool end = false;
            KILN_CHECK_INT(kilni_rpc_receive(stream, -1, &message, &end, &err),
                           KILN_STATUS_RESOURCE_EXHAUSTED);
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        kilni_rpc_stream_close(stream, NULL);
    }
    kiln_rpc_server_destroy(server);
    kiln_device_release(device);
    kiln_context_destroy(context);
}

/// A failure of somebody else's work on the device: a session's fence does not tell it, and the
/// device still knows it afterwards.
static void test_fence_leaves_others_failures(void)
{
    const kiln_allocator feeder = kiln_allocator_default();
    const kiln_allocator hungry = {
        .alloc = hungry_alloc, .free = hungry_free, .user = (void *)(uintptr_t)&feeder};
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    pair self = {0};
    hand client;
    const int64_t dims[] = {1 << 20};
    kiln_tensor *x = NULL;
    kiln_tensor *y = NULL;
    options.allocator = &hungry;
    PAIR_OK(&self, kiln_context_create(&options, &self.context, &self.err));
    PAIR_OK(&self, kiln_device_open(self.context, "reference", &self.local, &self.err));
    PAIR_OK(&self, kiln_rpc_server_create(&self.local, 1, NULL, &self.server, &self.err));
    PAIR_OK(&self, kiln_tensor_create(self.local, KILN_DTYPE_F32, 1, dims, NULL, &x, &self.err));
    if (hand_open(&client, &self)) {
        PAIR_OK(&self, kiln_exp(x, &y, &self.err));
        atomic_store(&largest, (size_t)(4 * dims[0] - 1));
        (void)!kiln_flush(self.local, &self.err);
        atomic_store(&largest, SIZE_MAX);
        KILN_CHECK(kiln_device_status(self.local, &self.err) != KILN_STATUS_OK);
        KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OK);
        KILN_CHECK(kiln_device_status(self.local, &self.err) != KILN_STATUS_OK);
        hand_close(&client);
    }
    kiln_release(x);
    kiln_release(y);
    pair_close(&self);
}

/// A small view that is kept does not keep the large tensor that it was cut from.
static void test_view_holds_its_own(void)
{
    enum { COUNT = 65536 };
    pair self;
    const int64_t dims[] = {COUNT};
    const int64_t start = 7;
    const int64_t end = 9;
    float *data = calloc(COUNT, sizeof(*data));
    float back[2] = {0};
    kiln_tensor *part = NULL;
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    data[8] = 5;
    if (pair_open(&self, NULL)) {
        kiln_tensor *x = pair_upload(&self, 1, dims, data);
        PAIR_OK(&self, kiln_slice(x, &start, 1, &end, 1, NULL, 0, &part, &self.err));
        PAIR_OK(&self, kiln_read(part, back, sizeof(back), &self.err));
        kiln_release(x);
        PAIR_OK(&self, kiln_sync(self.remote, &self.err));
        PAIR_OK(&self, kiln_read(part, back, sizeof(back), &self.err));
        KILN_CHECK(back[1] == 5.0f);
        kiln_device_stats_get(self.local, &stats);
        KILN_CHECK(stats.backend.bytes_used < COUNT);
        kiln_release(part);
        pair_close(&self);
    }
    free(data);
}

/// A long chain whose results would not fit together, but do one after the other.
static void test_chain_within_limit(void)
{
    pair self;
    const int64_t dims[] = {1024};
    float back[1024];
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.max_bytes = 8 * sizeof(back);
    if (!pair_open(&self, &options)) {
        return;
    }
    kiln_tensor *x = pair_upload(&self, 1, dims, NULL);
    for (int i = 0; i < 40; i++) {
        kiln_tensor *y = NULL;
        PAIR_OK(&self, kiln_add_scalar(x, kiln_f64(1), &y, &self.err));
        kiln_release(x);
        x = y;
    }
    PAIR_OK(&self, kiln_read(x, back, sizeof(back), &self.err));
    KILN_CHECK(back[1023] == 40.0f);
    kiln_release(x);
    pair_close(&self);
}

/// A client that acknowledges nothing reads a little of a buffer and frees it, again and again:
/// what was read may wait, the rest of the buffers may not.
static void test_unacknowledged_parts(void)
{
    enum { COUNT = 1 << 20, BYTES = 4 * COUNT, PART = 100000, ROUNDS = 40, QUOTA = 4 * BYTES };
    pair self;
    hand client;
    const float two[] = {1, 2};
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.max_bytes = QUOTA;
    if (!pair_open(&self, &options) || !hand_greet(&client, &self, /*resumable=*/true)) {
        return;
    }
    for (int i = 0; i < ROUNDS; i++) {
        kilni_rpc_frame frame = {0};
        hand_write(&client, 1, BYTES - 8, BYTES, two, 8);
        hand_negate(&client, COUNT, 1, 2);
        KILN_CHECK_INT(hand_read(&client, 2, BYTES - PART, PART), KILN_STATUS_OK);
        KILN_CHECK(client.frame->data_length == PART);
        frame.body.which_body = kiln_v1_Frame_free_tag;
        frame.body.body.free.buffers[0] = 1;
        frame.body.body.free.buffers[1] = 2;
        frame.body.body.free.buffers_count = 2;
        hand_send(&client, &frame);
    }
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OK);
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(self.local, &stats);
    KILN_CHECK(stats.backend.bytes_used <= QUOTA);
    hand_close(&client);
    pair_close(&self);
}

/// After a greeting: each of these is refused, and the session goes on.
static void test_rude_after_greeting(void)
{
    pair self;
    hand client;
    const float two[] = {1, 2};
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    hand_write(&client, 1, 0, UINT64_MAX, two, 8);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_RESOURCE_EXHAUSTED);
    hand_write(&client, 2, UINT64_MAX - 3, 8, two, 8);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OUT_OF_RANGE);
    hand_write(&client, 3, 0, 8, two, 8);
    KILN_CHECK_INT(hand_read(&client, 3, UINT64_MAX, 2), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(hand_read(&client, 99, 0, 8), KILN_STATUS_NOT_FOUND);
    kilni_rpc_frame run = {0}; // no graph, and an output that is no value
    run.body.which_body = kiln_v1_Frame_run_tag;
    run.body.body.run.outputs_count = 1;
    run.body.body.run.outputs[0] = (kiln_v1_Binding){.value = 5, .buffer = 4};
    hand_send(&client, &run);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_INVALID_ARGUMENT);
    run.body.body.run.outputs_count = 0;
    hand_send(&client, &run);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OK);
    size_t much = KILNI_RPC_CHUNK + 8;
    char *bytes = calloc(1, much);
    hand_write(&client, 5, 0, much, bytes, much);
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OUT_OF_RANGE);
    free(bytes);
    KILN_CHECK_INT(hand_read(&client, 3, 0, 8), KILN_STATUS_OK);
    hand_close(&client);
    pair_close(&self);
}

static void test_nobody_there(void)
{
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_context_create(NULL, &context, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_context_add_provider(context, kiln_rpc_provider(), &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_device_open(context, "grpc://127.0.0.1:1", &device, &err),
                   KILN_STATUS_UNAVAILABLE);
    KILN_CHECK_CONTAINS(err.message, "127.0.0.1:1");
    kiln_context_destroy(context);
}

static void test_not_beyond_loopback(void)
{
    kiln_context *context = NULL;
    kiln_device *device = NULL;
    kiln_rpc_server *server = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    const char *listen[] = {"0.0.0.0:0"};
    options.listen = listen;
    options.n_listen = 1;
    KILN_CHECK_INT(kiln_context_create(NULL, &context, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_device_open(context, "reference", &device, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_rpc_server_create(&device, 1, &options, &server, &err),
                   KILN_STATUS_PERMISSION_DENIED);
    listen[0] = "nonsense";
    KILN_CHECK_INT(kiln_rpc_server_create(&device, 1, &options, &server, &err),
                   KILN_STATUS_INVALID_ARGUMENT);
    kiln_device_release(device);
    kiln_context_destroy(context);
}

static void test_server_goes_away(void)
{
    pair self;
    const int64_t dims[] = {4};
    float back[4];
    if (!pair_open(&self, NULL)) {
        return;
    }
    kiln_tensor *x = pair_upload(&self, 1, dims, NULL);
    PAIR_OK(&self, kiln_sync(self.remote, &self.err));
    kiln_rpc_server_destroy(self.server);
    self.server = NULL;
    KILN_CHECK(kiln_read(x, back, sizeof(back), &self.err) != KILN_STATUS_OK);
    kiln_release(x);
    pair_close(&self);
}

/// A peer that speaks gRPC but not our protocol: each message ends its session and hurts nobody
/// else.
static void test_rude_clients(void)
{
    pair self;
    kiln_env env = {.allocator = kiln_allocator_default()};
    static const char *const rude[] = {"", "\x12\x02\x08\x09", "\xff\xff\xff\xff", "\x42",
                                       "\x22\x08\x08\x01\x18\xff\xff\xff\xff\x0f"};
    if (!pair_open(&self, NULL)) {
        return;
    }
    kilni_rpc_address target;
    PAIR_OK(&self,
            kilni_rpc_address_parse(kiln_rpc_server_address(self.server, 0), &target, &self.err));
    for (size_t i = 0; i < sizeof(rude) / sizeof(rude[0]); i++) {
        kilni_rpc_stream *stream = NULL;
        kilni_rpc_message message = {0};
        bool end = false;
        if (!PAIR_OK(&self, kilni_rpc_connect(&env, &target, NULL, KILNI_RPC_SESSION, 5000, &stream,
                                              &self.err))) {
            break;
        }
        PAIR_OK(&self, kilni_rpc_send_bytes(stream, rude[i], strlen(rude[i]), &self.err));
        KILN_CHECK(kilni_rpc_receive(stream, -1, &message, &end, &self.err) != KILN_STATUS_OK);
        kilni_rpc_stream_close(stream, NULL);
    }
    run_program(&self);
    pair_close(&self);
}

KILN_TEST_MAIN("unit/remote_grpc/session", KILN_TEST(test_program), KILN_TEST(test_unix_socket),
               KILN_TEST(test_many_operations), KILN_TEST(test_large_tensor),
               KILN_TEST(test_graph_run_again), KILN_TEST(test_long_graph_other_input),
               KILN_TEST(test_session_limit), KILN_TEST(test_failed_run_fails_outputs),
               KILN_TEST(test_write_part_of_tensor), KILN_TEST(test_run_is_counted_whole),
               KILN_TEST(test_values_end_at_their_last_use), KILN_TEST(test_size_takes_no_memory),
               KILN_TEST(test_raw_bytes_of_all), KILN_TEST(test_buffer_0_is_none),
               KILN_TEST(test_fence_is_of_its_session), KILN_TEST(test_silent_server),
               KILN_TEST(test_acceptor_goes_on), KILN_TEST(test_rude_after_greeting),
               KILN_TEST(test_unacknowledged_parts), KILN_TEST(test_chain_within_limit),
               KILN_TEST(test_fence_leaves_others_failures), KILN_TEST(test_view_holds_its_own),
               KILN_TEST(test_nobody_there), KILN_TEST(test_not_beyond_loopback),
               KILN_TEST(test_server_goes_away), KILN_TEST(test_rude_clients))
