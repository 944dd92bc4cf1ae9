"""How `dlrun.pyz` starts: what it imports comes out of its own file, which is read once.

A module that is looked for on disk costs several questions to the file system, which on a cluster is often a slow one:
modules of the standard library are opened where they lie, without a search.
"""

import _signal  # built in, unlike `signal`
import marshal
import os
import sys
import zlib
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, spec_from_file_location


def interrupted(number, _frame):
    """Ctrl-C before dlrun's own handlers are there."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__" and _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN:
    _signal.signal(_signal.SIGINT, interrupted)


class Files:
    """The contents by path in the archive; what is asked for is inflated."""

    def __init__(self, common, packed):
        self._common, self._packed = common, packed

    def get(self, name):
        """The content of a file; None if there is no such file."""
        found = self._packed.get(name)
        return None if found is None else zlib.decompressobj(zdict=self._common).decompress(found)

    def __iter__(self):
        """Every path."""
        return iter(self._packed)


class Importer:
    """Finds and loads the modules of this file, and gives `dlrun.resources` the other files."""

    def __init__(self, archive, loader):
        self.archive, self._loader = archive, loader
        self._start = len(archive) + 1
        modules, common, packed = marshal.loads(loader.get_data(archive + "/files"))
        self._modules = frozenset(modules)
        self._sources = {}
        self.files = Files(common, packed)
        try:
            self._codes = Files(*marshal.loads(loader.get_data(archive + "/code-" + MAGIC_NUMBER.hex())))
        except OSError:  # made for other Pythons
            self._codes = Files(b"", {})

    def find_spec(self, name, path=None, target=None):
        """Where a module of the archive is; None for all others."""
        base = name.replace(".", "/")
        for inside, is_package in ((base + ".py", False), (base + "/__init__.py", True)):
            if inside in self._modules:
                spec = ModuleSpec(name, self, origin=self.archive + "/" + inside, is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations = [self.archive + "/" + base]
                return spec
        return None

    def create_module(self, spec):
        """The usual kind of module."""
        return

    def exec_module(self, module):
        """Run a module's code."""
        exec(self._code(module.__spec__.origin[self._start :]), module.__dict__)

    def get_code(self, name):
        """The code of a module: made before for this Python, or compiled now."""
        return self._code(self._inside(name))

    def _code(self, inside):
        code = self._codes.get(inside)
        if code is not None:
            return marshal.loads(code)
        return compile(self._source(inside), self.archive + "/" + inside, "exec", dont_inherit=True)

    def get_source(self, name):
        """The text of a module, for tracebacks."""
        return self._source(self._inside(name)).decode("utf-8")

    def _inside(self, name):
        return self.find_spec(name).origin[self._start :]

    def _source(self, inside):
        text = self.files.get(inside)
        if text is not None:
            return text
        if not self._sources:
            import lzma  # only a Python for which there is no byte code needs it, or a traceback

            self._sources = marshal.loads(lzma.decompress(self._loader.get_data(self.archive + "/sources")))
        return self._sources[inside]


class Unsearched(SourceFileLoader):
    """Loads a module of the standard library from its byte code, as Python itself does for unchecked files (PEP 552)."""

    def get_code(self, fullname):
        """Its byte code if that is there, for this Python."""
        try:
            data = content(cache_from_source(self.path))
        except OSError:
            data = b""
        if data[:4] == MAGIC_NUMBER:
            return marshal.loads(data[16:])
        return super().get_code(fullname)


def content(path):
    """A file's bytes, without asking for its size and kind first."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    parts = []
    try:
        while True:
            parts.append(os.read(descriptor, 1 << 20))
            if not parts[-1]:
                return b"".join(parts)
    finally:
        os.close(descriptor)


class StandardLibrary:
    """Finds the standard library's modules in one listing of each of its directories."""

    def __init__(self):
        self._listed = {}

    def find_spec(self, name, path=None, target=None):
        """Where a module of the standard library is; None for all others, and those with compiled parts."""
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names or name in sys.builtin_module_names:
            return None
        place = os.path.join(os.path.dirname(os.__file__), *name.split(".")[:-1])
        names, last = self._names(place), name.rpartition(".")[2]
        if last + ".py" in names:
            file = os.path.join(place, last + ".py")
            return spec_from_file_location(name, file, loader=Unsearched(name, file))
        if last in names and "__init__.py" in self._names(os.path.join(place, last)):
            file = os.path.join(place, last, "__init__.py")
            inside = [os.path.join(place, last)]
            return spec_from_file_location(
                name, file, loader=Unsearched(name, file), submodule_search_locations=inside
            )
        return None

    def _names(self, place):
        if place not in self._listed:
            try:
                self._listed[place] = frozenset(os.listdir(place))
            except OSError:
                self._listed[place] = frozenset()
        return self._listed[place]


def start():
    """Run dlrun."""
    if sys.version_info < (3, 11):
        sys.exit("dlrun.pyz needs Python 3.11 or later, and this is {}".format(sys.version.split()[0]))
    loader = __loader__
    sys.path[:] = [entry for entry in sys.path if entry != loader.archive]
    sys.meta_path.insert(2, StandardLibrary())  # behind what is built in and what is frozen
    sys.meta_path.insert(0, Importer(loader.archive, loader))
    from dlrun.cli.start import main

    main()


if __name__ == "__main__":
    start()
