// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_GRAPH_HPP
#define KILN_GRAPH_HPP

/// Part of kiln.hpp: captured graphs.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kiln_tensor.hpp"

namespace kiln
{
#ifdef KILN_NO_EXCEPTIONS
inline namespace without_exceptions
{
#endif

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
