// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes what derives from the operator table: the builders (kiln_ops.h, kiln_ops.c), the operator
// numbers for fusers (kiln_fuser_ops.h), the documentation (ops.md) and the golden list of
// operators. Usage: gen_ops builders-h|builders-c|fuser-h|markdown|golden, to standard output. The
// build compiles kiln_ops.c; the others are committed, and a test compares them with what this tool
// writes.

#include "op_table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *const licence = KILN_GEN_LICENCE;
static const char *const origin = KILN_GEN_ORIGIN("gen_ops");

static const char *attr_c_type(kiln_attr_type type)
{
    switch (type) {
    case KILN_ATTR_I64:
        return "int64_t ";
    case KILN_ATTR_F64:
        return "double ";
    case KILN_ATTR_BOOL:
        return "bool ";
    case KILN_ATTR_DTYPE:
        return "kiln_dtype ";
    case KILN_ATTR_I64_LIST:
        return "const int64_t *";
    case KILN_ATTR_F64_LIST:
        return "const double *";
    case KILN_ATTR_STRING:
        return "const char *";
    case KILN_ATTR_NUMBER:
        return "kiln_number ";
    default:
        return "#error no C type for this attribute ";
    }
}

static void print_upper(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        fputc(toupper((unsigned char)*text), file);
    }
}

// ---- kiln_ops.h and kiln_ops.c ----

static void print_options_struct(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    fprintf(file, "typedef struct kiln_%s_options {\n    uint32_t struct_size;\n", info->name);
    for (size_t i = 0; i < signature->n_attrs; i++) {
        kiln_attr_key key = signature->attrs[i].key;
        kiln_attr_type type = kiln_attr_type_of(key);
        fprintf(file, "    %s%s; ///< %s\n", attr_c_type(type), kiln_attr_name(key),
                kiln_attr_doc(key));
        if (is_list(type)) {
            fprintf(file, "    size_t n_%s;\n", kiln_attr_name(key));
        }
    }
    fprintf(file, "} kiln_%s_options;\n\n#define KILN_", info->name);
    print_upper(file, info->name);
    fprintf(file, "_OPTIONS_INIT {.struct_size = (uint32_t)sizeof(kiln_%s_options)", info->name);
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        kiln_attr_type type = kiln_attr_type_of(spec->key);
        if (spec->optional && type == KILN_ATTR_I64 && spec->fallback != 0) {
            fprintf(file, ", .%s = %g", kiln_attr_name(spec->key), spec->fallback);
        }
    }
    fprintf(file, "}\n\n");
}

static void print_prototype(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    fprintf(file, "kiln_status kiln_%s(", info->name);
    if (signature->max_inputs == 0) {
        fprintf(file, "kiln_device *device, ");
    }
    if (is_variadic(signature)) {
        fprintf(file, "kiln_tensor *const *%s, size_t n_%s, ", signature->inputs[0],
                signature->inputs[0]);
    } else {
        for (size_t i = 0; i < signature->max_inputs; i++) {
            fprintf(file, "kiln_tensor *%s, ", signature->inputs[i]);
        }
    }
    if (takes_c_options(signature)) {
        fprintf(file, "const kiln_%s_options *options, ", info->name);
    } else {
        for (size_t i = 0; i < signature->n_attrs; i++) {
            kiln_attr_key key = signature->attrs[i].key;
            kiln_attr_type type = kiln_attr_type_of(key);
            if (is_filled_in(key)) {
                continue;
            }
            fprintf(file, "%s%s, ", attr_c_type(type), kiln_attr_name(key));
            if (is_list(type)) {
                fprintf(file, "size_t n_%s, ", kiln_attr_name(key));
            }
        }
    }
    if (info->n_outputs == 1) {
        fprintf(file, "kiln_tensor **out_tensor, ");
    }
    for (size_t i = 0; info->n_outputs > 1 && i < info->n_outputs; i++) {
        fprintf(file, "kiln_tensor **out_%s, ", signature->outputs[i]);
    }
    fprintf(file, "kiln_error *err)");
}

static void print_comment(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    fprintf(file, "/// %s.\n", info->doc);
    if (takes_c_options(signature)) {
        fprintf(file, "/// `options` may be NULL only when nothing in it is required.\n");
    } else {
        for (size_t i = 0; i < signature->n_attrs; i++) {
            kiln_attr_key key = signature->attrs[i].key;
            if (!is_filled_in(key)) {
                fprintf(file, "/// `%s`: %s.\n", kiln_attr_name(key), kiln_attr_doc(key));
            }
        }
    }
    if (!is_variadic(signature) && signature->min_inputs < signature->max_inputs) {
        fprintf(file, "/// Inputs from `%s` on may be NULL.\n",
                signature->inputs[signature->min_inputs]);
    }
    if (info->n_outputs > 1) {
        fprintf(file, "/// A result that is not wanted may be NULL.\n");
    }
}

static bool has_builder(const kiln_op_info *info)
{
    return info->cls != KILN_CLASS_CONTROL && info->cls != KILN_CLASS_CUSTOM;
}

static void write_builders_header(FILE *file)
{
    fprintf(
        file,
        "// %s\n// %s\n#ifndef KILN_KILN_OPS_H\n#define KILN_KILN_OPS_H\n\n"
        "/// The operators of Kiln as functions. Each records one operation and gives a handle to "
        "its\n"
        "/// result at once; see kiln_record in kiln.h.\n"
        "///\n"
        "/// Any thread may call these functions; operations of one thread on one device run in "
        "the\n"
        "/// order of recording. Inputs are borrowed, attributes copied; `*out_tensor` is the "
        "caller's\n"
        "/// reference (kiln_release) and keeps its device open. They can fail with "
        "INVALID_ARGUMENT,\n"
        "/// naming operator, shapes and values; RESOURCE_EXHAUSTED; FAILED_PRECONDITION for "
        "inputs "
        "of\n"
        "/// different devices. NULL where a pointer is needed is INVALID_ARGUMENT.\n\n"
        "#include \"kiln.h\"\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n// clang-format "
        "off\n",
        licence, origin);
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        if (!has_builder(info)) {
            continue;
        }
        if (takes_c_options(info->signature)) {
            print_options_struct(file, info);
        }
        print_comment(file, info);
        fprintf(file, "KILN_NODISCARD KILN_API ");
        print_prototype(file, info);
        fprintf(file, ";\n\n");
    }
    fprintf(file, "// clang-format on\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

static void print_attr_value(FILE *file, const kiln_attr_spec *spec, bool options)
{
    const char *name = kiln_attr_name(spec->key);
    const char *from = options ? "options->" : "";
    if (is_filled_in(spec->key)) {
        fprintf(file, "kilni_attr_none()");
        return;
    }
    switch (kiln_attr_type_of(spec->key)) {
    case KILN_ATTR_I64:
        fprintf(file, "kilni_attr_i64(%s%s)", from, name);
        break;
    case KILN_ATTR_F64:
        fprintf(file, "kilni_attr_f64(%s%s)", from, name);
        break;
    case KILN_ATTR_BOOL:
        fprintf(file, "kilni_attr_bool(%s%s)", from, name);
        break;
    case KILN_ATTR_DTYPE:
        fprintf(file, "kilni_attr_dtype(%s%s)", from, name);
        break;
    case KILN_ATTR_I64_LIST:
        fprintf(file, "kilni_attr_ints(%s%s, %sn_%s)", from, name, from, name);
        break;
    case KILN_ATTR_F64_LIST:
        fprintf(file, "kilni_attr_floats(%s%s, %sn_%s)", from, name, from, name);
        break;
    case KILN_ATTR_STRING:
        fprintf(file, "kilni_attr_text(%s%s)", from, name);
        break;
    default:
        fprintf(file, "kilni_attr_number(%s%s)", from, name);
        break;
    }
}

static void write_body(FILE *file, const kiln_op_info *info)
{
    const kiln_op_signature *signature = info->signature;
    bool options = takes_c_options(signature);
    print_prototype(file, info);
    fprintf(file, " {\n");
    if (options) {
        fprintf(file, "    kiln_%s_options defaults = KILN_", info->name);
        print_upper(file, info->name);
        fprintf(file, "_OPTIONS_INIT;\n    options = options == NULL ? &defaults : options;\n");
    }
    if (signature->n_attrs > 0) {
        fprintf(file, "    const kiln_attr attrs[] = {\n");
        for (size_t i = 0; i < signature->n_attrs; i++) {
            fprintf(file, "        ");
            print_attr_value(file, &signature->attrs[i], options);
            fprintf(file, ",\n");
        }
        fprintf(file, "    };\n");
    }
    const char *device = signature->max_inputs == 0 ? "device" : "NULL";
    char inputs[64] = "NULL, 0";
    if (is_variadic(signature)) {
        snprintf(inputs, sizeof(inputs), "%s, n_%s", signature->inputs[0], signature->inputs[0]);
    } else if (signature->max_inputs > 0) {
        fprintf(file, "    kiln_tensor *const inputs[] = {");
        for (size_t i = 0; i < signature->max_inputs; i++) {
            fprintf(file, "%s%s", i == 0 ? "" : ", ", signature->inputs[i]);
        }
        fprintf(file, "};\n");
        if (signature->min_inputs < signature->max_inputs) {
            snprintf(inputs, sizeof(inputs), "inputs, kilni_count_present(inputs, %u)",
                     signature->max_inputs);
        } else {
            snprintf(inputs, sizeof(inputs), "inputs, %u", signature->max_inputs);
        }
    }
    if (info->n_outputs > 1) {
        fprintf(file, "    kiln_tensor **const outputs[] = {");
        for (size_t i = 0; i < info->n_outputs; i++) {
            fprintf(file, "%sout_%s", i == 0 ? "" : ", ", signature->outputs[i]);
        }
        fprintf(file, "};\n    return kilni_record_several(%s, KILN_OP_", device);
    } else {
        fprintf(file, "    return kiln_record(%s, KILN_OP_", device);
    }
    print_upper(file, info->name);
    fprintf(file, ", %s, %s, %u, %s, err);\n}\n\n", inputs,
            signature->n_attrs > 0 ? "attrs" : "NULL", signature->n_attrs,
            info->n_outputs > 1 ? "outputs" : "out_tensor");
}

static void write_builders_source(FILE *file)
{
    fprintf(file,
            "// %s\n// %s\n// The operators as functions: each packs its attributes and calls "
            "kiln_record.\n\n"
            "#include \"kiln.h\"\n#include \"rt_attrs.h\"\n#include \"rt_record.h\"\n\n// "
            "clang-format off\n",
            licence, origin);
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        if (has_builder(info)) {
            write_body(file, info);
        }
    }
    fprintf(file, "// clang-format on\n");
}

// ---- kiln_fuser_ops.h ----

/// For fusers: what never arrives, or only from some devices. `kiln ops NAME` says as what it does.
static const char *composite_note(const kiln_op_info *info)
{
    if (info->decompose == NULL) {
        return "";
    }
    return info->cls == KILN_CLASS_ELEMENTWISE
               ? "; composite, recorded as others: no fuser sees it"
               : "; composite, recorded as others where a device has no kernel for it";
}

static void write_fuser_header(FILE *file)
{
    fprintf(file,
            "/* %s */\n/* %s */\n#ifndef KILN_FUSER_OPS_H\n#define KILN_FUSER_OPS_H\n\n"
            "/* Permanent numbers of operators, attributes and element types, as fusers see them. "
            "*/\n\n",
            licence, origin);
    uint16_t largest = 0;
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        fprintf(file, "#define KF_OP_");
        print_upper(file, info->name);
        fprintf(file, " %uu /* v%u: %s%s */\n", info->wire, info->since, info->doc,
                composite_note(info));
        largest = info->wire > largest ? info->wire : largest;
    }
    fprintf(file, "\n#define KF_OPSET_MAX %uu /* the largest number above */\n\n", largest);
    fprintf(file, "/* Names of operators, for messages. */\n\n");
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const char *name = kiln_op_info_of((kiln_op)op)->name;
        fprintf(file, "#define KF_NAME_");
        print_upper(file, name);
        fprintf(file, " \"%s\"\n", name);
    }
    fprintf(file, "\n");
    for (int key = 1; key < KILN_KEY_LIMIT; key++) {
        if (kiln_attr_name((kiln_attr_key)key) != NULL) {
            fprintf(file, "#define KF_ATTR_");
            print_upper(file, kiln_attr_name((kiln_attr_key)key));
            fprintf(file, " %du /* %s */\n", key, kiln_attr_doc((kiln_attr_key)key));
        }
    }
    fprintf(file, "\n");
    for (int dtype = 1; dtype < KILN_DTYPE_LIMIT; dtype++) {
        fprintf(file, "#define KF_DTYPE_");
        print_upper(file, kiln_dtype_name((kiln_dtype)dtype));
        fprintf(file, " %du\n", dtype);
    }
    fprintf(file, "\n#endif\n");
}

// ---- documentation and golden list ----

static const char *class_name(kiln_op_class cls)
{
    static const char *const names[] = {
        "",       "elementwise", "view",     "reduce",  "contraction", "gather",
        "window", "along rows",  "creation", "control", "collective",  "of plugins"};
    return names[cls];
}

static const char *result_name(kiln_result result)
{
    static const char *const names[] = {
        [KILN_RESULT_SAME] = "as input",   [KILN_RESULT_BOOL] = "bool",
        [KILN_RESULT_INDEX] = "i64",       [KILN_RESULT_ATTR] = "`dtype`",
        [KILN_RESULT_NOTHING] = "nothing", [KILN_RESULT_SAME_INDEX] = "as input; i64",
        [KILN_RESULT_RULE] = "by rule",
    };
    return names[result];
}

static const char *accept_name(kiln_accept accept)
{
    switch (accept) {
    case KILN_ACCEPT_LOGIC:
        return "bool";
    case KILN_ACCEPT_INTEGER:
        return "integer";
    case KILN_ACCEPT_INTLOGIC:
        return "integer, bool";
    case KILN_ACCEPT_FLOAT:
        return "float";
    case KILN_ACCEPT_QUANT:
        return "quantised";
    case KILN_ACCEPT_SIGNED:
        return "signed, float";
    case KILN_ACCEPT_NUMERIC:
        return "integer, float";
    default:
        return "any";
    }
}

static void print_inputs(FILE *file, const kiln_op_signature *signature)
{
    if (is_variadic(signature)) {
        fprintf(file, "%s...", signature->inputs[0]);
        return;
    }
    for (size_t i = 0; i < signature->max_inputs; i++) {
        fprintf(file, "%s%s%s", i == 0 ? "" : ", ", signature->inputs[i],
                i >= signature->min_inputs ? "?" : "");
    }
}

static void print_attr_names(FILE *file, const kiln_op_signature *signature)
{
    for (size_t i = 0; i < signature->n_attrs; i++) {
        fprintf(file, "%s%s%s", i == 0 ? "" : ", ", kiln_attr_name(signature->attrs[i].key),
                signature->attrs[i].optional ? "?" : "");
    }
}

static void write_markdown_row(FILE *file, const kiln_op_info *info)
{
    fprintf(file, "| `%s` | %u | ", info->name, info->wire);
    print_inputs(file, info->signature);
    fprintf(file, " | ");
    print_attr_names(file, info->signature);
    fprintf(file, " | %s | %s | %s |\n", accept_name(info->accept), result_name(info->result),
            info->doc);
}

/// How the OpenCL backend runs an operator; NULL: not at all.
static const char *opencl_way(int op)
{
    static const bool kernels[KILN_OP_COUNT] = {
#define KILN_KERNEL(id, launcher) [KILN_OP_##id] = true,
#include "kernels.def"
#undef KILN_KERNEL
    };
    const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
    if (kernels[op] && !(info->decompose != NULL && info->cls == KILN_CLASS_ELEMENTWISE)) {
        return "kernel";
    }
    return info->decompose != NULL ? "simpler operators" : NULL;
}

/// How an operator's gradient comes about, or in brackets why there is none.
static const char *gradient_of(int op)
{
    static const char *const ways[KILN_OP_COUNT] = {
#define WAY_BY(rule, keeps) "rule"
#define WAY_DERIVED "derived"
#define WAY_NONE(reason) "(" #reason ")"
#define KILN_OP(id, name, wire, since, cls, signature, n_out, accept, result, shape, tol, grad,    \
                doc)                                                                               \
    [KILN_OP_##id] = WAY_##grad,
#include "ops.def"
#undef KILN_OP
    };
    return ways[op];
}

/// Words for the reasons of ops.def.
static void write_gradients(FILE *file)
{
    fprintf(file,
            "\n## Gradients\n\nBy a rule of its own, derived from the simpler operators, or "
            "none, for a reason: `LOGIC` the result is bool or\nbits, `INDEX` it is indices, "
            "`INTEGER` inputs are integers, `STEP` it is constant but for steps, `CREATION` "
            "there is\nno input, `STORED` it is about quantised tensors or small floats, "
            "`CONTROL` the runtime records it. What is refused\nwhen a gradient is asked for: "
            "`PLUGIN`, `OPEN` (not written). "
            "See [autodiff.md](autodiff.md).\n\n"
            "| gradient | operators |\n|---|---|\n");
    for (int first = 0; first < KILN_OP_COUNT; first++) {
        bool seen = false;
        for (int op = 0; op < first && !seen; op++) {
            seen = strcmp(gradient_of(op), gradient_of(first)) == 0;
        }
        if (seen) {
            continue;
        }
        fprintf(file, "| %s |", gradient_of(first));
        for (int op = first; op < KILN_OP_COUNT; op++) {
            if (strcmp(gradient_of(op), gradient_of(first)) == 0) {
                fprintf(file, " `%s`", kiln_op_info_of((kiln_op)op)->name);
            }
        }
        fprintf(file, " |\n");
    }
}

static bool takes(const kiln_op_info *info, int dtype)
{
    return ((unsigned)kiln_dtype_kind_of((kiln_dtype)dtype) & (unsigned)info->accept) != 0;
}

/// Quantised dtypes share the last column: an operator takes all of them or none.
static void write_coverage(FILE *file)
{
    fprintf(file,
            "\n## Coverage\n\nWhich data an operator takes: x where OpenCL has it and a "
            "conformance case agrees with the\nreference, - where the reference alone has it, "
            "nothing where the operator is not for it. Masks and\nindices are not data. f16 and "
            "bf16 are computed in f32; f64 needs a device with double precision.\n"
            "By simpler operators: it is recorded as these, and a fuser never sees it; "
            "`kiln ops NAME` names them.\n"
            "`conformance/opencl` and `opencl_other_dtypes` fail where they see something else.\n\n"
            "| operator | OpenCL by |");
    for (int dtype = 1; dtype <= KILN_DTYPE_F64; dtype++) {
        fprintf(file, " %s |", kiln_dtype_name((kiln_dtype)dtype));
    }
    fprintf(file, " quantised |\n|---|---|");
    for (int dtype = 0; dtype <= KILN_DTYPE_F64; dtype++) {
        fprintf(file, "---|");
    }
    fprintf(file, "\n");
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        const char *way = opencl_way(op);
        if (!has_builder(info)) {
            continue;
        }
        fprintf(file, "| `%s` | %s |", info->name, way != NULL ? way : "no kernel yet");
        for (int dtype = 1; dtype <= KILN_DTYPE_F64; dtype++) {
            fprintf(file, " %s |", !takes(info, dtype) ? "" : way != NULL ? "x" : "-");
        }
        fprintf(file, " %s |\n", !takes(info, KILN_DTYPE_Q8F) ? "" : way != NULL ? "x" : "-");
    }
}

static void write_markdown(FILE *file)
{
    fprintf(
        file,
        "# Operators\n\n<!-- %s -->\n<!-- %s -->\n\n"
        "A question mark stands for optional. `kiln_<name>` of `kiln_ops.h` records the operator;\n"
        "`kiln ops` prints this table. The number is permanent and stands in the fuser ABI.\n",
        licence, origin);
    for (int cls = KILN_CLASS_ELEMENTWISE; cls <= KILN_CLASS_CUSTOM; cls++) {
        const char *name = class_name((kiln_op_class)cls);
        fprintf(file,
                "\n## %c%s\n\n| operator | number | inputs | attributes | takes | gives | "
                "meaning |\n"
                "|---|---|---|---|---|---|---|\n",
                toupper((unsigned char)name[0]), name + 1);
        for (int op = 0; op < KILN_OP_COUNT; op++) {
            const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
            if (info->cls == (kiln_op_class)cls) {
                write_markdown_row(file, info);
            }
        }
    }
    write_coverage(file);
    write_gradients(file);
    fprintf(file, "\n## Attributes\n\n| attribute | number | meaning |\n|---|---|---|\n");
    for (int key = 1; key < KILN_KEY_LIMIT; key++) {
        if (kiln_attr_name((kiln_attr_key)key) != NULL) {
            fprintf(file, "| `%s` | %d | %s |\n", kiln_attr_name((kiln_attr_key)key), key,
                    kiln_attr_doc((kiln_attr_key)key));
        }
    }
}

static void write_golden(FILE *file)
{
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        fprintf(file, "%u %s ", info->wire, info->name);
        print_inputs(file, info->signature);
        fprintf(file, "; ");
        print_attr_names(file, info->signature);
        fprintf(file, "\n");
    }
}

int main(int argc, char **argv)
{
    static const gen_output outputs[] = {
        {"builders-h", write_builders_header},
        {"builders-c", write_builders_source},
        {"fuser-h", write_fuser_header},
        {"markdown", write_markdown},
        {"golden", write_golden},
    };
    return gen_main(argc, argv, outputs, sizeof(outputs) / sizeof(outputs[0]));
}
