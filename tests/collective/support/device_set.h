// SPDX-License-Identifier: MIT OR Apache-2.0
// Several devices in one context, for tests: local, reference, and a remote one whose server is in
// this process.
#ifndef KILN_TESTS_COLLECTIVE_DEVICE_SET_H
#define KILN_TESTS_COLLECTIVE_DEVICE_SET_H

#include "kiln.h"

enum { DEVICE_SET_MOST = 6 };

typedef struct device_set {
    uint32_t count;
    kiln_context *context;
    kiln_device *devices[DEVICE_SET_MOST];
    void *host; ///< of the remote device
} device_set;

/// Opens the addresses; "remote" stands for a reference device behind a server, "failing" for one
/// that fails where device_set_fail_at says, "remote failing" for such a one behind a server.
/// False, with the case failed, when one cannot be opened, or skipped, when one is a part of a
/// GPU, which need not be divisible.
bool device_set_open(device_set *set, const char *const *addresses, uint32_t count);
/// Likewise, with an allocator; NULL: the C library's.
bool device_set_open_with(device_set *set, const kiln_allocator *allocator,
                          const char *const *addresses, uint32_t count);
/// Each step of the group's calls is a command from now on, as where the host does not reach the
/// memory.
void device_set_use_commands(const kiln_collective *group);

/// The n-th read, upload or operation from now on fails on "failing"; 0: none does.
void device_set_fail_at(int reads, int uploads, int executes);

/// The n-th read, upload or operation from now on stays, as in a driver that hangs, on "failing" or
/// behind "remote failing", until it is let go; 0: none does.
void device_set_stay_at(int number);
void device_set_let_go(void);

/// Every read and upload on "failing" takes so long from now on; returns how long all of them took
/// since the last call.
uint64_t device_set_delay(uint32_t delay_us);

/// Checks that no tensor, buffer or byte is left on any device, and closes them.
void device_set_close(device_set *set);

#endif
