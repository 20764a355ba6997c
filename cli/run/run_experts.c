/// What sharing experts among ranks comes to: how uneven they are, and what waiting for them takes.
#include "cli/run/run.h"

/// One block's F of one microbatch.
typedef struct cell {
    const exec_measured *measured;
    int64_t at;            // in [layer_count][microbatch_count]
    const int64_t *tokens; // [load_columns]
} cell;

/// Tokens of the busiest rank over those of all ranks alike; 0: the layer has no experts.
static double token_ratio(const cell *of, int rank_count)
{
    const int held = of->measured->load_columns / rank_count;
    int64_t sum = 0;
    int64_t busiest = 0;
    for (int rank = 0; rank < rank_count; rank++) {
        int64_t tokens = 0;
        for (int expert = 0; expert < held; expert++) {
            tokens += of->tokens[rank * held + expert];
        }
        sum += tokens;
        if (tokens > busiest) busiest = tokens;
    }
    return sum > 0 ? (double)busiest * rank_count / (double)sum : 0;
}

/// Time that the busiest rank of the first group computes over that of all ranks alike.
static double time_ratio(const cell *of, int rank_count)
{
    const exec_measured *measured = of->measured;
    int64_t sum = 0;
    int64_t busiest = 0;
    for (int rank = 0; rank < rank_count; rank++) {
        const int64_t busy_ns = measured->played->replicas[rank].forward_ns[of->at] -
                                measured->exchange_ns[rank][of->at];
        sum += busy_ns;
        if (busy_ns > busiest) busiest = busy_ns;
    }
    return sum > 0 ? (double)busiest * rank_count / (double)sum : 0;
}

void cli_run_experts_add(cli_run_experts *experts, const exec_measured *measured, arena *memory)
{
    const bal_played_plan *played = measured->played;
    const int64_t cells =
        (int64_t)played->replicas[0].layer_count * played->replicas[0].microbatch_count;
    if (experts->rank_count < 2) return;
    if (experts->forward_ns == NULL) {
        experts->replica_count = played->replica_count;
        experts->forward_ns = arena_array(memory, (size_t)played->replica_count, sizeof(int64_t));
        experts->exchange_ns = arena_array(memory, (size_t)played->replica_count, sizeof(int64_t));
    }
    for (int64_t at = 0; at < cells; at++) {
        const cell of = {measured, at, measured->load_count + at * measured->load_columns};
        const double tokens = token_ratio(&of, experts->rank_count);
        if (tokens == 0) continue;
        experts->cell_count++;
        experts->token_ratios += tokens;
        experts->time_ratios += time_ratio(&of, experts->rank_count);
        for (int replica = 0; replica < played->replica_count; replica++) {
            experts->forward_ns[replica] += played->replicas[replica].forward_ns[at];
            experts->exchange_ns[replica] += measured->exchange_ns[replica][at];
        }
    }
}

void cli_run_experts_write(const cli_run_experts *experts, json_writer *writer)
{
    if (experts->cell_count == 0) return;
    json_put_object(writer, "experts");
    json_put_int64(writer, "ranks", experts->rank_count);
    json_put_double(writer, "token_ratio", experts->token_ratios / (double)experts->cell_count);
    json_put_double(writer, "time_ratio", experts->time_ratios / (double)experts->cell_count);
    json_write_key(writer, "forward_ns");
    json_write_int64_array(writer, experts->forward_ns, experts->replica_count);
    json_write_key(writer, "exchange_ns");
    json_write_int64_array(writer, experts->exchange_ns, experts->replica_count);
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
