"""Somebody who does what a page says."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.terminal import CTRL_C, Terminal, Typed, fits, typed
from tests.house.pages import Block
from tests.waiting import eventually_blocking


class Reader:
    """Writes the files of a page and types its console blocks, in ``home``; compares what is answered.

    A block may name its terminal (``terminal=servers``); its last command may go on (``stays``), or is to be typed
    until the answer is the one shown (``repeat``). If ``lenient``, commands whose answer is not shown may have one.
    """

    def __init__(self, home: Path, opened: dict[str, Terminal], *, lenient: bool = False) -> None:
        self._home = home
        self._terminals = opened
        self._lenient = lenient

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        if block.file is not None:
            (self._home / block.file).write_text(block.text)
        elif block.language == "console":
            for each in typed(block):
                self._type(self.terminal(block), block, each)

    def terminal(self, block: Block | None = None) -> Terminal:
        """The one that a block names, opened when it is first used."""
        info = block.info if block is not None else ()
        name = next((word.removeprefix("terminal=") for word in info if "=" in word), "first")
        if name not in self._terminals:
            self._terminals[name] = Terminal(name, self._home.parent)
        return self._terminals[name]

    def _type(self, terminal: Terminal, block: Block, each: Typed) -> None:
        place = f"{block.page}:{block.line}: {each.command}"
        if "stays" in block.info and each.answer:
            terminal.run_until(each.command, each.answer)
            return
        answers = [_answer(terminal, place, each.command)]

        def as_shown() -> bool:
            if fits(each.answer, answers[-1]):
                return True
            answers.append(_answer(terminal, place, each.command))
            return False

        if "repeat" in block.info:
            eventually_blocking(as_shown, within=60, what=place)
        elif each.answer or not self._lenient:
            assert fits(each.answer, answers[-1]), f"{place}\n{answers[-1]}"


def _answer(terminal: Terminal, place: str, command: str) -> str:
    answer, code = terminal.interrupt() if command == CTRL_C else terminal.run(command)
    assert code == 0, f"{place}\n{answer}"
    return answer
