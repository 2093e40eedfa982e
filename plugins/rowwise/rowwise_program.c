// SPDX-License-Identifier: MIT OR Apache-2.0
// The program around the kernel: its bindings in the plan's order, launch formulas, name, key and
// estimates. On a GPU a work-group is a rectangle of lanes and rows, so that short rows share one.
#include "rowwise_internal.h"

enum {
    ROWS_PER_ITEM = 16384, // elements of a work-item in block shape, when rows are short
    CHUNKS_PER_UNIT = 8,
    MAX_FORMULAS = RW_MAX_PARAMS
};

struct rw_program {
    kf_rows *rows;
    rw_plan plan;
    kf_text code;
    kf_text name;
    uint8_t key[16];
    uint32_t in_place;
    kf_source source;
    kf_launch launch;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
    kf_formula n_rows;
    kf_formula length;
    kf_formula chunk;
    kf_formula cap;
    kf_formula slot;
    kf_formula global[2];
    kf_formula local[2];
    kf_formula guard;
    kf_formula extents[KF_MAX_RANK];
    kf_formula turned[2 * RW_MAX_TURNED];
    kf_karg args[RW_MAX_PARAMS];
};

// ---- formulas ----

static void group_formulas(rw_program *p)
{
    kf_rows_lanes(&p->local[0], &p->length, &p->n_rows, p->plan.held * p->plan.width, p->plan.width,
                  p->plan.group);
    kf_formula_imm(&p->local[1], p->plan.group);
    kf_formula_append(&p->local[1], kf_formula_expr(&p->local[0]));
    kf_formula_op(&p->local[1], KF_INS_FLOOR_DIV);
    kf_formula_append(&p->global[0], kf_formula_expr(&p->local[0]));
    kf_formula_append(&p->global[1], kf_formula_expr(&p->n_rows));
    kf_formula_append(&p->global[1], kf_formula_expr(&p->local[1]));
    kf_formula_op(&p->global[1], KF_INS_ROUND_UP);
}

/// chunk = max(1, min(ceil(rows / (8 * units)), elements / length))
static void block_formulas(rw_program *p)
{
    kf_formula_append(&p->chunk, kf_formula_expr(&p->n_rows));
    kf_formula_put(&p->chunk, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_imm_op(&p->chunk, CHUNKS_PER_UNIT, KF_INS_MUL);
    kf_formula_op(&p->chunk, KF_INS_CEIL_DIV);
    kf_formula_imm(&p->chunk, ROWS_PER_ITEM);
    kf_formula_append(&p->chunk, kf_formula_expr(&p->length));
    kf_formula_op(&p->chunk, KF_INS_FLOOR_DIV);
    kf_formula_op(&p->chunk, KF_INS_MIN);
    kf_formula_imm_op(&p->chunk, 1, KF_INS_MAX);
    kf_formula_append(&p->global[0], kf_formula_expr(&p->n_rows));
    kf_formula_append(&p->global[0], kf_formula_expr(&p->chunk));
    kf_formula_op(&p->global[0], KF_INS_CEIL_DIV);
    kf_formula_imm(&p->local[0], 1);
}

static void slot_formulas(rw_program *p)
{
    kf_formula_append(&p->cap, kf_formula_expr(&p->length));
    kf_formula_imm_op(&p->cap, p->plan.width, KF_INS_ROUND_UP);
    kf_formula_imm_op(&p->cap, p->plan.slot_limit, KF_INS_MIN);
    kf_formula_append(&p->slot, kf_formula_expr(&p->cap));
    kf_formula_imm_op(&p->slot, p->plan.slot_bytes, KF_INS_MUL);
}

static void make_formulas(rw_program *p)
{
    kf_rows_extent(&p->n_rows, p->rows, p->plan.kept);
    kf_rows_extent(&p->length, p->rows, p->rows->reduced);
    if (p->plan.group != 0) {
        group_formulas(p);
    } else {
        block_formulas(p);
    }
    if (p->plan.slot_bytes != 0) {
        slot_formulas(p);
    }
}

// ---- bindings ----

static void bind_value(kf_karg *arg, const kf_formula *formula)
{
    arg->kind = KF_ARG_VALUE;
    arg->value = kf_formula_expr(formula);
}

static void bind(rw_program *p, const rw_param *param, kf_karg *arg)
{
    const kf_chain *chain = &p->rows->chain;
    arg->dtype = p->plan.wide ? KF_DTYPE_I64 : KF_DTYPE_I32;
    switch (param->kind) {
    case RW_PARAM_INPUT:
    case RW_PARAM_OUTPUT:
        kf_chain_bind_tensor(arg, &chain->values[param->index],
                             param->kind == RW_PARAM_INPUT ? KF_ACCESS_READ : KF_ACCESS_WRITE);
        break;
    case RW_PARAM_OFFSET:
    case RW_PARAM_STRIDE:
        kf_chain_bind_place(arg, &chain->values[param->index],
                            param->kind == RW_PARAM_OFFSET ? KF_ARG_OFFSET : KF_ARG_STRIDE,
                            param->axis);
        break;
    case RW_PARAM_SCALAR:
        kf_chain_bind_number(arg, &chain->numbers[param->index]);
        break;
    case RW_PARAM_EXTENT:
        kf_rows_extent(&p->extents[param->index], p->rows, p->plan.groups[param->index].mask);
        bind_value(arg, &p->extents[param->index]);
        break;
    case RW_PARAM_ROWS:
        bind_value(arg, &p->n_rows);
        break;
    case RW_PARAM_LENGTH:
        bind_value(arg, &p->length);
        break;
    case RW_PARAM_CHUNK:
        bind_value(arg, &p->chunk);
        break;
    case RW_PARAM_CAP:
        bind_value(arg, &p->cap);
        break;
    case RW_PARAM_EACH:
    case RW_PARAM_PERIOD: {
        const uint8_t *axes = p->rows->places[param->index].axes;
        kf_formula *f = &p->turned[param->axis];
        if (param->kind == RW_PARAM_EACH) {
            kf_rows_second_extent(f, p->rows, axes[1] + 1u, KF_NONE);
        } else {
            kf_rows_second_extent(f, p->rows, axes[0], axes[1]);
        }
        bind_value(arg, f);
        break;
    }
    case RW_PARAM_SLOT:
        bind_value(arg, &p->slot);
        arg->kind = KF_ARG_LOCAL;
        arg->dtype = 0;
        break;
    }
}

/// A result may take an input's memory only when nothing of a row is read again after the pass that
/// writes it.
static uint32_t is_in_place_safe(const rw_program *p)
{
    for (uint32_t i = 0; i < p->rows->chain.n_values; i++) {
        for (uint32_t loop = 0; loop + 1 < p->plan.loops; loop++) {
            if (rw_is_written(p->rows, i, loop)) {
                return 0;
            }
        }
    }
    return 1;
}

// ---- life ----

static void fill(rw_program *p)
{
    p->source.struct_size = (uint32_t)sizeof(p->source);
    p->source.format = KF_FORMAT_OPENCL_C;
    p->source.code.ptr = p->code.ptr;
    p->source.code.len = p->code.len;
    p->source.cl_c_version = 120;
    p->launch.struct_size = (uint32_t)sizeof(p->launch);
    p->launch.dims = p->plan.group != 0 ? 2 : 1;
    p->launch.n_args = p->plan.n_params;
    p->launch.kernel.ptr = "kiln_rowwise";
    p->launch.kernel.len = strlen(p->launch.kernel.ptr);
    for (uint32_t i = 0; i < p->launch.dims; i++) {
        p->launch.global[i] = kf_formula_expr(&p->global[i]);
        p->launch.local[i] = kf_formula_expr(&p->local[i]);
    }
    p->launch.args = p->args;
    p->step.kind = KF_STEP_LAUNCH;
    p->sources[0] = &p->source;
    p->launches[0] = &p->launch;
}

static uint32_t has_failed(const rw_program *p)
{
    uint32_t failed = p->code.failed || p->name.failed || p->global[0].failed ||
                      p->global[1].failed || p->local[0].failed || p->local[1].failed ||
                      p->chunk.failed || p->slot.failed || p->cap.failed;
    for (uint32_t i = 0; i < KF_MAX_RANK; i++) {
        failed = failed || p->extents[i].failed;
    }
    for (uint32_t i = 0; i < p->plan.n_turned; i++) {
        failed = failed || p->turned[i].failed;
    }
    return failed;
}

rw_program *rw_program_create(const kf_rows *rows, const kf_chain_device *device)
{
    rw_program *p = (rw_program *)calloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    p->rows = (kf_rows *)malloc(sizeof(*p->rows));
    if (p->rows == NULL) {
        rw_program_destroy(p);
        return NULL;
    }
    kf_rows_copy(p->rows, rows);
    rw_quicken(p->rows, device);
    rw_plan_make(&p->plan, p->rows, device);
    rw_emit_kernel(&p->code, &p->plan);
    kf_chain_name(&p->name, "rowwise", rows->shown, rows->n_shown);
    make_formulas(p);
    for (uint32_t i = 0; i < p->plan.n_params; i++) {
        bind(p, &p->plan.params[i], &p->args[i]);
    }
    p->in_place = is_in_place_safe(p);
    if (has_failed(p)) {
        rw_program_destroy(p);
        return NULL;
    }
    fill(p);
    kf_launch_key(p->key, &p->code, &p->launch, p->rows->len);
    return p;
}

void rw_program_destroy(rw_program *program)
{
    if (program != NULL) {
        kf_text_free(&program->code);
        kf_text_free(&program->name);
        free(program->rows);
        free(program);
    }
}

void rw_program_describe(const rw_program *program, kf_program *out)
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

void rw_program_info(const rw_program *program, kf_opt_info *out)
{
    kf_opt_info_fill(out, program->rows->len, &program->name, program->key, sizeof(program->key));
}

// ---- estimates ----

/// Few rows leave most of the device idle: the time grows by units / min(units, rows).
static void idle_factor(kf_formula *f, const kf_rows *rows)
{
    kf_formula_put(f, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_put(f, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_rows_extent(f, rows, kf_rows_all(rows) & ~rows->reduced);
    kf_formula_op(f, KF_INS_MIN);
    kf_formula_op(f, KF_INS_CEIL_DIV);
}

void rw_estimate_make(kf_estimate *estimate, const kf_rows *rows, const kf_chain_device *device)
{
    kf_formula bytes, work;
    kf_estimate_init(estimate);
    memset(&bytes, 0, sizeof(bytes));
    memset(&work, 0, sizeof(work));
    kf_rows_traffic(&estimate->read, rows, 0, 48);
    kf_rows_traffic(&estimate->written, rows, 1, 48);
    kf_rows_extent(&estimate->flops, rows, kf_rows_all(rows));
    kf_formula_imm_op(&estimate->flops, rows->chain.flops, KF_INS_MUL);
    kf_formula_append(&bytes, kf_formula_expr(&estimate->read));
    kf_formula_append(&bytes, kf_formula_expr(&estimate->written));
    kf_formula_op(&bytes, KF_INS_ADD);
    kf_rows_work(&work, rows, rows->reduced, device->is_cpu ? kf_chain_width(device) : 1);
    kf_formula_roofline(&estimate->ns, &device->cost, kf_formula_expr(&bytes),
                        kf_formula_expr(&work), 0);
    idle_factor(&estimate->ns, rows);
    kf_formula_imm_op(&estimate->ns, device->cost.launch_ns, KF_INS_ADD);
}
