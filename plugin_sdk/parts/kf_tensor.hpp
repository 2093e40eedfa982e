// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_SDK_KF_TENSOR_HPP
#define KILN_PLUGIN_SDK_KF_TENSOR_HPP

/// Part of kiln_fuser.hpp: what is worth keeping of what is shown.

#include "kf_expr.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln
{

/// A copy of a tensor as it was shown: the original lives only during the call.
struct tensor {
    std::uint32_t id = KF_NONE;
    std::uint32_t dtype = 0;
    std::uint32_t flags = 0;
    std::uint32_t facts = 0;
    std::vector<std::uint32_t> symbols; ///< of each axis

    tensor() = default;
    explicit tensor(const kf_tensor &from)
        : id(from.id), dtype(from.dtype), flags(from.flags), facts(from.facts)
    {
        for (std::uint32_t i = 0; i < from.rank; i++) {
            symbols.push_back(from.dims[i].symbol);
        }
    }
    /// Same contents for ever: what a launch of program::packed may read.
    bool constant() const
    {
        return (flags & KF_TENSOR_CONST) != 0;
    }
    bool same_shape(const tensor &other) const
    {
        return symbols == other.symbols;
    }
    bool dense() const
    {
        const std::uint32_t needed = KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET;
        return (facts & needed) == needed;
    }
    expr count() const
    {
        expr product;
        for (std::uint32_t symbol : symbols) {
            if (symbol != 0) {
                product = product.empty() ? sym(symbol) : product * sym(symbol);
            }
        }
        return product.empty() ? expr(1) : product;
    }
    expr bytes() const
    {
        return count() * static_cast<std::int64_t>(kf_dtype_of(dtype).bytes);
    }
    /// The extent of an axis, counted from the end: 1 is the last. An axis that is not there is 1.
    expr extent_from_end(std::size_t axis) const
    {
        return axis == 0 || axis > symbols.size() ? expr(1) : sym(symbols[symbols.size() - axis]);
    }
};

/// Says why an operation was not taken; false, so that a check can return it.
inline bool decline(const kf_host *host, std::uint32_t code, const kf_op &op, const char *why)
{
    return kf_decline(host, code, op.position, "%s", why) != 0;
}

} // namespace kiln

#endif
