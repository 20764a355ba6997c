# The manual page that dynmo prints is correct mdoc. Usage: manual.sh DYNMO
set -eu
if ! command -v mandoc >/dev/null; then
    echo 'skipped: no mandoc'
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" manual >"$folder/dynmo.1"
mandoc -T lint -W warning "$folder/dynmo.1"
