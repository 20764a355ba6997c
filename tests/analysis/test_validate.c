/// Runs that were measured: how their columns are read, and the scores of predictions worked out by
/// hand.
#include "analysis/calibration/real_runs.h"
#include "analysis/validate/validate.h"
#include "tests/test_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static status read_runs(const char *text, const char *renamed, const char *constants,
                        ana_real_runs *runs, error_message *err)
{
    table from;
    assert_ok(table_open_bytes("r.csv", text, strlen(text), memory, &from, err));
    return ana_real_runs_read(&from, renamed, constants, memory, runs, err);
}

TEST(columns_are_found_by_other_names_and_constants_fill_empty_cells)
{
    const char *text = "# GPUs,tensor parallelism,seen,notes,pp\n16,4,2.5,a,\n16,,1,b,2\n";
    ana_real_runs runs;
    int value = 0;

    assert_ok(read_runs(text, "measured_ms=seen", "tp=2,sequence=512", &runs, NULL));

    assert_string_equal(runs.ignored, "notes");
    assert_ok(ana_real_int(&runs, 0, ANA_REAL_TP, 1, 64, 1, &value, NULL));
    assert_int_equal(value, 4);
    assert_ok(ana_real_int(&runs, 1, ANA_REAL_TP, 1, 64, 1, &value, NULL));
    assert_int_equal(value, 2);
    assert_ok(ana_real_int(&runs, 0, ANA_REAL_PP, 1, 64, 7, &value, NULL));
    assert_int_equal(value, 7);
    assert_string_equal(ana_real_text(&runs, 1, ANA_REAL_SEQUENCE), "512");
}

TEST(bad_columns_and_cells_are_named)
{
    ana_real_runs runs;
    int value = 0;

    assert_fails(read_runs("tp\n1\n", "", "", &runs, &why), STATUS_FORMAT,
                 "r.csv: no column says what was measured: measured_ms, "
                 "measured_s or tokens_per_s_per_gpu");
    assert_fails(read_runs("tp,time,measured_ms\n1,2,3\n", "", "", &runs, &why), STATUS_FORMAT,
                 "r.csv: columns 'measured_ms' and 'time' are both measured_ms");
    assert_fails_naming(read_runs("time\n1\n", "", "tpp=1", &runs, &why), STATUS_INVALID,
                        "--set: no column is called 'tpp'");
    assert_fails(read_runs("time\n1\n", "tp", "", &runs, &why), STATUS_INVALID,
                 "--columns: 'tp' is no COLUMN=VALUE");
    assert_int_equal(read_runs("time\n1\n", "tp=tensor", "", &runs, &why), STATUS_INVALID);
    assert_ok(read_runs("time,tp\n1,1.5\n", "", "", &runs, NULL));
    assert_fails(ana_real_int(&runs, 0, ANA_REAL_TP, 1, 64, 1, &value, &why), STATUS_FORMAT,
                 "r.csv:2: tp: '1.5' is not an integer");
}

TEST(runs_are_named_by_as_much_as_tells_them_apart)
{
    ana_real_runs runs;

    assert_ok(read_runs("case,model,tp,time\na1,m,1,5\n,m,2,5\n", "", "", &runs, NULL));
    assert_string_equal(ana_real_run_names(&runs, memory)[0], "a1");
    assert_string_equal(ana_real_run_names(&runs, memory)[1], "");
    assert_ok(read_runs("model,gpus,tp,gbs,time\nm,8,1,2,5\nm,8,2,2,6\nm,16,4,4,5\n", "", "", &runs,
                        NULL));
    assert_string_equal(ana_real_run_names(&runs, memory)[0], "gpus8");
    assert_string_equal(ana_real_run_names(&runs, memory)[1], "gpus8 tp2");
    assert_string_equal(ana_real_run_names(&runs, memory)[2], "gpus16 tp4");
    assert_ok(read_runs("layers,gbs,time\n8,2,5\n8,2,6\n", "", "", &runs, NULL));
    assert_string_equal(ana_real_run_names(&runs, memory)[1], "l8");
}

static status study_of(const char *text, ana_real_measured *measured, text_buffer *out,
                       error_message *err)
{
    ana_real_runs runs;
    assert_ok(read_runs(text, "", "", &runs, err));
    return ana_real_study_write(&runs, 0, ana_real_recompute(&runs, 0, 0, memory), memory, out,
                                measured, err);
}

TEST(a_row_becomes_the_study_that_would_have_been_asked)
{
    ana_real_measured measured = {0};
    text_buffer out = {0};

    assert_ok(study_of("model,system,gpus,precision,gbs,mbs,seq,tp,pp,vp,"
                       "tokens_per_s_per_gpu\n"
                       "LLAMA3_70B,B200,64,BF16,256,1,8192,2,4,5,4096\n",
                       &measured, &out, NULL));

    assert_non_null(strstr(out.bytes, "\"model\":\"llama-3-70b\",\"hardware\":\"b200\""));
    assert_non_null(strstr(out.bytes, "\"data_parallel\":8,\"tensor_parallel\":2"));
    assert_non_null(strstr(out.bytes, "\"sequence_parallel\":true"));
    assert_non_null(
        strstr(out.bytes, "{\"stages\":4,\"schedule\":\"interleaved-1f1b\",\"chunks\":5}"));
    // 256 x 8192 tokens over 64 GPUs at 4096 tokens a second each: 8 s.
    assert_close(measured.iteration_ns, 8e9, 1e-12);
    text_free(&out);
}

TEST(layers_that_do_not_divide_are_laid_out_by_hand)
{
    static const struct {
        const char *row, *balancer;
    } rows[] = {{"llama-3-70b,4,1,", "even"},
                {"llama-3.1-405b,8,8,", "given"}, // 126 layers, embedding and head: two a chunk
                {"llama-3.1-405b,8,3,", "interleaved-partition"},
                {"kimi-k2,16,1,", "partition"}, // 61
                {"deepseek-v2,4,1,", "even"},
                {"deepseek-v3,61,1,", "partition"}, // a module of prediction beside the head
                {"deepseek-v3,1,1,", "even"},
                {"deepseek-v3,16,1,dualpipe-v", "v-partition"},
                {"llama-3-70b,65536,65536,", "even"}}; // to be refused
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        ana_real_measured measured = {0};
        text_buffer study = {0};
        char text[256];
        char balancing[64];
        snprintf(text, sizeof text,
                 "model,pp,vp,schedule,ep,global_batch,measured_ms\n%s,1,8192,1\n", rows[row].row);
        snprintf(balancing, sizeof balancing, "\"balancer\":\"%s\"", rows[row].balancer);
        assert_ok(study_of(text, &measured, &study, NULL));
        if (strstr(study.bytes, balancing) == NULL) fail_msg("%s: %s", text, study.bytes);
        text_free(&study);
    }
}

TEST(rows_that_do_not_add_up_are_named)
{
    ana_real_measured measured = {0};
    const struct {
        const char *text;
        const char *message;
    } rows[] = {
        {"gpus,tp,dp,time\n8,4,4,1\n", "r.csv:2: gpus 8, not tp 4 x pp 1 x cp 1 x dp 4"},
        {"model,gpus,tp,time\ngpt2,8,4,1\n", "r.csv:2: neither global_batch nor microbatches"},
        {"gpus,gbs,time\n8,8,1\n", "r.csv:2: neither model nor layers and hidden_size"},
        {"model,gbs,precision,time\ngpt2,8,int8,1\n", "r.csv:2: precision is unknown: int8"},
        {"model,gbs,time\ngpt2,8,\n", "r.csv:2: nothing was measured"},
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        text_buffer out = {0};
        assert_fails(study_of(rows[row].text, &measured, &out, &why), STATUS_FORMAT,
                     rows[row].message);
        text_free(&out);
    }
}

/// Four rows in two groups, and one that is refused: errors 10, 20, 0 and 50 %.
TEST(scores_are_those_worked_out_by_hand)
{
    ana_real_runs runs;
    ana_validation validation = {.runs = &runs, .memory = memory};
    ana_validated_run rows[] = {
        {.has_bar = true, .predicted_ns = 110, .measured_ns = 100, .low_ns = 90, .high_ns = 130},
        {.has_bar = true, .predicted_ns = 96, .measured_ns = 120, .low_ns = 90, .high_ns = 119},
        {.has_bar = true,
         .predicted_ns = 50,
         .measured_ns = 50,
         .low_ns = 50,
         .high_ns = 50,
         .peak_bytes = 12,
         .measured_peak_bytes = 10},
        {.has_bar = true, .predicted_ns = 150, .measured_ns = 100, .low_ns = 1, .high_ns = 2},
        {.is_refused = true, .message = "no"},
    };
    assert_ok(read_runs("group,time\nx,1\nx,1\ny,1\ny,1\nx,1\n", "", "", &runs, NULL));
    validation.rows = rows;

    ana_validation_score(&validation);

    const ana_validation_summary *summary = &validation.summary;
    assert_int_equal(summary->row_count, 4);
    assert_int_equal(summary->refused_count, 1);
    assert_close(summary->error.mean, 0.2, 1e-12);
    assert_close(summary->error.median, 0.15, 1e-12);
    assert_close(summary->error.max, 0.5, 1e-12);
    assert_close(summary->error.signed_mean, 0.1, 1e-12);
    assert_close(summary->coverage, 0.5, 1e-12);
    // In x the second is chosen, 120 for 100; in y the first, which is the best.
    assert_int_equal(summary->group_count, 2);
    assert_close(summary->regret_mean, 0.1, 1e-12);
    assert_close(summary->regret_max, 0.2, 1e-12);
    assert_close(summary->random_regret_mean, (0.1 + 0.5) / 2, 1e-12);
    assert_true(fabs(summary->rank_correlation) < 1e-12); // one pair right, one wrong
    assert_int_equal(summary->memory_count, 1);
    assert_close(summary->memory_error.mean, 0.2, 1e-12);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
