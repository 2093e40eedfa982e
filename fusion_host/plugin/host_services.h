// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_HOST_SERVICES_H
#define KILN_FUSION_HOST_HOST_SERVICES_H

/// What a plugin gets from the host: notes and memory; and texts of plugins.

#include <pthread.h>
#include <stdatomic.h>

#include "fusion_host.h"
#include "kiln_fuser.h"

/// A note that a plugin made during a call: the last one wins.
typedef struct kilni_fuse_diag {
    uint32_t severity;
    uint32_t code;
    uint32_t op_index;
    char text[160];
} kilni_fuse_diag;

typedef struct kilni_fuse_host { ///< what one plugin gets from one engine
    kf_host abi;
    const kiln_env *env;
    const char *plugin_id;
    const struct kilni_fuse_plugin *plugin; ///< NULL outside of an engine
    kiln_store *store; ///< for the plugin's own data, or NULL
    kiln_hash128 store_key; ///< of what is the plugin's there
    const _Atomic uint64_t *late_ns; ///< of the engine: from then on its calls are cancelled
    pthread_mutex_t lock;
    kilni_fuse_diag *sink; ///< of the call in progress, or NULL
    uint64_t bytes_live;
    uint64_t blocks_live;
} kilni_fuse_host;

void kilni_fuse_host_init(kilni_fuse_host *host, const kiln_env *env, const char *plugin_id);
void kilni_fuse_host_fini(kilni_fuse_host *host);
/// Diagnostics reported from now on go to `sink`; NULL ends that.
void kilni_fuse_host_listen(kilni_fuse_host *host, kilni_fuse_diag *sink);

/// Valid UTF-8 without control characters, of at most `limit` bytes.
bool kilni_fuse_text_ok(kf_str text, uint64_t limit);
bool kilni_fuse_utf8_ok(const void *bytes, uint64_t length);

#endif
