// SPDX-License-Identifier: MIT OR Apache-2.0
// Which known name a mistyped one means. Decides how many letters may be wrong; what is said of the
// guess is the caller's.

#include "cli.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 48 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/// Letters to add, drop, change or swap with their neighbour (Damerau's distance, each letter
/// once).
static size_t distance_of(const char *a, const char *b)
{
    size_t rows[3][LONGEST + 1];
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST) {
        return LONGEST;
    }
    for (size_t k = 0; k <= m; k++) {
        rows[0][k] = k;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3];
        row[0] = i;
        for (size_t k = 1; k <= m; k++) {
            row[k] = least(above[k - 1] + (a[i - 1] != b[k - 1]), least(above[k], row[k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
                row[k] = least(row[k], rows[(i - 2) % 3][k - 2] + 1);
            }
        }
    }
    return rows[n % 3][m];
}

const char *cli_guess(char out_text[CLI_GUESS_ROOM], const char *name, cli_name_fn names,
                      const void *user)
{
    const char *nearest = NULL;
    size_t limit = strlen(name) < 3 ? 1 : strlen(name) / 3; // letters that a typist gets wrong
    for (size_t i = 0; names(i, user) != NULL; i++) {
        size_t apart = distance_of(name, names(i, user));
        if (apart <= limit && apart < strlen(name)) {
            nearest = names(i, user);
            limit = apart - (apart > 0);
        }
    }
    out_text[0] = '\0';
    if (nearest != NULL) {
        snprintf(out_text, CLI_GUESS_ROOM, "; did you mean \"%s\"?", nearest);
    }
    return out_text;
}

const char *cli_listed_name(size_t index, const void *list)
{
    return ((const char *const *)list)[index];
}
