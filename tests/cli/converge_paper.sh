# dynmo converge: the claims that it searches, and the table of the paper's bound, beside what they are made of.
# usage: converge_paper.sh DYNMO
. cli/expect.sh

# The table for a paper: its rows are what a sweep and a verdict say, in both forms.
"$dynmo" converge --paper --nodes 4,16 --instances 5 --csv >paper.csv || fail 'the table as CSV'
"$dynmo" converge --paper --nodes 4,16 --instances 5 >paper.tex || fail 'the table as LaTeX'
"$dynmo" converge --nodes 16 --graph ring --instances 5 --json >ring.json || fail 'a ring'
"$dynmo" converge --verdict --json >claims.json || fail 'claims'
python3 - <<'END' || fail 'the table differs from what it is made of'
import csv, json
rows = list(csv.DictReader(open('paper.csv')))
latex = [line for line in open('paper.tex') if line.count(' & ') > 0]
assert len(rows) == len(latex) - 1
assert all(line.replace(r'\&', '').count('&') == 10 and line.endswith(' \\\\\n') for line in latex)
ring = json.load(open('ring.json'))
row = {key: int(value) if value.isdigit() else value for key, value in next(
    r for r in rows if r['condition'] == 'ring' and r['size'] == '16').items()}
assert (row['measured_median'], row['measured_max']) == (ring['rounds']['median'], ring['rounds']['max'])
assert (row['bound_printed'], row['bound_repaired']) == (ring['bound_paper'], ring['bound_repaired'])
assert row['bound_printed_rounds'] == 16 * row['bound_printed'] and row['violations'] == 0
for claim in json.load(open('claims.json')):
    for case in claim['cases']:
        row = next(r for r in rows if (r['claim'], r['condition']) == (claim['name'], case['condition']))
        assert (row['tried'], row['violations']) == (str(case['examined']), str(case['violations']))
        assert (case['smallest_violation'] or '') in row['counterexample']
END
for claim in lemma-1 lemma-2-potential lemma-2-rounds termination guarantee released-code theorem-r; do
    grep -qF "{\"name\":\"$claim\"," claims.json || fail "no $claim"
done

exit $failed
