/// Timelines as files: what is written reads back, and the Chrome trace is exact and complete; and
/// the report.
#include "analysis/report/report.h"
#include "analysis/report/timeline_file.h"
#include "sim/pipeline.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, MICROBATCHES = 3 };

static const int64_t forward[RANKS] = {1001, 2002};
static const int64_t input[RANKS] = {1500, 2500};
static const int64_t weight[RANKS] = {700, 800};
static const int64_t send[RANKS] = {11, 13};
static const int64_t memory_f[RANKS] = {10, 20};
static const int64_t memory_b[RANKS] = {-4, -8};
static const int64_t memory_w[RANKS] = {-6, -12};
static const int first_layer[RANKS + 1] = {0, 3, 5};

static void play(ana_timeline *timeline)
{
    const bal_stage_costs costs = {.stage_count = RANKS,
                                   .microbatch_count = 1,
                                   .forward_ns = forward,
                                   .backward_input_ns = input,
                                   .backward_weight_ns = weight,
                                   .send_forward_ns = send,
                                   .send_backward_ns = send,
                                   .memory_forward = memory_f,
                                   .memory_backward_input = memory_b,
                                   .memory_backward_weight = memory_w};
    const bal_schedule_request request = {
        .name = "zb-h1", .rank_count = RANKS, .microbatch_count = MICROBATCHES, .costs = &costs};
    sim_order order;
    *timeline = (ana_timeline){.label = "partition \"x\"",
                               .iteration = 7,
                               .first_layer = first_layer,
                               .memory_forward = memory_f,
                               .memory_backward_input = memory_b,
                               .memory_backward_weight = memory_w};
    assert_ok(bal_schedule_build(&request, memory, &timeline->schedule, NULL));
    assert_ok(sim_order_compile(&timeline->schedule, memory, &order, NULL));
    sim_timeline_init(&timeline->schedule, memory, &timeline->timeline);
    sim_order_play(&order, &costs, NULL, &timeline->timeline);
}

TEST(what_is_written_reads_back)
{
    text_buffer out = {0};
    json_value document;
    ana_timeline written;
    ana_timeline read;
    play(&written);

    ana_timeline_write(&written, &out);
    assert_ok(json_read_text("t", out.bytes, memory, &document, NULL));
    assert_ok(ana_timeline_read(document, memory, &read, NULL));

    const int ops = written.schedule.first_op[RANKS];
    assert_int_equal(read.schedule.first_op[RANKS], ops);
    assert_memory_equal(read.schedule.ops, written.schedule.ops, (size_t)ops * sizeof(bal_op));
    assert_memory_equal(read.timeline.begin_ns, written.timeline.begin_ns,
                        (size_t)ops * sizeof(int64_t));
    assert_memory_equal(read.timeline.end_ns, written.timeline.end_ns,
                        (size_t)ops * sizeof(int64_t));
    assert_string_equal(read.label, written.label);
    assert_int_equal(read.iteration, 7);
    assert_true(read.schedule.has_split);
    assert_memory_equal(read.memory_backward_input, memory_b, sizeof memory_b);
    text_free(&out);
}

static int occurrences(const char *text, const char *piece)
{
    int count = 0;
    for (const char *at = strstr(text, piece); at != NULL; at = strstr(at + 1, piece)) {
        count++;
    }
    return count;
}

TEST(the_chrome_trace_is_json_with_every_op_and_message)
{
    text_buffer out = {0};
    json_value document;
    ana_timeline timeline;
    play(&timeline);
    const ana_timeline *const timelines[] = {&timeline, &timeline};

    ana_perfetto_write(timelines, 2, memory, &out);

    assert_ok(json_read_text("t", out.bytes, memory, &document, NULL));
    assert_int_equal(occurrences(out.bytes, "\"ph\":\"X\""), 2 * RANKS * MICROBATCHES * 3);
    assert_int_equal(occurrences(out.bytes, "\"ph\":\"s\""), 2 * 2 * MICROBATCHES);
    assert_int_equal(occurrences(out.bytes, "\"ph\":\"f\""), 2 * 2 * MICROBATCHES);
    // F0 of rank 0 takes 1001 ns from 0; rank 1 begins when the message is there.
    assert_non_null(
        strstr(out.bytes,
               "{\"ph\":\"X\",\"name\":\"F0\",\"pid\":1,\"tid\":0,\"ts\":0.000,\"dur\":1.001}"));
    assert_non_null(
        strstr(out.bytes,
               "{\"ph\":\"X\",\"name\":\"F0\",\"pid\":1,\"tid\":1,\"ts\":1.012,\"dur\":2.002}"));
    assert_non_null(strstr(out.bytes, "rank 1: layers 3-4"));
    assert_non_null(strstr(out.bytes, "partition \\\"x\\\", iteration 7, zb-h1"));
    text_free(&out);
}

TEST(files_that_are_no_timelines_are_refused)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"{\"schema\":\"x\"}", "t: schema: 'x' is not 'dynmo-timeline/1'"},
        {"{\"schema\":\"dynmo-timeline/1\",\"label\":\"l\",\"schedule\":\"s\","
         "\"placement\":\"v\",\"iteration\":0,\"ranks\":0}",
         "t: ranks: 0 is outside [1, 4096]"},
        {"{\"schema\":\"dynmo-timeline/1\",\"label\":\"l\",\"schedule\":\"s\","
         "\"placement\":\"w\",\"iteration\":0,\"ranks\":1,\"chunks\":1,\"microbatches\":1}",
         "t: placement: 'w' is neither v nor interleaved"},
    };

    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        json_value document;
        ana_timeline timeline;
        const char *text = cases[index].text;
        assert_ok(json_read_text("t", text, memory, &document, &why));
        assert_fails(ana_timeline_read(document, memory, &timeline, &why), STATUS_FORMAT,
                     cases[index].message);
    }
}

// The report: nothing in it is taken for markup, and what becomes of it without gnuplot.

/// Labels, words and facts with markup in them; without gnuplot.
TEST(nothing_that_a_run_says_is_markup)
{
    static const trace_run_iteration iterations[] = {{.iteration = 0, .bubble_ratio = 0.25},
                                                     {.iteration = 1, .bubble_ratio = 0.5}};
    const ana_report_series series = {"a<b>", 2, iterations, true};
    const ana_recorded recorded = {.info = {.name = "T & <T>", .command_line = "dynmo <x>"},
                                   .words = "a<b>&\"c\n",
                                   .series = &series,
                                   .series_count = 1};
    const ana_report report = {.recorded = &recorded};
    text_buffer out = {0};
    text_buffer svg = {0};
    char *path = strdup(getenv("PATH"));
    assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);

    assert_ok(ana_report_write(&report, &out, &why));
    assert_fails(ana_report_figure(&report, ANA_FIGURE_BUBBLE, &svg, &why), STATUS_UNSUPPORTED,
                 "no gnuplot on PATH, so no pictures");
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_int_equal(svg.length, 0);
    assert_null(strstr(out.bytes, "a<b>"));
    assert_null(strstr(out.bytes, "<x>"));
    assert_null(strstr(out.bytes, "<svg"));
    assert_non_null(strstr(out.bytes, "<title>T &amp; &lt;T&gt;</title>"));
    assert_non_null(strstr(out.bytes, "a&lt;b&gt;&amp;&quot;c"));
    assert_non_null(strstr(out.bytes, "There was no gnuplot"));
    free(path);
    text_free(&out);
    text_free(&svg);
}

TEST(strings_reach_gnuplot_in_one_piece)
{
    text_buffer out = {0};

    ana_plot_quote(&out, "a\"b\\c'd\n`ls`");

    assert_string_equal(out.bytes, "'a\"b\\c''d `ls`'");
    text_free(&out);
}

TEST(gnuplot_runs_nothing_that_a_label_says)
{
    text_buffer settings = {0};
    text_buffer svg = {0};
    text_append(&settings, "array titles[1]\narray numbers[1]\nnumbers[1] = 0\ntitles[1] = ");
    ana_plot_quote(&settings, "`echo ran` $(echo ran) \" . system('echo ran') . \"");
    text_append(&settings,
                "\ntitle_of(n) = titles[n + 1]\nnumber_of(n) = 0\nheight = 300\n"
                "series_count = 1\nfirst_iteration = 0\nlast_iteration = 1\ny_title = \"y\"\n"
                "$series_0 << EOD\n0 1\n1 2\nEOD\n");

    const status plotted = ana_plot("series", &settings, &svg, &why);
    text_free(&settings);
    if (plotted == STATUS_UNSUPPORTED) skip();
    require(plotted);
    assert_non_null(strstr(svg.bytes, "`echo ran`"));
    text_free(&svg);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
