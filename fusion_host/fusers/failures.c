// SPDX-License-Identifier: MIT OR Apache-2.0
// What becomes of fusers and programs that fail: strikes, the third of which ends a fuser, and
// programs that must not come back, in this process and later ones. Decides whose fault a failure
// is; what was chosen before is discarded where it holds the program.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fusers.h"
#include "plugin_record.h"

// ---- strikes ----

bool kilni_fuse_fuser_enabled(const kilni_fuse_fuser *fuser)
{
    return atomic_load(&fuser->plugin->strikes[fuser->index]) < KILNI_FUSE_STRIKES_MAX;
}

/// So that the next process knows.
static void remember_strike(const kiln_fuse_engine *engine, const kilni_fuse_fuser *fuser,
                            uint32_t strikes, const char *reason)
{
    const kilni_fuse_plugin *plugin = fuser->plugin;
    kilni_fuse_record record;
    if (plugin->state_folder == NULL || fuser->index >= KILNI_FUSE_MAX_FUSERS) {
        return;
    }
    int lock =
        kilni_fuse_record_begin(engine->env, plugin->state_folder, plugin->info.hash, &record);
    snprintf(record.id, sizeof(record.id), "%s", plugin->info.id);
    kilni_fuse_strikes *s = &record.strikes[fuser->index];
    s->count = s->count > strikes ? s->count : strikes; // another device's may have come before
    snprintf(s->reason, sizeof(s->reason), "%s", reason);
    for (char *c = s->reason; *c != 0; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    (void)kilni_fuse_record_end(lock, plugin->state_folder, plugin->info.hash, &record);
}

void kilni_fuse_fuser_strike(kiln_fuse_engine *engine, uint32_t fuser, const char *reason)
{
    kilni_fuse_fuser *f = &engine->fusers[fuser];
    uint32_t strikes = atomic_fetch_add(&f->plugin->strikes[f->index], 1) + 1;
    engine->stats.strikes++;
    bool out = strikes == KILNI_FUSE_STRIKES_MAX;
    remember_strike(engine, f, strikes, reason);
    atomic_fetch_add(&engine->registry->epoch, out);
    kiln_log_write(engine->env, KILN_LOG_WARN, KILNI_FUSE_MODULE, "fuser %s: %s (failure %u)%s",
                   f->name, reason, strikes, out ? ": disabled" : "");
}

// ---- programs that failed ----

bool kilni_fuse_admits(const kiln_fuse_engine *engine, const kiln_program *program,
                       kiln_error *out_why)
{
    const kiln_fuse_engine_options *options = &engine->options;
    return options->admit == NULL ||
           options->admit(options->admit_user, program, out_why) == KILN_STATUS_OK;
}

const char *kilni_fuse_program_failure(const kiln_fuse_engine *engine, kiln_hash128 key)
{
    for (uint32_t i = 0; i < engine->n_banned; i++) {
        if (kiln_hash_same(engine->banned[i].key, key)) {
            return engine->banned[i].text;
        }
    }
    return kilni_fuse_program_off(engine->list, key) ? "denied by the list of plugins" : NULL;
}

static void ban(kiln_fuse_engine *engine, kiln_hash128 key, const char *reason)
{
    if (kilni_fuse_program_failure(engine, key) == NULL &&
        kilni_fuse_grow(engine->env, &engine->banned, &engine->banned_capacity,
                        (uint64_t)engine->n_banned + 1, sizeof(*engine->banned))) {
        kilni_fuse_failure *failure = &engine->banned[engine->n_banned++];
        failure->key = key;
        snprintf(failure->text, sizeof(failure->text), "%s", reason);
    }
}

/// So that a plan on disk does not bring it back in the next process.
static void remember_ban(const kiln_fuse_engine *engine, uint32_t fuser, kiln_hash128 key,
                         const char *reason)
{
    const kilni_fuse_plugin *plugin = engine->fusers[fuser].plugin;
    kilni_fuse_record record;
    char hex[33];
    if (plugin->state_folder != NULL) {
        int lock =
            kilni_fuse_record_begin(engine->env, plugin->state_folder, plugin->info.hash, &record);
        snprintf(record.id, sizeof(record.id), "%s", plugin->info.id);
        kiln_hash_hex(key, hex);
        kilni_fuse_record_ban(&record, hex, reason);
        (void)kilni_fuse_record_end(lock, plugin->state_folder, plugin->info.hash, &record);
    }
}

/// Keys are as kiln_hash_hex writes them.
void kilni_fuse_recall_bans(kiln_fuse_engine *engine, const kilni_fuse_plugin *plugin)
{
    kilni_fuse_record record;
    if (!kilni_fuse_record_read(plugin->state_folder, plugin->info.hash, &record)) {
        return;
    }
    for (uint32_t i = 0; i < record.n_bans; i++) {
        char high[17] = "";
        memcpy(high, record.bans[i].key, 16);
        const kiln_hash128 key = {.low = strtoull(record.bans[i].key + 16, NULL, 16),
                                  .high = strtoull(high, NULL, 16)};
        ban(engine, key, record.bans[i].reason);
    }
}

// ---- blocks of a plan ----

static bool holds_program(const kilni_fuse_plan *plan, kiln_hash128 key)
{
    for (uint32_t i = 0; i < plan->plan.n_blocks; i++) {
        kiln_hash128 k = plan->plan.blocks[i].program->key;
        if (kiln_hash_same(k, key)) {
            return true;
        }
    }
    return false;
}

/// Who made the block; NONE when its plan is gone.
static uint32_t fuser_of(const kiln_fuse_engine *engine, const kiln_plan_block *block)
{
    for (uint32_t i = 0; i < engine->n_fusers; i++) {
        if (strcmp(engine->fusers[i].name, block->fuser) == 0) {
            return i;
        }
    }
    return KILNI_FUSE_NONE;
}

/// Being out of memory, losing the device or its compiler is not the fuser's fault.
static bool is_fusers_fault(const kiln_error *cause)
{
    return cause == NULL ||
           (cause->code != KILN_STATUS_RESOURCE_EXHAUSTED &&
            cause->code != KILN_STATUS_OUT_OF_RANGE && // sizes of this run
            cause->code != KILN_STATUS_UNIMPLEMENTED && cause->code != KILN_STATUS_DEVICE_LOST &&
            cause->code != KILN_STATUS_CANCELLED);
}

/// The next run may find the memory.
static bool passes(const kiln_error *cause)
{
    return cause != NULL &&
           (cause->code == KILN_STATUS_RESOURCE_EXHAUSTED || cause->code == KILN_STATUS_CANCELLED);
}

void kiln_fuse_block_doing(kiln_fuse_engine *engine, const kiln_plan_block *block,
                           kiln_fuse_doing doing)
{
    static const kilni_fuse_call calls[] = {KILNI_FUSE_CALL_NONE, KILNI_FUSE_CALL_BUILD,
                                            KILNI_FUSE_CALL_RUN};
    uint32_t fuser = fuser_of(engine, block);
    if (fuser != KILNI_FUSE_NONE) {
        kilni_fuse_crash_record_mark(engine->fusers[fuser].plugin, engine->crash_slot,
                                     calls[doing]);
    }
}

bool kiln_fuse_block_ships(const kiln_fuse_engine *engine, const kiln_plan_block *block)
{
    uint32_t fuser = fuser_of(engine, block);
    return fuser != KILNI_FUSE_NONE &&
           engine->fusers[fuser].plugin->trust == KILNI_FUSE_TRUST_SHIPPED;
}

const char *kiln_fuse_block_named_file(const kiln_fuse_engine *engine, const kiln_plan_block *block)
{
    uint32_t fuser = fuser_of(engine, block);
    const kilni_fuse_plugin *plugin =
        fuser != KILNI_FUSE_NONE ? engine->fusers[fuser].plugin : NULL;
    return plugin != NULL && plugin->trust == KILNI_FUSE_TRUST_ADDED ? plugin->info.path : NULL;
}

void kiln_fuse_block_hung(kiln_fuse_engine *engine, const kiln_plan_block *block,
                          const kiln_error *cause)
{
    uint32_t fuser = fuser_of(engine, block);
    if (fuser != KILNI_FUSE_NONE) { // another hang would cost another device
        const kilni_fuse_fuser *f = &engine->fusers[fuser];
        atomic_uint *strikes = &f->plugin->strikes[f->index];
        if (atomic_load(strikes) < KILNI_FUSE_STRIKES_MAX) {
            atomic_store(strikes, KILNI_FUSE_STRIKES_MAX - 1);
        }
    }
    (void)kiln_fuse_block_failed(engine, block, cause);
}

bool kiln_fuse_block_failed(kiln_fuse_engine *engine, const kiln_plan_block *block,
                            const kiln_error *cause)
{
    kiln_hash128 key = block->program->key;
    uint32_t fuser = fuser_of(engine, block);
    if (passes(cause)) {
        return false;
    }
    ban(engine, key, cause != NULL ? cause->message : "a block failed");
    if (fuser != KILNI_FUSE_NONE && is_fusers_fault(cause)) {
        kilni_fuse_fuser_strike(engine, fuser, cause != NULL ? cause->message : "a block failed");
        remember_ban(engine, fuser, key, cause != NULL ? cause->message : "a block failed");
    }
    kilni_fuse_plan *plan = engine->plans.oldest;
    while (plan != NULL) {
        kilni_fuse_plan *newer = plan->newer;
        if (holds_program(plan, key)) {
            kilni_fuse_plan_store_discard(&engine->plans, plan);
        }
        plan = newer;
    }
    return true;
}
