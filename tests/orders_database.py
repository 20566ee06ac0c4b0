"""Settings with a database for the documents alone, as ``triumvir migrate`` makes it."""

from __future__ import annotations

from tests.servers import blocking
from triumvir.settings import Settings
from triumvir.store.documents import migrate_documents


def with_documents_at(settings: Settings, url: str) -> Settings:
    """These settings with the (empty) database at ``url`` for the documents; migrated, and paired with the states."""
    both = settings.model_copy(update={"orders_dsn": url})
    blocking(lambda: migrate_documents(both))
    return both
