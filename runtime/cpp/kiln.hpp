// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_HPP
#define KILN_KILN_HPP

/// Kiln for C++17: handles, operators and exceptions over kiln.h, in headers alone.
///
/// A handle (Context, Device, Tensor, Graph) is a reference to an object of Kiln: a copy is one
/// more reference, and a handle that was moved from is undefined, as one that was never made. The
/// functions of the operator table come from kiln_ops_cpp.inc, which the build writes.
///
/// Any thread may call these functions, with handles of its own; what kiln.h says of each object
/// holds here too. A call that fails throws kiln::Error with the text of the C record. With
/// KILN_NO_EXCEPTIONS defined, it gives an undefined handle or an empty value, and the first
/// failure of each thread is kept for kiln::take_error.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln.h"

namespace kiln
{
#ifdef KILN_NO_EXCEPTIONS
inline namespace without_exceptions // its functions are others than those that throw
{
#endif

using Status = kiln_status;
using Dtype = kiln_dtype;
using Ints = std::vector<std::int64_t>;
using Floats = std::vector<double>;

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

/// The dtype whose elements C++ has as T.
template <class T> constexpr Dtype dtype_of() noexcept
{
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "no dtype has such elements");
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (std::is_same_v<T, bool>) {
        return KILN_DTYPE_BOOL;
    } else if constexpr (std::is_floating_point_v<T>) {
        return sizeof(T) == 4 ? KILN_DTYPE_F32 : KILN_DTYPE_F64;
    } else if constexpr (sizeof(T) == 1) {
        return is_signed ? KILN_DTYPE_I8 : KILN_DTYPE_U8;
    } else if constexpr (sizeof(T) == 2) {
        return is_signed ? KILN_DTYPE_I16 : KILN_DTYPE_U16;
    } else if constexpr (sizeof(T) == 4) {
        return is_signed ? KILN_DTYPE_I32 : KILN_DTYPE_U32;
    } else {
        return is_signed ? KILN_DTYPE_I64 : KILN_DTYPE_U64;
    }
}

/// A number beside tensors; it takes the dtype of the operation.
class Scalar
{
  public:
    template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
    Scalar(T value) noexcept
        : number_(std::is_integral_v<T> ? kiln_i64(static_cast<std::int64_t>(value))
                                        : kiln_f64(static_cast<double>(value)))
    {
    }
    kiln_number number() const noexcept { return number_; }

  private:
    kiln_number number_;
};

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

/// A value on a device, computed when somebody reads it.
class Tensor : public detail::Handle<kiln_tensor, kiln_retain, kiln_release>
{
  public:
    Tensor() noexcept = default;
    /// A tensor of a copy of `values`, row-major; without a shape they are a vector.
    template <class T>
    static Tensor from(const std::vector<T> &values, const Ints &shape,
                       const Device &device = default_device())
    {
        if constexpr (std::is_same_v<T, bool>) {
            const std::vector<unsigned char> bytes(values.begin(), values.end());
            return make(KILN_DTYPE_BOOL, shape, bytes.data(), bytes.size(), device);
        } else {
            return make(dtype_of<T>(), shape, values.data(), values.size(), device);
        }
    }
    template <class T> static Tensor from(const std::vector<T> &values)
    {
        return from(values, Ints{static_cast<std::int64_t>(values.size())});
    }
    /// A tensor of one element without axes.
    template <class T> static Tensor of(T value, const Device &device = default_device())
    {
        return make(dtype_of<T>(), Ints(), &value, 1, device);
    }
    /// Takes over a reference that a function of kiln.h gave.
    static Tensor adopt(kiln_tensor *object) noexcept { return Tensor(object); }
    Dtype dtype() const
    {
        return detail::Call().needs(object_, "tensor") ? kiln_tensor_dtype(object_)
                                                       : KILN_DTYPE_NONE;
    }
    std::size_t rank() const
    {
        return detail::Call().needs(object_, "tensor") ? kiln_tensor_rank(object_) : 0;
    }
    Ints shape() const
    {
        const std::size_t axes = rank();
        return axes == 0 ? Ints()
                         : Ints(kiln_tensor_dims(object_), kiln_tensor_dims(object_) + axes);
    }
    /// Number of elements.
    std::size_t count() const
    {
        return detail::Call().needs(object_, "tensor")
                   ? static_cast<std::size_t>(kiln_tensor_count(object_))
                   : 0;
    }
    Device device() const
    {
        return Device::adopt(detail::Call().needs(object_, "tensor")
                                 ? kiln_device_retain(kiln_tensor_device(object_))
                                 : nullptr);
    }
    /// A copy on another device; the bytes travel behind the calls.
    Tensor to(const Device &other) const
    {
        detail::Call call;
        kiln_tensor *made = nullptr;
        if (call.needs(object_, "tensor") && call.needs(other.handle(), "device")) {
            call.check(kiln_to_device(object_, other.handle(), &made, call));
        }
        return adopt(made);
    }
    /// Waits for the elements and copies them, row-major; of another dtype they are cast first.
    template <class T> std::vector<T> to_vector() const
    {
        using Stored = std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>;
        std::vector<Stored> values(count());
        if (!defined() || !read(dtype_of<T>(), values.data(), values.size() * sizeof(T))) {
            return {};
        }
        if constexpr (std::is_same_v<T, bool>) {
            return std::vector<bool>(values.begin(), values.end());
        } else {
            return values;
        }
    }
    /// The only element, as to_vector gives it.
    template <class T> T item() const
    {
        T value = T();
        if (count() != 1) {
            detail::Call().fail("item is for one element, and the tensor has " +
                                std::to_string(count()));
        } else {
            read(dtype_of<T>(), &value, sizeof(value));
        }
        return value;
    }

  private:
    explicit Tensor(kiln_tensor *object) noexcept : Handle(object) {}
    static Tensor make(Dtype dtype, const Ints &shape, const void *data, std::size_t count,
                       const Device &device)
    {
        constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
        detail::Call call;
        std::uint64_t wanted = 1;
        for (const std::int64_t length : shape) {
            const std::uint64_t times = length < 0 ? 0 : static_cast<std::uint64_t>(length);
            wanted = times != 0 && wanted > most / times ? most : wanted * times;
        }
        kiln_tensor *made = nullptr;
        if (wanted != count) {
            call.fail("the shape has " + std::to_string(wanted) + " elements, and the data " +
                      std::to_string(count));
        } else {
            call.check(kiln_tensor_create(device.handle(), dtype, shape.size(), shape.data(), data,
                                          &made, call));
        }
        return adopt(made);
    }
    bool read(Dtype as, void *data, std::size_t bytes) const
    {
        detail::Call call;
        if (dtype() == as) {
            return call.check(kiln_read(object_, data, bytes, call));
        }
        kiln_tensor *made = nullptr;
        return call.check(kiln_cast(object_, as, &made, call)) && adopt(made).read(as, data, bytes);
    }
};

namespace detail
{
inline std::vector<kiln_tensor *> handles(const std::vector<Tensor> &tensors)
{
    std::vector<kiln_tensor *> list;
    list.reserve(tensors.size());
    for (const Tensor &tensor : tensors) {
        list.push_back(tensor.handle());
    }
    return list;
}

inline std::vector<Tensor> adopted(const std::vector<kiln_tensor *> &objects)
{
    std::vector<Tensor> tensors;
    tensors.reserve(objects.size());
    for (kiln_tensor *object : objects) {
        tensors.push_back(Tensor::adopt(object));
    }
    return tensors;
}

/// The number as a tensor that goes with another, where an operator has no form for numbers.
inline Tensor like(Scalar value, const Tensor &tensor)
{
    Call call;
    kiln_tensor *made = nullptr;
    const Dtype dtype = tensor.dtype();
    if (tensor.defined()) {
        call.check(kiln_full(kiln_tensor_device(tensor.handle()), nullptr, 0, dtype, value.number(),
                             &made, call));
    }
    return Tensor::adopt(made);
}
} // namespace detail

#include "kiln_ops_cpp.inc" // the operators

/// Operations that were captured once, run with one call. One thread at a time uses a graph.
class Graph
{
  public:
    Graph() = default;
    bool defined() const noexcept { return object_ != nullptr; }
    kiln_graph *handle() const noexcept { return object_.get(); }
    /// Runs it on other inputs, in the order of the capture's.
    std::vector<Tensor> run(const std::vector<Tensor> &inputs) const
    {
        detail::Call call;
        std::vector<kiln_tensor *> made(outputs_, nullptr);
        const std::vector<kiln_tensor *> given = detail::handles(inputs);
        if (call.needs(object_.get(), "graph")) {
            call.check(kiln_graph_run(handle(), given.data(), given.size(), made.data(),
                                      made.size(), call));
        }
        return detail::adopted(made);
    }
    /// Runs it and gives its first output.
    template <class... Inputs> Tensor operator()(const Inputs &...inputs) const
    {
        const std::vector<Tensor> made = run(std::vector<Tensor>{inputs...});
        return made.empty() ? Tensor() : made.front();
    }
    /// Runs it, and puts the next values of the inputs that carry() named in their places.
    std::vector<Tensor> advance(std::vector<Tensor> &inputs) const
    {
        detail::Call call;
        std::vector<kiln_tensor *> made(outputs_, nullptr);
        std::vector<kiln_tensor *> given = detail::handles(inputs);
        if (call.needs(object_.get(), "graph")) {
            for (Tensor &input : inputs) {
                input.give_up(); // the call replaces references
            }
            const Status status = kiln_graph_advance(handle(), given.data(), given.size(),
                                                     made.data(), made.size(), call);
            for (std::size_t i = 0; i < given.size(); i++) {
                inputs[i] = Tensor::adopt(given[i]);
            }
            call.check(status);
        }
        return detail::adopted(made);
    }
    /// What was decided for it and why; `flags` are KILN_EXPLAIN_* bits.
    std::string explain(std::uint32_t flags = 0) const
    {
        detail::Call call;
        char *text = nullptr;
        if (!call.needs(object_.get(), "graph") ||
            !call.check(kiln_graph_explain(handle(), flags, &text, call))) {
            return std::string();
        }
        const auto free = [this](char *made) {
            kiln_text_free(kiln_device_context(device_.handle()), made);
        };
        return std::string(std::unique_ptr<char, decltype(free)>(text, free).get());
    }

  private:
    template <class Body> friend Graph capture(Body &&body, const std::vector<Tensor> &inputs);

    Device device_;
    std::shared_ptr<kiln_graph> object_;
    std::size_t outputs_ = 0;
};

namespace detail
{
/// A capture of the calling thread, given up when it does not come to its end.
class Capture
{
  public:
    Capture(const Device &device, const std::vector<Tensor> &inputs) : device_(device)
    {
        Call call;
        const std::vector<kiln_tensor *> given = handles(inputs);
        open_ = call.check(kiln_graph_begin(device.handle(), given.data(), given.size(), call));
    }
    Capture(const Capture &) = delete;
    Capture &operator=(const Capture &) = delete;
    ~Capture()
    {
        if (open_) {
            kiln_graph_cancel(device_.handle());
        }
    }
    kiln_graph *end(const std::vector<Tensor> &outputs)
    {
        Call call;
        kiln_graph *made = nullptr;
        const std::vector<kiln_tensor *> given = handles(outputs);
        open_ =
            !call.check(kiln_graph_end(device_.handle(), given.data(), given.size(), &made, call));
        return made;
    }
    bool open() const noexcept { return open_; }

  private:
    const Device &device_;
    bool open_ = false;
};

inline std::vector<Tensor> listed(Tensor one)
{
    return {std::move(one)};
}
inline std::vector<Tensor> listed(std::vector<Tensor> several)
{
    return several;
}
} // namespace detail

/// Captures what `body`, called with `inputs`, records; it gives a tensor or a vector of them.
template <class Body> Graph capture(Body &&body, const std::vector<Tensor> &inputs)
{
    Graph graph;
    graph.device_ = inputs.empty() ? default_device() : inputs.front().device();
    detail::Capture capture(graph.device_, inputs);
    if (capture.open()) {
        const std::vector<Tensor> outputs = detail::listed(body(inputs));
        if (kiln_graph *made = capture.end(outputs)) {
            graph.object_.reset(made, kiln_graph_destroy);
            graph.outputs_ = outputs.size();
        }
    }
    return graph;
}

/// The same for a body that takes the inputs one by one.
template <class Body, class... Inputs> Graph capture(Body &&body, const Inputs &...inputs)
{
    return capture([&](const std::vector<Tensor> &) { return body(inputs...); },
                   std::vector<Tensor>{inputs...});
}

/// Within a capture: what `input` becomes with each Graph::advance.
inline void carry(const Tensor &input, const Tensor &next)
{
    detail::Call call;
    if (const Device device = input.device(); device.defined()) {
        call.check(kiln_graph_carry(device.handle(), input.handle(), next.handle(), call));
    }
}

#ifdef KILN_NO_EXCEPTIONS
} // inline namespace without_exceptions
#endif
} // namespace kiln

#endif
