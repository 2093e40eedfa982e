// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads a shared object without loading it: the manifest note, what it exports and imports, and
// whether it wants an executable stack or text relocations. The bytes come from anywhere, so every
// offset and count is checked against the length. What follows from the manifest is decided in
// loader.c.
#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "host_services.h"
#include "plugin_load.h"

#if defined(__x86_64__)
enum { HOST_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { HOST_MACHINE = EM_AARCH64 };
#else
enum { HOST_MACHINE = EM_NONE };
#endif

enum { MAX_SECTIONS = 4096, MAX_SEGMENTS = 256, MAX_SYMBOLS = 1 << 20 };

typedef struct elf_file {
    const unsigned char *bytes;
    size_t length;
    Elf64_Ehdr head;
    kiln_error *err;
} elf_file;

/// Copies a piece of the file; false when it does not lie inside.
static bool take(const elf_file *file, uint64_t offset, void *out, size_t length)
{
    if (offset > file->length || length > file->length - offset) {
        return false;
    }
    memcpy(out, file->bytes + offset, length);
    return true;
}

static bool inside(const elf_file *file, uint64_t offset, uint64_t length)
{
    return offset <= file->length && length <= file->length - offset;
}

static kiln_status open_elf(elf_file *file)
{
    if (file->length < SELFMAG || memcmp(file->bytes, ELFMAG, SELFMAG) != 0) {
        return kiln_fail(file->err, INVALID_ARGUMENT, "not an ELF file");
    }
    Elf64_Ehdr *head = &file->head;
    if (!take(file, 0, head, sizeof(*head))) {
        return kiln_fail(file->err, DATA_LOSS, "ELF file is truncated: %zu bytes", file->length);
    }
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB ||
        head->e_machine != HOST_MACHINE) {
        return kiln_fail(file->err, FAILED_PRECONDITION,
                         "built for another machine (ELF machine %u)", head->e_machine);
    }
    if (head->e_type != ET_DYN) {
        return kiln_fail(file->err, INVALID_ARGUMENT, "not a shared object (ELF type %u)",
                         head->e_type);
    }
    if (head->e_shnum > MAX_SECTIONS || head->e_phnum > MAX_SEGMENTS ||
        (head->e_shnum > 0 && head->e_shentsize != sizeof(Elf64_Shdr)) ||
        (head->e_phnum > 0 && head->e_phentsize != sizeof(Elf64_Phdr))) {
        return kiln_fail(file->err, INVALID_ARGUMENT, "ELF tables have an impossible size");
    }
    if (!inside(file, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr)) ||
        !inside(file, head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr))) {
        return kiln_fail(file->err, DATA_LOSS, "ELF file is truncated: its tables lie outside");
    }
    return KILN_STATUS_OK;
}

static Elf64_Shdr section_at(const elf_file *file, uint32_t index)
{
    Elf64_Shdr section = {0};
    (void)take(file, file->head.e_shoff + (uint64_t)index * sizeof(section), &section,
               sizeof(section));
    return section;
}

static Elf64_Phdr segment_at(const elf_file *file, uint32_t index)
{
    Elf64_Phdr segment = {0};
    (void)take(file, file->head.e_phoff + (uint64_t)index * sizeof(segment), &segment,
               sizeof(segment));
    return segment;
}

/// A terminated text inside a string section, or NULL.
static const char *text_at(const elf_file *file, const Elf64_Shdr *strings, uint64_t offset)
{
    if (!inside(file, strings->sh_offset, strings->sh_size) || offset >= strings->sh_size) {
        return NULL;
    }
    const char *text = (const char *)file->bytes + strings->sh_offset + offset;
    return memchr(text, 0, strings->sh_size - offset) != NULL ? text : NULL;
}

// ---- the note ----

/// Looks through a run of notes; true when ours is there.
static bool find_note(const elf_file *file, uint64_t offset, uint64_t length, uint64_t align,
                      kf_note *out_note)
{
    uint64_t step = align == 8 ? 8 : 4;
    if (!inside(file, offset, length)) {
        return false;
    }
    uint64_t end = offset + length;
    while (end - offset >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note = {0};
        (void)take(file, offset, &note, sizeof(note));
        uint64_t name_bytes = ((uint64_t)note.n_namesz + 3) & ~(uint64_t)3;
        uint64_t desc = (sizeof(note) + name_bytes + step - 1) & ~(step - 1);
        uint64_t whole = (desc + note.n_descsz + step - 1) & ~(step - 1);
        if (desc + note.n_descsz > end - offset) {
            return false;
        }
        bool ours = note.n_namesz == 4 && note.n_type == KF_NOTE_TYPE &&
                    memcmp(file->bytes + offset + sizeof(note), KF_NOTE_NAME, 4) == 0;
        if (ours && note.n_descsz >= KF_MANIFEST_SIZE_V1_0) { // what an older one lacks stays zero
            uint64_t known = sizeof(kf_manifest);
            return take(file, offset + desc, &out_note->desc,
                        note.n_descsz < known ? note.n_descsz : known);
        }
        if (whole > end - offset) {
            return false;
        }
        offset += whole;
    }
    return false;
}

static bool find_in_sections(const elf_file *file, kf_note *out_note)
{
    Elf64_Shdr names = section_at(file, file->head.e_shstrndx);
    for (uint32_t i = 0; i < file->head.e_shnum; i++) {
        Elf64_Shdr section = section_at(file, i);
        const char *name = text_at(file, &names, section.sh_name);
        if (name != NULL && strcmp(name, KF_NOTE_SECTION) == 0) {
            return find_note(file, section.sh_offset, section.sh_size, 4, out_note);
        }
    }
    return false;
}

static bool find_in_segments(const elf_file *file, kf_note *out_note)
{
    for (uint32_t i = 0; i < file->head.e_phnum; i++) {
        Elf64_Phdr segment = segment_at(file, i);
        if (segment.p_type == PT_NOTE &&
            find_note(file, segment.p_offset, segment.p_filesz, segment.p_align, out_note)) {
            return true;
        }
    }
    return false;
}

static bool is_terminated(const char *text, size_t capacity)
{
    return memchr(text, 0, capacity) != NULL &&
           kilni_fuse_text_ok((kf_str){text, strlen(text)}, capacity);
}

kiln_status kilni_fuse_elf_manifest(const void *bytes, size_t length,
                                    kilni_fuse_manifest *out_manifest, kiln_error *err)
{
    elf_file file = {.bytes = bytes, .length = length, .err = err};
    kf_note note = {0};
    kiln_status status = open_elf(&file);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (!find_in_sections(&file, &note) && !find_in_segments(&file, &note)) {
        return kiln_fail(err, FAILED_PRECONDITION, "no fuser manifest (note %s)", KF_NOTE_SECTION);
    }
    const kf_manifest *m = &note.desc;
    if (m->struct_size < KF_MANIFEST_SIZE_V1_0) {
        return kiln_fail(err, INVALID_ARGUMENT, "manifest has a struct size of %u", m->struct_size);
    }
    if (!is_terminated(m->id, sizeof(m->id)) || m->id[0] == 0 ||
        !is_terminated(m->version, sizeof(m->version)) ||
        !is_terminated(m->build, sizeof(m->build))) {
        return kiln_fail(err, INVALID_ARGUMENT, "manifest has an id or version that is not text");
    }
    *out_manifest = (kilni_fuse_manifest){.abi_major = m->abi_major,
                                          .abi_minor = m->abi_minor,
                                          .min_host_minor = m->min_host_minor,
                                          .opset_max = m->opset_max,
                                          .sanitizer = m->sanitizer,
                                          .cpu_features = m->cpu_features,
                                          .flags = m->flags};
    memcpy(out_manifest->id, m->id, sizeof(m->id));
    memcpy(out_manifest->version, m->version, sizeof(m->version));
    memcpy(out_manifest->build, m->build, sizeof(m->build));
    return KILN_STATUS_OK;
}

// ---- exports, imports, stack ----

/// Names that linkers of some systems put into every library.
static bool is_linkers(const char *name)
{
    static const char *const names[] = {"_init",       "_fini",   "_edata",      "_end",
                                        "__bss_start", "__end__", "__data_start"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return strncmp(name, "__odr_asan", 10) == 0;
}

/// What an import would do that no plugin may, or NULL.
static const char *forbidden(const char *name, uint64_t flags)
{
    static const struct {
        const char *name;
        const char *deed;
    } table[] = {
        {"printf", "prints"},
        {"vprintf", "prints"},
        {"puts", "prints"},
        {"putchar", "prints"},
        {"__printf_chk", "prints"},
        {"__vprintf_chk", "prints"},
        {"perror", "prints"},
        {"stdout", "prints"},
        {"stderr", "prints"},
        {"exit", "ends the process"},
        {"_exit", "ends the process"},
        {"fork", "forks"},
        {"vfork", "forks"},
        {"system", "forks"},
        {"posix_spawn", "forks"},
        {"signal", "installs signal handlers"},
        {"sigaction", "installs signal handlers"},
        {"setlocale", "changes the locale"},
        {"setenv", "changes the environment"},
        {"putenv", "changes the environment"},
        {"atexit", "registers an exit handler"},
        {"dlopen", "loads libraries"},
    };
    if (strcmp(name, "pthread_create") == 0 && (flags & KF_MANIFEST_USES_THREADS) == 0) {
        return "makes threads without saying so in its manifest";
    }
    if (strncmp(name, "kiln_", 5) == 0) {
        return "is linked against the host";
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(name, table[i].name) == 0) {
            return table[i].deed;
        }
    }
    return NULL;
}

static kiln_status check_symbol(const elf_file *file, const Elf64_Sym *symbol, const char *name,
                                uint64_t flags, bool *has_query)
{
    bool global = ELF64_ST_BIND(symbol->st_info) != STB_LOCAL;
    bool visible = ELF64_ST_VISIBILITY(symbol->st_other) == STV_DEFAULT ||
                   ELF64_ST_VISIBILITY(symbol->st_other) == STV_PROTECTED;
    if (symbol->st_shndx == SHN_UNDEF) {
        const char *deed = name[0] == 0 ? NULL : forbidden(name, flags);
        return deed == NULL
                   ? KILN_STATUS_OK
                   : kiln_fail(file->err, FAILED_PRECONDITION, "%s: it imports %.64s", deed, name);
    }
    if (!global || !visible || is_linkers(name)) {
        return KILN_STATUS_OK;
    }
    if (strcmp(name, KF_QUERY_SYMBOL) != 0) {
        return kiln_fail(file->err, FAILED_PRECONDITION, "exports %.64s beside %s", name,
                         KF_QUERY_SYMBOL);
    }
    *has_query = true;
    return KILN_STATUS_OK;
}

static kiln_status check_symbols(const elf_file *file, const Elf64_Shdr *table, uint64_t flags)
{
    bool has_query = false;
    uint64_t count = table->sh_size / sizeof(Elf64_Sym);
    Elf64_Shdr strings = section_at(file, table->sh_link);
    if (table->sh_link >= file->head.e_shnum || count > MAX_SYMBOLS ||
        !inside(file, table->sh_offset, table->sh_size)) {
        return kiln_fail(file->err, DATA_LOSS, "symbol table lies outside the file");
    }
    for (uint64_t i = 1; i < count; i++) {
        Elf64_Sym symbol = {0};
        (void)take(file, table->sh_offset + i * sizeof(symbol), &symbol, sizeof(symbol));
        const char *name = text_at(file, &strings, symbol.st_name);
        if (name == NULL) {
            return kiln_fail(file->err, DATA_LOSS, "symbol %llu has a name outside the file",
                             (unsigned long long)i);
        }
        kiln_status status = check_symbol(file, &symbol, name, flags, &has_query);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return has_query
               ? KILN_STATUS_OK
               : kiln_fail(file->err, FAILED_PRECONDITION, "does not export %s", KF_QUERY_SYMBOL);
}

static kiln_status check_dynamic(const elf_file *file, const Elf64_Phdr *dynamic)
{
    uint64_t count = dynamic->p_filesz / sizeof(Elf64_Dyn);
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Dyn entry = {0};
        if (!take(file, dynamic->p_offset + i * sizeof(entry), &entry, sizeof(entry))) {
            return kiln_fail(file->err, DATA_LOSS, "dynamic section lies outside the file");
        }
        if (entry.d_tag == DT_NULL) {
            break;
        }
        bool text = entry.d_tag == DT_TEXTREL ||
                    (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL) != 0);
        if (text) {
            return kiln_fail(file->err, FAILED_PRECONDITION, "has text relocations");
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_segments(const elf_file *file)
{
    for (uint32_t i = 0; i < file->head.e_phnum; i++) {
        Elf64_Phdr segment = segment_at(file, i);
        if (segment.p_type == PT_LOAD && !inside(file, segment.p_offset, segment.p_filesz)) {
            return kiln_fail(file->err, DATA_LOSS, "ELF file is truncated: a segment lies outside");
        }
        if (segment.p_type == PT_GNU_STACK && (segment.p_flags & PF_X) != 0) {
            return kiln_fail(file->err, FAILED_PRECONDITION, "wants an executable stack");
        }
        if (segment.p_type == PT_DYNAMIC) {
            kiln_status status = check_dynamic(file, &segment);
            if (status != KILN_STATUS_OK) {
                return status;
            }
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_fuse_elf_check(const void *bytes, size_t length, uint64_t flags, kiln_error *err)
{
    elf_file file = {.bytes = bytes, .length = length, .err = err};
    kiln_status status = open_elf(&file);
    if (status == KILN_STATUS_OK) {
        status = check_segments(&file);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    for (uint32_t i = 0; i < file.head.e_shnum; i++) {
        Elf64_Shdr section = section_at(&file, i);
        if (section.sh_type == SHT_DYNSYM) {
            return check_symbols(&file, &section, flags);
        }
    }
    return kiln_fail(err, FAILED_PRECONDITION, "has no symbol table");
}
