// SPDX-License-Identifier: MIT OR Apache-2.0
// The recorded segment: operations as they were recorded, and their relative form. Tensors and
// dimension values are numbered by first sight (the value 1 is symbol 0), scalars become numbered
// places, attributes that follow from shapes are left out, and facts that a kernel may rely on are
// written down. Two recorded segments with equal words can run the same plan. This is the hot path
// of recording: one pass, no allocation once the arrays have grown.
#include <string.h>

#include "recorded.h"

static const uint32_t dropped_unseen = 1u << 30;

enum { RANK_SHIFT = 8, FACTS_SHIFT = 12, ALIGN_SHIFT = 19 };

enum { ATTR_COUNT_SHIFT = 8, SCALAR_PLACE = 1u << 7 };

void kilni_fuse_recorded_init(kilni_fuse_recorded *recorded, const kiln_env *env,
                              uint32_t device_align)
{
    *recorded = (kilni_fuse_recorded){.env = env};
    kiln_arena_init(&recorded->arena, env);
    while (recorded->device_align_log2 < 12 &&
           (2u << recorded->device_align_log2) <= device_align) {
        recorded->device_align_log2++;
    }
}

void kilni_fuse_recorded_fini(kilni_fuse_recorded *recorded)
{
    const kiln_env *env = recorded->env;
    kiln_arena_fini(&recorded->arena);
    kiln_free(env, recorded->ops);
    kiln_free(env, (void *)recorded->operands);
    kiln_free(env, recorded->marks);
    kiln_free(env, recorded->tensors);
    kiln_free(env, recorded->tokens);
    kiln_free(env, recorded->infos);
    kiln_free(env, recorded->symbols);
    kiln_free(env, recorded->scalars);
    kiln_free(env, recorded->words);
    kilni_fuse_map_fini(&recorded->tensor_map, env);
    kilni_fuse_map_fini(&recorded->symbol_map, env);
}

void kilni_fuse_recorded_clear(kilni_fuse_recorded *recorded)
{
    kiln_arena_reset(&recorded->arena);
    recorded->n_ops = 0;
    recorded->n_tensors = 0;
    recorded->n_symbols = 0;
    recorded->n_scalars = 0;
    recorded->n_words = 0;
    kilni_fuse_map_clear(&recorded->tensor_map);
    kilni_fuse_map_clear(&recorded->symbol_map);
}

/// Words that the attributes can take at most: a head each, and two words for each number.
static uint64_t attr_words(const kiln_op_record *record)
{
    uint64_t words = 0;
    for (uint32_t i = 0; i < record->n_attrs; i++) {
        words += 4 + 2 * (uint64_t)record->attrs[i].count;
        if (record->attrs[i].type == KILN_ATTR_TENSOR) {
            int64_t bytes = kiln_desc_bytes(&record->attrs[i].v.tensor->desc);
            words += 16 + (bytes < 0 ? 0 : (uint64_t)bytes / 4);
        }
    }
    return words;
}

typedef struct room { ///< elements of the recorded segment's arrays
    uint64_t ops;
    uint64_t tensors;
    uint64_t symbols;
    uint64_t scalars;
    uint64_t words;
    uint32_t operands;
} room;

/// On the hot path: what one operation needs is there.
static bool has_room(const kilni_fuse_recorded *recorded, const room *need)
{
    return need->ops <= recorded->ops_capacity && need->ops <= recorded->operands_capacity &&
           need->ops <= recorded->marks_capacity && need->tensors <= recorded->tensors_capacity &&
           need->tensors <= recorded->tokens_capacity &&
           need->tensors <= recorded->infos_capacity &&
           need->symbols <= recorded->symbols_capacity &&
           need->scalars <= recorded->scalars_capacity && need->words <= recorded->words_capacity &&
           kilni_fuse_map_has_room(&recorded->tensor_map, need->operands) &&
           kilni_fuse_map_has_room(&recorded->symbol_map, need->operands * KILN_MAX_RANK + 1);
}

static bool make_room(kilni_fuse_recorded *recorded, const room *need)
{
    const kiln_env *env = recorded->env;
    uint64_t ops = need->ops, tensors = need->tensors;
    return kilni_fuse_grow(env, &recorded->ops, &recorded->ops_capacity, ops,
                           sizeof(*recorded->ops)) &&
           kilni_fuse_grow(env, &recorded->operands, &recorded->operands_capacity, ops,
                           sizeof(*recorded->operands)) &&
           kilni_fuse_grow(env, &recorded->marks, &recorded->marks_capacity, ops,
                           sizeof(*recorded->marks)) &&
           kilni_fuse_grow(env, &recorded->tensors, &recorded->tensors_capacity, tensors,
                           sizeof(*recorded->tensors)) &&
           kilni_fuse_grow(env, &recorded->tokens, &recorded->tokens_capacity, tensors,
                           sizeof(*recorded->tokens)) &&
           kilni_fuse_grow(env, &recorded->infos, &recorded->infos_capacity, tensors,
                           sizeof(*recorded->infos)) &&
           kilni_fuse_grow(env, &recorded->symbols, &recorded->symbols_capacity, need->symbols,
                           sizeof(*recorded->symbols)) &&
           kilni_fuse_grow(env, &recorded->scalars, &recorded->scalars_capacity, need->scalars,
                           sizeof(*recorded->scalars)) &&
           kilni_fuse_grow(env, &recorded->words, &recorded->words_capacity, need->words,
                           sizeof(*recorded->words)) &&
           kilni_fuse_map_reserve(&recorded->tensor_map, env, need->operands) &&
           kilni_fuse_map_reserve(&recorded->symbol_map, env, need->operands * KILN_MAX_RANK + 1);
}

/// Everything that one operation can need, so that nothing fails half way.
static bool reserve(kilni_fuse_recorded *recorded, const kiln_op_record *record)
{
    uint32_t operands = (uint32_t)record->n_inputs + record->n_outputs;
    room need = {.ops = (uint64_t)recorded->n_ops + 1,
                 .tensors = (uint64_t)recorded->n_tensors + operands,
                 .symbols = (uint64_t)recorded->n_symbols + 1 + (uint64_t)operands * KILN_MAX_RANK,
                 .scalars = (uint64_t)recorded->n_scalars + record->n_attrs,
                 .words = recorded->n_words + 1 + (uint64_t)operands * (1 + KILN_MAX_RANK + 2),
                 .operands = operands};
    need.words += record->n_attrs == 0 ? 0 : attr_words(record);
    return has_room(recorded, &need) || make_room(recorded, &need);
}

static bool copy_attr(kiln_arena *arena, kiln_attr *attr)
{
    const void *copy = attr;
    if (attr->type == KILN_ATTR_I64_LIST) {
        copy = kiln_arena_copy(arena, attr->v.ints, attr->count * sizeof(*attr->v.ints));
        attr->v.ints = copy;
    } else if (attr->type == KILN_ATTR_F64_LIST) {
        copy = kiln_arena_copy(arena, attr->v.floats, attr->count * sizeof(*attr->v.floats));
        attr->v.floats = copy;
    } else if (attr->type == KILN_ATTR_STRING) {
        char *text = kiln_arena_alloc(arena, (size_t)attr->count + 1);
        if (text != NULL) {
            memcpy(text, attr->v.text, attr->count);
        }
        copy = text;
        attr->v.text = text;
    } else if (attr->type == KILN_ATTR_TENSOR) {
        kiln_tensor_const *tensor = kiln_arena_copy(arena, attr->v.tensor, sizeof(*tensor));
        int64_t bytes = kiln_desc_bytes(&attr->v.tensor->desc);
        if (tensor == NULL || bytes < 0) {
            return false;
        }
        tensor->data = kiln_arena_copy(arena, tensor->data, (size_t)bytes);
        copy = tensor->data;
        attr->v.tensor = tensor;
    }
    return copy != NULL;
}

typedef struct op_copy { ///< one allocation: descriptions, attributes, tokens, references
    kiln_op_record record;
    void **tokens;
    uint32_t *refs;
} op_copy;

static bool copy_op(kiln_arena *arena, const kiln_op_record *record, void *const *tokens,
                    op_copy *out_copy)
{
    size_t n_inputs = record->n_inputs;
    size_t operands = n_inputs + record->n_outputs;
    size_t desc_bytes = operands * sizeof(kiln_tensor_desc);
    size_t attr_bytes = record->n_attrs * sizeof(kiln_attr);
    size_t token_bytes = operands * sizeof(void *);
    char *place = kiln_arena_alloc(arena, desc_bytes + attr_bytes + token_bytes +
                                              operands * sizeof(uint32_t));
    if (place == NULL) {
        return false;
    }
    kiln_tensor_desc *descs = (kiln_tensor_desc *)(void *)place;
    if (n_inputs > 0) {
        memcpy(descs, record->inputs, n_inputs * sizeof(*descs));
    }
    if (record->n_outputs > 0) {
        memcpy(descs + n_inputs, record->outputs, record->n_outputs * sizeof(*descs));
    }
    kiln_attr *attrs = (kiln_attr *)(void *)(place + desc_bytes);
    out_copy->record = *record;
    out_copy->record.inputs = descs;
    out_copy->record.outputs = descs + n_inputs;
    out_copy->record.attrs = attrs;
    out_copy->tokens = (void **)(void *)(place + desc_bytes + attr_bytes);
    out_copy->refs = (uint32_t *)(void *)(place + desc_bytes + attr_bytes + token_bytes);
    memcpy(out_copy->tokens, tokens, token_bytes);
    for (uint32_t i = 0; i < record->n_attrs; i++) {
        attrs[i] = record->attrs[i];
        if (attrs[i].type >= KILN_ATTR_I64_LIST && !copy_attr(arena, &attrs[i])) {
            return false;
        }
    }
    return true;
}

static uint32_t class_of(int64_t value)
{
    if (value == 0) {
        return KILNI_FUSE_LENGTH_EMPTY;
    }
    if (value % 16 == 0) {
        return KILNI_FUSE_LENGTH_BY_16;
    }
    return value % 4 == 0 ? KILNI_FUSE_LENGTH_BY_4 : KILNI_FUSE_LENGTH_ANY;
}

static uint32_t symbol_word(kilni_fuse_recorded *recorded, int64_t value, uint32_t *out_symbol)
{
    if (recorded->n_symbols == 0) {
        recorded->symbols[recorded->n_symbols++] = 1;
    }
    if (value == 1) {
        *out_symbol = 0;
        return 0;
    }
    uint32_t symbol = kilni_fuse_map_find(&recorded->symbol_map, (uint64_t)value);
    *out_symbol = symbol;
    if (symbol != KILNI_FUSE_NONE) {
        return symbol;
    }
    symbol = recorded->n_symbols++;
    recorded->symbols[symbol] = value;
    kilni_fuse_map_put(&recorded->symbol_map, (uint64_t)value, symbol);
    *out_symbol = symbol;
    return symbol | KILNI_FUSE_NEW_SYMBOL | class_of(value) << KILNI_FUSE_LENGTH_SHIFT;
}

static uint8_t natural_align(kiln_dtype dtype)
{
    size_t bytes = kiln_dtype_size(dtype);
    uint8_t log2 = 0;
    while ((2u << log2) <= bytes) {
        log2++;
    }
    return log2;
}

/// Few classes, so that a view at another place is the same plan: natural, 16 bytes, a buffer's
/// base.
static uint8_t align_class(const kilni_fuse_recorded *recorded, const kiln_tensor_desc *desc)
{
    if (desc->align_log2 >= recorded->device_align_log2) {
        return recorded->device_align_log2;
    }
    uint8_t natural = natural_align(desc->dtype);
    return desc->align_log2 >= 4 && natural < 4 ? 4 : natural;
}

static bool fits_i32(const kiln_tensor_desc *desc)
{
    int64_t count = kiln_desc_count(desc);
    return count >= 0 && count < INT32_MAX;
}

static void set_dense(kilni_fuse_recorded *recorded, const kiln_tensor_desc *desc,
                      kilni_fuse_tensor_info *info)
{
    info->facts = KILNI_FUSE_FACT_CONTIGUOUS | KILNI_FUSE_FACT_ZERO_OFFSET;
    info->facts |= fits_i32(desc) ? KILNI_FUSE_FACT_FITS_I32 : 0;
    info->align_log2 = recorded->device_align_log2;
}

/// What is known of a tensor that was there before this recorded segment.
static void set_external(kilni_fuse_recorded *recorded, const kiln_tensor_desc *desc,
                         const kilni_fuse_recorded *before, kilni_fuse_tensor_info *info)
{
    uint32_t old =
        before == NULL ? KILNI_FUSE_NONE : kilni_fuse_map_find(&before->tensor_map, desc->id);
    if (old != KILNI_FUSE_NONE && (before->infos[old].facts & KILNI_FUSE_FACT_PRODUCED) != 0) {
        info->facts = (uint8_t)(before->infos[old].facts & ~KILNI_FUSE_FACT_PRODUCED);
        info->align_log2 = before->infos[old].align_log2;
        return;
    }
    info->align_log2 = natural_align(desc->dtype);
    if ((desc->flags & KILN_TENSOR_PLACED) == 0) {
        return;
    }
    info->align_log2 = align_class(recorded, desc);
    info->facts = (desc->flags & KILN_TENSOR_CONST) != 0 ? KILNI_FUSE_FACT_CONST : 0;
    info->facts |= (desc->flags & KILN_TENSOR_LINES) != 0 ? KILNI_FUSE_FACT_LINES : 0;
    info->facts |= (desc->flags & KILN_TENSOR_COLUMNS) != 0 ? KILNI_FUSE_FACT_COLUMNS : 0;
    if ((desc->flags & (KILN_TENSOR_CONTIGUOUS | KILN_TENSOR_TURNED)) == 0) {
        return;
    }
    info->facts |= (desc->flags & KILN_TENSOR_CONTIGUOUS) != 0 ? KILNI_FUSE_FACT_CONTIGUOUS
                                                               : KILNI_FUSE_FACT_TURNED;
    if ((desc->flags & KILN_TENSOR_ZERO_OFFSET) != 0) {
        info->facts |= KILNI_FUSE_FACT_ZERO_OFFSET;
        info->facts |= fits_i32(desc) ? KILNI_FUSE_FACT_FITS_I32 : 0;
    }
}

/// The axis of its input that axis `i` of a permuted tensor is.
static int permuted_from(const kiln_op_record *record, uint32_t i)
{
    int rank = record->inputs[0].rank;
    const kiln_attr *axes = &record->attrs[0];
    bool listed = axes->type == KILN_ATTR_I64_LIST && (int)axes->count == rank;
    int from = listed ? (int)axes->v.ints[i] : rank - 1 - (int)i;
    return from < 0 ? from + rank : from;
}

/// Whether a view of a contiguous tensor has its last two axes swapped, and no others.
static bool is_turned(const kiln_op_record *record)
{
    uint32_t rank = record->inputs[0].rank;
    if (record->op != KILN_OP_PERMUTE || rank < 2) {
        return false;
    }
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t swapped = i + 2 < rank ? i : i + 1 < rank ? rank - 1 : rank - 2;
        if (permuted_from(record, i) != (int)swapped) {
            return false;
        }
    }
    return true;
}

/// The axis along which elements lie side by side, as far as facts say; -1: none.
static int dense_axis(const kiln_tensor_desc *desc, uint32_t facts)
{
    if ((facts & (KILNI_FUSE_FACT_CONTIGUOUS | KILNI_FUSE_FACT_LINES)) != 0) {
        return (int)desc->rank - 1;
    }
    return (facts & (KILNI_FUSE_FACT_TURNED | KILNI_FUSE_FACT_COLUMNS)) != 0 ? (int)desc->rank - 2
                                                                             : -1;
}

/// Where a view has that axis of its input; -1: nowhere, or it is not known.
static int dense_axis_of_view(const kiln_op_record *record, int axis)
{
    const kiln_tensor_desc *in = &record->inputs[0], *out = &record->outputs[0];
    const kiln_attr *steps = kiln_op_attr(record, KILN_KEY_STEPS);
    int to = axis + (int)out->rank - (int)in->rank;
    switch (record->op) {
    case KILN_OP_PERMUTE:
        for (uint32_t i = 0; i < out->rank; i++) {
            if (permuted_from(record, i) == axis) {
                return (int)i;
            }
        }
        return -1;
    case KILN_OP_SLICE:
        return steps == NULL || steps->type != KILN_ATTR_I64_LIST || (int)steps->count <= axis ||
                       steps->v.ints[axis] == 1
                   ? axis
                   : -1;
    case KILN_OP_RESHAPE: // also where it copies
        return axis + 1 == (int)in->rank && to >= 0 && in->dims[axis] == out->dims[to] ? to : -1;
    case KILN_OP_EXPAND:
        return in->dims[axis] == out->dims[to] ? to : -1;
    default:
        return -1;
    }
}

/// What is known of a view that is neither contiguous nor turned.
static uint8_t view_lies(const kiln_op_record *record, uint32_t input_facts)
{
    int axis = dense_axis(&record->inputs[0], input_facts), rank = record->outputs[0].rank;
    int to = axis < 0 ? -1 : dense_axis_of_view(record, axis);
    return to < 0           ? 0
           : to + 1 == rank ? KILNI_FUSE_FACT_LINES
           : to + 2 == rank ? KILNI_FUSE_FACT_COLUMNS
                            : 0;
}

/// Whether a view of a contiguous tensor has all of its elements in their order.
static bool keeps_all(const kiln_op_record *record)
{
    const kiln_tensor_desc *in = &record->inputs[0], *out = &record->outputs[0];
    return record->op == KILN_OP_RESHAPE ||
           (record->op == KILN_OP_EXPAND && kiln_desc_count(in) == kiln_desc_count(out));
}

/// An unfused operation gives a dense result, save a view, which shares its input's memory.
static void set_produced(kilni_fuse_recorded *recorded, const kiln_op_record *record,
                         const uint32_t *refs, const kiln_tensor_desc *desc,
                         kilni_fuse_tensor_info *info)
{
    if (kiln_op_info_of(record->op)->cls != KILN_CLASS_VIEW) {
        set_dense(recorded, desc, info);
    } else {
        const kilni_fuse_tensor_info *input = &recorded->infos[refs[0]];
        bool dense = (input->facts & KILNI_FUSE_FACT_CONTIGUOUS) != 0;
        info->align_log2 = input->align_log2;
        if (dense && keeps_all(record)) {
            info->facts = (uint8_t)(input->facts & ~KILNI_FUSE_FACT_CONST);
        } else if (dense && is_turned(record)) {
            uint32_t kept = KILNI_FUSE_FACT_ZERO_OFFSET | KILNI_FUSE_FACT_FITS_I32;
            info->facts = (uint8_t)((input->facts & kept) | KILNI_FUSE_FACT_TURNED);
        } else {
            info->facts = view_lies(record, input->facts);
            info->align_log2 = natural_align(desc->dtype);
        }
    }
    info->facts |= KILNI_FUSE_FACT_PRODUCED;
}

/// Writes the rank, dtype, facts and dimensions of a tensor that is seen for the first time.
static bool write_dims(kilni_fuse_recorded *recorded, const kiln_tensor_desc *desc,
                       kilni_fuse_tensor_info *info)
{
    uint32_t *words = recorded->words + recorded->n_words;
    uint32_t facts = info->facts & (uint8_t)~KILNI_FUSE_FACT_PRODUCED;
    *words++ = KILNI_FUSE_NEW_TENSOR | (uint32_t)desc->dtype | (uint32_t)desc->rank << RANK_SHIFT |
               facts << FACTS_SHIFT | (uint32_t)info->align_log2 << ALIGN_SHIFT;
    bool empty = false;
    for (uint32_t i = 0; i < desc->rank; i++) {
        *words++ = symbol_word(recorded, desc->dims[i], &info->symbols[i]);
        empty = empty || desc->dims[i] == 0;
    }
    if (desc->scheme != 0) {
        *words++ = (uint32_t)desc->scheme;
        *words++ = (uint32_t)(desc->scheme >> 32);
    }
    info->has_dims = true;
    recorded->n_words = (uint32_t)(words - recorded->words);
    return empty;
}

static bool is_empty(const kiln_tensor_desc *desc)
{
    for (uint32_t i = 0; i < desc->rank; i++) {
        if (desc->dims[i] == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t add_tensor(kilni_fuse_recorded *recorded, const kiln_tensor_desc *desc, void *token)
{
    uint32_t tensor = recorded->n_tensors++;
    recorded->tensors[tensor] = *desc;
    recorded->tokens[tensor] = token;
    recorded->infos[tensor] = (kilni_fuse_tensor_info){0};
    kilni_fuse_map_put(&recorded->tensor_map, desc->id, tensor);
    return tensor;
}

/// One input; gives whether it has no elements.
static bool write_input(kilni_fuse_recorded *recorded, const op_copy *op, uint32_t index,
                        const kilni_fuse_recorded *before)
{
    const kiln_tensor_desc *desc = &op->record.inputs[index];
    uint32_t tensor = kilni_fuse_map_find(&recorded->tensor_map, desc->id);
    if (tensor != KILNI_FUSE_NONE &&
        (recorded->infos[tensor].has_dims || op->record.op == KILN_OP_DROP)) {
        op->refs[index] = tensor;
        recorded->words[recorded->n_words++] = tensor;
        return is_empty(desc);
    }
    if (tensor == KILNI_FUSE_NONE) {
        tensor = add_tensor(recorded, desc, op->tokens[index]);
    }
    op->refs[index] = tensor;
    kilni_fuse_tensor_info *info = &recorded->infos[tensor];
    set_external(recorded, desc, before, info);
    if (op->record.op == KILN_OP_DROP) {
        recorded->words[recorded->n_words++] = dropped_unseen;
        return false;
    }
    return write_dims(recorded, desc, info);
}

static bool write_output(kilni_fuse_recorded *recorded, const op_copy *op, uint32_t index)
{
    const kiln_tensor_desc *desc = &op->record.outputs[index];
    uint32_t slot = op->record.n_inputs + index;
    uint32_t tensor = add_tensor(recorded, desc, op->tokens[slot]);
    op->refs[slot] = tensor;
    set_produced(recorded, &op->record, op->refs, desc, &recorded->infos[tensor]);
    return write_dims(recorded, desc, &recorded->infos[tensor]);
}

static void write_bytes(kilni_fuse_recorded *recorded, const void *bytes, size_t length)
{
    uint32_t words = (uint32_t)((length + 3) / 4);
    if (words > 0) {
        recorded->words[recorded->n_words + words - 1] = 0;
        memcpy(recorded->words + recorded->n_words, bytes, length);
        recorded->n_words += words;
    }
}

static void write_identity(kilni_fuse_recorded *recorded, const kiln_attr *attr)
{
    recorded->words[recorded->n_words++] = (uint32_t)attr->type | attr->count << ATTR_COUNT_SHIFT;
    switch (attr->type) {
    case KILN_ATTR_NONE:
        return;
    case KILN_ATTR_I64_LIST:
        write_bytes(recorded, attr->v.ints, attr->count * sizeof(*attr->v.ints));
        return;
    case KILN_ATTR_F64_LIST:
        write_bytes(recorded, attr->v.floats, attr->count * sizeof(*attr->v.floats));
        return;
    case KILN_ATTR_STRING:
        write_bytes(recorded, attr->v.text, attr->count);
        return;
    case KILN_ATTR_TENSOR:
        recorded->words[recorded->n_words++] = (uint32_t)attr->v.tensor->desc.dtype;
        recorded->words[recorded->n_words++] = attr->v.tensor->desc.rank;
        write_bytes(recorded, attr->v.tensor->desc.dims,
                    attr->v.tensor->desc.rank * sizeof(int64_t));
        write_bytes(recorded, attr->v.tensor->data, (size_t)kiln_desc_bytes(&attr->v.tensor->desc));
        return;
    default:
        write_bytes(recorded, &attr->v.i, sizeof(attr->v.i));
    }
}

static kiln_attr scalar_value(const kiln_attr_spec *spec, const kiln_attr *attr)
{
    if (attr->type != KILN_ATTR_NONE) {
        return *attr;
    }
    return kiln_attr_type_of(spec->key) == KILN_ATTR_I64
               ? (kiln_attr){KILN_ATTR_I64, 1, {.i = (int64_t)spec->fallback}}
               : (kiln_attr){KILN_ATTR_F64, 1, {.f = spec->fallback}};
}

static void write_scalar(kilni_fuse_recorded *recorded, const kiln_attr_spec *spec,
                         const kiln_attr *attr)
{
    kiln_attr value = scalar_value(spec, attr);
    recorded->words[recorded->n_words++] = SCALAR_PLACE | (uint32_t)value.type;
    recorded->scalars[recorded->n_scalars++] = value;
}

static void write_attrs(kilni_fuse_recorded *recorded, const kiln_op_record *record)
{
    const kiln_op_signature *signature = kiln_op_info_of(record->op)->signature;
    for (uint32_t i = 0; i < record->n_attrs && i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        if (spec->role == KILN_ROLE_SCALAR) {
            write_scalar(recorded, spec, &record->attrs[i]);
        } else if (spec->role == KILN_ROLE_IDENTITY) {
            write_identity(recorded, &record->attrs[i]);
        }
    }
}

void kilni_fuse_recorded_set_scalar(kilni_fuse_recorded *recorded, uint32_t op, uint32_t attr,
                                    const kiln_attr *value)
{
    const kiln_op_record *record = &recorded->ops[op];
    const kiln_op_signature *signature = kiln_op_info_of(record->op)->signature;
    uint32_t place = op > 0 ? recorded->marks[op - 1].n_scalars : 0;
    for (uint32_t i = 0; i < attr; i++) {
        place += signature->attrs[i].role == KILN_ROLE_SCALAR ? 1 : 0;
    }
    ((kiln_attr *)(uintptr_t)record->attrs)[attr] = *value; // the recorded segment's own copy
    recorded->scalars[place] = scalar_value(&signature->attrs[attr], value);
}

kiln_status kilni_fuse_recorded_push(kilni_fuse_recorded *recorded, const kiln_op_record *record,
                                     void *const *tokens, const kilni_fuse_recorded *before,
                                     kiln_error *err)
{
    op_copy op;
    if (!reserve(recorded, record) || !copy_op(&recorded->arena, record, tokens, &op)) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to record an operation");
    }
    bool empty = false;
    recorded->words[recorded->n_words++] = kiln_op_info_of(record->op)->wire |
                                           (uint32_t)record->n_inputs << 16 |
                                           (uint32_t)record->n_outputs << 24;
    for (uint32_t i = 0; i < record->n_inputs; i++) {
        empty = write_input(recorded, &op, i, before) || empty;
    }
    for (uint32_t i = 0; i < record->n_outputs; i++) {
        empty = write_output(recorded, &op, i) || empty;
    }
    if (record->n_attrs > 0) {
        write_attrs(recorded, record);
    }
    recorded->ops[recorded->n_ops] = op.record;
    recorded->operands[recorded->n_ops] = op.tokens;
    recorded->marks[recorded->n_ops] = (kilni_fuse_mark){.refs = op.refs,
                                                         .words_end = recorded->n_words,
                                                         .n_tensors = recorded->n_tensors,
                                                         .n_symbols = recorded->n_symbols,
                                                         .n_scalars = recorded->n_scalars,
                                                         .empty_extent = empty};
    recorded->n_ops++;
    return KILN_STATUS_OK;
}
