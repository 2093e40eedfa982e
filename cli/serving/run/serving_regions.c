// SPDX-License-Identifier: MIT OR Apache-2.0
// Shared memory by name: who registers names an object of shm_open, and everything that is used of
// it later lies inside what was mapped then. An object that is made shorter meanwhile is the
// client's own fault and would end the process, so its pages are looked at before each use.

#include "serving_regions.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_REGIONS = 1024 };

struct kilni_serving_region {
    kilni_serving_region *next;
    char name[KILN_MODEL_NAME];
    char key[KILN_MODEL_NAME];
    uint64_t offset;
    uint64_t bytes;
    int fd;
    char *map; ///< from the object's start
    size_t map_bytes;
    uint32_t refs; ///< under the lock
};

void kilni_serving_regions_init(kilni_serving_regions *regions, const kiln_env *env, bool allowed)
{
    *regions = (kilni_serving_regions){.env = env, .allowed = allowed};
    pthread_mutex_init(&regions->lock, NULL);
}

static void free_region(const kiln_env *env, kilni_serving_region *region)
{
    if (region->map != NULL) {
        (void)munmap(region->map, region->map_bytes);
    }
    if (region->fd >= 0) {
        (void)close(region->fd);
    }
    kiln_free(env, region);
}

void kilni_serving_regions_fini(kilni_serving_regions *regions)
{
    while (regions->first != NULL) {
        kilni_serving_region *gone = regions->first;
        regions->first = gone->next;
        free_region(regions->env, gone);
    }
    pthread_mutex_destroy(&regions->lock);
}

static kiln_status check_allowed(const kilni_serving_regions *regions, kiln_error *err)
{
    return regions->allowed ? KILN_STATUS_OK
                            : kiln_fail(err, PERMISSION_DENIED,
                                        "this server takes no shared memory: start it with "
                                        "--shared-memory");
}

static bool holds_bytes(int fd, uint64_t bytes)
{
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_size >= 0 && (uint64_t)now.st_size >= bytes;
}

static kiln_status map_region(kilni_serving_region *made, const kiln_model_region *region,
                              kiln_error *err)
{
    const char *key = region->key[0] == '/' ? region->key + 1 : region->key;
    if (key[0] == '\0' || strchr(key, '/') != NULL || strlen(region->key) >= sizeof(made->key)) {
        return kiln_fail(err, INVALID_ARGUMENT, "\"%.60s\" is no key of shared memory",
                         region->key);
    }
    if (region->bytes == 0 || region->offset > UINT64_MAX - region->bytes ||
        region->offset + region->bytes > SIZE_MAX / 2) {
        return kiln_fail(err, INVALID_ARGUMENT, "region %.60s has %" PRIu64 " bytes", region->name,
                         region->bytes);
    }
    made->fd = shm_open(region->key, O_RDWR | O_CLOEXEC, 0);
    if (made->fd < 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "shared memory %.60s cannot be opened: %s",
                         region->key, strerror(errno));
    }
    if (!holds_bytes(made->fd, region->offset + region->bytes)) {
        return kiln_fail(err, INVALID_ARGUMENT, "shared memory %.60s is shorter than region %.60s",
                         region->key, region->name);
    }
    made->map_bytes = (size_t)(region->offset + region->bytes);
    void *map = mmap(NULL, made->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made->fd, 0);
    if (map == MAP_FAILED) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "shared memory %.60s cannot be mapped: %s",
                         region->key, strerror(errno));
    }
    made->map = map;
    made->offset = region->offset;
    made->bytes = region->bytes;
    snprintf(made->key, sizeof(made->key), "%s", region->key);
    return KILN_STATUS_OK;
}

/// Under the lock.
static kilni_serving_region **find_region(kilni_serving_regions *regions, const char *name)
{
    kilni_serving_region **link = &regions->first;
    while (*link != NULL && strcmp((*link)->name, name) != 0) {
        link = &(*link)->next;
    }
    return link;
}

kiln_status kilni_serving_regions_add(kilni_serving_regions *regions,
                                      const kiln_model_region *region, kiln_error *err)
{
    kiln_status status = check_allowed(regions, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (region->name[0] == '\0' || strlen(region->name) >= KILN_MODEL_NAME) {
        return kiln_fail(err, INVALID_ARGUMENT, "a region has a name of 1 to %d bytes",
                         KILN_MODEL_NAME - 1);
    }
    kilni_serving_region *made = kiln_alloc(regions->env, sizeof(*made));
    if (made == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a region");
    }
    made->fd = -1;
    snprintf(made->name, sizeof(made->name), "%s", region->name);
    status = map_region(made, region, err);
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&regions->lock);
        if (*find_region(regions, region->name) != NULL) {
            status = kiln_fail(err, ALREADY_EXISTS,
                               "shared memory region \"%.60s\" is already "
                               "registered",
                               region->name);
        } else if (regions->count >= MOST_REGIONS) {
            status = kiln_fail(err, RESOURCE_EXHAUSTED, "%u regions are registered, the most",
                               regions->count);
        } else {
            made->next = regions->first;
            made->refs = 1;
            regions->first = made;
            regions->count++;
        }
        pthread_mutex_unlock(&regions->lock);
    }
    if (status != KILN_STATUS_OK) {
        free_region(regions->env, made);
    }
    return status;
}

void kilni_serving_regions_drop(kilni_serving_regions *regions, kilni_serving_region *region)
{
    if (region == NULL) {
        return;
    }
    pthread_mutex_lock(&regions->lock);
    bool last = --region->refs == 0;
    pthread_mutex_unlock(&regions->lock);
    if (last) {
        free_region(regions->env, region);
    }
}

kiln_status kilni_serving_regions_remove(kilni_serving_regions *regions, const char *name,
                                         kiln_error *err)
{
    kiln_status status = check_allowed(regions, err);
    while (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&regions->lock);
        kilni_serving_region **link =
            name[0] != '\0' ? find_region(regions, name) : &regions->first;
        kilni_serving_region *gone = *link;
        if (gone != NULL) {
            *link = gone->next;
            regions->count--;
        }
        pthread_mutex_unlock(&regions->lock);
        kilni_serving_regions_drop(regions, gone);
        if (gone == NULL || name[0] != '\0') {
            break; // a name that is not there is no failure, as in Triton
        }
    }
    return status;
}

kiln_status kilni_serving_regions_list(kilni_serving_regions *regions, const char *name,
                                       kiln_model_region_fn fn, void *to, kiln_error *err)
{
    bool found = name[0] == '\0';
    pthread_mutex_lock(&regions->lock);
    for (const kilni_serving_region *each = regions->first; each != NULL; each = each->next) {
        if (name[0] == '\0' || strcmp(each->name, name) == 0) {
            const kiln_model_region row = {each->name, each->key, each->offset, each->bytes};
            found = true;
            fn(&row, to);
        }
    }
    pthread_mutex_unlock(&regions->lock);
    return found ? KILN_STATUS_OK
                 : kiln_fail(err, NOT_FOUND, "there is no shared memory region \"%.60s\"", name);
}

kiln_status kilni_serving_regions_hold(kilni_serving_regions *regions,
                                       const kiln_model_tensor *tensor, void **out_bytes,
                                       kilni_serving_region **out_region, kiln_error *err)
{
    kiln_status status = check_allowed(regions, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&regions->lock);
    kilni_serving_region *region = *find_region(regions, tensor->region);
    if (region == NULL) {
        status =
            kiln_fail(err, NOT_FOUND, "tensor %.60s: there is no shared memory region \"%.60s\"",
                      tensor->name, tensor->region);
    } else if (tensor->region_offset > region->bytes ||
               tensor->bytes > region->bytes - tensor->region_offset) {
        status = kiln_fail(err, INVALID_ARGUMENT,
                           "tensor %.60s ends outside its region \"%.60s\" of %" PRIu64 " bytes",
                           tensor->name, region->name, region->bytes);
    } else if (!holds_bytes(region->fd, region->offset + region->bytes)) {
        status = kiln_fail(err, FAILED_PRECONDITION, "shared memory %.60s has become shorter",
                           region->key);
    } else {
        region->refs++;
        *out_region = region;
        *out_bytes = region->map + region->offset + tensor->region_offset;
    }
    pthread_mutex_unlock(&regions->lock);
    return status;
}
