// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the formulas that plugin_sdk has for fusers in the form that the kernels of cl_backend
// include: types become macros that the kernel defines, each operator becomes OP_<name>. Usage:
// gen_formulas elementwise|random, to standard output. Refuses when ops.def has an elementwise
// operator without a formula, so that such a tree does not build.

#include "ir.h"
#include "kf_elementwise.h"
#include "kf_random.h"

#include <ctype.h>
#include <stdbool.h>

// ---- templates ----

/// Words of templates, and what kernels call them. Longer ones stand before their beginnings.
static const char *const words[][2] = {
    {"as_$T", "AS_T"},
    {"as_$U", "AS_U"},
    {"as_$F", "AS_F"},
    {"as_$I", "AS_I"},
    {"as_$R", "AS_R"},
    {"convert_$R_rtz", "CONVERT_R_RTZ"},
    {"convert_$R", "CONVERT_R"},
    {"convert_$N", "CONVERT_N"},
    {"convert_$M", "CONVERT_M"},
    {"convert_$T", "CONVERT_T"},
    {"convert_$F", "CONVERT_F"},
    {"vload$V", "VLOAD"},
    {"vstore$V", "VSTORE"},
    {"_$C", "_"},
    {"$T", "T"},
    {"$U", "U"},
    {"$M", "M"},
    {"$F", "F"},
    {"$I", "I"},
    {"$C", "C"},
    {"$R", "R"},
    {"$H", "K_ABOVE(KILN_O)"},
    {"$L", "K_BELOW(KILN_O)"},
    {"$A", "K_MAX(KILN_O)"},
    {"$B", "K_MIN(KILN_O)"},
    {"$V", "KILN_V"},
    {"$W", "K_WIDTH(D)"},
    {"$0", "VALUE(0)"},
    {"$1", "VALUE(1)"},
    {"$s", "VALUE(s)"},
    {"$t", "VALUE(t)"},
    {"$a", "a"},
    {"$b", "b"},
    {"$c", "c"},
};

static void print_template(const char *text)
{
    while (*text != '\0') {
        size_t i = 0;
        while (i < sizeof(words) / sizeof(words[0]) &&
               strncmp(text, words[i][0], strlen(words[i][0])) != 0) {
            i++;
        }
        if (i < sizeof(words) / sizeof(words[0])) {
            printf("%s", words[i][1]);
            text += strlen(words[i][0]);
        } else {
            putchar(*text++);
        }
    }
}

// ---- elementwise ----

/// Does an operator's formula call this helper?
static bool is_called(const kf_ew_helper *helper)
{
    const kf_ew_row *row;
    for (uint32_t i = 0; (row = kf_ew_row_at(i)) != NULL; i++) {
        for (uint32_t kind = 0; kind < 4; kind++) {
            if (row->text[kind] != NULL &&
                strncmp(row->text[kind], helper->name, strlen(helper->name)) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void print_helpers(void)
{
    static const struct {
        uint32_t bit;
        const char *test;
    } kinds[] = {
        {KF_EW_FLOATS, "K_KIND(D) == 8"},
        {KF_EW_FLOAT32, "(K_KIND(D) == 8 && K_WIDTH(D) != 64)"},
        {KF_EW_FLOAT64, "(K_KIND(D) == 8 && K_WIDTH(D) == 64)"},
        {KF_EW_SIGNED, "K_KIND(D) == 4"},
        {KF_EW_UNSIGNED, "K_KIND(D) == 2"},
    };
    const kf_ew_helper *helper;
    for (uint32_t i = 0; (helper = kf_ew_helper_at(i)) != NULL; i++) {
        if (!is_called(helper)) {
            continue;
        }
        const char *before = "#if ";
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            if ((helper->kinds & kinds[k].bit) != 0) {
                printf("%s%s", before, kinds[k].test);
                before = " || ";
            }
        }
        putchar('\n');
        print_template(helper->text);
        printf("#endif\n");
    }
}

static void print_formula(const kf_ew_row *row, uint32_t kind)
{
    static const char *const operands[] = {"a", "b", "c"};
    static const char *const scalars[] = {"s", "t"};
    printf("#define OP_");
    for (const char *p = row->name; *p != '\0'; p++) {
        putchar(tolower((unsigned char)*p));
    }
    const char *before = "(";
    for (uint32_t i = 0; i < row->inputs + row->scalars; i++) {
        printf("%s%s", before, i < row->inputs ? operands[i] : scalars[i - row->inputs]);
        before = ", ";
    }
    printf(row->result == KF_EW_MASK ? ") TRUTH(" : ") (");
    print_template(row->text[kind]);
    printf(")\n");
}

static void print_cast(void)
{
    printf("#if KILN_CAST\nstatic inline R OP_cast(T x) {\n#if K_KIND(KILN_O) == 1\n");
    print_template(KF_EW_CAST_TO_BOOL);
    printf("#elif K_KIND(D) == 8 && K_KIND(KILN_O) != 8\n");
    print_template(KF_EW_CAST_FLOAT_TO_INT);
    printf("#else\n");
    print_template(KF_EW_CAST_PLAIN);
    printf("#endif\n}\n#endif\n");
}

static int write_elementwise(void)
{
    static const char *const tests[] = {"#if K_KIND(D) == 8", "#elif K_KIND(D) == 4",
                                        "#elif K_KIND(D) == 2", "#else"};
    print_helpers();
    for (uint32_t kind = 0; kind < 4; kind++) {
        const kf_ew_row *row;
        printf("%s\n", tests[kind]);
        for (uint32_t i = 0; (row = kf_ew_row_at(i)) != NULL; i++) {
            if (row->text[kind] != NULL && row->result != KF_EW_CAST) {
                print_formula(row, kind);
            }
        }
    }
    printf("#endif\n");
    print_cast();
    return 0;
}

static int write_random(void)
{
    print_template(KF_RANDOM_ROUNDS KF_RANDOM_SPREAD KF_RANDOM_POLYNOMIALS);
    return 0;
}

// ---- ops.def against kf_elementwise.def ----

typedef struct operator_row {
    const char *name;
    uint32_t number;
    uint32_t cls;
    uint32_t accept;
} operator_row;

static const operator_row operators[] = {
#define KILN_COMPOSITE(...) // recorded as others, with formulas of their own
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    {#name, wire, KILN_CLASS_##cls, (uint32_t)KILN_ACCEPT_##accept},
#include "ops.def"
#undef KILN_OP
};

static int complain(const operator_row *op, const char *kind)
{
    fprintf(stderr,
            "ops.def: '%s' is elementwise and takes %s, but plugin_sdk/kf_elementwise.def has no "
            "formula for that\n",
            op->name, kind);
    return 1;
}

static int check_operator(const operator_row *op)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } kinds[] = {{KILN_KIND_FLOAT, "floats"},
                 {KILN_KIND_INT, "signed integers"},
                 {KILN_KIND_UINT, "unsigned integers"},
                 {KILN_KIND_BOOL, "bool"}};
    const kf_ew_row *row = kf_ew_row_of(op->number);
    for (uint32_t i = 0; i < 4; i++) {
        if ((op->accept & kinds[i].bit) != 0 && (row == NULL || row->text[i] == NULL)) {
            return complain(op, kinds[i].name);
        }
    }
    return 0;
}

static int check_all(void)
{
    int failures = 0;
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (operators[i].cls == KILN_CLASS_ELEMENTWISE) {
            failures += check_operator(&operators[i]);
        }
    }
    return failures;
}

int main(int argc, char **argv)
{
    int failures = check_all();
    if (failures > 0) {
        return 1;
    }
    if (argc == 2 && strcmp(argv[1], "elementwise") == 0) {
        failures = write_elementwise();
    } else if (argc == 2 && strcmp(argv[1], "random") == 0) {
        failures = write_random();
    } else {
        fprintf(stderr, "usage: gen_formulas elementwise|random\n");
        return 2;
    }
    return failures == 0 && fflush(stdout) == 0 ? 0 : 1;
}
