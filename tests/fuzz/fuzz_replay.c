// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a fuzz function over every file of the folder in argv[1], whole, cut short, and with each
// byte changed in four ways, and over every file of the folder in argv[2], which a fuzzer found,
// whole. Not a fuzzer: a guard that what once was found stays fixed, with any compiler.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"
#include "harness.h"

static const char *seeds, *found;

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

static void try_file(const char *path, bool changed)
{
    static const uint8_t changes[] = {0x01, 0x80, 0x55, 0xff};
    size_t size = 0;
    uint8_t *data = (uint8_t *)kiln_test_read_file(path, &size);
    if (!KILN_CHECK(data != NULL)) {
        return;
    }
    try_exact(data, size);
    for (size_t i = 0; i < size && changed; i++) {
        try_exact(data, i);
        for (unsigned k = 0; k < sizeof(changes); k++) {
            data[i] ^= changes[k];
            try_exact(data, size);
            data[i] ^= changes[k];
        }
    }
    free(data);
}

static unsigned try_folder(const char *folder, bool changed)
{
    unsigned files = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return 0;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            try_file(kiln_test_path(folder, entry->d_name), changed);
            files++;
        }
    }
    closedir(dir);
    return files;
}

static void test_corpus(void)
{
    KILN_CHECK(try_folder(seeds, /*changed=*/true) > 0);
}

static void test_found(void)
{
    KILN_CHECK(try_folder(found, /*changed=*/false) > 0);
}

int main(int argc, char **argv)
{
    static const kiln_test_case cases[] = {KILN_TEST(test_corpus), KILN_TEST(test_found)};
    if (argc < 3) {
        fprintf(stderr, "usage: %s SEEDS FOUND\n", argv[0]);
        return 2;
    }
    seeds = argv[1];
    found = argv[2];
    argv[2] = argv[0];
    return kiln_test_run("fuzz/replay", cases, sizeof(cases) / sizeof(cases[0]), argc - 2,
                         argv + 2);
}
