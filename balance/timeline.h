/// What ran when: what a player returns, whether it simulated or executed.
#pragma once

#include "balance/schedule/schedule.h"

#include <stdint.h>

/// Times count from the begin of the iteration. The arrays belong to whoever made the timeline.
typedef struct bal_timeline {
    const bal_schedule *schedule;
    int64_t *begin_ns; // [op_count] parallel to schedule->ops
    int64_t *end_ns;   // [op_count]
} bal_timeline;
