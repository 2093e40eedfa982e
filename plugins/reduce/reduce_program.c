// SPDX-License-Identifier: MIT OR Apache-2.0
// The program around the kernels: bindings in the plan's order, launch formulas, temporaries, name,
// key and estimates. Decides nothing about the computation.
#include "reduce_internal.h"

enum {
    ITEM_ELEMENTS = 16384, // of a work-item in block shape, when results are short
    CHUNKS_PER_UNIT = 8,
    ROW_PERCENT = 112, // of the roofline, walking rows on a processor
    LINE_START = 2, // vectors
    PAGES = 1024,
    SECOND_GROUP = 64
};

typedef struct rd_launch_view {
    kf_launch launch;
    kf_formula global[3];
    kf_formula local[3];
    kf_karg args[RD_MAX_PARAMS];
} rd_launch_view;

struct rd_program {
    kf_rows *rows;
    rd_plan plan;
    kf_text code;
    kf_text name;
    uint8_t key[16];
    kf_source source;
    kf_step steps[2];
    const kf_source *sources[1];
    const kf_launch *launches[2];
    kf_formula items;
    kf_formula units;
    kf_formula chunk;
    kf_formula parts;
    kf_formula block;
    kf_formula each;
    kf_formula total;
    kf_formula results;
    kf_formula extents[KF_MAX_RANK];
    kf_formula bytes[RD_MAX_RESULTS];
    kf_temp temps[RD_MAX_RESULTS];
    rd_launch_view views[2];
};

// ---- formulas ----

static void number_formulas(rd_program *p)
{
    const rd_plan *plan = &p->plan;
    rd_items_formula(&p->items, plan);
    rd_units_formula(&p->units, plan);
    rd_block_formula(&p->block, plan);
    kf_rows_extent(&p->total, p->rows, p->rows->reduced);
    kf_rows_extent(&p->results, p->rows, kf_rows_all(p->rows) & ~p->rows->reduced);
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        kf_rows_extent(&p->extents[g], p->rows, plan->groups[g].mask);
    }
    // chunk = max(1, min(ceil(items / (8 * units of the device)), elements / work of an item))
    kf_formula_append(&p->chunk, kf_formula_expr(&p->items));
    kf_formula_put(&p->chunk, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_imm_op(&p->chunk, CHUNKS_PER_UNIT, KF_INS_MUL);
    kf_formula_op(&p->chunk, KF_INS_CEIL_DIV);
    kf_formula_imm(&p->chunk, ITEM_ELEMENTS / (plan->width * plan->vectors));
    kf_formula_append(&p->chunk, kf_formula_expr(&p->units));
    kf_formula_op(&p->chunk, KF_INS_FLOOR_DIV);
    kf_formula_op(&p->chunk, KF_INS_MIN);
    kf_formula_imm_op(&p->chunk, 1, KF_INS_MAX);
    if (plan->split) {
        rd_parts_formula(&p->parts, plan);
        kf_formula_append(&p->each, kf_formula_expr(&p->units));
        kf_formula_append(&p->each, kf_formula_expr(&p->parts));
        kf_formula_op(&p->each, KF_INS_CEIL_DIV);
    }
}

/// A rectangle of lanes and rows on a GPU, so that short rows share a work-group.
static void row_grid(rd_program *p, rd_launch_view *v)
{
    if (p->plan.split) { // parts are long
        kf_formula_imm(&v->local[0], p->plan.group);
    } else {
        kf_rows_lanes(&v->local[0], &p->units, &p->items, p->plan.ahead != 0 ? p->plan.ahead : 1, 1,
                      p->plan.group);
    }
    kf_formula_imm(&v->local[1], p->plan.group);
    kf_formula_append(&v->local[1], kf_formula_expr(&v->local[0]));
    kf_formula_op(&v->local[1], KF_INS_FLOOR_DIV);
    kf_formula_append(&v->global[0], kf_formula_expr(&v->local[0]));
    kf_formula_append(&v->global[1], kf_formula_expr(&p->items));
    kf_formula_append(&v->global[1], kf_formula_expr(&v->local[1]));
    kf_formula_op(&v->global[1], KF_INS_ROUND_UP);
    kf_formula_imm(&v->local[2], 1);
    if (p->plan.split) {
        kf_formula_append(&v->global[2], kf_formula_expr(&p->parts));
    } else {
        kf_formula_imm(&v->global[2], 1);
    }
    v->launch.dims = 3;
}

static void flat_grid(rd_program *p, rd_launch_view *v, const kf_formula *items, uint32_t group)
{
    kf_formula_append(&v->global[0], kf_formula_expr(items));
    kf_formula_imm_op(&v->global[0], group, KF_INS_ROUND_UP);
    kf_formula_imm(&v->local[0], group);
    v->launch.dims = 1;
    if (p->plan.split && v == &p->views[0]) {
        kf_formula_append(&v->global[1], kf_formula_expr(&p->parts));
        kf_formula_imm(&v->local[1], 1);
        v->launch.dims = 2;
    }
}

static void grids(rd_program *p)
{
    rd_launch_view *first = &p->views[0];
    uint32_t group = p->plan.group == 0 ? 1 : SECOND_GROUP;
    group = p->plan.group != 0 && p->plan.group < group ? p->plan.group : group;
    if (p->plan.group != 0 && !p->plan.columns) {
        row_grid(p, first);
    } else if (p->plan.group != 0) {
        flat_grid(p, first, &p->items, group);
    } else {
        kf_formula chunks;
        memset(&chunks, 0, sizeof(chunks));
        kf_formula_append(&chunks, kf_formula_expr(&p->items));
        kf_formula_append(&chunks, kf_formula_expr(&p->chunk));
        kf_formula_op(&chunks, KF_INS_CEIL_DIV);
        flat_grid(p, first, &chunks, 1);
    }
    if (p->plan.split) {
        flat_grid(p, &p->views[1], &p->results, group);
    }
}

// ---- bindings ----

static const kf_formula *number_of(const rd_program *p, const rd_param *param)
{
    switch (param->kind) {
    case RD_PARAM_EXTENT:
        return &p->extents[param->index];
    case RD_PARAM_ITEMS:
        return &p->items;
    case RD_PARAM_CHUNK:
        return &p->chunk;
    case RD_PARAM_UNITS:
        return &p->units;
    case RD_PARAM_EACH:
        return &p->each;
    case RD_PARAM_TOTAL:
        return &p->total;
    case RD_PARAM_RESULTS:
        return &p->results;
    case RD_PARAM_BLOCK:
        return &p->block;
    default:
        return &p->parts;
    }
}

static void bind(const rd_program *p, const rd_param *param, uint32_t second, kf_karg *arg)
{
    const kf_chain *chain = &p->rows->chain;
    arg->dtype = p->plan.wide ? KF_DTYPE_I64 : KF_DTYPE_I32;
    switch (param->kind) {
    case RD_PARAM_INPUT:
    case RD_PARAM_OUTPUT:
        kf_chain_bind_tensor(arg, &chain->values[param->index],
                             param->kind == RD_PARAM_INPUT ? KF_ACCESS_READ : KF_ACCESS_WRITE);
        break;
    case RD_PARAM_OFFSET:
    case RD_PARAM_STRIDE:
        kf_chain_bind_place(arg, &chain->values[param->index],
                            param->kind == RD_PARAM_OFFSET ? KF_ARG_OFFSET : KF_ARG_STRIDE,
                            param->axis);
        break;
    case RD_PARAM_SCALAR:
        kf_chain_bind_number(arg, &chain->numbers[param->index]);
        break;
    case RD_PARAM_PARTIAL:
        arg->kind = KF_ARG_TEMP;
        arg->access = second ? KF_ACCESS_READ : KF_ACCESS_WRITE;
        arg->ref = param->index;
        arg->dtype = 0;
        break;
    default:
        arg->kind = KF_ARG_VALUE;
        arg->value = kf_formula_expr(number_of(p, param));
    }
}

static void make_temps(rd_program *p)
{
    for (uint32_t i = 0; p->plan.split && i < p->plan.n_results; i++) {
        const kf_chain_op *op = &p->rows->chain.ops[p->plan.results[i]];
        kf_dtype partial = kf_rows_partial(op);
        kf_formula_append(&p->bytes[i], kf_formula_expr(&p->results));
        kf_formula_append(&p->bytes[i], kf_formula_expr(&p->parts));
        kf_formula_op(&p->bytes[i], KF_INS_MUL);
        kf_formula_imm_op(&p->bytes[i], partial.bytes, KF_INS_MUL);
        p->temps[i].bytes = kf_formula_expr(&p->bytes[i]);
        p->temps[i].align = 16;
        p->temps[i].prepack = KF_NONE;
    }
}

// ---- life ----

static void fill_launch(rd_program *p, uint32_t which)
{
    rd_launch_view *v = &p->views[which];
    const rd_launch *launch = which == 0 ? &p->plan.first : &p->plan.second;
    for (uint32_t i = 0; i < launch->n_params; i++) {
        bind(p, &launch->params[i], which, &v->args[i]);
    }
    v->launch.struct_size = (uint32_t)sizeof(v->launch);
    v->launch.n_args = launch->n_params;
    v->launch.kernel.ptr = which == 0 ? "kiln_reduce" : "kiln_reduce_join";
    v->launch.kernel.len = strlen(v->launch.kernel.ptr);
    v->launch.args = v->args;
    for (uint32_t i = 0; i < v->launch.dims; i++) {
        v->launch.global[i] = kf_formula_expr(&v->global[i]);
        v->launch.local[i] = kf_formula_expr(&v->local[i]);
    }
    p->launches[which] = &v->launch;
    p->steps[which].kind = KF_STEP_LAUNCH;
    p->steps[which].index = which;
}

static uint32_t count_launches(const rd_program *p)
{
    return p->plan.split ? 2 : 1;
}

static void fill(rd_program *p)
{
    p->source.struct_size = (uint32_t)sizeof(p->source);
    p->source.format = KF_FORMAT_OPENCL_C;
    p->source.code.ptr = p->code.ptr;
    p->source.code.len = p->code.len;
    p->source.cl_c_version = 120;
    p->sources[0] = &p->source;
    for (uint32_t i = 0; i < count_launches(p); i++) {
        fill_launch(p, i);
    }
}

static void make_key(rd_program *p)
{
    static const uint64_t seeds[2] = {0xcbf29ce484222325ull, 0x9e3779b97f4a7c15ull};
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t hash = kf_hash(seeds[i], p->code.ptr, p->code.len);
        for (uint32_t k = 0; k < count_launches(p); k++) {
            hash = kf_hash_launch(hash, p->launches[k]);
        }
        hash = kf_hash(hash, &p->rows->len, sizeof(p->rows->len));
        memcpy(p->key + 8 * i, &hash, sizeof(hash));
    }
}

static uint32_t has_failed(const rd_program *p)
{
    uint32_t failed = p->code.failed || p->name.failed || p->chunk.failed || p->block.failed ||
                      p->parts.failed || p->each.failed;
    for (uint32_t i = 0; i < RD_MAX_RESULTS; i++) {
        failed = failed || p->bytes[i].failed;
    }
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            failed = failed || p->views[i].global[k].failed || p->views[i].local[k].failed;
        }
    }
    return failed;
}

rd_program *rd_program_create(const kf_rows *rows, const kf_chain_device *device, uint32_t split)
{
    rd_program *p = (rd_program *)calloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    p->rows = (kf_rows *)malloc(sizeof(*p->rows));
    if (p->rows == NULL) {
        rd_program_destroy(p);
        return NULL;
    }
    kf_rows_copy(p->rows, rows);
    rd_plan_make(&p->plan, p->rows, device, split);
    rd_emit_kernels(&p->code, &p->plan);
    kf_chain_name(&p->name, split ? "reduce-split" : "reduce", rows->shown, rows->n_shown);
    number_formulas(p);
    grids(p);
    make_temps(p);
    if (has_failed(p)) {
        rd_program_destroy(p);
        return NULL;
    }
    fill(p);
    make_key(p);
    return p;
}

void rd_program_destroy(rd_program *program)
{
    if (program != NULL) {
        kf_text_free(&program->code);
        kf_text_free(&program->name);
        free(program->rows);
        free(program);
    }
}

/// In place is safe: what lies along the reduced axes is read and written by one pass, and what
/// does not is read before its work-item writes it.
void rd_program_describe(const rd_program *program, kf_program *out)
{
    kf_program view;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.flags = KF_PROGRAM_DETERMINISTIC | KF_PROGRAM_IN_PLACE_SAFE;
    view.sources = program->sources;
    view.n_sources = 1;
    view.launches = program->launches;
    view.n_launches = count_launches(program);
    view.temps = program->temps;
    view.n_temps = program->plan.split ? program->plan.n_results : 0;
    view.steps = program->steps;
    view.n_steps = view.n_launches;
    KF_OUT(out, &view);
}

void rd_program_info(const rd_program *program, kf_opt_info *out)
{
    kf_opt_info_fill(out, program->rows->len, &program->name, program->key, sizeof(program->key));
}

// ---- estimates ----

/// Few items leave most of the device idle: the time grows by what is wanted over what there is.
static void idle_factor(kf_formula *f, const rd_plan *plan)
{
    uint32_t each = plan->group != 0 && plan->columns ? 512 : 1;
    kf_formula_put(f, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_imm_op(f, each, KF_INS_MUL);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_put(f, KF_INS_DEVICE, KF_DEVICE_FACT_COMPUTE_UNITS, 0, 0);
    kf_formula_imm_op(f, each, KF_INS_MUL);
    rd_items_formula(f, plan);
    if (plan->split) {
        rd_parts_formula(f, plan);
        kf_formula_op(f, KF_INS_MUL);
    }
    kf_formula_op(f, KF_INS_MIN);
    kf_formula_op(f, KF_INS_CEIL_DIV);
}

/// A line of columns takes as long as one that is LINE_START vectors longer where there are more of
/// them than a processor keeps pages in mind: measured, blocks of 4 vectors against blocks of 128.
static void line_factor(kf_formula *f, const rd_plan *plan)
{
    rd_units_formula(f, plan);
    kf_formula_imm_op(f, PAGES, KF_INS_MIN);
    kf_formula_imm_op(f, 100 * (int64_t)LINE_START * plan->width, KF_INS_MUL);
    rd_block_formula(f, plan);
    kf_formula_imm_op(f, PAGES, KF_INS_MUL);
    kf_formula_op(f, KF_INS_CEIL_DIV);
    kf_formula_imm_op(f, 100, KF_INS_ADD);
    kf_formula_op(f, KF_INS_MUL);
    kf_formula_imm_op(f, 100, KF_INS_FLOOR_DIV);
}

void rd_estimate_make(kf_estimate *estimate, const kf_rows *rows, const kf_chain_device *device,
                      uint32_t split)
{
    kf_formula bytes, work;
    rd_plan plan;
    kf_estimate_init(estimate);
    memset(&bytes, 0, sizeof(bytes));
    memset(&work, 0, sizeof(work));
    rd_plan_make(&plan, rows, device, split);
    kf_rows_traffic(&estimate->read, rows, 0, 40);
    kf_rows_traffic(&estimate->written, rows, 1, 40);
    kf_rows_extent(&estimate->flops, rows, kf_rows_all(rows));
    kf_formula_imm_op(&estimate->flops, rows->chain.flops, KF_INS_MUL);
    kf_formula_append(&bytes, kf_formula_expr(&estimate->read));
    kf_formula_append(&bytes, kf_formula_expr(&estimate->written));
    kf_formula_op(&bytes, KF_INS_ADD);
    if (split) {
        kf_rows_extent(&estimate->temp, rows, kf_rows_all(rows) & ~rows->reduced);
        rd_parts_formula(&estimate->temp, &plan);
        kf_formula_op(&estimate->temp, KF_INS_MUL);
        kf_formula_imm_op(&estimate->temp, 8 * (int64_t)plan.n_results, KF_INS_MUL);
        kf_formula_append(&bytes, kf_formula_expr(&estimate->temp));
        kf_formula_op(&bytes, KF_INS_ADD);
    }
    kf_rows_work(&work, rows, plan.groups[plan.n_groups - 1].mask, device->is_cpu ? plan.width : 1);
    kf_formula_roofline(&estimate->ns, &device->cost, kf_formula_expr(&bytes),
                        kf_formula_expr(&work), 0);
    idle_factor(&estimate->ns, &plan);
    if (plan.vectors > 1 && !split) { // lines of parts are long
        line_factor(&estimate->ns, &plan);
    }
    if (plan.group == 0 &&
        !plan.columns) { // measured: what rowwise needs less, where it takes the rows
        kf_formula_imm_op(&estimate->ns, ROW_PERCENT, KF_INS_MUL);
        kf_formula_imm_op(&estimate->ns, 100, KF_INS_FLOOR_DIV);
    }
    kf_formula_imm_op(&estimate->ns, device->cost.launch_ns * (split ? 2 : 1), KF_INS_ADD);
}
