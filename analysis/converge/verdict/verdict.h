/// What holds of what is said about balancing by diffusion, and what does not: claims, each put to
/// a search that the program makes when asked, in a fixed order, so that the first violation is the
/// smallest.
#pragma once

#include "analysis/converge/verdict/layer_instance.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { ANA_VERDICT_CASES_MAX = 4 };

/// What the cases together say.
typedef enum ana_answer {
    ANA_ANSWER_HOLDS,      ///< no case has a violation
    ANA_ANSWER_CONDITIONS, ///< some cases have none: under those conditions it holds
    ANA_ANSWER_FAILS,      ///< every case has one
} ana_answer;

/// One condition under which the claim was tried. Texts are static or from the arena.
typedef struct ana_verdict_case {
    const char *searched;        // what was tried, in words
    int64_t examined;            // how many
    int64_t violation_count;     // how many of them break the claim
    double worst;                // largest measure over all that were tried, violations or not
    const char *first_violation; // the smallest, with its numbers; NULL: none was found
    ana_layer_instance example;  // the same as an instance; layer_count 0: it is none of layers
} ana_verdict_case;

typedef struct ana_verdict {
    const struct ana_claim *claim;
    int case_count;
    ana_verdict_case cases[ANA_VERDICT_CASES_MAX];
} ana_verdict;

typedef struct ana_verdict_options {
    uint64_t seed;
    int run_count;                // of each graph that theorem-r is played on
    const atomic_bool *interrupt; // set: give up; NULL: never
} ana_verdict_options;

/// A claim that is being tried.
typedef struct ana_trying {
    ana_verdict_options options;
    arena *memory;  // of the verdict
    arena *scratch; // empty before every instance
    ana_verdict *verdict;
    ana_verdict_case *tried;  // the case at hand
    ana_assignment_best best; // of the instance at hand, where the claim asks for it
    error_message *err;
} ana_trying;

/// A condition, and how it is tried.
typedef struct ana_case_plan {
    const char *condition;  // "2 stages"
    const char *worst_name; // what is measured, or NULL
    const char *searched;   // NULL: the box in words
    ana_search_box box;     // searched
    /// Measures an instance and says if it breaks the claim; NULL: `also` does.
    status (*test)(ana_trying *at, const ana_layer_instance *instance);
} ana_case_plan;

typedef struct ana_claim {
    const char *name;                           // as --claim spells it
    const char *claim;                          // one sentence
    const char *source;                         // who says so
    const char *reason;                         // why it is so, in a few words
    bool needs_best;                            // ana_trying.best
    ana_case_plan cases[ANA_VERDICT_CASES_MAX]; // ends at condition == NULL
    status (*also)(ana_trying *at);             // tries what is in no box; may be NULL
} ana_claim;

/// The claims in the order in which they are shown; NULL after the last.
const ana_claim *ana_claim_at(int index);

/// Seed 1, 40 runs.
ana_verdict_options ana_verdict_options_default(void);

/// Tries a claim. Arrays of the verdict are from memory.
///
/// @return STATUS_BACKEND "interrupted"
status ana_claim_try(const ana_claim *claim, const ana_verdict_options *options, arena *memory,
                     ana_verdict *verdict, error_message *err);

ana_answer ana_verdict_answer(const ana_verdict *verdict);

/// "holds", "holds under conditions", "fails".
extern const char *const ana_answer_names[];

void ana_verdict_append(const ana_verdict *verdict, text_buffer *out);
void ana_verdict_write(const ana_verdict *verdict, json_writer *writer);

/// Between instances: empties the scratch memory.
///
/// @return STATUS_BACKEND "interrupted"
status ana_trying_next(const ana_trying *at);

/// Counts one that was tried, and keeps the largest measure as the worst.
void ana_case_measure(ana_verdict_case *tried, double value);

/// Counts a violation; of the first it keeps the instance (NULL: none) and the text.
///
/// @param format what was seen, with numbers
void ana_case_violate(ana_trying *at, const ana_layer_instance *instance, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// The claims about whole layers, and that about divisible loads.
enum { ANA_LAYER_CLAIMS = 6 };
extern const ana_claim ana_layer_claims[ANA_LAYER_CLAIMS];
extern const ana_claim ana_pair_claim;
