// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kiln_fuser.hpp: the fuser ABI for C++17. Header only; a plugin derives from two classes and names
// them in KILN_PLUGIN. Objects own what they are made of, copies are clones, and no exception
// leaves the plugin: one that would is KF_E_INTERNAL for the host (KF_E_NOMEM for std::bad_alloc,
// KF_DECLINED for kiln::declined), and a strike.
//
//   kiln::expr      a formula over extents: kiln::sym(1) * 4, ceil_div(n, 256)
//   kiln::tensor    what is worth keeping of a kf_tensor
//   kiln::program   sources, launches with their arguments, temporaries, steps
//   kiln::builder   derive: what was accepted so far; copyable
//   kiln::fuser     derive: one for each device
#ifndef KILN_PLUGIN_SDK_KILN_FUSER_HPP
#define KILN_PLUGIN_SDK_KILN_FUSER_HPP

#include "kf_util.h"

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace kiln
{

// ---- formulas ----------------------------------------------------------------------------------

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

// ---- what one keeps of what is shown
// --------------------------------------------------------------

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

// ---- programs ----------------------------------------------------------------------------------

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
        sources_.push_back(text{std::move(opencl_c), math_flags, {}, {}, {}});
        return static_cast<std::uint32_t>(sources_.size() - 1);
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

/// A program that does not change any more, with the C views of it. Not copied: views point inside.
class sealed_program
{
  public:
    explicit sealed_program(program p) : p_(std::move(p))
    {
        for (auto &s : p_.sources_) {
            s.view = kf_source{};
            s.view.struct_size = static_cast<std::uint32_t>(sizeof(kf_source));
            s.view.format = KF_FORMAT_OPENCL_C;
            s.view.code = kf_blob{s.code.data(), s.code.size()};
            s.view.math_flags = s.math_flags;
            s.view.cl_c_version = 120;
            sources_.push_back(&s.view);
            add_key(s.code.data(), s.code.size());
            add_key(&s.math_flags, sizeof(s.math_flags));
            for (auto &b : s.binaries) {
                seal(b);
                s.binary_views.push_back(&b.view);
            }
            s.view.binaries = s.binary_views.data();
            s.view.n_binaries = s.binary_views.size();
        }
        for (const auto &l : p_.launches_) {
            const kf_launch *single = l.single_.empty() ? nullptr : &seal(l.single_.front());
            kf_launch &view = seal(l);
            view.single = single;
            launches_.push_back(&view);
        }
        for (const auto &t : p_.temps_) {
            temps_.push_back(kf_temp{t.bytes.view(), t.align, t.flags, t.prepack, 0});
            add_key(t.bytes);
            add_key(&t.align, sizeof(t.align));
            add_key(&t.flags, sizeof(t.flags));
            add_key(&t.prepack, sizeof(t.prepack));
        }
        add_key(p_.guard_);
        add_key(p_.steps_.data(), p_.steps_.size() * sizeof(kf_step));
        add_key(&p_.len_, sizeof(p_.len_));
        add_key(&p_.flags_, sizeof(p_.flags_));
    }
    sealed_program(const sealed_program &) = delete;
    sealed_program &operator=(const sealed_program &) = delete;

    kf_opt_info info() const
    {
        kf_opt_info view = {};
        view.struct_size = static_cast<std::uint32_t>(sizeof(view));
        view.len = p_.len_;
        view.n_variants = 1;
        view.name = kf_str{p_.name_.data(), p_.name_.size()};
        view.key = kf_blob{key_.data(), key_.size()};
        return view;
    }
    kf_program view() const
    {
        kf_program view = {};
        view.struct_size = static_cast<std::uint32_t>(sizeof(view));
        view.flags = p_.flags_;
        view.sources = sources_.data();
        view.n_sources = sources_.size();
        view.launches = launches_.data();
        view.n_launches = launches_.size();
        view.temps = temps_.data();
        view.n_temps = temps_.size();
        view.steps = p_.steps_.data();
        view.n_steps = p_.steps_.size();
        view.guard = p_.guard_.view();
        return view;
    }

  private:
    void add_key(const void *bytes, std::size_t len)
    {
        const std::uint64_t n = len;
        key_.append(reinterpret_cast<const char *>(&n), sizeof(n));
        key_.append(static_cast<const char *>(bytes), len);
    }
    void add_key(const expr &e)
    {
        add_key(e.view().ins, e.view().n * sizeof(kf_ins));
    }
    void seal(program::built &b)
    {
        b.view = kf_binary{};
        b.view.struct_size = static_cast<std::uint32_t>(sizeof(kf_binary));
        b.view.device = kf_str{b.device.data(), b.device.size()};
        b.view.driver = kf_str{b.driver.data(), b.driver.size()};
        b.view.code = kf_blob{b.code.data(), b.code.size()};
        add_key(b.device.data(), b.device.size());
        add_key(b.driver.data(), b.driver.size());
        add_key(b.code.data(), b.code.size());
    }
    kf_launch &seal(const launch &l)
    {
        const std::size_t counts[] = {l.args_.size(), l.global_.size(), l.local_.size()};
        args_.emplace_back();
        add_key(&l.source_, sizeof(l.source_));
        add_key(l.kernel_.data(), l.kernel_.size());
        add_key(counts, sizeof(counts));
        for (const auto &a : l.args_) {
            args_.back().push_back(a.arg);
            args_.back().back().value = a.value.view();
            add_key(&a.arg, offsetof(kf_karg, value));
            add_key(a.value);
        }
        kf_launch view = {};
        view.struct_size = static_cast<std::uint32_t>(sizeof(view));
        view.source = l.source_;
        view.dims = static_cast<std::uint32_t>(l.global_.size());
        view.n_args = static_cast<std::uint32_t>(l.args_.size());
        view.kernel = kf_str{l.kernel_.data(), l.kernel_.size()};
        for (std::size_t i = 0; i < l.global_.size() && i < 3; i++) {
            view.global[i] = l.global_[i].view();
            add_key(l.global_[i]);
        }
        for (std::size_t i = 0; i < l.local_.size() && i < 3; i++) {
            view.local[i] = l.local_[i].view();
            add_key(l.local_[i]);
        }
        view.args = args_.back().data();
        launch_views_.push_back(view);
        return launch_views_.back();
    }
    program p_;
    std::string key_;
    std::vector<const kf_source *> sources_;
    std::deque<std::vector<kf_karg>> args_;
    std::deque<kf_launch> launch_views_;
    std::vector<const kf_launch *> launches_;
    std::vector<kf_temp> temps_;
};

// ---- to derive from ----------------------------------------------------------------------------

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
};

struct fuser_row { ///< of KILN_PLUGIN
    const char *id;
    std::unique_ptr<fuser> (*make)(const kf_host *, const kf_device &);
};

template <class F> fuser_row fuser_named(const char *id)
{
    return fuser_row{id, [](const kf_host *host, const kf_device &device) {
                         return std::unique_ptr<fuser>(std::make_unique<F>(host, device));
                     }};
}

} // namespace kiln

// ---- the C side --------------------------------------------------------------------------------

struct kf_fuser {
    std::unique_ptr<kiln::fuser> self;
};
struct kf_builder {
    const kf_fuser *fuser = nullptr;
    std::unique_ptr<kiln::builder> self;
    bool closed = false;
    kiln::answer last; ///< what the views of the last answer point into
};
struct kf_opt {
    kiln::sealed_program program;
};

namespace kiln
{
namespace glue
{

/// Runs `f`; no exception gets past.
template <class F> kf_status guarded(F f)
{
#if defined(__cpp_exceptions)
    try {
        return f();
    } catch (const declined &) {
        return KF_DECLINED;
    } catch (const std::bad_alloc &) {
        return KF_E_NOMEM;
    } catch (...) {
        return KF_E_INTERNAL;
    }
#else
    return f();
#endif
}

struct fuser_table {
    const fuser_row *rows;
    std::uint32_t count;
};
inline fuser_table &rows()
{
    static fuser_table table = {nullptr, 0};
    return table;
}

inline kf_status init()
{
    return KF_OK;
}
inline void deinit()
{
}

inline kf_status fuser_create(const kf_host *host, std::uint32_t index, const kf_device *device,
                              kf_fuser **out)
{
    *out = nullptr;
    return guarded([&]() -> kf_status {
        if (index >= rows().count) {
            return KF_E_INVALID;
        }
        auto made = std::make_unique<kf_fuser>();
        made->self = rows().rows[index].make(host, *device);
        *out = made.release();
        return KF_OK;
    });
}

inline void fuser_destroy(kf_fuser *fuser)
{
    delete fuser;
}

inline kf_status builder_create(const kf_fuser *fuser, kf_builder **out)
{
    *out = nullptr;
    return guarded([&]() -> kf_status {
        auto made = std::make_unique<kf_builder>();
        made->fuser = fuser;
        made->self = fuser->self->start();
        *out = made.release();
        return KF_OK;
    });
}

inline kf_status builder_clone(const kf_builder *from, kf_builder **out)
{
    *out = nullptr;
    return guarded([&]() -> kf_status {
        auto made = std::make_unique<kf_builder>();
        made->fuser = from->fuser;
        made->self = from->self->clone();
        made->closed = from->closed;
        *out = made.release();
        return KF_OK;
    });
}

inline void answer_into(kf_builder *b, kf_state *out)
{
    kf_state state = {};
    b->last = b->self->state();
    b->closed = b->closed || !b->last.open;
    state.struct_size = static_cast<std::uint32_t>(sizeof(state));
    state.status = b->closed ? KF_CLOSED : KF_OPEN;
    state.ready = b->last.ready ? 1 : 0;
    if (b->last.ready) {
        state.len = b->last.len;
        state.confidence = b->last.confidence;
        state.launches = b->last.launches;
        state.est_ns = b->last.ns.view();
        state.est_bytes_read = b->last.bytes_read.view();
        state.est_bytes_written = b->last.bytes_written.view();
        state.est_flops = b->last.flops.view();
        state.temp_bytes = b->last.temp_bytes.view();
    }
    KF_OUT(out, &state);
}

inline kf_status builder_fuse(kf_builder *b, const kf_block *block, const kf_op *const *ops,
                              std::uint64_t n, kf_state *out)
{
    return guarded([&]() -> kf_status {
        for (std::uint64_t i = 0; i < n && !b->closed; i++) {
            b->self->fuse(values(block), *ops[i]);
            b->closed = !b->self->state().open;
        }
        answer_into(b, out);
        return KF_OK;
    });
}

inline kf_status builder_state(const kf_builder *b, kf_state *out)
{
    // Calls on one builder never overlap, so its room for the answer may be used here.
    return guarded([&]() -> kf_status {
        answer_into(const_cast<kf_builder *>(b), out);
        return KF_OK;
    });
}

inline kf_status builder_reset(kf_builder *b)
{
    return guarded([&]() -> kf_status {
        b->self = b->fuser->self->start();
        b->closed = false;
        return KF_OK;
    });
}

inline kf_status builder_finish(kf_builder *b, kf_opt **out)
{
    *out = nullptr;
    return guarded([&]() -> kf_status {
        if (!b->self->state().ready) {
            return KF_E_INVALID;
        }
        *out = new kf_opt{sealed_program(b->self->finish())};
        return KF_OK;
    });
}

inline void builder_destroy(kf_builder *b)
{
    delete b;
}

inline kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    const kf_opt_info view = opt->program.info();
    KF_OUT(out, &view);
    return KF_OK;
}

inline kf_status opt_describe(const kf_opt *opt, std::uint32_t variant, kf_program *out)
{
    if (variant != 0) {
        return KF_E_INVALID;
    }
    const kf_program view = opt->program.view();
    KF_OUT(out, &view);
    return KF_OK;
}

inline void opt_destroy(kf_opt *opt)
{
    delete opt;
}

inline kf_str str_of(const char *text)
{
    return kf_str{text, std::strlen(text)};
}

inline kf_plugin table(const char *id, const char *version, const char *vendor,
                       const kf_str *fuser_ids)
{
    kf_plugin t = {};
    t.struct_size = static_cast<std::uint32_t>(sizeof(t));
    t.abi_minor = KF_ABI_MINOR;
    t.id = str_of(id);
    t.version = str_of(version);
    t.vendor = str_of(vendor);
    t.fuser_ids = fuser_ids;
    t.n_fusers = rows().count;
    t.init = init;
    t.deinit = deinit;
    t.fuser_create = fuser_create;
    t.fuser_destroy = fuser_destroy;
    t.builder_create = builder_create;
    t.builder_clone = builder_clone;
    t.builder_fuse = builder_fuse;
    t.builder_state = builder_state;
    t.builder_reset = builder_reset;
    t.builder_finish = builder_finish;
    t.builder_destroy = builder_destroy;
    t.opt_info = opt_info;
    t.opt_describe = opt_describe;
    t.opt_destroy = opt_destroy;
    return t;
}

} // namespace glue
} // namespace kiln

/// Once, at file scope, outside of namespaces: the manifest and the exported function. After the
/// texts one kiln::fuser_named<F>("id") or more.
#define KILN_PLUGIN(ID, VERSION, VENDOR, ...)                                                      \
    KF_MANIFEST(ID, VERSION, 0, KF_OPSET_MAX, 0, 0);                                               \
    extern "C" const kf_plugin *kf_plugin_query_v1(std::uint32_t)                                  \
    {                                                                                              \
        static const kiln::fuser_row rows[] = {__VA_ARGS__};                                       \
        constexpr std::uint32_t count = sizeof(rows) / sizeof(rows[0]);                            \
        static kf_str ids[count];                                                                  \
        for (std::uint32_t i = 0; i < count; i++) {                                                \
            ids[i] = kiln::glue::str_of(rows[i].id);                                               \
        }                                                                                          \
        kiln::glue::rows() = {rows, count};                                                        \
        static const kf_plugin plugin = kiln::glue::table(ID, VERSION, VENDOR, ids);               \
        return &plugin;                                                                            \
    }

#endif
