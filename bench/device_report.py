"""What bench/device.sh left, as device.json and as a page: device_report.py OUT BUNDLE."""
import json
import os
import sys


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def read_json(path):
    text = read(path)
    start = text.find("{")
    try:
        return json.loads(text[start:]) if start >= 0 else None
    except ValueError:
        return None


def read_parts(out):
    parts = {}
    for line in read(os.path.join(out, "parts.txt")).splitlines():
        name, status, seconds = line.split()
        parts[name] = {"status": int(status), "seconds": int(seconds)}
    return parts


def read_bits(text):
    """By graph the hash of its outputs, or None, and how many calls changed it."""
    rows = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if rest.startswith("{"):
            row = json.loads(rest)
            rows[name] = {"bits": row["bits"], "changes": row["bit_changes"], "calls": row["bit_calls"],
                          "parts": row["parts"]}
        elif rest == "failed":
            rows[name] = {"bits": None}
    return rows


def compare_anchors(out, bundle):
    rows = read_bits(read(os.path.join(out, "bits.txt")))
    soft = read_bits(read(os.path.join(bundle, "bench", "expected", "anchors.txt")))
    for name, row in rows.items():
        row["soft"] = soft.get(name, {}).get("bits")
        row["equal"] = None if row["soft"] is None or row["bits"] is None else row["soft"] == row["bits"]
    return rows


def compare_cases(out, bundle, part):
    got = read_json(os.path.join(out, part + ".txt"))
    if got is None:
        return None
    soft = read_json(os.path.join(bundle, "soft.json")) or {"cases": []}
    soft = {c["name"]: c.get("bits") for c in soft["cases"]}
    both = [c for c in got["cases"] if c.get("bits") and soft.get(c["name"])]
    facts = {key: got[key] for key in ("passed", "failed", "skipped", "compiled", "whole")}
    facts["failures"] = {c["name"]: c.get("reason") for c in got["cases"] if c["status"] == "FAIL"}
    facts["bits_compared"] = len(both)
    facts["bits_differ"] = [c["name"] for c in both if c["bits"] != soft[c["name"]]]
    return facts


def print_cases(part, cases):
    if not cases:
        return
    print("ONNX cases (%s): " % part +
          "%(passed)d passed, %(failed)d failed, %(skipped)d skipped; %(whole)d of %(compiled)d with "
          "every node on the device; bits of %(bits_compared)d compared" % cases)
    print("  other bits: %d %s" % (len(cases["bits_differ"]), " ".join(cases["bits_differ"][:40])))
    for name, why in list(cases["failures"].items())[:60]:
        print("  FAIL %s: %s" % (name, (why or "")[:160]))


def print_summary(result):
    print(result["facts"])
    for name, part in result["parts"].items():
        print("%-10s %s, %d s" % (name, {0: "ok", 124: "OUT OF TIME", 137: "OUT OF TIME"}.get(
            part["status"], "status %d" % part["status"]), part["seconds"]))
    for name, row in result["anchors"].items():
        judged = {True: "the bits of the software device", False: "OTHER BITS than the software device",
                  None: "nothing to compare with"}[row["equal"]] if row["bits"] else "FAILED"
        print("%-24s %s%s" % (name, judged, "" if not row.get("changes") else
                              "; %d of %d calls differ" % (row["changes"], row["calls"])))
    for part in ("conform", "hip"):
        print_cases(part, result[part])
    for name, text in result["texts"].items():
        if text:
            print("%s:\n%s" % (name, text.rstrip()))
    for name in ("speed", "workloads"):
        for row in (result[name] or {}).get("rows", []):
            print(row.get("text", ""))


def main():
    out, bundle = sys.argv[1:3]
    result = {"facts": read(os.path.join(out, "facts.txt")), "parts": read_parts(out),
              "backends": read(os.path.join(out, "backends.txt")), "anchors": compare_anchors(out, bundle),
              "conform": compare_cases(out, bundle, "conform"), "hip": compare_cases(out, bundle, "hip"),
              "speed": read_json(os.path.join(out, "speed.json")),
              "workloads": read_json(os.path.join(out, "workloads.json")),
              "graphs": read_json(os.path.join(out, "graphs.json")),
              "models": read_json(os.path.join(out, "models.json")),
              "hip_models": read_json(os.path.join(out, "hip_models.json")),
              "texts": {name: read(os.path.join(out, name + ".txt")) for name in ("graphs", "models", "hip_models")},
              "sanitizers": {tool: [line for line in read(os.path.join(out, tool + ".txt")).splitlines()
                                    if "SUMMARY" in line or line.startswith("==") and ".stir" in line]
                             for tool in ("memcheck", "racecheck", "synccheck")}}
    with open(os.path.join(out, "device.json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    print_summary(result)


if __name__ == "__main__":
    main()
