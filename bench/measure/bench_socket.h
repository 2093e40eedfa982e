// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BENCH_SOCKET_H
#define KILN_BENCH_SOCKET_H

/// The peer of uploads and downloads: a TCP socket on loopback whose other end, another thread,
/// copies as many bytes from or to memory of its own.

#include "kiln.h"

typedef struct bench_socket bench_socket;

kiln_status bench_socket_open(size_t bytes, bench_socket **out_socket, kiln_error *err);
void bench_socket_close(bench_socket *self);

/// Sends `data` to the other end and waits until it has them, or receives as many from there.
kiln_status bench_socket_copy(bench_socket *self, void *data, size_t bytes, bool up,
                              uint64_t *out_ns, kiln_error *err);

#endif
