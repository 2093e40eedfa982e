// SPDX-License-Identifier: MIT OR Apache-2.0
// --json, and the values that commands write with it. Decides where JSON goes, tries that before
// the command does anything, and says how texts and figures that JSON cannot hold are written.

#include "cli_json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct argp_option json_options_table[] = {
    {"json", 'j', "FILE", OPTION_ARG_OPTIONAL,
     "print the result as JSON instead of text, or write it to a FILE", 0},
    {0},
};

static error_t parse_json(int key, char *text, struct argp_state *state)
{
    cli_json_options *options = state->input;
    kiln_error err = KILN_ERROR_INIT;
    if (key != 'j') {
        return ARGP_ERR_UNKNOWN;
    }
    options->wanted = true;
    options->path = text;
    if (text != NULL && cli_check_output(text, &err) != KILN_STATUS_OK) {
        argp_failure(state, CLI_FAILED, 0, "%s", err.message); // ends the process
    }
    return 0;
}

const struct argp cli_json_argp = {json_options_table, parse_json, NULL, NULL, NULL, NULL, NULL};

bool cli_json_is_shown(const cli_json_options *options)
{
    return options->wanted && (options->path == NULL || strcmp(options->path, "-") == 0);
}

kiln_status cli_json_write(const cli_json_options *options, json_t *take_value, kiln_error *err)
{
    if (take_value == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for JSON");
    }
    kiln_status status = KILN_STATUS_OK;
    if (cli_json_is_shown(options)) {
        // Lost output is told at the end of the process, for all commands alike.
        (void)json_dumpf(take_value, stdout, JSON_INDENT(2));
        putchar('\n');
    } else if (json_dump_file(take_value, options->path, JSON_INDENT(2)) != 0) {
        status = kiln_fail(err, UNAVAILABLE, "%s: %s", options->path, strerror(errno));
    }
    json_decref(take_value);
    return status;
}

json_t *cli_json_text(const char *text)
{
    json_t *made = text != NULL ? json_string(text) : json_null();
    char *copy = made == NULL ? strdup(text) : NULL;
    if (copy != NULL) {
        cli_make_utf8(copy);
        made = json_string(copy);
    }
    free(copy);
    return made;
}

json_t *cli_json_figure(double value)
{
    return value > 0 && isfinite(value) ? json_real(value) : json_null();
}
