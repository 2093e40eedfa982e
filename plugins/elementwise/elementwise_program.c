// SPDX-License-Identifier: MIT OR Apache-2.0
// The program around the kernel: its bindings in the order of ew_param_at, launch formulas, name,
// key and estimates. Decides nothing about the computation.
#include "elementwise_internal.h"

enum {
    MAX_ARGS = KF_CHAIN_VALUES + KF_CHAIN_NUMBERS,
    CHUNK_MIN = 2048, // elements of one work-item in block shape: enough to hide its cost
    CHUNK_MAX = 65536, // and few enough to share the work evenly
    CHUNK_STEP = 256, // keeps every chunk's first address aligned
    CHUNKS_PER_UNIT = 8,
    GROUP_SIZE = 256,
    PAIR_GROUP_SIZE = 128
};

struct ew_program {
    kf_text code;
    kf_text name;
    uint8_t key[16];
    uint32_t len;
    uint32_t n_args;
    kf_source source;
    kf_launch launch;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
    kf_formula count; // elements
    kf_formula chunk;
    kf_formula global;
    kf_formula local;
    kf_formula extents[EW_MAX_GROUPS];
    kf_formula lengths[EW_MAX_GATHERS];
    uint32_t in_place; ///< no element is read by another work-item
    kf_karg args[MAX_ARGS];
};

// ---- formulas ----

static void extent_formula(kf_formula *f, const ew_block *block, const ew_group *group)
{
    kf_formula_product(f, block->chain.values[block->space].symbols + group->first_axis,
                       group->n_axes);
}

static void grid_formulas(ew_program *p, const ew_block *block, const ew_layout *layout,
                          const kf_chain_device *device)
{
    const kf_chain_value *space = &block->chain.values[block->space];
    kf_formula_product(&p->count, space->symbols, space->rank);
    if (!device->block_shape) {
        uint32_t most = layout->pairs ? PAIR_GROUP_SIZE : GROUP_SIZE;
        uint32_t group = device->max_group < most ? device->max_group : most;
        kf_formula_append(&p->global, kf_formula_expr(&p->count));
        kf_formula_imm(&p->global, layout->width << layout->pairs);
        kf_formula_op(&p->global, KF_INS_CEIL_DIV);
        kf_formula_imm(&p->global, group == 0 ? 1 : group);
        kf_formula_op(&p->global, KF_INS_ROUND_UP);
        kf_formula_imm(&p->local, group == 0 ? 1 : group);
        return;
    }
    // chunk = min(max(round_up(ceil(n / (8 * units)), 256), 2048), 65536)
    kf_formula_append(&p->chunk, kf_formula_expr(&p->count));
    kf_formula_put(&p->chunk, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_imm(&p->chunk, CHUNKS_PER_UNIT);
    kf_formula_op(&p->chunk, KF_INS_MUL);
    kf_formula_op(&p->chunk, KF_INS_CEIL_DIV);
    kf_formula_imm(&p->chunk, CHUNK_STEP);
    kf_formula_op(&p->chunk, KF_INS_ROUND_UP);
    kf_formula_imm(&p->chunk, CHUNK_MIN);
    kf_formula_op(&p->chunk, KF_INS_MAX);
    kf_formula_imm(&p->chunk, CHUNK_MAX);
    kf_formula_op(&p->chunk, KF_INS_MIN);
    kf_formula_append(&p->global, kf_formula_expr(&p->count));
    kf_formula_append(&p->global, kf_formula_expr(&p->chunk));
    kf_formula_op(&p->global, KF_INS_CEIL_DIV);
    kf_formula_imm(&p->local, 1);
}

// ---- bindings ----

static void bind(ew_program *p, const ew_block *block, const ew_layout *layout,
                 const ew_param *param, kf_karg *arg)
{
    const kf_chain_value *value = NULL;
    arg->dtype = layout->wide ? KF_DTYPE_I64 : KF_DTYPE_I32;
    switch (param->kind) {
    case EW_PARAM_INPUT:
    case EW_PARAM_OUTPUT:
        value = &block->chain.values[param->kind == EW_PARAM_INPUT ? layout->inputs[param->index]
                                                                   : layout->outputs[param->index]];
        kf_chain_bind_tensor(arg, value,
                             param->kind == EW_PARAM_INPUT ? KF_ACCESS_READ : KF_ACCESS_WRITE);
        break;
    case EW_PARAM_OFFSET:
        arg->kind = KF_ARG_OFFSET;
        arg->ref = block->chain.values[layout->inputs[param->index]].id;
        break;
    case EW_PARAM_STRIDE:
        value = &block->chain.values[layout->inputs[param->index]];
        kf_chain_bind_place(
            arg, value, KF_ARG_STRIDE,
            (uint32_t)ew_value_axis(block, value, layout->groups[param->axis].first_axis));
        break;
    case EW_PARAM_SCALAR:
        kf_chain_bind_number(arg, &block->chain.numbers[param->index]);
        break;
    case EW_PARAM_EXTENT:
        extent_formula(&p->extents[param->index], block, &layout->groups[param->index]);
        arg->kind = KF_ARG_VALUE;
        arg->value = kf_formula_expr(&p->extents[param->index]);
        break;
    case EW_PARAM_LENGTH:
        value = &block->chain.values[block->gathers[param->index].x];
        kf_formula_product(&p->lengths[param->index],
                           &value->symbols[block->gathers[param->index].axis], 1);
        arg->kind = KF_ARG_VALUE;
        arg->value = kf_formula_expr(&p->lengths[param->index]);
        break;
    case EW_PARAM_PACE:
        arg->kind = KF_ARG_STRIDE;
        arg->ref = block->chain.values[block->gathers[param->index].x].id;
        arg->axis = block->gathers[param->index].axis;
        break;
    case EW_PARAM_COUNT:
        arg->kind = KF_ARG_VALUE;
        arg->value = kf_formula_expr(&p->count);
        break;
    case EW_PARAM_CHUNK:
        arg->kind = KF_ARG_VALUE;
        arg->value = kf_formula_expr(&p->chunk);
        break;
    }
}

static void bind_all(ew_program *p, const ew_block *block, const ew_layout *layout,
                     const kf_chain_device *device)
{
    ew_param param;
    while (p->n_args < MAX_ARGS && ew_param_at(block, layout, p->n_args, &param)) {
        if (param.kind == EW_PARAM_CHUNK && !device->block_shape) {
            break;
        }
        bind(p, block, layout, &param, &p->args[p->n_args]);
        p->n_args++;
    }
}

// ---- name ----

static void make_name(kf_text *name, const ew_block *block)
{
    const char *ops[KF_CHAIN_OPS];
    for (uint32_t i = 0; i < block->chain.n_ops; i++) {
        const kf_chain_op *op = &block->chain.ops[i];
        ops[i] = op->row != NULL         ? op->row->name
                 : op->kind >= EW_GATHER ? ew_gather_name(block, op)
                                         : ew_draw_name(block, op);
    }
    kf_chain_name(name, "elementwise", ops, block->chain.n_ops);
}

// ---- life ----

static void fill(ew_program *p)
{
    p->source.struct_size = (uint32_t)sizeof(p->source);
    p->source.format = KF_FORMAT_OPENCL_C;
    p->source.code.ptr = p->code.ptr;
    p->source.code.len = p->code.len;
    p->source.cl_c_version = 120;
    p->launch.struct_size = (uint32_t)sizeof(p->launch);
    p->launch.dims = 1;
    p->launch.n_args = p->n_args;
    p->launch.kernel.ptr = "kiln_elementwise";
    p->launch.kernel.len = strlen(p->launch.kernel.ptr);
    p->launch.global[0] = kf_formula_expr(&p->global);
    p->launch.local[0] = kf_formula_expr(&p->local);
    p->launch.args = p->args;
    p->step.kind = KF_STEP_LAUNCH;
    p->sources[0] = &p->source;
    p->launches[0] = &p->launch;
}

ew_program *ew_program_create(const ew_block *block, const kf_chain_device *device)
{
    ew_layout layout;
    ew_program *p = (ew_program *)calloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    ew_layout_plan(&layout, block, device);
    p->len = block->len;
    p->in_place = block->n_gathers == 0;
    ew_emit_kernel(&p->code, block, &layout, device);
    make_name(&p->name, block);
    grid_formulas(p, block, &layout, device);
    bind_all(p, block, &layout, device);
    if (p->code.failed || p->name.failed || p->global.failed || p->chunk.failed) {
        ew_program_destroy(p);
        return NULL;
    }
    fill(p);
    kf_launch_key(p->key, &p->code, &p->launch, p->len);
    return p;
}

void ew_program_destroy(ew_program *program)
{
    if (program != NULL) {
        kf_text_free(&program->code);
        kf_text_free(&program->name);
        free(program);
    }
}

void ew_program_describe(const ew_program *program, kf_program *out)
{
    kf_program view;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.flags = KF_PROGRAM_DETERMINISTIC;
    view.flags |= program->in_place ? KF_PROGRAM_IN_PLACE_SAFE : 0u;
    view.sources = program->sources;
    view.n_sources = 1;
    view.launches = program->launches;
    view.n_launches = 1;
    view.steps = &program->step;
    view.n_steps = 1;
    KF_OUT(out, &view);
}

void ew_program_info(const ew_program *program, kf_opt_info *out)
{
    kf_opt_info_fill(out, program->len, &program->name, program->key, sizeof(program->key));
}

// ---- estimates ----

static uint32_t has_space_shape(const ew_block *block, const kf_chain_value *value)
{
    const kf_chain_value *space = &block->chain.values[block->space];
    return value->rank == space->rank &&
           memcmp(value->symbols, space->symbols, space->rank * sizeof(space->symbols[0])) == 0;
}

/// Pushes the bytes of all inputs or of all outputs. Tensors of the space's shape share one
/// product; when the formula would grow too long, the other ones count as if they had that shape.
static void traffic(kf_formula *f, const ew_block *block, uint32_t outputs)
{
    const kf_chain_value *space = &block->chain.values[block->space];
    int64_t per_element = 0;
    kf_formula_imm(f, 0);
    for (uint32_t i = 0; i < block->chain.n_values; i++) {
        const kf_chain_value *value = &block->chain.values[i];
        uint32_t bytes = kf_dtype_of(value->dtype).bytes;
        if (outputs ? !kf_chain_is_output(value) : value->computed) {
            continue;
        }
        uint32_t gather = ew_gather_of(block, i);
        uint32_t is_taken =
            gather != KF_NONE && block->gathers[gather].x == i; // what is used of it
        if (has_space_shape(block, value) || is_taken || f->n > 48) {
            per_element += bytes;
            continue;
        }
        kf_formula_product(f, value->symbols, value->rank);
        kf_formula_imm(f, bytes);
        kf_formula_op(f, KF_INS_MUL);
        kf_formula_op(f, KF_INS_ADD);
    }
    kf_formula_product(f, space->symbols, space->rank);
    kf_formula_imm(f, per_element);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_op(f, KF_INS_ADD);
}

void ew_estimate_make(kf_estimate *estimate, const ew_block *block, const kf_chain_device *device)
{
    const kf_chain_value *space = &block->chain.values[block->space];
    kf_formula bytes = {0, 0, {{0, 0, 0, 0}}};
    kf_estimate_init(estimate);
    traffic(&estimate->read, block, 0);
    traffic(&estimate->written, block, 1);
    kf_formula_product(&estimate->flops, space->symbols, space->rank);
    kf_formula_imm(&estimate->flops, block->chain.flops);
    kf_formula_op(&estimate->flops, KF_INS_MUL);
    kf_formula_append(&bytes, kf_formula_expr(&estimate->read));
    kf_formula_append(&bytes, kf_formula_expr(&estimate->written));
    kf_formula_op(&bytes, KF_INS_ADD);
    kf_formula_roofline(&estimate->ns, &device->cost, kf_formula_expr(&bytes),
                        kf_formula_expr(&estimate->flops), 1);
}
