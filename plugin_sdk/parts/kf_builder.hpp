// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_SDK_KF_BUILDER_HPP
#define KILN_PLUGIN_SDK_KF_BUILDER_HPP

/// Part of kiln_fuser.hpp: what an author derives from.

#include "kf_program.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace kiln
{

/// Thrown by a fuser's constructor: not for this device.
struct declined {
};

/// What a builder says of itself. `ready` promises that finish() works; the formulas are for all of
/// the first `len` operations as one program.
struct answer {
    bool open = true;
    bool ready = false;
    std::uint32_t len = 0;
    std::uint32_t launches = 1;
    std::uint32_t confidence = KF_CONFIDENCE_MODEL;
    expr ns, bytes_read, bytes_written, flops, temp_bytes;
};

/// The values behind symbols and scalars; asking narrows the plan to the value.
class values
{
  public:
    explicit values(const kf_block *block) : block_(block)
    {
    }
    bool extent(std::uint32_t symbol, std::int64_t &out) const
    {
        return block_ != nullptr && block_->dim_value(block_, symbol, &out) == KF_OK;
    }
    bool scalar(std::uint32_t index, kf_scalar &out) const
    {
        return block_ != nullptr && block_->scalar_value(block_, index, &out) == KF_OK;
    }

  private:
    const kf_block *block_;
};

/// One candidate block. A clone is a copy of the derived object, a reset a new one.
class builder
{
  public:
    virtual ~builder() = default;
    /// Called for each operation until state() says that the builder is closed. `op` lives during
    /// this call only. Drops (KF_OP_DROP) are to be accepted always.
    virtual void fuse(const values &values, const kf_op &op) = 0;
    virtual answer state() const = 0;
    virtual program finish() const = 0; ///< only when state() says ready
    /// Other programs that do the same work, for the same `len`; state() speaks of finish()'s. The
    /// host measures which is the fastest.
    virtual std::vector<program> variants() const
    {
        return {};
    }
    /// Nanoseconds of each of variants(), in their order, for a host that has yet to measure;
    /// empty, or an empty formula: not said.
    virtual std::vector<expr> variant_ns() const
    {
        return {};
    }
    virtual std::unique_ptr<builder> clone() const = 0;
};

/// clone() by the copy constructor of `Derived`.
template <class Derived> class copyable_builder : public builder
{
  public:
    std::unique_ptr<builder> clone() const override
    {
        return std::make_unique<Derived>(static_cast<const Derived &>(*this));
    }
};

/// One for each device, read-only once it is made. The constructor takes (const kf_host *, const
/// kf_device &); the host outlives it, the facts do not.
class fuser
{
  public:
    virtual ~fuser() = default;
    virtual std::unique_ptr<builder> start() const = 0;
    /// What the host measured of a program. It may change estimates and nothing else, and other
    /// functions may run meanwhile.
    virtual void measured(const kf_measured &what) const
    {
        (void)what;
    }
};

} // namespace kiln

#endif
