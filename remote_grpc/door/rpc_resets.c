// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts calls that are gone when they arrive. The socket is gRPC's: it is found by its peer and
// shut down through a descriptor of our own, so that no other connection can be meant.

#include "rpc_resets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_GONE = 100, FORGIVEN_EACH_SECOND = 20 };

// ---- sockets ----

/// The peer as gRPC writes it; in some versions the brackets of IPv6 are escaped.
static bool is_peer(int fd, const char *peer)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof(name);
    char host[INET6_ADDRSTRLEN];
    char texts[2][KILNI_RPC_PEER_TEXT] = {"", ""};
    if (getpeername(fd, (struct sockaddr *)&name, &length) != 0) {
        return false;
    }
    const struct sockaddr_in *in = (const void *)&name;
    const struct sockaddr_in6 *in6 = (const void *)&name;
    if (name.ss_family == AF_INET && inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host))) {
        snprintf(texts[0], sizeof(texts[0]), "ipv4:%s:%u", host, ntohs(in->sin_port));
    } else if (name.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) &&
               inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], host, sizeof(host))) {
        snprintf(texts[0], sizeof(texts[0]), "ipv4:%s:%u", host, ntohs(in6->sin6_port));
    } else if (name.ss_family == AF_INET6 &&
               inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host))) {
        snprintf(texts[0], sizeof(texts[0]), "ipv6:[%s]:%u", host, ntohs(in6->sin6_port));
        snprintf(texts[1], sizeof(texts[1]), "ipv6:%%5B%s%%5D:%u", host, ntohs(in6->sin6_port));
    }
    return texts[0][0] != '\0' && (strcmp(peer, texts[0]) == 0 || strcmp(peer, texts[1]) == 0);
}

static void cut_peer(const char *peer)
{
    DIR *folder = opendir("/proc/self/fd");
    bool found = false;
    const struct dirent *entry = NULL;
    while (folder != NULL && !found && (entry = readdir(folder)) != NULL) {
        char *end = NULL;
        long number = strtol(entry->d_name, &end, 10);
        int fd = end != entry->d_name ? fcntl((int)number, F_DUPFD_CLOEXEC, 0) : -1;
        found = fd >= 0 && is_peer(fd, peer);
        if (found) {
            (void)shutdown(fd, SHUT_RDWR);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
}

// ---- scores ----

/// The record of a peer; it may have been another's, which begins anew then.
static kilni_rpc_noted_peer *find_noted(kilni_rpc_resets *resets, const char *peer)
{
    uint64_t hash = kiln_hash64(peer, strlen(peer), 0);
    kilni_rpc_noted_peer *found = &resets->peers[hash % KILNI_RPC_PEERS_NOTED];
    if (strcmp(found->peer, peer) != 0) {
        *found = (kilni_rpc_noted_peer){.at_ns = kiln_time_ns()};
        snprintf(found->peer, sizeof(found->peer), "%s", peer);
    }
    return found;
}

static void score_stage(kilni_rpc_noted_peer *noted, kilni_rpc_stage stage)
{
    uint64_t now = kiln_time_ns();
    noted->score -= (double)(now - noted->at_ns) * 1e-9 * FORGIVEN_EACH_SECOND;
    noted->score = noted->score > 0 ? noted->score : 0;
    noted->at_ns = now;
    if (stage == KILNI_RPC_STAGE_CAME) {
        noted->came++;
        return;
    }
    noted->came -= noted->came > 0;
    noted->score += stage == KILNI_RPC_STAGE_GONE ? 1 : -1;
}

kilni_rpc_verdict kilni_rpc_resets_note(kilni_rpc_resets *resets, const char *peer,
                                        kilni_rpc_stage stage)
{
    if (strncmp(peer, "ipv", 3) != 0) {
        return KILNI_RPC_VERDICT_FINE; // a socket file, which is its user's alone
    }
    kilni_rpc_noted_peer *noted = find_noted(resets, peer);
    if (noted->cut) {
        return KILNI_RPC_VERDICT_LATE; // it had arrived before
    }
    score_stage(noted, stage);
    if (noted->score <= MOST_GONE && noted->came <= MOST_GONE) {
        return KILNI_RPC_VERDICT_FINE;
    }
    noted->cut = true;
    cut_peer(peer);
    return KILNI_RPC_VERDICT_CUT;
}
