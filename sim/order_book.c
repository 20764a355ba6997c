#include "sim/order_book.h"

#include "balance/gradient_reduction.h"

status sim_compiled_order_build(const bal_schedule_request *request, arena *memory,
                                sim_compiled_order *out, error_message *err)
{
    TRY(bal_schedule_build(request, memory, &out->schedule, err));
    TRY(bal_last_backwards(&out->schedule, memory, &out->last_backward, err));
    return sim_order_compile(&out->schedule, memory, &out->order, err);
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

status sim_order_book_find(sim_order_book *book, const bal_schedule_request *request,
                           sim_compiled_order **out, error_message *err)
{
    book->use_count++;
    for (int entry = 0; entry < SIM_ORDERS_KEPT; entry++) {
        sim_order_entry *kept = &book->entries[entry];
        if (kept->op_count > 0 && kept->rank_count == request->rank_count &&
            kept->microbatch_count == request->microbatch_count) {
            kept->last_use = book->use_count;
            *out = &kept->compiled;
            return STATUS_OK;
        }
    }
    sim_order_entry *made = make_room(book);
    made->memory = arena_create(1 << 16);
    if (made->memory == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    TRY(sim_compiled_order_build(request, made->memory, &made->compiled, err));
    made->rank_count = request->rank_count;
    made->microbatch_count = request->microbatch_count;
    made->op_count = made->compiled.order.step_count;
    made->last_use = book->use_count;
    book->op_count += made->op_count;
    *out = &made->compiled;
    return STATUS_OK;
}

void sim_order_book_free(sim_order_book *book)
{
    for (int entry = 0; entry < SIM_ORDERS_KEPT; entry++) {
        forget(book, &book->entries[entry]);
    }
}
