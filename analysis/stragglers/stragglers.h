/// What `dynmo stragglers` tells of a recorded run, as text and as JSON.
#pragma once

#include "analysis/stragglers/causes.h"
#include "base/text.h"

/// Appends what slowed the run, for people.
void ana_stragglers_print(const ana_op_run *run, const ana_slowdowns *slowdowns,
                          const ana_causes *causes, text_buffer *out);

/// Appends the same as one JSON object on one line.
void ana_stragglers_write(const ana_op_run *run, const ana_slowdowns *slowdowns,
                          const ana_causes *causes, text_buffer *out);
