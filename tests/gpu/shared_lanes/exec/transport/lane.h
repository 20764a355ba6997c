/// In place of the transport's lanes: one for each direction, shared by what a rank sends and what
/// it receives. Orders in a V stand still on them.
#pragma once

typedef enum exec_lane {
    EXEC_LANE_UP_EVEN,
    EXEC_LANE_DOWN_EVEN,
    EXEC_LANE_COUNT,
    EXEC_LANE_UP_FAR,
    EXEC_LANE_DOWN_FAR
} exec_lane;

static inline exec_lane exec_lane_between(int from, int to, int place_count)
{
    (void)place_count;
    return to > from ? EXEC_LANE_UP_EVEN : EXEC_LANE_DOWN_EVEN;
}
