// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_SOCKET_H
#define KILN_RPC_SOCKET_H

/// Sockets that listen: those that we bind, and those that somebody else has bound for us, such as
/// systemd.

#include "base.h"

#include <sys/stat.h>

enum { KILNI_RPC_SOCKETS_EACH = 8 }; ///< addresses of a name

/// Binds and listens at HOST:PORT or unix:PATH, at every address that the name has, and gives how
/// many sockets these are. Port 0 becomes the same free one for all; `*out_port` is 0 for a socket
/// file. The descriptors are the caller's (`close`, which also removes the socket's file). Errors:
/// UNAVAILABLE (taken, no such address, no such folder).
kiln_status kilni_rpc_socket_listen(const char *address, int out_fds[KILNI_RPC_SOCKETS_EACH],
                                    size_t *out_count, int *out_port, kiln_error *err);
void kilni_rpc_socket_close(int fd);

/// The socket's own address: "unix:PATH" or "HOST:PORT". Errors: INVALID_ARGUMENT (no listening
/// socket of a stream).
kiln_status kilni_rpc_socket_name(int fd, char *out_text, size_t size, kiln_error *err);

/// The next connection of a socket that does not block; below 0: there is none, and errno says why.
int kilni_rpc_socket_accept(int fd);

/// Which socket a descriptor is, never that of one before; 0: it is closed.
ino_t kilni_rpc_socket_id(int fd);

#endif
