// SPDX-License-Identifier: MIT OR Apache-2.0
// A device that plans for another one, which is not here: its description becomes the other's, as
// far as what is planned can still run here. Decides what is the other's (kind, sizes, speeds, what
// it can do), and what stays (how memory and programs are handled on this device).

#include <string.h>

#include "cl_backend.h"
#include "cl_elsewhere.h"
#include "cl_query.h"
#include "cl_state.h"

/// What kernels may use. Of it the plan has what both devices have.
static const uint32_t of_kernels =
    KILN_FEATURE_FP16 | KILN_FEATURE_FP64 | KILN_FEATURE_INT64_ATOMICS |
    KILN_FEATURE_FLOAT_ATOMICS | KILN_FEATURE_SUBGROUPS | KILN_FEATURE_IMAGES |
    KILN_FEATURE_DENORMALS | KILN_FEATURE_ROUNDED_DIVIDE_SQRT | KILN_FEATURE_VNNI |
    KILN_FEATURE_WGMMA | KILN_FEATURE_STRICT | KILN_FEATURE_ROUND_TF32 | KILN_FEATURE_ROUND_BF16;

/// The smaller one; 0 is not known.
static uint64_t smaller(uint64_t here, uint64_t there)
{
    return there != 0 && (here == 0 || there < here) ? there : here;
}

static char *common_extensions(const kilni_cl_backend *backend, const char *there)
{
    kiln_string common;
    kiln_string_init(&common, backend->env);
    kiln_string_append(&common, "", 0);
    for (const char *at = there + strspn(there, " "); *at != '\0'; at += strspn(at, " ")) {
        char word[128];
        size_t length = strcspn(at, " ");
        if (length < sizeof(word)) {
            memcpy(word, at, length);
            word[length] = '\0';
            if (kilni_cl_has_extension(backend->info.extensions, word)) {
                kiln_string_printf(&common, "%s ", word);
            }
        }
        at += length;
    }
    if (common.failed) {
        kiln_string_fini(&common);
        return NULL;
    }
    return common.text != NULL ? common.text : kiln_strdup(backend->env, "");
}

static kiln_status take_texts(kilni_cl_backend *backend, const kiln_device_info *there,
                              kiln_error *err)
{
    kiln_device_info *info = &backend->info;
    const char **const places[] = {&info->name, &info->driver, &info->extensions};
    char *made[] = {kiln_strdup(backend->env, there->name),
                    kiln_strdup(backend->env, there->driver),
                    common_extensions(backend, there->extensions)};
    bool all = true;
    for (size_t i = 0; i < 3; i++) {
        all = all && made[i] != NULL;
    }
    for (size_t i = 0; i < 3; i++) {
        kiln_free(backend->env, all ? (void *)(uintptr_t)*places[i] : made[i]);
        *places[i] = all ? made[i] : *places[i];
    }
    return all ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a device's description");
}

static void take_sizes(kiln_device_info *info, const kiln_device_info *there)
{
    info->memory_bytes = smaller(info->memory_bytes, there->memory_bytes);
    info->max_alloc_bytes = smaller(info->max_alloc_bytes, there->max_alloc_bytes);
    info->local_bytes = smaller(info->local_bytes, there->local_bytes);
    info->max_work_group = smaller(info->max_work_group, there->max_work_group);
    info->max_parameter_bytes = smaller(info->max_parameter_bytes, there->max_parameter_bytes);
    info->cl_version = (uint32_t)smaller(info->cl_version, there->cl_version);
    info->cl_c_version = (uint32_t)smaller(info->cl_c_version, there->cl_c_version);
    for (int i = 0; i < 3; i++) {
        info->max_work_items[i] = smaller(info->max_work_items[i], there->max_work_items[i]);
    }
    info->memory_align =
        there->memory_align > info->memory_align ? there->memory_align : info->memory_align;
}

/// What a plan is chosen by.
static void take_speeds(kiln_device_info *info, const kiln_device_info *there)
{
    info->type = there->type;
    info->vendor_id = there->vendor_id;
    info->compute_units = there->compute_units;
    info->vector_bytes = there->vector_bytes;
    info->subgroup_size = there->subgroup_size;
    info->subgroup_sizes = there->subgroup_sizes;
    info->cache_line_bytes = there->cache_line_bytes;
    info->cache_bytes = there->cache_bytes;
    info->bytes_per_s = there->bytes_per_s != 0 ? there->bytes_per_s : info->bytes_per_s;
    info->launch_ns = there->launch_ns != 0 ? there->launch_ns : info->launch_ns;
    info->flops_f32 = there->flops_f32 != 0 ? there->flops_f32 : info->flops_f32;
    info->flops_f16 = (info->features & KILN_FEATURE_FP16) == 0 ? 0
                      : there->flops_f16 != 0                   ? there->flops_f16
                                                                : info->flops_f32;
    info->flops_f64 = (info->features & KILN_FEATURE_FP64) != 0 ? there->flops_f64 : 0;
    info->accelerated_dtypes = 0;
    info->speeds_doubtful = 0;
}

/// Plans and programs of the two are apart in the cache.
static void take_fingerprint(kilni_cl_backend *backend)
{
    kiln_device_info *info = &backend->info;
    const struct {
        kiln_hash128 here;
        uint64_t numbers[17];
    } key = {info->fingerprint,
             {info->type, info->features, info->compute_units, info->vector_bytes,
              info->memory_align, info->cl_c_version, info->memory_bytes, info->max_alloc_bytes,
              info->local_bytes, info->max_work_group, info->max_parameter_bytes, info->bytes_per_s,
              info->launch_ns, info->flops_f32, info->cache_bytes, info->subgroup_size,
              info->subgroup_sizes}};
    const kiln_hash128 parts[] = {kiln_hash_bytes(&key, sizeof(key)),
                                  kiln_hash_bytes(info->name, strlen(info->name)),
                                  kiln_hash_bytes(info->driver, strlen(info->driver)),
                                  kiln_hash_bytes(info->extensions, strlen(info->extensions))};
    info->fingerprint = kiln_hash_bytes(parts, sizeof(parts));
}

/// What plans divide by, and texts that are read.
static bool is_whole(const kiln_device_info *there)
{
    return there->name != NULL && there->driver != NULL && there->extensions != NULL &&
           there->compute_units > 0 && there->vector_bytes >= 16 &&
           (there->vector_bytes & (there->vector_bytes - 1)) == 0;
}

kiln_status kiln_cl_plan_for(kiln_backend *base, const kiln_device_info *there, kiln_error *err)
{
    kilni_cl_backend *backend = kilni_cl_backend_of(base);
    kiln_device_info *info = &backend->info;
    if (backend->recorder == NULL) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "%s plans for itself alone: another device's plan is for bundles, with "
                         "the option compiler as record",
                         info->name);
    }
    if (!is_whole(there)) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "a device to plan for has a name, a driver, extensions, compute units and "
                         "vectors of 16, 32, 64 or more bytes");
    }
    kiln_status status = take_texts(backend, there, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const uint32_t has = info->features;
    const uint32_t common = has & there->features & of_kernels;
    backend->elsewhere.is = true;
    backend->elsewhere.hidden = has & of_kernels & ~common;
    info->features = (has & ~(of_kernels | KILN_FEATURE_SINGLE_WORK_ITEM)) | common |
                     (there->features & KILN_FEATURE_SINGLE_WORK_ITEM);
    take_sizes(info, there);
    take_speeds(info, there);
    take_fingerprint(backend);
    return KILN_STATUS_OK;
}

uint32_t kiln_cl_hidden_features(kiln_backend *base)
{
    return kilni_cl_backend_of(base)->elsewhere.hidden;
}
