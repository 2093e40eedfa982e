// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ERROR_HPP
#define KILN_ERROR_HPP

/// Part of kiln.hpp: what becomes of a call that fails.

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kiln.h"

namespace kiln
{
#ifdef KILN_NO_EXCEPTIONS
inline namespace without_exceptions // its functions are others than those that throw
{
#endif

using Status = kiln_status;

/// A call that failed: its status, and in what() the text of the C record.
class Error : public std::runtime_error
{
  public:
    Error(Status status, const char *text)
        : std::runtime_error(text[0] != '\0' ? text : kiln_status_name(status)), status_(status)
    {
    }
    Status status() const noexcept { return status_; }

  private:
    Status status_;
};

namespace detail
{
#ifdef KILN_NO_EXCEPTIONS
struct Failure {
    Status status;
    char text[sizeof(kiln_error::message)];
};
inline thread_local Failure first_failure = {KILN_STATUS_OK, {}};
#endif

/// The record of one call of kiln.h, and what becomes of a failure.
class Call
{
  public:
    Call() noexcept
    {
        record_.struct_size = static_cast<std::uint32_t>(sizeof(record_));
        record_.message[0] = '\0';
    }
    operator kiln_error *() noexcept { return &record_; }
    /// Whether the call succeeded. A failure is thrown, or kept where nothing may be thrown.
    bool check(Status status)
    {
        if (status == KILN_STATUS_OK) {
            return true;
        }
#ifdef KILN_NO_EXCEPTIONS
        if (first_failure.status == KILN_STATUS_OK) {
            first_failure.status = status;
            std::char_traits<char>::copy(first_failure.text, record_.message,
                                         sizeof(first_failure.text));
        }
        return false;
#else
        throw Error(status, record_.message);
#endif
    }
    bool fail(const std::string &text)
    {
        return check(
            kiln_error_set(&record_, KILN_STATUS_INVALID_ARGUMENT, nullptr, 0, "%s", text.c_str()));
    }
    /// Whether there is an object; a failure where there is none.
    bool needs(const void *object, const char *what)
    {
        return object != nullptr ||
               fail(std::string("the ") + what + " is undefined: it was moved from or never made");
    }

  private:
    kiln_error record_;
};
} // namespace detail

#ifdef KILN_NO_EXCEPTIONS
/// The calling thread's first failure since the last such call; its status is OK if none failed.
inline Error take_error()
{
    const detail::Failure taken = detail::first_failure;
    detail::first_failure.status = KILN_STATUS_OK;
    return taken.status == KILN_STATUS_OK ? Error(KILN_STATUS_OK, "")
                                          : Error(taken.status, taken.text);
}
#endif

#ifdef KILN_NO_EXCEPTIONS
} // inline namespace without_exceptions
#endif
} // namespace kiln

#endif
