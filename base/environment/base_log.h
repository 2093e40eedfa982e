// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_BASE_LOG_H
#define KILN_BASE_LOG_H

/// For Kiln's own modules: messages to the program's log.
///
/// Unless a function says otherwise: any thread may call it; it cannot fail. No pointer is NULL
/// unless a function takes it.

#include "kiln_env.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Says something to the log when the level of `module` lets it through.
KILN_API void kiln_log_write(const kiln_env *env, kiln_log_level level, const char *module,
                             const char *format, ...) KILN_COLD KILN_PRINTF(4, 5);

/// Whether the level of `module` lets a message through.
KILN_API bool kiln_log_enabled(const kiln_env *env, kiln_log_level level, const char *module);

/// Warns of variables of the environment that are named KILN_* and are no option. Not while another
/// thread sets the environment.
KILN_API void kiln_config_warn_environment(const kiln_env *env);

/// Warns of modules that the option `log` names and that say nothing.
KILN_API void kiln_config_warn_log(const kiln_env *env);

#ifdef __cplusplus
}
#endif
#endif
