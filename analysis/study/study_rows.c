/// The rows that a study compares: balancers with their policies, migrations and re-packings.
#include "analysis/study/study_keys.h"

#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

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
    const char *const *const known = looks_at_times(kind) ? of_times : of_memory;
    for (int key = 0; key < 2 && kind != BAL_REPACK_NONE; key++) {
        const json_value member = json_member(object, refused[key]);
        if (json_is_missing(member)) continue;
        return json_error(member, STATUS_FORMAT, reading->err,
                          "'%s' looks at %s, and has '%s' and '%s'", bal_repack_names[kind],
                          looks_at_times(kind) ? "times" : "memory", known[0], known[1]);
    }
    return STATUS_OK;
}

ANA_READER(ana_read_repack)
{
    ana_repack *repack = record;
    *repack = (ana_repack){.options = bal_repack_options_default()};
    TRY(ana_read_keys(reading, value, "repack", path, repack));
    return check_keys_of_kind(reading, value, repack->options.kind);
}

ANA_READER(ana_read_balancer)
{
    ana_balancing *row = record;
    const char *text = NULL;
    TRY(json_string(value, &text, reading->err));
    row->balancer = bal_balancer_find(text);
    if (row->balancer == NULL) {
        char suggestion[TEXT_SUGGESTION_BYTES];
        return json_error(value, STATUS_FORMAT, reading->err, "unknown balancer '%.40s'%s", text,
                          bal_balancer_suggestion(text, suggestion));
    }
    row->weight = row->balancer->weight;
    return STATUS_OK;
}

ANA_READER(ana_read_policy)
{
    ana_balancing *row = record;
    const char *text = NULL;
    error_message inner = {0};
    TRY(json_string(value, &text, reading->err));
    if (bal_policy_parse(text, &row->policy, &inner) != STATUS_OK) {
        return json_error(value, STATUS_FORMAT, reading->err, "%.200s", inner.message);
    }
    if (!row->balancer->is_static || row->policy.kind == BAL_POLICY_NEVER) return STATUS_OK;
    return json_error(value, STATUS_FORMAT, reading->err,
                      "'%s' decides once; its policy can only be never", row->balancer->name);
}

static bool may_repack(const ana_balancing *row)
{
    return row->policy.kind != BAL_POLICY_NEVER && !row->balancer->owns_freely;
}

/// What only a row whose plan may change can have; an owner per layer has no stages to choose from.
static status check_dynamic_keys(const ana_reading *reading, json_value object,
                                 const ana_balancing *row)
{
    static const char *const keys[] = {"information", "migration", "repack"};
    for (int key = 0; key < COUNT_OF(keys); key++) {
        const json_value member = json_member(object, keys[key]);
        if (json_is_missing(member)) continue;
        if (row->policy.kind == BAL_POLICY_NEVER) {
            return json_error(member, STATUS_FORMAT, reading->err,
                              "needs a policy other than never, which keeps the plan of the start");
        }
        if (row->balancer->owns_freely && key > 0) {
            return json_error(
                member, STATUS_FORMAT, reading->err,
                "'%s' gives layers owners, not stages, and is accounted in loads only",
                row->balancer->name);
        }
    }
    return STATUS_OK;
}

/// "partition on-change", with what is not the balancer's or the policy's own.
static const char *label_of(const ana_balancing *row, arena *memory)
{
    const bal_migration_options *migration = &row->migration;
    const bal_repack_options *repack = &row->repack.options;
    text_buffer label = {.memory = memory};
    text_append(&label, row->balancer->name);
    if (row->weight != row->balancer->weight) {
        text_format(&label, " by %s", bal_weight_names[row->weight]);
    }
    if (row->policy.kind != BAL_POLICY_NEVER) {
        text_format(&label, " %s", bal_policy_name(row->policy).text);
    }
    if (row->information != BAL_INFORMATION_PROFILE) {
        text_format(&label, " %s", bal_information_names[row->information]);
    }
    if (row->packing != NULL) text_format(&label, " packing %s", row->packing);
    if (migration->slack_ratio > 0) text_format(&label, " slack %g", migration->slack_ratio);
    if (migration->relabels) text_append(&label, " relabel");
    if (migration->overlaps) text_append(&label, " overlap");
    if (migration->hysteresis_ratio > 0) {
        text_format(&label, " hysteresis %g", migration->hysteresis_ratio);
    }
    if (repack->kind != BAL_REPACK_NONE) {
        text_format(&label, " repack %s", bal_repack_names[repack->kind]);
        if (repack->use != BAL_RELEASED_RELEASE) {
            text_format(&label, " %s", bal_released_names[repack->use]);
        }
    }
    return label.bytes;
}

static status add_row(const ana_reading *reading, json_value place, ana_balancing row)
{
    ana_study *study = reading->study;
    if (row.label == NULL) row.label = label_of(&row, reading->memory);
    for (int other = 0; other < study->balancing_count; other++) {
        if (strcmp(study->balancings[other].label, row.label) != 0) continue;
        return json_error(place, STATUS_FORMAT, reading->err,
                          "the label '%.60s' is used twice; give one of them a 'label'", row.label);
    }
    study->balancings[study->balancing_count++] = row;
    return STATUS_OK;
}

ana_balancing ana_balancing_default(const char *balancer)
{
    ana_balancing row = {.balancer = bal_balancer_find(balancer),
                         .migration = bal_migration_options_default(),
                         .repack = {.options = bal_repack_options_default()}};
    if (row.balancer != NULL) {
        row.weight = row.balancer->weight;
        row.label = balancer;
    }
    return row;
}

static status read_row(const ana_reading *reading, json_value object, int index)
{
    char path[32];
    ana_balancing row = ana_balancing_default("");
    snprintf(path, sizeof path, "balancing[%d]", index);
    TRY(ana_read_keys(reading, object, "balancing", path, &row));
    TRY(check_dynamic_keys(reading, object, &row));
    if (may_repack(&row) && json_is_missing(json_member(object, "repack"))) {
        row.repack = reading->study->repack;
    }
    return add_row(reading, object, row);
}

/// What is compared when the study does not say.
static status add_default_rows(const ana_reading *reading, json_value place)
{
    static const char *const balancers[] = {"even", "tuned", "diffusion", "partition", "makespan"};
    if (reading->study->layers_per_stage != NULL) {
        TRY(add_row(reading, place, ana_balancing_default("given")));
    }
    for (int index = 0; index < COUNT_OF(balancers); index++) {
        ana_balancing row = ana_balancing_default(balancers[index]);
        if (!row.balancer->is_static) {
            row.policy.kind = BAL_POLICY_ON_CHANGE;
            row.repack = reading->study->repack;
            row.label = NULL;
        }
        TRY(add_row(reading, place, row));
    }
    return STATUS_OK;
}

/// Says of a split that is given whether no row takes it.
static void note_split(const ana_reading *reading)
{
    ana_study *study = reading->study;
    bool is_taken = study->layers_per_stage == NULL;
    for (int row = 0; row < study->balancing_count; row++) {
        is_taken = is_taken || strcmp(study->balancings[row].balancer->name, "given") == 0;
    }
    if (is_taken) return;
    model_assume(&study->inputs, "pipeline.layers_per_stage.used", MODEL_ORIGIN_GIVEN, NULL,
                 "by no row: only the balancer `given` takes it");
}

static status read_listed_rows(const ana_reading *reading, json_value value)
{
    if (json_is_object(value)) return read_row(reading, value, 0);
    const int count = json_count(value);
    if (!json_is_array(value) || count < 1 || count > ANA_BALANCINGS_MAX) {
        return json_error(value, STATUS_FORMAT, reading->err,
                          "needs a row, or an array of 1 to %d rows", ANA_BALANCINGS_MAX);
    }
    for (int index = 0; index < count; index++) {
        TRY(read_row(reading, json_element(value, index), index));
    }
    return STATUS_OK;
}

ANA_READER(ana_read_rows)
{
    if (json_is_missing(value)) return add_default_rows(reading, value);
    TRY(read_listed_rows(reading, value));
    note_split(reading);
    return STATUS_OK;
}
