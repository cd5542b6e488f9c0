"""Builds the extension modules: writes a ninja file for each and runs it.

`cudml._core` is the product: the bindings, linked against libcudml.so.0, which holds the library
and serves C and C++ programs as well. `cudml._simt` is the same library with the CUDA kernels
compiled by the host compiler for the executor of csrc/simt; tests import it from the build folder,
and no wheel contains it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import cuda_toolkit
from build_needs import check_tools, compiler
from ninja_file import DEPENDENCIES, Ninja, define, object_of, write_once
from recipe import CSRC, LEVELS, RECIPE, ROOT, cpu_sources, sources, version

COMMON = [f"-std=c++{RECIPE['STANDARD'][0]}", f"-I{CSRC}", f"-I{ROOT / 'include'}"]
GXX = ["-fPIC", "-fvisibility=hidden", *RECIPE["WARNED"], *RECIPE["RELEASE"]]
DEBUG = [*RECIPE["DEBUG"], *GXX[:-1]]
# What the bindings call in libcudml: its version script hides the rest, and no other definition may
# take its place.
VISIBLE = ["-fvisibility=default", "-fvisibility-inlines-hidden", "-fno-semantic-interposition"]
IS_CLANG = "clang" in compiler()[-1]
SMALL, LOOPS = RECIPE["SMALL"], [*RECIPE["LOOPS"], *([] if IS_CLANG else RECIPE["GCC_LOOPS"])]
OWN_FLAGS = {
    name: " ".join(RECIPE[flags])
    for flags, names in (("UNROLLED", "UNROLLED_SOURCES"), ("COMPACT", "COMPACT_SOURCES"))
    for name in RECIPE[names]
}
# Each file of the bindings by itself spends four seconds of five on what pybind11 brings along.
BINDINGS_UNITS = 3
# These no call waits for: they are kept small, in one unit. It is linked first, because the linker
# keeps the first copy of pybind11's inline functions.
BINDINGS_SMALL = ("descriptors", "directml", "explain", "exporter", "module", "raise")
PYBIND11 = ["pybind11/pybind11.h", "pybind11/stl.h"]
# What most files of plans and loops include, compiled once for each rule: intrinsics take longest.
STANDARD = ["algorithm", "cstring", "limits", "memory", "optional", "string", "vector"]
PLANS_PARTS = [*STANDARD, "core/layout.h"]
LOOPS_PARTS = [*PLANS_PARTS, "cpu/isa/families.h", "cpu/simd/native.h"]
# A sanitizer must name the kernel's line and the call that led to it.
SANITIZED = ["-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"]
SONAME = "libcudml.so.0"
MODULE_MAP = ("module.map", "bindings/exports.map")


def is_x86_64():
    return platform.machine().lower() in ("x86_64", "amd64")


def toolkit():
    """The CUDA toolkit to build with, or None and the reason."""
    wish = os.environ.get("CUDML_CUDA", "auto")
    if wish not in ("auto", "on", "off"):
        raise SystemExit(f'CUDML_CUDA is "{wish}"; it must be auto, on or off')
    if wish == "off":
        return None, "switched off by CUDML_CUDA=off when the package was built"
    found = cuda_toolkit.find()
    if found is None and wish == "on":
        raise SystemExit("CUDML_CUDA=on, but no CUDA toolkit was found; set CUDML_CUDA_HOME")
    return found, "" if found else "no CUDA toolkit was found when the package was built"


def plain_rules(ninja, folder, command, levels=(), small=SMALL, visible=()):
    """Rules "cpp" and "plans", and the rooms of small sources that every build has."""
    ninja.rule("cpp", [*command, *visible, *levels, DEPENDENCIES])
    ninja.rule("plans", [*command, *small, *visible, *levels, DEPENDENCIES])
    ninja.precompile(folder, "plans", PLANS_PARTS)
    for room in RECIPE["ROOMS"]:
        for source in sources(room):
            ninja.compile("plans", source)


def bindings_rules(ninja, folder, command, facts, small=SMALL):
    """The rule "bindings", and the objects of csrc/bindings; returns these."""
    import pybind11

    includes = [sysconfig.get_path("include"), pybind11.get_include()]
    isystem = [part for path in includes for part in ("-isystem", path)]
    ninja.rule("bindings", [*command, "-I.", *isystem, *facts, DEPENDENCIES])
    ninja.precompile(folder, "bindings", PYBIND11)
    before = len(ninja.objects)
    cold = [source for source in sources("bindings") if source.stem in BINDINGS_SMALL]
    for unit in united(folder, "bindings_small", cold, 1):
        ninja.compile("bindings", unit, " ".join(small))
    others = [source for source in sources("bindings") if source not in cold]
    for unit in united(folder, "bindings", others, BINDINGS_UNITS):
        ninja.compile("bindings", unit)
    return ninja.objects[before:]


def united(folder, name, files, count):
    """Writes `count` sources that include the files in turn, each about as many."""
    units = [folder / f"{name}_{i}.cpp" for i in range(count)]
    for i, unit in enumerate(units):
        part = files[i * len(files) // count : (i + 1) * len(files) // count]
        write_once(unit, "".join(f'#include "{file}"\n' for file in part))
    return units


def cpu_rules(ninja, folder, command, levels):
    """csrc/cpu once per instruction set; what chooses among them, once."""
    for rule, names in (("plans", RECIPE["CPU_SMALL"]), ("cpp", RECIPE["CPU_PLAIN"])):
        for name in names:
            ninja.compile(rule, CSRC / name)
    for level, flags in levels.items():
        isa = [f"-DCUDML_ISA={level}", define("CUDML_ISA_NAME", level)]
        # The level's flags come after a file's own: "base" is small in every file.
        ninja.rule(f"cpu_{level}", [*command, *isa, DEPENDENCIES, *flags])
        ninja.precompile(folder, f"cpu_{level}", LOOPS_PARTS)
        for source in cpu_sources():
            ninja.compile(f"cpu_{level}", source)


def link_rule(ninja, command, libraries=()):
    """The rule "link"; a target's own flags say what it exports and what it is called."""
    ninja.rule("link", [*command, "-shared", "$in", "$flags", *libraries, "-o $out"], False)


def exports(folder, name, *scripts):
    """The option for a version script made of these files of csrc."""
    text = "".join((CSRC / script).read_text() for script in scripts)
    write_once(folder / name, text.replace("@VERSION@", version()))
    return f"-Wl,--version-script={name}"


def facts_of(name, why, toolkit_version="", archs=()):
    return [
        f"-DCUDML_MODULE={name}",
        define("CUDML_CUDA_WHY", why),
        define("CUDML_CUDA_TOOLKIT", toolkit_version),
        define("CUDML_CUDA_ARCHITECTURES", ",".join(archs)),
    ]


def nvcc_command(cuda):
    """nvcc behind the script that shortens its PTX; for the gates of continuous integration, it
    notes what nvcc says, too."""
    # The interpreter itself: an environment's name for it must not change the command.
    script = [Path(sys.executable).resolve(), ROOT / "tools" / "kernel_report.py"]
    if not os.environ.get("CUDML_KERNEL_REPORT"):
        return [*script, "shorten", cuda.nvcc]
    checked = ",".join(cuda_toolkit.checked_architectures())
    return [*script, "compile", checked, cuda.nvcc]


def whole_core_ninja(folder, flags, link=(), level=()):
    """The product without kernels and in one piece, with one table of loops."""
    command = [*compiler(), *COMMON, *GXX, *flags]
    ninja = Ninja()
    plain_rules(ninja, folder, command, small=[])
    bindings_rules(ninja, folder, command, facts_of("_core", "left out of this build"), [])
    for source in sources("cuda"):
        ninja.compile("cpp", source)
    cpu_rules(ninja, folder, command, {"base": level})
    link_rule(ninja, [*compiler(), *link], RECIPE["LIBRARIES"])
    ninja.link("module.so", ninja.objects, [exports(folder, *MODULE_MAP)], MODULE_MAP[:1])
    return ninja


def sanitized_core_ninja(folder, sanitize):
    """The same under a sanitizer, on x86-64 with the loops of v3."""
    watched = [f"-fsanitize={sanitize}", *SANITIZED]
    level = LEVELS["v3"] if is_x86_64() else []
    return whole_core_ninja(folder, ["-O1", *watched], watched[:1], level)


def optimized(ninja, debug):
    """Flags of plain sources, of the CPU's loops, of what is kept small, and of each level."""
    levels = LEVELS if is_x86_64() else {"base": []}
    if not debug:
        return [*RECIPE["PLAIN"], *GXX], [*LOOPS, *GXX], SMALL, levels
    ninja.flags_of = {}
    return DEBUG, DEBUG, [], {**levels, "base": []}


def cuda_rules(ninja, cuda, archs):
    """The CUDA kernels; of their files, the bindings call device.cu alone."""
    host = ",".join(RECIPE["NVCC_HOST"])
    code = [*cuda_toolkit.code_flags(archs), *RECIPE["NVCC"], f"-Xcompiler={host}"]
    code += ["-lineinfo"] if os.environ.get("CUDML_LINEINFO") == "1" else []
    ninja.rule("cuda", [*nvcc_command(cuda), *COMMON, *code, DEPENDENCIES])
    ninja.flags_of["cuda/device.cu"] = f"-Xcompiler={','.join(VISIBLE)}"
    for source in sources("cuda", "*.cu"):
        ninja.compile("cuda", source)


def core_ninja(folder, debug=False):
    """The product: every instruction set of the CPU, and kernels where there is a toolkit."""
    cxx, (cuda, why) = compiler(), toolkit()
    archs = cuda_toolkit.architectures() if cuda else []
    ninja = Ninja(OWN_FLAGS)
    plain, loops, small, levels = optimized(ninja, debug)
    command, loops = [*cxx, *COMMON, *plain], [*cxx, *COMMON, *loops]
    several = ["-DCUDML_X86_LEVELS"] if is_x86_64() else []
    plain_rules(ninja, folder, command, several, small, VISIBLE)
    for source in sources("cuda", without=["cuda/absent.cpp"] if cuda else []):
        ninja.compile("plans", source)
    if cuda:
        cuda_rules(ninja, cuda, archs)
    cpu_rules(ninja, folder, loops, levels)
    library = list(ninja.objects)
    facts = facts_of("_core", why, cuda.version if cuda else "", archs)
    bindings = bindings_rules(ninja, folder, command, facts, small)
    link_rule(ninja, [*cxx, *([] if debug else ["-s"])])
    libraries = [cuda.cudart, *RECIPE["CUDA_LIBRARIES"]] if cuda else RECIPE["LIBRARIES"]
    scripts = ("library/exports.map", "library/private.map")
    own = [
        exports(folder, "library.map", *scripts),
        f"-Wl,-soname,{SONAME}",
        *RECIPE["LINK"],
        *libraries,
    ]
    ninja.link(SONAME, library, own, ["library.map"])
    beside = [
        exports(folder, "module.map", "bindings/exports.map"),
        "-Wl,--as-needed",
        SONAME,
        "-Wl,-rpath,'$$ORIGIN/lib'",
    ]
    ninja.link("module.so", bindings, beside, [SONAME, "module.map"])
    return ninja


def simt_commands(sanitize):
    """How the compiler is called for sources that include the executor's headers, and to link."""
    include = cuda_toolkit.headers()
    if include is None:
        raise SystemExit(
            "cudml._simt needs CUDA's headers: a toolkit, or pip install "
            + " ".join(f'"{name}"' for name in cuda_toolkit.HEADER_PACKAGES)
        )
    watched = [f"-fsanitize={sanitize}", *SANITIZED] if sanitize else []
    # Equal kernels must not become one function: each has a name of its own to be counted by.
    ours = [f"-I{CSRC / 'simt'}", *COMMON, "-O1", *GXX, "-fno-ipa-icf", "-isystem", include]
    return [*compiler(), *ours, *watched], [*compiler(), *watched[:1]]


def simt_ninja(folder, sanitize):
    """The kernels for the host, unstripped: their names are read from the module's symbols."""
    command, link = simt_commands(sanitize)
    ninja = Ninja()
    ninja.rule("kernels", [*command, "-x c++", DEPENDENCIES])
    for source in sources("cuda", "*.cu"):
        ninja.compile("kernels", source)
    for other, objects in taken(sanitize).items():
        ninja.objects += [str(folder_of(*other) / name) for name in objects]
    if sanitize != "thread":
        simt_host_rules(ninja, folder, command)
    link_rule(ninja, link, RECIPE["LIBRARIES"])
    ninja.link("module.so", ninja.objects, [exports(folder, *MODULE_MAP)], MODULE_MAP[:1])
    return ninja


def simt_host_rules(ninja, folder, command):
    """Everything of `cudml._simt` but the kernels and what it takes from other builds."""
    # pybind11 keeps what two modules share apart by its version; this one shares nothing.
    facts = [*facts_of("_simt", "", "host SIMT executor"), "-DCUDML_SIMT"]
    facts.append("-DPYBIND11_INTERNALS_VERSION=1000")
    plain_rules(ninja, folder, command)
    bindings_rules(ninja, folder, command, facts)
    # ThreadSanitizer must not see the executor's own accesses, which stand in for the hardware.
    executor = [*simt_commands("")[0], "-O2", "-fno-tree-loop-distribute-patterns"]
    ninja.rule("executor", [*executor, DEPENDENCIES])
    for source in sources("simt", without=["simt/bindings.cpp"]):
        ninja.compile("executor", source)
    ninja.compile("bindings", CSRC / "simt" / "bindings.cpp")
    for source in sources("cuda", without=["cuda/absent.cpp"]):
        ninja.compile("cpp", source)
    cpu_rules(ninja, folder, command, {})


def folder_of(name, sanitize=""):
    """Where a module's objects are, and the module itself until it is installed.

    "debug" stands in the place of a sanitizer.
    """
    tag = f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    watched = sanitize.replace(",", "-")
    kind = "" if name == "_core" and not watched else f"-{watched or 'plain'}"
    return ROOT / "build" / f"{name}{kind}-{tag}"


def taken(sanitize):
    """What a build of `cudml._simt` takes from others: (name, sanitize) and their objects.

    All of them take the CPU's kernels, which they do not call, from the product. What runs beside
    the interpreted kernels runs on one thread, so that ThreadSanitizer needs to see the kernels
    only. Those are linked first: the linker keeps the first copy of an inline function it meets.
    """
    found = {("_core", ""): [object_of("cpu_base", source) for source in cpu_sources()]}
    if sanitize == "thread":
        host = Ninja()
        simt_host_rules(host, folder_of("_simt"), [])
        found["_simt", ""] = host.objects
    return found


@contextlib.contextmanager
def locked(name):
    """Keeps other processes out while one builds."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_commands(folder, file):
    """What compiles each source, for editors and analysers: compile_commands.json."""
    command = [sys.executable, "-m", "ninja", "-C", str(folder), "-t", "compdb"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    write_once(file, done.stdout)


def wished():
    """How the extension is to be built: "" or "debug"."""
    wish = os.environ.get("CUDML_BUILD", "release")
    if wish not in ("release", "debug"):
        raise SystemExit(f'CUDML_BUILD is "{wish}"; it must be release or debug')
    return "" if wish == "release" else wish


def ninja_of(name, sanitize, folder):
    if name == "_simt":
        return simt_ninja(folder, sanitize)
    if sanitize in ("", "debug"):
        return core_ninja(folder, debug=bool(sanitize))
    return sanitized_core_ninja(folder, sanitize)


def build(name, sanitize="", targets=()):
    """Builds `cudml.<name>`, "_core" or "_simt", or of it only `targets`; returns its file.

    The product's library is made beside it, by the name SONAME.
    """
    check_tools()
    if sanitize not in ("", "address,undefined", "thread" if name == "_simt" else "debug"):
        raise SystemExit(f'CUDML_SANITIZE is "{sanitize}"; it must be address,undefined or thread')
    for other, objects in taken(sanitize).items() if name == "_simt" else ():
        build(*other, objects)
    folder = folder_of(name, sanitize)
    with locked(folder.name):
        folder.mkdir(parents=True, exist_ok=True)
        ninja_of(name, sanitize, folder).write(folder)
        write_commands(folder, folder / "compile_commands.json")
        if name == "_core" and sanitize in ("", "debug"):  # where clangd looks: of the latest
            write_commands(folder, ROOT / "build" / "compile_commands.json")
        jobs = ["-j", os.environ["MAX_JOBS"]] if os.environ.get("MAX_JOBS") else []
        command = [sys.executable, "-m", "ninja", "-C", str(folder), *jobs, *targets]
        if subprocess.run(command).returncode:
            raise SystemExit("cudml: the C++ build failed; the compiler's message stands above")
    return folder / "module.so"
