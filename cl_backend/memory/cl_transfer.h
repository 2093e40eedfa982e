// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_TRANSFER_H
#define KILNI_CL_TRANSFER_H

/// Bytes from the host to the device.

#include "cl_opencl.h"

enum {
    KILNI_CL_STAGES = 4,
    KILNI_CL_STAGE_SHARED = 256 * 1024, ///< per stage, where memory is the host's own
    KILNI_CL_STAGE_PINNED = 8 * 1024 * 1024 ///< 4 to 16 MiB reach the link's speed
};

typedef struct kilni_cl_stage { ///< one piece of host memory through which bytes travel
    cl_mem mem; ///< pinned memory; NULL where the host's own does
    unsigned char *host;
    size_t used;
    cl_event busy; ///< the last transfer that uses it
} kilni_cl_stage;

typedef struct kilni_cl_transfer {
    kilni_cl_stage stages[KILNI_CL_STAGES];
    size_t stage_bytes;
    uint32_t current;
    bool pinned;
} kilni_cl_transfer;

/// As the backend's table says.
kiln_status kilni_cl_upload(kiln_backend *base, kiln_buffer *buffer, size_t offset,
                            const void *source, size_t bytes, kiln_error *err);
void kilni_cl_transfer_close(kilni_cl_backend *backend);

#endif
