// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_FORM_H
#define KILN_FUSION_HOST_FORM_H

/// The form of a recorded segment: its words apart from what lengths are. A program whose lengths
/// change from run to run (a text that grows) records other words each time: lengths are equal by
/// chance, divide by 16 or not. A plan that relied on less serves all of them.

#include "recorded.h"

enum {
    KILNI_FUSE_FORM_SYMBOLS = 256, ///< a segment with more has no form
    KILNI_FUSE_FORM_GROWTH = 16 ///< a plan serves lengths up to so many times its own, or less
};

typedef struct kilni_fuse_form {
    uint64_t hash;
    uint32_t n_words;
    uint32_t n_symbols;
    const uint32_t *words;
    const int64_t *symbols; ///< extents for which the plan was made
} kilni_fuse_form;

/// The same for segments that differ in lengths alone.
uint64_t kilni_fuse_form_hash(const kilni_fuse_recorded *recorded, uint32_t n_ops);

/// The form of the first `n_ops` operations, in the arena. NULL: no memory, or too many symbols.
kilni_fuse_form *kilni_fuse_form_create(kiln_arena *arena, const kilni_fuse_recorded *recorded,
                                        uint32_t n_ops);

/// Whether all that the form says of lengths holds for the first `n_ops` operations: those that it
/// has as one are equal, and so on. `hash` is theirs. `out_values` has the extents by the form's
/// symbols then.
bool kilni_fuse_form_serves(const kilni_fuse_form *form, uint64_t hash,
                            const kilni_fuse_recorded *recorded, uint32_t n_ops,
                            int64_t *out_values);

#endif
