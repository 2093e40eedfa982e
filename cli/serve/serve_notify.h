// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVE_NOTIFY_H
#define KILN_SERVE_NOTIFY_H

/// What systemd is told and what it gives (sd_notify(3), sd_listen_fds(3)), as its protocol says:
/// no library is needed. Without systemd nothing happens.

#include <stdint.h>

/// Sends a state, such as "READY=1", to whoever the environment names.
void serve_notify(const char *state);

/// How many sockets were handed over, from descriptor 3 on; they are not for programs that this
/// one starts.
uint32_t serve_activated(void);

enum { SERVE_FIRST_SOCKET = 3 };

/// How often the watchdog wants to hear "WATCHDOG=1", half of its time; 0: never.
uint64_t serve_watchdog_ns(void);

#endif
