// SPDX-License-Identifier: MIT OR Apache-2.0
// Which plugins, fusers and programs the user's configuration lets take part: the list of the knob
// `plugins`, and the file of allowed hashes of the knob `plugin-allow`. Owners and permissions of
// plugin files are loader.c's.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fusion_host_internal.h"

enum { MAX_ALLOW_BYTES = 1 << 20, DIGEST_DIGITS = 64, LEAST_KEY_DIGITS = 8 };

// ---- the knob `plugins` ------------------------------------------------------------------------

typedef struct list_item {
    const char *text; ///< behind a minus
    size_t length;
    bool denied;
} list_item;

static bool next_item(const char **list, list_item *out_item)
{
    *list += strspn(*list, ", ");
    size_t length = strcspn(*list, ", ");
    bool minus = length > 0 && (*list)[0] == '-';
    *out_item = (list_item){*list + minus, length - minus, minus};
    *list += length;
    return length > 0;
}

static bool is_item(const list_item *item, const char *text)
{
    return strlen(text) == item->length && strncmp(item->text, text, item->length) == 0;
}

static const char *plugin_off(const char *list, const char *id)
{
    bool named = false, any_allowed = false;
    list_item item;
    while (next_item(&list, &item)) {
        if (item.denied && is_item(&item, id)) {
            return "denied by the list of plugins";
        }
        any_allowed = any_allowed || !item.denied;
        named = named || (!item.denied && is_item(&item, id));
    }
    return named || !any_allowed ? NULL : "not in the list of allowed plugins";
}

static const char *fuser_off(const char *list, const char *id, const char *fuser)
{
    char name[160];
    list_item item;
    snprintf(name, sizeof name, "%s/%s", id, fuser);
    while (next_item(&list, &item)) {
        if (item.denied && is_item(&item, name)) {
            return "denied by the list of plugins";
        }
    }
    return NULL;
}

const char *kilni_fuse_switched_off(const kiln_env *env, const char *id, const char *fuser)
{
    const char *list = kiln_config_string(env->config, KILN_KNOB_PLUGINS);
    if (list == NULL || list[0] == 0) {
        return NULL;
    }
    if (strcmp(list, "off") == 0) {
        return "plugins are switched off";
    }
    return fuser == NULL ? plugin_off(list, id) : fuser_off(list, id, fuser);
}

/* The third part of an item is the beginning of a program's key. */
bool kilni_fuse_program_off(const kiln_env *env, kiln_hash128 key)
{
    const char *list = kiln_config_string(env->config, KILN_KNOB_PLUGINS);
    char hex[33];
    list_item item;
    if (list == NULL || strchr(list, '/') == NULL) {
        return false;
    }
    kiln_hash_hex(key, hex);
    while (next_item(&list, &item)) {
        const char *slash = memchr(item.text, '/', item.length);
        size_t rest = slash == NULL ? 0 : item.length - (size_t)(slash + 1 - item.text);
        const char *digits = rest == 0 ? NULL : memchr(slash + 1, '/', rest);
        size_t length = digits == NULL ? 0 : item.length - (size_t)(digits + 1 - item.text);
        if (item.denied && length >= LEAST_KEY_DIGITS && length <= 32 &&
            strncmp(digits + 1, hex, length) == 0) {
            return true;
        }
    }
    return false;
}

// ---- the knob `plugin-allow` -------------------------------------------------------------------

/* A list that somebody else can write allows nothing. */
static const char *read_list(const char *path, char *out_text, size_t capacity)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    const char *fault = NULL;
    if (path[0] != '/') {
        fault = "plugin-allow is not an absolute path: nothing is allowed";
    } else if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        fault = "plugin-allow cannot be read: nothing is allowed";
    } else if ((info.st_uid != 0 && info.st_uid != geteuid()) ||
               (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        fault = "plugin-allow is writable for others: nothing is allowed";
    }
    size_t length = 0;
    while (fault == NULL && length < capacity - 1) {
        ssize_t got = read(fd, out_text + length, capacity - 1 - length);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            break;
        }
        length += got > 0 ? (size_t)got : 0;
    }
    out_text[length] = 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return fault;
}

static bool lists(const char *text, const char digits[DIGEST_DIGITS + 1])
{
    while (*text != 0) {
        text += strspn(text, " \t\r\n");
        if (strncmp(text, digits, DIGEST_DIGITS) == 0 &&
            strchr(" \t\r\n", text[DIGEST_DIGITS]) != NULL) { // also at the end: a terminator
            return true;
        }
        text += strcspn(text, "\n");
    }
    return false;
}

const char *kilni_fuse_not_allowed(const kiln_env *env, const void *bytes, size_t length)
{
    const char *path = kiln_config_string(env->config, KILN_KNOB_PLUGIN_ALLOW);
    unsigned char digest[32];
    char digits[DIGEST_DIGITS + 1];
    if (path == NULL || path[0] == 0) {
        return NULL;
    }
    char *text = kiln_alloc(env, MAX_ALLOW_BYTES);
    if (text == NULL) {
        return "there is no memory for the list of allowed plugins";
    }
    const char *fault = read_list(path, text, MAX_ALLOW_BYTES);
    kilni_fuse_sha256(bytes, length, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        snprintf(digits + 2 * i, 3, "%02x", digest[i]);
    }
    if (fault == NULL && !lists(text, digits)) {
        fault = "its SHA-256 is not in the list of plugin-allow";
    }
    kiln_free(env, text);
    return fault;
}
