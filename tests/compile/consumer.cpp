// The same as consumer.c, with the things of C++17 around it.
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include <pu.h>

int main()
{
    std::vector<pu_real> Phi = {1, 0, 1, 1, 0, 1}, psi(3, 4), y = {1, 2, 1};
    pu_op prior = pu_op_identity(2);
    pu_op map = pu_op_dense(3, 2, Phi.data());
    pu_lgm model = {&prior, &map, nullptr, nullptr, psi.data(), 0};
    pu_data data = pu_data_full(1, 3, y.data());
    pu_real grad_psi[3];
    pu_gradient_result out = {};
    pu_report report;
    const double expected =
        0.5 * 4 * 6 - 1.5 * std::log(4.0) + 0.5 * std::log(65.0) - 0.5 * 24 * 12 / 13.0 + 1.5 * std::log(2 * 3.14159265358979324);
    out.psi = grad_psi;
    if (const pu_status status = pu_gradient(&model, &data, nullptr, nullptr, &out, &report); status != PU_OK)
        return 1;
    const std::string_view version = pu_version();
    std::printf("pu %s, reals of %d bytes: NLL %.6f, expected %.6f\n", version.data(), static_cast<int>(sizeof(pu_real)),
                report.nll, expected);
    return !(std::fabs(report.nll - expected) < 1e-5 * std::fabs(expected));
}
