#include "analysis/study/study_reading.h"

#include <stdio.h>
#include <string.h>

static status read_weight(const ana_reading *reading, json_value by, int *weight)
{
    const char *text = NULL;
    if (json_is_missing(by)) return STATUS_OK;
    TRY(json_string(by, &text, reading->err));
    for (int known = 0; known < BAL_WEIGHT_COUNT; known++) {
        if (strcmp(text, bal_weight_names[known]) != 0) continue;
        *weight = known;
        return STATUS_OK;
    }
    return json_error(by, STATUS_FORMAT, reading->err,
                      "'%.40s' is not one of time, parameters, time+transfer", text);
}

static status find_balancer(const ana_reading *reading, json_value name,
                            const bal_balancer **balancer)
{
    const char *text = NULL;
    TRY(json_string(name, &text, reading->err));
    *balancer = bal_balancer_find(text);
    if (*balancer != NULL) return STATUS_OK;
    char suggestion[TEXT_SUGGESTION_BYTES];
    return json_error(name, STATUS_FORMAT, reading->err, "unknown balancer '%.40s'%s", text,
                      bal_balancer_suggestion(text, suggestion));
}

/// "partition on-change", with what is not the balancer's or the policy's own.
static const char *label_of(const ana_balancing *row, arena *memory)
{
    char policy[BAL_POLICY_NAME_BYTES];
    char slack[48] = "";
    char hysteresis[48] = "";
    bal_policy_name(row->policy, policy);
    const bool own = row->weight == row->balancer->weight;
    const bool never = row->policy.kind == BAL_POLICY_NEVER;
    const bool profile = row->information == BAL_INFORMATION_PROFILE;
    const bool packs = row->repack.options.kind != BAL_REPACK_NONE;
    const bool releases = row->repack.options.use == BAL_RELEASED_RELEASE;
    const bal_migration_options *migration = &row->migration;
    if (migration->slack_ratio > 0)
        snprintf(slack, sizeof slack, " slack %g", migration->slack_ratio);
    if (migration->hysteresis_ratio > 0) {
        snprintf(hysteresis, sizeof hysteresis, " hysteresis %g", migration->hysteresis_ratio);
    }
    char label[256];
    snprintf(label, sizeof label, "%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s", row->balancer->name,
             own ? "" : " by ", own ? "" : bal_weight_names[row->weight], never ? "" : " ",
             never ? "" : policy, profile ? "" : " ",
             profile ? "" : bal_information_names[row->information],
             row->estimates_speed ? " speed" : "", slack, migration->relabels ? " relabel" : "",
             migration->overlaps ? " overlap" : "", hysteresis, packs ? " repack " : "",
             packs ? bal_repack_names[row->repack.options.kind] : "", packs && !releases ? " " : "",
             packs && !releases ? bal_released_names[row->repack.options.use] : "");
    return arena_string(memory, label);
}

static status add_balancing(const ana_reading *reading, json_value place, ana_balancing row)
{
    ana_study *study = reading->study;
    if (row.label == NULL) row.label = label_of(&row, reading->memory);
    for (int other = 0; other < study->balancing_count; other++) {
        if (strcmp(study->balancings[other].label, row.label) == 0) {
            return json_error(place, STATUS_FORMAT, reading->err,
                              "the label '%.60s' is used twice; give one of them a 'label'",
                              row.label);
        }
    }
    study->balancings[study->balancing_count++] = row;
    return STATUS_OK;
}

static status read_policy(const ana_reading *reading, json_value policy, ana_balancing *row)
{
    const char *text = NULL;
    error_message inner = {0};
    if (json_is_missing(policy)) return STATUS_OK;
    TRY(json_string(policy, &text, reading->err));
    if (bal_policy_parse(text, &row->policy, &inner) != STATUS_OK) {
        return json_error(policy, STATUS_FORMAT, reading->err, "%.200s", inner.message);
    }
    if (row->balancer->is_static && row->policy.kind != BAL_POLICY_NEVER) {
        return json_error(policy, STATUS_FORMAT, reading->err,
                          "'%s' decides once; its policy can only be never", row->balancer->name);
    }
    return STATUS_OK;
}

static status read_migration(const ana_reading *reading, json_value object, const char *section,
                             bal_migration_options *migration)
{
    static const char *const keys[] = {"slack", "relabel", "overlap", "hysteresis",
                                       "neighbour_iterations"};
    if (json_is_missing(object)) return STATUS_OK;
    TRY(json_check_keys(object, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(ana_read_double(reading, object, section, "slack", 0, 10, &migration->slack_ratio));
    TRY(ana_read_bool(reading, object, section, "relabel", &migration->relabels));
    TRY(ana_read_bool(reading, object, section, "overlap", &migration->overlaps));
    TRY(ana_read_double(reading, object, section, "hysteresis", 0, 0.999,
                        &migration->hysteresis_ratio));
    return ana_read_int(reading, object, section, "neighbour_iterations", "", 0, ANA_ITERATIONS_MAX,
                        &migration->neighbour_iterations);
}

/// What only a row whose plan may change can have; an owner per layer has no stages to choose from.
static status check_dynamic_keys(const ana_reading *reading, json_value object,
                                 const ana_balancing *row)
{
    static const char *const keys[] = {"information", "migration", "speed", "repack"};
    for (int key = 0; key < ANA_COUNT_OF(keys); key++) {
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

/// @param section "balancing[2]"
static status read_dynamics(const ana_reading *reading, json_value object, const char *section,
                            ana_balancing *row)
{
    static const char *const speeds[] = {"assumed", "estimated"};
    char part[64];
    int information = (int)row->information;
    int speed = 0;
    TRY(check_dynamic_keys(reading, object, row));
    TRY(ana_read_choice(reading, object, section, "information", bal_information_names,
                        BAL_INFORMATION_COUNT, &information));
    TRY(ana_read_choice(reading, object, section, "speed", speeds, ANA_COUNT_OF(speeds), &speed));
    row->information = (bal_information)information;
    row->estimates_speed = speed == 1;
    snprintf(part, sizeof part, "%s.migration", section);
    TRY(read_migration(reading, json_member(object, "migration"), part, &row->migration));
    snprintf(part, sizeof part, "%s.repack", section);
    if (row->policy.kind != BAL_POLICY_NEVER && !row->balancer->owns_freely) {
        row->repack = reading->study->repack;
    }
    return ana_read_repack(reading, json_member(object, "repack"), part, &row->repack);
}

static status read_balancing(const ana_reading *reading, json_value object, int index)
{
    static const char *const keys[] = {"balancer",  "policy", "by",     "information",
                                       "migration", "speed",  "repack", "label"};
    ana_balancing row = {.migration = bal_migration_options_default(),
                         .repack = {.options = bal_repack_options_default()}};
    int weight = 0;
    char section[32];
    snprintf(section, sizeof section, "balancing[%d]", index);
    TRY(json_check_keys(object, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(find_balancer(reading, json_member(object, "balancer"), &row.balancer));
    weight = (int)row.balancer->weight;
    TRY(read_weight(reading, json_member(object, "by"), &weight));
    row.weight = (bal_weight)weight;
    TRY(read_policy(reading, json_member(object, "policy"), &row));
    TRY(read_dynamics(reading, object, section, &row));
    TRY(ana_read_words(reading, json_member(object, "label"), &row.label));
    return add_balancing(reading, object, row);
}

/// What is compared when the study does not say.
static status default_balancings(const ana_reading *reading, json_value root)
{
    static const char *const dynamic[] = {"diffusion", "partition", "makespan"};
    static const char *const still[] = {"even", "tuned"};
    for (int index = 0; index < ANA_COUNT_OF(still); index++) {
        const bal_balancer *balancer = bal_balancer_find(still[index]);
        TRY(add_balancing(reading, root,
                          (ana_balancing){.balancer = balancer,
                                          .weight = balancer->weight,
                                          .migration = bal_migration_options_default(),
                                          .repack = {.options = bal_repack_options_default()}}));
    }
    for (int index = 0; index < ANA_COUNT_OF(dynamic); index++) {
        const bal_balancer *balancer = bal_balancer_find(dynamic[index]);
        TRY(add_balancing(reading, root,
                          (ana_balancing){.balancer = balancer,
                                          .weight = balancer->weight,
                                          .policy = {.kind = BAL_POLICY_ON_CHANGE},
                                          .migration = bal_migration_options_default(),
                                          .repack = reading->study->repack}));
    }
    return STATUS_OK;
}

status ana_read_balancings(const ana_reading *reading, json_value root)
{
    const json_value balancing = json_member(root, "balancing");
    if (json_is_missing(balancing)) return default_balancings(reading, root);
    if (json_is_object(balancing)) return read_balancing(reading, balancing, 0);
    const int count = json_count(balancing);
    if (!json_is_array(balancing) || count < 1 || count > ANA_BALANCINGS_MAX) {
        return json_error(balancing, STATUS_FORMAT, reading->err,
                          "needs a row, or an array of 1 to %d rows", ANA_BALANCINGS_MAX);
    }
    for (int index = 0; index < count; index++) {
        TRY(read_balancing(reading, json_element(balancing, index), index));
    }
    return STATUS_OK;
}
