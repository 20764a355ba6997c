"""Every key of a study, from the table that `dynmo simulate --keys` prints: what it may not be is
refused, by file and key, as a value and on an axis; its edges crash nothing; and what it may be is
played alike by simulate and run, or refused by run by name; on a device that trains it is done, or
refused by name.

usage: study_keys.py DYNMO, in tests/
"""
import concurrent.futures
import copy
import itertools
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

DYNMO = sys.argv[1]
with open(DYNMO, "rb") as program:
    IS_SANITIZED = b"__asan_init" in program.read()
BASE = {
    "schema": "dynmo-study/1", "model": "gpt2", "hardware": "h100-sxm",
    "cluster": {"gpus_per_node": 8}, "training": {"iterations": 3, "microbatches": 4},
    "pipeline": {"stages": 2, "schedule": "1f1b"},
    "balancing": [{"balancer": "even", "label": "r"}]}
# What must stand beside a key for it to mean anything.
BESIDE = {
    "cluster.price_per_gpu_hour": {"cluster.price_date": "2026-01-01"},
    "cluster.price_currency": {"cluster.price_date": "2026-01-01", "cluster.price_per_gpu_hour": 1},
    "cluster.price_source": {"cluster.price_date": "2026-01-01", "cluster.price_per_gpu_hour": 1},
    "cluster.price_date": {"cluster.price_per_gpu_hour": 1},
    "cluster.links.intra.latency_ns": {"cluster.links.intra.bytes_per_s": 10**11},
    "cluster.links.intra.bytes_per_s": {"cluster.links.intra.latency_ns": 1000},
    "cluster.links.inter.latency_ns": {"cluster.links.inter.bytes_per_s": 10**11},
    "cluster.links.inter.bytes_per_s": {"cluster.links.inter.latency_ns": 1000},
    "cluster.slow_ranks": {"cluster.slow_ranks.rank": 0, "cluster.slow_ranks.speed": 0.5},
    "disturbance.links": {"disturbance.links.between": [0, 1]},
    "disturbance.stragglers": {"disturbance.stragglers.probability": 0.5,
                               "disturbance.stragglers.factor": 2},
    "disturbance.messages": {"disturbance.messages.factor": 2},
    "repack": {"repack.kind": "throughput", "balancing.balancer": "partition",
               "balancing.policy": "on-change"},
    "balancing": {"balancing.balancer": "partition", "balancing.policy": "on-change"},
    "training.global_batch": {"training.microbatches": None},
    "trace": {"model": None, "hardware": None, "trace.store": "t.db"},
    "hardware": {"hardware.base": "h100-sxm"},
}
NUMBERS = itertools.count(1)
LISTS = ("cluster.slow_ranks", "disturbance.links", "balancing")
FIXED = ("balancing", "cluster.slow_ranks.", "disturbance.links.", "name")


# What device cpu does, of what changes simulated times; a cluster's nodes say where its ranks are,
# decision_ns what decisions are forecast to take.
TRAINED = ("balancing.by", "cluster.gpus_per_node", "cluster.slow_ranks", "pipeline.stages",
           "training.data_parallel", "training.decision_ns", "training.dtype",
           "training.global_batch", "training.iterations", "training.layers",
           "training.microbatch", "training.recompute", "training.sequence_length")
# What it measures or has none of, whether it would change times here or not.
NOT_TRAINED = ("training.optimizer_step_ns", "training.tensor_overlap",
               "training.expert_overlap", "training.expert_deduplication", "cluster.links")


def put(study, path, value):
    """Sets a value at a path; the first of a list."""
    at, names = study, path.split(".")
    for depth, name in enumerate(names[:-1]):
        here = ".".join(names[:depth + 1])
        if not isinstance(at.get(name), (dict, list)):
            at[name] = [{}] if here in LISTS else {}
        at = at[name][0] if isinstance(at[name], list) else at[name]
    if value is None:
        at.pop(names[-1], None)
    else:
        at[names[-1]] = value


def study_of(path, value):
    """The base with what the key needs, and the key."""
    study = copy.deepcopy(BASE)
    for prefix, beside in BESIDE.items():
        if path == prefix or path.startswith(prefix + "."):
            for other, needed in beside.items():
                put(study, other, needed)
    put(study, path, value)
    return study


def limit():
    """A refusal takes little memory. AddressSanitizer maps its shadow, whatever is refused."""
    if not IS_SANITIZED:
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))


def ask(study, *words):
    """Exit status, standard output and error; None where it takes long."""
    name = f"s{next(NUMBERS)}.json"
    with open(name, "w", encoding="ascii") as file:
        file.write(study if isinstance(study, str) else json.dumps(study))
    try:
        done = subprocess.run([DYNMO, words[0], name, *words[1:]], capture_output=True, text=True,
                              check=False, timeout=10, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return name, None, "", "too long"
    finally:
        os.unlink(name)
    return name, done.returncode, done.stdout, done.stderr


def values(kind):
    """Of a key's kind: some that it may be, and some that it may not."""
    numbers = re.match(r"(integer|number) in \[(\S+), (\S+)\]", kind)
    words = re.match(r"([a-z0-9-]+(\|[a-z0-9-]+)+)", kind)
    if kind.startswith("true|false"):
        return [True, False], [1, "true", [], {}]
    if numbers and "stages" not in kind:
        low, high = float(numbers[2]), float(numbers[3])
        if numbers[1] == "integer":
            low, high = int(low), min(int(high), 2**53)
            good = [min(low + 2, high), low, high]
            return good, [low - 1, high + 1, -2**63, 1.5, "1", [], {}, True]
        good = [low + (min(high, low + 2) - low) / 4, low, high]
        return good, [low - 1e-3 * (abs(low) + 1), high * 1.01 + 1, -1e308, "1", [], {}, True]
    if numbers or "stages" in kind:
        return [1], [-1, 3, 1.5, "1", [], {}]
    if words:
        return words[1].split("|"), ["nonsense", "", 1, [], True, words[1].split("|")[0] + "\0x"]
    if kind.startswith("text"):
        return ["EUR"], [1, [], {}, True, "a\nb", "\x1b[2J", "x" * 4000, "a\0b"]
    if kind.startswith("date"):
        return ["2026-02-03"], ["2026-13-01", "2026-2-3", 1, [], {}, "2026-01-01\0"]
    if kind.startswith("integer"):
        return [5], [-1, 1.5, "1", [], {}, True, 2**53 + 1]
    if kind.startswith("replicas"):
        return [1, 2], [0, -1, 1.5, "1", [], {}]
    return [], [1e300]


def check(path, kind):
    """Failures of one key."""
    good, bad = values(kind)
    found = []
    last = path.rsplit(".", 1)[-1]

    def refused(study, how):
        name, code, out, err = ask(study, *how)
        lines = err.strip().split("\n")
        says_key = last in err or "holds \\u0000" in err  # which names what stands in front
        if code != 2 or out or len(lines) != 1 or name not in err or not says_key:
            text = json.dumps(study)[-200:]
            found.append(f"{how[0]} {path} {text}: {code} {out[:80]} {err[:200]}")

    for value in bad:
        refused(study_of(path, value), ["simulate", "--json"])
        if good and not path.startswith(FIXED):
            axis = study_of(path, good[0])
            axis["vary"] = {path: [good[0], value]}
            refused(axis, ["study", "--json"])
    for value in good:
        name, code, out, err = ask(study_of(path, value), "simulate", "--json")
        played = name, code, out, err
        if code is not None and (code < 0 or code > 3):
            found.append(f"simulate {path}={value}: {code} {err[:200]}")
        if code != 0:
            if code in (2, 3) and (name not in err or len(err.strip().split(chr(10))) != 1):
                found.append(f"simulate {path}={value}: {err[:200]}")
            continue
        _, code, out, err = ask(study_of(path, value), "run", "--json")
        if code is None:
            continue
        if code == 2:
            if last not in err and path.split(".")[-2] not in err and str(value) not in err:
                found.append(f"run {path}={value}: {err[:200]}")
        elif code != 0:
            found.append(f"run {path}={value}: {code} {err[:200]}")
        elif json.loads(out)["measured_ns"] != json.loads(played[2])["rows"][0]["total_ns"]:
            found.append(f"run {path}={value}: another time than simulate's")
    return found


def simulated_ns(study):
    """Of all iterations; None where it cannot be."""
    _, code, out, _ = ask(study, "simulate", "--json")
    return json.loads(out)["rows"][0]["total_ns"] if code == 0 else None


def check_trained(path, kind):
    """Failures of one key on device cpu, which trains a small model."""
    small = {"model": {"base": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "vocab_size": 256},
             "execution": {"text": "text"}}
    found = []

    def of(study):
        study["training"].setdefault("sequence_length", 16)
        return {**study, **small} if "trace" not in study else study

    for value in values(kind)[0][:1 if path == "pipeline.stages" else 3]:
        study = of(study_of(path, value))
        played = simulated_ns(study)
        if played is None or path.startswith(("model", "execution", "trace")):
            continue
        _, code, _, err = ask(study, "run", "--json", "--device", "cpu")
        is_changed = played != simulated_ns(of(copy.deepcopy(BASE)))
        is_trained = path.startswith(TRAINED) or not (is_changed or path.startswith(NOT_TRAINED))
        if code == 0 and value and not is_trained:
            found.append(f"run --device cpu takes {path}={value} and does it not")
        is_named = any(word in err for word in path.split(".")[-2:] + ["device cpu"])
        if code not in (0, None) and not (code == 2 and is_named) and "out of memory" not in err:
            found.append(f"run --device cpu {path}={value}: {code} {err[:200]}")
    return found


def main():
    """All keys, and keys with zeros inside."""
    table = subprocess.run([DYNMO, "simulate", "--keys"], capture_output=True, text=True,
                           check=True)
    keys = re.findall(r"^([a-z]\S*?)(?:: ?(.*))?$", table.stdout, re.M)
    assert len(keys) > 100
    failures = []
    recorded = os.path.abspath("../traces/recorded/gpt-freezing-cpu.csv.gz")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([DYNMO, "import", "csv", recorded, "-o", "t.db"], capture_output=True,
                       check=True)
        with open("text", "w", encoding="ascii") as file:
            file.write("the quick brown fox jumps over the lazy dog. " * 200)
        own = [key for key in keys if key[1].split(";")[0] not in ("object", "array of objects")]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for found in pool.map(lambda key: check(*key) + check_trained(*key), own):
                failures += found
        for text in ('{"schema":"dynmo-study/1","pipeline\\u0000x":{}}',
                     '{"schema":"dynmo-study/1\\u0000","pipeline":{"stages":2}}'):
            name, code, _, err = ask(text, "simulate")
            if code != 2 or name not in err:
                failures.append(f"{text}: {code} {err}")
    for line in failures:
        print("FAILED:", line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
