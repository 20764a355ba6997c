/// The paper's published numbers: that they were copied rightly, as far as they bind each other,
/// and that each can be found.
#include "analysis/paper/published.h"
#include "tests/assert_close.h"

#include <string.h>

static double value_of(const char *experiment, const char *quantity)
{
    return ana_published_find(experiment, quantity)->value;
}

/// At constant work a smaller bubble is a speed-up: (1 - after) / (1 - before).
static double identity(const char *experiment, const char *before, const char *after)
{
    return (1 - value_of(experiment, after)) / (1 - value_of(experiment, before));
}

static void bubbles_of_moe_and_mod_are_their_speed_ups(void **state)
{
    (void)state;
    assert_close(identity("moe", "LLaMA-MoE-3.5B, bubble before", "LLaMA-MoE-3.5B, bubble after"),
                 0.92 / 0.75, 1e-12);
    assert_close(identity("moe", "LLaMA-MoE-3.5B, bubble before", "LLaMA-MoE-3.5B, bubble after"),
                 value_of("moe", "LLaMA-MoE-3.5B, speed-up over static"), 0.005);
    assert_close(identity("mod", "bubble before", "bubble after"),
                 value_of("mod", "speed-up over static"), 0.005);
}

static void freezing_needs_more_than_its_bubble(void **state)
{
    (void)state;
    const double without_bubble = 1 / (1 - value_of("freezing", "bubble before"));

    assert_close(without_bubble, 5.0 / 3, 1e-12);
    assert_true(value_of("freezing", "speed-up over Egeria") > without_bubble);
}

static void speed_ups_of_table_1_are_the_better_column_over_megatron(void **state)
{
    (void)state;
    const ana_table1_row *rows = ana_table1();
    int filled = 0;
    for (int row = 0; row < ANA_TABLE1_ROWS; row++) {
        const double *rate = rows[row].samples_per_s;
        if (rate[ANA_TABLE1_MEGATRON] <= 0) continue;
        const double best = rate[ANA_TABLE1_DIFFUSION] > rate[ANA_TABLE1_PARTITION]
                                ? rate[ANA_TABLE1_DIFFUSION]
                                : rate[ANA_TABLE1_PARTITION];

        assert_true(best / rate[ANA_TABLE1_MEGATRON] - rows[row].speed_up < 0.01);
        assert_true(best / rate[ANA_TABLE1_MEGATRON] - rows[row].speed_up > -0.01);
        filled++;
    }
    assert_int_equal(filled, 12);
}

static void table_1_is_complete_and_slower_with_more_layers(void **state)
{
    (void)state;
    static const int layers[] = {24, 32, 40, 48, 56};
    static const int gpus[] = {2, 4, 8};
    const ana_table1_row *rows = ana_table1();
    for (int row = 0; row < ANA_TABLE1_ROWS; row++) {
        assert_int_equal(rows[row].layer_count, layers[row / 3]);
        assert_int_equal(rows[row].gpu_count, gpus[row % 3]);
        for (int method = 0; method < ANA_TABLE1_METHODS && row >= 3; method++) {
            assert_true(rows[row].samples_per_s[method] < rows[row - 3].samples_per_s[method] ||
                        rows[row].samples_per_s[method] == 0);
        }
    }
}

static void every_number_has_its_place_and_stands_once(void **state)
{
    (void)state;
    int count = 0;
    const ana_published *numbers = ana_published_numbers(&count);
    assert_true(count > 20);
    for (int number = 0; number < count; number++) {
        assert_true(strlen(numbers[number].place) > 0);
        assert_true(numbers[number].value > 0);
        assert_ptr_equal(ana_published_find(numbers[number].experiment, numbers[number].quantity),
                         &numbers[number]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubbles_of_moe_and_mod_are_their_speed_ups),
        cmocka_unit_test(freezing_needs_more_than_its_bubble),
        cmocka_unit_test(speed_ups_of_table_1_are_the_better_column_over_megatron),
        cmocka_unit_test(table_1_is_complete_and_slower_with_more_layers),
        cmocka_unit_test(every_number_has_its_place_and_stands_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
