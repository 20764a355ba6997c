/// What measured runs teach of the cost model's error: planted errors, found; and what they leave
/// open, left open.
#include "analysis/whatif/correction.h"
#include "tests/test_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/// A run of a size, a fifth of whose time are collectives of tensor parallelism.
static ana_time_parts run_of(const char *machine, double size, double tensor)
{
    ana_time_parts parts = {.layer_size = {size}, .head_size = {size}};
    snprintf(parts.machine, sizeof parts.machine, "%s", machine);
    parts.share[MODEL_COST_MLP] = 0.9 - tensor;
    parts.share[MODEL_COST_TENSOR] = tensor;
    parts.share[ANA_CORRECTED_HEAD] = 0.1;
    return parts;
}

static ana_corrected predicted(const ana_correction *correction, const ana_time_parts *parts)
{
    double *scratch = arena_array(memory, 2 * (size_t)correction->run_count, sizeof *scratch);
    return ana_correction_predict(correction, parts, scratch);
}

enum { RUNS = 12 };

/// Runs of sizes from 10 to 15.5, whatever share collectives have.
static void plant(const char *machine, double all, double tensor, ana_time_parts *runs,
                  double *log_ratios)
{
    for (int run = 0; run < RUNS; run++) {
        runs[run] = run_of(machine, 10 + 0.5 * (run * 5 % RUNS), 0.05 * run);
        log_ratios[run] = all + tensor * runs[run].share[MODEL_COST_TENSOR];
    }
}

static ana_correction learned_from(const ana_time_parts *runs, const double *log_ratios, int count)
{
    ana_correction correction;
    assert_ok(ana_correction_fit(runs, log_ratios, count, memory, &correction, NULL));
    return correction;
}

/// What planted runs of machine a teach.
static ana_correction planted(double all, double tensor)
{
    ana_time_parts *runs = arena_array(memory, RUNS, sizeof *runs);
    double log_ratios[RUNS];
    plant("a", all, tensor, runs, log_ratios);
    return learned_from(runs, log_ratios, RUNS);
}

TEST(a_machine_that_is_slower_is_slower_for_other_runs_and_in_part_for_other_machines)
{
    const ana_correction correction = planted(0.3, 0);
    const ana_time_parts own = run_of("a", 13.2, 0.2);
    const ana_time_parts other = run_of("b", 13.2, 0.2);
    const ana_corrected here = predicted(&correction, &own);
    const ana_corrected there = predicted(&correction, &other);
    assert_close(here.log_factor, 0.3, 0.05);
    assert_true(here.deviation < 0.11);
    assert_true(there.log_factor > 0.1 && there.log_factor < 0.2);
    assert_true(there.deviation > here.deviation);
}

TEST(an_error_of_one_part_grows_with_its_share)
{
    const ana_correction correction = planted(0, 0.5);
    const ana_time_parts without = run_of("a", 12.7, 0);
    const ana_time_parts with = run_of("a", 12.7, 0.55);
    assert_true(fabs(predicted(&correction, &without).log_factor) < 0.05);
    assert_true(predicted(&correction, &with).log_factor > 0.18);
}

TEST(one_run_that_something_else_slowed_counts_for_little)
{
    ana_time_parts runs[RUNS];
    double log_ratios[RUNS];
    plant("a", 0, 0, runs, log_ratios);
    log_ratios[5] = 0.5;
    const ana_correction correction = learned_from(runs, log_ratios, RUNS);
    const ana_time_parts far = run_of("a", 10, 0.1);
    assert_true(fabs(predicted(&correction, &far).log_factor) < 0.05);
}

TEST(runs_that_agree_are_believed_however_far_off_they_are)
{
    ana_time_parts runs[RUNS];
    double log_ratios[RUNS];
    for (double factor = 1.0 / 30; factor < 1500; factor *= 3) {
        for (int count = 4; count <= RUNS; count += 8) {
            plant("a", log(factor), 0, runs, log_ratios);
            const ana_correction correction = learned_from(runs, log_ratios, count);
            const ana_time_parts own = run_of("a", 12.2, 0.2);
            assert_close(exp(predicted(&correction, &own).log_factor), factor, 0.15);
        }
    }
}

TEST(what_no_run_tells_stays_open)
{
    const ana_time_parts run = run_of("a", 10, 0.2);
    const ana_time_parts far = run_of("b", 40, 0.2);
    const double log_ratio = 0.1;
    ana_correction correction;
    assert_ok(ana_correction_fit(&run, &log_ratio, 1, memory, &correction, NULL));
    const ana_corrected same = predicted(&correction, &run);
    const ana_corrected other = predicted(&correction, &far);
    assert_true(same.log_factor > 0.09 && same.deviation < 0.05);
    assert_true(other.deviation > 0.12);
    assert_fails(ana_correction_fit(&run, &log_ratio, 0, memory, &correction, &why), STATUS_INVALID,
                 "0 runs to learn from: it takes 1 to 1000");
}

/// Of a table of one row, played.
static ana_played_run played_of(const char *cells)
{
    static const char names[] = "model,hardware,gpus,gbs,mbs,seq,tp,pp,vp,recompute,measured_ms";
    char text[400];
    table from;
    ana_real_runs runs;
    ana_played_run played;
    snprintf(text, sizeof text, "%s\n%s\n", names, cells);
    assert_ok(table_open_bytes("r.csv", text, strlen(text), memory, &from, &why));
    assert_ok(ana_real_runs_read(&from, "", "", memory, &runs, &why));
    assert_ok(ana_real_play(&runs, 0, ana_point_worker_create(memory), memory, &played, &why));
    return played;
}

TEST(shares_of_an_iteration_are_those_of_its_parts)
{
    static const char *const rows[] = {"llama-3-8b,h100-sxm,8,64,1,8192,8,1,,full,1",
                                       "llama-3-8b,h100-sxm,8,64,1,8192,1,4,,full,1",
                                       "llama-3-8b,h100-sxm,8,64,1,8192,1,4,4,,1",
                                       "mixtral-8x7b,h100-sxm,64,64,1,4096,2,4,,full,1"};
    double tensor[4];
    for (int row = 0; row < 4; row++) {
        const ana_played_run played = played_of(rows[row]);
        double sum = 0;
        assert_null(played.refusal);
        for (int part = 0; part < ANA_CORRECTED_PARTS; part++) {
            assert_true(played.parts.share[part] >= 0);
            sum += played.parts.share[part];
        }
        assert_close(sum, 1, 1e-9);
        tensor[row] = played.parts.share[MODEL_COST_TENSOR];
    }
    assert_true(tensor[0] > 0.05 && tensor[1] == 0 && tensor[3] > 0);
    const ana_played_run small = played_of("gpt2,h100-sxm,1,8,1,64,1,1,,none,1");
    assert_true(small.parts.share[MODEL_COST_HOST] > 0.5);
    const ana_played_run unknown = played_of("no-such-model,h100-sxm,8,64,1,8192,8,1,,full,1");
    assert_non_null(strstr(unknown.refusal, "no-such-model"));
}

TEST(a_factor_is_that_of_the_prediction)
{
    const ana_correction correction = planted(0.2, 0.3);
    const ana_time_parts other = run_of("b", 13.1, 0.3);
    assert_close(log(ana_correction_factor(&correction, &other)),
                 predicted(&correction, &other).log_factor, 1e-6);
    assert_true(ana_correction_knows(&correction, "a") && !ana_correction_knows(&correction, "b"));
}

TEST(draws_are_spread_as_predictions_are_and_points_that_are_alike_move_together)
{
    enum { POINTS = 3, DRAWS = 4000 };
    double factors[POINTS * DRAWS];
    const ana_correction correction = planted(0.2, 0);
    const ana_time_parts points[POINTS] = {run_of("a", 20, 0.2), run_of("a", 20, 0.2),
                                           run_of("b", 30, 0.5)};
    assert_ok(ana_correction_draw(&correction, points, POINTS, 1, DRAWS, memory, factors, NULL));
    for (int point = 0; point < POINTS; point++) {
        const ana_corrected wanted = predicted(&correction, &points[point]);
        double sum = 0;
        double squares = 0;
        double mean = 0;
        for (int draw = 0; draw < DRAWS; draw++) {
            const double off = log(factors[point * DRAWS + draw]) - wanted.log_factor;
            sum += off;
            mean += factors[point * DRAWS + draw] / DRAWS;
            squares += off * off;
        }
        const double deviation = wanted.deviation * ANA_CORRECTION_REACH / 1.6449;
        const double middle = sum / DRAWS;
        assert_close(sqrt(squares / DRAWS - middle * middle), deviation, 0.05);
        assert_close(mean, ana_correction_factor(&correction, &points[point]), 0.003);
    }
    for (int draw = 0; draw < DRAWS; draw++) {
        assert_close(factors[draw], factors[DRAWS + draw], 1e-3);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
