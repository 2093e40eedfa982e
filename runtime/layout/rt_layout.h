// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_LAYOUT_H
#define KILN_RUNTIME_LAYOUT_H

/// Memory of whole plans (memory_run.c). All under the device's lock.

#include "rt_run.h"

/// The group of tensor `ref` among a launch's arguments: which inputs it may take the memory of.
static inline uint32_t kilni_arg_group(const kiln_program_launch *launch, uint32_t ref)
{
    for (uint32_t i = 0; i < launch->n_args; i++) {
        if (launch->args[i].kind == KILN_ARG_TENSOR && launch->args[i].ref == ref) {
            return launch->args[i].group;
        }
    }
    return 0;
}

/// Whether a result of `group` may be written over what argument `number` reads: another argument
/// may be the same tensor, and be read elsewhere.
static inline bool kilni_arg_gives_way(const kiln_program_launch *launch, uint32_t number,
                                       uint32_t group)
{
    const kiln_program_arg *arg = &launch->args[number];
    bool gives = arg->kind == KILN_ARG_TENSOR;
    for (uint32_t i = 0; i < launch->n_args && gives; i++) {
        const kiln_program_arg *same = &launch->args[i];
        gives = same->kind != KILN_ARG_TENSOR || same->ref != arg->ref ||
                (same->access == KILN_ACCESS_READ && same->group == group);
    }
    return gives;
}

/// The layout of a run, with the arena for it until `end`; NULL: there is none, or nothing to plan.
kilni_layout *kilni_layout_begin(const kilni_run *run);
void kilni_layout_end(const kilni_run *run);

/// The layout that the run's plan and extents have, made when it is worth it; or NULL.
kilni_layout *kilni_layout_find(const kilni_run *run);

/// Gives a value its memory. False: the pool has to, and `note` is told what it gave.
bool kilni_layout_place(const kilni_run *run, uint32_t slot, const kiln_tensor_desc *desc,
                        kilni_binding *target);
bool kilni_layout_place_temp(const kilni_run *run, uint32_t block, uint32_t temp,
                             const kiln_tensor_desc *desc, kilni_binding *target);
void kilni_layout_note(const kilni_run *run, uint32_t slot, const kilni_binding *binding);

/// Before and after an unfused operation is executed, in a run with a layout.
void kilni_layout_lend(const kilni_run *run, uint32_t step);
void kilni_layout_learn(const kilni_run *run, uint32_t step);

/// A buffer that windows are cut from. The result is the caller's. It is freed after its windows.
/// Under the device's lock. Errors: of alloc.
KILN_NODISCARD kiln_status kilni_alloc_for_windows(kiln_backend *backend, size_t bytes,
                                                   kiln_buffer **out_buffer, kiln_error *err);

/// Gives the arena back; it comes again when it is needed. False: there is none, or a run has it.
bool kilni_arena_drop(kiln_device *device);

#endif
