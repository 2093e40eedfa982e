// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators for the tests of the host: one that is well and has a parameter of every type, and,
// each wrong in its own way, those of the namespace `bad`. FAULT builds a plugin that must be
// refused.
#include "kf_operators.h"
#include "kf_util.h"

#include <math.h>

#define FAULT_NONE 0
#define FAULT_NO_VERSION 1
#define FAULT_BAD_NAME 2
#define FAULT_NO_REFERENCE 3
#define FAULT_MANY_PARAMS 4
#define FAULT_PARAM_TYPE 5
#define FAULT_PARAM_TWICE 6
#define FAULT_PARAM_NAME 7
#define FAULT_PARAM_FLAG 8
#define FAULT_PARAM_DEFAULT 9
#define FAULT_HALF_KERNEL 10
#define FAULT_OP_TWICE 11
#define FAULT_OP_SIZE 12
#define FAULT_NO_OPERATOR 13
#define FAULT_NOTHING 14
#define FAULT_INPUTS 15
#define FAULT_OUTPUTS 16
#define FAULT_FLAG 17
#define FAULT_NULL_OP 18
#ifndef FAULT
#define FAULT FAULT_NONE
#endif
#define ELSE(fault, bad, good) (FAULT == (fault) ? (bad) : (good))

#ifndef PLUGIN_ID
#define PLUGIN_ID "test.operators"
#endif

KF_MANIFEST(PLUGIN_ID, "1.0", 0, KF_OPSET_MAX, 0, 0);

// ---- rules ----

static kf_status same(const kf_call *call, const kf_shape *const *inputs, kf_shape *const *outputs)
{
    (void)call;
    kf_shape_copy(outputs[0], inputs[0]);
    return KF_OK;
}

static kf_status rank_99(const kf_call *call, const kf_shape *const *inputs,
                         kf_shape *const *outputs)
{
    outputs[0]->rank = 99;
    outputs[0]->dtype = inputs[0]->dtype;
    (void)call;
    return KF_OK;
}

static kf_status negative(const kf_call *call, const kf_shape *const *inputs,
                          kf_shape *const *outputs)
{
    kf_status status = same(call, inputs, outputs);
    outputs[0]->dims[0] = -3;
    return status;
}

static kf_status huge(const kf_call *call, const kf_shape *const *inputs, kf_shape *const *outputs)
{
    kf_status status = same(call, inputs, outputs);
    outputs[0]->rank = 2;
    outputs[0]->dims[0] = outputs[0]->dims[1] = (int64_t)1 << 40;
    return status;
}

static kf_status no_dtype(const kf_call *call, const kf_shape *const *inputs,
                          kf_shape *const *outputs)
{
    kf_status status = same(call, inputs, outputs);
    outputs[0]->dtype = 77;
    return status;
}

static kf_status quantised(const kf_call *call, const kf_shape *const *inputs,
                           kf_shape *const *outputs)
{
    kf_status status = same(call, inputs, outputs);
    outputs[0]->dtype = KF_DTYPE_Q8F;
    return status;
}

static kf_status forgets(const kf_call *call, const kf_shape *const *inputs,
                         kf_shape *const *outputs)
{
    (void)call;
    (void)inputs;
    (void)outputs;
    return KF_OK;
}

static kf_status resizes(const kf_call *call, const kf_shape *const *inputs,
                         kf_shape *const *outputs)
{
    kf_status status = same(call, inputs, outputs);
    outputs[0]->struct_size = 4096;
    return status;
}

static kf_status fails(const kf_call *call, const kf_shape *const *inputs, kf_shape *const *outputs)
{
    (void)call;
    (void)inputs;
    (void)outputs;
    return KF_E_INTERNAL;
}

static kf_status crashes(const kf_call *call, const kf_shape *const *inputs,
                         kf_shape *const *outputs)
{
    (void)inputs;
    (void)outputs;
    *(volatile uint32_t *)(uintptr_t)(call->n_outputs * 4u) = 0; // near NULL
    return KF_OK;
}

static kf_status silent(const kf_call *call, const kf_shape *const *inputs,
                        kf_shape *const *outputs)
{
    (void)call;
    (void)inputs;
    (void)outputs;
    return KF_DECLINED;
}

static kf_status unfit(const kf_call *call, const kf_memory *const *inputs,
                       const kf_memory *const *outputs)
{
    (void)call;
    (void)inputs;
    (void)outputs;
    return KF_E_INTERNAL;
}

// ---- references ----

/// y = x + the first parameter, of f32.
static kf_status plus(const kf_call *call, const kf_memory *const *inputs,
                      const kf_memory *const *outputs)
{
    float more = call->n_attrs > 0 ? (float)call->attrs[0].v.f : 1.0f;
    int64_t i, count = kf_memory_count(outputs[0]);
    for (i = 0; i < count; i++) {
        ((float *)outputs[0]->data)[kf_memory_at(outputs[0], i)] =
            ((const float *)inputs[0]->data)[kf_memory_at(inputs[0], i)] + more;
    }
    return KF_OK;
}

/// How much the parameters are, for a test to compare: every one counts.
static kf_status sum_params(const kf_call *call, const kf_memory *const *inputs,
                            const kf_memory *const *outputs)
{
    const kf_attr *a = call->attrs;
    double sum = a[0].v.f + (double)a[1].v.i + 1000.0 * (double)a[2].v.i;
    uint32_t i;
    int64_t k, count = kf_memory_count(outputs[0]);
    sum += 10000.0 * (double)(a[3].v.i == KF_DTYPE_F16);
    for (i = 0; i < a[4].count; i++) {
        sum += (double)a[4].v.iv[i];
    }
    for (i = 0; i < a[5].count; i++) {
        sum += a[5].v.fv[i];
    }
    sum += (double)a[6].v.b->len;
    for (k = 0; k < count; k++) {
        ((float *)outputs[0]->data)[kf_memory_at(outputs[0], k)] =
            ((const float *)inputs[0]->data)[kf_memory_at(inputs[0], k)] + (float)sum;
    }
    return KF_OK;
}

// ---- kernels ----

struct kf_kernel {
    const char *code;
    kf_formula work;
    kf_karg args[2];
    kf_source source;
    kf_launch launch;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
};

static const char plus_code[] = "__kernel void plus(__global const float *x, __global float *y) {\n"
                                "    y[get_global_id(0)] = x[get_global_id(0)] + 1.0f;\n}\n";

static kf_status make(const kf_op *op, const char *code, uint32_t first_access, kf_kernel **out)
{
    kf_kernel *k = (kf_kernel *)calloc(1, sizeof(*k));
    uint32_t dense = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET;
    *out = k;
    if (k == NULL) {
        return KF_E_NOMEM;
    }
    if ((op->inputs[0]->facts & dense) != dense || op->inputs[0]->dtype != KF_DTYPE_F32) {
        free(k);
        *out = NULL;
        return KF_DECLINED;
    }
    k->code = code;
    kf_formula_numel(&k->work, op->outputs[0]);
    k->args[0].kind = k->args[1].kind = KF_ARG_TENSOR;
    k->args[0].access = first_access;
    k->args[1].access = KF_ACCESS_WRITE;
    k->args[0].ref = op->inputs[0]->id;
    k->args[1].ref = op->outputs[0]->id;
    k->args[0].dtype = k->args[1].dtype = KF_DTYPE_F32;
    k->source.struct_size = (uint32_t)sizeof(k->source);
    k->source.format = KF_FORMAT_OPENCL_C;
    k->source.code.ptr = code;
    k->source.code.len = strlen(code);
    k->source.cl_c_version = 120;
    k->sources[0] = &k->source;
    k->launch.struct_size = (uint32_t)sizeof(k->launch);
    k->launch.dims = 1;
    k->launch.n_args = 2;
    k->launch.kernel.ptr = "plus";
    k->launch.kernel.len = 4;
    k->launch.global[0] = kf_formula_expr(&k->work);
    k->launch.args = k->args;
    k->launches[0] = &k->launch;
    k->step.kind = KF_STEP_LAUNCH;
    return KF_OK;
}

static kf_status good_kernel(const kf_host *host, const kf_device *device, const kf_block *block,
                             const kf_op *op, kf_kernel **out)
{
    (void)host;
    (void)device;
    (void)block;
    return make(op, plus_code, KF_ACCESS_READ, out);
}

static const char wrong_code[] =
    "__kernel void plus(__global const float *x, __global float *y) {\n"
    "    y[get_global_id(0)] = x[get_global_id(0)] + 1.01f;\n}\n";

static kf_status wrong_numbers(const kf_host *host, const kf_device *device, const kf_block *block,
                               const kf_op *op, kf_kernel **out)
{
    (void)host;
    (void)device;
    (void)block;
    return make(op, wrong_code, KF_ACCESS_READ, out);
}

static kf_status writes_input(const kf_host *host, const kf_device *device, const kf_block *block,
                              const kf_op *op, kf_kernel **out)
{
    (void)host;
    (void)device;
    (void)block;
    return make(op, plus_code, KF_ACCESS_WRITE, out);
}

static kf_status no_source(const kf_host *host, const kf_device *device, const kf_block *block,
                           const kf_op *op, kf_kernel **out)
{
    (void)host;
    (void)device;
    (void)block;
    return make(op, "__kernel void plus(this is no OpenCL C\n", KF_ACCESS_READ, out);
}

static kf_status no_kernel(const kf_host *host, const kf_device *device, const kf_block *block,
                           const kf_op *op, kf_kernel **out)
{
    (void)host;
    (void)device;
    (void)block;
    (void)op;
    (void)out;
    return KF_E_INTERNAL;
}

static kf_status describe(const kf_kernel *k, kf_program *out)
{
    kf_program program;
    memset(&program, 0, sizeof(program));
    program.struct_size = (uint32_t)sizeof(program);
    program.sources = k->sources;
    program.n_sources = 1;
    program.launches = k->launches;
    program.n_launches = 1;
    program.steps = &k->step;
    program.n_steps = 1;
    KF_OUT(out, &program);
    return KF_OK;
}

static kf_status describes_nothing(const kf_kernel *k, kf_program *out)
{
    (void)k;
    (void)out;
    return KF_E_INTERNAL;
}

static void destroy(kf_kernel *k)
{
    free(k);
}

// ---- the tables ----

#define PARAM(text, kf_type, n, ...)                                                               \
    {                                                                                              \
        KF_STR_INIT(text), 0, 0,                                                                   \
        {                                                                                          \
            0, kf_type, 0, n,                                                                      \
            {                                                                                      \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }

static const int64_t some_ints[] = {1, 2, 3};
static const double some_reals[] = {0.5, 0.25};
static const kf_blob some_text = {"near", 4};

static const kf_param all_params[] = {
    {KF_STR_INIT("amount"), KF_PARAM_REQUIRED, 0, {0, KF_TYPE_F64, 0, 0, {0}}},
    PARAM("count", KF_TYPE_I64, 1, .i = 100),
    PARAM("twice", KF_TYPE_BOOL, 1, .i = 0),
    PARAM("dtype", KF_TYPE_DTYPE, 1, .i = KF_DTYPE_F32),
    PARAM("axes", KF_TYPE_I64S, 3, .iv = some_ints),
    PARAM("scales", KF_TYPE_F64S, 2, .fv = some_reals),
    PARAM("mode", KF_TYPE_STRING, 1, .b = &some_text),
};

static const kf_param nan_params[] = {PARAM("amount", KF_TYPE_F64, 1, .f = (double)NAN)};

#define OPERATOR(id, text, rule, meaning, create, tell)                                            \
    static const kf_operator id = {                                                                \
        .struct_size = KF_OPERATOR_SIZE_V1, /* as plugins of before have it */                     \
        .version = 1,                                                                              \
        .name = KF_STR_INIT(text),                                                                 \
        .min_inputs = 1,                                                                           \
        .max_inputs = 1,                                                                           \
        .n_outputs = 1,                                                                            \
        .infer = rule,                                                                             \
        .reference = meaning,                                                                      \
        .kernel_create = create,                                                                   \
        .kernel_describe = tell,                                                                   \
        .kernel_destroy = (tell) == NULL ? NULL : destroy,                                         \
    }

OPERATOR(plus_1, "good::plus", same, plus, good_kernel, describe);
OPERATOR(bad_rank, "bad::rank", rank_99, plus, NULL, NULL);
OPERATOR(bad_negative, "bad::negative", negative, plus, NULL, NULL);
OPERATOR(bad_huge, "bad::huge", huge, plus, NULL, NULL);
OPERATOR(bad_dtype, "bad::dtype", no_dtype, plus, NULL, NULL);
OPERATOR(bad_quantised, "bad::quantised", quantised, plus, NULL, NULL);
OPERATOR(bad_forgets, "bad::forgets", forgets, plus, NULL, NULL);
OPERATOR(bad_resizes, "bad::resizes", resizes, plus, NULL, NULL);
OPERATOR(bad_crashes, "bad::crashes", crashes, plus, NULL, NULL);
OPERATOR(bad_fails, "bad::fails", fails, plus, NULL, NULL);
OPERATOR(bad_silent, "bad::silent", silent, plus, NULL, NULL);
OPERATOR(bad_reference, "bad::reference", same, unfit, NULL, NULL);
OPERATOR(bad_program, "bad::program", same, plus, writes_input, describe);
OPERATOR(bad_numbers, "bad::numbers", same, plus, wrong_numbers, describe);
OPERATOR(bad_source, "bad::source", same, plus, no_source, describe);
OPERATOR(bad_kernel, "bad::kernel", same, plus, no_kernel, describe);
OPERATOR(bad_describe, "bad::describe", same, plus, good_kernel, describes_nothing);

static const kf_operator nan_default = {
    .struct_size = (uint32_t)sizeof(kf_operator),
    .version = 1,
    .name = KF_STR_INIT("bad::nan"),
    .params = nan_params,
    .n_params = 1,
    .min_inputs = 1,
    .max_inputs = 1,
    .n_outputs = 1,
    .infer = same,
    .reference = plus,
};

static const kf_param wrong_params[] = {
    {KF_STR_INIT("a"), 0, 0, {0, KF_TYPE_I64, 0, 1, {.i = 0}}},
    {{ELSE(FAULT_PARAM_NAME, "a b", FAULT == FAULT_PARAM_TWICE ? "a" : "b"),
      ELSE(FAULT_PARAM_NAME, 3, 1)},
     ELSE(FAULT_PARAM_FLAG, 8u, 0u),
     0,
     {0,
      ELSE(FAULT_PARAM_TYPE, KF_TYPE_TENSOR, KF_TYPE_BOOL),
      0,
      1,
      {.i = ELSE(FAULT_PARAM_DEFAULT, 7, 1)}}},
};

/// Several versions of one operator, the newest with every kind of parameter; faults are here.
static const kf_operator params_1 = {
    .struct_size = (uint32_t)ELSE(FAULT_OP_SIZE, 40u, sizeof(kf_operator)),
    .version = ELSE(FAULT_NO_VERSION, 0u, 1u),
    .name = {ELSE(FAULT_BAD_NAME, "good:params!", "good::params"), 12},
    .params = wrong_params,
    .n_params = ELSE(FAULT_MANY_PARAMS, 17u, 2u),
    .min_inputs = ELSE(FAULT_INPUTS, 0u, 1u),
    .max_inputs = 1,
    .n_outputs = ELSE(FAULT_OUTPUTS, 7u, 1u),
    .flags = ELSE(FAULT_FLAG, 2u, 0u),
    .infer = same,
    .reference = FAULT == FAULT_NO_REFERENCE ? NULL : plus,
    .kernel_create = FAULT == FAULT_HALF_KERNEL ? good_kernel : NULL,
};

static const kf_operator params_3 = {
    .struct_size = (uint32_t)sizeof(kf_operator),
    .version = 3,
    .name = KF_STR_INIT("good::params"),
    .doc = KF_STR_INIT("x + what the parameters come to"),
    .params = all_params,
    .n_params = 7,
    .min_inputs = 1,
    .max_inputs = 2,
    .n_outputs = 1,
    .infer = same,
    .reference = sum_params,
};

static const kf_operator *const all[] = {
    FAULT == FAULT_NULL_OP ? NULL : &params_1,
    FAULT == FAULT_OP_TWICE ? &params_1 : &params_3,
    &plus_1,
    &nan_default,
    &bad_rank,
    &bad_negative,
    &bad_huge,
    &bad_dtype,
    &bad_quantised,
    &bad_forgets,
    &bad_resizes,
    &bad_fails,
    &bad_crashes,
    &bad_silent,
    &bad_reference,
    &bad_program,
    &bad_source,
    &bad_numbers,
    &bad_kernel,
    &bad_describe,
};

static const kf_operators operators = {(uint32_t)sizeof(kf_operators), 0, all,
                                       FAULT == FAULT_NO_OPERATOR ? 0
                                                                  : sizeof(all) / sizeof(all[0])};

static const void *extension(const char *id)
{
    return FAULT != FAULT_NOTHING && strcmp(id, KF_EXT_OPERATORS) == 0 ? &operators : NULL;
}

static kf_status init(void)
{
    return KF_OK;
}

static void deinit(void)
{
}

static const kf_plugin plugin = {
    .struct_size = (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
    .id = KF_STR_INIT(PLUGIN_ID),
    .version = KF_STR_INIT("1.0"),
    .vendor = KF_STR_INIT("tests"),
    .init = init,
    .deinit = deinit,
    .extension = extension,
};

KF_EXPORT const kf_plugin *kf_plugin_query_v1(uint32_t host_abi_minor)
{
    (void)host_abi_minor;
    return &plugin;
}
