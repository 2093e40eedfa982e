// SPDX-License-Identifier: MIT OR Apache-2.0
// Level 1: what the file says without running it, and what loading it costs. Offsets in it are not
// trusted. The host's own verdict is one of the checks.

#include "plugin_check.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct elf {
    unsigned char *bytes;
    size_t size;
    Elf64_Ehdr head;
    Elf64_Shdr dynamic, dynsym, strings, note;
    bool has_note;
} elf;

static bool take(const elf *e, uint64_t offset, void *out, size_t size)
{
    if (offset > e->size || e->size - offset < size) {
        return false;
    }
    memcpy(out, e->bytes + offset, size);
    return true;
}

static const char *text_at(const elf *e, const Elf64_Shdr *table, uint64_t at)
{
    if (at >= table->sh_size || table->sh_offset > e->size ||
        e->size - table->sh_offset < table->sh_size ||
        memchr(e->bytes + table->sh_offset + at, 0, table->sh_size - at) == NULL) {
        return "";
    }
    return (const char *)e->bytes + table->sh_offset + at;
}

static bool read_file(check *c, elf *e)
{
    FILE *file = fopen(c->path, "rb");
    long size = file != NULL && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size > 0 && size < 1L << 30 && fseek(file, 0, SEEK_SET) == 0) {
        e->bytes = malloc((size_t)size);
        e->size = e->bytes != NULL ? fread(e->bytes, 1, (size_t)size, file) : 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return e->size > 0 || check_fail(c, "the file cannot be read, or is empty or above 1 GiB");
}

static bool open_elf(check *c, elf *e)
{
    memset(e, 0, sizeof(*e));
    if (!read_file(c, e)) {
        return false;
    }
    if (!take(e, 0, &e->head, sizeof(e->head)) || memcmp(e->head.e_ident, ELFMAG, SELFMAG) != 0 ||
        e->head.e_ident[EI_CLASS] != ELFCLASS64 || e->head.e_type != ET_DYN) {
        return check_fail(c, "no 64-bit ELF shared object");
    }
    Elf64_Shdr names = {0};
    (void)take(e, e->head.e_shoff + (uint64_t)e->head.e_shstrndx * sizeof(names), &names,
               sizeof(names));
    for (uint32_t i = 0; i < e->head.e_shnum; i++) {
        Elf64_Shdr s = {0};
        (void)take(e, e->head.e_shoff + (uint64_t)i * sizeof(s), &s, sizeof(s));
        if (s.sh_type == SHT_DYNAMIC) {
            e->dynamic = s;
        } else if (s.sh_type == SHT_DYNSYM) {
            e->dynsym = s;
        } else if (s.sh_type == SHT_NOTE &&
                   strcmp(text_at(e, &names, s.sh_name), KF_NOTE_SECTION) == 0) {
            e->note = s;
            e->has_note = true;
        }
    }
    (void)take(e, e->head.e_shoff + (uint64_t)e->dynsym.sh_link * sizeof(Elf64_Shdr), &e->strings,
               sizeof(e->strings));
    return true;
}

static bool dynamic_at(const elf *e, uint64_t index, Elf64_Dyn *out)
{
    return index < e->dynamic.sh_size / sizeof(*out) &&
           take(e, e->dynamic.sh_offset + index * sizeof(*out), out, sizeof(*out)) &&
           out->d_tag != DT_NULL;
}

// ---- checks ----

static void check_note(check *c)
{
    elf e;
    kf_note note = {0};
    const uint64_t least = offsetof(kf_note, desc) + KF_MANIFEST_SIZE_V1_0;
    if (open_elf(c, &e) && !e.has_note) {
        check_fail(c, "no section %s: put KF_MANIFEST or KILN_PLUGIN at file scope",
                   KF_NOTE_SECTION);
    } else if (check_good(c) &&
               (e.note.sh_size < least ||
                !take(&e, e.note.sh_offset, &note,
                      e.note.sh_size < sizeof(note) ? e.note.sh_size : sizeof(note)))) {
        check_fail(c, "the note is shorter than a manifest");
    } else if (check_good(c)) {
        kf_manifest *m = &note.desc;
        if (memcmp(note.name, KF_NOTE_NAME, 4) != 0 || note.type != KF_NOTE_TYPE) {
            check_fail(c, "the note is not called %s", KF_NOTE_NAME);
        } else if (memchr(m->id, 0, sizeof(m->id)) == NULL || m->id[0] == '\0' ||
                   memchr(m->version, 0, sizeof(m->version)) == NULL) {
            check_fail(c, "id or version of the manifest does not end");
        } else {
            check_say(c, "%s %s, fuser ABI %u.%u, operators up to set %u", m->id, m->version,
                      m->abi_major, m->abi_minor, m->opset_max);
        }
    }
    free(e.bytes);
}

static void check_exports(check *c)
{
    elf e;
    bool found = false;
    if (open_elf(c, &e)) {
        for (uint64_t i = 1; i < e.dynsym.sh_size / sizeof(Elf64_Sym); i++) {
            Elf64_Sym s;
            if (!take(&e, e.dynsym.sh_offset + i * sizeof(s), &s, sizeof(s)) ||
                s.st_shndx == SHN_UNDEF || ELF64_ST_BIND(s.st_info) == STB_LOCAL ||
                ELF64_ST_VISIBILITY(s.st_other) == STV_HIDDEN) {
                continue;
            }
            const char *name = text_at(&e, &e.strings, s.st_name);
            found = found || strcmp(name, KF_QUERY_SYMBOL) == 0;
            if (strcmp(name, KF_QUERY_SYMBOL) != 0) {
                check_fail(c, "exports %.80s: link with -fvisibility=hidden and kiln_fuser.map",
                           name);
            }
        }
        if (!found) {
            check_fail(c, "does not export %s", KF_QUERY_SYMBOL);
        }
    }
    free(e.bytes);
}

static bool is_allowed(const char *name)
{
    static const char *const allowed[] = {"libc.so",   "libm.so",       "libgcc_s.so",
                                          "ld-linux",  "libpthread.so", "libstdc++.so",
                                          "libc++.so", "libc++abi.so"};
    bool good = false;
    for (size_t k = 0; k < sizeof(allowed) / sizeof(allowed[0]) && !good; k++) {
        size_t length = strlen(allowed[k]);
        good = strlen(name) >= length && memcmp(name, allowed[k], length) == 0;
    }
    return good;
}

static void check_libraries(check *c)
{
    elf e;
    Elf64_Dyn d;
    if (open_elf(c, &e)) {
        for (uint64_t i = 0; dynamic_at(&e, i, &d); i++) {
            const char *name = d.d_tag == DT_NEEDED ? text_at(&e, &e.strings, d.d_un.d_val) : NULL;
            bool good = name == NULL || is_allowed(name);
            if (!good) {
                check_fail(
                    c, "needs %.80s: a plugin brings what it needs beside the C and C++ library",
                    name);
            }
            if (d.d_tag == DT_RPATH || d.d_tag == DT_RUNPATH) {
                check_fail(c,
                           "has a run path, which names a folder of the machine it was built on");
            }
        }
    }
    free(e.bytes);
}

static void check_sections(check *c)
{
    elf e;
    Elf64_Dyn d;
    if (open_elf(c, &e)) {
        for (uint64_t i = 0; dynamic_at(&e, i, &d); i++) {
            if (d.d_tag == DT_TEXTREL ||
                (d.d_tag == DT_FLAGS && (d.d_un.d_val & DF_TEXTREL) != 0)) {
                check_fail(c, "has text relocations: compile with -fPIC");
            }
            // The C compiler's own start-up function is the one entry of a plain C library.
            if (d.d_tag == DT_INIT_ARRAYSZ && d.d_un.d_val > sizeof(void *)) {
                check_fail(c, "runs %u constructors before it is asked anything",
                           (unsigned)(d.d_un.d_val / sizeof(void *) - 1));
            }
        }
        for (uint32_t i = 0; i < e.head.e_phnum; i++) {
            Elf64_Phdr p = {0};
            (void)take(&e, e.head.e_phoff + (uint64_t)i * sizeof(p), &p, sizeof(p));
            if (p.p_type == PT_GNU_STACK && (p.p_flags & PF_X) != 0) {
                check_fail(c, "wants an executable stack");
            }
        }
    }
    free(e.bytes);
}

/// The loader of this very host: manifest, table, texts, a smoke test.
static void check_loader(check *c)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    kiln_context *context = NULL;
    kiln_error err = KILN_ERROR_INIT;
    check_step(c, "loading by the host");
    if (kiln_context_create(&options, &context, &err) != KILN_STATUS_OK) {
        check_fail(c, "%s", err.message);
        return;
    }
    for (size_t i = 0;; i++) { // a shipped plugin is loaded already
        kiln_plugin_info info = KILN_PLUGIN_INFO_INIT;
        if (kiln_plugin_get(context, i, &info, NULL) != KILN_STATUS_OK) {
            break;
        }
        if (strcmp(info.path, c->path) == 0 && strcmp(info.state, "taken") == 0) {
            kiln_context_destroy(context);
            return;
        }
    }
    kiln_status status = kiln_plugin_load(context, c->path, &err);
    if (status == KILN_STATUS_ALREADY_EXISTS) {
        check_say(c, "%s", err.message); // another build of a plugin that is installed
    } else if (status != KILN_STATUS_OK) {
        check_fail(c, "%s", err.message);
    }
    kiln_context_destroy(context);
}

/// In time of this processor, so that a busy machine does not decide.
static void check_load_time(check *c)
{
    uint64_t begin = kiln_processor_ns();
    if (!check_load(c)) {
        return;
    }
    double ms = (double)(kiln_processor_ns() - begin) * 1e-6;
    if (ms > 50) {
        check_fail(c, "takes %.1f ms to load, more than 50", ms);
    } else {
        check_say(c, "%.1f ms", ms);
    }
}

const check_row check_static_rows[] = {
    {"note", 1, check_note, "the manifest can be read without loading the library"},
    {"exports", 1, check_exports, "exports the one function and nothing else"},
    {"libraries", 1, check_libraries, "needs no library beside the C and C++ library"},
    {"sections", 1, check_sections, "no constructors, text relocations or executable stack"},
    {"loader", 1, check_loader, "the host's loader takes it"},
    {"load-time", 1, check_load_time, "dlopen, query and init take at most 50 ms of processor"},
    {NULL, 0, NULL, NULL},
};
