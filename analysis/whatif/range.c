#include "analysis/whatif/range.h"

#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include <gsl/gsl_cdf.h>

enum { DIGITS = 9 };

#define VALUE_MAX 1e18
#define NORMAL_HIGH_QUANTILE 0.95
#define NORMAL_CUT 0.001

const char *const ana_distribution_names[ANA_DISTRIBUTION_COUNT] = {"uniform", "log-uniform",
                                                                    "triangular", "normal"};

static status read_ends(json_value ends, ana_range *range, error_message *err)
{
    const double least = range->is_factor ? 0 : -VALUE_MAX;
    if (!json_is_array(ends) || json_count(ends) != 2) {
        return json_error(ends, STATUS_FORMAT, err, "needs [low, high]");
    }
    TRY(json_double(json_element(ends, 0), least, VALUE_MAX, &range->low, err));
    TRY(json_double(json_element(ends, 1), least, VALUE_MAX, &range->high, err));
    if (range->low <= range->high) return STATUS_OK;
    return json_error(ends, STATUS_FORMAT, err, "low %.9g is above high %.9g", range->low,
                      range->high);
}

static status read_distribution(json_value name, ana_range *range, error_message *err)
{
    const char *text = NULL;
    char suggestion[TEXT_SUGGESTION_BYTES];
    if (json_is_missing(name)) return STATUS_OK;
    TRY(json_string(name, &text, err));
    for (int known = 0; known < ANA_DISTRIBUTION_COUNT; known++) {
        if (strcmp(text, ana_distribution_names[known]) != 0) continue;
        range->distribution = (ana_distribution)known;
        return STATUS_OK;
    }
    return json_error(
        name, STATUS_FORMAT, err, "'%.40s' is no distribution%s", text,
        text_suggestion(text, ana_distribution_names, ANA_DISTRIBUTION_COUNT, suggestion));
}

static status check_log(json_value value, const ana_range *range, error_message *err)
{
    if (range->distribution != ANA_LOG_UNIFORM || range->low > 0) return STATUS_OK;
    return json_error(value, STATUS_FORMAT, err, "low %.9g is not above 0, which log-uniform needs",
                      range->low);
}

static status read_object(json_value value, ana_range *range, error_message *err)
{
    static const char *const keys[] = {"range", "factor", "distribution", "mode"};
    const json_value ends = json_member(value, "range");
    const json_value factor = json_member(value, "factor");
    const json_value mode = json_member(value, "mode");
    TRY(json_check_keys(value, keys, sizeof keys / sizeof keys[0], err));
    range->is_factor = !json_is_missing(factor);
    if (range->is_factor && !json_is_missing(ends)) {
        return json_error(value, STATUS_FORMAT, err, "has both 'range' and 'factor'");
    }
    TRY(read_ends(range->is_factor ? factor : ends, range, err));
    TRY(read_distribution(json_member(value, "distribution"), range, err));
    range->mode = range->low / 2 + range->high / 2;
    if (json_is_missing(mode)) return STATUS_OK;
    if (range->distribution != ANA_TRIANGULAR) {
        return json_error(mode, STATUS_FORMAT, err, "only a triangular distribution has a mode");
    }
    return json_double(mode, range->low, range->high, &range->mode, err);
}

status ana_range_read(json_value value, ana_range *range, error_message *err)
{
    ana_range found = {.distribution = ANA_UNIFORM};
    if (json_is_object(value)) {
        TRY(read_object(value, &found, err));
    } else {
        TRY(read_ends(value, &found, err));
    }
    TRY(check_log(value, &found, err));
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

/// libm's last digits differ between systems; the decimal digits that are kept do not.
static double rounded(double value)
{
    return text_rounded(value, DIGITS);
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
    return rounded(quantile(range, unit));
}

void ana_range_ends(const ana_range *range, double *low, double *high)
{
    const bool is_normal = range->distribution == ANA_NORMAL;
    *low = is_normal ? rounded(normal_quantile(range, 0)) : range->low;
    *high = is_normal ? rounded(normal_quantile(range, 1)) : range->high;
}
