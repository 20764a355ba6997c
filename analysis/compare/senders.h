/// Who sent what an op waits for.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/arena.h"

/// @return [op_count] the op of another rank whose end lets the message leave that the op waits for
///         (of an overlapped pair the second); -1: it waits for none
const int *ana_senders(const bal_schedule *schedule, arena *memory);
