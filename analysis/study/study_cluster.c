#include "analysis/study/study_reading.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const link_keys[] = {"latency_ns", "bytes_per_s", "measured"};
enum { LINK_HALVES = 2 }; // of these keys, the first

/// Lists both halves of a measured link with their standard errors.
static void list_measured(const ana_reading *reading, const char *section,
                          const ana_link_source *source)
{
    const ana_measured_link *measured = &source->measured;
    char name[80];
    snprintf(name, sizeof name, "%s.%s", section, link_keys[0]);
    ana_inputs_add(&reading->study->inputs, reading->memory, name, MODEL_ORIGIN_FITTED,
                   "%" PRId64 " +- %.3g ns, of %d sizes in %s", measured->link.latency_ns,
                   measured->latency_error_ns, measured->size_count, source->file);
    snprintf(name, sizeof name, "%s.%s", section, link_keys[1]);
    ana_inputs_add(&reading->study->inputs, reading->memory, name, MODEL_ORIGIN_FITTED,
                   "%" PRId64 " +- %.3g B/s, of %d sizes in %s", measured->link.bytes_per_s,
                   measured->rate_error_bytes_s, measured->size_count, source->file);
}

static status read_measured(const ana_reading *reading, json_value object, const char *section,
                            bal_link *link, ana_link_source *source)
{
    const json_value file = json_member(object, link_keys[LINK_HALVES]);
    const char *path = NULL;
    for (int half = 0; half < LINK_HALVES; half++) {
        if (json_is_missing(json_member(object, link_keys[half]))) continue;
        return json_error(file, STATUS_FORMAT, reading->err, "stands beside %s, which it gives",
                          link_keys[half]);
    }
    TRY(ana_read_path(reading, file, NULL, &path));
    TRY(ana_measured_link_open(path, &source->measured, reading->err));
    TRY(json_string(file, &source->file, reading->err));
    *link = source->measured.link;
    list_measured(reading, section, source);
    return STATUS_OK;
}

static status read_link(const ana_reading *reading, json_value links, const char *key,
                        bal_link *link, ana_link_source *source)
{
    char section[64];
    const json_value object = json_member(links, key);
    if (json_is_missing(object)) return STATUS_OK;
    snprintf(section, sizeof section, "cluster.links.%s", key);
    TRY(json_check_keys(object, link_keys, ANA_COUNT_OF(link_keys), reading->err));
    if (!json_is_missing(json_member(object, link_keys[LINK_HALVES]))) {
        return read_measured(reading, object, section, link, source);
    }
    for (int key_index = 0; key_index < LINK_HALVES; key_index++) {
        const json_value half = json_member(object, link_keys[key_index]);
        if (json_is_missing(half)) {
            return json_error(half, STATUS_FORMAT, reading->err,
                              "missing; a link needs latency_ns and bytes_per_s, or measured");
        }
    }
    link->latency_ns = 0;
    TRY(ana_read_int64(reading, object, section, "latency_ns", "ns", 0, INT64_C(1000000000000),
                       &link->latency_ns));
    return ana_read_int64(reading, object, section, "bytes_per_s", "B/s", 1,
                          INT64_C(1000000000000000), &link->bytes_per_s);
}

/// The user's own price: none is known here, and one without its day is worth nothing.
static status read_price(const ana_reading *reading, json_value cluster)
{
    static const char *const texts[] = {"price_currency", "price_source"};
    ana_study *study = reading->study;
    const char **const out[] = {&study->price_currency, &study->price_source};
    const json_value price = json_member(cluster, "price_per_gpu_hour");
    TRY(ana_read_double(reading, cluster, "cluster", "price_per_gpu_hour", 0, 1e6,
                        &study->price_per_gpu_hour));
    for (int text = 0; text < ANA_COUNT_OF(texts); text++) {
        const json_value member = json_member(cluster, texts[text]);
        if (json_is_missing(member)) continue;
        TRY(ana_read_words(reading, member, out[text]));
        TRY(ana_list_given(reading, "cluster", texts[text], *out[text]));
    }
    TRY(ana_read_date(reading, cluster, "cluster", "price_date", &study->price_date));
    if (json_is_missing(price) || study->price_date != NULL) return STATUS_OK;
    return json_error(price, STATUS_FORMAT, reading->err,
                      "needs 'price_date', the day on which it was asked for");
}

status ana_read_cluster(const ana_reading *reading, json_value cluster)
{
    static const char *const keys[] = {
        "nodes",      "gpus_per_node",  "gpus",         "memory_bytes",
        "links",      "slow_ranks",     "mtbf_hours",   "price_per_gpu_hour",
        "price_date", "price_currency", "price_source", "send",
    };
    static const char *const scopes[] = {"intra", "inter", "shared"};
    ana_study *study = reading->study;
    if (json_is_missing(cluster)) return STATUS_OK;
    TRY(json_check_keys(cluster, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(ana_read_int(reading, cluster, "cluster", "nodes", "", 1, 1 << 20, &study->node_count));
    TRY(ana_read_int(reading, cluster, "cluster", "gpus_per_node", "", 1, 1 << 16,
                     &study->gpus_per_node));
    TRY(ana_read_int(reading, cluster, "cluster", "gpus", "", 1, MODEL_STAGE_GPUS_MAX,
                     &study->gpu_count));
    TRY(ana_read_double(reading, cluster, "cluster", "mtbf_hours", 1e-3, 1e12, &study->mtbf_hours));
    TRY(read_price(reading, cluster));
    TRY(ana_read_int64(reading, cluster, "cluster", "memory_bytes", "B", 0, JSON_INTEGER_MAX,
                       &study->memory_bytes));
    int send = (int)study->send;
    TRY(ana_read_choice(reading, cluster, "cluster", "send", bal_send_names, BAL_SEND_COUNT,
                        &send));
    study->send = (bal_send)send;
    const json_value links = json_member(cluster, "links");
    if (json_is_missing(links)) return STATUS_OK;
    TRY(json_check_keys(links, scopes, ANA_COUNT_OF(scopes), reading->err));
    TRY(ana_read_bool(reading, links, "cluster.links", "shared", &study->shares_node_links));
    TRY(read_link(reading, links, "intra", &study->intra_node, &study->intra_source));
    return read_link(reading, links, "inter", &study->inter_node, &study->inter_source);
}

static status read_slow_rank(const ana_reading *reading, json_value object, int index)
{
    static const char *const keys[] = {"rank", "speed", "from", "to"};
    ana_study *study = reading->study;
    char section[48];
    double speed = 0;
    int last = ANA_ITERATIONS_MAX;
    bal_slow_rank slow = {.rank = -1};
    snprintf(section, sizeof section, "cluster.slow_ranks[%d]", index);
    TRY(json_check_keys(object, keys, ANA_COUNT_OF(keys), reading->err));
    TRY(ana_read_int(reading, object, section, "rank", "", 0, study->stage_count - 1, &slow.rank));
    TRY(ana_read_double(reading, object, section, "speed", 0.001, 1000, &speed));
    if (slow.rank < 0 || speed <= 0) {
        return json_error(object, STATUS_FORMAT, reading->err, "'%s' is missing",
                          slow.rank < 0 ? "rank" : "speed");
    }
    TRY(ana_read_int(reading, object, section, "from", "", 0, ANA_ITERATIONS_MAX,
                     &slow.first_iteration));
    TRY(ana_read_int(reading, object, section, "to", "", 0, ANA_ITERATIONS_MAX, &last));
    if (last < slow.first_iteration) {
        return json_error(object, STATUS_FORMAT, reading->err,
                          "ends at iteration %d, before it begins at %d", last,
                          slow.first_iteration);
    }
    slow.time_factor = 1 / speed;
    slow.end_iteration = last + 1;
    study->slow_ranks[study->slow_rank_count++] = slow;
    return STATUS_OK;
}

status ana_read_slow_ranks(const ana_reading *reading, json_value cluster)
{
    const json_value ranks = json_member(cluster, "slow_ranks");
    const int count = json_count(ranks);
    if (json_is_missing(ranks)) return STATUS_OK;
    if (!json_is_array(ranks) || count > ANA_SLOW_RANKS_MAX) {
        return json_error(ranks, STATUS_FORMAT, reading->err, "needs an array of at most %d",
                          ANA_SLOW_RANKS_MAX);
    }
    for (int index = 0; index < count; index++) {
        TRY(read_slow_rank(reading, json_element(ranks, index), index));
    }
    return STATUS_OK;
}
