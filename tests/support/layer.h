// SPDX-License-Identifier: MIT OR Apache-2.0
// What every OpenCL layer of the tests says of itself, and how it stands between a program and the
// driver: `below` is what it calls, `table` what is called, the driver's but for its own entries.
#ifndef KILN_TESTS_SUPPORT_LAYER_H
#define KILN_TESTS_SUPPORT_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

static const cl_icd_dispatch *below;
static cl_icd_dispatch table;

/// Answers a query with `bytes` from `from`.
static inline cl_int layer_give(const void *from, size_t bytes, size_t room, void *out,
                                size_t *out_size)
{
    if (out_size != NULL) {
        *out_size = bytes;
    }
    if (out != NULL && room < bytes) {
        return CL_INVALID_VALUE;
    }
    if (out != NULL) {
        memcpy(out, from, bytes);
    }
    return CL_SUCCESS;
}

/// clGetLayerInfo of a layer with this name.
static inline cl_int layer_info(const char *name, cl_layer_info what, size_t room, void *out,
                                size_t *out_size)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (what == CL_LAYER_API_VERSION) {
        return layer_give(&version, sizeof(version), room, out, out_size);
    }
    return what == CL_LAYER_NAME ? layer_give(name, strlen(name) + 1, room, out, out_size)
                                 : CL_INVALID_VALUE;
}

/// The beginning of clInitLayer: `table` is the driver's then. False: it is asked for in a way that
/// it does not know.
static inline bool layer_begin(cl_uint count, const cl_icd_dispatch *target, cl_uint *out_count,
                               const cl_icd_dispatch **out_table)
{
    const cl_uint entries = sizeof(table) / sizeof(table.clGetPlatformIDs);
    if (count < entries || out_count == NULL || out_table == NULL) {
        return false;
    }
    below = target;
    table = *target;
    *out_count = entries;
    *out_table = &table;
    return true;
}

#endif
