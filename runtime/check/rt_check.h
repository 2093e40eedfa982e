// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_CHECK_H
#define KILN_RUNTIME_CHECK_H

/// Checked mode (check.c, check_stream.c, check_report.c, check_index.c), the watchdog, and streams
/// that are written down and run again. Under the lock.

#include "rt_check_state.h"
#include "rt_execute.h"
#include "rt_guards.h"
#include "rt_run.h"

kilni_check_mode kilni_check_mode_of(const kiln_context *context);

/// Runs the block's program on copies, with guard words around everything that it may write, and
/// keeps what came out. The caller then runs the operations one by one, and gives both to `end`,
/// which compares them. NULL: the block cannot be checked now. `end` gives false when the program
/// is wrong: it was told to the engine, reduced and written down. `*out_compared` is false where
/// the results could not be read, or not twice the same. `end` frees the check.
kilni_check *kilni_check_begin(const kilni_run *run, uint32_t block);
bool kilni_check_end(kilni_check *check, bool *out_compared);

/// The deadline of launches that nobody has seen end yet. `begin` waits for what was queued before,
/// so that only the launch counts; 0: this one is not watched (it ships, the option says so, or
/// what was queued before does not end soon). `wait` comes after the launch. False: it did not end,
/// the device is given up, the fuser put away; `err` says all of it.
uint64_t kilni_watchdog_begin(const kilni_run *run, const kiln_plan_block *block);
bool kilni_watchdog_wait(const kilni_run *run, const kiln_plan_block *block, const char *kernel,
                         uint64_t deadline_ns, kiln_error *err);
void kilni_check_indices(const kilni_run *run, uint32_t op);

/// What the files of the check share.
typedef struct kilni_check_input { ///< the bytes of an input that the block must leave as they are
    const kilni_binding *binding;
    uint32_t slot;
    int64_t begin; ///< in its buffer
    size_t bytes;
    unsigned char *raw;
} kilni_check_input;

struct kilni_check {
    const kilni_run *run;
    const kiln_env *env;
    uint32_t index;
    const kiln_plan_block *block;
    kiln_arena arena;
    kilni_check_input *inputs;
    size_t n_inputs;
    uint32_t *outputs; ///< slots of the results that live on
    size_t n_outputs;
    void **fused; ///< their elements
    kiln_replay *stream; ///< the block with its inputs
    bool failed; ///< the program could not be launched
    char text[232]; ///< what is wrong; empty: nothing so far
};

/// The block as a stream with the data at hand, tensors numbered as the segment's, from 1.
kiln_status kilni_check_make_stream(kilni_check *check, kiln_error *err);

/// Runs a stream on the device with the engine of `run`, whatever blocks come of it, between guard
/// words; gives true when a result is not what the reference says, or a guard word is gone.
bool kilni_check_stream(const kilni_run *run, const kiln_replay *replay);

/// Writes what is about to run into the option `record`'s folder, unless its like was written
/// before.
void kilni_record_file(const kilni_run *run);

/// The program is wrong as check->text says: the smallest stream that shows it goes to a file, the
/// engine and the log are told.
void kilni_check_report(kilni_check *check);

/// What runs beside the program that the user waits for leaves no trace in the device's figures.
typedef struct kilni_aside {
    kilni_fault *fault;
    kilni_allocator *allocator;
    uint64_t blocks_fused;
    uint64_t ops_fused;
    bool measuring;
    bool measured;
} kilni_aside;

kilni_aside kilni_aside_begin(kiln_device *device, kilni_guards *guards);
void kilni_aside_end(kiln_device *device, const kilni_aside *aside);

/// An input of a replay in memory of the device, as it lay when it was recorded.
kiln_status kilni_replay_bind(kiln_device *device, const kiln_tensor_desc *desc,
                              const kiln_replay_input *input, kilni_binding *binding,
                              kiln_error *err);

#endif
