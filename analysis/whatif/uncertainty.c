#include "analysis/whatif/uncertainty.h"

#include "analysis/study/study_keys.h"

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
        TRY(ana_range_read(at, &declared->range, err));
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
    TRY(ana_uncertainty_check(&found, err));
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
