// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_CRASH_RECORD_H
#define KILN_FUSION_HOST_CRASH_RECORD_H

/// Which plugin was called when a process ended.

#include "fusion_host.h"

typedef struct kilni_fuse_plugin kilni_fuse_plugin;
typedef struct kilni_fuse_crash_record kilni_fuse_crash_record;

typedef enum kilni_fuse_call { ///< numbers in the file
    KILNI_FUSE_CALL_NONE = 0,
    KILNI_FUSE_CALL_LOAD = 1,
    KILNI_FUSE_CALL_CREATE = 2,
    KILNI_FUSE_CALL_FUSE = 3,
    KILNI_FUSE_CALL_FINISH = 4,
    KILNI_FUSE_CALL_BUILD = 5,
    KILNI_FUSE_CALL_RUN = 6,
    KILNI_FUSE_CALL_INFER = 7,
    KILNI_FUSE_CALL_REFERENCE = 8,
    KILNI_FUSE_CALL_STATE = 9,
    KILNI_FUSE_CALL_BUILDER = 10, ///< made, copied, reset or destroyed
    KILNI_FUSE_CALL_DESTROY = 11, ///< of a fuser
    KILNI_FUSE_CALL_MEASURED = 12, ///< a fuser is told what was measured
    KILNI_FUSE_CALL_COUNT
} kilni_fuse_call;

/// Notes what dead processes left in the folder, and makes this one's file. NULL: there is none.
kilni_fuse_crash_record *kilni_fuse_crash_record_create(const kiln_env *env, const char *folder);
void kilni_fuse_crash_record_destroy(kilni_fuse_crash_record *crash_record);
/// A plugin's number, or 0: its calls are not noted. A slot: one for what runs one at a time.
uint32_t kilni_fuse_crash_record_add(kilni_fuse_crash_record *crash_record, const char *hash,
                                     const char *id, bool shipped);
uint32_t kilni_fuse_crash_record_slot(kilni_fuse_crash_record *crash_record);
/// When builder_fuse calls of the slot are late, in the clock of kiln_time_ns; 0: never. A process
/// that is interrupted in a late one blames its plugin after all.
void kilni_fuse_crash_record_limit(kilni_fuse_crash_record *crash_record, uint32_t slot,
                                   uint64_t late_ns);
void kilni_fuse_crash_record_mark(const kilni_fuse_plugin *plugin, uint32_t slot,
                                  kilni_fuse_call call);

#endif
