/// What a point of a study does to learning, beside the study as written.
#pragma once

#include "analysis/study/setup.h"
#include "base/status.h"

#include <stdint.h>

typedef enum ana_learning {
    ANA_LEARNING_IDENTICAL, ///< every bit of what is learnt is the same: only where layers are and
                            ///< when ops run differs
    ANA_LEARNING_ROUNDING,  ///< the same batch and model, but sums are formed in another order
    ANA_LEARNING_DIFFERENT, ///< another training: batch, sequences, tokens, dtype, model, data
    ANA_LEARNING_COUNT
} ana_learning;

/// "bit-identical", "other rounding", "other training".
extern const char *const ana_learning_names[ANA_LEARNING_COUNT];

/// What decides it, as two hashes of the settings that are in force. Runs of equal training can be
/// ranked against each other.
typedef struct ana_learning_settings {
    uint64_t training; // model, trace, case of dynamism without its draws, sequence length, dtype,
                       // sequences of a global batch, tokens
    uint64_t
        rounding; // into what parts the batch and the matrices are divided, and the kind of GPU
} ana_learning_settings;

/// Balancer, policy, stages, chunks, schedule, links, memory, recomputation and re-packing that
/// releases or lends ranks are in neither: `dynmo run` shows that they change no bit. What
/// re-packed GPUs do as further replicas or with other microbatches is rounding. Kinds of GPU are
/// told apart by the name of the hardware file.
///
/// @param row of the setup's study that is played
/// @return STATUS_NO_MEMORY
status ana_learning_settings_of(const ana_setup *setup, const ana_balancing *row,
                                ana_learning_settings *settings, error_message *err);

ana_learning ana_learning_beside(const ana_learning_settings *reference,
                                 const ana_learning_settings *point);
