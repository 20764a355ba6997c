# The recorder for PyTorch. Skips where torch is not installed.
# Usage: recorder.sh DYNMO
python=${PYTHON:-python3}
if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "skipped: $python has no torch"
    exit 77
fi
"$python" -W ignore cli/recorder.py ../traces/recorder
