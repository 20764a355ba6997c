# Every C source and header is as clang-format 14 writes it (.clang-format).
set -eu
root=$(dirname "$0")/../..

formatter=''
for candidate in clang-format-14 clang-format; do
    case $($candidate --version 2>/dev/null) in
    *'version 14.'*) formatter=$candidate && break ;;
    esac
done
if [ -z "$formatter" ]; then
    echo 'skipped: no clang-format 14'
    exit 77
fi
cd "$root"
find base balance sim exec models traces analysis cli tests \
    \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) -print0 2>/dev/null |
    xargs -0 "$formatter" --dry-run --Werror
