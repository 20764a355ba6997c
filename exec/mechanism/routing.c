#include "exec/mechanism/routing.h"

#include <math.h>

exec_moe_options exec_moe_options_default(void)
{
    return (exec_moe_options){.expert_count = 8, .top_k = 2, .balance = 0.01};
}

int exec_moe_expert_width(const exec_moe_options *options, int hidden_width)
{
    return options->expert_width > 0 ? options->expert_width : hidden_width / options->top_k;
}

status exec_moe_options_check(const exec_moe_options *options, int hidden_width, error_message *err)
{
    if (options->expert_count < 1 || options->expert_count > EXEC_EXPERT_COUNT_MAX) {
        return error_set(err, STATUS_INVALID, "expert_count %d is outside [1, %d]",
                         options->expert_count, EXEC_EXPERT_COUNT_MAX);
    }
    if (options->top_k < 1 || options->top_k > options->expert_count) {
        return error_set(err, STATUS_INVALID, "top_k %d is outside [1, expert_count %d]",
                         options->top_k, options->expert_count);
    }
    const int ranks = options->expert_parallel;
    if (ranks < 0 || (ranks > 0 && options->expert_count % ranks != 0)) {
        return error_set(err, STATUS_INVALID, "expert_parallel %d does not divide the %d experts",
                         ranks, options->expert_count);
    }
    if (options->expert_width < 0 || options->expert_width > EXEC_EXPERT_WIDTH_MAX) {
        return error_set(err, STATUS_INVALID, "expert_width %d is outside [0, %d]",
                         options->expert_width, EXEC_EXPERT_WIDTH_MAX);
    }
    if (options->expert_width == 0 && hidden_width % options->top_k != 0) {
        return error_set(
            err, STATUS_INVALID,
            "hidden_width %d is no multiple of top_k %d, and expert_width is not given",
            hidden_width, options->top_k);
    }
    if (options->sinkhorn_rounds < 0 || options->sinkhorn_rounds > EXEC_SINKHORN_ROUNDS_MAX) {
        return error_set(err, STATUS_INVALID, "sinkhorn_rounds %d is outside [0, %d]",
                         options->sinkhorn_rounds, EXEC_SINKHORN_ROUNDS_MAX);
    }
    if (!(options->balance >= 0) || !isfinite(options->balance)) {
        return error_set(err, STATUS_INVALID, "balance %g is negative or not finite",
                         options->balance);
    }
    return STATUS_OK;
}
