// SPDX-License-Identifier: MIT OR Apache-2.0
// Which function makes the sample calls of an operator: one for each family of ops.def, by
// samples.def for the others. A row of ops.def that is in neither does not compile.
#include "samples_internal.h"

typedef void (*samples_fn)(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink);

enum {
#define KILN_SAMPLES(id, function) SAMPLES_OF_##id,
#include "samples.def"
#undef KILN_SAMPLES
};

enum { // an operator without a row in samples.def
#define KILN_UNARY(...)
#define KILN_BINARY(...)
#define KILN_SCALAR(...)
#define KILN_REDUCE(...)
#define KILN_OP(id, ...) CHECK_##id = SAMPLES_OF_##id,
#include "ops.def"
#undef KILN_OP
};

static const samples_fn makers[KILN_OP_COUNT] = {
#define KILN_UNARY(id, ...) [KILN_OP_##id] = kiln_samples_unary,
#define KILN_BINARY(id, ...) [KILN_OP_##id] = kiln_samples_binary,
#define KILN_SCALAR(id, ...) [KILN_OP_##id] = kiln_samples_scalar,
#define KILN_REDUCE(id, ...) [KILN_OP_##id] = kiln_samples_reduce,
#define KILN_OP(...)
#include "ops.def"
#undef KILN_OP
#define KILN_SAMPLES(id, function) [KILN_OP_##id] = function,
#include "samples.def"
#undef KILN_SAMPLES
};

void kiln_samples_make(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    makers[op](op, dtype, sink);
}
