/// What sharing experts among ranks comes to: how uneven they are, and what waiting for them takes.
#include "cli/run/run.h"

#include "balance/metrics.h"

#include <string.h>

/// Tokens of each rank in one block's F of one microbatch.
///
/// @param at in [layer_count][microbatch_count]
/// @return of all ranks; 0: the layer has no experts
static int64_t count_tokens(const exec_measured *measured, int64_t at, int rank_count,
                            int64_t *tokens)
{
    const int64_t *count = measured->load_count + at * measured->load_columns;
    int64_t sum = 0;
    memset(tokens, 0, (size_t)rank_count * sizeof *tokens);
    for (int expert = 0; expert < measured->load_columns; expert++) {
        tokens[expert * rank_count / measured->load_columns] += count[expert];
        sum += count[expert];
    }
    return sum;
}

void cli_run_experts_add(cli_run_experts *experts, const exec_measured *measured, arena *memory)
{
    const bal_layer_costs *replicas = measured->played->replicas;
    const int replica_count = measured->played->replica_count;
    const int64_t cells = (int64_t)replicas[0].layer_count * replicas[0].microbatch_count;
    int64_t of_rank[EXEC_EXPERT_COUNT_MAX]; // tokens, then time: first of those that share experts
    if (experts->rank_count < 2) return;
    if (experts->forward_ns == NULL) {
        experts->replica_count = replica_count;
        experts->forward_ns = arena_array(memory, (size_t)replica_count, sizeof(int64_t));
        experts->exchange_ns = arena_array(memory, (size_t)replica_count, sizeof(int64_t));
    }
    for (int64_t at = 0; at < cells; at++) {
        if (count_tokens(measured, at, experts->rank_count, of_rank) == 0) continue;
        experts->cell_count++;
        experts->token_ratios += bal_imbalance_ratio(of_rank, experts->rank_count);
        for (int replica = 0; replica < replica_count; replica++) {
            const int64_t forward_ns = replicas[replica].forward_ns[at];
            const int64_t exchange_ns = measured->exchange_ns[replica][at];
            experts->forward_ns[replica] += forward_ns;
            experts->exchange_ns[replica] += exchange_ns;
            if (replica < experts->rank_count) of_rank[replica] = forward_ns - exchange_ns;
        }
        experts->time_ratios += bal_imbalance_ratio(of_rank, experts->rank_count);
    }
}

void cli_run_experts_write(const cli_run_experts *experts, json_writer *writer)
{
    if (experts->cell_count == 0) return;
    json_put_object(writer, "experts");
    json_put_int64(writer, "ranks", experts->rank_count);
    json_put_double(writer, "token_ratio", experts->token_ratios / (double)experts->cell_count);
    json_put_double(writer, "time_ratio", experts->time_ratios / (double)experts->cell_count);
    json_put_int64_array(writer, "forward_ns", experts->forward_ns, experts->replica_count);
    json_put_int64_array(writer, "exchange_ns", experts->exchange_ns, experts->replica_count);
    json_end_object(writer);
}

void cli_run_experts_print(const cli_run_experts *experts, text_buffer *out)
{
    int64_t forward_ns = 0;
    int64_t exchange_ns = 0;
    if (experts->cell_count == 0) return;
    for (int replica = 0; replica < experts->replica_count; replica++) {
        forward_ns += experts->forward_ns[replica];
        exchange_ns += experts->exchange_ns[replica];
    }
    text_format(
        out,
        "experts on %d ranks: the busiest has %.3f times its even share of tokens and "
        "computes F of a block %.3f times as long as the mean; exchanges take %.1f %% of F\n",
        experts->rank_count, experts->token_ratios / (double)experts->cell_count,
        experts->time_ratios / (double)experts->cell_count,
        100 * (double)exchange_ns / (double)forward_ns);
}
