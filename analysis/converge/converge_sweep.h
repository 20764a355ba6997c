/// Many instances at several numbers of nodes or several gammas, spread over threads and ranks.
#pragma once

#include "analysis/converge/converge_instance.h"
#include "analysis/spread/spread.h"

enum { ANA_SWEEP_POINTS_MAX = 64, ANA_INSTANCES_MAX = 1000000 };

/// The question. Points are all pairs of nodes and gamma, gamma fastest.
typedef struct ana_sweep {
    const ana_scheme *scheme;
    ana_graph_kind graph;
    ana_scheme_options options;
    ana_instance_question instance; // gamma: that of the point
    const int *nodes;               // [nodes_count]
    int nodes_count;
    const double *gammas; // [gamma_count]
    int gamma_count;
    int instance_count; // per point, >= 1
    double delta;       // of the repaired bound
} ana_sweep;

typedef struct ana_sweep_point {
    ana_graph graph;
    double gamma;
    ana_instance *instances; // [instance_count]
} ana_sweep_point;

int ana_sweep_point_count(const ana_sweep *sweep);

/// The smallest gamma at which doubles can tell that loads of about 1 are not even yet.
double ana_sweep_gamma_min(ana_stop stop, int node_count);

/// Whether all instances of a point are the same: neither coins nor loads are thrown. One is
/// played.
bool ana_sweep_is_certain(const ana_sweep *sweep);

/// Checks the question: graph, scheme, gammas.
///
/// @param points [ana_sweep_point_count] out: graph and gamma, instances carved and empty
/// @return STATUS_INVALID, STATUS_UNSUPPORTED naming what does not go together
status ana_sweep_prepare(const ana_sweep *sweep, arena *memory, ana_sweep_point *points,
                         error_message *err);

/// Plays all instances. Collective; the leader's points are filled.
///
/// @param report may be NULL
/// @return as ana_instance_play and ana_spread_run
status ana_sweep_play(const ana_sweep *sweep, ana_spread *spread, ana_sweep_point *points,
                      ana_spread_report *report, error_message *err);

/// Plays the first instance of a point once more, with a trail. @return as ana_instance_play
status ana_sweep_trail(const ana_sweep *sweep, const ana_sweep_point *point, ana_trail *trail,
                       error_message *err);

/// What the instances of a point say together.
typedef struct ana_point_summary {
    int64_t rounds_median; // nearest rank, as all quantiles here
    int64_t rounds_p95;
    int64_t rounds_min;
    int64_t rounds_max;
    double rounds_mean;
    double rounds_low; // interval that holds the mean with 95 % (Student's t); NaN of certain ones
    double rounds_high;
    double potential_first;       // the largest
    double constant;              // median of rounds / (N^2 ln(potential / gamma)); NaN: at gamma
    double good_round_ratio;      // of all rounds; NaN without any, like the next three
    double good_round_ratio_min;  // of the instance with the fewest
    double sixteenth_round_ratio; // rounds whose drop is at least spread / 16
    double mean_drop_ratio;       // 1 - (last / first potential)^(1 / rounds), mean
    double smallest_drop_share;
    int64_t good_rounds_max;
    int64_t drop_check_count;
    int64_t drop_violation_count;
    int64_t bound_paper;
    int64_t bound_repaired;       // from the largest potential
    double within_repaired_ratio; // instances that keep the bound of their own potential
    double rounds_spectral;       // NaN: the spectrum says nothing about this scheme
} ana_point_summary;

/// @param scratch [2 * instance_count]
ana_point_summary ana_point_summarise(const ana_sweep *sweep, const ana_sweep_point *point,
                                      double *scratch);
