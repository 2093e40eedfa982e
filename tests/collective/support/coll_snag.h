// SPDX-License-Identifier: MIT OR Apache-2.0
// A place at which a thread stays, as in a driver that does not come back, until it is let go.
#ifndef KILN_TESTS_COLLECTIVE_COLL_SNAG_H
#define KILN_TESTS_COLLECTIVE_COLL_SNAG_H

#include <pthread.h>
#include <stdbool.h>

typedef struct coll_snag {
    unsigned at; ///< the pass, from 1, that stays; 0: none
    pthread_mutex_t mutex; ///< guards what follows
    pthread_cond_t changed;
    bool caught; ///< somebody has stayed
    bool released;
} coll_snag;

void snag_init(coll_snag *snag);
void snag_fini(coll_snag *snag);
/// The `number`-th pass.
void snag_pass(coll_snag *snag, unsigned number);
void snag_release(coll_snag *snag);
bool snag_caught(coll_snag *snag);

#endif
