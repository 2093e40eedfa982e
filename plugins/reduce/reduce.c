// SPDX-License-Identifier: MIT OR Apache-2.0
// The reduction fusers as a plugin: reductions over any axes with what is computed before and after
// them, several at once, in one pass over the data. "reduce" finishes each result in one launch,
// "reduce-split" cuts few long ones into parts. Here are the ABI's objects and nothing else: which
// operations join is in kf_rows.h and reduce_plan.c, the kernels in reduce_emit.c and
// reduce_walk.c, the program in reduce_program.c.
#include "reduce_internal.h"

enum { SPLIT = 1 }; // index of "reduce-split"

struct kf_fuser {
    const kf_host *host;
    uint32_t index;
    kf_chain_device device;
};

struct kf_builder {
    const kf_fuser *fuser;
    kf_rows rows;
    kf_rows before; // of the operation at hand, when it does not fit
    kf_estimate estimate;
};

struct kf_opt {
    rd_program *program;
};

static kf_status fuser_init(kf_fuser *fuser, const kf_device *device)
{
    if (!kf_has_compiler(fuser->host, device)) {
        return KF_DECLINED;
    }
    kf_chain_device_init(&fuser->device, device);
    return KF_OK;
}

static void builder_init(kf_builder *builder)
{
    kf_rows_init(&builder->rows);
}

static void builder_copy(kf_builder *to, const kf_builder *from)
{
    kf_rows_copy(&to->rows, &from->rows);
}

static void builder_push(kf_builder *builder, const kf_block *values, const kf_op *op)
{
    (void)values; // no value is ever needed: the kernels take sizes and scalars as arguments
    kf_rows_push_fitting(&builder->rows, &builder->before, &builder->fuser->device,
                         builder->fuser->host, op, rd_fits);
}

static uint32_t builder_is_closed(const kf_builder *builder)
{
    return builder->rows.closed;
}

static uint32_t builder_is_ready(const kf_builder *builder)
{
    return rd_is_ready(&builder->rows);
}

static void builder_estimate(kf_builder *builder, kf_state *state)
{
    uint32_t split = builder->fuser->index == SPLIT;
    rd_estimate_make(&builder->estimate, &builder->rows, &builder->fuser->device, split);
    kf_estimate_answer(&builder->estimate, builder->rows.len, split ? 2 : 1, state);
}

static kf_status opt_init(kf_opt *opt, const kf_builder *builder)
{
    opt->program =
        rd_program_create(&builder->rows, &builder->fuser->device, builder->fuser->index == SPLIT);
    return opt->program != NULL ? KF_OK : KF_E_NOMEM;
}

static void opt_fini(kf_opt *opt)
{
    rd_program_destroy(opt->program);
}

static void opt_facts(const kf_opt *opt, kf_opt_info *out)
{
    rd_program_info(opt->program, out);
}

static void opt_program(const kf_opt *opt, kf_program *out)
{
    rd_program_describe(opt->program, out);
}

#define KF_PLUGIN_ID "org.kiln.reduce"
#define KF_PLUGIN_VERSION "1.0.0"
#define KF_PLUGIN_VENDOR "Kiln"
#define KF_PLUGIN_FUSERS KF_STR_INIT("reduce"), KF_STR_INIT("reduce-split")
#include "kf_plugin.h"
