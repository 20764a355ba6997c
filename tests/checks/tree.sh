# No file of the tree names a path of somebody's machine, has blanks at a line's end or unfinished
# business, or is large.
set -eu
cd "$(dirname "$0")/../.."
if ! git rev-parse --git-dir >/dev/null 2>&1; then
    echo 'skipped: not a git checkout'
    exit 77
fi
failed=0
if git grep -nIE '(^|[^A-Za-z0-9_.})])/(work|farm|root|home|tmp|var/tmp|Users)/'; then
    echo 'error: paths of a machine'
    failed=1
fi
if git grep -nI ' $' -- ':!LICENSE' ':!*.svg' ':!tests/golden'; then
    echo 'error: blanks at the end of a line'
    failed=1
fi
if git grep -nIE '(TO''DO|FIX''ME|XX''X)\b'; then
    echo 'error: unfinished'
    failed=1
fi
if git ls-files -z | xargs -0 -r du -k --apparent-size | awk '$1 > 1024' | grep .; then
    echo 'error: larger than 1 MiB'
    failed=1
fi
exit $failed
