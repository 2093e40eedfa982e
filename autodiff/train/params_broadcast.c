// SPDX-License-Identifier: MIT OR Apache-2.0
// One member's parameters for all: a broadcast for each parameter. All are started before any is
// waited for, and all have come before a value is replaced.
#include "train_internal.h"

#include <string.h>

kiln_status kilni_params_check_alike(kiln_params *const *sets, size_t n_sets, kiln_error *err)
{
    for (size_t i = 0; sets != NULL && i < n_sets; i++) {
        if (sets[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "set %zu of parameters is NULL", i);
        }
    }
    if (sets == NULL || n_sets == 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "a group needs sets of parameters");
    }
    for (size_t i = 1; i < n_sets; i++) {
        if (sets[i]->count != sets[0]->count) {
            return kiln_fail(err, INVALID_ARGUMENT, "set %zu has %zu parameters, set 0 has %zu", i,
                             sets[i]->count, sets[0]->count);
        }
        for (size_t p = 0; p < sets[0]->count; p++) {
            if (strcmp(sets[i]->all[p].name, sets[0]->all[p].name) != 0) {
                return kiln_fail(err, INVALID_ARGUMENT,
                                 "parameter %zu is %.64s in set %zu and %.64s in set 0", p,
                                 sets[i]->all[p].name, i, sets[0]->all[p].name);
            }
        }
    }
    return KILN_STATUS_OK;
}

/// `values` has a place for each parameter of each set, and `inputs` one for each set.
static kiln_status fetch(kiln_collective *group, kiln_params *const *sets, size_t n_sets,
                         uint32_t root, kiln_tensor **inputs, kiln_tensor **values, kiln_error *err)
{
    size_t count = sets[0]->count;
    kiln_status status = KILN_STATUS_OK;
    for (size_t p = 0; p < count && status == KILN_STATUS_OK; p++) {
        for (size_t i = 0; i < n_sets; i++) {
            inputs[i] = kiln_params_tensor(sets[i], p);
        }
        status = kiln_collective_broadcast(group, inputs, root, &values[p * n_sets], err);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "parameter %.64s", sets[0]->all[p].name);
        }
    }
    for (size_t k = 0; k < count * n_sets && status == KILN_STATUS_OK; k++) {
        status = kiln_collective_resolve(values[k], err);
    }
    return status;
}

kiln_status kiln_params_broadcast(kiln_collective *group, kiln_params *const *sets, size_t n_sets,
                                  uint32_t root, kiln_error *err)
{
    kiln_status status = kilni_params_check_alike(sets, n_sets, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const kiln_env *env = sets[0]->env;
    size_t count = sets[0]->count;
    kiln_tensor **values = kiln_alloc_array(env, count * n_sets + 1, sizeof(kiln_tensor *));
    kiln_tensor **inputs = kiln_alloc_array(env, n_sets, sizeof(kiln_tensor *));
    if (values == NULL || inputs == NULL) {
        status = kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu parameters", count);
        goto out;
    }
    KILN_TRY(out, status, fetch(group, sets, n_sets, root, inputs, values, err));
    for (size_t p = 0; p < count; p++) {
        for (size_t i = 0; i < n_sets; i++) {
            kilni_params_replace(sets[i], p, values[p * n_sets + i]);
            values[p * n_sets + i] = NULL;
        }
    }
out:
    for (size_t k = 0; k < count * n_sets && values != NULL; k++) {
        kiln_release(values[k]);
    }
    kiln_free(env, (void *)values);
    kiln_free(env, (void *)inputs);
    return status;
}
