// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TENSOR_HPP
#define KILN_TENSOR_HPP

/// Part of kiln.hpp: tensors, their dtypes, and numbers beside them.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kiln_device.hpp"

namespace kiln
{
#ifdef KILN_NO_EXCEPTIONS
inline namespace without_exceptions
{
#endif

using Dtype = kiln_dtype;
using Ints = std::vector<std::int64_t>;
using Floats = std::vector<double>;

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

#ifdef KILN_NO_EXCEPTIONS
} // inline namespace without_exceptions
#endif
} // namespace kiln

#endif
