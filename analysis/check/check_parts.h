/// The steps of a check, for check.c and their tests.
#pragma once

#include "analysis/check/check.h"
#include "balance/schedule/schedule.h"

/// Adds a line, as long as there is room.
void ana_check_say(ana_check_lines *lines, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// How many iterations to drop: as long as the median of the next five is above that of the rest by
/// more than three of its median absolute deviations and by a hundredth; at most 10, or a tenth.
///
/// @param values [count] changes, or lengths, by iteration
/// @return 0 where five more would not leave ten
int ana_check_warmup_of(const double *values, int count, arena *scratch);

/// An op that is shorter than this part of its microbatch's share of the iteration is compared on
/// that scale, a rank's work likewise, and does not count among causes.
enum { ANA_CHECK_SCALE_PART = 20 };

/// Adds the numbers: ops, messages, time outside, busy, idle, iteration, memory, with verdicts.
///
/// @return STATUS_INVALID if the warm-up leaves no iteration
status ana_check_add_numbers(ana_check *check, arena *memory, error_message *err);

/// Into how many parts the scale of ops divides an iteration: its microbatches, of traces by layer
/// each of their layers.
double ana_check_share_count(const ana_observed *plan);

/// Whether both iterations of a pair are samples.
bool ana_check_is_sampled(const ana_check *check, const ana_check_pair *pair);

/// Decides about one quantity.
///
/// @param changes   [count] in the order of iterations
/// @param iteration [count] numbers
/// @param alpha     how often it may be said to depart wrongly
void ana_check_decide(const ana_check *check, const double *changes, const int *iteration,
                      int count, double alpha, arena *scratch, ana_check_quantity *quantity);

/// The first of the values from which on more are beyond the tolerance than are not; -1: none.
int ana_check_since(const double *changes, int count, double tolerance);

/// Finds the most likely cause of what departs.
void ana_check_find_cause(ana_check *check);

/// A relative change in words: "+12.3 %".
text_words ana_check_percent(double change);
