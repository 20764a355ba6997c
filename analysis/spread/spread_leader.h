/// The process that hands out items, works itself, and puts results in order.
#pragma once

#include "analysis/spread/spread.h"
#include "analysis/spread/spread_post.h"

/// ana_spread_run of the leader.
///
/// @param post   the way to the others; of one rank where there are none
/// @param keeper NULL: nothing is kept
status ana_lead(ana_post *post, const ana_spread_options *options, const ana_items *items,
                const ana_keeper *keeper, int pass, ana_spread_report *report, error_message *err);
