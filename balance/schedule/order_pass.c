#include "balance/schedule/order_pass.h"

#include <string.h>

void bal_order_pass_init(bal_order_search *find, arena *memory, bal_order_pass *pass)
{
    const size_t rank_count = (size_t)find->rank_count;
    const size_t rank_chunks = (size_t)find->chunk_count * (size_t)find->microbatch_count;
    bal_pass_rank *ranks = arena_array(memory, rank_count, sizeof *ranks);
    uint8_t *pending = arena_array(memory, rank_count * rank_chunks, sizeof *pending);
    for (size_t rank = 0; rank < rank_count; rank++) {
        ranks[rank].pending = pending + rank * rank_chunks;
    }
    *pass = (bal_order_pass){.find = find, .ranks = ranks};
}

void bal_order_pass_reset(bal_order_pass *pass)
{
    const bal_order_search *find = pass->find;
    const size_t rank_ops = 3 * (size_t)find->chunk_count * (size_t)find->microbatch_count;
    pass->span_ns = find->least_span_ns;
    pass->makespan_ns = 0;
    pass->held = 0;
    for (int rank = 0; rank < find->rank_count; rank++) {
        pass->ranks[rank] = (bal_pass_rank){
            .codes = find->codes + (size_t)rank * rank_ops,
            .pending = pass->ranks[rank].pending,
        };
    }
    pass->ranks[0].known[0] = find->microbatch_count;
    memset(find->ranks[0].arrival_ns[0], 0, (size_t)find->microbatch_count * sizeof(int64_t));
}

bool bal_order_pass_is_beaten(const bal_order_pass *pass)
{
    return bal_order_search_is_beaten(pass->find, pass->span_ns, pass->makespan_ns, pass->held);
}

void bal_order_pass_offer(bal_order_pass *pass)
{
    bal_order_search_offer(pass->find, pass->span_ns, pass->makespan_ns, pass->held);
}
