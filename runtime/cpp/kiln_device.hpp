// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_DEVICE_HPP
#define KILN_DEVICE_HPP

/// Part of kiln.hpp: handles, contexts and devices.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "kiln_error.hpp"

namespace kiln
{
#ifdef KILN_NO_EXCEPTIONS
inline namespace without_exceptions
{
#endif

namespace detail
{
/// A counted reference to an object of kiln.h.
template <class Object, Object *(*retain)(Object *), void (*release)(Object *)> class Handle
{
  public:
    Handle() noexcept = default;
    Handle(const Handle &other) noexcept
        : object_(other.object_ != nullptr ? retain(other.object_) : nullptr)
    {
    }
    Handle(Handle &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Handle &operator=(Handle other) noexcept
    {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Handle()
    {
        if (object_ != nullptr) {
            release(object_);
        }
    }
    /// Whether it refers to an object: not after a move from it.
    bool defined() const noexcept { return object_ != nullptr; }
    /// The object, borrowed, for functions of kiln.h.
    Object *handle() const noexcept { return object_; }
    /// The reference, for a function of kiln.h that takes it over.
    Object *give_up() noexcept { return std::exchange(object_, nullptr); }

  protected:
    explicit Handle(Object *object) noexcept : object_(object) {}
    Object *object_ = nullptr;
};
} // namespace detail

/// Configuration, cache, fusers and devices. It lives as long as one of its devices.
class Context
{
  public:
    Context()
    {
        detail::Call call;
        kiln_context *made = nullptr;
        if (call.check(kiln_context_create(nullptr, &made, call))) {
            object_.reset(made, kiln_context_destroy);
        }
    }
    /// Sets an option, as `--set NAME=VALUE` of the command does.
    void set(const std::string &name, const std::string &value)
    {
        if (detail::Call call; call.needs(object_.get(), "context")) {
            call.check(kiln_context_set(handle(), name.c_str(), value.c_str(), call));
        }
    }
    kiln_context *handle() const noexcept { return object_.get(); }

  private:
    std::shared_ptr<kiln_context> object_;
};

/// Where tensors live and operations run.
class Device : public detail::Handle<kiln_device, kiln_device_retain, kiln_device_release>
{
  public:
    Device() noexcept = default;
    /// Opens a device, such as "opencl:0"; without an address the option `device`, or the first.
    explicit Device(const Context &context, const std::string &address = std::string())
    {
        if (detail::Call call; call.needs(context.handle(), "context")) {
            call.check(kiln_device_open(
                context.handle(), address.empty() ? nullptr : address.c_str(), &object_, call));
        }
    }
    /// Takes over a reference that a function of kiln.h gave.
    static Device adopt(kiln_device *object) noexcept { return Device(object); }
    std::string address() const
    {
        return detail::Call().needs(object_, "device") ? kiln_device_address(object_) : "";
    }
    /// Waits for all that was recorded; throws the first failure since the last sync.
    void sync() const
    {
        if (detail::Call call; call.needs(object_, "device")) {
            call.check(kiln_sync(object_, call));
        }
    }
    /// Starts the random numbers anew.
    void seed(std::int64_t number) const
    {
        if (detail::Call call; call.needs(object_, "device")) {
            call.check(kiln_seed(object_, number, call));
        }
    }

  private:
    explicit Device(kiln_device *object) noexcept : Handle(object) {}
};

/// The device of calls that name none, opened by the first of them. Threads hold it, each until its
/// end: objects of threads end before static ones, among which are those that drivers need.
inline const Device &default_device()
{
    static const Context context;
    static thread_local const Device device(context);
    return device;
}

#ifdef KILN_NO_EXCEPTIONS
} // inline namespace without_exceptions
#endif
} // namespace kiln

#endif
