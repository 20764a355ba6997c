/// Which messages of device memory wait for each other.
#pragma once

/// Ways between places of a pipeline, each with a communicator of its own, and on every rank a
/// stream of its own. A message waits on its stream for its receiver, and all that follows it there
/// waits with it. So between neighbours, and between the first and the last place, no rank both
/// sends and receives on a lane, or does so with two others: each edge and direction has a lane to
/// itself, where messages come in the order in which they were sent, and no circle of waits can
/// close whatever the schedule. Messages over ranks without layers share the last two.
typedef enum exec_lane {
    EXEC_LANE_UP_EVEN,   // to the next place, from an even one
    EXEC_LANE_UP_ODD,    // from an odd one
    EXEC_LANE_DOWN_EVEN, // to the one before
    EXEC_LANE_DOWN_ODD,
    EXEC_LANE_WRAP_UP,   // from the last to the first, as forwards of a loop of chunks
    EXEC_LANE_WRAP_DOWN, // from the first to the last
    EXEC_LANE_UP_FAR,    // to another later one
    EXEC_LANE_DOWN_FAR,  // to another earlier one
    EXEC_LANE_COUNT
} exec_lane;

/// The lane of a message between two of place_count places.
static inline exec_lane exec_lane_between(int from, int to, int place_count)
{
    const int distance = to - from;
    if (distance == 1) return from % 2 == 0 ? EXEC_LANE_UP_EVEN : EXEC_LANE_UP_ODD;
    if (distance == -1) return from % 2 == 0 ? EXEC_LANE_DOWN_EVEN : EXEC_LANE_DOWN_ODD;
    if (distance == 1 - place_count) return EXEC_LANE_WRAP_UP;
    if (distance == place_count - 1) return EXEC_LANE_WRAP_DOWN;
    return distance > 0 ? EXEC_LANE_UP_FAR : EXEC_LANE_DOWN_FAR;
}
