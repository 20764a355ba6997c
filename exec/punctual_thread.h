/// A thread that wakes when it asked to.
#pragma once

#include <stdbool.h>

/// Has the calling thread woken from sleeps without slack and, if real_time, before all threads
/// that are not SCHED_RR. Does without whatever the system does not allow.
void exec_thread_make_punctual(bool real_time);
