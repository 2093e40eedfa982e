// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_ENGINES_H
#define KILN_RUNTIME_ENGINES_H

/// Who plans for a device (engines.c).

#include "rt_streams.h"

/// Who plans for a device. All under the device's lock.
typedef struct kilni_engines {
    kiln_fuse_engine *fused; ///< with fusers
    kiln_fuse_engine *plain; ///< one operation at a time
    kiln_fuse_engine *former_fused; ///< these two from before the device refused to compile, or
    kiln_fuse_engine *former_plain; ///< NULL
    uint32_t planned_for; ///< features of the device that the engines know
    bool settled; ///< whether it compiles is known, or does not matter
    bool fusion;
} kilni_engines;

kiln_status kilni_engines_create(kiln_device *device, kiln_error *err);
void kilni_engines_destroy(kiln_device *device);

/// Adds up what they have planned. Under the lock.
void kilni_engines_count(const kiln_device *device, kiln_device_stats *stats);

/// Shows what was done to who may not wait for the lock (device_stats.c), when that was a while
/// ago. Under the lock.
void kilni_stats_show(kiln_device *device);

/// Whether most tournaments took ten times or a tenth of what was predicted.
bool kilni_engines_surprised(const kiln_device *device);

/// Gives the stream an engine that knows what the device has become. Under the lock.
kiln_status kilni_engines_follow(kilni_stream *stream, kiln_error *err);

/// Sees to it that the device does not first refuse to compile while the segment runs. False: it
/// has refused, and the segment is to be planned again. Under the lock.
bool kilni_engines_settled(const kilni_stream *stream, const kiln_fuse_segment *segment,
                           bool searched);

#endif
