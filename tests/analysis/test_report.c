/// The report: that nothing in it is taken for markup, and what becomes of it without gnuplot.
#include "analysis/report/plot.h"
#include "analysis/report/report.h"
#include "tests/assert_close.h"

#include <stdlib.h>
#include <string.h>

/// Labels, words and facts with markup in them; without gnuplot.
static void nothing_that_a_run_says_is_markup(void **state)
{
    (void)state;
    static const int iterations[] = {0, 1};
    static const double bubble[] = {0.25, 0.5};
    const ana_report_series series = {
        .label = "a<b>", .count = 2, .iteration = iterations, .bubble_ratio = bubble};
    const ana_report_fact fact = {"command", "dynmo <x>"};
    const ana_recorded recorded = {.info = {.name = "T & <T>"},
                                   .words = "a<b>&\"c\n",
                                   .series = &series,
                                   .series_count = 1,
                                   .provenance = &fact,
                                   .provenance_count = 1};
    const ana_report report = {.recorded = &recorded};
    text_buffer out = {0};
    text_buffer svg = {0};
    error_message err = {0};
    assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);

    assert_ok(ana_report_write(&report, &out, &err));
    assert_int_equal(ana_report_figure(&report, ANA_FIGURE_BUBBLE, &svg, &err), STATUS_UNSUPPORTED);

    assert_string_equal(err.message, "no gnuplot on PATH, so no pictures");
    assert_int_equal(svg.length, 0);
    assert_null(strstr(out.bytes, "a<b>"));
    assert_null(strstr(out.bytes, "<x>"));
    assert_null(strstr(out.bytes, "<svg"));
    assert_non_null(strstr(out.bytes, "<title>T &amp; &lt;T&gt;</title>"));
    assert_non_null(strstr(out.bytes, "a&lt;b&gt;&amp;&quot;c"));
    assert_non_null(strstr(out.bytes, "There was no gnuplot"));
    text_free(&out);
    text_free(&svg);
}

static void strings_reach_gnuplot_in_one_piece(void **state)
{
    (void)state;
    text_buffer out = {0};

    ana_plot_quote(&out, "a\"b\\c'd\n`ls`");

    assert_string_equal(out.bytes, "'a\"b\\c''d `ls`'");
    text_free(&out);
}

static void gnuplot_runs_nothing_that_a_label_says(void **state)
{
    (void)state;
    text_buffer settings = {0};
    text_buffer svg = {0};
    error_message err = {0};
    text_append(&settings, "array titles[1]\narray numbers[1]\nnumbers[1] = 0\ntitles[1] = ");
    ana_plot_quote(&settings, "`echo ran` $(echo ran) \" . system('echo ran') . \"");
    text_append(&settings, "\ntitle_of(n) = titles[n + 1]\nnumber_of(n) = 0\nheight = 300\n"
                           "series_count = 1\nlast_iteration = 1\ny_title = \"y\"\n"
                           "$series_0 << EOD\n0 1\n1 2\nEOD\n");

    const status plotted = ana_plot("series", &settings, &svg, &err);
    if (plotted == STATUS_UNSUPPORTED) skip();
    assert_string_equal(err.message, "");
    assert_non_null(strstr(svg.bytes, "`echo ran`"));
    text_free(&settings);
    text_free(&svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gnuplot_runs_nothing_that_a_label_says),
        cmocka_unit_test(nothing_that_a_run_says_is_markup),
        cmocka_unit_test(strings_reach_gnuplot_in_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
