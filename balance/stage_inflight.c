#include "balance/stage_inflight.h"

#include "balance/metrics.h"
#include "balance/schedule.h"

#include <string.h>

/// The fixed order that a schedule is counted as.
static const char *counted_as(const char *schedule, const bal_schedule_family *family)
{
    if (family == NULL || !family->is_searched) return schedule;
    if (strcmp(schedule, "v-adaptive") == 0) return "v-min"; // its least
    return family->chunk_count == 2 ? "zb-v-hand" : "1f1b";
}

status bal_stage_inflight(const char *schedule, int rank_count, int chunk_count,
                          int microbatch_count, arena *memory, int64_t *inflight,
                          error_message *err)
{
    const bal_schedule_family *family = bal_schedule_family_find(schedule);
    const int stages = rank_count * chunk_count;
    int64_t *units = arena_array(memory, (size_t)stages * 5, sizeof *units);
    int64_t *peak = arena_array(memory, (size_t)rank_count, sizeof *peak);
    if (units == NULL || peak == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %d stages", stages);
    }
    for (int stage = 0; stage < stages; stage++) {
        units[stage] = 1;               // F
        units[2 * stages + stage] = -1; // W; B changes nothing
        units[3 * stages + stage] = 1;  // any time will do
    }
    const bal_stage_costs costs = {
        .stage_count = stages,
        .microbatch_count = 1,
        .forward_ns = units + 3 * stages,
        .backward_input_ns = units + 3 * stages,
        .backward_weight_ns = units + 3 * stages,
        .send_forward_ns = units + 4 * stages,
        .send_backward_ns = units + 4 * stages,
        .memory_forward = units,
        .memory_backward_input = units + stages,
        .memory_backward_weight = units + 2 * stages,
    };
    bal_schedule built;
    const bal_schedule_request request = {
        .name = counted_as(schedule, family),
        .rank_count = rank_count,
        .microbatch_count = microbatch_count,
        .chunk_count = chunk_count,
        .costs = &costs,
    };
    TRY(bal_schedule_build(&request, memory, &built, err));
    bal_memory_peak(&built, &costs, peak);
    for (int stage = 0; stage < stages; stage++) {
        inflight[stage] =
            peak[bal_rank_of_stage(built.placement, rank_count, chunk_count, stage, NULL)];
    }
    return STATUS_OK;
}
