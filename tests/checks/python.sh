# Scripts in Python compile, for any torch.
set -eu
if ! command -v python3 >/dev/null; then
    echo 'skipped: no python3'
    exit 77
fi
cd "$(dirname "$0")/../.."
find traces tests -name '*.py' | while read -r script; do
    python3 - "$script" <<'EOF'
import ast, sys
with open(sys.argv[1], encoding="utf-8") as file:
    source = file.read()
ast.parse(source, sys.argv[1])
long_lines = [n for n, line in enumerate(source.split("\n"), 1) if len(line) > 100]
if long_lines:
    sys.exit(f"{sys.argv[1]}: lines longer than 100 columns: {long_lines}")
EOF
done
