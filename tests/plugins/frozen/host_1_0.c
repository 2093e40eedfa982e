// SPDX-License-Identifier: MIT OR Apache-2.0
// A host of fuser ABI 1.0, from that version's header alone, for plugins of today: host_1_0 FILE.
// It shows two operations, finishes, and describes every variant. Behind all that it gives to a
// plugin there is a page that nobody may touch: whoever reads or writes a field that 1.0 does not
// have ends by a signal.
#define _GNU_SOURCE
#include "kiln_fuser_ops_v1_0.h"
#include "kiln_fuser_v1_0.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "host of 1.0: %s\n", what);
        exit(1);
    }
}

/// `bytes`, a multiple of 8, that end at the end of a page; cleared.
static void *at_an_end(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(pages != MAP_FAILED && bytes <= page && mprotect(pages + page, page, PROT_NONE) == 0,
          "no guarded page");
    void *place = pages + page - bytes;
    memcpy(place, &(uint32_t){(uint32_t)bytes}, sizeof(uint32_t)); // struct_size
    return place;
}

static void report(const kf_host *host, const kf_diag *diag)
{
    (void)host;
    fprintf(stderr, "told: %.*s\n", (int)diag->message.len, diag->message.ptr);
}

static void *give(const kf_host *host, uint64_t size, uint64_t align)
{
    (void)host;
    return align <= 16 ? malloc(size) : NULL;
}

static void take_back(const kf_host *host, void *place)
{
    (void)host;
    free(place);
}

static uint32_t never(const kf_host *host)
{
    (void)host;
    return 0;
}

static const void *no_extension(const kf_host *host, const char *id)
{
    (void)host;
    (void)id;
    return NULL;
}

static kf_host *make_host(void)
{
    kf_host *host = at_an_end(sizeof(*host));
    host->name = (kf_str)KF_STR_INIT("host of 1.0");
    host->version = (kf_str)KF_STR_INIT("1.0");
    host->report = report;
    host->alloc = give;
    host->free = take_back;
    host->cancelled = never;
    host->extension = no_extension;
    return host;
}

static kf_device *make_device(void)
{
    static const char fingerprint[] = "1.0";
    kf_device *device = at_an_end(sizeof(*device));
    device->device_type = KF_DEVICE_CPU;
    device->code_shape = KF_SHAPE_BLOCK;
    device->features = KF_FEATURE_COMPILER;
    device->dtype_storage = device->dtype_arithmetic = ~0ull;
    device->max_group_size = 256;
    device->max_param_bytes = 1024;
    device->local_bytes = 32768;
    device->compute_units = 2;
    device->vector_bytes = 32;
    device->mem_align_bytes = 128;
    device->cl_version = device->cl_c_version = 120;
    device->fingerprint = (kf_blob){fingerprint, sizeof(fingerprint) - 1};
    return device;
}

static kf_tensor *make_tensor(uint32_t id)
{
    static const kf_dim dims[2] = {{0, 1, 0}, {0, 2, 0}};
    kf_tensor *tensor = at_an_end(sizeof(*tensor));
    tensor->id = id;
    tensor->dtype = KF_DTYPE_F32;
    tensor->rank = 2;
    tensor->flags = id == 0 ? KF_TENSOR_EXTERNAL : KF_TENSOR_UNINIT;
    tensor->facts = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET | KF_FACT_FITS_I32;
    tensor->align_log2 = 7;
    tensor->div_by = 16;
    tensor->dims = dims;
    return tensor;
}

static kf_op *make_op(uint32_t kind, uint32_t position, const kf_tensor *const *tensors)
{
    kf_op *op = at_an_end(sizeof(*op));
    op->kind = kind;
    op->version = 1;
    op->n_inputs = op->n_outputs = 1;
    op->position = position;
    op->inputs = tensors;
    op->outputs = tensors + 1;
    return op;
}

static kf_status some_value(const kf_block *block, uint32_t symbol, int64_t *out)
{
    (void)block;
    *out = symbol == 0 ? 1 : 1024;
    return KF_OK;
}

static kf_status no_scalar(const kf_block *block, uint32_t scalar, kf_scalar *out)
{
    (void)block;
    (void)scalar;
    (void)out;
    return KF_E_INVALID;
}

static void show(const kf_plugin *plugin, kf_builder *builder)
{
    const kf_tensor *const tensors[3] = {make_tensor(0), make_tensor(1), make_tensor(2)};
    const kf_op *const ops[2] = {make_op(KF_OP_EXP, 0, tensors),
                                 make_op(KF_OP_ABS, 1, tensors + 1)};
    kf_block *block = at_an_end(sizeof(*block));
    kf_state *state = at_an_end(sizeof(*state));
    block->dim_value = some_value;
    block->scalar_value = no_scalar;
    check(plugin->builder_fuse(builder, block, ops, 2, state) == KF_OK, "builder_fuse fails");
    check(state->ready == 1 && state->len == 2 && state->est_ns.n > 0,
          "it does not take the two operations");
}

/// What 1.0 has no field for must be absent: it would refuse the program.
static void check_sources(const kf_program *program)
{
    for (uint64_t i = 0; i < program->n_sources; i++) {
        const kf_source *source = program->sources[i];
        for (uint32_t at = (uint32_t)sizeof(*source); at < source->struct_size; at++) {
            check(((const char *)source)[at] == 0, "a source says what 1.0 does not know");
        }
    }
}

static uint32_t describe(const kf_plugin *plugin, const kf_opt *opt)
{
    kf_opt_info *info = at_an_end(sizeof(*info));
    kf_program *program = at_an_end(sizeof(*program));
    check(plugin->opt_info(opt, info) == KF_OK && info->struct_size == sizeof(*info),
          "opt_info fails");
    check(info->len == 2 && info->n_variants > 0 && info->key.len > 0, "opt_info says nothing");
    for (uint32_t i = 0; i < info->n_variants; i++) {
        check(plugin->opt_describe(opt, i, program) == KF_OK, "opt_describe fails");
        check(program->n_launches > 0 && program->n_sources > 0, "a program without a launch");
        check_sources(program);
    }
    check(plugin->opt_describe(opt, info->n_variants, program) != KF_OK,
          "describes a variant too many");
    return info->n_variants;
}

int main(int argc, char **argv)
{
    kf_query_fn query = NULL;
    check(argc == 2, "host_1_0 FILE");
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    void *symbol = library == NULL ? NULL : dlsym(library, KF_QUERY_SYMBOL);
    check(symbol != NULL, "no plugin");
    memcpy(&query, &symbol, sizeof(query));
    const kf_plugin *given = query(KF_ABI_MINOR);
    check(given != NULL && given->struct_size >= KF_PLUGIN_SIZE_V1_0, "no table of 1.0");
    kf_plugin table = *given, *plugin = &table;
    kf_fuser *fuser = NULL;
    kf_builder *builder = NULL;
    kf_opt *opt = NULL;
    check(plugin->init() == KF_OK, "init fails");
    check(plugin->fuser_create(make_host(), 0, make_device(), &fuser) == KF_OK, "no fuser");
    check(plugin->builder_create(fuser, &builder) == KF_OK, "no builder");
    show(plugin, builder);
    check(plugin->builder_finish(builder, &opt) == KF_OK && opt != NULL, "builder_finish fails");
    printf("%u variants\n", describe(plugin, opt));
    plugin->opt_destroy(opt);
    plugin->builder_destroy(builder);
    plugin->fuser_destroy(fuser);
    plugin->deinit();
    return 0;
}
