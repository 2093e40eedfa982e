// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_REGIONS_H
#define KILN_SERVING_REGIONS_H

/// Shared memory of this machine that clients have registered by name. Any thread may call these,
/// but for init and fini.

#include "remote_models.h"

#include <pthread.h>

typedef struct kilni_serving_region kilni_serving_region;

typedef struct kilni_serving_regions {
    const kiln_env *env;
    bool allowed; ///< else every use is refused
    pthread_mutex_t lock;
    kilni_serving_region *first;
    uint32_t count;
} kilni_serving_regions;

void kilni_serving_regions_init(kilni_serving_regions *regions, const kiln_env *env, bool allowed);
void kilni_serving_regions_fini(kilni_serving_regions *regions); ///< nobody holds one

kiln_status kilni_serving_regions_add(kilni_serving_regions *regions,
                                      const kiln_model_region *region, kiln_error *err);

/// Takes a name off the list, "" for all; its memory stays until nobody holds it.
kiln_status kilni_serving_regions_remove(kilni_serving_regions *regions, const char *name,
                                         kiln_error *err);

kiln_status kilni_serving_regions_list(kilni_serving_regions *regions, const char *name,
                                       kiln_model_region_fn fn, void *to, kiln_error *err);

/// Finds where a tensor lies and holds it. Errors: NOT_FOUND, INVALID_ARGUMENT for what is not
/// inside.
kiln_status kilni_serving_regions_hold(kilni_serving_regions *regions,
                                       const kiln_model_tensor *tensor, void **out_bytes,
                                       kilni_serving_region **out_region, kiln_error *err);
void kilni_serving_regions_drop(kilni_serving_regions *regions, kilni_serving_region *region);

#endif
