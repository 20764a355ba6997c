"""Random studies over all keys of the table that `dynmo simulate --keys` prints: whatever is
played is played alike, however it is asked for.

usage: random_studies.py DYNMO COUNT [SEED], in tests/

Of each study equal are: simulate once more, from the same JSON written otherwise; both engines,
where the links of nodes are shared and never busy; run under the nominal clock; simulate from what
run has recorded; the points of a study over it and simulate at each; that study in shards, and
interrupted and gone on with. A refusal is one line that names the file, the same each time. Seeds
are printed; what fails is made smaller by leaving keys out.
"""
import concurrent.futures
import copy
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile

from study_keys import BESIDE, DYNMO, IS_SANITIZED, put

SCHEDULES = ("gpipe 1f1b interleaved-1f1b zb-h1 zb-h2 zb-auto zb-v interleaved-zb zb-v-hand "
             "1f1b-v v-half v-min dualpipe-v v-adaptive").split()
BALANCERS = ("even parameters parameters-legacy tuned partition diffusion-published "
             "diffusion-coded diffusion diffusion partition partition makespan makespan "
             "v-partition interleaved-partition").split()
POLICIES = ("on-change", "every:2", "every-iteration", "threshold:0.05", "shadow")
CASES = {
    "lengths": {"mean_tokens": [64, 200], "packing": ["sorted", "tokens", "cost"],
                "window": [1, 2]},
    "mod": {"capacity_ratio": [0.125, 0.5], "predictor_error_ratio": [0.1]},
    "pruning": {"start_iteration": [1], "end_iteration": [4], "interval": [1, 2]},
    "freezing": {"start_iteration": [1], "last_iteration": [4], "interval": [1, 2]},
    "sparse-attention": {}, "early-exit": {}, "moe": {"drift_iterations": [2], "skew_layers": [2]}}
MODELS = ("gpt2", "gpt2", "gpt2", "gpt-bytes", "llama-2-7b", "mixtral-8x7b", "qwen3-30b-a3b")
# Keys that the core of a study draws, that need a file, or that make runs long.
NOT_DRAWN = re.compile(r"schema|name|vary|alternatives|sources|trace|model|execution|uncertainty|"
                       r"dynamism|balancing|repack|training.(iterations|microbatches|"
                       r"layers|sequence_length|tokens|global_batch|accumulation)$|pipeline|"
                       r".*\.measured$|.*\.failures$|cluster.nodes$|hardware(\.base|\.name)?$")
EDGES = {"cluster.gpus_per_node": 8, "cluster.gpus": 64, "cluster.memory_bytes": 8 * 10**10,
         "training.microbatch_size": 3, "training.data_parallel": 3, "cluster.slow_ranks.speed": 3,
         "cluster.slow_ranks.from": 6, "cluster.slow_ranks.to": 9, "disturbance.links.from": 6,
         "disturbance.links.to": 9}
SECONDS_MAX = 120
DRAWS_MAX = 8  # of a seed, until simulate plays one


def some_value(draw, path, kind):
    """A value that the key may have; None where the table does not tell."""
    numbers = re.match(r"(integer|number) in \[(\S+), (\S+)\]", kind)
    words = re.match(r"([a-z0-9-]+(\|[a-z0-9-]+)+)", kind)
    if path == "disturbance.links.between":
        return draw.choice([[0, 1], [1, 0]])
    if kind.startswith("true|false"):
        return draw.random() < 0.5
    if words:
        return draw.choice(words[1].split("|"))
    if kind.startswith("replicas"):
        return draw.choice([1, 2, 3, "fill"])
    if path.endswith("_parallel"):
        return draw.choice([1, 1, 2, 4])
    if numbers and "stages" in kind:
        return draw.choice([0, 1])
    if numbers:
        low = float(numbers[2])
        high = min(float(numbers[3]), EDGES.get(path, float(numbers[3])))
        if path.endswith("bytes_per_s"):
            low, high = 10**8, 10**12
        if path.endswith("_ns"):
            high = 10**7
        drawn = low + (high - low) * draw.random() ** 3
        return round(drawn) if numbers[1] == "integer" else drawn
    if kind.startswith("date"):
        return "2026-02-03"
    if kind.startswith("text"):
        return "EUR"
    return draw.randrange(100) if kind.startswith("integer") else None


def rows_of(draw, repack_kinds):
    """One to three entries of balancing."""
    rows = []
    for label in "abc"[:draw.choice([1, 2, 2, 3])]:
        row = {"balancer": draw.choice(BALANCERS), "label": label}
        decides = row["balancer"] not in ("even", "tuned") and draw.random() < 0.8
        if decides:
            row["policy"] = draw.choice(POLICIES)
        if decides and draw.random() < 0.2:
            row["information"] = draw.choice(["profile", "foresight"])
        if decides and draw.random() < 0.3:
            row["migration"] = {key: value for key, value in (
                ("slack", draw.choice([0, 0.1])), ("relabel", True), ("overlap", True),
                ("hysteresis", 0.05), ("neighbour_iterations", 3)) if draw.random() < 0.4}
        if draw.random() < 0.15:
            row["by"] = draw.choice(["time", "parameters", "time+transfer", "layers"])
        if decides and draw.random() < 0.3:
            row["repack"] = {"kind": draw.choice(repack_kinds)}
            if row["repack"]["kind"] in ("throughput", "gpu-time"):
                row["repack"].update(tolerance=draw.choice([0, 0.2, 1, 3]),
                                     **({"use": draw.choice(["replicate", "lend"])}
                                        if draw.random() < 0.3 else {}))
        rows.append(row)
    return rows


def study_of(draw, keys):
    """A study, which may be refused."""
    kinds = dict(keys)
    study = {"schema": "dynmo-study/1", "hardware": draw.choice(["h100-sxm", "a100-sxm-80gb"]),
             "training": {"iterations": draw.randint(1, 9), "microbatches": draw.randint(1, 12)},
             "pipeline": {"stages": draw.randint(1, 5), "schedule": draw.choice(SCHEDULES)},
             "balancing": rows_of(draw, kinds["repack.kind"].split(";")[0].split("|"))}
    if draw.random() < 0.2:
        study["trace"] = {"store": "t.db"}
        study["training"].pop("microbatches")
    else:
        study["model"] = draw.choice(MODELS)
        study["training"]["layers"] = draw.randint(5, 14)
        study["training"]["sequence_length"] = draw.choice([128, 256, 1024])
    if draw.random() < 0.5:
        case = draw.choice(list(CASES))
        study["dynamism"] = {"case": case, **{key: draw.choice(values) for key, values in
                                              CASES[case].items() if draw.random() < 0.8}}
        if case == "mod" and study.get("model", "").startswith(("mixtral", "qwen3")):
            study["dynamism"]["moe"] = {"drift_iterations": draw.choice([0, 2]), "spread_ratio": 2}
        if draw.random() < 0.3:
            study["dynamism"]["load_model"] = "published"
        if draw.random() < 0.5:
            study["dynamism"]["seed"] = draw.randrange(1000)
    if draw.random() < 0.1:
        study["training"]["accumulation"] = 2
    if draw.random() < 0.2:
        study["pipeline"]["chunks"] = draw.choice([1, 2, 3])
    if draw.random() < 0.2:
        study["pipeline"]["first_stage_backward"] = "whole"
    for path, kind in draw.sample(keys, draw.choice([0, 1, 2, 3, 5, 8])):
        value = None if NOT_DRAWN.match(path) else some_value(draw, path, kind)
        if value is None:
            continue
        for prefix, beside in BESIDE.items():
            if path.startswith(prefix + ".") or path == prefix:
                for other, needed in beside.items():
                    put(study, other, needed)
        put(study, path, value)
    return study


class Asked:
    """Commands in a folder of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.found = []
        self.study = None
        self.checks = 0

    def write(self, study, name, **style):
        """The study as a file."""
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            json.dump(study, file, **style)

    def ask(self, *words, stop_after=None):
        """Status, standard output and error of a command that ends in time and does not crash."""
        with subprocess.Popen([DYNMO, *words], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as child:
            try:
                out, err = child.communicate(timeout=stop_after or SECONDS_MAX)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL if stop_after else signal.SIGABRT)
                out, err = child.communicate()
        if child.returncode not in (0, 1, 2, 3, 4, 5) and not stop_after:
            self.found.append(f"{' '.join(words)}: {child.returncode} {err[-300:]}")
        return child.returncode, out, err

    def same(self, what, found, wanted):
        """Notes what is not the same."""
        self.checks += 1
        if found != wanted:
            self.found.append(f"{what}: {str(found)[:300]} is not {str(wanted)[:300]}")

    def rows(self, study):
        """What simulate says of a study, or None."""
        self.write(study, "other.json")
        code, out, _ = self.ask("simulate", "other.json", "--json")
        return json.loads(out)["rows"] if code == 0 else None


def turned(value):
    """The same JSON with keys in the other order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(list(value))}
    return [turned(each) for each in value] if isinstance(value, list) else value


def check_engines(asked, study):
    """Messages on a shared link that is free whenever one comes are as on a link of their own."""
    other = copy.deepcopy(study)
    cluster = other.setdefault("cluster", {})
    disturbed = {"messages", "links"} & set(other.get("disturbance", {}))
    if cluster.get("send", "async") != "async" or disturbed or "post-val" in json.dumps(study):
        return
    cluster.update(gpus_per_node=1, links={"inter": {"latency_ns": 7000, "bytes_per_s": 10**15}})
    cluster.pop("nodes", None)
    own = asked.rows(other)
    cluster["links"]["shared"] = True
    shared = asked.rows(other)
    if own is None or shared is None or other["pipeline"]["schedule"] == "dualpipe-v":
        return
    # Frozen ops take no time: after one a message waits the ns for which the link is held.
    off = [abs(link["pipeline_ns"] - free["pipeline_ns"]) / free["pipeline_ns"]
           for link, free in zip(shared, own) if free.get("pipeline_ns")]
    asked.same("engines", max(off, default=0) < 1e-6, True)


def check_runs(asked, rows):
    """The executor beside the simulator."""
    same = ("moved_bytes", "moved_layers", "rebalances", "bubble_ratio", "imbalance_ratio")
    for row in rows:
        code, out, err = asked.ask("run", "study.json", "--json", "--row", row["label"])
        if code == 2 and ("study.json: " not in err or err.count("\n") != 1):
            asked.found.append(f"a refusal of run without file: {err[:300]}")
        if code == 0:
            run = json.loads(out)
            asked.same(f"run of {row['label']}", [run["measured_ns"], *(run[key] for key in same)],
                       [row["total_ns"], *(row[key] for key in same)])


def check_trace(asked, study, microbatches):
    """What run records of a plan that stands still, simulated."""
    study = copy.deepcopy(study)
    study["balancing"] = [{"balancer": "even", "label": "a"}]
    study["training"]["data_parallel"] = 1
    study.get("cluster", {}).pop("slow_ranks", None)
    rows = asked.rows(study)
    if rows is None or asked.ask("run", "other.json", "--record", "r.db")[0] != 0:
        return
    for key in ("model", "dynamism", "sources"):
        study.pop(key, None)
    study["trace"] = {"store": "r.db"}
    # GPUs of a stage say which stages share a node.
    degrees = {key: value for key, value in study["training"].items()
               if key.endswith("_parallel") and key != "sequence_parallel"}
    kept = {key: study["training"][key] for key in ("iterations", "step")
            if key in study["training"]}
    study["training"] = {**kept, "microbatches": microbatches, **degrees}
    traced = asked.rows({key: value for key, value in study.items() if value is not None})
    if traced is not None:
        asked.same("the trace of a run", traced[0]["pipeline_ns"], rows[0]["pipeline_ns"])


def check_points(asked, study, draw):
    """Points are what simulate says of each; in shards, and interrupted, the answer is the same."""
    study = copy.deepcopy(study)
    study["balancing"] = study["balancing"][:1]
    axes = {"pipeline.stages": [1, 2, 3], "training.microbatch_size": [1, 2],
            "pipeline.schedule": ["gpipe", study["pipeline"]["schedule"]],
            "training.iterations": [2, 3], "training.profile_ns": [0, 1000]}
    if "trace" in study:
        axes.pop("training.microbatch_size")
    names = draw.sample(list(axes), 2)
    study["vary"] = {name: axes[name] for name in names}
    asked.write(study, "v.json")
    words = ["study", "v.json", "--json", "--draws", draw.choice(["0", "0", "0", "20"])]
    code, whole, err = asked.ask(*words)
    asked.same("the study once more", asked.ask(*words, "--threads", "3"), (code, whole, err))
    if code != 0:
        return
    points = {point.get("point"): point for point in json.loads(whole)["points"]}
    for number, at in enumerate(itertools.product(*(range(len(axes[name])) for name in names))):
        point = points.get(number, {})
        if point.get("iteration_ns") is None:
            continue
        single = copy.deepcopy(study)
        del single["vary"]
        for name, index in zip(names, at):
            put(single, name, axes[name][index])
        rows = asked.rows(single)
        if rows is not None and rows[0].get("total_ns") is not None:
            # Both are quotients of sums, taken in another order.
            asked.same(f"point {at}", [f"{point[key]:.12g}" for key in (
                "tokens_per_s", "bubble_ratio")], [f"{rows[0][key]:.12g}" for key in (
                    "tokens_per_s", "bubble_ratio")])
    for shard in ("0/2", "1/2"):
        code, _, err = asked.ask(*words, "--store", shard[0] + ".db", "--shard", shard)
        asked.same(f"shard {shard}", code, 0)
    asked.ask("merge", "-o", "m.db", "0.db", "1.db")
    asked.same("merged", asked.ask(*words, "--store", "m.db")[1], whole)
    asked.ask(*words, "--store", "k.db", stop_after=draw.random() * 0.03)
    asked.same("gone on with", asked.ask(*words, "--store", "k.db")[1], whole)


def failures(study, seed, trace):
    """What is not the same; and how the study was answered."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Asked(folder)
        os.symlink(trace, os.path.join(folder, "t.db"))
        asked.write(study, "study.json")
        code, out, err = asked.ask("simulate", "study.json", "--json")
        asked.write(turned(study), "study.json", indent=1)
        asked.same("simulate once more", asked.ask("simulate", "study.json", "--json"),
                   (code, out, err))
        if code != 0:
            if "study.json: " not in err or err.count("\n") != 1:
                asked.found.append(f"a refusal without file: {code} {err[:300]}")
            return asked.found, code, asked.checks
        asked.write(study, "study.json")
        asked.study = study
        answer = json.loads(out)
        check_engines(asked, study)
        check_runs(asked, answer["rows"])
        check_trace(asked, study, answer["microbatches"])
        check_points(asked, study, random.Random(seed))
        return asked.found, code, asked.checks


def drawn(seed, keys, trace):
    """The first study of a seed that is played, or the last; what fails; its comparisons."""
    draw = random.Random(seed)
    for _ in range(DRAWS_MAX):
        study = study_of(draw, keys)
        found, code, checks = failures(study, seed, trace)
        if code == 0 or found:
            break
    return study, found, code, checks


def smaller(study):
    """The study without one key or entry."""
    def paths(value, at):
        if isinstance(value, (dict, list)):
            for key in (list(value) if isinstance(value, dict) else range(len(value))):
                yield at + [key]
                yield from paths(value[key], at + [key])

    for path in paths(study, []):
        less = copy.deepcopy(study)
        inner = less
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        yield less


def shrunk(study, seed, trace, found):
    """The smallest study by leaving out that fails in the same check."""
    kind = found[0].split(":")[0]
    for _ in range(60):
        for less in smaller(study):
            if not less.get("balancing") or not {"stages", "schedule"} <= set(
                    less.get("pipeline", {})) or "training" not in less:
                continue
            now = failures(less, seed, trace)[0]
            if now and now[0].split(":")[0] == kind:
                study, found = less, now
                break
        else:
            break
    return study, found


def main():
    """Draws, plays, and says what fails."""
    count = int(sys.argv[2]) // (10 if IS_SANITIZED else 1)
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 40)
    print(f"seeds {seed} to {seed + count - 1}", flush=True)
    table = subprocess.run([DYNMO, "simulate", "--keys"], capture_output=True, text=True,
                           check=True)
    keys = re.findall(r"^([a-z]\S*?)(?:: ?(.*))?$", table.stdout, re.M)
    recorded = os.path.abspath("../traces/recorded/gpt-freezing-cpu.csv.gz")
    codes, checks, failed = {}, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "t.db")
        subprocess.run([DYNMO, "import", "csv", recorded, "-o", trace], capture_output=True,
                       check=True)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for number, (study, found, code, done) in enumerate(pool.map(
                    lambda each: drawn(each, keys, trace), range(seed, seed + count)), seed):
                codes[code] = codes.get(code, 0) + 1
                checks += done
                if found:
                    failed += 1
                    study, found = shrunk(study, number, trace, found)
                    print(f"FAILED: seed {number}: {json.dumps(study)}", flush=True)
                    for line in found[:3]:
                        print("   ", line, flush=True)
    print(f"{count} studies, {checks} comparisons, {failed} failed; simulate's exits {codes}")
    # Most draws must be played, or nothing is compared.
    return 1 if failed or 2 * codes.get(0, 0) < count else 0


if __name__ == "__main__":
    sys.exit(main())
