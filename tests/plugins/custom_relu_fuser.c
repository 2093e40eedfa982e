// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser that knows an operator of another plugin by its name: acme::mish_clip followed by relu,
// dense f32, in one kernel. For the test that fusers see operators of plugins.
#include "kf_operators.h"
#include "kf_util.h"

struct kf_fuser {
    const kf_host *host;
    uint32_t index;
};

struct kf_builder { // plain data: a clone is a copy
    const kf_fuser *fuser;
    uint32_t closed;
    uint32_t len;
    uint32_t ids[3]; // x, mish_clip(x), relu of it
    float clip;
    kf_formula work;
};

struct kf_opt {
    kf_text code;
    uint32_t len;
    kf_formula work;
    kf_karg args[2];
    kf_source source;
    kf_launch launch;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
};

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    (void)fuser;
    (void)device;
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    const kf_fuser *fuser = builder->fuser;
    memset(builder, 0, sizeof(*builder));
    builder->fuser = fuser;
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    *to = *from;
}

static uint32_t is_named(const kf_op *op, const char *name, int64_t version)
{
    const kf_attr *text = kf_op_attr(op, KF_ATTR_NAME);
    const kf_attr *number = kf_op_attr(op, KF_ATTR_VERSION);
    return text != NULL && number != NULL && number->v.i == version &&
           text->v.b->len == strlen(name) && memcmp(text->v.b->ptr, name, strlen(name)) == 0;
}

static uint32_t takes(kf_builder *b, const kf_op *op)
{
    static const uint32_t keys[] = {KF_ATTR_NAME, KF_ATTR_VERSION, KF_PARAM_KEY(0)};
    uint32_t dense = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET;
    if (b->len == 0 && op->kind == KF_OP_CUSTOM && is_named(op, "acme::mish_clip", 1) &&
        kf_op_understood(op, 1, keys, 3) && op->inputs[0]->dtype == KF_DTYPE_F32 &&
        (op->inputs[0]->facts & dense) == dense) {
        b->ids[0] = op->inputs[0]->id;
        b->ids[1] = op->outputs[0]->id;
        b->clip = (float)kf_op_attr(op, KF_PARAM_KEY(0))->v.f;
        kf_formula_numel(&b->work, op->inputs[0]);
        return 1;
    }
    if (b->len == 1 && op->kind == KF_OP_RELU && op->inputs[0]->id == b->ids[1]) {
        b->ids[2] = op->outputs[0]->id;
        return 1;
    }
    return b->len == 2 && op->kind == KF_OP_DROP && op->inputs[0]->id == b->ids[1];
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    (void)values;
    builder->closed = !takes(builder, op);
    builder->len += !builder->closed;
}

static uint32_t builder_is_closed(const kf_builder *builder)
{
    return builder->closed;
}

static uint32_t builder_is_ready(const kf_builder *builder)
{
    return builder->len == 3;
}

static void builder_estimate(kf_builder *builder, kf_state *state)
{
    state->len = builder->len;
    state->launches = 1;
}

static void bind(kf_karg *arg, uint32_t access, uint32_t ref)
{
    arg->kind = KF_ARG_TENSOR;
    arg->access = access;
    arg->ref = ref;
    arg->dtype = KF_DTYPE_F32;
}

static void write_code(kf_text *code, float clip)
{
    uint32_t bits;
    memcpy(&bits, &clip, sizeof(bits));
    kf_text_addf(code,
                 "__kernel void mish_relu(__global const float *x, __global float *y) {\n"
                 "    const size_t i = get_global_id(0);\n"
                 "    const float clip = as_float(0x%08xu);\n"
                 "    const float v = x[i], e = exp(v), n = e * (e + 2.0f);\n"
                 "    float r = v > 20.0f ? v : v < -100.0f ? -0.0f : v * (n / (n + 2.0f));\n"
                 "    r = r > clip ? clip : r < -clip ? -clip : r;\n"
                 "    y[i] = r < 0.0f ? 0.0f : r;\n}\n",
                 bits);
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    opt->len = builder->len;
    opt->work = builder->work;
    write_code(&opt->code, builder->clip);
    bind(&opt->args[0], KF_ACCESS_READ, builder->ids[0]);
    bind(&opt->args[1], KF_ACCESS_WRITE, builder->ids[2]);
    opt->source.struct_size = (uint32_t)sizeof(opt->source);
    opt->source.format = KF_FORMAT_OPENCL_C;
    opt->source.code.ptr = opt->code.ptr;
    opt->source.code.len = opt->code.len;
    opt->source.cl_c_version = 120;
    opt->sources[0] = &opt->source;
    opt->launch.struct_size = (uint32_t)sizeof(opt->launch);
    opt->launch.dims = 1;
    opt->launch.n_args = 2;
    opt->launch.kernel.ptr = "mish_relu";
    opt->launch.kernel.len = 9;
    opt->launch.global[0] = kf_formula_expr(&opt->work);
    opt->launch.args = opt->args;
    opt->launches[0] = &opt->launch;
    opt->step.kind = KF_STEP_LAUNCH;
    return KF_OK;
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    kf_opt_info info;
    memset(&info, 0, sizeof(info));
    info.struct_size = (uint32_t)sizeof(info);
    info.len = opt->len;
    info.n_variants = 1;
    info.name.ptr = "mish_clip+relu";
    info.name.len = 14;
    info.key.ptr = opt->code.ptr;
    info.key.len = opt->code.len;
    KF_OUT(out, &info);
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    kf_program view;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.sources = opt->sources;
    view.n_sources = 1;
    view.launches = opt->launches;
    view.n_launches = 1;
    view.steps = &opt->step;
    view.n_steps = 1;
    KF_OUT(out, &view);
}

static void opt_fini(kf_opt *opt)
{
    kf_text_free(&opt->code);
}

#define KF_PLUGIN_ID "test.custom-relu"
#define KF_PLUGIN_VERSION "1.0"
#define KF_PLUGIN_VENDOR "tests"
#define KF_PLUGIN_FUSERS KF_STR_INIT("custom-relu")
#include "kf_plugin.h"
