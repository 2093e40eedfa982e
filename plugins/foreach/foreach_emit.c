// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the kernel's text: which member and which part of it a work-group does, the member's
// tensors and numbers, and the form's computation over vectors.
//
// Names: pL_M, oL_M, aN_M parameters of member M (pL, oL of common tensors), nC elements of class
// C; pL, aN what the work-group's member has; xL single elements, sN numbers, vL values.
#include "foreach_internal.h"

typedef struct emitter {
    kf_text *text;
    const fe_split *split;
    const kf_chain *form;
    fe_shape shape;
} emitter;

static kf_dtype dtype_of(const emitter *e, uint32_t local)
{
    return kf_dtype_of(e->split->locals[local].dtype);
}

static uint32_t is_input(const emitter *e, uint32_t local)
{
    return !e->split->locals[local].computed;
}

/// The type behind the pointer to a value in memory.
static void emit_pointer(const emitter *e, uint32_t local)
{
    kf_text_addf(e->text, "__global %s%s *", is_input(e, local) ? "const " : "",
                 dtype_of(e, local).storage);
}

// ---- parameters ----

static void emit_name(const emitter *e, const char *letter, const fe_param *param)
{
    uint32_t common = param->kind != FE_PARAM_SCALAR && e->split->locals[param->local].common;
    kf_text_addf(e->text, "%s%u", letter, (unsigned)param->local);
    if (!common) {
        kf_text_addf(e->text, "_%u", (unsigned)param->member);
    }
}

static void emit_param(const emitter *e, const fe_param *param)
{
    switch (param->kind) {
    case FE_PARAM_TENSOR:
        emit_pointer(e, param->local);
        emit_name(e, "p", param);
        break;
    case FE_PARAM_OFFSET:
        kf_text_add(e->text, "const idx ");
        emit_name(e, "o", param);
        break;
    case FE_PARAM_SCALAR:
        kf_text_addf(e->text, "const %s ", kf_chain_number_type(&e->form->numbers[param->local]));
        emit_name(e, "a", param);
        break;
    default:
        kf_text_addf(e->text, "const idx n%u", (unsigned)param->local);
        break;
    }
}

static void emit_signature(const emitter *e)
{
    kf_text_add(e->text, "__kernel ");
    if (e->shape.local > 1) {
        kf_text_addf(e->text, "__attribute__((reqd_work_group_size(%u, 1, 1)))\n", e->shape.local);
    }
    kf_text_add(e->text, "void kiln_foreach(");
    for (uint32_t i = 0; i < e->split->n_params; i++) {
        kf_text_add(e->text, i == 0 ? "" : ", ");
        emit_param(e, &e->split->params[i]);
    }
    kf_text_add(e->text, ") {\n");
}

// ---- who does what ----

/// The work-group's number counts on through the classes, and within one through its members.
static void emit_place(const emitter *e)
{
    const fe_split *split = e->split;
    kf_text_addf(e->text,
                 "    idx at = (idx)get_group_id(0), n = n0, parts = (n - 1) / %u + 1;\n"
                 "    int k = 0;\n",
                 e->shape.chunk);
    for (uint32_t c = 1; c < split->n_classes; c++) {
        uint32_t before = split->class_size[c - 1];
        kf_text_addf(e->text,
                     "    if (at >= parts * %u) {\n"
                     "    at -= parts * %u;\n"
                     "    k += %u;\n"
                     "    n = n%u;\n"
                     "    parts = (n - 1) / %u + 1;\n",
                     before, before, before, c, e->shape.chunk);
    }
    for (uint32_t c = 1; c < split->n_classes; c++) {
        kf_text_add(e->text, "    }\n");
    }
    kf_text_addf(e->text,
                 "    k += (int)(at / parts);\n"
                 "    const idx first = at %% parts * %u;\n"
                 "    const idx last = n - first < %u ? n : first + %u;\n",
                 e->shape.chunk, e->shape.chunk, e->shape.chunk);
}

/// Which parameters are chosen by the member.
static uint32_t is_chosen(const emitter *e, const fe_param *param)
{
    return param->kind == FE_PARAM_SCALAR ||
           (param->kind == FE_PARAM_TENSOR && !e->split->locals[param->local].common);
}

static void emit_choice(const emitter *e, uint32_t member)
{
    for (uint32_t i = 0; i < e->split->n_params; i++) {
        const fe_param *param = &e->split->params[i];
        if (param->member != member || !is_chosen(e, param)) {
            continue;
        }
        const char *letter = param->kind == FE_PARAM_SCALAR ? "a" : "p";
        kf_text_addf(e->text, "        %s%u = ", letter, (unsigned)param->local);
        emit_name(e, letter, param);
        if (param->kind == FE_PARAM_TENSOR && e->split->locals[param->local].offset) {
            kf_text_add(e->text, " + ");
            emit_name(e, "o", param);
        }
        kf_text_add(e->text, ";\n");
    }
}

static void emit_member(const emitter *e)
{
    const fe_split *split = e->split;
    for (uint32_t i = 0; i < split->n_params; i++) {
        const fe_param *param = &split->params[i];
        if (param->member != 0 || !is_chosen(e, param)) {
            continue;
        }
        kf_text_add(e->text, "    ");
        if (param->kind == FE_PARAM_TENSOR) {
            emit_pointer(e, param->local);
            kf_text_addf(e->text, "p%u;\n", (unsigned)param->local);
        } else {
            kf_text_addf(e->text, "%s a%u;\n",
                         kf_chain_number_type(&e->form->numbers[param->local]),
                         (unsigned)param->local);
        }
    }
    kf_text_add(e->text, "    switch (k) {\n");
    for (uint32_t i = 0; i < split->n_members; i++) {
        kf_text_addf(e->text, i + 1 < split->n_members ? "    case %u:\n" : "    default:\n", i);
        emit_choice(e, split->order[i]);
        kf_text_add(e->text, "        break;\n");
    }
    kf_text_add(e->text, "    }\n");
}

/// Numbers and single elements as vectors.
static void emit_start(const emitter *e)
{
    kf_chain_numbers(e->text, e->form, e->shape.width);
    for (uint32_t l = 0; l < e->split->n_values; l++) {
        const fe_local *local = &e->split->locals[l];
        kf_dtype dtype = dtype_of(e, l);
        if (is_input(e, l) && local->common && local->offset) {
            kf_text_addf(e->text, "    p%u += o%u;\n", l, l);
        }
        if (local->repeat && is_input(e, l)) {
            kf_text_addf(e->text, "    const %s%u x%u = (%s%u)(one_%s(p%u));\n", dtype.compute,
                         e->shape.width, l, dtype.compute, e->shape.width, dtype.name, l);
        }
    }
}

// ---- one vector ----

static void emit_load(const emitter *e, uint32_t local, uint32_t partial)
{
    kf_dtype dtype = dtype_of(e, local);
    kf_text_addf(e->text, "        const %s%u v%u = ", dtype.compute, e->shape.width, local);
    if (e->split->locals[local].repeat) {
        kf_text_addf(e->text, "x%u;\n", local);
    } else if (partial) {
        kf_text_addf(e->text, "part_%s(p%u + i, 1, count);\n", dtype.name, local);
    } else {
        kf_text_addf(e->text, "load_%s(p%u + i);\n", dtype.name, local);
    }
}

static void emit_ahead(const emitter *e)
{
    for (uint32_t l = 0; l < e->split->n_values; l++) {
        if (is_input(e, l) && !e->split->locals[l].repeat) {
            kf_ew_ahead(e->text, l, dtype_of(e, l).bytes, e->shape.width);
        }
    }
}

static void emit_vector(const emitter *e, uint32_t partial)
{
    for (uint32_t l = 0; l < e->split->n_values; l++) {
        if (is_input(e, l)) {
            emit_load(e, l, partial);
        }
    }
    for (uint32_t i = 0; i < e->form->n_ops; i++) {
        kf_chain_op_text(e->text, e->form, &e->form->ops[i], e->shape.width, "        ");
    }
    for (uint32_t l = 0; l < e->split->n_values; l++) {
        if (e->split->locals[l].output) {
            kf_text_addf(e->text, "        %s_%s(p%u + i, v%u, %s);\n", partial ? "put" : "keep",
                         dtype_of(e, l).name, l, l, partial ? "count" : "0");
        }
    }
}

static void emit_loop(const emitter *e)
{
    uint32_t width = e->shape.width;
    if (e->shape.local == 1) {
        kf_text_addf(e->text, "    idx i = first;\n    for (; i <= last - %u; i += %u) {\n", width,
                     width);
        emit_ahead(e);
        emit_vector(e, 0);
        kf_text_add(e->text, "    }\n    if (i < last) {\n"
                             "        const int count = (int)(last - i);\n");
        emit_vector(e, 1);
        kf_text_add(e->text, "    }\n");
        return;
    }
    kf_text_addf(e->text,
                 "    for (idx i = first + (idx)get_local_id(0) * %u; i < last; i += %u) {\n"
                 "    if (last - i >= %u) {\n",
                 width, width * e->shape.local, width);
    emit_vector(e, 0);
    kf_text_add(e->text, "    } else {\n        const int count = (int)(last - i);\n");
    emit_vector(e, 1);
    kf_text_add(e->text, "    }\n    }\n");
}

void fe_emit_kernel(kf_text *text, const fe_split *split, const kf_chain *form,
                    const kf_chain_device *device)
{
    const emitter e = {text, split, form, fe_shape_of(device)};
    uint64_t read = 0, written = 0;
    for (uint32_t l = 0; l < split->n_values; l++) {
        read |= is_input(&e, l) ? 1ull << split->locals[l].dtype : 0;
        written |= split->locals[l].output ? 1ull << split->locals[l].dtype : 0;
    }
    kf_chain_functions(text, form, e.shape.width, split->wide, read, written, 0);
    if (e.shape.local == 1) {
        kf_ew_ahead_macro(text);
    }
    emit_signature(&e);
    emit_place(&e);
    emit_member(&e);
    emit_start(&e);
    emit_loop(&e);
    kf_text_add(text, "}\n");
}
