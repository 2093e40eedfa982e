// SPDX-License-Identifier: MIT OR Apache-2.0
// An OpenCL layer (OPENCL_LAYERS, ocl-icd 2.3.1 and later) that gives whoever asks for a context of
// one device the same one again, as long as the process lives. The first program that PoCL compiles
// in a context takes half a second more, for its library of built-in functions; so the cases of a
// test program share that, though each opens a device of its own (SHARED_CONTEXT in
// KilnTest.cmake).
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "layer.h"

enum { MOST = 8 };

static struct {
    cl_device_id device;
    cl_context context; ///< with one reference of this table's
} held[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/// A context that may outlive its caller has no callback of the caller's.
static cl_context take(cl_device_id device, const cl_context_properties *properties,
                       cl_int *out_code)
{
    for (int i = 0; i < MOST; i++) {
        if (held[i].context == NULL) {
            held[i].device = device;
            held[i].context = below->clCreateContext(properties, 1, &device, NULL, NULL, out_code);
        }
        if (held[i].device == device) {
            cl_int code =
                held[i].context != NULL ? below->clRetainContext(held[i].context) : CL_SUCCESS;
            if (out_code != NULL && held[i].context != NULL) {
                *out_code = code;
            }
            return held[i].context;
        }
    }
    return below->clCreateContext(properties, 1, &device, NULL, NULL, out_code);
}

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count,
                                             const cl_device_id *devices,
                                             void(CL_CALLBACK *notify)(const char *, const void *,
                                                                       size_t, void *),
                                             void *user, cl_int *out_code)
{
    if (count != 1 || devices == NULL) {
        return below->clCreateContext(properties, count, devices, notify, user, out_code);
    }
    pthread_mutex_lock(&lock);
    cl_context context = take(devices[0], properties, out_code);
    pthread_mutex_unlock(&lock);
    return context;
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *out,
                                               size_t *out_size)
{
    return layer_info("kiln: one context", what, room, out, out_size);
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *target,
                                            cl_uint *out_count, const cl_icd_dispatch **out_table)
{
    if (!layer_begin(count, target, out_count, out_table)) {
        return CL_INVALID_VALUE;
    }
    table.clCreateContext = create_context;
    return CL_SUCCESS;
}
