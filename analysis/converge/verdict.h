/// What holds of what is said about balancing by diffusion, and what does not: claims, each put to
/// a search that the program makes when asked, in a fixed order, so that the first violation is the
/// smallest.
#pragma once

#include "analysis/converge/instance_search.h"
#include "analysis/converge/layer_instance.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// What the cases together say.
typedef enum ana_answer {
    ANA_ANSWER_HOLDS,      ///< no case has a violation
    ANA_ANSWER_CONDITIONS, ///< some cases have none: under those conditions it holds
    ANA_ANSWER_FAILS,      ///< every case has one
} ana_answer;

/// One condition under which the claim was tried. Texts are static or from the arena.
typedef struct ana_verdict_case {
    const char *condition;       // "2 stages"
    const char *searched;        // what was tried, in words
    int64_t examined;            // how many
    int64_t violation_count;     // how many of them break the claim
    const char *worst_name;      // what worst is, or NULL
    double worst;                // over all that were tried, violations or not
    const char *first_violation; // the smallest, with its numbers; NULL: none was found
    ana_layer_instance example;  // the same as an instance; layer_count 0: it is none of layers
} ana_verdict_case;

enum { ANA_GROWTH_COLUMNS_MAX = 6, ANA_VERDICT_CASES_MAX = 6 };

/// How a family of instances behaves as it grows. Every number is measured on the instance.
typedef struct ana_growth {
    const char *family;                         // what its instances are; NULL: there is none
    const char *column[ANA_GROWTH_COLUMNS_MAX]; // the first is the size
    int column_count;
    int row_count;
    double *value; // [row_count][column_count]
} ana_growth;

typedef struct ana_verdict {
    const char *name;   // as --claim spells it
    const char *claim;  // one sentence
    const char *source; // who says so
    const char *reason; // why it is so, in a few words
    int case_count;
    ana_verdict_case cases[ANA_VERDICT_CASES_MAX];
    ana_growth growth;
} ana_verdict;

typedef struct ana_verdict_options {
    uint64_t seed;
    int instance_count; // random instances per case that draws them
} ana_verdict_options;

ana_verdict_options ana_verdict_options_default(void);

/// A claim that can be tried.
typedef struct ana_claim {
    const char *name;
    /// @param scratch reset as often as the claim likes
    status (*try)(const ana_verdict_options *options, arena *memory, arena *scratch,
                  ana_verdict *verdict, error_message *err);
} ana_claim;

/// The table, in the order in which it is shown.
const ana_claim *ana_claims(int *count);

/// Tries a claim. Arrays of the verdict are from memory.
///
/// @return STATUS_NO_MEMORY
status ana_claim_try(const ana_claim *claim, const ana_verdict_options *options, arena *memory,
                     ana_verdict *verdict, error_message *err);

ana_answer ana_verdict_answer(const ana_verdict *verdict);

/// "holds", "holds under conditions", "fails".
const char *ana_answer_name(ana_answer answer);

void ana_verdict_append(const ana_verdict *verdict, text_buffer *out);
void ana_verdict_write(const ana_verdict *verdict, json_writer *writer);

/// Steps of a claim's search, for the files that hold claims. The first keeps the largest value
/// as the worst.
void ana_case_measure(ana_verdict_case *tried, double value);

/// Counts a violation; of the first it keeps the instance (NULL: none) and the text.
///
/// @param format what was seen, with numbers
/// @return STATUS_NO_MEMORY
status ana_case_violate(ana_verdict_case *tried, const ana_layer_instance *instance, arena *memory,
                        error_message *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/// Fills searched from a box. @return STATUS_NO_MEMORY
void ana_case_searched(ana_verdict_case *tried, const ana_search_box *box, arena *memory);

/// Makes room for the rows of a growth whose columns are set. @return STATUS_NO_MEMORY
void ana_growth_init(ana_growth *growth, int row_count, arena *memory);

/// Largest minus smallest of load[count], count >= 1.
int64_t ana_verdict_spread(const int64_t *load, int count);

/// The claims: verdict_<what>.c has those about one thing. All return STATUS_NO_MEMORY.
status ana_try_range(const ana_verdict_options *options, arena *memory, arena *scratch,
                     ana_verdict *verdict, error_message *err);
status ana_try_potential(const ana_verdict_options *options, arena *memory, arena *scratch,
                         ana_verdict *verdict, error_message *err);
status ana_try_rounds(const ana_verdict_options *options, arena *memory, arena *scratch,
                      ana_verdict *verdict, error_message *err);
status ana_try_termination(const ana_verdict_options *options, arena *memory, arena *scratch,
                           ana_verdict *verdict, error_message *err);
status ana_try_guarantee(const ana_verdict_options *options, arena *memory, arena *scratch,
                         ana_verdict *verdict, error_message *err);
status ana_try_released(const ana_verdict_options *options, arena *memory, arena *scratch,
                        ana_verdict *verdict, error_message *err);
status ana_try_cut_diffusion(const ana_verdict_options *options, arena *memory, arena *scratch,
                             ana_verdict *verdict, error_message *err);
status ana_try_averaging(const ana_verdict_options *options, arena *memory, arena *scratch,
                         ana_verdict *verdict, error_message *err);
status ana_try_fold(const ana_verdict_options *options, arena *memory, arena *scratch,
                    ana_verdict *verdict, error_message *err);
status ana_try_tokens(const ana_verdict_options *options, arena *memory, arena *scratch,
                      ana_verdict *verdict, error_message *err);
