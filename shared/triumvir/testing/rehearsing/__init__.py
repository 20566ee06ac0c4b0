"""What a rehearsal is made of: agents and order in memory, faults, virtual time, and what came of it."""
