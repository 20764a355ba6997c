#include "sim/order_book.h"

#include "balance/metrics.h"
#include "balance/run/iteration_times.h"
#include "base/text.h"

#include <assert.h>
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

/// Orders of all sizes take turns: an arena that is kept would keep blocks for each.
static void forget(sim_searched_entry *entry)
{
    arena_destroy(entry->memory);
    *entry = (sim_searched_entry){.memory = NULL};
}

static void forget_all(void *context)
{
    sim_order_book *book = context;
    for (int index = 0; index < SIM_SEARCHED_KEPT; index++) {
        forget(&book->searched[index]);
    }
}

sim_order_book *sim_order_book_create(arena *memory)
{
    sim_order_book *book = arena_array(memory, 1, sizeof *book);
    book->memory = memory;
    arena_own(memory, book, forget_all);
    return book;
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
    if (book->fixed == NULL) book->fixed = arena_within(book->memory, 1 << 16);
    if (found == NULL) {
        if (book->order_count == SIM_ORDERS_KEPT || book->op_count > SIM_ORDER_OPS_KEPT) {
            arena_reset(book->fixed);
            book->order_count = 0;
            book->op_count = 0;
        }
        found = &book->entries[book->order_count];
        *found = wanted;
        TRY(sim_compiled_order_build(request, book->fixed, &found->compiled, err));
        book->order_count++;
        book->op_count += found->compiled.order.step_count;
    }
    *out = &found->compiled;
    return STATUS_OK;
}

static void append_numbers(text_buffer *key, const int64_t *numbers, size_t count)
{
    text_append_bytes(key, (const char *)numbers, count * sizeof *numbers);
}

/// Writes all that a search looks at.
static void write_key(const bal_schedule_request *request, text_buffer *key)
{
    const bal_stage_costs *costs = request->costs;
    const bal_schedule_family *family = bal_schedule_family_find(request->name);
    const size_t stages = (size_t)costs->stage_count;
    const size_t cells = stages * (size_t)costs->microbatch_count;
    const bool has_delays = costs->message_delay_ns != NULL;
    const bool has_limit = request->memory_limit != NULL;
    const int64_t counts[] = {request->rank_count,       request->chunk_count,
                              request->microbatch_count, costs->stage_count,
                              costs->microbatch_count,   has_delays + 2 * has_limit};
    text_append_bytes(key, (const char *)&family, sizeof family);
    append_numbers(key, counts, sizeof counts / sizeof counts[0]);
    for (int way = 0; way < 2; way++) {
        append_numbers(key, costs->sends_ns[way], stages);
    }
    for (int kind = 0; kind < BAL_COST_TIMES_COUNT; kind++) {
        append_numbers(key, costs->times_ns[kind], cells);
        if (has_limit) append_numbers(key, costs->memory_changes[kind], stages);
    }
    if (has_delays) append_numbers(key, costs->message_delay_ns, 2 * cells);
    if (has_limit) append_numbers(key, request->memory_limit, (size_t)request->rank_count);
}

/// Room for another searched order: what was asked for longest ago goes, and all that is not held
/// where they are large.
static sim_searched_entry *make_room(sim_order_book *book, const sim_compiled_order *held)
{
    sim_searched_entry *oldest = NULL;
    int64_t op_count = 0;
    for (int index = 0; index < SIM_SEARCHED_KEPT; index++) {
        op_count += book->searched[index].compiled.order.step_count;
    }
    for (int index = 0; index < SIM_SEARCHED_KEPT; index++) {
        sim_searched_entry *entry = &book->searched[index];
        if (&entry->compiled == held) continue;
        if (op_count > SIM_SEARCHED_OPS_KEPT) forget(entry);
        if (oldest == NULL || entry->last_use < oldest->last_use) oldest = entry;
    }
    forget(oldest);
    oldest->memory = arena_create(1 << 16);
    return oldest;
}

static sim_searched_entry *find_searched(sim_order_book *book, const text_buffer *key)
{
    for (int index = 0; index < SIM_SEARCHED_KEPT; index++) {
        sim_searched_entry *entry = &book->searched[index];
        if (entry->key_bytes == key->length && memcmp(entry->key, key->bytes, key->length) == 0) {
            return entry;
        }
    }
    return NULL;
}

/// Searches an order, in the place of another.
static status search(sim_order_book *book, const bal_schedule_request *request,
                     const text_buffer *key, const sim_compiled_order *held,
                     sim_searched_entry **out, error_message *err)
{
    sim_searched_entry *entry = make_room(book, held);
    TRY(sim_compiled_order_build(request, entry->memory, &entry->compiled, err));
    entry->key = memcpy(arena_array(entry->memory, key->length, 1), key->bytes, key->length);
    entry->key_bytes = key->length;
    *out = entry;
    return STATUS_OK;
}

status sim_order_book_search(sim_order_book *book, const bal_schedule_request *request,
                             const sim_compiled_order *held, sim_compiled_order **out,
                             error_message *err)
{
    assert(request->placed_op_count == NULL);
    text_buffer key = {0};
    write_key(request, &key);
    sim_searched_entry *entry = find_searched(book, &key);
    const status found = entry != NULL ? STATUS_OK : search(book, request, &key, held, &entry, err);
    text_free(&key);
    TRY(found);
    entry->last_use = ++book->search_count;
    *out = &entry->compiled;
    return STATUS_OK;
}
