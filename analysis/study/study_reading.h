/// What the files that read a study share: its sections, a file each, and values that are listed
/// among the study's inputs as they are read. Only for study*.c.
#pragma once

#include "analysis/study/study.h"
#include "base/embedded.h"

#include <stdint.h>

#define ANA_COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

enum { ANA_ITERATIONS_MAX = 100000000 };

/// A study while its file is read.
typedef struct ana_reading {
    ana_study *study;
    arena *memory;
    json_value sources; // "sources" of the study: path -> origin
    error_message *err;
} ana_reading;

/// Lists what was read at "section.key", with the origin that "sources" states, else given.
status ana_list_given(const ana_reading *reading, const char *section, const char *key,
                      const char *value);

/// Reads a member if it is there, and lists it: "section.key", with its unit and the origin that
/// "sources" states, else given.
///
/// @return STATUS_FORMAT naming the key and its limits; value is then untouched
status ana_read_int64(const ana_reading *reading, json_value object, const char *section,
                      const char *key, const char *unit, int64_t min, int64_t max, int64_t *value);
status ana_read_int(const ana_reading *reading, json_value object, const char *section,
                    const char *key, const char *unit, int min, int max, int *value);

status ana_read_double(const ana_reading *reading, json_value object, const char *section,
                       const char *key, double min, double max, double *value);
status ana_read_bool(const ana_reading *reading, json_value object, const char *section,
                     const char *key, bool *value);

/// Reads one of several names in the same way.
///
/// @param names  [name_count]
/// @param choice out: its index; untouched if the member is missing
/// @return STATUS_FORMAT naming the text and all names
status ana_read_choice(const ana_reading *reading, json_value object, const char *section,
                       const char *key, const char *const *names, int name_count, int *choice);

/// Reads a path; one that is not absolute is meant from the study's folder.
///
/// @param shipped files that can be meant by their names, or NULL: there are none
status ana_read_path(const ana_reading *reading, json_value value, const embedded_file *shipped,
                     const char **path);

/// Reads a file that is named, or an object {"base": file, ...} with other values at some of the
/// file's places, which are listed under section.
///
/// @param changes out: as json_change takes them; NULL: none
status ana_read_based_file(const ana_reading *reading, json_value value, const char *section,
                           const embedded_file *shipped, const char **path, const char **changes);

/// Reads a day, "2026-11-22", if it is there, and lists it.
status ana_read_date(const ana_reading *reading, json_value object, const char *section,
                     const char *key, const char **date);

/// Reads a name for people, if it is there: it stands in tables, in the store and in pictures.
status ana_read_words(const ana_reading *reading, json_value value, const char **words);

/// Reads a seed, if it is there.
status ana_read_seed(const ana_reading *reading, json_value object, const char *section,
                     uint64_t *seed);

// The sections. Each may be missing.
status ana_read_cluster(const ana_reading *reading, json_value cluster);
status ana_read_training(const ana_reading *reading, json_value training);
status ana_read_pipeline(const ana_reading *reading, json_value pipeline);
status ana_read_balancings(const ana_reading *reading, json_value root);

/// Reads how to re-pack into repack, which holds what stands for keys that are missing.
///
/// @param section "repack" or that of a row: "balancing[2].repack"
status ana_read_repack(const ana_reading *reading, json_value object, const char *section,
                       ana_repack *repack);

/// training.step: a name, or an object with a kind.
status ana_read_step(const ana_reading *reading, json_value training);

/// What disturbs the run: behind the pipeline, which says which ranks there are.
status ana_read_disturbance(const ana_reading *reading, json_value disturbance);

/// The slow ranks of the cluster: behind the pipeline, which says which ranks there are.
status ana_read_slow_ranks(const ana_reading *reading, json_value cluster);
