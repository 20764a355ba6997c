#include "analysis/study_reading.h"

#include <inttypes.h>
#include <stdio.h>

static status read_link(const ana_reading *reading, json_value links, const char *key,
                        bal_link *link)
{
    static const char *const keys[] = {"latency_ns", "bytes_per_s"};
    const json_value object = json_member(links, key);
    if (json_is_missing(object)) return STATUS_OK;
    TRY(json_check_keys(object, keys, ANA_COUNT_OF(keys), reading->err));
    for (int key_index = 0; key_index < ANA_COUNT_OF(keys); key_index++) {
        const json_value half = json_member(object, keys[key_index]);
        if (json_is_missing(half)) {
            return json_error(half, STATUS_FORMAT, reading->err,
                              "missing; a link needs latency_ns and bytes_per_s");
        }
    }
    char section[64];
    snprintf(section, sizeof section, "cluster.links.%s", key);
    link->latency_ns = 0;
    TRY(ana_read_int64(reading, object, section, "latency_ns", "ns", 0, INT64_C(1000000000000),
                       &link->latency_ns));
    return ana_read_int64(reading, object, section, "bytes_per_s", "B/s", 1,
                          INT64_C(1000000000000000), &link->bytes_per_s);
}

status ana_read_cluster(const ana_reading *reading, json_value cluster)
{
    static const char *const keys[] = {"nodes", "gpus_per_node", "memory_bytes", "links"};
    static const char *const link_keys[] = {"intra", "inter"};
    ana_study *study = reading->study;
    if (json_is_missing(cluster)) return STATUS_OK;
    TRY(json_check_keys(cluster, keys, ANA_COUNT_OF(keys), reading->err));
    int nodes = 0;
    TRY(ana_read_int(reading, cluster, "cluster", "nodes", "", 1, 1 << 20, &nodes));
    TRY(ana_read_int(reading, cluster, "cluster", "gpus_per_node", "", 1, 1 << 16,
                     &study->gpus_per_node));
    TRY(ana_read_int64(reading, cluster, "cluster", "memory_bytes", "B", 0, JSON_INTEGER_MAX,
                       &study->memory_bytes));
    const json_value links = json_member(cluster, "links");
    if (json_is_missing(links)) return STATUS_OK;
    TRY(json_check_keys(links, link_keys, ANA_COUNT_OF(link_keys), reading->err));
    TRY(read_link(reading, links, "intra", &study->intra_node));
    return read_link(reading, links, "inter", &study->inter_node);
}

status ana_check_cluster_size(const ana_reading *reading, json_value cluster)
{
    const json_value nodes = json_member(cluster, "nodes");
    const ana_study *study = reading->study;
    if (json_is_missing(nodes) || study->gpus_per_node == 0) return STATUS_OK;
    int node_count = 0;
    TRY(json_int(nodes, 1, 1 << 20, &node_count, reading->err));
    const int64_t gpus = (int64_t)node_count * study->gpus_per_node;
    const int64_t needed = (int64_t)study->stage_count * study->data_parallel;
    if (needed > gpus) {
        return json_error(nodes, STATUS_INFEASIBLE, reading->err,
                          "%d stages x %d replicas need %" PRId64 " GPUs, the cluster has %" PRId64,
                          study->stage_count, study->data_parallel, needed, gpus);
    }
    return STATUS_OK;
}
