/// Ranks that are threads of this process, with letters in memory, some of whom fall silent: what
/// several processes do, without a launcher and without chance.
#pragma once

#include "analysis/spread/spread_carrier.h"

enum { THREAD_RANKS_MAX = 8 };

typedef struct thread_world thread_world;

/// @param rank_count <= THREAD_RANKS_MAX
thread_world *thread_world_create(int rank_count);
void thread_world_destroy(thread_world *world);

/// The carrier of a rank; ana_spread_close closes it.
ana_carrier *thread_world_carrier(thread_world *world, int rank);

/// From now on nothing comes from this rank any more: it has died, or hangs. @param is_seen others
/// know at once that it is gone
void thread_world_cut(thread_world *world, int rank, bool is_seen);

/// What this rank has sent since it was cut arrives after all.
void thread_world_restore(thread_world *world, int rank);

/// Whether the leader has ended this rank.
bool thread_world_was_ended(thread_world *world, int rank);
