// SPDX-License-Identifier: MIT OR Apache-2.0
// Pages of libraries that are being loaded. A driver with a compiler inside (PoCL with LLVM, 11 MB
// of pointers) makes the loader write thousands of pages, each behind a fault of its own; a second
// thread that has the kernel make them writable takes a third off the loading. No byte is changed,
// and what the loader has closed again, or taken away, is refused or left as it is.
//
// The loader needs the list of libraries and the address space for itself while it maps them, so
// this waits until it has gone on to writing, and goes in small steps.

#define _GNU_SOURCE // dl_iterate_phdr, madvise
#include <link.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "cl_touch.h"

enum { STEP_BYTES = 256 << 10, PAGE_BYTES = 4096 };

typedef struct looking {
    size_t number; ///< of the library that is looked at
    kilni_cl_touch *touch;
} looking;

/// Notes the part that the loader writes and then closes: all of it is written.
static int look(struct dl_phdr_info *info, size_t size, void *user)
{
    looking *state = user;
    kilni_cl_touch *touch = state->touch;
    (void)size;
    bool seen = state->number++ < touch->libraries;
    for (size_t i = 0; i < info->dlpi_phnum && !seen; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_GNU_RELRO && part->p_memsz >= touch->least_bytes &&
            touch->n_parts < KILNI_CL_TOUCH_PARTS) {
            touch->parts[touch->n_parts].begin = (uintptr_t)info->dlpi_addr + part->p_vaddr;
            touch->parts[touch->n_parts].bytes = part->p_memsz;
            touch->n_parts++;
        }
    }
    return 0;
}

static void touch_part(uintptr_t begin, size_t bytes)
{
    uintptr_t end = begin + bytes;
    for (uintptr_t at = begin & ~(uintptr_t)(PAGE_BYTES - 1); at < end; at += STEP_BYTES) {
#ifdef MADV_POPULATE_WRITE
        size_t step = end - at < STEP_BYTES ? (end - at) & ~(size_t)(PAGE_BYTES - 1) : STEP_BYTES;
        (void)madvise((void *)at, step, MADV_POPULATE_WRITE);
#endif
    }
}

void kilni_cl_touch_libraries(kilni_cl_touch *touch)
{
    looking state = {.touch = touch};
    (void)dl_iterate_phdr(look, &state);
    bool settled = state.number <= touch->libraries;
    touch->libraries = state.number;
    while (settled && touch->n_parts > 0) { // the last one mapped is written first
        touch->n_parts--;
        touch_part(touch->parts[touch->n_parts].begin, touch->parts[touch->n_parts].bytes);
        touch->bytes += touch->parts[touch->n_parts].bytes;
    }
}
