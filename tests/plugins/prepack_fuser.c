// SPDX-License-Identifier: MIT OR Apache-2.0
// A fuser with a temporary that lives with the plan: x * w + s for a constant w, which a launch of
// its own copies once. For the test of the executor. Others from this source: s is packed, too
// (NUMBERS); the copy is a step of each run, and the second step takes another number of arguments
// (ARGS), or work-groups that it does not get (GROUP).
#include "kf_util.h"

#define FORM_ONCE 0
#define FORM_NUMBERS 1
#define FORM_ARGS 2
#define FORM_GROUP 3
#ifndef FORM
#define FORM FORM_ONCE
#define FORM_ID "test.prepack"
#endif
#define IN_STEPS (FORM == FORM_ARGS || FORM == FORM_GROUP)

struct kf_fuser {
    const kf_host *host;
    uint32_t index;
};

struct kf_builder {
    const kf_fuser *fuser;
    uint32_t closed;
    uint32_t len;
    uint32_t ids[4]; // x, w, the product, the result
    uint32_t symbol;
};

struct kf_opt {
    uint32_t len;
    kf_ins size[1];
    kf_ins bytes[3];
    kf_karg args[2][4];
    kf_source source;
    kf_launch launches[2];
    kf_temp temp;
    kf_step steps[2];
    const kf_source *sources[1];
    const kf_launch *launch_list[2];
};

#if FORM == FORM_ARGS
#define APPLY_EXTRA ", const int extra"
#else
#define APPLY_EXTRA ""
#endif
#if FORM == FORM_GROUP
#define APPLY "__attribute__((reqd_work_group_size(7, 1, 1))) "
#else
#define APPLY ""
#endif
#if FORM == FORM_NUMBERS
#define PACK ", const float s"
#define PACK_MORE "t[get_global_size(0) + get_global_id(0)] = s;"
#define SUM "t[get_global_size(0) + i]"
#else
#define PACK ""
#define PACK_MORE ""
#define SUM "s"
#endif

static const char code[] =
    "__kernel void pack(__global const float *w, __global float *t" PACK ") {\n"
    "    t[get_global_id(0)] = w[get_global_id(0)];" PACK_MORE "\n"
    "}\n"
    "__kernel " APPLY "void apply(__global const float *x, __global const float *t,\n"
    "                    __global float *y, const float s" APPLY_EXTRA ") {\n"
    "    const size_t i = get_global_id(0);\n"
    "    y[i] = x[i] * t[i] + " SUM ";\n"
    "}\n";

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

static uint32_t is_plain(const kf_tensor *t)
{
    uint32_t dense = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET;
    return t->dtype == KF_DTYPE_F32 && t->rank == 1 && (t->facts & dense) == dense;
}

static uint32_t takes(kf_builder *b, const kf_op *op)
{
    if (b->len == 0 && op->kind == KF_OP_MUL && is_plain(op->inputs[0]) &&
        is_plain(op->inputs[1]) && (op->inputs[1]->flags & KF_TENSOR_CONST) != 0 &&
        kf_same_dims(op->inputs[0], op->inputs[1])) {
        b->ids[0] = op->inputs[0]->id;
        b->ids[1] = op->inputs[1]->id;
        b->ids[2] = op->outputs[0]->id;
        b->symbol = op->inputs[0]->dims[0].symbol;
        return 1;
    }
    if (b->len == 1 && op->kind == KF_OP_ADD_SCALAR && op->inputs[0]->id == b->ids[2]) {
        b->ids[3] = op->outputs[0]->id;
        return 1;
    }
    return b->len == 2 && op->kind == KF_OP_DROP && op->inputs[0]->id == b->ids[2];
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
    state->launches = 1 + IN_STEPS;
}

static void bind(kf_karg *arg, uint32_t kind, uint32_t access, uint32_t ref)
{
    arg->kind = kind;
    arg->access = access;
    arg->ref = ref;
    arg->dtype = kind == KF_ARG_TEMP ? 0 : KF_DTYPE_F32;
}

static void launch(kf_opt *opt, uint32_t which, const char *kernel, uint32_t n_args)
{
    kf_launch *l = &opt->launches[which];
    l->struct_size = (uint32_t)sizeof(*l);
    l->dims = 1;
    l->n_args = n_args;
    l->kernel.ptr = kernel;
    l->kernel.len = strlen(kernel);
    l->global[0].ins = opt->size;
    l->global[0].n = 1;
    l->args = opt->args[which];
    opt->launch_list[which] = l;
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    opt->len = builder->len;
    opt->size[0].op = opt->bytes[0].op = KF_INS_SYM;
    opt->size[0].sym = opt->bytes[0].sym = builder->symbol;
    opt->bytes[1].op = KF_INS_IMM;
    opt->bytes[1].imm = FORM == FORM_NUMBERS ? 8 : 4;
    opt->bytes[2].op = KF_INS_MUL;
    bind(&opt->args[0][0], KF_ARG_TENSOR, KF_ACCESS_READ, builder->ids[1]);
    bind(&opt->args[0][1], KF_ARG_TEMP, KF_ACCESS_WRITE, 0);
    bind(&opt->args[1][0], KF_ARG_TENSOR, KF_ACCESS_READ, builder->ids[0]);
    bind(&opt->args[1][1], KF_ARG_TEMP, KF_ACCESS_READ, 0);
    bind(&opt->args[1][2], KF_ARG_TENSOR, KF_ACCESS_WRITE, builder->ids[3]);
    bind(&opt->args[1][3], KF_ARG_SCALAR, 0, 0);
    bind(&opt->args[0][2], KF_ARG_SCALAR, 0, 0);
    launch(opt, 0, "pack", FORM == FORM_NUMBERS ? 3 : 2);
    launch(opt, 1, "apply", 4);
    opt->source.struct_size = (uint32_t)sizeof(opt->source);
    opt->source.format = KF_FORMAT_OPENCL_C;
    opt->source.code.ptr = code;
    opt->source.code.len = sizeof(code) - 1;
    opt->source.cl_c_version = 120;
    opt->sources[0] = &opt->source;
    opt->temp.bytes.ins = opt->bytes;
    opt->temp.bytes.n = 3;
    opt->temp.align = 16;
    opt->temp.flags = IN_STEPS ? 0 : KF_TEMP_PERSISTENT;
    opt->temp.prepack = IN_STEPS ? KF_NONE : 0;
    for (uint32_t i = 0; i < 1 + IN_STEPS; i++) {
        opt->steps[i].kind = KF_STEP_LAUNCH;
        opt->steps[i].index = IN_STEPS ? i : 1;
    }
    return KF_OK;
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    kf_opt_info info;
    memset(&info, 0, sizeof(info));
    info.struct_size = (uint32_t)sizeof(info);
    info.len = opt->len;
    info.n_variants = 1;
    info.name.ptr = "prepack";
    info.name.len = 7;
    info.key.ptr = code;
    info.key.len = 16;
    KF_OUT(out, &info);
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    kf_program view;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.sources = opt->sources;
    view.n_sources = 1;
    view.launches = opt->launch_list;
    view.n_launches = 2;
    view.temps = &opt->temp;
    view.n_temps = 1;
    view.steps = opt->steps;
    view.n_steps = 1 + IN_STEPS;
    KF_OUT(out, &view);
}

static void opt_fini(kf_opt *opt)
{
    (void)opt;
}

#define KF_PLUGIN_ID FORM_ID
#define KF_PLUGIN_VERSION "1.0"
#define KF_PLUGIN_VENDOR "Kiln"
#define KF_PLUGIN_FUSERS KF_STR_INIT("prepack")
#include "kf_plugin.h"
