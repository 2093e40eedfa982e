// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_ATTR_MAKE_H
#define KILN_IR_ATTR_MAKE_H

/// Makers of attributes, for all who build operations. Lists and texts are borrowed.

#include "ir_attr.h"

#include <string.h>

static inline kiln_attr kilni_attr_none(void)
{
    return (kiln_attr){.type = KILN_ATTR_NONE};
}

static inline kiln_attr kilni_attr_i64(int64_t value)
{
    return (kiln_attr){.type = KILN_ATTR_I64, .count = 1, .v.i = value};
}

static inline kiln_attr kilni_attr_f64(double value)
{
    return (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v.f = value};
}

static inline kiln_attr kilni_attr_bool(bool value)
{
    return (kiln_attr){.type = KILN_ATTR_BOOL, .count = 1, .v.i = value};
}

static inline kiln_attr kilni_attr_dtype(kiln_dtype value)
{
    return (kiln_attr){.type = KILN_ATTR_DTYPE, .count = 1, .v.i = (int64_t)value};
}

static inline kiln_attr kilni_attr_ints(const int64_t *values, size_t count)
{
    return (kiln_attr){.type = KILN_ATTR_I64_LIST, .count = (uint32_t)count, .v.ints = values};
}

static inline kiln_attr kilni_attr_floats(const double *values, size_t count)
{
    return (kiln_attr){.type = KILN_ATTR_F64_LIST, .count = (uint32_t)count, .v.floats = values};
}

/// NONE for NULL.
static inline kiln_attr kilni_attr_text(const char *text)
{
    if (text == NULL) {
        return kilni_attr_none();
    }
    return (kiln_attr){.type = KILN_ATTR_STRING, .count = (uint32_t)strlen(text), .v.text = text};
}

#endif
