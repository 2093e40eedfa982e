// SPDX-License-Identifier: MIT OR Apache-2.0
// Questions to the driver about a device: numbers, whatever their size, and extensions by name.
// What the answers mean is cl_device.c's and cl_capabilities.c's.

#include "cl_query.h"

#include <string.h>

uint64_t kilni_cl_device_number(cl_device_id device, cl_device_info what)
{
    uint64_t number = 0; // little-endian: a shorter value fills the low bytes
    return clGetDeviceInfo(device, what, sizeof(number), &number, NULL) == CL_SUCCESS ? number : 0;
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
