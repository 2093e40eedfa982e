// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a fuzz function over every file of the folder in argv[1], whole, cut short, and with each
// byte changed in four ways. Not a fuzzer: a guard that what once was found stays fixed, with any
// compiler.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"
#include "harness.h"

static const char *folder;

static void try_exact(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (!KILN_CHECK(exact != NULL)) {
        return;
    }
    if (size > 0) {
        memcpy(exact, data, size);
    }
    KILN_CHECK_INT(LLVMFuzzerTestOneInput(exact, size), 0);
    free(exact);
}

static void try_file(const char *name)
{
    static const uint8_t changes[] = {0x01, 0x80, 0x55, 0xff};
    size_t size = 0;
    uint8_t *data = (uint8_t *)kiln_test_read_file(kiln_test_path(folder, name), &size);
    if (!KILN_CHECK(data != NULL)) {
        return;
    }
    try_exact(data, size);
    for (size_t i = 0; i < size; i++) {
        try_exact(data, i);
        for (unsigned k = 0; k < sizeof(changes); k++) {
            data[i] ^= changes[k];
            try_exact(data, size);
            data[i] ^= changes[k];
        }
    }
    free(data);
}

static void test_corpus(void)
{
    unsigned files = 0;
    DIR *dir = opendir(folder);
    if (!KILN_CHECK(dir != NULL)) {
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            try_file(entry->d_name);
            files++;
        }
    }
    closedir(dir);
    KILN_CHECK(files > 0);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {KILN_TEST(test_corpus)};
    if (argc < 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    argv[1] = argv[0];
    return kiln_test_run("fuzz/replay", cases, 1, argc - 1, argv + 1);
}
