// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_FUSERS_H
#define KILN_FUSION_HOST_FUSERS_H

/// The engine: the fusers of one device, what they are told, strikes, programs that failed.

#include "block_view.h"
#include "fuse_plugin.h"
#include "host_services.h"
#include "plan_store.h"

/// How far a fuser's claims were from what was measured, as it lies on disk.
typedef struct kilni_fuse_trust_record {
    double log_ratio; ///< mean
    uint64_t samples;
} kilni_fuse_trust_record;

typedef struct kilni_fuse_fuser {
    kilni_fuse_plugin *plugin;
    uint32_t index; ///< in the plugin
    const char *id;
    char *name; ///< "plugin/fuser", or the id alone when both are equal
    kf_fuser *handle;
    kilni_fuse_host *host;
    kilni_fuse_trust_record trust;
} kilni_fuse_fuser;

typedef struct kilni_fuse_failure { ///< a program that must not come back, and why
    kiln_hash128 key;
    char text[160];
} kilni_fuse_failure;

struct kiln_fuse_engine {
    kiln_fuse_registry *registry;
    const kiln_env *env;
    kiln_device_info device;
    int64_t facts[KILN_FACT_COUNT];
    uint32_t max_segment;
    kilni_fuse_fuser *fusers;
    uint32_t n_fusers;
    kilni_fuse_host **hosts;
    uint32_t n_hosts;
    kilni_fuse_plan_store plans;
    kiln_store *store; ///< NULL: plans are not kept on disk
    kiln_fuse_engine_options options; ///< that it was made with
    kiln_hash128 disk_key; ///< of all that plans depend on beside the operations
    uint32_t disk_opset; ///< of the operators, part of the key
    struct kilni_fuse_position *scratch; ///< for positions after the first
    kilni_fuse_op_view *op_view;
    kilni_fuse_failure *banned; ///< programs that failed
    uint32_t n_banned;
    uint32_t banned_capacity;
    struct kilni_fuse_winner *winners; ///< measured, or found on disk
    uint32_t n_winners;
    uint32_t winners_capacity;
    uint64_t search_ns; ///< that a search of max_segment operations may take; 0: no limit
    _Atomic uint64_t late_ns; ///< when the search at hand has taken as long as it may; 0: never
    bool deterministic; ///< nothing measured decides
    bool fuse_slower; ///< the operations unfused never win
    const char *list; ///< the option `plugins`, as it was when the engine was made
    uint32_t crash_slot;
    kiln_fuse_stats stats;
};

void kilni_fuse_device_facts(const kiln_device_info *device, kf_device *out_facts);
bool kilni_fuse_fuser_enabled(const kilni_fuse_fuser *fuser);
/// One strike; at the third the fuser is out for the process.
void kilni_fuse_fuser_strike(kiln_fuse_engine *engine, uint32_t fuser, const char *reason);
/// Programs that failed in earlier processes.
void kilni_fuse_recall_bans(kiln_fuse_engine *engine, const kilni_fuse_plugin *plugin);
/// Whether the device can build the program, by the options' `admit`.
bool kilni_fuse_admits(const kiln_fuse_engine *engine, const kiln_program *program,
                       kiln_error *out_why);
/// Why the program failed before; NULL when it did not.
const char *kilni_fuse_program_failure(const kiln_fuse_engine *engine, kiln_hash128 key);

#endif
