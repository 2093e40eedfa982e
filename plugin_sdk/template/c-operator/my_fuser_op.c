// SPDX-License-Identifier: MIT OR Apache-2.0
// The operator example::my_fuser: x where it is not below 0, slope * x elsewhere. What it means is
// `reference`; the kernel has to give the same. The first half of this file is yours to change.
#include <kiln/kf_operators.h>
#include <kiln/kf_util.h>

#define PLUGIN_ID "org.example.my-fuser"
#define PLUGIN_VERSION "0.1.0"
KF_MANIFEST(PLUGIN_ID, PLUGIN_VERSION, 0, KF_OPSET_MAX, 0, 0);

enum { SLOPE }; // numbers of the parameters
static const kf_param params[] = {
    {KF_STR_INIT("slope"), 0, 0, {0, KF_TYPE_F64, 0, 1, {.f = 0.1}}}, // 0.1 when it is left out
};

/// Shapes and dtypes of the outputs, from those of the inputs.
static kf_status infer(const kf_call *call, const kf_shape *const *inputs, kf_shape *const *outputs)
{
    if (inputs[0]->dtype != KF_DTYPE_F32) {
        (void)kf_decline(call->host, KF_CODE_DTYPE, KF_NONE, "takes f32");
        return KF_DECLINED;
    }
    kf_shape_copy(outputs[0], inputs[0]);
    return KF_OK;
}

/// On the host, with any strides.
static kf_status reference(const kf_call *call, const kf_memory *const *inputs,
                           const kf_memory *const *outputs)
{
    const float *x = (const float *)inputs[0]->data;
    float *y = (float *)outputs[0]->data;
    float slope = (float)call->attrs[SLOPE].v.f;
    int64_t i, count = kf_memory_count(outputs[0]);
    for (i = 0; i < count; i++) {
        float v = x[kf_memory_at(inputs[0], i)];
        y[kf_memory_at(outputs[0], i)] = v < 0 ? slope * v : v;
    }
    return KF_OK;
}

/// The kernel. SLOPE is defined as the text of the call's parameter.
static const char kernel_source[] = "__kernel void my_kernel(__global const float *x,\n"
                                    "                        __global float *y, long count,\n"
                                    "                        long each)\n"
                                    "{\n"
                                    "    long begin = get_global_id(0) * each;\n"
                                    "    long end = min(begin + each, count);\n"
                                    "    for (long i = begin; i < end; i++) {\n"
                                    "        y[i] = x[i] < 0.0f ? SLOPE * x[i] : x[i];\n"
                                    "    }\n"
                                    "}\n";
static const char kernel_name[] = "my_kernel";

/// Why the kernel is not for this call; NULL: it is. The reference then computes it.
static const char *why_not(const kf_op *op)
{
    uint32_t dense = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET;
    return (op->inputs[0]->facts & dense) == dense ? NULL : "the kernel is for dense tensors";
}

// ---- the program, as kiln_fuser.h wants it described ----

struct kf_kernel { // immutable, and what its parts point to
    char slope[40];
    kf_str defines[1];
    kf_formula count;
    kf_formula each;
    kf_formula work_items;
    kf_karg args[4];
    kf_source source;
    kf_launch launch;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
};

static void add_tensor(kf_kernel *kernel, const kf_tensor *tensor, uint32_t access)
{
    kf_karg *arg = &kernel->args[kernel->launch.n_args++];
    arg->kind = KF_ARG_TENSOR;
    arg->access = access;
    arg->ref = tensor->id;
    arg->dtype = tensor->dtype;
}

static void add_number(kf_kernel *kernel, const kf_formula *value)
{
    kf_karg *arg = &kernel->args[kernel->launch.n_args++];
    arg->kind = KF_ARG_VALUE;
    arg->dtype = KF_DTYPE_I64;
    arg->value = kf_formula_expr(value);
}

/// Bits, because infinity has no name that all compilers know.
static void add_slope(kf_kernel *kernel, const kf_op *op)
{
    float slope = (float)kf_op_attr(op, KF_PARAM_KEY(SLOPE))->v.f;
    uint32_t bits;
    memcpy(&bits, &slope, sizeof(bits));
    snprintf(kernel->slope, sizeof(kernel->slope), "SLOPE=as_float(0x%08xu)", bits);
    kernel->defines[0].ptr = kernel->slope;
    kernel->defines[0].len = strlen(kernel->slope);
}

static void make_program(kf_kernel *kernel, const kf_op *op, uint32_t each)
{
    add_slope(kernel, op);
    kf_formula_numel(&kernel->count, op->outputs[0]);
    kf_formula_imm(&kernel->each, each);
    kf_formula_numel(&kernel->work_items, op->outputs[0]);
    kf_formula_imm(&kernel->work_items, each);
    kf_formula_op(&kernel->work_items, KF_INS_CEIL_DIV);
    add_tensor(kernel, op->inputs[0], KF_ACCESS_READ);
    add_tensor(kernel, op->outputs[0], KF_ACCESS_WRITE);
    add_number(kernel, &kernel->count);
    add_number(kernel, &kernel->each);
    kernel->source.struct_size = (uint32_t)sizeof(kernel->source);
    kernel->source.format = KF_FORMAT_OPENCL_C;
    kernel->source.code.ptr = kernel_source;
    kernel->source.code.len = sizeof(kernel_source) - 1;
    kernel->source.defines = kernel->defines;
    kernel->source.n_defines = 1;
    kernel->source.cl_c_version = 120;
    kernel->launch.struct_size = (uint32_t)sizeof(kernel->launch);
    kernel->launch.dims = 1;
    kernel->launch.kernel.ptr = kernel_name;
    kernel->launch.kernel.len = sizeof(kernel_name) - 1;
    kernel->launch.global[0] = kf_formula_expr(&kernel->work_items);
    kernel->launch.args = kernel->args;
    kernel->step.kind = KF_STEP_LAUNCH;
    kernel->sources[0] = &kernel->source;
    kernel->launches[0] = &kernel->launch;
}

static kf_status kernel_create(const kf_host *host, const kf_device *device, const kf_block *block,
                               const kf_op *op, kf_kernel **out)
{
    const char *why = why_not(op);
    (void)block;
    *out = NULL;
    if (why != NULL) {
        (void)kf_decline(host, KF_CODE_LAYOUT, op->position, "%s", why);
        return KF_DECLINED;
    }
    *out = (kf_kernel *)calloc(1, sizeof(**out));
    if (*out == NULL) {
        return KF_E_NOMEM;
    }
    make_program(*out, op, device->code_shape == KF_SHAPE_BLOCK ? 16384 : 4);
    return KF_OK;
}

static kf_status kernel_describe(const kf_kernel *kernel, kf_program *out)
{
    kf_program program;
    memset(&program, 0, sizeof(program));
    program.struct_size = (uint32_t)sizeof(program);
    program.flags = KF_PROGRAM_DETERMINISTIC;
    program.sources = kernel->sources;
    program.n_sources = 1;
    program.launches = kernel->launches;
    program.n_launches = 1;
    program.steps = &kernel->step;
    program.n_steps = 1;
    KF_OUT(out, &program);
    return KF_OK;
}

static void kernel_destroy(kf_kernel *kernel)
{
    free(kernel);
}

// ---- the table ----

static const kf_operator my_operator = {
    .struct_size = (uint32_t)sizeof(kf_operator),
    .version = 1, // raise it when the meaning changes
    .name = KF_STR_INIT("example::my_fuser"),
    .doc = KF_STR_INIT("x, and slope * x below 0"),
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .min_inputs = 1,
    .max_inputs = 1,
    .n_outputs = 1,
    .infer = infer,
    .reference = reference,
    .kernel_create = kernel_create,
    .kernel_describe = kernel_describe,
    .kernel_destroy = kernel_destroy,
};
static const kf_operator *const all[] = {&my_operator};
static const kf_operators operators = {(uint32_t)sizeof(operators), 0, all, 1};

static const void *extension(const char *id)
{
    return strcmp(id, KF_EXT_OPERATORS) == 0 ? &operators : NULL;
}

static kf_status init(void)
{
    return KF_OK;
}

static void deinit(void)
{
}

static const kf_plugin plugin = {
    .struct_size = (uint32_t)sizeof(plugin),
    .abi_minor = KF_ABI_MINOR,
    .id = KF_STR_INIT(PLUGIN_ID),
    .version = KF_STR_INIT(PLUGIN_VERSION),
    .vendor = KF_STR_INIT("Example"),
    .init = init,
    .deinit = deinit,
    .extension = extension,
};

KF_EXPORT const kf_plugin *kf_plugin_query_v1(uint32_t host_abi_minor)
{
    (void)host_abi_minor;
    return &plugin;
}
