// SPDX-License-Identifier: MIT OR Apache-2.0
// Callers take turns by rows: start-time fair queueing (Goyal, Vin and Cheng 1996). A caller that
// has one request at a time, beside one that always has many, gets about half of the time only when
// a batch of the other is no longer than its own, and does not come twice while the first reads its
// answer and asks again. So batches grow freely while one caller is there, and beside others only
// where more rows cost next to nothing; and nobody has two turns in a row before one who always
// asks again soon could (anticipatory scheduling, Iyer and Druschel 2001).

#include "serving_shares.h"

#include "base.h"

#include <string.h>
#include <unistd.h>

enum {
    RECENT = 32, ///< batches during which a caller counts that asks nothing
    CALL_NS = 200000, ///< of one processor: a request read, decoded, answered
    STEADY = 16, ///< a longer time than the known one counts for one of so many
    SOON_NS = 1000000, ///< who asks again within this time is waited for
    LATE_NS = 4 * SOON_NS, ///< whatever takes longer counts as this
    THOUGHTS = 4, ///< what it took lately counts for one of so many
    WAITS = 3 ///< so many times as long as that is waited
};
static const double longer = 1.25; ///< than with the first request alone: no more

void kilni_serving_shares_init(kilni_serving_shares *shares)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    *shares = (kilni_serving_shares){.batches = 1};
    shares->call_ns = CALL_NS / (processors > 0 ? (uint64_t)processors : 1);
}

static uint64_t name_of(const char *caller)
{
    const char *text = caller != NULL ? caller : "";
    return kiln_hash64(text, strlen(text), 0);
}

/// The caller's place; of one that is not known, the place of who was seen longest ago.
static kilni_serving_caller *place_of(kilni_serving_shares *shares, uint64_t name)
{
    kilni_serving_caller *oldest = &shares->callers[0];
    for (size_t i = 0; i < KILNI_SERVING_CALLERS; i++) {
        kilni_serving_caller *each = &shares->callers[i];
        if (each->seen > 0 && each->name == name) {
            return each;
        }
        oldest = each->seen < oldest->seen ? each : oldest;
    }
    *oldest = (kilni_serving_caller){.name = name};
    return oldest;
}

/// How long the caller took to ask again. Long times count at once: who comes seldom is not waited
/// for.
static void note_thought(kilni_serving_caller *place, uint64_t now)
{
    uint64_t took = place->left_ns > 0 && now > place->left_ns ? now - place->left_ns : SOON_NS;
    took = took < LATE_NS ? took : LATE_NS;
    place->think_ns = took >= SOON_NS || place->think_ns == 0
                          ? took
                          : place->think_ns - place->think_ns / THOUGHTS + took / THOUGHTS;
}

uint64_t kilni_serving_shares_enter(kilni_serving_shares *shares, const char *caller, uint64_t now)
{
    kilni_serving_caller *place = place_of(shares, name_of(caller));
    place->seen = shares->batches;
    if (place->inside++ == 0) {
        note_thought(place, now);
    }
    return place->finish > shares->turn ? place->finish : shares->turn;
}

void kilni_serving_shares_leave(kilni_serving_shares *shares, const char *caller, uint64_t now)
{
    kilni_serving_caller *place = place_of(shares, name_of(caller));
    place->seen = place->seen > 0 ? place->seen : shares->batches;
    place->inside -= place->inside > 0; // 0: another one had its place meanwhile
    place->left_ns = now;
}

void kilni_serving_shares_batch(kilni_serving_shares *shares)
{
    shares->batches++;
}

void kilni_serving_shares_begin(kilni_serving_shares *shares, const char *caller, uint64_t turn,
                                uint64_t rows)
{
    kilni_serving_caller *place = place_of(shares, name_of(caller));
    place->seen = shares->batches;
    place->finish = turn + rows > place->finish ? turn + rows : place->finish;
    shares->turn = turn > shares->turn ? turn : shares->turn;
    shares->last = place->name;
}

bool kilni_serving_shares_is_last(const kilni_serving_shares *shares, const char *caller)
{
    return shares->last == name_of(caller);
}

void kilni_serving_shares_ran(kilni_serving_shares *shares, uint64_t rows, uint64_t ns)
{
    if (rows <= KILNI_SERVING_COSTED) {
        double *known = &shares->run_ns[rows];
        double took = ns > 0 ? (double)ns : 1;
        *known = *known == 0 || took < *known ? took : *known + (took - *known) / STEADY;
    }
}

static bool is_shared(const kilni_serving_shares *shares, uint64_t name)
{
    for (size_t i = 0; i < KILNI_SERVING_CALLERS; i++) {
        const kilni_serving_caller *each = &shares->callers[i];
        bool counts = each->inside > 0 || each->seen + RECENT > shares->batches;
        if (each->seen > 0 && each->name != name && counts) {
            return true;
        }
    }
    return false;
}

bool kilni_serving_shares_may_join(const kilni_serving_shares *shares, const char *caller,
                                   uint64_t rows, uint64_t all)
{
    if (!is_shared(shares, name_of(caller))) {
        return true;
    }
    if (all > KILNI_SERVING_COSTED) {
        return false;
    }
    // A size that nobody has tried counts as long as the first request: trying it tells.
    double alone = shares->run_ns[rows];
    double together = shares->run_ns[all] > alone ? shares->run_ns[all] : alone;
    return together + (double)(all * shares->call_ns) <=
           longer * (alone + (double)(rows * shares->call_ns));
}

uint64_t kilni_serving_shares_wait_ns(const kilni_serving_shares *shares, const char *caller,
                                      uint64_t now)
{
    uint64_t name = name_of(caller);
    uint64_t until = 0;
    for (size_t i = 0; i < KILNI_SERVING_CALLERS && shares->last == name; i++) {
        const kilni_serving_caller *each = &shares->callers[i];
        if (each->seen > 0 && each->name != name && each->inside == 0 && each->think_ns < SOON_NS) {
            uint64_t latest = each->left_ns + WAITS * each->think_ns;
            until = latest > until ? latest : until;
        }
    }
    return until > now ? until : 0;
}
