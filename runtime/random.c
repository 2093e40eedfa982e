// SPDX-License-Identifier: MIT OR Apache-2.0
// Where random numbers come from: each thread draws from a stream of its own on each device, and
// each operation is one draw. What an operation draws is fixed when it is recorded, so it does not
// depend on when, where or in which kernel it runs.

#include "runtime_internal.h"

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

static kilni_random_stream *find(kilni_random *random, uint64_t thread)
{
    for (size_t i = 0; i < random->n_streams; i++) {
        if (random->streams[i].thread == thread) {
            return &random->streams[i];
        }
    }
    return NULL;
}

static kilni_random_stream *find_or_add(kiln_device *device, kiln_error *err)
{
    kilni_random *random = &device->random;
    uint64_t thread = kiln_thread_id();
    kilni_random_stream *found = find(random, thread);
    if (found != NULL) {
        return found;
    }
    if (random->n_streams == random->capacity) {
        size_t capacity = random->capacity == 0 ? 4 : random->capacity * 2;
        kilni_random_stream *grown =
            kiln_realloc(&device->context->env, random->streams, random->capacity * sizeof(*grown),
                         capacity * sizeof(*grown));
        if (grown == NULL) {
            (void)kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a stream of random numbers");
            return NULL;
        }
        random->streams = grown;
        random->capacity = capacity;
    }
    found = &random->streams[random->n_streams++];
    *found = (kilni_random_stream){.thread = thread, .number = random->next_number++};
    return found;
}

kiln_status kilni_random_next(kiln_device *device, kiln_attr out_attrs[3], kiln_error *err)
{
    kiln_error local = KILN_ERROR_INIT;
    kilni_random_stream *stream = find_or_add(device, &local);
    if (stream == NULL) {
        if (err != NULL) {
            *err = local;
        }
        return (kiln_status)local.code;
    }
    out_attrs[0] = kilni_attr_i64(device->random.seed);
    out_attrs[1] = kilni_attr_i64((int64_t)stream->number);
    out_attrs[2] = kilni_attr_i64(stream->position);
    stream->position = (stream->position + 1) & (((int64_t)1 << 48) - 1);
    return KILN_STATUS_OK;
}

void kilni_random_fini(kiln_device *device)
{
    kiln_free(&device->context->env, device->random.streams);
}

kiln_status kiln_seed(kiln_device *device, int64_t seed, kiln_error *err)
{
    device = kilni_core(device);
    if (device == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device must not be NULL");
    }
    pthread_mutex_lock(&device->lock);
    kiln_status status = kilni_device_drain(device, err);
    device->random.seed = seed;
    device->random.n_streams = 0;
    device->random.next_number = 0;
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
    kiln_error local = KILN_ERROR_INIT;
    kilni_random_stream *stream = find_or_add(device, &local);
    if (stream != NULL) {
        stream->number = number;
        stream->position = 0;
    } else if (err != NULL) {
        *err = local;
    }
    pthread_mutex_unlock(&device->lock);
    return (kiln_status)local.code;
}
