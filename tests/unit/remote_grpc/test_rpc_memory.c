// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory that client and server share: tensors go through it and not through the socket, a server
// that has none is used without, and what strangers and liars hand over is refused.

#define _GNU_SOURCE // memfd_create
#include "remote_fixture.h"
#include "rpc_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { COUNT = 9 * (1 << 20) + 77 }; ///< floats: more than all slots, and than one frame tells of

static char path[64];

static bool serve(pair *self)
{
    static const char *const listen[] = {path};
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    snprintf(path, sizeof(path), "unix:/tmp/kiln-memory-%d", (int)getpid());
    options.listen = listen;
    options.n_listen = 1;
    return pair_open(self, &options);
}

static void go_there_and_back(pair *self)
{
    const int64_t dims[] = {COUNT};
    float *data = malloc(COUNT * sizeof(*data));
    float *back = calloc(COUNT, sizeof(*back));
    kiln_tensor *y = NULL;
    for (int i = 0; i < COUNT; i++) {
        data[i] = (float)(i % 100003);
    }
    kiln_tensor *x = pair_upload(self, 1, dims, data);
    PAIR_OK(self, kiln_read(x, back, COUNT * sizeof(*back), &self->err)); // raw bytes
    KILN_CHECK_MEM(back, data, COUNT * sizeof(*back));
    PAIR_OK(self, kiln_neg(x, &y, &self->err));
    PAIR_OK(self, kiln_read(y, back, COUNT * sizeof(*back), &self->err)); // a tensor
    bool good = true;
    for (int i = 0; i < COUNT; i++) {
        good = good && back[i] == -data[i];
    }
    KILN_CHECK(good);
    kiln_release(x);
    kiln_release(y);
    free(data);
    free(back);
}

static void test_tensors(void)
{
    pair self;
    if (serve(&self)) {
        go_there_and_back(&self);
        KILN_CHECK(kiln_test_resident("memfd:kiln") > 0);
        pair_close(&self);
        KILN_CHECK_INT(kiln_test_resident("memfd:kiln"), 0);
    }
}

static void test_may_be_off(void)
{
    pair self;
    if (serve(&self)) {
        kiln_device_release(self.remote);
        PAIR_OK(&self, kiln_context_set(self.context, "remote-memory", "0", &self.err));
        PAIR_OK(&self, kiln_device_open(self.context, path, &self.remote, &self.err));
        go_there_and_back(&self);
        KILN_CHECK_INT(kiln_test_resident("memfd:kiln"), 0);
        pair_close(&self);
    }
}

/// Memory of kiln_host_alloc is the server's too: tensors go there, and from there, in one copy.
static void test_host_memory(void)
{
    const int64_t dims[] = {COUNT - 3};
    const size_t bytes = (COUNT - 3) * sizeof(float);
    pair self;
    void *memory = NULL;
    void *small = NULL;
    kiln_tensor *y = NULL;
    if (!serve(&self)) {
        return;
    }
    PAIR_OK(&self, kiln_host_alloc(self.remote, 100, &small, &self.err));
    PAIR_OK(&self, kiln_host_alloc(self.remote, COUNT * sizeof(float), &memory, &self.err));
    float *data = (float *)memory + 2; // a part of it
    for (int i = 0; i < COUNT - 3; i++) {
        data[i] = (float)(i % 100003);
    }
    uint64_t with = kiln_test_resident("memfd:kiln");
    kiln_tensor *x = pair_upload(&self, 1, dims, data);
    PAIR_OK(&self, kiln_neg(x, &y, &self.err));
    PAIR_OK(&self, kiln_read(y, data, bytes, &self.err));
    bool good = true;
    for (int i = 0; i < COUNT - 3; i++) {
        good = good && data[i] == -(float)(i % 100003);
    }
    KILN_CHECK(good);
    KILN_CHECK(with >= COUNT * sizeof(float));
    kiln_host_free(self.remote, memory);
    kiln_host_free(self.remote, small);
    PAIR_OK(&self, kiln_sync(self.remote, &self.err)); // the server has let go of it too
    KILN_CHECK_INT(kiln_test_resident("memfd:kiln"), 0); // and nothing went through slots
    for (int i = 0; i < 40; i++) { // numbers come again
        PAIR_OK(&self, kiln_host_alloc(self.remote, 1 << 20, &memory, &self.err));
        memset(memory, 1, 1 << 20);
        kiln_host_free(self.remote, memory);
    }
    kiln_release(x);
    kiln_release(y);
    pair_close(&self);
}

/// The second socket is gone: the first is enough.
static void test_no_desk(void)
{
    pair self;
    char desk[128];
    if (serve(&self)) {
        struct stat facts;
        KILN_CHECK(kilni_rpc_memory_path(path + 5, desk, sizeof(desk)));
        KILN_CHECK(stat(desk, &facts) == 0 && (facts.st_mode & 0777) == 0600);
        KILN_CHECK(unlink(desk) == 0);
        go_there_and_back(&self);
        pair_close(&self);
    }
}

/// Work that fails tells of it as through a socket, and the session goes on.
static void test_failures(void)
{
    const int64_t dims[] = {COUNT};
    pair self;
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    const char *const listen[] = {path};
    snprintf(path, sizeof(path), "unix:/tmp/kiln-memory-%d", (int)getpid());
    options.listen = listen;
    options.n_listen = 1;
    options.max_bytes = 1 << 20;
    float *data = calloc(COUNT, sizeof(*data));
    if (pair_open(&self, &options)) {
        kiln_tensor *x = pair_upload(&self, 1, dims, data);
        KILN_CHECK_INT(kiln_read(x, data, COUNT * sizeof(*data), &self.err),
                       KILN_STATUS_RESOURCE_EXHAUSTED);
        kiln_release(x);
        const int64_t few[] = {2};
        const float two[] = {1, 2};
        kiln_tensor *y = pair_upload(&self, 1, few, two);
        PAIR_OK(&self, kiln_read(y, data, sizeof(two), &self.err));
        KILN_CHECK(data[1] == 2);
        kiln_release(y);
        (void)!kiln_sync(self.remote, &self.err);
        pair_close(&self);
    }
    free(data);
}

// ---- strangers and liars ----

/// Hands `n` descriptors over with a hello, and gives what is answered; -1: nothing.
static int hand_over(const kilni_rpc_memory_hello *hello, size_t bytes, const int *descriptors,
                     size_t n)
{
    char answer = -1;
    char control[CMSG_SPACE(8 * sizeof(int))] = {0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct iovec part = {.iov_base = (void *)(uintptr_t)hello, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    KILN_CHECK(kilni_rpc_memory_path(path + 5, address.sun_path, sizeof(address.sun_path)));
    if (n > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(rights), descriptors, n * sizeof(int));
    }
    int link = socket(AF_UNIX, SOCK_STREAM, 0);
    if (KILN_CHECK(connect(link, (const struct sockaddr *)&address, sizeof(address)) == 0)) {
        (void)sendmsg(link, &message, MSG_NOSIGNAL);
        (void)shutdown(link, SHUT_WR);
        (void)recv(link, &answer, 1, 0);
    }
    (void)close(link);
    return answer;
}

static int make_memory(size_t bytes, unsigned seals)
{
    int made = memfd_create("kiln-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    KILN_CHECK(ftruncate(made, (off_t)bytes) == 0 && fcntl(made, F_ADD_SEALS, seals) == 0);
    return made;
}

static uint32_t ask_shared(hand *self, bool write, uint64_t place, uint64_t length)
{
    kilni_rpc_frame frame = {0};
    if (write) {
        frame.body.which_body = kiln_v1_Frame_write_tag;
        frame.body.body.write =
            (kiln_v1_Write){.buffer = 1, .total = 4096, .shared = place, .shared_bytes = length};
    } else {
        frame.body.which_body = kiln_v1_Frame_read_tag;
        frame.body.body.read = (kiln_v1_Read){.buffer = 1, .length = length, .shared = place};
    }
    return hand_ask(self, &frame);
}

static void test_refused_memory(void)
{
    enum { BYTES = 8192 };
    pair self;
    hand user;
    if (!serve(&self) || !hand_open(&user, &self)) {
        return;
    }
    const kiln_v1_Welcome *welcome = &user.frame->body.body.welcome;
    kilni_rpc_memory_hello good = {.session = welcome->session, .bytes = BYTES};
    memcpy(good.magic, kilni_rpc_memory_magic, sizeof(good.magic));
    memcpy(good.token, welcome->token.bytes, sizeof(good.token));
    int sealed = make_memory(BYTES, F_SEAL_SHRINK);
    int loose = make_memory(BYTES, 0);
    int plain = open("/dev/null", O_RDWR);
    const int three[] = {sealed, sealed, sealed, sealed, sealed, sealed};
    kilni_rpc_memory_hello bad = good;
    bad.token[3] ^= 1;
    KILN_CHECK_INT(hand_over(&bad, sizeof(bad), &sealed, 1), 0);
    bad = good;
    bad.session++;
    KILN_CHECK_INT(hand_over(&bad, sizeof(bad), &sealed, 1), 0);
    bad = good;
    bad.number = KILNI_RPC_MEMORIES;
    KILN_CHECK_INT(hand_over(&bad, sizeof(bad), &sealed, 1), 0);
    bad = good;
    bad.magic[0] = 'x';
    KILN_CHECK_INT(hand_over(&bad, sizeof(bad), &sealed, 1), 0);
    const uint64_t lengths[] = {0, BYTES + 1, KILNI_RPC_MEMORY_MOST + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        bad = good;
        bad.bytes = lengths[i];
        KILN_CHECK_INT(hand_over(&bad, sizeof(bad), &sealed, 1), 0);
    }
    KILN_CHECK_INT(hand_over(&good, sizeof(good), NULL, 0), 0);
    KILN_CHECK_INT(hand_over(&good, sizeof(good), &loose, 1), 0);
    KILN_CHECK_INT(hand_over(&good, sizeof(good), &plain, 1), 0);
    KILN_CHECK_INT(hand_over(&good, sizeof(good), three, 3), 0);
    KILN_CHECK_INT(hand_over(&good, sizeof(good), three, 6), 0);
    KILN_CHECK_INT(hand_over(&good, sizeof(good) - 1, &sealed, 1), 0);
    bad = good;
    bad.token[0] ^= 1;
    // A frame that names memory which nobody has handed over.
    KILN_CHECK_INT(ask_shared(&user, true, 1, 4096), 0); // the answer frees the place, and no more
    KILN_CHECK_INT(hand_fence(&user), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_INT(hand_over(&good, sizeof(good), &sealed, 1), 1);
    KILN_CHECK_INT(hand_over(&good, sizeof(good), &sealed, 1), 0); // it has some
    KILN_CHECK_INT(ask_shared(&user, true, 1, 4096), 0);
    KILN_CHECK_INT(hand_fence(&user), 0);
    const uint64_t places[][2] = {
        {BYTES, 4096}, {BYTES - 4094, 4096}, {UINT64_MAX, 1}, {1, UINT64_MAX}, {2, UINT64_MAX}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        KILN_CHECK_INT(ask_shared(&user, true, places[i][0], places[i][1]), 0);
        KILN_CHECK_INT(hand_fence(&user), KILN_STATUS_OUT_OF_RANGE);
    }
    KILN_CHECK_INT(ask_shared(&user, true, 1, 4096), 0);
    KILN_CHECK_INT(ask_shared(&user, false, BYTES - 4094, 4096), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(ask_shared(&user, false, UINT64_MAX, 4096), KILN_STATUS_OUT_OF_RANGE);
    KILN_CHECK_INT(ask_shared(&user, false, BYTES - 4095, 4096), 0);
    kilni_rpc_memory_revoke(path + 5, good.session, bad.token); // another session's token
    KILN_CHECK_INT(ask_shared(&user, false, BYTES - 4095, 4096), 0);
    kilni_rpc_memory_revoke(path + 5, good.session, good.token);
    KILN_CHECK_INT(ask_shared(&user, false, BYTES - 4095, 4096), KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_INT(hand_over(&good, sizeof(good), &sealed, 1), 1); // and it may share again
    KILN_CHECK_INT(ask_shared(&user, false, BYTES - 4095, 4096), 0);
    KILN_CHECK_INT(hand_fence(&user), 0);
    (void)close(sealed);
    (void)close(loose);
    (void)close(plain);
    hand_close(&user);
    pair_close(&self);
}

KILN_TEST_MAIN("unit/remote_grpc/memory", KILN_TEST(test_tensors), KILN_TEST(test_may_be_off),
               KILN_TEST(test_host_memory), KILN_TEST(test_no_desk), KILN_TEST(test_failures),
               KILN_TEST(test_refused_memory))
