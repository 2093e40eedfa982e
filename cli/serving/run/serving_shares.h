// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_SHARES_H
#define KILN_SERVING_SHARES_H

/// Whose turn it is at a model, whether requests of others may ride in a batch, and whether a
/// caller is worth waiting for. Reads no clock: who calls says what time it is, in ns. Under the
/// lock of the queue that has it. `caller` may be NULL.

#include <stdbool.h>
#include <stdint.h>

enum {
    KILNI_SERVING_CALLERS = 32, ///< that are told apart; more share places
    KILNI_SERVING_COSTED = 64 ///< rows of batches whose times are known, at most
};

typedef struct kilni_serving_caller {
    uint64_t name; ///< its hash
    uint64_t finish; ///< in the queue's own time: where the turns end that it has had
    uint64_t seen; ///< the last batch that ran when it had a request; 0: the place is free
    uint64_t left_ns; ///< when its last request was answered
    uint64_t think_ns; ///< from then until it asks again, as a rule
    uint32_t inside; ///< its requests that were not answered
} kilni_serving_caller;

typedef struct kilni_serving_shares {
    kilni_serving_caller callers[KILNI_SERVING_CALLERS];
    uint64_t turn; ///< of the request that was begun last
    uint64_t last; ///< whose that was
    uint64_t batches; ///< that were begun, from 1
    uint64_t call_ns; ///< what a request costs beside its run
    double run_ns[KILNI_SERVING_COSTED + 1]; ///< of batches, by rows; 0: not known
} kilni_serving_shares;

void kilni_serving_shares_init(kilni_serving_shares *shares);

/// A request has come. Gives where its turn begins, when nobody of its caller waits.
uint64_t kilni_serving_shares_enter(kilni_serving_shares *shares, const char *caller, uint64_t now);

/// A request was answered, or is not waited for any more.
void kilni_serving_shares_leave(kilni_serving_shares *shares, const char *caller, uint64_t now);

/// A batch begins; and each of its requests, with the turn that it had.
void kilni_serving_shares_batch(kilni_serving_shares *shares);
void kilni_serving_shares_begin(kilni_serving_shares *shares, const char *caller, uint64_t turn,
                                uint64_t rows);

/// Whether the request that was begun last is the caller's.
bool kilni_serving_shares_is_last(const kilni_serving_shares *shares, const char *caller);

/// A batch of `rows` rows took `ns`.
void kilni_serving_shares_ran(kilni_serving_shares *shares, uint64_t rows, uint64_t ns);

/// Whether a batch that `caller` begins with `rows` rows may have `all` rows. While others are
/// there, it may not when that makes it much longer: they wait for its end.
bool kilni_serving_shares_may_join(const kilni_serving_shares *shares, const char *caller,
                                   uint64_t rows, uint64_t all);

/// Until when a batch that `caller` would begin had better wait, for another one asks presently and
/// the caller has just had a turn; 0: it need not.
uint64_t kilni_serving_shares_wait_ns(const kilni_serving_shares *shares, const char *caller,
                                      uint64_t now);

#endif
