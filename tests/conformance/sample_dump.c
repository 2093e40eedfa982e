// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes every sample call with the reference evaluator's result, a line each, for numpy_judge.py:
// operator, attributes as Python keywords, number of inputs, then inputs and results as
// dtype:lengths:bytes in hexadecimal.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir.h"

typedef struct dump {
    kiln_env env;
    kiln_backend *backend;
    kiln_error err;
    bool failed;
} dump;

static void write_tensor(const kiln_tensor_desc *desc, const void *data)
{
    const unsigned char *bytes = data;
    int64_t size = kiln_desc_bytes(desc);
    printf("|%s:", kiln_dtype_name(desc->dtype));
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

static void write_call(const kiln_op_record *record)
{
    const kiln_op_info *info = kiln_op_info_of(record->op);
    printf("%s|", info->name);
    for (unsigned i = 0; i < record->n_attrs; i++) {
        if (record->attrs[i].type != KILN_ATTR_NONE) {
            printf("%s=", kiln_attr_name(info->signature->attrs[i].key));
            write_value(&record->attrs[i]);
            printf(", ");
        }
    }
    printf("|%u", record->n_inputs);
}

typedef struct results {
    kiln_view views[KILN_MAX_OUTPUTS];
    void *data[KILN_MAX_OUTPUTS];
} results;

static kiln_status make_results(dump *d, const kiln_op_record *record, results *out)
{
    kiln_status st = KILN_STATUS_OK;
    for (unsigned i = 0; st == KILN_STATUS_OK && i < record->n_outputs; i++) {
        kiln_buffer *buffer = NULL;
        size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[i]);
        st = d->backend->ops->alloc(d->backend, bytes, &buffer, &d->err);
        out->views[i] = kiln_view_dense(&record->outputs[i], buffer);
        out->data[i] = malloc(bytes > 0 ? bytes : 1);
        st = st == KILN_STATUS_OK && out->data[i] == NULL ? KILN_STATUS_RESOURCE_EXHAUSTED : st;
    }
    return st;
}

static void free_results(dump *d, const kiln_op_record *record, results *out)
{
    for (unsigned i = 0; i < record->n_outputs; i++) {
        d->backend->ops->free(d->backend, out->views[i].buffer);
        free(out->data[i]);
    }
}

static kiln_status evaluate(dump *d, const kiln_op_record *record, const void *const *data,
                            results *out)
{
    const kiln_backend_ops *ops = d->backend->ops;
    kiln_view inputs[KILN_MAX_INPUTS];
    kiln_status st = KILN_STATUS_OK;
    unsigned made = 0;
    for (; st == KILN_STATUS_OK && made < record->n_inputs; made++) {
        size_t size = (size_t)kiln_desc_bytes(&record->inputs[made]);
        kiln_buffer *buffer = NULL;
        st = ops->alloc(d->backend, size, &buffer, &d->err);
        if (st == KILN_STATUS_OK) {
            st = ops->upload(d->backend, buffer, 0, data[made], size, &d->err);
        }
        inputs[made] = kiln_view_dense(&record->inputs[made], buffer);
    }
    if (st == KILN_STATUS_OK) {
        st = ops->execute(d->backend, record, inputs, out->views, &d->err);
    }
    for (unsigned i = 0; st == KILN_STATUS_OK && i < record->n_outputs; i++) {
        size_t bytes = (size_t)kiln_desc_bytes(&record->outputs[i]);
        st = ops->read(d->backend, out->views[i].buffer, 0, out->data[i], bytes, &d->err);
    }
    while (made > 0) {
        ops->free(d->backend, inputs[--made].buffer);
    }
    return st;
}

static void take_sample(const kiln_op_record *record, const void *const *data, void *user)
{
    dump *d = user;
    results out = {{{0}}, {NULL}};
    if (record->outputs == NULL) {
        d->failed = true;
        return;
    }
    if (make_results(d, record, &out) != KILN_STATUS_OK ||
        evaluate(d, record, data, &out) != KILN_STATUS_OK) {
        fprintf(stderr, "sample_dump: %s\n", d->err.message);
        d->failed = true;
    } else {
        write_call(record);
        for (unsigned i = 0; i < record->n_inputs; i++) {
            write_tensor(&record->inputs[i], data[i]);
        }
        for (unsigned i = 0; i < record->n_outputs; i++) {
            write_tensor(&record->outputs[i], out.data[i]);
        }
        printf("\n");
    }
    free_results(d, record, &out);
}

int main(void)
{
    static const kiln_dtype dtypes[] = {KILN_DTYPE_F32, KILN_DTYPE_F64, KILN_DTYPE_F16,
                                        KILN_DTYPE_I32, KILN_DTYPE_I64, KILN_DTYPE_I8,
                                        KILN_DTYPE_U8,  KILN_DTYPE_U64, KILN_DTYPE_BOOL};
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
        for (size_t i = 0; info->n_outputs > 0 && i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
            if ((kiln_dtype_kind_of(dtypes[i]) & info->accept) != 0) {
                info->samples((kiln_op)op, dtypes[i], &sink);
            }
        }
    }
    d.backend->ops->close(d.backend);
    return d.failed ? 1 : 0;
}
