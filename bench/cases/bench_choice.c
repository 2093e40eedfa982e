// SPDX-License-Identifier: MIT OR Apache-2.0
// How often the candidate that a block got is within 5 % of the fastest one, without measuring,
// with lazy and with full tournaments, over the programs of `kiln bench fusion`. The same over
// random programs: conformance/random_programs --choices=N.

#include "bench.h"

#include "choice.h"

kiln_status bench_choice(const bench_options *options, kiln_error *err)
{
    static const char *const names[] = {"tune off", "tune lazy", "tune full"};
    choice_tally tally = {.device = options->device, .quiet = options->json};
    kiln_status status = KILN_STATUS_OK;
    choice_program program;
    for (size_t i = 0; bench_fusion_program(i, &program); i++) {
        if (bench_wanted(options, program.name)) {
            KILN_TRY(out, status, choice_measure(&program, &tally, err));
        }
    }
    bench_header(options);
    for (int mode = 0; mode < CHOICE_MODES && tally.blocks > 0; mode++) {
        bench_result row = {.name = names[mode],
                            .value = tally.blocks,
                            .unit = "blocks",
                            .against = "within 5 % of the fastest",
                            .ratio = (double)tally.good[mode] / tally.blocks,
                            .bar = 0.95,
                            .peer_version = "every candidate, and the unfused operations",
                            .device = options->device != NULL ? options->device : "opencl:0",
                            .samples = tally.blocks};
        bench_report(options, &row);
    }
out:
    return status;
}
