"""Workflows named on a command line: ``FILE.yaml``, ``FILE.json``, ``FILE.py`` or ``module:name``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from triumvir.cli.equipment import import_from_here
from triumvir.errors import ConfigurationError, TriumvirError
from triumvir.workflow import Workflow

_LOADED_AS: Final = "triumvir_applied_workflows"
_WRITTEN: Final = (".yaml", ".yml", ".json")


def is_target(text: str) -> bool:
    """Whether it names a file or a module, rather than a workflow that is registered."""
    return ":" in text or text.lower().endswith((".py", *_WRITTEN))


def load_workflows(target: str) -> list[Workflow]:
    """The workflows of a target: the one (or the list) of that name, or every one that a file holds.

    Raises ConfigurationError naming the target and what is wrong with it; for YAML and JSON a DefinitionFileError with
    every fault and its line.
    """
    if target.endswith(".py"):
        return _all_of_file(target)
    if target.lower().endswith(_WRITTEN):
        return _written(target)
    module_name, colon, name = target.partition(":")
    if not colon or not module_name or not name:
        raise ConfigurationError(
            f"{target!r} is no workflow; write FILE.yaml, FILE.json, FILE.py or module:name"
        )
    import_from_here()
    module = _imported(target, module_name)
    if not hasattr(module, name):
        held = ", ".join(
            sorted({each for each, value in vars(module).items() if isinstance(value, Workflow)})
        )
        raise ConfigurationError(f"{target}: {module_name} has no {name!r}; its workflows: {held or 'none'}")
    return _workflows(target, getattr(module, name))


def _all_of_file(path: str) -> list[Workflow]:
    file = Path(path)
    if not file.is_file():
        raise ConfigurationError(f"{path}: there is no such file")
    sys.path.insert(0, str(file.resolve().parent))
    try:
        module = _executed(path, file)
    finally:
        sys.path.remove(str(file.resolve().parent))
    found = {id(value): value for value in vars(module).values() if isinstance(value, Workflow)}
    if not found:
        raise ConfigurationError(f"{path}: holds no Workflow; write: name = Workflow(...)")
    return list(found.values())


def _written(path: str) -> list[Workflow]:
    from triumvir.workflow.files import workflows_in  # the parser is imported only for those who need it

    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    return workflows_in(text, path, is_json=path.lower().endswith(".json"))


def _executed(path: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_LOADED_AS, file)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{path}: cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except TriumvirError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    except Exception as error:
        raise ConfigurationError(f"{path}: {type(error).__name__}: {error}") from error
    return module


def _imported(target: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except TriumvirError as error:
        raise ConfigurationError(f"{target}: {error}") from error
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{target}: {error}; run it where {module_name!r} can be imported"
        ) from error
    except Exception as error:
        raise ConfigurationError(f"{target}: {type(error).__name__}: {error}") from error


def _workflows(target: str, value: object) -> list[Workflow]:
    found: list[Workflow] = []
    for each in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(each, Workflow):
            raise ConfigurationError(f"{target}: is a {type(each).__name__}, not a Workflow")
        found.append(each)
    return found
