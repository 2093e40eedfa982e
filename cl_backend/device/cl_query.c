// SPDX-License-Identifier: MIT OR Apache-2.0
// Questions to the driver about a device: numbers, whatever their size, and extensions by name.
// What the answers mean, and what becomes of a question without one, is cl_device.c's and
// cl_capabilities.c's.

#include "cl_query.h"
#include "cl_state.h"

#include <string.h>

/// The first code above `least` stays.
static bool ask(kilni_cl_backend *backend, cl_int least, cl_device_info what, size_t room,
                void *out, size_t *out_size)
{
    cl_int code = clGetDeviceInfo(backend->device, what, room, out, out_size);
    if (code > least && backend->unanswered == CL_SUCCESS) {
        backend->unanswered = code;
    }
    return code == CL_SUCCESS;
}

bool kilni_cl_device_ask(kilni_cl_backend *backend, cl_device_info what, size_t room, void *out,
                         size_t *out_size)
{
    // That code and those below it are the question's fault.
    return ask(backend, CL_INVALID_VALUE, what, room, out, out_size);
}

bool kilni_cl_device_need(kilni_cl_backend *backend, cl_device_info what, size_t room, void *out,
                          size_t *out_size)
{
    return ask(backend, INT32_MIN, what, room, out, out_size);
}

uint64_t kilni_cl_device_number(kilni_cl_backend *backend, cl_device_info what)
{
    uint64_t number = 0; // little-endian: a shorter value fills the low bytes
    return kilni_cl_device_ask(backend, what, sizeof(number), &number, NULL) ? number : 0;
}

kiln_device_type kilni_cl_device_type(cl_device_type type)
{
    if ((type & CL_DEVICE_TYPE_GPU) != 0) {
        return KILN_DEVICE_GPU;
    }
    return (type & CL_DEVICE_TYPE_CPU) != 0 ? KILN_DEVICE_CPU : KILN_DEVICE_ACCELERATOR;
}

bool kilni_cl_has_extension(const char *extensions, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(extensions, name); at != NULL; at = strstr(at + 1, name)) {
        bool begins = at == extensions || at[-1] == ' ';
        if (begins && (at[length] == ' ' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

bool kilni_cl_is_nvidia(const char *extensions)
{
    return kilni_cl_has_extension(extensions, "cl_nv_device_attribute_query");
}
