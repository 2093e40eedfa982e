// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams into files: which of them are of one kind, and where they go.

#include "runtime_fixture.h"

#include <dirent.h>
#include <stdio.h>

static int files_in(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        count += e->d_name[0] != '.';
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count;
}

/// Runs what was recorded, and lets go of it; how many files there are then.
static int files_after(fixture *f, const char *folder, kiln_tensor *result)
{
    FIXTURE_OK(f, kiln_flush(f->device, &f->err));
    kiln_release(result);
    FIXTURE_OK(f, kiln_flush(f->device, &f->err));
    return files_in(folder);
}

static void test_kinds(void)
{
    enum { N = 8 };
    fixture f;
    char folder[512], other[512];
    const int64_t dims[] = {N, N};
    const int64_t axes[] = {1, 0};
    float data[N * N];
    kiln_tensor *y = NULL, *turned = NULL;
    snprintf(folder, sizeof(folder), "%s/first", kiln_test_tmpdir());
    snprintf(other, sizeof(other), "%s/other", kiln_test_tmpdir());
    if (!fixture_open_with(&f, "reference", "record", folder)) {
        return;
    }
    for (int i = 0; i < N * N; i++) {
        data[i] = (float)i;
    }
    FIXTURE_OK(&f, kiln_context_set(f.context, "record", other, &f.err)); // of what is opened later
    kiln_tensor *x = fixture_f32(&f, 2, dims, data);
    for (int round = 0; round < 2; round++) { // an attribute is part of the kind
        FIXTURE_OK(&f, kiln_softmax(x, 0, &y, &f.err));
        int first = files_after(&f, folder, y);
        FIXTURE_OK(&f, kiln_softmax(x, 1, &y, &f.err));
        KILN_CHECK_INT(files_after(&f, folder, y), round == 0 ? first + 1 : first);
    }
    int before = files_in(folder);
    KILN_CHECK(before >= 2);
    FIXTURE_OK(&f, kiln_permute(x, axes, 2, &turned, &f.err));
    FIXTURE_OK(&f, kiln_flush(f.device, &f.err));
    before = files_in(folder);
    FIXTURE_OK(&f, kiln_softmax(turned, 0, &y, &f.err)); // so are strides
    KILN_CHECK_INT(files_after(&f, folder, y), before + 1);
    FIXTURE_OK(&f, kiln_add_scalar(x, kiln_f64(1), &y, &f.err));
    KILN_CHECK_INT(files_after(&f, folder, y), before + 2);
    FIXTURE_OK(&f, kiln_add_scalar(x, kiln_f64(2), &y, &f.err)); // a number is not
    KILN_CHECK_INT(files_after(&f, folder, y), before + 2);
    KILN_CHECK_INT(files_in(other), 0);
    kiln_release(turned);
    kiln_release(x);
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/runtime/record", KILN_TEST(test_kinds))
