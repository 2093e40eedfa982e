// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_HOST_REDUCE_H
#define KILN_COLLECTIVE_COLL_HOST_REDUCE_H

#include "collective.h"

/// target[i] = op(left[i], right[i]) and target[i] = source[i] / divisor, on the host. Pointers are
/// aligned for the element or not; ranges are equal or apart. The outside sees them through the
/// host's memory and through a device's memory that has no arithmetic of its own. Errors: false for
/// a dtype or operation that has none.
bool kilni_coll_host_reduce(void *target, const void *left, const void *right, size_t count,
                            kiln_dtype dtype, kiln_coll_op op);
bool kilni_coll_host_convert(void *target, kiln_dtype target_dtype, const void *source,
                             kiln_dtype source_dtype, size_t count, uint32_t divisor);

#endif
