// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BENCH_SPEAKER_H
#define KILN_BENCH_SPEAKER_H

/// Processes that run a model when they are told: one line to them, one line back. So Kiln and its
/// peers, each in a process of its own, are measured in turns. The first line of each is its
/// greeting. One thread at a time for each of them.

#include "bench.h"

typedef struct bench_speaker {
    int channel; ///< its standard input and output
    int process; ///< 0: there is none
    FILE *answers;
} bench_speaker;

/// The interpreters of Python that may have peers; NULL past the last. Nobody named one: Debian's.
const char *bench_python_at(const bench_options *options, size_t index);

/// Starts `arguments[0]` and takes its greeting; what it says on standard error is dropped when
/// `quiet`. NOT_FOUND when it ends without one. The caller closes `*out_speaker`.
kiln_status bench_speaker_open(const char *const *arguments, bool quiet, bench_speaker *out_speaker,
                               char *out_greeting, size_t capacity, kiln_error *err);

/// Says a line and takes the answer. Fails when the process has ended.
kiln_status bench_speaker_ask(bench_speaker *speaker, const char *line, char *out_answer,
                              size_t capacity, kiln_error *err);

/// Waits until the process uses no processor, at most a second: threads look for more work for a
/// while before they sleep.
void bench_speaker_rest(const bench_speaker *speaker);

/// The most memory that the process has held so far, as the kernel counts it; 0: not known.
uint64_t bench_speaker_peak(const bench_speaker *speaker);

/// Tells the process to end and waits for that. Takes one that was never opened.
void bench_speaker_close(bench_speaker *speaker);

#endif
