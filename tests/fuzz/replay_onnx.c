// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs the fuzz target of the ONNX importer on known files, whole and cut, with any compiler: the
// digits model, ONNX's own cases where libonnx-testdata is installed, and what a fuzzer found. So
// the target stays alive where no fuzzer is built.
#include "fuzz_target.h"
#include "harness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool replay(const char *path)
{
    size_t size = 0;
    char *data = kiln_test_read_file(path, &size);
    if (data == NULL) {
        return false;
    }
    for (size_t part = 1; part <= 8; part++) {
        size_t length = size * part / 8;
        uint8_t *exact = malloc(length + 1); /* so that a sanitizer sees a read beyond */
        if (exact == NULL) {
            KILN_FAIL("no memory for %zu bytes", length);
            break;
        }
        memcpy(exact, data, length);
        KILN_CHECK_INT(LLVMFuzzerTestOneInput(exact, length), 0);
        free(exact);
    }
    free(data);
    return true;
}

static void test_digits(void)
{
    KILN_CHECK(replay(KILN_TEST_SOURCE_DIR "/examples/digits/digits.onnx"));
}

static void test_node_cases(void)
{
    static const char folder[] = "/usr/share/libonnx-testdata/data/node";
    DIR *cases = opendir(folder);
    if (cases == NULL) {
        kiln_test_skip("%s is not there: install libonnx-testdata", folder);
        return;
    }
    int64_t replayed = 0;
    for (struct dirent *entry = readdir(cases); entry != NULL; entry = readdir(cases)) {
        char path[1024];
        snprintf(path, sizeof(path), "%s/%s/test_data_set_0/input_0.pb", folder, entry->d_name);
        (void)replay(path);
        snprintf(path, sizeof(path), "%s/%s/model.onnx", folder, entry->d_name);
        replayed += entry->d_name[0] != '.' && replay(path) ? 1 : 0;
    }
    closedir(cases);
    KILN_CHECK(replayed > 900);
}

static void test_found(void)
{
    static const char folder[] = KILN_TEST_BUILD_DIR "/tests/fuzz/found/onnx";
    int64_t replayed = 0;
    DIR *found = opendir(folder);
    if (!KILN_CHECK(found != NULL)) {
        return;
    }
    for (struct dirent *entry = readdir(found); entry != NULL; entry = readdir(found)) {
        replayed += entry->d_name[0] != '.' && replay(kiln_test_path(folder, entry->d_name));
    }
    closedir(found);
    KILN_CHECK(replayed > 0);
}

KILN_TEST_MAIN("fuzz/replay_onnx", KILN_TEST(test_digits), KILN_TEST(test_node_cases),
               KILN_TEST(test_found))
