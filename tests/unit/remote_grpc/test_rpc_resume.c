// SPDX-License-Identifier: MIT OR Apache-2.0
// Sessions whose connection breaks: a recorded session is cut once after every frame, in both
// directions, and must give the same results with as many operations executed; and servers that end
// or start again.

#include "remote_fixture.h"
#include "tcp_proxy.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 3, LARGE = 12000, STEPS = 5, PENDING = 4, CANCELLED = 1 };

typedef struct outcome {
    float steps[STEPS][SMALL];
    float large[LARGE];
    float graph[2][SMALL];
    float pending[PENDING][SMALL];
    float later[LARGE];
    int32_t refused; ///< status of an operation that must fail
    bool good;
} outcome;

static int port_of(const kiln_rpc_server *server)
{
    kilni_rpc_address address;
    kiln_error err = KILN_ERROR_INIT;
    (void)!kilni_rpc_address_parse(kiln_rpc_server_address(server, 0), &address, &err);
    return address.port;
}

// ---- the recorded session ----

/// Steps of a program that repeats: its batch becomes known to the server by number.
static bool run_steps(pair *self, kiln_tensor *x, outcome *out)
{
    bool good = true;
    for (int i = 0; i < STEPS && good; i++) {
        kiln_tensor *t = NULL;
        kiln_tensor *y = NULL;
        good = PAIR_OK(self, kiln_mul_scalar(x, kiln_f64(3), &t, &self->err)) &&
               PAIR_OK(self, kiln_add(t, x, &y, &self->err));
        kiln_release(t);
        good =
            good && PAIR_OK(self, kiln_read(y, out->steps[i], sizeof(out->steps[i]), &self->err));
        kiln_release(y);
    }
    return good;
}

static bool run_large(pair *self, outcome *out)
{
    const int64_t dims[] = {LARGE};
    float *data = calloc(LARGE, sizeof(*data));
    kiln_tensor *y = NULL;
    for (int i = 0; i < LARGE; i++) {
        data[i] = (float)(i % 97);
    }
    kiln_tensor *x = pair_upload(self, 1, dims, data);
    bool good = PAIR_OK(self, kiln_neg(x, &y, &self->err)) &&
                PAIR_OK(self, kiln_read(y, out->large, sizeof(out->large), &self->err));
    kiln_release(x);
    kiln_release(y);
    free(data);
    return good;
}

static bool run_graph(pair *self, kiln_tensor *x, outcome *out)
{
    kiln_graph *graph = NULL;
    kiln_tensor *t = NULL;
    bool good = PAIR_OK(self, kiln_graph_begin(self->remote, &x, 1, &self->err)) &&
                PAIR_OK(self, kiln_exp(x, &t, &self->err)) &&
                PAIR_OK(self, kiln_graph_end(self->remote, &t, 1, &graph, &self->err));
    for (int i = 0; i < 2 && good; i++) {
        kiln_tensor *y = NULL;
        good = PAIR_OK(self, kiln_graph_run(graph, &x, 1, &y, 1, &self->err)) &&
               PAIR_OK(self, kiln_read(y, out->graph[i], sizeof(out->graph[i]), &self->err));
        kiln_release(y);
    }
    kiln_release(t);
    kiln_graph_destroy(graph);
    return good;
}

/// Reads that are waited for later, the last first; one is cancelled, and its memory stays as it
/// was.
static bool run_pending(pair *self, kiln_tensor *x, outcome *out)
{
    const int64_t dims[] = {LARGE};
    kiln_request *requests[PENDING + 1] = {NULL};
    bool good = true;
    for (int i = 0; i < PENDING && good; i++) {
        kiln_tensor *y = NULL;
        good = PAIR_OK(self, kiln_mul_scalar(x, kiln_f64(i + 2), &y, &self->err)) &&
               PAIR_OK(self, kiln_read_async(y, out->pending[i], sizeof(out->pending[i]),
                                             &requests[i], &self->err));
        kiln_release(y);
        if (i == CANCELLED) {
            kiln_request_cancel(requests[i]);
        }
    }
    kiln_tensor *zeros = pair_upload(self, 1, dims, NULL);
    kiln_tensor *ones = NULL;
    good = good && PAIR_OK(self, kiln_exp(zeros, &ones, &self->err)) &&
           PAIR_OK(self, kiln_read_async(ones, out->later, sizeof(out->later), &requests[PENDING],
                                         &self->err));
    kiln_release(zeros);
    kiln_release(ones);
    for (int i = PENDING; i >= 0 && good; i--) {
        (void)kiln_request_poll(requests[i]);
        good = KILN_CHECK_INT(kiln_request_wait(requests[i], &self->err),
                              i == CANCELLED ? KILN_STATUS_CANCELLED : KILN_STATUS_OK);
    }
    for (int i = 0; i <= PENDING; i++) {
        kiln_request_destroy(requests[i]);
    }
    return good && KILN_CHECK(out->pending[CANCELLED][0] == 0.0f) &&
           KILN_CHECK(out->pending[PENDING - 1][1] == -2.0f * (PENDING + 1)) &&
           KILN_CHECK(out->later[LARGE - 1] == 1.0f);
}

/// A failure is told exactly once, also when the answer that tells it is sent again.
static bool run_refused(pair *self, outcome *out)
{
    const int64_t dims[] = {4096}; // more than the session may hold
    float back[1];
    kiln_tensor *x = pair_upload(self, 0, NULL, NULL);
    kiln_tensor *y = NULL;
    kiln_tensor *first = NULL;
    kiln_error err = KILN_ERROR_INIT;
    const int64_t zero[] = {0};
    const int64_t one[] = {1};
    bool good = PAIR_OK(self, kiln_expand(x, dims, 1, &y, &self->err));
    if (good) {
        kiln_tensor *z = NULL;
        good = PAIR_OK(self, kiln_exp(y, &z, &self->err)) &&
               PAIR_OK(self, kiln_slice(z, zero, 1, one, 1, NULL, 0, &first, &self->err));
        kiln_release(z);
    }
    if (good) {
        out->refused = (int32_t)kiln_read(first, back, sizeof(back), &err);
    }
    kiln_release(x);
    kiln_release(y);
    kiln_release(first);
    return good && PAIR_OK(self, kiln_sync(self->remote, &self->err));
}

/// The whole session through the proxy, in a context of its own. Opening is tried again: before
/// there is a session nothing can be resumed.
static void record_session(const tcp_proxy *proxy, outcome *out)
{
    const int64_t dims[] = {SMALL};
    const float data[] = {1, -2, 0.5f};
    char address[64];
    pair self;
    memset(out, 0, sizeof(*out));
    snprintf(address, sizeof(address), "grpc://127.0.0.1:%d", proxy_port(proxy));
    if (!pair_context(&self)) {
        return;
    }
    kiln_status status = KILN_STATUS_UNAVAILABLE;
    for (int i = 0; i < 3 && status != KILN_STATUS_OK; i++) {
        status = kiln_device_open(self.context, address, &self.remote, &self.err);
    }
    if (PAIR_OK(&self, status)) {
        kiln_tensor *x = pair_upload(&self, 1, dims, data);
        out->good = run_steps(&self, x, out) && run_large(&self, out) && run_graph(&self, x, out) &&
                    run_pending(&self, x, out) && PAIR_OK(&self, kiln_sync(self.remote, &self.err));
        kiln_release(x);
    }
    pair_close(&self);
}

static uint64_t executed(const pair *self)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(self->local, &stats);
    return stats.backend.ops_executed;
}

/// Sessions without a connection are not over: waits until those that closed are gone.
static void settle(pair *self)
{
    for (int i = 0; i < 500; i++) {
        kiln_rpc_server_stats stats = {.struct_size = sizeof(stats)};
        kiln_rpc_server_stats_get(self->server, &stats);
        if (stats.sessions == stats.detached) {
            return;
        }
        pause_us(2000);
    }
}

static bool cut_and_compare(pair *self, tcp_proxy *proxy, int direction, uint64_t frame, bool hard,
                            const outcome *expected, uint64_t operations)
{
    outcome *got = calloc(1, sizeof(*got));
    proxy_arm(proxy, direction, frame, hard);
    uint64_t before = executed(self);
    record_session(proxy, got);
    settle(self);
    bool same = KILN_CHECK(got->good) && KILN_CHECK_MEM(got, expected, sizeof(*got)) &&
                KILN_CHECK_INT(executed(self) - before, operations);
    if (!same) {
        kiln_test_fail(__FILE__, __LINE__, "after the cut behind frame %llu, direction %d, %s",
                       (unsigned long long)frame, direction, hard ? "reset" : "closed");
    }
    free(got);
    return same;
}

static void test_cut_everywhere(void)
{
    pair self;
    outcome *expected = calloc(1, sizeof(*expected));
    if (!pair_context(&self) ||
        !PAIR_OK(&self, kiln_rpc_server_create(&self.local, 1, NULL, &self.server, &self.err))) {
        return;
    }
    tcp_proxy *proxy = proxy_start(port_of(self.server));
    proxy_arm(proxy, PROXY_UP, 0, false);
    record_session(proxy, expected);
    settle(&self);
    uint64_t operations = executed(&self);
    const uint64_t frames[] = {proxy_frames(proxy, PROXY_UP), proxy_frames(proxy, PROXY_DOWN)};
    KILN_CHECK(expected->good && operations >= STEPS * 2 + 3);
    printf("    %llu frames up, %llu down, each cut once\n", (unsigned long long)frames[0],
           (unsigned long long)frames[1]);
    KILN_CHECK(frames[PROXY_UP] > 15 && frames[PROXY_DOWN] >= 10);
    bool good = expected->good;
    for (int direction = PROXY_UP; direction <= PROXY_DOWN; direction++) {
        for (uint64_t frame = 1; frame <= frames[direction] && good; frame++) {
            good = cut_and_compare(&self, proxy, direction, frame, frame % 2 == 0, expected,
                                   operations);
        }
    }
    kiln_rpc_server_stats stats = {.struct_size = sizeof(stats)};
    kiln_rpc_server_stats_get(self.server, &stats);
    KILN_CHECK(stats.resumed > (frames[0] + frames[1]) / 2);
    proxy_stop(proxy);
    pair_close(&self);
    free(expected);
}

/// An upload that is sent from the caller's memory, and a long answer, cut somewhere in the middle.
static void test_cut_large(void)
{
    enum { COUNT = 3 << 20 };
    const int64_t dims[] = {COUNT};
    pair self;
    char address[64];
    float *data = calloc(COUNT, sizeof(*data));
    float *back = calloc(COUNT, sizeof(*back));
    for (int i = 0; i < COUNT; i++) {
        data[i] = (float)(i % 1013);
    }
    if (!pair_context(&self) ||
        !PAIR_OK(&self, kiln_rpc_server_create(&self.local, 1, NULL, &self.server, &self.err))) {
        return;
    }
    tcp_proxy *proxy = proxy_start(port_of(self.server));
    snprintf(address, sizeof(address), "grpc://127.0.0.1:%d", proxy_port(proxy));
    PAIR_OK(&self, kiln_device_open(self.context, address, &self.remote, &self.err));
    for (int direction = PROXY_UP; direction <= PROXY_DOWN; direction++) {
        for (uint64_t part = 1; part < 8; part++) {
            proxy_arm_bytes(proxy, direction, part * (COUNT / 2) + part, part % 2 == 0);
            kiln_tensor *x = pair_upload(&self, 1, dims, data);
            memset(back, 0, COUNT * sizeof(*back));
            PAIR_OK(&self, kiln_read(x, back, COUNT * sizeof(*back), &self.err));
            KILN_CHECK(memcmp(back, data, COUNT * sizeof(*back)) == 0);
            KILN_CHECK(proxy_has_cut(proxy));
            kiln_release(x);
        }
    }
    kiln_device_release(self.remote);
    self.remote = NULL;
    proxy_stop(proxy);
    pair_close(&self);
    free(data);
    free(back);
}

/// The failure that an answer tells is told once, wherever the connection was cut.
static void test_failure_told_once(void)
{
    pair self;
    char address[64];
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    options.max_bytes = 4096;
    if (!pair_context(&self) || !PAIR_OK(&self, kiln_rpc_server_create(&self.local, 1, &options,
                                                                       &self.server, &self.err))) {
        return;
    }
    tcp_proxy *proxy = proxy_start(port_of(self.server));
    snprintf(address, sizeof(address), "grpc://127.0.0.1:%d", proxy_port(proxy));
    PAIR_OK(&self, kiln_device_open(self.context, address, &self.remote, &self.err));
    for (uint64_t frame = 0; frame < 4; frame++) {
        outcome out = {.refused = 0};
        proxy_arm(proxy, PROXY_DOWN, frame, true);
        KILN_CHECK(run_refused(&self, &out));
        KILN_CHECK_INT(out.refused, KILN_STATUS_RESOURCE_EXHAUSTED);
    }
    kiln_device_release(self.remote);
    self.remote = NULL;
    proxy_stop(proxy);
    pair_close(&self);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SIDE = 260 };
#else
enum { SIDE = 600 }; // some seconds of the reference evaluator
#endif

/// The server works longer than the client's time for coming back: it is there, so the client
/// waits.
static void test_work_outlasts_timeout(void)
{
    const int64_t dims[] = {SIDE, SIDE};
    pair self;
    char address[64];
    float *back = calloc((size_t)SIDE * SIDE, sizeof(*back));
    kiln_tensor *y = NULL;
    if (!pair_context(&self) ||
        !PAIR_OK(&self, kiln_context_set(self.context, "remote-timeout", "200", &self.err)) ||
        !PAIR_OK(&self, kiln_rpc_server_create(&self.local, 1, NULL, &self.server, &self.err))) {
        return;
    }
    tcp_proxy *proxy = proxy_start(port_of(self.server));
    snprintf(address, sizeof(address), "grpc://127.0.0.1:%d", proxy_port(proxy));
    PAIR_OK(&self, kiln_device_open(self.context, address, &self.remote, &self.err));
    kiln_tensor *x = pair_upload(&self, 2, dims, NULL);
    PAIR_OK(&self, kiln_sync(self.remote, &self.err));
    proxy_arm(proxy, PROXY_UP, 2, true); // behind the product and the read of it
    uint64_t begun = kiln_time_ns();
    PAIR_OK(&self, kiln_matmul(x, x, false, false, &y, &self.err));
    PAIR_OK(&self, kiln_read(y, back, (size_t)SIDE * SIDE * sizeof(*back), &self.err));
    double seconds = (double)(kiln_time_ns() - begun) / 1e9;
    printf("    the product took %.1f s\n", seconds);
    KILN_CHECK(proxy_has_cut(proxy) && seconds > 0.3);
    kiln_release(x);
    kiln_release(y);
    kiln_device_release(self.remote);
    self.remote = NULL;
    proxy_stop(proxy);
    pair_close(&self);
    free(back);
}

// ---- servers that end ----

typedef struct restartable {
    pair base;
    kiln_rpc_server_options options;
    char address[96];
    const char *listen[1];
} restartable;

static bool restartable_open(restartable *self)
{
    self->options = (kiln_rpc_server_options)KILN_RPC_SERVER_OPTIONS_INIT;
    snprintf(self->address, sizeof(self->address), "unix:/tmp/kiln-resume-%d", (int)getpid());
    self->listen[0] = self->address;
    self->options.listen = self->listen;
    self->options.n_listen = 1;
    return pair_context(&self->base) &&
           PAIR_OK(&self->base, kiln_context_set(self->base.context, "remote-timeout", "700",
                                                 &self->base.err)) &&
           PAIR_OK(&self->base, kiln_rpc_server_create(&self->base.local, 1, &self->options,
                                                       &self->base.server, &self->base.err)) &&
           PAIR_OK(&self->base, kiln_device_open(self->base.context, self->address,
                                                 &self->base.remote, &self->base.err));
}

/// After a restart: what was there is lost, and says so once for each call that needs it; what is
/// made anew works on the same device.
static void test_restart(void)
{
    restartable self;
    const int64_t dims[] = {2};
    const float data[] = {1, 2};
    float back[2];
    kiln_tensor *y = NULL;
    if (!restartable_open(&self)) {
        return;
    }
    kiln_tensor *x = pair_upload(&self.base, 1, dims, data);
    PAIR_OK(&self.base, kiln_read(x, back, sizeof(back), &self.base.err));
    kiln_rpc_server_destroy(self.base.server);
    PAIR_OK(&self.base, kiln_rpc_server_create(&self.base.local, 1, &self.options,
                                               &self.base.server, &self.base.err));
    KILN_CHECK_INT(kiln_neg(x, &y, &self.base.err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_read(y, back, sizeof(back), &self.base.err), KILN_STATUS_UNAVAILABLE);
    KILN_CHECK_CONTAINS(self.base.err.message, "session lost: the server was restarted");
    KILN_CHECK_INT(kiln_read(x, back, sizeof(back), &self.base.err), KILN_STATUS_UNAVAILABLE);
    KILN_CHECK_CONTAINS(self.base.err.message, "session lost");
    kiln_release(y);
    kiln_release(x);
    x = pair_upload(&self.base, 1, dims, data);
    PAIR_OK(&self.base, kiln_neg(x, &y, &self.base.err));
    PAIR_OK(&self.base, kiln_read(y, back, sizeof(back), &self.base.err));
    KILN_CHECK(back[0] == -1.0f && back[1] == -2.0f);
    kiln_release(y);
    kiln_release(x);
    pair_close(&self.base);
}

typedef struct caller {
    kiln_tensor *tensor;
    kiln_status status;
    uint64_t ns;
    kiln_error err;
} caller;

static void *call_read(void *pointer)
{
    caller *self = pointer;
    float back[2];
    uint64_t start = kiln_time_ns();
    self->status = kiln_read(self->tensor, back, sizeof(back), &self->err);
    self->ns = kiln_time_ns() - start;
    return NULL;
}

/// Every pending call ends with one error, and not later than the client's time for coming back.
static void test_pending_calls_end(void)
{
    enum { CALLERS = 4 };
    restartable self;
    caller callers[CALLERS] = {{0}};
    pthread_t threads[CALLERS];
    const int64_t dims[] = {2};
    if (!restartable_open(&self)) {
        return;
    }
    for (int i = 0; i < CALLERS; i++) {
        callers[i].tensor = pair_upload(&self.base, 1, dims, NULL);
    }
    PAIR_OK(&self.base, kiln_sync(self.base.remote, &self.base.err));
    kiln_rpc_server_destroy(self.base.server);
    self.base.server = NULL;
    for (int i = 0; i < CALLERS; i++) {
        KILN_CHECK_INT(pthread_create(&threads[i], NULL, call_read, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        KILN_CHECK_INT(callers[i].status, KILN_STATUS_UNAVAILABLE);
        KILN_CHECK_CONTAINS(callers[i].err.message, "session lost");
        KILN_CHECK(callers[i].ns < UINT64_C(5000000000));
        kiln_release(callers[i].tensor);
    }
    pair_close(&self.base);
}

/// A client that wants to resume and acknowledges nothing is sent away before it fills the server.
static void test_no_acks(void)
{
    enum { FENCES = 6000 };
    pair self;
    hand client;
    kilni_rpc_address address;
    if (!pair_open(&self, NULL)) {
        return;
    }
    memset(&client, 0, sizeof(client));
    client.env.allocator = kiln_allocator_default();
    client.inbox = calloc(1, sizeof(*client.inbox));
    client.frame = &client.inbox->frame;
    PAIR_OK(&self,
            kilni_rpc_address_parse(kiln_rpc_server_address(self.server, 0), &address, &self.err));
    PAIR_OK(&self, kilni_rpc_connect(&client.env, &address, NULL, KILNI_RPC_SESSION, 5000,
                                     &client.stream, &self.err));
    kilni_rpc_frame hello = {0};
    hello.body.which_body = kiln_v1_Frame_hello_tag;
    hello.body.body.hello.version = KILNI_RPC_VERSION;
    hello.body.body.hello.resumable = true;
    KILN_CHECK_INT(hand_ask(&client, &hello), 0);
    static const char fence[] = "\x08\x01\x42\x00";
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < FENCES && status == KILN_STATUS_OK; i++) {
        kilni_rpc_message message = {0};
        bool end = false;
        status = kilni_rpc_send_bytes(client.stream, fence, sizeof(fence) - 1, &self.err);
        if (status == KILN_STATUS_OK) {
            status = kilni_rpc_receive(client.stream, 20000, &message, &end, &self.err);
        }
        kilni_rpc_message_free(&message);
    }
    KILN_CHECK_INT(status, KILN_STATUS_RESOURCE_EXHAUSTED);
    KILN_CHECK_CONTAINS(self.err.message, "ack");
    hand_close(&client);
    pair_close(&self);
}

/// A token of another session, or none, resumes nothing.
static void test_wrong_token(void)
{
    pair self;
    hand client;
    if (!pair_open(&self, NULL) || !hand_open(&client, &self)) {
        return;
    }
    uint64_t session = client.frame->body.body.welcome.session;
    for (int i = 0; i < 2; i++) {
        hand thief;
        memset(&thief, 0, sizeof(thief));
        kilni_rpc_address address;
        thief.env = client.env;
        thief.inbox = calloc(1, sizeof(*thief.inbox));
        thief.frame = &thief.inbox->frame;
        HAND_OK(&thief, kilni_rpc_address_parse(kiln_rpc_server_address(self.server, 0), &address,
                                                &thief.err));
        HAND_OK(&thief, kilni_rpc_connect(&thief.env, &address, NULL, KILNI_RPC_SESSION, 5000,
                                          &thief.stream, &thief.err));
        kilni_rpc_frame hello = {0};
        hello.body.which_body = kiln_v1_Frame_hello_tag;
        hello.body.body.hello.version = KILNI_RPC_VERSION;
        hello.body.body.hello.session = session;
        hello.body.body.hello.token.size = i == 0 ? 0 : KILNI_RPC_TOKEN;
        KILN_CHECK_INT(hand_ask(&thief, &hello), 0);
        KILN_CHECK(thief.frame->body.body.welcome.session != session);
        hand_close(&thief);
    }
    KILN_CHECK_INT(hand_fence(&client), KILN_STATUS_OK);
    hand_close(&client);
    pair_close(&self);
}

KILN_TEST_MAIN("unit/remote_grpc/resume", KILN_TEST(test_cut_everywhere), KILN_TEST(test_cut_large),
               KILN_TEST(test_failure_told_once), KILN_TEST(test_work_outlasts_timeout),
               KILN_TEST(test_restart), KILN_TEST(test_pending_calls_end), KILN_TEST(test_no_acks),
               KILN_TEST(test_wrong_token))
