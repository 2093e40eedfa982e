// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_PLUGIN_RECORD_H
#define KILN_FUSION_HOST_PLUGIN_RECORD_H

/// What is remembered of a plugin between processes, under the hash of its file.

#include "fusion_host.h"

enum {
    KILNI_FUSE_MAX_FUSERS = 64,
    KILNI_FUSE_MAX_BANS = 32, ///< the latest
    KILNI_FUSE_ENDS_MAX = 2,
    KILNI_FUSE_CRASH_SLOTS = 16
};

typedef struct kilni_fuse_ban { ///< a program that failed
    char key[33];
    char reason[96];
} kilni_fuse_ban;

typedef struct kilni_fuse_strikes {
    uint32_t count;
    char reason[128]; ///< the last
} kilni_fuse_strikes;

typedef struct kilni_fuse_record {
    char id[64];
    bool scanned;
    char scan_fault[160]; ///< "": it was well
    uint32_t ended; ///< processes, counted so that KILNI_FUSE_ENDS_MAX are too many
    char ended_in[48];
    kilni_fuse_strikes strikes[KILNI_FUSE_MAX_FUSERS];
    kilni_fuse_ban bans[KILNI_FUSE_MAX_BANS];
    uint32_t n_bans;
} kilni_fuse_record;

/// The record of a file's hash in a folder (or NULL); false and an empty one when there is none.
bool kilni_fuse_record_read(const char *folder, const char *hash, kilni_fuse_record *out_record);
bool kilni_fuse_record_write(const char *folder, const char *hash, const kilni_fuse_record *record);
/// Likewise, to change the record: until `end` writes it and gives the lock back nobody else does,
/// in any process. Where a process holds the lock for seconds, this one goes on without, which
/// risks that one of two changes is lost.
int kilni_fuse_record_begin(const kiln_env *env, const char *folder, const char *hash,
                            kilni_fuse_record *out_record);
bool kilni_fuse_record_end(int lock, const char *folder, const char *hash,
                           const kilni_fuse_record *record);
uint32_t kilni_fuse_record_reset(const char *folder, const char *id);
void kilni_fuse_record_ban(kilni_fuse_record *record, const char *key, const char *reason);

#endif
