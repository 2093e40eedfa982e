// SPDX-License-Identifier: MIT OR Apache-2.0
// kiln.hpp on the reference device: values, numbers beside tensors, lifetimes, errors, graphs,
// threads.
#include <kiln/kiln.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern "C" {
#include "harness.h"
}

using kiln::Device;
using kiln::Tensor;

namespace
{

using Values = std::vector<float>;

Tensor vector(const Values &values)
{
    return Tensor::from(values);
}

bool same(const Tensor &tensor, const Values &wanted)
{
    return tensor.to_vector<float>() == wanted;
}

uint64_t live()
{
    kiln_device_stats stats{};
    stats.struct_size = static_cast<uint32_t>(sizeof(stats));
    kiln_device_stats_get(kiln::default_device().handle(), &stats);
    return stats.tensors_live;
}

/// What a call throws; OK when it throws nothing.
template <class Body> kiln::Error thrown(Body body)
{
    try {
        body();
    } catch (const kiln::Error &error) {
        return error;
    }
    return kiln::Error(KILN_STATUS_OK, "");
}

void test_values()
{
    const Tensor x = Tensor::from(Values{1, 2, 3, 4, 5, 6}, {2, 3});
    KILN_CHECK(x.dtype() == kiln::f32 && x.rank() == 2 && x.count() == 6);
    KILN_CHECK(x.shape() == kiln::Ints({2, 3}));
    KILN_CHECK(same(x, {1, 2, 3, 4, 5, 6}));
    KILN_CHECK(Tensor::from(std::vector<bool>{true, false}).to_vector<bool>() ==
               std::vector<bool>({true, false}));
    KILN_CHECK(Tensor::from(std::vector<int8_t>{-1}).dtype() == kiln::i8);
    KILN_CHECK(Tensor::from(std::vector<uint16_t>{1}).dtype() == kiln::u16);
    KILN_CHECK(Tensor::from(std::vector<int64_t>{1}).dtype() == kiln::i64);
    KILN_CHECK(Tensor::from(std::vector<double>{1}).dtype() == kiln::f64);
    KILN_CHECK(Tensor::from(Values(), {0, 3}).to_vector<float>().empty());
    KILN_CHECK(Tensor::of(7).rank() == 0 && Tensor::of(7).item<int>() == 7);
    KILN_CHECK(kiln::sum(x).item<double>() == 21);
    KILN_CHECK(x.to_vector<int>() == std::vector<int>({1, 2, 3, 4, 5, 6}));
    KILN_CHECK_STR(x.device().address().c_str(), "reference");
    KILN_CHECK(same(x.to(x.device()), {1, 2, 3, 4, 5, 6}));
}

void test_arithmetic()
{
    const Tensor a = vector({6, 8}), b = vector({2, 5});
    KILN_CHECK(same(a + b, {8, 13}) && same(a - b, {4, 3}) && same(a * b, {12, 40}));
    KILN_CHECK(same(a / vector({2, 4}), {3, 2}) && same(a % b, {0, 3}) && same(-a, {-6, -8}));
    KILN_CHECK(same(a + 1, {7, 9}) && same(a - 1.5, {4.5F, 6.5F}) && same(a * 2, {12, 16}));
    KILN_CHECK(same(a / 2, {3, 4}) && same(a % 4, {2, 0}));
    KILN_CHECK(same(1 + a, {7, 9}) && same(1 - a, {-5, -7}) && same(2 * a, {12, 16}));
    KILN_CHECK(same(24 / a, {4, 3}) && same(10 % a, {4, 2}));
    Tensor c = a;
    c += b;
    c *= 2;
    c -= 1;
    c /= a;
    KILN_CHECK(same(c, {15.0F / 6, 25.0F / 8}) && same(a, {6, 8}));
}

void test_comparisons()
{
    const Tensor a = vector({1, 2, 3}), b = vector({3, 2, 1});
    KILN_CHECK(same(a < b, {1, 0, 0}) && same(a <= b, {1, 1, 0}) && same(a == b, {0, 1, 0}));
    KILN_CHECK(same(a > b, {0, 0, 1}) && same(a >= b, {0, 1, 1}) && same(a != b, {1, 0, 1}));
    KILN_CHECK(same(a < 2, {1, 0, 0}) && same(2 < a, {0, 0, 1}) && same(2 <= a, {0, 1, 1}));
    KILN_CHECK(same(2 > a, {1, 0, 0}) && same(2 >= a, {1, 1, 0}) && same(a == 2, {0, 1, 0}));
    KILN_CHECK(same(2 != a, {1, 0, 1}) && (a < b).dtype() == kiln::bool_);
    KILN_CHECK(same((a < b) | (a > b), {1, 0, 1}) && same(!(a < b), {0, 1, 1}));
    const Tensor bits = Tensor::from(std::vector<int>{6});
    KILN_CHECK((bits & Tensor::of(3)).item<int>() == 2 && (bits ^ Tensor::of(3)).item<int>() == 5);
    KILN_CHECK((~bits).item<int>() == -7 && (bits << 1).item<int>() == 12);
    KILN_CHECK((1 << bits).item<int>() == 64 && (bits >> 1).item<int>() == 3);
}

void test_functions()
{
    const Tensor x = Tensor::from(Values{1, -2, 3, -4}, {2, 2});
    KILN_CHECK(same(kiln::maximum(x, 0), {1, 0, 3, 0}) &&
               same(kiln::pow(2, relu(x)), {2, 1, 8, 1}));
    KILN_CHECK(same(kiln::sum(x, {1}, true), {-1, -1}) &&
               same(kiln::reshape(x, {-1}), {1, -2, 3, -4}));
    KILN_CHECK(same(kiln::concat({x, x}, 1), {1, -2, 1, -2, 3, -4, 3, -4}));
    KILN_CHECK(same(kiln::slice(x, {0, 1}, {2, 2}), {-2, -4}));
    KILN_CHECK(same(kiln::full({2}, 1.5), {1.5F, 1.5F}) && kiln::full({2}, 1).dtype() == kiln::i64);
    KILN_CHECK(
        same(kiln::arange(3, kiln::ArangeOptions().with_start(1.0).with_step(0.5)), {1, 1.5F, 2}));
    KILN_CHECK(same(kiln::clamp(x, -1, 2), {1, -1, 2, -1}));
    const auto [values, indices] = kiln::top_k(vector({5, 9, 7}), 2);
    KILN_CHECK(same(values, {9, 7}) && same(indices, {1, 2}));
    KILN_CHECK(same(kiln::cum_sum(vector({1, 2, 3}), kiln::CumSumOptions().with_exclusive(true)),
                    {0, 1, 3}));
    const Tensor image = Tensor::from(Values(16, 1), {1, 1, 4, 4});
    const Tensor weight = Tensor::from(Values(9, 1), {1, 1, 3, 3});
    const kiln::ConvOptions padded =
        kiln::ConvOptions().with_padding({1, 1, 1, 1}).with_strides({2, 2});
    KILN_CHECK(same(kiln::conv(image, weight), {9, 9, 9, 9}));
    KILN_CHECK(same(kiln::conv(image, weight, {}, padded), {4, 6, 6, 9}));
    KILN_CHECK(same(kiln::conv(image, weight, vector({1})), {10, 10, 10, 10}));
}

void test_lifetimes()
{
    const uint64_t before = live();
    {
        Tensor a = vector({1, 2}), b = a, c = std::move(a);
        KILN_CHECK(!a.defined() && b.handle() == c.handle());
        Tensor &itself = c;
        c = itself;
        c = std::move(itself);
        KILN_CHECK(c.defined() && same(c, {1, 2}));
        a = c + 1;
        KILN_CHECK(same(a, {2, 3}));
        std::swap(a, c);
        KILN_CHECK(same(a, {1, 2}) && same(c, {2, 3}));
        b = Tensor();
        KILN_CHECK(same(a, {1, 2}) && live() > before);
        const Tensor taken = Tensor::adopt(a.give_up());
        KILN_CHECK(!a.defined() && same(taken, {1, 2}));
    }
    KILN_CHECK_INT(live(), before);
    Tensor outlives;
    {
        kiln::Context context;
        context.set("device", "reference");
        const Device device(context), more = device;
        outlives = Tensor::from(Values{3}, {1}, more);
        KILN_CHECK(outlives.device().handle() == device.handle());
    }
    KILN_CHECK(same(outlives * 2, {6}));
}

void test_errors()
{
    const kiln::Error shapes = thrown([] { (void)(vector({1, 2}) + vector({1, 2, 3})); });
    KILN_CHECK_INT(shapes.status(), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(shapes.what(), "add");
    const kiln::Error lost = thrown([] { Device(kiln::Context(), "nowhere:7"); });
    KILN_CHECK(lost.status() != KILN_STATUS_OK && std::string(lost.what()).size() > 5);
    const kiln::Error option = thrown([] { kiln::Context().set("no-such-option", "1"); });
    KILN_CHECK_INT(option.status(), KILN_STATUS_NOT_FOUND);
    Tensor gone = vector({1});
    const Tensor kept = std::move(gone);
    KILN_CHECK_CONTAINS(thrown([&] { gone.shape(); }).what(), "undefined");
    KILN_CHECK_CONTAINS(thrown([&] { gone.to_vector<float>(); }).what(), "undefined");
    KILN_CHECK_INT(thrown([&] { (void)(gone + 1); }).status(), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(thrown([&] { (void)(kept + gone); }).status(), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_INT(thrown([&] { kiln::carry(kept, kept); }).status(),
                   KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK(thrown([&] { kiln::full({2}, 1, kiln::f32, Device()); }).status() != KILN_STATUS_OK);
    KILN_CHECK(thrown([&] { Tensor::from(Values{1}, {1}, Device()); }).status() != KILN_STATUS_OK);
    KILN_CHECK(thrown([&] { kiln::concat({kept, gone}); }).status() != KILN_STATUS_OK);
    KILN_CHECK(thrown([&] { kept.to(Device()); }).status() != KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(thrown([] { Device().sync(); }).what(), "undefined");
    KILN_CHECK_CONTAINS(thrown([] { kiln::Graph().run({}); }).what(), "undefined");
    KILN_CHECK_CONTAINS(thrown([] { Tensor::from(Values{1, 2}, {3}); }).what(), "has 3 elements");
    KILN_CHECK_CONTAINS(thrown([] { vector({1, 2}).item<float>(); }).what(), "has 2");
    const int64_t huge = int64_t{1} << 62;
    KILN_CHECK(thrown([=] { Tensor::from(Values(), {huge, huge}); }).status() != KILN_STATUS_OK);
    KILN_CHECK(thrown([] { Tensor::from(Values(), {-1}); }).status() != KILN_STATUS_OK);
}

void test_graph()
{
    const Tensor x = vector({1, 2}), w = vector({3, 4});
    const kiln::Graph graph =
        kiln::capture([](const Tensor &a, const Tensor &b) { return kiln::relu(a * b - 5); }, x, w);
    KILN_CHECK(same(graph(x, w), {0, 3}) && same(graph(w, w), {4, 11}));
    const kiln::Graph shared = graph; // one more reference
    KILN_CHECK(same(shared(vector({2, 2}), w), {1, 3}));
    KILN_CHECK(!graph.explain().empty());
    const kiln::Graph two = kiln::capture(
        [](const std::vector<Tensor> &in) {
            return std::vector<Tensor>{in[0] + 1, in[0] * 2};
        },
        std::vector<Tensor>{x});
    const std::vector<Tensor> made = two.run({w});
    KILN_CHECK(made.size() == 2 && same(made[0], {4, 5}) && same(made[1], {6, 8}));
    // A body that throws gives up the capture: the thread may begin another.
    KILN_CHECK_CONTAINS(thrown([&] {
                            kiln::capture([](const Tensor &a) { return a + vector({1, 2, 3}); }, x);
                        }).what(),
                        "add");
    KILN_CHECK_INT(thrown([&] {
                       kiln::capture([&](const Tensor &a) { return a + a.item<float>(); }, x);
                   }).status(),
                   KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(same(kiln::capture([](const Tensor &a) { return -a; }, x)(w), {-3, -4}));
    KILN_CHECK(thrown([&] { (void)graph(x); }).status() == KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK(thrown([&] { (void)graph(x, Tensor()); }).status() == KILN_STATUS_INVALID_ARGUMENT);
    const auto carries_nothing = [&](const Tensor &a) {
        kiln::carry(a, Tensor());
        return a + 1;
    };
    KILN_CHECK(thrown([&] { kiln::capture(carries_nothing, x); }).status() != KILN_STATUS_OK);
    KILN_CHECK(thrown([&] { kiln::capture(carries_nothing, Tensor()); }).status() !=
               KILN_STATUS_OK);
}

void test_advance()
{
    std::vector<Tensor> state = {vector({1}), vector({2})};
    const kiln::Graph step = kiln::capture(
        [](const Tensor &value, const Tensor &rate) {
            const Tensor next = value * rate;
            kiln::carry(value, next);
            return next + 1;
        },
        state[0], state[1]);
    const uint64_t before = live();
    for (int i = 0; i < 3; i++) {
        KILN_CHECK_INT(step.advance(state).size(), 1);
    }
    KILN_CHECK(same(state[0], {8}) && same(state[1], {2}) && live() == before);
    std::vector<Tensor> wrong = {state[0]};
    KILN_CHECK(thrown([&] { step.advance(wrong); }).status() != KILN_STATUS_OK);
    KILN_CHECK(same(wrong[0], {8}));
}

void test_random()
{
    kiln::default_device().seed(7);
    const Values first = kiln::random_uniform({4}, 0, 1).to_vector<float>();
    kiln::default_device().seed(7);
    KILN_CHECK(same(kiln::random_uniform({4}, 0, 1), first));
    kiln::default_device().sync();
}

void test_threads()
{
    const Tensor shared = vector({1, 2, 3});
    const uint64_t before = live();
    std::vector<int> wrong(4, 0);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < wrong.size(); i++) {
        threads.emplace_back([i, shared, &wrong] {
            for (int round = 0; round < 100; round++) {
                const float by = static_cast<float>(i) + 1;
                const Tensor copy = shared;
                wrong[i] +=
                    same(kiln::sum(copy * by + round), {6 * by + 3 * static_cast<float>(round)})
                        ? 0
                        : 1;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    KILN_CHECK(wrong == std::vector<int>(4, 0));
    KILN_CHECK_INT(live(), before);
}

int calls = 0;

/// Calls an operator with made-up values: it records, or says which operator it refuses.
template <class Body> void attempt(const char *name, Body body)
{
    const kiln::Error error = thrown([&] { (void)body(); });
    calls++;
    if (error.status() != KILN_STATUS_OK && error.status() != KILN_STATUS_INVALID_ARGUMENT &&
        error.status() != KILN_STATUS_UNIMPLEMENTED && error.status() != KILN_STATUS_NOT_FOUND) {
        KILN_FAIL("%s: %s", name, error.what());
    } else if (error.status() != KILN_STATUS_OK &&
               std::string(error.what()).find(name) == std::string::npos) {
        KILN_FAIL("%s is refused in the name of another: %s", name, error.what());
    }
}

void test_every_operator()
{
    const Tensor x = Tensor::from(Values{1, 2, 3, 4}, {2, 2});
#include "kiln_cpp_calls.inc"
    int wanted = 0;
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of(static_cast<kiln_op>(op));
        wanted += info->cls != KILN_CLASS_CONTROL && info->cls != KILN_CLASS_CUSTOM;
    }
    KILN_CHECK_INT(calls, wanted);
}

} // namespace

KILN_TEST_MAIN("unit/cpp", KILN_TEST(test_values), KILN_TEST(test_arithmetic),
               KILN_TEST(test_comparisons), KILN_TEST(test_functions), KILN_TEST(test_lifetimes),
               KILN_TEST(test_errors), KILN_TEST(test_graph), KILN_TEST(test_advance),
               KILN_TEST(test_random), KILN_TEST(test_threads), KILN_TEST(test_every_operator))
