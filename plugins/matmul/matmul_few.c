// SPDX-License-Identifier: MIT OR Apache-2.0
// Few rows by a matrix, on item shapes. The matrix is read once, as it lies, by vectors of 16
// bytes, several of a work-item on their way at a time. A work-group has some rows, some columns
// and a part of the sum. `side` of its work-items are beside each other:
//   COLUMNS  they have vectors of columns beside each other, and those behind them have the same
//            columns with other terms
//   TEAM     they have the same columns and vectors along the sum beside each other, and those
//            behind them other columns
// The sums of those who share columns meet in local memory, where half of them give theirs to the
// other half until one has all. A work-item adds its terms one by one in their order, so the order
// is the same whether vectors are whole and aligned or not.
//
// Whole vectors are added several at a time, while as many more are on their way, in the form in
// which they are stored. Those that are not whole, or not aligned, are added one by one.
#include "matmul_internal.h"

enum { PIECE_BYTES = 16 }; // of an aligned load

/// Where the terms of a row come from: read before, whole in memory, or perhaps not whole.
typedef enum term_source { TERMS_ASKED, TERMS_WHOLE, TERMS_ANY } term_source;

static kf_dtype source_type(const mm_plan *plan, const mm_operand *operand)
{
    return kf_dtype_of(plan->block->chain.values[operand->source].dtype);
}

// ---- functions ----

/// Type of a vector as it is stored: elements of 16 bits as words, four of which are one load.
static void stored_type(const mm_plan *plan, kf_dtype dtype, char name[32])
{
    uint32_t words = plan->width / 2;
    if (dtype.bytes == 2) {
        snprintf(name, 32, words > 1 ? "uint%u" : "uint", words);
    } else {
        snprintf(name, 32, "%s%u", dtype.storage, plan->width);
    }
}

/// stored_x(p): a vector, of pieces that are aligned as their size.
static void emit_stored_function(kf_text *text, const mm_plan *plan, kf_dtype dtype)
{
    uint32_t w = plan->width;
    uint32_t piece = w * dtype.bytes > PIECE_BYTES ? PIECE_BYTES / dtype.bytes : w;
    char type[32];
    stored_type(plan, dtype, type);
    kf_text_addf(text, "static inline %s stored_%s(__global const %s *p) {\n", type, dtype.name,
                 dtype.storage);
    if (piece == w) {
        kf_text_addf(text, "    return *(__global const %s *)p;\n}\n", type);
        return;
    }
    kf_text_addf(text,
                 "    __global const %s%u *v = (__global const %s%u *)p;\n"
                 "    return (%s)(v[0]",
                 dtype.storage, piece, dtype.storage, piece, type);
    for (uint32_t i = 1; i < w / piece; i++) {
        kf_text_addf(text, ", v[%u]", i);
    }
    kf_text_add(text, ");\n}\n");
}

/// whole_x(v): the values of a vector as it is stored.
static void emit_whole_function(kf_text *text, const mm_plan *plan, kf_dtype dtype)
{
    static const char *const parts = "xyzw";
    char type[32];
    stored_type(plan, dtype, type);
    if (dtype.id == KF_DTYPE_F16) {
        kf_text_add(text, "static inline float2 pair_f16(uint bits) {\n"
                          "    return vload_half2(0, (const __private half *)&bits);\n}\n");
    } else if (dtype.id == KF_DTYPE_BF16) {
        kf_text_add(text, "static inline float2 pair_bf16(uint bits) {\n"
                          "    return as_float2((uint2)(bits << 16, bits & 0xffff0000u));\n}\n");
    }
    kf_text_addf(text, "static inline %s%u whole_%s(%s v) {\n    return ", dtype.compute,
                 plan->width, dtype.name, type);
    if (dtype.bytes != 2) {
        kf_text_add(text, "v;\n}\n");
        return;
    }
    kf_text_addf(text, "(%s%u)(", dtype.compute, plan->width);
    for (uint32_t i = 0; i < plan->width / 2; i++) {
        kf_text_addf(text, "%spair_%s(v", i == 0 ? "" : ", ", dtype.name);
        kf_text_addf(text, plan->width > 2 ? ".%c)" : ")", parts[i]);
    }
    kf_text_add(text, ");\n}\n");
}

void mm_emit_few_functions(kf_text *text, const mm_plan *plan)
{
    kf_dtype left = source_type(plan, &plan->block->left);
    kf_dtype right = source_type(plan, &plan->block->right);
    emit_stored_function(text, plan, right);
    emit_whole_function(text, plan, right);
    if (plan->form == MM_FORM_COLUMNS) {
        kf_text_add(text, "#define ADD_TERMS MULADD\n");
        return;
    }
    if (left.id != right.id) {
        emit_stored_function(text, plan, left);
        emit_whole_function(text, plan, left);
    }
    kf_text_addf(text, "static inline %s ADD_TERMS(%s%u x, %s%u y, %s sum) {\n", plan->type,
                 plan->type, plan->width, plan->type, plan->width, plan->type);
    for (uint32_t i = 0; i < plan->width; i++) {
        kf_text_addf(text, "    sum = MULADD(x.s%u, y.s%u, sum);\n", i, i);
    }
    kf_text_add(text, "    return sum;\n}\n");
}

// ---- vectors ----

/// Declares `name`, what the prologue of an operand makes of the vector `read`.
static void emit_made(kf_text *text, const mm_plan *plan, const mm_operand *operand,
                      const char *name, const char *read)
{
    kf_text_addf(text,
                 "        %s%u %s;\n"
                 "        {\n"
                 "            const %s%u v%u = %s;\n",
                 plan->type, plan->width, name, source_type(plan, operand).compute, plan->width,
                 operand->source, read);
    mm_emit_prologue(text, plan, operand, "            ");
    kf_text_addf(text, "            %s = v%u;\n        }\n", name, operand->value);
}

/// Are the terms of the rows asked for ahead, too? Those of one row only, for which there are
/// registers.
static uint32_t asks_terms(const mm_plan *plan)
{
    const mm_operand *left = &plan->block->left;
    char step[32];
    mm_stride_name(plan, left->source, left->inner, step);
    return plan->rows == 1 && (plan->form == MM_FORM_COLUMNS || strcmp(step, "1") == 0);
}

/// Type of these as they are stored.
static void terms_type(const mm_plan *plan, char name[32])
{
    kf_dtype dtype = source_type(plan, &plan->block->left);
    if (plan->form == MM_FORM_TEAM) {
        stored_type(plan, dtype, name);
    } else {
        snprintf(name, 32, "%s", dtype.bytes == 2 ? "ushort" : dtype.storage);
    }
}

/// Declares xU_R: the terms of row r that vector u of the matrix meets.
static void emit_row_terms(kf_text *text, const mm_plan *plan, uint32_t u, uint32_t r,
                           term_source from)
{
    const mm_operand *left = &plan->block->left;
    kf_dtype dtype = source_type(plan, left);
    char step[32], name[16], place[64], read[160];
    mm_stride_name(plan, left->source, left->inner, step);
    snprintf(name, sizeof(name), "x%u_%u", u, r);
    snprintf(place, sizeof(place), "terms%u + t%u * (long)%s", r, u, step);
    if (plan->form == MM_FORM_COLUMNS && from == TERMS_ASKED) {
        snprintf(place, sizeof(place), dtype.bytes == 2 ? "value_%s(had%u)" : "%.0shad%u",
                 dtype.name, u);
        snprintf(read, sizeof(read), "(%s%u)(%s)", dtype.compute, plan->width, place);
    } else if (plan->form == MM_FORM_COLUMNS) {
        snprintf(read, sizeof(read), "(%s%u)(one_%s(%s))", dtype.compute, plan->width, dtype.name,
                 place);
    } else if (from == TERMS_ASKED) {
        snprintf(read, sizeof(read), "whole_%s(had%u)", dtype.name, u);
    } else if (from == TERMS_ANY || strcmp(step, "1") != 0) {
        snprintf(read, sizeof(read), "part_%s(%s, %s, there)", dtype.name, place, step);
    } else {
        snprintf(read, sizeof(read), "whole_%s(stored_%s(%s))", dtype.name, dtype.name, place);
    }
    emit_made(text, plan, left, name, read);
}

/// TEAM: takes what is past the end of the sum out of a vector.
static void emit_cut(kf_text *text, const mm_plan *plan, const char *kind, uint32_t number)
{
    if (plan->form == MM_FORM_COLUMNS) {
        return;
    }
    kf_text_addf(text, "        %s0_%u = (%s%u)(", kind, number, plan->type, plan->width);
    for (uint32_t i = 0; i < plan->width; i++) {
        kf_text_addf(text, "%s%u < there ? %s0_%u.s%u : 0", i == 0 ? "" : ", ", i, kind, number, i);
    }
    kf_text_add(text, ");\n");
}

/// Adds what vector u meets to all sums; where it may lie past the end (`last`), if it does not.
static void emit_sums(kf_text *text, const mm_plan *plan, uint32_t u, uint32_t r, uint32_t last)
{
    for (uint32_t c = 0; c < plan->each; c++) {
        uint32_t sum = r * plan->each + c;
        kf_text_addf(text, "        c%u = ", sum);
        if (last) {
            kf_text_addf(text, "t + %u * far >= to_term ? c%u : ", u, sum);
        }
        kf_text_addf(text, "ADD_TERMS(x%u_%u, b%u_%u, c%u);\n", u, r, u, c, sum);
    }
}

// ---- loops ----

/// Asks for the next vectors, those of the terms from `from` on; past the end for the last ones.
static void emit_ask(kf_text *text, const mm_plan *plan, const char *from)
{
    const mm_operand *left = &plan->block->left, *right = &plan->block->right;
    uint32_t reach = plan->form == MM_FORM_COLUMNS ? 1 : plan->width;
    char step[32], type[32];
    mm_stride_name(plan, right->source, right->inner, step);
    for (uint32_t u = 0; u < plan->depth; u++) {
        kf_text_addf(text, "        at = min(%s + %u * far, to_term - %u);\n", from, u, reach);
        for (uint32_t c = 0; c < plan->each; c++) {
            kf_text_addf(text, "        next%u_%u = stored_%s(line%u + at * (long)%s);\n", u, c,
                         source_type(plan, right).name, c, step);
        }
    }
    mm_stride_name(plan, left->source, left->inner, step);
    terms_type(plan, type);
    for (uint32_t u = 0; u < plan->depth && asks_terms(plan); u++) {
        kf_text_addf(text, "        at = min(%s + %u * far, to_term - %u);\n", from, u, reach);
        if (plan->form == MM_FORM_COLUMNS) {
            kf_text_addf(text, "        has%u = *(__global const %s *)(terms0 + at * (long)%s);\n",
                         u, type, step);
        } else {
            kf_text_addf(text, "        has%u = stored_%s(terms0 + at);\n", u,
                         source_type(plan, left).name);
        }
    }
}

/// Adds the vectors that were asked for, and asks for the next ones, or for the last ones again;
/// `last`: some are not there.
static void emit_asked(kf_text *text, const mm_plan *plan, uint32_t last)
{
    const mm_operand *right = &plan->block->right;
    uint32_t reach = plan->form == MM_FORM_COLUMNS ? 1 : plan->width;
    char name[16], read[64], ahead[32], type[32];
    stored_type(plan, source_type(plan, right), type);
    for (uint32_t i = 0; i < plan->depth * plan->each; i++) {
        uint32_t u = i / plan->each, c = i % plan->each;
        kf_text_addf(text, "        const %s now%u_%u = next%u_%u;\n", type, u, c, u, c);
    }
    terms_type(plan, type);
    for (uint32_t u = 0; u < plan->depth && asks_terms(plan); u++) {
        kf_text_addf(text, "        const %s had%u = has%u;\n", type, u, u);
    }
    if (!last) {
        // Without an end to the block, several rows' loads would come before these.
        uint32_t apart = !asks_terms(plan);
        snprintf(ahead, sizeof(ahead), "t + %u * far", plan->depth);
        if (apart) {
            kf_text_addf(text, "        if (%s < to_term) {\n", ahead);
        }
        emit_ask(text, plan, ahead);
        kf_text_add(text, apart ? "        }\n" : "");
    }
    for (uint32_t u = 0; u < plan->depth; u++) {
        for (uint32_t c = 0; c < plan->each; c++) {
            snprintf(name, sizeof(name), "b%u_%u", u, c);
            snprintf(read, sizeof(read), "whole_%s(now%u_%u)", source_type(plan, right).name, u, c);
            emit_made(text, plan, right, name, read);
        }
        kf_text_addf(text,
                     last ? "        const int t%u = min(t + %u * far, to_term - %u);\n"
                          : "        const int t%u = t + %u * far;\n",
                     u, u, reach);
        for (uint32_t r = 0; r < plan->rows; r++) {
            emit_row_terms(text, plan, u, r, asks_terms(plan) ? TERMS_ASKED : TERMS_WHOLE);
            emit_sums(text, plan, u, r, last);
        }
    }
    kf_text_addf(text, "        t += %u * far;\n", plan->depth);
}

static void emit_whole_loop(kf_text *text, const mm_plan *plan)
{
    char type[32];
    stored_type(plan, source_type(plan, &plan->block->right), type);
    for (uint32_t i = 0; i < plan->depth * plan->each; i++) {
        kf_text_addf(text, "    %s next%u_%u;\n", type, i / plan->each, i % plan->each);
    }
    terms_type(plan, type);
    for (uint32_t u = 0; u < plan->depth && asks_terms(plan); u++) {
        kf_text_addf(text, "    %s has%u;\n", type, u);
    }
    if (plan->form == MM_FORM_TEAM) {
        kf_text_addf(text, "    const int there = %u;\n", plan->width);
    }
    kf_text_add(text, "    int at = 0;\n    if (whole && t < to_term) {\n");
    emit_ask(text, plan, "t");
    kf_text_addf(text, "    }\n    while (whole && t + %u * far < to_term) {\n", plan->depth - 1);
    emit_asked(text, plan, 0);
    kf_text_add(text, "    }\n    if (whole && t < to_term) {\n");
    emit_asked(text, plan, 1);
    kf_text_add(text, "    }\n");
}

/// Adds vectors that are not whole, or not aligned.
static void emit_any_loop(kf_text *text, const mm_plan *plan)
{
    const mm_operand *right = &plan->block->right;
    uint32_t by_column = plan->form == MM_FORM_COLUMNS;
    char stride[32], step[32], name[16], read[160];
    mm_stride_name(plan, right->source, right->inner, step);
    mm_stride_name(plan, right->source, by_column ? right->outer : right->inner, stride);
    kf_text_add(text, "    while (t < to_term) {\n        const int t0 = t;\n");
    if (!by_column) {
        kf_text_addf(text, "        const int there = min(to_term - t, %u);\n", plan->width);
    }
    for (uint32_t c = 0; c < plan->each; c++) {
        snprintf(name, sizeof(name), "b0_%u", c);
        snprintf(read, sizeof(read), "part_%s(line%u + t * (long)%s, %s, %s)",
                 source_type(plan, right).name, c, step, stride, by_column ? "count" : "there");
        emit_made(text, plan, right, name, read);
        emit_cut(text, plan, "b", c);
    }
    for (uint32_t r = 0; r < plan->rows; r++) {
        emit_row_terms(text, plan, 0, r, TERMS_ANY);
        emit_cut(text, plan, "x", r);
        emit_sums(text, plan, 0, r, 0);
    }
    kf_text_add(text, "        t += far;\n    }\n");
}

// ---- where they begin ----

static void row_stride(const mm_plan *plan, char name[32])
{
    const mm_operand *left = &plan->block->left;
    mm_stride_name(plan, left->source, left->outer, name);
    if (plan->fold) { // the rows of all batches lie one behind the other
        snprintf(name, 32, "(long)k");
    }
}

/// Declares terms0, terms1 ...: the rows of the group; those past the last are the last again.
static void emit_rows(kf_text *text, const mm_plan *plan)
{
    char row[32];
    row_stride(plan, row);
    kf_text_addf(text, "    const long row0 = get_group_id(1) * (long)%u;\n", plan->rows);
    for (uint32_t r = 0; r < plan->rows; r++) {
        kf_text_addf(text,
                     "    __global const %s *terms%u = a + min(row0 + %u, (long)m - 1) * %s;\n",
                     source_type(plan, &plan->block->left).storage, r, r, row);
    }
}

/// Adds to the condition `whole` that lines of an operand, `stride` elements apart from `line` on,
/// begin at pieces.
static void emit_aligned(kf_text *text, const mm_plan *plan, const mm_operand *operand,
                         const char *line, const char *stride)
{
    uint32_t bytes = source_type(plan, operand).bytes, all = plan->width * bytes;
    kf_text_addf(text, " && (((size_t)%s | (size_t)(%s * (long)%u)) & %u) == 0", line, stride,
                 bytes, (all < PIECE_BYTES ? all : PIECE_BYTES) - 1);
}

static void emit_columns(kf_text *text, const mm_plan *plan)
{
    const mm_operand *right = &plan->block->right;
    uint32_t w = plan->width;
    char column[32], step[32];
    mm_stride_name(plan, right->source, right->outer, column);
    mm_stride_name(plan, right->source, right->inner, step);
    kf_text_addf(text,
                 "    const int sharers = %u / side, mine = item / side, other = item %% side;\n"
                 "    const int columns = side * %u, far = sharers;\n"
                 "    const long col0 = get_group_id(0) * (long)columns, own = col0 + other * %u;\n"
                 "    const int count = (int)clamp(n - own, (long)0, (long)%u);\n"
                 "    __global const %s *line0 = b + own * %s;\n"
                 "    int t = from + mine;\n",
                 plan->items, w, w, w, source_type(plan, right).storage, column);
    if (strcmp(column, "1") == 0) {
        kf_text_addf(text, "    const int whole = count == %u", w);
        emit_aligned(text, plan, right, "b", step);
        kf_text_add(text, ";\n");
        emit_whole_loop(text, plan);
    }
}

static void emit_team(kf_text *text, const mm_plan *plan)
{
    const mm_operand *left = &plan->block->left, *right = &plan->block->right;
    uint32_t w = plan->width;
    char column[32], step[32];
    mm_stride_name(plan, right->source, right->outer, column);
    mm_stride_name(plan, left->source, left->inner, step);
    kf_text_addf(text,
                 "    const int sharers = side, mine = item %% side, other = item / side;\n"
                 "    const int columns = %u / side * %u, far = side * %u;\n"
                 "    const long col0 = get_group_id(0) * (long)columns, own = col0 + other * %u;\n"
                 "    int t = from + mine * %u;\n",
                 plan->items, plan->each, w, plan->each, w);
    for (uint32_t c = 0; c < plan->each; c++) {
        kf_text_addf(text, "    __global const %s *line%u = b + min(own + %u, (long)n - 1) * %s;\n",
                     source_type(plan, right).storage, c, c, column);
    }
    kf_text_addf(text, "    const int whole = (to_term - from) %% %u == 0", w);
    emit_aligned(text, plan, right, "b", column);
    if (strcmp(step, "1") == 0) {
        row_stride(plan, step);
        emit_aligned(text, plan, left, "a", step);
    }
    kf_text_add(text, ";\n");
    emit_whole_loop(text, plan);
}

// ---- the end ----

/// Adds up the sums of those who share columns; the first of them has the result.
static void emit_meeting(kf_text *text, const mm_plan *plan, uint32_t sums, uint32_t lanes)
{
    uint32_t half = plan->items / 2;
    kf_text_addf(text,
                 "    __local %s team[%u];\n"
                 "    for (int pairs = sharers / 2; pairs > 0; pairs /= 2) {\n"
                 "        __local %s *with = team + (%s) * %u;\n"
                 "        if (mine >= pairs && mine < 2 * pairs) {\n",
                 plan->type, half * sums * lanes, plan->type,
                 plan->form == MM_FORM_COLUMNS ? "mine % pairs * side + other"
                                               : "other * (side / 2) + mine % pairs",
                 lanes);
    for (uint32_t i = 0; i < sums; i++) {
        if (lanes > 1) {
            kf_text_addf(text, "            vstore%u(c%u, 0, with + %u);\n", lanes, i,
                         i * half * lanes);
        } else {
            kf_text_addf(text, "            with[%u] = c%u;\n", i * half, i);
        }
    }
    kf_text_add(text, "        }\n"
                      "        barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "        if (mine < pairs) {\n");
    for (uint32_t i = 0; i < sums; i++) {
        if (lanes > 1) {
            kf_text_addf(text, "            c%u += vload%u(0, with + %u);\n", i, lanes,
                         i * half * lanes);
        } else {
            kf_text_addf(text, "            c%u += with[%u];\n", i, i * half);
        }
    }
    kf_text_add(text, "        }\n        barrier(CLK_LOCAL_MEM_FENCE);\n    }\n");
}

/// Gives the results of the group, by rows, to all its work-items, which write them.
static void emit_results(kf_text *text, const mm_plan *plan, uint32_t sums, uint32_t lanes)
{
    uint32_t w = plan->width, each = plan->each;
    kf_text_add(text, "    if (mine == 0) {\n");
    for (uint32_t i = 0; i < sums; i++) {
        if (lanes > 1) {
            kf_text_addf(text, "        vstore%u(c%u, 0, team + %u * columns + other * %u);\n", w,
                         i, i, w);
        } else {
            kf_text_addf(text, "        team[%u * columns + other * %u + %u] = c%u;\n", i / each,
                         each, i % each, i);
        }
    }
    kf_text_addf(
        text,
        "    }\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    const int vectors = (columns + %u) / %u;\n"
        "    for (int e = item; e < %u * vectors; e += %u) {\n"
        "        const int at_column = e %% vectors * %u, at_row = e / vectors;\n"
        "        const long row = row0 + at_row, col = col0 + at_column;\n"
        "        const int count = (int)min(n - col, (long)min(columns - at_column, %u));\n"
        "        if (row < m && count > 0) {\n"
        "            const %s%u sum = vload%u(0, team + at_row * columns + at_column);\n",
        w - 1, w, plan->rows, plan->items, w, w, plan->type, w, w);
    mm_emit_finish(text, plan, MM_PRODUCT, "            ");
    kf_text_add(text, "        }\n    }\n}\n");
}

void mm_emit_few(kf_text *text, const mm_plan *plan)
{
    uint32_t lanes = plan->form == MM_FORM_COLUMNS ? plan->width : 1;
    uint32_t sums = plan->rows * plan->each;
    kf_text_add(text, "    const int item = get_local_id(0);\n");
    emit_rows(text, plan);
    for (uint32_t i = 0; i < sums; i++) {
        if (lanes > 1) {
            kf_text_addf(text, "    %s%u c%u = (%s%u)(0);\n", plan->type, lanes, i, plan->type,
                         lanes);
        } else {
            kf_text_addf(text, "    %s c%u = 0;\n", plan->type, i);
        }
    }
    if (plan->form == MM_FORM_COLUMNS) {
        emit_columns(text, plan);
    } else {
        emit_team(text, plan);
    }
    emit_any_loop(text, plan);
    emit_meeting(text, plan, sums, lanes);
    emit_results(text, plan, sums, lanes);
}
