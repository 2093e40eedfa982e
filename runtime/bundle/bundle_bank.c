// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of a bundle in the bank that its manifest names. Decides nothing: what a bank is, is the
// backend's.

#include "bundle_internal.h"

#ifdef KILN_RUNTIME_CL
#include "cl_backend.h"
#endif

kiln_status kilni_bundle_alloc(kiln_bundle *bundle, const bundle_buffer *buffer,
                               kiln_buffer **out_buffer, kiln_error *err)
{
    kiln_backend *backend = bundle->device->backend;
#ifdef KILN_RUNTIME_CL
    if (bundle->manifest.n_banks > 0 && kiln_cl_is(backend)) {
        return kiln_cl_alloc_bank(backend, (size_t)buffer->bytes, buffer->bank, out_buffer, err);
    }
#endif
    return backend->memory->alloc_persistent(backend, (size_t)buffer->bytes, out_buffer, err);
}
