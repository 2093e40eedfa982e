// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a plugin's file, of which the note and the symbols are read before anything is
// loaded: a refusal in words, or a manifest whose texts end.
#include <string.h>

#include "fuzz_target.h"
#include "plugin_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kilni_fuse_manifest manifest;
    kiln_error err = KILN_ERROR_INIT;
    if (kilni_fuse_elf_manifest(data, size, &manifest, &err) == KILN_STATUS_OK) {
        must(memchr(manifest.id, 0, sizeof(manifest.id)) != NULL);
        must(memchr(manifest.version, 0, sizeof(manifest.version)) != NULL);
        must(memchr(manifest.build, 0, sizeof(manifest.build)) != NULL);
    } else {
        must(err.message[0] != '\0');
    }
    for (uint64_t flags = 0; flags < 4; flags++) {
        (void)kilni_fuse_elf_check(data, size, flags, NULL);
    }
    return 0;
}
