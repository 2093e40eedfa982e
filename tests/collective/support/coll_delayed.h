// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport that is late at random and shares no memory between ranks: what a rank sends is
// copied when it is posted.
#ifndef KILN_TESTS_COLLECTIVE_COLL_DELAYED_H
#define KILN_TESTS_COLLECTIVE_COLL_DELAYED_H

#include "collective.h"

#include <stdatomic.h>

typedef struct delayed_transport {
    kiln_coll_transport base;
    kiln_coll_transport *inner; ///< does the work
    atomic_uint_fast64_t steps; ///< of the random numbers
    uint32_t delay_us; ///< at most, before each step
} delayed_transport;

void delayed_init(delayed_transport *transport, kiln_coll_transport *inner, uint32_t rank,
                  uint32_t delay_us);

#endif
