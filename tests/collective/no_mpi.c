// SPDX-License-Identifier: MIT OR Apache-2.0
// Preloaded, it makes a machine without MPI: libraries of that name are not found.
#include <dlfcn.h>
#include <string.h>

__attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
    void *(*real)(const char *, int) = NULL;
    void *found = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &found, sizeof(real));
    return real(file != NULL && strncmp(file, "libmpi", 6) == 0 ? "libhidden.so.0" : file, mode);
}
