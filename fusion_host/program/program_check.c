// SPDX-License-Identifier: MIT OR Apache-2.0
// Does a translated program do what its block asks? Sizes at the extents at hand are within the
// device's limits, steps read only what was written before, nothing writes what the block does not
// define, every result that lives on is written. Also the key that names a program's content.
// A size that only these extents make too large is FAILED_PRECONDITION: nobody's fault.
#include <inttypes.h>

#include "translate.h"

enum { MAX_GLOBAL_LOG2 = 40 };

// ---- sizes at the extents at hand ----

/// Asked extents may be in a formula as numbers.
static bool follows_extents(const kilni_fuse_translation *input, const kiln_formula *formula)
{
    bool found = false;
    for (uint32_t i = 0; i < formula->count; i++) {
        found = found || formula->steps[i].code == KILN_F_SYM;
    }
    for (uint32_t i = 0; i < input->asks->count; i++) {
        found = found || !input->asks->items[i].is_scalar;
    }
    return found;
}

/// A size past its limit, by the formula that it comes from.
static kiln_status blame(const kilni_fuse_translation *input, const kiln_formula *formula,
                         kiln_status status, kiln_error *err)
{
    if (status != KILN_STATUS_INVALID_ARGUMENT || !follows_extents(input, formula)) {
        return status;
    }
    if (err != NULL) {
        err->code = KILN_STATUS_FAILED_PRECONDITION;
    }
    return KILN_STATUS_FAILED_PRECONDITION;
}

static kiln_status check_size(const kilni_fuse_translation *input, const kiln_formula *formula,
                              int64_t limit, const char *what, int64_t *out_value, kiln_error *err)
{
    kiln_status status = kilni_fuse_formula_now(input, formula, out_value, err);
    if (status == KILN_STATUS_OK && (*out_value < 1 || *out_value > limit)) {
        status = kiln_fail(err, INVALID_ARGUMENT, "%s is %" PRId64 ", not from 1 to %" PRId64, what,
                           *out_value, limit);
        status = blame(input, formula, status, err);
    }
    return status;
}

static int64_t limit_or(uint64_t limit, int64_t otherwise)
{
    return limit == 0 || limit > (uint64_t)otherwise ? otherwise : (int64_t)limit;
}

static kiln_status check_groups(const kilni_fuse_translation *input,
                                const kiln_program_launch *launch, kiln_error *err)
{
    int64_t max_group = limit_or(input->device->max_work_group, 1 << 20);
    int64_t group = 1;
    for (uint32_t i = 0; i < launch->n_dims; i++) {
        int64_t global = 0;
        int64_t local = 1;
        kiln_status status = check_size(input, &launch->global[i], (int64_t)1 << MAX_GLOBAL_LOG2,
                                        "global size", &global, err);
        if (status == KILN_STATUS_OK && launch->local[0].count > 0) {
            int64_t most = limit_or(input->device->max_work_items[i], max_group);
            status = check_size(input, &launch->local[i], most, "local size", &local, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        if (global % local != 0) { // at other extents it may be by luck
            return kiln_fail(err, INVALID_ARGUMENT,
                             "global size %" PRId64 " is no multiple of local size %" PRId64,
                             global, local);
        }
        group *= local;
        if (group > max_group) {
            status = kiln_fail(err, INVALID_ARGUMENT, "work-group of %" PRId64 ", at most %" PRId64,
                               group, max_group);
            return blame(input, &launch->local[i], status, err);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_values(const kilni_fuse_translation *input,
                                const kiln_program_launch *launch, kiln_error *err)
{
    static const kiln_formula_step symbol = {.code = KILN_F_SYM};
    const kiln_formula extent = {&symbol, 1};
    int64_t max_local = limit_or(input->device->local_bytes, INT64_MAX);
    int64_t local = 0;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        int64_t value = 0;
        kiln_status status = KILN_STATUS_OK;
        if (arg->kind == KILN_ARG_LOCAL) {
            status = check_size(input, &arg->value, max_local - local, "local memory", &value, err);
            local += value;
        } else if (arg->kind == KILN_ARG_FORMULA) {
            status = kilni_fuse_formula_now(input, &arg->value, &value, err);
        } else if (arg->kind == KILN_ARG_DIM) {
            value = input->values[arg->ref];
        }
        bool narrow = arg->dtype == KILN_DTYPE_I32;
        if (status == KILN_STATUS_OK && narrow && (value > INT32_MAX || value < INT32_MIN)) {
            status = kiln_fail(err, INVALID_ARGUMENT,
                               "argument %u is %" PRId64 ", which does not fit 32 bits", i, value);
            status = blame(input, arg->kind == KILN_ARG_DIM ? &extent : &arg->value, status, err);
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_param_bytes(const kilni_fuse_translation *input,
                                     const kiln_program_launch *launch, kiln_error *err)
{
    const uint64_t limit = kilni_fuse_param_bytes(input->device);
    size_t bytes = 0;
    for (uint32_t i = 0; i < launch->n_args; i++) {
        size_t number = kiln_dtype_size(launch->args[i].dtype);
        bytes += number != 0 ? number : sizeof(void *);
    }
    return bytes <= limit ? KILN_STATUS_OK
                          : kiln_fail(err, INVALID_ARGUMENT,
                                      "arguments of %zu bytes, at most %" PRIu64, bytes, limit);
}

static kiln_status check_sizes(const kilni_fuse_translation *input, const kiln_program *program,
                               kiln_error *err)
{
    for (uint32_t i = 0; i < program->n_launches; i++) {
        kiln_status status = check_groups(input, &program->launches[i], err);
        if (status == KILN_STATUS_OK) {
            status = check_values(input, &program->launches[i], err);
        }
        if (status == KILN_STATUS_OK) {
            status = check_param_bytes(input, &program->launches[i], err);
        }
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "launch %u", i);
            return status;
        }
    }
    int64_t max_temp = limit_or(input->device->max_alloc_bytes, (int64_t)1 << 46);
    for (uint32_t i = 0; i < program->n_temps; i++) {
        int64_t bytes = 0;
        kiln_status status =
            check_size(input, &program->temps[i].bytes, max_temp, "size", &bytes, err);
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(err, "temporary %u", i);
            return status;
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_guard(const kilni_fuse_translation *input, const kiln_program *program,
                               kiln_error *err)
{
    int64_t holds = 1;
    kiln_status status = KILN_STATUS_OK;
    if (program->guard.count > 0) {
        status = kilni_fuse_formula_now(input, &program->guard, &holds, err);
    }
    if (status == KILN_STATUS_OK && holds == 0) {
        status = kiln_fail(err, INVALID_ARGUMENT, "guard does not hold for the shapes at hand");
        status = blame(input, &program->guard, status, err);
    }
    return status;
}

// ---- what is written when ----

typedef struct flow {
    const kilni_fuse_translation *input;
    const kiln_program *program;
    bool *tensors; ///< has a value
    bool *temps; ///< has a value
    bool *launched; ///< launch is in a step, or packs a temporary
    kiln_error *err;
} flow;

static bool defined_here(const flow *f, uint32_t tensor)
{
    return f->input->view->defined[tensor] < f->input->len;
}

static kiln_status flow_access(flow *f, const kiln_program_arg *arg)
{
    bool is_tensor = arg->kind == KILN_ARG_TENSOR;
    bool *has_value = is_tensor ? &f->tensors[arg->ref] : &f->temps[arg->ref];
    const char *what = is_tensor ? "tensor" : "temporary";
    if ((arg->access & KILN_ACCESS_READ) != 0 && !*has_value) {
        return kiln_fail(f->err, INVALID_ARGUMENT, "reads %s %u before it is written", what,
                         arg->ref);
    }
    if ((arg->access & KILN_ACCESS_WRITE) != 0 && is_tensor && !defined_here(f, arg->ref)) {
        return kiln_fail(f->err, INVALID_ARGUMENT,
                         "writes tensor %u, which the block does not define", arg->ref);
    }
    return KILN_STATUS_OK;
}

static bool is_memory(const kiln_program_arg *arg)
{
    return arg->kind == KILN_ARG_TENSOR || arg->kind == KILN_ARG_TEMP;
}

static kiln_status flow_launch(flow *f, uint32_t index)
{
    const kiln_program_launch *launch = &f->program->launches[index];
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        kiln_status status = is_memory(arg) ? flow_access(f, arg) : KILN_STATUS_OK;
        if (status != KILN_STATUS_OK) {
            (void)kiln_error_context(f->err, "launch %u", index);
            return status;
        }
    }
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        if (is_memory(arg) && (arg->access & KILN_ACCESS_WRITE) != 0) {
            *(arg->kind == KILN_ARG_TENSOR ? &f->tensors[arg->ref] : &f->temps[arg->ref]) = true;
        }
    }
    f->launched[index] = true;
    return KILN_STATUS_OK;
}

static kiln_status flow_host_op(flow *f, uint32_t position)
{
    const kilni_fuse_block_view *view = f->input->view;
    const kiln_op_record *record = &view->recorded->ops[view->ops[position]];
    const uint32_t *refs = view->recorded->marks[view->ops[position]].refs;
    if (record->op == KILN_OP_DROP) {
        return kiln_fail(f->err, INVALID_ARGUMENT, "a step runs operation %u, which is a drop",
                         position);
    }
    for (uint32_t i = 0; i < record->n_inputs; i++) {
        if (!f->tensors[kilni_fuse_block_tensor(view, refs[i])]) {
            return kiln_fail(f->err, INVALID_ARGUMENT,
                             "a step runs operation %u before its input %u is written", position,
                             i);
        }
    }
    for (uint32_t i = 0; i < record->n_outputs; i++) {
        f->tensors[kilni_fuse_block_tensor(view, refs[record->n_inputs + i])] = true;
    }
    return KILN_STATUS_OK;
}

/// A launch that packs a temporary sees constants and writes that temporary, nothing else.
static kiln_status flow_prepack(flow *f, uint32_t temp)
{
    const kilni_fuse_block_view *view = f->input->view;
    uint32_t index = f->program->temps[temp].prepack_launch;
    const kiln_program_launch *launch = &f->program->launches[index];
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        bool constant =
            arg->kind == KILN_ARG_TENSOR && arg->access == KILN_ACCESS_READ &&
            view->defined[arg->ref] == KILNI_FUSE_NONE &&
            (view->recorded->infos[view->tensors[arg->ref]].facts & KILNI_FUSE_FACT_CONST) != 0;
        bool target =
            arg->kind == KILN_ARG_TEMP && arg->ref == temp && arg->access == KILN_ACCESS_WRITE;
        if (is_memory(arg) && !constant && !target) {
            return kiln_fail(f->err, INVALID_ARGUMENT,
                             "launch %u packs temporary %u and touches more than constants", index,
                             temp);
        }
    }
    f->launched[index] = true;
    f->temps[temp] = true;
    return KILN_STATUS_OK;
}

static kiln_status flow_steps(flow *f)
{
    const kiln_program *program = f->program;
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < program->n_temps && status == KILN_STATUS_OK; i++) {
        if ((program->temps[i].flags & KILN_TEMP_PERSISTENT) != 0) {
            status = flow_prepack(f, i);
        }
    }
    for (uint32_t i = 0; i < program->n_steps && status == KILN_STATUS_OK; i++) {
        const kiln_program_step *step = &program->steps[i];
        status = step->kind == KILN_STEP_LAUNCH ? flow_launch(f, step->index)
                                                : flow_host_op(f, step->index);
    }
    for (uint32_t i = 0; i < program->n_launches && status == KILN_STATUS_OK; i++) {
        if (!f->launched[i]) {
            status = kiln_fail(f->err, INVALID_ARGUMENT, "launch %u is in no step", i);
        }
    }
    return status;
}

static kiln_status flow_results(const flow *f)
{
    const kilni_fuse_block_view *view = f->input->view;
    uint32_t n_tensors = view->marks[f->input->len - 1].n_tensors;
    for (uint32_t i = 0; i < n_tensors; i++) {
        bool dropped = view->dropped[i] < f->input->len;
        if (defined_here(f, i) && !dropped && !f->tensors[i]) {
            return kiln_fail(f->err, INVALID_ARGUMENT, "tensor %u lives on and is never written",
                             i);
        }
    }
    return KILN_STATUS_OK;
}

static kiln_status check_flow(const kilni_fuse_translation *input, const kiln_program *program,
                              kiln_error *err)
{
    const kilni_fuse_block_view *view = input->view;
    uint32_t n_tensors = view->marks[input->len - 1].n_tensors;
    flow f = {.input = input, .program = program, .err = err};
    f.tensors = kiln_arena_alloc(input->arena, n_tensors);
    f.temps = kiln_arena_alloc(input->arena, program->n_temps);
    f.launched = kiln_arena_alloc(input->arena, program->n_launches);
    if (f.tensors == NULL || f.temps == NULL || f.launched == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to check a program");
    }
    for (uint32_t i = 0; i < n_tensors; i++) {
        f.tensors[i] = view->defined[i] == KILNI_FUSE_NONE;
    }
    kiln_status status = flow_steps(&f);
    return status == KILN_STATUS_OK ? flow_results(&f) : status;
}

kiln_status kilni_fuse_program_check(const kilni_fuse_translation *input,
                                     const kiln_program *program, kiln_error *err)
{
    kiln_status status = check_sizes(input, program, err);
    if (status == KILN_STATUS_OK) {
        status = check_guard(input, program, err);
    }
    return status == KILN_STATUS_OK ? check_flow(input, program, err) : status;
}
