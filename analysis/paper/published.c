#include "analysis/paper/published.h"

#include <stddef.h>
#include <string.h>

static const ana_published numbers[] = {
    {"moe", "Mixtral 8x7B, bubble before", 0.25, "text, MoE; 128 GPUs, DP 8 x PP 16"},
    {"moe", "Mixtral 8x7B, bubble after", 0.08, "text, MoE"},
    {"moe", "Mixtral 8x7B, speed-up over static", 1.21, "text, MoE; Figure 3"},
    {"moe", "Mixtral 8x7B, speed-up over Tutel", 1.18, "text, MoE; Figure 3"},
    {"moe", "LLaMA-MoE-3.5B, bubble before", 0.25, "text, MoE"},
    {"moe", "LLaMA-MoE-3.5B, bubble after", 0.08, "text, MoE"},
    {"moe", "LLaMA-MoE-3.5B, speed-up over static", 1.23, "abstract; Figure 3"},
    {"moe", "LLaMA-MoE-3.5B, speed-up over Tutel", 1.21, "text, MoE; Figure 3"},
    {"mod", "bubble before", 0.18, "text, MoD; 128 GPUs, DP 8 x PP 16"},
    {"mod", "bubble after", 0.04, "text, MoD"},
    {"mod", "speed-up over static", 1.17, "abstract; Figure 3"},
    {"pruning", "speed-up over static", 3.18, "abstract; Figure 3; 720 GPUs, DP 30 x PP 24"},
    {"pruning", "idleness at 90 % sparsity over dense", 5, "text; Figure 1"},
    {"freezing", "bubble before", 0.40, "text; Figure 1; of Egeria and AutoFreeze"},
    {"freezing", "speed-up over Egeria", 2.23, "abstract; Figure 3"},
    {"sparse-attention", "speed-up over dense, least", 2.71, "text; Figure 3"},
    {"sparse-attention", "speed-up over dense, most", 4.02, "abstract; Figure 3"},
    {"sparse-attention", "bubble over dense", 4, "text; Figure 1"},
    {"early-exit", "speed-up over no exit", 4.52, "abstract; Figure 3"},
    {"early-exit", "bubble over no exit", 5, "text; Figure 1"},
    {"repack", "mean GPUs of 8", 5.8, "text, re-packing; Figure 4; 10,000 iterations"},
    {"repack", "share of the gain, least", 0.04, "text, re-packing"},
    {"repack", "share of the gain, most", 0.11, "text, re-packing"},
    {"kernels", "sparsity from which Sputnik is faster than cuBLAS", 0.75,
     "appendix; Figure 6; H100, 4096 x 4096 x 4096"},
    {"weak-scaling", "speed-up over static, most", 2.12,
     "appendix, weak scaling; overheads excluded"},
    {"lengths", "speed-up of redistribution", 1.239, "Understanding Stragglers, OSDI'25"},
    {"lengths", "speed-up of packing by cost", 1.23, "WLB-LLM, OSDI'25; mean of its models"},
};

static const ana_table1_row table1[ANA_TABLE1_ROWS] = {
    {24, 2, {10.67, 12.38, 12.88}, 1.20},
    {24, 4, {20.23, 24.86, 24.82}, 1.22},
    {24, 8, {37.253, 46.939, 45.071}, 1.26},
    {32, 2, {8.28, 10.35, 10.12}, 1.25},
    {32, 4, {15.69, 19.06, 19.76}, 1.26},
    {32, 8, {30.809, 39.899, 37.933}, 1.29},
    {40, 2, {7.14, 8.84, 9.13}, 1.28},
    {40, 4, {12.84, 16.11, 16.82}, 1.31},
    {40, 8, {26.425, 35.262, 33.296}, 1.33},
    {48, 2, {0, 0, 0}, 0},
    {48, 4, {10.89, 14.7, 14.54}, 1.35},
    {48, 8, {23.126, 31.724, 29.711}, 1.37},
    {56, 2, {0, 0, 0}, 0},
    {56, 4, {0, 0, 0}, 0},
    {56, 8, {19.126, 26.724, 25.711}, 1.39},
};

const ana_published *ana_published_numbers(int *count)
{
    *count = (int)(sizeof numbers / sizeof numbers[0]);
    return numbers;
}

const ana_published *ana_published_find(const char *experiment, const char *quantity)
{
    int count = 0;
    const ana_published *all = ana_published_numbers(&count);
    const ana_published *found = NULL;
    for (int number = 0; number < count && found == NULL; number++) {
        if (strcmp(all[number].experiment, experiment) == 0 &&
            strcmp(all[number].quantity, quantity) == 0) {
            found = &all[number];
        }
    }
    return found;
}

const ana_table1_row *ana_table1(void)
{
    return table1;
}
