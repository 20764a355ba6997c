/// A recorded run, or the answer of a what-if study, as one HTML page: no scripts, no fonts,
/// nothing to fetch.
#pragma once

#include "analysis/report/recorded.h"
#include "base/embedded.h"
#include "base/status.h"
#include "base/text.h"

typedef struct ana_report {
    const ana_recorded *recorded;
    const ana_timeline *before; // NULL: no picture of timelines
    const ana_timeline *after;  // NULL: only before
} ana_report;

/// The pictures of a report.
typedef enum ana_figure {
    ANA_FIGURE_TIMELINE, ///< one iteration before and after
    ANA_FIGURE_BUBBLE,   ///< bubble_ratio over the iterations
    ANA_FIGURE_PARETO,   ///< every point of a study
    ANA_FIGURE_COUNT
} ana_figure;

/// "timeline", "bubble", "pareto".
extern const char *const ana_figure_names[ANA_FIGURE_COUNT];

/// Appends one picture as standalone SVG; nothing if the report has nothing to draw in it.
///
/// @return STATUS_UNSUPPORTED without gnuplot; STATUS_BACKEND if it fails
status ana_report_figure(const ana_report *report, ana_figure figure, text_buffer *svg,
                         error_message *err);

/// Appends the page: of a study its answer in words, the pictures, what was printed, and where it
/// comes from.
/// Without gnuplot the pictures are left out and the page says so.
///
/// @param out what was appended stays where this fails
/// @return STATUS_BACKEND if gnuplot fails.
status ana_report_write(const ana_report *report, text_buffer *out, error_message *err);

// Parts of a page, of any answer.

void ana_page_begin(const char *title, text_buffer *out);

/// A picture with what stands below it.
void ana_page_figure(const char *svg, const char *caption, text_buffer *out);

/// What was printed.
void ana_page_words(const char *words, text_buffer *out);

void ana_page_end(text_buffer *out);

// Pictures through gnuplot: a script in, an SVG out.

/// The scripts of analysis/plots by name: "load", "series", "throughput", "timeline". Each
/// says at its head what must be set before it.
extern const embedded_file ana_plot_scripts[];

/// Runs gnuplot on settings followed by the script of a name.
///
/// @param settings gnuplot commands and data blocks that the script asks for
/// @param svg      the <svg> element is appended, without the XML prolog, ready for HTML
/// @return STATUS_UNSUPPORTED if there is no gnuplot on PATH; STATUS_BACKEND with gnuplot's words
///         if it fails; STATUS_IO. svg is then untouched.
status ana_plot(const char *script, const text_buffer *settings, text_buffer *svg,
                error_message *err);

/// Appends a string for a gnuplot command, in single quotes: between double quotes gnuplot would
/// run what stands in backquotes. Control characters become blanks.
void ana_plot_quote(text_buffer *out, const char *text);
