"""JMESPath, as selections and conditions use it: checked when a definition is built, compiled once, bounded when run.

An expression sees one object, its scope::

    payload   what the client sent
    order     client, order_id, workflow, version
    steps     by name, each earlier step: state (completed or skipped) and result (null if it was skipped)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from jmespath import exceptions
from jmespath.functions import Functions, signature
from jmespath.parser import Parser
from jmespath.visitor import Options, TreeInterpreter

from triumvir.errors import DefinitionError, ExpressionError

MAX_LENGTH: Final = 1000
"""Characters of an expression."""
SCOPE: Final = ("payload", "order", "steps")
_MOST_VISITS: Final = 20_000
"""Some tenth of a second: so long a scheduler does nothing else."""
_MOST_ITEMS: Final = 1_000_000
_MOST_NODES: Final = 100_000
_WHOLE: Final = "@"
_FIRST_CHILD: Final = frozenset(
    {"index_expression", "projection", "value_projection", "filter_projection", "flatten", "pipe"}
)
_BEHIND: Final = (_FIRST_CHILD | {"subexpression"}) - {"pipe"}
_EVERY_CHILD: Final = frozenset(
    {
        "or_expression", "and_expression", "not_expression", "comparator", "function_expression",
        "multi_select_dict", "multi_select_list", "key_val_pair",
    }
)  # fmt: skip
_Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. ``steps``: the names of steps it looks at; None if it may look at every one."""

    text: str
    tree: _Node
    steps: frozenset[str] | None

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """What it makes of ``scope``: plain JSON values. Raises ExpressionError, and nothing else, if it cannot."""
        try:
            return _Bounded().visit(self.tree, scope)
        except ExpressionError:
            raise
        except exceptions.JMESPathTypeError as error:  # its own text would quote the data
            wanted = " or ".join(error.expected_types)
            problem = (
                f"{error.function_name}() was given a value of type {error.actual_type}, it takes {wanted}"
            )
            raise ExpressionError(f"{problem}; guard it, as in: a || b") from None
        except Exception as error:  # noqa: BLE001 - the interpreter raises what Python raises where types do not fit
            raise ExpressionError(f"{type(error).__name__}: {str(error)[:200]}") from None


class _BoundedFunctions(Functions):
    """The functions whose result may be far larger than what they are given: bounded before they make it."""

    @signature({"types": ["string"]}, {"types": ["array-string"]})
    def _func_join(self, separator: str, parts: list[str]) -> str:
        size = sum(map(len, parts)) + len(separator) * max(0, len(parts) - 1)
        if size > _MOST_ITEMS:
            raise ExpressionError(f"join() would make a text of {size} characters; select less")
        return separator.join(parts)

    @signature({"types": []})
    def _func_to_string(self, value: Any) -> Any:
        _refuse_larger(value, _MOST_NODES)
        return super()._func_to_string(value)  # type: ignore[misc]  # the library has no types


def _refuse_larger(value: Any, most: int) -> None:
    """Raises ExpressionError for a value of more than ``most`` members, those that stand in it twice counted twice."""
    stack = [value]
    while stack:
        each = stack.pop()
        most -= 1
        if most < 0:
            raise ExpressionError("to_string() was given a value that is too large; select less")
        if isinstance(each, dict):
            stack.extend(each.values())
        elif isinstance(each, list):
            stack.extend(each)


class _Bounded(TreeInterpreter):
    """Gives up where a few characters would keep a scheduler busy for long, or fill its memory."""

    def __init__(self) -> None:
        super().__init__(Options(custom_functions=_BoundedFunctions()))
        self._visits = 0

    def visit(self, node: Any, *arguments: Any, **more: Any) -> Any:
        self._visits += 1
        if self._visits > _MOST_VISITS:
            raise ExpressionError(
                f"takes more than {_MOST_VISITS} evaluations; select less, or let an agent do it"
            )
        found = super().visit(node, *arguments, **more)
        if isinstance(found, str | list) and len(found) > _MOST_ITEMS:
            raise ExpressionError(f"makes a {type(found).__name__} of {len(found)} items; select less")
        return found


@lru_cache(maxsize=10_000)
def compiled(text: str) -> Expression:
    """The expression, parsed and checked. Raises DefinitionError naming the place and the fix."""
    if len(text) > MAX_LENGTH:
        raise DefinitionError(
            f"has {len(text)} characters, {MAX_LENGTH} are allowed; let an agent work it out"
        )
    odd = next((at for at, char in enumerate(text) if not char.isprintable() and char not in "\n\r\t"), None)
    if odd is not None:
        raise DefinitionError(f"holds the character {text[odd]!r}; remove it, or escape it", offset=odd)
    tree = _parsed(text)
    for node in _nodes(tree):
        if node["type"] == "function_expression":
            _check_call(text, node)
        elif node["type"] in _BEHIND and node["children"][0]["type"] == "not_expression":
            problem = (
                "negates before it looks further, because ! binds closer than a dot; write !(payload.gift)"
            )
            raise DefinitionError(problem, offset=max(0, text.find("!")))
    used: set[str] = set()
    whole = False
    for name, step in _looked_at(tree):
        if name != _WHOLE and name not in SCOPE:
            raise _unknown_name(text, name)
        if step is not None:
            used.add(step)
        whole = whole or (name in (_WHOLE, "steps") and step is None)
    return Expression(text, tree, None if whole else frozenset(used))


def _parsed(text: str) -> _Node:
    try:
        tree: _Node = Parser().parse(text).parsed
    except exceptions.EmptyExpressionError:
        raise DefinitionError("is empty; write an expression such as payload.total", offset=0) from None
    except exceptions.IncompleteExpressionError:
        raise DefinitionError("ends too early; complete the expression", offset=len(text)) from None
    except exceptions.ParseError as error:
        raise _syntax_error(text, error) from None
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"cannot be read: {type(error).__name__}; write it more simply") from None
    return tree


def _syntax_error(text: str, error: exceptions.ParseError) -> DefinitionError:
    at = min(max(error.lex_position, 0), len(text))
    found = text[at : at + 12].split(" ")[0] or "the end"
    return DefinitionError(f"is no JMESPath: {found!r} at character {at + 1}; {_hint(text, at)}", offset=at)


def _hint(text: str, at: int) -> str:
    found = text[at : at + 2]
    if found.lstrip("-")[:1].isdigit():
        return "a number stands in backticks: `100`"
    if found.startswith("-") or (found[:1].isalpha() and not found[:1].isascii()):
        return 'a name with a hyphen, or beyond a-z, stands in double quotes: steps."charge-card".result'
    if found.startswith("="):
        return "compare with =="
    if found.startswith("'"):
        return "a text stands in single quotes, closed: 'GB'"
    return "see the grammar at jmespath.org"


def _check_call(text: str, node: _Node) -> None:
    name, known = node["value"], Functions.FUNCTION_TABLE
    offset = max(0, text.find(f"{name}("))
    if name not in known:
        fix = _did_you_mean(name, known) or f"the functions are {', '.join(sorted(known))}"
        raise DefinitionError(f"calls {name}(), which does not exist; {fix}", offset=offset)
    signature = known[name]["signature"]
    given, needed = len(node["children"]), len(signature)
    variadic = bool(signature) and bool(signature[-1].get("variadic"))
    if given < needed or (given > needed and not variadic):
        least = "at least " if variadic else ""
        raise DefinitionError(f"calls {name}() with {given} arguments; give {least}{needed}", offset=offset)


def _unknown_name(text: str, name: str) -> DefinitionError:
    offset = max(0, text.find(name))
    if text[max(0, offset - 1) : offset] == '"':
        fix = f"a text stands in single quotes: '{name}'"
    elif name in ("true", "false", "null"):
        fix = f"a literal stands in backticks: `{name}`"
    else:
        fix = _did_you_mean(name, SCOPE) or f"begin with {', '.join(SCOPE)}"
    return DefinitionError(f"looks at {name!r}, which is not there; {fix}", offset=offset)


def _did_you_mean(name: str, known: Any) -> str | None:
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else None


def _nodes(node: _Node) -> Iterator[_Node]:
    stack = [node]
    while stack:
        each = stack.pop()
        yield each
        stack.extend(child for child in each.get("children", ()) if isinstance(child, dict))


def _looked_at(node: _Node) -> Iterator[tuple[str, str | None]]:
    """What is looked up in the scope itself: a name, and below ``steps`` the step. (What stands behind a dot, a
    projection or a pipe, and in an ``&expression``, is looked up in something else.)
    """
    kind, children = node["type"], node.get("children", ())
    if kind == "field":
        yield node["value"], None
    elif kind == "current":
        yield _WHOLE, None
    elif kind == "subexpression":
        first, second = children[0], children[1]
        if first.get("value") == "steps" and first["type"] == second["type"] == "field":
            yield "steps", second["value"]
        else:
            yield from _looked_at(first)
    elif kind in _FIRST_CHILD:
        yield from _looked_at(children[0])
    elif kind in _EVERY_CHILD:
        for child in children:
            yield from _looked_at(child)
