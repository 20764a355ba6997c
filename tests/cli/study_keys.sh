# Every key of a study, by the table that the program prints. Skips where there is no Python.
# Usage: study_keys.sh DYNMO, in tests/
python=${PYTHON:-python3}
if ! "$python" -c '' 2>/dev/null; then
    echo "skipped: there is no $python"
    exit 77
fi
"$python" cli/study_keys.py "$1"
