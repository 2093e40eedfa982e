// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_SDK_KF_EXPR_HPP
#define KILN_PLUGIN_SDK_KF_EXPR_HPP

/// Part of kiln_fuser.hpp: formulas over extents.

#include "kf_util.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln
{

/// A formula; an empty one is absent. The host refuses more than KF_MAX_EXPR instructions, and what
/// is used twice counts twice.
class expr
{
  public:
    expr() = default;
    expr(std::int64_t value)
    {
        put(KF_INS_IMM, 0, 0, value);
    } // NOLINT: numbers are formulas

    static expr leaf(std::uint32_t op, std::uint32_t arg, std::uint32_t sym)
    {
        expr e;
        e.put(op, arg, sym, 0);
        return e;
    }
    static expr join(std::uint32_t op, const expr &a, const expr &b)
    {
        expr e = a;
        e.ins_.insert(e.ins_.end(), b.ins_.begin(), b.ins_.end());
        e.put(op, 0, 0, 0);
        return e;
    }
    static expr select(const expr &condition, const expr &a, const expr &b)
    {
        expr e = condition;
        e.ins_.insert(e.ins_.end(), a.ins_.begin(), a.ins_.end());
        e.ins_.insert(e.ins_.end(), b.ins_.begin(), b.ins_.end());
        e.put(KF_INS_SELECT, 0, 0, 0);
        return e;
    }
    /// Valid while this object is neither changed nor destroyed.
    kf_expr view() const
    {
        return kf_expr{ins_.data(), ins_.size()};
    }
    bool empty() const
    {
        return ins_.empty();
    }

  private:
    void put(std::uint32_t op, std::uint32_t arg, std::uint32_t sym, std::int64_t imm)
    {
        ins_.push_back(
            kf_ins{static_cast<std::uint16_t>(op), static_cast<std::uint16_t>(arg), sym, imm});
    }
    std::vector<kf_ins> ins_;
};

/// The extent that a symbol stands for; symbol 0 is 1.
inline expr sym(std::uint32_t symbol)
{
    return symbol == 0 ? expr(1) : expr::leaf(KF_INS_SYM, 0, symbol);
}
inline expr device_fact(std::uint32_t fact)
{
    return expr::leaf(KF_INS_DEVICE, fact, 0);
}
inline expr operator+(const expr &a, const expr &b)
{
    return expr::join(KF_INS_ADD, a, b);
}
inline expr operator-(const expr &a, const expr &b)
{
    return expr::join(KF_INS_SUB, a, b);
}
inline expr operator*(const expr &a, const expr &b)
{
    return expr::join(KF_INS_MUL, a, b);
}
inline expr floor_div(const expr &a, const expr &b)
{
    return expr::join(KF_INS_FLOOR_DIV, a, b);
}
inline expr ceil_div(const expr &a, const expr &b)
{
    return expr::join(KF_INS_CEIL_DIV, a, b);
}
inline expr round_up(const expr &a, const expr &b)
{
    return expr::join(KF_INS_ROUND_UP, a, b);
}
inline expr min(const expr &a, const expr &b)
{
    return expr::join(KF_INS_MIN, a, b);
}
inline expr max(const expr &a, const expr &b)
{
    return expr::join(KF_INS_MAX, a, b);
}
inline expr less(const expr &a, const expr &b)
{
    return expr::join(KF_INS_LT, a, b);
}
inline expr equal(const expr &a, const expr &b)
{
    return expr::join(KF_INS_EQ, a, b);
}
inline expr operator%(const expr &a, const expr &b)
{
    return expr::join(KF_INS_MOD, a, b);
}
inline expr less_equal(const expr &a, const expr &b)
{
    return expr::join(KF_INS_LE, a, b);
}
inline expr both(const expr &a, const expr &b)
{
    return expr::join(KF_INS_AND, a, b);
}
inline expr either(const expr &a, const expr &b)
{
    return expr::join(KF_INS_OR, a, b);
}

/// What a program should take that moves `bytes` and computes `flops`, both of which may be empty.
inline expr roofline_ns(const kf_cost &cost, const expr &bytes, const expr &flops,
                        std::uint32_t launches = 1)
{
    expr ps = bytes.empty() ? expr(0) : bytes * cost.ps_per_kib;
    if (!flops.empty()) {
        ps = max(ps, flops * cost.ps_per_kflop);
    }
    return floor_div(ps, 1024000) + static_cast<std::int64_t>(launches) * cost.launch_ns;
}

} // namespace kiln

#endif
