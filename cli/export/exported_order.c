#include "cli/export/exported_order.h"

#include "base/file.h"
#include "base/json.h"
#include "cli/schedule/schedule_costs.h"
#include "cli/schedule/schedule_order.h"

#include <stdlib.h>
#include <string.h>

enum { ORDER_BYTES_MAX = 256 << 20 };

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
    if (costs_path != NULL && (plan->order != NULL || !family->is_searched)) {
        return error_set(err, STATUS_INVALID, "--costs: the order of the plan is known without");
    }
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

/// Whether a document is a plan; an order has no schema.
static bool is_plan(json_value root)
{
    return json_is_object(root) && !json_is_missing(json_member(root, "schema"));
}

/// Reads a plan, if that is what the bytes are.
///
/// @param found out
static status parse_plan(const char *path, const char *bytes, size_t length, arena *memory,
                         bal_plan *plan, bool *found, error_message *err)
{
    json_document *document = NULL;
    *found = false;
    if (!cli_schedule_order_is_json(bytes, length)) return STATUS_OK;
    TRY(json_open_bytes(path, bytes, length, &document, err));
    const json_value root = json_root(document);
    *found = is_plan(root);
    const status result = *found ? bal_plan_read(root, memory, plan, err) : STATUS_OK;
    json_close(document);
    return result;
}

static status parse_order(const char *path, const char *bytes, size_t length,
                          const char *costs_path, arena *memory, bal_schedule *schedule,
                          error_message *err)
{
    bal_plan plan;
    bool has_plan = false;
    TRY(parse_plan(path, bytes, length, memory, &plan, &has_plan, err));
    if (!has_plan && costs_path != NULL) {
        return error_set(err, STATUS_INVALID, "--costs: %s is an order", path);
    }
    status result = STATUS_OK;
    if (has_plan) {
        result = order_of_plan(&plan, costs_path, memory, schedule, err);
    } else {
        TRY(cli_schedule_order_parse(path, bytes, length, memory, schedule, err));
        result = bal_schedule_check(schedule, NULL, err);
    }
    return result == STATUS_OK ? STATUS_OK : error_prefix(err, result, "%s", path);
}

status cli_exported_order_read(const char *path, const char *costs_path, arena *memory,
                               bal_schedule *schedule, error_message *err)
{
    char *bytes = NULL;
    size_t length = 0;
    TRY(file_read(path, ORDER_BYTES_MAX, &bytes, &length, err));
    const status result = parse_order(path, bytes, length, costs_path, memory, schedule, err);
    free(bytes);
    return result;
}
