#include "analysis/compare/factors.h"

#include <math.h>

const char *const ana_factor_names[ANA_FACTOR_COUNT] = {
    [ANA_FACTOR_ALGORITHM] = "algorithm",
    [ANA_FACTOR_STATIC] = "static",
    [ANA_FACTOR_DYNAMIC] = "dynamic",
    [ANA_FACTOR_REPACK] = "repacking",
};

static double ratio(int64_t before_ns, int64_t after_ns)
{
    return before_ns > 0 && after_ns > 0 ? (double)before_ns / (double)after_ns : 0;
}

ana_factors ana_factors_of(const ana_factor_times *times)
{
    ana_factors factors = {0};
    if (times->even_ns <= 0 || times->tuned_ns <= 0 || times->row_ns <= 0) return factors;
    const bool packs = times->unpacked_ns > 0 && times->unpacked_ns != times->row_ns;
    const int64_t unpacked_ns = packs ? times->unpacked_ns : times->row_ns;
    factors.factor[ANA_FACTOR_ALGORITHM] = ratio(times->still_even_ns, times->even_ns);
    factors.factor[ANA_FACTOR_STATIC] = ratio(times->even_ns, times->tuned_ns);
    factors.factor[ANA_FACTOR_DYNAMIC] = ratio(times->tuned_ns, unpacked_ns);
    if (packs) factors.factor[ANA_FACTOR_REPACK] = ratio(unpacked_ns, times->row_ns);
    const int64_t base_ns = times->still_even_ns > 0 ? times->still_even_ns : times->even_ns;
    factors.total = ratio(base_ns, times->row_ns);
    return factors;
}

/// The product of the factors as printed, with choice's bits saying which are rounded away from
/// their nearest value: first those that belong to the row alone, so that rows agree in the others.
static double product_of(const ana_factors *factors, int choice,
                         int64_t factor_e4[ANA_FACTOR_COUNT])
{
    static const int bits[ANA_FACTOR_COUNT] = {[ANA_FACTOR_DYNAMIC] = 0,
                                               [ANA_FACTOR_REPACK] = 1,
                                               [ANA_FACTOR_STATIC] = 2,
                                               [ANA_FACTOR_ALGORITHM] = 3};
    double product = 1;
    for (int factor = 0; factor < ANA_FACTOR_COUNT; factor++) {
        const double exact = factors->factor[factor] * 1e4;
        const int64_t nearest = llround(exact);
        const int64_t other = (double)nearest > exact ? nearest - 1 : nearest + 1;
        factor_e4[factor] = 0;
        if (factors->factor[factor] == 0) continue;
        factor_e4[factor] = (choice >> bits[factor] & 1) != 0 ? other : nearest;
        product *= (double)factor_e4[factor] / 1e4;
    }
    return product;
}

ana_printed_factors ana_factors_print(const ana_factors *factors)
{
    ana_printed_factors printed = {.total_e3 = llround(factors->total * 1e3)};
    for (int choice = 0; choice < 1 << ANA_FACTOR_COUNT; choice++) {
        const double product = product_of(factors, choice, printed.factor_e4);
        if (llround(product * 1e3) == printed.total_e3) return printed;
    }
    (void)product_of(factors, 0, printed.factor_e4);
    return printed;
}
