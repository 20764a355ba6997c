/// Routing to experts in plain C: a case worked out by hand, an oracle for the choice and the
/// order, gradients against finite differences of the loss written down plainly.
#include "exec/kernels/kernels.h"

#include "base/arena.h"
#include "base/rng.h"
#include "tests/test_memory.h"

#include <stdbool.h>

enum { ROWS = 24, EXPERTS = 6, TOP_K = 2 };

static exec_kernels *cpu;

static exec_routing carve(int experts, int rows, int top_k)
{
    const size_t entries = (size_t)(rows * top_k);
    return (exec_routing){
        .row_count = rows,
        .expert_count = experts,
        .top_k = top_k,
        .probability = arena_array(memory, (size_t)(rows * experts), sizeof(float)),
        .first_entry = arena_array(memory, (size_t)rows + 1, sizeof(int)),
        .expert = arena_array(memory, entries, sizeof(int)),
        .place = arena_array(memory, entries, sizeof(int)),
        .weight = arena_array(memory, entries, sizeof(float)),
        .row = arena_array(memory, entries, sizeof(int)),
        .place_weight = arena_array(memory, entries, sizeof(float)),
        .place_expert = arena_array(memory, entries, sizeof(int)),
        .count = arena_array(memory, (size_t)experts, sizeof(int)),
        .first_place = arena_array(memory, (size_t)experts + 1, sizeof(int)),
    };
}

static void fill(float *values, size_t count, uint64_t seed)
{
    rng random = rng_init(seed, 0);
    for (size_t at = 0; at < count; at++) {
        values[at] = (float)(4 * rng_unit(&random) - 2);
    }
}

TEST(three_tokens_and_three_experts_by_hand)
{
    exec_routing routing = carve(3, 3, 2);
    const float logits[] = {1, 2, 2, 0, 5, 0, 3, 0, 1};

    cpu->table->route(cpu, &routing, logits);

    const int expert[] = {1, 2, 0, 1, 0, 2}; // the tie of token 1 goes to expert 0
    const int place[] = {2, 4, 0, 3, 1, 5};
    const int row[] = {1, 2, 0, 1, 0, 2};
    for (int entry = 0; entry < 6; entry++) {
        assert_int_equal(routing.expert[entry], expert[entry]);
        assert_int_equal(routing.place[entry], place[entry]);
        assert_int_equal(routing.row[entry], row[entry]);
        assert_true(routing.place_weight[routing.place[entry]] == routing.weight[entry]);
        assert_int_equal(routing.place_expert[routing.place[entry]], expert[entry]);
    }
    assert_int_equal(routing.count[0], 2);
    assert_close(routing.weight[0], 0.5, 1e-6);
    assert_close(routing.weight[3], 1 / (1 + exp(-5.0)), 1e-6);
    assert_close(routing.weight[4], 1 / (1 + exp(-2.0)), 1e-6);
    assert_close(routing.probability[3], 1 / (2 + exp(5.0)), 1e-6);
}

static bool is_among_largest(const float *logits, int expert, int top_k)
{
    int ahead = 0;
    for (int other = 0; other < EXPERTS; other++) {
        if (logits[other] > logits[expert]) ahead++;
        if (logits[other] == logits[expert] && other < expert) ahead++;
    }
    return ahead < top_k;
}

TEST(experts_are_those_of_largest_logit_and_weights_sum_to_one)
{
    for (int top_k = 1; top_k <= EXPERTS; top_k++) {
        arena_reset(memory);
        exec_routing routing = carve(EXPERTS, ROWS, top_k);
        float logits[ROWS * EXPERTS];
        fill(logits, ROWS * EXPERTS, (uint64_t)top_k);
        logits[1] = logits[4]; // a tie

        cpu->table->route(cpu, &routing, logits);

        for (int row = 0; row < ROWS; row++) {
            double sum = 0;
            for (int entry = routing.first_entry[row]; entry < routing.first_entry[row + 1];
                 entry++) {
                assert_true(is_among_largest(logits + row * EXPERTS, routing.expert[entry], top_k));
                sum += routing.weight[entry];
            }
            assert_close(sum, 1, 1e-6);
        }
    }
}

TEST(places_are_sorted_by_expert_then_token)
{
    exec_routing routing = carve(EXPERTS, ROWS, TOP_K);
    float logits[ROWS * EXPERTS];
    fill(logits, ROWS * EXPERTS, 7);

    cpu->table->route(cpu, &routing, logits);

    bool is_taken[ROWS * TOP_K] = {false};
    assert_int_equal(routing.first_place[0], 0);
    assert_int_equal(routing.first_place[EXPERTS], ROWS * TOP_K);
    for (int row = 0; row < ROWS; row++) {
        for (int entry = routing.first_entry[row]; entry < routing.first_entry[row + 1]; entry++) {
            const int place = routing.place[entry];
            const int expert = routing.expert[entry];
            assert_int_equal(routing.row[place], row);
            assert_in_range(place, routing.first_place[expert],
                            routing.first_place[expert + 1] - 1);
            assert_false(is_taken[place]);
            is_taken[place] = true;
        }
    }
    for (int expert = 0; expert < EXPERTS; expert++) {
        for (int place = routing.first_place[expert] + 1; place < routing.first_place[expert + 1];
             place++) {
            assert_true(routing.row[place - 1] < routing.row[place]);
        }
    }
}

TEST(a_skewed_router_fills_one_expert_without_dropping_a_token)
{
    exec_routing routing = carve(EXPERTS, ROWS, TOP_K);
    float logits[ROWS * EXPERTS];
    fill(logits, ROWS * EXPERTS, 8);
    for (int row = 0; row < ROWS; row++) {
        logits[row * EXPERTS + 3] += 10;
    }

    cpu->table->route(cpu, &routing, logits);

    assert_int_equal(routing.count[3], ROWS);
    assert_int_equal(routing.first_place[EXPERTS], ROWS * TOP_K);
}

TEST(logits_that_are_no_numbers_still_route)
{
    exec_routing routing = carve(2, 2, 2);
    const float wrong[] = {NAN, NAN, NAN, 1};

    cpu->table->route(cpu, &routing, wrong);

    assert_int_equal(routing.count[0], 2);
    assert_int_equal(routing.count[1], 2);
}

/// What route_input differentiates: sum over tokens of (sum of weight * slope) + balance
/// * balance loss with the shares that shares has.
static double loss_of(const exec_routing *shares, const float *logits, const float *slope,
                      double balance, exec_routing *scratch)
{
    double loss = 0;
    double balance_loss = 0;
    cpu->table->route(cpu, scratch, logits);
    for (int entry = 0; entry < scratch->row_count * scratch->top_k; entry++) {
        assert_int_equal(scratch->expert[entry], shares->expert[entry]);
        loss += (double)scratch->weight[entry] * (double)slope[scratch->place[entry]];
    }
    for (int row = 0; row < ROWS; row++) {
        for (int expert = 0; expert < EXPERTS; expert++) {
            const double share = (double)shares->count[expert] / (ROWS * TOP_K);
            balance_loss +=
                EXPERTS * share * (double)scratch->probability[row * EXPERTS + expert] / ROWS;
        }
    }
    return loss + balance * balance_loss;
}

TEST(gradients_of_the_logits_are_those_of_finite_differences)
{
    exec_routing routing = carve(EXPERTS, ROWS, TOP_K);
    exec_routing scratch = carve(EXPERTS, ROWS, TOP_K);
    float logits[ROWS * EXPERTS];
    float slope[ROWS * TOP_K];
    float gradient[ROWS * EXPERTS];
    const double balance = 5;
    const float step = 1.0f / 256;
    fill(logits, ROWS * EXPERTS, 11);
    fill(slope, ROWS * TOP_K, 12);

    cpu->table->route(cpu, &routing, logits);
    cpu->table->route_input(cpu, &routing, slope, balance, gradient);

    for (int at = 0; at < ROWS * EXPERTS; at++) {
        const float kept = logits[at];
        logits[at] = kept + step;
        const double more = loss_of(&routing, logits, slope, balance, &scratch);
        logits[at] = kept - step;
        const double less = loss_of(&routing, logits, slope, balance, &scratch);
        logits[at] = kept;
        const double difference = (more - less) / (2 * (double)step);
        assert_true(fabs((double)gradient[at] - difference) < 2e-4 + 1e-3 * fabs(difference));
    }
}

/// Tokens of the busiest expert over the mean.
static double busiest(const exec_routing *routing)
{
    int most = 0;
    for (int expert = 0; expert < routing->expert_count; expert++) {
        const int count = routing->count[expert];
        if (count > most) most = count;
    }
    return (double)most * routing->expert_count / (routing->row_count * routing->top_k);
}

/// A router that likes the first expert: the more rounds, the less of it is left.
TEST(rounds_leave_less_and_less_imbalance)
{
    enum { MANY = 512 };
    exec_routing routing = carve(EXPERTS, MANY, TOP_K);
    float *logits = arena_array(memory, MANY * EXPERTS, sizeof *logits);
    fill(logits, MANY * EXPERTS, 9);
    for (int row = 0; row < MANY; row++) {
        logits[row * EXPERTS] += 3;
        logits[row * EXPERTS + 1] += 1;
    }
    double left[4];
    const int rounds[] = {0, 1, 3, 50};
    for (int each = 0; each < 4; each++) {
        routing.sinkhorn_rounds = rounds[each];
        cpu->table->route(cpu, &routing, logits);
        left[each] = busiest(&routing);
        assert_int_equal(routing.first_place[EXPERTS], MANY * TOP_K);
    }
    assert_true(left[0] > 2.5 && left[1] < left[0] && left[2] < left[1] && left[3] < 1.2);
}

/// After one round the choice is that of logits less the logarithm of each expert's share, written
/// down in double; weights are still the softmax of the logits themselves.
TEST(one_round_takes_an_experts_share_off_its_logits)
{
    exec_routing routing = carve(EXPERTS, ROWS, 1);
    float logits[ROWS * EXPERTS];
    double share[EXPERTS] = {0};
    fill(logits, ROWS * EXPERTS, 21);
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        logits[row * EXPERTS + 2] += 2;
        for (int expert = 0; expert < EXPERTS; expert++) {
            sum += exp((double)logits[row * EXPERTS + expert]);
        }
        for (int expert = 0; expert < EXPERTS; expert++) {
            share[expert] += exp((double)logits[row * EXPERTS + expert]) / sum * EXPERTS / ROWS;
        }
    }
    routing.sinkhorn_rounds = 1;

    cpu->table->route(cpu, &routing, logits);

    for (int row = 0; row < ROWS; row++) {
        const int chosen = routing.expert[row];
        for (int expert = 0; expert < EXPERTS; expert++) {
            assert_true((double)logits[row * EXPERTS + chosen] - log(share[chosen]) >
                        (double)logits[row * EXPERTS + expert] - log(share[expert]) - 1e-5);
        }
        assert_true(routing.weight[row] == 1);
    }
}

int main(void)
{
    if (exec_kernels_cpu_open(&cpu) != STATUS_OK) return 1;
    const int failures = run_all_tests(open_memory, close_memory);
    cpu->table->close(cpu);
    return failures;
}
