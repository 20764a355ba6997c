"""The machine code of the module, as the compiler left it: attention on the matrix units has the
instructions that its tiles need and keeps them in registers, element-wise kernels load and store 16
bytes at once, and every architecture asked for is in.

usage: machine_code.py MODULE ARCHITECTURE...    (sm_90, sm_100; 77 without cuobjdump and
nvdisasm, which come with the CUDA Toolkit, and with the triton that PYTHON has)"""

import collections
import os
import re
import shutil
import subprocess
import sys

# Of one warp and one pair of blocks of 64 rows, heads of W: instructions as shares of W.
ATTENTION = {"forward_mma": {"HMMA": 1.0, "LDSM": 9 / 16},
             "key_value_mma": {"HMMA": 1.0, "LDSM": 5 / 8},
             "query_mma": {"HMMA": 3 / 4, "LDSM": 1 / 2}}
WIDTHS = (64, 128)
GROUP_PRODUCTS = 16  # of a warp's 32 x 32 sums, over 32 of the inner dimension
# Of 16 bytes into shared memory, not waited for, by head width: for sm_100 loops stay loops.
COPIES_LEAST = {"sm_90": {64: 28, 128: 28}, "sm_100": {64: 5, 128: 17}}
WIDE = re.compile(r"combine_elements<.*, (?:4|8)>\(|copy_pieces<16>\(")

failures = []


def expect(holds, message):
    if not holds:
        failures.append(message)


def read(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def count_instructions(module, architecture):
    """By function: how often each instruction stands in it, wide ones apart."""
    functions, counts = {}, None
    for line in read(["cuobjdump", "-arch", architecture, "-sass", module]).splitlines():
        begins = re.search(r"Function : (\S+)", line)
        stands = re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?\s*([A-Z0-9_.]+)", line)
        if begins:
            counts = functions.setdefault(begins.group(1), collections.Counter())
        elif stands and counts is not None:
            parts = stands.group(1).split(".")
            counts[parts[0] + (".128" if "128" in parts else "")] += 1
    names = read(["c++filt"] + list(functions)).splitlines()
    return dict(zip(names, functions.values()))


def check_attention(functions, architecture):
    for kernel, shares in ATTENTION.items():
        for width in WIDTHS:
            name = f"{architecture}: {kernel}<{width}>"
            found = [counts for function, counts in functions.items()
                     if f"{kernel}<{width}, " in function]
            expect(len(found) == 2, f"{name}: {len(found)} there, not text and sorted")
            for counts in found:
                for instruction, share in shares.items():
                    expect(counts[instruction] == share * width,
                           f"{name}: {counts[instruction]} {instruction}, not {share * width:g}")
                expect(counts["LDL"] + counts["STL"] == 0, f"{name}: values leave the registers")
                expect(counts["LDGSTS.128"] >= COPIES_LEAST[architecture][width],
                       f"{name}: {counts['LDGSTS.128']} copies of 16 bytes")


def check_groups(functions, architecture):
    """Products of experts: three ways round, into bf16 and fp32."""
    found = {name: counts for name, counts in functions.items() if "multiply_groups_mma<" in name}
    expect(len(found) == 6, f"{architecture}: {len(found)} products of groups")
    for name, counts in found.items():
        expect(counts["HMMA"] > 0 and counts["HMMA"] % GROUP_PRODUCTS == 0,
               f"{architecture}: {name}: {counts['HMMA']} HMMA")
        expect(counts["LDL"] + counts["STL"] == 0,
               f"{architecture}: {name}: values leave the registers")
        expect(counts["LDGSTS.128"] > 0, f"{architecture}: {name}: no copies of 16 bytes")


def check_wide(functions, architecture):
    wide = {name: counts for name, counts in functions.items() if WIDE.search(name)}
    expect(len(wide) >= 7, f"{architecture}: {len(wide)} kernels of wide elements")
    for name, counts in wide.items():
        expect(counts["LDG.128"] > 0 and counts["STG.128"] > 0 and
               counts["LDG"] <= 1,  # the number of rows, where the GPU alone knows it
               f"{architecture}: {name} loads or stores less than 16 bytes at once")


def look_in_triton():
    """Puts its programs after those of the PATH."""
    python = os.environ.get("PYTHON")
    if python is None:
        return
    where = "import importlib.util as u; print(u.find_spec('triton').submodule_search_locations[0])"
    found = subprocess.run([python, "-c", where], capture_output=True, text=True)
    if found.returncode == 0:
        os.environ["PATH"] += f":{found.stdout.strip()}/backends/nvidia/bin"


def main():
    look_in_triton()
    module, architectures = sys.argv[1], sys.argv[2:]
    if not all(shutil.which(tool) for tool in ("cuobjdump", "nvdisasm", "c++filt")):
        print("skipped: cuobjdump, nvdisasm or c++filt is missing")
        return 77
    held = read(["cuobjdump", "--list-elf", module])
    for architecture in architectures:
        expect(f".{architecture}.cubin" in held, f"no code for {architecture}")
        if f".{architecture}.cubin" not in held:
            continue
        functions = count_instructions(module, architecture)
        check_wide(functions, architecture)
        check_attention(functions, architecture)
        check_groups(functions, architecture)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


sys.exit(main())
