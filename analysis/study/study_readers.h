/// Readers of the keys that need more than their type says, and checks of objects whose keys are
/// read. Only for the table in study_keys.c; see ana_study_key for what they take.
#pragma once

#include "analysis/study/study_keys.h"

#define ANA_READER(name)                                                                           \
    status name(const ana_reading *reading, json_value value, const char *path, void *record)

/// A rank that is slow for a while, as the file has it.
typedef struct ana_slow_entry {
    int rank;
    double speed;
    int from;
    int to;
} ana_slow_entry;

/// A link that is slow for a while, as the file has it.
typedef struct ana_link_entry {
    int ranks[2];
    double factor;
    int64_t delay_ns;
    int from;
    int to;
} ana_link_entry;

// Where costs come from.
ANA_READER(ana_refuse_axes);
ANA_READER(ana_read_trace);
ANA_READER(ana_read_model);
ANA_READER(ana_read_hardware);

// Cluster and training.
ANA_READER(ana_check_cluster);
ANA_READER(ana_add_slow_rank);
ANA_READER(ana_check_training);
ANA_READER(ana_read_replicas);
ANA_READER(ana_check_pipeline);
ANA_READER(ana_read_schedule);
ANA_READER(ana_read_replay);

// What disturbs the run, and what changes the model.
ANA_READER(ana_read_between);
ANA_READER(ana_read_split);
ANA_READER(ana_add_disturbed_link);
ANA_READER(ana_read_dynamism);
ANA_READER(ana_read_value); ///< keeps the json_value

// Rows.
ANA_READER(ana_read_repack);
ANA_READER(ana_read_rows);
ANA_READER(ana_read_balancer);
ANA_READER(ana_read_policy);

/// Reads a path; one that is not absolute is meant from the study's folder.
///
/// @param shipped files that can be meant by their names, or NULL: there are none
status ana_read_path(const ana_reading *reading, json_value value, const embedded_file *shipped,
                     const char **path);

/// Lists a value at path, with the origin that "sources" states, else given.
status ana_list_given(const ana_reading *reading, const char *path, const char *value);
