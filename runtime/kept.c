// SPDX-License-Identifier: MIT OR Apache-2.0
// Temporaries that live with their plan: weights packed once and used in every later run with the
// same weights, by every plan with the same program. What is the same is decided by the memory,
// which is held while it is compared with.

#include "runtime_internal.h"

/// Memory of a layout is the same at each run, whatever is in it.
static bool is_planned(const kilni_place *place)
{
    return place->storage != NULL && place->storage->planned;
}

bool kilni_kept_serves(const kilni_kept *kept, int64_t bytes, kilni_place *const *sources,
                       uint32_t n_sources)
{
    if (!kept->temp.placed || kept->bytes != bytes || kept->n_sources != n_sources) {
        return false;
    }
    for (uint32_t i = 0; i < n_sources; i++) {
        const kiln_view *old = &kept->sources[i].view;
        if (sources[i]->storage != kept->sources[i].storage || is_planned(sources[i]) ||
            sources[i]->view.offset_bytes != old->offset_bytes ||
            memcmp(sources[i]->view.strides, old->strides, old->rank * sizeof(old->strides[0])) !=
                0) {
            return false;
        }
    }
    return true;
}

const kilni_kept *kilni_kept_find(const kiln_device *device, kiln_hash128 program, uint32_t number,
                                  int64_t bytes, kilni_place *const *sources, uint32_t n_sources)
{
    for (const kilni_kept *kept = device->kept; kept != NULL; kept = kept->next) {
        if (kept->number == number && kept->program.low == program.low &&
            kept->program.high == program.high &&
            kilni_kept_serves(kept, bytes, sources, n_sources)) {
            return kept;
        }
    }
    return NULL;
}

static void link_kept(kiln_device *device, kilni_kept *kept)
{
    kept->before = NULL;
    kept->next = device->kept;
    if (kept->next != NULL) {
        kept->next->before = kept;
    }
    device->kept = kept;
}

static void unlink_kept(kiln_device *device, kilni_kept *kept)
{
    *(kept->before != NULL ? &kept->before->next : &device->kept) = kept->next;
    if (kept->next != NULL) {
        kept->next->before = kept->before;
    }
}

void kilni_kept_set(kiln_device *device, kilni_kept *kept, const kilni_place *temp, int64_t bytes,
                    kilni_place *const *sources, uint32_t n_sources)
{
    kilni_kept_clear(device, kept);
    bool keeps = n_sources <= KILNI_KEPT_SOURCES;
    for (uint32_t i = 0; keeps && i < n_sources; i++) {
        keeps = !is_planned(sources[i]);
    }
    if (!keeps) {
        return;
    }
    for (uint32_t i = 0; i < n_sources; i++) {
        kilni_place_share(&kept->sources[i], sources[i], &sources[i]->view);
    }
    kilni_place_share(&kept->temp, temp, &temp->view);
    kept->n_sources = n_sources;
    kept->bytes = bytes;
    link_kept(device, kept);
}

void kilni_kept_clear(kiln_device *device, kilni_kept *kept)
{
    if (kept->temp.placed) {
        unlink_kept(device, kept);
    }
    for (uint32_t i = 0; i < kept->n_sources; i++) {
        kilni_place_clear(device, &kept->sources[i]);
    }
    kilni_place_clear(device, &kept->temp);
    kept->n_sources = 0;
}
