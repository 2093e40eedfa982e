// SPDX-License-Identifier: MIT OR Apache-2.0
// How a length is cut into parts: as even as it goes, any length, also one shorter than the number
// of parts.
#include "coll_patterns.h"

kilni_coll_range kilni_coll_part(uint64_t count, uint32_t parts, uint32_t index)
{
    uint64_t each = count / parts;
    uint64_t extra = count % parts;
    uint64_t before = index < extra ? index : extra;
    return (kilni_coll_range){.start = each * index + before, .count = each + (index < extra)};
}
