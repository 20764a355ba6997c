#include "exec/clock.h"

const char *const exec_clock_names[EXEC_CLOCK_COUNT] = {"nominal", "queue", "real"};
