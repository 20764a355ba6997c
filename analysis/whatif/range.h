/// A range in which an uncertain number lies, and how it is spread in it.
#pragma once

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>

typedef enum ana_distribution {
    ANA_UNIFORM,     ///< every value from low to high is as likely
    ANA_LOG_UNIFORM, ///< every order of magnitude is; low > 0
    ANA_TRIANGULAR,  ///< mode is the likeliest, low and high are the ends
    ANA_NORMAL,      ///< 9 of 10 values lie from low to high; cut at 0.1 % and 99.9 %
    ANA_DISTRIBUTION_COUNT
} ana_distribution;

extern const char *const ana_distribution_names[ANA_DISTRIBUTION_COUNT];

typedef struct ana_range {
    ana_distribution distribution;
    bool is_factor;   // of the value that a point has
    double low, high; // low <= high; the same: certain
    double mode;      // of a triangle; low <= mode <= high
} ana_range;

/// Reads [low, high], uniform, {"log":[low, high]}, log-uniform, or {"factor":[low, high]},
/// uniform.
///
/// @return STATUS_FORMAT naming what is malformed: low above high, a factor below 0, log of what is
///         not above 0
status ana_range_read(json_value value, ana_range *range, error_message *err);

/// The value below which a share of unit in (0, 1) lies; 9 significant digits, so that it is the
/// same on every machine.
double ana_range_quantile(const ana_range *range, double unit);
