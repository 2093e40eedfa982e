// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln doctor`: what is installed, what is slow or broken, and how to mend it. Fails when
// something that Kiln needs is broken. What is looked at, is in doctor/.

#include "doctor.h"

#include <stdio.h>

typedef struct doctor_options {
    cli_device_options device;
    cli_json_options json;
} doctor_options;

static error_t parse_doctor_option(int key, char *text, struct argp_state *state)
{
    doctor_options *options = state->input;
    (void)text;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = &options->device;
        state->child_inputs[1] = &options->json;
    }
    return key == ARGP_KEY_INIT ? 0 : ARGP_ERR_UNKNOWN;
}

static void look(doctor *d)
{
    kiln_error err = KILN_ERROR_INIT;
    doctor_build(d);
    doctor_machine(d);
    doctor_environment(d);
    doctor_drivers(d);
    if (cli_open_context(d->options, &d->context, &err) != KILN_STATUS_OK) {
        doctor_tell(d, DOCTOR_BROKEN, "options", "see `kiln config`", "%s", err.message);
        return;
    }
    doctor_cache(d);
    doctor_plugins(d);
    doctor_devices(d);
    cli_close_context(d->context);
}

int cmd_doctor(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&cli_device_argp, 0, NULL, 0}, {&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {NULL,
                                     parse_doctor_option,
                                     NULL,
                                     "Tells what is installed, what is slow or broken, and how to "
                                     "mend it. Fails when something that Kiln needs is broken.",
                                     children,
                                     NULL,
                                     NULL};
    doctor_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    doctor d = {.options = &options.device, .list = options.json.wanted ? json_array() : NULL};
    look(&d);
    kiln_status status = KILN_STATUS_OK;
    if (options.json.wanted) {
        status = cli_json_write(&options.json, json_incref(d.list), &err);
    } else {
        printf("%u good, %u slow, %u broken\n", d.counts[DOCTOR_GOOD], d.counts[DOCTOR_SLOW],
               d.counts[DOCTOR_BROKEN]);
    }
    json_decref(d.list);
    if (status != KILN_STATUS_OK) {
        return cli_fail("doctor", &err);
    }
    return d.counts[DOCTOR_BROKEN] == 0 ? CLI_OK : CLI_FAILED;
}
