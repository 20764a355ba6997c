/// Max-neighbor on paths and rings as passes over arrays without branches, which compilers make
/// wide: about ten times faster there than the definition in scheme_max_neighbor.c.
#pragma once

#include "analysis/converge/converge_scheme.h"

/// Whether the passes play this: variants Q and P on path, dynamic and ring.
bool ana_chain_plays(const ana_graph *graph, const ana_scheme_options *options);

/// As ana_scheme.prepare and ana_scheme.play.
status ana_chain_prepare(ana_scheme_run *run, arena *memory);
double ana_chain_play(ana_scheme_run *run);
