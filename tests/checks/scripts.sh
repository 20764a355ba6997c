# Every shell script passes shellcheck.
set -eu
if ! command -v shellcheck >/dev/null; then
    echo 'skipped: no shellcheck'
    exit 77
fi
cd "$(dirname "$0")/../.."
# Those that are only ever run as `sh FILE` have no #! line.
find tests -name '*.sh' -exec shellcheck --shell=sh --external-sources --source-path=tests {} +
grep -srlE '^#!/bin/(sh|bash)$' .ci tests analysis traces models | xargs shellcheck
