// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a configuration file: an error in words, or a configuration whose every option has a
// value of its type.
#include "base.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_allocator allocator = kiln_allocator_default();
    kiln_config *config = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (kiln_config_create(&allocator, fuzz_file(data, size), false, &config, &err) !=
        KILN_STATUS_OK) {
        must(config == NULL && err.message[0] != '\0');
        return 0;
    }
    for (int option = 0; option < KILN_OPTION_COUNT; option++) {
        must(kiln_config_string(config, (kiln_option)option) != NULL);
        (void)kiln_config_int(config, (kiln_option)option);
        (void)kiln_config_bool(config, (kiln_option)option);
    }
    kiln_config_destroy(config);
    return 0;
}
