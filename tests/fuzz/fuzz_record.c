// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as what is remembered of a plugin: whatever is read has ends to its texts and counts
// within its limits, and is the same after it was written and read again.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuzz_target.h"
#include "plugin_record.h"

static const char hash[] = "0123456789abcdef0123456789abcdef";
static char folder[] = "/dev/shm/kiln-fuzz-record-XXXXXX";

static void put_file(const uint8_t *data, size_t size)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/%s.txt", folder, hash);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0);
}

static void remove_folder(void)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/%s.txt", folder, hash);
    (void)unlink(path);
    (void)rmdir(folder);
}

#define ENDS(text) must(memchr((text), 0, sizeof(text)) != NULL)

static void check_record(const kilni_fuse_record *record)
{
    ENDS(record->id);
    ENDS(record->scan_fault);
    ENDS(record->ended_in);
    must(record->n_bans <= KILNI_FUSE_MAX_BANS);
    for (uint32_t i = 0; i < KILNI_FUSE_MAX_FUSERS; i++) {
        ENDS(record->strikes[i].reason);
    }
    for (uint32_t i = 0; i < record->n_bans; i++) {
        ENDS(record->bans[i].key);
        ENDS(record->bans[i].reason);
    }
}

#undef ENDS

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    static kilni_fuse_record first;
    static kilni_fuse_record again;
    if (!made) {
        must(mkdtemp(folder) != NULL && atexit(remove_folder) == 0);
        made = true;
    }
    put_file(data, size);
    if (kilni_fuse_record_read(folder, hash, &first)) {
        check_record(&first);
        must(kilni_fuse_record_write(folder, hash, &first));
        must(kilni_fuse_record_read(folder, hash, &again));
        check_record(&again);
        must(again.n_bans == first.n_bans && again.ended == first.ended &&
             strcmp(again.id, first.id) == 0);
    }
    return 0;
}
