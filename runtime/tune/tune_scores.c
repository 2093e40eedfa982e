// SPDX-License-Identifier: MIT OR Apache-2.0
// What a tournament's times say. Other work on the machine makes most of them too long, by
// different amounts at different moments, so that times are compared only with those taken right
// beside them: by the ratios of pairs, their median, and the order statistics around it. When to
// play a round is tune.c's business.
#include <math.h>

#include "rt_execute.h"
#include "rt_tune.h"

static const double enough = 1.05; ///< times the fastest: nobody needs to know better
static const double hopeless = 1.3;

bool kilni_scores_begin(kilni_scores *scores, const kiln_env *env, uint32_t n_entries)
{
    if (scores->entries == NULL) {
        scores->entries = kiln_alloc_array(env, n_entries, sizeof(*scores->entries));
        scores->n_entries = n_entries;
    }
    return scores->entries != NULL;
}

void kilni_scores_fini(kilni_scores *scores, const kiln_env *env)
{
    kiln_free(env, scores->entries);
    *scores = (kilni_scores){.runs = scores->runs, .extents = scores->extents};
}

kiln_ratio kilni_score_ratio(const kilni_score *a, const kilni_score *b, uint32_t rounds)
{
    double ratios[KILNI_TUNE_ROUNDS];
    size_t n = 0;
    for (uint32_t i = 0; i < rounds; i++) {
        if (a->ns[i] > 0 && b->ns[i] > 0) {
            ratios[n++] = (double)a->ns[i] / (double)b->ns[i];
        }
    }
    return kiln_ratio_of(ratios, n);
}

uint32_t kilni_scores_fastest(const kilni_scores *scores)
{
    uint32_t best = scores->n_entries;
    for (uint32_t i = 0; i < scores->n_entries; i++) {
        const kilni_score *entry = &scores->entries[i];
        if (entry->failed || entry->out) {
            continue;
        }
        bool first = best == scores->n_entries;
        double ratio =
            first ? 0 : kilni_score_ratio(entry, &scores->entries[best], scores->rounds).median;
        best = first || (ratio > 0 && ratio < 1) ? i : best;
    }
    return best;
}

bool kilni_scores_sure(const kilni_scores *scores)
{
    uint32_t best = kilni_scores_fastest(scores);
    for (uint32_t i = 0; i < scores->n_entries; i++) {
        const kilni_score *entry = &scores->entries[i];
        if (i == best || entry->failed || entry->out) {
            continue;
        }
        kiln_ratio r = kilni_score_ratio(entry, &scores->entries[best], scores->rounds);
        if (!(r.low > 1 || r.high < enough)) {
            return false;
        }
    }
    return true;
}

void kilni_scores_leave_out(kilni_scores *scores)
{
    uint32_t best = kilni_scores_fastest(scores);
    for (uint32_t i = 0; i < scores->n_entries; i++) {
        kilni_score *entry = &scores->entries[i];
        if (i != best && !entry->failed && !entry->out) {
            entry->out =
                kilni_score_ratio(entry, &scores->entries[best], scores->rounds).low > hopeless;
        }
    }
}

static double least(const kilni_score *entry, uint32_t rounds)
{
    double ns = 0;
    for (uint32_t i = 0; i < rounds; i++) {
        double now = (double)entry->ns[i];
        ns = now > 0 && (ns <= 0 || now < ns) ? now : ns;
    }
    return ns;
}

void kilni_scores_times(const kilni_scores *scores, uint64_t *out_ns)
{
    uint32_t best = kilni_scores_fastest(scores);
    double fastest = best < scores->n_entries ? least(&scores->entries[best], scores->rounds) : 0;
    for (uint32_t i = 0; i < scores->n_entries; i++) {
        const kilni_score *entry = &scores->entries[i];
        double ratio =
            i == best || entry->failed || best == scores->n_entries
                ? 1
                : kilni_score_ratio(entry, &scores->entries[best], scores->rounds).median;
        double ns = ratio > 0 ? fastest * ratio : least(entry, scores->rounds);
        out_ns[i] = entry->failed ? 0 : (uint64_t)fmax(ns, 1);
    }
}
