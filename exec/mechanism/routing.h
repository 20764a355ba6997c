/// Mixture of experts: how a block's MLP is divided. Which tokens meet which experts, with what
/// weight, and how the router learns from it are operations of the device (route, kernels.h).
///
/// No expert has a capacity and no token is dropped, so experts have as many tokens as the router
/// gives them. Everything is in a fixed order: the entries (token, expert) of a token by ascending
/// expert, those of an expert by ascending token.
/// Source: top-k of a softmax with the weights of the chosen brought to sum 1 as in Mixtral (Jiang
/// et al., arXiv 2401.04088, section 2.1); the balance loss of Switch Transformers (Fedus et al.,
/// JMLR 23 (2022), equations 4 to 6), with shares of entries where a token meets several experts;
/// rounds as S-BASE (Clark et al., Unified Scaling Laws for Routed Language Models, arXiv
/// 2202.01169, section 3.1).
#pragma once

#include "exec/kernels/kernels.h"

/// How the MLP of a block is divided.
typedef struct exec_moe_options {
    int expert_count; // >= 1
    int top_k;        // experts that a token meets, 1 to expert_count
    int expert_width; // of the MLP of one expert; 0: hidden_width / top_k, which costs a token as
                      // much as the dense MLP
    double balance;   // coefficient of the balance loss, >= 0; 0 leaves the router alone
    int sinkhorn_rounds; // of S-BASE, see exec_routing; 0: token choice
    int expert_parallel; // ranks that share the experts of a block, of as many replicas; divides
                         // expert_count; 0: 1. Device cpu only
} exec_moe_options;

enum { EXEC_EXPERT_WIDTH_MAX = 1 << 16, EXEC_SINKHORN_ROUNDS_MAX = 1000 };
