// SPDX-License-Identifier: MIT OR Apache-2.0
// How a finding looks: a line for people with the mend below it, or an object of JSON. What is
// found is for the checks to say.

#include "doctor.h"

#include <stdio.h>

void doctor_tell(doctor *d, doctor_verdict verdict, const char *what, const char *mend,
                 const char *format, ...)
{
    static const char *const words[] = {"good", "slow", "broken"};
    static const cli_colour colours[] = {CLI_GREEN, CLI_YELLOW, CLI_RED};
    char text[6000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    d->counts[verdict]++;
    if (d->list != NULL) {
        json_array_append_new(d->list, json_pack("{s:s, s:s, s:o, s:o}", "verdict", words[verdict],
                                                 "what", what, "text", cli_json_text(text), "mend",
                                                 cli_json_text(mend)));
        return;
    }
    cli_make_shown(text);
    printf("%s%-7s%s %-12s %s\n", cli_colour_of(stdout, colours[verdict]), words[verdict],
           cli_colour_of(stdout, CLI_PLAIN), what, text);
    if (mend != NULL) {
        printf("%20s mend: %s\n", "", mend);
    }
}
