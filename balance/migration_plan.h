/// Which of the near-optimal plans to move to.
#pragma once

#include <stdbool.h>

typedef struct bal_migration_options {
    double slack_ratio; // of the plans whose bottleneck is within this of the decided one, the one
                        // that moves the fewest bytes; 0: the balancer's own
    bool relabels;      // stages may change ranks so that layers stay where they are
    bool overlaps;      // a layer moves as soon as the backward sweep has left its rank; else all
                        // move after the iteration
    double hysteresis_ratio; // the plan stays unless the new one shortens the predicted iteration
                             // by more than this share
} bal_migration_options;
