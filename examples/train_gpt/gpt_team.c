// SPDX-License-Identifier: MIT OR Apache-2.0
// The devices that train together: those of this process, and under mpirun those of all processes.
// Each has the model's parameters and an optimiser of its own; all begin with the same values, get
// the same gradients, and so make the same steps.
#include "gpt.h"

#include <stdlib.h>

static bool is_under_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMI_SIZE") != NULL;
}

static kiln_status open_group(gpt_team *team, kiln_collective **out_group, kiln_error *err)
{
    return is_under_mpi()
               ? kiln_collective_create_mpi(team->devices, team->count, NULL, out_group, err)
               : kiln_collective_create(team->devices, team->count, NULL, out_group, err);
}

static kiln_status open_jobs(gpt_team *team, kiln_error *err)
{
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    options.over_mpi = is_under_mpi();
    kiln_status status = kiln_gradsync_start(team->context, "gradients", team->devices, team->count,
                                             &options, &team->job, err);
    return status == KILN_STATUS_OK ? kiln_gradsync_start(team->context, "news", team->devices,
                                                          team->count, &options, &team->news, err)
                                    : status;
}

kiln_status gpt_team_open(const char *const *addresses, size_t count, const gpt_shape *shape,
                          const kiln_optimiser_options *options, gpt_team *team, kiln_error *err)
{
    kiln_collective *group = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_context_create(NULL, &team->context, err));
    for (; team->count < count; team->count++) {
        size_t m = team->count;
        KILN_TRY(out, status,
                 kiln_device_open(team->context, addresses[m], &team->devices[m], err));
        KILN_TRY(out, status,
                 kiln_params_create(team->devices[m], /*seed=*/1, &team->params[m], err));
        KILN_TRY(out, status, gpt_add_params(shape, team->params[m], err));
    }
    KILN_TRY(out, status, open_group(team, &group, err));
    team->first = kiln_collective_rank(group);
    team->total = kiln_collective_ranks(group);
    KILN_TRY(out, status, kiln_params_broadcast(group, team->params, count, /*root=*/0, err));
    for (size_t m = 0; m < count; m++) {
        KILN_TRY(out, status,
                 kiln_optimiser_create(team->params[m], options, &team->optimisers[m], err));
    }
    kiln_collective_destroy(group);
    group = NULL;
    KILN_TRY(out, status, open_jobs(team, err));
out:
    kiln_collective_destroy(group);
    return status;
}

void gpt_team_close(gpt_team *team, bool failed)
{
    if (failed && is_under_mpi()) {
        fflush(NULL);
        _Exit(1); // MPI's own end would wait for a process that is lost
    }
    kiln_gradsync_release(team->job);
    kiln_gradsync_release(team->news);
    for (size_t m = 0; m < GPT_MOST; m++) {
        kiln_optimiser_destroy(team->optimisers[m]);
        kiln_params_destroy(team->params[m]);
        kiln_device_release(team->devices[m]);
    }
    kiln_context_destroy(team->context);
}

kiln_status gpt_team_load(gpt_team *team, const char *path, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (size_t m = 0; m < team->count && status == KILN_STATUS_OK; m++) {
        status = kiln_optimiser_load(team->optimisers[m], path, err);
    }
    return status;
}

// ---- news: the loss, and whether to stop ----

enum { LOSS = 1, STOP = 2 };

kiln_status gpt_team_tell(gpt_team *team, kiln_tensor *const *losses, bool stop, kiln_error *err)
{
    const kiln_param_id ids[] = {LOSS, STOP};
    const float stops = stop ? 1 : 0;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t m = 0; m < team->count && status == KILN_STATUS_OK; m++) {
        kiln_tensor *loss = NULL;
        kiln_tensor *flag = NULL;
        KILN_TRY(next, status, kiln_gradsync_register(team->news, m, ids, 2, err));
        KILN_TRY(next, status, kiln_detach(losses[m], &loss, err));
        KILN_TRY(next, status,
                 kiln_tensor_create(team->devices[m], KILN_DTYPE_F32, 0, NULL, &stops, &flag, err));
        kiln_tensor_set_param(loss, LOSS);
        kiln_tensor_set_param(flag, STOP);
        KILN_TRY(next, status, kiln_gradsync_submit(team->news, m, loss, err));
        KILN_TRY(next, status, kiln_gradsync_submit(team->news, m, flag, err));
    next:
        kiln_release(loss);
        kiln_release(flag);
    }
    return status;
}

static kiln_status read_news(gpt_team *team, uint32_t member, kiln_param_id id, float *out_value,
                             kiln_error *err)
{
    kiln_tensor *mean = NULL;
    kiln_status status = kiln_gradsync_gradient(team->news, member, id, &mean, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_read(mean, out_value, sizeof(*out_value), err);
    }
    kiln_release(mean);
    return status;
}

/// Every member hears all of it: a member that left before would take others' news with it.
kiln_status gpt_team_hear(gpt_team *team, float *out_loss, bool *out_stop, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t m = 0; m < team->count && status == KILN_STATUS_OK; m++) {
        status = kiln_gradsync_sync(team->news, m, err);
    }
    for (uint32_t m = 0; m < team->count && status == KILN_STATUS_OK; m++) {
        float stops = 0;
        KILN_TRY(out, status, read_news(team, m, LOSS, out_loss, err));
        KILN_TRY(out, status, read_news(team, m, STOP, &stops, err));
        *out_stop = stops > 0;
    }
out:
    return status;
}
