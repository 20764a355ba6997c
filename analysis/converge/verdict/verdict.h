/// What holds of what is said about balancing by diffusion, and what does not: claims, each put to
/// a search that the program makes when asked, in a fixed order, so that the first violation is the
/// smallest.
#pragma once

#include "balance/partition/balancer.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// A balancing question small enough to print: layers and where they start; a walk over all of them
// in a fixed order, so that the first one with a property is the smallest; and, by trying all, the
// best that any plan or assignment makes of one.
//
// The order: fewer stages, then fewer layers, then a smaller largest weight, then weights in
// dictionary order, then the start in dictionary order.

/// Arrays are borrowed; whoever fills the struct says for how long.
typedef struct ana_layer_instance {
    int layer_count;
    int stage_count;
    const int64_t *weight;  // [layer_count] time of a layer, in any unit
    const int *first_layer; // [stage_count + 1] where the layers start; stages may be empty
} ana_layer_instance;

/// Sum over unordered pairs of ranks of the difference of their loads: the potential of the
/// DynMo paper's Lemma 2. Exact below 2^53.
///
/// @param load [count], sorted ascending by the call
double ana_phi(int64_t *load, int count);

/// The question as the balancers take it. Borrows what the instance borrows.
bal_problem ana_instance_problem(const ana_layer_instance *instance);

/// Loads of the stages where the layers start. @param load [stage_count] out
void ana_instance_loads(const ana_layer_instance *instance, int64_t *load);

/// Runs a balancer, by name, from the start of the instance. The bottleneck is the largest load.
///
/// @return as bal_balance
status ana_instance_balance(const char *balancer, const ana_layer_instance *instance, arena *memory,
                            bal_answer *answer, error_message *err);

/// A copy whose arrays are from memory.
ana_layer_instance ana_instance_copy(const ana_layer_instance *instance, arena *memory);

/// "[3 3 | 1 1 1 | 1 1 1]"; runs of equal layers are shortened to "1 x 64" where the whole would
/// not fit a line.
void ana_instance_append(const ana_layer_instance *instance, text_buffer *out);

/// An object with stages, weights and first_layer.
void ana_instance_write(const ana_layer_instance *instance, json_writer *writer);

enum { ANA_SEARCH_LAYERS_MAX = 12, ANA_SEARCH_STAGES_MAX = 8 };

/// The best over all assignments of layers to ranks, contiguous or not.
typedef struct ana_assignment_best {
    double phi;      // smallest potential
    int64_t largest; // smallest largest load
} ana_assignment_best;

/// Time O(stage_count^layer_count): at most ANA_SEARCH_LAYERS_MAX layers on ANA_SEARCH_STAGES_MAX
/// stages (asserted).
ana_assignment_best ana_instance_best(const ana_layer_instance *instance);

/// All contiguous plans of an instance at a glance, none with an empty stage: those with the
/// smallest difference of the largest and the smallest stage load, and those with the smallest
/// largest load, which the DynMo paper's Lemma 1 takes for one.
typedef struct ana_range_plans {
    int64_t range;          // smallest (largest - smallest load)
    int64_t range_load_min; // smallest "largest load" of the plans with that range
    int64_t optimum;        // smallest largest load of any plan
    int64_t optimum_range;  // largest range of a plan with that largest load
} ana_range_plans;

/// Tries every plan of at most ANA_SEARCH_STAGES_MAX stages, and no fewer layers (asserted).
///
/// @param first [stage_count + 1] out: the first plan, in dictionary order, with range and
///              range_load_min
ana_range_plans ana_range_enumerate(const ana_layer_instance *instance, int *first);

/// The box that is searched. All limits are included.
typedef struct ana_search_box {
    int stage_min;
    int stage_max;
    int layer_min;
    int layer_max;
    int weight_min;
    int weight_max;
    bool has_starts; // every contiguous start, stages may be empty; false: one start, even
} ana_search_box;

/// Plain state in the caller's memory; instance borrows from it.
typedef struct ana_search {
    ana_search_box box;
    ana_layer_instance instance;
    bool is_new; // layers or stages differ from the instance before: not only the start
    bool has_begun;
    int weight_top; // the largest weight of the layers
    int64_t weight[ANA_SEARCH_LAYERS_MAX];
    int first_layer[ANA_SEARCH_STAGES_MAX + 1];
} ana_search;

/// The box must be within the limits above, and not empty (asserted).
void ana_search_begin(ana_search *search, const ana_search_box *box);

/// Shows the next instance; false after the last.
bool ana_search_next(ana_search *search);

/// What was searched, in words: "2 to 4 stages, 1 to 6 layers of weight 1 to 4, every start".
const char *ana_search_words(const ana_search_box *box, arena *memory);

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
