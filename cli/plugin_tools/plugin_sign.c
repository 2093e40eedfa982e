// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin sign`: makes keys, prints what stands for them in lists, and signs files. What a
// signature is, and whose count, is decided by fusion_host.

#include "plugin_cli.h"

#include "fusion_host.h"

#include <stdio.h>

typedef struct sign_options {
    cli_device_options device;
    const char *key;
    bool is_new;
    const char *files[32];
    size_t n_files;
} sign_options;

static const struct argp_option sign_options_table[] = {
    {"key", 'k', "FILE", 0, "the secret key, as `openssl genpkey -algorithm ed25519` writes it", 0},
    {"new", 'n', NULL, 0, "make the key first", 0},
    {0},
};

static error_t parse_sign_option(int key, char *text, struct argp_state *state)
{
    sign_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case 'k':
        options->key = text;
        return 0;
    case 'n':
        options->is_new = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->n_files == sizeof(options->files) / sizeof(options->files[0])) {
            argp_error(state, "too many files");
        }
        options->files[options->n_files++] = text;
        return 0;
    case ARGP_KEY_END:
        if (options->key == NULL) {
            argp_error(state, "say which --key");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/// The key's line for a file of plugin-keys, when it is new or nothing else was asked.
static kiln_status sign_files(const sign_options *options, const kiln_env *env, kiln_error *err)
{
    char line[65];
    kiln_status status =
        options->is_new ? kiln_fuse_key_create(env, options->key, err) : KILN_STATUS_OK;
    if (status == KILN_STATUS_OK && (options->is_new || options->n_files == 0)) {
        status = kiln_fuse_key_public(env, options->key, line, err);
        if (status == KILN_STATUS_OK) {
            printf("%s\n", line);
        }
    }
    for (size_t i = 0; i < options->n_files && status == KILN_STATUS_OK; i++) {
        status = kiln_fuse_sign(env, options->key, options->files[i], err);
    }
    return status;
}

int plugin_sign(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {sign_options_table,
                                     parse_sign_option,
                                     "--key FILE [PLUGIN...]",
                                     "Signs plugins: the signature of PLUGIN is PLUGIN.sig. With "
                                     "--new, or without a PLUGIN, prints the line that stands for "
                                     "the key in the file of the option plugin-keys.",
                                     children,
                                     NULL,
                                     NULL};
    sign_options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_error err = KILN_ERROR_INIT;
    kiln_context *context = NULL;
    kiln_status status = cli_open_context(&options.device, &context, &err);
    if (status == KILN_STATUS_OK) {
        status = sign_files(&options, kiln_context_env(context), &err);
    }
    cli_close_context(context);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("plugin sign", &err);
}
