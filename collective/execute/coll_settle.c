// SPDX-License-Identifier: MIT OR Apache-2.0
// The wait for the memory's own work: at the end of a call, and after a failure before anything
// that the work may still touch is given back.
#include "coll_execute.h"
#include "coll_marker.h"

kiln_status kilni_coll_settle(const kilni_coll_run *run, kiln_error *err)
{
    kilni_coll_marker *marker = NULL;
    uint64_t begin_ns = kilni_coll_now(run);
    kilni_coll_watch_touch(run->watch, COLL_WORKER);
    kiln_status status =
        kilni_coll_marker_set(run->arena->env, run->memory, run->memory->ops->finish, &marker, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_coll_watch_end(run->watch, COLL_WORKER);
    status = kilni_coll_marker_wait(marker, kiln_time_ns() + run->deadline_ns, err);
    kilni_coll_watch_touch(run->watch, COLL_WORKER);
    kilni_coll_spend(run, KILN_COLL_SETTLING, begin_ns);
    return status;
}
