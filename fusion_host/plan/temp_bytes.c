// SPDX-License-Identifier: MIT OR Apache-2.0
// How long a temporary is: its program's formula, with the extents of a segment in the block's own
// numbers. Who gives it memory is the executor's business.

#include "fusion_host.h"

uint64_t kiln_fuse_temp_bytes(const kiln_env *env, const int64_t *facts,
                              const kiln_fuse_segment *segment, const kiln_plan_block *block,
                              uint32_t temp)
{
    enum { FEW_SYMBOLS = 64 };
    int64_t few[FEW_SYMBOLS];
    int64_t bytes = 0;
    int64_t *symbols = block->n_symbols <= FEW_SYMBOLS
                           ? few
                           : kiln_alloc_array(env, block->n_symbols, sizeof(*symbols));
    if (symbols == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < block->n_symbols; i++) {
        symbols[i] = segment->symbols[block->symbols[i]];
    }
    kiln_status status = kiln_formula_eval(&block->program->temps[temp].bytes, symbols,
                                           block->n_symbols, facts, KILN_FACT_COUNT, &bytes, NULL);
    if (symbols != few) {
        kiln_free(env, symbols);
    }
    return status == KILN_STATUS_OK && bytes > 0 ? (uint64_t)bytes : 0;
}
