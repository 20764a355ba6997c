/// A process that does the items which the leader gives it.
#pragma once

#include "analysis/spread/spread.h"
#include "analysis/spread/spread_post.h"

/// ana_spread_run of every rank but the leader.
status ana_follow(ana_post *post, const ana_spread_options *options, const ana_items *items,
                  error_message *err);
