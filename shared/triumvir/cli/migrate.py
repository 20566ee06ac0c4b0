"""``triumvir migrate``."""

from __future__ import annotations

from triumvir.cli.equipment import settings
from triumvir.cli.output import run, say
from triumvir.store.migrate import migrate as bring_up_to_date


def migrate() -> None:
    """Bring the database's schema to this release.

    Does nothing if it is there already; two at once take turns. Needs TRIUMVIR_DATABASE_URL.

    \b
    Example:
      TRIUMVIR_DATABASE_URL=postgresql://admin@db/triumvir triumvir migrate
    """
    loaded = settings()
    applied = run(bring_up_to_date(loaded.database_url, loaded.database_schema))
    for migration in applied:
        say(f"applied {migration.number:04} {migration.name}")
    if not applied:
        say(f"schema {loaded.database_schema!r} is up to date")
