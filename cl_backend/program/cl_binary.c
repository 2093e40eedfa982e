// SPDX-License-Identifier: MIT OR Apache-2.0
// Binaries of programs: the key under which one is stored, the form of an entry of the store, and
// the way from and to the driver. When they are loaded and written is cl_program_cache.c's.

#include <string.h>

#include "cl_binary.h"
#include "cl_program.h"
#include "cl_state.h"

enum { CACHE_FORMAT = 1 }; ///< of key and entry

typedef struct entry_head { ///< then `n_shapes` shapes, then the binary
    uint32_t magic;
    uint32_t format;
    uint64_t n_shapes;
    uint64_t binary_bytes;
} entry_head;

static const uint32_t entry_magic = 0x424c434bu; // "KCLB"

kiln_hash128 kilni_cl_build_key(const kilni_cl_backend *backend, const kilni_cl_build *build)
{
    struct {
        kiln_hash128 device;
        kiln_hash128 code;
        kiln_hash128 options;
        uint64_t format;
    } parts;
    memset(&parts, 0, sizeof(parts));
    parts.device = backend->info.fingerprint;
    parts.code = kiln_hash_bytes(build->code, build->length);
    parts.options = kiln_hash_bytes(build->options, strlen(build->options));
    parts.format = (uint64_t)build->format << 32 | CACHE_FORMAT;
    return kiln_hash_bytes(&parts, sizeof(parts));
}

// ---- from an entry ----

bool kilni_cl_entry_parse(const kiln_blob *entry, kilni_cl_entry *out_entry)
{
    entry_head head;
    if (entry->length < sizeof(head)) {
        return false;
    }
    memcpy(&head, entry->data, sizeof(head));
    size_t rest = entry->length - sizeof(head);
    if (head.magic != entry_magic || head.format != CACHE_FORMAT ||
        head.n_shapes > KILNI_CL_STORED_SHAPES || rest < head.n_shapes * sizeof(kilni_cl_shape)) {
        return false;
    }
    size_t shape_bytes = (size_t)head.n_shapes * sizeof(kilni_cl_shape);
    if (rest - shape_bytes != head.binary_bytes || head.binary_bytes == 0) {
        return false;
    }
    unsigned char *shapes = (unsigned char *)entry->data + sizeof(head);
    *out_entry =
        (kilni_cl_entry){.shapes = shapes,
                         .n_shapes = head.n_shapes,
                         .binary = {.data = shapes + shape_bytes, .length = head.binary_bytes}};
    return true;
}

cl_program kilni_cl_binary_load(cl_context context, cl_device_id device, const kiln_blob *binary,
                                const char *options)
{
    const unsigned char *bytes = binary->data;
    cl_int refused = CL_SUCCESS;
    cl_int code = CL_SUCCESS;
    cl_program program =
        clCreateProgramWithBinary(context, 1, &device, &binary->length, &bytes, &refused, &code);
    if (code == CL_SUCCESS && refused == CL_SUCCESS &&
        clBuildProgram(program, 1, &device, options, NULL, NULL) == CL_SUCCESS) {
        return program;
    }
    if (program != NULL) {
        clReleaseProgram(program);
    }
    return NULL;
}

// ---- to an entry ----

size_t kilni_cl_program_binary_bytes(const kilni_cl_program *program)
{
    size_t length = 0;
    cl_int code =
        clGetProgramInfo(program->program, CL_PROGRAM_BINARY_SIZES, sizeof(length), &length, NULL);
    return code == CL_SUCCESS ? length : 0;
}

static bool take_binary(const kilni_cl_program *program, unsigned char *out_bytes)
{
    return clGetProgramInfo(program->program, CL_PROGRAM_BINARIES, sizeof(out_bytes), &out_bytes,
                            NULL) == CL_SUCCESS;
}

kiln_status kilni_cl_program_binary(kilni_cl_backend *backend, const kilni_cl_program *program,
                                    void **out_bytes, size_t *out_length, kiln_error *err)
{
    size_t length = kilni_cl_program_binary_bytes(program);
    *out_bytes = NULL;
    *out_length = 0;
    if (length == 0) {
        return kiln_fail(err, UNAVAILABLE, "the driver gives no binary of %s", program->label);
    }
    unsigned char *bytes = kiln_alloc(backend->env, length);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the binary of %s", program->label);
    }
    if (!take_binary(program, bytes)) {
        kiln_free(backend->env, bytes);
        return kiln_fail(err, UNAVAILABLE, "the driver gives no binary of %s", program->label);
    }
    *out_bytes = bytes;
    *out_length = length;
    return KILN_STATUS_OK;
}

bool kilni_cl_entry_make(kilni_cl_backend *backend, const kilni_cl_program *program,
                         kiln_blob *out_entry)
{
    entry_head head = {.magic = entry_magic,
                       .format = CACHE_FORMAT,
                       .n_shapes = program->n_shapes,
                       .binary_bytes = kilni_cl_program_binary_bytes(program)};
    if (head.binary_bytes == 0) {
        return false;
    }
    size_t shape_bytes = program->n_shapes * sizeof(kilni_cl_shape);
    size_t total = sizeof(head) + shape_bytes + head.binary_bytes;
    unsigned char *entry = kiln_alloc(backend->env, total);
    if (entry == NULL) {
        return false;
    }
    memcpy(entry, &head, sizeof(head));
    if (shape_bytes > 0) {
        memcpy(entry + sizeof(head), program->shapes, shape_bytes);
    }
    if (!take_binary(program, entry + sizeof(head) + shape_bytes)) {
        kiln_free(backend->env, entry);
        return false;
    }
    *out_entry = (kiln_blob){.data = entry, .length = total};
    return true;
}
