// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_TOUCH_H
#define KILNI_CL_TOUCH_H

/// Pages of a driver that is being loaded.

#include <stddef.h>
#include <stdint.h>

enum { KILNI_CL_TOUCH_PARTS = 16 };

typedef struct kilni_cl_touch {
    size_t libraries; ///< in the process at the last look; only later ones count
    size_t least_bytes; ///< of a part that is worth it
    uint32_t n_parts; ///< found and not yet touched
    struct {
        uintptr_t begin;
        size_t bytes;
    } parts[KILNI_CL_TOUCH_PARTS];
    size_t bytes; ///< touched
} kilni_cl_touch;

/// Looks for libraries that came since the last look. When there are none, brings the pages of
/// those before into memory that the loader is about to write. Any thread.
void kilni_cl_touch_libraries(kilni_cl_touch *touch);

#endif
