/// What second-order diffusion and Chebyshev share: next = weight * (first-order step) +
/// (1 - weight) * loads of the round before.
#pragma once

#include "analysis/converge/converge_first_order.h"
#include "analysis/converge/converge_scheme.h"

typedef struct ana_three_term {
    ana_diffusion diffusion;
    double contraction; // of the first-order step
    double weight;      // of the last round; 0 before the first
    double *previous;   // [node_count] loads before the last round
    double *next;       // [node_count]
} ana_three_term;

/// @return STATUS_INVALID on the graph `dynamic`: the weights come from the spectrum of one graph
status ana_three_term_check(const ana_graph *graph, const ana_scheme_options *options,
                            error_message *err);
status ana_three_term_prepare(ana_scheme_run *run, arena *memory, error_message *err);
void ana_three_term_begin(ana_scheme_run *run);
void ana_three_term_play(ana_scheme_run *run, double weight);
