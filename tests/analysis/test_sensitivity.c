/// What shorter ops and links are worth: by hand, and on random orders.
#include "analysis/whatif/explanation.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"
#include "tests/test_memory.h"

enum { RANDOM_CASES = 500 };

static void one_percent_of_a_chain_is_its_share(void **state)
{
    arena *memory = *state;
    const bal_schedule schedule = reference_build("zb-h1", 2, 1, 1, memory);
    const int64_t forward[] = {1000, 2000};
    const int64_t input[] = {3000, 4000};
    const int64_t weight[] = {500, 100};
    const int64_t send[] = {700, 800};
    bal_stage_costs costs = reference_uniform_costs(2, 1, 1, 1, 0, (int64_t[]){1, 0, -1}, memory);
    costs.forward_ns = forward;
    costs.backward_input_ns = input;
    costs.backward_weight_ns = weight;
    costs.send_forward_ns = send;
    costs.send_backward_ns = send;
    ana_sensitivity found;

    // F 1000, 700, F 2000, B 4000, 800, B 3000, W 500: stage 1's W has long ended.
    assert_ok(ana_sensitivity_of(&schedule, &costs, false, memory, &found, NULL));

    assert_int_equal(found.stage_ns[0], 10 + 30 + 5);
    assert_int_equal(found.stage_ns[1], 20 + 40);
    assert_int_equal(found.link_ns[0], 7 + 8);
    assert_int_equal(found.link_ns[1], 0);
    assert_int_equal(found.kind_ns[OP_FORWARD], 30);
    assert_int_equal(found.kind_ns[OP_BACKWARD_INPUT], 70);
    assert_int_equal(found.kind_ns[OP_BACKWARD_WEIGHT], 5);
    assert_int_equal(found.kind_ns[OP_BACKWARD], 75);
    assert_int_equal(found.all_ops_ns, 105);
    assert_int_equal(found.all_links_ns, 15);
}

static void shorter_is_never_longer(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= RANDOM_CASES; seed++) {
        arena *memory = arena_create(1 << 16);
        const random_problem problem = random_problem_draw(seed, memory);
        ana_sensitivity found;
        assert_ok(
            ana_sensitivity_of(&problem.schedule, &problem.costs, false, memory, &found, NULL));
        for (int stage = 0; stage < found.stage_count; stage++) {
            if (found.stage_ns[stage] < 0 || found.link_ns[stage] < 0 ||
                found.stage_ns[stage] > found.all_ops_ns ||
                found.link_ns[stage] > found.all_links_ns) {
                fail_msg("seed %lu, stage %d", (unsigned long)seed, stage);
            }
        }
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_percent_of_a_chain_is_its_share),
        cmocka_unit_test(shorter_is_never_longer),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
