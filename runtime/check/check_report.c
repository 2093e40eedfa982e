// SPDX-License-Identifier: MIT OR Apache-2.0
// A program was found to be wrong: its block is reduced to the smallest stream that is still wrong
// and written as a replayable file into the cache's folder, the engine bans the program and strikes
// its fuser, and the log gets one line. The user's results are those of the unfused operations.

#include "rt_check.h"
#include "rt_execute.h"
#include "rt_run.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { TRIES = 48 };

static const uint64_t longest_ns = 20000000000; ///< a reduction begins no other try after that

typedef struct reducing {
    const kilni_run *run;
    uint64_t start;
} reducing;

static bool still_wrong(const kiln_replay *replay, void *user)
{
    const reducing *r = user;
    return kiln_time_ns() - r->start < longest_ns && kilni_check_stream(r->run, replay);
}

static size_t count_ops(const kiln_replay *replay)
{
    size_t count = 0;
    for (size_t i = 0; i < kiln_ir_graph_op_count(replay->graph); i++) {
        count += kiln_ir_graph_op(replay->graph, i)->op != KILN_OP_DROP;
    }
    return count;
}

/// In the cache's folder, named after the fuser and the program; false: there is no such folder.
static bool path_of(const kilni_check *check, char *out_path, size_t capacity)
{
    char folder[3500], name[80];
    if (kiln_cache_dir(check->env, folder, sizeof(folder), NULL) != KILN_STATUS_OK ||
        (mkdir(folder, 0700) != 0 && errno != EEXIST)) {
        return false;
    }
    snprintf(name, sizeof(name), "%s", check->block->fuser);
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == '/' ? '-' : *c;
    }
    int length = snprintf(out_path, capacity, "%s/wrong-%s-%08x.replay", folder, name,
                          (unsigned)check->block->program->key.low);
    return length > 0 && (size_t)length < capacity;
}

static void write_note(const kilni_check *check, kiln_replay *replay)
{
    kiln_string note;
    char key[33];
    kiln_hash_hex(check->block->program->key, key);
    kiln_string_init(&note, check->env);
    kiln_string_printf(&note, "fuser %s, program %s, device %s\n%s", check->block->fuser, key,
                       kiln_device_info_of(check->run->device)->name, check->text);
    if (!note.failed) {
        replay->note = kiln_arena_copy(&replay->arena, note.text, note.length + 1);
    }
    kiln_string_fini(&note);
}

/// Where the smallest wrong stream was written, and of how many operations; else why it was not.
static void write_down(kilni_check *check, char *out_text, size_t capacity)
{
    reducing r = {check->run, kiln_time_ns()};
    kiln_error err = KILN_ERROR_INIT;
    kiln_replay *small = NULL;
    char path[4096];
    if (kiln_replay_reduce(check->stream, still_wrong, &r, TRIES, &small, &err) !=
        KILN_STATUS_OK) { // wrong only with the plan at hand: all of it is written
        kiln_log_write(check->env, KILN_LOG_INFO, "runtime", "a block is not reduced: %s",
                       err.message);
    }
    kiln_replay *chosen = small != NULL ? small : check->stream;
    write_note(check, chosen);
    if (!path_of(check, path, sizeof(path))) {
        snprintf(out_text, capacity, "not written: there is no folder for a cache");
    } else if (kiln_replay_write(chosen, path, &err) != KILN_STATUS_OK) {
        snprintf(out_text, capacity, "not written: %s", err.message);
    } else {
        const char *file = kiln_fuse_block_named_file(check->run->engine, check->block);
        snprintf(out_text, capacity, "%zu of %zu operations show it: kiln replay --compare%s%s %s",
                 count_ops(chosen), count_ops(check->stream), file != NULL ? " --plugin " : "",
                 file != NULL ? file : "", path);
    }
    kiln_replay_destroy(small);
}

void kilni_check_report(kilni_check *check)
{
    kiln_error cause = KILN_ERROR_INIT;
    char where[8400];
    write_down(check, where, sizeof(where));
    (void)kiln_fail(&cause, DATA_LOSS, "wrong result: %s", check->text);
    kiln_log_write(check->env, KILN_LOG_WARN, "runtime", "block of %s is wrong: %s; %s",
                   check->block->fuser, check->text, where);
    (void)kiln_fuse_block_failed(check->run->engine, check->block, &cause);
}
