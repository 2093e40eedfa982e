// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGIN_SDK_KF_GLUE_HPP
#define KILN_PLUGIN_SDK_KF_GLUE_HPP

/// Part of kiln_fuser.hpp: the C functions of a plugin around the objects in C++.

#include "kf_plugin_row.hpp"
#include "kf_sealed_program.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
    std::deque<kiln::sealed_program> programs; ///< the default, then its variants
    std::string key; ///< of all of them
    std::vector<kiln::expr> costs; ///< of each, what `views` points into; or none
    std::vector<kf_expr> views;

    void add(kiln::program p)
    {
        programs.emplace_back(std::move(p));
        const kf_blob one = programs.back().info().key;
        key.append(static_cast<const char *>(one.ptr), one.len);
    }
};

namespace kiln
{
namespace glue
{

/// What a plugin brings, sorted: filled in when the host first asks for the table.
struct brought {
    const plugin_row *const *fusers;
    std::uint32_t n_fusers;
    kf_operators operators;
};
inline brought &all()
{
    static brought list = {};
    return list;
}

/// The rows of a plugin and the lists that its table points to.
template <std::size_t N> struct sorted {
    explicit sorted(const plugin_row (&from)[N])
    {
        brought &list = all();
        for (std::size_t i = 0; i < N; i++) {
            rows[i] = from[i];
            if (rows[i].is_operator()) {
                rows[i].op.params = rows[i].params;
                operators[list.operators.n_operators++] = &rows[i].op;
            } else {
                ids[list.n_fusers] = str_of(rows[i].id);
                fusers[list.n_fusers++] = &rows[i];
            }
        }
        list.fusers = fusers;
        list.operators.struct_size = static_cast<std::uint32_t>(sizeof(list.operators));
        list.operators.operators = operators;
    }
    plugin_row rows[N];
    kf_str ids[N];
    const plugin_row *fusers[N];
    const kf_operator *operators[N];
};

inline const void *extension(const char *id)
{
    const bool known = std::strcmp(id, KF_EXT_OPERATORS) == 0 && all().operators.n_operators > 0;
    return known ? &all().operators : nullptr;
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
        if (index >= all().n_fusers) {
            return KF_E_INVALID;
        }
        auto made = std::make_unique<kf_fuser>();
        made->self = all().fusers[index]->make(host, kf_device_whole(device));
        *out = made.release();
        return KF_OK;
    });
}

inline void fuser_destroy(kf_fuser *fuser)
{
    delete fuser;
}

inline void fuser_measured(const kf_fuser *fuser, const kf_measured *measured)
{
    (void)guarded([&]() -> kf_status {
        fuser->self->measured(*measured);
        return KF_OK;
    });
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

/// Variant 0's is in the builder's answer. More or fewer than there are variants are none.
inline void add_costs(kf_opt *opt, std::vector<expr> costs)
{
    if (costs.size() + 1 != opt->programs.size()) {
        return;
    }
    opt->costs = std::move(costs);
    opt->views.push_back(kf_expr{nullptr, 0});
    for (const expr &cost : opt->costs) {
        opt->views.push_back(cost.view());
    }
}

inline kf_status builder_finish(kf_builder *b, kf_opt **out)
{
    *out = nullptr;
    return guarded([&]() -> kf_status {
        if (!b->self->state().ready) {
            return KF_E_INVALID;
        }
        auto made = std::make_unique<kf_opt>();
        made->add(b->self->finish());
        for (auto &variant : b->self->variants()) {
            made->add(std::move(variant));
        }
        add_costs(made.get(), b->self->variant_ns());
        *out = made.release();
        return KF_OK;
    });
}

inline void builder_destroy(kf_builder *b)
{
    delete b;
}

inline kf_status opt_info(const kf_opt *opt, kf_opt_info *out)
{
    kf_opt_info view = opt->programs.front().info();
    view.n_variants = static_cast<std::uint32_t>(opt->programs.size());
    view.key = kf_blob{opt->key.data(), opt->key.size()};
    view.variant_ns = opt->views.empty() ? nullptr : opt->views.data();
    view.n_variant_ns = opt->views.size();
    KF_OUT(out, &view);
    return KF_OK;
}

inline kf_status opt_describe(const kf_opt *opt, std::uint32_t variant, kf_program *out)
{
    if (variant >= opt->programs.size()) {
        return KF_E_INVALID;
    }
    const kf_program view = opt->programs[variant].view();
    KF_OUT(out, &view);
    return KF_OK;
}

inline void opt_destroy(kf_opt *opt)
{
    delete opt;
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
    t.fuser_ids = all().n_fusers > 0 ? fuser_ids : nullptr;
    t.n_fusers = all().n_fusers;
    t.init = init;
    t.deinit = deinit;
    t.extension = extension;
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
    t.fuser_measured = fuser_measured;
    return t;
}

} // namespace glue
} // namespace kiln

#endif
