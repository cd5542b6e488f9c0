"""The text of a build.ninja: rules, edges in the order to begin with, objects in link order."""

from __future__ import annotations

from recipe import CSRC

DEPENDENCIES = "$flags -MD -MF $out.d -c $in -o $out"
# What compiles longest begins first, so that no processor is left with it at the end.
LONGEST = ("cpu/pool/", "cpu/winners/winners", "cpu/pool_grad/", "cpu/mvn/rows", "cpu/mvn/tiles")


def object_of(rule, source):
    """The file that a rule makes of a source of csrc, or of one that the build has written."""
    base = CSRC if CSRC in source.parents else source.parent
    return f"{rule}/{source.relative_to(base).as_posix().replace('/', '_')}.o"


def define(name, value):
    return f"'-D{name}=\"{value}\"'"


def write_once(file, text):
    if not file.exists() or file.read_text() != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


class Ninja:
    """Rules, then one edge for each object, in link order; `flags_of` has sources' own flags."""

    def __init__(self, flags_of=()):
        self.rules, self.objects, self.headers = ["ninja_required_version = 1.5"], [], {}
        self.first, self.lines = [], []  # edges: those that are begun before all others, the rest
        self.flags_of = dict(flags_of)

    def rule(self, name, command, dependencies=True):
        command = " ".join(str(part) for part in command)
        self.rules += [f"rule {name}", f"  command = {command}", f"  description = {name} $out"]
        if dependencies:
            self.rules += ["  depfile = $out.d", "  deps = gcc"]

    def compile(self, rule, source, more=""):
        self.objects.append(object_of(rule, source))
        header = self.headers.get(rule)
        needs = f" | {header}" if header else ""
        first = f"-include {header.removesuffix('.gch')} " if header else ""
        own = next((flags for name, flags in self.flags_of.items() if source == CSRC / name), "")
        is_long = source.as_posix().startswith(tuple(str(CSRC / name) for name in LONGEST))
        edge = [
            f"build {self.objects[-1]}: {rule} {source}{needs}",
            f"  flags = {first}{own}{more}",
        ]
        (self.first if is_long else self.lines).extend(edge)

    def precompile(self, folder, rule, names):
        """Compiles headers once; every later source of the rule includes them first."""
        header = f"{rule}_parts.h"
        write_once(folder / header, "".join(f"#include <{name}>\n" for name in names))
        self.first += [f"build {header}.gch: {rule} {header}", "  flags = -x c++-header"]
        self.headers[rule] = f"{header}.gch"

    def link(self, target, objects, flags=(), needs=()):
        """A target of objects; `needs` are files it is linked with that are named in `flags`."""
        more = f" | {' '.join(map(str, needs))}" if needs else ""
        self.lines.append(f"build {target}: link {' '.join(objects)}{more}")
        self.lines.append(f"  flags = {' '.join(map(str, flags))}")
        self.lines.append(f"default {target}")

    def write(self, folder):
        write_once(folder / "build.ninja", "\n".join([*self.rules, *self.first, *self.lines, ""]))
