// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a replayable file: an error that says why, or a replay whose bytes read back to the
// same bytes.
#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"
#include "ir.h"

static void check_round_trip(const kiln_env *env, const kiln_replay *replay)
{
    kiln_replay *again = NULL;
    kiln_string bytes[2];
    must(kiln_replay_encode(replay, &bytes[0], NULL) == KILN_STATUS_OK);
    must(kiln_replay_decode(env, bytes[0].text, bytes[0].length, &again, NULL) == KILN_STATUS_OK);
    must(kiln_replay_encode(again, &bytes[1], NULL) == KILN_STATUS_OK);
    must(bytes[0].length == bytes[1].length &&
         memcmp(bytes[0].text, bytes[1].text, bytes[0].length) == 0);
    kiln_string_fini(&bytes[0]);
    kiln_string_fini(&bytes[1]);
    kiln_replay_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kiln_replay *replay = NULL;
    if (kiln_replay_decode(&env, data, size, &replay, &err) == KILN_STATUS_OK) {
        check_round_trip(&env, replay);
    } else {
        must(replay == NULL && err.message[0] != '\0');
    }
    kiln_replay_destroy(replay);
    return 0;
}
