// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_ATTR_H
#define KILN_IR_ATTR_H

/// Attributes of operations: a closed set of types, no pointers to anything that lives. All
/// functions are pure: any thread may call them; texts are static. No pointer is NULL unless a
/// function takes it.

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kiln_attr_type {
    KILN_ATTR_NONE = 0, ///< absent optional attribute
    KILN_ATTR_I64 = 1,
    KILN_ATTR_F64 = 2,
    KILN_ATTR_BOOL = 3,
    KILN_ATTR_DTYPE = 4,
    KILN_ATTR_I64_LIST = 5,
    KILN_ATTR_F64_LIST = 6,
    KILN_ATTR_STRING = 7,
    KILN_ATTR_TENSOR = 8,
    KILN_ATTR_NUMBER = 9 ///< in a schema only: the value is I64 or F64
} kiln_attr_type;

typedef enum kiln_attr_key { ///< permanent numbers
    KILN_KEY_NONE = 0,
#define KILN_ATTR(id, name, number, type, doc) KILN_KEY_##id = number,
#include "attrs.def"
#undef KILN_ATTR
    KILN_KEY_LIMIT = 256 ///< above every number
} kiln_attr_key;

typedef struct kiln_attr { ///< a value; lists and texts are borrowed from whoever owns the record
    kiln_attr_type type;
    uint32_t count; ///< elements of a list, bytes of a string, 1 otherwise
    union {
        int64_t i; ///< I64, BOOL, DTYPE
        double f;
        const int64_t *ints;
        const double *floats;
        const char *text; ///< terminated
        const struct kiln_tensor_const *tensor;
    } v;
} kiln_attr;

/// Name of an attribute; NULL for a number that is none.
KILN_API const char *kiln_attr_name(kiln_attr_key key);

/// Type of an attribute; KILN_ATTR_NONE for a number that is none.
KILN_API kiln_attr_type kiln_attr_type_of(kiln_attr_key key);

/// One line about an attribute; NULL for a number that is none.
KILN_API const char *kiln_attr_doc(kiln_attr_key key);

/// The attribute with this name; KILN_KEY_NONE for an unknown name.
KILN_API kiln_attr_key kiln_attr_from_name(const char *name);

/// Writes a number (I64 or F64) as one element of `dtype`, of kiln_dtype_size bytes, as every
/// operator with a scalar attribute takes it. Floats are rounded to the dtype. For integers and
/// bool the number must be a value of the dtype; an infinity is its last one. False: nothing is
/// written.
KILN_API bool kiln_number_store(const kiln_attr *number, kiln_dtype dtype, void *out_element);

#ifdef __cplusplus
}
#endif

#endif
