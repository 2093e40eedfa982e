// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads that are asked for and waited for later: their place in the order, polling, cancelling,
// bytes in both directions at once, several threads, and what a lost session tells each of them.

#include "remote_fixture.h"
#include "rpc_client.h"
#include "rpc_server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 320, LARGE = 3 << 20, READS = 3, THREADS = 4 };

/// A product that takes the reference evaluator a while: every element is SIDE.
static kiln_tensor *slow_product(pair *self)
{
    const int64_t dims[] = {SIDE, SIDE};
    float *ones = calloc((size_t)SIDE * SIDE, sizeof(*ones));
    kiln_tensor *product = NULL;
    for (int i = 0; i < SIDE * SIDE; i++) {
        ones[i] = 1;
    }
    kiln_tensor *x = pair_upload(self, 2, dims, ones);
    PAIR_OK(self, kiln_sync(self->remote, &self->err));
    PAIR_OK(self, kiln_matmul(x, x, false, false, &product, &self->err));
    kiln_release(x);
    free(ones);
    return product;
}

/// Asking does not wait, and the tensor may go at once.
static void test_place_in_order(void)
{
    pair self;
    if (!pair_open(&self, NULL)) {
        return;
    }
    float *back = calloc((size_t)SIDE * SIDE, sizeof(*back));
    size_t bytes = (size_t)SIDE * SIDE * sizeof(*back);
    kiln_tensor *product = slow_product(&self);
    kiln_request *request = NULL;
    kiln_tensor *later = NULL;
    PAIR_OK(&self, kiln_read_async(product, back, bytes, &request, &self.err));
    KILN_CHECK(!kiln_request_poll(request));
    KILN_CHECK(back[0] == 0.0f);
    PAIR_OK(&self, kiln_neg(product, &later, &self.err));
    kiln_release(product);
    while (!kiln_request_poll(request)) {
        pause_us(1000);
    }
    PAIR_OK(&self, kiln_request_wait(request, &self.err));
    KILN_CHECK(back[0] == (float)SIDE && back[SIDE * SIDE - 1] == (float)SIDE);
    PAIR_OK(&self, kiln_read(later, back, bytes, &self.err));
    KILN_CHECK(back[SIDE] == -(float)SIDE);
    kiln_request_destroy(request);
    kiln_release(later);
    free(back);
    pair_close(&self);
}

/// A cancelled read writes nothing; one that nobody waits for is no trouble.
static void test_cancel(void)
{
    pair self;
    if (!pair_open(&self, NULL)) {
        return;
    }
    float *back = calloc((size_t)SIDE * SIDE, sizeof(*back));
    size_t bytes = (size_t)SIDE * SIDE * sizeof(*back);
    kiln_tensor *product = slow_product(&self);
    kiln_request *requests[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        PAIR_OK(&self, kiln_read_async(product, back, bytes, &requests[i], &self.err));
    }
    kiln_request_cancel(requests[0]);
    KILN_CHECK_INT(kiln_request_wait(requests[0], &self.err), KILN_STATUS_CANCELLED);
    kiln_request_destroy(requests[1]);
    PAIR_OK(&self, kiln_sync(self.remote, &self.err));
    KILN_CHECK(back[0] == 0.0f && back[SIDE * SIDE - 1] == 0.0f);
    PAIR_OK(&self, kiln_read(product, back, bytes, &self.err));
    KILN_CHECK(back[0] == (float)SIDE);
    kiln_request_destroy(requests[0]);
    kiln_release(product);
    free(back);
    pair_close(&self);
}

/// Long answers come down while a long upload goes up: neither side may wait for the other.
static void test_both_directions(void)
{
    const int64_t dims[] = {LARGE};
    pair self;
    float *data = calloc(LARGE, sizeof(*data));
    float *back[READS];
    kiln_request *requests[READS] = {NULL};
    kiln_tensor *more = NULL;
    if (!pair_open(&self, NULL)) {
        return;
    }
    for (int i = 0; i < LARGE; i++) {
        data[i] = (float)(i % 1013);
    }
    kiln_tensor *x = pair_upload(&self, 1, dims, data);
    for (int i = 0; i < READS; i++) {
        back[i] = calloc(LARGE, sizeof(*data));
        PAIR_OK(&self, kiln_read_async(x, back[i], LARGE * sizeof(*data), &requests[i], &self.err));
    }
    more = pair_upload(&self, 1, dims, data);
    for (int i = READS - 1; i >= 0; i--) {
        PAIR_OK(&self, kiln_request_wait(requests[i], &self.err));
        KILN_CHECK(memcmp(back[i], data, LARGE * sizeof(*data)) == 0);
        kiln_request_destroy(requests[i]);
    }
    PAIR_OK(&self, kiln_read(more, back[0], LARGE * sizeof(*data), &self.err));
    KILN_CHECK(memcmp(back[0], data, LARGE * sizeof(*data)) == 0);
    for (int i = 0; i < READS; i++) {
        free(back[i]);
    }
    kiln_release(more);
    kiln_release(x);
    pair_close(&self);
    free(data);
}

static uint64_t held_by_server(const pair *self)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(self->local, &stats);
    return stats.backend.bytes_used;
}

/// What is sent from where it lies is let go when the client has it, while the session goes on.
static void test_memory_returns(void)
{
    const int64_t dims[] = {LARGE};
    pair self;
    if (!pair_open(&self, NULL)) {
        return;
    }
    float *back = calloc(LARGE, sizeof(*back));
    for (int i = 0; i < 3; i++) {
        kiln_tensor *x = pair_upload(&self, 1, dims, NULL);
        kiln_tensor *y = NULL;
        PAIR_OK(&self, kiln_neg(x, &y, &self.err));
        PAIR_OK(&self, kiln_read(y, back, LARGE * sizeof(*back), &self.err));
        KILN_CHECK(held_by_server(&self) >= LARGE * sizeof(*back));
        kiln_release(x);
        kiln_release(y);
        PAIR_OK(&self, kiln_sync(self.remote, &self.err));
        PAIR_OK(&self, kiln_flush(self.local, &self.err));
        KILN_CHECK_INT(held_by_server(&self), 0);
    }
    free(back);
    pair_close(&self);
}

/// More at once than the server lets stand without an ack.
static void test_very_many(void)
{
    enum { MANY = 6000 };
    const int64_t dims[] = {1};
    const float one = 1;
    pair self;
    if (!pair_open(&self, NULL)) {
        return;
    }
    float *back = calloc(MANY, sizeof(*back));
    kiln_request **requests = calloc(MANY, sizeof(kiln_request *));
    kiln_tensor *x = pair_upload(&self, 1, dims, &one);
    for (int i = 0; i < MANY; i++) {
        PAIR_OK(&self, kiln_read_async(x, &back[i], sizeof(*back), &requests[i], &self.err));
    }
    for (int i = 0; i < MANY; i++) {
        PAIR_OK(&self, kiln_request_wait(requests[i], &self.err));
        KILN_CHECK(back[i] == 1.0f);
        kiln_request_destroy(requests[i]);
    }
    kiln_release(x);
    free(requests);
    free(back);
    pair_close(&self);
}

/// Answers of more bytes than the server lets stand without an ack: asked for all at once, with
/// work behind them.
static void test_many_bytes(void)
{
    enum { PARTS = 4, PART = 6 << 20 }; // of 24 MiB
    const int64_t dims[] = {PART};
    const size_t bytes = PART * sizeof(float);
    pair self;
    kiln_request *requests[PARTS] = {NULL};
    kiln_tensor *negative = NULL;
    if (!pair_open(&self, NULL)) {
        return;
    }
    float *data = calloc(PART, sizeof(*data));
    float *back = calloc((size_t)PARTS * PART, sizeof(*back));
    for (int i = 0; i < PART; i++) {
        data[i] = (float)(i % 1013);
    }
    kiln_tensor *x = pair_upload(&self, 1, dims, data);
    for (size_t i = 0; i < PARTS; i++) {
        PAIR_OK(&self, kiln_read_async(x, back + i * PART, bytes, &requests[i], &self.err));
    }
    PAIR_OK(&self, kiln_neg(x, &negative, &self.err));
    PAIR_OK(&self, kiln_flush(self.remote, &self.err));
    for (size_t i = 0; i < PARTS; i++) {
        PAIR_OK(&self, kiln_request_wait(requests[i], &self.err));
        KILN_CHECK(memcmp(back + i * PART, data, bytes) == 0);
        kiln_request_destroy(requests[i]);
    }
    PAIR_OK(&self, kiln_read(negative, back, bytes, &self.err));
    KILN_CHECK(back[1] == -1.0f);
    kiln_release(negative);
    kiln_release(x);
    pair_close(&self);
    free(back);
    free(data);
}

typedef struct worker {
    pair *peers;
    int number;
    bool good;
} worker;

static void *compute(void *pointer)
{
    worker *self = pointer;
    const int64_t dims[] = {64};
    float data[64];
    float back[64];
    kiln_error err = KILN_ERROR_INIT;
    self->good = true;
    for (int step = 0; step < 50 && self->good; step++) {
        kiln_tensor *x = NULL;
        kiln_tensor *y = NULL;
        for (int i = 0; i < 64; i++) {
            data[i] = (float)(self->number * 1000 + step + i);
        }
        self->good = kiln_tensor_create(self->peers->remote, KILN_DTYPE_F32, 1, dims, data, &x,
                                        &err) == KILN_STATUS_OK &&
                     kiln_add(x, x, &y, &err) == KILN_STATUS_OK &&
                     kiln_read(y, back, sizeof(back), &err) == KILN_STATUS_OK;
        for (int i = 0; i < 64 && self->good; i++) {
            self->good = back[i] == 2 * data[i];
        }
        kiln_release(x);
        kiln_release(y);
    }
    return NULL;
}

static void test_threads(void)
{
    pair self;
    worker workers[THREADS];
    pthread_t threads[THREADS];
    if (!pair_open(&self, NULL)) {
        return;
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.peers = &self, .number = i};
        KILN_CHECK_INT(pthread_create(&threads[i], NULL, compute, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        KILN_CHECK(workers[i].good);
    }
    pair_close(&self);
}

typedef struct lone_wait {
    kiln_pending *pending;
    atomic_bool over;
} lone_wait;

static void *wait_alone(void *pointer)
{
    lone_wait *self = pointer;
    kilni_rpc_pending_wait(self->pending, /*cancel=*/false);
    atomic_store(&self->over, true);
    return NULL;
}

/// Whether the client's lock was nobody's a hundred times in a row, before half a minute is over.
static bool is_lock_free(kilni_rpc_client *client)
{
    int in_a_row = 0;
    for (int i = 0; i < 30000 && in_a_row < 100; i++) {
        in_a_row = pthread_mutex_trylock(&client->lock) == 0 ? in_a_row + 1 : 0;
        if (in_a_row > 0) {
            pthread_mutex_unlock(&client->lock);
        }
        pause_us(1000);
    }
    return in_a_row == 100;
}

static kiln_backend *open_backend(const pair *peers, kiln_error *err)
{
    kiln_backend *backend = NULL;
    const kiln_env *env = kiln_context_env(peers->context);
    KILN_CHECK_INT(kiln_rpc_provider()->open(env, kiln_rpc_server_address(peers->server, 0),
                                             &backend, err, NULL),
                   KILN_STATUS_OK);
    return backend;
}

/// The server cannot answer, for the test has its device. One thread waits, and others use the
/// session meanwhile as if it did not.
static void test_others_go_on(void)
{
    enum { MORE = 40 };
    pair self;
    lone_wait lone = {.pending = NULL};
    pthread_t thread;
    kilni_rpc_lane *lane = NULL;
    float values[MORE + 1];
    float back[MORE + 1] = {0};
    kiln_buffer *buffers[MORE + 1] = {NULL};
    kiln_pending *pending[MORE + 1] = {NULL};
    atomic_init(&lone.over, false);
    if (!pair_open(&self, NULL) ||
        !PAIR_OK(&self, kilni_rpc_lane_join(self.server->turns[0], &self, 1, &lane, &self.err))) {
        return;
    }
    kiln_backend *backend = open_backend(&self, &self.err);
    kilni_rpc_turn_take(lane);
    for (int i = 0; backend != NULL && i <= MORE; i++) {
        values[i] = (float)i + 1;
        PAIR_OK(&self, backend->memory->alloc(backend, sizeof(float), &buffers[i], &self.err));
        PAIR_OK(&self, backend->transfer->upload(backend, buffers[i], 0, &values[i], sizeof(float),
                                                 &self.err));
        PAIR_OK(&self, backend->transfer->read_begin(backend, buffers[i], 0, &back[i],
                                                     sizeof(float), &pending[i], &self.err));
        if (i == 0) {
            lone.pending = pending[0];
            KILN_CHECK_INT(pthread_create(&thread, NULL, wait_alone, &lone), 0);
            KILN_CHECK(is_lock_free(kilni_rpc_client_of(backend)));
        }
    }
    KILN_CHECK(!atomic_load(&lone.over));
    kilni_rpc_turn_give(lane);
    kilni_rpc_lane_leave(lane);
    if (backend != NULL) {
        (void)pthread_join(thread, NULL);
        for (int i = 0; i <= MORE; i++) {
            backend->transfer->read_wait(pending[i], /*cancel=*/false);
            PAIR_OK(&self, backend->transfer->read_end(backend, pending[i], &self.err));
            KILN_CHECK(back[i] == values[i]);
            backend->memory->free(backend, buffers[i]);
        }
        backend->device->close(backend);
    }
    pair_close(&self);
}

/// A connection that breaks ends nobody's wait: whoever waited beside the one that comes back goes
/// on with the new one.
static void test_waiting_while_it_breaks(void)
{
    enum { WAITING = 3 };
    pair self;
    lone_wait lone[WAITING];
    pthread_t threads[WAITING];
    kilni_rpc_lane *lane = NULL;
    const float value = 5;
    float back[WAITING] = {0};
    kiln_buffer *buffer = NULL;
    if (!pair_open(&self, NULL) ||
        !PAIR_OK(&self, kilni_rpc_lane_join(self.server->turns[0], &self, 1, &lane, &self.err))) {
        return;
    }
    kiln_backend *backend = open_backend(&self, &self.err);
    if (backend == NULL) {
        return;
    }
    kilni_rpc_client *client = kilni_rpc_client_of(backend);
    PAIR_OK(&self, backend->memory->alloc(backend, sizeof(float), &buffer, &self.err));
    PAIR_OK(&self, backend->transfer->upload(backend, buffer, 0, &value, sizeof(float), &self.err));
    kilni_rpc_turn_take(lane);
    for (int i = 0; i < WAITING; i++) {
        atomic_init(&lone[i].over, false);
        PAIR_OK(&self, backend->transfer->read_begin(backend, buffer, 0, &back[i], sizeof(float),
                                                     &lone[i].pending, &self.err));
        KILN_CHECK_INT(pthread_create(&threads[i], NULL, wait_alone, &lone[i]), 0);
    }
    KILN_CHECK(is_lock_free(client));
    pthread_mutex_lock(&client->lock);
    kilni_rpc_cancel(client->link.stream);
    pthread_mutex_unlock(&client->lock);
    kilni_rpc_turn_give(lane);
    for (int i = 0; i < WAITING; i++) {
        (void)pthread_join(threads[i], NULL);
        PAIR_OK(&self, backend->transfer->read_end(backend, lone[i].pending, &self.err));
        KILN_CHECK(back[i] == value);
    }
    kilni_rpc_lane_leave(lane);
    backend->memory->free(backend, buffer);
    backend->device->close(backend);
    pair_close(&self);
}

/// One clear error for every one that is pending.
static void test_server_gone(void)
{
    enum { PENDING = 5 };
    pair self;
    if (!pair_open(&self, NULL) ||
        !PAIR_OK(&self, kiln_context_set(self.context, "remote-timeout", "300", &self.err))) {
        return;
    }
    kiln_device_release(self.remote);
    self.remote = NULL;
    PAIR_OK(&self, kiln_device_open(self.context, kiln_rpc_server_address(self.server, 0),
                                    &self.remote, &self.err));
    float back[PENDING];
    kiln_request *requests[PENDING] = {NULL};
    kiln_tensor *x = pair_upload(&self, 0, NULL, NULL);
    PAIR_OK(&self, kiln_sync(self.remote, &self.err));
    kiln_rpc_server_destroy(self.server);
    self.server = NULL;
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < PENDING; i++) {
        status = kiln_read_async(x, &back[i], sizeof(back[i]), &requests[i], &self.err);
        if (status == KILN_STATUS_OK) {
            status = kiln_request_wait(requests[i], &self.err);
        }
        KILN_CHECK_INT(status, KILN_STATUS_UNAVAILABLE);
        KILN_CHECK_CONTAINS(self.err.message, "session lost");
        kiln_request_destroy(requests[i]);
    }
    kiln_release(x);
    pair_close(&self);
}

KILN_TEST_MAIN("unit/remote_grpc/pending", KILN_TEST(test_place_in_order), KILN_TEST(test_cancel),
               KILN_TEST(test_both_directions), KILN_TEST(test_memory_returns),
               KILN_TEST(test_very_many), KILN_TEST(test_many_bytes), KILN_TEST(test_threads),
               KILN_TEST(test_others_go_on), KILN_TEST(test_waiting_while_it_breaks),
               KILN_TEST(test_server_gone))
