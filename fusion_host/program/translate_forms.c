// SPDX-License-Identifier: MIT OR Apache-2.0
// Which form of a program a device gets: a launch over work-items or by a single one, a source's
// text or one of the binaries beside it. What the form says is checked by translate.c as any other.
#include <string.h>

#include "host_services.h"
#include "translate.h"

enum { MAX_BINARIES = 64, MAX_STRUCT_BYTES = 4096 };

kiln_status kilni_fuse_read_struct(const void *object, uint32_t least, void *out, uint32_t known,
                                   const char *what, uint32_t index, kiln_error *err)
{
    uint32_t size = 0;
    memset(out, 0, known);
    if (object == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s %u is NULL", what, index);
    }
    memcpy(&size, object, sizeof(size));
    if (size < least || size > MAX_STRUCT_BYTES) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s %u has a struct size of %u", what, index, size);
    }
    const unsigned char *bytes = object;
    for (uint32_t i = known; i < size; i++) {
        if (bytes[i] != 0) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s %u uses a newer form than this host knows",
                             what, index);
        }
    }
    memcpy(out, object, size < known ? size : known);
    return KILN_STATUS_OK;
}

static bool has_size(const kf_launch *launch)
{
    bool sized = false;
    for (uint32_t i = 0; i < 3; i++) {
        sized = sized || launch->global[i].n != 0 || launch->local[i].n != 0;
    }
    return sized;
}

kiln_status kilni_fuse_launch_form(const kiln_device_info *device, const kf_launch *given,
                                   uint32_t index, kf_launch *out, kiln_error *err)
{
    static const kf_ins one = {.op = KF_INS_IMM, .imm = 1};
    kiln_status status = kilni_fuse_read_struct(given, KF_LAUNCH_SIZE_FIRST, out,
                                                (uint32_t)sizeof(*out), "launch", index, err);
    bool wanted = (device->features & KILN_FEATURE_SINGLE_WORK_ITEM) != 0;
    if (status != KILN_STATUS_OK || out->single == NULL || !wanted) {
        return status;
    }
    const kf_launch *single = out->single;
    status = kilni_fuse_read_struct(single, KF_LAUNCH_SIZE_FIRST, out, (uint32_t)sizeof(*out),
                                    "single-work-item form of launch", index, err);
    if (status == KILN_STATUS_OK && (has_size(out) || out->single != NULL)) {
        status = kiln_fail(err, INVALID_ARGUMENT,
                           "the single-work-item form of launch %u has sizes or a form of its own",
                           index);
    }
    out->dims = 1;
    out->global[0] = out->local[0] = (kf_expr){&one, 1};
    return status;
}

static bool same_text(kf_str a, const char *b)
{
    size_t length = b == NULL ? 0 : strlen(b);
    return a.len == length && (length == 0 || memcmp(a.ptr, b, length) == 0);
}

static bool is_for(const kf_binary *binary, const kiln_device_info *device)
{
    return kilni_fuse_text_ok(binary->device, 1024) && kilni_fuse_text_ok(binary->driver, 1024) &&
           same_text(binary->device, device->name) &&
           (binary->driver.len == 0 || same_text(binary->driver, device->driver));
}

/// The first binary for the device; `out->code` stays empty when there is none.
static kiln_status find_binary(const kiln_device_info *device, const kf_source *source,
                               uint32_t index, kf_binary *out, kiln_error *err)
{
    kf_binary binary = {0};
    if (source->n_binaries > MAX_BINARIES || (source->n_binaries > 0 && source->binaries == NULL)) {
        return kiln_fail(err, INVALID_ARGUMENT, "source %u has too many binaries, or at NULL",
                         index);
    }
    for (uint64_t i = 0; i < source->n_binaries; i++) {
        kiln_status status =
            kilni_fuse_read_struct(source->binaries[i], (uint32_t)sizeof(binary), &binary,
                                   (uint32_t)sizeof(binary), "a binary of source", index, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        if (is_for(&binary, device) && out->code.len == 0) {
            *out = binary;
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_fuse_source_form(const kiln_device_info *device, const kf_source *given,
                                   uint32_t index, kf_source *out, kiln_error *err)
{
    kf_binary binary = {0};
    kiln_status status = kilni_fuse_read_struct(given, KF_SOURCE_SIZE_FIRST, out,
                                                (uint32_t)sizeof(*out), "source", index, err);
    if (status != KILN_STATUS_OK || out->n_binaries == 0) {
        return status;
    }
    if (out->format != KF_FORMAT_OPENCL_C) {
        return kiln_fail(err, INVALID_ARGUMENT, "source %u has binaries beside another", index);
    }
    status = find_binary(device, out, index, &binary, err);
    bool prepared = (device->features & KILN_FEATURE_PREPARED) != 0;
    if (status == KILN_STATUS_OK && binary.code.len > 0 && (prepared || out->code.len == 0)) {
        out->format = KF_FORMAT_BINARY;
        out->code = binary.code;
        out->fingerprint = (kf_blob){&device->fingerprint, sizeof(device->fingerprint)};
    } else if (status == KILN_STATUS_OK && out->code.len == 0) {
        status = kiln_fail(err, UNIMPLEMENTED,
                           "source %u has binaries only, and none for device %.60s, driver %.60s",
                           index, device->name, device->driver);
    }
    return status;
}
