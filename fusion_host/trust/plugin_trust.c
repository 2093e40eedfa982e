// SPDX-License-Identifier: MIT OR Apache-2.0
// Whom to trust: the option `plugin-mode`, the list of allowed hashes and the file of keys. A list
// that somebody else could write (plugin_file.c) lets nothing in. What a signature is, signature.c
// knows; which of the trusted take part, plugin_policy.c.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin_trust.h"

enum { MAX_LIST_BYTES = 1 << 20, MAX_KEYS = 256, DIGITS = 64 };

// ---- a user's lists ----

typedef struct user_list {
    const char *option;
    char path[4096];
    bool is_default; ///< where there is none, it is empty
    char *text;
} user_list;

static kiln_status list_place(const kiln_env *env, kiln_option option, user_list *out,
                              kiln_error *err)
{
    const char *named = kiln_config_string(env->config, option);
    out->option = kiln_option_name(option);
    out->is_default = named == NULL || named[0] == 0;
    if (!out->is_default) {
        if (named[0] != '/' || strlen(named) >= sizeof(out->path)) {
            return kiln_fail(err, PERMISSION_DENIED,
                             "%s is not an absolute path: nothing is allowed", out->option);
        }
        snprintf(out->path, sizeof(out->path), "%s", named);
        return KILN_STATUS_OK;
    }
    kiln_status status = kiln_config_dir(out->path, sizeof(out->path) - 32, err);
    if (status == KILN_STATUS_OK) {
        strncat(out->path, option == KILN_OPTION_PLUGIN_ALLOW ? "/plugins.allow" : "/plugins.keys",
                sizeof(out->path) - strlen(out->path) - 1);
    }
    return status;
}

static kiln_status check_list(const kiln_env *env, const user_list *list, int fd, kiln_error *err)
{
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return kiln_fail(err, PERMISSION_DENIED, "%s cannot be read: nothing is allowed",
                         list->option);
    }
    kiln_error why = KILN_ERROR_INIT;
    kiln_status status = kilni_fuse_check_owner(&info, list->option, &why);
    if (status == KILN_STATUS_OK) {
        status = kilni_fuse_check_folders(env, list->path, &why);
    }
    return status == KILN_STATUS_OK
               ? status
               : kiln_fail(err, PERMISSION_DENIED, "%.180s: nothing is allowed", why.message);
}

/// The caller frees the text, also on failure.
static kiln_status list_read(const kiln_env *env, kiln_option option, user_list *out,
                             kiln_error *err)
{
    size_t length = 0;
    kiln_status status = list_place(env, option, out, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int fd = open(out->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && out->is_default && errno == ENOENT) {
        out->text = kiln_strdup(env, "");
        return out->text != NULL ? KILN_STATUS_OK
                                 : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a list");
    }
    status = check_list(env, out, fd, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_fuse_read_bytes(env, fd, MAX_LIST_BYTES, &out->text, &length, err);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

/// The next line that begins with 64 hexadecimal digits and a space or nothing; `#` begins a
/// comment.
static bool next_digits(const char **text, const char **out_digits)
{
    while (**text != 0) {
        const char *line = *text + strspn(*text, " \t\r\n");
        *text = line + strcspn(line, "\n");
        if (strspn(line, "0123456789abcdefABCDEF") == DIGITS &&
            strchr(" \t\r\n", line[DIGITS]) != NULL) { // also at the end: a terminator
            *out_digits = line;
            return true;
        }
    }
    return false;
}

// ---- hashes ----

static void digits_of(const void *bytes, size_t length, char out_digits[DIGITS + 1])
{
    unsigned char digest[32];
    kilni_fuse_sha256(bytes, length, digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        snprintf(out_digits + 2 * i, 3, "%02x", digest[i]);
    }
}

static bool lists(const char *text, const char digits[DIGITS + 1])
{
    const char *found = NULL;
    while (next_digits(&text, &found)) {
        if (strncmp(found, digits, DIGITS) == 0) {
            return true;
        }
    }
    return false;
}

static kiln_status check_listed(const kiln_env *env, const void *bytes, size_t length,
                                kiln_error *err)
{
    user_list list = {0};
    char digits[DIGITS + 1];
    kiln_status status = list_read(env, KILN_OPTION_PLUGIN_ALLOW, &list, err);
    digits_of(bytes, length, digits);
    if (status == KILN_STATUS_OK && !lists(list.text, digits)) {
        status = kiln_fail(err, PERMISSION_DENIED,
                           "its SHA-256 is not in the list of plugin-allow; `kiln plugin allow "
                           "FILE` adds it");
    }
    kiln_free(env, list.text);
    return status;
}

// ---- keys ----

static unsigned digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
}

static size_t read_keys(const char *text, unsigned char *out_keys)
{
    const char *digits = NULL;
    size_t count = 0;
    while (count < MAX_KEYS && next_digits(&text, &digits)) {
        for (size_t i = 0; i < 32; i++) {
            out_keys[32 * count + i] =
                (unsigned char)(digit(digits[2 * i]) << 4 | digit(digits[2 * i + 1]));
        }
        count++;
    }
    return count;
}

static kiln_status check_signed(const kiln_env *env, const char *path, const void *bytes,
                                size_t length, kiln_error *err)
{
    user_list list = {0};
    unsigned char keys[MAX_KEYS * 32];
    kiln_status status = list_read(env, KILN_OPTION_PLUGIN_KEYS, &list, err);
    size_t count = status == KILN_STATUS_OK ? read_keys(list.text, keys) : 0;
    if (status == KILN_STATUS_OK && count == 0) {
        status =
            kiln_fail(err, PERMISSION_DENIED,
                      "plugin-keys has no key: nothing is allowed; `kiln plugin sign --key FILE` "
                      "prints the line of one");
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_fuse_check_signature(env, path, bytes, length, keys, count, err);
    }
    kiln_free(env, list.text);
    return status;
}

kiln_status kilni_fuse_check_trust(const kiln_env *env, kilni_fuse_trust trust, const char *path,
                                   const void *bytes, size_t length, kiln_error *err)
{
    const char *mode = kiln_config_string(env->config, KILN_OPTION_PLUGIN_MODE);
    if (trust == KILNI_FUSE_TRUST_SHIPPED) {
        return KILN_STATUS_OK;
    }
    if (strcmp(mode, "allowlist") == 0) { // naming a file allows it
        return trust == KILNI_FUSE_TRUST_ADDED ? KILN_STATUS_OK
                                               : check_listed(env, bytes, length, err);
    }
    if (strcmp(mode, "signed") == 0) {
        return check_signed(env, path, bytes, length, err);
    }
    if (strcmp(mode, "developer") == 0) {
        return KILN_STATUS_OK;
    }
    return kiln_fail(err, PERMISSION_DENIED,
                     "plugin-mode is %.40s: only fusers that ship are loaded", mode);
}

// ---- adding to the list ----

static kiln_status make_folder(const user_list *list, kiln_error *err)
{
    char folder[sizeof(list->path)];
    snprintf(folder, sizeof(folder), "%s", list->path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
            return kiln_fail(err, PERMISSION_DENIED, "folder %.160s: %s", folder, strerror(errno));
        }
        *slash = '/';
    }
    return KILN_STATUS_OK;
}

static kiln_status append(const user_list *list, const char *line, kiln_error *err)
{
    kiln_status status = list->is_default ? make_folder(list, err) : KILN_STATUS_OK;
    if (status != KILN_STATUS_OK) {
        return status;
    }
    int fd = open(list->path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    size_t length = strlen(line);
    bool ok = fd >= 0 && write(fd, line, length) == (ssize_t)length;
    int why = errno;
    ok = fd >= 0 && close(fd) == 0 && ok;
    return ok ? KILN_STATUS_OK
              : kiln_fail(err, PERMISSION_DENIED, "%.160s: %s", list->path, strerror(why));
}

kiln_status kiln_fuse_plugin_allow(const kiln_env *env, const char *path, kiln_error *err)
{
    user_list list = {0};
    char digits[DIGITS + 1], line[DIGITS + 300];
    char *bytes = NULL;
    size_t length = 0;
    kiln_status status = kilni_fuse_read_plugin(env, path, &bytes, &length, err);
    KILN_TRY(out, status, status);
    if (length < 4 || memcmp(bytes, "\177ELF", 4) != 0) {
        status = kiln_fail(err, INVALID_ARGUMENT, "%.180s is no shared object", path);
        goto out;
    }
    KILN_TRY(out, status, list_place(env, KILN_OPTION_PLUGIN_ALLOW, &list, err));
    if (access(list.path, F_OK) == 0) {
        KILN_TRY(out, status, list_read(env, KILN_OPTION_PLUGIN_ALLOW, &list, err));
    }
    digits_of(bytes, length, digits);
    if (list.text != NULL && lists(list.text, digits)) {
        status = kiln_fail(err, ALREADY_EXISTS, "%.160s is in %.60s", path, list.path);
        goto out;
    }
    size_t at = list.text != NULL ? strlen(list.text) : 0;
    bool open_line = at > 0 && list.text[at - 1] != '\n';
    snprintf(line, sizeof(line), "%s%s  %.200s\n", open_line ? "\n" : "", digits,
             strpbrk(path, "\r\n") == NULL ? path : "");
    status = append(&list, line, err);
out:
    kiln_free(env, bytes);
    kiln_free(env, list.text);
    return status;
}
