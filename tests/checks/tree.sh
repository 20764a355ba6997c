# No file of the tree names a path of somebody's machine, has blanks at a line's end or unfinished
# business, is large, or was left at the root by a command.
set -eu
cd "$(dirname "$0")/../.."
failed=0

# The tree's files, each ended by a zero byte; in an archive without .git all but what was built.
files() {
    git ls-files -z 2>/dev/null || find . \( -name .git -o -name 'build*' \) -prune -o -type f -print0
}

# refuse FINDINGS WHAT
refuse() {
    [ -n "$1" ] || return 0
    printf '%s\nerror: %s\n' "$1" "$2"
    failed=1
}

# lines PATTERN: where it matches in files of text.
lines() {
    files | xargs -0 grep -nIE "$1" || true
}

refuse "$(lines '(^|[^A-Za-z0-9_.})])/(work|farm|root|home|tmp|var/tmp|Users)/')" \
    'paths of a machine'
refuse "$(lines ' $' | grep -v '^\(\./\)\?LICENSE:' || true)" 'blanks at the end of a line'
refuse "$(lines '(^|[^A-Za-z])(TO''DO|FIX''ME|XX''X)($|[^A-Za-z])')" 'unfinished'
refuse "$(files | xargs -0 du -k --apparent-size | awk '$1 > 1024')" 'larger than 1 MiB'
refuse "$(files | tr '\0' '\n' | sed 's|^\./||' | grep -v / |
    grep -vE '^(\.clang-format|\.gitignore|CMakeLists\.txt|CMakePresets\.json|(CHANGELOG|README)\.md|LICENSE)$')" \
    'files at the root that do not belong there'
exit $failed
