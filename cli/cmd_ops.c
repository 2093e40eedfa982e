// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln ops [NAME]`: the operator table, or one row of it in full.
// Everything shown is read from the table, so a new operator needs no line here.

#include "cli_json.h"

#include <stdio.h>
#include <string.h>

typedef struct ops_options {
    const char *name; ///< NULL: all
    cli_json_options json;
} ops_options;

static error_t parse_ops_option(int key, char *text, struct argp_state *state)
{
    ops_options *options = state->input;
    const char **name = &options->name;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->json;
        return 0;
    case ARGP_KEY_ARG:
        if (*name != NULL) {
            argp_error(state, "one operator at a time");
        }
        *name = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *type_name(kiln_attr_type type)
{
    static const char *const names[] = {"",         "int",        "float", "bool",   "dtype",
                                        "int list", "float list", "text",  "tensor", "number"};
    return names[type];
}

static void print_inputs(const kiln_op_signature *signature)
{
    if (signature->max_inputs == KILN_MAX_INPUTS) {
        printf("%s...", signature->inputs[0]);
        return;
    }
    for (size_t i = 0; i < signature->max_inputs; i++) {
        printf("%s%s%s", i == 0 ? "" : ", ", signature->inputs[i],
               i >= signature->min_inputs ? "?" : "");
    }
}

static void print_row(const kiln_op_info *info)
{
    printf("%-20s %4u  %s\n", info->name, info->wire, info->doc);
}

static void print_expansion(kiln_op op)
{
    char simpler[400];
    cli_op_expansion(op, simpler, sizeof(simpler));
    if (kiln_op_info_of(op)->decompose != NULL) {
        printf("  a composite: recorded as %s%s\n", simpler[0] != '\0' ? simpler : "others",
               cli_op_is_always_expanded(op) ? ", so no fuser ever sees it"
                                             : " where the device has no kernel for it");
    }
}

static void print_one(kiln_op op)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    const kiln_op_signature *signature = info->signature;
    printf("%s(", info->name);
    print_inputs(signature);
    printf(")  number %u, since %u\n  %s\n", info->wire, info->since, info->doc);
    print_expansion(op);
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        printf("  %-12s %-10s %s%s\n", kiln_attr_name(spec->key),
               type_name(kiln_attr_type_of(spec->key)), kiln_attr_doc(spec->key),
               spec->optional ? " (optional)" : "");
    }
}

static json_t *inputs_json(const kiln_op_signature *signature)
{
    json_t *list = json_array();
    bool many = signature->max_inputs == KILN_MAX_INPUTS;
    for (size_t i = 0; i < (many ? 1 : signature->max_inputs); i++) {
        json_array_append_new(list,
                              json_pack("{s:s, s:b, s:b}", "name", signature->inputs[i], "optional",
                                        i >= signature->min_inputs, "many", many));
    }
    return list;
}

static json_t *attrs_json(const kiln_op_signature *signature)
{
    json_t *list = json_array();
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:b}", "name", kiln_attr_name(spec->key),
                                        "type", type_name(kiln_attr_type_of(spec->key)), "doc",
                                        kiln_attr_doc(spec->key), "optional", spec->optional));
    }
    return list;
}

static json_t *op_json(kiln_op op)
{
    char simpler[400];
    const kiln_op_info *info = kiln_op_info_of(op);
    cli_op_expansion(op, simpler, sizeof(simpler));
    return json_pack("{s:s, s:i, s:i, s:s, s:o, s:o, s:b, s:s}", "name", info->name, "number",
                     (int)info->wire, "since", (int)info->since, "doc", info->doc, "inputs",
                     inputs_json(info->signature), "attributes", attrs_json(info->signature),
                     "composite", info->decompose != NULL, "recorded_as", simpler);
}

static json_t *all_json(void)
{
    json_t *list = json_array();
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        json_array_append_new(list, op_json((kiln_op)op));
    }
    return list;
}

static const char *op_name_at(size_t index, const void *unused)
{
    (void)unused;
    return index < KILN_OP_COUNT ? kiln_op_info_of((kiln_op)index)->name : NULL;
}

static kiln_status show_ops(const ops_options *options, kiln_error *err)
{
    kiln_op op = KILN_OP_COUNT;
    if (options->name != NULL) {
        char guess[CLI_GUESS_ROOM];
        op = kiln_op_from_name(options->name);
        cli_guess(guess, options->name, op_name_at, NULL);
        if (op == KILN_OP_COUNT) {
            return kiln_fail(err, NOT_FOUND,
                             "there is no operator \"%.60s\"%s `kiln ops` lists them",
                             options->name, guess[0] != '\0' ? guess : ";");
        }
    }
    if (options->json.wanted) {
        return cli_json_write(&options->json, op == KILN_OP_COUNT ? all_json() : op_json(op), err);
    }
    if (op != KILN_OP_COUNT) {
        print_one(op);
        return KILN_STATUS_OK;
    }
    for (int i = 0; i < KILN_OP_COUNT; i++) {
        print_row(kiln_op_info_of((kiln_op)i));
    }
    return KILN_STATUS_OK;
}

int cmd_ops(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_json_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {NULL,     parse_ops_option,
                                     "[NAME]", "Lists the operators, or tells all about one.",
                                     children, NULL,
                                     NULL};
    ops_options options = {0};
    kiln_error err = KILN_ERROR_INIT;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    return show_ops(&options, &err) == KILN_STATUS_OK ? CLI_OK : cli_fail("ops", &err);
}
