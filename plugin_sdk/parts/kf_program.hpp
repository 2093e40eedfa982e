// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_SDK_KF_PROGRAM_HPP
#define KILN_PLUGIN_SDK_KF_PROGRAM_HPP

/// Part of kiln_fuser.hpp: programs under construction, their launches and arguments.

#include "kf_expr.hpp"
#include "kf_tensor.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace kiln
{

class sealed_program;

/// One kernel launch under construction; the arguments in the order of the kernel's.
class launch
{
  public:
    launch(std::uint32_t source, std::string kernel) : source_(source), kernel_(std::move(kernel))
    {
    }
    launch &global(std::vector<expr> sizes)
    {
        global_ = std::move(sizes);
        return *this;
    }
    launch &local(std::vector<expr> sizes)
    {
        local_ = std::move(sizes);
        return *this;
    }
    launch &read(const tensor &t)
    {
        return add(KF_ARG_TENSOR, t.id, t.dtype, KF_ACCESS_READ);
    }
    launch &write(const tensor &t)
    {
        return add(KF_ARG_TENSOR, t.id, t.dtype, KF_ACCESS_WRITE);
    }
    launch &temp(std::uint32_t index, std::uint32_t access)
    {
        return add(KF_ARG_TEMP, index, 0, access);
    }
    launch &offset(const tensor &t)
    {
        return add(KF_ARG_OFFSET, t.id, KF_DTYPE_I64, 0);
    }
    launch &stride(const tensor &t, std::uint32_t axis)
    {
        add(KF_ARG_STRIDE, t.id, KF_DTYPE_I64, 0);
        args_.back().arg.axis = axis;
        return *this;
    }
    /// A scalar of the block: the `v.i` of a kf_attr of KF_TYPE_SCALAR.
    launch &scalar(std::uint32_t index, std::uint32_t dtype)
    {
        return add(KF_ARG_SCALAR, index, dtype, 0);
    }
    launch &value(expr e)
    {
        return formula(KF_ARG_VALUE, std::move(e));
    } ///< a `long`
    launch &local_bytes(expr e)
    {
        return formula(KF_ARG_LOCAL, std::move(e));
    }
    /// The same work by a kernel of one work-item, for devices with KF_FEATURE_SINGLE_WORK_ITEM.
    /// Give the form that this returns its arguments, and no sizes.
    launch &single(std::uint32_t source, std::string kernel)
    {
        single_.assign(1, launch(source, std::move(kernel)));
        return single_.front();
    }

  private:
    friend class sealed_program;
    struct argument {
        kf_karg arg;
        expr value;
    };
    launch &add(std::uint32_t kind, std::uint32_t ref, std::uint32_t dtype, std::uint32_t access)
    {
        argument a = {};
        a.arg.kind = kind;
        a.arg.ref = ref;
        a.arg.dtype = dtype;
        a.arg.access = access;
        args_.push_back(std::move(a));
        return *this;
    }
    launch &formula(std::uint32_t kind, expr e)
    {
        add(kind, 0, kind == KF_ARG_VALUE ? KF_DTYPE_I64 : 0, 0);
        args_.back().value = std::move(e);
        return *this;
    }
    std::uint32_t source_;
    std::string kernel_;
    std::vector<expr> global_, local_;
    std::vector<argument> args_;
    std::vector<launch> single_; // one at most
};

/// A finished block: owns everything that it shows the host.
class program
{
  public:
    /// `len`: operations covered, drops counted, as the builder's answer said.
    program(std::string name, std::uint32_t len) : name_(std::move(name)), len_(len)
    {
    }

    std::uint32_t source(std::string opencl_c, std::uint64_t math_flags = 0)
    {
        sources_.push_back(text{std::move(opencl_c), math_flags, {}, {}, {}, {}});
        return static_cast<std::uint32_t>(sources_.size() - 1);
    }
    /// For the device's own compiler: kf_source.options.
    void options(std::uint32_t source, std::string words)
    {
        sources_[source].options = std::move(words);
    }
    /// What a compiler made of a source, for devices of this name and driver ("": any) that have no
    /// compiler. The source's own text may be "".
    void binary(std::uint32_t source, std::string device, std::string driver, std::string code)
    {
        sources_[source].binaries.push_back(
            built{std::move(device), std::move(driver), std::move(code), {}});
    }
    std::uint32_t temporary(expr bytes, std::uint32_t align = 64)
    {
        return keep(std::move(bytes), align, 0, KF_NONE);
    }
    /// A temporary that is filled once and kept while the constants are the same: packed weights.
    /// Returns the launch that fills it, to be given its sizes and arguments; it reads constant
    /// tensors only and writes this temporary only, whose index goes to `out_temp`. It is no step.
    launch &packed(std::uint32_t source, std::string kernel, expr bytes, std::uint32_t &out_temp,
                   std::uint32_t align = 64)
    {
        launches_.emplace_back(source, std::move(kernel));
        out_temp = keep(std::move(bytes), align, KF_TEMP_PERSISTENT,
                        static_cast<std::uint32_t>(launches_.size() - 1));
        return launches_.back();
    }
    /// Appends a launch and the step that runs it. The reference lives as long as the program.
    launch &run(std::uint32_t source, std::string kernel)
    {
        launches_.emplace_back(source, std::move(kernel));
        steps_.push_back(kf_step{KF_STEP_LAUNCH, static_cast<std::uint32_t>(launches_.size() - 1)});
        return launches_.back();
    }
    /// The host runs the operation at this position of the block by itself.
    void run_alone(std::uint32_t position)
    {
        steps_.push_back(kf_step{KF_STEP_HOST_OP, position});
    }
    void flags(std::uint32_t kf_program_flags)
    {
        flags_ = kf_program_flags;
    }
    void guard(expr e)
    {
        guard_ = std::move(e);
    }

    const std::string &name() const
    {
        return name_;
    }
    std::uint32_t len() const
    {
        return len_;
    }

  private:
    friend class sealed_program;
    struct built {
        std::string device, driver, code;
        kf_binary view;
    };
    struct temp {
        expr bytes;
        std::uint32_t align, flags, prepack;
    };
    std::uint32_t keep(expr bytes, std::uint32_t align, std::uint32_t flags, std::uint32_t prepack)
    {
        temps_.push_back(temp{std::move(bytes), align, flags, prepack});
        return static_cast<std::uint32_t>(temps_.size() - 1);
    }
    struct text {
        std::string code;
        std::uint64_t math_flags;
        std::string options;
        kf_source view;
        std::deque<built> binaries;
        std::vector<const kf_binary *> binary_views;
    };
    std::string name_;
    std::uint32_t len_;
    std::uint32_t flags_ = KF_PROGRAM_DETERMINISTIC;
    std::deque<text> sources_;
    std::deque<launch> launches_;
    std::vector<temp> temps_;
    std::vector<kf_step> steps_;
    expr guard_;
};

} // namespace kiln

#endif
