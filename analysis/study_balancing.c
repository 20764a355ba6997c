#include "analysis/study_reading.h"

#include <stdio.h>
#include <string.h>

static status read_weight(const ana_reading *reading, json_value by, bal_weight *weight)
{
    if (json_is_missing(by)) return STATUS_OK;
    const char *text = NULL;
    TRY(json_string(by, &text, reading->err));
    for (int known = 0; known < BAL_WEIGHT_COUNT; known++) {
        if (strcmp(text, bal_weight_names[known]) == 0) {
            *weight = (bal_weight)known;
            return STATUS_OK;
        }
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

/// "partition on-change", with the weight where it is not the balancer's own.
static const char *label_of(const ana_balancing *row, arena *memory)
{
    char policy[32];
    bal_policy_name(row->policy, policy);
    const bool own = row->weight == row->balancer->weight;
    const bool never = row->policy.kind == BAL_POLICY_NEVER;
    char label[128];
    snprintf(label, sizeof label, "%s%s%s%s%s", row->balancer->name, own ? "" : " by ",
             own ? "" : bal_weight_names[row->weight], never ? "" : " ", never ? "" : policy);
    return arena_string(memory, label);
}

static status add_balancing(const ana_reading *reading, json_value place, ana_balancing row)
{
    ana_study *study = reading->study;
    if (row.label == NULL) row.label = label_of(&row, reading->memory);
    if (row.label == NULL) return error_set(reading->err, STATUS_NO_MEMORY, "out of memory");
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

static status read_balancing(const ana_reading *reading, json_value object)
{
    static const char *const keys[] = {"balancer", "policy", "by", "label"};
    ana_balancing row = {0};
    TRY(json_check_keys(object, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(find_balancer(reading, json_member(object, "balancer"), &row.balancer));
    row.weight = row.balancer->weight;
    TRY(read_weight(reading, json_member(object, "by"), &row.weight));
    const json_value policy = json_member(object, "policy");
    if (!json_is_missing(policy)) {
        const char *text = NULL;
        TRY(json_string(policy, &text, reading->err));
        error_message inner = {0};
        if (bal_policy_parse(text, &row.policy, &inner) != STATUS_OK) {
            return json_error(policy, STATUS_FORMAT, reading->err, "%s", inner.message);
        }
        if (row.balancer->is_static && row.policy.kind != BAL_POLICY_NEVER) {
            return json_error(policy, STATUS_FORMAT, reading->err,
                              "'%s' decides once; its policy can only be never",
                              row.balancer->name);
        }
    }
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
                          (ana_balancing){.balancer = balancer, .weight = balancer->weight}));
    }
    for (int index = 0; index < ANA_COUNT_OF(dynamic); index++) {
        const bal_balancer *balancer = bal_balancer_find(dynamic[index]);
        TRY(add_balancing(reading, root,
                          (ana_balancing){.balancer = balancer,
                                          .weight = balancer->weight,
                                          .policy = {.kind = BAL_POLICY_ON_CHANGE}}));
    }
    return STATUS_OK;
}

status ana_read_balancings(const ana_reading *reading, json_value root)
{
    const json_value balancing = json_member(root, "balancing");
    if (json_is_missing(balancing)) return default_balancings(reading, root);
    const int count = json_count(balancing);
    if (!json_is_array(balancing) || count < 1 || count > ANA_BALANCINGS_MAX) {
        return json_error(balancing, STATUS_FORMAT, reading->err,
                          "needs an array of 1 to %d entries", ANA_BALANCINGS_MAX);
    }
    for (int index = 0; index < count; index++) {
        TRY(read_balancing(reading, json_element(balancing, index)));
    }
    return STATUS_OK;
}
