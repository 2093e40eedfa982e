// SPDX-License-Identifier: MIT OR Apache-2.0
// A plugin that brings two operators with the gradient of one, and no fuser:
//
//   acme::mish_clip   x -> clamp(x * tanh(log(1 + exp(x))), -clip, clip), NaN stays NaN.
//                     Attribute clip, a number above 0, 6.0 when left out. Its gradient is
//                     acme::mish_clip_backward: x, y, gradient of y -> gradient of x.
//   acme::row_top     x -> the largest element along `axis` (-1 when left out) and its index, the
//                     first of equal ones. The axis goes. The first NaN wins.
//
// Both take f32 and f64. Their kernels are for f32, with any strides; f64 goes by the reference.
// It needs the SDK's headers alone:  cc -shared -fPIC -I.../include acme_operators.c -lm
#include <kiln/kf_operators.h>
#include <kiln/kf_util.h>

#include <math.h>

KF_MANIFEST("com.acme.operators", "1.0", 0, KF_OPSET_MAX, 0, 0);

enum { PARAM_CLIP = 0, PARAM_AXIS = 0 };

// ---- what both share ----

static kf_status refuse(const kf_call *call, uint32_t code, const char *text)
{
    (void)kf_decline(call->host, code, KF_NONE, "%s", text);
    return KF_DECLINED;
}

static kf_status check_dtype(const kf_call *call, const kf_shape *x)
{
    return x->dtype == KF_DTYPE_F32 || x->dtype == KF_DTYPE_F64
               ? KF_OK
               : refuse(call, KF_CODE_DTYPE, "takes f32 and f64");
}

static double load(const kf_memory *memory, int64_t at)
{
    return memory->dtype == KF_DTYPE_F32 ? (double)((const float *)memory->data)[at]
                                         : ((const double *)memory->data)[at];
}

static void store(const kf_memory *memory, int64_t at, double value)
{
    if (memory->dtype == KF_DTYPE_F32) {
        ((float *)memory->data)[at] = (float)value;
    } else {
        ((double *)memory->data)[at] = value;
    }
}

/// A described program: its text and its bindings, in the form that the ABI points to.
struct kf_kernel {
    kf_text code;
    kf_formula work; // work-items
    kf_formula count; // elements, or rows
    kf_formula extents[KF_MAX_RANK];
    kf_karg args[4 + 3 * KF_MAX_RANK];
    uint32_t n_args;
    kf_source source;
    kf_launch launch;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
};

static void kernel_destroy(kf_kernel *kernel)
{
    kf_text_free(&kernel->code);
    free(kernel);
}

static kf_karg *add_arg(kf_kernel *kernel, uint32_t kind, uint32_t ref, uint32_t dtype)
{
    kf_karg *arg = &kernel->args[kernel->n_args++];
    arg->kind = kind;
    arg->ref = ref;
    arg->dtype = dtype;
    return arg;
}

static void add_tensor(kf_kernel *kernel, const char *type, const char *name,
                       const kf_tensor *tensor, uint32_t access)
{
    kf_text_addf(&kernel->code, "%s__global %s%s *%s", kernel->n_args > 0 ? ", " : "",
                 access == KF_ACCESS_READ ? "const " : "", type, name);
    add_arg(kernel, KF_ARG_TENSOR, tensor->id, tensor->dtype)->access = access;
}

static void add_value(kf_kernel *kernel, const char *name, const kf_formula *formula)
{
    kf_text_addf(&kernel->code, ", const long %s", name);
    add_arg(kernel, KF_ARG_VALUE, 0, KF_DTYPE_I64)->value = kf_formula_expr(formula);
}

/// Parameters x0 (where x begins), and for each axis its extent e<i> and its stride s<i>.
static void add_layout(kf_kernel *kernel, const kf_tensor *x)
{
    uint32_t i;
    kf_text_add(&kernel->code, ", const long x0");
    add_arg(kernel, KF_ARG_OFFSET, x->id, KF_DTYPE_I64);
    for (i = 0; i < x->rank; i++) {
        char name[16];
        snprintf(name, sizeof(name), "e%u", i);
        kf_formula_product(&kernel->extents[i], &x->dims[i].symbol, 1);
        add_value(kernel, name, &kernel->extents[i]);
        kf_text_addf(&kernel->code, ", const long s%u", i);
        add_arg(kernel, KF_ARG_STRIDE, x->id, KF_DTYPE_I64)->axis = i;
    }
}

/// `at`: where the element with row-major number `rest` over the axes but `skip` lies.
static void add_address(kf_kernel *kernel, const kf_tensor *x, uint32_t skip)
{
    uint32_t i;
    kf_text_add(&kernel->code, "    long rest = i, at = x0;\n");
    for (i = x->rank; i-- > 0;) {
        if (i != skip) {
            kf_text_addf(&kernel->code, "    at += rest %% e%u * s%u; rest /= e%u;\n", i, i, i);
        }
    }
}

static kf_status finish(kf_kernel *kernel, const char *name, kf_kernel **out)
{
    if (kernel->code.failed || kernel->work.failed) {
        kernel_destroy(kernel);
        return KF_E_NOMEM;
    }
    kernel->source.struct_size = (uint32_t)sizeof(kernel->source);
    kernel->source.format = KF_FORMAT_OPENCL_C;
    kernel->source.code.ptr = kernel->code.ptr;
    kernel->source.code.len = kernel->code.len;
    kernel->source.cl_c_version = 120;
    kernel->sources[0] = &kernel->source;
    kernel->launch.struct_size = (uint32_t)sizeof(kernel->launch);
    kernel->launch.dims = 1;
    kernel->launch.n_args = kernel->n_args;
    kernel->launch.kernel.ptr = name;
    kernel->launch.kernel.len = strlen(name);
    kernel->launch.global[0] = kf_formula_expr(&kernel->work);
    kernel->launch.args = kernel->args;
    kernel->launches[0] = &kernel->launch;
    kernel->step.kind = KF_STEP_LAUNCH;
    *out = kernel;
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

/// A kernel to be filled in, when the call is one that it is for.
static kf_status kernel_new(const kf_host *host, const kf_op *op, kf_kernel **out)
{
    *out = NULL;
    if (op->inputs[0]->dtype != KF_DTYPE_F32) {
        (void)kf_decline(host, KF_CODE_DTYPE, op->position, "the kernel is for f32");
        return KF_DECLINED;
    }
    *out = (kf_kernel *)calloc(1, sizeof(**out));
    return *out != NULL ? KF_OK : KF_E_NOMEM;
}

// ---- acme::mish_clip ----

/// x * tanh(log(1 + e^x)) = x * n / (n + 2) with n = e^x (e^x + 2).
static double mish(double x)
{
    double e, n;
    if (x > 20 || x < -100) {
        return x > 20 ? x : -0.0;
    }
    e = exp(x);
    n = e * (e + 2);
    return x * (n / (n + 2));
}

static kf_status mish_infer(const kf_call *call, const kf_shape *const *inputs,
                            kf_shape *const *outputs)
{
    if (!(call->attrs[PARAM_CLIP].v.f > 0)) {
        return refuse(call, KF_CODE_LIMIT, "clip must be above 0");
    }
    kf_shape_copy(outputs[0], inputs[0]);
    return check_dtype(call, inputs[0]);
}

static kf_status mish_reference(const kf_call *call, const kf_memory *const *inputs,
                                const kf_memory *const *outputs)
{
    double clip = call->attrs[PARAM_CLIP].v.f;
    int64_t i, count = kf_memory_count(outputs[0]);
    for (i = 0; i < count; i++) {
        double y = mish(load(inputs[0], kf_memory_at(inputs[0], i)));
        y = y > clip ? clip : y < -clip ? -clip : y;
        store(outputs[0], kf_memory_at(outputs[0], i), y);
    }
    return KF_OK;
}

static kf_status mish_backward_infer(const kf_call *call, const kf_shape *const *inputs,
                                     kf_shape *const *outputs)
{
    const kf_shape *x = inputs[0];
    uint32_t i, axis;
    for (i = 1; i < 3; i++) {
        int same = inputs[i]->dtype == x->dtype && inputs[i]->rank == x->rank;
        for (axis = 0; same && axis < x->rank; axis++) {
            same = inputs[i]->dims[axis] == x->dims[axis];
        }
        if (!same) {
            return refuse(call, KF_CODE_SHAPE, "its inputs have one shape and dtype");
        }
    }
    kf_shape_copy(outputs[0], inputs[0]);
    return check_dtype(call, inputs[0]);
}

/// tanh(s) + x (1 - tanh(s)^2) sigmoid(x) with s = log(1 + e^x), and 0 where y was clamped.
static kf_status mish_backward_reference(const kf_call *call, const kf_memory *const *inputs,
                                         const kf_memory *const *outputs)
{
    double clip = call->attrs[PARAM_CLIP].v.f;
    int64_t i, count = kf_memory_count(outputs[0]);
    for (i = 0; i < count; i++) {
        double x = load(inputs[0], kf_memory_at(inputs[0], i));
        double gradient = load(inputs[2], kf_memory_at(inputs[2], i));
        double t = tanh(x > 20 ? x : log1p(exp(x)));
        double slope = t + x * (1 - t * t) / (1 + exp(-x));
        double y = mish(x);
        store(outputs[0], kf_memory_at(outputs[0], i),
              y > clip || y < -clip ? 0 : gradient * slope);
    }
    return KF_OK;
}

static kf_status mish_kernel(const kf_host *host, const kf_device *device, const kf_block *block,
                             const kf_op *op, kf_kernel **out)
{
    const kf_tensor *x = op->inputs[0];
    float clip;
    uint32_t clip_bits;
    kf_kernel *k;
    kf_status status = kernel_new(host, op, &k);
    (void)device;
    (void)block;
    if (status != KF_OK) {
        return status;
    }
    kf_formula_numel(&k->work, x);
    kf_text_add(&k->code, "__kernel void mish_clip(");
    add_tensor(k, "float", "x", x, KF_ACCESS_READ);
    add_tensor(k, "float", "y", op->outputs[0], KF_ACCESS_WRITE);
    add_layout(k, x);
    kf_text_add(&k->code, ") {\n    const long i = (long)get_global_id(0);\n");
    add_address(k, x, KF_MAX_RANK);
    clip = (float)kf_op_attr(op, KF_PARAM_KEY(PARAM_CLIP))->v.f;
    memcpy(&clip_bits, &clip, sizeof(clip_bits)); // infinity has no name that all compilers know
    kf_text_addf(&k->code,
                 "    const float clip = as_float(0x%08xu);\n"
                 "    const float v = x[at], e = exp(v), n = e * (e + 2.0f);\n"
                 "    float r = v > 20.0f ? v : v < -100.0f ? -0.0f : v * (n / (n + 2.0f));\n"
                 "    y[i] = r > clip ? clip : r < -clip ? -clip : r;\n}\n",
                 clip_bits);
    return finish(k, "mish_clip", out);
}

// ---- acme::row_top ----

static int64_t axis_of(int64_t axis, uint32_t rank)
{
    return axis < 0 ? axis + (int64_t)rank : axis;
}

static kf_status top_infer(const kf_call *call, const kf_shape *const *inputs,
                           kf_shape *const *outputs)
{
    const kf_shape *x = inputs[0];
    int64_t axis = axis_of(call->attrs[PARAM_AXIS].v.i, x->rank);
    uint32_t i, rank = 0;
    if (axis < 0 || axis >= (int64_t)x->rank) {
        return refuse(call, KF_CODE_SHAPE, "axis is not one of the input's");
    }
    if (x->dims[axis] == 0) {
        return refuse(call, KF_CODE_SHAPE, "there is nothing along axis");
    }
    for (i = 0; i < x->rank; i++) {
        if (i != (uint32_t)axis) {
            outputs[0]->dims[rank++] = x->dims[i];
        }
    }
    outputs[0]->rank = rank;
    outputs[0]->dtype = x->dtype;
    kf_shape_copy(outputs[1], outputs[0]);
    outputs[1]->dtype = KF_DTYPE_I64;
    return check_dtype(call, x);
}

/// Where row `row` of x begins, in elements.
static int64_t row_start(const kf_memory *x, uint32_t axis, int64_t row)
{
    int64_t at = 0;
    uint32_t i;
    for (i = x->rank; i-- > 0;) {
        if (i != axis) {
            at += row % x->dims[i] * x->strides[i];
            row /= x->dims[i];
        }
    }
    return at;
}

static kf_status top_reference(const kf_call *call, const kf_memory *const *inputs,
                               const kf_memory *const *outputs)
{
    const kf_memory *x = inputs[0];
    uint32_t axis = (uint32_t)axis_of(call->attrs[PARAM_AXIS].v.i, x->rank);
    int64_t row, k, rows = kf_memory_count(outputs[0]);
    for (row = 0; row < rows; row++) {
        int64_t start = row_start(x, axis, row), best = 0;
        double top = load(x, start);
        for (k = 1; k < x->dims[axis] && !isnan(top); k++) {
            double v = load(x, start + k * x->strides[axis]);
            if (v > top || isnan(v)) {
                top = v;
                best = k;
            }
        }
        store(outputs[0], kf_memory_at(outputs[0], row), top);
        ((int64_t *)outputs[1]->data)[kf_memory_at(outputs[1], row)] = best;
    }
    return KF_OK;
}

static kf_status top_kernel(const kf_host *host, const kf_device *device, const kf_block *block,
                            const kf_op *op, kf_kernel **out)
{
    const kf_tensor *x = op->inputs[0];
    uint32_t axis = (uint32_t)axis_of(kf_op_attr(op, KF_PARAM_KEY(PARAM_AXIS))->v.i, x->rank);
    kf_kernel *k;
    kf_status status = kernel_new(host, op, &k);
    (void)device;
    (void)block;
    if (status != KF_OK) {
        return status;
    }
    kf_formula_numel(&k->work, op->outputs[0]);
    kf_text_add(&k->code, "__kernel void row_top(");
    add_tensor(k, "float", "x", x, KF_ACCESS_READ);
    add_tensor(k, "float", "y", op->outputs[0], KF_ACCESS_WRITE);
    add_tensor(k, "long", "where", op->outputs[1], KF_ACCESS_WRITE);
    add_layout(k, x);
    kf_text_add(&k->code, ") {\n    const long i = (long)get_global_id(0);\n");
    add_address(k, x, axis);
    kf_text_addf(&k->code,
                 "    float top = x[at];\n    long best = 0;\n"
                 "    for (long n = 1; n < e%u && !isnan(top); n++) {\n"
                 "        const float v = x[at + n * s%u];\n"
                 "        if (v > top || isnan(v)) {\n            top = v;\n"
                 "            best = n;\n        }\n    }\n"
                 "    y[i] = top;\n    where[i] = best;\n}\n",
                 axis, axis);
    return finish(k, "row_top", out);
}

// ---- the table ----

static const kf_param mish_params[] = {
    {KF_STR_INIT("clip"), 0, 0, {0, KF_TYPE_F64, 0, 1, {.f = 6.0}}},
};
static const kf_param top_params[] = {
    {KF_STR_INIT("axis"), 0, 0, {0, KF_TYPE_I64, 0, 1, {.i = -1}}},
};

static const kf_operator mish_clip = {
    .struct_size = (uint32_t)sizeof(kf_operator),
    .version = 1,
    .name = KF_STR_INIT("acme::mish_clip"),
    .doc = KF_STR_INIT("x * tanh(softplus(x)), clamped to [-clip, clip]"),
    .params = mish_params,
    .n_params = 1,
    .min_inputs = 1,
    .max_inputs = 1,
    .n_outputs = 1,
    .infer = mish_infer,
    .reference = mish_reference,
    .kernel_create = mish_kernel,
    .kernel_describe = kernel_describe,
    .kernel_destroy = kernel_destroy,
    .gradient = KF_STR_INIT("acme::mish_clip_backward"),
};

static const kf_operator mish_clip_backward = {
    .struct_size = (uint32_t)sizeof(kf_operator),
    .version = 1,
    .name = KF_STR_INIT("acme::mish_clip_backward"),
    .doc = KF_STR_INIT("x, y, gradient of y = mish_clip(x) -> gradient of x"),
    .params = mish_params,
    .n_params = 1,
    .min_inputs = 3,
    .max_inputs = 3,
    .n_outputs = 1,
    .infer = mish_backward_infer,
    .reference = mish_backward_reference,
};

static const kf_operator row_top = {
    .struct_size = (uint32_t)sizeof(kf_operator),
    .version = 1,
    .name = KF_STR_INIT("acme::row_top"),
    .doc = KF_STR_INIT("the largest element along axis, and its index"),
    .params = top_params,
    .n_params = 1,
    .min_inputs = 1,
    .max_inputs = 1,
    .n_outputs = 2,
    .infer = top_infer,
    .reference = top_reference,
    .kernel_create = top_kernel,
    .kernel_describe = kernel_describe,
    .kernel_destroy = kernel_destroy,
};

static const kf_operator *const all[] = {&mish_clip, &mish_clip_backward, &row_top};
static const kf_operators operators = {(uint32_t)sizeof(kf_operators), 0, all, 3};

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
    .struct_size = (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
    .id = KF_STR_INIT("com.acme.operators"),
    .version = KF_STR_INIT("1.0"),
    .vendor = KF_STR_INIT("Acme"),
    .init = init,
    .deinit = deinit,
    .extension = extension,
};

KF_EXPORT const kf_plugin *kf_plugin_query_v1(uint32_t host_abi_minor)
{
    (void)host_abi_minor;
    return &plugin;
}
