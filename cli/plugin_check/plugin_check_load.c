// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads the plugin that is checked, and makes its fusers for an invented host and invented devices.
// The host counts what the plugin allocates and can refuse it from a call on.
#include "plugin_check.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void report(const kf_host *host, const kf_diag *diag)
{
    check *c = host->ctx;
    size_t length =
        diag->message.len < sizeof(c->said) - 1 ? diag->message.len : sizeof(c->said) - 1;
    if (diag->message.ptr != NULL) {
        memcpy(c->said, diag->message.ptr, length);
        c->said[length] = '\0';
    }
}

static void *host_alloc(const kf_host *host, uint64_t size, uint64_t align)
{
    check *c = host->ctx;
    void *block = NULL;
    c->host_calls++;
    if (c->fail_at != 0 && c->host_calls >= c->fail_at) {
        return NULL;
    }
    if (size > 1u << 30 ||
        posix_memalign(&block, align < 16 ? 16 : (size_t)align, (size_t)size + 1) != 0) {
        return NULL;
    }
    c->host_blocks++;
    return block;
}

static void host_free(const kf_host *host, void *block)
{
    check *c = host->ctx;
    c->host_blocks -= block != NULL ? 1 : 0;
    free(block);
}

static uint32_t cancelled(const kf_host *host)
{
    (void)host;
    return 0;
}

static const void *extension(const kf_host *host, const char *id)
{
    (void)host;
    (void)id;
    return NULL;
}

bool check_profile(uint32_t which, kf_device *out, const char **out_name)
{
    static const struct {
        const char *name;
        uint32_t type, shape, units, vector, group;
        uint64_t local, bandwidth, flops;
    } rows[] = {
        {"a CPU", KF_DEVICE_CPU, KF_SHAPE_BLOCK, 4, 32, 4096, 512 << 10, 20000000000u,
         200000000000u},
        {"a large GPU", KF_DEVICE_GPU, KF_SHAPE_NDRANGE, 132, 0, 1024, 48 << 10, 3000000000000u,
         60000000000000u},
        {"a small GPU", KF_DEVICE_GPU, KF_SHAPE_NDRANGE, 4, 16, 64, 16 << 10, 12000000000u,
         50000000000u},
        {"an FPGA", KF_DEVICE_ACCELERATOR, KF_SHAPE_BLOCK, 1, 64, 1, 64 << 10, 30000000000u,
         300000000000u},
    };
    if (which >= sizeof(rows) / sizeof(rows[0])) {
        return false;
    }
    *out_name = rows[which].name;
    *out = (kf_device){.struct_size = (uint32_t)sizeof(*out),
                       .device_type = rows[which].type,
                       .code_shape = rows[which].shape,
                       .features = KF_FEATURE_COMPILER | (which < 2 ? KF_FEATURE_FP64 : 0),
                       .dtype_storage = ~0ull,
                       .dtype_arithmetic = ~0ull,
                       .global_bytes = 1u << 30,
                       .max_alloc_bytes = 1u << 28,
                       .local_bytes = rows[which].local,
                       .max_group_size = rows[which].group,
                       .max_group_dim = {rows[which].group, rows[which].group, rows[which].group},
                       .max_param_bytes = 1024,
                       .compute_units = rows[which].units,
                       .vector_bytes = rows[which].vector,
                       .mem_align_bytes = 128,
                       .cl_version = 120,
                       .cl_c_version = 120,
                       .cache_line_bytes = 64,
                       .opset = 1,
                       .cache_bytes = 8u << 20,
                       .mem_bytes_per_s = rows[which].bandwidth,
                       .flops_f32 = rows[which].flops,
                       .launch_ns = 5000,
                       .name = KF_STR_INIT("invented"),
                       .fingerprint = {rows[which].name, strlen(rows[which].name)}};
    return true;
}

bool check_load(check *c)
{
    const char *name;
    kf_query_fn query = NULL;
    check_step(c, "dlopen");
    void *library = dlopen(c->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        return check_fail(c, "%s", dlerror());
    }
    void *symbol = dlsym(library, KF_QUERY_SYMBOL);
    if (symbol == NULL) {
        return check_fail(c, "does not export %s", KF_QUERY_SYMBOL);
    }
    memcpy(&query, &symbol, sizeof(query));
    check_step(c, "%s", KF_QUERY_SYMBOL);
    c->plugin = query(KF_ABI_MINOR);
    if (c->plugin == NULL || c->plugin->struct_size < KF_PLUGIN_SIZE_V1_0) {
        return check_fail(c, "query gives no table of version 1");
    }
    check_step(c, "init");
    if (c->plugin->init() != KF_OK) {
        return check_fail(c, "init fails");
    }
    c->host = (kf_host){.struct_size = (uint32_t)sizeof(c->host),
                        .abi_minor = KF_ABI_MINOR,
                        .ctx = c,
                        .name = KF_STR_INIT("kiln plugin check"),
                        .version = KF_STR_INIT("1"),
                        .report = report,
                        .alloc = host_alloc,
                        .free = host_free,
                        .cancelled = cancelled,
                        .extension = extension};
    return check_profile(0, &c->device, &name);
}

kf_fuser *check_fuser(check *c, uint32_t index)
{
    kf_fuser *fuser = NULL;
    kf_status status = KF_DECLINED;
    const char *on;
    check_step(c, "fuser_create");
    for (uint32_t i = 0; status == KF_DECLINED; i++) {
        if (c->fixed_device ? i > 0 : !check_profile(i, &c->device, &on)) {
            return NULL;
        }
        status = c->plugin->fuser_create(&c->host, index, &c->device, &fuser);
    }
    if (status != KF_OK || fuser == NULL) {
        check_fail(c, "fuser_create of fuser %u gives status %d and %s", index, status,
                   fuser == NULL ? "nothing" : "an object");
        return NULL;
    }
    return fuser;
}
