// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln bundle WORD`: finds the function of the word and hands it its arguments. `kiln bundle
// MODEL` is the word make.

#include "bundle_cli.h"
#include "help.h"

#include <string.h>
#include <unistd.h>

static const cli_command bundle_words[] = {
#ifdef KILN_WITH_ONNX
    {"make", "make a bundle of a model: what `kiln bundle MODEL` does", bundle_make},
#endif
    {"run", "run a bundle", bundle_run_word},
    {"check", "check a bundle's files, and list what a device would miss", bundle_check},
    {"compile", "compile a bundle for a device of this machine", bundle_compile},
    {"add", "put binaries that other tools made into a bundle", bundle_add},
    {"facts", "write what a bundle has to know of a device", bundle_facts},
    {0},
};

/// Whether an argument cannot be a word: a file, or what can only be meant as one, or an option of
/// make.
static bool begins_make(const char *text)
{
    static const char *const told[] = {"--help", "-h", "-?", "--version", "-V"};
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        if (strcmp(text, told[i]) == 0) {
            return false;
        }
    }
    for (const cli_command *word = bundle_words; word->name != NULL; word++) {
        if (strcmp(text, word->name) == 0) {
            return false;
        }
    }
    return text[0] == '-' || strpbrk(text, "./") != NULL || access(text, F_OK) == 0;
}

int cmd_bundle(int argc, char **argv)
{
#ifdef KILN_WITH_ONNX
    if (argc > 1 && begins_make(argv[1])) {
        static char name[] = "kiln bundle make";
        argv[0] = name;
        return bundle_make(argc, argv);
    }
#else
    (void)begins_make;
#endif
    return help_run_word("kiln bundle", bundle_words, argc, argv);
}
