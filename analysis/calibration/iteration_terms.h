/// What an iteration's time is made of: quantities that a run's shape fixes, each times a
/// coefficient (README.md has their derivation and sources).
#pragma once

#include "analysis/calibration/measured_runs.h"

#include <stdint.h>

/// Terms. Coefficients of the first ANA_TERM_COUNT are fitted and never negative. Runs without a
/// pipeline say nothing about the assumed ones after them: a range is assumed, and measured
/// pipelines, where the fit has some, correct it.
typedef enum ana_term {
    ANA_TERM_LAYER,           ///< layers passed, one microbatch each: launches and what is fixed
    ANA_TERM_PRODUCTS,        ///< TFLOP of the layers' matrix products on one GPU
    ANA_TERM_ATTENTION,       ///< TFLOP of queries times keys, and of scores times values
    ANA_TERM_SCORES,          ///< GB of attention scores read and written
    ANA_TERM_ACTIVATIONS,     ///< GB of activations that tensor parallelism does not divide
    ANA_TERM_DIVIDED,         ///< GB of activations that it divides
    ANA_TERM_TENSOR_MESSAGES, ///< all-reduces between tensor-parallel ranks
    ANA_TERM_TENSOR_STEPS,    ///< steps of their rings
    ANA_TERM_TENSOR_BYTES,    ///< GB over their links
    ANA_TERM_MICROBATCH,      ///< microbatches: launches of embedding, head and loss
    ANA_TERM_HEAD,            ///< TFLOP of the head
    ANA_TERM_LOGITS,          ///< GB of logits
    ANA_TERM_ITERATION,       ///< 1
    ANA_TERM_UPDATE_LAYER,    ///< layers updated: launches of the optimizer
    ANA_TERM_UPDATE,          ///< 1e9 parameters updated by one GPU
    ANA_TERM_REDUCTION,       ///< data parallelism at all: its start
    ANA_TERM_REDUCTION_STEPS, ///< steps of its ring
    ANA_TERM_REDUCTION_BYTES, ///< GB over links inside a node
    ANA_TERM_REDUCTION_NODES, ///< GB over links between nodes
    ANA_TERM_COUNT,
    ANA_TERM_FRONT = ANA_TERM_COUNT, ///< the embedding's share of what a microbatch costs besides
                                     ///< layers
    ANA_TERM_TRANSFER,               ///< GB sent to a stage in the same node
    ANA_TERM_BETWEEN,                ///< GB sent to a stage in another node
    ANA_TERM_ALL_COUNT
} ana_term;

enum { ANA_TERM_ASSUMED_COUNT = ANA_TERM_ALL_COUNT - ANA_TERM_COUNT };

/// Parts of an iteration. What a part costs at one shape may deviate from its terms by a factor
/// that all runs of that shape share.
typedef enum ana_part {
    ANA_PART_LAYERS,    ///< shape: microbatch, hidden size, heads, sequence, tensor degree
    ANA_PART_HEAD,      ///< shape: microbatch, hidden size, vocabulary, sequence, tensor degree
    ANA_PART_UPDATE,    ///< shape: hidden size, tensor degree
    ANA_PART_REDUCTION, ///< shape: hidden size, tensor degree
    ANA_PART_COUNT
} ana_part;

enum { ANA_PART_KEY_FIELDS = 5 };

/// A term's coefficient: on hardware from a V100 over PCIe to a B200 over NVLink it is in
/// [low, high], any value as likely as any other.
typedef struct ana_term_info {
    const char *name;
    const char *unit;
    ana_part part; // of a fitted term
    double low;
    double high;
} ana_term_info;

extern const ana_term_info ana_terms[ANA_TERM_ALL_COUNT];
extern const char *const ana_part_names[ANA_PART_COUNT];

/// Mean and standard deviation of a coefficient that is only known to be in its range.
double ana_term_mean(ana_term term);
double ana_term_deviation(ana_term term);

/// Quantities of all terms for one run.
///
/// @param gpus_per_node ranks are placed tensor first, then data, then pipeline
/// @param quantities    [ANA_TERM_ALL_COUNT] out; that of ANA_TERM_FRONT counts microbatches, each
///                      of which costs the coefficient of ANA_TERM_MICROBATCH
void ana_term_quantities(const ana_run_shape *shape, int gpus_per_node, double *quantities);

/// What runs share when they share a part's deviation.
///
/// @param key [ANA_PART_KEY_FIELDS] out, 0 after the last
void ana_part_key(ana_part part, const ana_run_shape *shape, int64_t *key);
