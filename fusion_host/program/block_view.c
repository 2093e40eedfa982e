// SPDX-License-Identifier: MIT OR Apache-2.0
// Some operations of a recorded segment under numbers of their own: tensors, symbols and scalars
// dense from 0 in order of first sight, as the ABI wants them for a block. Knows which operation
// defines and which drops a tensor. How that looks in the ABI's structs is op_view.c.
#include "block_view.h"

void kilni_fuse_block_view_reset(kilni_fuse_block_view *view, const kilni_fuse_recorded *recorded)
{
    view->recorded = recorded;
    view->n_ops = 0;
    view->n_tensors = 0;
    view->n_symbols = 0;
    view->n_scalars = 0;
    kilni_fuse_map_clear(&view->tensor_map);
    kilni_fuse_map_clear(&view->symbol_map);
}

void kilni_fuse_block_view_fini(kilni_fuse_block_view *view, const kiln_env *env)
{
    kiln_free(env, view->ops);
    kiln_free(env, view->scalars);
    kiln_free(env, view->tensors);
    kiln_free(env, view->defined);
    kiln_free(env, view->dropped);
    kiln_free(env, view->symbols);
    kiln_free(env, view->marks);
    kilni_fuse_map_fini(&view->tensor_map, env);
    kilni_fuse_map_fini(&view->symbol_map, env);
    *view = (kilni_fuse_block_view){0};
}

static bool reserve(kilni_fuse_block_view *view, const kiln_op_record *record)
{
    const kiln_env *env = view->recorded->env;
    uint32_t operands = (uint32_t)record->n_inputs + record->n_outputs;
    uint64_t tensors = (uint64_t)view->n_tensors + operands;
    uint64_t symbols = view->n_symbols + 1 + (uint64_t)operands * KILN_MAX_RANK;
    return kilni_fuse_grow(env, &view->tensors, &view->tensors_capacity, tensors,
                           sizeof(*view->tensors)) &&
           kilni_fuse_grow(env, &view->defined, &view->defined_capacity, tensors,
                           sizeof(*view->defined)) &&
           kilni_fuse_grow(env, &view->dropped, &view->dropped_capacity, tensors,
                           sizeof(*view->dropped)) &&
           kilni_fuse_grow(env, &view->symbols, &view->symbols_capacity, symbols,
                           sizeof(*view->symbols)) &&
           kilni_fuse_grow(env, &view->marks, &view->marks_capacity, (uint64_t)view->n_ops + 1,
                           sizeof(*view->marks)) &&
           kilni_fuse_grow(env, &view->ops, &view->ops_capacity, (uint64_t)view->n_ops + 1,
                           sizeof(*view->ops)) &&
           kilni_fuse_grow(env, &view->scalars, &view->scalars_capacity,
                           (uint64_t)view->n_scalars + record->n_attrs, sizeof(*view->scalars)) &&
           kilni_fuse_map_reserve(&view->tensor_map, env, operands) &&
           kilni_fuse_map_reserve(&view->symbol_map, env, operands * KILN_MAX_RANK + 1);
}

static void see_symbols(kilni_fuse_block_view *view, uint32_t recorded_tensor)
{
    const kilni_fuse_recorded *recorded = view->recorded;
    if (view->n_symbols == 0) {
        kilni_fuse_map_put(&view->symbol_map, 0, 0);
        view->symbols[view->n_symbols++] = 0;
    }
    if (!recorded->infos[recorded_tensor].has_dims) {
        return;
    }
    for (uint32_t i = 0; i < recorded->tensors[recorded_tensor].rank; i++) {
        uint32_t symbol = recorded->infos[recorded_tensor].symbols[i];
        if (kilni_fuse_map_find(&view->symbol_map, symbol) == KILNI_FUSE_NONE) {
            kilni_fuse_map_put(&view->symbol_map, symbol, view->n_symbols);
            view->symbols[view->n_symbols++] = symbol;
        }
    }
}

static uint32_t see_tensor(kilni_fuse_block_view *view, uint32_t recorded_tensor)
{
    uint32_t tensor = kilni_fuse_map_find(&view->tensor_map, recorded_tensor);
    if (tensor == KILNI_FUSE_NONE) {
        tensor = view->n_tensors++;
        kilni_fuse_map_put(&view->tensor_map, recorded_tensor, tensor);
        view->tensors[tensor] = recorded_tensor;
        view->defined[tensor] = KILNI_FUSE_NONE;
        view->dropped[tensor] = KILNI_FUSE_NONE;
        see_symbols(view, recorded_tensor);
    }
    return tensor;
}

bool kilni_fuse_block_view_extend(kilni_fuse_block_view *view, uint32_t op)
{
    const kiln_op_record *record = &view->recorded->ops[op];
    const uint32_t *refs = view->recorded->marks[op].refs;
    if (!reserve(view, record)) {
        return false;
    }
    for (uint32_t i = 0; i < record->n_inputs; i++) {
        uint32_t tensor = see_tensor(view, refs[i]);
        if (record->op == KILN_OP_DROP) {
            view->dropped[tensor] = view->n_ops;
        }
    }
    for (uint32_t i = 0; i < record->n_outputs; i++) {
        view->defined[see_tensor(view, refs[record->n_inputs + i])] = view->n_ops;
    }
    uint32_t scalar = op == 0 ? 0 : view->recorded->marks[op - 1].n_scalars;
    for (; scalar < view->recorded->marks[op].n_scalars; scalar++) {
        view->scalars[view->n_scalars++] = scalar;
    }
    view->marks[view->n_ops] = (kilni_fuse_block_mark){
        .n_tensors = view->n_tensors,
        .n_symbols = view->n_symbols,
        .n_scalars = view->n_scalars,
    };
    view->ops[view->n_ops++] = op;
    return true;
}

/// The maps forget only as a whole, so what stays is taken in again.
void kilni_fuse_block_view_cut(kilni_fuse_block_view *view, uint32_t n_ops)
{
    kilni_fuse_block_view_reset(view, view->recorded);
    for (uint32_t i = 0; i < n_ops; i++) {
        (void)kilni_fuse_block_view_extend(view, view->ops[i]); // has its memory already
    }
}

uint32_t kilni_fuse_block_tensor(const kilni_fuse_block_view *view, uint32_t recorded_tensor)
{
    return kilni_fuse_map_find(&view->tensor_map, recorded_tensor);
}

uint32_t kilni_fuse_block_symbol(const kilni_fuse_block_view *view, uint32_t recorded_symbol)
{
    return kilni_fuse_map_find(&view->symbol_map, recorded_symbol);
}

int64_t kilni_fuse_block_symbol_value(const kilni_fuse_block_view *view, uint32_t symbol)
{
    return view->recorded->symbols[view->symbols[symbol]];
}

bool kilni_fuse_asks_add(kilni_fuse_asks *asks, kilni_fuse_ask ask)
{
    for (uint32_t i = 0; i < asks->count; i++) {
        if (asks->items[i].ref == ask.ref && asks->items[i].is_scalar == ask.is_scalar) {
            return true;
        }
    }
    if (asks->count == KILNI_FUSE_MAX_ASKS) {
        return false;
    }
    asks->items[asks->count++] = ask;
    return true;
}
