// SPDX-License-Identifier: MIT OR Apache-2.0
// What a server does without a call. Two threads: one tells those who watch health and reads files
// again, and waits for nobody; the other ends sessions that nobody came back for and gives memory
// back, for which it may have to wait for a device.

#include "rpc_server.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

enum { HOUSEKEEPING_MS = 1000 };

/// How often free memory goes back while there are sessions, and after which growth.
enum { TRIM_S = 5, TRIM_SHARE = 128, TRIM_LEAST_BYTES = 1 << 20 };

/// Waits for a change unless `due`, and looks each second where nobody would tell. Under the lock.
static void await_chores(kiln_rpc_server *server, bool due, bool untold)
{
    if (due || atomic_load(&server->stopping)) {
        return;
    }
    if (untold) {
        kilni_rpc_wait_change(server, HOUSEKEEPING_MS);
    } else {
        pthread_cond_wait(&server->changed, &server->lock);
    }
}

// ---- who waits for nobody ----

/// Those who watch go, and files are written, without anybody telling. Under the lock.
static bool has_watches_or_files(const kiln_rpc_server *server)
{
    bool files = false;
    for (size_t i = 0; i < KILNI_RPC_FILES; i++) {
        files = files || server->files[i] != NULL;
    }
    return files || server->watches != NULL;
}

void *kilni_rpc_keep_house(void *pointer)
{
    kiln_rpc_server *server = pointer;
    while (!atomic_load(&server->stopping)) {
        pthread_mutex_lock(&server->lock);
        await_chores(server, server->to_look, has_watches_or_files(server));
        pthread_mutex_unlock(&server->lock);
        kilni_rpc_server_renew(server);
        kilni_rpc_watch_look(server);
    }
    kilni_rpc_watch_look(server); // they are told goodbye
    return NULL;
}

// ---- sessions and memory ----

/// When the last session has gone, its memory goes too, but for what glibc keeps: the free end of
/// each arena but the first, up to 32 MiB. MALLOC_ARENA_MAX=1 leaves one arena.
static void trim(kiln_rpc_server *server)
{
    for (uint32_t i = 0; i < server->session.n_devices; i++) {
        kiln_device_trim(server->devices[i]);
    }
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}

#if defined(__GLIBC__)
/// What this process has in memory; 0: not known.
static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        if (fscanf(file, "%*u %llu", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/// Threads of sessions take and free memory, compilers much of it, each in an arena of its own, and
/// an arena keeps what is free. So while sessions come and go, free pages go back whenever the
/// process has grown by some share since the last time, or less of its memory is in use.
static void trim_growth(kiln_rpc_server *server, uint64_t now)
{
    if (now < server->trim_after_ns) {
        return;
    }
    server->trim_after_ns = now + TRIM_S * UINT64_C(1000000000);
    uint64_t bytes = resident_bytes();
    uint64_t in_use = mallinfo2().uordblks;
    uint64_t share = server->trimmed_bytes / TRIM_SHARE;
    uint64_t much = share > TRIM_LEAST_BYTES ? share : TRIM_LEAST_BYTES;
    if (bytes > server->trimmed_bytes + much || in_use + much < server->in_use_bytes) {
        (void)malloc_trim(0);
        server->trimmed_bytes = resident_bytes();
        server->in_use_bytes = in_use;
        return;
    }
    server->trimmed_bytes = bytes < server->trimmed_bytes ? bytes : server->trimmed_bytes;
    server->in_use_bytes = in_use > server->in_use_bytes ? in_use : server->in_use_bytes;
}
#else
static void trim_growth(kiln_rpc_server *server, uint64_t now)
{
    (void)server;
    (void)now;
}
#endif

void *kilni_rpc_keep_sessions(void *pointer)
{
    kiln_rpc_server *server = pointer;
    while (!atomic_load(&server->stopping)) {
        pthread_mutex_lock(&server->lock);
        await_chores(server, server->to_trim, /*untold=*/server->n_sessions > 0); // they expire
        bool to_trim = server->to_trim && server->n_sessions == 0;
        server->to_trim = false;
        pthread_mutex_unlock(&server->lock);
        kilni_rpc_expire_sessions(server, kiln_time_ns());
        kilni_rpc_expire(server->session.exposures);
        if (to_trim) {
            trim(server);
        } else {
            trim_growth(server, kiln_time_ns());
        }
    }
    return NULL;
}
