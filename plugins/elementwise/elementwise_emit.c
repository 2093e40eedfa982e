// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the kernel's text: `fused` computes one vector from loaded vectors and is written once;
// the kernel around it walks the iteration space in one of three ways (ew_layout): linear, in rows,
// or lane by lane.
//
// Names: pI inputs, qI outputs, oI offsets, tI_G strides, aK scalars, eG extents of merged axes;
// nJ and wJ length and stride of x along a gather's axis; xI, sK, yI the vectors of inputs, scalars
// and outputs; vN values inside `fused`.
#include "elementwise_internal.h"

typedef struct emitter {
    kf_text *text;
    const ew_block *block;
    const ew_layout *layout;
    const kf_chain_device *device;
} emitter;

static const kf_chain_value *input_of(const emitter *e, uint32_t i)
{
    return &e->block->chain.values[e->layout->inputs[i]];
}

static kf_dtype input_dtype(const emitter *e, uint32_t i)
{
    return kf_dtype_of(input_of(e, i)->dtype);
}

static kf_dtype output_dtype(const emitter *e, uint32_t i)
{
    return kf_dtype_of(e->block->chain.values[e->layout->outputs[i]].dtype);
}

/// Is input i given to `fused` as it is? Operands of gathers are not, their results are.
static uint32_t is_plain(const emitter *e, uint32_t i)
{
    return ew_gather_of(e->block, e->layout->inputs[i]) == KF_NONE;
}

static uint32_t input_with(const emitter *e, uint32_t value)
{
    uint32_t i = 0;
    while (e->layout->inputs[i] != value) {
        i++;
    }
    return i;
}

// ---- the computation ----

static void emit_fused(const emitter *e)
{
    const char *comma = "";
    kf_text_add(e->text, "static inline void fused(");
    if (e->block->n_draws > 0) {
        kf_text_add(e->text, "const long at");
        comma = ", ";
    }
    for (uint32_t i = 0; i < e->block->n_draws && e->device->block_shape; i++) {
        kf_text_addf(e->text, ", random_ahead *d%u", i);
    }
    for (uint32_t i = 0; i < e->layout->n_inputs; i++) {
        if (is_plain(e, i)) {
            kf_text_addf(e->text, "%sconst %s%u v%u", comma, input_dtype(e, i).compute,
                         e->layout->width, e->layout->inputs[i]);
            comma = ", ";
        }
    }
    for (uint32_t i = 0; i < e->block->n_gathers; i++) {
        uint32_t value = e->block->gathers[i].result;
        kf_text_addf(e->text, "%sconst %s%u v%u", comma,
                     kf_dtype_of(e->block->chain.values[value].dtype).compute, e->layout->width,
                     value);
        comma = ", ";
    }
    for (uint32_t i = 0; i < e->block->chain.n_numbers; i++) {
        kf_text_addf(e->text, "%sconst %s%u s%u", comma,
                     kf_dtype_of(e->block->chain.numbers[i].dtype).compute, e->layout->width, i);
        comma = ", ";
    }
    for (uint32_t i = 0; i < e->layout->n_outputs; i++) {
        kf_text_addf(e->text, "%s%s%u *y%u", comma, output_dtype(e, i).compute, e->layout->width,
                     i);
        comma = ", ";
    }
    kf_text_add(e->text, ") {\n");
    for (uint32_t i = 0; i < e->block->chain.n_ops; i++) {
        const kf_chain_op *op = &e->block->chain.ops[i];
        if (op->row == NULL && op->kind >= EW_GATHER) {
            continue;
        }
        if (op->row == NULL) {
            ew_draw_text(e->text, e->block, op, e->layout->width, e->device->block_shape);
        } else {
            kf_chain_op_text(e->text, &e->block->chain, op, e->layout->width, "    ");
        }
    }
    for (uint32_t i = 0; i < e->layout->n_outputs; i++) {
        kf_text_addf(e->text, "    *y%u = v%u;\n", i, e->layout->outputs[i]);
    }
    kf_text_add(e->text, "}\n");
}

// ---- parameters ----

static void emit_param(const emitter *e, const ew_param *param)
{
    switch (param->kind) {
    case EW_PARAM_INPUT:
        kf_text_addf(e->text, "__global const %s *p%u", input_dtype(e, param->index).storage,
                     param->index);
        break;
    case EW_PARAM_OUTPUT:
        kf_text_addf(e->text, "__global %s *q%u", output_dtype(e, param->index).storage,
                     param->index);
        break;
    case EW_PARAM_OFFSET:
        kf_text_addf(e->text, "const idx o%u", param->index);
        break;
    case EW_PARAM_STRIDE:
        kf_text_addf(e->text, "const idx t%u_%u", param->index, param->axis);
        break;
    case EW_PARAM_SCALAR:
        kf_text_addf(e->text, "const %s a%u",
                     kf_chain_number_type(&e->block->chain.numbers[param->index]), param->index);
        break;
    case EW_PARAM_EXTENT:
        kf_text_addf(e->text, "const idx e%u", param->index);
        break;
    case EW_PARAM_LENGTH:
        kf_text_addf(e->text, "const idx n%u", param->index);
        break;
    case EW_PARAM_PACE:
        kf_text_addf(e->text, "const idx w%u", param->index);
        break;
    case EW_PARAM_COUNT:
        kf_text_add(e->text, "const idx n");
        break;
    case EW_PARAM_CHUNK:
        kf_text_add(e->text, "const idx chunk");
        break;
    }
}

static void emit_signature(const emitter *e)
{
    ew_param param;
    kf_text_add(e->text, "__kernel void kiln_elementwise(");
    for (uint32_t n = 0; ew_param_at(e->block, e->layout, n, &param); n++) {
        if (param.kind == EW_PARAM_CHUNK && !e->device->block_shape) {
            break;
        }
        kf_text_add(e->text, n == 0 ? "" : ", ");
        emit_param(e, &param);
    }
    kf_text_add(e->text, ") {\n");
}

static void emit_start(const emitter *e)
{
    for (uint32_t i = 0; i < e->block->n_draws && e->device->block_shape; i++) {
        kf_text_addf(e->text, "    random_ahead d%u;\n    d%u.from = RANDOM_NONE;\n", i, i);
    }
    kf_chain_numbers(e->text, &e->block->chain, e->layout->width);
    for (uint32_t i = 0; i < e->layout->n_inputs; i++) {
        if (!input_of(e, i)->zero_offset) {
            kf_text_addf(e->text, "    p%u += o%u;\n", i, i);
        }
    }
}

// ---- gathers ----

static void emit_distance(const emitter *e, uint32_t i);
static uint32_t repeats(const emitter *e, uint32_t input);

/// The step of input i along the inner merged axis, as text.
static void inner_step(const emitter *e, uint32_t i, char *out, size_t size)
{
    uint32_t inner = e->layout->n_groups - 1;
    if (repeats(e, i)) {
        snprintf(out, size, "0");
    } else if (ew_layout_step(e->layout, e->block, input_of(e, i), inner) == EW_STEP_DENSE) {
        snprintf(out, size, "1");
    } else {
        snprintf(out, size, "t%u_%u", i, inner);
    }
}

/// The vectors zJ of gathers at element `i`, where the row's inputs start at r_pI and element `at`:
/// a whole line of x where the index stands still along it, else lane by lane.
static void emit_gathers(const emitter *e, const char *indent, uint32_t partial)
{
    char count[16], along[24], step[24];
    snprintf(count, sizeof(count), partial ? "count" : "%u", e->layout->width);
    for (uint32_t g = 0; g < e->block->n_gathers && !e->layout->per_lane; g++) {
        const ew_gather *gather = &e->block->gathers[g];
        uint32_t x = input_with(e, gather->x), indices = input_with(e, gather->indices);
        kf_dtype dtype = input_dtype(e, x);
        inner_step(e, x, along, sizeof(along));
        inner_step(e, indices, step, sizeof(step));
        if (repeats(e, indices)) {
            kf_text_addf(e->text, "%sconst %s%u z%u = take_%s(g%u + (i - at) * %s, %s, %s);\n",
                         indent, dtype.compute, e->layout->width, g, dtype.name, g, along, along,
                         count);
            continue;
        }
        kf_text_addf(e->text,
                     "%s%s l%u[%u];\n%sfor (int k = 0; k < %u; k++) {\n"
                     "%s    const idx j = (k < %s ? i + k : i) - at;\n"
                     "%s    l%u[k] = one_%s(r_p%u + j * %s + place_of((long)r_p%u[j * %s], "
                     "(long)n%u) * w%u);\n%s}\n",
                     indent, dtype.compute, x, e->layout->width, indent, e->layout->width, indent,
                     count, indent, x, dtype.name, x, along, indices, step, g, g, indent);
        kf_text_addf(e->text, "%sconst %s%u z%u = vload%u(0, l%u);\n", indent, dtype.compute,
                     e->layout->width, g, e->layout->width, x);
    }
}

/// Where the operands of gathers start in a row.
static void emit_gather_starts(const emitter *e, const char *indent)
{
    for (uint32_t g = 0; g < e->block->n_gathers; g++) {
        const ew_gather *gather = &e->block->gathers[g];
        const uint32_t operands[] = {input_with(e, gather->x), input_with(e, gather->indices)};
        for (uint32_t k = 0; k < 2; k++) {
            kf_text_addf(e->text, "%s__global const %s *r_p%u = p%u + ", indent,
                         input_dtype(e, operands[k]).storage, operands[k], operands[k]);
            emit_distance(e, operands[k]);
            kf_text_add(e->text, ";\n");
        }
        if (repeats(e, operands[1])) {
            kf_text_addf(e->text,
                         "%s__global const %s *g%u = r_p%u + place_of((long)*r_p%u, (long)n%u) * "
                         "w%u;\n",
                         indent, input_dtype(e, operands[0]).storage, g, operands[0], operands[1],
                         g, g);
        }
    }
}

// ---- one vector ----

/// Calls `fused` on what the macros load, and stores. `load` gives the text of input i's vector.
static void emit_call(const emitter *e, const char *indent,
                      void (*load)(const emitter *e, uint32_t input, uint32_t partial),
                      uint32_t partial, const char *at)
{
    const char *comma = "";
    for (uint32_t i = 0; i < e->layout->n_outputs; i++) {
        kf_text_addf(e->text, "%s%s%u y%u;\n", indent, output_dtype(e, i).compute, e->layout->width,
                     i);
    }
    emit_gathers(e, indent, partial);
    kf_text_addf(e->text, "%sfused(", indent);
    if (e->block->n_draws > 0) {
        kf_text_add(e->text, "i");
        comma = ", ";
    }
    for (uint32_t i = 0; i < e->block->n_draws && e->device->block_shape; i++) {
        kf_text_addf(e->text, ", &d%u", i);
    }
    for (uint32_t i = 0; i < e->layout->n_inputs; i++) {
        if (is_plain(e, i)) {
            kf_text_add(e->text, comma);
            load(e, i, partial);
            comma = ", ";
        }
    }
    for (uint32_t i = 0; i < e->block->n_gathers; i++) {
        kf_text_addf(e->text, "%sz%u", comma, i);
        comma = ", ";
    }
    for (uint32_t i = 0; i < e->block->chain.n_numbers; i++) {
        kf_text_addf(e->text, "%ss%u", comma, i);
        comma = ", ";
    }
    for (uint32_t i = 0; i < e->layout->n_outputs; i++) {
        kf_text_addf(e->text, "%s&y%u", comma, i);
        comma = ", ";
    }
    kf_text_add(e->text, ");\n");
    for (uint32_t i = 0; i < e->layout->n_outputs; i++) {
        const char *stream = e->layout->stream != 0 ? "stream" : "0";
        kf_text_addf(e->text, "%s%s_%s(q%u + %s, y%u, %s);\n", indent, partial ? "put" : "keep",
                     output_dtype(e, i).name, i, at, i, partial ? "count" : stream);
    }
}

// ---- linear ----

static uint32_t repeats(const emitter *e, uint32_t input)
{
    return e->layout->n_groups == 0 || ew_layout_step(e->layout, e->block, input_of(e, input),
                                                      e->layout->n_groups - 1) == EW_STEP_REPEAT;
}

static void load_linear(const emitter *e, uint32_t i, uint32_t partial)
{
    if (repeats(e, i)) {
        kf_text_addf(e->text, "x%u", i);
    } else if (partial) {
        kf_text_addf(e->text, "part_%s(p%u + i, 1, count)", input_dtype(e, i).name, i);
    } else {
        kf_text_addf(e->text, "load_%s(p%u + i)", input_dtype(e, i).name, i);
    }
}

static void emit_chunk_bounds(const emitter *e)
{
    kf_text_add(e->text, "    const idx first = (idx)get_global_id(0) * chunk;\n"
                         "    const idx last = n - first < chunk ? n : first + chunk;\n");
}

static void emit_item_bounds(const emitter *e)
{
    kf_text_addf(e->text,
                 "    const size_t item = get_global_id(0) * %u;\n"
                 "    if (item >= (size_t)n) {\n"
                 "        return;\n"
                 "    }\n"
                 "    const idx i = (idx)item;\n",
                 e->layout->width);
}

static void emit_ahead(const emitter *e)
{
    for (uint32_t i = 0; i < e->layout->n_inputs; i++) {
        if (!repeats(e, i) && is_plain(e, i)) {
            kf_ew_ahead(e->text, i, input_dtype(e, i).bytes, e->layout->width);
        }
    }
}

/// The vector at `i`, or what there is of it.
static void emit_one(const emitter *e, const char *indent, const char *deeper)
{
    kf_text_addf(e->text, "%sif (n - i >= %u) {\n", indent, e->layout->width);
    emit_call(e, deeper, load_linear, 0, "i");
    kf_text_addf(e->text, "%s} else {\n%sconst int count = (int)(n - i);\n", indent, deeper);
    emit_call(e, deeper, load_linear, 1, "i");
    kf_text_addf(e->text, "%s}\n", indent);
}

static void load_first(const emitter *e, uint32_t i, uint32_t partial)
{
    (void)partial;
    kf_text_addf(e->text, "%s%u", repeats(e, i) ? "x" : "e", i);
}

static void load_second(const emitter *e, uint32_t i, uint32_t partial)
{
    (void)partial;
    kf_text_addf(e->text, "%s%u", repeats(e, i) ? "x" : "f", i);
}

/// Two vectors that lie a work-group's vectors apart, both asked for before the first is computed.
static void emit_pair(const emitter *e)
{
    uint32_t width = e->layout->width;
    kf_text_addf(e->text,
                 "    const size_t step = get_local_size(0) * %u;\n"
                 "    const size_t item = get_group_id(0) * step * 2 + get_local_id(0) * %u;\n"
                 "    if (item + step + %u <= (size_t)n) {\n"
                 "        const idx i = (idx)item, k = (idx)(item + step);\n",
                 width, width, width);
    for (uint32_t i = 0; i < e->layout->n_inputs; i++) {
        kf_dtype dtype = input_dtype(e, i);
        if (!repeats(e, i)) {
            kf_text_addf(e->text,
                         "        const %s%u e%u = load_%s(p%u + i), f%u = load_%s(p%u + k);\n",
                         dtype.compute, width, i, dtype.name, i, i, dtype.name, i);
        }
    }
    kf_text_add(e->text, "        {\n");
    emit_call(e, "            ", load_first, 0, "i");
    kf_text_add(e->text, "        }\n");
    emit_call(e, "        ", load_second, 0, "k");
    kf_text_add(e->text,
                "        return;\n    }\n"
                "    for (size_t at = item; at < (size_t)n && at <= item + step; at += step) {\n"
                "        const idx i = (idx)at;\n");
    emit_one(e, "        ", "            ");
    kf_text_add(e->text, "    }\n");
}

static void emit_linear(const emitter *e)
{
    uint32_t width = e->layout->width;
    for (uint32_t i = 0; i < e->layout->n_inputs; i++) {
        if (repeats(e, i) && is_plain(e, i)) {
            kf_text_addf(e->text, "    const %s%u x%u = (%s%u)(one_%s(p%u));\n",
                         input_dtype(e, i).compute, width, i, input_dtype(e, i).compute, width,
                         input_dtype(e, i).name, i);
        }
    }
    if (e->device->block_shape) {
        if (e->layout->stream != 0) {
            kf_text_addf(e->text, "    const int stream = n >= %u;\n", e->layout->stream);
        }
        emit_chunk_bounds(e);
        kf_text_addf(e->text, "    idx i = first;\n    for (; i <= last - %u; i += %u) {\n", width,
                     width);
        emit_ahead(e);
        emit_call(e, "        ", load_linear, 0, "i");
        kf_text_add(e->text, "    }\n    if (i < last) {\n"
                             "        const int count = (int)(last - i);\n");
        emit_call(e, "        ", load_linear, 1, "i");
        kf_text_add(e->text, "    }\n");
        return;
    }
    if (e->layout->pairs) {
        emit_pair(e);
        return;
    }
    emit_item_bounds(e);
    emit_one(e, "    ", "        ");
}

// ---- rows and lanes ----

/// Takes `from` apart into coordinates c0 ... of the outer merged axes and `col` of the inner one.
static void emit_coordinates(const emitter *e, const char *indent, const char *from)
{
    uint32_t inner = e->layout->n_groups - 1;
    if (inner == 0) {
        kf_text_addf(e->text, "%sconst idx col = %s;\n", indent, from);
        return;
    }
    kf_text_addf(e->text, "%sconst idx r%u = %s / e%u, col = %s - r%u * e%u;\n", indent, inner,
                 from, inner, from, inner, inner);
    for (uint32_t g = inner - 1; g > 0; g--) {
        kf_text_addf(e->text, "%sconst idx r%u = r%u / e%u, c%u = r%u - r%u * e%u;\n", indent, g,
                     g + 1, g, g, g + 1, g, g);
    }
    kf_text_addf(e->text, "%sconst idx c0 = r1;\n", indent);
}

/// Writes the distance from p of input i's element at the coordinates.
static void emit_distance(const emitter *e, uint32_t i)
{
    const kf_chain_value *value = input_of(e, i);
    uint32_t inner = e->layout->n_groups - 1;
    const char *plus = "";
    for (uint32_t g = 0; g <= inner; g++) {
        ew_step step = ew_layout_step(e->layout, e->block, value, g);
        if (step == EW_STEP_REPEAT) {
            continue;
        }
        kf_text_addf(e->text, g == inner ? "%scol" : "%sc%u", plus, g);
        plus = " + ";
        if (step == EW_STEP_STRIDED) {
            kf_text_addf(e->text, " * t%u_%u", i, g);
            continue;
        }
        for (uint32_t right = g + 1; right <= inner; right++) {
            if (ew_layout_step(e->layout, e->block, value, right) != EW_STEP_REPEAT) {
                kf_text_addf(e->text, " * e%u", right);
            }
        }
    }
    kf_text_add(e->text, *plus == '\0' ? "0" : "");
}

static void emit_row_start(const emitter *e, const char *indent)
{
    emit_gather_starts(e, indent);
    for (uint32_t i = 0; i < e->layout->n_inputs; i++) {
        kf_dtype dtype = input_dtype(e, i);
        if (!is_plain(e, i)) {
            continue;
        }
        if (repeats(e, i)) {
            kf_text_addf(e->text, "%sconst %s%u x%u = (%s%u)(one_%s(p%u + ", indent, dtype.compute,
                         e->layout->width, i, dtype.compute, e->layout->width, dtype.name, i);
            emit_distance(e, i);
            kf_text_add(e->text, "));\n");
            continue;
        }
        kf_text_addf(e->text, "%s__global const %s *r_p%u = p%u + ", indent, dtype.storage, i, i);
        emit_distance(e, i);
        kf_text_add(e->text, ";\n");
    }
}

static void load_row(const emitter *e, uint32_t i, uint32_t partial)
{
    uint32_t inner = e->layout->n_groups - 1;
    const char *name = input_dtype(e, i).name;
    char count[16];
    snprintf(count, sizeof(count), partial ? "count" : "%u", e->layout->width);
    if (repeats(e, i)) {
        kf_text_addf(e->text, "x%u", i);
    } else if (ew_layout_step(e->layout, e->block, input_of(e, i), inner) == EW_STEP_STRIDED) {
        kf_text_addf(e->text, "part_%s(r_p%u + (i - at) * t%u_%u, t%u_%u, %s)", name, i, i, inner,
                     i, inner, count);
    } else if (partial) {
        kf_text_addf(e->text, "part_%s(r_p%u + (i - at), 1, count)", name, i);
    } else {
        kf_text_addf(e->text, "load_%s(r_p%u + (i - at))", name, i);
    }
}

static void emit_rows(const emitter *e)
{
    uint32_t width = e->layout->width, inner = e->layout->n_groups - 1;
    if (!e->device->block_shape) {
        emit_item_bounds(e);
        kf_text_add(e->text, "    const idx at = i;\n");
        emit_coordinates(e, "    ", "i");
        emit_row_start(e, "    ");
        emit_call(e, "    ", load_row, 0, "i");
        return;
    }
    emit_chunk_bounds(e);
    kf_text_add(e->text, "    for (idx i = first; i < last;) {\n        const idx at = i;\n");
    emit_coordinates(e, "        ", "i");
    if (inner == 0) {
        kf_text_add(e->text, "        const idx stop = last;\n");
    } else {
        kf_text_addf(e->text,
                     "        const idx stop = last - i < e%u - col ? last : i + (e%u - col);\n",
                     inner, inner);
    }
    emit_row_start(e, "        ");
    kf_text_addf(e->text, "        for (; i <= stop - %u; i += %u) {\n", width, width);
    emit_call(e, "            ", load_row, 0, "i");
    kf_text_add(e->text, "        }\n        if (i < stop) {\n"
                         "            const int count = (int)(stop - i);\n");
    emit_call(e, "            ", load_row, 1, "i");
    kf_text_add(e->text, "            i = stop;\n        }\n    }\n");
}

static uint32_t is_whole(const emitter *e, uint32_t input)
{
    for (uint32_t g = 0; g < e->layout->n_groups; g++) {
        if (ew_layout_step(e->layout, e->block, input_of(e, input), g) != EW_STEP_DENSE) {
            return 0;
        }
    }
    return 1;
}

static void load_lanes(const emitter *e, uint32_t i, uint32_t partial)
{
    const char *name = input_dtype(e, i).name;
    if (!is_whole(e, i)) {
        kf_text_addf(e->text, "vload%u(0, l%u)", e->layout->width, i);
    } else if (partial) {
        kf_text_addf(e->text, "part_%s(p%u + i, 1, count)", name, i);
    } else {
        kf_text_addf(e->text, "load_%s(p%u + i)", name, i);
    }
}

static void emit_lane_gathers(const emitter *e)
{
    for (uint32_t g = 0; g < e->block->n_gathers; g++) {
        const ew_gather *gather = &e->block->gathers[g];
        uint32_t x = input_with(e, gather->x), indices = input_with(e, gather->indices);
        kf_text_addf(e->text, "        z_%u[k] = one_%s(p%u + ", g, input_dtype(e, x).name, x);
        emit_distance(e, x);
        kf_text_addf(e->text, " + place_of((long)p%u[", indices);
        emit_distance(e, indices);
        kf_text_addf(e->text, "], (long)n%u) * w%u);\n", g, g);
    }
}

static void emit_lanes(const emitter *e)
{
    uint32_t width = e->layout->width;
    emit_item_bounds(e);
    for (uint32_t i = 0; i < e->layout->n_inputs; i++) {
        if (!is_whole(e, i) && is_plain(e, i)) {
            kf_text_addf(e->text, "    %s l%u[%u];\n", input_dtype(e, i).compute, i, width);
        }
    }
    for (uint32_t g = 0; g < e->block->n_gathers; g++) {
        kf_text_addf(e->text, "    %s z_%u[%u];\n",
                     input_dtype(e, input_with(e, e->block->gathers[g].x)).compute, g, width);
    }
    kf_text_addf(e->text,
                 "    for (int k = 0; k < %u; k++) {\n"
                 "        const idx j = k < n - i ? i + k : n - 1;\n",
                 width);
    emit_coordinates(e, "        ", "j");
    for (uint32_t i = 0; i < e->layout->n_inputs; i++) {
        if (!is_whole(e, i) && is_plain(e, i)) {
            kf_text_addf(e->text, "        l%u[k] = one_%s(p%u + ", i, input_dtype(e, i).name, i);
            emit_distance(e, i);
            kf_text_add(e->text, ");\n");
        }
    }
    emit_lane_gathers(e);
    kf_text_addf(e->text, "    }\n");
    for (uint32_t g = 0; g < e->block->n_gathers; g++) {
        kf_text_addf(e->text, "    const %s%u z%u = vload%u(0, z_%u);\n",
                     input_dtype(e, input_with(e, e->block->gathers[g].x)).compute, width, g, width,
                     g);
    }
    kf_text_addf(e->text, "    if (n - i >= %u) {\n", width);
    emit_call(e, "        ", load_lanes, 0, "i");
    kf_text_add(e->text, "    } else {\n        const int count = (int)(n - i);\n");
    emit_call(e, "        ", load_lanes, 1, "i");
    kf_text_add(e->text, "    }\n");
}

void ew_emit_kernel(kf_text *text, const ew_block *block, const ew_layout *layout,
                    const kf_chain_device *device)
{
    const emitter e = {text, block, layout, device};
    uint64_t read = 0, written = 0;
    for (uint32_t i = 0; i < layout->n_inputs; i++) {
        read |= 1ull << input_of(&e, i)->dtype;
    }
    for (uint32_t i = 0; i < layout->n_outputs; i++) {
        written |= 1ull << block->chain.values[layout->outputs[i]].dtype;
    }
    kf_chain_functions(text, &block->chain, layout->width, layout->wide, read, written,
                       layout->stream != 0);
    ew_draw_functions(text, block, layout->width, device->block_shape);
    ew_gather_functions(text, block, layout->width);
    if (layout->linear && device->block_shape) {
        kf_ew_ahead_macro(text);
    }
    emit_fused(&e);
    emit_signature(&e);
    emit_start(&e);
    if (layout->linear) {
        emit_linear(&e);
    } else if (layout->per_lane) {
        emit_lanes(&e);
    } else {
        emit_rows(&e);
    }
    kf_text_add(text, "}\n");
}
