/// Rows in groups, and the routing of rows to experts, in plain C.
#include "exec/kernels/kernels_cpu.h"

#include <math.h>
#include <string.h>

static const float *rows_from(const void *values, int row, int columns)
{
    return (const float *)values + (ptrdiff_t)row * columns;
}

void exec_cpu_group_matmul(exec_kernels *kernels, const exec_matmul *shape,
                           const exec_groups *groups, const void *a, const void *b, void *c)
{
    const ptrdiff_t matrix =
        (ptrdiff_t)shape->columns * (shape->transposes_a ? shape->rows : shape->inner);
    exec_matmul of_group = *shape;
    for (int group = 0; group < groups->count; group++) {
        const int first = groups->first[group];
        const int count = groups->first[group + 1] - first;
        if (shape->transposes_a) {
            of_group.inner = count;
            exec_cpu_matmul(kernels, &of_group, rows_from(a, first, shape->rows),
                            rows_from(b, first, shape->columns), (float *)c + group * matrix);
        } else {
            of_group.rows = count;
            exec_cpu_matmul(kernels, &of_group, rows_from(a, first, shape->inner),
                            (const float *)b + group * matrix,
                            (float *)c + (ptrdiff_t)first * shape->columns);
        }
    }
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

/// A stable counting sort of the entries by expert.
static void sort_entries(const exec_routing *routing)
{
    const int entries = routing->row_count * routing->top_k;
    int next[EXEC_EXPERT_COUNT_MAX];
    memset(routing->count, 0, (size_t)routing->expert_count * sizeof *routing->count);
    for (int entry = 0; entry < entries; entry++) {
        routing->count[routing->expert[entry]]++;
    }
    routing->first_place[0] = 0;
    for (int expert = 0; expert < routing->expert_count; expert++) {
        next[expert] = routing->first_place[expert];
        routing->first_place[expert + 1] = next[expert] + routing->count[expert];
    }
    for (int entry = 0; entry < entries; entry++) {
        const int place = next[routing->expert[entry]]++;
        routing->place[entry] = place;
        routing->row[place] = entry / routing->top_k;
        routing->place_expert[place] = routing->expert[entry];
        routing->place_weight[place] = routing->weight[entry];
    }
}

void exec_cpu_route(exec_kernels *kernels, const exec_routing *routing, const float *logits)
{
    (void)kernels;
    const int expert_count = routing->expert_count;
    const int top_k = routing->top_k;
    float chosen_logit[EXEC_EXPERT_COUNT_MAX];
    float shifted[EXEC_EXPERT_COUNT_MAX];
    float offset[EXEC_EXPERT_COUNT_MAX] = {0};
    even_out(logits, routing->row_count, expert_count, routing->sinkhorn_rounds, offset);
    for (int row = 0; row < routing->row_count; row++) {
        const float *of_row = rows_from(logits, row, expert_count);
        const int first = row * top_k;
        routing->first_entry[row] = first;
        softmax(of_row, expert_count, routing->probability + (ptrdiff_t)row * expert_count);
        for (int expert = 0; expert < expert_count; expert++) {
            shifted[expert] = of_row[expert] + offset[expert];
        }
        choose_experts(shifted, expert_count, top_k, routing->expert + first);
        for (int choice = 0; choice < top_k; choice++) {
            chosen_logit[choice] = of_row[routing->expert[first + choice]];
        }
        softmax(chosen_logit, top_k, routing->weight + first);
    }
    routing->first_entry[routing->row_count] = routing->row_count * top_k;
    sort_entries(routing);
}

/// Share of the entries that an expert has.
static double share_of(const exec_routing *routing, int expert)
{
    return (double)routing->count[expert] / (double)(routing->row_count * routing->top_k);
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

void exec_cpu_route_input(exec_kernels *kernels, const exec_routing *routing,
                          const float *weight_gradient, double balance, void *logits_gradient)
{
    (void)kernels;
    const size_t experts = (size_t)routing->expert_count;
    const double scale = balance * routing->expert_count / routing->row_count;
    memset(logits_gradient, 0, (size_t)routing->row_count * experts * sizeof(float));
    for (int row = 0; row < routing->row_count; row++) {
        float *gradient = (float *)logits_gradient + (size_t)row * experts;
        float mean = 0;
        for (int entry = row * routing->top_k; entry < (row + 1) * routing->top_k; entry++) {
            mean += routing->weight[entry] * weight_gradient[routing->place[entry]];
        }
        for (int entry = row * routing->top_k; entry < (row + 1) * routing->top_k; entry++) {
            const float pull = weight_gradient[routing->place[entry]] - mean;
            gradient[routing->expert[entry]] += routing->weight[entry] * pull;
        }
        if (balance > 0) add_balance_gradient(routing, row, scale, gradient);
    }
}
