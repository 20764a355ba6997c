/// Every key of a study file, declared once: where it stands, what it may be, where it is kept, and
/// what stands for it where it is not given. Reading, refusing, `vary`, the listing of inputs, the
/// help and what `dynmo run` refuses all come from this table.
#pragma once

#include "analysis/study/study.h"
#include "base/embedded.h"
#include "base/json.h"
#include "base/text.h"

#include <stddef.h>

/// A study while its file is read.
typedef struct ana_reading {
    ana_study *study;
    arena *memory;
    json_value sources; // "sources" of the study: path -> origin
    error_message *err;
} ana_reading;

/// What a value is and how it is kept.
typedef enum ana_key_type {
    ANA_KEY_OBJECT,  ///< its keys have paths below its own
    ANA_KEY_RECORDS, ///< an array of objects
    ANA_KEY_INT,     ///< int
    ANA_KEY_INT64,
    ANA_KEY_DOUBLE,
    ANA_KEY_BOOL,
    ANA_KEY_SEED,   ///< uint64_t
    ANA_KEY_CHOICE, ///< one of names[min..max], kept as its index in an enum
    ANA_KEY_SWITCH, ///< one of two names, kept as bool
    ANA_KEY_NAME,   ///< one of names[min..max], kept as const char *
    ANA_KEY_WORDS,  ///< a name for people, const char *
    ANA_KEY_PATH,   ///< of a file, from the study's folder, or the name of a shipped one; const
                    ///< char *, among the inputs of no result
    ANA_KEY_OWN,    ///< whatever `read` reads
    ANA_KEY_KNOWN   ///< read by somebody else, or at another time
} ana_key_type;

enum {
    ANA_KEY_NEEDED = 1 << 0,
    ANA_KEY_ALWAYS = 1 << 9,       ///< read also where it is missing
    ANA_KEY_FIXED = 1 << 1,        ///< no axis of `dynmo study` may name it
    ANA_KEY_UNLISTED = 1 << 2,     ///< not among the inputs of a result
    ANA_KEY_WITH_SECTION = 1 << 3, ///< the default holds where the object around it is given
    ANA_KEY_RANK = 1 << 4,         ///< below pipeline.stages
    ANA_KEY_RANKS = 1 << 5,        ///< at most pipeline.stages
    ANA_KEY_OF_MODEL = 1 << 10,    ///< the times of a trace do not depend on it
    ANA_KEY_OF_TRACED = 1 << 11,   ///< but the parts of a layer do, which trace.model tells
    ANA_KEY_LATE = 1 << 8,         ///< read by ana_read_late_key, not with its object

    // Players that do not do what the key says; a study that gives it other than its default is
    // refused there.
    ANA_KEY_SIMULATED = 1 << 6,  ///< no `dynmo run`
    ANA_KEY_NOT_LEARNT = 1 << 7, ///< no `dynmo run` on a device that trains (cpu, cuda)
};

typedef struct ana_study_key {
    const char *path; // keys of a row of `balancing` are at "balancing.policy", those of its repack
                      // at "repack.kind"
    ana_key_type type;
    const char *help; // one line
    const char *unit; // of a number; NULL: none
    double min;
    double max;
    double fallback; // the default; outside of [min, max]: "not given", something else decides
    size_t offset;   // in the study, or in the record that path is part of
    const char *const *names;
    const char *text;             // the default of a text; NULL: none
    const embedded_file *shipped; // of a path; NULL: none

    /// ANA_KEY_OWN: reads the value, record being
    /// the place at offset. Such a key with limits has a default, an int.
    /// Else: checks the object, or one of the records, once its keys are read.
    ///
    /// @param path   as messages and inputs have it: "balancing[2].policy"
    status (*read)(const ana_reading *reading, json_value value, const char *path, void *record);
    unsigned flags;
} ana_study_key;

/// The table, in the order in which values are read and listed.
const ana_study_key *ana_study_keys(int *count);

/// NULL: no key has this path.
const ana_study_key *ana_study_key_find(const char *path);

/// Puts the default of every key into a study, or a record: of all keys below section ("": of the
/// study) but those that hold with their section only.
void ana_study_keys_init(const char *section, void *record);

/// Reads an object: refuses keys that are not below section in the table, and reads the others in
/// the table's order.
///
/// @param path of the object, for messages and inputs
/// @return STATUS_FORMAT naming the key, with the nearest known one, or its limits
status ana_read_keys(const ana_reading *reading, json_value object, const char *section,
                     const char *path, void *record);

/// Reads a key that its object has left.
status ana_read_late_key(const ana_reading *reading, json_value value, const char *path);

/// Adds the value that the study has for a key to its inputs as assumed, unless it was given.
///
/// @param path lives as long as the study
void ana_study_list_default(ana_study *study, const char *path);

/// Whether an axis may name path: it is a value of a study, an object around some of them, or
/// something below `dynamism` or `model`.
///
/// @return STATUS_FORMAT naming the nearest path
status ana_study_path_check(const char *path, error_message *err);

/// Refuses keys that only costs of a model depend on, in a study of a trace.
status ana_study_check_costs(const ana_study *study, error_message *err);

/// Refuses a study that says what a player does not do.
///
/// @param flags ANA_KEY_SIMULATED, or with ANA_KEY_NOT_LEARNT on a device that trains
/// @return STATUS_UNSUPPORTED naming the key
status ana_study_check_player(const ana_study *study, unsigned flags, error_message *err);

/// Appends the table for people: path, what it may be, default, help.
void ana_study_keys_print(text_buffer *out);

// Readers of the keys that need more than their type says, and checks of objects whose keys are
// read (study_readers.c, study_rows.c); see ana_study_key for what they take.

#define ANA_UNUSED __attribute__((unused)) // by some of them
#define ANA_READER(name)                                                                           \
    status name(const ana_reading *reading, ANA_UNUSED json_value value,                           \
                ANA_UNUSED const char *path, ANA_UNUSED void *record)

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
