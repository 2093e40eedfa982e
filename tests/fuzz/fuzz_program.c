// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a program in the cache, under a right checksum: refused, or its parts lie inside.
#include "cl_binary.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const kiln_blob entry = {.data = (void *)(uintptr_t)data, .length = size};
    kilni_cl_entry parsed;
    if (kilni_cl_entry_parse(&entry, &parsed)) {
        const uint8_t *binary = parsed.binary.data;
        must(parsed.n_shapes <= KILNI_CL_STORED_SHAPES);
        must(parsed.shapes >= data &&
             parsed.n_shapes * sizeof(kilni_cl_shape) <= size - (size_t)(parsed.shapes - data));
        must(binary >= data && parsed.binary.length <= size - (size_t)(binary - data));
    }
    return 0;
}
