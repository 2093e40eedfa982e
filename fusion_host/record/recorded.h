// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_FUSION_HOST_RECORDED_H
#define KILN_FUSION_HOST_RECORDED_H

/// Recorded operations in relative form: tensors, symbols and scalars by the order in which they
/// first appear, and the words that make two segments the same program.

#include "fuse_map.h"

enum { ///< kilni_fuse_tensor_info.facts: the first six have the ABI's numbers
    KILNI_FUSE_FACT_CONTIGUOUS = 1u,
    KILNI_FUSE_FACT_ZERO_OFFSET = 2u,
    KILNI_FUSE_FACT_FITS_I32 = 4u,
    KILNI_FUSE_FACT_TURNED = 8u, ///< contiguous once the last two axes are swapped
    KILNI_FUSE_FACT_LINES = 16u, ///< neither, but the last axis has stride 1
    KILNI_FUSE_FACT_COLUMNS = 32u, ///< none of these, but the axis before the last has
    KILNI_FUSE_FACT_CONST = 64u,
    KILNI_FUSE_FACT_PRODUCED = 128u ///< defined on this recorded segment
};

#define KILNI_FUSE_NEW_TENSOR (1u << 31) ///< of a tensor's word: a word for each axis follows
#define KILNI_FUSE_NEW_SYMBOL (1u << 30) ///< of an axis's word: the symbol's first
#define KILNI_FUSE_SYMBOL_MASK ((1u << KILNI_FUSE_LENGTH_SHIFT) - 1)

enum { ///< what the word of a new symbol says of its value, from this bit on
    KILNI_FUSE_LENGTH_SHIFT = 28,
    KILNI_FUSE_LENGTH_ANY = 0,
    KILNI_FUSE_LENGTH_BY_4 = 1,
    KILNI_FUSE_LENGTH_BY_16 = 2,
    KILNI_FUSE_LENGTH_EMPTY = 3
};

typedef struct kilni_fuse_tensor_info {
    uint32_t symbols[KILN_MAX_RANK];
    uint8_t facts;
    uint8_t align_log2;
    bool has_dims; ///< false while only a drop has mentioned it
} kilni_fuse_tensor_info;

/// Where an operation's relative form ends, and how many numbers were given out up to and including
/// it.
typedef struct kilni_fuse_mark {
    const uint32_t *refs; ///< recorded tensors: inputs, then outputs
    uint32_t words_end;
    uint32_t n_tensors;
    uint32_t n_symbols;
    uint32_t n_scalars;
    bool empty_extent; ///< a tensor without elements: no fuser sees this operation
} kilni_fuse_mark;

typedef struct kilni_fuse_recorded {
    const kiln_env *env;
    uint8_t device_align_log2; ///< of every buffer's base
    kiln_arena arena;
    kiln_op_record *ops;
    void *const **operands;
    kilni_fuse_mark *marks;
    uint32_t n_ops;
    uint32_t ops_capacity;
    uint32_t operands_capacity;
    uint32_t marks_capacity;
    kiln_tensor_desc *tensors;
    void **tokens;
    kilni_fuse_tensor_info *infos;
    uint32_t n_tensors;
    uint32_t tensors_capacity;
    uint32_t tokens_capacity;
    uint32_t infos_capacity;
    int64_t *symbols;
    uint32_t n_symbols;
    uint32_t symbols_capacity;
    kiln_attr *scalars;
    uint32_t n_scalars;
    uint32_t scalars_capacity;
    uint32_t *words;
    uint32_t n_words;
    uint32_t words_capacity;
    kilni_fuse_map tensor_map;
    kilni_fuse_map symbol_map;
} kilni_fuse_recorded;

void kilni_fuse_recorded_init(kilni_fuse_recorded *recorded, const kiln_env *env,
                              uint32_t device_align);
void kilni_fuse_recorded_fini(kilni_fuse_recorded *recorded);
void kilni_fuse_recorded_clear(kilni_fuse_recorded *recorded);

/// Appends a copy of the operation. Facts of tensors that `before` (or NULL) defined are taken from
/// there: by the time this recorded segment runs they have been computed. On failure nothing was
/// appended.
void kilni_fuse_recorded_set_scalar(kilni_fuse_recorded *recorded, uint32_t op, uint32_t attr,
                                    const kiln_attr *value);
kiln_status kilni_fuse_recorded_push(kilni_fuse_recorded *recorded, const kiln_op_record *record,
                                     void *const *tokens, const kilni_fuse_recorded *before,
                                     kiln_error *err);

static inline const uint32_t *kilni_fuse_recorded_words(const kilni_fuse_recorded *recorded,
                                                        uint32_t op, uint32_t *out_count)
{
    uint32_t begin = op == 0 ? 0 : recorded->marks[op - 1].words_end;
    *out_count = recorded->marks[op].words_end - begin;
    return recorded->words + begin;
}

#endif
