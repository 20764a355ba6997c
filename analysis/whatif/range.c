#include "analysis/whatif/range.h"

#include "base/text.h"

#include <assert.h>
#include <math.h>

#include <gsl/gsl_cdf.h>

enum { DIGITS = 9 };

#define VALUE_MAX 1e18
#define NORMAL_HIGH_QUANTILE 0.95
#define NORMAL_CUT 0.001

const char *const ana_distribution_names[ANA_DISTRIBUTION_COUNT] = {"uniform", "log-uniform",
                                                                    "triangular", "normal"};

status ana_range_read(json_value value, ana_range *range, error_message *err)
{
    static const char *const keys[] = {"factor", "log"};
    ana_range found = {.distribution = ANA_UNIFORM};
    if (json_is_object(value)) {
        TRY(json_check_keys(value, keys, 2, err));
        found.is_factor = !json_is_missing(json_member(value, "factor"));
        if (!found.is_factor) found.distribution = ANA_LOG_UNIFORM;
        value = json_member(value, keys[found.is_factor ? 0 : 1]);
    }
    const bool is_log = found.distribution == ANA_LOG_UNIFORM;
    const double least = is_log ? 1 / VALUE_MAX : found.is_factor ? 0 : -VALUE_MAX;
    if (!json_is_array(value) || json_count(value) != 2) {
        return json_error(value, STATUS_FORMAT, err, "needs [low, high]");
    }
    TRY(json_double(json_element(value, 0), least, VALUE_MAX, &found.low, err));
    TRY(json_double(json_element(value, 1), least, VALUE_MAX, &found.high, err));
    if (found.low > found.high) {
        return json_error(value, STATUS_FORMAT, err, "low %.9g is above high %.9g", found.low,
                          found.high);
    }
    *range = found;
    return STATUS_OK;
}

static double triangular_quantile(const ana_range *range, double unit)
{
    const double width = range->high - range->low;
    const double rising = range->mode - range->low;
    const double falling = range->high - range->mode;
    if (!(width > 0)) return range->low;
    return unit < rising / width ? range->low + sqrt(unit * width * rising)
                                 : range->high - sqrt((1 - unit) * width * falling);
}

static double normal_quantile(const ana_range *range, double unit)
{
    const double middle = range->low / 2 + range->high / 2;
    const double deviation =
        (range->high - range->low) / 2 / gsl_cdf_ugaussian_Pinv(NORMAL_HIGH_QUANTILE);
    return middle + deviation * gsl_cdf_ugaussian_Pinv(NORMAL_CUT + unit * (1 - 2 * NORMAL_CUT));
}

static double quantile(const ana_range *range, double unit)
{
    switch (range->distribution) {
    case ANA_LOG_UNIFORM:
        return range->low * pow(range->high / range->low, unit);
    case ANA_TRIANGULAR:
        return triangular_quantile(range, unit);
    case ANA_NORMAL:
        return normal_quantile(range, unit);
    default:
        return range->low + unit * (range->high - range->low);
    }
}

double ana_range_quantile(const ana_range *range, double unit)
{
    assert(unit > 0 && unit < 1);
    // libm's last digits differ between systems; the decimal digits that are kept do not.
    return text_rounded(quantile(range, unit), DIGITS);
}
