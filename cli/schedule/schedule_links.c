#include "cli/schedule/schedule_links.h"

#include <inttypes.h>

/// The arrays of a network while they are filled.
typedef struct link_rows {
    int *link[2];             // forward, backward: [stage_count]
    int64_t *occupancy_ns[2]; // the same
} link_rows;

static void carve_rows(int stage_count, arena *memory, link_rows *rows)
{
    for (int way = 0; way < 2; way++) {
        rows->link[way] = arena_array(memory, (size_t)stage_count, sizeof(int));
        rows->occupancy_ns[way] = arena_array(memory, (size_t)stage_count, sizeof(int64_t));
        for (int stage = 0; stage < stage_count; stage++) {
            rows->link[way][stage] = -1;
        }
    }
}

static int rank_of(const cli_link_shape *shape, int stage)
{
    return bal_rank_of_stage(shape->placement, shape->rank_count, shape->chunk_count, stage, NULL);
}

/// Puts all messages of a pair on a link: outputs of stages whose next one is on the other rank,
/// gradients of those whose one before is.
static status join(json_value pair, const cli_link_shape *shape, int link, int64_t occupancy_ns,
                   const link_rows *rows, error_message *err)
{
    int64_t ends[2];
    const int stage_count = shape->rank_count * shape->chunk_count;
    int joined = 0;
    TRY(json_int64_array(pair, 2, 0, shape->rank_count - 1, ends, err));
    for (int chunk = 0; chunk < shape->chunk_count; chunk++) {
        const int stage = bal_stage_of(shape->placement, shape->rank_count, shape->chunk_count,
                                       (int)ends[0], chunk);
        for (int way = 0; way < 2; way++) {
            const int receiver = way == 0 ? stage + 1 : stage - 1;
            if (receiver < 0 || receiver == stage_count) continue;
            if (ends[0] == ends[1] || rank_of(shape, receiver) != ends[1]) continue;
            if (rows->link[way][stage] >= 0) {
                return json_error(pair, STATUS_FORMAT, err, "is on link %d too",
                                  rows->link[way][stage]);
            }
            rows->link[way][stage] = link;
            rows->occupancy_ns[way][stage] = occupancy_ns;
            joined++;
        }
    }
    if (joined > 0) return STATUS_OK;
    return json_error(pair, STATUS_FORMAT, err,
                      "no message goes from rank %" PRId64 " to rank %" PRId64, ends[0], ends[1]);
}

static status read_link(json_value entry, const cli_link_shape *shape, int link,
                        const link_rows *rows, error_message *err)
{
    static const char *const keys[] = {"pairs", "occupancy_ns"};
    int64_t occupancy_ns = shape->send_ns;
    TRY(json_check_keys(entry, keys, sizeof keys / sizeof keys[0], err));
    const json_value held = json_member(entry, "occupancy_ns");
    const json_value pairs = json_member(entry, "pairs");
    if (!json_is_missing(held)) TRY(json_int64(held, 0, shape->send_ns, &occupancy_ns, err));
    if (json_count(pairs) == 0 || !json_is_array(pairs)) {
        return json_error(pairs, STATUS_FORMAT, err, "needs an array of pairs of ranks");
    }
    for (json_value pair = json_element(pairs, 0); !json_is_missing(pair); pair = json_next(pair)) {
        TRY(join(pair, shape, link, occupancy_ns, rows, err));
    }
    return STATUS_OK;
}

status cli_schedule_links_read(json_value links, const cli_link_shape *shape, arena *memory,
                               sim_network *network, error_message *err)
{
    link_rows rows;
    const int link_count = json_count(links);
    if (json_is_missing(links)) return STATUS_OK;
    if (!json_is_array(links)) {
        return json_error(links, STATUS_FORMAT, err, "needs an array of links");
    }
    carve_rows(shape->rank_count * shape->chunk_count, memory, &rows);
    json_value entry = json_element(links, 0);
    for (int link = 0; link < link_count; link++, entry = json_next(entry)) {
        TRY(read_link(entry, shape, link, &rows, err));
    }
    network->link_count = link_count;
    network->forward_link = rows.link[0];
    network->backward_link = rows.link[1];
    network->forward_occupancy_ns = rows.occupancy_ns[0];
    network->backward_occupancy_ns = rows.occupancy_ns[1];
    return STATUS_OK;
}
