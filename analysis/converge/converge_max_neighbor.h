/// The four ways of playing max-neighbor, which come to the same rounds. See
/// converge_max_neighbor.c.
#pragma once

#include "analysis/converge/converge_scheme.h"

/// What one of them has to offer to the scheme; as in ana_scheme.
typedef struct ana_max_neighbor_player {
    status (*prepare)(ana_scheme_run *run, arena *memory, error_message *err);
    void (*begin)(ana_scheme_run *run);
    double (*play)(ana_scheme_run *run);
    void (*settle)(ana_scheme_run *run);
    void (*recall)(const ana_scheme_run *run, double *before);
} ana_max_neighbor_player;

/// Paths and rings, variants Q and P: passes over arrays, O(node_count) per round.
extern const ana_max_neighbor_player ana_max_neighbor_chain;

/// Star and complete graph, variants Q and P: loads in order, O(sqrt(node_count)) per round.
extern const ana_max_neighbor_player ana_max_neighbor_extremes;

/// Tori and hypercubes, variants Q and P: passes over rows, O(links) per round.
extern const ana_max_neighbor_player ana_max_neighbor_rows;

/// Any graph but the complete one, any variant: neighbour by neighbour, O(links) per round.
extern const ana_max_neighbor_player ana_max_neighbor_links;
