// SPDX-License-Identifier: MIT OR Apache-2.0
// The order of work for one candidate file: open without following links, owner and permissions,
// note, configuration, symbols, dlopen, query, normalised table, init, smoke test. The first step
// that fails gives the reason. Nothing of the file runs before the manifest has been read. Which
// files there are is registry.c's business.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_services.h"
#include "plugin_load.h"
#include "plugin_operators.h"
#include "plugin_record.h"
#include "plugin_trust.h"

enum { MAX_FILE_BYTES = 64 << 20, MAX_TABLE_BYTES = 64 << 10, REASON_BYTES = 1024 };

typedef struct loading {
    kiln_fuse_registry *registry;
    kilni_fuse_plugin *plugin;
    kilni_fuse_trust trust;
    void *bytes;
    size_t length;
    kilni_fuse_manifest manifest;
    struct stat file; ///< as it was when it was read
    kilni_fuse_copy copy; ///< that is loaded in its place
    kilni_fuse_record record; ///< of other processes
    kiln_error *err;
    kilni_fuse_plugin *replaced; ///< of the same id, from the plugin path; or NULL
} loading;

// ---- the file ----

static kiln_status check_file(loading *l, const struct stat *info)
{
    if (!S_ISREG(info->st_mode)) {
        return kiln_fail(l->err, INVALID_ARGUMENT, "not a regular file");
    }
    if (info->st_size > MAX_FILE_BYTES) {
        return kiln_fail(l->err, INVALID_ARGUMENT, "larger than %d bytes", MAX_FILE_BYTES);
    }
    if (l->trust != KILNI_FUSE_TRUST_PATH || l->registry->developer) {
        return KILN_STATUS_OK;
    }
    kiln_status status = kilni_fuse_check_owner(info, "file", l->err);
    return status == KILN_STATUS_OK
               ? kilni_fuse_check_folders(l->registry->env, l->plugin->info.path, l->err)
               : status;
}

static kiln_status read_all(loading *l, int fd, size_t length)
{
    l->bytes = kiln_alloc(l->registry->env, length + 1);
    if (l->bytes == NULL) {
        return kiln_fail(l->err, RESOURCE_EXHAUSTED, "no memory to read a plugin");
    }
    while (l->length < length) {
        ssize_t got = read(fd, (char *)l->bytes + l->length, length - l->length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break; // shorter than it was: what is there decides
        }
        l->length += (size_t)got;
    }
    kiln_hash_hex(kiln_hash_bytes(l->bytes, l->length), l->plugin->info.hash);
    return KILN_STATUS_OK;
}

static kiln_status read_file(loading *l)
{
    int links = l->registry->developer ? 0 : O_NOFOLLOW; // a copy is one, for the helper
    int fd = open(l->plugin->info.path, O_RDONLY | links | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return errno == ELOOP
                   ? kiln_fail(l->err, PERMISSION_DENIED, "a symbolic link")
                   : kiln_fail(l->err, NOT_FOUND, "cannot be opened: %s", strerror(errno));
    }
    struct stat info;
    kiln_status status = fstat(fd, &info) == 0
                             ? check_file(l, &info)
                             : kiln_fail(l->err, NOT_FOUND, "cannot be read: %s", strerror(errno));
    if (status == KILN_STATUS_OK) {
        status = read_all(l, fd, (size_t)info.st_size);
        l->file = info;
    }
    (void)close(fd);
    return status;
}

// ---- the manifest ----

static kiln_status check_cpu(loading *l)
{
    uint64_t missing = l->manifest.cpu_features;
#if defined(__x86_64__)
    missing &= __builtin_cpu_supports("avx") ? ~KF_CPU_X86_AVX : ~0ull;
    missing &= __builtin_cpu_supports("avx2") ? ~KF_CPU_X86_AVX2 : ~0ull;
    missing &= __builtin_cpu_supports("avx512f") ? ~KF_CPU_X86_AVX512F : ~0ull;
#endif
    return missing == 0
               ? KILN_STATUS_OK
               : kiln_fail(l->err, FAILED_PRECONDITION,
                           "needs processor features that are missing: %#" PRIx64, missing);
}

static const char *sanitizer_name(uint32_t kind)
{
    static const char *const names[] = {"none", "address", "thread", "memory"};
    return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "unknown";
}

static kiln_status check_manifest(loading *l)
{
    const kilni_fuse_manifest *m = &l->manifest;
    if (m->abi_major != KF_ABI_MAJOR) {
        return kiln_fail(l->err, FAILED_PRECONDITION,
                         "built for fuser ABI %u, this host has %u: rebuild it with a matching SDK",
                         m->abi_major, KF_ABI_MAJOR);
    }
    if (m->min_host_minor > KF_ABI_MINOR) {
        return kiln_fail(l->err, FAILED_PRECONDITION,
                         "needs fuser ABI %u.%u, this host has %u.%u: update Kiln", KF_ABI_MAJOR,
                         m->min_host_minor, KF_ABI_MAJOR, KF_ABI_MINOR);
    }
    if (m->sanitizer != KF_SANITIZER_HERE) {
        return kiln_fail(l->err, FAILED_PRECONDITION, "built with sanitizer %s, this host with %s",
                         sanitizer_name(m->sanitizer), sanitizer_name(KF_SANITIZER_HERE));
    }
    if (m->opset_max == 0) {
        return kiln_fail(l->err, FAILED_PRECONDITION, "manifest names no operator set");
    }
    return check_cpu(l);
}

static kiln_status check_duplicate(loading *l)
{
    for (uint32_t i = 0; i < l->registry->n_plugins; i++) {
        kilni_fuse_plugin *other = l->registry->plugins[i];
        if (other->info.state != KILN_FUSE_TAKEN || strcmp(other->info.id, l->manifest.id) != 0) {
            continue;
        }
        if (l->trust != KILNI_FUSE_TRUST_ADDED || other->trust != KILNI_FUSE_TRUST_PATH) {
            return kiln_fail(l->err, ALREADY_EXISTS, "id is taken by %.160s", other->info.path);
        }
        l->replaced = other; // what the user names goes before what lies in the plugin path
        other->info.state = KILN_FUSE_REFUSED;
    }
    return KILN_STATUS_OK;
}

// ---- the table ----

/// Without a fuser, its operators are what it is for.
static const char *missing_entry(const kf_plugin *t)
{
    if (t->n_fusers == 0 && t->init != NULL && t->deinit != NULL && t->extension != NULL) {
        return NULL;
    }
    const struct {
        bool there;
        const char *name;
    } required[] = {
        {t->init != NULL, "init"},
        {t->deinit != NULL, "deinit"},
        {t->fuser_create != NULL, "fuser_create"},
        {t->fuser_destroy != NULL, "fuser_destroy"},
        {t->builder_create != NULL, "builder_create"},
        {t->builder_clone != NULL, "builder_clone"},
        {t->builder_fuse != NULL, "builder_fuse"},
        {t->builder_state != NULL, "builder_state"},
        {t->builder_reset != NULL, "builder_reset"},
        {t->builder_finish != NULL, "builder_finish"},
        {t->builder_destroy != NULL, "builder_destroy"},
        {t->opt_info != NULL, "opt_info"},
        {t->opt_describe != NULL, "opt_describe"},
        {t->opt_destroy != NULL, "opt_destroy"},
    };
    for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
        if (!required[i].there) {
            return required[i].name;
        }
    }
    return NULL;
}

static char *copy_text(loading *l, kf_str text)
{
    char *copy = kiln_alloc(l->registry->env, text.len + 1);
    if (copy != NULL && text.len > 0) {
        memcpy(copy, text.ptr, text.len);
    }
    return copy;
}

static kiln_status take_texts(loading *l)
{
    kilni_fuse_plugin *plugin = l->plugin;
    const kf_plugin *t = &plugin->table;
    if (!kilni_fuse_text_ok(t->id, 63) || !kilni_fuse_text_ok(t->version, 63) ||
        !kilni_fuse_text_ok(t->vendor, 127)) {
        return kiln_fail(l->err, INVALID_ARGUMENT, "id, version or vendor is not UTF-8 text");
    }
    if (t->id.len != strlen(l->manifest.id) || memcmp(t->id.ptr, l->manifest.id, t->id.len) != 0) {
        return kiln_fail(l->err, INVALID_ARGUMENT, "id differs from its manifest's %s",
                         l->manifest.id);
    }
    bool none = t->n_fusers == 0 && t->extension != NULL;
    if (!none &&
        (t->n_fusers == 0 || t->n_fusers > KILNI_FUSE_MAX_FUSERS || t->fuser_ids == NULL)) {
        return kiln_fail(l->err, INVALID_ARGUMENT, "names %" PRIu64 " fusers, not 1 to %d",
                         t->n_fusers, KILNI_FUSE_MAX_FUSERS);
    }
    const kiln_env *env = l->registry->env;
    plugin->fuser_ids = kiln_alloc_array(env, t->n_fusers + 1, sizeof(char *));
    plugin->strikes = kiln_alloc_array(env, t->n_fusers + 1, sizeof(*plugin->strikes));
    plugin->info.vendor = copy_text(l, t->vendor);
    if (plugin->fuser_ids == NULL || plugin->strikes == NULL || plugin->info.vendor == NULL) {
        return kiln_fail(l->err, RESOURCE_EXHAUSTED, "no memory for a plugin");
    }
    for (uint32_t i = 0; i < t->n_fusers; i++) {
        if (!kilni_fuse_text_ok(t->fuser_ids[i], 63) || t->fuser_ids[i].len == 0) {
            return kiln_fail(l->err, INVALID_ARGUMENT, "id of fuser %u is not UTF-8 text", i);
        }
        plugin->fuser_ids[i] = copy_text(l, t->fuser_ids[i]);
        if (plugin->fuser_ids[i] == NULL) {
            return kiln_fail(l->err, RESOURCE_EXHAUSTED, "no memory for a plugin");
        }
        plugin->info.n_fusers = i + 1;
    }
    return KILN_STATUS_OK;
}

/// Once and for all: a table of this host's size, in which absent and NULL are the same.
static kiln_status take_table(loading *l, const kf_plugin *from)
{
    if (from == NULL) {
        return kiln_fail(l->err, FAILED_PRECONDITION, "query gives no table for host ABI %u.%u",
                         KF_ABI_MAJOR, KF_ABI_MINOR);
    }
    if (from->struct_size < KF_PLUGIN_SIZE_V1_0 || from->struct_size > MAX_TABLE_BYTES) {
        return kiln_fail(l->err, INVALID_ARGUMENT, "table has a struct size of %u, not %u to %d",
                         from->struct_size, KF_PLUGIN_SIZE_V1_0, MAX_TABLE_BYTES);
    }
    kf_plugin *table = &l->plugin->table;
    memset(table, 0, sizeof(*table));
    size_t known = from->struct_size < sizeof(*table) ? from->struct_size : sizeof(*table);
    memcpy(table, from, known);
    table->struct_size = (uint32_t)sizeof(*table);
    const char *missing = missing_entry(table);
    if (missing != NULL) {
        return kiln_fail(l->err, INVALID_ARGUMENT, "table has no %s", missing);
    }
    return take_texts(l);
}

/// ISO C has no conversion from an object's address to a function's; POSIX says that it is the
/// same.
static kf_query_fn query_of(kiln_dynlib *library)
{
    void *address = kiln_dynlib_symbol(library, KF_QUERY_SYMBOL);
    kf_query_fn query = NULL;
    _Static_assert(sizeof(query) == sizeof(address), "POSIX");
    memcpy(&query, &address, sizeof(query));
    return query;
}

static const char *path_of(const loading *l)
{
    return l->copy.path[0] != 0 ? l->copy.path : l->plugin->info.path;
}

/// What was read, checked and hashed is what is loaded.
static kiln_status check_unchanged(loading *l)
{
    if (l->copy.path[0] != 0) {
        return KILN_STATUS_OK;
    }
    struct stat now;
    const struct stat *then = &l->file;
    bool same = stat(l->plugin->info.path, &now) == 0 && now.st_dev == then->st_dev &&
                now.st_ino == then->st_ino && now.st_size == then->st_size &&
                now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
                now.st_mtim.tv_nsec == then->st_mtim.tv_nsec;
    return same ? KILN_STATUS_OK
                : kiln_fail(l->err, FAILED_PRECONDITION, "the file changed while it was loaded");
}

/// What other processes know of these bytes: none of it is tried again before a reset.
static kiln_status check_record(loading *l)
{
    const kilni_fuse_record *record = &l->record;
    (void)kilni_fuse_record_read(l->plugin->state_folder, l->plugin->info.hash, &l->record);
    snprintf(l->record.id, sizeof(l->record.id), "%s", l->manifest.id);
    if (record->ended >= KILNI_FUSE_ENDS_MAX) {
        return kiln_fail(l->err, FAILED_PRECONDITION,
                         "a process ended in %s; `kiln plugin reset %s` tries it again",
                         record->ended_in, l->manifest.id);
    }
    if (record->scan_fault[0] != 0) {
        return kiln_fail(l->err, FAILED_PRECONDITION,
                         "its scan failed: %.100s; `kiln plugin reset %s` tries it again",
                         record->scan_fault, l->manifest.id);
    }
    return KILN_STATUS_OK;
}

/// A file that nobody has loaded yet is loaded by a helper first.
static kiln_status scan(loading *l)
{
    kiln_fuse_registry *registry = l->registry;
    if (registry->scan_helper == NULL || registry->developer || l->record.scanned ||
        l->trust == KILNI_FUSE_TRUST_SHIPPED) {
        return KILN_STATUS_OK;
    }
    l->record.scanned =
        kilni_fuse_scan(registry->env, registry->scan_helper, path_of(l), registry->scan_limit_ms,
                        l->record.scan_fault, sizeof(l->record.scan_fault));
    if (l->record.scanned) {
        kilni_fuse_record now; // others may have changed it during the scan
        int lock = kilni_fuse_record_begin(registry->env, registry->state_folder,
                                           l->plugin->info.hash, &now);
        memcpy(now.id, l->record.id, sizeof(now.id));
        memcpy(now.scan_fault, l->record.scan_fault, sizeof(now.scan_fault));
        now.scanned = true;
        (void)kilni_fuse_record_end(lock, registry->state_folder, l->plugin->info.hash, &now);
    }
    return l->record.scan_fault[0] == 0
               ? KILN_STATUS_OK
               : kiln_fail(l->err, FAILED_PRECONDITION,
                           "its scan failed: %.100s; `kiln plugin reset %s` tries it again",
                           l->record.scan_fault, l->manifest.id);
}

static kiln_status open_plugin(loading *l)
{
    kilni_fuse_plugin *plugin = l->plugin;
    kiln_status status = check_unchanged(l);
    if (status == KILN_STATUS_OK) {
        status =
            kiln_dynlib_open(l->registry->env, path_of(l), /*keep=*/true, &plugin->library, l->err);
    }
    return status == KILN_STATUS_OK ? check_unchanged(l) : status;
}

static kiln_status start_plugin(loading *l)
{
    kilni_fuse_plugin *plugin = l->plugin;
    kiln_status status = open_plugin(l);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kf_query_fn query = query_of(plugin->library);
    if (query == NULL) {
        return kiln_fail(l->err, FAILED_PRECONDITION, "does not export %s", KF_QUERY_SYMBOL);
    }
    status = take_table(l, query(KF_ABI_MINOR));
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kf_status answer = plugin->table.init();
    if (answer != KF_OK) {
        return kiln_fail(l->err, FAILED_PRECONDITION, "init fails with status %d", answer);
    }
    plugin->initialised = true;
    status = kilni_fuse_operators_take(l->registry, plugin, l->err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (plugin->info.n_fusers + plugin->n_operators == 0) {
        return kiln_fail(l->err, INVALID_ARGUMENT, "names 0 fusers, and brings no operator");
    }
    for (uint32_t i = 0; i < plugin->info.n_fusers; i++) {
        atomic_store(&plugin->strikes[i], l->record.strikes[i].count);
    }
    return l->registry->smoke_test(l->registry->env, plugin, l->err);
}

/// With a mark that says so, if the process ends meanwhile.
static kiln_status start_marked(loading *l)
{
    kilni_fuse_plugin *plugin = l->plugin;
    plugin->crash_record = l->registry->crash_record;
    plugin->crash_number =
        kilni_fuse_crash_record_add(plugin->crash_record, plugin->info.hash, l->manifest.id,
                                    l->trust == KILNI_FUSE_TRUST_SHIPPED);
    plugin->resting = KILNI_FUSE_CALL_LOAD; // between the calls of its smoke test, too
    kilni_fuse_crash_record_mark(plugin, 0, KILNI_FUSE_CALL_LOAD);
    kiln_status status = start_plugin(l);
    plugin->resting = KILNI_FUSE_CALL_NONE;
    kilni_fuse_crash_record_mark(plugin, 0, KILNI_FUSE_CALL_NONE);
    return status;
}

// ---- all of it ----

static kiln_status inspect(loading *l)
{
    kiln_status status = read_file(l);
    if (status == KILN_STATUS_OK) {
        status = kilni_fuse_elf_manifest(l->bytes, l->length, &l->manifest, l->err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    l->plugin->info.id = kiln_strdup(l->registry->env, l->manifest.id);
    l->plugin->info.version = kiln_strdup(l->registry->env, l->manifest.version);
    if (l->plugin->info.id == NULL || l->plugin->info.version == NULL) {
        return kiln_fail(l->err, RESOURCE_EXHAUSTED, "no memory for a plugin");
    }
    if (!l->registry->developer) {
        status = kilni_fuse_check_trust(l->registry->env, l->trust, l->plugin->info.path, l->bytes,
                                        l->length, l->err);
    }
    if (status == KILN_STATUS_OK && !l->registry->developer &&
        kilni_fuse_may_change(l->registry->env, l->trust, l->plugin->info.path, &l->file)) {
        status =
            kilni_fuse_copy_create(l->plugin->info.path, l->bytes, l->length, &l->copy, l->err);
    }
    if (status == KILN_STATUS_OK) {
        status = check_manifest(l);
    }
    return status == KILN_STATUS_OK
               ? kilni_fuse_elf_check(l->bytes, l->length, l->manifest.flags, l->err)
               : status;
}

/// Fusers that take no part, though their plugin does.
static void add_fusers(const loading *l, char *reason, size_t capacity)
{
    const char *list = kiln_config_string(l->registry->env->config, KILN_OPTION_PLUGINS);
    for (uint32_t i = 0; i < l->plugin->info.n_fusers; i++) {
        const kilni_fuse_strikes *strikes = &l->record.strikes[i];
        const char *fuser = l->plugin->fuser_ids[i];
        const char *off =
            l->registry->developer ? NULL : kilni_fuse_switched_off(list, l->plugin, fuser);
        size_t at = strlen(reason);
        if (off != NULL) {
            snprintf(reason + at, capacity - at, "; fuser %s: %s", fuser, off);
        } else if (strikes->count >= KILNI_FUSE_STRIKES_MAX) {
            snprintf(reason + at, capacity - at,
                     "; fuser %s: put away after %u failures, the last: %s (`kiln plugin reset "
                     "%s`)",
                     fuser, strikes->count, strikes->reason, l->manifest.id);
        }
    }
}

/// The plugin of the same id goes, or stays when the one that was named is not taken.
static void settle_replaced(const loading *l)
{
    if (l->replaced == NULL) {
        return;
    }
    kiln_fuse_plugin_info *info = &l->replaced->info;
    char reason[REASON_BYTES];
    if (l->plugin->info.state != KILN_FUSE_TAKEN) {
        info->state = KILN_FUSE_TAKEN;
        return;
    }
    snprintf(reason, sizeof(reason), "replaced by %.160s, which was named", l->plugin->info.path);
    char *text = kiln_strdup(l->registry->env, reason);
    if (text != NULL) {
        kiln_free(l->registry->env, (void *)(uintptr_t)info->reason);
        info->reason = text;
    }
    info->n_fusers = 0;
}

static kiln_status settle(loading *l, kiln_status status, const char *off, const kiln_error *why)
{
    kiln_fuse_plugin_info *info = &l->plugin->info;
    const kiln_env *env = l->registry->env;
    char reason[REASON_BYTES];
    if (off != NULL) {
        info->state = KILN_FUSE_SWITCHED_OFF;
        snprintf(reason, sizeof(reason), "%s", off);
    } else if (status != KILN_STATUS_OK) {
        info->state = KILN_FUSE_REFUSED;
        snprintf(reason, sizeof(reason), "%s", why->message);
    } else {
        info->state = KILN_FUSE_TAKEN;
        char operators[32] = "";
        info->n_operators = l->plugin->n_operators;
        if (info->n_operators > 0) {
            snprintf(operators, sizeof(operators), ", %u %s", info->n_operators,
                     kiln_plural(info->n_operators, "operator", "operators"));
        }
        snprintf(reason, sizeof(reason), "taken: %u %s%s, fuser ABI %u.%u", info->n_fusers,
                 kiln_plural(info->n_fusers, "fuser", "fusers"), operators, l->manifest.abi_major,
                 l->manifest.abi_minor);
        add_fusers(l, reason, sizeof(reason));
    }
    info->n_fusers = info->state == KILN_FUSE_TAKEN ? info->n_fusers : 0;
    info->reason = kiln_strdup(env, reason);
    info->id = info->id != NULL ? info->id : kiln_strdup(env, "");
    info->version = info->version != NULL ? info->version : kiln_strdup(env, "");
    info->vendor = info->vendor != NULL ? info->vendor : kiln_strdup(env, "");
    bool ok =
        info->reason != NULL && info->id != NULL && info->version != NULL && info->vendor != NULL;
    return ok ? KILN_STATUS_OK : KILN_STATUS_RESOURCE_EXHAUSTED;
}

kiln_status kilni_fuse_plugin_load(kiln_fuse_registry *registry, kilni_fuse_plugin *plugin,
                                   const char *path, kilni_fuse_trust trust, kiln_error *err)
{
    kiln_error why = KILN_ERROR_INIT;
    uint64_t begin = kiln_time_ns();
    loading l = {.registry = registry, .plugin = plugin, .trust = trust, .err = &why};
    *plugin = (kilni_fuse_plugin){
        .info.state = KILN_FUSE_REFUSED, .trust = trust, .state_folder = registry->state_folder};
    plugin->info.path = kiln_strdup(registry->env, path);
    if (plugin->info.path == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a plugin");
    }
    const char *off = NULL;
    kiln_status status = inspect(&l);
    if (status == KILN_STATUS_OK && !registry->developer) {
        off = kilni_fuse_switched_off(
            kiln_config_string(registry->env->config, KILN_OPTION_PLUGINS), plugin, NULL);
    }
    if (status == KILN_STATUS_OK && off == NULL) {
        status = check_duplicate(&l);
    }
    if (status == KILN_STATUS_OK && off == NULL) {
        status = check_record(&l);
    }
    if (status == KILN_STATUS_OK && off == NULL) {
        status = scan(&l);
    }
    if (status == KILN_STATUS_OK && off == NULL) {
        status = start_marked(&l);
    }
    kilni_fuse_copy_destroy(&l.copy);
    kiln_free(registry->env, l.bytes);
    plugin->info.load_ns = kiln_time_ns() - begin;
    kiln_status settled = settle(&l, status, off, &why);
    settle_replaced(&l);
    if (settled != KILN_STATUS_OK) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a plugin");
    }
    if (off != NULL && trust == KILNI_FUSE_TRUST_ADDED) {
        status = kiln_fail(&why, FAILED_PRECONDITION, "%s", off);
    }
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = why;
        return kiln_error_context(err, "plugin %.80s", path);
    }
    return status;
}

void kilni_fuse_plugin_destroy(const kiln_env *env, kilni_fuse_plugin *plugin)
{
    if (plugin == NULL) {
        return;
    }
    kilni_fuse_operators_drop(env, plugin);
    if (plugin->initialised) {
        plugin->table.deinit();
    }
    for (uint32_t i = 0; plugin->fuser_ids != NULL && i < plugin->table.n_fusers; i++) {
        kiln_free(env, plugin->fuser_ids[i]);
    }
    kiln_free(env, (void *)plugin->fuser_ids);
    kiln_free(env, (void *)plugin->strikes);
    kiln_dynlib_close(plugin->library);
    kiln_free(env, (void *)(uintptr_t)plugin->info.path);
    kiln_free(env, (void *)(uintptr_t)plugin->info.id);
    kiln_free(env, (void *)(uintptr_t)plugin->info.version);
    kiln_free(env, (void *)(uintptr_t)plugin->info.vendor);
    kiln_free(env, (void *)(uintptr_t)plugin->info.reason);
    kiln_free(env, plugin);
}
