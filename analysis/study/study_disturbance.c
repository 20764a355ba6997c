#include "analysis/study/study_reading.h"

#include <inttypes.h>
#include <stdio.h>

static const int64_t longest_ns = INT64_C(1000000000000);

static status need(const ana_reading *reading, json_value object, const char *const *keys,
                   int count)
{
    for (int key = 0; key < count; key++) {
        if (!json_is_missing(json_member(object, keys[key]))) continue;
        return json_error(object, STATUS_FORMAT, reading->err, "'%s' is missing", keys[key]);
    }
    return STATUS_OK;
}

static status read_stragglers(const ana_reading *reading, json_value stragglers)
{
    static const char *const keys[] = {"probability", "factor", "iterations"};
    static const char *const section = "disturbance.stragglers";
    bal_disturbance *disturbance = &reading->study->disturbance;
    if (json_is_missing(stragglers)) return STATUS_OK;
    TRY(json_check_keys(stragglers, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(need(reading, stragglers, keys, 2));
    disturbance->straggler_iterations = 1;
    TRY(ana_read_double(reading, stragglers, section, "probability", 0, 1,
                        &disturbance->straggler_probability));
    TRY(ana_read_double(reading, stragglers, section, "factor", 1, 1000,
                        &disturbance->straggler_factor));
    return ana_read_int(reading, stragglers, section, "iterations", "", 1,
                        BAL_STRAGGLE_ITERATIONS_MAX, &disturbance->straggler_iterations);
}

static status read_messages(const ana_reading *reading, json_value messages)
{
    static const char *const keys[] = {"factor", "sigma", "factor_max"};
    static const char *const section = "disturbance.messages";
    bal_disturbance *disturbance = &reading->study->disturbance;
    if (json_is_missing(messages)) return STATUS_OK;
    TRY(json_check_keys(messages, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(need(reading, messages, keys, 1));
    TRY(ana_read_double(reading, messages, section, "factor", 0, 1000,
                        &disturbance->message_factor));
    TRY(ana_read_double(reading, messages, section, "sigma", 0, 1000, &disturbance->message_sigma));
    disturbance->message_factor_max = 1000;
    return ana_read_double(reading, messages, section, "factor_max", 1, 1000,
                           &disturbance->message_factor_max);
}

/// The two ranks of {"between": [rank, rank]}.
static status read_between(const ana_reading *reading, json_value object, const char *section,
                           bal_disturbed_link *link)
{
    const json_value between = json_member(object, "between");
    int64_t ranks[2];
    char text[48];
    if (!json_is_array(between) || json_count(between) != 2) {
        return json_error(between, STATUS_FORMAT, reading->err, "needs two ranks");
    }
    TRY(json_int64_array(between, 2, 0, reading->study->stage_count - 1, ranks, reading->err));
    if (ranks[0] == ranks[1]) {
        return json_error(between, STATUS_FORMAT, reading->err, "rank %" PRId64 " to itself",
                          ranks[0]);
    }
    link->rank = (int)ranks[0];
    link->other_rank = (int)ranks[1];
    snprintf(text, sizeof text, "ranks %d and %d", link->rank, link->other_rank);
    return ana_list_given(reading, section, "between", text);
}

static status read_link(const ana_reading *reading, json_value object, int index)
{
    static const char *const keys[] = {"between", "factor", "delay_ns", "from", "to"};
    ana_study *study = reading->study;
    char section[48];
    int last = ANA_ITERATIONS_MAX;
    bal_disturbed_link link = {.time_factor = 1};
    snprintf(section, sizeof section, "disturbance.links[%d]", index);
    TRY(json_check_keys(object, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(need(reading, object, keys, 1));
    TRY(read_between(reading, object, section, &link));
    TRY(ana_read_double(reading, object, section, "factor", 1, 1000, &link.time_factor));
    TRY(ana_read_int64(reading, object, section, "delay_ns", "ns", 0, longest_ns, &link.delay_ns));
    TRY(ana_read_int(reading, object, section, "from", "", 0, ANA_ITERATIONS_MAX,
                     &link.first_iteration));
    TRY(ana_read_int(reading, object, section, "to", "", 0, ANA_ITERATIONS_MAX, &last));
    if (last < link.first_iteration) {
        return json_error(object, STATUS_FORMAT, reading->err,
                          "ends at iteration %d, before it begins at %d", last,
                          link.first_iteration);
    }
    link.end_iteration = last + 1;
    study->disturbed_links[study->disturbance.link_count++] = link;
    return STATUS_OK;
}

static status read_links(const ana_reading *reading, json_value links)
{
    const int count = json_count(links);
    if (json_is_missing(links)) return STATUS_OK;
    if (!json_is_array(links) || count > ANA_DISTURBED_LINKS_MAX) {
        return json_error(links, STATUS_FORMAT, reading->err, "needs an array of at most %d",
                          ANA_DISTURBED_LINKS_MAX);
    }
    reading->study->disturbance.links = reading->study->disturbed_links;
    for (int index = 0; index < count; index++) {
        TRY(read_link(reading, json_element(links, index), index));
    }
    return STATUS_OK;
}

status ana_read_disturbance(const ana_reading *reading, json_value disturbance)
{
    static const char *const keys[] = {
        "seed", "op_sigma", "iteration_sigma", "rank_sigma", "stragglers", "messages", "links"};
    static const char *const section = "disturbance";
    bal_disturbance *into = &reading->study->disturbance;
    if (json_is_missing(disturbance)) return STATUS_OK;
    TRY(json_check_keys(disturbance, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(ana_read_seed(reading, disturbance, section, &into->seed));
    TRY(ana_read_double(reading, disturbance, section, "op_sigma", 0, 1, &into->op_sigma));
    TRY(ana_read_double(reading, disturbance, section, "iteration_sigma", 0, 1,
                        &into->iteration_sigma));
    TRY(ana_read_double(reading, disturbance, section, "rank_sigma", 0, 1, &into->rank_sigma));
    TRY(read_stragglers(reading, json_member(disturbance, "stragglers")));
    TRY(read_messages(reading, json_member(disturbance, "messages")));
    return read_links(reading, json_member(disturbance, "links"));
}
