// SPDX-License-Identifier: MIT OR Apache-2.0
// Staying and letting go.
#include "coll_snag.h"

void snag_init(coll_snag *snag)
{
    *snag = (coll_snag){0};
    pthread_mutex_init(&snag->mutex, NULL);
    pthread_cond_init(&snag->changed, NULL);
}

void snag_fini(coll_snag *snag)
{
    pthread_cond_destroy(&snag->changed);
    pthread_mutex_destroy(&snag->mutex);
}

void snag_pass(coll_snag *snag, unsigned number)
{
    pthread_mutex_lock(&snag->mutex);
    bool caught = number == snag->at;
    snag->caught = snag->caught || caught;
    while (caught && !snag->released) {
        pthread_cond_wait(&snag->changed, &snag->mutex);
    }
    pthread_mutex_unlock(&snag->mutex);
}

void snag_release(coll_snag *snag)
{
    pthread_mutex_lock(&snag->mutex);
    snag->released = true;
    pthread_cond_broadcast(&snag->changed);
    pthread_mutex_unlock(&snag->mutex);
}

bool snag_caught(coll_snag *snag)
{
    pthread_mutex_lock(&snag->mutex);
    bool caught = snag->caught;
    pthread_mutex_unlock(&snag->mutex);
    return caught;
}
