// SPDX-License-Identifier: MIT OR Apache-2.0
// Which folders, plugins, fusers and programs take part: the list of the option `plugins`. Whom to
// trust is plugin_trust.c's.
#include <stdio.h>
#include <string.h>

#include "fuse_plugin.h"

enum { LEAST_KEY_DIGITS = 8 };

// ---- the option `plugins` ----

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

/// An item that is a path stands for everything in that folder.
static bool is_folder_of(const list_item *item, const char *path)
{
    size_t length = item->length;
    while (length > 1 && item->text[length - 1] == '/') {
        length--;
    }
    return length > 0 && path != NULL && item->text[0] == '/' &&
           strncmp(path, item->text, length) == 0 && (path[length] == '/' || length == 1);
}

static const char *plugin_off(const char *list, const char *id, const char *path)
{
    bool named = false, any_allowed = false;
    list_item item;
    while (next_item(&list, &item)) {
        if (item.denied && is_folder_of(&item, path)) {
            return "its folder is denied by the list of plugins";
        }
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
    snprintf(name, sizeof(name), "%s/%s", id, fuser);
    while (next_item(&list, &item)) {
        if (item.denied && is_item(&item, name)) {
            return "denied by the list of plugins";
        }
    }
    return NULL;
}

const char *kilni_fuse_switched_off(const char *list, const kilni_fuse_plugin *plugin,
                                    const char *fuser)
{
    const char *id = plugin->info.id;
    if (list[0] == 0) {
        return NULL;
    }
    if (strcmp(list, "off") == 0) {
        return "plugins are switched off";
    }
    return fuser == NULL ? plugin_off(list, id, plugin->info.path) : fuser_off(list, id, fuser);
}

/// The third part of an item is the beginning of a program's key.
bool kilni_fuse_program_off(const char *list, kiln_hash128 key)
{
    char hex[33];
    list_item item;
    if (strchr(list, '/') == NULL) {
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
