// SPDX-License-Identifier: MIT OR Apache-2.0
// Where random numbers come from: each thread draws from a stream of its own on each device, and
// each operation is one draw. What an operation draws is fixed when it is recorded, so it does not
// depend on when, where or in which kernel it runs.

#include "rt_attrs.h"
#include "rt_device.h"
#include "rt_random.h"
#include "rt_threads.h"

bool kilni_random_draws(const kiln_op_info *info, uint32_t *out_attr)
{
    const kiln_op_signature *signature = info->signature;
    if (info->cls != KILN_CLASS_CREATION) {
        return false;
    }
    for (uint32_t i = 0; i < signature->n_attrs; i++) {
        if (signature->attrs[i].key == KILN_KEY_SEED) {
            *out_attr = i;
            return true;
        }
    }
    return false;
}

static kiln_status find_stream(kiln_device *device, kilni_thread **out_thread, kiln_error *err)
{
    kilni_thread *thread = kilni_thread_get(device, kiln_thread_id());
    if (thread == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a stream of random numbers");
    }
    if (!thread->has_rng_stream) {
        thread->has_rng_stream = true;
        thread->random_number = device->random.next_number++;
        thread->random_position = 0;
    }
    *out_thread = thread;
    return KILN_STATUS_OK;
}

kiln_status kilni_random_next(kiln_device *device, kiln_attr out_attrs[3], kiln_error *err)
{
    kilni_thread *thread = NULL;
    kiln_status status = find_stream(device, &thread, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    out_attrs[0] = kilni_attr_i64(device->random.seed);
    out_attrs[1] = kilni_attr_i64((int64_t)thread->random_number);
    out_attrs[2] = kilni_attr_i64(thread->random_position);
    thread->random_position = (thread->random_position + 1) & (((int64_t)1 << 48) - 1);
    return KILN_STATUS_OK;
}

kiln_status kiln_seed(kiln_device *device, int64_t seed, kiln_error *err)
{
    device = kilni_core(device);
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_run_all_queued(device, err);
    device->random.seed = seed;
    device->random.next_number = 0;
    for (size_t i = 0; i < device->threads.capacity; i++) {
        device->threads.places[i].has_rng_stream = false;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

kiln_status kiln_random_stream(kiln_device *device, uint32_t number, kiln_error *err)
{
    device = kilni_core(device);
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    pthread_mutex_lock(&device->lock);
    kilni_thread *thread = NULL;
    kiln_status status = find_stream(device, &thread, err);
    if (status == KILN_STATUS_OK) {
        thread->random_number = number;
        thread->random_position = 0;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
