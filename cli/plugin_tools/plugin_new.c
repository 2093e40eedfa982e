// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin new NAME`: writes a project of its own for a fuser or an operator. The files are the
// SDK's template, kept in this command, with the name put in.

#include "plugin_cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NAME = 40, MAX_PATH = 4096 };

/// A language: its folders in the template, what people call it, how it is built and into what.
typedef struct new_language {
    const char *word; ///< and the folder of its fuser
    const char *of_operator; ///< the folder of its operator
    const char *title;
    const char *build;
    const char *made;
} new_language;

static const new_language languages[] = {
    {"c", "c-operator", "C", "cmake -B build && cmake --build build", "build/"},
    {"cpp", "cpp-operator", "C++", "cmake -B build && cmake --build build", "build/"},
    {"rust", "rust-operator", "Rust", "cargo build --release --offline", "target/release/lib"},
};
enum { RUST = 2 };

typedef struct new_options {
    const char *name;
    const new_language *lang;
    const char *dir; ///< NULL: NAME
    bool is_operator;
} new_options;

typedef struct new_names { ///< "my-fuser" in the three spellings that files use
    char crates[MAX_PATH]; ///< folder of the crates that come with Kiln, for Rust
    char dashed[MAX_NAME + 1];
    char id[MAX_NAME + 1];
    char upper[MAX_NAME + 1];
} new_names;

static const struct argp_option new_options_table[] = {
    {"lang", 'l', "LANG", 0, "language: c (default), cpp or rust", 0},
    {"operator", 'o', NULL, 0, "a plugin with an operator of its own, instead of a fuser", 0},
    {"dir", 'd', "DIR", 0, "folder to make; default: NAME", 0},
    {0},
};

/// NULL: there is no such language.
static const new_language *language_of(const char *word)
{
    for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++) {
        if (strcmp(languages[i].word, word) == 0) {
            return &languages[i];
        }
    }
    return NULL;
}

static error_t parse_new_option(int key, char *text, struct argp_state *state)
{
    new_options *options = state->input;
    switch (key) {
    case 'l':
        options->lang = language_of(text);
        if (options->lang == NULL) {
            argp_error(state, "--lang %s: write c, cpp or rust", text);
        }
        return 0;
    case 'o':
        options->is_operator = true;
        return 0;
    case 'd':
        options->dir = text;
        return 0;
    case ARGP_KEY_ARG:
        if (options->name != NULL) {
            argp_error(state, "one NAME at a time");
        }
        options->name = text;
        return 0;
    case ARGP_KEY_END:
        if (options->name == NULL) {
            argp_error(state, "name the plugin");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/// Letters, digits and single dashes, a letter first: good for a file, a C name and an id.
static bool spell(const char *name, new_names *out)
{
    size_t length = strlen(name);
    if (length == 0 || length > MAX_NAME || !islower((unsigned char)name[0])) {
        return false;
    }
    for (size_t i = 0; i <= length; i++) {
        unsigned char c = (unsigned char)name[i];
        bool dash = c == '-' && name[i + 1] != '-' && name[i + 1] != '\0';
        if (c != '\0' && !islower(c) && !isdigit(c) && !dash) {
            return false;
        }
        out->dashed[i] = (char)c;
        out->id[i] = (char)(c == '-' ? '_' : c);
        out->upper[i] = (char)(c == '-' ? '_' : toupper(c));
    }
    return true;
}

/// Names that mean something else in a project: targets of CMake, crates, the template's other
/// files.
static bool is_reserved(const char *name, const new_language *lang)
{
    static const char *const of_cmake[] = {
        "abi",        "all",           "clean",   "edit-cache",
        "help",       "install",       "package", "package-source",
        "preinstall", "rebuild-cache", "test",    NULL};
    static const char *const of_rust[] = {"alloc",    "build", "core", "kiln-fuser",
                                          "kiln-sys", "std",   "test", NULL};
    const char *const *names = lang == &languages[RUST] ? of_rust : of_cmake;
    for (size_t i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/// Kiln's crates lie beside this program, as it was installed or built.
static kiln_status find_crates(char out_path[MAX_PATH], kiln_error *err)
{
    char *self = realpath("/proc/self/exe", NULL);
    char *slash = self != NULL ? strrchr(self, '/') : NULL;
    int length = slash == NULL ? -1 : (int)(slash - self);
    (void)snprintf(out_path, MAX_PATH, "%.*s/../share/kiln/rust", length < 0 ? 0 : length, self);
    free(self);
    char *real = realpath(out_path, NULL);
    if (length < 0 || real == NULL || strlen(real) >= MAX_PATH) {
        free(real);
        return kiln_fail(err, NOT_FOUND,
                         "Kiln's crates for Rust are not at %s: install its development files",
                         out_path);
    }
    memcpy(out_path, real, strlen(real) + 1);
    free(real);
    return KILN_STATUS_OK;
}

/// Writes `text` with the template's name replaced; binary files have none of it.
static void write_replaced(FILE *file, const char *text, size_t size, const new_names *names)
{
    const struct {
        const char *from;
        const char *to;
    } words[] = {{"my-fuser", names->dashed},
                 {"my_fuser", names->id},
                 {"MY_FUSER", names->upper},
                 {"@KILN_RUST@", names->crates}};
    for (size_t i = 0; i < size;) {
        bool found = false;
        for (size_t w = 0; w < sizeof(words) / sizeof(words[0]) && !found; w++) {
            size_t length = strlen(words[w].from);
            if (size - i >= length && memcmp(text + i, words[w].from, length) == 0) {
                fputs(words[w].to, file);
                i += length;
                found = true;
            }
        }
        if (!found) {
            fputc(text[i++], file);
        }
    }
}

static bool path_of(const char *folder, const char *name, const new_names *names,
                    char out_path[MAX_PATH])
{
    const char *mine = strstr(name, "my_fuser");
    int n = mine == NULL ? snprintf(out_path, MAX_PATH, "%s/%s", folder, name)
                         : snprintf(out_path, MAX_PATH, "%s/%.*s%s%s", folder, (int)(mine - name),
                                    name, names->id, mine + strlen("my_fuser"));
    return n >= 0 && n < MAX_PATH;
}

static kiln_status write_file(const char *folder, const char *name,
                              const plugin_template_file *from, const new_names *names,
                              kiln_error *err)
{
    char path[MAX_PATH];
    if (!path_of(folder, name, names, path)) {
        return kiln_fail(err, INVALID_ARGUMENT, "the path of the folder is too long");
    }
    FILE *file = fopen(path, "wxb");
    if (file == NULL) {
        return kiln_fail(err, ALREADY_EXISTS, "%s cannot be made: %s", path, strerror(errno));
    }
    write_replaced(file, (const char *)from->bytes, from->size, names);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        return kiln_fail(err, DATA_LOSS, "%s cannot be written: %s", path, strerror(errno));
    }
    return KILN_STATUS_OK;
}

static bool in_folder(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && path[length] == '/';
}

/// Files at the top of the template go into every fuser's project, those of `operator` into every
/// operator's, the others with their language. NULL: not into this one.
static const char *name_for(const plugin_template_file *file, const new_options *options)
{
    const char *slash = strchr(file->path, '/');
    const char *own = options->is_operator ? options->lang->of_operator : options->lang->word;
    if (slash == NULL) {
        return options->is_operator ? NULL : file->path;
    }
    bool wanted =
        in_folder(file->path, own) || (options->is_operator && in_folder(file->path, "operator"));
    return wanted ? slash + 1 : NULL;
}

/// Takes back what was written, so that another try finds nothing in its way.
static void remove_project(const char *folder, const new_options *options, const new_names *names)
{
    char path[MAX_PATH];
    for (const plugin_template_file *file = plugin_template; file->path != NULL; file++) {
        const char *name = name_for(file, options);
        if (name != NULL && path_of(folder, name, names, path)) {
            (void)remove(path);
        }
    }
    (void)rmdir(folder);
}

static kiln_status write_project(const char *folder, const new_options *options,
                                 const new_names *names, kiln_error *err)
{
    if (mkdir(folder, 0777) != 0) {
        return kiln_fail(err, ALREADY_EXISTS, "folder %s cannot be made: %s", folder,
                         strerror(errno));
    }
    kiln_status status = KILN_STATUS_OK;
    for (const plugin_template_file *file = plugin_template;
         file->path != NULL && status == KILN_STATUS_OK; file++) {
        const char *name = name_for(file, options);
        if (name != NULL) {
            status = write_file(folder, name, file, names, err);
        }
    }
    if (status != KILN_STATUS_OK) {
        remove_project(folder, options, names);
    }
    return status;
}

static void print_next(const char *folder, const new_options *options, const char *id)
{
    const new_language *lang = options->lang;
    const char *example =
        options->is_operator ? "replay example.replay --compare" : "explain example.onnx";
    printf("%s: %s in %s. Next:\n", folder, options->is_operator ? "an operator" : "a fuser",
           lang->title);
    printf("  cd %s && %s\n", folder, lang->build);
    printf("  kiln plugin check %s%s.so\n", lang->made, id);
    printf("  kiln %s --plugin %s%s.so\n", example, lang->made, id);
}

int plugin_new(int argc, char **argv)
{
    static const struct argp argp = {
        new_options_table,
        parse_new_option,
        "NAME",
        "Writes a project with a fuser, or an operator, that builds and works, to be changed into "
        "your own.",
        NULL,
        NULL,
        NULL};
    new_options options = {.lang = &languages[0]};
    new_names names = {.dashed = {0}};
    kiln_error err = KILN_ERROR_INIT;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (!spell(options.name, &names)) {
        return cli_usage("plugin new",
                         "%s: write at most %d small letters, digits and single dashes",
                         options.name, MAX_NAME);
    }
    if (is_reserved(names.dashed, options.lang)) {
        return cli_usage("plugin new", "%s: a project cannot have that name; try %s-fuser",
                         options.name, options.name);
    }
    const char *folder = options.dir != NULL ? options.dir : options.name;
    if ((options.lang == &languages[RUST] && find_crates(names.crates, &err) != KILN_STATUS_OK) ||
        write_project(folder, &options, &names, &err) != KILN_STATUS_OK) {
        return cli_fail("plugin new", &err);
    }
    print_next(folder, &options, names.id);
    return CLI_OK;
}
