// SPDX-License-Identifier: MIT OR Apache-2.0
// In which type a session keeps its model. Decides who is asked (the session's options, then the
// option `model-dtype`), which models stay as they are, and which nodes before reductions do; all
// else is found out operation by operation (onnx_kept.c).
#include "onnx_run.h"

#include <string.h>

static kiln_status wanted_dtype(const kiln_onnx_session_options *options, const kiln_env *env,
                                kiln_dtype *out_dtype, kiln_error *err)
{
    bool says = options != NULL && options->struct_size >= sizeof(*options) &&
                options->dtype != KILN_DTYPE_NONE;
    kiln_dtype dtype =
        says ? options->dtype
             : kiln_dtype_from_name(kiln_config_string(env->config, KILN_OPTION_MODEL_DTYPE));
    if (dtype != KILN_DTYPE_F32 && dtype != KILN_DTYPE_F16 && dtype != KILN_DTYPE_BF16) {
        const char *name = kiln_dtype_name(dtype);
        return kiln_fail(err, INVALID_ARGUMENT, "a model is kept in f32, f16 or bf16, not in %s",
                         name != NULL ? name : "no dtype");
    }
    *out_dtype = dtype;
    return KILN_STATUS_OK;
}

/// Operators on integers that stand for floats: their scales and sums say what rounds.
static bool is_quantised(const char *op_type)
{
    static const char *const parts[] = {"Quantize", "QLinear", "QAttention", "QGemm",
                                        "Integer",  "NBits",   "Bnb4"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strstr(op_type, parts[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static bool has_quantised(const kiln_onnx_session *session)
{
    for (const kilni_onnx_plan *plan = session->plans; plan != NULL; plan = plan->next) {
        for (uint32_t i = 0; i < plan->n_steps; i++) {
            if (is_quantised(plan->steps[i].node->op_type)) {
                return true;
            }
        }
    }
    return false;
}

// ---- what is summed up ----

static bool is_elementwise(const kilni_onnx_step *step)
{
    const kilni_onnx_row *row = step->row;
    return row != NULL &&
           (strcmp(row->op_type, "Pow") == 0 ||
            (row->op != KILN_OP_COUNT && kiln_op_info_of(row->op)->cls == KILN_CLASS_ELEMENTWISE));
}

/// How often reductions read each slot.
static void count_sums(const kilni_onnx_plan *plan, uint32_t *sums)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const kilni_onnx_step *step = &plan->steps[i];
        uint32_t slot = step->node->n_inputs > 0 ? step->inputs[0] : KILNI_ONNX_NO_SLOT;
        if (step->row != NULL && strncmp(step->row->op_type, "Reduce", 6) == 0 &&
            slot != KILNI_ONNX_NO_SLOT) {
            sums[slot]++;
        }
    }
}

/// Steps whose results reductions alone read, such as the squares of a norm that is written out,
/// are computed in f32: f16 may have no room for them.
static kiln_status mark_summed(kiln_onnx_session *session, kilni_onnx_plan *plan, kiln_error *err)
{
    bool *marks = kiln_arena_alloc(&session->arena, plan->n_steps + 1u);
    uint32_t *sums = kiln_alloc_array(&session->env, plan->n_slots + 1u, sizeof(*sums));
    if (marks == NULL || sums == NULL) {
        kiln_free(&session->env, sums);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %u nodes", plan->n_steps);
    }
    count_sums(plan, sums);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const kilni_onnx_step *step = &plan->steps[i];
        uint32_t slot = step->node->n_outputs > 0 ? step->outputs[0] : KILNI_ONNX_NO_SLOT;
        marks[i] = slot != KILNI_ONNX_NO_SLOT && sums[slot] > 0 && sums[slot] == plan->uses[slot] &&
                   is_elementwise(step);
    }
    kiln_free(&session->env, sums);
    plan->in_f32 = marks;
    return KILN_STATUS_OK;
}

kiln_status kilni_onnx_choose_dtype(kiln_onnx_session *session, kiln_device *const *devices,
                                    size_t n_devices, const kiln_onnx_session_options *options,
                                    kiln_error *err)
{
    const kiln_env *env = kiln_context_env(kiln_device_context(devices[0]));
    kiln_dtype dtype = KILN_DTYPE_NONE;
    kiln_status status = wanted_dtype(options, env, &dtype, err);
    for (size_t i = 0; status == KILN_STATUS_OK && i < n_devices; i++) {
        if ((kiln_device_dtype_usage(devices[i], dtype) & KILN_USAGE_STORAGE) == 0) {
            status = kiln_fail(err, UNIMPLEMENTED, "%s has no %s", kiln_device_address(devices[i]),
                               kiln_dtype_name(dtype));
        }
    }
    if (status != KILN_STATUS_OK || dtype == KILN_DTYPE_F32) {
        return status;
    }
    if (has_quantised(session)) {
        kiln_log_write(env, KILN_LOG_WARN, "onnx", "a model with quantised parts is not kept in %s",
                       kiln_dtype_name(dtype));
        return KILN_STATUS_OK;
    }
    session->kept_in = dtype;
    for (kilni_onnx_plan *plan = session->plans; plan != NULL && status == KILN_STATUS_OK;
         plan = plan->next) {
        status = mark_summed(session, plan, err);
    }
    return status;
}

kiln_dtype kiln_onnx_session_dtype(const kiln_onnx_session *session)
{
    bool keeps = session != NULL && session->kept_in != KILN_DTYPE_NONE;
    return keeps ? session->kept_in : KILN_DTYPE_F32;
}
