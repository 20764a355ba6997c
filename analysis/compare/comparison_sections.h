/// What the table of a comparison cannot show: each section is left out where nothing of it
/// happened. Only for comparison_*.c.
#pragma once

#include "analysis/compare/comparison.h"

/// "Spread of iterations": how long they are, where something disturbs them, and steps that were
/// taken back.
void ana_print_spread(const ana_comparison *comparison, int label_width, text_buffer *out);

/// "Decisions": how many, why, after which iterations, at what cost.
void ana_print_decisions(const ana_comparison *comparison, int label_width, text_buffer *out);

/// "Knowing ahead": the same policy with a forecast and with perfect foresight.
void ana_print_knowing_ahead(const ana_comparison *comparison, int label_width, text_buffer *out);

/// "GPUs": how many are in use, and what the others are released as.
void ana_print_gpus(const ana_comparison *comparison, int label_width, text_buffer *out);

/// "Where the speed-up comes from": the factors of each dynamic row.
void ana_print_factors(const ana_comparison *comparison, int label_width, text_buffer *out);
