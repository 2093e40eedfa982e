// SPDX-License-Identifier: MIT OR Apache-2.0
// What a run covered, against the table and against the matrix in docs/ops.md: decides what is a
// hole. The matrix is written by tools/gen_ops from the tables of operators and kernels; a run is
// what makes it true.
#include "coverage.h"

#include <stdio.h>
#include <string.h>

#include "harness.h"

bool coverage_takes(kiln_op op, kiln_dtype dtype)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    return info->cls != KILN_CLASS_CONTROL && info->cls != KILN_CLASS_CUSTOM &&
           ((unsigned)kiln_dtype_kind_of(dtype) & (unsigned)info->accept) != 0;
}

static bool is_tried(coverage_table table, kiln_op op)
{
    for (int d = 1; d < KILN_DTYPE_LIMIT; d++) {
        if (table[op][d].samples > 0) {
            return true;
        }
    }
    return false;
}

static bool is_excused(kiln_backend *backend, kiln_dtype dtype)
{
    return dtype == KILN_DTYPE_F64 &&
           (backend->device->dtype_usage(backend, dtype) & KILN_USAGE_ARITHMETIC) == 0;
}

static bool is_there(const coverage *cover)
{
    return cover->passed > 0 && cover->unimplemented == 0 && cover->failures == 0;
}

unsigned coverage_check(coverage_table table, uint32_t dtypes, kiln_backend *backend)
{
    unsigned there = 0;
    unsigned holes = 0;
    unsigned excused = 0;
    for (unsigned i = 0; i < KILN_OP_COUNT; i++) {
        kiln_op op = (kiln_op)i;
        for (int d = 1; is_tried(table, op) && d < KILN_DTYPE_LIMIT; d++) {
            const coverage *cover = &table[op][d];
            const char *dtype = kiln_dtype_name((kiln_dtype)d);
            if ((dtypes >> d & 1u) == 0 || !coverage_takes(op, (kiln_dtype)d)) {
                continue;
            }
            if (is_there(cover)) {
                there++;
                continue;
            }
            const char *reason = cover->reason[0] != '\0' ? cover->reason
                                 : cover->failures > 0    ? "it fails"
                                                          : "no case with elements";
            if (cover->failures == 0 && is_excused(backend, (kiln_dtype)d)) {
                printf("    not here: %s %s: %s\n", kiln_op_info_of(op)->name, dtype, reason);
                excused++;
            } else {
                KILN_FAIL("a hole: %s %s: %s", kiln_op_info_of(op)->name, dtype, reason);
                holes++;
            }
        }
    }
    printf("    coverage: %u of %u pairs of operator and dtype, %u excused\n", there,
           there + holes + excused, excused);
    return holes;
}

// ---- the matrix ----

/* The mark in cell `index` of a row "| `name` | how | cells..."; '?' when there is none. */
static char mark_in(const char *row, int index)
{
    const char *at = row;
    for (int bars = 0; *at != '\0'; at++) {
        if (*at == '|' && bars++ == index + 2) {
            at++;
            at += strspn(at, " ");
            return *at == '|' ? ' ' : *at != '\0' ? *at : '?';
        }
    }
    return '?';
}

/* The column of a dtype: all quantised ones share the last. */
static int column_of(kiln_dtype dtype)
{
    return kiln_dtype_kind_of(dtype) == KILN_KIND_QUANT ? KILN_DTYPE_F64 : (int)dtype - 1;
}

static unsigned check_row(coverage_table table, uint32_t dtypes, kiln_backend *backend, kiln_op op,
                          const char *row)
{
    unsigned differences = 0;
    for (int d = 1; d < KILN_DTYPE_LIMIT; d++) {
        const coverage *cover = &table[op][d];
        kiln_dtype dtype = (kiln_dtype)d;
        bool takes = coverage_takes(op, dtype);
        char seen = !takes ? ' ' : is_there(cover) ? 'x' : '-';
        char written = mark_in(row, column_of(dtype));
        if ((dtypes >> d & 1u) == 0 || kiln_dtype_kind_of(dtype) == KILN_KIND_SMALL ||
            written == seen || // small floats are only cast and moved, as u8
            (takes && cover->failures == 0 && is_excused(backend, dtype))) {
            continue;
        }
        KILN_FAIL("the matrix says '%c' for %s %s, the run '%c'", written,
                  kiln_op_info_of(op)->name, kiln_dtype_name(dtype), seen);
        differences++;
    }
    return differences;
}

/* The operator that a row of the matrix is about; KILN_OP_COUNT for other lines. */
static kiln_op op_of_row(const char *row)
{
    char name[64] = "";
    if (sscanf(row, "| `%63[^`]` |", name) != 1) {
        return KILN_OP_COUNT;
    }
    return kiln_op_from_name(name);
}

bool coverage_check_matrix(coverage_table table, uint32_t dtypes, kiln_backend *backend,
                           const char *path, unsigned *out_differences)
{
    static bool found[KILN_OP_COUNT];
    char line[1024];
    bool inside = false;
    FILE *file = fopen(path, "r");
    *out_differences = 0;
    if (file == NULL) {
        return false;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "## ", 3) == 0) {
            inside = strncmp(line, "## Coverage", 11) == 0;
        }
        kiln_op op = inside ? op_of_row(line) : KILN_OP_COUNT;
        if (op < KILN_OP_COUNT) {
            found[op] = true;
            if (is_tried(table, op)) {
                *out_differences += check_row(table, dtypes, backend, op, line);
            }
        }
    }
    fclose(file);
    for (unsigned op = 0; op < KILN_OP_COUNT; op++) {
        if (!found[op] && is_tried(table, (kiln_op)op)) {
            KILN_FAIL("the matrix in %s has no row of %s: ninja generated", path,
                      kiln_op_info_of((kiln_op)op)->name);
            (*out_differences)++;
        }
    }
    return true;
}
