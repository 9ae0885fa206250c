#!/usr/bin/env bash
# One page about a model: what it holds, that it is whole HTML which refers to nothing, that names of a
# model cannot become markup, and what the command says of bad places.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
digits=$STATOR_SOURCE/examples/digits/digits.onnx

cat >"$work/check.py" <<'END'
"""check.py PAGE TEXT...: the page's elements close, nothing is loaded from elsewhere, no script, and each TEXT
stands in what a reader sees."""
import html.parser, sys

class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.words = [], []
    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "iframe", "img"), tag
        for key, value in attrs:
            assert key not in ("src", "srcset") and not key.startswith("on"), (tag, key)
            assert "href" not in key or value.startswith("#"), (tag, value)
        if tag in ("html", "table", "details", "svg", "style", "h1", "h2", "code", "small", "meter"):
            self.open.append(tag)
    def handle_endtag(self, tag):
        if self.open and tag in ("html", "table", "details", "svg", "style", "h1", "h2", "code", "small", "meter"):
            assert self.open.pop() == tag, tag
    def handle_data(self, data):
        self.words.append(data)

page = Page()
text = open(sys.argv[1], encoding="utf-8").read()
page.feed(text)
page.close()
assert not page.open, page.open
seen = " ".join(" ".join(page.words).split())
for wanted in sys.argv[2:]:
    assert wanted in seen, (wanted, seen[:2000])
END
page() { python3 "$work/check.py" "$@" || fail "page $1"; }

"$STATOR" report "$digits" --backend eager --dim N=3 --repeat 2 -o "$work/a.html" >"$work/out" || fail "status $?"
[ ! -s "$work/out" ] || fail "it says: $(cat "$work/out")"
page "$work/a.html" digits.onnx "13 on eager" "f32[N, 1, 8, 8]" "Steps of graph.0 on eager" "conv /0/0.0/Conv" "the median of 2"

grep -q '<meta name="viewport"' "$work/a.html" || fail "no viewport"
page "$work/a.html" "Steps by time" "together"

# Hints are on the page, and not on stderr.
if "$STATOR" backends --probe | grep -qE '^inductor-cpu +AVAILABLE'; then
    printf 'stir 1\ngraph (%%x: f64[256, 512], %%w: f64[512, 256]) {\n  %%y = matmul(%%x, %%w)\n  return %%y\n}\n' >"$work/h.stir"
    "$STATOR" report "$work/h.stir" --backend inductor-cpu -o "$work/h.html" >"$work/out" 2>&1 || fail "hints: status $?"
    [ ! -s "$work/out" ] || fail "it says: $(cat "$work/out")"
    page "$work/h.html" "Hints" "of f64[256, 512] and f64[512, 256], 67.1 Mflop, runs as generated loops"
fi

# At 375 pixels the page does not scroll sideways, as a browser lays it out.
if browser=$(command -v chromium); then
    printf '<!DOCTYPE html><iframe id=f src="a.html" width=375 height=900></iframe><pre id=o></pre><script>onload=()=>{%s}</script>' \
        'const d=f.contentDocument.documentElement;o.textContent="wide:"+(d.scrollWidth-d.clientWidth)' >"$work/w.html"
    "$browser" --headless=new --no-sandbox --disable-gpu --disable-web-security --user-data-dir="$work/chr" \
        --dump-dom "file://$work/w.html" 2>/dev/null >"$work/dom" || echo "the browser does not run"
    ! grep -q 'wide:[1-9]' "$work/dom" || fail "the page scrolls sideways: $(grep -o 'wide:[0-9]*' "$work/dom")"
fi

# Nothing runs, and no column of times.
"$STATOR" report "$digits" --backend eager --repeat 0 -o "$work/b.html" || fail "repeat 0: status $?"
page "$work/b.html" "13 on eager"
if grep -q 'ms a call' "$work/b.html"; then fail "times of no call"; fi

# Names of a model are text.
cat >"$work/<b>&.stir" <<'END'
stir 1
graph @main(%x "<script>alert(1)</script>": f32[2]) {
  %a = exp(%x) @"<img src=x onerror='1'>\"&amp;":Exp
  return "</table><h1>": %a
}
END
"$STATOR" report "$work/<b>&.stir" --backend eager -o "$work/c.html" --json >"$work/out" || fail "names: status $?"
page "$work/c.html" "<b>&.stir" "<script>alert(1)</script>" "<img src=x onerror='1'>"
python3 -c "import json,sys; assert json.load(open(sys.argv[1])) == {'file': sys.argv[2]}" "$work/out" "$work/c.html" ||
    fail "json: $(cat "$work/out")"

try() { status=0; "$STATOR" report "$@" >"$work/out" 2>&1 || status=$?; }
try "$digits"
[ "$status" = 2 ] || fail "no -o: status $status"
try "$digits" -o "$work/none/x.html"
[ "$status" = 3 ] || fail "no folder: status $status"
try "$work/none.onnx" -o "$work/x.html"
[ "$status" = 3 ] && [ ! -e "$work/x.html" ] || fail "no model: status $status"
status=0
(ulimit -f 4; "$STATOR" report "$digits" --backend eager -o "$work/a.html") >"$work/out" 2>&1 || status=$?
[ "$status" = 3 ] || fail "full: status $status"
page "$work/a.html" "13 on eager" # the old one

"$STATOR" backends --probe | grep -qE '^inductor-cpu +AVAILABLE' || exit 0
"$STATOR" report "$digits" --backend inductor-cpu --dim N=4 -o "$work/d.html" || fail "inductor-cpu: status $?"
page "$work/d.html" "17 on inductor-cpu" "call conv" "k4_reduce_window" "/0/0.2/Relu"
[ "$(grep -c '<meter' "$work/d.html")" = 7 ] || fail "a step has no time"
