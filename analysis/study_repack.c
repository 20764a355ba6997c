#include "analysis/study_reading.h"

#include "balance/schedule.h"

static const char *const kind_names[] = {
    [BAL_REPACK_NONE] = "none",         [BAL_REPACK_THROUGHPUT] = "throughput",
    [BAL_REPACK_GPU_TIME] = "gpu-time", [BAL_REPACK_PUBLISHED] = "published",
    [BAL_REPACK_CODED] = "coded",       [BAL_REPACK_FIRST_FIT] = "first-fit",
    [BAL_REPACK_BEST_FIT] = "best-fit", [BAL_REPACK_ROUND_ROBIN] = "round-robin",
    [BAL_REPACK_HALVING] = "halving",
};
_Static_assert(sizeof kind_names / sizeof kind_names[0] == BAL_REPACK_COUNT, "a name each");

static const char *const use_names[] = {
    [BAL_RELEASED_RELEASE] = "release",
    [BAL_RELEASED_REPLICATE] = "replicate",
    [BAL_RELEASED_LEND] = "lend",
};
_Static_assert(sizeof use_names / sizeof use_names[0] == BAL_RELEASED_COUNT, "a name each");

const char *ana_repack_kind_name(bal_repack_kind kind)
{
    return kind_names[kind];
}

const char *ana_released_use_name(bal_released_use use)
{
    return use_names[use];
}

static const ana_repack defaults = {
    .options = {.kind = BAL_REPACK_NONE,
                .tolerance_ratio = 0.02,
                .rank_count_min = 1,
                .rank_unit = 1,
                .load_threshold_ratio = 1,
                .grow_ratio = 0.05,
                .use = BAL_RELEASED_RELEASE},
};

/// The paper's own kinds are told where to stop, and when to begin; the others find out.
static status check_keys_of_kind(const ana_reading *reading, json_value object,
                                 const bal_repack_options *options)
{
    static const char *const keys[] = {"target", "threshold"};
    const bool has_target =
        options->kind == BAL_REPACK_PUBLISHED || options->kind == BAL_REPACK_CODED;
    for (int key = 0; key < ANA_COUNT_OF(keys) && !has_target; key++) {
        const json_value member = json_member(object, keys[key]);
        if (json_is_missing(member)) continue;
        return json_error(member, STATUS_FORMAT, reading->err,
                          "only 'published' and 'coded' have it, not '%s'",
                          kind_names[options->kind]);
    }
    if (has_target && options->target_rank_count == 0) {
        return json_error(object, STATUS_FORMAT, reading->err,
                          "'%s' needs 'target', the number of ranks to pack onto",
                          kind_names[options->kind]);
    }
    return STATUS_OK;
}

status ana_read_repack(const ana_reading *reading, json_value object, const char *section,
                       ana_repack *repack)
{
    static const char *const keys[] = {"kind",      "tolerance", "unit", "min_ranks",   "target",
                                       "threshold", "grow",      "use",  "microbatches"};
    static const char *const units[] = {"rank", "node"};
    static const char *const choices[] = {"keep", "choose"};
    if (json_is_missing(object)) return STATUS_OK;
    TRY(json_check_keys(object, keys, ANA_COUNT_OF(keys), reading->err));
    ana_repack result = defaults;
    bal_repack_options *options = &result.options;
    int kind = -1;
    int use = (int)options->use;
    int unit = 0;
    int microbatches = 0;
    TRY(ana_read_choice(reading, object, section, "kind", kind_names, BAL_REPACK_COUNT, &kind));
    if (kind < 0) {
        return json_error(object, STATUS_FORMAT, reading->err, "'kind' is missing");
    }
    options->kind = (bal_repack_kind)kind;
    TRY(ana_read_double(reading, object, section, "tolerance", 0, 10, &options->tolerance_ratio));
    TRY(ana_read_choice(reading, object, section, "unit", units, ANA_COUNT_OF(units), &unit));
    TRY(ana_read_int(reading, object, section, "min_ranks", "", 1, BAL_RANKS_MAX,
                     &options->rank_count_min));
    TRY(ana_read_int(reading, object, section, "target", "", 1, BAL_RANKS_MAX,
                     &options->target_rank_count));
    TRY(ana_read_double(reading, object, section, "threshold", 0, 1,
                        &options->load_threshold_ratio));
    TRY(ana_read_double(reading, object, section, "grow", 0, 10, &options->grow_ratio));
    TRY(ana_read_choice(reading, object, section, "use", use_names, BAL_RELEASED_COUNT, &use));
    TRY(ana_read_choice(reading, object, section, "microbatches", choices, ANA_COUNT_OF(choices),
                        &microbatches));
    options->use = (bal_released_use)use;
    options->chooses_microbatches = microbatches == 1;
    result.by_node = unit == 1;
    TRY(check_keys_of_kind(reading, object, options));
    *repack = result;
    return STATUS_OK;
}
