// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_ATTRS_H
#define KILN_RUNTIME_ATTRS_H

/// Attributes for the builders of operations.

#include "attr_make.h"
#include "fusion_host.h"
#include "kiln.h"

static inline kiln_attr kilni_attr_number(kiln_number number)
{
    return number.is_integer ? kilni_attr_i64(number.v.i) : kilni_attr_f64(number.v.f);
}

/// Inputs before the first NULL. Optional inputs are at the end.
static inline size_t kilni_count_present(kiln_tensor *const *inputs, size_t count)
{
    while (count > 0 && inputs[count - 1] == NULL) {
        count--;
    }
    return count;
}

#endif
