// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SAMPLES_INTERNAL_H
#define KILN_SAMPLES_INTERNAL_H

/// How samples*.c say a sample call: shapes, what fills them, attributes.

#include "attr_make.h"
#include "ir.h"
#include "samples.h"

typedef enum kilni_fill {
    KILNI_FILL_SPECIAL = 0, ///< every special value of the dtype first, then ordinary ones
    KILNI_FILL_SMALL = 1, ///< ordinary values of small size, both signs
    KILNI_FILL_POSITIVE = 2, ///< ordinary values between 0.5 and 2; integers 1 to 3
    KILNI_FILL_TIES = 3, ///< few different values, so that equals meet
    KILNI_FILL_INDEX = 4, ///< indices around [-limit, limit), some outside
    KILNI_FILL_MASK = 5 ///< 0 and 1 in no order
} kilni_fill;

typedef struct kilni_sample_tensor {
    int64_t dims[KILN_MAX_RANK];
    int64_t limit; ///< of INDEX
    kilni_fill fill;
    kiln_dtype dtype; ///< NONE: the sample's
    uint64_t scheme; ///< of a quantised one
    uint8_t rank;
} kilni_sample_tensor;

/// Builds the record, infers its outputs, hands it to the sink. When inference refuses the sample
/// the record has no outputs and `outputs` is NULL: a mistake in the sample, which tests report.
void kilni_sample_emit(kiln_sample_sink *sink, kiln_op op, kiln_dtype dtype,
                       const kilni_sample_tensor *inputs, uint16_t n_inputs,
                       const kiln_attr *attrs);

/// Number of special values of a dtype.
int64_t kilni_special_count(kiln_dtype dtype);

/// Scalars that are values of every number dtype's kind: `index` 0, 1, ...; NONE past the last.
kiln_attr kilni_sample_number(kiln_dtype dtype, unsigned index);

#define KILN_SAMPLES(id, function)                                                                 \
    void function(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink);
#include "samples.def"
#undef KILN_SAMPLES
void kiln_samples_unary(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink);
void kiln_samples_binary(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink);
void kiln_samples_scalar(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink);
void kiln_samples_reduce(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink);

#endif
