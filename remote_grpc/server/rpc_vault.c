// SPDX-License-Identifier: MIT OR Apache-2.0
// The vault: one file for each upload, its bytes first and a seal behind them. Its name is the
// caller's digest and the content's, so that who does not call as the same cannot name it. Files
// are written beside their place and renamed; nothing is flushed, for the seal finds a torn one. A
// file that was found sound is believed by this process until it changes, so that a session does
// not wait for all of its weights to be read. A file's time of access is when it was last used.
// Several servers may share a folder.

#define _GNU_SOURCE // MAP_POPULATE, O_NOFOLLOW
#include "rpc_vault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    NAME_BYTES = 4 * KILNI_RPC_DIGEST + 2, ///< two digests, a dash, a terminator
    VAULT_PATH_BYTES = 4096,
    SOUND_FILES = 4096, ///< that are remembered
    SETTLED_SECONDS = 2,
    EVICT_SHARE = 16, ///< an eviction frees this part of the limit beyond the need
    ONE_SHARE = 2 ///< and no file is larger than this one
};

/// Behind the bytes of a file.
typedef struct vault_seal {
    char magic[8];
    uint64_t length;
    kiln_hash128 check; ///< of the bytes
} vault_seal;

static const char vault_magic[8] = {'k', 'i', 'l', 'n', 'w', 't', 's', '1'};

struct kilni_rpc_vault {
    const kiln_env *env;
    pthread_mutex_t lock; ///< guards all below, and removal
    uint64_t limit;
    uint64_t bytes; ///< of all files; counted again at each eviction
    unsigned drafts; ///< files begun, for their names
    kiln_hash128 sound[SOUND_FILES]; ///< stamps of files whose checksums were right; zeros: none
    int folder;
};

typedef struct vault_file {
    char name[NAME_BYTES];
    uint64_t bytes;
    struct timespec used;
} vault_file;

// ---- names ----

static char *write_hex(char *out, const kilni_rpc_digest *digest)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < KILNI_RPC_DIGEST; i++) {
        *out++ = digits[digest->bytes[i] >> 4];
        *out++ = digits[digest->bytes[i] & 15];
    }
    return out;
}

static void name_of(const kilni_rpc_vault_key *key, char out_name[NAME_BYTES])
{
    char *end = write_hex(out_name, &key->caller);
    *end++ = '-';
    *write_hex(end, &key->content) = '\0';
}

// ---- the folder ----

/// Makes the folders of a path that lack.
static bool make_folders(const char *path)
{
    char part[VAULT_PATH_BYTES];
    size_t length = strlen(path);
    if (length >= sizeof(part)) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (size_t i = 1; i <= length; i++) {
        if (path[i] == '/' || path[i] == '\0') {
            memcpy(part, path, i);
            part[i] = '\0';
            if (mkdir(part, 0700) != 0 && errno != EEXIST) {
                return false;
            }
        }
    }
    return true;
}

/// The next file of the folder; false: there are no more.
static bool next_file(DIR *folder, vault_file *out_file)
{
    struct stat facts;
    for (const struct dirent *each; (each = readdir(folder)) != NULL;) {
        if (strlen(each->d_name) < sizeof(out_file->name) &&
            fstatat(dirfd(folder), each->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(facts.st_mode)) {
            snprintf(out_file->name, sizeof(out_file->name), "%s", each->d_name);
            out_file->bytes = (uint64_t)facts.st_size;
            out_file->used = facts.st_atim;
            return true;
        }
    }
    return false;
}

static DIR *open_listing(const kilni_rpc_vault *vault)
{
    int copy = openat(vault->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy >= 0 ? fdopendir(copy) : NULL;
    if (copy >= 0 && folder == NULL) {
        (void)close(copy);
    }
    return folder;
}

/// Lists all files, `*out_bytes` of them together. `*out_files` goes back
/// through kiln_free.
static size_t list_files(const kilni_rpc_vault *vault, vault_file **out_files, uint64_t *out_bytes)
{
    size_t count = 0;
    size_t room = 0;
    vault_file file;
    DIR *folder = open_listing(vault);
    *out_files = NULL;
    *out_bytes = 0;
    while (folder != NULL && next_file(folder, &file)) {
        if (count == room) {
            room = room == 0 ? 256 : 2 * room;
            vault_file *more =
                kiln_realloc(vault->env, *out_files, count * sizeof(*more), room * sizeof(*more));
            if (more == NULL) {
                break;
            }
            *out_files = more;
        }
        (*out_files)[count++] = file;
        *out_bytes += file.bytes;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return count;
}

static int by_use(const void *a, const void *b)
{
    const struct timespec left = ((const vault_file *)a)->used;
    const struct timespec right = ((const vault_file *)b)->used;
    if (left.tv_sec != right.tv_sec) {
        return left.tv_sec < right.tv_sec ? -1 : 1;
    }
    return (left.tv_nsec > right.tv_nsec) - (left.tv_nsec < right.tv_nsec);
}

/// Counts, and where there is more than `allowed`, removes what was used longest ago. Under the
/// lock.
static void evict(kilni_rpc_vault *vault, uint64_t allowed)
{
    vault_file *files = NULL;
    size_t count = list_files(vault, &files, &vault->bytes);
    if (vault->bytes > allowed) {
        uint64_t target = allowed - allowed / EVICT_SHARE;
        qsort(files, count, sizeof(*files), by_use);
        for (size_t i = 0; i < count && vault->bytes > target; i++) {
            if (unlinkat(vault->folder, files[i].name, 0) == 0) {
                vault->bytes -= files[i].bytes;
            }
        }
    }
    kiln_free(vault->env, files);
}

// ---- life ----

kiln_status kilni_rpc_vault_open(const kiln_env *env, const char *folder, uint64_t limit,
                                 kilni_rpc_vault **out_vault, kiln_error *err)
{
    kilni_rpc_vault *vault = kiln_alloc(env, sizeof(*vault));
    if (vault == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a store of weights");
    }
    vault->env = env;
    vault->limit = limit;
    vault->folder =
        make_folders(folder) ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (vault->folder < 0) {
        kiln_free(env, vault);
        return kiln_fail(err, UNAVAILABLE, "%.160s: %s", folder, strerror(errno));
    }
    pthread_mutex_init(&vault->lock, NULL);
    evict(vault, limit);
    *out_vault = vault;
    return KILN_STATUS_OK;
}

void kilni_rpc_vault_close(kilni_rpc_vault *vault)
{
    if (vault != NULL) {
        (void)close(vault->folder);
        pthread_mutex_destroy(&vault->lock);
        kiln_free(vault->env, vault);
    }
}

uint64_t kilni_rpc_vault_bytes(kilni_rpc_vault *vault)
{
    pthread_mutex_lock(&vault->lock);
    uint64_t bytes = vault->bytes;
    pthread_mutex_unlock(&vault->lock);
    return bytes;
}

// ---- get ----

/// Reads what stands behind the bytes of a file. Errors: DATA_LOSS: it is not whole.
static kiln_status read_seal(int file, const struct stat *facts, vault_seal *out_seal,
                             kiln_error *err)
{
    if (facts->st_size < (off_t)sizeof(*out_seal) ||
        pread(file, out_seal, sizeof(*out_seal), facts->st_size - (off_t)sizeof(*out_seal)) !=
            (ssize_t)sizeof(*out_seal) ||
        memcmp(out_seal->magic, vault_magic, sizeof(vault_magic)) != 0 ||
        out_seal->length != (uint64_t)facts->st_size - sizeof(*out_seal)) {
        return kiln_fail(err, DATA_LOSS, "it has no end");
    }
    return KILN_STATUS_OK;
}

/// What changes with the file's contents; zeros: it has changed just now, and may again unseen.
static kiln_hash128 stamp_of(const struct stat *facts)
{
    const int64_t parts[] = {(int64_t)facts->st_dev, (int64_t)facts->st_ino,
                             (int64_t)facts->st_size, (int64_t)facts->st_mtim.tv_sec,
                             (int64_t)facts->st_mtim.tv_nsec};
    return time(NULL) - facts->st_mtim.tv_sec > SETTLED_SECONDS
               ? kiln_hash_bytes(parts, sizeof(parts))
               : (kiln_hash128){0};
}

static kiln_hash128 *place_of(kilni_rpc_vault *vault, kiln_hash128 stamp)
{
    return &vault->sound[stamp.low % SOUND_FILES];
}

static bool is_sound(kilni_rpc_vault *vault, kiln_hash128 stamp)
{
    pthread_mutex_lock(&vault->lock);
    bool sound = stamp.low != 0 && kiln_hash_same(*place_of(vault, stamp), stamp);
    pthread_mutex_unlock(&vault->lock);
    return sound;
}

static void note_sound(kilni_rpc_vault *vault, kiln_hash128 stamp)
{
    pthread_mutex_lock(&vault->lock);
    *place_of(vault, stamp) = stamp;
    pthread_mutex_unlock(&vault->lock);
}

/// Reads all of the mapping. Errors: DATA_LOSS.
static kiln_status check_sum(const kilni_rpc_mapped *mapped, const vault_seal *seal,
                             kiln_error *err)
{
    return kiln_hash_same(seal->check, kiln_hash_bytes(mapped->bytes, mapped->length))
               ? KILN_STATUS_OK
               : kiln_fail(err, DATA_LOSS, "it has another checksum");
}

/// What is to be read at once may be written to only afterwards: what is writable would be copied
/// by MAP_POPULATE.
static kiln_status map_file(int file, const vault_seal *seal, bool whole,
                            kilni_rpc_mapped *out_mapped, kiln_error *err)
{
    size_t length = (size_t)seal->length;
    void *bytes = mmap(NULL, length + sizeof(*seal), PROT_READ,
                       MAP_PRIVATE | (whole ? MAP_POPULATE : 0), file, 0);
    if (bytes == MAP_FAILED) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to map %zu bytes", length);
    }
    *out_mapped = (kilni_rpc_mapped){.bytes = bytes, .length = length};
    kiln_status status = whole ? check_sum(out_mapped, seal, err) : KILN_STATUS_OK;
    if (status == KILN_STATUS_OK &&
        mprotect(bytes, length + sizeof(*seal), PROT_READ | PROT_WRITE) != 0) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", length);
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_vault_unmap(out_mapped);
    }
    return status;
}

static kiln_status map_sound(kilni_rpc_vault *vault, int file, uint64_t length,
                             kilni_rpc_mapped *out_mapped, kiln_error *err)
{
    vault_seal seal;
    struct stat facts;
    kiln_status status = fstat(file, &facts) == 0 ? read_seal(file, &facts, &seal, err)
                                                  : kiln_fail(err, DATA_LOSS, "it has no end");
    if (status == KILN_STATUS_OK && seal.length != length) {
        status = kiln_fail(err, NOT_FOUND, "the server has %llu such bytes, not %llu",
                           (unsigned long long)seal.length, (unsigned long long)length);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_hash128 stamp = stamp_of(&facts);
    status = map_file(file, &seal, !is_sound(vault, stamp), out_mapped, err);
    if (status == KILN_STATUS_OK) {
        note_sound(vault, stamp);
    }
    return status;
}

static void remove_damaged(kilni_rpc_vault *vault, const char *name, const char *why)
{
    kiln_log_write(vault->env, KILN_LOG_WARN, "remote", "a damaged file of weights is removed: %s",
                   why);
    pthread_mutex_lock(&vault->lock);
    (void)unlinkat(vault->folder, name, 0);
    evict(vault, vault->limit);
    pthread_mutex_unlock(&vault->lock);
}

kiln_status kilni_rpc_vault_get(kilni_rpc_vault *vault, const kilni_rpc_vault_key *key,
                                uint64_t length, kilni_rpc_mapped *out_mapped, kiln_error *err)
{
    char name[NAME_BYTES];
    kiln_error why = KILN_ERROR_INIT;
    name_of(key, name);
    int file = openat(vault->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) {
        return kiln_fail(err, NOT_FOUND, "the server has no such bytes");
    }
    kiln_status status = map_sound(vault, file, length, out_mapped, &why);
    if (status == KILN_STATUS_OK) {
        const struct timespec used[] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
        (void)futimens(file, used);
    }
    (void)close(file);
    if (status == KILN_STATUS_DATA_LOSS) {
        remove_damaged(vault, name, why.message);
        return kiln_fail(err, NOT_FOUND, "the server has such bytes no more: %s", why.message);
    }
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = why;
    }
    return status;
}

void kilni_rpc_vault_unmap(const kilni_rpc_mapped *mapped)
{
    (void)munmap(mapped->bytes, mapped->length + sizeof(vault_seal));
}

// ---- put ----

static bool write_whole(int file, const void *bytes, size_t length)
{
    const char *from = bytes;
    while (length > 0) {
        ssize_t written = write(file, from, length);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        from += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

static bool write_sealed(int file, const void *bytes, size_t length)
{
    vault_seal seal = {.length = length, .check = kiln_hash_bytes(bytes, length)};
    memcpy(seal.magic, vault_magic, sizeof(vault_magic));
    return write_whole(file, bytes, length) && write_whole(file, &seal, sizeof(seal));
}

/// Makes room, and a name for a file that is being written.
static bool make_place(kilni_rpc_vault *vault, size_t length, char *out_draft, size_t capacity)
{
    uint64_t bytes = (uint64_t)length + sizeof(vault_seal);
    if (bytes > vault->limit / ONE_SHARE) {
        return false;
    }
    pthread_mutex_lock(&vault->lock);
    if (vault->bytes > vault->limit - bytes) {
        evict(vault, vault->limit - bytes);
    }
    vault->bytes += bytes;
    snprintf(out_draft, capacity, "draft-%ld-%u", (long)getpid(), vault->drafts++);
    pthread_mutex_unlock(&vault->lock);
    return true;
}

void kilni_rpc_vault_put(kilni_rpc_vault *vault, const kilni_rpc_vault_key *key, const void *bytes,
                         size_t length)
{
    char name[NAME_BYTES];
    char draft[NAME_BYTES];
    if (!make_place(vault, length, draft, sizeof(draft))) {
        return;
    }
    name_of(key, name);
    int file =
        openat(vault->folder, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool kept = file >= 0 && write_sealed(file, bytes, length);
    kept = (file < 0 || close(file) == 0) && kept;
    kept = kept && renameat(vault->folder, draft, vault->folder, name) == 0;
    if (!kept) {
        int code = errno;
        pthread_mutex_lock(&vault->lock);
        (void)unlinkat(vault->folder, draft, 0);
        evict(vault, vault->limit);
        pthread_mutex_unlock(&vault->lock);
        kiln_log_write(vault->env, KILN_LOG_WARN, "remote", "%zu bytes of weights are not kept: %s",
                       length, strerror(code));
    }
}
