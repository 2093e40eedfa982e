// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_TENSOR_POOL_H
#define KILN_RUNTIME_TENSOR_POOL_H

/// Records of tensors that are used again.

#include "fusion_host.h"
#include "kiln.h"

/// Records of tensors. All under the device's lock.
typedef struct kilni_tensor_pool {
    kiln_tensor *free;
    size_t n_free;
    uint64_t live;
    uint64_t held; ///< by the user; together they hold the device once
    uint64_t next_id; ///< of a tensor; those before end_id are this device's
    uint64_t end_id;
    bool listed; ///< kiln_close gives up what is still held, so it is listed; not changed later
    kiln_tensor *first; ///< of those that are listed
} kilni_tensor_pool;

#endif
