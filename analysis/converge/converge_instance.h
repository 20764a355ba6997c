/// One run of a scheme from its initial loads to gamma, and what was seen on the way.
#pragma once

#include "analysis/converge/converge_graph.h"
#include "analysis/converge/converge_scheme.h"

#include <stdatomic.h>

typedef struct ana_instance_question {
    ana_initial initial;
    ana_stop stop;
    double gamma;
    uint64_t seed;
    const atomic_bool *interrupt; // set: give up; NULL: never
} ana_instance_question;

/// Plain numbers: it travels as bytes.
typedef struct ana_instance {
    int64_t round_count;      // the first round after which the stop holds; 0: from the start
    int64_t good_round_count; // drop of the potential >= spread * ana_good_round_share
    double potential_first;
} ana_instance;

/// A scheme at work, with what its instances need; one per thread.
typedef struct ana_player {
    ana_scheme_run run;
    double *load; // [node_count] at the start
    double *sort; // [node_count]
} ana_player;

/// @return as ana_scheme_open
status ana_player_open(const ana_scheme *scheme, const ana_graph *graph, arena *memory,
                       ana_player *player, error_message *err);

/// Plays instance number `instance` of a seed: its coins and, with ANA_INITIAL_RANDOM, its loads
/// depend on these two alone.
///
/// @return STATUS_BACKEND "interrupted"; STATUS_INFEASIBLE if gamma is not reached in
///         400 N^2 (ln(potential / gamma) + 40) rounds, many times what any scheme here takes where
///         doubles can tell loads apart
status ana_instance_play(ana_player *player, const ana_instance_question *question,
                         int64_t instance, ana_instance *result, error_message *err);
