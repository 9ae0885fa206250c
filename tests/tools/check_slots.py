#!/usr/bin/env python3
"""docs/abi.md, section 9, says of every slot of a plugin's descriptors whether this version calls it: every
function pointer of these structs in plugin.h has its row, and the table names no other.

usage: check_slots.py SOURCE      status 0 when header and table agree; prints what does not"""
import os
import re
import sys

STRUCTS = ["stator_plugin", "stator_backend", "stator_frontend", "stator_pass", "stator_oplib_op"]


def slots_of(header, name):
    body = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (name, name), header, re.S).group(1)
    return re.findall(r"\(\*(\w+)\)\(", body)


def rows_of(page):
    table, struct = {}, None
    section = page[page.index("## 9. "):]
    for row in re.findall(r"^\|(.*)\|$", section[:section.index("**Phases.**")], re.M):
        cells = [c.strip() for c in row.split("|")]
        struct = cells[0].strip("`") or struct
        for slot in re.findall(r"`(\w+)`", cells[1]):
            table[struct, slot] = cells[2]
    return table


def main():
    source = sys.argv[1]
    with open(os.path.join(source, "include", "stator", "plugin.h")) as file:
        header = file.read()
    with open(os.path.join(source, "docs", "abi.md")) as file:
        table = rows_of(file.read())
    wanted = {(name, slot) for name in STRUCTS for slot in slots_of(header, name)}
    wrong = ["%s.%s has no row" % key for key in sorted(wanted - set(table))]
    wrong += ["%s.%s is no slot" % key for key in sorted(set(table) - wanted)]
    wrong += ["%s.%s: '%s' is neither yes nor no" % (*key, says) for key, says in sorted(table.items())
              if says not in ("yes", "no")]
    for line in wrong:
        print("BAD", line)
    print("%d slots, %d findings" % (len(wanted), len(wrong)))
    return bool(wrong)


sys.exit(main())
