/// Stage costs: sums, placements, and what a message costs on which link.
#include "balance/costs/stage_costs.h"
#include "tests/test.h"
#include "tests/test_memory.h"

TEST(every_stage_has_one_rank_in_all_placements)
{
    for (int placement = BAL_PLACEMENT_LOOP; placement <= BAL_PLACEMENT_BIDIRECTIONAL;
         placement++) {
        for (int rank = 0; rank < 5; rank++) {
            for (int chunk = 0; chunk < 2; chunk++) {
                const int stage = bal_stage_of((bal_placement)placement, 5, 2, rank, chunk);
                int found = -1;
                assert_int_equal(bal_rank_of_stage((bal_placement)placement, 5, 2, stage, &found),
                                 rank);
                assert_int_equal(found, chunk);
            }
        }
    }
    assert_int_equal(bal_stage_of(BAL_PLACEMENT_V, 5, 2, 4, 1), 5);
    assert_int_equal(bal_stage_of(BAL_PLACEMENT_BIDIRECTIONAL, 5, 2, 4, 1), 5);
}

TEST(the_two_pipelines_of_a_bidirectional_placement_are_apart)
{
    const int before[] = {-1, 0, 1, -1, 3, 4};
    const int behind[] = {1, 2, -1, 4, 5, -1};
    for (int stage = 0; stage < 6; stage++) {
        assert_int_equal(bal_stage_before(BAL_PLACEMENT_BIDIRECTIONAL, 3, stage), before[stage]);
        assert_int_equal(bal_stage_behind(BAL_PLACEMENT_BIDIRECTIONAL, 3, 2, stage), behind[stage]);
        assert_int_equal(bal_stage_before(BAL_PLACEMENT_V, 3, stage), stage - 1);
        assert_int_equal(bal_stage_behind(BAL_PLACEMENT_V, 3, 2, stage),
                         stage < 5 ? stage + 1 : -1);
    }
}

TEST(placements_are_found_by_their_names)
{
    static const char *const names[] = {"interleaved", "v", "bidirectional"};
    for (int index = 0; index < 3; index++) {
        bal_placement found = BAL_PLACEMENT_LOOP;
        assert_string_equal(bal_placement_name((bal_placement)index), names[index]);
        assert_true(bal_placement_find(names[index], &found));
        assert_int_equal(found, index);
        assert_int_equal(bal_placement_takes((bal_placement)index, 3), index == 0);
    }
    bal_placement found = BAL_PLACEMENT_V;
    assert_false(bal_placement_find("spiral", &found));
    assert_int_equal(found, BAL_PLACEMENT_V);
}

TEST(a_transfer_is_latency_plus_bytes_over_bandwidth_rounded_up)
{
    assert_int_equal(bal_link_transfer_ns((bal_link){10, 0}, 1000), 10);
    assert_int_equal(bal_link_transfer_ns((bal_link){10, 1000000000}, 1000), 1010);
    assert_int_equal(bal_link_transfer_ns((bal_link){0, 3000000000}, 1), 1);
    assert_int_equal(bal_link_transfer_ns((bal_link){0, 3000000000}, 6), 2);
    assert_int_equal(bal_link_transfer_ns((bal_link){5, INT64_C(450000000000)}, 900000000000),
                     2000000005);
    assert_true(bal_link_transfer_ns((bal_link){0, 1}, INT64_MAX) == INT64_MAX / 4);
}

TEST(stages_sum_their_layers_and_know_their_links)
{
    const int64_t forward[] = {1, 2, 3, 4};
    const int64_t input[] = {10, 20, 30, 40};
    const int64_t weight[] = {100, 200, 300, 400};
    const int64_t activation[] = {7, 7, 7, 7};
    const int64_t gradient[] = {2, 2, 2, 2};
    const int64_t message[] = {1000, 2000, 3000, 4000};
    const bal_layer_costs layers = {
        .layer_count = 4,
        .microbatch_count = 1,
        .has_split = true,
        .forward_ns = forward,
        .backward_input_ns = input,
        .backward_weight_ns = weight,
        .activation_bytes = activation,
        .gradient_bytes = gradient,
        .message_bytes = message,
    };
    const bal_machine machine = {.rank_count = 3,
                                 .ranks_per_node = 2,
                                 .intra_node = {1, 1000000000},
                                 .inter_node = {5, 1000000000}};
    const int first_layer[] = {0, 1, 2, 4};
    const double slow_last[] = {1, 1, 1.25};
    bal_stage_costs costs;
    const bal_placed_partition plan = {
        .first_layer = first_layer, .rank_count = 3, .chunk_count = 1};

    assert_ok(
        bal_stage_costs_from_layers(&layers, &plan, &machine, slow_last, memory, &costs, NULL));

    assert_int_equal(costs.forward_ns[0], 1);
    assert_int_equal(costs.forward_ns[2], 9); // (3 + 4) * 1.25 = 8.75
    assert_int_equal(costs.backward_weight_ns[2], 875);
    assert_int_equal(costs.send_forward_ns[0], 1001);
    assert_int_equal(costs.send_forward_ns[1], 2005);
    assert_int_equal(costs.send_backward_ns[2], 2005);
    assert_int_equal(costs.memory_forward[2], 14);
    assert_int_equal(costs.memory_backward_input[2], -10);
    assert_int_equal(costs.memory_backward_weight[2], -4);
}

TEST(a_stage_costs_what_its_machine_rank_makes_of_it)
{
    const int64_t forward[] = {4, 4, 4};
    const int64_t message[] = {100, 100, 100};
    const bal_layer_costs layers = {.layer_count = 3,
                                    .microbatch_count = 1,
                                    .forward_ns = forward,
                                    .backward_input_ns = forward,
                                    .backward_weight_ns = forward,
                                    .message_bytes = message};
    const bal_machine machine = {.rank_count = 4,
                                 .ranks_per_node = 2,
                                 .intra_node = {1, 1000000000},
                                 .inter_node = {50, 1000000000}};
    const int first_layer[] = {0, 1, 3};
    const int rank[] = {3, 0};
    const double slow_third[] = {1, 1, 1, 2};
    const bal_placed_partition plan = {
        .first_layer = first_layer, .rank_count = 2, .chunk_count = 1, .machine_rank = rank};
    bal_stage_costs costs;

    assert_ok(
        bal_stage_costs_from_layers(&layers, &plan, &machine, slow_third, memory, &costs, NULL));

    assert_int_equal(costs.stage_count, 2);
    assert_int_equal(costs.forward_ns[0], 8);
    assert_int_equal(costs.forward_ns[1], 8);
    assert_int_equal(costs.send_forward_ns[0], 150); // between the nodes of ranks 3 and 0
}

/// With two columns, so that the rows of a stage are not its number.
TEST(where_the_first_stage_is_whole_its_b_is_all_of_its_backward)
{
    const int64_t forward[] = {1, 1, 2, 2, 3, 3, 4, 4};
    const int64_t input[] = {10, 11, 20, 21, 30, 31, 40, 41};
    const int64_t weight[] = {100, 200, 300, 400, 500, 600, 700, 800};
    const int64_t activation[] = {7, 8, 9, 10};
    const int64_t gradient[] = {2, 3, 4, 5};
    const bal_layer_costs layers = {.layer_count = 4,
                                    .microbatch_count = 2,
                                    .has_split = true,
                                    .first_stage_whole = true,
                                    .forward_ns = forward,
                                    .backward_input_ns = input,
                                    .backward_weight_ns = weight,
                                    .activation_bytes = activation,
                                    .gradient_bytes = gradient};
    const bal_machine machine = {.rank_count = 2, .ranks_per_node = 2};
    const int first_layer[] = {0, 1, 2, 3, 4};
    for (int placement = BAL_PLACEMENT_LOOP; placement <= BAL_PLACEMENT_BIDIRECTIONAL;
         placement++) {
        const bal_placed_partition plan = {.first_layer = first_layer,
                                           .rank_count = 2,
                                           .chunk_count = 2,
                                           .placement = (bal_placement)placement};
        bal_stage_costs costs;

        assert_ok(
            bal_stage_costs_from_layers(&layers, &plan, &machine, NULL, memory, &costs, NULL));

        for (int stage = 0; stage < 4; stage++) {
            // The second pipeline of a bidirectional placement has a first stage of its own.
            const bool is_whole =
                stage == 0 || (stage == 2 && placement == BAL_PLACEMENT_BIDIRECTIONAL);
            for (int column = 0; column < 2; column++) {
                const int at = 2 * stage + column;
                assert_int_equal(costs.forward_ns[at], forward[at]);
                assert_int_equal(costs.backward_input_ns[at],
                                 input[at] + (is_whole ? weight[at] : 0));
                assert_int_equal(costs.backward_weight_ns[at], is_whole ? 0 : weight[at]);
            }
            assert_int_equal(costs.memory_backward_input[stage],
                             (is_whole ? 0 : gradient[stage]) - activation[stage]);
            assert_int_equal(costs.memory_backward_weight[stage], is_whole ? 0 : -gradient[stage]);
        }
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
