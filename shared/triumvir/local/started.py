"""What starts on entering and is cleaned up on leaving, in blocking code and in coroutines."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Self


class Started(ABC):
    """A context manager, plain and asynchronous. What cannot start is cleaned up before its error is raised."""

    @abstractmethod
    def start(self) -> None:
        """Start it; nothing to do when it runs."""

    @abstractmethod
    def _clean_up(self) -> None:
        """End it, and remove what is temporary. It may not have started."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._clean_up()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self.__exit__)
