/// Finds when each node is needed last, and fills the template of the recipe.
#include "analysis/export/frameworks.h"

#include "base/embedded.h"
#include "base/json.h"

#include <string.h>

extern const embedded_file ana_export_templates[];

/// The plans of one job step, [first, end), and the ranks that it is on.
typedef struct job_step {
    int first;
    int end;
    int last_iteration;
    int rank_count;
    int *new_rank;  // [rank_count of the run] number of the rank in the job step; -1: not in it
    int *used_gpus; // [node_count]
} job_step;

/// Where the GPUs of the run are, and how long each node is needed.
typedef struct node_use {
    const ana_slurm_shrink *shrink;
    int rank_count; // of one replica
    int replica_count;
    int node_count;
    int64_t gpu_count;
    int *last_step; // [node_count] index of the last plan that uses the node
    job_step *jobs; // [job_count]
    int job_count;
} node_use;

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

/// The ranks of some plans, numbered, and how many GPUs of every node they have.
static void find_ranks(const node_use *use, int first, int end, arena *memory, job_step *job)
{
    const int per_rank = use->shrink->gpus_per_rank;
    *job = (job_step){.first = first,
                      .end = end,
                      .new_rank = arena_array(memory, (size_t)use->rank_count, sizeof(int)),
                      .used_gpus = arena_array(memory, (size_t)use->node_count, sizeof(int))};
    for (int step = first; step < end; step++) {
        const bal_plan *plan = &use->shrink->steps[step].plan;
        for (int place = 0; place < plan->rank_count; place++) {
            job->new_rank[plan->stage_ranks[place]] = 1;
        }
    }
    for (int rank = 0; rank < use->rank_count; rank++) {
        const bool is_in = job->new_rank[rank] > 0;
        job->new_rank[rank] = is_in ? job->rank_count++ : -1;
        for (int replica = 0; replica < use->replica_count && is_in; replica++) {
            const int64_t gpu = ((int64_t)replica * use->rank_count + rank) * per_rank;
            for (int each = 0; each < per_rank; each++) {
                job->used_gpus[(gpu + each) / use->shrink->gpus_per_node]++;
            }
        }
    }
}

/// Finds how long every node is needed. Slurm's batch script needs node 0 until the end.
static void find_last_steps(const node_use *use, arena *memory)
{
    const int step_count = use->shrink->step_count;
    for (int step = 0; step < step_count; step++) {
        job_step of_plan;
        find_ranks(use, step, step + 1, memory, &of_plan);
        for (int node = 0; node < use->node_count; node++) {
            if (of_plan.used_gpus[node] > 0) use->last_step[node] = step;
        }
    }
    if (strcmp(use->shrink->manager, "slurm-shrink") == 0) use->last_step[0] = step_count - 1;
}

/// Whether a node goes back where a plan comes into force.
static bool gives_back(const node_use *use, int step)
{
    for (int node = 0; node < use->node_count; node++) {
        if (use->last_step[node] == step - 1) return true;
    }
    return false;
}

/// Plans between which no node goes back are one job step.
static void find_jobs(node_use *use, arena *memory)
{
    const ana_slurm_shrink *shrink = use->shrink;
    use->jobs = arena_array(memory, (size_t)shrink->step_count, sizeof *use->jobs);
    for (int first = 0; first < shrink->step_count;) {
        int end = first + 1;
        while (end < shrink->step_count && !gives_back(use, end)) {
            end++;
        }
        job_step *job = &use->jobs[use->job_count++];
        find_ranks(use, first, end, memory, job);
        job->last_iteration =
            (end < shrink->step_count ? shrink->steps[end].from_iteration : shrink->end_iteration) -
            1;
        first = end;
    }
}

static status check_nodes(const node_use *use, error_message *err)
{
    const ana_slurm_shrink *shrink = use->shrink;
    if (use->job_count > 1) return STATUS_OK;
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

/// Nodes of which a job step has some GPUs only cannot be described to srun.
static status check_job(const node_use *use, const job_step *job, error_message *err)
{
    const ana_slurm_shrink *shrink = use->shrink;
    for (int node = 0; node < use->node_count; node++) {
        const int64_t left = use->gpu_count - (int64_t)node * shrink->gpus_per_node;
        const int64_t all = left < shrink->gpus_per_node ? left : shrink->gpus_per_node;
        if (job->used_gpus[node] == 0 || job->used_gpus[node] == all) continue;
        return error_set(
            err, STATUS_INVALID,
            "%.120s uses %d of the %d GPUs of node %d from iteration %d on, when nodes "
            "go back: \"repack\": {\"unit\": \"node\"} releases whole nodes only",
            shrink->origin, job->used_gpus[node], (int)all, node,
            shrink->steps[job->first].from_iteration);
    }
    return STATUS_OK;
}

/// Which nodes a list is of.
typedef enum node_set {
    NODES_KEPT, ///< that the job has during a job step
    NODES_USED, ///< of which it uses GPUs
    NODES_GIVEN ///< that go back before it
} node_set;

static bool is_in(const node_use *use, const job_step *job, node_set set, int node)
{
    if (set == NODES_USED) return job->used_gpus[node] > 0;
    return set == NODES_KEPT ? use->last_step[node] >= job->first
                             : use->last_step[node] == job->first - 1;
}

static int count_nodes(const node_use *use, const job_step *job, node_set set)
{
    int count = 0;
    for (int node = 0; node < use->node_count; node++) {
        count += is_in(use, job, set, node);
    }
    return count;
}

/// "0-2 5": runs of neighbours, with something between them.
static void append_nodes(const node_use *use, const job_step *job, node_set set,
                         const char *between, text_buffer *out)
{
    const char *before = "";
    for (int node = 0; node < use->node_count; node++) {
        const int first = node;
        if (!is_in(use, job, set, node)) continue;
        while (node + 1 < use->node_count && is_in(use, job, set, node + 1)) {
            node++;
        }
        text_format(out, node > first ? "%s%d-%d" : "%s%d", before, first, node);
        before = between;
    }
}

static int task_count(const node_use *use, const job_step *job)
{
    return job->rank_count * use->replica_count * use->shrink->gpus_per_rank;
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

static void append_head(const node_use *use, text_buffer *out)
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
    for (int index = 0; index < use->job_count; index++) {
        const job_step *job = &use->jobs[index];
        text_format(out, "#   iterations %d to %d: %d nodes, %d tasks",
                    shrink->steps[job->first].from_iteration, job->last_iteration,
                    count_nodes(use, job, NODES_KEPT), task_count(use, job));
        if (index > 0) {
            text_format(out, ", without node%s ",
                        count_nodes(use, job, NODES_GIVEN) > 1 ? "s" : "");
            append_nodes(use, job, NODES_GIVEN, ", ", out);
        }
        text_append(out, "\n");
    }
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

static void append_job(const node_use *use, const job_step *job, arena *memory, text_buffer *out)
{
    const ana_plan_step *step = &use->shrink->steps[job->first];
    text_append(out, "\n");
    if (job->first > 0) {
        text_append(out, "keep ");
        append_nodes(use, job, NODES_KEPT, " ", out);
        text_append(out, "\n");
    }
    text_format(out, "train %d %d %d \"$(names ", step->from_iteration, job->last_iteration + 1,
                count_nodes(use, job, NODES_USED));
    append_nodes(use, job, NODES_USED, " ", out);
    text_format(out, ")\" %d \"$@\" <<'END'\n", task_count(use, job));
    append_plan(&step->plan, job, memory, out);
    text_append(out, "\nEND\n");
}

status ana_slurm_shrink_write(const ana_slurm_shrink *shrink, arena *memory, text_buffer *out,
                              error_message *err)
{
    const bal_plan *start = &shrink->steps[0].plan;
    node_use use = {
        .shrink = shrink, .rank_count = start->rank_count, .replica_count = start->data_parallel};
    TRY(check_steps(shrink, err));
    use.gpu_count = (int64_t)start->rank_count * start->data_parallel * shrink->gpus_per_rank;
    use.node_count = (int)((use.gpu_count + shrink->gpus_per_node - 1) / shrink->gpus_per_node);
    use.last_step = arena_array(memory, (size_t)use.node_count, sizeof *use.last_step);
    find_last_steps(&use, memory);
    find_jobs(&use, memory);
    TRY(check_nodes(&use, err));
    for (int job = 0; job < use.job_count; job++) {
        TRY(check_job(&use, &use.jobs[job], err));
    }
    append_head(&use, out);
    for (int job = 0; job < use.job_count; job++) {
        append_job(&use, &use.jobs[job], memory, out);
    }
    return STATUS_OK;
}
