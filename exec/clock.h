/// What time the ops of an execution are told in.
#pragma once

typedef enum exec_clock {
    EXEC_CLOCK_NOMINAL, ///< deadlines travel with the messages and nobody sleeps: the simulator's
                        ///< recurrence, run by real ranks. It tests order, matching and waits, not
                        ///< timing. Of a device that computes: its measured durations, composed
    EXEC_CLOCK_QUEUE,   ///< an op begins at the deadline of the one before if its input is there
                        ///< when the rank comes to it, as in the queue of a GPU; else when the
                        ///< input comes. Of a device that computes: as real
    EXEC_CLOCK_REAL,    ///< an op begins when the rank comes to it with its input
    EXEC_CLOCK_COUNT
} exec_clock;

/// "nominal", "queue", "real".
extern const char *const exec_clock_names[EXEC_CLOCK_COUNT];
