// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_API_H
#define KILN_API_H

/// How functions are declared: exported, their result not to be ignored, rarely called, taking a
/// format as printf does.

#if defined(__GNUC__)
#define KILN_API __attribute__((visibility("default")))
#define KILN_NODISCARD __attribute__((warn_unused_result))
/// Rarely called: compilers move the way to the call out of the hot code.
#define KILN_COLD __attribute__((cold))
#define KILN_PRINTF(format_index, first_index)                                                     \
    __attribute__((format(printf, format_index, first_index)))
#else
#define KILN_API
#define KILN_NODISCARD
#define KILN_COLD
#define KILN_PRINTF(format_index, first_index)
#endif

#endif
