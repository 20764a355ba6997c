/// Finds when each node is needed last, and fills the template of the recipe.
#include "analysis/export/slurm_shrink.h"

#include "base/embedded.h"
#include "base/json.h"

#include <string.h>

extern const embedded_file ana_export_templates[];

/// Where the GPUs of the run are, and how long each node is needed.
typedef struct node_use {
    const ana_slurm_shrink *shrink;
    int rank_count; // of one replica
    int replica_count;
    int node_count;
    int64_t gpu_count;
    int *used_gpus; // [node_count] scratch: of the plans that are looked at
    int *last_step; // [node_count] index of the last plan that uses the node
} node_use;

/// The plans of one job step: [first, end), and the ranks that it is on.
typedef struct job_step {
    int first;
    int end;
    int *new_rank; // [rank_count] number of the rank in the job step; -1: not in it
    int rank_count;
} job_step;

static status check_steps(const ana_slurm_shrink *shrink, error_message *err)
{
    const bal_plan *start = &shrink->steps[0].plan;
    int fewest = start->rank_count;
    for (int step = 0; step < shrink->step_count; step++) {
        const bal_plan *plan = &shrink->steps[step].plan;
        const int from = shrink->steps[step].from_iteration;
        if (plan->data_parallel != start->data_parallel) {
            return error_set(err, STATUS_INVALID,
                             "%.120s makes %d replicas of %d with the ranks that it releases at "
                             "iteration %d: no node is given back",
                             shrink->origin, plan->data_parallel, start->data_parallel, from);
        }
        for (int place = 0; place < plan->rank_count; place++) {
            if (plan->stage_ranks[place] < start->rank_count) continue;
            return error_set(err, STATUS_FORMAT,
                             "%.120s has rank %d in the plan of iteration %d, and %d ranks at the "
                             "start",
                             shrink->origin, plan->stage_ranks[place], from, start->rank_count);
        }
        if (plan->rank_count < fewest) fewest = plan->rank_count;
    }
    if (fewest == start->rank_count) {
        return error_set(err, STATUS_INVALID,
                         "%.120s releases no ranks: there is nothing to give back", shrink->origin);
    }
    return STATUS_OK;
}

/// Marks the ranks of one replica that a plan is on.
static void mark_ranks(const bal_plan *plan, int mark, int *ranks)
{
    for (int place = 0; place < plan->rank_count; place++) {
        ranks[plan->stage_ranks[place]] = mark;
    }
}

/// Counts the GPUs of every node that marked ranks have.
static void count_gpus(const node_use *use, const int *new_rank)
{
    const int per_rank = use->shrink->gpus_per_rank;
    memset(use->used_gpus, 0, (size_t)use->node_count * sizeof *use->used_gpus);
    for (int replica = 0; replica < use->replica_count; replica++) {
        for (int rank = 0; rank < use->rank_count; rank++) {
            if (new_rank[rank] < 0) continue;
            const int64_t first = ((int64_t)replica * use->rank_count + rank) * per_rank;
            for (int64_t gpu = first; gpu < first + per_rank; gpu++) {
                use->used_gpus[gpu / use->shrink->gpus_per_node]++;
            }
        }
    }
}

static void forget_ranks(const node_use *use, int *new_rank)
{
    for (int rank = 0; rank < use->rank_count; rank++) {
        new_rank[rank] = -1;
    }
}

/// Finds how long every node is needed. Slurm's batch script needs node 0 until the end.
static void find_last_steps(node_use *use, int *new_rank)
{
    for (int step = 0; step < use->shrink->step_count; step++) {
        forget_ranks(use, new_rank);
        mark_ranks(&use->shrink->steps[step].plan, 0, new_rank);
        count_gpus(use, new_rank);
        for (int node = 0; node < use->node_count; node++) {
            if (use->used_gpus[node] > 0) use->last_step[node] = step;
        }
    }
    if (strcmp(use->shrink->manager, "slurm-shrink") == 0) {
        use->last_step[0] = use->shrink->step_count - 1;
    }
}

static void allocate(const ana_slurm_shrink *shrink, arena *memory, node_use *use, int **new_rank)
{
    const bal_plan *start = &shrink->steps[0].plan;
    const int64_t gpus = (int64_t)start->rank_count * start->data_parallel * shrink->gpus_per_rank;
    const int nodes = (int)((gpus + shrink->gpus_per_node - 1) / shrink->gpus_per_node);
    *use = (node_use){
        .shrink = shrink,
        .rank_count = start->rank_count,
        .replica_count = start->data_parallel,
        .node_count = nodes,
        .gpu_count = gpus,
        .used_gpus = arena_array(memory, (size_t)nodes, sizeof *use->used_gpus),
        .last_step = arena_array(memory, (size_t)nodes, sizeof *use->last_step),
    };
    *new_rank = arena_array(memory, (size_t)start->rank_count, sizeof **new_rank);
}

/// Whether a node is given back where a plan comes into force.
static bool is_given_back(const node_use *use, int node, int step)
{
    return step > 0 && use->last_step[node] == step - 1;
}

static bool gives_back(const node_use *use, int step)
{
    for (int node = 0; node < use->node_count; node++) {
        if (is_given_back(use, node, step)) return true;
    }
    return false;
}

static status check_nodes(const node_use *use, error_message *err)
{
    const ana_slurm_shrink *shrink = use->shrink;
    for (int step = 1; step < shrink->step_count; step++) {
        if (gives_back(use, step)) return STATUS_OK;
    }
    if (use->node_count == 1) {
        return error_set(err, STATUS_INVALID,
                         "%.120s is on one node of %d GPUs, which is needed until the end",
                         shrink->origin, shrink->gpus_per_node);
    }
    return error_set(err, STATUS_INVALID,
                     "%.120s releases ranks, but of its %d nodes of %d GPUs none for good: "
                     "only whole nodes go back; \"repack\": {\"unit\": \"node\"} releases such",
                     shrink->origin, use->node_count, shrink->gpus_per_node);
}

/// Collects the plans of the job step that begins with one, and numbers its ranks.
static job_step job_step_at(const node_use *use, int first, int *new_rank)
{
    job_step job = {.first = first, .end = first, .new_rank = new_rank};
    forget_ranks(use, new_rank);
    do {
        mark_ranks(&use->shrink->steps[job.end].plan, 0, new_rank);
        job.end++;
    } while (job.end < use->shrink->step_count && !gives_back(use, job.end));
    for (int rank = 0; rank < use->rank_count; rank++) {
        if (new_rank[rank] >= 0) new_rank[rank] = job.rank_count++;
    }
    count_gpus(use, new_rank);
    return job;
}

static int last_iteration(const node_use *use, const job_step *job)
{
    return job->end < use->shrink->step_count ? use->shrink->steps[job->end].from_iteration - 1
                                              : use->shrink->end_iteration - 1;
}

/// Nodes of which a job step has some GPUs only cannot be described to srun.
static status check_job_step(const node_use *use, const job_step *job, error_message *err)
{
    const ana_slurm_shrink *shrink = use->shrink;
    for (int node = 0; node < use->node_count; node++) {
        const int64_t left = use->gpu_count - (int64_t)node * shrink->gpus_per_node;
        const int64_t all = left < shrink->gpus_per_node ? left : shrink->gpus_per_node;
        if (use->used_gpus[node] == 0 || use->used_gpus[node] == all) continue;
        return error_set(
            err, STATUS_INVALID,
            "%.120s uses %d of the %d GPUs of node %d from iteration %d on, when nodes "
            "go back: \"repack\": {\"unit\": \"node\"} releases whole nodes only",
            shrink->origin, use->used_gpus[node], (int)all, node,
            shrink->steps[job->first].from_iteration);
    }
    return STATUS_OK;
}

/// Which nodes a list is of.
typedef enum node_set {
    NODES_KEPT,  ///< that the job has from a plan on
    NODES_USED,  ///< of which the job step that was looked at last has GPUs
    NODES_GIVEN, ///< that go back where a plan comes into force
} node_set;

static bool is_in(const node_use *use, node_set set, int node, int step)
{
    switch (set) {
    case NODES_KEPT:
        return use->last_step[node] >= step;
    case NODES_USED:
        return use->used_gpus[node] > 0;
    case NODES_GIVEN:
        return is_given_back(use, node, step);
    }
    return false;
}

static int count_nodes(const node_use *use, node_set set, int step)
{
    int count = 0;
    for (int node = 0; node < use->node_count; node++) {
        count += is_in(use, set, node, step);
    }
    return count;
}

/// "0-2 5": runs of neighbours, with something between them.
static void append_nodes(const node_use *use, node_set set, int step, const char *between,
                         text_buffer *out)
{
    const char *before = "";
    int node = 0;
    while (node < use->node_count) {
        int end = node;
        while (end < use->node_count && is_in(use, set, end, step))
            end++;
        if (end > node) {
            text_format(out, end > node + 1 ? "%s%d-%d" : "%s%d", before, node, end - 1);
            before = between;
        }
        node = end + 1;
    }
}

static void append_table(const node_use *use, int *new_rank, text_buffer *out)
{
    const ana_slurm_shrink *shrink = use->shrink;
    for (int step = 0; step < shrink->step_count;) {
        const job_step job = job_step_at(use, step, new_rank);
        text_format(out, "#   iterations %d to %d: %d nodes, %d tasks",
                    shrink->steps[step].from_iteration, last_iteration(use, &job),
                    count_nodes(use, NODES_KEPT, step),
                    job.rank_count * use->replica_count * shrink->gpus_per_rank);
        if (step > 0) {
            text_append(out, count_nodes(use, NODES_GIVEN, step) > 1 ? ", without nodes "
                                                                     : ", without node ");
            append_nodes(use, NODES_GIVEN, step, ", ", out);
        }
        text_append(out, "\n");
        step = job.end;
    }
}

/// Appends the template with the numbers of the run in their places.
static void append_template(const node_use *use, text_buffer *out)
{
    static const char *const names[] = {"@NODES@", "@GPUS@"};
    const int values[] = {use->node_count, use->shrink->gpus_per_node};
    const char *rest = embedded_find(ana_export_templates, use->shrink->manager);
    for (const char *at = rest; (at = strchr(at, '@')) != NULL; at++) {
        for (int name = 0; name < 2; name++) {
            const size_t length = strlen(names[name]);
            if (strncmp(at, names[name], length) != 0) continue;
            text_append_bytes(out, rest, (size_t)(at - rest));
            text_format(out, "%d", values[name]);
            rest = at + length;
            at = rest - 1;
            break;
        }
    }
    text_append(out, rest);
}

static const char *given_back(const char *manager)
{
    if (strcmp(manager, "mig") == 0) return "MIG instances, which are its nodes,";
    return strcmp(manager, "slurm-shrink") == 0 ? "nodes of a running Slurm job"
                                                : "nodes of a Kubernetes cluster";
}

static void append_head(const node_use *use, int *new_rank, text_buffer *out)
{
    const ana_slurm_shrink *shrink = use->shrink;
    text_format(out,
                "#!/usr/bin/env bash\n"
                "# Gives %s back when re-packing needs them no more.\n"
                "# Of %s: %d x %d ranks of %d GPU%s on %d nodes of %d.\n"
                "#\n",
                given_back(shrink->manager), shrink->origin, use->replica_count, use->rank_count,
                shrink->gpus_per_rank, shrink->gpus_per_rank == 1 ? "" : "s", use->node_count,
                shrink->gpus_per_node);
    append_table(use, new_rank, out);
    append_template(use, out);
}

/// Appends a plan with the ranks of the job step.
static void append_plan(const bal_plan *plan, const job_step *job, arena *memory, text_buffer *out)
{
    bal_plan renumbered = *plan;
    int *ranks = arena_array(memory, (size_t)plan->rank_count, sizeof *ranks);
    for (int place = 0; place < plan->rank_count; place++) {
        ranks[place] = job->new_rank[plan->stage_ranks[place]];
    }
    renumbered.stage_ranks = ranks;
    json_writer writer = json_writer_init(out);
    bal_plan_write(&renumbered, &writer);
}

static void append_job_step(const node_use *use, const job_step *job, arena *memory,
                            text_buffer *out)
{
    const ana_slurm_shrink *shrink = use->shrink;
    const ana_plan_step *step = &shrink->steps[job->first];
    text_append(out, "\n");
    if (job->first > 0) {
        text_append(out, "keep ");
        append_nodes(use, NODES_KEPT, job->first, " ", out);
        text_append(out, "\n");
    }
    text_format(out, "train %d %d %d \"$(names ", step->from_iteration,
                last_iteration(use, job) + 1, count_nodes(use, NODES_USED, job->first));
    append_nodes(use, NODES_USED, job->first, " ", out);
    text_format(out, ")\" %d \"$@\" <<'END'\n",
                job->rank_count * use->replica_count * shrink->gpus_per_rank);
    append_plan(&step->plan, job, memory, out);
    text_append(out, "\nEND\n");
}

status ana_slurm_shrink_write(const ana_slurm_shrink *shrink, arena *memory, text_buffer *out,
                              error_message *err)
{
    node_use use;
    int *new_rank = NULL;
    TRY(check_steps(shrink, err));
    allocate(shrink, memory, &use, &new_rank);
    find_last_steps(&use, new_rank);
    TRY(check_nodes(&use, err));
    for (int step = 0; step < shrink->step_count;) {
        const job_step job = job_step_at(&use, step, new_rank);
        TRY(check_job_step(&use, &job, err));
        step = job.end;
    }
    append_head(&use, new_rank, out);
    for (int step = 0; step < shrink->step_count;) {
        const job_step job = job_step_at(&use, step, new_rank);
        append_job_step(&use, &job, memory, out);
        step = job.end;
    }
    return STATUS_OK;
}
