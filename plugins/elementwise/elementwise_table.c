// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of elementwise_ops.def as data: which operators there are and what they mean. Decides
// nothing; the expressions are turned into text by elementwise_emit.c.
#include "elementwise_internal.h"

#define SAME EW_SAME
#define MASK EW_MASK
#define CAST EW_CAST
static const ew_row rows[] = {
#define EW(op, cost, inputs, scalars, result, f, s, u, b)                                          \
    {KF_OP_##op, cost, inputs, scalars, result, #op, {f, s, u, b}},
#include "elementwise_ops.def"
#undef EW
};
#undef SAME
#undef MASK
#undef CAST

static const uint32_t row_count = (uint32_t)(sizeof(rows) / sizeof(rows[0]));

const ew_row *ew_row_at(uint32_t index)
{
    return index < row_count ? &rows[index] : NULL;
}

const ew_row *ew_row_of(uint32_t op)
{
    for (uint32_t i = 0; i < row_count; i++) {
        if (rows[i].op == op) {
            return &rows[i];
        }
    }
    return NULL;
}

const char *ew_row_text(const ew_row *row, uint32_t dtype)
{
    switch (kf_dtype_of(dtype).kind) {
    case KF_KIND_FLOAT:
        return row->text[0];
    case KF_KIND_INT:
        return row->text[1];
    case KF_KIND_UINT:
        return row->text[2];
    case KF_KIND_BOOL:
        return row->text[3];
    default:
        return NULL;
    }
}
