#include "analysis/whatif/draws.h"

#include "analysis/study/study_keys.h"
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

/// Reads [low, high], uniform, {"log":[low, high]}, log-uniform, or {"factor":[low, high]},
/// uniform.
static status read_range(json_value value, ana_range *range, error_message *err)
{
    static const char *const keys[] = {"factor", "log"};
    ana_range found = {.distribution = ANA_UNIFORM};
    if (json_is_object(value)) {
        TRY(json_check_keys(value, keys, 2, err));
        if (json_count(value) > 1) {
            return json_error(value, STATUS_FORMAT, err, "needs one of 'factor' and 'log'");
        }
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

static status read_ranges(json_value ranges, ana_uncertainty *uncertainty, error_message *err)
{
    error_message inner = {0};
    const int count = json_count(ranges);
    if (json_is_missing(ranges)) return STATUS_OK;
    if (!json_is_object(ranges) || count > ANA_RANGES_MAX) {
        return json_error(ranges, STATUS_FORMAT, err, "needs an object of at most %d paths",
                          ANA_RANGES_MAX);
    }
    for (json_value at = json_element(ranges, 0); at.node != NULL; at = json_next(at)) {
        ana_declared_range *declared = &uncertainty->ranges[uncertainty->range_count++];
        *declared = (ana_declared_range){.path = json_key(at), .place = at};
        if (ana_study_path_check(declared->path, &inner) != STATUS_OK) {
            return json_error(at, STATUS_FORMAT, err, "%.180s", inner.message);
        }
        TRY(read_range(at, &declared->range, err));
    }
    return STATUS_OK;
}

static status read_section(json_value section, ana_uncertainty *uncertainty, error_message *err)
{
    static const char *const keys[] = {"draws",   "seed",        "ranges",
                                       "assumed", "calibration", "model_error"};
    const json_value draws = json_member(section, keys[0]);
    const json_value seed = json_member(section, keys[1]);
    const json_value assumed = json_member(section, keys[3]);
    const json_value calibration = json_member(section, keys[4]);
    const json_value model_error = json_member(section, keys[5]);
    int64_t given_seed = (int64_t)uncertainty->seed;
    TRY(json_check_keys(section, keys, sizeof keys / sizeof keys[0], err));
    uncertainty->draws_are_given = !json_is_missing(draws);
    if (uncertainty->draws_are_given) {
        TRY(json_int(draws, 0, ANA_DRAWS_MAX, &uncertainty->draw_count, err));
    }
    if (!json_is_missing(seed)) TRY(json_int64(seed, 0, JSON_INTEGER_MAX, &given_seed, err));
    uncertainty->seed = (uint64_t)given_seed;
    if (!json_is_missing(assumed)) TRY(json_bool(assumed, &uncertainty->ranges_assumed, err));
    if (!json_is_missing(calibration)) {
        TRY(json_string(calibration, &uncertainty->calibration, err));
    }
    if (!json_is_missing(model_error)) {
        TRY(json_double(model_error, 0, ANA_MODEL_ERROR_MAX, &uncertainty->model_error, err));
    }
    return read_ranges(json_member(section, keys[2]), uncertainty, err);
}

status ana_uncertainty_read(json_value section, ana_uncertainty *uncertainty, error_message *err)
{
    ana_uncertainty found = {
        .draw_count = ANA_DRAWS_DEFAULT,
        .seed = 1,
        .point_count = 32,
        .ranges_assumed = true,
        .model_error = ANA_MODEL_ERROR_DEFAULT,
    };
    if (!json_is_missing(section)) TRY(read_section(section, &found, err));
    error_message inner = {0};
    if (ana_uncertainty_check(&found, &inner) != STATUS_OK) {
        return json_error(json_member(section, "draws"), inner.code, err, "%s", inner.message);
    }
    *uncertainty = found;
    return STATUS_OK;
}

status ana_uncertainty_check(const ana_uncertainty *uncertainty, error_message *err)
{
    const int draws = uncertainty->draw_count;
    if (draws == 0 || (draws >= ANA_DRAWS_MIN && draws <= ANA_DRAWS_MAX)) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%d draws are neither 0 (no error bars) nor in [%d, %d]",
                     draws, ANA_DRAWS_MIN, ANA_DRAWS_MAX);
}

void ana_uncertainty_limit(ana_uncertainty *uncertainty, int iteration_count)
{
    enum { ITERATIONS = 10000000, POINTS_LEAST = 8, DRAWS_LEAST = 64 };
    const int runs = ITERATIONS / iteration_count;
    int *const points = &uncertainty->point_count;
    int *const draws = &uncertainty->draw_count;
    while (*points > POINTS_LEAST && *points * *draws > runs) {
        (*points)--;
    }
    while (!uncertainty->draws_are_given && *draws > DRAWS_LEAST && *points * *draws > runs) {
        (*draws)--;
    }
}
