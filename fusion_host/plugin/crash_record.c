// SPDX-License-Identifier: MIT OR Apache-2.0
// Which plugin was called when a process ended: a small file of each process, mapped, into which
// every call of a plugin writes its number before and zero after. The next process finds the files
// whose owner is gone (nobody holds their lock) and notes what they say in the plugins' records. A
// call costs two stores.
#define _GNU_SOURCE // flock
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuse_map.h"
#include "fuse_plugin.h"
#include "plugin_record.h"

enum { MAX_PLUGINS = 63 };

static const char magic[8] = "KLNCRMB3";

typedef struct crash_plugin {
    char hash[40];
    char id[64];
    char shipped;
} crash_plugin;

typedef struct crash_page { ///< the file
    char magic[8];
    uint32_t n_plugins;
    _Atomic uint32_t interrupted; ///< the user ended the process: nobody is to blame
    _Atomic uint32_t slots[KILNI_FUSE_CRASH_SLOTS]; ///< (plugin + 1) << 8 | call; 0: none
    _Atomic uint64_t late_ns[KILNI_FUSE_CRASH_SLOTS]; ///< of a call with a limit; 0: never late
    crash_plugin plugins[MAX_PLUGINS];
} crash_page;

struct kilni_fuse_crash_record {
    const kiln_env *env;
    char *path;
    int fd;
    crash_page *page;
    atomic_uint next_slot;
};

static const char *const call_names[KILNI_FUSE_CALL_COUNT] = {"none",
                                                              "loading",
                                                              "fuser_create",
                                                              "builder_fuse",
                                                              "builder_finish",
                                                              "a build of its program",
                                                              "a run of its program",
                                                              "a rule of an operator",
                                                              "a reference of an operator",
                                                              "builder_state",
                                                              "a builder's beginning or end",
                                                              "fuser_destroy",
                                                              "fuser_measured"};

// ---- what others left ----

static void note_end(const kiln_env *env, const char *folder, const crash_plugin *plugin,
                     uint32_t call)
{
    kilni_fuse_record record;
    if (memchr(plugin->hash, 0, sizeof(plugin->hash)) == NULL || strlen(plugin->hash) != 32 ||
        strspn(plugin->hash, "0123456789abcdef") != 32 ||
        memchr(plugin->id, 0, sizeof(plugin->id)) == NULL) {
        return;
    }
    // A compiler or a reference takes long, so that the user may have ended the process: the first
    // such end is forgiven, as is the first of what ships with Kiln; where both are so, all are.
    bool quick = call != KILNI_FUSE_CALL_BUILD && call != KILNI_FUSE_CALL_RUN &&
                 call != KILNI_FUSE_CALL_REFERENCE;
    bool sure = quick && plugin->shipped == 0;
    if (!quick && plugin->shipped != 0) {
        return;
    }
    int lock = kilni_fuse_record_begin(env, folder, plugin->hash, &record);
    snprintf(record.id, sizeof(record.id), "%s", plugin->id);
    record.ended += sure ? KILNI_FUSE_ENDS_MAX : 1;
    snprintf(record.ended_in, sizeof(record.ended_in), "%s", call_names[call]);
    (void)kilni_fuse_record_end(lock, folder, plugin->hash, &record);
    kiln_log_write(env, KILN_LOG_WARN, KILNI_FUSE_MODULE, "a process ended in %s of plugin %s",
                   call_names[call], plugin->id);
}

static void read_crash_record(const kiln_env *env, const char *folder, int fd)
{
    crash_page page;
    if (pread(fd, &page, sizeof(page), 0) != (ssize_t)sizeof(page) ||
        memcmp(page.magic, magic, sizeof(magic)) != 0 || page.n_plugins > MAX_PLUGINS ||
        atomic_load(&page.interrupted) != 0) {
        return;
    }
    for (uint32_t i = 0; i < KILNI_FUSE_CRASH_SLOTS; i++) {
        uint32_t mark = atomic_load(&page.slots[i]);
        uint32_t plugin = (mark >> 8) - 1, call = mark & 0xff;
        if (mark != 0 && plugin < page.n_plugins && call < KILNI_FUSE_CALL_COUNT) {
            note_end(env, folder, &page.plugins[plugin], call);
        }
    }
}

static void collect(const kiln_env *env, const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        char path[4400];
        if (strncmp(e->d_name, "run-", 4) != 0) {
            continue;
        }
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
            read_crash_record(env, folder, fd);
            (void)unlink(path);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

// ---- our own ----

/// The lock is held before the file has its name, so that nobody takes it for a dead one's.
static bool make_file(kilni_fuse_crash_record *record, const char *folder)
{
    char beside[4400], path[4400];
    static const char tail[] = "XXXXXX";
    snprintf(beside, sizeof(beside), "%s/new-%ld-%s", folder, (long)getpid(), tail);
    record->fd = mkostemp(beside, O_CLOEXEC);
    if (record->fd < 0) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/run-%s", folder, strrchr(beside, '/') + 5);
    bool ok = flock(record->fd, LOCK_EX | LOCK_NB) == 0 &&
              posix_fallocate(record->fd, 0, sizeof(crash_page)) == 0 && rename(beside, path) == 0;
    if (!ok) {
        (void)unlink(beside);
        return false;
    }
    record->path = kiln_strdup(record->env, path);
    void *page = mmap(NULL, sizeof(crash_page), PROT_READ | PROT_WRITE, MAP_SHARED, record->fd, 0);
    record->page = page != MAP_FAILED ? page : NULL;
    return record->path != NULL && record->page != NULL;
}

kilni_fuse_crash_record *kilni_fuse_crash_record_create(const kiln_env *env, const char *folder)
{
    kilni_fuse_crash_record *record = kiln_alloc(env, sizeof(*record));
    collect(env, folder);
    if (record == NULL) {
        return NULL;
    }
    record->env = env;
    record->fd = -1;
    if (!make_file(record, folder)) {
        kiln_log_write(env, KILN_LOG_INFO, KILNI_FUSE_MODULE, "no crash marker in %s", folder);
        kilni_fuse_crash_record_destroy(record);
        return NULL;
    }
    memcpy(record->page->magic, magic, sizeof(magic));
    return record;
}

void kilni_fuse_crash_record_destroy(kilni_fuse_crash_record *record)
{
    if (record == NULL) {
        return;
    }
    if (record->path != NULL) {
        (void)unlink(record->path);
    }
    if (record->page != NULL) {
        (void)munmap(record->page, sizeof(*record->page));
    }
    if (record->fd >= 0) {
        (void)close(record->fd);
    }
    kiln_free(record->env, record->path);
    kiln_free(record->env, record);
}

uint32_t kilni_fuse_crash_record_add(kilni_fuse_crash_record *record, const char *hash,
                                     const char *id, bool shipped)
{
    if (record == NULL || record->page->n_plugins == MAX_PLUGINS) {
        return 0;
    }
    crash_plugin *plugin = &record->page->plugins[record->page->n_plugins];
    snprintf(plugin->hash, sizeof(plugin->hash), "%s", hash);
    snprintf(plugin->id, sizeof(plugin->id), "%s", id);
    plugin->shipped = shipped;
    return ++record->page->n_plugins;
}

uint32_t kilni_fuse_crash_record_slot(kilni_fuse_crash_record *record)
{
    return record == NULL
               ? 0
               : 1 + atomic_fetch_add(&record->next_slot, 1) % (KILNI_FUSE_CRASH_SLOTS - 1);
}

void kilni_fuse_crash_record_mark(const kilni_fuse_plugin *plugin, uint32_t slot,
                                  kilni_fuse_call call)
{
    call = call == KILNI_FUSE_CALL_NONE && slot == 0 ? plugin->resting : call;
    if (plugin->crash_number != 0) {
        uint32_t value =
            call == KILNI_FUSE_CALL_NONE ? 0 : plugin->crash_number << 8 | (uint32_t)call;
        atomic_store_explicit(&plugin->crash_record->page->slots[slot], value,
                              memory_order_relaxed);
    }
}

void kilni_fuse_crash_record_limit(kilni_fuse_crash_record *record, uint32_t slot, uint64_t late_ns)
{
    if (record != NULL) {
        atomic_store_explicit(&record->page->late_ns[slot], late_ns, memory_order_relaxed);
    }
}

/// Leaves the marks of the fusers that do not return from a call that has a limit, and takes the
/// others away.
static bool keep_late_marks(crash_page *page)
{
    uint64_t now = kiln_time_ns();
    bool any = false;
    for (uint32_t i = 0; i < KILNI_FUSE_CRASH_SLOTS; i++) {
        uint64_t late_ns = atomic_load_explicit(&page->late_ns[i], memory_order_relaxed);
        uint32_t call = atomic_load(&page->slots[i]) & 0xff;
        bool limited = call == KILNI_FUSE_CALL_FUSE || call == KILNI_FUSE_CALL_MEASURED;
        if (limited && late_ns != 0 && now > late_ns) {
            any = true;
        } else {
            atomic_store(&page->slots[i], 0);
        }
    }
    return any;
}

/// In signal handlers too. Whoever interrupts a plugin that does not return has a reason.
void kiln_fuse_registry_interrupted(kiln_fuse_registry *registry)
{
    if (registry->crash_record != NULL && !keep_late_marks(registry->crash_record->page)) {
        atomic_store_explicit(&registry->crash_record->page->interrupted, 1, memory_order_relaxed);
    }
}
