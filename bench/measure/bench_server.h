// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BENCH_SERVER_H
#define KILN_BENCH_SERVER_H

/// `kiln serve` in another process, and the bare peers on gRPC's C core: they are in a library of
/// their own, so that nothing else loads gRPC.

#include "bench.h"

#include <sys/types.h>

typedef struct bench_server {
    pid_t process;
    char tcp[64]; ///< empty with models
    char path[64]; ///< unix:PATH
} bench_server;

/// Starts a server of this device, and with `models` (NULL: none) of the models in that folder, and
/// waits until it listens. Errors: UNAVAILABLE.
kiln_status bench_server_start(const bench_options *options, const char *device, const char *models,
                               bench_server *out_server, kiln_error *err);

/// Also for one that was not started.
void bench_server_stop(bench_server *server);

/// Microseconds, the median, of a message of 16 bytes to another thread and back, over a Unix
/// socket.
typedef kiln_status (*bench_pingpong_fn)(const kiln_env *env, uint32_t rounds, double *out_us,
                                         kiln_error *err);
kiln_status bench_peer_pingpong(bench_pingpong_fn *out_function, kiln_error *err);

/// Microseconds, the median, of a request to the model `digits` at `address` and its answer.
typedef kiln_status (*bench_answers_fn)(const kiln_env *env, const char *address, uint32_t rounds,
                                        double *out_us, kiln_error *err);
kiln_status bench_peer_answers(bench_answers_fn *out_function, kiln_error *err);

#endif
