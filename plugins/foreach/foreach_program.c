// SPDX-License-Identifier: MIT OR Apache-2.0
// The program around the kernel: the first member as a chain of its own, bindings, name, key and
// the estimate. Decides nothing about the computation.
#include "foreach_internal.h"

struct fe_program {
    kf_text code;
    kf_text name;
    uint8_t key[16];
    uint32_t len;
    kf_source source;
    kf_launch launch;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
    kf_formula global;
    kf_formula local;
    kf_formula counts[FE_MAX_CLASSES];
    kf_karg args[FE_MAX_ARGS];
    fe_split split;
    kf_chain form;
};

// ---- the form ----

/// The form's number of the first member's value; it has it.
static uint16_t local_of(const uint16_t *of_first, uint32_t count, uint32_t value)
{
    uint32_t i = 0;
    while (i + 1 < count && of_first[i] != value) {
        i++;
    }
    return (uint16_t)i;
}

static void make_form(kf_chain *form, const fe_split *split, const fe_block *block)
{
    const kf_chain *chain = &block->chain;
    kf_chain_init(form);
    form->n_ops = split->n_ops;
    form->n_values = split->n_values;
    form->n_numbers = split->n_numbers;
    for (uint32_t i = 0; i < split->n_values; i++) {
        form->values[i] = chain->values[split->values[i]];
    }
    for (uint32_t i = 0; i < split->n_numbers; i++) {
        form->numbers[i] = chain->numbers[split->numbers[i]];
    }
    for (uint32_t k = 0; k < split->n_ops; k++) {
        kf_chain_op *op = &form->ops[k];
        *op = chain->ops[split->ops[k]];
        op->result = local_of(split->values, split->n_values, op->result);
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            op->inputs[i] = local_of(split->values, split->n_values, op->inputs[i]);
        }
        for (uint32_t i = 0; i < op->n_numbers; i++) {
            op->numbers[i] = local_of(split->numbers, split->n_numbers, op->numbers[i]);
        }
        form->flops += op->row->cost;
    }
}

// ---- bindings ----

/// Does another member read this member's tensor?
static uint32_t is_shared(const fe_split *split, uint32_t member, uint32_t value)
{
    for (uint32_t i = 0; i < split->n_members * split->n_values; i++) {
        if (split->values[i] == value && i / split->n_values != member) {
            return 1;
        }
    }
    return 0;
}

/// Members are groups for what is done in place: one may not write where another still reads. What
/// several read is nobody's.
static void bind_tensor(kf_karg *arg, const fe_split *split, const fe_block *block,
                        const fe_param *param)
{
    uint32_t value = split->values[param->member * split->n_values + param->local];
    arg->kind = KF_ARG_TENSOR;
    arg->access = split->locals[param->local].computed ? KF_ACCESS_WRITE : KF_ACCESS_READ;
    arg->ref = block->chain.values[value].id;
    arg->dtype = split->locals[param->local].dtype;
    arg->group = is_shared(split, param->member, value) ? 0 : param->member + 1u;
}

static void bind(fe_program *p, const fe_block *block, const fe_param *param, kf_karg *arg)
{
    const fe_split *split = &p->split;
    const kf_chain_number *number;
    uint32_t first = 0;
    arg->dtype = split->wide ? KF_DTYPE_I64 : KF_DTYPE_I32;
    switch (param->kind) {
    case FE_PARAM_TENSOR:
        bind_tensor(arg, split, block, param);
        break;
    case FE_PARAM_OFFSET:
        arg->kind = KF_ARG_OFFSET;
        arg->ref = fe_value(split, block, param->member, param->local)->id;
        break;
    case FE_PARAM_SCALAR:
        number =
            &block->chain.numbers[split->numbers[param->member * split->n_numbers + param->local]];
        arg->kind = KF_ARG_SCALAR;
        arg->ref = number->index;
        arg->dtype = number->dtype;
        break;
    default:
        for (uint32_t c = 0; c < param->local; c++) {
            first += split->class_size[c];
        }
        {
            const kf_chain_op *op =
                &block->chain.ops[split->ops[split->order[first] * split->n_ops]];
            const kf_chain_value *space = &block->chain.values[op->result];
            kf_formula_product(&p->counts[param->local], space->symbols, space->rank);
        }
        arg->kind = KF_ARG_VALUE;
        arg->value = kf_formula_expr(&p->counts[param->local]);
        break;
    }
}

static void make_name(kf_text *name, const fe_split *split, const kf_chain *form)
{
    const char *ops[KF_CHAIN_OPS];
    char title[32];
    for (uint32_t i = 0; i < form->n_ops; i++) {
        ops[i] = form->ops[i].row->name;
    }
    snprintf(title, sizeof(title), "foreach %u x ", split->n_members);
    kf_chain_name(name, title, ops, form->n_ops);
}

// ---- life ----

static void fill(fe_program *p, const fe_block *block, const kf_chain_device *device)
{
    uint32_t local = fe_shape_of(device).local;
    kf_formula_append(&p->global, kf_formula_expr(&p->split.groups));
    kf_formula_imm(&p->global, local);
    kf_formula_op(&p->global, KF_INS_MUL);
    kf_formula_imm(&p->local, local);
    for (uint32_t i = 0; i < p->split.n_params; i++) {
        bind(p, block, &p->split.params[i], &p->args[i]);
    }
    p->source.struct_size = (uint32_t)sizeof(p->source);
    p->source.format = KF_FORMAT_OPENCL_C;
    p->source.code.ptr = p->code.ptr;
    p->source.code.len = p->code.len;
    p->source.cl_c_version = 120;
    p->launch.struct_size = (uint32_t)sizeof(p->launch);
    p->launch.dims = 1;
    p->launch.n_args = p->split.n_params;
    p->launch.kernel.ptr = "kiln_foreach";
    p->launch.kernel.len = strlen(p->launch.kernel.ptr);
    p->launch.global[0] = kf_formula_expr(&p->global);
    p->launch.local[0] = kf_formula_expr(&p->local);
    p->launch.args = p->args;
    p->step.kind = KF_STEP_LAUNCH;
    p->sources[0] = &p->source;
    p->launches[0] = &p->launch;
}

fe_program *fe_program_create(const fe_block *block, const kf_chain_device *device)
{
    fe_program *p = (fe_program *)calloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    p->len = block->good_len;
    if (!fe_split_make(&p->split, block, block->good_ops, block->good_len, device)) {
        free(p);
        return NULL;
    }
    make_form(&p->form, &p->split, block);
    fe_emit_kernel(&p->code, &p->split, &p->form, device);
    make_name(&p->name, &p->split, &p->form);
    if (p->code.failed || p->name.failed) {
        fe_program_destroy(p);
        return NULL;
    }
    fill(p, block, device);
    kf_launch_key(p->key, &p->code, &p->launch, p->len);
    return p;
}

void fe_program_destroy(fe_program *program)
{
    if (program != NULL) {
        kf_text_free(&program->code);
        kf_text_free(&program->name);
        free(program);
    }
}

void fe_program_describe(const fe_program *program, kf_program *out)
{
    kf_program view;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.flags = KF_PROGRAM_DETERMINISTIC | KF_PROGRAM_IN_PLACE_SAFE;
    view.sources = program->sources;
    view.n_sources = 1;
    view.launches = program->launches;
    view.n_launches = 1;
    view.steps = &program->step;
    view.n_steps = 1;
    KF_OUT(out, &view);
}

void fe_program_info(const fe_program *program, kf_opt_info *out)
{
    kf_opt_info_fill(out, program->len, &program->name, program->key, sizeof(program->key));
}

// ---- the estimate ----

/// Pushes the elements of all members times `each`.
static void per_element(kf_formula *f, const fe_split *split, int64_t each)
{
    kf_formula_append(f, kf_formula_expr(&split->count));
    kf_formula_imm(f, each);
    kf_formula_op(f, KF_INS_MUL);
}

void fe_estimate_make(kf_estimate *estimate, const fe_split *split, const fe_block *block,
                      const kf_chain_device *device)
{
    int64_t read = 0, written = 0, flops = 0;
    for (uint32_t l = 0; l < split->n_values; l++) {
        const fe_local *local = &split->locals[l];
        uint32_t bytes = kf_dtype_of(local->dtype).bytes;
        read += !local->computed && !local->repeat ? bytes : 0;
        written += local->output ? bytes : 0;
    }
    for (uint32_t k = 0; k < split->n_ops; k++) {
        flops += block->chain.ops[split->ops[k]].row->cost;
    }
    kf_estimate_init(estimate);
    per_element(&estimate->read, split, read);
    per_element(&estimate->written, split, written);
    per_element(&estimate->flops, split, flops);
    // The roofline, elements last: both of its sides grow with them alone.
    int64_t moved_ps = (read + written) * device->cost.ps_per_kib;
    int64_t computed_ps = flops * device->cost.ps_per_kflop;
    per_element(&estimate->ns, split, moved_ps > computed_ps ? moved_ps : computed_ps);
    kf_formula_imm(&estimate->ns, 1024000);
    kf_formula_op(&estimate->ns, KF_INS_FLOOR_DIV);
    kf_formula_imm(&estimate->ns, device->cost.launch_ns);
    kf_formula_op(&estimate->ns, KF_INS_ADD);
}
