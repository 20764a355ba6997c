/// Where a speed-up comes from, as a product.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/// The factors, in the order in which they are applied.
typedef enum ana_factor {
    ANA_FACTOR_ALGORITHM, ///< what the case itself saves or costs, both under `even`
    ANA_FACTOR_STATIC,    ///< the best split for the first iteration instead of `even`
    ANA_FACTOR_DYNAMIC,   ///< the row without re-packing instead of that split
    ANA_FACTOR_REPACK,    ///< the row with re-packing instead of without
    ANA_FACTOR_COUNT
} ana_factor;

/// "algorithm", "static", "dynamic", "repacking". Static storage.
extern const char *const ana_factor_names[ANA_FACTOR_COUNT];

/// Lengths of the same training; 0: not played.
typedef struct ana_factor_times {
    int64_t still_even_ns; // without the case of dynamism, under `even`
    int64_t even_ns;
    int64_t tuned_ns;
    int64_t unpacked_ns; // the row without re-packing; the row itself where it does not re-pack
    int64_t row_ns;
} ana_factor_times;

/// A factor that is 0 does not apply: total is the product of the others.
typedef struct ana_factors {
    double factor[ANA_FACTOR_COUNT];
    double total; // over `even` without the case where it was played, else over `even`
} ana_factors;

/// Divides the speed-up into its factors.
///
/// @return all 0 where even, tuned or the row itself were not played
ana_factors ana_factors_of(const ana_factor_times *times);

/// The factors and their product as people read them: the factors in ten-thousandths, the product
/// in thousandths, rounded so that the product of the factors as printed rounds to the product as
/// printed. Each is at most one unit away from its nearest value; where no such rounding exists,
/// all are the nearest.
typedef struct ana_printed_factors {
    int64_t factor_e4[ANA_FACTOR_COUNT]; // 0: does not apply
    int64_t total_e3;
} ana_printed_factors;

/// @param factors each below 10^4
ana_printed_factors ana_factors_print(const ana_factors *factors);
