// SPDX-License-Identifier: MIT OR Apache-2.0
// kiln.hpp without exceptions: the first failure of each thread is kept, and results are undefined.
#include <kiln/kiln.hpp>
#include <thread>
#include <vector>

extern "C" {
#include "harness.h"
}

using kiln::Tensor;

static void test_kept()
{
    const Tensor x = Tensor::from(std::vector<float>{1, 2});
    KILN_CHECK((x * 2).to_vector<float>() == std::vector<float>({2, 4}));
    KILN_CHECK_INT(kiln::take_error().status(), KILN_STATUS_OK);
    const Tensor bad = x + Tensor::from(std::vector<float>{1, 2, 3});
    const Tensor worse = kiln::relu(bad) * 2 + x;
    KILN_CHECK(!bad.defined() && !worse.defined());
    KILN_CHECK(worse.to_vector<float>().empty() && worse.shape().empty() && worse.count() == 0);
    KILN_CHECK(worse.item<int>() == 0 && !worse.device().defined() && !(1 / worse).defined());
    const kiln::Error error = kiln::take_error();
    KILN_CHECK_INT(error.status(), KILN_STATUS_INVALID_ARGUMENT);
    KILN_CHECK_CONTAINS(error.what(), "add");
    KILN_CHECK_INT(kiln::take_error().status(), KILN_STATUS_OK);
}

static void test_graph()
{
    const Tensor x = Tensor::from(std::vector<float>{1, 2});
    const kiln::Graph bad = kiln::capture(
        [](const Tensor &a) {
            return a + Tensor::from(std::vector<float>{1, 2, 3});
        },
        x);
    KILN_CHECK(!bad.defined() && !bad(x).defined() && bad.explain().empty());
    KILN_CHECK_CONTAINS(kiln::take_error().what(), "add");
    const kiln::Graph good = kiln::capture([](const Tensor &a) { return a + 1; }, x);
    KILN_CHECK(good(x).to_vector<int>() == std::vector<int>({2, 3}));
    KILN_CHECK_INT(kiln::take_error().status(), KILN_STATUS_OK);
}

static void test_threads()
{
    const kiln::Device nowhere(kiln::Context(), "nowhere:7");
    KILN_CHECK(!nowhere.defined());
    kiln_status other = KILN_STATUS_INTERNAL;
    std::thread([&] { other = kiln::take_error().status(); }).join();
    KILN_CHECK_INT(other, KILN_STATUS_OK);
    nowhere.sync();
    KILN_CHECK_CONTAINS(kiln::take_error().what(), "nowhere");
}

KILN_TEST_MAIN("unit/cpp/kept_errors", KILN_TEST(test_kept), KILN_TEST(test_graph),
               KILN_TEST(test_threads))
