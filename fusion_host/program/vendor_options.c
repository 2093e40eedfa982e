// SPDX-License-Identifier: MIT OR Apache-2.0
// Which options for a vendor's own compiler a source may have. They come from a plugin or from an
// entry on disk, and become part of the compiler's command line: options that read or write files,
// that change arithmetic behind the operators' rules, or that have a field of their own are none.
#include <string.h>

#include "translate.h"

enum { MOST_BYTES = 1023 };

/// What follows is the vendor's, of letters, digits and these.
static const char *const vendors[] = {"-cl-nv-", "-cl-intel-", "-cl-amd-", "-cl-arm-", "-cl-qcom-"};
static const char tail_characters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    "-_=.,:+";

static const char *const whole_words[] = {"-cl-opt-disable",
                                          "-cl-uniform-work-group-size",
                                          "-cl-no-subgroup-ifp",
                                          "-O0",
                                          "-O1",
                                          "-O2",
                                          "-O3",
                                          "-mcumode",
                                          "-mno-cumode",
                                          "-mwavefrontsize64",
                                          "-mno-wavefrontsize64"};

static const struct {
    const char *begins;
    const char *says;
} elsewhere[] = {
    {"-D", "names are in `defines`"},
    {"-cl-std", "the version of OpenCL C is in `cl_c_version`"},
    {"-cl-fast-relaxed-math", "what arithmetic may do is in `math_flags`"},
    {"-cl-unsafe-math", "what arithmetic may do is in `math_flags`"},
    {"-cl-finite-math", "what arithmetic may do is in `math_flags`"},
    {"-cl-mad-enable", "what arithmetic may do is in `math_flags`"},
    {"-cl-no-signed-zeros", "what arithmetic may do is in `math_flags`"},
    {"-cl-denorms-are-zero", "what arithmetic may do is in `math_flags`"},
};

static bool begins(const char *word, size_t length, const char *with)
{
    size_t n = strlen(with);
    return length >= n && memcmp(word, with, n) == 0;
}

static bool is_taken(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof(whole_words) / sizeof(whole_words[0]); i++) {
        if (length == strlen(whole_words[i]) && begins(word, length, whole_words[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++) {
        size_t n = strlen(vendors[i]);
        if (begins(word, length, vendors[i])) {
            return length > n && strspn(word + n, tail_characters) >= length - n;
        }
    }
    return false;
}

static const char *reason(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
        if (begins(word, length, elsewhere[i].begins)) {
            return elsewhere[i].says;
        }
    }
    return length == 0 ? "words are apart by one space"
                       : "it is none of a vendor's that fusers give";
}

kiln_status kilni_fuse_check_options(const char *text, uint32_t source, kiln_error *err)
{
    size_t bytes = strlen(text);
    if (bytes > MOST_BYTES) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "source %u has compiler options of %zu bytes, at most %d", source, bytes,
                         MOST_BYTES);
    }
    for (const char *word = text; bytes > 0;) {
        size_t length = strcspn(word, " ");
        if (!is_taken(word, length)) {
            return kiln_fail(err, INVALID_ARGUMENT, "source %u has the compiler option '%.*s': %s",
                             source, (int)(length < 60 ? length : 60), word, reason(word, length));
        }
        if (word[length] == '\0') {
            break;
        }
        word += length + 1;
    }
    return KILN_STATUS_OK;
}
