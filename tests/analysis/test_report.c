/// The report: what a page says, that nothing in it is taken for markup, and what becomes of it
/// without gnuplot.
#include "analysis/report/plot.h"
#include "analysis/report/report.h"
#include "tests/assert_close.h"

#include <stdlib.h>
#include <string.h>

static const char comparison_text[] =
    "{\"schema\":\"dynmo-simulation/1\",\"iterations\":2,\"layers\":4,\"stages\":2,"
    "\"microbatches\":4,\"schedule\":\"zb-h1\",\"rows\":["
    "{\"label\":\"a<b>&\\\"c\",\"policy\":\"never\",\"tokens_per_s\":1000,"
    "\"relative_to_even\":1,\"relative_to_tuned\":null,\"iteration_mean_ns\":1000000,"
    "\"first\":{\"bubble_ratio\":0.25},\"last\":{\"bubble_ratio\":0.5},"
    "\"peak_memory_bytes\":[1024,2048],\"fits\":false,\"imbalance_ratio\":1.5,\"rebalances\":0,"
    "\"moved_layers\":0,\"moved_bytes\":0},"
    "{\"label\":\"full\",\"policy\":\"never\",\"infeasible\":\"stage 0 needs <more>\"}],"
    "\"inputs\":[{\"name\":\"n\",\"value\":\"<v>\",\"origin\":\"assumed\"}]}";

static void write_report(const char *comparison, text_buffer *out, status expected,
                         error_message *err)
{
    static const int iterations[] = {0, 1};
    static const double bubble[] = {0.25, 0.5};
    static const double imbalance[] = {1.5, 1.5};
    const ana_report_series series = {.label = "a<b>",
                                      .count = 2,
                                      .iteration = iterations,
                                      .bubble_ratio = bubble,
                                      .imbalance_ratio = imbalance};
    const ana_report_fact fact = {"command", "dynmo <x>"};
    json_document *document = NULL;
    assert_ok(json_open_bytes("c", comparison, strlen(comparison), &document, err));
    const ana_report report = {.title = "T & <T>",
                               .comparison = document,
                               .series = &series,
                               .series_count = 1,
                               .provenance = &fact,
                               .provenance_count = 1};

    assert_int_equal(ana_report_write(&report, out, err), expected);

    json_close(document);
}

static void nothing_in_a_label_is_markup(void **state)
{
    (void)state;
    text_buffer out = {0};
    error_message err = {0};
    assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);

    write_report(comparison_text, &out, STATUS_OK, &err);

    assert_null(strstr(out.bytes, "a<b>"));
    assert_null(strstr(out.bytes, "<more>"));
    assert_null(strstr(out.bytes, "<v>"));
    assert_non_null(strstr(out.bytes, "<title>T &amp; &lt;T&gt;</title>"));
    assert_non_null(strstr(out.bytes, "a&lt;b&gt;&amp;&quot;c"));
    assert_non_null(strstr(out.bytes, "infeasible: stage 0 needs &lt;more&gt;"));
    assert_non_null(strstr(out.bytes, "2.00 KiB (too much)"));
    assert_non_null(strstr(out.bytes, "1.000x <i>even</i>"));
    text_free(&out);
}

static void without_gnuplot_the_page_says_so(void **state)
{
    (void)state;
    text_buffer out = {0};
    text_buffer svg = {0};
    text_buffer settings = {0};
    error_message err = {0};
    assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);
    text_append(&settings, "x = 1\n");

    write_report(comparison_text, &out, STATUS_OK, &err);
    assert_int_equal(ana_plot("series", &settings, &svg, &err), STATUS_UNSUPPORTED);

    assert_non_null(strstr(out.bytes, "There was no gnuplot"));
    assert_null(strstr(out.bytes, "<svg"));
    assert_string_equal(err.message, "no gnuplot on PATH, so no pictures");
    assert_int_equal(svg.length, 0);
    text_free(&out);
    text_free(&svg);
    text_free(&settings);
}

static void a_comparison_of_another_schema_is_refused(void **state)
{
    (void)state;
    text_buffer out = {0};
    error_message err = {0};

    write_report("{\"schema\":\"x\"}", &out, STATUS_FORMAT, &err);

    assert_string_equal(err.message, "c: schema: is not 'dynmo-simulation/1'");
    text_free(&out);
}

static void strings_reach_gnuplot_in_one_piece(void **state)
{
    (void)state;
    text_buffer out = {0};

    ana_plot_quote(&out, "a\"b\\c'd\n`ls`");
    text_append(&out, " ");
    ana_plot_cell(&out, "a\"b\\c\n`ls`");

    assert_string_equal(out.bytes, "'a\"b\\c''d `ls`' \"a'b\\c `ls`\"");
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
                           "series_count = 1\nlast_iteration = 1\ny_low = 0\ny_title = \"y\"\n"
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
        cmocka_unit_test(nothing_in_a_label_is_markup),
        cmocka_unit_test(without_gnuplot_the_page_says_so),
        cmocka_unit_test(a_comparison_of_another_schema_is_refused),
        cmocka_unit_test(strings_reach_gnuplot_in_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
