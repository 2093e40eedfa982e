// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_PREPARED_H
#define KILNI_CL_PREPARED_H

/// Launches that are queued many times, as the backend's table says.

#include "cl_opencl.h"

kiln_status kilni_cl_prepare(kiln_backend *base, kiln_built *built, const kiln_launch *launch,
                             kiln_prepared **out_prepared, kiln_error *err);
void kilni_cl_replace(kiln_backend *base, kiln_prepared *prepared, uint32_t arg,
                      kiln_buffer *buffer);
kiln_status kilni_cl_enqueue_prepared(kiln_backend *base, kiln_prepared *const *prepared,
                                      uint32_t count, uint32_t *out_done, kiln_error *err);
void kilni_cl_unprepare(kiln_backend *base, kiln_prepared *prepared);

#endif
