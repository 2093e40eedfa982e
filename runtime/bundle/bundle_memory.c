// SPDX-License-Identifier: MIT OR Apache-2.0
// Device memory of a bundle: constants once for all sets of shapes, the rest for each set, all of
// it at the opening. Decides which outputs a run may write straight into memory of their own.

#include "bundle_internal.h"

#include <string.h>

typedef struct bundle_piece { ///< of the file of constants
    uint64_t offset;
    const unsigned char *bytes;
    size_t length;
} bundle_piece;

/// The constant that another set of shapes has made already; NULL: none has.
static kiln_buffer *find_constant(const kiln_bundle *bundle, uint32_t until_shapes,
                                  uint32_t until_buffer, const bundle_buffer *wanted)
{
    for (uint32_t s = 0; s <= until_shapes; s++) {
        const bundle_shapes *shapes = &bundle->manifest.shapes[s];
        uint32_t count = s < until_shapes ? shapes->n_buffers : until_buffer;
        for (uint32_t i = 0; i < count; i++) {
            const bundle_buffer *buffer = &shapes->buffers[i];
            if (buffer->kind == BUNDLE_BUFFER_CONSTANT && buffer->offset == wanted->offset &&
                buffer->bytes == wanted->bytes) {
                return bundle->memory[s].buffers[i];
            }
        }
    }
    return NULL;
}

static kiln_status fill_poison(kiln_bundle *bundle, kiln_buffer *buffer, uint64_t bytes,
                               kiln_error *err)
{
    unsigned char ones[4096];
    kiln_backend *backend = bundle->device->backend;
    kiln_status status = KILN_STATUS_OK;
    memset(ones, 0xff, sizeof(ones));
    for (uint64_t at = 0; at < bytes && status == KILN_STATUS_OK; at += sizeof(ones)) {
        size_t part = bytes - at < sizeof(ones) ? (size_t)(bytes - at) : sizeof(ones);
        status = backend->transfer->upload(backend, buffer, (size_t)at, ones, part, err);
    }
    return status;
}

static kiln_status make_buffer(kiln_bundle *bundle, uint32_t s, uint32_t index,
                               uint64_t constants_length, bool poison, kiln_error *err)
{
    bundle_memory *memory = &bundle->memory[s];
    const bundle_buffer *buffer = &bundle->manifest.shapes[s].buffers[index];
    bool is_constant = buffer->kind == BUNDLE_BUFFER_CONSTANT;
    kiln_buffer *same = is_constant ? find_constant(bundle, s, index, buffer) : NULL;
    if (same != NULL || buffer->kind == BUNDLE_BUFFER_INPUT) {
        memory->buffers[index] = same;
        return KILN_STATUS_OK;
    }
    uint64_t from = bundle->manifest.constants_start + buffer->offset;
    if (is_constant && (from > constants_length || buffer->bytes > constants_length - from)) {
        return kiln_fail(err, DATA_LOSS, BUNDLE_MANIFEST ": a constant is not in its file");
    }
    kiln_status status = kilni_bundle_alloc(bundle, buffer, &memory->buffers[index], err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    memory->owned[index] = true;
    *(is_constant ? &bundle->info.constant_bytes : &bundle->info.scratch_bytes) += buffer->bytes;
    return poison && !is_constant ? fill_poison(bundle, memory->buffers[index], buffer->bytes, err)
                                  : KILN_STATUS_OK;
}

/// Uploads what a piece of the file has of a constant that begins at `from` there.
static kiln_status upload_part(kiln_bundle *bundle, kiln_buffer *buffer, uint64_t from,
                               uint64_t bytes, const bundle_piece *piece, kiln_error *err)
{
    kiln_backend *backend = bundle->device->backend;
    uint64_t begin = from > piece->offset ? from : piece->offset;
    uint64_t end = piece->offset + piece->length;
    end = from + bytes < end ? from + bytes : end;
    return begin >= end ? KILN_STATUS_OK
                        : backend->transfer->upload(backend, buffer, (size_t)(begin - from),
                                                    piece->bytes + (begin - piece->offset),
                                                    (size_t)(end - begin), err);
}

static kiln_status upload_piece(void *user, uint64_t offset, const void *bytes, size_t length,
                                kiln_error *err)
{
    kiln_bundle *bundle = user;
    const bundle_manifest *manifest = &bundle->manifest;
    const bundle_piece piece = {offset, bytes, length};
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t s = 0; s < manifest->n_shapes; s++) {
        const bundle_shapes *shapes = &manifest->shapes[s];
        for (uint32_t i = 0; i < shapes->n_buffers && status == KILN_STATUS_OK; i++) {
            const bundle_buffer *buffer = &shapes->buffers[i];
            if (bundle->memory[s].owned[i] && buffer->kind == BUNDLE_BUFFER_CONSTANT) {
                status = upload_part(bundle, bundle->memory[s].buffers[i],
                                     manifest->constants_start + buffer->offset, buffer->bytes,
                                     &piece, err);
            }
        }
    }
    return status;
}

/// An output that is alone in a buffer from its start on needs no copy.
static void find_direct(const bundle_manifest *manifest, const bundle_shapes *shapes,
                        bundle_memory *memory)
{
    for (uint32_t i = 0; i < shapes->n_buffers; i++) {
        memory->only[i] = UINT32_MAX;
    }
    for (uint32_t o = 0; o < manifest->n_outputs; o++) {
        const bundle_value *value = &shapes->outputs[o];
        uint32_t users = 0;
        for (uint32_t k = 0; k < manifest->n_outputs; k++) {
            users += shapes->outputs[k].buffer == value->buffer;
        }
        if (users == 1 && value->offset == 0 &&
            shapes->buffers[value->buffer].kind == BUNDLE_BUFFER_SCRATCH) {
            memory->only[value->buffer] = o;
        }
    }
}

static kiln_status make_lists(kiln_bundle *bundle, const bundle_shapes *shapes,
                              bundle_memory *memory, kiln_error *err)
{
    uint32_t n_args = 1;
    for (uint32_t i = 0; i < shapes->n_steps; i++) {
        n_args = shapes->steps[i].n_args > n_args ? shapes->steps[i].n_args : n_args;
    }
    size_t n = shapes->n_buffers + 1u;
    memory->buffers = kiln_arena_alloc(&bundle->arena, n * sizeof(*memory->buffers));
    memory->owned = kiln_arena_alloc(&bundle->arena, n * sizeof(*memory->owned));
    memory->only = kiln_arena_alloc(&bundle->arena, n * sizeof(*memory->only));
    memory->args = kiln_arena_alloc(&bundle->arena, n_args * sizeof(*memory->args));
    if (memory->buffers == NULL || memory->owned == NULL || memory->only == NULL ||
        memory->args == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a bundle's buffers");
    }
    find_direct(&bundle->manifest, shapes, memory);
    return KILN_STATUS_OK;
}

static kiln_status make_buffers(kiln_bundle *bundle, uint64_t constants_length, bool poison,
                                kiln_error *err)
{
    const bundle_manifest *manifest = &bundle->manifest;
    kiln_status status = KILN_STATUS_OK;
    bundle->memory =
        kiln_arena_alloc(&bundle->arena, (manifest->n_shapes + 1) * sizeof(*bundle->memory));
    if (bundle->memory == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a bundle's buffers");
    }
    for (uint32_t s = 0; s < manifest->n_shapes && status == KILN_STATUS_OK; s++) {
        status = make_lists(bundle, &manifest->shapes[s], &bundle->memory[s], err);
        for (uint32_t i = 0; i < manifest->shapes[s].n_buffers && status == KILN_STATUS_OK; i++) {
            status = make_buffer(bundle, s, i, constants_length, poison, err);
        }
    }
    return status;
}

/// Constants are read, not mapped: a file that is cut short under a map would end the process.
kiln_status kilni_bundle_make_memory(kiln_bundle *bundle, bool poison, kiln_error *err)
{
    kiln_backend *backend = bundle->device->backend;
    uint64_t length = 0;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status,
             kilni_bundle_folder_length(&bundle->folder, BUNDLE_CONSTANTS, &length, err));
    KILN_TRY(out, status, make_buffers(bundle, length, poison, err));
    KILN_TRY(
        out, status,
        kilni_bundle_folder_visit(&bundle->folder, BUNDLE_CONSTANTS, upload_piece, bundle, err));
    status = backend->device->sync(backend, err);
out:
    return status;
}

void kilni_bundle_free_memory(kiln_bundle *bundle)
{
    kiln_backend *backend = bundle->device->backend;
    for (uint32_t s = 0; bundle->memory != NULL && s < bundle->manifest.n_shapes; s++) {
        bundle_memory *memory = &bundle->memory[s];
        for (uint32_t i = 0; memory->owned != NULL && i < bundle->manifest.shapes[s].n_buffers;
             i++) {
            if (memory->owned[i]) {
                backend->memory->free(backend, memory->buffers[i]);
            }
        }
    }
    bundle->memory = NULL;
}
