"""Tables and the chart of a result of bench/peers.py. A result is the dictionary that goes to --json."""
import json
import math
import os
import sys

PEERS = (("eager", "eager"), ("compile", "compile"), ("autotune", "max-autotune"), ("ort", "ONNX Runtime"),
         ("openvino", "OpenVINO"))
RUNTIMES = ("ort", "openvino")  # peers that are not PyTorch
SOME_LIMITS = {"fma_f32": "FMA f32", "dot_bf16": "bf16 dot", "dot_i8": "int8 dot", "copy_nt": "copy, non-temporal",
               "read_prefetch": "read, prefetched"}
NAN = float("nan")


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


# ---- what a row says ----

def ours(row):
    for c in row["candidates"].values():
        if c["ours"]:
            return c if "median_s" in c else None
    return None


def peer(row, who, malloc):
    c = row["candidates"].get(f"{who}/{malloc}")
    return c if c and "median_s" in c else None


def best(row, malloc, without=()):
    """The peer of the least median: its name and facts."""
    found = [(c["median_s"], c["who"], c) for c in row["candidates"].values()
             if not c["ours"] and c["malloc"] == malloc and "median_s" in c and c["who"] not in without]
    return min(found)[1:] if found else (None, None)


def ratio(row, malloc=None, without=()):
    """Median of the per-round ratios best peer / ours; without malloc the lower of the two columns."""
    if malloc is None:
        values = [v for v in (ratio(row, "default"), ratio(row, "tuned")) if not math.isnan(v)]
        return min(values) if values else NAN
    us, them = ours(row), best(row, malloc, without)[1]
    if not us or not them:
        return NAN
    return median([t / o for t, o in zip(them["times_s"], us["times_s"])])


def fraction(row):
    """Median over rounds of the time that the limit allows over ours."""
    us, limit = ours(row), row.get("limit")
    if not us or not limit:
        return NAN
    return median([b / t for b, t in zip(limit["bounds_s"], us["times_s"])])


def cold(c):
    """Making the program, and what its first call took longer than the others, with an empty cache: the median of
    Stator's starts, a peer's one."""
    return made_median(c, "cold") if c else NAN


def made(times, call_s):
    return times["compile_s"] + max(0.0, times["first_call_s"] - call_s)


def made_median(c, starts):
    times = c.get(starts) or [c]
    times = [times] if isinstance(times, dict) else times  # a result of one start
    return median([made(t, c["median_s"]) for t in times])


def warm(row, who):
    """The same in later processes: Stator's have only that task, a peer's is the one with the tuned malloc."""
    if who is None:
        c = ours(row)
        return made_median(c, "warm") if c and "warm" in c else NAN
    return cold(peer(row, who, "tuned")) if peer(row, who, "default") else NAN


def geomean(values):
    kept = [v for v in values if not math.isnan(v) and v > 0]
    return math.exp(sum(map(math.log, kept)) / len(kept)) if kept else NAN


def met(value, goal):
    return "" if math.isnan(value) or not goal else ("yes" if value >= goal else "no")


# ---- numbers as text ----

def number(value, digits=3):
    if value is None or math.isnan(value):
        return "-"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if abs(value) < 10 ** digits else 0
    return f"{value:.{min(places, 6)}f}"


QUIET = 0.05    # share of the cores that others may take before a row says little


def disturbed(result):
    """A sentence when others used the machine, else nothing."""
    loud = [r.get("foreign_cpu", 0) for r in result["rows"] if r.get("foreign_cpu", 0) > QUIET]
    if not loud:
        return ""
    return (f"The machine was not quiet: in {len(loud)} of {len(result['rows'])} rows others took {min(loud):.0%} to "
            f"{max(loud):.0%} of its cores. These rows show that the run works; as measurements they say little.")


def counted(threads):
    return f"{threads} thread{'s' if threads > 1 else ''}"


def ms(c):
    return number(c["median_s"] * 1e3) if c else "-"


def mb(value):
    return number(value / 1e6) if value is not None else "-"


# ---- tables: each is (title, columns, rows of strings) ----

def verdict(row):
    """`yes` when the ratio reaches the goal in both columns; nothing where a column or a goal is missing."""
    both = [met(ratio(row, m), g) for m, g in zip(("default", "tuned"), row.get("goal", []))]
    if row["group"] == "apart" or not both or "" in both:
        return ""
    return "yes" if both == ["yes", "yes"] else "no"


def goals(row):
    low, high = row.get("goal", [0, 0])
    if row["group"] == "apart":
        return "-"
    return number(low) if low == high else f"{number(low)} / {number(high)}"


def ratios_table(rows):
    columns = ["workload", "stator ms", "best peer", "ratio", "to PyTorch", "best, tuned", "ratio", "to PyTorch"]
    columns += ["goal", "met", "limit", "of it", "goal", "other load"]
    out = []
    for row in rows:
        cells = [row["name"], ms(ours(row))]
        for malloc in ("default", "tuned"):
            who, c = best(row, malloc)
            cells += [f"{dict(PEERS)[who]} {ms(c)}" if c else "-", number(ratio(row, malloc)),
                      number(ratio(row, malloc, RUNTIMES))]
        limit = row.get("limit")
        cells += [goals(row), verdict(row), SOME_LIMITS[limit["name"]] if limit else "-", number(fraction(row)),
                  number(row["limit_goal"]) if row.get("limit_goal") else "", f"{row.get('foreign_cpu', 0):.0%}"]
        out.append(cells)
    return "Ratios", columns, out


def times_table(rows):
    backends = list(dict.fromkeys(c["who"] for row in rows for c in row["candidates"].values() if c["ours"]))
    columns = ["workload"] + ["stator " + b for b in backends] + [t for _, t in PEERS]
    columns += [f"{t}, tuned" for _, t in PEERS]
    out = []
    for row in rows:
        mine = [row["candidates"].get(b, {}) for b in backends]
        out.append([row["name"]] + [ms(c if "median_s" in c else None) for c in mine] +
                   [ms(peer(row, who, m)) for m in ("default", "tuned") for who, _ in PEERS])
    return "Milliseconds a call, medians", columns, out


def compile_table(rows):
    columns = ["workload", "stator cold s", "warm s", "first call ms", "eager first call ms", "compile cold s",
               "warm s", "max-autotune cold s", "warm s", "ONNX Runtime s", "compile / stator, cold",
               "stator cold / warm"]
    out = []
    for row in rows:
        us = ours(row)
        c, a, o = (peer(row, who, "default") for who in ("compile", "autotune", "ort"))
        firsts = [number((x["compile_s"] + x["first_call_s"]) * 1e3) if x else "-"
                  for x in (us, peer(row, "eager", "default"))]
        out.append([row["name"], number(cold(us)), number(warm(row, None)), *firsts, number(cold(c)),
                    number(warm(row, "compile")), number(cold(a)), number(warm(row, "autotune")), number(cold(o)),
                    number(cold(c) / max(cold(us), 1e-9)) if us and c else "-",
                    number(cold(us) / max(warm(row, None), 1e-9)) if us else "-"])
    return "Making the program", columns, out


def planned(us):
    """Workspace and outputs as planned; files of before have what a call took beyond the compiled program."""
    return us.get("workspace_bytes", us["call_bytes"]) + us.get("output_bytes", 0)


def memory_table(rows):
    columns = ["workload", "stator peak MB", "eager peak MB", "ratio", "eager without imports", "ONNX Runtime peak MB",
               "stator workspace + outputs MB", "torch live peak MB", "ratio", "scratch MB", "constants read MB",
               "packed MB", "of it Winograd MB", "weights MB"]
    out = []
    for row in rows:
        us, e, o = ours(row), peer(row, "eager", "default"), peer(row, "ort", "default")
        live = row.get("live_peak_bytes")
        out.append([row["name"], mb(us and us["peak_rss"]), mb(e and e["peak_rss"]),
                    number(us["peak_rss"] / e["peak_rss"]) if us and e else "-",
                    mb(e and e["peak_rss"] - e["rss_imports"]), mb(o and o["peak_rss"]), mb(us and planned(us)),
                    mb(live), number(planned(us) / live) if us and live else "-",
                    mb(us and us.get("scratch_bytes")), mb(us and us.get("constant_bytes")),
                    mb(us and us.get("packed_bytes")), mb(us and us.get("winograd_bytes")),
                    mb(row.get("weight_bytes"))])
    return "Memory", columns, out


def twins_table(result, rows):
    by_name = {r["name"]: r for r in rows}
    out = []
    for name, twin, goal in result.get("twins", []):
        a, b = (ours(by_name[n]) if n in by_name else None for n in (name, twin))
        if a and b:
            value = b["median_s"] / a["median_s"]
            out.append([name, twin, number(value), number(goal), met(value, goal)])
    return "Stator against itself", ["workload", "against", "ratio", "goal", "met"], out


def failures(rows):
    out = []
    for row in rows:
        if "error" in row:
            out.append(f"{row['name']}: {row['error']}")
        out += [f"{row['name']}, {key}: {c['error']}" for key, c in row["candidates"].items() if "error" in c]
    return out


def alone(rows):
    """A sentence for each runtime: the mean beside it alone, and the rows that it wins clearly."""
    out = []
    for who in RUNTIMES:
        others = tuple(w for w, _ in PEERS if w != who)
        found = {r["name"]: ratio(r, "default", others) for r in rows}
        found = {name: value for name, value in found.items() if not math.isnan(value)}
        if found:
            main = [found[r["name"]] for r in rows if r["group"] == "main" and r["name"] in found]
            low = ", ".join(f"{name} {number(value)}" for name, value in found.items() if value < 0.8) or "none"
            out.append(f"Beside {dict(PEERS)[who]} alone, as it comes: geometric mean of {len(main)} main rows "
                       f"{number(geomean(main))}; rows below 0.8: {low}.")
    return " ".join(out)


def means(rows):
    main = [r for r in rows if r["group"] == "main"]
    parts = [f"{number(geomean([ratio(r, m) for r in main]))} ({what})"
             for m, what in (("default", "peers as they come"), ("tuned", "peers with a tuned malloc"))]
    counted = sum(not math.isnan(ratio(r)) for r in main)
    return f"Geometric mean of the {counted} main rows: {', '.join(parts)}. {alone(rows)}"


def parts(result):
    """(threads, rows, tables) for each thread count of the run."""
    for threads in result["settings"]["threads"]:
        rows = [r for r in result["rows"] if r["threads"] == threads]
        if rows:
            tables = [make(rows) for make in (ratios_table, times_table, compile_table, memory_table)]
            yield threads, rows, [t for t in tables + [twins_table(result, rows)] if t[2]]


def line(row):
    """One workload as it is finished."""
    if "error" in row:
        return f"  {row['name']}: {row['error']}"
    who = {m: best(row, m)[0] or "-" for m in ("default", "tuned")}
    of = f", {number(fraction(row))} of {row['limit']['name']}" if "limit" in row else ""
    return (f"  {row['name']:22} {row['threads']} thr  {ms(ours(row)):>8} ms  ratio {number(ratio(row, 'default'))} "
            f"({who['default']})  tuned {number(ratio(row, 'tuned'))} ({who['tuned']}){of}, other load "
            f"{row.get('foreign_cpu', 0):.0%}")


def text(result):
    out = []
    for threads, rows, tables in parts(result):
        for title, columns, cells in tables:
            widths = [max(len(x) for x in column) for column in zip(columns, *cells)]
            out.append(f"{title}, {counted(threads)}")
            for r in [columns] + cells:
                out.append("  ".join(x.ljust(w) if i == 0 else x.rjust(w) for i, (x, w) in enumerate(zip(r, widths))))
            out.append("")
        out += [means(rows)] + failures(rows) + [""]
    return "\n".join(out + [disturbed(result)])


# ---- docs/performance.md ----

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def markdown(result):
    m, s = result["machine"], result["settings"]
    packages = ", ".join(f"{k} {v}" for k, v in result["versions"].items() if k in ("torch", "onnxruntime"))
    out = [f"{m['cpu']}, {m['cores']} cores, {m['memory_mb']} MB, Linux {m['kernel']}, huge pages {m['huge_pages']}; "
           f"Stator {m['stator']}, backend `{s['backends'][0]}`; {packages}; began {result['began']}; "
           f"{s['rounds']} rounds of {s['target_s']} s, calls of kind `{s['call']}`, denormals: {s['denormals']}. "
           + disturbed(result), "",
           "| threads | FMA f32 GFLOP/s | bf16 dot | int8 dot | copy GB/s | copy, non-temporal | triad | read | "
           "read, prefetched |", "|" + "---|" * 9]
    for r in result["limits"]["rows"]:
        names = ("fma_f32", "dot_bf16", "dot_i8", "copy", "copy_nt", "triad", "read", "read_prefetch")
        out.append(f"| {r['threads']} | " + " | ".join(number(r[n]) for n in names) + " |")
    for threads, rows, tables in parts(result):
        for title, columns, cells in tables:
            out += ["", f"### {title}, {counted(threads)}", "",
                    "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
            out += ["| " + " | ".join(r) + " |" for r in cells]
        out += ["", means(rows)]
        bad = failures(rows)
        if bad:
            out += ["", "Without a time:", ""] + [f"- {b}" for b in bad]
    return "\n".join(out)


def write_markdown(source, target):
    try:
        with open(source) as f:
            result = json.load(f)
        with open(target) as f:
            page = f.read()
    except (OSError, ValueError) as why:
        print(f"peers.py: {why}; --markdown wants a result of --json, --into a page with the lines '{BEGIN}' and "
              f"'{END}'", file=sys.stderr)
        return 1
    head, found, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    if not found or not rest:
        print(f"peers.py: {target} has no '{BEGIN}'", file=sys.stderr)
        return 1
    page, chart = f"{head}{BEGIN}\n\n{markdown(result)}\n\n{END}{tail}", svg(result)
    for path, text in ((target, page), (os.path.splitext(target)[0] + ".svg", chart)):
        with open(path, "w") as f:
            f.write(text)
    return 0


# ---- the chart: ratios on a logarithmic axis, a line at 1 ----

def escape(s):
    return s.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def svg(result):
    threads = result["settings"]["threads"][0]
    rows = [r for r in result["rows"] if r["threads"] == threads and not math.isnan(ratio(r))]
    values = [v for r in rows for v in (ratio(r, "default"), ratio(r, "tuned")) if not math.isnan(v)] or [1.0]
    low = math.floor(math.log2(min(values + [0.5])))
    high = math.ceil(math.log2(max(values + [2.0])))
    left, wide, pitch, top = 170, 560, 26, 64
    height = top + pitch * len(rows) + 34

    def x(v):
        return left + wide * (math.log2(v) - low) / (high - low)
    m = result["machine"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 60}" height="{height}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="#ffffff"/>',
           f'<text x="12" y="20" font-size="15">Best peer / Stator ({escape(result["settings"]["backends"][0])}), '
           f'{counted(threads)}, {escape(m["cpu"])}</text>',
           '<rect x="12" y="30" width="12" height="9" fill="#4878a8"/><text x="28" y="39">peers as they come</text>',
           '<rect x="160" y="30" width="12" height="9" fill="#a8c4dc"/><text x="176" y="39">with a tuned malloc</text>',
           '<text x="330" y="39">right of 1: Stator is faster; a mark is the goal</text>']
    for power in range(low, high + 1):
        at = x(2.0 ** power)
        out.append(f'<line x1="{at:.1f}" y1="{top - 8}" x2="{at:.1f}" y2="{height - 28}" '
                   f'stroke="{"#000000" if power == 0 else "#dddddd"}"/>')
        out.append(f'<text x="{at:.1f}" y="{height - 12}" text-anchor="middle">{number(2.0 ** power, 2)}</text>')
    for i, r in enumerate(rows):
        y = top + pitch * i
        out.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(r["name"])}</text>')
        for k, (malloc, colour) in enumerate((("default", "#4878a8"), ("tuned", "#a8c4dc"))):
            v = ratio(r, malloc)
            if math.isnan(v):
                continue
            a, b = sorted((x(1.0), x(v)))
            out.append(f'<rect x="{a:.1f}" y="{y + 10 * k}" width="{max(b - a, 1):.1f}" height="9" fill="{colour}"/>')
            goal = r["goal"][k]
            if r["group"] != "apart" and 2.0 ** low <= goal <= 2.0 ** high:
                out.append(f'<rect x="{x(goal) - 1:.1f}" y="{y + 10 * k - 1}" width="2" height="11" fill="#c04040"/>')
            at, anchor = (b + 4, "start") if v >= 1 else (a - 4, "end")
            out.append(f'<text x="{at:.1f}" y="{y + 10 * k + 9}" font-size="9" text-anchor="{anchor}">'
                       f'{number(v)}</text>')
    return "\n".join(out + ["</svg>", ""])
