// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_CHECK_RULES_H
#define KILN_PLUGIN_CHECK_RULES_H

/// What the checks of level 3 share: a rule is tried on a stream that a fuser was shown.

#include "plugin_check.h"

enum { RULES_MOST_VARIANTS = 64 }; ///< looked at in one block

typedef struct subject { ///< what a rule is tried on
    check *c;
    const kf_plugin *p;
    kf_fuser *fuser;
    uint32_t index;
    uint64_t seed;
    stream s;
    stream_view *view;
    uint64_t offers; ///< ready states of which an estimate was asked
    uint64_t silent; ///< of these without est_ns
} subject;

typedef void (*rule_fn)(subject *t);

/// Runs the rule on streams that the fuser takes; `random`: on any.
void rules_on_streams(check *c, rule_fn rule, bool random);
/// A builder that was shown operations [0, to), its answer in `state`.
kf_builder *rules_shown(subject *t, stream_view *view, uint32_t to, kf_state *state);
/// The check fails, with the stream told. Returns false.
bool rules_wrong(subject *t, const char *what);
/// An estimate that is there has a value, and that is a time; `name` tells whose it is.
void rules_estimate(subject *t, const char *name, kf_expr ns);
#endif
