// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes every sample call with the reference evaluator's result, a line each, for numpy_judge.py:
// operator#result@dtype, attributes as Python keywords, then inputs and the result as
// dtype:lengths:bytes in hexadecimal. Lines that begin with `pair` name each operator and dtype of
// the table.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir.h"
#include "samples.h"

typedef struct dump {
    kiln_env env;
    kiln_backend *backend;
    kiln_error err;
    kiln_dtype dtype; ///< for which samples are asked
    bool failed;
} dump;

static void write_tensor(const kiln_tensor_desc *desc, const void *data)
{
    const unsigned char *bytes = data;
    int64_t size = kiln_desc_bytes(desc);
    printf("|%s", kiln_dtype_name(desc->dtype));
    if (desc->scheme != 0) {
        printf("{%" PRIx64 "}", desc->scheme);
    }
    printf(":");
    for (unsigned i = 0; i < desc->rank; i++) {
        printf("%s%" PRId64, i > 0 ? "," : "", desc->dims[i]);
    }
    printf(":");
    for (int64_t i = 0; i < size; i++) {
        printf("%02x", bytes[i]);
    }
}

static void write_value(const kiln_attr *attr)
{
    switch (attr->type) {
    case KILN_ATTR_F64:
        printf("float('%.17g')", attr->v.f);
        break;
    case KILN_ATTR_DTYPE:
        printf("'%s'", kiln_dtype_name((kiln_dtype)attr->v.i));
        break;
    case KILN_ATTR_STRING:
        printf("'%s'", attr->v.text);
        break;
    case KILN_ATTR_F64_LIST:
        printf("[");
        for (uint32_t i = 0; i < attr->count; i++) {
            printf("float('%.17g'),", attr->v.floats[i]);
        }
        printf("]");
        break;
    case KILN_ATTR_I64_LIST:
        printf("[");
        for (uint32_t i = 0; i < attr->count; i++) {
            printf("%" PRId64 ",", attr->v.ints[i]);
        }
        printf("]");
        break;
    default:
        printf("%" PRId64, attr->v.i);
        break;
    }
}

static void write_call(const dump *d, const kiln_op_record *record, unsigned result)
{
    const kiln_op_info *info = kiln_op_info_of(record->op);
    printf("%s#%u@%s|", info->name, result, kiln_dtype_name(d->dtype));
    for (unsigned i = 0; i < record->n_attrs; i++) {
        if (record->attrs[i].type != KILN_ATTR_NONE) {
            printf("%s=", kiln_attr_name(info->signature->attrs[i].key));
            write_value(&record->attrs[i]);
            printf(", ");
        }
    }
}

static kiln_status evaluate(dump *d, const kiln_op_record *record, const void *const *data,
                            void *const *results)
{
    kiln_view views[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    unsigned n_inputs = record->n_inputs;
    unsigned made = 0;
    kiln_status status = KILN_STATUS_OK;
    for (; status == KILN_STATUS_OK && made < n_inputs + record->n_outputs; made++) {
        bool is_input = made < n_inputs;
        const kiln_tensor_desc *desc =
            is_input ? &record->inputs[made] : &record->outputs[made - n_inputs];
        size_t size = (size_t)kiln_desc_bytes(desc);
        kiln_buffer *buffer = NULL;
        status = d->backend->memory->alloc(d->backend, size, &buffer, &d->err);
        if (status == KILN_STATUS_OK && is_input) {
            status = d->backend->transfer->upload(d->backend, buffer, 0, data[made], size, &d->err);
        }
        views[made] = kiln_view_dense(desc, buffer);
    }
    if (status == KILN_STATUS_OK) {
        status = d->backend->device->execute(d->backend, record, views, views + n_inputs, &d->err);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_outputs; i++) {
        status = d->backend->transfer->read(d->backend, views[n_inputs + i].buffer, 0, results[i],
                                            (size_t)kiln_desc_bytes(&record->outputs[i]), &d->err);
    }
    while (made > 0) {
        d->backend->memory->free(d->backend, views[--made].buffer);
    }
    return status;
}

static void take_sample(const kiln_op_record *record, const void *const *data, void *user)
{
    dump *d = user;
    void *results[KILN_MAX_OUTPUTS] = {NULL};
    bool ok = record->outputs != NULL;
    for (unsigned i = 0; ok && i < record->n_outputs; i++) {
        size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[i]);
        results[i] = malloc(bytes > 0 ? bytes : 1);
        ok = results[i] != NULL;
    }
    if (!ok || evaluate(d, record, data, results) != KILN_STATUS_OK) {
        fprintf(stderr, "sample_dump: %s: %s\n", kiln_op_info_of(record->op)->name, d->err.message);
        d->failed = true;
        ok = false;
    }
    for (unsigned i = 0; ok && i < record->n_outputs; i++) {
        write_call(d, record, i);
        for (unsigned k = 0; k < record->n_inputs; k++) {
            write_tensor(&record->inputs[k], data[k]);
        }
        write_tensor(&record->outputs[i], results[i]);
        printf("\n");
    }
    for (unsigned i = 0; i < record->n_outputs; i++) {
        free(results[i]);
    }
}

/// With arguments: only the operators of these names.
static bool is_wanted(const char *name, int argc, char **argv)
{
    bool found = argc < 2;
    for (int i = 1; i < argc && !found; i++) {
        found = strcmp(argv[i], name) == 0;
    }
    return found;
}

int main(int argc, char **argv)
{
    dump d = {.env = {.allocator = kiln_allocator_default()}};
    kiln_sample_sink sink = {&d.env, take_sample, &d};
    const kiln_backend_provider *provider = kiln_ir_reference_provider();
    if (provider->open(&d.env, "reference:", &d.backend, &d.err, provider->user) !=
        KILN_STATUS_OK) {
        fprintf(stderr, "sample_dump: %s\n", d.err.message);
        return 1;
    }
    for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        // What plugins bring is judged where they are: tests of operators in unit/ and plugin
        // check.
        bool own = info->n_outputs > 0 && op != KILN_OP_CUSTOM && is_wanted(info->name, argc, argv);
        for (int i = 1; own && i < KILN_DTYPE_LIMIT; i++) {
            d.dtype = (kiln_dtype)i;
            if ((kiln_dtype_kind_of(d.dtype) & info->accept) != 0) {
                printf("pair|%s|%s\n", info->name, kiln_dtype_name(d.dtype));
                kiln_samples_make((kiln_op)op, d.dtype, &sink);
            }
        }
    }
    d.backend->device->close(d.backend);
    return d.failed ? 1 : 0;
}
