// SPDX-License-Identifier: MIT OR Apache-2.0
// A list of descriptors of others. A number may be another file's by now, so each is known by the
// socket that it was.

#include "rpc_guests.h"

enum { FIRST_GUESTS = 16 };

size_t kilni_rpc_guests_look(kilni_rpc_guests *guests)
{
    size_t left = 0;
    for (size_t i = 0; i < guests->count; i++) {
        if (kilni_rpc_socket_id(guests->list[i].fd) == guests->list[i].id) {
            guests->list[left++] = guests->list[i];
        }
    }
    guests->count = left;
    return left;
}

kiln_status kilni_rpc_guests_add(const kiln_env *env, kilni_rpc_guests *guests, int fd,
                                 kiln_error *err)
{
    if (guests->count == guests->room && 2 * kilni_rpc_guests_look(guests) >= guests->room) {
        size_t room = guests->room > 0 ? 2 * guests->room : FIRST_GUESTS;
        kilni_rpc_guest *list =
            kiln_realloc(env, guests->list, guests->room * sizeof(*list), room * sizeof(*list));
        if (list == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a connection");
        }
        guests->list = list;
        guests->room = room;
    }
    guests->list[guests->count++] = (kilni_rpc_guest){.fd = fd, .id = kilni_rpc_socket_id(fd)};
    return KILN_STATUS_OK;
}

void kilni_rpc_guests_fini(const kiln_env *env, kilni_rpc_guests *guests)
{
    kiln_free(env, guests->list);
    *guests = (kilni_rpc_guests){0};
}
