// SPDX-License-Identifier: MIT OR Apache-2.0
// The smallest program: operations are recorded, and run as one kernel when somebody looks.
#include <cstdio>
#include <kiln/kiln.hpp>

int main()
{
    const auto x = kiln::Tensor::from(std::vector<float>{-2, -1, 1, 2});
    const auto y = kiln::relu(x * 3); // recorded, not run
    for (const float value : y.to_vector<float>()) { // one kernel runs here
        std::printf("%.0f\n", static_cast<double>(value));
    }
}
