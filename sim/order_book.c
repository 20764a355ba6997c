#include "sim/order_book.h"

#include "balance/metrics.h"
#include "balance/run/iteration_times.h"

#include <string.h>

status sim_compiled_order_build(const bal_schedule_request *request, arena *memory,
                                sim_compiled_order *out, error_message *err)
{
    out->memory = memory;
    out->dispatch = NULL;
    out->peak_costs = NULL;
    TRY(bal_schedule_build(request, memory, &out->schedule, err));
    bal_last_backwards(&out->schedule, memory, &out->last_backward);
    return sim_order_compile(&out->schedule, memory, &out->order, err);
}

status sim_compiled_order_dispatch(sim_compiled_order *order, const sim_network *network,
                                   sim_dispatch **dispatch, error_message *err)
{
    if (order->dispatch == NULL) {
        TRY(sim_dispatch_create(&order->schedule, SIM_STATIC, network, order->memory,
                                &order->dispatch, err));
    } else {
        sim_dispatch_set_network(order->dispatch, network);
    }
    *dispatch = order->dispatch;
    return STATUS_OK;
}

const int64_t *sim_compiled_order_peak(sim_compiled_order *order, const bal_stage_costs *costs)
{
    enum { CHANGES = BAL_COST_TIMES_COUNT };
    const size_t stages = (size_t)order->schedule.rank_count * (size_t)order->schedule.chunk_count;
    bool is_same = order->peak_costs != NULL;
    if (!is_same) {
        order->peak =
            arena_array(order->memory, (size_t)order->schedule.rank_count, sizeof *order->peak);
        order->peak_costs = arena_array(order->memory, CHANGES * stages, sizeof *order->peak_costs);
    }
    for (int change = 0; change < CHANGES; change++) {
        int64_t *kept = order->peak_costs + (size_t)change * stages;
        is_same =
            is_same && memcmp(kept, costs->memory_changes[change], stages * sizeof *kept) == 0;
        memcpy(kept, costs->memory_changes[change], stages * sizeof *kept);
    }
    if (!is_same) bal_memory_peak(&order->schedule, costs, order->peak);
    return order->peak;
}

/// The entry of an order that is kept, or NULL.
static sim_order_entry *find_kept(sim_order_book *book, const sim_order_entry *wanted)
{
    for (int entry = 0; entry < book->order_count; entry++) {
        sim_order_entry *kept = &book->entries[entry];
        if (kept->family == wanted->family && kept->rank_count == wanted->rank_count &&
            kept->chunk_count == wanted->chunk_count &&
            kept->microbatch_count == wanted->microbatch_count) {
            return kept;
        }
    }
    return NULL;
}

status sim_order_book_find(sim_order_book *book, const bal_schedule_request *request,
                           sim_compiled_order **out, error_message *err)
{
    const bal_schedule_family *family = bal_schedule_family_find(request->name);
    const sim_order_entry wanted = {
        .family = family,
        .rank_count = request->rank_count,
        .chunk_count = family == NULL ? request->chunk_count
                                      : bal_schedule_chunk_count(family, request->chunk_count),
        .microbatch_count = request->microbatch_count,
    };
    sim_order_entry *found = find_kept(book, &wanted);
    if (found == NULL) {
        if (book->order_count == SIM_ORDERS_KEPT || book->op_count > SIM_ORDER_OPS_KEPT) {
            arena_reset(book->memory);
            book->order_count = 0;
            book->op_count = 0;
        }
        found = &book->entries[book->order_count];
        *found = wanted;
        TRY(sim_compiled_order_build(request, book->memory, &found->compiled, err));
        book->order_count++;
        book->op_count += found->compiled.order.step_count;
    }
    *out = &found->compiled;
    return STATUS_OK;
}
