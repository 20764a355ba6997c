"""Makes the README's table of what has been validated on which hardware, and what has not.

usage: validation_table.py [RESULTS...]
RESULTS are folders of tests/gpu/run_all.sh and tests/multigpu/run_all.sh
"""
import json
import os
import statistics
import sys

EMULATED = {
    "kernels": "yes",
    "training": "yes",
    "messages": "yes, between threads",
}


def lines_of(folder, name):
    """The objects of a file of JSON lines; none where there is no file."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


class Results:
    """What one run of a script has left."""

    def __init__(self, folder):
        self.steps = lines_of(folder, "results.jsonl")
        self.figures = lines_of(folder, "figures.jsonl")
        self.runs = lines_of(folder, "runs.jsonl")
        self.ended = {}  # step: how; the last time that it was run, if there was time for it
        for step in self.steps:
            outcome = step.get("outcome")
            if outcome and (outcome != "not run" or step["step"] not in self.ended):
                self.ended[step["step"]] = outcome
        self.facts = next((step for step in self.steps if step["step"] == "facts"), {})

    def title(self):
        if self.facts.get("device") == "cpu":
            return "a host"
        if self.facts.get("emulated"):
            return "emulated GPU"
        gpus = [gpu.strip() for gpu in self.facts.get("gpu", "").split(";") if gpu.strip()]
        names = {gpu.split(",")[0] for gpu in gpus}
        name = " and ".join(sorted(names)) or "no GPU"
        return name if len(gpus) < 2 else f"{len(gpus)} x {name}"

    def outcome(self, step):
        return {"passed": "yes", "failed": "**failed**", "stopped": "**too slow**",
                "skipped": "skipped", "beyond": "**beyond**",
                "not run": "no time"}.get(self.ended.get(step))

    def passed_of(self, prefix):
        found = [outcome for step, outcome in self.ended.items() if step.startswith(prefix)]
        if not found:
            return None
        late = found.count("not run")
        text = f"{found.count('passed')} of {len(found) - late}"
        return text + (f", {late} not run" if late else "")

    def outcomes(self, *steps):
        found = [self.outcome(step) for step in steps]
        return ", ".join(found) if all(found) else None

    def rates(self, bench, setting=""):
        return {entry["setting"]: entry["value"] for entry in self.figures
                if entry["bench"] == bench and entry["setting"].startswith(setting)}

    def speed(self, own, other, setting=""):
        """Median of our rate, and its share of the other's where both were measured."""
        ours, others = self.rates(own, setting), self.rates(other, setting)
        if not ours:
            return None
        text = f"{statistics.median(ours.values()):.0f} TFLOP/s"
        shares = [ours[key] / others[key] for key in ours if key in others]
        return text + (f", {100 * statistics.median(shares):.0f} %" if shares else "")

    def agreement(self):
        errors = [abs(run["forecast"]["error_ratio"]) for run in self.runs
                  if run["step"] in ("agreement", "replicas") and run["forecast"]["iterations"]]
        if not errors:
            return None
        return (f"{100 * statistics.median(errors):.1f} %, at most {100 * max(errors):.1f} % "
                f"({len(errors)} runs)")

    def overhead(self):
        found = [run["overhead_ns"] / run["ops"] / 1000 for run in self.runs
                 if run["step"] == "agreement"]
        return f"{statistics.median(found):.1f} us" if found else None


ROWS = [
    ("Every kernel beside plain C, fp32 and bf16", "kernels",
     lambda r: r.outcome("kernels")),
    ("The same under memcheck, racecheck, synccheck, initcheck", None,
     lambda r: r.outcomes("memcheck", "racecheck", "synccheck", "initcheck")),
    ("Training beside `cpu`; the same bits under every plan, all mechanisms", "training",
     lambda r: r.outcome("training")),
    ("The same bits on every number of stages, and through migrations", None,
     lambda r: r.outcome("same-bits-bits")),
    ("The same bits with each of the six mechanisms, which begin within the run", None,
     lambda r: r.passed_of(("same-bits-m", "same-bits-e", "same-bits-p", "same-bits-f",
                            "same-bits-s", "began-"))),
    ("Products of a layer, bf16, median; share of cuBLASLt alone", None,
     lambda r: r.speed("product_tflop_per_s", "cublaslt_alone_tflop_per_s", "bf16")),
    ("Attention forward, dense causal; share of PyTorch's SDPA", None,
     lambda r: r.speed("attention_forward_tflop_per_s", "sdpa_forward_tflop_per_s")),
    ("Attention backward, likewise", None,
     lambda r: r.speed("attention_backward_tflop_per_s", "sdpa_backward_tflop_per_s")),
    ("A trace recorded of each of the six mechanisms", None,
     lambda r: r.passed_of("trace-")),
    ("Executed against simulated from the first warm iterations: median, worst", None,
     lambda r: r.agreement()),
    ("Likewise, within the stated error", None,
     lambda r: r.passed_of("agreement-")),
    ("Time of the host per op, beside launching it, median", None,
     lambda r: r.overhead()),
    ("The node's hardware file", None,
     lambda r: r.outcome("hardware")),
    ("Activations from GPU to GPU by NCCL, with re-grouping", "messages",
     lambda r: r.outcome("messages")),
]


def main(folders):
    columns = [Results(folder) for folder in folders]
    titles = ["emulated on the host, in CI"] + [column.title() for column in columns]
    if not columns:
        titles.append("on a GPU")
    print("| | " + " | ".join(titles) + " |")
    print("|---|" + "---|" * len(titles))
    for claim, emulated, value in ROWS:
        cells = [EMULATED.get(emulated, "-")] + [value(column) or "-" for column in columns]
        if not columns:
            cells.append("not yet")
        print(f"| {claim} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
