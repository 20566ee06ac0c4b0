"""``triumvir migrate``."""

from __future__ import annotations

from triumvir.cli.equipment import settings
from triumvir.cli.output import run, say
from triumvir.store.documents import migrate_documents
from triumvir.store.migrate import migrate as bring_up_to_date


def migrate() -> None:
    """Bring the database's schema to this release.

    Does nothing if it is there already; two at once take turns. Needs TRIUMVIR_DATABASE_URL. With TRIUMVIR_ORDERS_DSN
    it brings the orders database to this release as well, and tells the state repository that the documents are there.

    \b
    Example:
      TRIUMVIR_DATABASE_URL=postgresql://admin@db/triumvir triumvir migrate
    """
    loaded = settings()
    applied = run(bring_up_to_date(loaded.database_url, loaded.database_schema))
    done = [f"applied {migration.number:04} {migration.name}" for migration in applied]
    done += run(migrate_documents(loaded))
    for line in done:
        say(line)
    if not done:
        say(f"schema {loaded.database_schema!r} is up to date")
