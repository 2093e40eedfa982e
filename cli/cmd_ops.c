// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln ops [NAME]`: the operator table, or one row of it in full.
// Everything shown is read from the table, so a new operator needs no line here.

#include "cli.h"

#include <stdio.h>
#include <string.h>

static error_t parse_ops_option(int key, char *text, struct argp_state *state)
{
    const char **name = state->input;
    switch (key) {
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

static const char *op_name_at(size_t index, const void *unused)
{
    (void)unused;
    return index < KILN_OP_COUNT ? kiln_op_info_of((kiln_op)index)->name : NULL;
}

int cmd_ops(int argc, char **argv)
{
    static const struct argp argp = {NULL,     parse_ops_option,
                                     "[NAME]", "Lists the operators, or tells all about one.",
                                     NULL,     NULL,
                                     NULL};
    const char *name = NULL;
    argp_parse(&argp, argc, argv, 0, NULL, &name);
    if (name != NULL) {
        kiln_op op = kiln_op_from_name(name);
        if (op == KILN_OP_COUNT) {
            char guess[CLI_GUESS_ROOM];
            kiln_error err = KILN_ERROR_INIT;
            cli_guess(guess, name, op_name_at, NULL);
            (void)kiln_fail(&err, NOT_FOUND,
                            "there is no operator \"%.60s\"%s `kiln ops` lists them", name,
                            guess[0] != '\0' ? guess : ";");
            return cli_fail("ops", &err);
        }
        print_one(op);
        return CLI_OK;
    }
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        print_row(kiln_op_info_of((kiln_op)op));
    }
    return CLI_OK;
}
