// SPDX-License-Identifier: MIT OR Apache-2.0
// Pages of a compiler that nothing uses now. Loading PoCL runs what LLVM does when it is loaded,
// all over its 110 MB of code, and more than half of that stays in the process's memory, though
// kernels that come from a cache need none of it. The system gets these pages back; what is used
// after all comes from the file again, or from memory that still has the file. Only parts that
// nothing can have written to are given up: read-only ones, of libraries without relocations there.

#define _GNU_SOURCE // dl_iterate_phdr, madvise
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cl_rest.h"

/// Whether it is a library of LLVM's.
static bool is_compiler(const char *path)
{
    static const char *const names[] = {"libLLVM", "libclang"};
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : "";
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

/// Whether the loader has written into its read-only parts.
static bool was_patched(const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const ElfW(Dyn) *entry = (const void *)((uintptr_t)info->dlpi_addr + part->p_vaddr);
        for (; part->p_type == PT_DYNAMIC && entry->d_tag != DT_NULL; entry++) {
            if (entry->d_tag == DT_TEXTREL ||
                (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0)) {
                return true;
            }
        }
    }
    return false;
}

static int rest_library(struct dl_phdr_info *info, size_t size, void *user)
{
    size_t *bytes = user;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size;
    if (!is_compiler(info->dlpi_name) || was_patched(info)) {
        return 0;
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_W) == 0) {
            uintptr_t begin = (uintptr_t)info->dlpi_addr + part->p_vaddr;
            uintptr_t first = (begin + page - 1) / page * page;
            uintptr_t end = (begin + part->p_memsz) / page * page;
            if (end > first && madvise((void *)first, end - first, MADV_DONTNEED) == 0) {
                *bytes += end - first;
            }
        }
    }
    return 0;
}

size_t kilni_cl_rest_compiler(void)
{
    size_t bytes = 0;
    (void)dl_iterate_phdr(rest_library, &bytes);
    return bytes;
}
