// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_FUSE_STREAM_H
#define KILN_FUSION_HOST_FUSE_STREAM_H

/// What was recorded, where it stands among the plans, and what is handed out.

#include "position.h"

struct kiln_fuse_stream {
    kiln_fuse_engine *engine;
    bool whole;
    bool varying; ///< lengths differ from run to run: planned at a drain, by form
    kilni_fuse_recorded recorded[2];
    uint32_t active; ///< recorded segment that records
    kilni_fuse_node *node; ///< after `walked` operations
    uint32_t walked;
    kilni_fuse_position first;
    kiln_fuse_segment segment;
    kilni_fuse_plan *handed; ///< plan that is being run
    bool shared; ///< it was made for other lengths
    int64_t *values; ///< extents by the symbols of a plan for other lengths; NULL: never was one
};

#endif
