// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions of kiln_models with the rules of a party before them. A model that the party may
// not use is refused by its name, and left out of lists.

#include "rpc_parties.h"

#include <stdio.h>

static kiln_status check_model(kilni_rpc_guard *guard, const char *name, kiln_error *err)
{
    snprintf(guard->model, sizeof(guard->model), "%s", name);
    return kilni_rpc_party_may(guard->parties, guard->party, KILNI_RPC_THING_MODEL, name, err);
}

static bool guarded_ready(void *user)
{
    const kilni_rpc_guard *guard = user;
    return guard->models->ready(guard->models->user);
}

static kiln_status guarded_infer(void *user, const kiln_model_request *request,
                                 kiln_model_answer *out_answer, kiln_error *err)
{
    kilni_rpc_guard *guard = user;
    kiln_status status = check_model(guard, request->model, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_party_request(guard->parties, guard->party, err);
    }
    return status == KILN_STATUS_OK
               ? guard->models->infer(guard->models->user, request, out_answer, err)
               : status;
}

static void guarded_answer_free(void *user, kiln_model_answer *answer)
{
    const kilni_rpc_guard *guard = user;
    guard->models->answer_free(guard->models->user, answer);
}

static kiln_status guarded_describe(void *user, const char *name, const char *version,
                                    kiln_model_info *out_info, kiln_error *err)
{
    kilni_rpc_guard *guard = user;
    kiln_status status = check_model(guard, name, err);
    return status == KILN_STATUS_OK
               ? guard->models->describe(guard->models->user, name, version, out_info, err)
               : status;
}

/// What goes to whoever asked for a list, less what is hidden.
typedef struct guarded_list {
    kilni_rpc_guard *guard;
    kiln_model_row_fn row;
    kiln_model_stats_fn stats;
    void *to;
} guarded_list;

static bool is_shown(const guarded_list *list, const char *name)
{
    return kilni_rpc_party_may(list->guard->parties, list->guard->party, KILNI_RPC_THING_MODEL,
                               name, NULL) == KILN_STATUS_OK;
}

static void show_row(const kiln_model_row *row, void *to)
{
    const guarded_list *list = to;
    if (is_shown(list, row->name)) {
        list->row(row, list->to);
    }
}

static void show_stats(const kiln_model_stats *stats, void *to)
{
    const guarded_list *list = to;
    if (is_shown(list, stats->name)) {
        list->stats(stats, list->to);
    }
}

static void guarded_index(void *user, bool ready_only, kiln_model_row_fn fn, void *to)
{
    kilni_rpc_guard *guard = user;
    guarded_list list = {.guard = guard, .row = fn, .to = to};
    guard->models->index(guard->models->user, ready_only, show_row, &list);
}

static kiln_status guarded_load(void *user, const char *name, kiln_error *err)
{
    kilni_rpc_guard *guard = user;
    kiln_status status = check_model(guard, name, err);
    return status == KILN_STATUS_OK ? guard->models->load(guard->models->user, name, err) : status;
}

static kiln_status guarded_unload(void *user, const char *name, kiln_error *err)
{
    kilni_rpc_guard *guard = user;
    kiln_status status = check_model(guard, name, err);
    return status == KILN_STATUS_OK ? guard->models->unload(guard->models->user, name, err)
                                    : status;
}

static kiln_status guarded_statistics(void *user, const char *name, const char *version,
                                      kiln_model_stats_fn fn, void *to, kiln_error *err)
{
    kilni_rpc_guard *guard = user;
    guarded_list list = {.guard = guard, .stats = fn, .to = to};
    kiln_status status = name[0] != '\0' ? check_model(guard, name, err) : KILN_STATUS_OK;
    return status == KILN_STATUS_OK ? guard->models->statistics(guard->models->user, name, version,
                                                                show_stats, &list, err)
                                    : status;
}

static kiln_status guarded_region_add(void *user, const kiln_model_region *region, kiln_error *err)
{
    const kilni_rpc_guard *guard = user;
    return guard->models->region_add(guard->models->user, region, err);
}

static kiln_status guarded_region_remove(void *user, const char *name, kiln_error *err)
{
    const kilni_rpc_guard *guard = user;
    return guard->models->region_remove(guard->models->user, name, err);
}

static kiln_status guarded_region_list(void *user, const char *name, kiln_model_region_fn fn,
                                       void *to, kiln_error *err)
{
    const kilni_rpc_guard *guard = user;
    return guard->models->region_list(guard->models->user, name, fn, to, err);
}

void kilni_rpc_guard_init(kilni_rpc_guard *guard, const kiln_models *models,
                          kilni_rpc_parties *parties, kilni_rpc_party *party)
{
    *guard = (kilni_rpc_guard){.models = models, .parties = parties, .party = party};
    guard->table = (kiln_models){.struct_size = (uint32_t)sizeof(guard->table),
                                 .user = guard,
                                 .ready = guarded_ready,
                                 .infer = guarded_infer,
                                 .answer_free = guarded_answer_free,
                                 .describe = guarded_describe,
                                 .index = guarded_index,
                                 .load = guarded_load,
                                 .unload = guarded_unload,
                                 .statistics = guarded_statistics,
                                 .region_add = guarded_region_add,
                                 .region_remove = guarded_region_remove,
                                 .region_list = guarded_region_list};
}
