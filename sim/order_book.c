#include "sim/order_book.h"

#include "balance/run/iteration_times.h"

status sim_compiled_order_build(const bal_schedule_request *request, arena *memory,
                                sim_compiled_order *out, error_message *err)
{
    out->memory = memory;
    out->dispatch = NULL;
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

static void forget(sim_order_book *book, sim_order_entry *entry)
{
    book->op_count -= entry->op_count;
    arena_destroy(entry->memory);
    *entry = (sim_order_entry){0};
}

/// The entry that was used longest ago; free entries have never been.
static sim_order_entry *oldest(sim_order_book *book)
{
    sim_order_entry *found = &book->entries[0];
    for (int entry = 1; entry < SIM_ORDERS_KEPT; entry++) {
        if (book->entries[entry].last_use < found->last_use) found = &book->entries[entry];
    }
    return found;
}

/// Of the orders that are kept, the one that was used longest ago.
static sim_order_entry *oldest_kept(sim_order_book *book)
{
    sim_order_entry *found = NULL;
    for (int entry = 0; entry < SIM_ORDERS_KEPT; entry++) {
        sim_order_entry *kept = &book->entries[entry];
        if (kept->op_count == 0) continue;
        if (found == NULL || kept->last_use < found->last_use) found = kept;
    }
    return found;
}

/// Empties an entry, and as many more as the ops of all orders ask for.
static sim_order_entry *make_room(sim_order_book *book)
{
    while (book->op_count > SIM_ORDER_OPS_KEPT) {
        forget(book, oldest_kept(book));
    }
    sim_order_entry *entry = oldest(book);
    forget(book, entry);
    return entry;
}

/// The entry of an order that is kept, or NULL.
static sim_order_entry *find_kept(sim_order_book *book, const sim_order_entry *wanted)
{
    for (int entry = 0; entry < SIM_ORDERS_KEPT; entry++) {
        sim_order_entry *kept = &book->entries[entry];
        if (kept->op_count > 0 && kept->family == wanted->family &&
            kept->rank_count == wanted->rank_count && kept->chunk_count == wanted->chunk_count &&
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
    book->use_count++;
    sim_order_entry *found = find_kept(book, &wanted);
    if (found == NULL) {
        found = make_room(book);
        *found = wanted;
        found->memory = arena_create(1 << 16);
        TRY(sim_compiled_order_build(request, found->memory, &found->compiled, err));
        found->op_count = found->compiled.order.step_count;
        book->op_count += found->op_count;
    }
    found->last_use = book->use_count;
    *out = &found->compiled;
    return STATUS_OK;
}

void sim_order_book_free(sim_order_book *book)
{
    for (int entry = 0; entry < SIM_ORDERS_KEPT; entry++) {
        forget(book, &book->entries[entry]);
    }
}
