/// Many instances at several numbers of nodes or several gammas.
#pragma once

#include "analysis/converge/converge_instance.h"
#include "analysis/shards/spread.h"

enum { ANA_SWEEP_POINTS_MAX = 64, ANA_INSTANCES_MAX = 1000000 };

/// The question. Points are all pairs of nodes and gamma, gamma fastest.
typedef struct ana_sweep {
    const ana_scheme *scheme;
    ana_graph_kind graph;
    ana_instance_question instance; // gamma: that of the point
    int nodes[ANA_SWEEP_POINTS_MAX];
    int nodes_count;
    double gammas[ANA_SWEEP_POINTS_MAX];
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

/// Whether all instances of a point are the same: neither coins nor loads are thrown. One is
/// played.
bool ana_sweep_is_certain(const ana_sweep *sweep);

/// Checks the question: graph, scheme, gammas.
///
/// @param points [ana_sweep_point_count] out: graph and gamma, instances from memory and empty
/// @return STATUS_INVALID, STATUS_UNSUPPORTED naming what does not go together
status ana_sweep_prepare(const ana_sweep *sweep, arena *memory, ana_sweep_point *points,
                         error_message *err);

/// Plays all instances, or those of a shard.
///
/// @return as ana_instance_play and ana_spread_run
status ana_sweep_play(const ana_sweep *sweep, ana_spread *spread, ana_sweep_point *points,
                      ana_spread_report *report, error_message *err);
