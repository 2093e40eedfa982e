// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels of a plugin's operators, as a fuser of the host's: "ID/operators" takes one operation
// that is the plugin's and asks the operator for its program. So such a kernel is verified, scored,
// measured, kept on disk, explained and, when it fails, struck like any fuser's, and a fuser that
// takes the operation with its neighbours competes with it. Without it the reference runs.
#include <string.h>

#include "host_services.h"
#include "kf_operators.h"
#include "kiln_fuser_ops.h"
#include "plugin_operators.h"

typedef struct kernel { ///< shared by clones of a builder and by what it finished
    atomic_uint refs;
    const kiln_env *env;
    const kf_operator *op;
    kf_kernel *handle;
} kernel;

struct kf_fuser {
    const kiln_env *env;
    const kf_host *host;
    const kilni_fuse_plugin *plugin;
    kf_device device;
};

struct kf_builder {
    const kf_fuser *fuser;
    kernel *kernel; ///< NULL: nothing was taken yet
    bool closed;
};

struct kf_opt {
    kernel *kernel;
};

static kernel *retain(kernel *k)
{
    if (k != NULL) {
        atomic_fetch_add(&k->refs, 1);
    }
    return k;
}

static void release(kernel *k)
{
    if (k != NULL && atomic_fetch_sub(&k->refs, 1) == 1) {
        k->op->kernel_destroy(k->handle);
        kiln_free(k->env, k);
    }
}

// ---- fuser and builder ----

static kf_status fuser_create(const kf_host *host, uint32_t index, const kf_device *device,
                              kf_fuser **out)
{
    const kilni_fuse_host *services = host->ctx;
    (void)index;
    kf_fuser *fuser = kiln_alloc(services->env, sizeof(*fuser));
    *out = fuser;
    if (fuser == NULL) {
        return KF_E_NOMEM;
    }
    // The texts of the facts belong to the engine, which outlives the fuser.
    *fuser = (kf_fuser){
        .env = services->env, .host = host, .plugin = services->plugin, .device = *device};
    return KF_OK;
}

static void fuser_destroy(kf_fuser *fuser)
{
    if (fuser != NULL) {
        kiln_free(fuser->env, fuser);
    }
}

static kf_status builder_create(const kf_fuser *fuser, kf_builder **out)
{
    *out = kiln_alloc(fuser->env, sizeof(**out));
    if (*out == NULL) {
        return KF_E_NOMEM;
    }
    (*out)->fuser = fuser;
    return KF_OK;
}

static kf_status builder_clone(const kf_builder *builder, kf_builder **out)
{
    kf_status status = builder_create(builder->fuser, out);
    if (status == KF_OK) {
        **out = *builder;
        (void)retain(builder->kernel);
    }
    return status;
}

static kf_status builder_reset(kf_builder *builder)
{
    release(builder->kernel);
    *builder = (kf_builder){.fuser = builder->fuser};
    return KF_OK;
}

static void builder_destroy(kf_builder *builder)
{
    if (builder != NULL) {
        release(builder->kernel);
        kiln_free(builder->fuser->env, builder);
    }
}

static kf_status builder_state(const kf_builder *builder, kf_state *out)
{
    const bool ready = builder->kernel != NULL;
    const kf_state state = {.struct_size = (uint32_t)sizeof(state),
                            .status = builder->closed ? KF_CLOSED : KF_OPEN,
                            .ready = ready,
                            .len = ready,
                            .launches = ready};
    KF_OUT(out, &state);
    return KF_OK;
}

static const kf_attr *attr_of(const kf_op *op, uint32_t key)
{
    for (uint32_t i = 0; i < op->n_attrs; i++) {
        if (op->attrs[i].key == key) {
            return &op->attrs[i];
        }
    }
    return NULL;
}

/// The operator of this plugin that the operation is; NULL for others.
static const kf_operator *operator_of(const kf_builder *builder, const kf_op *op)
{
    const kilni_fuse_plugin *plugin = builder->fuser->plugin;
    const kf_attr *name = op->kind == KF_OP_CUSTOM ? attr_of(op, KF_ATTR_NAME) : NULL;
    const kf_attr *version = op->kind == KF_OP_CUSTOM ? attr_of(op, KF_ATTR_VERSION) : NULL;
    for (uint32_t i = 0; name != NULL && version != NULL && i < plugin->n_operators; i++) {
        const kf_operator *own = &plugin->operators[i].abi;
        if (own->version == version->v.i && own->name.len == name->v.b->len &&
            memcmp(own->name.ptr, name->v.b->ptr, own->name.len) == 0) {
            return own;
        }
    }
    return NULL;
}

static void say(const kf_builder *builder, uint32_t code, const char *text)
{
    const kf_host *host = builder->fuser->host;
    const kf_diag diag = {.struct_size = (uint32_t)sizeof(diag),
                          .severity = KF_SEVERITY_INFO,
                          .code = code,
                          .op_index = KF_NONE,
                          .message = {text, strlen(text)}};
    host->report(host, &diag);
}

static kf_status take(kf_builder *builder, const kf_block *block, const kf_op *op)
{
    const kf_operator *own = operator_of(builder, op);
    builder->closed = true;
    if (own == NULL) {
        say(builder, KF_CODE_UNKNOWN_OP, "not an operator of this plugin");
        return KF_OK;
    }
    if (own->kernel_create == NULL) {
        say(builder, KF_CODE_UNKNOWN_OP, "the operator has no kernel");
        return KF_OK;
    }
    kernel *k = kiln_alloc(builder->fuser->env, sizeof(*k));
    if (k == NULL) {
        return KF_E_NOMEM;
    }
    *k = (kernel){.env = builder->fuser->env, .op = own};
    atomic_init(&k->refs, 1);
    kf_status status =
        own->kernel_create(builder->fuser->host, &builder->fuser->device, block, op, &k->handle);
    if (status == KF_OK) {
        builder->kernel = k;
        return KF_OK;
    }
    kiln_free(k->env, k);
    return status == KF_DECLINED || status == KF_E_UNSUPPORTED ? KF_OK : status;
}

static kf_status builder_fuse(kf_builder *builder, const kf_block *block, const kf_op *const *ops,
                              uint64_t n, kf_state *out)
{
    kf_status status = KF_OK;
    for (uint64_t i = 0; i < n && !builder->closed && status == KF_OK; i++) {
        status = take(builder, block, ops[i]);
    }
    (void)builder_state(builder, out);
    return status;
}

// ---- what it finishes ----

static kf_status builder_finish(kf_builder *builder, kf_opt **out)
{
    *out = builder->kernel != NULL ? kiln_alloc(builder->fuser->env, sizeof(**out)) : NULL;
    if (*out == NULL) {
        return builder->kernel == NULL ? KF_E_INVALID : KF_E_NOMEM;
    }
    (*out)->kernel = retain(builder->kernel);
    return KF_OK;
}

static kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    const kf_opt_info info = {.struct_size = (uint32_t)sizeof(info),
                              .len = 1,
                              .n_variants = 1,
                              .name = opt->kernel->op->name};
    KF_OUT(out, &info);
    return KF_OK;
}

static kf_status opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
    return variant == 0 ? opt->kernel->op->kernel_describe(opt->kernel->handle, out) : KF_E_INVALID;
}

static void opt_destroy(kf_opt *opt)
{
    if (opt != NULL) {
        const kiln_env *env = opt->kernel->env;
        release(opt->kernel);
        kiln_free(env, opt);
    }
}

static kf_status init(void)
{
    return KF_OK;
}

static void deinit(void)
{
}

// ---- beside its plugin ----

static const kf_plugin table = {
    .struct_size = (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
    .n_fusers = 1,
    .init = init,
    .deinit = deinit,
    .fuser_create = fuser_create,
    .fuser_destroy = fuser_destroy,
    .builder_create = builder_create,
    .builder_clone = builder_clone,
    .builder_fuse = builder_fuse,
    .builder_state = builder_state,
    .builder_reset = builder_reset,
    .builder_finish = builder_finish,
    .builder_destroy = builder_destroy,
    .opt_info = opt_info,
    .opt_describe = opt_describe,
    .opt_destroy = opt_destroy,
};

kiln_status kilni_fuse_operator_fuser(const kiln_env *env, kilni_fuse_plugin *plugin,
                                      kiln_error *err)
{
    static const char *const ids[] = {"operators"};
    kilni_fuse_plugin *beside = kiln_alloc(env, sizeof(*beside));
    atomic_uint *strikes = kiln_alloc_array(env, 1, sizeof(*strikes));
    if (beside == NULL || strikes == NULL) {
        kiln_free(env, beside);
        kiln_free(env, (void *)strikes);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for operators");
    }
    *beside = (kilni_fuse_plugin){.info = plugin->info,
                                  .table = table,
                                  .fuser_ids = (char **)(uintptr_t)ids,
                                  .strikes = strikes,
                                  .crash_record = plugin->crash_record,
                                  .crash_number = plugin->crash_number,
                                  .operators = plugin->operators,
                                  .n_operators = plugin->n_operators};
    beside->info.n_fusers = 1;
    plugin->kernels = beside;
    return KILN_STATUS_OK;
}

void kilni_fuse_operator_fuser_drop(const kiln_env *env, kilni_fuse_plugin *plugin)
{
    if (plugin->kernels != NULL) {
        kiln_free(env, (void *)plugin->kernels->strikes);
        kiln_free(env, plugin->kernels);
    }
}
