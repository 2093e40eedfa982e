// SPDX-License-Identifier: MIT OR Apache-2.0
// Any sequence of HTTP/2 frames against a server in this process (http2_script.h says what the
// bytes mean). The connection may end in any way; another client's session goes on, and no session
// is left to hold more than it may.
#include "fuzz_target.h"
#include "http2_script.h"

#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 8 << 20, MOST_SESSIONS = 8 };

static char path[] = "/tmp/kiln-sequence-XXXXXX";
static pair peers;
static hand witness;
static said messages;

/// Not pair_close: behind the last case there is nothing that could be checked.
static void stop(void)
{
    hand_close(&witness);
    kiln_device_release(peers.remote);
    kiln_rpc_server_destroy(peers.server);
    kiln_device_release(peers.local);
    kiln_context_destroy(peers.context);
}

static void start(void)
{
    static char listen[sizeof(path) + 5];
    const char *const listens[] = {listen};
    kiln_rpc_server_options options = KILN_RPC_SERVER_OPTIONS_INIT;
    kiln_env env = {.allocator = kiln_allocator_default()};
    int fd = mkstemp(path);
    must(fd >= 0);
    close(fd);
    must(unlink(path) == 0); // the server makes its socket there
    memcpy(listen, "unix:", 5);
    memcpy(listen + 5, path, sizeof(path));
    options.listen = listens;
    options.n_listen = 1;
    options.max_bytes = MOST_BYTES;
    options.max_sessions = MOST_SESSIONS;
    options.resume_seconds = 1;
    said_fill(&messages, &env);
    must(pair_open(&peers, &options) && hand_open(&witness, &peers));
    must(atexit(stop) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    const float two[] = {1, 2};
    kiln_rpc_server_stats stats = {.struct_size = (uint32_t)sizeof(stats)};
    if (!started) {
        start();
        started = true;
    }
    must(http2_play(path, &messages, data, size, NULL, 0));
    hand_write(&witness, 1, 0, sizeof(two), two, sizeof(two));
    hand_negate(&witness, 2, 1, 2);
    must(hand_read(&witness, 2, 0, sizeof(two)) == 0);
    must(hand_float(witness.frame->data, 1) == -2.0f);
    kiln_rpc_server_stats_get(peers.server, &stats);
    must(stats.sessions >= 1 && stats.sessions <= MOST_SESSIONS);
    must(stats.held_bytes <= (uint64_t)MOST_SESSIONS * MOST_BYTES);
    return 0;
}
