// SPDX-License-Identifier: MIT OR Apache-2.0
// What a composite operator is recorded as, in words: the operators of its decomposition, learnt
// from its first sample that expands. Attributes and dtypes may choose others.
#include "cli.h"
#include "ir_expand.h"
#include "samples.h"

#include <stdio.h>
#include <string.h>

typedef struct listing {
    const kiln_env *env;
    char *text;
    size_t capacity;
    bool seen[KILN_OP_COUNT];
} listing;

bool cli_op_is_always_expanded(kiln_op op)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    return info->decompose != NULL && info->cls == KILN_CLASS_ELEMENTWISE;
}

static kiln_status expand(listing *list, const kiln_op_record *record, kiln_error *err);

static kiln_status emit(const kiln_op_record *record, void *user, kiln_error *err)
{
    listing *list = user;
    size_t used = strlen(list->text);
    if (cli_op_is_always_expanded(record->op)) {
        return expand(list, record, err);
    }
    if (record->op != KILN_OP_DROP && !list->seen[record->op]) {
        list->seen[record->op] = true;
        snprintf(list->text + used, list->capacity - used, "%s%s", used == 0 ? "" : ", ",
                 kiln_op_info_of(record->op)->name);
    }
    return KILN_STATUS_OK;
}

static kiln_status expand(listing *list, const kiln_op_record *record, kiln_error *err)
{
    const kiln_expansion_sink sink = {.emit = emit, .user = list};
    uint64_t ids[KILN_MAX_OUTPUTS] = {0};
    return kiln_ir_expand(list->env, record, &sink, ids, err);
}

static void take_sample(const kiln_op_record *record, const void *const *data, void *user)
{
    listing *list = user;
    (void)data;
    if (record->outputs == NULL || list->text[0] != '\0') {
        return;
    }
    if (expand(list, record, NULL) != KILN_STATUS_OK) {
        list->text[0] = '\0';
        memset(list->seen, 0, sizeof(list->seen));
    }
}

void cli_op_expansion(kiln_op op, char *out_text, size_t capacity)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_I32, KILN_DTYPE_BOOL};
    const kiln_op_info *info = kiln_op_info_of(op);
    const kiln_env env = {.allocator = kiln_allocator_default()};
    listing list = {.env = &env, .text = out_text, .capacity = capacity};
    kiln_sample_sink sink = {.env = &env, .take = take_sample, .user = &list};
    out_text[0] = '\0';
    for (size_t i = 0; info->decompose != NULL && i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        unsigned kind = (unsigned)kiln_dtype_kind_of(dtypes[i]);
        if (out_text[0] == '\0' && (kind & (unsigned)info->accept) != 0) {
            kiln_samples_make(op, dtypes[i], &sink);
        }
    }
}
