// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the operator table for C++: a function for each operator, options and results as structs,
// C++'s operators, and names of dtypes. kiln.hpp includes it: kiln_ops.hpp.
// Usage: gen_cpp functions|calls, to standard output; `calls` is a program that
// calls each function once. The build does it; nothing of it is committed.

#include "op_table.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const licence = KILN_GEN_LICENCE;
static const char *const origin = KILN_GEN_ORIGIN("gen_cpp");

// With more attributes that may be left out they are a struct.
enum { MAX_OPEN_PARAMETERS = 2 };
static bool has_function(const kiln_op_info *info)
{
    return info->cls != KILN_CLASS_CONTROL && info->cls != KILN_CLASS_CUSTOM;
}

static bool takes_options(const kiln_op_signature *signature)
{
    size_t open = 0;
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        open += !is_filled_in(spec->key) && is_open(signature, spec);
    }
    return open > MAX_OPEN_PARAMETERS;
}

/// Whether the attribute stands in the struct of options.
static bool is_option(const kiln_op_signature *signature, const kiln_attr_spec *spec)
{
    return takes_options(signature) && is_open(signature, spec);
}

/// Words of C++ get an underscore behind them.
static const char *after_name(const char *name)
{
    static const char *const words[] = {
        "and",    "asm",     "auto",     "bool",      "break",    "case",     "catch",
        "char",   "class",   "const",    "default",   "delete",   "do",       "double",
        "else",   "enum",    "explicit", "export",    "extern",   "false",    "final",
        "float",  "for",     "friend",   "goto",      "if",       "inline",   "int",
        "long",   "module",  "mutable",  "namespace", "new",      "not",      "operator",
        "or",     "private", "public",   "register",  "requires", "return",   "short",
        "signed", "sizeof",  "static",   "struct",    "switch",   "template", "this",
        "throw",  "true",    "try",      "typedef",   "typename", "union",    "unsigned",
        "using",  "virtual", "void",     "volatile",  "while",    "xor"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(name, words[i]) == 0) {
            return "_";
        }
    }
    return "";
}

static void print_name(FILE *file, const char *name)
{
    fprintf(file, "%s%s", name, after_name(name));
}

/// top_k as TopK.
static void print_camel(FILE *file, const char *name)
{
    bool up = true;
    for (; *name != '\0'; name++) {
        if (*name != '_') {
            fputc(up ? toupper((unsigned char)*name) : *name, file);
        }
        up = *name == '_';
    }
}

static const char *value_type(kiln_attr_type type)
{
    switch (type) {
    case KILN_ATTR_I64:
        return "std::int64_t";
    case KILN_ATTR_F64:
        return "double";
    case KILN_ATTR_BOOL:
        return "bool";
    case KILN_ATTR_DTYPE:
        return "Dtype";
    case KILN_ATTR_I64_LIST:
        return "Ints";
    case KILN_ATTR_F64_LIST:
        return "Floats";
    case KILN_ATTR_STRING:
        return "std::string";
    default:
        return "Scalar";
    }
}

static bool by_reference(kiln_attr_type type)
{
    return is_list(type) || type == KILN_ATTR_STRING;
}

static void print_number(FILE *file, double value)
{
    if (isinf(value)) {
        fprintf(file, "%sstd::numeric_limits<double>::infinity()", value < 0 ? "-" : "");
    } else {
        fprintf(file, "%.17g%s", value, value - floor(value) == 0 ? ".0" : "");
    }
}

static void print_default(FILE *file, const kiln_attr_spec *spec)
{
    switch (kiln_attr_type_of(spec->key)) {
    case KILN_ATTR_BOOL:
        fprintf(file, spec->fallback != 0 ? "true" : "false");
        break;
    case KILN_ATTR_I64:
        fprintf(file, "%lld", (long long)spec->fallback);
        break;
    case KILN_ATTR_F64:
    case KILN_ATTR_NUMBER:
        print_number(file, spec->fallback);
        break;
    case KILN_ATTR_STRING:
        fprintf(file, "\"%s\"", spec->fallback_text != NULL ? spec->fallback_text : "");
        break;
    case KILN_ATTR_DTYPE:
        fprintf(file, "KILN_DTYPE_NONE");
        break;
    default:
        fprintf(file, "{}");
        break;
    }
}

// ---- one function ----

/// A list in parentheses, and what stands before its next part.
typedef struct writing {
    FILE *file;
    const char *comma;
} writing;

static void print_comma(writing *self)
{
    fprintf(self->file, "%s", self->comma);
    self->comma = ", ";
}

static void print_attr_parameter(writing *self, const kiln_attr_spec *spec, bool open)
{
    kiln_attr_type type = kiln_attr_type_of(spec->key);
    print_comma(self);
    fprintf(self->file, by_reference(type) ? "const %s &" : "%s ", value_type(type));
    print_name(self->file, kiln_attr_name(spec->key));
    if (open) {
        fprintf(self->file, " = ");
        print_default(self->file, spec);
    }
}

static void print_attr_parameters(writing *self, const kiln_op_signature *signature, bool open)
{
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        if (!is_filled_in(spec->key) && !is_option(signature, spec) &&
            is_open(signature, spec) == open) {
            print_attr_parameter(self, spec, open);
        }
    }
}

/// What must be given, inputs first; then what may be left out, inputs first.
static void print_parameters(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    writing self = {file, ""};
    if (is_variadic(signature)) {
        print_comma(&self);
        fprintf(file, "const std::vector<Tensor> &%s", signature->inputs[0]);
    }
    for (size_t i = 0; !is_variadic(signature) && i < signature->min_inputs; i++) {
        print_comma(&self);
        fprintf(file, "const Tensor &");
        print_name(file, signature->inputs[i]);
    }
    print_attr_parameters(&self, signature, /*open=*/false);
    for (size_t i = signature->min_inputs; !is_variadic(signature) && i < signature->max_inputs;
         i++) {
        print_comma(&self);
        fprintf(file, "const Tensor &");
        print_name(file, signature->inputs[i]);
        fprintf(file, " = Tensor()");
    }
    print_attr_parameters(&self, signature, /*open=*/true);
    if (takes_options(signature)) {
        print_comma(&self);
        fprintf(file, "const ");
        print_camel(file, info->name);
        fprintf(file, "Options &options = {}");
    }
    if (signature->max_inputs == 0) {
        print_comma(&self);
        fprintf(file, "const Device &device = default_device()");
    }
}

static void print_comment(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    fprintf(file, "/// %s.\n", info->doc);
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        if (!is_filled_in(spec->key) && !is_option(signature, spec)) {
            fprintf(file, "/// `%s`: %s.\n", kiln_attr_name(spec->key), kiln_attr_doc(spec->key));
        }
    }
}

/// An aggregate, so that C++20 may name members; C++17 uses the functions.
static void print_options_struct(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    fprintf(file, "/// What %s may be told.\nstruct ", info->name);
    print_camel(file, info->name);
    fprintf(file, "Options {\n");
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        if (!is_filled_in(spec->key) && is_option(signature, spec)) {
            fprintf(file, "    %s ", value_type(kiln_attr_type_of(spec->key)));
            print_name(file, kiln_attr_name(spec->key));
            fprintf(file, " = ");
            print_default(file, spec);
            fprintf(file, "; ///< %s\n", kiln_attr_doc(spec->key));
        }
    }
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        const char *name = kiln_attr_name(spec->key);
        kiln_attr_type type = kiln_attr_type_of(spec->key);
        if (!is_filled_in(spec->key) && is_option(signature, spec)) {
            fprintf(file, "    ");
            print_camel(file, info->name);
            fprintf(file, "Options &with_%s(%s given) { %s%s = %s; return *this; }\n", name,
                    value_type(type), name, after_name(name),
                    by_reference(type) ? "std::move(given)" : "given");
        }
    }
    fprintf(file, "};\n\n");
}

static void print_result_struct(FILE *file, const kiln_op_info *info)
{
    fprintf(file, "/// What %s gives.\nstruct ", info->name);
    print_camel(file, info->name);
    fprintf(file, "Result {\n");
    for (size_t i = 0; i < info->n_outputs; i++) {
        fprintf(file, "    Tensor ");
        print_name(file, info->signature->outputs[i]);
        fprintf(file, ";\n");
    }
    fprintf(file, "};\n\n");
}

/// `options.` before what stands in the struct.
static void print_place(FILE *file, const kiln_op_signature *signature, const kiln_attr_spec *spec)
{
    fprintf(file, "%s", is_option(signature, spec) ? "options." : "");
    print_name(file, kiln_attr_name(spec->key));
}

static void print_c_value(FILE *file, const kiln_op_signature *signature,
                          const kiln_attr_spec *spec)
{
    kiln_attr_type type = kiln_attr_type_of(spec->key);
    print_place(file, signature, spec);
    fprintf(file, "%s",
            is_list(type)              ? ".data()"
            : type == KILN_ATTR_STRING ? ".c_str()"
            : type == KILN_ATTR_NUMBER ? ".number()"
                                       : "");
}

static void print_c_options(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    fprintf(file,
            "    kiln_%s_options given{};\n"
            "    given.struct_size = static_cast<std::uint32_t>(sizeof(given));\n",
            info->name);
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        const char *name = kiln_attr_name(spec->key);
        if (is_filled_in(spec->key)) {
            continue;
        }
        fprintf(file, "    given.%s = ", name);
        print_c_value(file, signature, spec);
        fprintf(file, ";\n");
        if (is_list(kiln_attr_type_of(spec->key))) {
            fprintf(file, "    given.n_%s = ", name);
            print_place(file, signature, spec);
            fprintf(file, ".size();\n");
        }
    }
}

/// The call of kiln_ops.h.
static void print_call(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    fprintf(file, "    call.check(kiln_%s(", info->name);
    if (signature->max_inputs == 0) {
        fprintf(file, "device.handle(), ");
    } else if (is_variadic(signature)) {
        fprintf(file, "handles_.data(), handles_.size(), ");
    }
    for (size_t i = 0; !is_variadic(signature) && i < signature->max_inputs; i++) {
        print_name(file, signature->inputs[i]);
        fprintf(file, ".handle(), ");
    }
    if (takes_c_options(signature)) {
        fprintf(file, "&given, ");
    }
    for (size_t i = 0; !takes_c_options(signature) && i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        if (is_filled_in(spec->key)) {
            continue;
        }
        print_c_value(file, signature, spec);
        fprintf(file, ", ");
        if (is_list(kiln_attr_type_of(spec->key))) {
            print_place(file, signature, spec);
            fprintf(file, ".size(), ");
        }
    }
    for (size_t i = 0; i < info->n_outputs; i++) {
        fprintf(file, "&made_%zu, ", i);
    }
    fprintf(file, "call));\n");
}

static void print_function(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    if (takes_options(signature)) {
        print_options_struct(file, info);
    }
    if (info->n_outputs > 1) {
        print_result_struct(file, info);
    }
    print_comment(file, info);
    fprintf(file, "inline ");
    print_camel(file, info->n_outputs > 1 ? info->name : "Tensor");
    fprintf(file, "%s ", info->n_outputs > 1 ? "Result" : "");
    print_name(file, info->name);
    fprintf(file, "(");
    print_parameters(file, info);
    fprintf(file, ")\n{\n    detail::Call call;\n");
    for (size_t i = 0; i < info->n_outputs; i++) {
        fprintf(file, "    kiln_tensor *made_%zu = nullptr;\n", i);
    }
    if (is_variadic(signature)) {
        fprintf(file, "    const std::vector<kiln_tensor *> handles_ = detail::handles(%s);\n",
                signature->inputs[0]);
    }
    if (takes_c_options(signature)) {
        print_c_options(file, info);
    }
    print_call(file, info);
    fprintf(file, "    return %s", info->n_outputs > 1 ? "{" : "");
    for (size_t i = 0; i < info->n_outputs; i++) {
        fprintf(file, "%sTensor::adopt(made_%zu)", i > 0 ? ", " : "", i);
    }
    fprintf(file, "%s;\n}\n\n", info->n_outputs > 1 ? "}" : "");
}

// ---- numbers beside tensors ----

/// Operators of C++; where the tensor may come second, the operator that does the same then.
static const struct sign {
    const char *sign;
    const char *name;
    const char *turned;
    bool assigns;
} signs[] = {
    {"+", "add", "add", true},
    {"-", "sub", NULL, true},
    {"*", "mul", "mul", true},
    {"/", "div", NULL, true},
    {"%", "rem", NULL, true},
    {"<", "less", "greater", false},
    {"<=", "less_equal", "greater_equal", false},
    {">", "greater", "less", false},
    {">=", "greater_equal", "less_equal", false},
    {"==", "equal", "equal", false},
    {"!=", "not_equal", "not_equal", false},
    {"<<", "shift_left", NULL, false},
    {">>", "shift_right", NULL, false},
};

static bool has_scalar(const char *name)
{
    char full[64];
    snprintf(full, sizeof(full), "%s_scalar", name);
    return kiln_op_from_name(full) != KILN_OP_COUNT;
}

static bool is_binary(const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    return info->cls == KILN_CLASS_ELEMENTWISE && signature->max_inputs == 2 &&
           signature->min_inputs == 2 && signature->n_attrs == 0 &&
           strcmp(signature->inputs[0], "a") == 0 && strcmp(signature->inputs[1], "b") == 0;
}

static const char *turned(const char *name)
{
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        if (strcmp(signs[i].name, name) == 0) {
            return signs[i].turned;
        }
    }
    return NULL;
}

static void print_with_numbers(FILE *file, const char *name)
{
    const char *other = turned(name);
    fprintf(file, "inline Tensor %s(const Tensor &a, Scalar b) { return ", name);
    if (has_scalar(name)) {
        fprintf(file, "%s_scalar(a, b); }\n", name);
    } else {
        fprintf(file, "%s(a, detail::like(b, a)); }\n", name);
    }
    fprintf(file, "inline Tensor %s(Scalar a, const Tensor &b) { return ", name);
    if (other != NULL && has_scalar(other)) {
        fprintf(file, "%s_scalar(b, a); }\n", other);
    } else {
        fprintf(file, "%s(detail::like(a, b), b); }\n", name);
    }
}

static void print_sign(FILE *file, const struct sign *sign)
{
    static const char *const kinds[][2] = {{"const Tensor &", "const Tensor &"},
                                           {"const Tensor &", "Scalar "},
                                           {"Scalar ", "const Tensor &"}};
    for (size_t i = 0; i < 3; i++) {
        fprintf(file, "inline Tensor operator%s(%sa, %sb) { return %s(a, b); }\n", sign->sign,
                kinds[i][0], kinds[i][1], sign->name);
    }
    for (size_t i = 0; sign->assigns && i < 2; i++) {
        fprintf(file, "inline Tensor &operator%s=(Tensor &a, %sb) { return a = %s(a, b); }\n",
                sign->sign, kinds[i][1], sign->name);
    }
}

static void print_signs(FILE *file)
{
    fprintf(file, "\n// ---- C++'s operators ----\n");
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        print_sign(file, &signs[i]);
    }
    fprintf(file, "inline Tensor operator-(const Tensor &x) { return neg(x); }\n"
                  "inline Tensor operator!(const Tensor &x) { return logical_not(x); }\n");
    static const struct {
        const char *sign;
        const char *word;
    } pairs[] = {{"&", "and"}, {"|", "or"}, {"^", "xor"}};
    for (size_t i = 0; i < 3; i++) {
        fprintf(file,
                "inline Tensor operator%s(const Tensor &a, const Tensor &b) "
                "{ return a.dtype() == KILN_DTYPE_BOOL ? logical_%s(a, b) : bitwise_%s(a, b); }\n",
                pairs[i].sign, pairs[i].word, pairs[i].word);
    }
    fprintf(file, "inline Tensor operator~(const Tensor &x) "
                  "{ return x.dtype() == KILN_DTYPE_BOOL ? logical_not(x) : bitwise_not(x); }\n");
}

static void write_functions(FILE *file)
{
    fprintf(file,
            "// %s\n// %s\n#ifndef KILN_OPS_HPP\n#define KILN_OPS_HPP\n\n"
            "/// Part of kiln.hpp: the operators.\n\n#include <cstdint>\n#include <limits>\n"
            "#include <string>\n#include <utility>\n#include <vector>\n\n"
            "#include \"kiln_tensor.hpp\"\n\n// clang-format off\nnamespace kiln\n{\n"
            "#ifdef KILN_NO_EXCEPTIONS\ninline namespace without_exceptions\n{\n#endif\n\n",
            licence, origin);
    for (int dtype = 1; dtype < KILN_DTYPE_LIMIT; dtype++) {
        const char *name = kiln_dtype_name((kiln_dtype)dtype);
        fprintf(file, "inline constexpr Dtype %s%s = KILN_DTYPE_", name, after_name(name));
        for (const char *c = name; *c != '\0'; c++) {
            fputc(toupper((unsigned char)*c), file);
        }
        fprintf(file, ";\n");
    }
    fprintf(file, "\n");
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        if (has_function(info)) {
            print_function(file, info);
        }
    }
    fprintf(file, "// ---- numbers beside tensors ----\n");
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        if (is_binary(info)) {
            print_with_numbers(file, info->name);
        }
    }
    print_signs(file);
    fprintf(file, "\n#ifdef KILN_NO_EXCEPTIONS\n} // inline namespace without_exceptions\n#endif\n"
                  "} // namespace kiln\n// clang-format on\n\n#endif\n");
}

// ---- a call of each ----

static const char *sample(kiln_attr_type type)
{
    switch (type) {
    case KILN_ATTR_I64:
        return "1";
    case KILN_ATTR_F64:
        return "0.5";
    case KILN_ATTR_BOOL:
        return "false";
    case KILN_ATTR_DTYPE:
        return "kiln::f32";
    case KILN_ATTR_I64_LIST:
        return "{1, 2}";
    case KILN_ATTR_F64_LIST:
        return "{0.5}";
    case KILN_ATTR_STRING:
        return "\"sum\"";
    default:
        return "2";
    }
}

/// Calls with what must be given, and where there are options with one set by its function.
static void print_sample(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    const kiln_attr_spec *set = NULL;
    writing self = {file, ""};
    fprintf(file, "    attempt(\"%s\", [&] { return kiln::", info->name);
    print_name(file, info->name);
    fprintf(file, "(");
    for (size_t i = 0; i < (is_variadic(signature) ? 1 : signature->min_inputs); i++) {
        print_comma(&self);
        fprintf(file, is_variadic(signature) ? "{x, x}" : "x");
    }
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        if (!is_filled_in(spec->key) && !is_open(signature, spec)) {
            print_comma(&self);
            fprintf(file, "%s", sample(kiln_attr_type_of(spec->key)));
        } else if (set == NULL && !is_filled_in(spec->key) && is_option(signature, spec)) {
            set = spec;
        }
    }
    for (size_t i = signature->min_inputs;
         set != NULL && !is_variadic(signature) && i < signature->max_inputs; i++) {
        print_comma(&self);
        fprintf(file, "{}");
    }
    if (set != NULL) {
        print_comma(&self);
        fprintf(file, "kiln::");
        print_camel(file, info->name);
        fprintf(file, "Options().with_%s(%s)", kiln_attr_name(set->key),
                sample(kiln_attr_type_of(set->key)));
    }
    fprintf(file, "); });\n");
}

static void write_calls(FILE *file)
{
    fprintf(file, "// %s\n// %s\n// clang-format off\n", licence, origin);
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        if (has_function(info)) {
            print_sample(file, info);
        }
    }
    fprintf(file, "// clang-format on\n");
}

int main(int argc, char **argv)
{
    static const gen_output outputs[] = {
        {"functions", write_functions},
        {"calls", write_calls},
    };
    return gen_main(argc, argv, outputs, sizeof(outputs) / sizeof(outputs[0]));
}
