// SPDX-License-Identifier: MIT OR Apache-2.0
// The program around the kernels: a launch for each step, one outside the steps for each pack of
// constants, temporaries for images and packs, sources in which equal kernels are one.
#include "convolution_form.h"

enum { FLOAT_BYTES = 4 }; // of packs

typedef struct one_launch {
    cv_kernel kernel;
    kf_launch launch;
    kf_formula global;
    kf_formula local;
    kf_karg *args;
    kf_ins *numbers; ///< of args that are numbers, one instruction each
} one_launch;

struct cv_program {
    cv_region *region;
    cv_plan *plan;
    kf_text name;
    uint8_t key[16];
    uint32_t len;
    uint32_t failed;
    uint32_t n_launches;
    uint32_t n_steps;
    uint32_t n_chains;
    uint32_t n_temps;
    uint32_t n_sources;
    one_launch *launches;
    const kf_launch **launch_list;
    kf_step *steps;
    kf_temp *temps;
    kf_formula *temp_bytes;
    kf_text source_texts[CV_MAX_STEPS];
    kf_source sources[CV_MAX_STEPS];
    uint8_t on_tensor[CV_MAX_STEPS]; ///< of a source
    const kf_source *source_list[CV_MAX_STEPS];
};

// ---- sources ----

static const kf_str tensor_defines[] = {KF_STR_INIT("KILN_PTX_TARGET=sm_90a")};

/// The source with the kernel's text, which is put there when no launch before has the same.
static uint32_t place_kernel(cv_program *p, uint32_t index)
{
    const cv_kernel *kernel = &p->launches[index].kernel;
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(p->launches[i].kernel.name, kernel->name) == 0) {
            return p->launches[i].launch.source;
        }
    }
    uint32_t source = p->n_sources++; // there are no more than launches
    kf_cl_prelude(&p->source_texts[source], 0);
    kf_text_add(&p->source_texts[source], kernel->text.ptr != NULL ? kernel->text.ptr : "");
    p->on_tensor[source] = kernel->on_tensor != 0;
    p->failed |= p->source_texts[source].failed;
    return source;
}

static void close_sources(cv_program *p)
{
    for (uint32_t i = 0; i < p->n_sources; i++) {
        kf_source *source = &p->sources[i];
        source->struct_size = (uint32_t)sizeof(*source);
        source->format = KF_FORMAT_OPENCL_C;
        source->code.ptr = p->source_texts[i].ptr;
        source->code.len = p->source_texts[i].len;
        source->cl_c_version = 120;
        source->defines = tensor_defines;
        source->n_defines = p->on_tensor[i] ? 1 : 0;
        p->source_list[i] = source;
    }
}

// ---- launches ----

static void times_batch(kf_formula *f, const cv_program *p, int64_t each)
{
    kf_formula_imm(f, each);
    kf_formula_product(f, &p->region->batch, 1);
    kf_formula_op(f, KF_INS_MUL);
}

static void bind(const cv_program *p, const cv_param *param, kf_ins *number, kf_karg *arg)
{
    arg->access = param->access;
    switch (param->kind) {
    case CV_PARAM_TEMP:
        arg->kind = KF_ARG_TEMP;
        arg->ref = param->index;
        break;
    case CV_PARAM_TENSOR:
        arg->kind = KF_ARG_TENSOR;
        arg->ref = p->region->values[param->index].id;
        arg->dtype = p->region->values[param->index].dtype;
        break;
    case CV_PARAM_OFFSET:
        arg->kind = KF_ARG_OFFSET;
        arg->ref = p->region->values[param->index].id;
        arg->dtype = KF_DTYPE_I64;
        break;
    case CV_PARAM_BATCH:
        arg->kind = KF_ARG_VALUE;
        arg->dtype = KF_DTYPE_I32;
        number->op = p->region->batch == 0 ? KF_INS_IMM : KF_INS_SYM; // symbol 0 is 1
        number->imm = 1;
        number->sym = p->region->batch;
        arg->value.ins = number;
        arg->value.n = 1;
        break;
    case CV_PARAM_SCALAR:
        arg->kind = KF_ARG_SCALAR;
        arg->ref = param->index;
        arg->dtype = (uint32_t)param->number;
        break;
    default:
        arg->kind = KF_ARG_VALUE;
        arg->dtype = param->index == 1 ? KF_DTYPE_I64 : KF_DTYPE_I32;
        number->op = KF_INS_IMM;
        number->imm = param->number;
        arg->value.ins = number;
        arg->value.n = 1;
        break;
    }
}

static void make_launch(cv_program *p, uint32_t index, uint32_t of_batch)
{
    one_launch *l = &p->launches[index];
    l->args = (kf_karg *)calloc(CV_MAX_PARAMS, sizeof(*l->args));
    l->numbers = (kf_ins *)calloc(CV_MAX_PARAMS, sizeof(*l->numbers));
    if (l->args == NULL || l->numbers == NULL || l->kernel.failed) {
        p->failed = 1;
        return;
    }
    for (uint32_t i = 0; i < l->kernel.n_params; i++) {
        bind(p, &l->kernel.params[i], &l->numbers[i], &l->args[i]);
    }
    if (of_batch && l->kernel.group == 0 && !l->kernel.of_units) {
        times_batch(&l->global, p, l->kernel.items);
    } else {
        kf_formula_imm(&l->global, l->kernel.items);
    }
    kf_formula_imm(&l->local, l->kernel.group == 0 ? 1 : l->kernel.group);
    l->launch.struct_size = (uint32_t)sizeof(l->launch);
    l->launch.source = place_kernel(p, index);
    l->launch.dims = 1;
    l->launch.n_args = l->kernel.n_params;
    l->launch.kernel.ptr = l->kernel.name;
    l->launch.kernel.len = strlen(l->kernel.name);
    l->launch.global[0] = kf_formula_expr(&l->global);
    l->launch.local[0] = kf_formula_expr(&l->local);
    l->launch.args = l->args;
    p->launch_list[index] = &l->launch;
}

/// What is derived of constants and wanted outside, the host computes.
static void host_steps(cv_program *p)
{
    const cv_region *region = p->region;
    uint8_t wanted[CV_MAX_OPS] = {0};
    for (uint32_t i = region->n_ops; i-- > 0;) {
        const cv_op *op = &region->ops[i];
        uint32_t from = op->kind == CV_DERIVE ? region->values[op->inputs[0]].op : CV_NONE;
        wanted[i] |= op->kind == CV_DERIVE && cv_region_gives(region, op->result);
        if (wanted[i] && from != CV_NONE) {
            wanted[from] = 1;
        }
    }
    for (uint32_t i = 0; i < region->n_ops; i++) {
        if (wanted[i]) {
            p->steps[p->n_steps].kind = KF_STEP_HOST_OP;
            p->steps[p->n_steps++].index = region->ops[i].position;
        }
    }
}

/// The kernels of all steps become launches, some of them together.
static void launch_steps(cv_program *p, cv_kernel *kernels)
{
    const cv_plan *plan = p->plan;
    for (uint32_t i = 0, n = 1; i < plan->n_steps && !p->failed; i += n) {
        cv_kernel *kernel = &p->launches[p->n_launches].kernel;
        n = cv_chain_length(plan, kernels, i);
        if (n > 1) {
            cv_chain_join(kernel, plan, &kernels[i], n);
            p->n_chains++;
        } else {
            *kernel = kernels[i];
            memset(&kernels[i].text, 0, sizeof(kernels[i].text)); // it has another owner
        }
        make_launch(p, p->n_launches, /*of_batch=*/1);
        p->steps[p->n_steps].kind = KF_STEP_LAUNCH;
        p->steps[p->n_steps++].index = p->n_launches++;
    }
}

static void emit_steps(cv_program *p)
{
    const cv_plan *plan = p->plan;
    cv_kernel *kernels = (cv_kernel *)calloc(plan->n_steps, sizeof(*kernels));
    p->failed |= kernels == NULL;
    for (uint32_t i = 0; i < plan->n_steps && !p->failed; i++) {
        plan->device->form->emit_step(&kernels[i], plan, &plan->steps[i]);
        p->failed |= kernels[i].failed;
    }
    if (!p->failed) {
        launch_steps(p, kernels);
    }
    for (uint32_t i = 0; kernels != NULL && i < plan->n_steps; i++) {
        kf_text_free(&kernels[i].text);
    }
    free(kernels);
}

/// The counts of chains, which are 0 between launches.
static void add_counts(cv_program *p)
{
    kf_temp *temp = &p->temps[p->n_temps];
    cv_chain_clear(&p->launches[p->n_launches].kernel, p->plan);
    make_launch(p, p->n_launches, /*of_batch=*/0);
    kf_formula_imm(&p->temp_bytes[p->n_temps], cv_chain_count_bytes(p->plan));
    temp->bytes = kf_formula_expr(&p->temp_bytes[p->n_temps++]);
    temp->align = 64;
    temp->flags = KF_TEMP_PERSISTENT;
    temp->prepack = p->n_launches++;
}

static void make_launches(cv_program *p)
{
    const cv_plan *plan = p->plan;
    emit_steps(p);
    for (uint32_t i = 0; i < plan->n_steps && !p->failed; i++) {
        if (plan->steps[i].pack != CV_NONE) {
            cv_emit_pack(&p->launches[p->n_launches].kernel, plan, &plan->steps[i]);
            make_launch(p, p->n_launches, /*of_batch=*/0);
            p->temps[plan->n_slots + plan->steps[i].pack].prepack = p->n_launches++;
        }
    }
    if (p->n_chains > 0 && !p->failed) {
        add_counts(p);
    }
}

// ---- temporaries ----

static void make_temps(cv_program *p)
{
    const cv_plan *plan = p->plan;
    p->n_temps = plan->n_slots + plan->n_packs;
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        times_batch(&p->temp_bytes[i], p, plan->slot_bytes[i]);
        p->temps[i].prepack = KF_NONE;
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const cv_step *step = &plan->steps[i];
        if (step->pack != CV_NONE) {
            kf_formula_imm(&p->temp_bytes[plan->n_slots + step->pack],
                           cv_pack_floats(plan, step) * FLOAT_BYTES);
            p->temps[plan->n_slots + step->pack].flags = KF_TEMP_PERSISTENT;
        }
    }
    for (uint32_t i = 0; i < p->n_temps; i++) {
        p->temps[i].bytes = kf_formula_expr(&p->temp_bytes[i]);
        p->temps[i].align = 64;
    }
}

// ---- life ----

static void make_key(cv_program *p)
{
    static const uint64_t seeds[2] = {0xcbf29ce484222325ull, 0x9e3779b97f4a7c15ull};
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t hash = kf_hash(seeds[i], &p->len, sizeof(p->len));
        for (uint32_t k = 0; k < p->n_sources; k++) {
            hash = kf_hash(hash, p->source_texts[k].ptr, p->source_texts[k].len);
        }
        for (uint32_t k = 0; k < p->n_launches; k++) {
            hash = kf_hash_launch(hash, p->launch_list[k]);
        }
        for (uint32_t k = 0; k < p->n_temps; k++) {
            hash = kf_hash_expr(hash, p->temps[k].bytes);
            hash = kf_hash(hash, &p->temps[k].prepack, sizeof(p->temps[k].prepack));
        }
        for (uint32_t k = 0; k < p->n_steps; k++) {
            hash = kf_hash(hash, &p->steps[k], sizeof(p->steps[k]));
        }
        memcpy(p->key + 8 * i, &hash, sizeof(hash));
    }
}

/// A chain saves a launch or more: at least the one that fills the counts of all.
static uint32_t most_launches(const cv_plan *plan)
{
    return plan->n_steps + plan->n_packs;
}

static void fill(cv_program *p, const cv_device *device)
{
    cv_plan_make(p->plan, p->region, device);
    if (!p->plan->failed) {
        device->form->cut(p->plan, device);
    }
    uint32_t launches = most_launches(p->plan);
    uint32_t temps = p->plan->n_slots + p->plan->n_packs + 1;
    if (p->plan->failed || launches > CV_MAX_STEPS) {
        p->failed = 1;
        return;
    }
    p->launches = (one_launch *)calloc(launches, sizeof(*p->launches));
    p->launch_list = (const kf_launch **)calloc(launches, sizeof(*p->launch_list));
    p->steps = (kf_step *)calloc(launches + p->region->n_ops, sizeof(*p->steps));
    p->temps = (kf_temp *)calloc(temps, sizeof(*p->temps));
    p->temp_bytes = (kf_formula *)calloc(temps, sizeof(*p->temp_bytes));
    if (p->launches == NULL || p->launch_list == NULL || p->steps == NULL || p->temps == NULL ||
        p->temp_bytes == NULL) {
        p->failed = 1;
        return;
    }
    make_temps(p);
    host_steps(p);
    make_launches(p);
    close_sources(p);
}

cv_program *cv_program_create(const cv_region *region, const cv_device *device)
{
    cv_program *p = (cv_program *)calloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    p->region = (cv_region *)malloc(sizeof(*p->region));
    p->plan = (cv_plan *)calloc(1, sizeof(*p->plan));
    p->failed = p->region == NULL || p->plan == NULL;
    if (!p->failed) {
        cv_region_copy(p->region, region);
        p->len = region->len;
        kf_chain_name(&p->name, "convolution", region->shown, region->n_shown);
        p->failed |= p->name.failed;
        fill(p, device);
    }
    if (p->failed) {
        cv_program_destroy(p);
        return NULL;
    }
    make_key(p);
    return p;
}

void cv_program_destroy(cv_program *program)
{
    if (program == NULL) {
        return;
    }
    for (uint32_t i = 0;
         program->launches != NULL && program->plan != NULL && i < most_launches(program->plan);
         i++) {
        kf_text_free(&program->launches[i].kernel.text);
        free(program->launches[i].args);
        free(program->launches[i].numbers);
    }
    for (uint32_t i = 0; i < CV_MAX_STEPS; i++) {
        kf_text_free(&program->source_texts[i]);
    }
    kf_text_free(&program->name);
    free(program->launches);
    free(program->launch_list);
    free(program->steps);
    free(program->temps);
    free(program->temp_bytes);
    free(program->region);
    free(program->plan);
    free(program);
}

void cv_program_describe(const cv_program *program, kf_program *out)
{
    kf_program view;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.flags = KF_PROGRAM_DETERMINISTIC;
    view.sources = program->source_list;
    view.n_sources = program->n_sources;
    view.launches = program->launch_list;
    view.n_launches = program->n_launches;
    view.temps = program->temps;
    view.n_temps = program->n_temps;
    view.steps = program->steps;
    view.n_steps = program->n_steps;
    KF_OUT(out, &view);
}

void cv_program_info(const cv_program *program, kf_opt_info *out)
{
    kf_opt_info_fill(out, program->len, &program->name, program->key, sizeof(program->key));
}
