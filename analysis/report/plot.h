/// Pictures through gnuplot: a script in, an SVG out.
#pragma once

#include "base/embedded.h"
#include "base/status.h"
#include "base/text.h"

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
