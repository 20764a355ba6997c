# The manual page that dynmo prints is correct mdoc. Usage: manual.sh DYNMO
set -eu
if ! command -v mandoc >/dev/null; then
    echo 'skipped: no mandoc'
    exit 77
fi
page=$(mktemp)
trap 'rm -f "$page"' EXIT
"$1" manual >"$page"
mandoc -T lint -W warning "$page"
