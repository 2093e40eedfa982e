// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_plugin.h: the plugin's table and the life of its objects, for fusers whose blocks take
// operations one by one. Optional, C99 and later; in C++ see kiln_fuser.hpp.
//
// Include it once, last in the plugin's file, after what it needs:
//
//   #define KF_PLUGIN_ID "org.example.mine"        reverse domain
//   #define KF_PLUGIN_VERSION "1.0.0"
//   #define KF_PLUGIN_VENDOR "Example"
//   #define KF_PLUGIN_FUSERS KF_STR_INIT("mine")   one or more, separated by commas
//
//   struct kf_fuser { const kf_host *host; uint32_t index; ... };   filled by this header: host and
//                                                  index, which fuser of KF_PLUGIN_FUSERS it is
//   struct kf_builder { const kf_fuser *fuser; ... };               filled by this header: fuser
//   struct kf_opt { ... };                         what opt_* need, zero before opt_init
//
//   static kf_status fuser_init(kf_fuser *, const kf_device *);
//       KF_DECLINED: not for this device; kf_decline says why
//   static void builder_init(kf_builder *);
//       an empty block; also what reset does
//   static void builder_copy(kf_builder *to, const kf_builder *from);
//       `to` is empty
//   static void builder_push(kf_builder *, const kf_block *, const kf_op *);
//       takes the operation or closes; what it keeps it copies
//   static uint32_t builder_is_closed(const kf_builder *);
//   static uint32_t builder_is_ready(const kf_builder *);
//       would opt_init succeed?
//   static void builder_estimate(kf_builder *, kf_state *);
//       when ready: fills in len and the estimate, see kf_estimate_answer
//   static kf_status opt_init(kf_opt *, const kf_builder *);
//       leaves nothing when it fails
//   static void opt_fini(kf_opt *);
//   static void opt_facts(const kf_opt *, kf_opt_info *out);
//       by KF_OUT, see kf_opt_info_fill
//   static void opt_program(const kf_opt *, kf_program *out);
//       by KF_OUT
//
// With KF_PLUGIN_VARIANTS defined, several programs do the same work, and the host measures which
// is the fastest; builder_estimate speaks of variant 0. Instead of opt_program then:
//
//   static void opt_variant(const kf_opt *, uint32_t variant, kf_program *out);
//       by KF_OUT; opt_facts says how many, see kf_opt_info_variants
//
// With KF_PLUGIN_MEASURED defined, the fuser is told what the host measured of its programs:
//
//   static void fuser_learn(kf_fuser *, const kf_measured *);
//       never two at once for one fuser, but others of its functions may run meanwhile: what it
//       changes is atomic; kf_store_of gives a place to keep it
//
// KF_PLUGIN_EXTENSION may name the function kf_plugin.extension: for operators (kf_operators.h).
//
// A fuser that needs more, as a saved state, writes the table by itself.
#ifndef KILN_PLUGIN_SDK_KF_PLUGIN_H
#define KILN_PLUGIN_SDK_KF_PLUGIN_H

#include "kf_util.h"

#ifdef KF_PLUGIN_ID

KF_MANIFEST(KF_PLUGIN_ID, KF_PLUGIN_VERSION, 0, KF_OPSET_MAX, 0, 0);

static const kf_str kf_plugin_fusers[] = {KF_PLUGIN_FUSERS};
#define KF_PLUGIN_FUSER_COUNT (sizeof(kf_plugin_fusers) / sizeof(kf_plugin_fusers[0]))

static kf_status kf_plugin_init(void)
{
    return KF_OK;
}

static void kf_plugin_deinit(void)
{
}

static kf_status kf_plugin_fuser_create(const kf_host *host, uint32_t index,
                                        const kf_device *device, kf_fuser **out)
{
    kf_fuser *fuser;
    kf_status status;
    kf_device whole = kf_device_whole(device);
    *out = NULL;
    if (index >= KF_PLUGIN_FUSER_COUNT) {
        return KF_E_INVALID;
    }
    fuser = (kf_fuser *)calloc(1, sizeof(*fuser));
    if (fuser == NULL) {
        return KF_E_NOMEM;
    }
    fuser->host = host;
    fuser->index = index;
    status = fuser_init(fuser, &whole);
    if (status != KF_OK) {
        free(fuser);
        return status;
    }
    *out = fuser;
    return KF_OK;
}

static void kf_plugin_fuser_destroy(kf_fuser *fuser)
{
    free(fuser);
}

static kf_status kf_plugin_builder_create(const kf_fuser *fuser, kf_builder **out)
{
    kf_builder *builder = (kf_builder *)malloc(sizeof(*builder));
    *out = builder;
    if (builder == NULL) {
        return KF_E_NOMEM;
    }
    builder->fuser = fuser;
    builder_init(builder);
    return KF_OK;
}

static kf_status kf_plugin_builder_clone(const kf_builder *builder, kf_builder **out)
{
    kf_status status = kf_plugin_builder_create(builder->fuser, out);
    if (status == KF_OK) {
        builder_copy(*out, builder);
    }
    return status;
}

static kf_status kf_plugin_builder_state(const kf_builder *builder, kf_state *out)
{
    kf_state state;
    memset(&state, 0, sizeof(state));
    state.struct_size = (uint32_t)sizeof(state);
    state.status = builder_is_closed(builder) ? KF_CLOSED : KF_OPEN;
    state.ready = builder_is_ready(builder);
    if (state.ready) {
        // Calls on one builder never overlap, so its room for estimates may be used here.
        builder_estimate((kf_builder *)(uintptr_t)builder, &state);
    }
    KF_OUT(out, &state);
    return KF_OK;
}

static kf_status kf_plugin_builder_fuse(kf_builder *builder, const kf_block *block,
                                        const kf_op *const *ops, uint64_t n, kf_state *out)
{
    uint64_t i;
    for (i = 0; i < n && !builder_is_closed(builder); i++) {
        builder_push(builder, block, ops[i]);
    }
    return kf_plugin_builder_state(builder, out);
}

static kf_status kf_plugin_builder_reset(kf_builder *builder)
{
    builder_init(builder);
    return KF_OK;
}

static kf_status kf_plugin_builder_finish(kf_builder *builder, kf_opt **out)
{
    kf_opt *opt;
    kf_status status;
    *out = NULL;
    if (!builder_is_ready(builder)) {
        return KF_E_INVALID;
    }
    opt = (kf_opt *)calloc(1, sizeof(*opt));
    if (opt == NULL) {
        return KF_E_NOMEM;
    }
    status = opt_init(opt, builder);
    if (status != KF_OK) {
        free(opt);
        return status;
    }
    *out = opt;
    return KF_OK;
}

static void kf_plugin_builder_destroy(kf_builder *builder)
{
    free(builder);
}

static kf_status kf_plugin_opt_info(const kf_opt *opt, kf_opt_info *out)
{
    opt_facts(opt, out);
    return KF_OK;
}

static kf_status kf_plugin_opt_describe(const kf_opt *opt, uint32_t variant, kf_program *out)
{
#ifdef KF_PLUGIN_VARIANTS
    kf_opt_info info;
    memset(&info, 0, sizeof(info));
    info.struct_size = (uint32_t)sizeof(info);
    opt_facts(opt, &info);
    if (variant >= info.n_variants) {
        return KF_E_INVALID;
    }
    opt_variant(opt, variant, out);
#else
    if (variant != 0) {
        return KF_E_INVALID;
    }
    opt_program(opt, out);
#endif
    return KF_OK;
}

static void kf_plugin_opt_destroy(kf_opt *opt)
{
    if (opt != NULL) {
        opt_fini(opt);
        free(opt);
    }
}

#ifdef KF_PLUGIN_MEASURED
static void kf_plugin_fuser_measured(const kf_fuser *fuser, const kf_measured *measured)
{
    fuser_learn((kf_fuser *)(uintptr_t)fuser, measured);
}
#endif

static const kf_plugin kf_plugin_table = {
    .struct_size = (uint32_t)sizeof(kf_plugin),
    .abi_minor = KF_ABI_MINOR,
    .id = KF_STR_INIT(KF_PLUGIN_ID),
    .version = KF_STR_INIT(KF_PLUGIN_VERSION),
    .vendor = KF_STR_INIT(KF_PLUGIN_VENDOR),
    .fuser_ids = kf_plugin_fusers,
    .n_fusers = KF_PLUGIN_FUSER_COUNT,
    .init = kf_plugin_init,
    .deinit = kf_plugin_deinit,
    .fuser_create = kf_plugin_fuser_create,
    .fuser_destroy = kf_plugin_fuser_destroy,
    .builder_create = kf_plugin_builder_create,
    .builder_clone = kf_plugin_builder_clone,
    .builder_fuse = kf_plugin_builder_fuse,
    .builder_state = kf_plugin_builder_state,
    .builder_reset = kf_plugin_builder_reset,
    .builder_finish = kf_plugin_builder_finish,
    .builder_destroy = kf_plugin_builder_destroy,
    .opt_info = kf_plugin_opt_info,
    .opt_describe = kf_plugin_opt_describe,
    .opt_destroy = kf_plugin_opt_destroy,
#ifdef KF_PLUGIN_EXTENSION
    .extension = KF_PLUGIN_EXTENSION,
#endif
#ifdef KF_PLUGIN_MEASURED
    .fuser_measured = kf_plugin_fuser_measured,
#endif
};

KF_EXPORT const kf_plugin *kf_plugin_query_v1(uint32_t host_abi_minor)
{
    (void)host_abi_minor;
    return &kf_plugin_table;
}

#endif
#endif
