#include "exec/mechanism/routing.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

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

exec_routing exec_routing_carve(arena *memory, int expert_count, int row_max, int entry_max)
{
    const size_t experts = (size_t)expert_count;
    const size_t rows = (size_t)row_max;
    const size_t entries = (size_t)entry_max;
    return (exec_routing){
        .expert_count = expert_count,
        .probability = arena_array(memory, rows * experts, sizeof(float)),
        .first_entry = arena_array(memory, rows + 1, sizeof(int)),
        .expert = arena_array(memory, entries, sizeof(int)),
        .weight = arena_array(memory, entries, sizeof(float)),
        .place = arena_array(memory, entries, sizeof(int)),
        .first_place = arena_array(memory, experts + 1, sizeof(int)),
        .row = arena_array(memory, entries, sizeof(int)),
        .place_weight = arena_array(memory, entries, sizeof(float)),
    };
}

/// out = softmax(logits), with the largest logit taken off so that nothing overflows.
static void softmax(const float *logits, int count, float *out)
{
    float largest = logits[0];
    for (int at = 1; at < count; at++) {
        if (logits[at] > largest) largest = logits[at];
    }
    float sum = 0;
    for (int at = 0; at < count; at++) {
        out[at] = expf(logits[at] - largest);
        sum += out[at];
    }
    for (int at = 0; at < count; at++) {
        out[at] /= sum;
    }
}

/// The top_k experts of largest logit, in ascending order. An expert is chosen once even where
/// logits are not numbers, so that a run that diverges still has a routing.
static void choose_experts(const float *logits, int expert_count, int top_k, int *chosen)
{
    bool is_chosen[EXEC_EXPERT_COUNT_MAX] = {false};
    for (int choice = 0; choice < top_k; choice++) {
        int best = -1;
        for (int expert = 0; expert < expert_count; expert++) {
            if (is_chosen[expert]) continue;
            if (best < 0 || logits[expert] > logits[best]) best = expert;
        }
        is_chosen[best] = true;
    }
    for (int expert = 0, choice = 0; expert < expert_count; expert++) {
        if (is_chosen[expert]) chosen[choice++] = expert;
    }
}

/// Offsets of the experts' logits under which their shares of the softmax are more alike with every
/// round: an expert's is divided by what it has of all rows, over the mean.
static void even_out(const float *logits, int row_count, int expert_count, int rounds,
                     float *offset)
{
    float shifted[EXEC_EXPERT_COUNT_MAX];
    float probability[EXEC_EXPERT_COUNT_MAX];
    for (int round = 0; round < rounds; round++) {
        float sum[EXEC_EXPERT_COUNT_MAX] = {0};
        for (int row = 0; row < row_count; row++) {
            for (int expert = 0; expert < expert_count; expert++) {
                shifted[expert] = logits[row * expert_count + expert] + offset[expert];
            }
            softmax(shifted, expert_count, probability);
            for (int expert = 0; expert < expert_count; expert++) {
                sum[expert] += probability[expert];
            }
        }
        for (int expert = 0; expert < expert_count; expert++) {
            const float share = sum[expert] * (float)expert_count / (float)row_count;
            if (share > 0) offset[expert] -= logf(share);
        }
    }
}

void exec_route(exec_routing *routing, const float *logits, int row_count, int top_k)
{
    const int expert_count = routing->expert_count;
    float chosen_logit[EXEC_EXPERT_COUNT_MAX];
    float shifted[EXEC_EXPERT_COUNT_MAX];
    float offset[EXEC_EXPERT_COUNT_MAX] = {0};
    assert(expert_count <= EXEC_EXPERT_COUNT_MAX && top_k <= expert_count);
    routing->row_count = row_count;
    even_out(logits, row_count, expert_count, routing->sinkhorn_rounds, offset);
    for (int row = 0; row < row_count; row++) {
        const float *of_row = logits + (size_t)row * (size_t)expert_count;
        const int first = row * top_k;
        routing->first_entry[row] = first;
        softmax(of_row, expert_count, routing->probability + (size_t)row * (size_t)expert_count);
        for (int expert = 0; expert < expert_count; expert++) {
            shifted[expert] = of_row[expert] + offset[expert];
        }
        choose_experts(shifted, expert_count, top_k, routing->expert + first);
        for (int choice = 0; choice < top_k; choice++) {
            chosen_logit[choice] = of_row[routing->expert[first + choice]];
        }
        softmax(chosen_logit, top_k, routing->weight + first);
    }
    routing->first_entry[row_count] = row_count * top_k;
    exec_routing_sort(routing);
}

void exec_routing_sort(exec_routing *routing)
{
    const int expert_count = routing->expert_count;
    int *first_place = routing->first_place;
    int next[EXEC_EXPERT_COUNT_MAX];
    routing->entry_count = routing->first_entry[routing->row_count];
    memset(first_place, 0, ((size_t)expert_count + 1) * sizeof *first_place);
    for (int entry = 0; entry < routing->entry_count; entry++) {
        first_place[routing->expert[entry] + 1]++;
    }
    for (int expert = 0; expert < expert_count; expert++) {
        next[expert] = first_place[expert];
        first_place[expert + 1] += first_place[expert];
    }
    for (int row = 0; row < routing->row_count; row++) {
        for (int entry = routing->first_entry[row]; entry < routing->first_entry[row + 1];
             entry++) {
            const int place = next[routing->expert[entry]]++;
            routing->place[entry] = place;
            routing->row[place] = row;
            routing->place_weight[place] = routing->weight[entry];
        }
    }
}

int exec_routing_count(const exec_routing *routing, int expert)
{
    return routing->first_place[expert + 1] - routing->first_place[expert];
}

/// Share of the entries that an expert has.
static double share_of(const exec_routing *routing, int expert)
{
    return (double)exec_routing_count(routing, expert) / (double)routing->entry_count;
}

double exec_routing_balance(const exec_routing *routing)
{
    double sum = 0;
    if (routing->entry_count == 0) return 0;
    for (int expert = 0; expert < routing->expert_count; expert++) {
        double probability = 0;
        for (int row = 0; row < routing->row_count; row++) {
            probability += routing->probability[row * routing->expert_count + expert];
        }
        sum += share_of(routing, expert) * probability / routing->row_count;
    }
    return routing->expert_count * sum;
}

/// Of the balance loss: with p the softmax of the row, d loss / d logit_e = scale * p_e * (share_e
/// - sum of share * p).
static void add_balance_gradient(const exec_routing *routing, int row, double scale,
                                 float *gradient)
{
    const float *probability = routing->probability + (size_t)row * (size_t)routing->expert_count;
    double mean = 0;
    for (int expert = 0; expert < routing->expert_count; expert++) {
        mean += share_of(routing, expert) * (double)probability[expert];
    }
    for (int expert = 0; expert < routing->expert_count; expert++) {
        const double pull = share_of(routing, expert) - mean;
        gradient[expert] += (float)(scale * (double)probability[expert] * pull);
    }
}

void exec_routing_gradient(const exec_routing *routing, const float *weight_gradient,
                           double balance, float *logits_gradient)
{
    const size_t experts = (size_t)routing->expert_count;
    memset(logits_gradient, 0, (size_t)routing->row_count * experts * sizeof *logits_gradient);
    for (int row = 0; row < routing->row_count; row++) {
        float *gradient = logits_gradient + (size_t)row * experts;
        const int first = routing->first_entry[row];
        const int end = routing->first_entry[row + 1];
        float mean = 0;
        for (int entry = first; entry < end; entry++) {
            mean += routing->weight[entry] * weight_gradient[routing->place[entry]];
        }
        for (int entry = first; entry < end; entry++) {
            const float pull = weight_gradient[routing->place[entry]] - mean;
            gradient[routing->expert[entry]] += routing->weight[entry] * pull;
        }
        if (balance > 0 && routing->entry_count > 0) {
            add_balance_gradient(routing, row, balance * routing->expert_count / routing->row_count,
                                 gradient);
        }
    }
}
