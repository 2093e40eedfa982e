// SPDX-License-Identifier: MIT OR Apache-2.0
// See cl_fixture.h.

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cl_fixture.h"

static void keep_log(const kiln_log_record *record, void *user)
{
    cl_fixture *f = user;
    size_t used = strlen(f->log);
    snprintf(f->log + used, sizeof(f->log) - used, "%s\n", record->message);
}

static bool set(cl_fixture *f, kiln_option option, const char *value)
{
    kiln_error err = KILN_ERROR_INIT;
    if (value == NULL) {
        return true;
    }
    kiln_status status =
        kiln_config_set(f->env.config, kiln_option_name(option), value, KILN_ORIGIN_FLAG, &err);
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
    }
    return status == KILN_STATUS_OK;
}

bool cl_fixture_env(cl_fixture *f, const cl_settings *settings)
{
    kiln_error err = KILN_ERROR_INIT;
    memset(f, 0, sizeof(*f));
    kiln_faults_init(&f->faults);
    f->env.allocator = f->faults.allocator;
    f->env.log = keep_log;
    f->env.log_user = f;
    if (kiln_config_create(&f->env.allocator, NULL, /*use_environment=*/false, &f->env.config,
                           &err) != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
        return false;
    }
    return set(f, KILN_OPTION_CACHE_DIR, settings->cache != NULL ? settings->cache : "off") &&
           set(f, KILN_OPTION_MEMORY_BUDGET, settings->budget) &&
           set(f, KILN_OPTION_TUNE, settings->tune) &&
           set(f, KILN_OPTION_PROGRAM_LIMIT, settings->program_limit) &&
           set(f, KILN_OPTION_DETERMINISTIC, settings->deterministic) &&
           set(f, KILN_OPTION_KERNEL_DIR, settings->kernel_dir);
}

void cl_fixture_env_fini(cl_fixture *f)
{
    kiln_config_destroy(f->env.config);
    KILN_CHECK_INT(f->faults.live, 0);
}

bool cl_fixture_open(cl_fixture *f, const cl_settings *settings)
{
    static const cl_settings defaults;
    kiln_error err = KILN_ERROR_INIT;
    settings = settings != NULL ? settings : &defaults;
    if (!cl_fixture_env(f, settings)) {
        return false;
    }
    const char *address =
        settings->address != NULL ? settings->address : kiln_test_address("opencl:0");
    const kiln_backend_provider *provider = kiln_cl_provider();
    kiln_status status = provider->open(&f->env, address, &f->base, &err, provider->user);
    if (status != KILN_STATUS_OK) {
        kiln_config_destroy(f->env.config);
        if (status == KILN_STATUS_NOT_FOUND) {
            kiln_test_skip("%s", err.message);
        } else {
            KILN_FAIL("%s", err.message);
        }
        return false;
    }
    f->backend = kilni_cl_backend_of(f->base);
    return true;
}

void cl_fixture_close(cl_fixture *f)
{
    kiln_backend_stats stats;
    f->base->device->stats(f->base, &stats);
    KILN_CHECK_INT(stats.buffers_live, 0);
    KILN_CHECK_INT(stats.bytes_used, 0);
    f->base->device->close(f->base);
    cl_fixture_env_fini(f);
}

cl_uint cl_fixture_references(cl_context context)
{
    struct timespec pause = {.tv_nsec = 1000000};
    cl_uint count = 0;
    for (int i = 0; i < 5000 && count != 1; i++) {
        if (clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof(count), &count, NULL) !=
            CL_SUCCESS) {
            return UINT32_MAX;
        }
        nanosleep(&pause, NULL);
    }
    return count - 1;
}

kiln_buffer *cl_fixture_buffer(cl_fixture *f, size_t bytes, const void *data)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_buffer *buffer = NULL;
    kiln_status status = f->base->memory->alloc(f->base, bytes, &buffer, &err);
    if (status == KILN_STATUS_OK && data != NULL) {
        status = f->base->transfer->upload(f->base, buffer, 0, data, bytes, &err);
    }
    if (status != KILN_STATUS_OK) {
        KILN_FAIL("%s", err.message);
    }
    return buffer;
}

/// Of every launch: how many there are is asked, not what they are.
static const kiln_program_arg parameters[8];

/// Parameters of a kernel in its source, where they stand in one pair of parentheses.
static uint32_t count_parameters(const char *source, const char *kernel)
{
    size_t length = strlen(kernel);
    const char *at = strstr(source, kernel);
    while (at != NULL && at[length] != '(') {
        at = strstr(at + 1, kernel);
    }
    if (at == NULL || at[length + 1] == ')') {
        return 0;
    }
    uint32_t count = 1;
    for (at += length; *at != ')' && *at != '\0'; at++) {
        count += *at == ',';
    }
    return count;
}

void cl_program_text_init(cl_program_text *text, const char *source, const char *const *kernels,
                          uint32_t n_kernels)
{
    memset(text, 0, sizeof(*text));
    text->source.format = KILN_SOURCE_OPENCL_C;
    text->source.code = source;
    text->source.length = strlen(source);
    for (uint32_t i = 0; i < n_kernels; i++) {
        text->launches[i].kernel = kernels[i];
        text->launches[i].n_dims = 1;
        text->launches[i].n_args = count_parameters(source, kernels[i]);
        text->launches[i].args = parameters;
    }
    text->program.key = kiln_hash_bytes(source, strlen(source));
    text->program.sources = &text->source;
    text->program.n_sources = 1;
    text->program.launches = text->launches;
    text->program.n_launches = n_kernels;
}
