// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_FUSE_PLUGIN_H
#define KILN_FUSION_HOST_FUSE_PLUGIN_H

/// A plugin, the registry that holds it, and which plugins the configuration leaves out.

#include <stdatomic.h>

#include "crash_record.h"
#include "fusion_host.h"
#include "kf_operators.h"
#include "kiln_fuser.h"

enum { KILNI_FUSE_STRIKES_MAX = 3 };

typedef enum kilni_fuse_trust { ///< where a candidate came from
    KILNI_FUSE_TRUST_SHIPPED = 1,
    KILNI_FUSE_TRUST_PATH = 2, ///< of the plugin path: owners and permissions are checked
    KILNI_FUSE_TRUST_ADDED = 3 ///< named by the user
} kilni_fuse_trust;

typedef struct kilni_fuse_operator { ///< one that a plugin brings
    kiln_custom_op def; ///< first: what records point to
    kf_operator abi;
    const kilni_fuse_plugin *plugin;
} kilni_fuse_operator;

struct kilni_fuse_plugin {
    kiln_fuse_plugin_info info;
    const char *state_folder; ///< of the registry, or NULL
    kilni_fuse_crash_record *crash_record;
    uint32_t crash_number; ///< number there; 0: none
    kilni_fuse_call resting; ///< what slot 0 says between calls: LOAD while it is loaded
    kiln_dynlib *library;
    kf_plugin table; ///< normalised: full size, absent entries NULL
    char **fuser_ids;
    atomic_uint *strikes; ///< per fuser; KILNI_FUSE_STRIKES_MAX and more: disabled
    bool initialised;
    kilni_fuse_trust trust; ///< how it came here
    kilni_fuse_operator *operators;
    uint32_t n_operators;
    uint32_t operator_slot; ///< of crash_record, for their rules and references
    kiln_arena operator_memory; ///< of their names and parameters
    struct kilni_fuse_plugin *kernels; ///< the fuser of their kernels; NULL: it brings none
};

/// Whether a plugin that was just loaded does what it says, on a small sample.
typedef kiln_status (*kilni_fuse_smoke_test_fn)(const kiln_env *env, kilni_fuse_plugin *plugin,
                                                kiln_error *err);

struct kiln_fuse_registry {
    const kiln_env *env;
    kilni_fuse_smoke_test_fn smoke_test;
    bool developer;
    char *state_folder; ///< or NULL
    char *scan_helper; ///< or NULL
    uint32_t scan_limit_ms;
    kilni_fuse_crash_record *crash_record; ///< or NULL
    atomic_uint epoch; ///< raised when a fuser is disabled, for all engines
    kilni_fuse_plugin **plugins; ///< sorted by path
    uint32_t n_plugins;
    uint32_t plugins_capacity;
    atomic_bool complete; ///< no more files come
};

/// Why the list of the option `plugins` leaves a plugin out, or one of its fusers, or NULL; and
/// whether it leaves out a program.
const char *kilni_fuse_switched_off(const char *list, const kilni_fuse_plugin *plugin,
                                    const char *fuser);
bool kilni_fuse_program_off(const char *list, kiln_hash128 key);

#endif
