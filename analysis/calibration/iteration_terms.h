/// What an iteration's time is made of: quantities that a run's shape fixes, each times a
/// coefficient (README.md has their derivation and sources).
#pragma once

#include "analysis/calibration/measured_runs.h"

#include <stdint.h>

typedef enum ana_term {
    ANA_TERM_LAYER,           ///< layers passed, one microbatch each: launches and what is fixed
    ANA_TERM_PRODUCTS,        ///< TFLOP of the layers' matrix products on one GPU
    ANA_TERM_ATTENTION,       ///< TFLOP of queries times keys, and of scores times values
    ANA_TERM_SCORES,          ///< GB of attention scores read and written
    ANA_TERM_ACTIVATIONS,     ///< GB of activations read and written
    ANA_TERM_TENSOR_MESSAGES, ///< ring steps of all-reduces between tensor-parallel ranks
    ANA_TERM_TENSOR_BYTES,    ///< GB over their links inside a node
    ANA_TERM_TENSOR_NODES,    ///< GB over each link between nodes
    ANA_TERM_MICROBATCH,      ///< microbatches: embedding, head and loss, waited for
    ANA_TERM_HEAD,            ///< TFLOP of the head
    ANA_TERM_LOGITS,          ///< GB of logits
    ANA_TERM_ITERATION,       ///< 1
    ANA_TERM_UPDATE,          ///< 1e9 parameters updated by one GPU
    ANA_TERM_REDUCTION_STEPS, ///< steps of the ring of data-parallel ranks
    ANA_TERM_REDUCTION_BYTES, ///< GB over links inside a node
    ANA_TERM_REDUCTION_NODES, ///< GB over each link between nodes
    ANA_TERM_TIED,            ///< GB of gradients of a matrix that embedding and head share
    ANA_TERM_TRANSFER,        ///< GB sent to a stage in the same node
    ANA_TERM_BETWEEN,         ///< GB sent to a stage in another node
    ANA_TERM_COUNT
} ana_term;

/// Parts of an iteration. What a part costs at one shape may deviate from its terms by a factor
/// that all runs of that shape share, and runs of related shapes in part.
typedef enum ana_part {
    ANA_PART_LAYERS,    ///< shape: hidden size, tensor degree, microbatch, sequence, heads
    ANA_PART_HEAD,      ///< shape: hidden size, tensor degree, microbatch, sequence, vocabulary
    ANA_PART_UPDATE,    ///< shape: hidden size, tensor degree
    ANA_PART_REDUCTION, ///< shape: hidden size, tensor degree, data degree
    ANA_PART_COUNT      ///< of no such part: sends between stages
} ana_part;

/// A part of runs that share its deviation: what they share.
typedef struct ana_part_shape {
    ana_part part;
    int64_t key[5]; // 1 after the last
} ana_part_shape;

/// How a term goes with others. Those of speed are high or low together: the GPU's generation and
/// number format scale them all. Launches of a part run beside its work: the longer of both is what
/// it takes, but for what does not overlap.
typedef enum ana_term_kind {
    ANA_TERM_OF_ITS_OWN,
    ANA_TERM_OF_SPEED,
    ANA_TERM_OF_LAUNCHES
} ana_term_kind;

/// A term's coefficient: on hardware from a V100 over PCIe to a B200 over NVLink, 9 of 10 are in
/// [low, high], the middle of their orders of magnitude likeliest.
typedef struct ana_term_info {
    const char *name;
    const char *unit;
    ana_part part;
    double low;
    double high;
    ana_term_kind kind;
} ana_term_info;

extern const ana_term_info ana_terms[ANA_TERM_COUNT];
extern const char *const ana_part_names[ANA_PART_COUNT];

/// Mean and covariance of the logs of coefficients of which nothing is known but their ranges.
double ana_term_log_mean(ana_term term);
double ana_term_log_covariance(ana_term left, ana_term right);

/// Quantities of all terms for one run.
///
/// @param gpus_per_node ranks are placed tensor first, then data, then pipeline
/// @param quantities    [ANA_TERM_COUNT] out
void ana_term_quantities(const ana_run_shape *shape, int gpus_per_node, double *quantities);

/// Without replicas a run has no reduction.
bool ana_run_has_part(const ana_run_shape *shape, ana_part part);

ana_part_shape ana_part_shape_of(const ana_run_shape *shape, ana_part part);

/// How much the deviations of two shapes hang together: 0 of different parts; 1 of the same shape;
/// of others a share, less by 1/e for every ANA_RELATED_DOUBLINGS doublings between their keys.
double ana_part_correlation(const ana_part_shape *left, const ana_part_shape *right);
#define ANA_RELATED_DOUBLINGS 3.0
