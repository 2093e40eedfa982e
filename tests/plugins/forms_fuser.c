// SPDX-License-Identifier: MIT OR Apache-2.0
// add and relu in one kernel, dense f32, in the forms that a program may have; FORM chooses:
// SOURCE has the text alone; BINARY also what a compiler made of it, read from $FORMS_BINARY for
// the device $FORMS_DEVICE; ONLY_BINARY that without the text; SINGLE a form of one work-item;
// OPTIONS has options for a vendor's compiler, and asks for a subgroup's size where kernels may.
#include "kf_util.h"

#define FORM_SOURCE 0
#define FORM_BINARY 1
#define FORM_ONLY_BINARY 2
#define FORM_SINGLE 3
#define FORM_OPTIONS 4

#ifndef FORM
#define FORM FORM_SOURCE
#define FORM_ID "test.forms-source"
#endif

struct kf_fuser {
    const kf_host *host;
    uint32_t index;
    char *binary;
    uint64_t binary_bytes;
    char device[256];
    uint32_t has_subgroups_of_16;
};

struct kf_builder {
    const kf_fuser *fuser;
    uint32_t closed;
    uint32_t len;
    uint32_t ids[4]; // a, b, the sum, the result
    kf_formula count;
};

struct kf_opt {
    uint32_t len;
    kf_formula count;
    kf_karg args[4];
    kf_binary binary;
    const kf_binary *binaries[1];
    kf_source source;
    kf_str define;
    kf_launch launch;
    kf_launch single;
    kf_step step;
    const kf_source *sources[1];
    const kf_launch *launches[1];
};

// What tests/unit/cli/no_compiler.py compiles for the binary forms: it reads this file.
// BEGIN
static const char code[] =
    "#ifdef SUBGROUP\n"
    "__attribute__((intel_reqd_sub_group_size(SUBGROUP)))\n"
    "#endif\n"
    "__kernel void add_relu(__global const float *a, __global const float *b,\n"
    "                       __global float *out) {\n"
    "    const size_t i = get_global_id(0);\n"
    "    const float sum = a[i] + b[i];\n"
    "    out[i] = sum < 0.0f ? 0.0f : sum;\n"
    "}\n"
    "__kernel void add_relu_task(__global const float *a, __global const float *b,\n"
    "                            __global float *out, const long count) {\n"
    "    for (long i = 0; i < count; i++) {\n"
    "        const float sum = a[i] + b[i];\n"
    "        out[i] = sum < 0.0f ? 0.0f : sum;\n"
    "    }\n"
    "}\n";
// END

static void read_binary(kf_fuser *fuser)
{
    const char *path = getenv("FORMS_BINARY");
    const char *device = getenv("FORMS_DEVICE");
    FILE *file = path != NULL && device != NULL ? fopen(path, "rb") : NULL;
    static char bytes[1 << 20];
    if (file != NULL) {
        fuser->binary_bytes = fread(bytes, 1, sizeof(bytes), file);
        fuser->binary = bytes;
        snprintf(fuser->device, sizeof(fuser->device), "%s", device);
        fclose(file);
    }
}

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    fuser->has_subgroups_of_16 = device->subgroup_sizes >> 4 & 1;
    if (FORM == FORM_BINARY || FORM == FORM_ONLY_BINARY) {
        read_binary(fuser);
    }
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    builder->closed = builder->len = 0;
    memset(&builder->count, 0, sizeof(builder->count));
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    *to = *from;
}

static uint32_t is_plain(const kf_tensor *t)
{
    uint32_t dense = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET;
    return t->dtype == KF_DTYPE_F32 && (t->facts & dense) == dense;
}

static uint32_t takes(kf_builder *b, const kf_op *op)
{
    if (!kf_op_understood(op, 1, NULL, 0)) {
        return 0;
    }
    if (b->len == 0 && op->kind == KF_OP_ADD && is_plain(op->inputs[0]) &&
        is_plain(op->inputs[1]) && kf_same_dims(op->inputs[0], op->outputs[0]) &&
        kf_same_dims(op->inputs[1], op->outputs[0])) {
        b->ids[0] = op->inputs[0]->id;
        b->ids[1] = op->inputs[1]->id;
        b->ids[2] = op->outputs[0]->id;
        kf_formula_numel(&b->count, op->outputs[0]);
        return 1;
    }
    if (b->len == 1 && op->kind == KF_OP_RELU && op->inputs[0]->id == b->ids[2]) {
        b->ids[3] = op->outputs[0]->id;
        return 1;
    }
    return b->len == 2 && op->kind == KF_OP_DROP && op->inputs[0]->id == b->ids[2];
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    (void)values;
    if (takes(builder, op)) {
        builder->len++;
    } else {
        kf_decline(builder->fuser->host, KF_CODE_UNKNOWN_OP, op->position, "not the next");
        builder->closed = 1;
    }
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

static void set_source(kf_opt *opt, const kf_fuser *fuser)
{
    kf_source *source = &opt->source;
    source->struct_size = (uint32_t)sizeof(*source);
    source->format = KF_FORMAT_OPENCL_C;
    source->cl_c_version = 120;
    if (FORM != FORM_ONLY_BINARY) {
        source->code.ptr = code;
        source->code.len = sizeof(code) - 1;
    }
    if (FORM == FORM_BINARY || FORM == FORM_ONLY_BINARY) {
        opt->binary.struct_size = (uint32_t)sizeof(opt->binary);
        opt->binary.device.ptr = fuser->device;
        opt->binary.device.len = strlen(fuser->device);
        opt->binary.code.ptr = fuser->binary;
        opt->binary.code.len = fuser->binary_bytes;
        opt->binaries[0] = &opt->binary;
        source->binaries = opt->binaries;
        source->n_binaries = 1;
    }
    if (FORM == FORM_OPTIONS && fuser->host->abi_minor >= 1) {
        source->options.ptr = "-cl-opt-disable";
        source->options.len = 15;
    }
    if (FORM == FORM_OPTIONS && fuser->has_subgroups_of_16) {
        opt->define.ptr = "SUBGROUP=16";
        opt->define.len = 11;
        source->defines = &opt->define;
        source->n_defines = 1;
    }
    opt->sources[0] = source;
}

static void name_kernel(kf_launch *launch, const kf_opt *opt, const char *kernel, uint32_t n_args)
{
    launch->struct_size = (uint32_t)sizeof(*launch);
    launch->kernel.ptr = kernel;
    launch->kernel.len = strlen(kernel);
    launch->args = opt->args;
    launch->n_args = n_args;
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    opt->len = builder->len;
    opt->count = builder->count;
    bind(&opt->args[0], KF_ACCESS_READ, builder->ids[0]);
    bind(&opt->args[1], KF_ACCESS_READ, builder->ids[1]);
    bind(&opt->args[2], KF_ACCESS_WRITE, builder->ids[3]);
    opt->args[3].kind = KF_ARG_VALUE;
    opt->args[3].dtype = KF_DTYPE_I64;
    opt->args[3].value = kf_formula_expr(&opt->count);
    set_source(opt, builder->fuser);
    name_kernel(&opt->launch, opt, "add_relu", 3);
    opt->launch.dims = 1;
    opt->launch.global[0] = kf_formula_expr(&opt->count);
    if (FORM == FORM_SINGLE) {
        name_kernel(&opt->single, opt, "add_relu_task", 4);
        opt->launch.single = &opt->single;
    }
    opt->launches[0] = &opt->launch;
    opt->step.kind = KF_STEP_LAUNCH;
    return KF_OK;
}

static void opt_fini(kf_opt *opt)
{
    (void)opt;
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    kf_opt_info info;
    memset(&info, 0, sizeof(info));
    info.struct_size = (uint32_t)sizeof(info);
    info.len = opt->len;
    info.n_variants = 1;
    info.name.ptr = "add+relu";
    info.name.len = 8;
    info.key.ptr = opt->count.ins;
    info.key.len = opt->count.n * sizeof(opt->count.ins[0]);
    KF_OUT(out, &info);
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    kf_program view;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.flags = KF_PROGRAM_DETERMINISTIC;
    view.sources = opt->sources;
    view.n_sources = 1;
    view.launches = opt->launches;
    view.n_launches = 1;
    view.steps = &opt->step;
    view.n_steps = 1;
    KF_OUT(out, &view);
}

#define KF_PLUGIN_ID FORM_ID
#define KF_PLUGIN_VERSION "1.0"
#define KF_PLUGIN_VENDOR "tests"
#define KF_PLUGIN_FUSERS KF_STR_INIT("forms")
#include "kf_plugin.h"
