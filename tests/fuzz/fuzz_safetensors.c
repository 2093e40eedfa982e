// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a file of tensors: an error in words, or tensors that lie side by side in the file,
// with as many bytes as their shapes and dtypes ask for.
#include <stdlib.h>

#include "fuzz_target.h"
#include "safetensors.h"

static void check_tensors(const kilni_safetensors *file, const uint8_t *data, size_t size)
{
    size_t count = 0;
    const kilni_saved *all = kilni_safetensors_all(file, &count);
    const uint8_t *end = count > 0 ? all[0].data : data;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = kiln_dtype_size(all[i].dtype);
        for (size_t k = 0; k < all[i].rank; k++) {
            bytes *= (size_t)all[i].dims[k];
        }
        must(bytes == all[i].bytes && (const uint8_t *)all[i].data == end);
        must(end >= data && bytes <= size - (size_t)(end - data));
        must(kilni_safetensors_find(file, all[i].name) == &all[i]);
        end += bytes;
    }
    must(count == 0 || end == data + size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kilni_safetensors *file = NULL;
    if (kilni_safetensors_parse(&env, data, size, &file, &err) == KILN_STATUS_OK) {
        check_tensors(file, data, size);
        (void)kilni_safetensors_note(file, "k");
    } else {
        must(file == NULL && err.message[0] != '\0');
    }
    kilni_safetensors_close(file);
    return 0;
}
