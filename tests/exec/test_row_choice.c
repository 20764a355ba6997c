/// Rows that a block computes: chosen by score in plain C, or alive; an oracle for the choice, the
/// gate against finite differences, the threshold of early exit by hand.
#include "exec/model/model.h"

#include "exec/kernels/kernels.h"

#include "base/rng.h"
#include "tests/test.h"

#include <string.h>

enum { SEQUENCES = 3, LENGTH = 20 };

static exec_kernels *cpu;

typedef struct choice_fixture {
    int row[SEQUENCES * LENGTH];
    int first_row[SEQUENCES + 1];
    int before[SEQUENCES * LENGTH + 1];
    float gate[SEQUENCES * LENGTH];
} choice_fixture;

static void choose(choice_fixture *fixture, const float *score, int count)
{
    const exec_chosen chosen = {SEQUENCES,    LENGTH,          count,
                                fixture->row, fixture->before, fixture->gate};
    cpu->table->choose_rows(cpu, &chosen, score);
}

TEST(rows_are_the_largest_of_each_sequence_in_ascending_order)
{
    rng random = rng_init(3, 0);
    for (int round = 0; round < 200; round++) {
        choice_fixture fixture;
        float score[SEQUENCES * LENGTH];
        const int wanted = 1 + round % LENGTH;
        for (int row = 0; row < SEQUENCES * LENGTH; row++) {
            score[row] = (float)rng_between(&random, -6, 6) / 2; // ties abound
        }

        choose(&fixture, score, wanted);

        for (int sequence = 0, at = 0; sequence < SEQUENCES; sequence++) {
            const int begin = sequence * LENGTH;
            at = sequence * wanted;
            for (int row = begin; row < begin + LENGTH; row++) {
                int ahead = 0;
                for (int other = begin; other < begin + LENGTH; other++) {
                    if (score[other] > score[row]) ahead++;
                    if (score[other] == score[row] && other < row) ahead++;
                }
                assert_int_equal(fixture.before[row], at);
                if (ahead < wanted) assert_int_equal(fixture.row[at++], row);
            }
            assert_int_equal(at, (sequence + 1) * wanted);
        }
    }
}

TEST(zeros_of_either_sign_tie_and_no_number_is_no_trouble)
{
    choice_fixture fixture;
    float score[SEQUENCES * LENGTH] = {0};
    score[0] = -0.0f;
    for (int row = LENGTH; row < 2 * LENGTH; row++) {
        score[row] = NAN;
    }

    choose(&fixture, score, 2);

    assert_int_equal(fixture.row[0], 0);
    assert_int_equal(fixture.row[1], 1);
    assert_int_equal(fixture.before[2 * LENGTH], 4);
    assert_int_equal(fixture.before[3 * LENGTH], 6);
}

TEST(capacity_is_a_share_of_the_sequence_and_never_nothing)
{
    const exec_mod_options eighth = exec_model_default().mod;
    const exec_mod_options all = {.capacity_ratio = 1, .every = 1};

    assert_int_equal(exec_mod_row_count(&eighth, 64), 8);
    assert_int_equal(exec_mod_row_count(&eighth, 20), 3);
    assert_int_equal(exec_mod_row_count(&eighth, 2), 1);
    assert_int_equal(exec_mod_row_count(&all, 7), 7);
    assert_false(exec_mod_routes(&eighth, 0));
    assert_true(exec_mod_routes(&eighth, 1));
    assert_false(exec_mod_routes(&eighth, 2));
    assert_true(exec_mod_routes(&all, 0));
}

/// Of the one row of one sequence.
static float gate_of(float score)
{
    int row, before[2];
    float gate;
    cpu->table->choose_rows(cpu, &(exec_chosen){1, 1, 1, &row, before, &gate}, &score);
    return gate;
}

TEST(the_gate_has_the_gradient_of_finite_differences)
{
    for (float score = -4; score <= 4; score += 0.5f) {
        const float step = 1.0f / 64, gate = gate_of(score);
        const double difference =
            ((double)gate_of(score + step) - (double)gate_of(score - step)) / (2 * step);
        float gradient = 3;

        cpu->table->gate_input(cpu, &gate, &gradient, 1);

        assert_close(gradient, 3 * difference, 1e-3);
    }
    assert_close(gate_of(0), 0.5, 1e-7);
}

TEST(live_rows_keep_their_order_and_sequences_may_be_empty)
{
    choice_fixture fixture;
    uint8_t has_left[SEQUENCES * LENGTH];
    int extent[2];
    const exec_live live = {SEQUENCES, LENGTH, has_left, fixture.row, fixture.first_row, extent};
    memset(has_left, 1, sizeof has_left);
    has_left[2] = has_left[7] = has_left[2 * LENGTH] = 0;

    cpu->table->find_live(cpu, &live);

    const int first_row[] = {0, 2, 2, 3};
    assert_memory_equal(fixture.first_row, first_row, sizeof first_row);
    assert_int_equal(fixture.row[0], 2);
    assert_int_equal(fixture.row[1], 7);
    assert_int_equal(fixture.row[2], 2 * LENGTH);
    assert_int_equal(extent[0], 0);
    assert_int_equal(extent[1], 3);
}

TEST(the_threshold_comes_down_from_one_and_settles)
{
    const exec_early_exit_options options = {.threshold = 0.9, .settle_iterations = 10};
    const exec_early_exit_options at_once = {.threshold = 0.9};

    assert_close(exec_exit_threshold(&options, 0), 1, 1e-12);
    assert_close(exec_exit_threshold(&options, 10), 0.9 + 0.1 * exp(-1), 1e-12);
    assert_close(exec_exit_threshold(&options, 1000), 0.9, 1e-12);
    assert_close(exec_exit_threshold(&at_once, 0), 0.9, 1e-12);
    int tenths = 0;
    for (int iteration = 0; iteration < 1000; iteration++) {
        tenths += exec_exit_threshold_settles(&options, iteration);
        assert_false(exec_exit_threshold_settles(&at_once, iteration));
    }
    assert_int_equal(tenths, 9);                           // the last tenth is never done with
    assert_true(exec_exit_threshold_settles(&options, 1)); // exp(-0.1) = 0.905, exp(-0.2) = 0.819
    assert_false(exec_exit_threshold_settles(&options, 0));
}

static bool is_saturated(float product, float before, float after, double cosine)
{
    const int row = 0;
    uint8_t has_left = 0;
    const exec_leaving leaving = {.row = &row,
                                  .states = {&product, &before, &after},
                                  .threshold = cosine,
                                  .has_left = &has_left};
    cpu->table->leave_rows(cpu, &leaving, 1);
    return has_left != 0;
}

TEST(a_state_that_hardly_turned_is_saturated)
{
    // (1, 0) to (1, 0.1): cosine 0.99504
    assert_true(is_saturated(1, 1, 1.01f, 0.995));
    assert_false(is_saturated(1, 1, 1.01f, 0.996));
    assert_true(is_saturated(1e-20f, 1e-20f, 1e-20f, 0.9)); // lengths whose product underflows
    assert_false(is_saturated(0, 0, 1, -0.5));
    assert_false(is_saturated(NAN, 1, 1, 0.5));
}

int main(void)
{
    if (exec_kernels_cpu_open(&cpu) != STATUS_OK) return 1;
    const int failures = run_all_tests(NULL, NULL);
    cpu->table->close(cpu);
    return failures;
}
