// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_SAID_H
#define KILN_TESTS_SAID_H

/// What the clients of real sessions say: one message of each kind, as bytes.

#include "remote_fixture.h"

enum { SAID_MOST = 26, SAID_BYTES = 4096 };

typedef struct said_message {
    size_t length;
    unsigned char bytes[SAID_BYTES];
} said_message;

typedef struct said {
    said_message messages[SAID_MOST];
    size_t count;
} said;

void said_fill(said *self, const kiln_env *env);

#endif
