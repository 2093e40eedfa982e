// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TAPE_INTERNAL_H
#define KILN_TAPE_INTERNAL_H

/// A tape: entries in the order of recording, and the variables that they connect. A variable is a
/// tracked tensor, by the number in the tensor's mark, whether the tensor still exists or not.

#include "gradients.h"
#include "kiln_grad.h"
#include "rt_observe.h"

typedef enum tape_kind { TAPE_OPERATION, TAPE_CUSTOM, TAPE_PART } tape_kind;

/// What the tape has of an operation, or of what stands for several; one block of memory.
typedef struct tape_entry {
    tape_kind kind;
    kiln_op_record record; ///< of an operation; of others the counts and descriptions
    uint32_t *variables; ///< of inputs, then outputs; 0: not tracked
    kiln_tensor **kept; ///< inputs, then outputs, held; NULL: not needed, or pinned
    uint64_t pinned[2]; ///< of inputs, of outputs: those that their variables hold instead
    kiln_gradient_fn backward; ///< of TAPE_CUSTOM
    kiln_part_fn part; ///< of TAPE_PART
    void (*drop_user)(void *user);
    void *user;
} tape_entry;

typedef struct tape_variable {
    kiln_tensor *gradient; ///< while backward runs: what has arrived
    kiln_tensor *sum; ///< of a leaf: what backward has found
    kiln_tensor *shared; ///< of a leaf: what all members of a job have found
    kiln_tensor *like; ///< of a leaf: itself
    kiln_tensor *held; ///< its value while somebody pins it; NULL: let go
    tape_entry *maker; ///< the cheap operation that it can be had from again
    uint64_t held_bytes; ///< that it counts for
    uint32_t pins; ///< entries, and values that were let go, which need the value
    int depth; ///< of one that was let go: how many operations make it again
    bool let_go; ///< pins what its maker reads
    size_t first_use; ///< number, from 1, of the first entry that may read it; 0: none does
    bool leaf; ///< was given to kiln_tape_track
    bool made; ///< is the result of an entry
    bool handed; ///< while backward runs: what has arrived was handed over
} tape_variable;

struct kiln_tape {
    kiln_device *device;
    const kiln_env *env;
    kilni_observer observer;
    tape_entry **entries;
    size_t n_entries;
    size_t entries_capacity;
    tape_variable *variables; ///< [0] is nobody's
    size_t n_variables;
    size_t variables_capacity;
    size_t n_forgotten; ///< of the first variables: but for leaves, backward went through them
    uint64_t budget; ///< of held bytes; 0: none
    uint64_t held_bytes;
    size_t next_to_drop; ///< variables before were looked at
    unsigned in_part; ///< parts whose first computation goes on
    unsigned again; ///< parts that are computed again
    kiln_gradsync *job; ///< held; NULL: gradients are this tape's alone
    uint32_t member;
    kiln_leaf_fn take; ///< NULL: nobody but the job gets gradients as they come
    void *taker;
    uint32_t *due; ///< while backward runs: leaves that these get, the first that is whole first
    size_t n_due;
    size_t next_due;
};

// ---- variables and entries (tape_record.c) ----

/// The number of a tensor on this tape; 0: it is not tracked.
uint32_t kilni_tape_variable(const kiln_tape *tape, const kiln_tensor *tensor);
/// Gives a tensor a number, when it has none.
kiln_status kilni_tape_number(kiln_tape *tape, kiln_tensor *tensor, uint32_t *out_variable,
                              kiln_error *err);
bool kilni_tape_is_float(const kiln_tensor *tensor);
/// What the observer of the tape does.
kiln_status kilni_tape_recorded(void *user, const kilni_observed *call, kiln_error *err);
/// Adds an entry of another kind, with all inputs kept where `keeps`. `drop_user` is called on
/// failure, too.
kiln_status kilni_tape_add(kiln_tape *tape, const tape_entry *like, kiln_tensor *const *inputs,
                           size_t n_inputs, kiln_tensor *const *outputs, size_t n_outputs,
                           bool keeps, kiln_error *err);
/// Forgets the entries from `count` on.
void kilni_tape_cut(kiln_tape *tape, size_t count);

// ---- values within a budget, or of a part that is computed again (tape_values.c) ----

/// Whether values are pinned, and so can be let go; others are the entries' own.
bool kilni_tape_saves(const kiln_tape *tape);
/// The variable's value, which is `tensor`, is needed until the pin is taken off.
void kilni_tape_pin(kiln_tape *tape, uint32_t variable, kiln_tensor *tensor);
void kilni_tape_unpin(kiln_tape *tape, uint32_t variable);
/// Notes that the entry's result can be had again, where the operation is cheap.
void kilni_tape_note_maker(kiln_tape *tape, tape_entry *entry);
/// Lets values go, as far as they can be had again from others: until the budget is kept, and in a
/// part that is computed again what elementwise operators made for the entry, if it is a product.
void kilni_tape_save(kiln_tape *tape, const tape_entry *entry);
/// Puts the values that the entry has pinned where its rule reads them; those that were let go are
/// recorded again. What a product of rows by one matrix reads may come as a matrix.
kiln_status kilni_tape_fetch(kiln_tape *tape, tape_entry *entry, kiln_error *err);
/// Takes the entry's pins off, and forgets it as a maker.
void kilni_tape_forget(kiln_tape *tape, const tape_entry *entry);

// ---- gradients of operators of plugins (tape_plugin.c) ----

/// The operator that is the gradient of such a call; NULL: it has none, or is no such call.
const kiln_custom_op *kilni_tape_plugin_gradient(const kiln_tape *tape, kiln_op op,
                                                 const kiln_attr *attrs);
/// Fills the gradients of the inputs of an entry that has one.
kiln_status kilni_tape_plugin_apply(const kiln_tape *tape, const tape_entry *entry,
                                    kiln_tensor *const *grads, kiln_tensor **out_given,
                                    kiln_error *err);

// ---- gradients that are handed over as they come (tape_job.c) ----

/// Says to the job which gradients will come, in the order in which they will be whole. Without a
/// job and a taker nothing is due.
kiln_status kilni_tape_job_begin(kiln_tape *tape, kiln_error *err);
/// Hands over the gradients that no entry before the first `left` ones adds to.
kiln_status kilni_tape_job_hand(kiln_tape *tape, size_t left, kiln_error *err);
/// Waits for the other members, and takes what all have found.
kiln_status kilni_tape_job_sync(kiln_tape *tape, kiln_error *err);
/// Nothing is due any more.
void kilni_tape_job_end(kiln_tape *tape);

// ---- backwards (tape_backward.c) ----

/// Goes from `loss` through the entries behind the first `to`, and keeps them. What has arrived at
/// variables stays there.
kiln_status kilni_tape_walk(kiln_tape *tape, kiln_tensor *loss, kiln_tensor *seed, size_t to,
                            kiln_error *err);
/// Backward of a paused tape, which forgets: what has arrived stays. After `begin` comes `one` for
/// each entry, the last of the tape first, and then, also after a failure of these, `end`.
kiln_status kilni_tape_back_begin(kiln_tape *tape, kiln_tensor *loss, kiln_tensor *seed,
                                  kiln_error *err);
kiln_status kilni_tape_back_one(kiln_tape *tape, kiln_error *err);
void kilni_tape_back_end(kiln_tape *tape);
/// Lets go of what has arrived.
void kilni_tape_clear(kiln_tape *tape);

#endif
