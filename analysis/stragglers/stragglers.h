/// What `dynmo stragglers` tells of a recorded run: text, JSON, and in pictures one step as it was
/// and as it could have been, and its workers.
#pragma once

#include "analysis/stragglers/causes.h"
#include "base/text.h"

/// Appends what slowed the run, for people.
void ana_stragglers_print(const ana_op_run *run, const ana_slowdowns *slowdowns,
                          const ana_causes *causes, text_buffer *out);

/// Appends the same as one JSON object on one line.
void ana_stragglers_write(const ana_op_run *run, const ana_slowdowns *slowdowns,
                          const ana_causes *causes, text_buffer *out);

/// Appends one step as a Chrome trace that Perfetto opens, up to three timelines below each other:
/// as recorded; ideal; with all named causes mended, if there are any. Rows of every worker: its
/// own ops, collectives, and the messages that it sends and receives.
void ana_straggler_timelines(const ana_op_run *run, const ana_causes *causes, int step,
                             text_buffer *out);

/// Appends a heat map as standalone SVG: the slowdown of every worker, replicas below each other,
/// stages beside each other.
void ana_straggler_heat_map(const ana_op_run *run, const ana_slowdowns *slowdowns,
                            text_buffer *out);

/// The step that stragglers slowed most, as an index.
int ana_slowest_step(const ana_op_run *run, const ana_slowdowns *slowdowns);
