// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_LIMITS_H
#define KILN_RPC_LIMITS_H

/// Arithmetic on every number from a peer, before it is used as a size.

#include "base.h"

typedef struct kilni_rpc_limits {
    uint64_t max_bytes;
    uint64_t max_buffers;
    uint64_t max_data_bytes;
    uint64_t max_graphs;
} kilni_rpc_limits;

/// Whether [offset, offset + length) lies in `size`, without overflow.
kiln_status kilni_rpc_check_range(uint64_t offset, uint64_t length, uint64_t size, const char *what,
                                  kiln_error *err);

/// Whether a session that holds `held` bytes may hold `more`.
kiln_status kilni_rpc_check_bytes(const kilni_rpc_limits *limits, uint64_t held, uint64_t more,
                                  kiln_error *err);
kiln_status kilni_rpc_check_buffers(const kilni_rpc_limits *limits, uint64_t held, kiln_error *err);

/// Whether `address` (without scheme) stays on this machine: unix:, localhost, 127.x.y.z or [::1].
bool kilni_rpc_is_loopback(const char *address);

#endif
