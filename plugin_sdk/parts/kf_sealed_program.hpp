// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_SDK_KF_SEALED_PROGRAM_HPP
#define KILN_PLUGIN_SDK_KF_SEALED_PROGRAM_HPP

/// Part of kiln_fuser.hpp: finished programs, as the host sees them.

#include "kf_program.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace kiln
{

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
            s.view.options = kf_str{s.options.data(), s.options.size()};
            sources_.push_back(&s.view);
            add_key(s.code.data(), s.code.size());
            add_key(&s.math_flags, sizeof(s.math_flags));
            add_key(s.options.data(), s.options.size());
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

} // namespace kiln

#endif
