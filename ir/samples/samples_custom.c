// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of a plugin's operator that nobody has looked up: what printer, parser, codec and
// verifier must carry. Nothing can run them; the tests of plugins run others.
#include "samples_internal.h"

static void emit_custom(kiln_sample_sink *sink, kiln_dtype dtype, const char *name, int64_t version,
                        const char *attributes, uint8_t n_outputs)
{
    const kiln_attr attrs[] = {kilni_attr_text(name), kilni_attr_i64(version),
                               kilni_attr_text(attributes)};
    const kiln_tensor_desc x = {.id = 1, .dtype = dtype, .rank = 2, .dims = {2, 3}};
    const kiln_tensor_desc outputs[] = {
        {.id = 2, .dtype = dtype, .rank = 1, .dims = {2}},
        {.id = 3, .dtype = KILN_DTYPE_I64, .rank = 3, .dims = {2, 1, 0}},
    };
    void *data = kiln_alloc(sink->env, (size_t)kiln_desc_bytes(&x));
    const kiln_op_record record = {.op = KILN_OP_CUSTOM,
                                   .n_inputs = 1,
                                   .n_outputs = n_outputs,
                                   .n_attrs = 3,
                                   .inputs = &x,
                                   .outputs = data != NULL ? outputs : NULL,
                                   .attrs = attrs};
    sink->take(&record, (const void *const *)&data, sink->user);
    kiln_free(sink->env, data);
}

void kiln_samples_custom(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    (void)op;
    emit_custom(sink, dtype, "sample::plain", 1, "", 1);
    emit_custom(sink, dtype, "sample.org::two_results", 4294967295,
                "clip=0.10000000000000001, axes=[0,-1], mode=\"a \\\"b\\\" \\x0a\", limit=-inf", 2);
}
