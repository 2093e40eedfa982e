// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_TCP_PROXY_H
#define KILN_TESTS_TCP_PROXY_H

/// A proxy on loopback that follows the messages of gRPC in the frames of HTTP/2, and cuts the
/// connection once, after a given number of messages or bytes in one direction. Later connections
/// pass whole. One message is one frame of a session.

#include <stdbool.h>
#include <stdint.h>

enum { PROXY_UP = 0, PROXY_DOWN = 1 }; ///< towards the server, towards the client

typedef struct tcp_proxy tcp_proxy;

/// Listens at a free port, which `proxy_port` gives, and connects to `target_port`.
tcp_proxy *proxy_start(int target_port);
int proxy_port(const tcp_proxy *proxy);

/// From now on, cuts when `frames` messages, or `bytes`, have passed in `direction`; 0: never.
/// `hard`: with a reset, so that what is on its way is lost. Counts begin anew.
void proxy_arm(tcp_proxy *proxy, int direction, uint64_t frames, bool hard);

void proxy_arm_bytes(tcp_proxy *proxy, int direction, uint64_t bytes, bool hard);

/// Messages and bytes since the last arming.
uint64_t proxy_frames(const tcp_proxy *proxy, int direction);
uint64_t proxy_bytes(const tcp_proxy *proxy, int direction);
bool proxy_has_cut(const tcp_proxy *proxy);
void proxy_stop(tcp_proxy *proxy);

#endif
