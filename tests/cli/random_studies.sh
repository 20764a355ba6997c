# 200 random studies, the same each time; other seeds by hand. Skips where there is no Python.
# Usage: random_studies.sh DYNMO, in tests/
python=${PYTHON:-python3}
if ! "$python" -c '' 2>/dev/null; then
    echo "skipped: there is no $python"
    exit 77
fi
"$python" cli/random_studies.py "$1" 200 1
