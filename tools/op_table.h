// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TOOLS_OP_TABLE_H
#define KILN_TOOLS_OP_TABLE_H

/// What the programs have in common that write from the table of operators (gen_ops, gen_python,
/// gen_cpp): questions to its rows, and how an output is chosen and written.

#include <stdio.h>
#include <string.h>

#include "base.h"
#include "ir.h"

/// The two lines on top of an output.
#define KILN_GEN_LICENCE "SPDX-License-Identifier: MIT OR Apache-2.0"
#define KILN_GEN_ORIGIN(tool) "Written by tools/" tool " from ir/op/ops.def and ir/op/attrs.def."

/// With more parameters for attributes the function of kiln_ops.h takes a struct.
enum { MAX_ATTR_PARAMETERS = 6 };

static inline bool is_variadic(const kiln_op_signature *signature)
{
    return signature->max_inputs == KILN_MAX_INPUTS;
}

/// Builders leave out where random numbers come from: recording fills it in.
static inline bool is_filled_in(kiln_attr_key key)
{
    return key == KILN_KEY_SEED || key == KILN_KEY_STREAM || key == KILN_KEY_POSITION;
}

static inline bool is_list(kiln_attr_type type)
{
    return type == KILN_ATTR_I64_LIST || type == KILN_ATTR_F64_LIST;
}

/// Whether a call may leave the attribute out; what makes tensors has its device's dtype then.
static inline bool is_open(const kiln_op_signature *signature, const kiln_attr_spec *spec)
{
    return spec->optional || (signature->max_inputs == 0 && spec->key == KILN_KEY_DTYPE);
}

/// Whether the function of kiln_ops.h takes its attributes as a struct.
static inline bool takes_c_options(const kiln_op_signature *signature)
{
    size_t count = 0;
    for (size_t i = 0; i < signature->n_attrs; i++) {
        kiln_attr_key key = signature->attrs[i].key;
        count += is_filled_in(key) ? 0 : is_list(kiln_attr_type_of(key)) ? 2 : 1;
    }
    return count > MAX_ATTR_PARAMETERS;
}

/// One output of a program, by the word on its command line.
typedef struct gen_output {
    const char *name;
    void (*write)(FILE *file);
} gen_output;

/// Writes the output that the command line names to standard output; the program's exit status.
static inline int gen_main(int argc, char **argv, const gen_output *outputs, size_t count)
{
    for (size_t i = 0; argc == 2 && i < count; i++) {
        if (strcmp(argv[1], outputs[i].name) == 0) {
            outputs[i].write(stdout);
            return fflush(stdout) == 0 ? 0 : 1;
        }
    }
    fprintf(stderr, "usage: %s ", argv[0]);
    for (size_t i = 0; i < count; i++) {
        fprintf(stderr, "%s%s", i > 0 ? "|" : "", outputs[i].name);
    }
    fprintf(stderr, "\n");
    return 2;
}

#endif
