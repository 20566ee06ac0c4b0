"""How a trial calls operations, kills them, and what it holds them to."""
