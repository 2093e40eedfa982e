// SPDX-License-Identifier: MIT OR Apache-2.0
// Each fault of a kind over a scene: while it is warm, from the first call of a device on, and
// while all is closed; once, and from then on. A run that fails says so with its cause; what was
// computed before can still be read; nothing is left behind; and the next run works, on a device
// opened anew where the first was lost. A few faults by default, every one with KILN_TEST_LONG=1;
// KILN_TEST_FAULT=cold:19:-30:on tries one alone.
#ifndef KILN_TESTS_FAULT_SWEEP_H
#define KILN_TESTS_FAULT_SWEEP_H

#include "fault_scenes.h"

/// How something fails. The k-th of what can fail does, from 1; 0: nothing does, and it is counted.
typedef struct fault_kind {
    const char *unit; ///< what is counted, "calls"
    const int32_t *codes; ///< that faults have in turn
    size_t n_codes;
    void (*arm)(uint64_t k, int32_t code, bool persistent);
    uint64_t (*seen)(void); ///< since then
    const char *(*name)(void); ///< of what failed
    bool (*may_give)(kiln_status status); ///< a run that it makes fail
    void (*check_end)(const char *fault); ///< after a world; NULL: nothing
    const kiln_allocator *allocator; ///< of contexts; NULL: the usual one
    uint64_t few_warm, few_cold; ///< tried in the short form, or twice as many
} fault_kind;

typedef struct fault_counts { ///< of what can fail
    uint64_t cold, warm, closing;
} fault_counts;

typedef struct wanted {
    float values[FAULT_MOST_RESULTS];
    size_t count;
} wanted;

/// One scene, whole: a case of a test.
void fault_sweep(const fault_kind *kind, const scene *s);

/// The cases of a test with each scene that is the same in every run.
#define FAULT_CASES(test)                                                                          \
    KILN_TEST_PARAM(test, #test "/chain", &scene_chain),                                           \
        KILN_TEST_PARAM(test, #test "/graph", &scene_graph),                                       \
        KILN_TEST_PARAM(test, #test "/collective", &scene_collective),                             \
        KILN_TEST_PARAM(test, #test "/session", &scene_session),                                   \
        KILN_TEST_PARAM(test, #test "/cached", &scene_cached),                                     \
        KILN_TEST_PARAM(test, #test "/stored", &scene_stored),                                     \
        KILN_TEST_PARAM(test, #test "/bundle", &scene_bundle)

/// The parts of it. False: skipped, as there is no device.
bool fault_learn(const fault_kind *kind, const scene *s, wanted *out_want,
                 fault_counts *out_counts);
/// One fault in a warm world, which is closed and opened again where the device is lost.
void fault_warm(const fault_kind *kind, world *w, const scene *s, const wanted *want, uint64_t k,
                int32_t code, bool persistent);
/// One fault while the device is opened and used for the first time.
void fault_cold(const fault_kind *kind, const scene *s, const wanted *want, uint64_t k,
                int32_t code, bool persistent);
/// One fault while all is closed; the next world works.
void fault_closing(const fault_kind *kind, const scene *s, const wanted *want, uint64_t k,
                   int32_t code, bool persistent);

#endif
