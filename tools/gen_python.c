// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes what the Python package has for each operator of the table: a row with name and docstring
// (kiln_python_ops.def) and a type stub (ops.pyi). Usage: gen_python def|stubs, to standard output.
// The build does it; nothing of it is committed.

#include "op_table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *const licence = KILN_GEN_LICENCE;
static const char *const origin = KILN_GEN_ORIGIN("gen_python");

/// Operators that a Python program calls by name: collectives need groups, which it has not yet.
static bool has_function(const kiln_op_info *info)
{
    return info->cls != KILN_CLASS_CONTROL && info->cls != KILN_CLASS_CUSTOM &&
           info->cls != KILN_CLASS_COLLECTIVE;
}

static const char *attr_type(kiln_attr_type type)
{
    switch (type) {
    case KILN_ATTR_I64:
        return "int";
    case KILN_ATTR_F64:
    case KILN_ATTR_NUMBER:
        return "float";
    case KILN_ATTR_BOOL:
        return "bool";
    case KILN_ATTR_DTYPE:
        return "DTypeLike";
    case KILN_ATTR_I64_LIST:
        return "int | Sequence[int]";
    case KILN_ATTR_F64_LIST:
        return "Sequence[float]";
    case KILN_ATTR_STRING:
        return "str";
    default:
        return "object";
    }
}

/// What an absent attribute stands for; None where it has no better name.
static void print_default(FILE *file, const kiln_attr_spec *spec)
{
    switch (kiln_attr_type_of(spec->key)) {
    case KILN_ATTR_BOOL:
        fprintf(file, spec->fallback != 0 ? "True" : "False");
        break;
    case KILN_ATTR_I64:
        fprintf(file, "%lld", (long long)spec->fallback);
        break;
    case KILN_ATTR_F64:
    case KILN_ATTR_NUMBER:
        if (spec->fallback - spec->fallback != 0) {
            fprintf(file, "None");
        } else {
            fprintf(file, "%g", spec->fallback);
        }
        break;
    case KILN_ATTR_STRING:
        fprintf(file, "'%s'", spec->fallback_text != NULL ? spec->fallback_text : "");
        break;
    default:
        fprintf(file, "None");
        break;
    }
}

/// Words of Python that an input or an attribute of the table is called too get an underscore.
static const char *after_name(const char *name)
{
    static const char *const words[] = {"and",    "as",    "class",  "def",    "del", "else",
                                        "except", "for",   "from",   "global", "if",  "in",
                                        "import", "is",    "lambda", "not",    "or",  "pass",
                                        "return", "while", "with"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(name, words[i]) == 0) {
            return "_";
        }
    }
    return "";
}

/// How one parameter is written: `x`, `x=None`, and with `types` `x: ArrayLike | None = None`.
static void print_parameter(FILE *file, const char *name, const char *type, bool open, bool types)
{
    fprintf(file, "%s%s", name, after_name(name));
    if (types) {
        fprintf(file, ": %s%s", type, open ? " | None" : "");
    }
    fprintf(file, open ? (types ? " = " : "=") : "");
}

/// Inputs, then attributes, in the order of the table. What must be given after something that may
/// be left out is given by name.
static void print_parameters(FILE *file, const kiln_op_signature *signature, bool types)
{
    bool open_before = false, by_name = false;
    const char *comma = "";
    size_t named = is_variadic(signature) ? 1 : signature->max_inputs;
    for (size_t i = 0; i < named; i++) {
        bool open = !is_variadic(signature) && i >= signature->min_inputs;
        fprintf(file, "%s", comma);
        print_parameter(file, signature->inputs[i],
                        is_variadic(signature) ? "Sequence[ArrayLike]" : "ArrayLike", open, types);
        fprintf(file, open ? "None" : "");
        open_before = open_before || open;
        comma = ", ";
    }
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        bool open = is_open(signature, spec);
        if (is_filled_in(spec->key)) {
            continue;
        }
        fprintf(file, "%s%s", comma, !open && open_before && !by_name ? "*, " : "");
        by_name = by_name || (!open && open_before);
        open_before = open_before || open;
        print_parameter(file, kiln_attr_name(spec->key), attr_type(kiln_attr_type_of(spec->key)),
                        open, types);
        if (open) {
            print_default(file, spec);
        }
        comma = ", ";
    }
    if (signature->max_inputs == 0) {
        fprintf(file, "%s%s", comma, types ? "device: DeviceLike = None" : "device=None");
    }
}

static void print_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', file);
        }
        fputc(*text, file);
    }
}

/// The docstring's body, with `newline` at the ends of its lines.
static void print_doc(FILE *file, const kiln_op_info *info, const char *newline)
{
    const kiln_op_signature *signature = info->signature;
    print_text(file, info->doc);
    fprintf(file, ".");
    bool any = false;
    for (size_t i = 0; i < signature->n_attrs; i++) {
        kiln_attr_key key = signature->attrs[i].key;
        if (!is_filled_in(key)) {
            fprintf(file, "%s%s%s: ", any ? "" : newline, newline, kiln_attr_name(key));
            print_text(file, kiln_attr_doc(key));
            any = true;
        }
    }
    for (size_t i = 0; info->n_outputs > 1 && i < info->n_outputs; i++) {
        fprintf(file, "%s%s", i > 0 ? ", " : newline, i > 0 ? "" : newline);
        fprintf(file, "%s%s", i > 0 ? "" : "Gives ", signature->outputs[i]);
    }
    fprintf(file, "%s", info->n_outputs > 1 ? "." : "");
}

static void write_def(FILE *file)
{
    fprintf(file,
            "// %s\n// %s\n// KILN_PYTHON(ID, name, docstring with the signature that Python "
            "reads from it)\n",
            licence, origin);
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        if (!has_function(info)) {
            continue;
        }
        fprintf(file, "KILN_PYTHON(");
        for (const char *c = info->name; *c != '\0'; c++) {
            fputc(toupper((unsigned char)*c), file);
        }
        fprintf(file, ", \"%s\", \"%s(", info->name, info->name);
        print_parameters(file, info->signature, /*types=*/false);
        fprintf(file, ")\\n--\\n\\n");
        print_doc(file, info, "\\n");
        fprintf(file, "\")\n");
    }
}

static void write_stubs(FILE *file)
{
    fprintf(file,
            "# %s\n# %s\n\"\"\"The operators of Kiln's table, by its names.\"\"\"\n"
            "from collections.abc import Sequence\n\n"
            "from ._kiln import Array, ArrayLike, DeviceLike, DTypeLike\n\n",
            licence, origin);
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        if (!has_function(info)) {
            continue;
        }
        fprintf(file, "def %s(", info->name);
        print_parameters(file, info->signature, /*types=*/true);
        fprintf(file, ") -> ");
        for (size_t i = 0; info->n_outputs > 1 && i < info->n_outputs; i++) {
            fprintf(file, "%sArray", i > 0 ? ", " : "tuple[");
        }
        fprintf(file, info->n_outputs > 1 ? "]:\n" : "Array:\n");
        fprintf(file, "    \"\"\"");
        print_doc(file, info, "\n    ");
        fprintf(file, "\"\"\"\n\n");
    }
}

int main(int argc, char **argv)
{
    static const gen_output outputs[] = {
        {"def", write_def},
        {"stubs", write_stubs},
    };
    return gen_main(argc, argv, outputs, sizeof(outputs) / sizeof(outputs[0]));
}
