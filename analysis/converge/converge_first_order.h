/// One step of first-order diffusion, which second-order and Chebyshev build on.
#pragma once

#include "analysis/converge/converge_graph.h"

/// What ana_diffusion_step needs of a graph.
typedef struct ana_diffusion {
    const ana_graph *graph;
    ana_graph_links links; // empty for paths and the complete graph, which need none
    double alpha;
} ana_diffusion;

status ana_diffusion_make(const ana_graph *graph, double alpha, arena *memory,
                          ana_diffusion *diffusion, error_message *err);

/// Every edge carries alpha times its difference, all at once.
/// @param load [node_count]
/// @param next [node_count] out; not load
void ana_diffusion_step(const ana_diffusion *diffusion, const double *load, double *next);

/// A parameter that came through libm, with the last digits that differ between systems cut off.
double ana_diffusion_parameter(double value);
