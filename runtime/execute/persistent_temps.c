// SPDX-License-Identifier: MIT OR Apache-2.0
// Temporaries that live with their plan: weights packed once and used in every later run with the
// same weights, by every plan with the same program. What is the same is decided by the memory,
// which is held while it is compared with, and by the numbers that the launch gets: it sees no
// more. They go when nobody else holds the weights, and when memory is short.

#include "rt_binding.h"
#include "rt_device.h"
#include "rt_persistent_temps.h"
#include "rt_repeat.h"

/// Memory of a layout is the same at each run, whatever is in it.
static bool is_planned(const kilni_binding *binding)
{
    return binding->storage != NULL && binding->storage->planned;
}

bool kilni_persistent_temp_serves(const kilni_persistent_temp *kept, const kilni_temp_origin *from)
{
    if (!kept->temp.bound || kept->numbers.low != from->numbers.low ||
        kept->numbers.high != from->numbers.high || kept->n_sources != from->n_sources) {
        return false;
    }
    for (uint32_t i = 0; i < from->n_sources; i++) {
        if (from->sources[i]->storage != kept->sources[i].storage || is_planned(from->sources[i])) {
            return false;
        }
    }
    return true;
}

const kilni_persistent_temp *kilni_persistent_temp_find(const kiln_device *device,
                                                        kiln_hash128 program, uint32_t number,
                                                        const kilni_temp_origin *from)
{
    for (const kilni_persistent_temp *kept = device->execution.kept; kept != NULL;
         kept = kept->next) {
        if (kept->number == number && kiln_hash_same(kept->program, program) &&
            kilni_persistent_temp_serves(kept, from)) {
            return kept;
        }
    }
    return NULL;
}

static void link_kept(kiln_device *device, kilni_persistent_temp *kept)
{
    kept->before = NULL;
    kept->next = device->execution.kept;
    if (kept->next != NULL) {
        kept->next->before = kept;
    }
    device->execution.kept = kept;
}

static void unlink_kept(kiln_device *device, kilni_persistent_temp *kept)
{
    *(kept->before != NULL ? &kept->before->next : &device->execution.kept) = kept->next;
    if (kept->next != NULL) {
        kept->next->before = kept->before;
    }
}

void kilni_persistent_temp_set(kiln_device *device, kilni_persistent_temp *kept,
                               const kilni_binding *temp, const kilni_temp_origin *from)
{
    kilni_persistent_temp_clear(device, kept);
    bool keeps = from->n_sources <= KILNI_TEMP_SOURCES;
    for (uint32_t i = 0; keeps && i < from->n_sources; i++) {
        keeps = !is_planned(from->sources[i]);
    }
    if (!keeps) {
        return;
    }
    for (uint32_t i = 0; i < from->n_sources; i++) {
        kilni_binding_share(&kept->sources[i], from->sources[i], &from->sources[i]->view);
        if (kept->sources[i].storage != NULL) {
            kept->sources[i].storage->kept++;
        }
    }
    kilni_binding_share(&kept->temp, temp, &temp->view);
    kept->n_sources = from->n_sources;
    kept->numbers = from->numbers;
    link_kept(device, kept);
}

void kilni_persistent_temp_spare(kiln_device *device, const kilni_persistent_temp *kept)
{
    enum { MOST_LEAVES = 3 }; // a constant that is packed again and again is needed
    for (uint32_t i = 0; i < kept->n_sources && !device->samples.measuring; i++) {
        kilni_storage *storage = kept->sources[i].storage;
        if (storage != NULL && storage->comes_again && storage->leaves < MOST_LEAVES) {
            storage->leaves++;
            // A device that fails here says so again at its next work.
            (void)device->backend->memory->reside(device->backend, storage->buffer,
                                                  /*there=*/false, NULL);
        }
    }
}

void kilni_persistent_temp_clear(kiln_device *device, kilni_persistent_temp *kept)
{
    if (kept->temp.bound) {
        unlink_kept(device, kept);
        kilni_repeat_lose_buffer(device, kept->temp.view.buffer);
    }
    for (uint32_t i = 0; i < kept->n_sources; i++) {
        kilni_storage *storage = kept->sources[i].storage;
        if (storage != NULL && storage->kept > 0) { // 0: it is being forgotten
            storage->kept--;
        }
        kilni_binding_clear(device, &kept->sources[i]);
    }
    kilni_binding_clear(device, &kept->temp);
    kept->n_sources = 0;
}

static bool is_source(const kilni_persistent_temp *kept, const kilni_storage *storage)
{
    for (uint32_t i = 0; i < kept->n_sources; i++) {
        if (kept->sources[i].storage == storage) {
            return true;
        }
    }
    return false;
}

void kilni_persistent_temp_forget(kiln_device *device, kilni_storage *source)
{
    source->kept = 0; // so that giving them back one by one does not lead here again
    kilni_persistent_temp *kept = device->execution.kept;
    while (kept != NULL) {
        if (is_source(kept, source)) {
            kilni_persistent_temp_clear(device, kept);
            kept = device->execution.kept; // with it others may have gone
        } else {
            kept = kept->next;
        }
    }
}

bool kilni_persistent_temp_drop(kiln_device *device)
{
    bool any = device->execution.kept != NULL;
    while (device->execution.kept != NULL) {
        kilni_persistent_temp_clear(device, device->execution.kept);
    }
    return any;
}
