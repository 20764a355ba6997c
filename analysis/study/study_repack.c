#include "analysis/study/study_reading.h"

#include "balance/schedule/schedule.h"

static bool looks_at_times(bal_repack_kind kind)
{
    return kind == BAL_REPACK_THROUGHPUT || kind == BAL_REPACK_GPU_TIME;
}

/// The historical kinds look at memory and are told where to begin and to stop; the others find out
/// from times.
static status check_keys_of_kind(const ana_reading *reading, json_value object,
                                 bal_repack_kind kind)
{
    static const char *const of_memory[] = {"target", "threshold"};
    static const char *const of_times[] = {"tolerance", "grow"};
    const char *const *const refused = looks_at_times(kind) ? of_memory : of_times;
    for (int key = 0; key < 2 && kind != BAL_REPACK_NONE; key++) {
        const json_value member = json_member(object, refused[key]);
        if (json_is_missing(member)) continue;
        return json_error(member, STATUS_FORMAT, reading->err,
                          "'%s' looks at %s, and has '%s' and '%s'", bal_repack_names[kind],
                          looks_at_times(kind) ? "times" : "memory",
                          looks_at_times(kind) ? of_times[0] : of_memory[0],
                          looks_at_times(kind) ? of_times[1] : of_memory[1]);
    }
    return STATUS_OK;
}

status ana_read_repack(const ana_reading *reading, json_value object, const char *section,
                       ana_repack *repack)
{
    static const char *const keys[] = {"kind",         "tolerance", "unit", "min_ranks",
                                       "target",       "threshold", "grow", "use",
                                       "microbatches", "op_fixed"};
    static const char *const units[] = {"rank", "node"};
    static const char *const choices[] = {"keep", "choose"};
    if (json_is_missing(object)) return STATUS_OK;
    TRY(json_check_keys(object, keys, ANA_COUNT_OF(keys), reading->err));
    ana_repack result = {.options = bal_repack_options_default()};
    bal_repack_options *options = &result.options;
    int kind = -1;
    int use = (int)options->use;
    int unit = 0;
    int microbatches = 0;
    TRY(ana_read_choice(reading, object, section, "kind", bal_repack_names, BAL_REPACK_COUNT,
                        &kind));
    if (kind < 0) {
        return json_error(object, STATUS_FORMAT, reading->err, "'kind' is missing");
    }
    options->kind = (bal_repack_kind)kind;
    TRY(ana_read_double(reading, object, section, "tolerance", 0, 10, &options->tolerance_ratio));
    TRY(ana_read_choice(reading, object, section, "unit", units, ANA_COUNT_OF(units), &unit));
    TRY(ana_read_int(reading, object, section, "min_ranks", "", 1, reading->study->stage_count,
                     &options->rank_count_min));
    TRY(ana_read_int(reading, object, section, "target", "", 1, reading->study->stage_count,
                     &options->target_rank_count));
    TRY(ana_read_double(reading, object, section, "threshold", 0, 1,
                        &options->load_threshold_ratio));
    TRY(ana_read_double(reading, object, section, "grow", 0, 10, &options->grow_ratio));
    TRY(ana_read_choice(reading, object, section, "use", bal_released_names, BAL_RELEASED_COUNT,
                        &use));
    TRY(ana_read_choice(reading, object, section, "microbatches", choices, ANA_COUNT_OF(choices),
                        &microbatches));
    options->use = (bal_released_use)use;
    options->chooses_microbatches = microbatches == 1;
    result.by_node = unit == 1;
    TRY(ana_read_double(reading, object, section, "op_fixed", 0, 1, &options->op_fixed_ratio));
    TRY(check_keys_of_kind(reading, object, options->kind));
    *repack = result;
    return STATUS_OK;
}
