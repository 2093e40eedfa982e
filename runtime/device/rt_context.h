// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_CONTEXT_H
#define KILN_RUNTIME_CONTEXT_H

/// The context, its lists and its lock. Locks: a context's comes before a device's.

#include "fusion_host.h"
#include "kiln.h"

#include <pthread.h>
#include <stdatomic.h>

enum { KILNI_ADDRESS_BYTES = 256, KILNI_PROVIDERS = 16 };

typedef struct kilni_mover kilni_mover;
typedef struct kilni_trace kilni_trace;

struct kiln_context {
    atomic_uint refs; ///< the caller's one, and one for each device
    kiln_env env;
    pthread_mutex_t lock;
    kiln_store *store; ///< NULL: off
    kiln_fuse_registry *registry; ///< made when first needed (lock)
    void (*registry_destroy)(kiln_fuse_registry *registry); ///< there with the registry
    const kiln_backend_provider *providers[KILNI_PROVIDERS]; ///< (lock)
    size_t n_providers;
    kiln_device *devices; ///< list through `next` (lock); not owned
    kilni_mover *mover; ///< made when first needed (lock)
    void (*mover_destroy)(kilni_mover *mover); ///< ends what was begun; there with the mover
    kilni_trace *trace; ///< NULL: none yet; once it is there it stays (lock)
    kiln_gradsync *jobs; ///< list through `next` (lock); each has one hold
    pthread_mutex_t groups_lock; ///< guards the next three; nothing else is locked under it
    pthread_cond_t groups_changed;
    kiln_collective *groups; ///< not owned
    int64_t last_group; ///< id
};

/// The providers that there are by now; how many.
size_t kilni_context_providers(kiln_context *context,
                               const kiln_backend_provider *out_providers[KILNI_PROVIDERS]);
kiln_status kilni_context_registry(kiln_context *context, kiln_fuse_registry **out_registry,
                                   kiln_error *err);

/// Path of a library that ships with Kiln. Errors: NOT_FOUND.
kiln_status kilni_library_beside(const char *name, char *out_path, size_t capacity,
                                 kiln_error *err);

/// Finds `tail` from libkiln's own folder or, in a program, from the `lib` beside its folder. The
/// layout is the same in the build tree and when installed. False: it is not there.
bool kilni_find_beside(const char *tail, char *out_path, size_t capacity);

/// A symbol of such a library, which stays loaded. Errors: NOT_FOUND, FAILED_PRECONDITION.
kiln_status kilni_library_symbol(kiln_context *context, const char *file, const char *symbol,
                                 void **out_address, kiln_error *err);
void kilni_context_retain(kiln_context *context);
void kilni_context_release(kiln_context *context);

#endif
