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

static size_t binary_bytes(cl_program program)
{
    size_t length = 0;
    cl_int code = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(length), &length, NULL);
    return code == CL_SUCCESS ? length : 0;
}

size_t kilni_cl_program_binary_bytes(const kilni_cl_program *program)
{
    return binary_bytes(program->program);
}

cl_int kilni_cl_binary_take(const kiln_env *env, cl_program program, kiln_blob *out_binary)
{
    unsigned char *taken[2] = {NULL, NULL};
    size_t length = binary_bytes(program);
    cl_int code = length > 0 ? CL_SUCCESS : CL_INVALID_PROGRAM_EXECUTABLE;
    for (int i = 0; i < 2 && code == CL_SUCCESS; i++) {
        taken[i] = kiln_alloc(env, length);
        if (taken[i] == NULL) {
            code = CL_OUT_OF_HOST_MEMORY;
        } else {
            memset(taken[i], i * 0xff, length); // what is not written differs
            code =
                clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(taken[i]), &taken[i], NULL);
        }
    }
    if (code == CL_SUCCESS && memcmp(taken[0], taken[1], length) != 0) {
        code = CL_INVALID_BINARY;
    }
    if (code == CL_SUCCESS) {
        *out_binary = (kiln_blob){.data = taken[0], .length = length};
        taken[0] = NULL;
    }
    kiln_free(env, taken[0]);
    kiln_free(env, taken[1]);
    return code;
}

kiln_status kilni_cl_program_binary(kilni_cl_backend *backend, const kilni_cl_program *program,
                                    kiln_blob *out_binary, kiln_error *err)
{
    switch (kilni_cl_binary_take(backend->env, program->program, out_binary)) {
    case CL_SUCCESS:
        return KILN_STATUS_OK;
    case CL_OUT_OF_HOST_MEMORY:
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for the binary of %s", program->label);
    case CL_INVALID_BINARY:
        return kiln_fail(err, DATA_LOSS, "the driver gives two binaries of %s", program->label);
    default:
        return kiln_fail(err, UNAVAILABLE, "the driver gives no binary of %s", program->label);
    }
}

kiln_status kilni_cl_entry_make(kilni_cl_backend *backend, const kilni_cl_program *program,
                                kiln_blob *out_entry, kiln_error *err)
{
    entry_head head = {.magic = entry_magic, .format = CACHE_FORMAT, .n_shapes = program->n_shapes};
    size_t shape_bytes = program->n_shapes * sizeof(kilni_cl_shape);
    kiln_blob binary = {0};
    kiln_status status = kilni_cl_program_binary(backend, program, &binary, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    head.binary_bytes = binary.length;
    size_t total = sizeof(head) + shape_bytes + binary.length;
    unsigned char *entry = kiln_alloc(backend->env, total);
    if (entry == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %s", program->label);
        goto out;
    }
    memcpy(entry, &head, sizeof(head));
    if (shape_bytes > 0) {
        memcpy(entry + sizeof(head), program->shapes, shape_bytes);
    }
    memcpy(entry + sizeof(head) + shape_bytes, binary.data, binary.length);
    *out_entry = (kiln_blob){.data = entry, .length = total};
out:
    kiln_free(backend->env, binary.data);
    return status;
}
