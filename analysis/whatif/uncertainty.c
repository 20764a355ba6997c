#include "analysis/whatif/uncertainty.h"

#include "analysis/study/study_keys.h"

static status read_range(json_value value, ana_declared_range *declared, error_message *err)
{
    error_message inner = {0};
    *declared = (ana_declared_range){.path = json_key(value), .place = value};
    if (ana_study_path_check(declared->path, &inner) != STATUS_OK) {
        return json_error(value, STATUS_FORMAT, err, "%.180s", inner.message);
    }
    return ana_range_read(value, &declared->range, err);
}

static status read_ranges(json_value ranges, ana_uncertainty *uncertainty, error_message *err)
{
    const int count = json_count(ranges);
    if (json_is_missing(ranges)) return STATUS_OK;
    if (!json_is_object(ranges) || count > ANA_RANGES_MAX) {
        return json_error(ranges, STATUS_FORMAT, err, "needs an object of at most %d paths",
                          ANA_RANGES_MAX);
    }
    json_value range = json_element(ranges, 0);
    for (int index = 0; index < count; index++, range = json_next(range)) {
        TRY(read_range(range, &uncertainty->ranges[index], err));
    }
    uncertainty->range_count = count;
    return STATUS_OK;
}

static status read_optional_int(json_value section, const char *key, int min, int max, int *out,
                                error_message *err)
{
    const json_value value = json_member(section, key);
    return json_is_missing(value) ? STATUS_OK : json_int(value, min, max, out, err);
}

static status read_optional_bool(json_value section, const char *key, bool *out, error_message *err)
{
    const json_value value = json_member(section, key);
    return json_is_missing(value) ? STATUS_OK : json_bool(value, out, err);
}

/// A number from 0.
static status read_optional_double(json_value section, const char *key, double max, double *out,
                                   error_message *err)
{
    const json_value value = json_member(section, key);
    return json_is_missing(value) ? STATUS_OK : json_double(value, 0, max, out, err);
}

static status read_numbers(json_value section, ana_uncertainty *uncertainty, error_message *err)
{
    const json_value seed = json_member(section, "seed");
    int64_t given = (int64_t)uncertainty->seed;
    TRY(read_optional_int(section, "draws", 0, ANA_DRAWS_MAX, &uncertainty->draw_count, err));
    TRY(read_optional_int(section, "detail", 1, ANA_DETAIL_MAX, &uncertainty->detail_count, err));
    if (!json_is_missing(seed)) TRY(json_int64(seed, 0, JSON_INTEGER_MAX, &given, err));
    uncertainty->seed = (uint64_t)given;
    uncertainty->draws_are_given = !json_is_missing(json_member(section, "draws"));
    uncertainty->detail_is_given = !json_is_missing(json_member(section, "detail"));
    TRY(read_optional_double(section, "model_error", ANA_MODEL_ERROR_MAX, &uncertainty->model_error,
                             err));
    return read_optional_double(section, "equivalence", ANA_EQUIVALENCE_MAX,
                                &uncertainty->equivalence, err);
}

static status read_section(json_value section, ana_uncertainty *uncertainty, error_message *err)
{
    static const char *const keys[] = {"draws",       "seed",        "detail",
                                       "equivalence", "ranges",      "assumed",
                                       "resample",    "calibration", "model_error"};
    const json_value calibration = json_member(section, "calibration");
    TRY(json_check_keys(section, keys, sizeof keys / sizeof keys[0], err));
    TRY(read_numbers(section, uncertainty, err));
    TRY(read_optional_bool(section, "assumed", &uncertainty->ranges_assumed, err));
    TRY(read_optional_bool(section, "resample", &uncertainty->resamples, err));
    if (!json_is_missing(calibration)) {
        TRY(json_string(calibration, &uncertainty->calibration, err));
    }
    return read_ranges(json_member(section, "ranges"), uncertainty, err);
}

status ana_uncertainty_read(json_value section, ana_uncertainty *uncertainty, error_message *err)
{
    ana_uncertainty found = {
        .draw_count = ANA_DRAWS_DEFAULT,
        .seed = 1,
        .detail_count = ANA_DETAIL_DEFAULT,
        .ranges_assumed = true,
        .resamples = true,
        .model_error = ANA_MODEL_ERROR_DEFAULT,
    };
    if (!json_is_missing(section)) TRY(read_section(section, &found, err));
    TRY(ana_uncertainty_check(&found, err));
    *uncertainty = found;
    return STATUS_OK;
}

status ana_uncertainty_check(const ana_uncertainty *uncertainty, error_message *err)
{
    const int draws = uncertainty->draw_count;
    const int detail = uncertainty->detail_count;
    if (draws != 0 && (draws < ANA_DRAWS_MIN || draws > ANA_DRAWS_MAX)) {
        return error_set(err, STATUS_INVALID,
                         "%d draws are neither 0 (no error bars) nor in [%d, %d]", draws,
                         ANA_DRAWS_MIN, ANA_DRAWS_MAX);
    }
    if ((int64_t)draws * detail <= ANA_DRAWN_MAX) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%d draws of %d points are more than %d", draws, detail,
                     ANA_DRAWN_MAX);
}

void ana_uncertainty_limit(ana_uncertainty *uncertainty, int iteration_count)
{
    enum { DETAIL_LEAST = 8, DRAWS_LEAST = 64 };
    const int64_t runs = ANA_DRAWN_ITERATIONS / iteration_count;
    if (!uncertainty->detail_is_given) {
        while (uncertainty->detail_count > DETAIL_LEAST &&
               (int64_t)uncertainty->detail_count * uncertainty->draw_count > runs) {
            uncertainty->detail_count--;
        }
    }
    if (!uncertainty->draws_are_given) {
        while (uncertainty->draw_count > DRAWS_LEAST &&
               (int64_t)uncertainty->detail_count * uncertainty->draw_count > runs) {
            uncertainty->draw_count--;
        }
    }
}
