// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows one operation of a block in the ABI's structs: dimensions as symbols, scalars as places,
// values only where this builder has asked for them, and the facts that the plan's key carries.
// Storage is reused from call to call.
#include <string.h>

#include "block_view.h"
#include "plugin_operators.h"

enum { MAX_OPERANDS = KILN_MAX_INPUTS + KILN_MAX_OUTPUTS };

struct kilni_fuse_op_view {
    kf_op op;
    const kf_tensor *operands[MAX_OPERANDS];
    kf_tensor tensors[MAX_OPERANDS];
    kf_dim dims[MAX_OPERANDS][KILN_MAX_RANK];
    kf_attr attrs[KILN_MAX_ATTRS + KILN_CUSTOM_MAX_PARAMS];
    kf_blob strings[KILN_MAX_ATTRS + KILN_CUSTOM_MAX_PARAMS];
    kiln_arena values; ///< of a custom operator's parameters
};

kilni_fuse_op_view *kilni_fuse_op_view_create(const kiln_env *env)
{
    kilni_fuse_op_view *storage = kiln_alloc(env, sizeof(*storage));
    if (storage != NULL) {
        kiln_arena_init(&storage->values, env);
    }
    return storage;
}

void kilni_fuse_op_view_destroy(const kiln_env *env, kilni_fuse_op_view *storage)
{
    if (storage != NULL) {
        kiln_arena_fini(&storage->values);
        kiln_free(env, storage);
    }
}

static bool was_asked(const kilni_fuse_asks *asks, uint32_t symbol)
{
    for (uint32_t i = 0; i < asks->count; i++) {
        if (!asks->items[i].is_scalar && asks->items[i].ref == symbol) {
            return true;
        }
    }
    return false;
}

static void fill_dims(const kilni_fuse_block_view *view, uint32_t recorded_tensor, kf_dim *dims,
                      const kilni_fuse_asks *asks)
{
    const kiln_tensor_desc *desc = &view->recorded->tensors[recorded_tensor];
    for (uint32_t i = 0; i < desc->rank; i++) {
        uint32_t symbol =
            kilni_fuse_block_symbol(view, view->recorded->infos[recorded_tensor].symbols[i]);
        bool shown = symbol == 0 || was_asked(asks, symbol);
        dims[i] = (kf_dim){.value = shown ? desc->dims[i] : 0,
                           .symbol = symbol,
                           .flags = shown ? KF_DIM_VALUE : 0};
    }
}

static uint32_t div_by(const kiln_tensor_desc *desc)
{
    int64_t inner = desc->rank == 0 ? 1 : desc->dims[desc->rank - 1];
    if (inner % 16 == 0) {
        return 16;
    }
    return inner % 4 == 0 ? 4 : 1;
}

static void fill_facts(const kilni_fuse_block_view *view, uint32_t tensor, kf_tensor *out)
{
    const kilni_fuse_tensor_info *info = &view->recorded->infos[view->tensors[tensor]];
    if (view->defined[tensor] == KILNI_FUSE_NONE) {
        out->flags |= KF_TENSOR_EXTERNAL;
    }
    out->flags |= (info->facts & KILNI_FUSE_FACT_CONST) != 0 ? KF_TENSOR_CONST : 0;
    out->facts = info->facts & (KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET | KF_FACT_FITS_I32 |
                                KF_FACT_TURNED | KF_FACT_LINES | KF_FACT_COLUMNS);
    out->align_log2 = info->align_log2;
}

static void fill_tensor(kilni_fuse_op_view *storage, uint32_t slot,
                        const kilni_fuse_block_view *view, uint32_t recorded_tensor,
                        const kilni_fuse_asks *asks)
{
    const kiln_tensor_desc *desc = &view->recorded->tensors[recorded_tensor];
    kf_tensor *out = &storage->tensors[slot];
    *out = (kf_tensor){.struct_size = (uint32_t)sizeof(*out),
                       .id = kilni_fuse_block_tensor(view, recorded_tensor),
                       .dtype = (uint32_t)desc->dtype,
                       .align_log2 = view->recorded->infos[recorded_tensor].align_log2,
                       .div_by = 1};
    storage->operands[slot] = out;
    if (!view->recorded->infos[recorded_tensor].has_dims) {
        out->flags = KF_TENSOR_EXTERNAL; // only dropped, never looked at
        return;
    }
    out->rank = desc->rank;
    out->div_by = div_by(desc);
    out->dims = storage->dims[slot];
    fill_facts(view, out->id, out);
    fill_dims(view, recorded_tensor, storage->dims[slot], asks);
}

static uint32_t abi_type(kiln_attr_type type)
{
    return (uint32_t)type; // both enumerations have the same numbers up to TENSOR
}

static bool fallback_attr(const kiln_attr_spec *spec, kf_attr *out)
{
    kiln_attr_type type = kiln_attr_type_of(spec->key);
    out->type = abi_type(type);
    out->count = 1;
    if (type == KILN_ATTR_F64) {
        out->v.f = spec->fallback;
        return true;
    }
    out->v.i = (int64_t)spec->fallback;
    return type == KILN_ATTR_I64 || type == KILN_ATTR_BOOL;
}

/// False when there is nothing to show: absent without a plain default, or the host's own.
static bool fill_attr(kilni_fuse_op_view *storage, uint32_t slot, const kiln_attr_spec *spec,
                      const kiln_attr *attr)
{
    kf_attr *out = &storage->attrs[slot];
    *out =
        (kf_attr){.key = (uint32_t)spec->key, .type = abi_type(attr->type), .count = attr->count};
    switch (attr->type) {
    case KILN_ATTR_NONE:
        return fallback_attr(spec, out);
    case KILN_ATTR_F64:
        out->v.f = attr->v.f;
        return true;
    case KILN_ATTR_I64_LIST:
        out->v.iv = attr->v.ints;
        return true;
    case KILN_ATTR_F64_LIST:
        out->v.fv = attr->v.floats;
        return true;
    case KILN_ATTR_STRING:
        storage->strings[slot] = (kf_blob){attr->v.text, attr->count};
        out->v.b = &storage->strings[slot];
        return true;
    case KILN_ATTR_TENSOR:
        out->v.b = NULL;
        return true;
    default:
        out->v.i = attr->v.i;
        return true;
    }
}

/// `first_scalar`: the block's number of the operation's first scalar.
static uint32_t fill_attrs(kilni_fuse_op_view *storage, const kilni_fuse_block_view *view,
                           uint32_t recorded_op, uint32_t first_scalar)
{
    const kiln_op_record *record = &view->recorded->ops[recorded_op];
    const kiln_op_signature *signature = kiln_op_info_of(record->op)->signature;
    uint32_t scalar = recorded_op == 0 ? 0 : view->recorded->marks[recorded_op - 1].n_scalars;
    uint32_t count = 0;
    for (uint32_t i = 0; i < record->n_attrs && i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        if (spec->role == KILN_ROLE_SCALAR) {
            storage->attrs[count++] =
                (kf_attr){.key = (uint32_t)spec->key,
                          .type = KF_TYPE_SCALAR,
                          .count = abi_type(view->recorded->scalars[scalar].type),
                          .v = {.i = first_scalar++}};
            scalar++;
        } else if (spec->role == KILN_ROLE_IDENTITY) {
            count += fill_attr(storage, count, spec, &record->attrs[i]);
        }
    }
    return count;
}

/// Own attributes of a custom operator take the place of their text, which comes last.
static uint32_t fill_params(kilni_fuse_op_view *storage, const kiln_op_record *record,
                            uint32_t count)
{
    const kiln_custom_op *op = record->custom;
    const kiln_attr *values = NULL;
    kiln_arena_reset(&storage->values);
    if (op == NULL || kiln_ir_custom_values(op, kiln_op_attr(record, KILN_KEY_ATTRIBUTES)->v.text,
                                            &storage->values, &values, NULL) != KILN_STATUS_OK) {
        return count;
    }
    kilni_fuse_operator_attrs(op, values, &storage->attrs[count - 1],
                              &storage->strings[KILN_MAX_ATTRS]);
    return count - 1 + op->n_params;
}

const kf_op *kilni_fuse_op_view_fill(kilni_fuse_op_view *storage, const kilni_fuse_block_view *view,
                                     uint32_t op, const kilni_fuse_asks *asks)
{
    uint32_t recorded_op = view->ops[op];
    uint32_t first_scalar = op == 0 ? 0 : view->marks[op - 1].n_scalars;
    const kiln_op_record *record = &view->recorded->ops[recorded_op];
    const uint32_t *refs = view->recorded->marks[recorded_op].refs;
    const kiln_op_info *info = kiln_op_info_of(record->op);
    uint32_t operands = (uint32_t)record->n_inputs + record->n_outputs;
    for (uint32_t i = 0; i < operands; i++) {
        fill_tensor(storage, i, view, refs[i], asks);
        storage->tensors[i].flags |= i >= record->n_inputs ? KF_TENSOR_UNINIT : 0;
    }
    uint32_t n_attrs = fill_attrs(storage, view, recorded_op, first_scalar);
    n_attrs = record->op == KILN_OP_CUSTOM ? fill_params(storage, record, n_attrs) : n_attrs;
    storage->op = (kf_op){.struct_size = (uint32_t)sizeof(kf_op),
                          .kind = info->wire,
                          .version = info->since,
                          .n_inputs = record->n_inputs,
                          .n_outputs = record->n_outputs,
                          .n_attrs = n_attrs,
                          .position = op,
                          .inputs = storage->operands,
                          .outputs = storage->operands + record->n_inputs,
                          .attrs = storage->attrs};
    return &storage->op;
}
