#include "cli/export/exported_order.h"

#include "cli/export/exported_plan.h"

#include "base/file.h"
#include "base/json.h"
#include "cli/schedule/schedule_costs.h"
#include "cli/schedule/schedule_order.h"

#include <stdlib.h>
#include <string.h>

/// Reads the costs that a searched schedule of the plan is searched on.
static status read_costs(const bal_plan *plan, const char *path, arena *memory,
                         cli_schedule_costs *costs, error_message *err)
{
    const cli_schedule_shape shape = {.rank_count = plan->rank_count,
                                      .microbatch_count = plan->microbatch_count,
                                      .chunk_count = plan->chunk_count,
                                      .placement = plan->placement};
    if (path != NULL) return cli_schedule_costs_read(path, &shape, memory, costs, err);
    return error_set(
        err, STATUS_INVALID,
        "schedule %s is searched on costs, and the plan has no order: give --costs, or "
        "what `dynmo schedule --json` printed",
        plan->schedule);
}

static status order_of_plan(const bal_plan *plan, const char *costs_path, arena *memory,
                            bal_schedule *schedule, error_message *err)
{
    const bal_schedule_family *family = bal_schedule_family_find(plan->schedule);
    cli_schedule_costs costs;
    bal_schedule_request request = {.name = plan->schedule,
                                    .rank_count = plan->rank_count,
                                    .microbatch_count = plan->microbatch_count,
                                    .chunk_count = plan->chunk_count};
    if (plan->order != NULL) {
        *schedule = *plan->order;
        return STATUS_OK;
    }
    if (family->is_searched) {
        TRY(read_costs(plan, costs_path, memory, &costs, err));
        request.costs = &costs.stages;
        request.memory_limit = costs.memory_limit;
    }
    return bal_schedule_build(&request, memory, schedule, err);
}

status cli_exported_order_read(const cli_arguments *arguments, const char *path, arena *memory,
                               bal_schedule *schedule, error_message *err)
{
    const char *costs_path = cli_value(arguments, "--costs");
    cli_exported_plan exported;
    status result = STATUS_OK;
    TRY(cli_exported_plan_read(arguments, path, true, memory, &exported, err));
    if (exported.is_order) {
        *schedule = exported.order;
        result = bal_schedule_check(schedule, NULL, err);
    } else {
        result = order_of_plan(&exported.plan, costs_path, memory, schedule, err);
    }
    return result == STATUS_OK ? STATUS_OK : error_prefix(err, result, "%s", path);
}
