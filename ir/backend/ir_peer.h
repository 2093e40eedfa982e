// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_PEER_H
#define KILN_IR_PEER_H

/// Peers of a backend: a buffer goes to another device with the same table without passing through
/// this host. A backend offers the whole table or none of it; without it the runtime carries the
/// bytes itself.
///
/// Unless a function says otherwise, the runtime calls it under the lock of the backend that it
/// names, and it may wait for a network. Buffers stay the caller's.

#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_backend kiln_backend;

/// Bytes that one device offers to another, which fetches them itself.
typedef struct kiln_transfer {
    uint64_t id; ///< unique
    uint64_t bytes;
    uint8_t secret[32];
    char address[320]; ///< where to fetch them
    uint8_t fetcher[32]; ///< the only one that may, as `identify` says; zeros: who knows the secret
} kiln_transfer;

typedef struct kiln_backend_peer_ops {
    uint32_t struct_size;
    /// Says in `out_transfer->fetcher` who this device is when it obtains.
    kiln_status (*identify)(kiln_backend *backend, kiln_transfer *out_transfer, kiln_error *err);
    /// Offers what a buffer holds now, once, to the fetcher that `inout_transfer` names.
    /// UNIMPLEMENTED: this device may not.
    kiln_status (*expose)(kiln_backend *backend, kiln_buffer *buffer, kiln_transfer *inout_transfer,
                          kiln_error *err);
    /// Ends an offer that nobody took.
    void (*withdraw)(kiln_backend *backend, const kiln_transfer *transfer);
    /// Fills a buffer of as many bytes, and waits. PERMISSION_DENIED: the device that offers may
    /// not be asked.
    kiln_status (*obtain)(kiln_backend *backend, kiln_buffer *buffer, const kiln_transfer *transfer,
                          kiln_error *err);
} kiln_backend_peer_ops;

#ifdef __cplusplus
}
#endif

#endif
