// SPDX-License-Identifier: MIT OR Apache-2.0
// An address that names several servers: which one a session is opened at, and where the next one
// goes when a server ends, is full or was never there.

#include "remote_fixture.h"

#include <stdio.h>
#include <string.h>

enum { SERVERS = 2 };

typedef struct replicas {
    pair base; ///< its server is the first
    kiln_rpc_server *servers[SERVERS];
    char address[128]; ///< all of them
} replicas;

/// `most`: sessions at the first one; 0: as many as usual.
static bool open_replicas(replicas *self, uint32_t most)
{
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    size_t length = 0;
    memset(self, 0, sizeof(*self));
    bool good = pair_context(&self->base) &&
                PAIR_OK(&self->base, kiln_context_set(self->base.context, "remote-timeout", "300",
                                                      &self->base.err));
    for (size_t i = 0; i < SERVERS && good; i++) {
        options.max_sessions = i == 0 ? most : 0;
        good = PAIR_OK(&self->base, kiln_rpc_server_create(&self->base.local, 1, &options,
                                                           &self->servers[i], &self->base.err));
        const char *one = good ? kiln_rpc_server_address(self->servers[i], 0) : "";
        length += (size_t)snprintf(self->address + length, sizeof(self->address) - length, "%s%s",
                                   i > 0 ? "," : "", i > 0 ? strstr(one, "://") + 3 : one);
    }
    return good;
}

static void close_replicas(replicas *self)
{
    kiln_device_release(self->base.remote);
    self->base.remote = NULL;
    for (size_t i = 0; i < SERVERS; i++) {
        kiln_rpc_server_destroy(self->servers[i]);
    }
    pair_close(&self->base);
}

static uint32_t sessions_at(const replicas *self, size_t index)
{
    kiln_rpc_server_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
    if (self->servers[index] != NULL) {
        kiln_rpc_server_stats_get(self->servers[index], &stats);
    }
    return stats.sessions;
}

static bool open_remote(replicas *self)
{
    return PAIR_OK(&self->base, kiln_device_open(self->base.context, self->address,
                                                 &self->base.remote, &self->base.err));
}

/// y = -x, from new tensors.
static kiln_status negate(replicas *self, float x)
{
    const int64_t dims[] = {1};
    float back = 0;
    kiln_tensor *from = NULL;
    kiln_tensor *to = NULL;
    kiln_status status =
        kiln_tensor_create(self->base.remote, KILN_DTYPE_F32, 1, dims, &x, &from, &self->base.err);
    status = status == KILN_STATUS_OK ? kiln_neg(from, &to, &self->base.err) : status;
    status =
        status == KILN_STATUS_OK ? kiln_read(to, &back, sizeof(back), &self->base.err) : status;
    KILN_CHECK(status != KILN_STATUS_OK || back == -x);
    kiln_release(from);
    kiln_release(to);
    return status;
}

/// What was there is gone, and says so; what comes is done elsewhere. Then back again.
static void test_a_server_ends(void)
{
    const int64_t dims[] = {1};
    float x = 7;
    replicas self;
    if (open_replicas(&self, 0) && open_remote(&self)) {
        KILN_CHECK_INT(negate(&self, 3), KILN_STATUS_OK);
        size_t first = sessions_at(&self, 0) > 0 ? 0 : 1;
        KILN_CHECK_INT(sessions_at(&self, 1 - first), 0);
        kiln_tensor *kept = pair_upload(&self.base, 1, dims, &x);
        PAIR_OK(&self.base, kiln_sync(self.base.remote, &self.base.err));
        kiln_rpc_server_destroy(self.servers[first]);
        self.servers[first] = NULL;
        KILN_CHECK_INT(kiln_read(kept, &x, sizeof(x), &self.base.err), KILN_STATUS_UNAVAILABLE);
        KILN_CHECK_CONTAINS(self.base.err.message, "session lost");
        kiln_release(kept);
        KILN_CHECK_INT(negate(&self, 4), KILN_STATUS_OK);
        KILN_CHECK_INT(sessions_at(&self, 1 - first), 1);
    }
    close_replicas(&self);
}

static void test_a_full_server_is_passed(void)
{
    replicas self;
    kiln_device *first = NULL;
    if (open_replicas(&self, 1) &&
        PAIR_OK(&self.base,
                kiln_device_open(self.base.context, kiln_rpc_server_address(self.servers[0], 0),
                                 &first, &self.base.err))) {
        for (uint32_t i = 1; i <= 4 && open_remote(&self); i++) { // from wherever each begins
            KILN_CHECK_INT(negate(&self, 2), KILN_STATUS_OK);
            KILN_CHECK_INT(sessions_at(&self, 0), 1);
            KILN_CHECK_INT(sessions_at(&self, 1), 1);
            kiln_device_release(self.base.remote);
            self.base.remote = NULL;
            while (sessions_at(&self, 1) > 0) {
                pause_us(1000);
            }
        }
    }
    kiln_device_release(first);
    close_replicas(&self);
}

/// Calls that servers have answered to the end.
static uint64_t answered(kiln_rpc_server *const *servers, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        kiln_rpc_server_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
        kiln_rpc_server_stats_get(servers[i], &stats);
        sum += stats.served;
    }
    return sum;
}

/// However many servers there are, a client asks three that answer. All have something to do here,
/// and one of them is gone.
static void test_three_are_asked(void)
{
    enum { MANY = 6, THERE = MANY - 1, ASKED = 3 };
    pair self;
    kiln_rpc_server *servers[MANY] = {NULL};
    kiln_device *busy[MANY] = {NULL};
    char all[256] = "grpc://";
    size_t length = strlen(all);
    bool good = pair_context(&self);
    for (size_t i = 0; i < MANY && good; i++) {
        good =
            PAIR_OK(&self, kiln_rpc_server_create(&self.local, 1, NULL, &servers[i], &self.err)) &&
            PAIR_OK(&self, kiln_device_open(self.context, kiln_rpc_server_address(servers[i], 0),
                                            &busy[i], &self.err));
        const char *one = good ? strstr(kiln_rpc_server_address(servers[i], 0), "://") + 3 : "";
        length +=
            (size_t)snprintf(all + length, sizeof(all) - length, "%s%s", i > 0 ? "," : "", one);
    }
    kiln_device_release(busy[THERE]);
    busy[THERE] = NULL;
    kiln_rpc_server_destroy(servers[THERE]);
    uint64_t begun = kiln_time_ns();
    if (good && PAIR_OK(&self, kiln_device_open(self.context, all, &self.remote, &self.err)) &&
        kiln_time_ns() - begun < UINT64_C(1000000) * KILNI_RPC_GREETING_MS) { // none was too slow
        for (int i = 0; i < 12000 && answered(servers, THERE) < ASKED; i++) {
            pause_us(5000);
        }
        KILN_CHECK_INT(answered(servers, THERE), ASKED);
    }
    for (size_t i = 0; i < THERE; i++) {
        kiln_device_release(busy[i]);
    }
    kiln_device_release(self.remote);
    self.remote = NULL;
    for (size_t i = 0; i < THERE; i++) {
        kiln_rpc_server_destroy(servers[i]);
    }
    pair_close(&self);
}

static void test_nobody_is_there(void)
{
    replicas self;
    kiln_rpc_listing *listing = NULL;
    if (open_replicas(&self, 0)) {
        kiln_rpc_server_destroy(self.servers[0]);
        self.servers[0] = NULL;
        PAIR_OK(&self.base,
                kiln_rpc_listing_create(self.base.context, self.address, &listing, &self.base.err));
        KILN_CHECK(kiln_rpc_listing_device(listing, 0) != NULL);
        const char *second = kiln_rpc_server_address(self.servers[1], 0);
        KILN_CHECK_CONTAINS(kiln_rpc_listing_device(listing, 0)->address, second);
        kiln_rpc_listing_destroy(listing);
        kiln_rpc_server_destroy(self.servers[1]);
        self.servers[1] = NULL;
        KILN_CHECK_INT(
            kiln_device_open(self.base.context, self.address, &self.base.remote, &self.base.err),
            KILN_STATUS_UNAVAILABLE);
        KILN_CHECK_CONTAINS(self.base.err.message, "nobody answers");
        KILN_CHECK_CONTAINS(self.base.err.message, self.address); // that is, every one
    }
    close_replicas(&self);
}

/// Sessions that stay are spread evenly, whatever the beginning: by chance alone that would happen
/// once in a thousand times.
static void test_who_has_less_to_do_is_chosen(void)
{
    enum { CLIENTS = 20 };
    replicas self;
    kiln_backend *clients[CLIENTS] = {NULL}; // a context has one device of an address
    bool good = open_replicas(&self, 0);
    for (uint32_t i = 0; i < CLIENTS && good; i++) {
        const kiln_env *env = kiln_context_env(self.base.context);
        good = PAIR_OK(&self.base, kiln_rpc_provider()->open(env, self.address, &clients[i],
                                                             &self.base.err, NULL));
        uint32_t first = sessions_at(&self, 0);
        uint32_t second = sessions_at(&self, 1);
        KILN_CHECK_INT(first + second, i + 1);
        KILN_CHECK(first <= second + 1 && second <= first + 1);
    }
    for (uint32_t i = 0; i < CLIENTS && clients[i] != NULL; i++) {
        clients[i]->device->close(clients[i]);
    }
    close_replicas(&self);
}

/// Clients do not all begin at the first: 2^-59 is how often these would.
static void test_clients_are_spread(void)
{
    enum { CLIENTS = 60 };
    replicas self;
    bool seen[SERVERS] = {false};
    bool good = open_replicas(&self, 0);
    for (size_t i = 0; i < CLIENTS && good && !(seen[0] && seen[1]); i++) {
        good = open_remote(&self);
        for (size_t k = 0; k < SERVERS && good; k++) {
            kiln_rpc_server_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
            kiln_rpc_server_stats_get(self.servers[k], &stats);
            seen[k] = stats.opened > 0;
        }
        kiln_device_release(self.base.remote);
        self.base.remote = NULL;
    }
    KILN_CHECK(seen[0] && seen[1]);
    close_replicas(&self);
}

KILN_TEST_MAIN("unit/remote_grpc/test_rpc_servers", KILN_TEST(test_a_server_ends),
               KILN_TEST(test_a_full_server_is_passed), KILN_TEST(test_three_are_asked),
               KILN_TEST(test_nobody_is_there), KILN_TEST(test_who_has_less_to_do_is_chosen),
               KILN_TEST(test_clients_are_spread))
