// SPDX-License-Identifier: MIT OR Apache-2.0
// What is remembered of a plugin between processes, under the hash of its file: what its scan said,
// in which call it ended a process, how often its fusers failed and with which programs, so that no
// plan on disk brings these back. One small text file for each, in the folder `plugins` of the
// cache. Decides the form, and that of those who change one at the same time none undoes what
// another did; what follows from it is loader.c's.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_files.h"
#include "fuse_map.h"
#include "plugin_record.h"

enum { MAX_RECORD_BYTES = 16384, LOCK_WAIT_MS = 5000 };

static const char first_line[] = "kiln plugin record 1\n";

static bool path_of(const char *folder, const char *hash, char *out_path, size_t capacity)
{
    int length = folder == NULL ? -1 : snprintf(out_path, capacity, "%s/%s.txt", folder, hash);
    return length > 0 && (size_t)length < capacity;
}

static bool read_text(const char *path, char out_text[MAX_RECORD_BYTES])
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    size_t length = fread(out_text, 1, MAX_RECORD_BYTES - 1, file);
    (void)fclose(file);
    out_text[length] = 0;
    return strlen(out_text) == length;
}

/// The rest of a line as a text of printable characters.
static void take_text(const char *at, char *out_text, size_t capacity)
{
    size_t length = strcspn(at, "\n");
    length = length < capacity ? length : capacity - 1;
    for (size_t i = 0; i < length; i++) {
        out_text[i] = (unsigned char)at[i] < 0x20 || at[i] == 0x7f ? ' ' : at[i];
    }
    out_text[length] = 0;
}

static void take_strikes(const char *at, kilni_fuse_record *record)
{
    char *end = NULL;
    unsigned long fuser = strtoul(at, &end, 10);
    unsigned long count = strtoul(end, &end, 10);
    if (fuser < KILNI_FUSE_MAX_FUSERS && *end == ' ') {
        kilni_fuse_strikes *s = &record->strikes[fuser];
        s->count = count < 1000 ? (uint32_t)count : 1000;
        take_text(end + 1, s->reason, sizeof(s->reason));
    }
}

static bool is_key(const char *text)
{
    return strspn(text, "0123456789abcdef") == 32;
}

static void take_ban(const char *at, kilni_fuse_record *record)
{
    if (is_key(at) && at[32] == ' ' && record->n_bans < KILNI_FUSE_MAX_BANS) {
        kilni_fuse_ban *ban = &record->bans[record->n_bans++];
        memcpy(ban->key, at, 32);
        ban->key[32] = 0;
        take_text(at + 33, ban->reason, sizeof(ban->reason));
    }
}

void kilni_fuse_record_ban(kilni_fuse_record *record, const char *key, const char *reason)
{
    if (record->n_bans == KILNI_FUSE_MAX_BANS) {
        memmove(&record->bans[0], &record->bans[1],
                (KILNI_FUSE_MAX_BANS - 1) * sizeof(record->bans[0]));
        record->n_bans--;
    }
    kilni_fuse_ban *ban = &record->bans[record->n_bans++];
    snprintf(ban->key, sizeof(ban->key), "%s", key);
    take_text(reason, ban->reason, sizeof(ban->reason));
}

static void take_line(const char *line, kilni_fuse_record *record)
{
    char *end = NULL;
    if (strncmp(line, "id ", 3) == 0) {
        take_text(line + 3, record->id, sizeof(record->id));
    } else if (strncmp(line, "scan ok\n", 8) == 0) {
        record->scanned = true;
    } else if (strncmp(line, "scan failed ", 12) == 0) {
        record->scanned = true;
        take_text(line + 12, record->scan_fault, sizeof(record->scan_fault));
    } else if (strncmp(line, "ended ", 6) == 0) {
        record->ended = (uint32_t)strtoul(line + 6, &end, 10);
        take_text(*end == ' ' ? end + 1 : end, record->ended_in, sizeof(record->ended_in));
    } else if (strncmp(line, "strikes ", 8) == 0) {
        take_strikes(line + 8, record);
    } else if (strncmp(line, "banned ", 7) == 0) {
        take_ban(line + 7, record);
    }
}

bool kilni_fuse_record_read(const char *folder, const char *hash, kilni_fuse_record *out_record)
{
    char path[4400], text[MAX_RECORD_BYTES];
    memset(out_record, 0, sizeof(*out_record));
    if (!path_of(folder, hash, path, sizeof(path)) || !read_text(path, text) ||
        strncmp(text, first_line, strlen(first_line)) != 0) {
        return false;
    }
    for (const char *line = text; *line != 0;) {
        take_line(line, out_record);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return true;
}

static void write_lines(FILE *file, const kilni_fuse_record *record)
{
    fprintf(file, "%sid %s\n", first_line, record->id);
    if (record->scanned) {
        fprintf(file, record->scan_fault[0] == 0 ? "scan ok\n" : "scan failed %s\n",
                record->scan_fault);
    }
    if (record->ended > 0) {
        fprintf(file, "ended %u %s\n", record->ended, record->ended_in);
    }
    for (uint32_t i = 0; i < KILNI_FUSE_MAX_FUSERS; i++) {
        if (record->strikes[i].count > 0) {
            fprintf(file, "strikes %u %u %s\n", i, record->strikes[i].count,
                    record->strikes[i].reason);
        }
    }
    for (uint32_t i = 0; i < record->n_bans; i++) {
        fprintf(file, "banned %s %s\n", record->bans[i].key, record->bans[i].reason);
    }
}

bool kilni_fuse_record_write(const char *folder, const char *hash, const kilni_fuse_record *record)
{
    char path[4400], beside[4500];
    if (!path_of(folder, hash, path, sizeof(path))) {
        return false;
    }
    FILE *file = kilni_base_replace_begin(path, beside, sizeof(beside));
    if (file == NULL) {
        return false;
    }
    write_lines(file, record);
    return kilni_base_replace_end(file, beside, path, true);
}

/// One lock for all records of a folder; the system takes it back from a process that ends. Without
/// `env` nothing is said of a lock that cannot be had.
static int lock_folder(const kiln_env *env, const char *folder)
{
    char path[4400];
    int length = folder == NULL ? -1 : snprintf(path, sizeof(path), "%s/lock", folder);
    return length > 0 && (size_t)length < sizeof(path)
               ? kilni_base_lock_open(env, KILNI_FUSE_MODULE, path, LOCK_WAIT_MS)
               : -1;
}

static void unlock_folder(int lock)
{
    if (lock >= 0) {
        (void)close(lock);
    }
}

int kilni_fuse_record_begin(const kiln_env *env, const char *folder, const char *hash,
                            kilni_fuse_record *out_record)
{
    int lock = lock_folder(env, folder);
    (void)kilni_fuse_record_read(folder, hash, out_record);
    return lock;
}

bool kilni_fuse_record_end(int lock, const char *folder, const char *hash,
                           const kilni_fuse_record *record)
{
    bool ok = kilni_fuse_record_write(folder, hash, record);
    unlock_folder(lock);
    return ok;
}

static bool is_hash(const char *name)
{
    return strspn(name, "0123456789abcdef") == 32 && strcmp(name + 32, ".txt") == 0;
}

uint32_t kilni_fuse_record_reset(const char *folder, const char *id)
{
    uint32_t count = 0;
    int lock = lock_folder(NULL, folder);
    DIR *dir = opendir(folder);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        char hash[33], path[4400];
        kilni_fuse_record record;
        if (!is_hash(e->d_name)) {
            continue;
        }
        memcpy(hash, e->d_name, 32);
        hash[32] = 0;
        bool known = kilni_fuse_record_read(folder, hash, &record);
        if ((id == NULL || (known && strcmp(record.id, id) == 0)) &&
            path_of(folder, hash, path, sizeof(path))) {
            count += unlink(path) == 0;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    unlock_folder(lock);
    return count;
}
